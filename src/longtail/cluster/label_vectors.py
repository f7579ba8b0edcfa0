"""Vectors of labels, made of the documents that carry them (positive instance feature aggregation)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from longtail.arrays import Floats, Growing, SparseRows, marks_for, njit, sort_distinct
from longtail.cluster.blocks import even_blocks
from longtail.memory import give_back
from longtail.run import Run
from longtail.sparse import starts_of

#: Features of documents that are summed up in one go, about.
ENTRIES_PER_BLOCK = 500_000
#: Blocks that are summed up before they are put behind those before.
BLOCKS_AT_A_TIME = 8


def label_vectors(documents: SparseRows, n_features: int, labels: SparseRows, run: Run) -> SparseRows:
    """Sums of the documents (n, D) of each label, brought to unit length (L, D); without documents an empty row.

    labels  rows of an (L, n) matrix: how strongly each label's documents carry it
    """
    work = starts_of(np.diff(documents.start)[labels.indices])[labels.start]
    blocks = even_blocks(work, max(1, min(labels.n_rows, int(work[-1] // ENTRIES_PER_BLOCK) + 1)))

    def one(block: tuple[int, int]) -> SparseRows:
        low, high = block
        room = int(work[high] - work[low])
        return _unit_sums(documents, labels, (low, high), room, np.zeros(n_features, np.float32), marks_for(n_features))

    lengths, indices, values = Growing(), Growing(), Growing()
    few = max(BLOCKS_AT_A_TIME, 4 * run.tasks)
    for begin in range(0, len(blocks), few):
        for part in run.map(one, blocks[begin : begin + few], cost=lambda b: float(work[b[1]] - work[b[0]])):
            lengths.add(np.diff(part.start))
            indices.add(part.indices)
            values.add(part.values)
    give_back()
    return SparseRows(starts_of(lengths.array()), indices.array(), values.array())


@njit(nogil=True, cache=True)
def _unit_sums(
    rows: SparseRows, groups: SparseRows, block: tuple[int, int], room: int, scratch: Floats, marks: NDArray[np.uint64]
) -> SparseRows:
    """Weighted sums of a block of groups of rows, each brought to unit length, with sorted indices.

    room     entries there may be
    scratch  float32 (D,), zeros, and left so
    marks    what the indices are sorted with
    """
    low, high = block
    start, indices, values = rows
    group_start, group_row, group_weight = groups
    out_start = np.zeros(high - low + 1, dtype=np.int64)
    out_indices = np.empty(room, dtype=np.int32)
    out_values = np.empty(room, dtype=np.float32)
    size = 0
    for group in range(low, high):
        begin = size
        for q in range(group_start[group], group_start[group + 1]):
            row, weight = group_row[q], group_weight[q]
            if weight <= 0:
                continue
            for p in range(start[row], start[row + 1]):
                f = indices[p]
                if values[p] == 0:
                    continue
                if scratch[f] == 0:
                    out_indices[size] = f
                    size += 1
                scratch[f] += weight * values[p]
        sort_distinct(out_indices[begin:size], marks)
        norm = 0.0
        for p in range(begin, size):
            norm += np.float64(scratch[out_indices[p]]) ** 2
        scale = 1.0 / np.sqrt(norm) if norm > 0 else 0.0
        for p in range(begin, size):
            out_values[p] = scratch[out_indices[p]] * scale
            scratch[out_indices[p]] = 0
        out_start[group - low + 1] = size
    return SparseRows(out_start, out_indices[:size].copy(), out_values[:size].copy())
