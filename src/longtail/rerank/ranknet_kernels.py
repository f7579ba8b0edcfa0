"""Kernels of RankNet: the residual blocks over a shortlist, the population-aware loss, and a pass of AdaGrad."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from longtail.arrays import Bools, Floats, Ints, Longs, njit
from longtail.corpus import Corpus
from longtail.scores import Scores
from longtail.sparse import pair_keys


class Shortlists(NamedTuple):
    """n documents with k labels each.

    ids    int32 (n, k), padded with -1
    start  float32 (n, k), F before the blocks
    shift  float32 (n, k), what F has of the propensity: taken off before W1 reads F as a probability
    truth  bool (n, k), which labels are right
    """

    ids: Ints
    start: Floats
    shift: Floats
    truth: Bools


class Blocks(NamedTuple):
    """Weights float32 (blocks, L, V) of the residual blocks."""

    w1: Floats
    w2: Floats


class LabelFacts(NamedTuple):
    """Of each label, float32 (L,): its training count and its weight in the second term of the loss."""

    counts: Floats
    weight: Floats


class LossSettings(NamedTuple):
    """margin c, balance lambda, AdaGrad's rate, and how many natural logarithms one unit of F is (0: F is a score)."""

    margin: np.float32
    balance: np.float32
    rate: np.float32
    scale: np.float32


def without_masked(scores: Scores, corpus: Corpus) -> Scores:
    """The shortlists without pairs of weight 0, which are neither right nor wrong."""
    if corpus.pair_weight is None:
        return scores
    masked = pair_keys(corpus.Y)[corpus.pair_weight == 0]
    keys = np.arange(len(scores))[:, None] * corpus.n_labels + scores.ids
    ids = np.where((scores.ids >= 0) & np.isin(keys, masked), np.int32(-1), scores.ids)
    return Scores(ids, scores.values).sorted()


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
def _listed(ids: Ints) -> int:
    """How many labels a row of a shortlist has."""
    size = 0
    while size < len(ids) and ids[size] >= 0:
        size += 1
    return size


@njit(nogil=True, cache=True, fastmath=True)
def _block(
    ids: Ints, F: Floats, shift: Floats, scale: np.float32, weights: Blocks, read: Floats, hidden: Floats
) -> None:
    """F becomes F + W2 relu(W1 p) over a shortlist; weights are those (L, V) of one block.

    read receives p, the probabilities F stands for (F itself where the scale is 0), hidden the units.
    """
    w1, w2 = weights.w1, weights.w2
    width = w1.shape[1]
    for v in range(width):
        hidden[v] = 0
    for b in range(len(ids)):
        read[b] = F[b] if scale == 0 else min(np.float32(1), np.exp((F[b] - shift[b] - np.float32(1)) * scale))
        row, value = w1[ids[b]], read[b]
        for v in range(width):
            hidden[v] += value * row[v]
    for v in range(width):
        hidden[v] = max(hidden[v], np.float32(0))
    for b in range(len(ids)):
        row = w2[ids[b]]
        total = np.float32(0)
        for v in range(width):
            total += row[v] * hidden[v]
        F[b] += total


@njit(nogil=True, cache=True)
def forward(lists: Shortlists, blocks: Blocks, scale: np.float32) -> Floats:
    """F (n, k) after all blocks."""
    F = lists.start.copy()
    read = np.zeros(F.shape[1], dtype=np.float32)
    hidden = np.zeros(blocks.w1.shape[2], dtype=np.float32)
    for d in range(len(F)):
        size = _listed(lists.ids[d])
        for block in range(blocks.w1.shape[0]):
            own = Blocks(blocks.w1[block], blocks.w2[block])
            _block(lists.ids[d, :size], F[d], lists.shift[d], scale, own, read, hidden)
    return F


@njit(nogil=True, cache=True, fastmath=True)
def loss_gradient(ids: Ints, F: Floats, truth: Bools, labels: LabelFacts, settings: LossSettings, out: Floats) -> float:
    """The loss of one document's shortlist; out receives its derivative by F."""
    loss = np.float32(0)
    size, n_true = len(ids), 0
    for b in range(size):
        out[b] = 0
        n_true += truth[b]
    n_wrong = size - n_true
    pairs = n_true * (n_true - 1)
    for i in range(size):
        if not truth[i]:
            continue
        for j in range(size):
            if j == i:
                continue
            if truth[j]:
                n_i, n_j = labels.counts[ids[i]], labels.counts[ids[j]]
                if n_i > n_j and F[i] > F[j]:
                    # each unordered pair comes twice in the double sum, once with each sign of both factors
                    share = np.float32(2) * (n_i - n_j) / (n_i + n_j) / np.float32(pairs)
                    loss += share * (F[i] - F[j])
                    out[i] += share
                    out[j] -= share
            elif F[j] - F[i] + settings.margin > 0:
                share = settings.balance * labels.weight[ids[i]] / np.float32(n_true * n_wrong)
                loss += share * (F[j] - F[i] + settings.margin)
                out[j] += share
                out[i] -= share
    return float(loss)


@njit(nogil=True, cache=True, fastmath=True)
def one_pass(
    order: Longs, lists: Shortlists, labels: LabelFacts, blocks: Blocks, squares: Blocks, settings: LossSettings
) -> None:
    """One pass of AdaGrad, document by document; squares are sums of squared steps, like the weights."""
    count, _, width = blocks.w1.shape
    k = lists.ids.shape[1]
    F = np.zeros(k, dtype=np.float32)
    read = np.zeros((count, k), dtype=np.float32)
    hidden = np.zeros((count, width), dtype=np.float32)
    back = np.zeros(width, dtype=np.float32)
    slope = np.zeros(k, dtype=np.float32)
    rate, scale = settings.rate, settings.scale
    for d in order:
        size = _listed(lists.ids[d])
        ids = lists.ids[d, :size]
        F[:size] = lists.start[d, :size]
        for block in range(count):
            own = Blocks(blocks.w1[block], blocks.w2[block])
            _block(ids, F, lists.shift[d], scale, own, read[block], hidden[block])
        if loss_gradient(ids, F, lists.truth[d], labels, settings, slope) == 0:
            continue
        for block in range(count - 1, -1, -1):
            h = hidden[block]
            back[:] = 0
            for b in range(size):
                s = slope[b]
                if s == 0:
                    continue
                row, squared = blocks.w2[block, ids[b]], squares.w2[block, ids[b]]
                for v in range(width):
                    back[v] += s * row[v]
                    step = s * h[v]
                    squared[v] += step * step
                    row[v] -= rate * step / np.sqrt(squared[v])
            for v in range(width):
                if h[v] <= 0:
                    back[v] = 0
            for b in range(size):
                value = read[block, b]
                row, squared = blocks.w1[block, ids[b]], squares.w1[block, ids[b]]
                passed = np.float32(0)
                for v in range(width):
                    passed += back[v] * row[v]
                    step = value * back[v]
                    squared[v] += step * step
                    row[v] -= rate * step / np.sqrt(squared[v])
                if scale == 0:
                    slope[b] += passed
                elif value < 1:
                    slope[b] += passed * value * scale
