"""What a re-ranker is: it learns from a shortlist and the truth, then gives it new values and a new order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Self

from longtail.corpus import Corpus
from longtail.part import Part
from longtail.run import Run
from longtail.scores import Scores


@dataclass(kw_only=True)
class Reranker(Part, ABC):
    """Base of re-rankers."""

    kind: ClassVar[str] = "re-ranker"
    #: Whether it learns from scores; one that does is given those of documents the learner did not see in training.
    learns: ClassVar[bool] = True

    @abstractmethod
    def fit(self, scores: Scores, corpus: Corpus, *, run: Run | None = None) -> Self:
        """Learns from the shortlist (n, k) a learner gives to the n training documents of the corpus."""

    @abstractmethod
    def rerank(self, scores: Scores) -> Scores:
        """The same labels a document, with values in [0, 1], sorted by (-value, id)."""
