"""A fitted label tree: its shape, its separators, and beam search over them.

Nodes are numbered level by level. The slots of a node are its children: nodes for an inner node, labels for a leaf.
Separators are kept node by node as sparse rows (feature -> slots), so that scoring reads a document's features once
for all children of a node.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from longtail.arrays import Bools, Floats, Ints, Longs, Shorts, SparseRows, append_below, give_back, keep_best, njit
from longtail.learners.linear.kernels import SQUARED_HINGE
from longtail.learners.linear.nodes import Separators
from longtail.sparse import starts_of

#: Documents scored together: enough that a node's separators are unpacked once for many of them.
CHUNK = 2048


@dataclass(frozen=True, eq=False)
class Shape:
    """Which node lies under which, and which labels under which leaf.

    level_start  int32 (levels + 1,), first node of each level; all nodes of level 0 are roots
    slot_start   int32 (nodes + 1,), first slot of each node
    slot_target  int32 (slots,), the child node or the label
    leaf         bool (nodes,)
    """

    level_start: NDArray[np.int32]
    slot_start: NDArray[np.int32]
    slot_target: NDArray[np.int32]
    leaf: NDArray[np.bool_]

    @property
    def nodes(self) -> int:
        return len(self.leaf)


class Tree(NamedTuple):
    """Shape and separators as flat arrays: what a model file keeps, and what kernels take."""

    level_start: Ints
    slot_start: Ints
    slot_target: Ints
    leaf: Bools
    bias: Floats  # (slots,)
    feature_start: Longs  # (nodes + 1,)
    features: Ints  # rising within a node
    row_start: Longs  # (features + 1,)
    column: Shorts  # slot within the node
    weight: Floats

    @classmethod
    def of(cls, shape: Shape, separators: list[Separators]) -> Tree:
        """A tree of its nodes' separators, whose list is empty afterwards: both would hold all weights."""
        feature_start = starts_of([len(s.features) for s in separators])
        pieces: dict[str, list[NDArray[Any]]] = {
            name: [getattr(s, name) for s in separators]
            for name in ("bias", "features", "row_length", "column", "weight")
        }
        separators.clear()

        def joined(name: str) -> NDArray[Any]:
            whole = np.concatenate(pieces.pop(name))
            give_back()
            return whole

        return cls(
            shape.level_start,
            shape.slot_start,
            shape.slot_target,
            shape.leaf,
            joined("bias"),
            feature_start,
            joined("features"),
            starts_of(joined("row_length")),
            joined("column"),
            joined("weight"),
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        return self._asdict()

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]], n_features: int, n_labels: int) -> Tree:
        """The tree of a model file; every index is checked, since kernels trust them."""
        wanted = {
            "level_start": np.int32, "slot_start": np.int32, "slot_target": np.int32, "leaf": np.bool_,
            "bias": np.float32, "feature_start": np.int64, "features": np.int32, "row_start": np.int64,
            "column": np.uint16, "weight": np.float32,
        }  # fmt: skip
        if set(arrays) != set(wanted):
            raise ValueError(f"a tree keeps {sorted(wanted)}, the file has {sorted(arrays)}")
        for name, dtype in wanted.items():
            if arrays[name].dtype != dtype or arrays[name].ndim != 1:
                raise ValueError(f"{name} must be a row of {np.dtype(dtype).name}")
        tree = cls(**arrays)
        nodes, slots = len(tree.leaf), len(tree.slot_target)
        require_starts("level_start", tree.level_start, nodes)
        require_starts("slot_start", tree.slot_start, slots, nodes)
        require_starts("feature_start", tree.feature_start, len(tree.features), nodes)
        require_starts("row_start", tree.row_start, len(tree.weight), len(tree.features))
        if len(tree.column) != len(tree.weight) or len(tree.bias) != slots:
            raise ValueError("columns, weights and biases differ in number")
        if not _indices_hold(tree, n_features, n_labels):
            raise ValueError("a label, node, feature or slot number is out of range")
        return tree


def require_starts(name: str, starts: NDArray[Any], total: int, count: int | None = None) -> None:
    if (
        len(starts) == 0
        or (count is not None and len(starts) != count + 1)
        or starts[0] != 0
        or starts[-1] != total
        or (starts[1:] < starts[:-1]).any()
    ):
        raise ValueError(f"{name} does not rise from 0 to {total}")


@njit(nogil=True, cache=True)
def _indices_hold(tree: Tree, n_features: int, n_labels: int) -> bool:
    """Whether every stored index points where it may: children one level down and only once, features rising."""
    nodes = len(tree.leaf)
    for level in range(len(tree.level_start) - 1):
        low = tree.level_start[level + 1]
        high = tree.level_start[level + 2] if level + 2 < len(tree.level_start) else nodes
        for node in range(tree.level_start[level], tree.level_start[level + 1]):
            for slot in range(tree.slot_start[node], tree.slot_start[node + 1]):
                target = tree.slot_target[slot]
                if tree.leaf[node]:
                    if target < 0 or target >= n_labels:
                        return False
                elif target < low or target >= high:
                    return False
    for node in range(nodes):
        slots = tree.slot_start[node + 1] - tree.slot_start[node]
        before = -1
        for row in range(tree.feature_start[node], tree.feature_start[node + 1]):
            if tree.features[row] <= before or tree.features[row] >= n_features:
                return False
            before = tree.features[row]
            for q in range(tree.row_start[row], tree.row_start[row + 1]):
                if tree.column[q] >= slots:
                    return False
    return True


@njit(nogil=True, cache=True)
def _find(features: Ints, low: int, high: int, wanted: int) -> int:
    """Row of a feature between low and high, or -1."""
    end = high
    while low < high:
        middle = (low + high) >> 1
        if features[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    if low < end and features[low] == wanted:
        return low
    return -1


class SearchOptions(NamedTuple):
    """How trees are searched: the loss of their separators, nodes kept per level, factor on what lies above."""

    loss: int
    beam: int
    discount: float


@njit(nogil=True, cache=True)
def search(
    rows: SparseRows,
    first: int,
    tree: Tree,
    options: SearchOptions,
    lookup: Ints,
    out_ids: Ints,
    out_scores: Floats,
) -> None:
    """Beam search for documents first, first + 1, ...: the best labels of each by the sum of log-scores.

    An edge adds -max(0, 1 - w.x)^2 (or -log(1 + exp(-w.x))); what lies above is multiplied by the discount at each
    step down. Each level keeps the best nodes of a document; leaves give their labels when they are reached. Sums are
    added in the order of a document's features, whichever way they are looked up, so that neither the number of
    labels asked for nor the other documents change a score.

    lookup             int32 (D,), all -1, and left so
    out_ids            int32 (documents, k), filled with labels, padded with -1
    out_scores         float32 (documents, k), log-scores
    """
    n, k = out_ids.shape
    loss, beam, discount = options.loss, options.beam, np.float32(options.discount)
    filled = np.zeros(n, dtype=np.int32)
    widest, most_rows = 0, 0
    for node in range(len(tree.leaf)):
        widest = max(widest, tree.slot_start[node + 1] - tree.slot_start[node])
        if tree.slot_start[node + 1] - tree.slot_start[node] == 2:
            most_rows = max(most_rows, tree.feature_start[node + 1] - tree.feature_start[node])
    z = np.zeros(widest, dtype=np.float32)
    pairs = np.zeros((most_rows, 2), dtype=np.float32)
    reached_nodes = np.zeros((n, beam), dtype=np.int32)
    reached_scores = np.zeros((n, beam), dtype=np.float32)
    reached = np.zeros(n, dtype=np.int32)
    next_nodes = np.zeros((n, beam), dtype=np.int32)
    next_scores = np.zeros((n, beam), dtype=np.float32)
    next_reached = np.zeros(n, dtype=np.int32)
    by_document = np.zeros(n * beam, dtype=np.int32)
    by_score = np.zeros(n * beam, dtype=np.float32)
    for level in range(len(tree.level_start) - 1):
        low, high = tree.level_start[level], tree.level_start[level + 1]
        next_reached[:] = 0
        # first the best node of each document, then the others: by then some cannot matter any more
        for turn in range(1 if level == 0 else 2):
            begin = np.zeros(high - low + 1, dtype=np.int64)
            if level > 0:
                for fill in range(2):
                    for d in range(n):
                        for b in range(turn, reached[d] if turn == 1 else min(1, reached[d])):
                            node = reached_nodes[d, b]
                            above = reached_scores[d, b] * discount
                            # no label below can score more than its node
                            bounded = tree.leaf[node] or discount == 1.0
                            if bounded and filled[d] == k and above < out_scores[d, k - 1]:
                                continue
                            if fill == 0:
                                begin[node - low + 1] += 1
                            else:
                                by_document[begin[node - low]] = d
                                by_score[begin[node - low]] = above
                                begin[node - low] += 1
                    if fill == 0:
                        for v in range(high - low):
                            begin[v + 1] += begin[v]
                # filling moved each start to the next one's place
                for v in range(high - low, 0, -1):
                    begin[v] = begin[v - 1]
                begin[0] = 0
            for node in range(low, high):
                visitors = n if level == 0 else begin[node - low + 1] - begin[node - low]
                if visitors == 0:
                    continue
                slots = tree.slot_start[node + 1] - tree.slot_start[node]
                row_low, row_high = tree.feature_start[node], tree.feature_start[node + 1]
                unpack = visitors * 8 > (row_high - row_low) // 16
                if unpack:
                    for row in range(row_low, row_high):
                        lookup[tree.features[row]] = np.int32(row - row_low)
                if unpack and slots == 2:
                    for row in range(row_low, row_high):
                        pairs[row - row_low, 0] = 0
                        pairs[row - row_low, 1] = 0
                        for q in range(tree.row_start[row], tree.row_start[row + 1]):
                            pairs[row - row_low, tree.column[q]] = tree.weight[q]
                for visitor in range(visitors):
                    d = visitor if level == 0 else by_document[begin[node - low] + visitor]
                    above = np.float32(0) if level == 0 else by_score[begin[node - low] + visitor]
                    for j in range(slots):
                        z[j] = tree.bias[tree.slot_start[node] + j]
                    start, stop = rows.start[first + d], rows.start[first + d + 1]
                    if unpack and slots == 2:
                        z0, z1 = z[0], z[1]
                        for p in range(start, stop):
                            at = lookup[rows.indices[p]]
                            if at >= 0:
                                z0 += rows.values[p] * pairs[at, 0]
                                z1 += rows.values[p] * pairs[at, 1]
                        z[0], z[1] = z0, z1
                    else:
                        for p in range(start, stop):
                            if unpack:
                                row = int(lookup[rows.indices[p]])
                                if row < 0:
                                    continue
                                row += row_low
                            else:
                                row = _find(tree.features, row_low, row_high, rows.indices[p])
                                if row < 0:
                                    continue
                            v = rows.values[p]
                            for q in range(tree.row_start[row], tree.row_start[row + 1]):
                                z[tree.column[q]] += v * tree.weight[q]
                    for j in range(slots):
                        if loss == SQUARED_HINGE:
                            short = max(np.float32(0), np.float32(1) - z[j])
                            score = above - short * short
                        elif z[j] > 0:
                            score = above - np.log1p(np.exp(-z[j]))
                        else:
                            score = above + z[j] - np.log1p(np.exp(z[j]))
                        target = tree.slot_target[tree.slot_start[node] + j]
                        if tree.leaf[node]:
                            if filled[d] < k or score >= out_scores[d, k - 1]:
                                filled[d] = keep_best(score, target, out_ids[d], out_scores[d], filled[d])
                        else:
                            next_reached[d] = keep_best(score, target, next_nodes[d], next_scores[d], next_reached[d])
                if unpack:
                    for row in range(row_low, row_high):
                        lookup[tree.features[row]] = -1
        reached_nodes, next_nodes = next_nodes, reached_nodes
        reached_scores, next_scores = next_scores, reached_scores
        reached, next_reached = next_reached, reached
    for d in range(n):
        for b in range(filled[d], k):
            out_ids[d, b] = -1
            out_scores[d, b] = 0


#: Labels per tree that the first places of the mean are taken from: a label may rank low in one tree and high on the
#: mean. Half as many places are filled; those behind are taken from lists twice as long, and so on.
DEPTH = 50
#: A log-score below this is as good as none; its exponential is far from the smallest number there is.
FAINTEST = -69.0


def depths(k: int, n_labels: int, n_trees: int) -> list[tuple[int, int]]:
    """(labels per tree, places): which lists the places up to each number are taken from, until k are.

    What is asked for decides how many steps there are, never what a step is: the first k of any longer list are the
    k best.
    """
    if n_trees == 1:
        return [(k, k)]
    steps = [(min(DEPTH, n_labels), DEPTH // 2)]
    while steps[-1][1] < k and steps[-1][0] < n_labels:
        steps.append((min(2 * steps[-1][0], n_labels), 2 * steps[-1][1]))
    depth, places = steps[-1]
    return [*steps[:-1], (depth, k if depth == n_labels else min(k, places))]


@njit(nogil=True, cache=True)
def average(ids: Ints, scores: Floats, steps: Longs, out_ids: Ints, out_values: Floats) -> None:
    """Mean of exp(log-score) over trees for each document; a label that a tree does not list counts 0 there.

    ids, scores            (trees, n, m), the trees' lists
    steps                  int64 (steps, 2), as `depths` gives them
    out_ids, out_values    (n, k)
    """
    trees, n, _ = ids.shape
    k = out_ids.shape[1]
    most = steps[-1, 0]
    labels = np.zeros(trees * most, dtype=np.int32)
    values = np.zeros(trees * most, dtype=np.float32)
    best_ids = np.empty(k, dtype=np.int32)
    best_values = np.empty(k, dtype=np.float32)
    for d in range(n):
        filled = 0
        for step in range(len(steps)):
            size = 0
            for t in range(trees):
                for b in range(steps[step, 0]):
                    if ids[t, d, b] < 0 or scores[t, d, b] < FAINTEST:
                        break
                    labels[size] = ids[t, d, b]
                    values[size] = np.exp(scores[t, d, b])
                    size += 1
            found = 0
            if trees == 1:  # sorted by log-scores, of which several may have the same exponential
                for a in range(size):
                    best_ids[a], best_values[a] = labels[a], values[a]
                found = size
            else:
                listed = np.sort(out_ids[d, :filled])
                room = steps[step, 1] - filled
                order = np.argsort(labels[:size], kind="mergesort")
                a = 0
                while a < size:
                    label = labels[order[a]]
                    total = np.float32(0)
                    while a < size and labels[order[a]] == label:
                        total += values[order[a]]
                        a += 1
                    at = np.searchsorted(listed, label)
                    if at == filled or listed[at] != label:
                        found = keep_best(total / np.float32(trees), label, best_ids[:room], best_values[:room], found)
            for a in range(found):
                filled = append_below(best_values[a], best_ids[a], out_ids[d], out_values[d], filled)
        for b in range(filled, k):
            out_ids[d, b] = -1
            out_values[d, b] = 0
