"""Pieces of a fit, such as blocks of nodes or groups of trees, that a killed run does not train again."""

from __future__ import annotations

import mmap
import time
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from longtail import fit as fits
from longtail.corpus import Corpus
from longtail.keep.folder import map_behind, read_past_map
from longtail.learners.linear.nodes import Piece as Block
from longtail.learners.linear.nodes import Separators
from longtail.memory import give_back
from longtail.part import Arrays, Part
from longtail.registry import config_of
from longtail.sparse import starts_of

Piece = TypeVar("Piece")

NAMES = tuple(field.name for field in fields(Separators))
#: Pieces of so many bytes are kept however quickly they were made: what is kept takes no memory.
LARGE = 16 << 20


class Pieces:
    """Finished pieces of one fit by their names, kept where the run keeps anything at all."""

    def __init__(self, fit: fits.Fit, part: Part, corpus: Corpus) -> None:
        self.fit, self.part, self.corpus = fit, part, corpus
        self._files: WeakKeyDictionary[mmap.mmap, Path] = WeakKeyDictionary()  # those that pieces lie in

    @property
    def kept(self) -> bool:
        return self.fit.run.checkpoints is not None

    def made(
        self,
        name: Sequence[int | str],
        make: Callable[[], Piece],
        arrays_of: Callable[[Piece], Arrays],
        restored: Callable[[Arrays], Piece],
        skip: Callable[[], None],
    ) -> Piece:
        """The piece of this name, made or, if the run was killed behind it, as it was kept.

        skip  moves the bar on by what need not be made
        """
        if not self.kept:
            return make()
        key = self.fit.key([config_of(self.part), "pieces", *name], self.corpus)
        if (found := self._recalled(key, restored)) is not None:
            with self.fit.run.earlier():
                skip()
            return found
        start = time.perf_counter()
        piece = make()
        seconds, arrays = time.perf_counter() - start, arrays_of(piece)
        if seconds < fits.KEPT_FROM and sum(array.nbytes for array in arrays.values()) < LARGE:
            return piece
        self.fit.keep(key, arrays)
        if (found := self._recalled(key, restored)) is None:
            return piece
        # the file takes the place of the arrays: it is mapped, so memory is left to what is still to be done
        del piece, arrays
        give_back()
        return found

    def read(self, separators: Separators) -> Separators:
        """Separators that lie in a kept file, read from it into memory that is free again as soon as they are let go;
        others as they are."""
        owner = map_behind(separators.bias)
        path = None if owner is None else self._files.get(owner)
        found = None if path is None else read_past_map(path, [getattr(separators, name) for name in NAMES])
        return separators if found is None else Separators(*found)

    def _recalled(self, key: str, restored: Callable[[Arrays], Piece]) -> Piece | None:
        found = self.fit.recall(key)
        try:
            piece = None if found is None else restored(found)
        except ValueError:  # damaged in a way that the file format does not show
            return None
        owner = next((owner for array in (found or {}).values() if (owner := map_behind(array)) is not None), None)
        if owner is not None and (path := self.fit.file(key)) is not None:
            self._files[owner] = path
            owner.madvise(mmap.MADV_DONTNEED)  # what was looked at to tell the pieces apart
        return piece


def packed(pieces: Sequence[Block]) -> Arrays:
    """Separators of blocks as a few long arrays."""
    own = [piece.separators for piece in pieces]
    arrays: dict[str, NDArray[Any]] = {
        "place": np.array([(piece.tree, piece.node, piece.first) for piece in pieces], dtype=np.int64).reshape(-1, 3)
    }
    for name in NAMES:
        parts = [getattr(separators, name) for separators in own]
        arrays[f"{name}.length"] = np.array([len(part) for part in parts], dtype=np.int64)
        arrays[name] = np.concatenate(parts) if parts else np.empty(0, dtype=np.float32)
    return arrays


def unpacked(arrays: Arrays) -> list[Block]:
    """What `packed` was given; refuses arrays that do not fit together."""
    if set(arrays) != {"place", *NAMES, *(f"{name}.length" for name in NAMES)}:
        raise ValueError("these are no blocks of separators")
    starts = {name: starts_of(arrays[f"{name}.length"]) for name in NAMES}
    if any(starts[name][-1] != len(arrays[name]) for name in NAMES):
        raise ValueError("blocks of separators are not as long as they say")
    return [
        Block(
            int(tree), int(node), int(first),
            Separators(**{name: arrays[name][starts[name][i] : starts[name][i + 1]] for name in NAMES}),
        )
        for i, (tree, node, first) in enumerate(arrays["place"])
    ]  # fmt: skip
