"""Rewrites the tables of docs/goes-with.md from the capabilities of the parts.

    python docs/_build/goes_with.py            writes the tables
    python docs/_build/goes_with.py --check    writes nothing; exit code 1 when a table is out of date

A table stands between these marks, and is made by the function of that name in TABLES:

    <!-- goes-with:learners -->
    <!-- /goes-with -->
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from longtail.capabilities import Capabilities, fits
from longtail.errors import UsageError
from longtail.registry import build, entries

PAGE = Path(__file__).parent.parent / "goes-with.md"
BLOCK = re.compile(r"<!-- goes-with:([\w-]+) -->.*?<!-- /goes-with -->", re.DOTALL)
YES, NO = "✓", "·"
NEEDS = {"X": "features", "texts": "texts", "label texts": "label texts"}


def of_kind(kind: str) -> dict[str, Capabilities]:
    """What the parts of a kind can do as they come, by name."""
    return {entry.name: entry.load()().capabilities for entry in entries(kind)}


def augmenters() -> str:
    learners = of_kind("learner")
    rows = (
        [f"`{name}`", can.space, *(_mark(fits(learner, can)) for learner in learners.values())]
        for name, can in of_kind("augmenter").items()
    )
    return _table(["augmenter", "space", *(f"`{name}`" for name in learners)], rows)


def learners() -> str:
    heading = ["learner", "reads", "opens", "masks", "soft targets", "draws noise", "second stage", "side by side"]
    rows = (
        [
            f"`{name}`",
            _listed(NEEDS[need] for need in can.needs),
            _listed(can.spaces),
            *(_mark(can_do) for can_do in (can.masks, can.soft_targets, can.noise, can.retunes, can.side_by_side)),
        ]
        for name, can in of_kind("learner").items()
    )
    return _table(heading, rows)


def encoders() -> str:
    heads = of_kind("head")
    rows = (
        [
            f"`{name}`",
            "token" if can.per_token else "text",
            _listed(can.spaces),
            *(_mark(can.per_token or not head.reads_tokens) for head in heads.values()),
        ]
        for name, can in of_kind("encoder").items()
    )
    return _table(["encoder", "a vector per", "opens", *(f"`{name}`" for name in heads)], rows)


def heads() -> str:
    rows = (
        [
            f"`{name}`",
            "single tokens" if can.reads_tokens else "the text as a whole",
            _listed(NEEDS[need] for need in can.needs),
            _listed(can.spaces),
        ]
        for name, can in of_kind("head").items()
    )
    return _table(["head", "looks at", "reads besides", "opens"], rows)


def shortlists() -> str:
    learners = [entry.name for entry in entries("learner") if entry.extra == "neural"]
    rows = ([f"`{entry.name}`", *(_taken(name, entry.name) for name in learners)] for entry in entries("shortlist"))
    return _table(["shortlist", *(f"`{name}`" for name in learners)], rows)


def _taken(learner: str, shortlist: str) -> str:
    try:
        build({"part": learner, "shortlist": shortlist})
    except UsageError:
        return NO
    return YES


def rerankers() -> str:
    rows = ([f"`{name}`", _mark(can.learns)] for name, can in of_kind("re-ranker").items())
    return _table(["re-ranker", "learns from held-out documents"], rows)


TABLES: dict[str, Callable[[], str]] = {
    "augmenters": augmenters,
    "learners": learners,
    "encoders": encoders,
    "heads": heads,
    "shortlists": shortlists,
    "re-rankers": rerankers,
}


def rewritten(text: str) -> str:
    """The page with every table made afresh."""
    return BLOCK.sub(lambda m: f"<!-- goes-with:{m[1]} -->\n\n{TABLES[m[1]]()}\n\n<!-- /goes-with -->", text)


def _mark(yes: bool) -> str:
    return YES if yes else NO


def _listed(words: Iterable[str]) -> str:
    return ", ".join(words) or "-"


def _table(heading: list[str], rows: Iterable[list[str]]) -> str:
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def main(arguments: list[str]) -> int:
    old = PAGE.read_text(encoding="utf-8")
    new = rewritten(old)
    if "--check" not in arguments:
        PAGE.write_text(new, encoding="utf-8")
    print(
        f"{PAGE.name} {'is up to date' if new == old else 'is out of date' if '--check' in arguments else 'rewritten'}"
    )
    return int("--check" in arguments and new != old)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
