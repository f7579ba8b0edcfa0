"""From problems to separators: a node's blocks are laid out, solved, pruned and put together within one kernel.

Leaves are small and many: handing arrays from kernel to kernel through Python would take as long as laying them out.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from longtail.arrays import Bools, Floats, Ints, Shorts, SparseRows, njit, sort_distinct
from longtail.lanes import LANES, WIDEST
from longtail.learners.linear.kernels import (
    Problem,
    Reading,
    SolverOptions,
    Workspace,
    clear,
    features_kept,
    solve,
    sparse_weights,
)
from longtail.learners.linear.problems import Marks, Node, block_problem, node_documents, with_copies
from longtail.noise import NoiseArrays

#: Features, their numbers of weights, children, weights, biases: the fields of `Separators`.
SparseWeights: TypeAlias = tuple[Ints, Ints, Shorts, Floats, Floats]

_EIGHT, _SIXTEEN, _WIDEST = LANES[8], LANES[16], LANES[WIDEST]


class Training(NamedTuple):
    """What all tasks read.

    labels      documents by label, with target times pair weight; 0 marks a pair that is left out
    label_sure  bool (pairs,), whether a document carries the label surely
    copies      noisy ones of each document that has any
    """

    documents: Reading
    labels: SparseRows
    label_sure: Bools
    options: SolverOptions
    copies: int


class Blocks(NamedTuple):
    """Children first..last of a node, which are cut into blocks of 32."""

    first: int
    last: int
    all_documents: bool
    sure_only: bool
    seed: int


class Scratch(NamedTuple):
    """What a thread uses again for task after task; kernels leave it as they found it.

    found    for documents
    slot     int32 (features,), zeros
    weights  float32, zeros: rows of weights, as wide as a problem needs
    touched  int32 (rows,)
    """

    found: Marks
    slot: Ints
    weights: Floats
    touched: Ints


@njit(nogil=True, cache=True)
def workspace(scratch: Scratch, lanes: tuple[int, ...]) -> Workspace:
    """Room for problems of this width."""
    rows, width = len(scratch.touched), len(lanes)
    weights = scratch.weights[: rows * width].reshape((rows, width))
    return Workspace(scratch.slot, weights, scratch.touched, scratch.found.marks)


@njit(nogil=True, cache=True)
def node_separators(
    training: Training, noise: NoiseArrays | None, node: Node, blocks: Blocks, scratch: Scratch
) -> SparseWeights:
    """The separators of some children of a node."""
    own = node_documents(
        training.labels, training.label_sure, node, scratch.found, blocks.all_documents, blocks.sure_only
    )
    parts = []
    for first in range(blocks.first, blocks.last, WIDEST):
        last = min(first + WIDEST, blocks.last)
        problem = block_problem(own, first, last, training.options.cost)
        seed, children = blocks.seed + first, last - first
        if children <= len(_EIGHT):
            parts.append(_block(training, noise, problem, seed, children, scratch, _EIGHT))
        elif children <= len(_SIXTEEN):
            parts.append(_block(training, noise, problem, seed, children, scratch, _SIXTEEN))
        else:
            parts.append(_block(training, noise, problem, seed, children, scratch, _WIDEST))
    return parts[0] if len(parts) == 1 else _put_together(parts, scratch.slot, scratch.found.marks)


@njit(nogil=True, cache=True)
def _block(
    training: Training,
    noise: NoiseArrays | None,
    problem: Problem,
    seed: int,
    children: int,
    scratch: Scratch,
    lanes: tuple[int, ...],
) -> SparseWeights:
    work, prune = workspace(scratch, lanes), training.options.prune
    if noise is not None:
        problem = with_copies(problem, noise, training.copies)
    used = solve(training.documents, problem, noise, training.options, seed, work, lanes)
    kept, bits = features_kept(work, used, np.float32(prune), lanes)
    found = sparse_weights(work, kept, bits, 0, children, prune)
    clear(work, used)
    return found


@njit(nogil=True, cache=True)
def _put_together(parts: list[SparseWeights], place: Ints, marks: NDArray[np.uint64]) -> SparseWeights:
    """The separators of a node from those of its blocks, in order."""
    rows, entries, children = 0, 0, 0
    for part in parts:
        rows += len(part[0])
        entries += len(part[3])
        children += len(part[4])
    features, length = np.empty(rows, dtype=np.int32), np.empty(rows, dtype=np.int32)
    column, weight = np.empty(entries, dtype=np.uint16), np.empty(entries, dtype=np.float32)
    bias = np.empty(children, dtype=np.float32)
    rows, entries, children = 0, 0, 0
    for part in parts:
        features[rows : rows + len(part[0])] = part[0]
        length[rows : rows + len(part[0])] = part[1]
        column[entries : entries + len(part[3])] = part[2] + np.uint16(children)
        weight[entries : entries + len(part[3])] = part[3]
        bias[children : children + len(part[4])] = part[4]
        rows += len(part[0])
        entries += len(part[3])
        children += len(part[4])
    return merged((features, length, column, weight, bias), place, marks)


@njit(nogil=True, cache=True)
def merged(several: SparseWeights, place: Ints, marks: NDArray[np.uint64]) -> SparseWeights:
    """One row per feature from the rows of several blocks, whose features rise and whose children are numbered on.

    place  int32 (features,), zeros, and left so
    marks  what features are sorted with
    """
    own, own_length, own_column, own_weight, bias = several
    features = np.empty(min(len(place), len(own)), dtype=np.int32)
    count = 0
    for f in own:
        if place[f] == 0:
            place[f] = 1
            features[count] = f
            count += 1
    features = features[:count].copy()
    sort_distinct(features, marks)
    for a in range(count):
        place[features[a]] = a + 1
    length = np.zeros(count, dtype=np.int32)
    for r in range(len(own)):
        length[place[own[r]] - 1] += own_length[r]
    end = np.zeros(count + 1, dtype=np.int64)
    for a in range(count):
        end[a + 1] = end[a] + length[a]
    column, weight = np.empty(len(own_column), dtype=np.uint16), np.empty(len(own_weight), dtype=np.float32)
    q = 0
    for r in range(len(own)):
        a = place[own[r]] - 1
        for p in range(end[a], end[a] + own_length[r]):
            column[p] = own_column[q]
            weight[p] = own_weight[q]
            q += 1
        end[a] += own_length[r]
    for f in features:
        place[f] = 0
    return features, length, column, weight, bias
