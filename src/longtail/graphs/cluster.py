"""Clustering of labels by the documents that carry them: balanced halves and k-way, on sparse unit vectors.

A label's vector is the sum of its documents' feature vectors, brought to unit length (positive instance feature
aggregation); closeness is the cosine.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray

from longtail.arrays import Bools, Floats, Ints, Longs, add_products
from longtail.run import Run

Rows = tuple[Longs, Ints, Floats]  # indptr, indices, values


def label_vectors(
    X: sp.csr_matrix, label_start: Longs, label_documents: Ints, label_strength: Floats, run: Run
) -> Rows:
    """Unit vectors of the labels, rows of a sparse (L, D) matrix; a label without documents has an empty row.

    label_start, label_documents, label_strength  the documents of each label and how strongly they carry it
    """
    n_labels = len(label_start) - 1
    indptr, indices, values = X.indptr.astype(np.int64), X.indices, X.data
    work = np.concatenate([[0], np.cumsum(np.diff(indptr)[label_documents])])[label_start]
    blocks = _even_blocks(work, max(1, min(n_labels, int(work[-1] // 2_000_000) + 1)))

    def one(block: tuple[int, int]) -> Rows:
        scratch = np.zeros(X.shape[1], dtype=np.float32)
        low, high = block
        room = int(work[high] - work[low])
        return _sum_rows(
            indptr, indices, values, label_start, label_documents, label_strength, low, high, room, scratch
        )

    parts = run.map(one, blocks, cost=lambda b: float(work[b[1]] - work[b[0]]))
    lengths = np.concatenate([np.diff(part[0]) for part in parts])
    return (
        np.concatenate([[0], np.cumsum(lengths)]),
        np.concatenate([part[1] for part in parts]),
        np.concatenate([part[2] for part in parts]),
    )


def _even_blocks(work: NDArray[np.integer], count: int) -> list[tuple[int, int]]:
    """Consecutive ranges of about equal work; they depend on the data only, never on the number of threads."""
    cuts = np.searchsorted(work, np.linspace(0, work[-1], count + 1)[1:-1])
    edges = np.unique(np.concatenate([[0], cuts, [len(work) - 1]]))
    return [(int(a), int(b)) for a, b in pairwise(edges)]


@njit(nogil=True, cache=True)
def _sum_rows(
    indptr: Longs,
    indices: Ints,
    values: Floats,
    group_start: Longs,
    group_rows: Ints,
    group_weight: Floats,
    low: int,
    high: int,
    room: int,
    scratch: Floats,
) -> Rows:
    """Weighted sums of groups of rows, each brought to unit length, with sorted indices; scratch is zeros (D,)."""
    out_start = np.zeros(high - low + 1, dtype=np.int64)
    out_indices = np.empty(room, dtype=np.int32)
    out_values = np.empty(room, dtype=np.float32)
    size = 0
    for group in range(low, high):
        begin = size
        for q in range(group_start[group], group_start[group + 1]):
            row, weight = group_rows[q], group_weight[q]
            if weight <= 0:
                continue
            for p in range(indptr[row], indptr[row + 1]):
                f = indices[p]
                if values[p] == 0:
                    continue
                if scratch[f] == 0:
                    out_indices[size] = f
                    size += 1
                scratch[f] += weight * values[p]
        out_indices[begin:size].sort()
        norm = 0.0
        for p in range(begin, size):
            norm += np.float64(scratch[out_indices[p]]) ** 2
        scale = 1.0 / np.sqrt(norm) if norm > 0 else 0.0
        for p in range(begin, size):
            out_values[p] = scratch[out_indices[p]] * scale
            scratch[out_indices[p]] = 0
        out_start[group - low + 1] = size
    return out_start, out_indices[:size].copy(), out_values[:size].copy()


@njit(nogil=True, cache=True)
def compact(indptr: Longs, indices: Ints, values: Floats, rows: Ints, slot: Ints) -> tuple[Longs, Ints, Floats, Ints]:
    """Some rows with the features renumbered densely in rising order: indptr, indices, values, features used.

    slot is int32 (D,), all -1, and is left so.
    """
    size = 0
    for row in rows:
        size += indptr[row + 1] - indptr[row]
    start = np.empty(len(rows) + 1, dtype=np.int64)
    local = np.empty(size, dtype=np.int32)
    data = np.empty(size, dtype=np.float32)
    used = np.empty(min(size, len(slot)), dtype=np.int32)
    n_used = 0
    for row in rows:
        for p in range(indptr[row], indptr[row + 1]):
            if slot[indices[p]] < 0:
                slot[indices[p]] = 0
                used[n_used] = indices[p]
                n_used += 1
    used = used[:n_used].copy()
    used.sort()
    for a in range(n_used):
        slot[used[a]] = a
    start[0] = 0
    q = 0
    for i in range(len(rows)):
        for p in range(indptr[rows[i]], indptr[rows[i] + 1]):
            local[q] = slot[indices[p]]
            data[q] = values[p]
            q += 1
        start[i + 1] = q
    for a in range(n_used):
        slot[used[a]] = -1
    return start, local, data, used


@njit(nogil=True, cache=True)
def largest_entries(indptr: Longs, indices: Ints, values: Floats, most: int) -> Rows:
    """Rows with their `most` largest values (the first of equals), in the order they had."""
    start = np.zeros(len(indptr), dtype=np.int64)
    for i in range(len(indptr) - 1):
        start[i + 1] = start[i] + min(most, indptr[i + 1] - indptr[i])
    kept_indices = np.empty(start[-1], dtype=np.int32)
    kept_values = np.empty(start[-1], dtype=np.float32)
    for i in range(len(indptr) - 1):
        low, high = indptr[i], indptr[i + 1]
        least, equals = np.float32(-np.inf), 0
        if high - low > most:
            least = np.partition(values[low:high], high - low - most)[high - low - most]
            equals = most - np.sum(values[low:high] > least)
        q = start[i]
        for p in range(low, high):
            if values[p] == least:
                equals -= 1
                if equals < 0:
                    continue
            if values[p] >= least:
                kept_indices[q] = indices[p]
                kept_values[q] = values[p]
                q += 1
    return start, kept_indices, kept_values


@njit(nogil=True, cache=True, fastmath=True)
def halve(
    indptr: Longs,
    indices: Ints,
    values: Floats,
    first: int,
    second: int,
    tolerance: float,
    max_rounds: int,
    n_features: int,
) -> Bools:
    """Balanced spherical 2-means over all rows: True for the rows of the first half, which is never the larger.

    first, second  the rows that seed the two centres. Rows are sorted by the difference of their cosines to the
    centres; the lower half goes to one child, the upper to the other; centres follow; until the mean cosine grows
    by less than `tolerance`.
    """
    n = len(indptr) - 1
    half = n // 2
    centre = np.zeros((n_features, 2), dtype=np.float32)
    difference = np.zeros(n, dtype=np.float32)
    nearer = np.zeros((n, 2), dtype=np.float32)
    in_first = np.zeros(n, dtype=np.bool_)
    for p in range(indptr[first], indptr[first + 1]):
        centre[indices[p], 0] = values[p]
    for p in range(indptr[second], indptr[second + 1]):
        centre[indices[p], 1] = values[p]
    previous = -2.0
    for _ in range(max_rounds):
        for i in range(n):
            a, b = np.float32(0), np.float32(0)
            for p in range(indptr[i], indptr[i + 1]):
                a += values[p] * centre[indices[p], 0]
                b += values[p] * centre[indices[p], 1]
            nearer[i, 0], nearer[i, 1] = a, b
            difference[i] = b - a
        order = np.argsort(difference, kind="mergesort")
        mean = 0.0
        for r in range(n):
            in_first[order[r]] = r < half
            mean += nearer[order[r], 0 if r < half else 1]
        mean /= n
        if mean - previous < tolerance:
            break
        previous = mean
        centre[:] = 0
        for i in range(n):
            side = 0 if in_first[i] else 1
            for p in range(indptr[i], indptr[i + 1]):
                centre[indices[p], side] += values[p]
        norm0, norm1 = 0.0, 0.0
        for f in range(n_features):
            norm0 += centre[f, 0] * centre[f, 0]
            norm1 += centre[f, 1] * centre[f, 1]
        scale0 = np.float32(1 / np.sqrt(norm0)) if norm0 > 0 else np.float32(0)
        scale1 = np.float32(1 / np.sqrt(norm1)) if norm1 > 0 else np.float32(0)
        for f in range(n_features):
            centre[f, 0] *= scale0
            centre[f, 1] *= scale1
    return in_first


@njit(nogil=True, cache=True, fastmath=True)
def nearest_centre(
    indptr: Longs, indices: Ints, values: Floats, low: int, high: int, centre: Floats, out: Ints, similarity: Floats
) -> None:
    """out[i] = the centre of largest cosine (the first of equals) for rows low..high; centre is (D, K) row-major."""
    width = centre.shape[1]
    z = np.zeros(width, dtype=np.float32)
    for i in range(low, high):
        z[:] = 0
        add_products(indices, values, indptr[i], indptr[i + 1], centre, z)
        best = 0
        for j in range(1, width):
            if z[j] > z[best]:
                best = j
        out[i] = best
        similarity[i] = z[best]


@njit(nogil=True, cache=True)
def sum_clusters(
    indptr: Longs, indices: Ints, values: Floats, assignment: Ints, low: int, high: int, centre: Floats
) -> None:
    """Columns low..high of centre become the unit-length sums of their rows; other columns are left alone."""
    for f in range(centre.shape[0]):
        for j in range(low, high):
            centre[f, j] = 0
    for i in range(len(indptr) - 1):
        j = assignment[i]
        if low <= j < high:
            for p in range(indptr[i], indptr[i + 1]):
                centre[indices[p], j] += values[p]
    norm = np.zeros(high - low, dtype=np.float64)
    for f in range(centre.shape[0]):
        for j in range(low, high):
            norm[j - low] += np.float64(centre[f, j]) ** 2
    for j in range(low, high):
        norm[j - low] = 1.0 / np.sqrt(norm[j - low]) if norm[j - low] > 0 else 0.0
    for f in range(centre.shape[0]):
        for j in range(low, high):
            centre[f, j] *= norm[j - low]


def k_means(
    rows: Rows,
    n_features: int,
    k: int,
    rng: np.random.Generator,
    run: Run,
    *,
    tolerance: float = 1e-4,
    rounds: int = 20,
) -> NDArray[np.int32]:
    """Spherical k-means with k random rows as seeds: a cluster for each row, empty ones closed up.

    Single-member clusters join the nearest other cluster, as Bonsai does. The result does not depend on the
    number of threads: rows are assigned one by one, and a centre sums its rows in their order.
    """
    indptr, indices, values = rows
    n = len(indptr) - 1
    seeds = np.sort(rng.choice(n, size=min(k, n), replace=False))
    k = len(seeds)
    centre = np.zeros((n_features, -(-k // 8) * 8), dtype=np.float32)
    for column, row in enumerate(seeds):
        span = slice(indptr[row], indptr[row + 1])
        centre[indices[span], column] = values[span]
    assignment = np.zeros(n, dtype=np.int32)
    similarity = np.zeros(n, dtype=np.float32)
    row_blocks = _even_blocks(indptr, max(1, min(n, int(indptr[-1]) // 200_000)))
    column_blocks = [(low, min(low + 8, k)) for low in range(0, k, 8)]
    previous = -2.0
    for _ in range(rounds):
        run.map(lambda b: nearest_centre(indptr, indices, values, *b, centre, assignment, similarity), row_blocks)
        mean = float(similarity.mean(dtype=np.float64))
        if mean - previous < tolerance:
            break
        previous = mean
        run.map(lambda b: sum_clusters(indptr, indices, values, assignment, *b, centre), column_blocks)
    return _closed_up(rows, assignment, k, n_features)


def _closed_up(rows: Rows, assignment: NDArray[np.int32], k: int, n_features: int) -> NDArray[np.int32]:
    """Single-member clusters moved to the nearest larger cluster, cluster numbers made consecutive."""
    indptr, indices, values = rows
    size = np.bincount(assignment, minlength=k)
    alone = np.flatnonzero((size == 1)[assignment])
    larger = np.flatnonzero(size > 1)
    if len(alone) and len(larger):
        membership = sp.csr_matrix((np.ones(len(assignment), np.float32), (assignment, np.arange(len(assignment)))))
        matrix = sp.csr_matrix((values, indices, indptr), shape=(len(assignment), n_features))
        centres = (membership[larger] @ matrix).tocsr()
        norms = np.sqrt(np.asarray(centres.multiply(centres).sum(axis=1)).ravel())
        closeness = (matrix[alone] @ centres.T).toarray() / np.maximum(norms, 1e-12)
        assignment = assignment.copy()
        assignment[alone] = larger[closeness.argmax(axis=1)]
    return np.unique(assignment, return_inverse=True)[1].astype(np.int32)


def balanced(rows: Rows, n_features: int, size: int, run: Run, *, name: str = "balanced") -> NDArray[np.int32]:
    """int32 (L,): clusters of at most `size` rows by balanced spherical 2-means, neighbours by number being similar.

    Rows are unit vectors. The same for any number of threads.
    """
    cluster = np.zeros(len(rows[0]) - 1, dtype=np.int32)
    level = [np.arange(len(cluster), dtype=np.int32)]
    depth = 0
    while any(len(members) > size for members in level):

        def divide(task: tuple[int, NDArray[np.int32]]) -> list[NDArray[np.int32]]:
            number, members = task
            if len(members) <= size:
                return [members]
            indptr, indices, values, used = compact(*rows, members, np.full(n_features, -1, dtype=np.int32))
            first, second = run.rng(f"{name}/{depth}/{number}").choice(len(members), size=2, replace=False)  # noqa: B023
            in_first = halve(indptr, indices, values, first, second, 1e-4, 50, len(used))
            return [members[in_first], members[~in_first]]

        found = run.map(divide, list(enumerate(level)), cost=lambda task: len(task[1]))
        level = [members for children in found for members in children]
        depth += 1
    for number, members in enumerate(level):
        cluster[members] = number
    return cluster
