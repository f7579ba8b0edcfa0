"""Several features side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail.corpus import Corpus
from longtail.errors import UsageError
from longtail.features.base import Features
from longtail.part import Arrays, option, prefixed, under
from longtail.plan import Sizes, Stage, named
from longtail.registry import build, name_of
from longtail.run import Run
from longtail.sparse import row_sums, rows_of_pairs


@dataclass(kw_only=True)
class Join(Features):
    """The columns of all parts beside each other; each part's rows have the length that its weight says.

    A row to which every part contributes is of unit length, for weights are scaled so that their squares sum to 1.
    """

    parts: list[Any] = option(["tfidf", "dense"], "features, in the order of their columns")
    weights: list[float] = option([], "length of each part's rows, relative to the others'; empty: all the same")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.parts, list) or not self.parts:
            raise UsageError("join.parts takes a list of features, as in parts=['tfidf', 'dense']")
        made = [build(part, "features") for part in self.parts]
        self.parts = self.parts if made == self.parts else made
        for part in self.parts:
            if not isinstance(part, Features):
                raise UsageError(f"'{name_of(part)}' is not a features part")
        if self.weights and (len(self.weights) != len(self.parts) or min(self.weights) <= 0):
            raise UsageError(f"join.weights must be one number above 0 per part ({len(self.parts)}), or empty")

    def fit_transform(self, texts: Sequence[str], *, run: Run | None = None) -> sp.csr_matrix:
        return self._joined(run or Run(), lambda part, own: part.fit_transform(texts, run=own))

    def transform(self, texts: Sequence[str], *, run: Run | None = None) -> sp.csr_matrix:
        return self._joined(run or Run(), lambda part, own: part.transform(texts, run=own))

    def fit_corpus(self, corpus: Corpus, run: Run) -> sp.csr_matrix:
        return self._joined(run, lambda part, own: part.fit_corpus(corpus, own))

    def of_corpus(self, corpus: Corpus, run: Run) -> sp.csr_matrix:
        return self._joined(run, lambda part, own: part.of_corpus(corpus, own))

    def plan(self, sizes: Sizes, run: Run) -> list[Stage]:
        """Part by part; each part's rows are scaled, and copied once more when all are put side by side."""
        stages = [stage for part in self.parts for stage in named(name_of(part), part.plan(sizes, run))]
        beside = self.planned(sizes).X_bytes
        return [*stages, Stage("join", beside / 2e8, 2 * beside)]

    def planned(self, sizes: Sizes) -> Sizes:
        made = [part.planned(sizes) for part in self.parts]
        return replace(sizes, features=sum(s.features for s in made), nonzeros=sum(s.nonzeros for s in made))

    @property
    def n_features_(self) -> int:
        return sum(part.n_features_ for part in self.parts)

    def _joined(self, run: Run, make: Callable[[Features, Run], sp.csr_matrix]) -> sp.csr_matrix:
        weights = np.array(self.weights or [1.0] * len(self.parts))
        weights /= np.linalg.norm(weights)
        blocks = [
            _of_length(make(part, run.child(f"features/{number}")), weight)
            for number, (part, weight) in enumerate(zip(self.parts, weights, strict=True))
        ]
        return sp.hstack(blocks, format="csr", dtype=np.float32)

    # keeping
    def state(self) -> dict[str, NDArray[Any]]:
        kept: dict[str, NDArray[Any]] = {}
        for number, part in enumerate(self.parts):
            kept |= prefixed(str(number), part.state())
        return kept

    def restore(self, arrays: Arrays) -> None:
        known: set[str] = set()
        for number, part in enumerate(self.parts):
            own = under(str(number), arrays)
            part.restore(own)
            known |= set(prefixed(str(number), own))
        if set(arrays) != known:
            raise ValueError(f"join has {len(self.parts)} parts, the file has {sorted(set(arrays) - known)[:3]} beside")


def _of_length(X: sp.csr_matrix, length: float) -> sp.csr_matrix:
    """The rows scaled to a length; empty rows stay empty."""
    lengths = np.sqrt(row_sums(X.data.astype(np.float64) ** 2, X.indptr))
    scale = length / np.where(lengths > 0, lengths, 1)
    data = (X.data * scale[rows_of_pairs(X)]).astype(np.float32)
    return sp.csr_matrix((data, X.indices, X.indptr), shape=X.shape)
