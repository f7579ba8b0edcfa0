"""Rows of papers' tables as recipes: benchmarks/papers/*.toml, one file per paper.

longtail train DATA -o MODEL --recipe benchmarks/papers/tailmix.toml#tailmix-attentionxml
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from longtail.errors import UsageError, nearest
from longtail.recipe import Recipe

FILES = sorted((Path(__file__).resolve().parent / "papers").glob("*.toml"))


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
