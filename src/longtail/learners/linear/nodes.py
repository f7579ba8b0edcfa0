"""From a node of a label tree to its separators: gather its documents, solve, drop small weights."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail.arrays import Bools, Floats, Ints, Shorts, SparseRows, njit
from longtail.corpus import Corpus
from longtail.lanes import LANES, WIDEST, width_for
from longtail.learners.linear.kernels import (
    FIRST,
    Problem,
    SolverOptions,
    Workspace,
    clear,
    features_kept,
    solve,
    sparse_weights,
)
from longtail.learners.linear.problems import (
    Levels,
    Node,
    block_problem,
    levels_problem,
    node_documents,
    with_copies,
)
from longtail.noise import FeatureNoise
from longtail.sparse import rows_of_pairs, starts_of

#: A document goes down to labels it carries at least this surely, beside its surest. Others it meets at their leaves
#: only, and is no negative there: it is hardly known to be there at all.
SURE = 0.5


@dataclass(frozen=True, eq=False)
class Documents:
    """A corpus laid out for training.

    rows        features by document
    labels      documents by label, with target times pair weight; 0 marks a pair that is left out
    label_sure  bool (pairs,), whether the target is SURE of the document's largest, or more
    norms       float32 (documents,), |x|^2 with the bias feature
    """

    rows: SparseRows
    labels: SparseRows
    label_sure: Bools
    n_features: int
    noise: FeatureNoise
    norms: Floats

    @classmethod
    def of(cls, corpus: Corpus, rows: SparseRows | None = None) -> Documents:
        """rows  the documents' features if they are not those of the corpus"""
        X, Y = corpus.features, corpus.Y
        rows = SparseRows.of(X) if rows is None else rows
        pairs = sp.csr_matrix((corpus.weighted_targets() + np.float32(1), Y.indices, Y.indptr), Y.shape)
        by_label = pairs.tocsc()  # strengths are shifted by 1 on the way, so that a stored 0 is never taken for absent
        sure = sp.csr_matrix((_beside_largest(corpus), Y.indices, Y.indptr), Y.shape).tocsc().data >= SURE
        labels = SparseRows(
            by_label.indptr.astype(np.int64),
            by_label.indices.astype(np.int32, copy=False),
            by_label.data - np.float32(1),
        )
        noise = corpus.noise or FeatureNoise.none(X.shape[0])
        return cls(rows, labels, sure, X.shape[1], noise, _norms(rows))

    @property
    def count(self) -> int:
        return self.rows.n_rows

    def carried_labels(self) -> Ints:
        """Labels that some document carries, rising; the others stay out of the trees."""
        n_labels = self.labels.n_rows
        label = np.repeat(np.arange(n_labels), np.diff(self.labels.start))
        strength = np.bincount(label, weights=self.labels.values, minlength=n_labels)
        return np.flatnonzero(strength).astype(np.int32)


@njit(nogil=True, cache=True)
def _norms(rows: SparseRows) -> Floats:
    start, _, values = rows
    norms = np.ones(len(start) - 1, dtype=np.float32)
    for i in range(len(norms)):
        for p in range(start[i], start[i + 1]):
            norms[i] += values[p] * values[p]
    return norms


def _beside_largest(corpus: Corpus) -> Floats:
    """Targets, the largest of each document brought to 1; pairs that are left out have no say in which that is."""
    row, target = rows_of_pairs(corpus.Y), corpus.Y.data
    there = np.where(corpus.weighted_targets() > 0, target, np.float32(0))
    largest = np.zeros(len(corpus), dtype=np.float32)
    np.maximum.at(largest, row, there)
    return (target / np.where(largest > 0, largest, np.float32(1))[row]).astype(np.float32)


@dataclass(frozen=True, eq=False)
class Separators:
    """Sparse weights of one node: rows are features (global ids, rising), entries (child, weight)."""

    features: NDArray[np.int32]
    row_length: NDArray[np.int32]
    column: NDArray[np.uint16]
    weight: NDArray[np.float32]
    bias: NDArray[np.float32]  # (children,)


class NodeTask(NamedTuple):
    """Some of the children of one node.

    tree, node     where they belong
    first, last    the children, cut into blocks of 32
    all_documents  train on every document, not only on those with a label below the node
    sure_only      leave out documents that carry no label below the node surely
    """

    tree: int
    node: int
    labels: Ints
    child: Ints
    n_children: int
    first: int
    last: int
    all_documents: bool
    sure_only: bool
    seed: int


class LevelsTask(NamedTuple):
    """Narrow nodes of several levels; children (first, last) of each as they lie side by side."""

    tree: int
    nodes: list[tuple[int, int, int]]
    levels: Levels
    seed: int


Task: TypeAlias = NodeTask | LevelsTask


class Piece(NamedTuple):
    """Separators of the children of a node from `first` on."""

    tree: int
    node: int
    first: int
    separators: Separators


class _Scratch(threading.local):
    """What a thread uses again and again; kernels leave it as they found it."""

    def __init__(self) -> None:
        self.slots = np.empty(0, dtype=np.int32)
        self.spaces: dict[int, Workspace] = {}

    def document_slots(self, count: int) -> Ints:
        if len(self.slots) < count:
            self.slots = np.full(count, -1, dtype=np.int32)
        return self.slots[:count]

    def workspace(self, n_features: int, width: int) -> Workspace:
        if width not in self.spaces or len(self.spaces[width].slot) < n_features:
            # pages that nobody writes to take no memory
            rows = n_features + FIRST
            self.spaces[width] = Workspace(
                np.zeros(n_features, dtype=np.int32),
                np.zeros((rows, width), dtype=np.float32),
                np.zeros(rows, dtype=np.int32),
            )
        return self.spaces[width]


_scratch = _Scratch()


def solve_task(training: tuple[Documents, SolverOptions], task: Task) -> list[Piece]:
    """The separators of one task: what the threads and machines of a run work on."""
    documents, options = training
    slots = _scratch.document_slots(documents.count)
    if isinstance(task, LevelsTask):
        problem = levels_problem(documents.labels, documents.label_sure, task.levels, slots, options.cost)
        with _solved(documents, problem, task.nodes[-1][2], options, task.seed) as separators:
            return [Piece(task.tree, node, 0, separators(low, high)) for node, low, high in task.nodes]
    node = Node(task.labels, task.child, task.n_children)
    own = node_documents(documents.labels, documents.label_sure, node, slots, task.all_documents, task.sure_only)
    pieces = []
    for first in range(task.first, task.last, WIDEST):
        last = min(first + WIDEST, task.last)
        problem = block_problem(own, first, last, options.cost)
        with _solved(documents, problem, last - first, options, task.seed + first) as separators:
            pieces.append(separators(0, last - first))
    return [Piece(task.tree, task.node, task.first, joined(pieces, documents.n_features))]


@contextmanager
def _solved(
    documents: Documents, problem: Problem, children: int, options: SolverOptions, seed: int
) -> Iterator[Callable[[int, int], Separators]]:
    """Solves a problem; gives what takes the separators of some children out of the workspace."""
    noise, width = documents.noise.draws() if documents.noise.copies else None, width_for(children)
    if noise is not None:
        problem = with_copies(problem, noise, documents.noise.copies)
    work = _scratch.workspace(documents.n_features, width)
    used = solve(documents.rows, documents.norms, problem, noise, options, seed, work, LANES[width])
    kept, bits = features_kept(work, used, np.float32(options.prune), LANES[width])
    try:
        yield lambda low, high: Separators(*sparse_weights(work, kept, bits, low, high, options.prune))
    finally:
        clear(work, used)


def joined(blocks: Sequence[Separators], n_features: int) -> Separators:
    """The separators of a node from those of its blocks, in order."""
    if len(blocks) == 1:
        return blocks[0]
    first = starts_of([len(block.bias) for block in blocks])
    size = starts_of([len(block.weight) for block in blocks])
    length = np.concatenate([block.row_length for block in blocks])
    column = np.empty(size[-1], dtype=np.uint16)
    for number, block in enumerate(blocks):
        column[size[number] : size[number + 1]] = block.column + np.uint16(first[number])
    together = SparseRows(
        starts_of(length),
        np.concatenate([block.features for block in blocks]),
        np.concatenate([block.weight for block in blocks]),
    )
    features, length, column, weight = _merged(together, column, n_features)
    return Separators(features, length, column, weight, np.concatenate([block.bias for block in blocks]))


@njit(nogil=True, cache=True)
def _merged(rows: SparseRows, column: Shorts, n_features: int) -> tuple[Ints, Ints, Shorts, Floats]:
    """One row per feature from the rows of several blocks: rows.indices[r] is the feature of row r."""
    start, indices, values = rows
    place = np.full(n_features, -1, dtype=np.int32)
    features = np.empty(min(n_features, len(indices)), dtype=np.int32)
    count = 0
    for r in range(len(indices)):
        if place[indices[r]] < 0:
            place[indices[r]] = 0
            features[count] = indices[r]
            count += 1
    features = features[:count].copy()
    features.sort()
    length = np.zeros(count, dtype=np.int32)
    for a in range(count):
        place[features[a]] = a
    for r in range(len(indices)):
        length[place[indices[r]]] += start[r + 1] - start[r]
    end = np.zeros(count, dtype=np.int64)
    for a in range(1, count):
        end[a] = end[a - 1] + length[a - 1]
    out_column = np.empty(len(column), dtype=np.uint16)
    weight = np.empty(len(column), dtype=np.float32)
    for r in range(len(indices)):
        a = place[indices[r]]
        for q in range(start[r], start[r + 1]):
            out_column[end[a]] = column[q]
            weight[end[a]] = values[q]
            end[a] += 1
    return features, length, out_column, weight
