"""A fitted forest of FastXML's trees as flat arrays: what a model file keeps, and how documents are scored with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from longtail.arrays import Floats, Ints, Longs, SparseRows, append_below, keep_best, njit
from longtail.learners.linear.tree import require_starts
from longtail.sparse import starts_of


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A view that cannot be written to, as the arrays of a model file are."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


class Forest(NamedTuple):
    """Nodes of all trees, one tree after the other.

    tree_start    int64 (trees + 1,), the root of each tree
    child         int32 (nodes,), where documents with w.x + bias < 0 go; the others go to the next node; -1 in a leaf
    bias          float32 (nodes,)
    weight_start  int64 (nodes + 1,)
    feature       int32, rising within a node
    weight        float32
    leaf_start    int64 (nodes + 1,)
    label         int32, rising within a leaf
    share         float32, the label's share of the leaf's documents, in [0, 1]
    """

    tree_start: Longs
    child: Ints
    bias: Floats
    weight_start: Longs
    feature: Ints
    weight: Floats
    leaf_start: Longs
    label: Ints
    share: Floats

    @classmethod
    def joined(cls, forests: Sequence[Forest]) -> Forest:
        """All trees of several forests; arrays are read-only as loaded ones are: kernels are compiled once for both."""
        first = starts_of([len(forest.child) for forest in forests])
        moved = list(zip(forests, first[:-1], strict=True))
        made = cls(
            np.concatenate([*(forest.tree_start[:-1] + root for forest, root in moved), first[-1:]]),
            np.concatenate([np.where(f.child < 0, f.child, f.child + root).astype(np.int32) for f, root in moved]),
            np.concatenate([forest.bias for forest in forests]),
            starts_of(np.concatenate([np.diff(forest.weight_start) for forest in forests])),
            np.concatenate([forest.feature for forest in forests]),
            np.concatenate([forest.weight for forest in forests]),
            starts_of(np.concatenate([np.diff(forest.leaf_start) for forest in forests])),
            np.concatenate([forest.label for forest in forests]),
            np.concatenate([forest.share for forest in forests]),
        )
        return cls(*(read_only(array) for array in made))

    @property
    def trees(self) -> int:
        return len(self.tree_start) - 1

    def arrays(self) -> dict[str, NDArray[Any]]:
        return self._asdict()

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]], n_features: int, n_labels: int) -> Forest:
        """The forest of a model file; every index is checked, since kernels trust them."""
        wanted = {
            "tree_start": np.int64, "child": np.int32, "bias": np.float32,
            "weight_start": np.int64, "feature": np.int32, "weight": np.float32,
            "leaf_start": np.int64, "label": np.int32, "share": np.float32,
        }  # fmt: skip
        if set(arrays) != set(wanted):
            raise ValueError(f"a forest keeps {sorted(wanted)}, the file has {sorted(arrays)}")
        for name, dtype in wanted.items():
            if arrays[name].dtype != dtype or arrays[name].ndim != 1:
                raise ValueError(f"{name} must be a row of {np.dtype(dtype).name}")
        forest = cls(**{name: read_only(array) for name, array in arrays.items()})
        nodes = len(forest.child)
        require_starts("tree_start", forest.tree_start, nodes)
        require_starts("weight_start", forest.weight_start, len(forest.weight), nodes)
        require_starts("leaf_start", forest.leaf_start, len(forest.share), nodes)
        if forest.trees == 0 or (np.diff(forest.tree_start) == 0).any():
            raise ValueError("a tree without nodes")
        if len(forest.bias) != nodes or len(forest.feature) != len(forest.weight):
            raise ValueError("nodes and biases, or features and weights, differ in number")
        if len(forest.label) != len(forest.share):
            raise ValueError("labels and shares differ in number")
        if not _indices_hold(forest, n_features, n_labels):
            raise ValueError("a node, feature, label or share is out of range")
        return forest


@njit(nogil=True, cache=True)
def _indices_hold(forest: Forest, n_features: int, n_labels: int) -> bool:
    """Whether children come behind their parents within the tree, and features and labels rise within their range."""
    for tree in range(len(forest.tree_start) - 1):
        for node in range(forest.tree_start[tree], forest.tree_start[tree + 1]):
            if forest.child[node] != -1 and (
                forest.child[node] <= node or forest.child[node] + 1 >= forest.tree_start[tree + 1]
            ):
                return False
            before = -1
            for p in range(forest.weight_start[node], forest.weight_start[node + 1]):
                if forest.feature[p] <= before or forest.feature[p] >= n_features:
                    return False
                before = forest.feature[p]
            before = -1
            for p in range(forest.leaf_start[node], forest.leaf_start[node + 1]):
                if forest.label[p] <= before or forest.label[p] >= n_labels or not 0 <= forest.share[p] <= 1:
                    return False
                before = forest.label[p]
    return True


@njit(nogil=True, cache=True)
def route(rows: SparseRows, forest: Forest, lookup: Floats, out: Ints) -> None:
    """The leaf of each document in each tree, into out int32 (trees, documents).

    Documents go down together, so that a node's weights are unpacked once for all that reach it; lookup is float32
    (D,), zeros, and is left so.
    """
    n = out.shape[1]
    documents = np.empty(n, dtype=np.int32)
    upper = np.empty(n, dtype=np.int32)
    waiting = np.empty((n + 1, 3), dtype=np.int64)  # node, begin, end; ranges never overlap
    for tree in range(len(forest.tree_start) - 1):
        for d in range(n):
            documents[d] = d
        waiting[0, 0], waiting[0, 1], waiting[0, 2] = forest.tree_start[tree], 0, n
        depth = 1 if n > 0 else 0
        while depth > 0:
            depth -= 1
            node, begin, end = waiting[depth]
            if forest.child[node] < 0:
                for a in range(begin, end):
                    out[tree, documents[a]] = node
                continue
            for p in range(forest.weight_start[node], forest.weight_start[node + 1]):
                lookup[forest.feature[p]] = forest.weight[p]
            low, high = begin, 0
            for a in range(begin, end):
                d = documents[a]
                z = forest.bias[node]
                for p in range(rows.start[d], rows.start[d + 1]):
                    z += rows.values[p] * lookup[rows.indices[p]]
                if z < 0:
                    documents[low] = d
                    low += 1
                else:
                    upper[high] = d
                    high += 1
            documents[low:end] = upper[:high]
            for p in range(forest.weight_start[node], forest.weight_start[node + 1]):
                lookup[forest.feature[p]] = 0
            if low > begin:
                waiting[depth, 0], waiting[depth, 1], waiting[depth, 2] = forest.child[node], begin, low
                depth += 1
            if high > 0:
                waiting[depth, 0], waiting[depth, 1], waiting[depth, 2] = forest.child[node] + 1, low, end
                depth += 1


class Centres(NamedTuple):
    """The mean documents mu of the labels, by feature: labels and their values, feature after feature.

    start  int64 (D + 1,); label int32; value float32; norm float32 (L,), |mu|^2
    """

    start: Longs
    label: Ints
    value: Floats
    norm: Floats


class TailOptions(NamedTuple):
    """How far the centres count: labels re-ranked, weight of the trees, and how fast the tail term falls."""

    shortlist: int
    alpha: float
    gamma: float


@njit(nogil=True, cache=True)
def _add_shares(leaf: Ints, forest: Forest, d: int, total: Floats, seen: Ints) -> int:
    """Adds up the shares of document d's leaves: total[l] for the labels seen[:size]; size.

    leaf  int32 (trees, documents); total  float32 (L,), zeros on entry; seen  int32 (L,)
    """
    size = 0
    for tree in range(len(leaf)):
        node = leaf[tree, d]
        for p in range(forest.leaf_start[node], forest.leaf_start[node + 1]):
            if forest.share[p] > 0:
                if total[forest.label[p]] == 0:
                    seen[size] = forest.label[p]
                    size += 1
                total[forest.label[p]] += forest.share[p]
    return size


@njit(nogil=True, cache=True)
def best_by_trees(leaf: Ints, forest: Forest, n_labels: int, out_ids: Ints, out_values: Floats) -> None:
    """The best labels of each document by the mean of its leaves, into (n, k) arrays padded with -1 and 0."""
    trees = np.float32(len(leaf))
    total = np.zeros(n_labels, dtype=np.float32)
    seen = np.empty(n_labels, dtype=np.int32)
    for d in range(len(out_ids)):
        size = _add_shares(leaf, forest, d, total, seen)
        filled = 0
        for a in range(size):
            filled = keep_best(total[seen[a]] / trees, seen[a], out_ids[d], out_values[d], filled)
            total[seen[a]] = 0
        out_ids[d, filled:] = -1
        out_values[d, filled:] = 0


@njit(nogil=True, cache=True)
def best_by_trees_and_centres(
    leaf: Ints,
    forest: Forest,
    rows: SparseRows,
    centres: Centres,
    options: TailOptions,
    out_ids: Ints,
    out_values: Floats,
) -> None:
    """The same after re-ranking: tree^alpha times tail^(1 - alpha), tail = 2 / (1 + exp(gamma |x - mu|^2)).

    The labels best by the trees are re-ranked; all others come behind them, in their own order by the same rule.
    """
    trees = np.float64(len(leaf))
    k = out_ids.shape[1]
    n_labels = len(centres.norm)
    total = np.zeros(n_labels, dtype=np.float32)
    near = np.zeros(n_labels, dtype=np.float32)  # x.mu
    seen = np.empty(n_labels, dtype=np.int32)
    behind_ids = np.empty(k, dtype=np.int32)
    behind_values = np.empty(k, dtype=np.float32)
    for d in range(len(out_ids)):
        size = _add_shares(leaf, forest, d, total, seen)
        chosen = seen[:size].copy()
        if size > options.shortlist:
            chosen.sort()
            chosen = chosen[np.argsort(-total[chosen], kind="mergesort")]
        length = 0.0
        for p in range(rows.start[d], rows.start[d + 1]):
            length += np.float64(rows.values[p]) ** 2
        scale = np.float32(1 / np.sqrt(length)) if length > 0 else np.float32(0)
        for p in range(rows.start[d], rows.start[d + 1]):
            v = rows.values[p] * scale
            for q in range(centres.start[rows.indices[p]], centres.start[rows.indices[p] + 1]):
                near[centres.label[q]] += v * centres.value[q]
        unit = 1.0 if length > 0 else 0.0
        filled, behind = 0, 0
        for a in range(size if k > options.shortlist else min(size, options.shortlist)):
            found = chosen[a]
            distance = options.gamma * max(0.0, unit - 2.0 * near[found] + centres.norm[found])
            tail = np.log(2.0) - distance - np.log1p(np.exp(-distance))
            value = np.exp(options.alpha * np.log(total[found] / trees) + (1.0 - options.alpha) * tail)
            # a label that is listed keeps a score, however far its centre
            kept = np.float32(min(1.0, max(value, 1e-37)))
            if a < options.shortlist:
                filled = keep_best(kept, found, out_ids[d], out_values[d], filled)
            else:
                behind = keep_best(kept, found, behind_ids, behind_values, behind)
        for a in range(behind):
            filled = append_below(behind_values[a], behind_ids[a], out_ids[d], out_values[d], filled)
        out_ids[d, filled:] = -1
        out_values[d, filled:] = 0
        total[seen[:size]] = 0
        near[:] = 0
