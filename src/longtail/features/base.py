"""What features are: they turn documents into rows of numbers, X, for learners that read such."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail.corpus import Corpus
from longtail.errors import UsageError
from longtail.part import Part
from longtail.run import Run

#: What makes features of texts where nobody says: `auto` stands for it.
USUAL_FEATURES = {"part": "tfidf", "language": "auto"}


@dataclass(kw_only=True)
class Features(Part, ABC):
    """Base of features. Most read texts only; one that reads more of the corpus overrides the last two methods."""

    kind: ClassVar[str] = "features"

    @property
    @abstractmethod
    def n_features_(self) -> int:
        """Columns of the X it makes."""

    @abstractmethod
    def fit_transform(self, texts: Sequence[str], *, run: Run | None = None) -> sp.csr_matrix:
        """Learns from the texts, and gives their X, csr float32 (n, D)."""

    @abstractmethod
    def transform(self, texts: Sequence[str], *, run: Run | None = None) -> sp.csr_matrix:
        """X of new texts, csr float32 (n, D)."""

    def transform_one(self, text: str) -> tuple[NDArray[np.int32], NDArray[np.float32]] | None:
        """Columns (int32, rising) and values (float32) of one text's row, the same as `transform` gives.

        They may be overwritten by the next call of the same thread. None where there is no faster way than
        `transform`.
        """
        return None

    def fit_corpus(self, corpus: Corpus, run: Run) -> sp.csr_matrix:
        return self.fit_transform(texts_of(corpus), run=run)

    def of_corpus(self, corpus: Corpus, run: Run) -> sp.csr_matrix:
        return self.transform(texts_of(corpus), run=run)


def texts_of(corpus: Corpus) -> Sequence[str]:
    if corpus.texts is None:
        raise UsageError(f"{corpus.name} has no texts to make features of")
    return corpus.texts
