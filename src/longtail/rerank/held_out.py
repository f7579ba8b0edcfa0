"""Shortlists of documents that the learner behind them did not see: what is true in them, and what that learner knew.

A learner that was trained without a fold of the documents has seen fewer documents of each label than the model will
have: a label with one document in all has none left where that document is held out. So whatever learns from such
shortlists reads the counts of their folds, and a label of one document is like those with one document *left*.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longtail.arrays import Bools, Floats, Ints, Longs, njit
from longtail.corpus import Corpus
from longtail.labels import LabelIndex
from longtail.scores import Scores
from longtail.sparse import entries_kept, pair_keys

#: PSP@k is measured up to this k.
MOST = 5


@dataclass(frozen=True, eq=False)
class Folds:
    """What the learners behind shortlists of n documents were trained on.

    of         int64 (n,), the fold that each document was held out with
    counts     int64 (folds, L), documents of each label that the learner without a fold has seen
    documents  int64 (folds,), documents that it has seen in all
    """

    of: NDArray[np.int64]
    counts: NDArray[np.int64]
    documents: NDArray[np.int64]

    @classmethod
    def none(cls, n: int, labels: LabelIndex) -> Folds:
        """Documents that are not among those of the label counts: one fold, without which nothing is missing."""
        return cls(np.zeros(n, np.int64), labels.frequency[None, :], np.array([labels.documents]))

    @classmethod
    def held_out(cls, folds: list[NDArray[np.int64]], plain: Corpus) -> Folds:
        """Folds of a corpus, each as rows; its documents come one fold after the other."""
        gone = [np.bincount(plain.rows(rows).positives().indices, minlength=plain.n_labels) for rows in folds]
        counts = np.maximum(plain.labels.frequency[None, :] - np.array(gone), 0)
        sizes = np.array([len(rows) for rows in folds])
        return cls(np.repeat(np.arange(len(folds)), sizes), counts, np.maximum(plain.labels.documents - sizes, 0))

    def rows(self, rows: NDArray[np.integer]) -> Folds:
        return Folds(self.of[rows], self.counts, self.documents)

    def counts_of(self, ids: Ints) -> NDArray[np.int64]:
        """(n, k): what the learner behind each shortlist has seen of its labels; padding means nothing."""
        return self.counts[self.of[:, None], ids]

    def inverse_propensity(self, A: float, B: float) -> Floats:
        """float32 (folds, L), by the counts of each fold."""
        no_names = [""] * self.counts.shape[1]
        by_fold = [
            LabelIndex(no_names, None, counts, int(documents)).inverse_propensity(A, B)
            for counts, documents in zip(self.counts, self.documents, strict=True)
        ]
        return np.array(by_fold, dtype=np.float32)


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Shortlists with the truth beside them.

    scores  without pairs of weight 0, which are neither right nor wrong, and without labels that the learner behind
            them has never seen, which no model would list
    truth   bool (n, k), which of them are right
    counts  int64 (n, k), documents of each label that the learner has seen
    q       float32 (n, k), inverse propensities by these counts; 0 at padding
    ideal   float32 (n, MOST), the largest q of the true labels, listed or not: what PSP is divided by
    """

    scores: Scores
    truth: Bools
    counts: NDArray[np.int64]
    q: Floats
    ideal: Floats

    @classmethod
    def of(cls, scores: Scores, corpus: Corpus, folds: Folds, A: float, B: float) -> HeldOut:
        scores = known_labels(scores, corpus, folds)
        table = folds.inverse_propensity(A, B)
        q = np.where(scores.ids >= 0, table[folds.of[:, None], scores.ids], np.float32(0))
        ideal = np.zeros((len(scores), MOST), dtype=np.float32)
        _ideal(*true_labels(corpus), folds.of, table, ideal)
        return cls(scores, truth_of(scores, corpus), folds.counts_of(scores.ids), q, ideal)

    def rows(self, rows: NDArray[np.integer]) -> HeldOut:
        return HeldOut(self.scores.rows(rows), self.truth[rows], self.counts[rows], self.q[rows], self.ideal[rows])

    @cached_property
    def _ideals(self) -> NDArray[np.float64]:
        return np.array([max(self.ideal[:, :k].sum(dtype=np.float64), 1e-12) for k in (1, 3, 5)])

    def measures(self, F: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """P@1, PSP@1, PSP@3, PSP@5, P@3, P@5 of values (n, k) of the listed labels, as shares."""
        if F.size == 0:
            return np.zeros(6)
        hits, gains = _found(np.asarray(F, dtype=np.float32), self.scores.ids, self.truth, self.q)
        sizes = np.array([1, 3, 5])
        psp = np.cumsum(gains)[sizes - 1] / self._ideals
        precision = np.cumsum(hits)[sizes - 1] / (sizes * len(F))
        return np.array([precision[0], *psp, *precision[1:]])


def without_masked(scores: Scores, corpus: Corpus) -> Scores:
    """The shortlists without pairs of weight 0, which are neither right nor wrong."""
    if corpus.pair_weight is None:
        return scores
    masked = pair_keys(corpus.Y)[corpus.pair_weight == 0]
    keys = np.arange(len(scores))[:, None] * corpus.n_labels + scores.ids
    ids = np.where((scores.ids >= 0) & np.isin(keys, masked), np.int32(-1), scores.ids)
    return Scores(ids, scores.values).sorted()


def known_labels(scores: Scores, corpus: Corpus, folds: Folds) -> Scores:
    """The shortlists without masked pairs, and without labels that the learners of their folds have never seen."""
    scores = without_masked(scores, corpus)
    known = (scores.ids >= 0) & (folds.counts_of(scores.ids) > 0)
    if known.sum() == (scores.ids >= 0).sum():
        return scores
    return Scores(np.where(known, scores.ids, np.int32(-1)), scores.values).sorted()


def true_labels(corpus: Corpus) -> tuple[Longs, Ints]:
    """indptr and labels of each document's true labels, listed or not; masked pairs are none."""
    true = corpus.Y.data >= 0.5
    if corpus.pair_weight is not None:
        true &= corpus.pair_weight > 0
    return entries_kept(corpus.Y, true), corpus.Y.indices[true].astype(np.int32)


def truth_of(scores: Scores, corpus: Corpus) -> Bools:
    """Which shortlisted labels are true, bool (n, k)."""
    truth = np.zeros(scores.ids.shape, dtype=bool)
    _mark(corpus.Y.indptr.astype(np.int64), corpus.Y.indices, corpus.Y.data, scores.ids, truth)
    return truth


@njit(nogil=True, cache=True)
def _mark(indptr: Longs, indices: Ints, data: Floats, ids: Ints, truth: Bools) -> None:
    for d in range(len(ids)):
        for b in range(ids.shape[1]):
            for p in range(indptr[d], indptr[d + 1]):
                if indices[p] == ids[d, b] and data[p] >= 0.5:
                    truth[d, b] = True


@njit(nogil=True, cache=True)
def _ideal(indptr: Longs, labels: Ints, fold: Longs, q: Floats, out: Floats) -> None:
    """The largest inverse propensities of each document's true labels, the largest first."""
    for d in range(len(out)):
        for p in range(indptr[d], indptr[d + 1]):
            worth = q[fold[d], labels[p]]
            for place in range(out.shape[1]):
                if worth > out[d, place]:
                    worth, out[d, place] = out[d, place], worth


@njit(nogil=True, cache=True)
def _found(F: Floats, ids: Ints, truth: Bools, q: Floats) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """At each of the first places by F, over all documents: right labels, and what PSP pays for them.

    Of equal values the one that stands first in the shortlist comes first.
    """
    hits, gains = np.zeros(MOST), np.zeros(MOST)
    best = np.zeros(MOST, np.int64)
    for d in range(len(F)):
        count = 0
        for b in range(F.shape[1]):
            if ids[d, b] < 0 or (count == MOST and F[d, b] <= F[d, best[MOST - 1]]):
                continue
            place = count if count < MOST else MOST - 1
            count = min(count + 1, MOST)
            while place > 0 and F[d, b] > F[d, best[place - 1]]:
                best[place] = best[place - 1]
                place -= 1
            best[place] = b
        for place in range(count):
            if truth[d, best[place]]:
                hits[place] += 1
                gains[place] += q[d, best[place]]
    return hits, gains
