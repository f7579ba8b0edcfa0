"""Features of labels, one per positive pair, in a file that is mapped into memory, in the order of the labels.

A label's feature in a document is all that its classifier reads there: the label's context vector and, where the head
reads it, the document's vector behind it. Nothing is sized documents x labels: pairs that are not positive have none.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longtail.corpus import Corpus
from longtail.run import Run

#: Features looked at in one go.
CHUNK = 1 << 14
#: Share of labels held out; of pairs, where there are few labels.
HELD_OUT, FEW = 0.1, 10
#: Numbers of features, and the label of each.
FeatureRows = tuple[NDArray[np.int64], NDArray[np.int64]]


@dataclass(frozen=True, eq=False)
class LabelFeatures:
    """P features of L labels: those of label l are rows start[l] to start[l + 1].

    start   int64 (L + 1,)
    values  float16 (P, width)
    """

    start: NDArray[np.int64]
    values: NDArray[np.float16]

    @classmethod
    def collected(cls, corpus: Corpus, learner: Any, run: Run) -> LabelFeatures:
        """Those of a corpus's own documents, as a fitted learner sees them."""
        Y = corpus.documents_only().positives().tocsc()
        start = Y.indptr.astype(np.int64)
        values = mapped((int(start[-1]), learner.feature_size), np.float16)
        label = np.repeat(np.arange(Y.shape[1]), np.diff(start))
        learner.label_features(corpus, corpus.documents[Y.indices], label, values, run=run)
        return cls(start, values)

    @property
    def counts(self) -> NDArray[np.int64]:
        return np.diff(self.start)

    @property
    def width(self) -> int:
        return int(self.values.shape[1])

    def rows_of(self, labels: NDArray[np.int64]) -> FeatureRows:
        """Rows of all features of some labels, and whose each is."""
        counts = self.counts[labels]
        first = np.cumsum(counts) - counts
        row = np.arange(int(counts.sum())) + np.repeat(self.start[labels] - first, counts)
        return row, np.repeat(labels, counts)

    def held_out(self, labels: NDArray[np.int64], rng: np.random.Generator) -> tuple[FeatureRows, FeatureRows]:
        """`rows_of` most of the labels, and of the others; where labels are few, of most pairs and the others."""
        if len(labels) >= FEW:
            unseen = np.sort(rng.permutation(labels)[: max(1, int(HELD_OUT * len(labels)))])
            return self.rows_of(np.setdiff1d(labels, unseen)), self.rows_of(unseen)
        rows, whose = self.rows_of(labels)
        out = np.zeros(len(rows), dtype=bool)
        out[rng.permutation(len(rows))[: max(1, int(HELD_OUT * len(rows)))]] = True
        if out.all():
            return (rows, whose), (rows, whose)
        return (rows[~out], whose[~out]), (rows[out], whose[out])

    def some(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        return np.asarray(self.values[rows], dtype=np.float32)

    @cached_property
    def prototypes(self) -> NDArray[np.float32]:
        """float32 (L, width): the mean of each label's features (equation 10); 0 for labels without any."""
        sums = np.zeros((len(self.start) - 1, self.width), dtype=np.float32)
        everything = np.arange(len(self.start) - 1)
        for rows, label in self.chunks(everything):
            own, first = np.unique(label, return_index=True)
            sums[own] += np.add.reduceat(self.some(rows), first, axis=0)
        return sums / np.maximum(self.counts, 1).astype(np.float32)[:, None]

    def chunks(self, labels: NDArray[np.int64]) -> Iterator[FeatureRows]:
        """`rows_of` in pieces."""
        rows, whose = self.rows_of(labels)
        for start in range(0, len(rows), CHUNK):
            yield rows[start : start + CHUNK], whose[start : start + CHUNK]

    def residuals(self, labels: NDArray[np.int64]) -> Iterator[NDArray[np.float32]]:
        """Features of some labels without their prototypes, in pieces."""
        for rows, whose in self.chunks(labels):
            yield self.some(rows) - self.prototypes[whose]

    def freedom(self, labels: NDArray[np.int64]) -> int:
        """Degrees of freedom of these labels' residuals: a prototype takes one feature's."""
        counts = self.counts[labels]
        return max(1, int((counts[counts > 0] - 1).sum()))

    def variance(self, labels: NDArray[np.int64]) -> NDArray[np.float64]:
        """float64 (width,): within labels, pooled over them."""
        total = np.zeros(self.width)
        for piece in self.residuals(labels):
            total += np.square(piece, dtype=np.float64).sum(axis=0)
        return total / self.freedom(labels)

    def widths(self, labels: NDArray[np.int64]) -> NDArray[np.float32]:
        """float32 (L,): how much each label's features vary, in units of what some labels' do together (`variance`).

        Where features of a label agree, their mean is long, and they vary little. So the logarithm of the variance is
        taken for a line over that of the mean's squared length, which these labels tell. A mean of few features is too
        long, by what it varies itself, and says little: the length is drawn towards that of the other labels, all the
        way for a label with one feature. Beyond what most of these labels show, the line is not followed.
        """
        common, own = float(self.variance(labels).sum()), labels[self.counts[labels] > 1]
        if len(own) < FEW or not common:
            return np.ones(len(self.start) - 1, dtype=np.float32)
        varies, unsure = self._squares(own)
        length = np.square(self.prototypes, dtype=np.float64).sum(axis=1) - common / np.maximum(self.counts, 1)
        between, centre = float(length[own].var()), float(length[own].mean())
        more = np.maximum(self.counts - 1, 0)
        length = centre + (length - centre) * more / np.maximum(more + unsure / max(between, 1e-12), 1e-12)
        low, high = np.quantile(length[own], (0.05, 0.95))
        if high <= 0:
            return np.ones(len(self.start) - 1, dtype=np.float32)
        seen = np.log(np.clip(length, max(low, high / 100), high))
        away = seen - seen[own].mean()
        slope = away[own] @ np.log(np.maximum(varies, 1e-9 * common)) / max(float(away[own] @ away[own]), 1e-12)
        found = np.exp(slope * away)
        return np.sqrt(found / (more[own] / self.freedom(own) @ found[own])).astype(np.float32)

    def _squares(self, labels: NDArray[np.int64]) -> tuple[NDArray[np.float64], float]:
        """(len(labels),): variance of each label, over all numbers; and that of the squared length, within labels."""
        off, length, squared = (np.zeros(len(self.start) - 1) for _ in range(3))
        for rows, whose in self.chunks(labels):
            values = self.some(rows)
            long = np.square(values, dtype=np.float64).sum(axis=1)
            np.add.at(off, whose, np.square(values - self.prototypes[whose], dtype=np.float64).sum(axis=1))
            np.add.at(length, whose, long)
            np.add.at(squared, whose, np.square(long))
        counts = self.counts[labels]
        within = squared[labels] - np.square(length[labels]) / counts
        return off[labels] / (counts - 1), float((np.maximum(within, 0) / (counts - 1)).mean())

    def covariance(self, labels: NDArray[np.int64]) -> NDArray[np.float64]:
        """float64 (width, width): the same with what varies together."""
        total = np.zeros((self.width, self.width))
        for piece in self.residuals(labels):
            total += piece.T.astype(np.float64) @ piece
        return total / self.freedom(labels)


def mapped(shape: tuple[int, int], dtype: Any) -> NDArray[Any]:
    """Room in a file of its own, which is gone when nobody holds the array any more."""
    if 0 in shape:
        return np.empty(shape, dtype=dtype)
    with tempfile.TemporaryFile(prefix="longtail-") as handle:
        return np.memmap(handle, dtype=dtype, mode="w+", shape=shape)
