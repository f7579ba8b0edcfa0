"""Rows of papers' tables as recipes: benchmarks/papers/*.toml, one file per paper.

longtail train DATA -o MODEL --recipe benchmarks/papers/tailmix.toml#tailmix-attentionxml
"""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

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


def published(paper: str) -> dict[str, dict[str, Any]]:
    """Figures that a paper prints of methods without a row here, by method: {"title": ..., corpus: figures}."""
    file = next(file for file in FILES if file.stem == paper)
    found: dict[str, dict[str, Any]] = tomllib.loads(file.read_text(encoding="utf-8")).get("published", {})
    return found


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
