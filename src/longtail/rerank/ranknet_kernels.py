"""Kernels of RankNet: residual blocks over a shortlist, the population-aware loss, and a pass over documents.

A block is one matrix, F = y + W y, or has a bottleneck, F = y + W2 relu(W1 y). Weights lie as rows of labels: W[i] is
what label i reads of all labels, W1[j] what the units read of label j, W2[i] what label i reads of the units. Each row
has a rate of its own (AdaGrad by rows), so that no second array of the size of the weights is held.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from longtail.arrays import Floats, Ints, Longs, njit

#: What is read of a label below this is left out: it would move nothing.
FAINT = np.float32(1e-2)


class Blocks(NamedTuple):
    """float32 weights of the blocks: out (blocks, L, L) and inner (blocks, 0, 0) for matrices, both (blocks, L, V) with
    a bottleneck."""

    out: Floats
    inner: Floats


class Squares(NamedTuple):
    """float32 (blocks, L): sums of squared slopes of each row of the weights."""

    out: Floats
    inner: Floats


class Lists(NamedTuple):
    """n documents with k labels each, and their true labels.

    ids     int32 (n, k), padded with -1
    start   float32 (n, k), F before the blocks
    indptr, labels  true labels of each document, listed or not, as of a csr matrix
    fold    (n,) of each document
    """

    ids: Ints
    start: Floats
    indptr: Longs
    labels: Ints
    fold: Longs


class Values(NamedTuple):
    """Of one block and document: of the labels it read (k,), of its units (V,); on the way back, derivatives."""

    read: Floats
    hidden: Floats


class LabelFacts(NamedTuple):
    """Of each label, float32 (folds, L): its count in the loss's first term, its weight in the second."""

    counts: Floats
    weight: Floats


class Loss(NamedTuple):
    """margin c, balance lambda, rate, natural logarithms per unit of F (0: F is a score), and whether all wrong labels
    of a shortlist are negatives."""

    margin: np.float32
    balance: np.float32
    rate: np.float32
    scale: np.float32
    listed: bool


@njit(nogil=True, cache=True)
def _listed(ids: Ints) -> int:
    """How many labels a row of a shortlist has."""
    size = 0
    while size < len(ids) and ids[size] >= 0:
        size += 1
    return size


@njit(nogil=True, cache=True, fastmath=True)
def _read(F: Floats, size: int, scale: np.float32, read: Floats) -> None:
    """What a block reads of the listed labels: F itself, or the value between 0 and 1 that F is the logit of."""
    for b in range(size):
        value = F[b] if scale == 0 else np.float32(1) / (np.float32(1) + np.exp((np.float32(1) - F[b]) * scale))
        read[b] = value if value >= FAINT else np.float32(0)


@njit(nogil=True, cache=True, fastmath=True)
def _block(ids: Ints, size: int, wanted: Ints, F: Floats, weights: Blocks, read: Floats, hidden: Floats) -> None:
    """F of the labels `ids` becomes F + W read, read being of the first `size` of them; wanted  0 for labels to skip"""
    out, inner = weights
    bottleneck = inner.shape[0] > 0
    if bottleneck:
        hidden[:] = 0
        for b in range(size):
            value = read[b]
            if value != 0:
                row = inner[ids[b]]
                for v in range(len(row)):
                    hidden[v] += value * row[v]
        for v in range(len(hidden)):
            hidden[v] = max(hidden[v], np.float32(0))
    for o in range(len(ids)):
        if wanted[o] == 0:
            continue
        row = out[ids[o]]
        total = np.float32(0)
        if bottleneck:
            for v in range(len(row)):
                total += row[v] * hidden[v]
        else:
            for b in range(size):
                if read[b] != 0:
                    total += row[ids[b]] * read[b]
        F[o] += total


@njit(nogil=True, cache=True)
def forward(ids: Ints, start: Floats, blocks: Blocks, scale: np.float32) -> Floats:
    """F (n, k) after all blocks."""
    F = start.copy()
    read = np.zeros(F.shape[1], dtype=np.float32)
    hidden = np.zeros(blocks.inner.shape[2], dtype=np.float32)
    wanted = np.ones(F.shape[1], dtype=np.int32)
    for d in range(len(F)):
        size = _listed(ids[d])
        for block in range(len(blocks.out)):
            _read(F[d], size, scale, read)
            own = Blocks(blocks.out[block], blocks.inner[block])
            _block(ids[d, :size], size, wanted, F[d], own, read, hidden)
    return F


@njit(nogil=True, cache=True, fastmath=True)
def loss_gradient(F: Floats, role: Ints, counts: Floats, weight: Floats, loss: Loss, out: Floats) -> float:
    """The loss of one document; out receives its derivative by F.

    role  1 of true labels, -1 of wrong ones, 0 of labels that the loss leaves out
    """
    total = np.float32(0)
    size = len(F)
    out[:size] = 0
    for i in range(size):
        if role[i] != 1:
            continue
        for j in range(size):
            if role[j] == 1:
                if counts[i] > counts[j] and F[i] > F[j]:
                    # each pair comes twice in the double sum, once with each sign of both factors
                    share = np.float32(2) * (counts[i] - counts[j]) / (counts[i] + counts[j])
                    total += share * (F[i] - F[j])
                    out[i] += share
                    out[j] -= share
            elif role[j] == -1 and F[j] - F[i] + loss.margin > 0:
                share = loss.balance * weight[i]
                total += share * (F[j] - F[i] + loss.margin)
                out[j] += share
                out[i] -= share
    return float(total)


@njit(nogil=True, cache=True)
def _chosen(ids: Ints, true: Ints, drawn: Ints, listed: bool, place: Ints, all_ids: Ints, role: Ints) -> int:
    """Labels that the loss is taken over: the shortlist, then true labels and drawn ones that are not on it.

    place  (L,) of -1, which it is again afterwards; returns how many they are
    """
    size = _listed(ids)
    count = size
    for b in range(size):
        all_ids[b] = ids[b]
        role[b] = -1 if listed else 0
        place[ids[b]] = b
    for label in true:
        if place[label] < 0:
            place[label] = count
            all_ids[count] = label
            count += 1
        role[place[label]] = 1
    for label in drawn:
        if place[label] < 0:
            place[label] = count
            all_ids[count] = label
            role[count] = -1
            count += 1
        elif role[place[label]] == 0:
            role[place[label]] = -1
    for b in range(count):
        place[all_ids[b]] = -1
    return count


@njit(nogil=True, cache=True, fastmath=True)
def _step(
    row: Floats, read: Floats, at: Ints, slope: np.float32, squares: Floats, which: int, rate: np.float32
) -> None:
    """One step down for a row of a matrix, whose derivative is slope times what was read."""
    norm = np.float32(0)
    for b in range(len(read)):
        norm += read[b] * read[b]
    squares[which] += slope * slope * norm
    step = rate * slope / np.sqrt(squares[which])
    for b in range(len(read)):
        if read[b] != 0:
            row[at[b]] -= step * read[b]


@njit(nogil=True, cache=True, fastmath=True)
def _back(
    ids: Ints, slope: Floats, weights: Blocks, squares: Squares, values: Values, rate: np.float32, derivatives: Values
) -> None:
    """Steps for one block; `derivatives` receives those of the loss by what it read of the listed labels."""
    (out, inner), (read, hidden), (passed, back) = weights, values, derivatives
    size = len(read)
    passed[:size] = 0
    back[:] = 0
    width = out.shape[1]
    for o in range(len(ids)):
        s = slope[o]
        if s == 0:
            continue
        row = out[ids[o]]
        if len(inner) == 0:
            for b in range(size):
                passed[b] += s * row[ids[b]]
            _step(row, read, ids, s, squares.out, ids[o], rate)
            continue
        norm = np.float32(0)
        for v in range(width):
            back[v] += s * row[v]
            norm += hidden[v] * hidden[v]
        squares.out[ids[o]] += s * s * norm
        step = rate * s / np.sqrt(squares.out[ids[o]])
        for v in range(width):
            row[v] -= step * hidden[v]
    if len(inner) == 0:
        return
    norm = np.float32(0)
    for v in range(width):
        if hidden[v] <= 0:
            back[v] = 0
        norm += back[v] * back[v]
    for b in range(size):
        row, value = inner[ids[b]], read[b]
        for v in range(width):
            passed[b] += back[v] * row[v]
        if value == 0 or norm == 0:
            continue
        squares.inner[ids[b]] += value * value * norm
        step = rate * value / np.sqrt(squares.inner[ids[b]])
        for v in range(width):
            row[v] -= step * back[v]


@njit(nogil=True, cache=True, fastmath=True)
def one_pass(
    order: Longs, drawn: Ints, lists: Lists, labels: LabelFacts, blocks: Blocks, squares: Squares, loss: Loss
) -> float:
    """One pass, document by document, each with the labels drawn for it; returns the sum of the losses on the way."""
    count, n_labels = blocks.out.shape[:2]
    k = lists.ids.shape[1]
    most = k + drawn.shape[1] + np.max(np.diff(lists.indptr)) if len(order) else k
    place = np.full(n_labels, np.int32(-1))
    ids, role, listed = np.zeros(most, np.int32), np.zeros(most, np.int32), np.ones(most, np.int32)
    F, slope = np.zeros(most, np.float32), np.zeros(most, np.float32)
    counts, weight = np.zeros(most, np.float32), np.zeros(most, np.float32)
    read = np.zeros((count, k), np.float32)
    hidden = np.zeros((count, blocks.inner.shape[2]), np.float32)
    passed, back = np.zeros(k, np.float32), np.zeros(blocks.inner.shape[2], np.float32)
    derivatives = Values(passed, back)
    total = 0.0
    for number in range(len(order)):
        d = order[number]
        true = lists.labels[lists.indptr[d] : lists.indptr[d + 1]]
        n = _chosen(lists.ids[d], true, drawn[number], loss.listed, place, ids, role)
        size = _listed(lists.ids[d])
        lowest = np.float32(0)
        for b in range(n):
            F[b] = lists.start[d, b] if b < size else lowest
            counts[b] = labels.counts[lists.fold[d], ids[b]]
            weight[b] = labels.weight[lists.fold[d], ids[b]]
        for block in range(count):
            _read(F, size, loss.scale, read[block])
            # labels that the loss leaves out are read by a block behind, if there is one
            wanted = role if block == count - 1 else listed
            own = Blocks(blocks.out[block], blocks.inner[block])
            _block(ids[:n], size, wanted, F, own, read[block], hidden[block])
        here = loss_gradient(F[:n], role[:n], counts, weight, loss, slope)
        if here == 0:
            continue
        total += here
        for block in range(count - 1, -1, -1):
            own, grown = (
                Blocks(blocks.out[block], blocks.inner[block]),
                Squares(squares.out[block], squares.inner[block]),
            )
            _back(ids[:n], slope, own, grown, Values(read[block, :size], hidden[block]), loss.rate, derivatives)
            for b in range(size):
                if loss.scale == 0:
                    slope[b] += passed[b]
                else:
                    slope[b] += passed[b] * read[block, b] * (np.float32(1) - read[block, b]) * loss.scale
    return total
