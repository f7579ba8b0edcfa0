"""What a re-ranker is: it learns from a shortlist and the truth, then gives it new values and a new order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Self

from longtail.capabilities import Capabilities
from longtail.corpus import Corpus
from longtail.part import Part, option
from longtail.run import Run
from longtail.scores import Scores


@dataclass(kw_only=True)
class Reranker(Part, ABC):
    """Base of re-rankers."""

    depth: int = option(100, "labels per document it is fitted on and chooses from", low=1, high=100_000)

    kind: ClassVar[str] = "re-ranker"

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(learns=True)

    @property
    def n_labels_(self) -> int | None:
        """Labels it was fitted on; None for one that keeps nothing per label."""
        factors = getattr(self, "q_", None)
        return None if factors is None else len(factors)

    @abstractmethod
    def fit(self, scores: Scores, corpus: Corpus, *, run: Run | None = None) -> Self:
        """Learns from the shortlist (n, k) a learner gives to the n training documents of the corpus."""

    @abstractmethod
    def rerank(self, scores: Scores, corpus: Corpus) -> Scores:
        """The same labels per document, with values in [0, 1], sorted by (-value, id); corpus  the documents"""
