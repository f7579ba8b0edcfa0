"""What the parts of a corpus are called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from longtail.errors import UsageError, nearest

if TYPE_CHECKING:
    from longtail.read.options import ReadOptions

#: Every name of each split, in file names and in datasets.
SPLITS = {
    "train": ("train", "trn"),
    "valid": ("valid", "validation", "val", "dev"),
    "test": ("test", "tst"),
}

#: The split that is read where none is asked for.
DEFAULT = "train"

#: What the XMC repository calls its splits in file names.
XMC_SHORT = {"train": "trn", "test": "tst"}


def names_of(split: str) -> tuple[str, ...]:
    """All names of a split, the given one first; a name that is no split's is only itself."""
    known = SPLITS.get(split_of(split) or "", ())
    return tuple(dict.fromkeys((split, *known)))


def split_of(name: str) -> str | None:
    """The split that goes by this name."""
    return next((split for split, names in SPLITS.items() if name in names), None)


def choose_split(options: ReadOptions, there: list[str], source: str) -> str:
    """The split asked for, by whichever of its names; if none is asked for, the usual one or the only one."""
    wanted = options.split
    found = next((name for name in names_of(wanted or options.usual_split) if name in there), None)
    if found is not None:
        return found
    if wanted is not None:
        raise UsageError(f"{source}: no split '{wanted}'; {nearest(wanted, there)}")
    if len(there) == 1:
        return there[0]
    raise UsageError(f"{source}: say which split; there are: {', '.join(there)}")
