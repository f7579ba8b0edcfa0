"""What a learner is: fit on a corpus, then give the k best labels of each document."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from longtail.corpus import Corpus
from longtail.part import Part
from longtail.run import Run
from longtail.scores import Scores

#: The places in a run where an augmenter may work, in the order they come.
SPACES = ("texts", "features", "tokens", "hidden", "context", "classifier")


@dataclass(kw_only=True)
class Learner(Part, ABC):
    """Base of learners and wrappers.

    needs   what it takes from the corpus: "X", "texts", or both
    spaces  the spaces it opens to augmenters
    draws_noise    whether it draws the corpus's noisy copies itself; for others they are written out as rows
    threads_apart  whether two fits may go on side by side in one process
    """

    kind: ClassVar[str] = "learner"
    needs: ClassVar[tuple[str, ...]] = ("X",)
    spaces: ClassVar[tuple[str, ...]] = ("texts", "features")
    draws_noise: ClassVar[bool] = False
    threads_apart: ClassVar[bool] = True

    if TYPE_CHECKING:
        n_labels_: int = 0  # columns of the corpus it was fitted on
        n_features_: int | None = None  # columns of its X; None for a learner that reads texts only

    @abstractmethod
    def fit(self, corpus: Corpus, *, valid: Corpus | None = None, run: Run | None = None) -> Self:
        """Learns from the corpus, which stays as it is."""

    @abstractmethod
    def score(self, corpus: Corpus, k: int, *, run: Run | None = None) -> Scores:
        """The k best labels of each document; columns are those of the corpus it was fitted on."""
