"""From a node of a label tree to its separators: gather its documents, solve, drop small weights."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray

from longtail.arrays import Bools, Floats, Ints, Longs, Shorts
from longtail.corpus import Corpus
from longtail.graphs.cluster import compact
from longtail.learners.linear.kernels import solve
from longtail.noise import FeatureNoise

#: A document goes down to labels it carries at least this surely, beside its surest. Others it meets at their leaves
#: only, and is no negative there: it is hardly known to be there at all.
SURE = 0.5


@dataclass(frozen=True, eq=False)
class Documents:
    """A corpus laid out for training: rows by document, and the documents of each label."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    values: NDArray[np.float32]
    label_start: NDArray[np.int64]
    label_documents: NDArray[np.int32]
    label_strength: NDArray[np.float32]  # target times pair weight; 0 marks a pair that is left out
    label_sure: NDArray[np.bool_]  # whether the target is SURE of the document's largest, or more
    n_features: int
    noise: FeatureNoise

    @classmethod
    def of(cls, corpus: Corpus) -> Documents:
        X = corpus.features
        pairs = sp.csr_matrix(
            (corpus.weighted_targets() + np.float32(1), corpus.Y.indices, corpus.Y.indptr), corpus.Y.shape
        )
        by_label = pairs.tocsc()  # strengths are shifted by 1 on the way, so that a stored 0 is never taken for absent
        return cls(
            X.indptr.astype(np.int64),
            X.indices.astype(np.int32, copy=False),
            X.data.astype(np.float32, copy=False),
            by_label.indptr.astype(np.int64),
            by_label.indices.astype(np.int32, copy=False),
            by_label.data - np.float32(1),
            _beside_largest(corpus.Y).tocsc().data >= SURE,
            X.shape[1],
            corpus.noise or FeatureNoise(0, 1.0, 0.0, 0, np.full(X.shape[0], -1, dtype=np.int32)),
        )

    @property
    def count(self) -> int:
        return len(self.indptr) - 1


def _beside_largest(Y: sp.csr_matrix) -> sp.csr_matrix:
    """Targets, each row's largest brought to 1."""
    largest = np.maximum.reduceat(np.append(Y.data, 0), Y.indptr[:-1])
    largest = np.where((largest > 0) & (np.diff(Y.indptr) > 0), largest, 1)
    share = (Y.data / np.repeat(largest, np.diff(Y.indptr))).astype(np.float32)
    return sp.csr_matrix((share, Y.indices, Y.indptr), Y.shape)


@dataclass(frozen=True)
class Solver:
    """How separators are trained."""

    loss: int
    cost: float
    eps: float
    max_passes: int
    prune: float


@dataclass(frozen=True, eq=False)
class Separators:
    """Sparse weights of one node: rows are features (global ids, rising), entries (child, weight)."""

    features: NDArray[np.int32]
    row_length: NDArray[np.int32]
    column: NDArray[np.uint16]
    weight: NDArray[np.float32]
    bias: NDArray[np.float32]  # (children,)


class _Scratch(threading.local):
    """Arrays a thread uses again and again; kernels leave them as they found them, all -1."""

    def __init__(self) -> None:
        self.arrays: dict[str, NDArray[np.int32]] = {}

    def get(self, name: str, size: int) -> NDArray[np.int32]:
        if name not in self.arrays or len(self.arrays[name]) < size:
            self.arrays[name] = np.full(size, -1, dtype=np.int32)
        return self.arrays[name][:size]


_scratch = _Scratch()


def train_node(
    documents: Documents,
    members: NDArray[np.int32],
    child_of_member: NDArray[np.int32],
    n_children: int,
    solver: Solver,
    seed: int,
    *,
    all_documents: bool = False,
    sure_only: bool = False,
) -> Separators:
    """Separators of a node's children.

    members          labels below the node, grouped by child
    child_of_member  the child each of them lies under, not falling
    all_documents    train on every document, not only on those with a label below the node
    sure_only        leave out documents that carry no label below the node surely
    """
    slot = _scratch.get("document", documents.count)
    rows, faint, start, child, strength = _node_rows(
        documents.label_start,
        documents.label_documents,
        documents.label_strength,
        documents.label_sure,
        members,
        child_of_member,
        slot,
        all_documents,
        sure_only,
    )
    indptr, indices, values, used = compact(
        documents.indptr, documents.indices, documents.values, rows, _scratch.get("feature", documents.n_features)
    )
    strength *= np.float32(solver.cost)
    noise = documents.noise.rows(rows)
    row_of, copy_of = noise.virtual_rows()
    weights = solve(
        indptr, indices, values, len(used), start, child, strength, faint,
        row_of, copy_of, noise.draw, noise.keep, noise.swaps, noise.seed, n_children,
        solver.loss, solver.cost, solver.eps, solver.max_passes, seed,
    )  # fmt: skip
    return Separators(*_prune(weights, used, n_children, solver.prune))


@njit(nogil=True, cache=True)
def _node_rows(
    label_start: Longs,
    label_documents: Ints,
    label_strength: Floats,
    label_sure: Bools,
    members: Ints,
    child_of_member: Ints,
    slot: Ints,
    all_documents: bool,
    sure_only: bool,
) -> tuple[Ints, Bools, Longs, Ints, Floats]:
    """Documents of a node (rising), whether each carries its labels faintly only, and its children (rising) with the
    strongest pair under each.

    A document belongs to the node if it carries one of the labels with a strength above 0, and surely if so asked;
    slot is int32 (documents,), all -1, and is left so.
    """
    n = 0
    entries = 0
    for label in members:
        entries += label_start[label + 1] - label_start[label]
    rows = np.empty(len(slot) if all_documents else min(entries, len(slot)), dtype=np.int32)
    if all_documents:
        n = len(slot)
        rows[:] = np.arange(n)
    else:
        for label in members:
            for q in range(label_start[label], label_start[label + 1]):
                document = label_documents[q]
                if slot[document] < 0 and label_strength[q] > 0 and (label_sure[q] or not sure_only):
                    slot[document] = 0
                    rows[n] = document
                    n += 1
        rows = rows[:n].copy()
        rows.sort()
    for row in range(n):
        slot[rows[row]] = row
    faint = np.full(n, not all_documents)
    start = np.zeros(n + 1, dtype=np.int64)
    for label in members:
        for q in range(label_start[label], label_start[label + 1]):
            row = slot[label_documents[q]]
            if row >= 0:
                start[row + 1] += 1
                if label_strength[q] > 0 and label_sure[q]:
                    faint[row] = False
    for row in range(n):
        start[row + 1] += start[row]
    child = np.empty(entries, dtype=np.int32)
    strength = np.empty(entries, dtype=np.float32)
    end = start[:-1].copy()
    for m in range(len(members)):
        for q in range(label_start[members[m]], label_start[members[m] + 1]):
            row = slot[label_documents[q]]
            if row < 0:
                continue
            p = end[row]
            if p > start[row] and child[p - 1] == child_of_member[m]:
                strength[p - 1] = max(strength[p - 1], label_strength[q])
            else:
                child[p] = child_of_member[m]
                strength[p] = label_strength[q]
                end[row] = p + 1
    closed = np.zeros(n + 1, dtype=np.int64)
    size = 0
    for row in range(n):
        for p in range(start[row], end[row]):
            child[size] = child[p]
            strength[size] = strength[p]
            size += 1
        closed[row + 1] = size
    for row in range(n):
        slot[rows[row]] = -1
    return rows, faint, closed, child[:size].copy(), strength[:size].copy()


@njit(nogil=True, cache=True)
def _prune(weights: Floats, used: Ints, n_children: int, threshold: float) -> tuple[Ints, Ints, Shorts, Floats, Floats]:
    """Entries above the threshold in size, row by row, rows without any left out."""
    n_features = len(used)
    kept = 0
    for f in range(n_features):
        for j in range(n_children):
            if abs(weights[f, j]) > threshold:
                kept += 1
    features = np.empty(n_features, dtype=np.int32)
    length = np.empty(n_features, dtype=np.int32)
    column = np.empty(kept, dtype=np.uint16)
    weight = np.empty(kept, dtype=np.float32)
    row, size = 0, 0
    for f in range(n_features):
        begin = size
        for j in range(n_children):
            if abs(weights[f, j]) > threshold:
                column[size] = j
                weight[size] = weights[f, j]
                size += 1
        if size > begin:
            features[row] = used[f]
            length[row] = size - begin
            row += 1
    bias = np.zeros(n_children, dtype=np.float32)
    for j in range(n_children):
        if abs(weights[n_features, j]) > threshold:
            bias[j] = weights[n_features, j]
    return features[:row].copy(), length[:row].copy(), column, weight, bias
