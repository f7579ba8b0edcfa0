"""What a generator is: it reads a corpus once, and then writes documents of it anew, with their labels in mind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from longtail.corpus import Corpus
from longtail.fit import Fit
from longtail.part import Part
from longtail.plan import Sizes, Stage
from longtail.run import Run


class Writer(Protocol):
    """A generator that has read a corpus."""

    def write(self, rows: NDArray[np.int64], seed: int) -> list[str]:
        """A new text for each of these rows of the corpus, which may stand there several times.

        The same rows and seed give the same texts.
        """
        ...

    @property
    def identity(self) -> str:
        """All that its texts depend on beside the documents they are made from; empty where nothing is to be kept."""
        ...


@dataclass(kw_only=True)
class Generator(Part, ABC):
    """Base of generators."""

    kind: ClassVar[str] = "generator"
    #: Documents written at once: what a killed run loses, at most.
    batch: ClassVar[int] = 4096

    def check(self) -> None:
        """Refuses what would fail later, before anything is trained: a folder that is not there."""

    def plan_writing(self, sizes: Sizes, texts: int, run: Run) -> list[Stage]:
        """The stages of reading a corpus of these sizes and writing this many texts."""
        length = sizes.texts_bytes // max(1, sizes.documents)
        return [Stage("generate", 0.0, texts * length)]

    @abstractmethod
    def opened(self, corpus: Corpus, fit: Fit) -> Writer:
        """Reads texts and labels of the documents; rows that other augmenters made are no documents."""
