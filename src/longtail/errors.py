"""Every failure a user can cause ends in one of these: one readable line, exit code 2."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path


class LongtailError(Exception):
    """What was wrong, where, and what to do, in one line."""


class InputError(LongtailError):
    """A data file that cannot be read as it stands.

    `line` counts from 1; it is left out where a file is wrong as a whole.
    """

    def __init__(self, path: str | Path, message: str, line: int | None = None) -> None:
        self.path = str(path)
        self.line = line
        self.reason = printable(message)
        where = self.path if line is None else f"{self.path}:{line}"
        super().__init__(printable(f"{where}: {message}"))


class UsageError(LongtailError):
    """An option, name or value that does not exist or does not fit."""


class ModelError(LongtailError):
    """A model directory that is missing something, was altered, or is of another version."""


class StoppedError(LongtailError):
    """Work that was stopped from outside, and what becomes of what it had done; exit code 130."""


#: What is said where the system gave less memory than was counted on, and to those who train.
OUT_OF_MEMORY = "out of memory"
OUT_OF_MEMORY_TRAINING = (
    f"{OUT_OF_MEMORY}; --dry-run tells what training needs, --memory 2GB makes it do with less or refuse"
)

#: What libraries say when the system gives them no memory, threads or room to map files into; none has an error of its
#: own for it.
_NO_ROOM = ("cannot allocate memory", "can't allocate memory", "can't start new thread", "failed to map segment",
            "not enough memory", "unable to allocate", "std::bad_alloc", "out of memory")  # fmt: skip


def out_of_memory(error: BaseException | None) -> bool:
    """Whether this error, or one that it comes from, says that there is no memory left."""
    while error is not None:
        if isinstance(error, MemoryError) or any(said in str(error).lower() for said in _NO_ROOM):
            return True
        error = error.__cause__ or error.__context__
    return False


def counted(number: int, one: str, rest: str = "") -> str:
    """A number of things, one of which is called so: 1 document without text, 2 documents without text."""
    return f"{number:,} {one}{'' if number == 1 else 's'}{rest and ' '}{rest}"


def printable(message: str) -> str:
    """One line without control characters: messages quote data files, and a terminal obeys what it is sent."""
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in message)


def first_line(error: BaseException) -> str:
    """What another library's error says, in one short line."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].rstrip(": ")[:200]


def nearest(name: str, known: Iterable[str]) -> str:
    """A sentence that helps after a typing error: "did you mean 'bonsai'?" or the list of what there is."""
    names = sorted(known)
    close = get_close_matches(name, names, n=1, cutoff=0.5)
    return f"did you mean '{close[0]}'?" if close else f"there are: {', '.join(names)}"


def warn(message: str) -> None:
    """A warning to whoever called the library, in one line."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "longtail":
        level, frame = level + 1, frame.f_back
    warnings.warn(printable(message), stacklevel=level)
