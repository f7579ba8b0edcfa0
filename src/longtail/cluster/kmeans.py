"""Spherical k-means on sparse unit vectors."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail.arrays import Floats, Ints, SparseRows, add_products, njit
from longtail.cluster.blocks import even_blocks
from longtail.run import Run

#: Centres have settled when a round raises the mean cosine by less.
TOLERANCE = 1e-4
ROUNDS = 20


def k_means(rows: SparseRows, n_features: int, k: int, rng: np.random.Generator, run: Run) -> NDArray[np.int32]:
    """Spherical k-means with k random rows as seeds: a cluster for each row, empty ones closed up.

    Single-member clusters join the nearest other cluster, as Bonsai does. The result does not depend on the
    number of threads: rows are assigned one by one, and a centre sums its rows in their order.
    """
    n = rows.n_rows
    seeds = np.sort(rng.choice(n, size=min(k, n), replace=False))
    k = len(seeds)
    centre = np.zeros((n_features, -(-k // 8) * 8), dtype=np.float32)
    for column, row in enumerate(seeds):
        span = slice(rows.start[row], rows.start[row + 1])
        centre[rows.indices[span], column] = rows.values[span]
    assignment = np.zeros(n, dtype=np.int32)
    similarity = np.zeros(n, dtype=np.float32)
    row_blocks = even_blocks(rows.start, max(1, min(n, int(rows.start[-1]) // 200_000)))
    column_blocks = [(low, min(low + 8, k)) for low in range(0, k, 8)]
    previous = -2.0
    for _ in range(ROUNDS):
        run.map(lambda b: _nearest_centre(rows, *b, centre, assignment, similarity), row_blocks)
        mean = float(similarity.mean(dtype=np.float64))
        if mean - previous < TOLERANCE:
            break
        previous = mean
        run.map(lambda b: _sum_clusters(rows, assignment, *b, centre), column_blocks)
    return _closed_up(rows, assignment, k, n_features)


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
def _nearest_centre(rows: SparseRows, low: int, high: int, centre: Floats, out: Ints, similarity: Floats) -> None:
    """out[i] = the centre of largest cosine (the first of equals) for rows low..high; centre is (D, K) row-major."""
    width = centre.shape[1]
    z = np.zeros(width, dtype=np.float32)
    for i in range(low, high):
        z[:] = 0
        add_products(rows.indices, rows.values, rows.start[i], rows.start[i + 1], centre, z)
        best = 0
        for j in range(1, width):
            if z[j] > z[best]:
                best = j
        out[i] = best
        similarity[i] = z[best]


@njit(nogil=True, cache=True)
def _sum_clusters(rows: SparseRows, assignment: Ints, low: int, high: int, centre: Floats) -> None:
    """Columns low..high of centre become the unit-length sums of their rows; other columns are left alone."""
    for f in range(centre.shape[0]):
        for j in range(low, high):
            centre[f, j] = 0
    for i in range(len(rows.start) - 1):
        j = assignment[i]
        if low <= j < high:
            for p in range(rows.start[i], rows.start[i + 1]):
                centre[rows.indices[p], j] += rows.values[p]
    norm = np.zeros(high - low, dtype=np.float64)
    for f in range(centre.shape[0]):
        for j in range(low, high):
            norm[j - low] += np.float64(centre[f, j]) ** 2
    for j in range(low, high):
        norm[j - low] = 1.0 / np.sqrt(norm[j - low]) if norm[j - low] > 0 else 0.0
    for f in range(centre.shape[0]):
        for j in range(low, high):
            centre[f, j] *= norm[j - low]
