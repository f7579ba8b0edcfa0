"""Balanced clusters: sparse unit vectors are halved by their cosines until the parts are small enough."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from longtail.arrays import Bools, Ints, SparseRows, njit, with_own_columns
from longtail.run import Run

#: Centres have settled when a round raises the mean cosine by less.
TOLERANCE = 1e-4
ROUNDS = 50
#: Rows with fewer entries than so many times the features are copied, with columns of their own: centres are no wider
#: than needed then. Others are read where they lie.
WORTH_A_COPY = 2


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
    first, second = rng.choice(len(members), size=2, replace=False)
    own, which, columns = rows, members, n_features
    if (rows.start[members + 1] - rows.start[members]).sum() < WORTH_A_COPY * n_features:
        own, used = with_own_columns(rows, members, np.full(n_features, -1, dtype=np.int32))
        which, columns = np.arange(len(members), dtype=np.int32), len(used)
    in_first = in_first_half(own, which, columns, (first, second), TOLERANCE, ROUNDS)
    return [members[in_first], members[~in_first]]


@njit(nogil=True, cache=True, fastmath=True)
def in_first_half(
    rows: SparseRows, which: Ints, n_features: int, seeds: tuple[int, int], tolerance: float, max_rounds: int
) -> Bools:
    """Balanced spherical 2-means over some of the rows: True for the rows of the first half, which is never the larger.

    seeds  which of them the two centres begin with. By the difference of their cosines to the centres, the lower
    half of the rows goes to one child, the upper to the other; centres follow; until the mean cosine grows by less
    than `tolerance`.
    """
    indptr, indices, values = rows.start, rows.indices, rows.values
    n = len(which)
    first, second = which[seeds[0]], which[seeds[1]]
    half = n // 2
    centre = np.zeros((n_features, 2), dtype=np.float32)
    difference = np.zeros(n, dtype=np.float32)
    nearer = np.zeros((n, 2), dtype=np.float32)
    in_first = np.zeros(n, dtype=np.bool_)
    scale = np.ones(2, dtype=np.float32)
    for p in range(indptr[first], indptr[first + 1]):
        centre[indices[p], 0] = values[p]
    for p in range(indptr[second], indptr[second + 1]):
        centre[indices[p], 1] = values[p]
    sums = np.zeros((n_features, 2), dtype=np.float32)
    squares = np.zeros(2, dtype=np.float64)
    previous = -2.0
    for number in range(max_rounds):
        for i in range(n):
            a, b = np.float32(0), np.float32(0)
            for p in range(indptr[which[i]], indptr[which[i] + 1]):
                a += values[p] * centre[indices[p], 0]
                b += values[p] * centre[indices[p], 1]
            nearer[i, 0], nearer[i, 1] = a * scale[0], b * scale[1]
            difference[i] = nearer[i, 1] - nearer[i, 0]
        # the lower half in the order of (difference, number), without sorting all of them
        middle = np.partition(difference, half)[half] if half > 0 else np.float32(0)
        below = 0
        for i in range(n):
            below += difference[i] < middle
        equals = half - below
        mean = 0.0
        for i in range(n):
            is_first = difference[i] < middle
            if difference[i] == middle and equals > 0:
                is_first = True
                equals -= 1
            mean += nearer[i, 0 if is_first else 1]
            # a row that changes its half is taken out of one sum and added to the other
            side = 0 if is_first else 1
            if number == 0 or is_first != in_first[i]:
                for p in range(indptr[which[i]], indptr[which[i] + 1]):
                    f, v = indices[p], values[p]
                    squares[side] += np.float64(v) * (2 * np.float64(sums[f, side]) + v)
                    sums[f, side] += v
                    if number > 0:
                        squares[1 - side] += np.float64(v) * (v - 2 * np.float64(sums[f, 1 - side]))
                        sums[f, 1 - side] -= v
            in_first[i] = is_first
        mean /= n
        if mean - previous < tolerance:
            break
        previous = mean
        centre = sums
        for side in range(2):
            scale[side] = 1 / np.sqrt(squares[side]) if squares[side] > 1e-12 else 0
    return in_first
