"""A folder with train, valid and test files of any format, and a labels file."""

from __future__ import annotations

from pathlib import Path

from longtail.errors import InputError, UsageError
from longtail.keep.streams import bare_name
from longtail.read.label_file import ENDINGS as LABEL_ENDINGS
from longtail.read.reading import Reading
from longtail.read.splits import DEFAULT, SPLITS, names_of

#: What a labels file is called.
_LABELS = ("labels", "label", "lbl")


def find_split(folder: Path, reading: Reading, endings: tuple[str, ...]) -> tuple[Path, Reading]:
    """The file of the split asked for, and the reading of it, which knows of the folder's labels file.

    endings  of file names that can be read, those to prefer first
    """
    options = reading.options
    split = options.split or DEFAULT
    files = sorted(path for path in folder.iterdir() if path.is_file())
    found = _matching(files, names_of(split), endings)
    if not found:
        there = sorted(name for name, names in SPLITS.items() if _matching(files, names, endings))
        if options.split is not None and there:
            raise UsageError(f"{folder}: no file for the split '{split}'; there are: {', '.join(there)}")
        raise InputError(folder, f"no data file '{split}' ({', '.join(endings)}, or with .gz or .zst) in the folder")
    if len(found) > 1:
        left = ", ".join(path.name for path in found[1:])
        reading.report.notes.append(f"read {found[0].name}; {left} ignored")
    labels = [] if options.labels is not None else _matching(files, _LABELS, LABEL_ENDINGS)
    return found[0], reading.changed(split=None, labels=labels[0] if labels else options.labels)


def _matching(files: list[Path], stems: tuple[str, ...], endings: tuple[str, ...]) -> list[Path]:
    """Files called stem.ending or something_stem.ending, best first: the plain name, then by ending, then by name."""

    def rank(path: Path) -> tuple[int, int, str] | None:
        name = bare_name(path)
        ending = next((e for e in endings if name.endswith(e)), None)
        if ending is None:
            return None
        stem = name.removesuffix(ending)
        if stem in stems:
            return (0, endings.index(ending), path.name)
        if any(stem.endswith((f"_{s}", f"-{s}")) for s in stems):
            return (1, endings.index(ending), path.name)
        return None

    ranked = [(place, path) for path in files if (place := rank(path)) is not None]
    return [path for _, path in sorted(ranked)]
