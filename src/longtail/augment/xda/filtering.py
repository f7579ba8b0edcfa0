"""Which generated texts are worth learning from: those that a learner finds new, and still calls the same.

    diversity    KL(p(f0(x')) || p(y))             how far the learner's scores are from the labels
    consistency  |top k f0(x') ∩ top k f0(x)| / k   k: the number of labels of x

Both are brought to 0 to 1 over all generated texts and added; the best share is kept. p() divides by the sum; the
learner's scores are those of the `DEPTH` best labels, the rest count as 0.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail.scores import Scores
from longtail.sparse import pair_keys, row_sums, rows_of_pairs

#: Labels per document that the learner is asked for.
DEPTH = 50


def divergence(scores: Scores, Y: sp.csr_matrix, smoothing: float) -> NDArray[np.float64]:
    """float64 (n,): KL of the learner's distribution from that of the labels, mixed with an even one over all labels.

    smoothing  weight of the even distribution: near 0 all that counts is how much is off the labels
    """
    n, L = Y.shape
    value = np.where(scores.ids >= 0, np.maximum(scores.values, 0), 0).astype(np.float64)
    total = value.sum(axis=1, keepdims=True)
    p = value / np.where(total > 0, total, 1)
    sums = row_sums(Y.data, Y.indptr)
    share = Y.data / np.where(sums > 0, sums, 1)[rows_of_pairs(Y)]
    keys = pair_keys(Y)
    wanted = np.arange(n)[:, None] * L + scores.ids
    place = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
    target = np.where(keys[place] == wanted, share[place], 0) if len(keys) else np.zeros(wanted.shape)
    q = (1 - smoothing) * target + smoothing / L
    there = p > 0
    logs = np.log(np.where(there, p, 1)) - np.log(np.where(there, q, 1))
    return np.maximum((p * logs).sum(axis=1), 0)


def consistency(made: Scores, source: Scores, sizes: NDArray[np.integer], n_labels: int) -> NDArray[np.float64]:
    """float64 (n,): share of the k best labels of the source that are among the k best of the text made from it.

    sizes  k of each, the number of its labels; a document without labels counts as one with a single label
    """
    k = np.clip(sizes, 1, max(1, min(made.k, source.k)))

    def best(scores: Scores) -> NDArray[np.int64]:
        listed = (np.arange(scores.k) < k[:, None]) & (scores.ids >= 0)
        keys = np.arange(len(scores))[:, None] * n_labels + scores.ids
        return keys[listed]

    keys = best(made)
    common = keys[np.isin(keys, best(source))] // n_labels
    return np.bincount(common, minlength=len(made)) / k


def scaled(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The values from 0 to 1; all 0 where they do not differ."""
    low, high = values.min(initial=np.inf), values.max(initial=-np.inf)
    return (values - low) / (high - low) if high > low else np.zeros_like(values)


def best_share(score: NDArray[np.float64], group: NDArray[np.int64] | None, share: float) -> NDArray[np.bool_]:
    """Which to keep: the best share of every group, rounded, at least one, or of all; the first of equals.

    group  the document each was made from, or None for all in one
    """
    kept = np.zeros(len(score), dtype=bool)
    if group is None:
        kept[np.argsort(-score, kind="stable")[: max(1, round(share * len(score)))]] = True
        return kept
    order = np.lexsort((-score, group))
    _, first, count = np.unique(group[order], return_index=True, return_counts=True)
    rank = np.arange(len(order)) - np.repeat(first, count)
    most = np.maximum(1, np.rint(share * count)).astype(np.int64)
    kept[order[rank < np.repeat(most, count)]] = True
    return kept
