"""Pieces of a fit, such as blocks of nodes or groups of trees, that a killed run does not train again."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from longtail import fit as fits
from longtail.corpus import Corpus
from longtail.learners.linear.nodes import Piece as Block
from longtail.learners.linear.nodes import Separators
from longtail.part import Arrays, Part
from longtail.registry import config_of
from longtail.sparse import starts_of

Piece = TypeVar("Piece")


class Pieces:
    """Finished pieces of one fit by their names, kept where the run keeps anything at all."""

    def __init__(self, fit: fits.Fit, part: Part, corpus: Corpus) -> None:
        self.fit, self.part, self.corpus = fit, part, corpus

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
        if time.perf_counter() - start < fits.KEPT_FROM:
            return piece
        self.fit.keep(key, arrays_of(piece))
        # the file takes the place of the arrays: it is mapped, so memory is left to what is still to be done
        return found if (found := self._recalled(key, restored)) is not None else piece

    def _recalled(self, key: str, restored: Callable[[Arrays], Piece]) -> Piece | None:
        found = self.fit.recall(key)
        try:
            return None if found is None else restored(found)
        except ValueError:  # damaged in a way that the file format does not show
            return None


def packed(pieces: Sequence[Block]) -> Arrays:
    """Separators of blocks as a few long arrays."""
    own = [piece.separators for piece in pieces]
    arrays: dict[str, NDArray[Any]] = {
        "place": np.array([(piece.tree, piece.node, piece.first) for piece in pieces], dtype=np.int64).reshape(-1, 3)
    }
    for field in fields(Separators):
        parts = [getattr(separators, field.name) for separators in own]
        arrays[f"{field.name}.length"] = np.array([len(part) for part in parts], dtype=np.int64)
        arrays[field.name] = np.concatenate(parts) if parts else np.empty(0, dtype=np.float32)
    return arrays


def unpacked(arrays: Arrays) -> list[Block]:
    """What `packed` was given; refuses arrays that do not fit together."""
    names = [field.name for field in fields(Separators)]
    if set(arrays) != {"place", *names, *(f"{name}.length" for name in names)}:
        raise ValueError("these are no blocks of separators")
    starts = {name: starts_of(arrays[f"{name}.length"]) for name in names}
    if any(starts[name][-1] != len(arrays[name]) for name in names):
        raise ValueError("blocks of separators are not as long as they say")
    return [
        Block(
            int(tree), int(node), int(first),
            Separators(**{name: arrays[name][starts[name][i] : starts[name][i + 1]] for name in names}),
        )
        for i, (tree, node, first) in enumerate(arrays["place"])
    ]  # fmt: skip
