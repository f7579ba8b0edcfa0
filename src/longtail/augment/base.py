"""What an augmenter is: it changes training data in the one space it declares, and is gone by prediction time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from longtail.capabilities import Capabilities
from longtail.corpus import Corpus
from longtail.errors import UsageError
from longtail.fit import Fit
from longtail.part import Part, shown_name
from longtail.plan import Sizes, Stage
from longtail.run import Run


class VectorSource(Protocol):
    """Draws examples in the space of the classifier."""

    def draw(self, labels: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.float32]:
        """float32 (m, width): one positive example of each of labels (m,)."""
        ...


@dataclass(frozen=True, eq=False)
class LabelVectors:
    """Examples in the space of the classifier: row i is a positive example of a label, as its feature would be.

    labels    int64 (m,)
    vectors   float32 (m, width): contexts, or features (see `HeadNetwork.features`)
    source    draws them anew whenever an example has its say; None for the same ones every time
    weight    of their loss beside that of the documents
    in_turns  whether passes over documents and over the vectors take turns, instead of both at every step
    """

    labels: NDArray[np.int64]
    vectors: NDArray[np.float32]
    source: VectorSource | None = None
    weight: float = 1.0
    in_turns: bool = False

    def some(self, places: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.float32]:
        """The examples at some places, which another draw may have others at."""
        if self.source is not None:
            return self.source.draw(self.labels[places], rng)
        return np.asarray(self.vectors[places], dtype=np.float32)


@dataclass(frozen=True, eq=False)
class Judged:
    """What a judged augmenter gives: the corpus to tune on, rows added or pairs masked, and vectors beside it."""

    corpus: Corpus
    vectors: LabelVectors | None = None


@dataclass(kw_only=True)
class Augmenter(Part):
    """Base of augmenters; `capabilities` names the one space it works in.

    In the space "texts" it runs before features are made, so that words it brings in enter the vocabulary; in
    "features" it runs on corpus.X. In the other spaces it is handed to the learner, which calls it inside its fit.
    """

    kind: ClassVar[str] = "augmenter"
    space: ClassVar[str] = "texts"
    #: Whether a model keeps what it has learnt.
    kept: ClassVar[bool] = False

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(spaces=(self.space,))

    def expanded(self, learner: Part) -> tuple[Any, list[Any]] | None:
        """For an augmenter that stands for a combination: the learner made of the one given, and the augmenters."""
        return None

    def first_stage(self) -> Sequence[Augmenter]:
        """For one whose capabilities say `judge`: augmenters that work inside the first stage on its behalf."""
        return ()

    def check(self, corpus: Corpus) -> None:
        """Refuses a corpus that it can make nothing of, before any work."""

    def plan_judged(self, learner: Any, sizes: Sizes, run: Run) -> list[Stage]:
        """For one whose capabilities say `judge`: what `judged` needs beside what the learner left."""
        return []

    def judged(self, corpus: Corpus, judge: Any, fit: Fit) -> Judged:
        """For one whose capabilities say `judge`: what the second stage of a fit learns from.

        judge  the pipeline of the first stage, fitted: it scores texts, and its `learner` opens its network
        """
        raise UsageError(f"'{shown_name(self)}' asks no judge")

    def apply(self, corpus: Corpus, run: Run) -> Corpus:
        """A new corpus with rows, targets or features added or changed; the one given stays as it is.

        Label counts stay those of the original training data. Randomness comes from `run.rng`. Augmenters that are
        hooks inside a fit leave the corpus as it is.
        """
        return corpus
