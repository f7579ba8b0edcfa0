"""Nearest documents: a document's labels are those of the training documents most similar to it.

Nothing is trained: the training documents are kept and vote, each as strongly as it is similar (see
`longtail.cluster.similar_documents`). It finds labels that have a single document, and errs elsewhere than separators
do, so it is at its best as a member of an ensemble.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from longtail.augment.base import LabelVectors
from longtail.capabilities import CORPUS_SPACES, Capabilities
from longtail.cluster.similar_documents import SimilarDocuments
from longtail.corpus import Corpus
from longtail.fit import Fit
from longtail.learners.base import Learner
from longtail.part import Arrays, option
from longtail.plan import Sizes, Stage
from longtail.run import Run
from longtail.scores import Scores


@dataclass(kw_only=True)
class NearestDocuments(Learner):
    """Votes of the nearest training documents."""

    neighbours: int = option(50, "documents that vote (tried on eurlex57k)", low=1, high=100_000)
    power: float = option(
        8.0, "exponent of the cosine: the higher, the more the nearest counts (tried on eurlex57k)", low=0, high=50
    )

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(needs=("X",), spaces=CORPUS_SPACES, retunes=True)

    def learn(self, corpus: Corpus, fit: Fit) -> Self:
        with fit.run.stage("train"):
            self.documents_ = SimilarDocuments.of(corpus)
        return self._sized()

    def plan(self, sizes: Sizes, run: Run) -> list[Stage]:
        """The documents by feature, made from rows of unit length, and the documents' labels."""
        kept = sizes.X_bytes + 8 * (sizes.features + sizes.pairs)
        return [Stage("train", sizes.nonzeros / 3e7, 40 * sizes.nonzeros + kept, kept)]

    def retune(self, corpus: Corpus, fit: Fit, vectors: LabelVectors | None = None) -> Self:
        return self.learn(corpus, fit)

    def score(self, corpus: Corpus, k: int, *, run: Run | None = None) -> Scores:
        k = min(k, self.n_labels_)
        return self.documents_.votes(corpus.features, self.neighbours, self.power, k, run or Run())

    def state(self) -> dict[str, NDArray[Any]]:
        return self.documents_.arrays()

    def restore(self, arrays: Arrays) -> None:
        self.documents_ = SimilarDocuments.from_arrays(arrays)
        if not (np.isfinite(self.documents_.voters.value).all() and np.isfinite(self.documents_.voters.strength).all()):
            raise ValueError("values must be finite")
        self._sized()

    def _sized(self) -> Self:
        self.n_labels_, self.n_features_ = self.documents_.n_labels, self.documents_.n_features
        return self
