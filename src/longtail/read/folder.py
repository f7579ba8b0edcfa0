"""A folder with train, valid and test files of any format, and a labels file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from longtail.errors import InputError, UsageError
from longtail.keep.streams import bare_name
from longtail.read.builder import Options

#: What a split may be called in file names.
SPLITS = {
    "train": ("train", "trn"),
    "valid": ("valid", "validation", "val", "dev"),
    "test": ("test", "tst"),
}

#: The first ending that is there counts, so that texts come before features.
ENDINGS = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".tab", ".parquet", ".arrow", ".svm", ".txt")
_LABEL_ENDINGS = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".txt")


def find_split(folder: Path, options: Options) -> tuple[Path, Options, list[str]]:
    """The file of the split asked for (train without a wish), the options with the folder's labels file, and notes."""
    split = options.split or "train"
    known = next((names for names in SPLITS.values() if split in names), (split,))
    files = sorted(path for path in folder.iterdir() if path.is_file())
    found = _matching(files, (split, *known), ENDINGS)
    if not found:
        there = sorted(name for name, names in SPLITS.items() if _matching(files, names, ENDINGS))
        if options.split is not None and there:
            raise UsageError(f"{folder}: no file for the split '{split}'; there are: {', '.join(there)}")
        raise InputError(folder, f"no data file '{split}' ({', '.join(ENDINGS)}, or with .gz or .zst) in the folder")
    notes = []
    if len(found) > 1:
        notes.append(f"read {found[0].name}; {', '.join(path.name for path in found[1:])} left aside")
    if options.labels is None:
        labels = _matching(files, ("labels", "label", "lbl"), _LABEL_ENDINGS)
        if labels:
            options = replace(options, labels=labels[0])
    return found[0], replace(options, split=None), notes


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
