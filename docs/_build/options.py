"""Rewrites the option tables of docs/methods/*.md from the fields of the parts.

    python docs/_build/options.py            writes the tables
    python docs/_build/options.py --check    writes nothing; exit code 1 when a table is out of date

A table stands between these marks, and is made from the part of that name:

    <!-- options:bonsai -->
    <!-- /options -->
"""

from __future__ import annotations

import json
import re
import sys
import typing
from dataclasses import Field, fields
from pathlib import Path
from typing import Any

from longtail.part import Part, default_of
from longtail.registry import config_of, find

PAGES = Path(__file__).parent.parent / "methods"
BLOCK = re.compile(r"<!-- options:([\w-]+) -->.*?<!-- /options -->", re.DOTALL)

#: What may be given for types that have no range of their own.
TYPES = {
    bool: "`true`, `false`",
    int: "a whole number",
    float: "a number",
    str: "a word",
    list[float]: "a list of numbers",
    Any: "a part",
    list[Any]: "a list of parts",
}


def table(name: str) -> str:
    """The options of a part as a Markdown table."""
    cls = find(name).load()
    hints = typing.get_type_hints(cls)
    lines = ["| option | default | values | meaning |", "|---|---|---|---|"]
    for f in fields(cls):
        cells = (f"`{f.name}`", _shown(default_of(f)), _values(f, hints[f.name]), str(f.metadata["help"]))
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines)


def rewritten(text: str) -> str:
    """A page with every table made afresh."""
    return BLOCK.sub(lambda m: f"<!-- options:{m[1]} -->\n\n{table(m[1])}\n\n<!-- /options -->", text)


def _shown(value: Any) -> str:
    if isinstance(value, Part):
        value = config_of(value)["part"]
    if isinstance(value, dict):  # a part with options, as a recipe has it
        value = "{ " + ", ".join(f"{key} = {json.dumps(inner)}" for key, inner in value.items()) + " }"
    if isinstance(value, bool):
        value = str(value).lower()
    if isinstance(value, list):
        value = ", ".join(str(inner) for inner in value)
    return "none" if value is None or value == "" else f"`{value}`"


def _values(f: Field[Any], hint: Any) -> str:
    low, high, choices = (f.metadata.get(key) for key in ("low", "high", "choices"))
    empty = type(None) in typing.get_args(hint)
    if choices:
        values = ", ".join(f"`{choice}`" for choice in choices)
    elif low is not None:
        values = f"at least {low:,}" if high is None else f"{low:,} to {high:,}"
    else:
        values = TYPES[next(t for t in (typing.get_args(hint) if empty else (hint,)) if t is not type(None))]
    return f"{values}, or none" if empty else values


def main(arguments: list[str]) -> int:
    stale = []
    for page in sorted(PAGES.glob("*.md")):
        old = page.read_text(encoding="utf-8")
        new = rewritten(old)
        if new != old:
            stale.append(page.name)
            if "--check" not in arguments:
                page.write_text(new, encoding="utf-8")
    print(f"{len(stale)} pages {'out of date' if '--check' in arguments else 'rewritten'}: {', '.join(stale) or '-'}")
    return int("--check" in arguments and bool(stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
