"""Rows of papers' tables as recipes: benchmarks/papers/*.toml, one file per paper.

    longtail train DATA -o MODEL --recipe benchmarks/papers/tailmix.toml#tailmix-attentionxml
    python benchmarks/papers.py lsfa|xda [--data DIR] [--rows GLOB] [--fresh]      measures all rows of a paper

Rows of TailMix and its rivals are measured by benchmarks/neural_tail.py, those of short texts by
benchmarks/label_text.py, those of RankNet and Taug by benchmarks/tail.py.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from functools import cache
from pathlib import Path

from longtail.errors import UsageError, nearest
from longtail.recipe import Recipe

FILES = sorted((Path(__file__).resolve().parent / "papers").glob("*.toml"))
#: Papers whose rows are measured here, and the modules that do it.
MEASURED = {"lsfa": "lsfa", "xda": "xda"}


def rows() -> dict[str, Recipe]:
    """The rows of all papers, by name."""
    return {row: find(row) for row in _places()}


def find(row: str) -> Recipe:
    """One row, whichever file it is in."""
    places = _places()
    if row not in places:
        raise UsageError(f"no paper has the row '{row}'; {nearest(row, places)}")
    return Recipe.find(f"{places[row]}#{row}")


@cache
def _places() -> dict[str, Path]:
    """The file each row is in; no two papers have a row of the same name."""
    places: dict[str, Path] = {}
    for file in FILES:
        for row in Recipe.row_names(file):
            if row in places:
                raise UsageError(f"{file.name} and {places[row].name} both have the row '{row}'")
            places[row] = file
    return places


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, add_help=len(sys.argv) < 3
    )
    parser.add_argument("paper", choices=MEASURED)
    options, rest = parser.parse_known_args()
    sys.argv[1:] = rest
    importlib.import_module(MEASURED[options.paper]).main()


if __name__ == "__main__":
    main()
