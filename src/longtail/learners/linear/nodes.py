"""From a node of a label tree to its separators: gather its documents, solve, drop small weights."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail.arrays import Bools, Floats, Ints, SparseRows, marks_for, njit
from longtail.corpus import Corpus
from longtail.lanes import LANES, WIDEST, width_for
from longtail.learners.linear.blocks import Blocks, Scratch, Training, merged, node_separators, workspace
from longtail.learners.linear.kernels import (
    FIRST,
    Reading,
    SolverOptions,
    clear,
    features_kept,
    solve,
    sparse_weights,
)
from longtail.learners.linear.problems import Levels, Marks, Node, levels_problem, with_copies
from longtail.noise import FeatureNoise, NoiseArrays
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


class _Threads(threading.local):
    """What a thread uses again and again; kernels leave it as they found it."""

    def __init__(self) -> None:
        self.kept = _scratch_for(0, 0)

    def scratch(self, n_documents: int, n_features: int) -> Scratch:
        if len(self.kept.found.slot) < n_documents or len(self.kept.slot) < n_features:
            self.kept = _scratch_for(n_documents, n_features)
        found = self.kept.found
        return self.kept._replace(found=found._replace(slot=found.slot[:n_documents]))


def _scratch_for(n_documents: int, n_features: int) -> Scratch:
    rows = n_features + FIRST
    found = Marks(np.full(n_documents, -1, dtype=np.int32), marks_for(max(n_documents, n_features)))
    # pages that nobody writes to take no memory
    weights = np.zeros(rows * WIDEST, dtype=np.float32)
    return Scratch(found, np.zeros(n_features, dtype=np.int32), weights, np.zeros(rows, dtype=np.int32))


_threads = _Threads()


def solve_task(shared: tuple[Documents, SolverOptions], task: Task) -> list[Piece]:
    """The separators of one task: what the threads and machines of a run work on."""
    documents, options = shared
    scratch = _threads.scratch(documents.count, documents.n_features)
    noise = documents.noise.draws() if documents.noise.copies else None
    reading = Reading(documents.rows, documents.norms)
    training = Training(reading, documents.labels, documents.label_sure, options, documents.noise.copies)
    if isinstance(task, LevelsTask):
        return _levels_solved(training, noise, task, scratch)
    node = Node(task.labels, task.child, task.n_children)
    blocks = Blocks(task.first, task.last, task.all_documents, task.sure_only, task.seed)
    found = node_separators(training, noise, node, blocks, scratch)
    return [Piece(task.tree, task.node, task.first, Separators(*found))]


def _levels_solved(training: Training, noise: NoiseArrays | None, task: LevelsTask, scratch: Scratch) -> list[Piece]:
    options, lanes = training.options, LANES[width_for(task.nodes[-1][2])]
    problem = levels_problem(training.labels, training.label_sure, task.levels, scratch.found, options.cost)
    if noise is not None:
        problem = with_copies(problem, noise, training.copies)
    work = workspace(scratch, lanes)
    used = solve(training.documents, problem, noise, options, task.seed, work, lanes)
    kept, bits = features_kept(work, used, np.float32(options.prune), lanes)
    pieces = [
        Piece(task.tree, node, 0, Separators(*sparse_weights(work, kept, bits, low, high, options.prune)))
        for node, low, high in task.nodes
    ]
    clear(work, used)
    return pieces


def joined(blocks: Sequence[Separators], n_features: int) -> Separators:
    """The separators of a node from those of its blocks, in order."""
    if len(blocks) == 1:
        return blocks[0]
    first = starts_of([len(block.bias) for block in blocks])
    several = (
        np.concatenate([block.features for block in blocks]),
        np.concatenate([block.row_length for block in blocks]),
        np.concatenate([block.column + np.uint16(low) for block, low in zip(blocks, first[:-1], strict=True)]),
        np.concatenate([block.weight for block in blocks]),
        np.concatenate([block.bias for block in blocks]),
    )
    return Separators(*merged(several, np.zeros(n_features, dtype=np.int32), marks_for(n_features)))
