"""What a re-ranker is: it learns from a shortlist and the truth, then gives it new values and a new order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from longtail.capabilities import Capabilities
from longtail.corpus import Corpus
from longtail.part import Part, option
from longtail.rerank.held_out import Folds
from longtail.run import Run
from longtail.scores import Scores


@dataclass(kw_only=True)
class Reranker(Part, ABC):
    """Base of re-rankers."""

    depth: int = option(100, "labels per document it is fitted on and chooses from", low=1, high=100_000)

    kind: ClassVar[str] = "re-ranker"
    #: Whether it exists to move rare labels up: what `predict --rare` takes the place of.
    favours_rare: ClassVar[bool] = False
    #: Whether it learns from all folds of a corpus, however large; others are content with a quarter of a large one.
    all_folds: ClassVar[bool] = False

    if TYPE_CHECKING:
        n_labels_: int = 0  # labels it was fitted for; missing where it keeps nothing per label

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(learns=True)

    @abstractmethod
    def fit(self, scores: Scores, corpus: Corpus, *, run: Run | None = None) -> Self:
        """Learns from the shortlist (n, k) a learner gives to the n training documents of the corpus."""

    def fit_held_out(self, scores: Scores, corpus: Corpus, folds: Folds, *, run: Run | None = None) -> Scores:
        """As `fit`, on documents that were held out with folds; gives their shortlists as it would re-rank others.

        For re-rankers that read label counts: those of the model are not what the learners of the folds have seen.
        """
        return self.fit(scores, corpus, run=run).rerank(scores, corpus)

    @abstractmethod
    def rerank(self, scores: Scores, corpus: Corpus) -> Scores:
        """The same labels per document, with values in [0, 1], sorted by (-value, id); corpus  the documents"""

    def rerank_alone(self, scores: Scores) -> Scores | None:
        """As `rerank`, from a re-ranker that looks at nothing but the scores; None from others."""
        return None
