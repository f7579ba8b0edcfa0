"""How a CSV file is written: what stands between cells, and how quotes are meant."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

#: What may stand between cells.
DELIMITERS = (",", ";", "\t", "|")

#: Stands between the cells of a table that has one column: no text has it.
_NONE = "\x1f"

#: Rows looked at.
_ROWS = 200

#: Excel's way to say what stands between cells, in a line before the header.
_HINT = re.compile(r'"?sep=([,;|\t])"?', re.IGNORECASE)

_QUOTES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("", {"quoting": csv.QUOTE_MINIMAL}),
    (
        "quotes inside cells are marked by a backslash",
        {"quoting": csv.QUOTE_MINIMAL, "escapechar": "\\", "doublequote": False},
    ),
    ("quotes are part of the text", {"quoting": csv.QUOTE_NONE, "quotechar": None}),
)


@dataclass(frozen=True)
class Dialect:
    """One way to write tables.

    format  for the csv module
    header  names of the columns
    skip    lines before the header
    remark  what is unusual about it
    """

    format: dict[str, Any] = field(default_factory=lambda: {"delimiter": ","})
    header: list[str] = field(default_factory=list)
    skip: int = 0
    remark: str = ""

    @property
    def delimiter(self) -> str:
        return str(self.format["delimiter"])


def find_dialect(head: bytes, wanted: Sequence[str], *, tabs: bool) -> Dialect:
    """The way of writing that makes most of the beginning of a file.

    wanted  columns that should be there
    tabs    whether the name of the file says that tabs stand between cells
    """
    text = head.decode("utf-8", "replace")
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    if len(lines) > 2:
        del lines[-1]  # cut off, or empty after the last line end
    hint = _HINT.fullmatch(lines[0])
    skip = 1 if hint and lines[1:] else 0
    lines = lines[skip:]
    choices = [hint[1]] if hint and skip else ["\t"] if tabs and "\t" in lines[0] else list(DELIMITERS)
    best, best_score = Dialect({"delimiter": choices[0]}), (False, 0.0, 0)
    for delimiter in choices:
        for remark, quotes in _QUOTES:
            if (quotes.get("escapechar") and '\\"' not in text) or (remark and '"' not in text):
                continue
            found = {"delimiter": delimiter, **quotes}
            header, even = _tried(lines, found)
            if len(header) < 2 or (remark and even < 1):  # an unusual way must explain everything
                continue
            if quotes["quoting"] == csv.QUOTE_NONE and delimiter not in "\t|":  # a stray quote, not a way of writing
                continue
            score = (set(wanted) <= set(header), even, len(header))
            if score > best_score:
                best, best_score = Dialect(found, header, skip, remark), score
    if best.header:
        return best
    single = {"delimiter": _NONE, **_QUOTES[0][1]}
    return Dialect(single, _tried(lines, single)[0], skip)


def _tried(lines: list[str], found: dict[str, Any]) -> tuple[list[str], float]:
    """The header, and the share of the first rows that have as many cells; below 1 if not all of them are rows."""
    reader = csv.reader((line + "\n" for line in lines), **found, strict=True)
    rows: list[list[str]] = []
    wrong = 0
    try:
        for row in islice(reader, _ROWS):
            rows.append(row)  # noqa: PERF402  those before an error count
    except csv.Error:  # or a quoted cell that goes on behind what is looked at
        wrong = 1
    if not rows:
        return [], 0.0
    header = [name.strip() for name in rows[0]]
    others = [len(row) == len(header) for row in rows[1:] if row]
    return header, (sum(others) + 1) / (len(others) + 1 + wrong)
