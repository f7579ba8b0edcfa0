"""What documents will take in memory, told from their files before they are read."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Sequence
from pathlib import Path

from longtail.errors import LongtailError
from longtail.read.place import matching, place_of
from longtail.read.splits import split_of

#: Bytes in memory per byte of text in a file: texts, ids and labels as Python holds them.
HELD = 1.2
#: Bytes of text that a byte of a packed file stands for, about, by what such files begin with. A JSON list is held
#: beside what is made of it.
UNPACKED = {b"\x1f\x8b": 3.5, b"\x28\xb5\x2f\xfd": 4.0, b"PAR1": 3.0, b"[": 3.0}
#: A workbook's texts are held twice: as the file shares them among cells, and as documents. Its tags are not held.
WORKBOOK = 1.3

_ZIP = b"PK\x03\x04"


def corpus_bytes(source: str | Path | Sequence[str | Path]) -> int:
    """Bytes that the documents of a source will take, about; 0 for what is not there, as whoever reads it says."""
    if not isinstance(source, str | Path):
        return sum(corpus_bytes(one) for one in source)
    try:
        paths = matching(source)
        if paths is not None:
            return sum(corpus_bytes(path) for path in paths)
        path = place_of(source).path
        return _folder_bytes(path) if path.is_dir() else _file_bytes(path)
    except (OSError, ValueError, LongtailError):
        return 0


def _folder_bytes(folder: Path, depth: int = 1) -> int:
    """What the largest split takes; files that belong to none are taken to be read together.

    depth  of the folders below it that are looked into, as splits may have folders of their own
    """
    sizes: dict[str, int] = {}
    for path in folder.iterdir():
        if path.name.startswith((".", "_")):
            continue
        if path.is_dir():
            sizes[path.name] = _folder_bytes(path, depth - 1) if depth else 0
        elif path.is_file():
            split = next((split for word in re.split(r"[^a-z]", path.name) if (split := split_of(word))), "")
            group = f"{split}{path.suffix}"
            sizes[group] = sizes.get(group, 0) + _file_bytes(path)
    return max(sizes.values(), default=0)


def _file_bytes(path: Path) -> int:
    if not path.is_file():
        return 0
    with path.open("rb") as handle:
        head = handle.read(4)
    if head == _ZIP:
        return _workbook_bytes(path)
    times = next((factor for magic, factor in UNPACKED.items() if head.startswith(magic)), 1.0)
    return int(HELD * times * path.stat().st_size)


def _workbook_bytes(path: Path) -> int:
    """Texts that cells share, and the sheets that hold others; of several sheets one is read."""
    try:
        with zipfile.ZipFile(path) as archive:
            sizes = {part.filename: part.file_size for part in archive.infolist()}
    except (zipfile.BadZipFile, NotImplementedError):
        return 0
    shared = sum(size for name, size in sizes.items() if name.endswith("sharedStrings.xml"))
    sheets = [size for name, size in sizes.items() if "worksheets/" in name]
    return int(HELD * WORKBOOK * (shared + max(sheets, default=0)))
