"""Pieces of a fit, such as single trees, that a killed run does not train again."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from longtail import fit as fits
from longtail.corpus import Corpus
from longtail.part import Arrays, Part
from longtail.registry import config_of

Piece = TypeVar("Piece")


class Pieces:
    """The trees of one fit by their numbers, kept as they are finished where the run keeps anything at all."""

    def __init__(self, fit: fits.Fit, part: Part, corpus: Corpus) -> None:
        self.fit, self.part, self.corpus = fit, part, corpus

    @property
    def kept(self) -> bool:
        return self.fit.run.checkpoints is not None

    def made(
        self,
        numbers: Sequence[int],
        make: Callable[[], Piece],
        arrays_of: Callable[[Piece], Arrays],
        restored: Callable[[Arrays], Piece],
    ) -> Piece:
        """The piece with these numbers, made or, if the run was killed behind it, as it was kept."""
        if not self.kept:
            return make()
        key = self.fit.key([config_of(self.part), "trees", *numbers], self.corpus)
        found = self.fit.recall(key)
        if found is not None:
            try:
                return restored(found)
            except ValueError:  # damaged in a way that the file format does not show
                pass
        start = time.perf_counter()
        piece = make()
        if time.perf_counter() - start >= fits.KEPT_FROM:
            self.fit.keep(key, arrays_of(piece))
        return piece
