"""Balanced clusters: sparse unit vectors are halved by their cosines until the parts are small enough."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from longtail.arrays import Bools, Ints, SparseRows, njit, with_own_columns
from longtail.run import Run

#: Centres have settled when a round raises the mean cosine by less.
TOLERANCE = 1e-4
ROUNDS = 50


def balanced(rows: SparseRows, n_features: int, size: int, run: Run, *, name: str = "balanced") -> NDArray[np.int32]:
    """int32 (L,): clusters of at most `size` rows by balanced spherical 2-means, neighbours by number being similar.

    Rows are unit vectors. The same for any number of threads.
    """
    cluster = np.zeros(rows.n_rows, dtype=np.int32)
    level = [np.arange(len(cluster), dtype=np.int32)]
    depth = 0
    while any(len(members) > size for members in level):

        def divide(task: tuple[int, Ints]) -> list[Ints]:
            number, members = task
            if len(members) <= size:
                return [members]
            return halves(rows, n_features, members, run.rng(f"{name}/{depth}/{number}"))  # noqa: B023

        found = run.map(divide, list(enumerate(level)), cost=lambda task: len(task[1]))
        level = [members for children in found for members in children]
        depth += 1
    for number, members in enumerate(level):
        cluster[members] = number
    return cluster


def halves(rows: SparseRows, n_features: int, members: Ints, rng: np.random.Generator) -> list[Ints]:
    """Two halves of some of the rows (at least 2), the first never the larger."""
    own, used = with_own_columns(rows, members, np.full(n_features, -1, dtype=np.int32))
    first, second = rng.choice(len(members), size=2, replace=False)
    in_first = in_first_half(own, len(used), first, second, TOLERANCE, ROUNDS)
    return [members[in_first], members[~in_first]]


@njit(nogil=True, cache=True, fastmath=True)
def in_first_half(
    rows: SparseRows, n_features: int, first: int, second: int, tolerance: float, max_rounds: int
) -> Bools:
    """Balanced spherical 2-means over all rows: True for the rows of the first half, which is never the larger.

    first, second  the rows that seed the two centres. Rows are sorted by the difference of their cosines to the
    centres; the lower half goes to one child, the upper to the other; centres follow; until the mean cosine grows
    by less than `tolerance`.
    """
    indptr, indices, values = rows.start, rows.indices, rows.values
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
