"""Spherical k-means on sparse unit vectors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail.arrays import Doubles, Floats, Ints, Longs, SparseRows, njit
from longtail.cluster.blocks import even_blocks
from longtail.lanes import LANES, WIDEST, add_rows, width_for
from longtail.run import Run

#: Centres have settled when a round raises the mean cosine by less.
TOLERANCE = 1e-4
ROUNDS = 20


def k_means(rows: SparseRows, n_features: int, k: int, rng: np.random.Generator, run: Run) -> NDArray[np.int32]:
    """Spherical k-means with k random rows as seeds: a cluster for each row, empty ones closed up.

    Single-member clusters join the nearest other cluster, as Bonsai does. The result does not depend on the
    number of threads: rows are assigned one by one, and a centre adds up its rows in their order.
    """
    n = rows.n_rows
    seeds = np.sort(rng.choice(n, size=min(k, n), replace=False))
    k = len(seeds)
    blocks = [_Centres.of(rows, n_features, seeds[low : low + WIDEST], low) for low in range(0, k, WIDEST)]
    before = np.full(n, -1, dtype=np.int32)
    assignment = np.zeros(n, dtype=np.int32)
    similarity = np.zeros(n, dtype=np.float32)
    row_blocks = even_blocks(rows.start, max(1, min(n, int(rows.start[-1]) // 200_000)))

    def assign(rows_of_block: tuple[int, int]) -> None:
        low, high = rows_of_block
        similarity[low:high] = -np.inf
        for own in blocks:
            _nearest_centre(rows, low, high, own, assignment, similarity, LANES[own.sums.shape[1]])

    previous = -2.0
    for number in range(ROUNDS):
        run.map(assign, row_blocks)
        mean = float(similarity.mean(dtype=np.float64))
        if mean - previous < TOLERANCE:
            break
        previous = mean
        if number == 0:  # the seeds give way to sums of rows
            for own in blocks:
                own.sums[:], own.squares[:] = 0, 0
        run.map(lambda own: _move_rows(rows, before, assignment, own), blocks)
        before[:] = assignment
    return _closed_up(rows, assignment, k, n_features)


class _Centres(NamedTuple):
    """Sums of the rows of some clusters, side by side; a centre is its sum brought to unit length.

    sums     float32 (features, width), as wide as the clusters need
    squares  float64 (width,), squared lengths of the sums
    members  int64 (width,), rows in each
    first    number of the first cluster
    clusters how many there are
    """

    sums: Floats
    squares: Doubles
    members: Longs
    first: int
    clusters: int

    @classmethod
    def of(cls, rows: SparseRows, n_features: int, seeds: NDArray[np.integer], first: int) -> _Centres:
        width = width_for(len(seeds))
        sums = np.zeros((n_features, width), np.float32)
        own = cls(sums, np.zeros(width), np.zeros(width, np.int64), first, len(seeds))
        for column, row in enumerate(seeds):
            span = slice(rows.start[row], rows.start[row + 1])
            own.sums[rows.indices[span], column] = rows.values[span]
            own.squares[column] = np.square(rows.values[span], dtype=np.float64).sum()
        return own


def _closed_up(rows: SparseRows, assignment: NDArray[np.int32], k: int, n_features: int) -> NDArray[np.int32]:
    """Single-member clusters moved to the nearest larger cluster, cluster numbers made consecutive."""
    size = np.bincount(assignment, minlength=k)
    alone = np.flatnonzero((size == 1)[assignment])
    larger = np.flatnonzero(size > 1)
    if len(alone) and len(larger):
        membership = sp.csr_matrix((np.ones(len(assignment), np.float32), (assignment, np.arange(len(assignment)))))
        matrix = rows.matrix(n_features)
        centres = (membership[larger] @ matrix).tocsr()
        norms = np.sqrt(np.asarray(centres.multiply(centres).sum(axis=1)).ravel())
        closeness = (matrix[alone] @ centres.T).toarray() / np.maximum(norms, 1e-12)
        assignment = assignment.copy()
        assignment[alone] = larger[closeness.argmax(axis=1)]
    return np.unique(assignment, return_inverse=True)[1].astype(np.int32)


@njit(nogil=True, cache=True, fastmath=True)
def _nearest_centre(
    rows: SparseRows, low: int, high: int, centres: _Centres, out: Ints, similarity: Floats, lanes: tuple[int, ...]
) -> None:
    """The centre of largest cosine (the first of equals) for rows low..high, if it beats the similarity there is."""
    start, indices, values = rows
    sums, first, count = centres.sums, centres.first, centres.clusters
    scale = np.zeros(len(lanes), dtype=np.float32)
    for j in range(count):
        if centres.squares[j] > 0:
            scale[j] = 1 / np.sqrt(centres.squares[j])
    z = np.zeros(len(lanes), dtype=np.float32)
    for i in range(low, high):
        for j in range(len(lanes)):
            z[j] = 0
        add_rows(sums, None, indices, values, start[i], start[i + 1], z, lanes)
        largest = similarity[i]
        best = -1
        for j in range(count):
            if z[j] * scale[j] > largest:
                largest, best = z[j] * scale[j], j
        if best >= 0:
            out[i] = first + best
            similarity[i] = largest


@njit(nogil=True, cache=True)
def _move_rows(rows: SparseRows, before: Ints, after: Ints, centres: _Centres) -> None:
    """Rows that have changed their cluster are taken out of one sum and added to another."""
    start, indices, values = rows
    sums, squares, members = centres.sums, centres.squares, centres.members
    first, last = centres.first, centres.first + centres.clusters
    for i in range(len(after)):
        if before[i] == after[i]:
            continue
        for turn in range(2):
            cluster, sign = (before[i], np.float32(-1)) if turn == 0 else (after[i], np.float32(1))
            if not first <= cluster < last:
                continue
            grown = 0.0
            for p in range(start[i], start[i + 1]):
                v, old = sign * values[p], sums[indices[p], cluster - first]
                grown += np.float64(v) * (2 * np.float64(old) + v)
                sums[indices[p], cluster - first] = old + v
            squares[cluster - first] += grown
            members[cluster - first] += 1 if turn == 1 else -1
    for j in range(last - first):
        if members[j] == 0:  # what rounding has left there
            squares[j] = 0
            sums[:, j] = 0
