"""Growing one tree of FastXML: documents are parted so that both sides can rank their labels well.

A node holds a range of a permuted array of documents. Its split has three steps: a partition that raises nDCG, one
separator that learns to tell the two sides, and the documents sent where the separator says.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from longtail.arrays import Bools, Floats, Ints, SparseRows, keep_best, njit
from longtail.learners.linear.fastxml_forest import Forest
from longtail.learners.linear.fastxml_solver import L1Options, Sides, candidates, solve_l1
from longtail.learners.linear.kernels import next_random

#: Below this many labels insertion is the quickest way to sort them.
FEW = 24


class LabelPairs(NamedTuple):
    """The labels of the documents.

    gains         what each pair adds to a ranking, by document
    strengths     what it adds to a leaf's mean; 0 leaves the pair out
    label_weight  float32 (L,), factor on the leaves' means
    discount      float32 (L,), 1 / log2(rank + 1) for the ranks from 1
    """

    gains: SparseRows
    strengths: SparseRows
    label_weight: Floats
    discount: Floats


class GrowthOptions(NamedTuple):
    """How a tree grows.

    max_leaf     documents per leaf at most, unless they cannot be parted
    leaf_labels  labels that a leaf keeps
    tolerance    a partition is done when a turn raises its mean nDCG by less
    cost         C of the separators
    """

    max_leaf: int
    leaf_labels: int
    tolerance: float
    cost: float
    separator: L1Options


@njit(nogil=True, cache=True)
def rank(gain: Floats, side: int, order: Ints, spare: Ints, count: Ints) -> None:
    """Labels by falling gain[:, side], ties by label, into order; spare int32 (labels,), count int32 (256,).

    Gains are not negative, so their bits sort as they do.
    """
    size = 0
    n = len(gain)
    for label in range(n):
        if gain[label, side] > 0:
            order[size] = label
            size += 1
    if size <= FEW:
        for a in range(1, size):
            label = order[a]
            value = gain[label, side]
            b = a
            while b > 0 and gain[order[b - 1], side] < value:
                order[b] = order[b - 1]
                b -= 1
            order[b] = label
    else:
        bits = gain.view(np.uint32)
        for shift in (0, 8, 16, 24):
            count[:] = 0
            for a in range(size):
                count[255 - ((bits[order[a], side] >> shift) & 255)] += 1
            total = 0
            single = False
            for digit in range(256):
                single |= count[digit] == size
                count[digit], total = total, total + count[digit]
            if single:
                continue
            for a in range(size):
                digit = 255 - ((bits[order[a], side] >> shift) & 255)
                spare[count[digit]] = order[a]
                count[digit] += 1
            order[:size] = spare[:size]
    for label in range(n):
        if not gain[label, side] > 0:
            order[size] = label
            size += 1


@njit(nogil=True, cache=True)
def part(pairs: SparseRows, n_labels: int, discount: Floats, tolerance: float, positive: Bools) -> float:
    """Improves a partition of documents in place; the mean nDCG it ends with.

    pairs     the labels of each document (numbered from 0 to n_labels) and the gain of each
    discount  float32 (at least n_labels,), 1 / log2(rank + 1) for the ranks from 1

    In turns each side ranks the labels by the gains of its documents, and each document goes to the side whose
    ranking gives it more (it stays if they give the same). Neither turn can lower the sum.
    """
    start, label, gain = pairs.start, pairs.indices, pairs.values
    n = len(start) - 1
    total = np.zeros((n_labels, 2), dtype=np.float32)
    place = np.zeros((n_labels, 2), dtype=np.float32)
    order = np.zeros(n_labels, dtype=np.int32)
    spare = np.zeros(n_labels, dtype=np.int32)
    count = np.zeros(256, dtype=np.int32)
    before = np.float64(-1)
    while True:
        total[:] = 0
        for i in range(n):
            side = 1 if positive[i] else 0
            for q in range(start[i], start[i + 1]):
                total[label[q], side] += gain[q]
        for side in range(2):
            rank(total, side, order, spare, count)
            for a in range(n_labels):
                place[order[a], side] = discount[a]
        mean = np.float64(0)
        for i in range(n):
            low, high = np.float32(0), np.float32(0)
            for q in range(start[i], start[i + 1]):
                low += gain[q] * place[label[q], 0]
                high += gain[q] * place[label[q], 1]
            if high != low:
                positive[i] = high > low
            mean += max(low, high) / n
        if mean - before < tolerance:
            return mean
        before = mean


@njit(nogil=True, cache=True)
def _labels_of(pairs: SparseRows, rows: Ints, slot: Ints) -> tuple[SparseRows, int]:
    """The pairs of some documents with labels numbered from 0 in rising order; slot int32 (L,), zeros, left so."""
    size = 0
    for row in rows:
        size += pairs.start[row + 1] - pairs.start[row]
    seen = np.empty(min(size, len(slot)), dtype=np.int32)
    start = np.zeros(len(rows) + 1, dtype=np.int64)
    label = np.empty(size, dtype=np.int32)
    gain = np.empty(size, dtype=np.float32)
    n_seen = 0
    for row in rows:
        for q in range(pairs.start[row], pairs.start[row + 1]):
            if pairs.values[q] > 0 and slot[pairs.indices[q]] == 0:
                slot[pairs.indices[q]] = 1
                seen[n_seen] = pairs.indices[q]
                n_seen += 1
    seen[:n_seen].sort()
    for a in range(n_seen):
        slot[seen[a]] = a + 1
    size = 0
    for i in range(len(rows)):
        for q in range(pairs.start[rows[i]], pairs.start[rows[i] + 1]):
            if pairs.values[q] > 0:
                label[size] = slot[pairs.indices[q]] - 1
                gain[size] = pairs.values[q]
                size += 1
        start[i + 1] = size
    for a in range(n_seen):
        slot[seen[a]] = 0
    return SparseRows(start, label[:size].copy(), gain[:size].copy()), n_seen


@njit(nogil=True, cache=True)
def leaf_means(
    pairs: SparseRows, label_weight: Floats, rows: Ints, keep: int, total: Floats, slot: Ints
) -> tuple[Ints, Floats]:
    """Mean label vector of some documents times label_weight: the `keep` largest entries, labels rising.

    A pair of strength 0 is no example: its document is not counted for that label.
    total  float32 (L,), zeros, and left so
    slot   int32 (L,), zeros, and left so
    """
    size = 0
    for row in rows:
        size += pairs.start[row + 1] - pairs.start[row]
    seen = np.empty(min(size, len(slot)), dtype=np.int32)
    n_seen = 0
    for row in rows:
        for q in range(pairs.start[row], pairs.start[row + 1]):
            label = pairs.indices[q]
            if slot[label] == 0:
                seen[n_seen] = label
                n_seen += 1
                slot[label] = len(rows) + 1
            if pairs.values[q] > 0:
                total[label] += pairs.values[q]
            else:
                slot[label] -= 1
    keep = min(keep, n_seen)
    labels = np.empty(keep, dtype=np.int32)
    shares = np.empty(keep, dtype=np.float32)
    filled = 0
    for a in range(n_seen):
        label = seen[a]
        if total[label] > 0:
            share = min(np.float32(1), total[label] / np.float32(slot[label] - 1)) * label_weight[label]
            filled = keep_best(share, label, labels, shares, filled)
        total[label] = 0
        slot[label] = 0
    order = np.argsort(labels[:filled])
    return labels[:filled][order], shares[:filled][order]


@njit(nogil=True, cache=True)
def _room(array: np.ndarray, needed: int) -> np.ndarray:
    """The array, or a longer copy if it is too short."""
    if needed <= len(array):
        return array
    longer = np.empty(max(needed, 2 * len(array)), dtype=array.dtype)
    longer[: len(array)] = array
    return longer


@njit(nogil=True, cache=True)
def grow(rows: SparseRows, n_features: int, pairs: LabelPairs, options: GrowthOptions, seed: int) -> Forest:
    """A forest of one tree, nodes numbered level by level; rows are the features of the documents, rising."""
    n = len(rows.start) - 1
    state = np.array([np.uint64(seed) | np.uint64(1)], dtype=np.uint64)
    documents = np.arange(n).astype(np.int32)
    room = 2 * n + 1
    child = np.full(room, -1, dtype=np.int32)
    bias = np.zeros(room, dtype=np.float32)
    begin = np.zeros(room, dtype=np.int32)
    end = np.zeros(room, dtype=np.int32)
    weight_start = np.zeros(room + 1, dtype=np.int64)
    leaf_start = np.zeros(room + 1, dtype=np.int64)
    features = np.empty(1024, dtype=np.int32)
    weights = np.empty(1024, dtype=np.float32)
    labels = np.empty(1024, dtype=np.int32)
    shares = np.empty(1024, dtype=np.float32)
    feature_bounds = np.zeros((n_features, 2), dtype=np.float32)
    feature_slot = np.zeros(n_features, dtype=np.int32)
    label_slot = np.zeros(len(pairs.label_weight), dtype=np.int32)
    label_total = np.zeros(len(pairs.label_weight), dtype=np.float32)
    end[0] = n
    nodes, node = 1, 0
    n_weights, n_labels = 0, 0
    while node < nodes:
        own = documents[begin[node] : end[node]]
        size = len(own)
        split = 0  # documents on the lower side
        if size > options.max_leaf:
            positive = np.empty(size, dtype=np.bool_)
            for i in range(size):
                positive[i] = next_random(state) & np.uint64(1) == np.uint64(1)
            local, n_local = _labels_of(pairs.gains, own, label_slot)
            part(local, n_local, pairs.discount, options.tolerance, positive)
            n_positive = positive.sum()
            if 0 < n_positive < size:
                cost = options.cost * size
                sides = Sides(positive, cost / n_positive, cost / (size - n_positive))
                columns = candidates(rows, own, sides, feature_bounds, feature_slot)
                used = columns.features
                w = solve_l1(columns, sides, options.separator, state)
                # summed in the order in which a document's features are read, so that scoring finds the same sides
                z = np.full(size, w[len(used)], dtype=np.float32)
                for a in range(len(used)):
                    if w[a] != 0:
                        for p in range(columns.start[a], columns.start[a + 1]):
                            z[columns.rows[p]] += columns.values[p] * w[a]
                for i in range(size):
                    split += z[i] < 0
        if 0 < split < size:
            low, high = 0, 0
            upper = np.empty(size - split, dtype=np.int32)
            for i in range(size):
                if z[i] < 0:
                    own[low] = own[i]
                    low += 1
                else:
                    upper[high] = own[i]
                    high += 1
            own[low:] = upper
            child[node] = nodes
            bias[node] = w[len(used)]
            begin[nodes], end[nodes] = begin[node], begin[node] + split
            begin[nodes + 1], end[nodes + 1] = begin[node] + split, end[node]
            nodes += 2
            features = _room(features, n_weights + len(used))
            weights = _room(weights, n_weights + len(used))
            for a in range(len(used)):
                if w[a] != 0:
                    features[n_weights] = used[a]
                    weights[n_weights] = w[a]
                    n_weights += 1
        else:
            leaf_label, leaf_share = leaf_means(
                pairs.strengths, pairs.label_weight, own, options.leaf_labels, label_total, label_slot
            )
            labels = _room(labels, n_labels + len(leaf_label))
            shares = _room(shares, n_labels + len(leaf_label))
            labels[n_labels : n_labels + len(leaf_label)] = leaf_label
            shares[n_labels : n_labels + len(leaf_label)] = leaf_share
            n_labels += len(leaf_label)
        node += 1
        weight_start[node] = n_weights
        leaf_start[node] = n_labels
    return Forest(
        np.array([0, nodes]), child[:nodes].copy(), bias[:nodes].copy(),
        weight_start[: nodes + 1].copy(), features[:n_weights].copy(), weights[:n_weights].copy(),
        leaf_start[: nodes + 1].copy(), labels[:n_labels].copy(), shares[:n_labels].copy(),
    )  # fmt: skip
