"""A fitted forest of FastXML's trees as flat arrays: what a model file keeps, and how documents are scored with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from longtail.arrays import Floats, Ints, Longs
from longtail.learners.linear.tree import _require_starts, _starts, keep_best


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A view that cannot be written to, as the arrays of a model file are."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


@dataclass(frozen=True, eq=False)
class Forest:
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

    tree_start: NDArray[np.int64]
    child: NDArray[np.int32]
    bias: NDArray[np.float32]
    weight_start: NDArray[np.int64]
    feature: NDArray[np.int32]
    weight: NDArray[np.float32]
    leaf_start: NDArray[np.int64]
    label: NDArray[np.int32]
    share: NDArray[np.float32]

    def __post_init__(self) -> None:
        """Arrays are read-only whether trained or loaded, so that kernels are compiled once for both."""
        for f in fields(self):
            object.__setattr__(self, f.name, read_only(getattr(self, f.name)))

    @classmethod
    def of(cls, trees: Sequence[tuple[NDArray[Any], ...]]) -> Forest:
        """From what `grow` gives."""
        child, bias, weight_start, feature, weight, leaf_start, label, share = zip(*trees, strict=True)
        tree_start = _starts([len(c) for c in child])
        roots = zip(child, tree_start[:-1], strict=True)
        return cls(
            tree_start,
            np.concatenate([np.where(c < 0, c, c + root).astype(np.int32) for c, root in roots]),
            np.concatenate(bias),
            _starts(np.concatenate([np.diff(s) for s in weight_start])),
            np.concatenate(feature),
            np.concatenate(weight),
            _starts(np.concatenate([np.diff(s) for s in leaf_start])),
            np.concatenate(label),
            np.concatenate(share),
        )

    @property
    def trees(self) -> int:
        return len(self.tree_start) - 1

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

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
        forest = cls(**arrays)
        nodes = len(forest.child)
        _require_starts("tree_start", forest.tree_start, nodes)
        _require_starts("weight_start", forest.weight_start, len(forest.weight), nodes)
        _require_starts("leaf_start", forest.leaf_start, len(forest.share), nodes)
        if forest.trees == 0 or (np.diff(forest.tree_start) == 0).any():
            raise ValueError("a tree without nodes")
        if len(forest.bias) != nodes or len(forest.feature) != len(forest.weight):
            raise ValueError("nodes and biases, or features and weights, differ in number")
        if len(forest.label) != len(forest.share):
            raise ValueError("labels and shares differ in number")
        if not _indices_hold(*forest.arrays().values(), n_features, n_labels):
            raise ValueError("a node, feature, label or share is out of range")
        return forest


@njit(nogil=True, cache=True)
def _indices_hold(
    tree_start: Longs,
    child: Ints,
    bias: Floats,
    weight_start: Longs,
    feature: Ints,
    weight: Floats,
    leaf_start: Longs,
    label: Ints,
    share: Floats,
    n_features: int,
    n_labels: int,
) -> bool:
    """Whether children come behind their parents within the tree, and features and labels rise within their range."""
    for tree in range(len(tree_start) - 1):
        for node in range(tree_start[tree], tree_start[tree + 1]):
            if child[node] != -1 and (child[node] <= node or child[node] + 1 >= tree_start[tree + 1]):
                return False
            before = -1
            for p in range(weight_start[node], weight_start[node + 1]):
                if feature[p] <= before or feature[p] >= n_features:
                    return False
                before = feature[p]
            before = -1
            for p in range(leaf_start[node], leaf_start[node + 1]):
                if label[p] <= before or label[p] >= n_labels or not 0 <= share[p] <= 1:
                    return False
                before = label[p]
    return True


@njit(nogil=True, cache=True)
def route(
    indptr: Longs,
    indices: Ints,
    values: Floats,
    first: int,
    last: int,
    tree_start: Longs,
    child: Ints,
    bias: Floats,
    weight_start: Longs,
    feature: Ints,
    weight: Floats,
    lookup: Floats,
    out: Ints,
) -> None:
    """The leaf of documents first..last in each tree, into out int32 (trees, last - first).

    Documents go down together, so that a node's weights are unpacked once for all that reach it; lookup is float32
    (D,), zeros, and is left so.
    """
    n = last - first
    documents = np.empty(n, dtype=np.int32)
    upper = np.empty(n, dtype=np.int32)
    waiting = np.empty((n + 1, 3), dtype=np.int64)  # node, begin, end; ranges never overlap
    for tree in range(len(tree_start) - 1):
        for d in range(n):
            documents[d] = d
        waiting[0, 0], waiting[0, 1], waiting[0, 2] = tree_start[tree], 0, n
        depth = 1 if n > 0 else 0
        while depth > 0:
            depth -= 1
            node, begin, end = waiting[depth]
            if child[node] < 0:
                for a in range(begin, end):
                    out[tree, documents[a]] = node
                continue
            for p in range(weight_start[node], weight_start[node + 1]):
                lookup[feature[p]] = weight[p]
            low, high = begin, 0
            for a in range(begin, end):
                d = documents[a]
                z = bias[node]
                for p in range(indptr[first + d], indptr[first + d + 1]):
                    z += values[p] * lookup[indices[p]]
                if z < 0:
                    documents[low] = d
                    low += 1
                else:
                    upper[high] = d
                    high += 1
            documents[low:end] = upper[:high]
            for p in range(weight_start[node], weight_start[node + 1]):
                lookup[feature[p]] = 0
            if low > begin:
                waiting[depth, 0], waiting[depth, 1], waiting[depth, 2] = child[node], begin, low
                depth += 1
            if high > 0:
                waiting[depth, 0], waiting[depth, 1], waiting[depth, 2] = child[node] + 1, low, end
                depth += 1


@njit(nogil=True, cache=True)
def average(leaf: Ints, leaf_start: Longs, label: Ints, share: Floats, d: int, total: Floats, seen: Ints) -> int:
    """Adds up the shares of document d's leaves: total[l] for the labels seen[:size], in order of label; size.

    leaf  int32 (trees, documents); total  float32 (L,), zeros on entry; seen  int32 (L,)
    """
    size = 0
    for tree in range(len(leaf)):
        node = leaf[tree, d]
        for p in range(leaf_start[node], leaf_start[node + 1]):
            if share[p] > 0:
                if total[label[p]] == 0:
                    seen[size] = label[p]
                    size += 1
                total[label[p]] += share[p]
    return size


@njit(nogil=True, cache=True)
def best_by_trees(
    leaf: Ints, leaf_start: Longs, label: Ints, share: Floats, n_labels: int, out_ids: Ints, out_values: Floats
) -> None:
    """The best labels of each document by the mean of its leaves, into (n, k) arrays padded with -1 and 0."""
    trees = np.float32(len(leaf))
    total = np.zeros(n_labels, dtype=np.float32)
    seen = np.empty(n_labels, dtype=np.int32)
    for d in range(len(out_ids)):
        size = average(leaf, leaf_start, label, share, d, total, seen)
        filled = 0
        for a in range(size):
            filled = keep_best(total[seen[a]] / trees, seen[a], out_ids[d], out_values[d], filled)
            total[seen[a]] = 0
        out_ids[d, filled:] = -1
        out_values[d, filled:] = 0


@njit(nogil=True, cache=True)
def best_by_trees_and_centres(
    leaf: Ints,
    leaf_start: Longs,
    label: Ints,
    share: Floats,
    indptr: Longs,
    indices: Ints,
    values: Floats,
    first: int,
    centre_start: Longs,
    centre_label: Ints,
    centre_value: Floats,
    centre_norm: Floats,
    shortlist: int,
    alpha: float,
    gamma: float,
    out_ids: Ints,
    out_values: Floats,
) -> None:
    """The same after re-ranking: tree^alpha times tail^(1 - alpha), tail = 2 / (1 + exp(gamma |x - mu|^2)).

    centre_start, _label, _value  the centres mu by feature: labels and their values, feature after feature
    centre_norm                   float32 (L,), |mu|^2
    """
    trees = np.float64(len(leaf))
    n_labels = len(centre_norm)
    total = np.zeros(n_labels, dtype=np.float32)
    near = np.zeros(n_labels, dtype=np.float32)  # x.mu
    seen = np.empty(n_labels, dtype=np.int32)
    for d in range(len(out_ids)):
        size = average(leaf, leaf_start, label, share, d, total, seen)
        chosen = seen[:size].copy()
        if size > shortlist:
            chosen.sort()
            chosen = chosen[np.argsort(-total[chosen], kind="mergesort")[:shortlist]]
        length = 0.0
        for p in range(indptr[first + d], indptr[first + d + 1]):
            length += np.float64(values[p]) ** 2
        scale = np.float32(1 / np.sqrt(length)) if length > 0 else np.float32(0)
        for p in range(indptr[first + d], indptr[first + d + 1]):
            v = values[p] * scale
            for q in range(centre_start[indices[p]], centre_start[indices[p] + 1]):
                near[centre_label[q]] += v * centre_value[q]
        unit = 1.0 if length > 0 else 0.0
        filled = 0
        for found in chosen:
            distance = gamma * max(0.0, unit - 2.0 * near[found] + centre_norm[found])
            tail = np.log(2.0) - distance - np.log1p(np.exp(-distance))
            value = np.exp(alpha * np.log(total[found] / trees) + (1.0 - alpha) * tail)
            # a label that is listed keeps a score, however far its centre
            kept = np.float32(min(1.0, max(value, 1e-37)))
            filled = keep_best(kept, found, out_ids[d], out_values[d], filled)
        out_ids[d, filled:] = -1
        out_values[d, filled:] = 0
        total[seen[:size]] = 0
        near[:] = 0
