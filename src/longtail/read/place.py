"""Where data is: a path, a sheet or table inside a file, or a pattern that stands for several files."""

from __future__ import annotations

import glob
from pathlib import Path
from typing import NamedTuple

from longtail.errors import InputError

#: Stands between a file and what is meant inside it: catalogue.xlsx::Sheet1, catalogue.sqlite::records.
INSIDE = "::"


class Place(NamedTuple):
    """A file or folder, and the sheet or table inside it that is meant, if one is."""

    path: Path
    inside: str | None = None


def place_of(source: str | Path) -> Place:
    """The place that is meant; a file whose name has '::' in it is that file."""
    text = str(source)
    if INSIDE in text and not exists(text):
        path, _, inside = text.rpartition(INSIDE)
        if inside and exists(path):
            return Place(Path(path), inside)
    return Place(Path(text))


def matching(source: str | Path) -> list[Path] | None:
    """The files that a pattern such as parts/*.parquet stands for, in order; None for what is no pattern."""
    text = str(source)
    if text == "-" or not glob.has_magic(text) or exists(text) or place_of(source).inside is not None:
        return None
    found = sorted(Path(name) for name in glob.glob(text, recursive=True))  # noqa: PTH207  whole paths, ** too
    if not found:
        raise InputError(text, "no file matches this pattern")
    return found


def exists(path: str | Path) -> bool:
    try:
        return Path(path).exists()
    except (OSError, ValueError):
        return False


def is_folder(path: str | Path) -> bool:
    try:
        return Path(path).is_dir()
    except (OSError, ValueError):
        return False
