"""A folder with train, valid and test files of any format, in one piece or in several, and a labels file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from longtail.errors import InputError, UsageError
from longtail.keep.streams import bare_name
from longtail.read.label_file import ENDINGS as LABEL_ENDINGS
from longtail.read.reading import Reading
from longtail.read.splits import SPLITS, names_of

#: What a labels file is called.
_LABELS = ("labels", "label", "lbl")

#: What follows a name when a file is one of several: train-00000-of-00004, train_3, train.0003.
_PIECE = re.compile(r"[-_.]?\d+(?:[-_]of[-_]\d+)?")


class _Match(NamedTuple):
    """A file that goes by a name; the better match comes first in order.

    distance  0 for the name itself, 1 for one with something before it
    ending    place of the ending among those to prefer
    group     what files that are pieces of one have in common; the file's own name if it is whole
    """

    distance: int
    ending: int
    group: str
    path: Path


def find_split(folder: Path, reading: Reading, endings: tuple[str, ...]) -> tuple[list[Path], Reading]:
    """The file of the split asked for, or the pieces of it, and the reading of them, which knows of the folder's labels
    file. A folder that has no splits is a folder of pieces.

    endings  of file names that can be read, those to prefer first
    """
    options = reading.options
    split = options.split or options.usual_split
    entries = sorted(path for path in folder.iterdir() if not path.name.startswith((".", "_")))
    files = [path for path in entries if path.is_file()]
    labels = [] if options.labels is not None else _matching(files, _LABELS, LABEL_ENDINGS)
    reading = reading.changed(split=None, labels=labels[0].path if labels else options.labels)
    found = _matching(files, names_of(split), endings)
    if found:
        pieces = [match.path for match in found if match.group == found[0].group]
        others = [match.path.name for match in found if match.group != found[0].group]
        if others:
            read = found[0].path.name if len(pieces) == 1 else f"{len(pieces)} files such as {found[0].path.name}"
            reading.report.notes.append(f"read {read}; {', '.join(others[:6])} ignored")
        return pieces, reading
    below = next((path for name in names_of(split) for path in entries if path.name == name and path.is_dir()), None)
    if below is not None:
        return [below], reading
    there = [
        name
        for name, names in sorted(SPLITS.items())
        if _matching(files, names, endings) or any(path.name in names and path.is_dir() for path in entries)
    ]
    if there:
        raise UsageError(f"{folder}: no file for the split '{split}'; there are: {', '.join(there)}")
    pieces = [] if options.split is not None else _pieces(files, endings, [match.path for match in labels])
    if not pieces:
        raise InputError(folder, f"no data file '{split}' ({', '.join(endings)}, or with .gz or .zst) in the folder")
    return pieces, reading


def _pieces(files: Sequence[Path], endings: tuple[str, ...], labels: Sequence[Path]) -> list[Path]:
    """All data files of a folder that has no splits, if they are of one kind; .txt may be anything."""
    kinds: dict[str, list[Path]] = {}
    for path in files:
        ending = next((ending for ending in endings if bare_name(path).endswith(ending)), None)
        if ending is not None and path not in labels:
            kinds.setdefault(ending, []).append(path)
    return next(iter(kinds.values())) if len(kinds) == 1 and ".txt" not in kinds else []


def _matching(files: Sequence[Path], stems: tuple[str, ...], endings: tuple[str, ...]) -> list[_Match]:
    """Files called stem.ending or something_stem.ending, or pieces of such, best first."""
    found = []
    for path in files:
        name = bare_name(path)
        ending = next((place for place, ending in enumerate(endings) if name.endswith(ending)), None)
        if ending is None:
            continue
        stem = name.removesuffix(endings[ending])
        for known in stems:
            match = re.fullmatch(rf"(?P<before>.*[-_])?{re.escape(known)}(?P<piece>{_PIECE.pattern})?", stem)
            if match:
                group = f"{match['before'] or ''}{known}*{ending}" if match["piece"] else path.name
                found.append(_Match(1 if match["before"] else 0, ending, group, path))
                break
    return sorted(found, key=lambda match: (match.distance, "*" in match.group, match.ending, match.path.name))
