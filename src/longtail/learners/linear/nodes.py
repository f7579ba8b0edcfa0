"""From a node of a label tree to its separators: gather its documents, solve, drop small weights."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail.arrays import Bools, Floats, Ints, Shorts, SparseRows, njit, with_own_columns
from longtail.corpus import Corpus
from longtail.learners.linear.kernels import Positives, SolverOptions, solve
from longtail.noise import FeatureNoise
from longtail.sparse import rows_of_pairs

#: A document goes down to labels it carries at least this surely, beside its surest. Others it meets at their leaves
#: only, and is no negative there: it is hardly known to be there at all.
SURE = 0.5


@dataclass(frozen=True, eq=False)
class Documents:
    """A corpus laid out for training.

    rows        features by document
    labels      documents by label, with target times pair weight; 0 marks a pair that is left out
    label_sure  bool (pairs,), whether the target is SURE of the document's largest, or more
    """

    rows: SparseRows
    labels: SparseRows
    label_sure: Bools
    n_features: int
    noise: FeatureNoise

    @classmethod
    def of(cls, corpus: Corpus) -> Documents:
        X, Y = corpus.features, corpus.Y
        pairs = sp.csr_matrix((corpus.weighted_targets() + np.float32(1), Y.indices, Y.indptr), Y.shape)
        by_label = pairs.tocsc()  # strengths are shifted by 1 on the way, so that a stored 0 is never taken for absent
        sure = sp.csr_matrix((_beside_largest(corpus), Y.indices, Y.indptr), Y.shape).tocsc().data >= SURE
        labels = SparseRows(
            by_label.indptr.astype(np.int64),
            by_label.indices.astype(np.int32, copy=False),
            by_label.data - np.float32(1),
        )
        return cls(SparseRows.of(X), labels, sure, X.shape[1], corpus.noise or FeatureNoise.none(X.shape[0]))

    @property
    def count(self) -> int:
        return self.rows.n_rows

    def carried_labels(self) -> Ints:
        """Labels that some document carries, rising; the others stay out of the trees."""
        n_labels = self.labels.n_rows
        label = np.repeat(np.arange(n_labels), np.diff(self.labels.start))
        strength = np.bincount(label, weights=self.labels.values, minlength=n_labels)
        return np.flatnonzero(strength).astype(np.int32)


def _beside_largest(corpus: Corpus) -> Floats:
    """Targets, the largest of each document brought to 1; pairs that are left out have no say in which that is."""
    row, target = rows_of_pairs(corpus.Y), corpus.Y.data
    there = np.where(corpus.weighted_targets() > 0, target, np.float32(0))
    largest = np.zeros(len(corpus), dtype=np.float32)
    np.maximum.at(largest, row, there)
    return (target / np.where(largest > 0, largest, np.float32(1))[row]).astype(np.float32)


class Node(NamedTuple):
    """The labels below a node of a tree.

    labels      int32, grouped by child
    child       int32, the child each of them lies under, not falling
    n_children  how many there are
    """

    labels: Ints
    child: Ints
    n_children: int


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
    node: Node,
    options: SolverOptions,
    seed: int,
    *,
    all_documents: bool = False,
    sure_only: bool = False,
) -> Separators:
    """Separators of a node's children.

    all_documents  train on every document, not only on those with a label below the node
    sure_only      leave out documents that carry no label below the node surely
    """
    slot = _scratch.get("document", documents.count)
    chosen, positives = _node_documents(documents.labels, documents.label_sure, node, slot, all_documents, sure_only)
    positives.cost[:] *= np.float32(options.cost)
    rows, used = with_own_columns(documents.rows, chosen, _scratch.get("feature", documents.n_features))
    noise = documents.noise.rows(chosen).arrays()
    weights = solve(rows, len(used), positives, noise, node.n_children, options, seed)
    return Separators(*_prune(weights, used, node.n_children, options.prune))


@njit(nogil=True, cache=True)
def _node_documents(
    labels: SparseRows, label_sure: Bools, node: Node, slot: Ints, all_documents: bool, sure_only: bool
) -> tuple[Ints, Positives]:
    """Documents of a node (rising) and the children they belong to (rising), with the strongest pair under each.

    A document belongs to the node if it carries one of the labels with a strength above 0, and surely if asked for;
    it is faint if it carries none of them surely. slot is int32 (documents,), all -1, and is left so.
    """
    n = 0
    entries = 0
    for label in node.labels:
        entries += labels.start[label + 1] - labels.start[label]
    rows = np.empty(len(slot) if all_documents else min(entries, len(slot)), dtype=np.int32)
    if all_documents:
        n = len(slot)
        rows[:] = np.arange(n)
    else:
        for label in node.labels:
            for q in range(labels.start[label], labels.start[label + 1]):
                document = labels.indices[q]
                if slot[document] < 0 and labels.values[q] > 0 and (label_sure[q] or not sure_only):
                    slot[document] = 0
                    rows[n] = document
                    n += 1
        rows = rows[:n].copy()
        rows.sort()
    for row in range(n):
        slot[rows[row]] = row
    faint = np.full(n, not all_documents)
    start = np.zeros(n + 1, dtype=np.int64)
    for label in node.labels:
        for q in range(labels.start[label], labels.start[label + 1]):
            row = slot[labels.indices[q]]
            if row >= 0:
                start[row + 1] += 1
                if labels.values[q] > 0 and label_sure[q]:
                    faint[row] = False
    for row in range(n):
        start[row + 1] += start[row]
    child = np.empty(entries, dtype=np.int32)
    strength = np.empty(entries, dtype=np.float32)
    end = start[:-1].copy()
    for m in range(len(node.labels)):
        for q in range(labels.start[node.labels[m]], labels.start[node.labels[m] + 1]):
            row = slot[labels.indices[q]]
            if row < 0:
                continue
            p = end[row]
            if p > start[row] and child[p - 1] == node.child[m]:
                strength[p - 1] = max(strength[p - 1], labels.values[q])
            else:
                child[p] = node.child[m]
                strength[p] = labels.values[q]
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
    return rows, Positives(closed, child[:size].copy(), strength[:size].copy(), faint)


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
