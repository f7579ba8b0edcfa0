"""Balanced clusters: sparse unit vectors are halved by their cosines until the parts are small enough."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from longtail.arrays import Bools, Doubles, Floats, Ints, SparseRows, njit, nth_smallest, with_own_columns
from longtail.cluster.blocks import even_blocks
from longtail.lanes import two_sums
from longtail.run import Run
from longtail.sparse import starts_of

#: Centres have settled when a round raises the mean cosine by less.
TOLERANCE = 1e-4
ROUNDS = 50
#: Centres of so many features stay in a core's cache.
CACHED = 100_000
#: Entries of a part that one thread compares with the centres at a time; smaller parts are divided by one thread.
ENTRIES_PER_BLOCK = 100_000


def balanced(rows: SparseRows, n_features: int, size: int, run: Run, *, name: str = "balanced") -> NDArray[np.int32]:
    """int32 (L,): clusters of at most `size` rows by balanced spherical 2-means, neighbours by number being similar.

    Rows are unit vectors. The same for any number of threads.
    """
    cluster = np.zeros(rows.n_rows, dtype=np.int32)
    level = [np.arange(len(cluster), dtype=np.int32)]
    depth = 0
    while any(len(members) > size for members in level):
        inner, outer = run.shared_by(len(level))

        def divide(task: tuple[int, Ints]) -> list[Ints]:
            number, members = task
            if len(members) <= size:
                return [members]
            return halves(rows, n_features, members, run.rng(f"{name}/{depth}/{number}"), inner)  # noqa: B023

        found = outer.map(divide, list(enumerate(level)), cost=lambda task: len(task[1]))
        level = [members for children in found for members in children]
        depth += 1
    for number, members in enumerate(level):
        cluster[members] = number
    return cluster


def halves(rows: SparseRows, n_features: int, members: Ints, rng: np.random.Generator, run: Run) -> list[Ints]:
    """Two halves of some of the rows (at least 2), the first never the larger."""
    first, second = rng.choice(len(members), size=2, replace=False)
    own, which, columns = rows, members, n_features
    entries = int((rows.start[members + 1] - rows.start[members]).sum())
    if _worth_a_copy(entries, n_features):
        own, used = with_own_columns(rows, members, np.full(n_features, -1, dtype=np.int32))
        which, columns = np.arange(len(members), dtype=np.int32), len(used)
    if entries < 2 * ENTRIES_PER_BLOCK:
        in_first = in_first_half(own, which, columns, (first, second), TOLERANCE, ROUNDS)
    else:  # decided by the data, never by the threads: the two ways may round differently
        in_first = _in_first_half_by_blocks(own, which, columns, (first, second), run)
    return [members[in_first], members[~in_first]]


def _worth_a_copy(entries: int, n_features: int) -> bool:
    """Whether rows are copied, with columns of their own, so that centres are no wider than needed.

    A copy takes as long as setting some sixteen features to zero for each entry.
    """
    return 16 * entries < n_features or (n_features > CACHED and entries < 2 * n_features)


class _Centres(NamedTuple):
    """Two centres, each a sum of rows that is brought to unit length by its scale.

    sums     float32 (features, 2)
    squares  float64 (2,), squared lengths of the sums
    scale    float32 (2,)
    """

    sums: Floats
    squares: Doubles
    scale: Floats


class _Sides(NamedTuple):
    """Where rows belong.

    nearer      float32 (rows, 2), cosines to the two centres
    difference  float32 (rows,), of the second and the first
    in_first    bool (rows,)
    """

    nearer: Floats
    difference: Floats
    in_first: Bools


@njit(nogil=True, cache=True, fastmath=True)
def in_first_half(
    rows: SparseRows, which: Ints, n_features: int, seeds: tuple[int, int], tolerance: float, max_rounds: int
) -> Bools:
    """Balanced spherical 2-means over some of the rows: True for the rows of the first half, which is never the larger.

    seeds  which of them the two centres begin with. By the difference of their cosines to the centres, the lower
    half of the rows goes to one child, the upper to the other; centres follow; until the mean cosine grows by less
    than `tolerance`.
    """
    centres, sides = _begin(rows, which, n_features, seeds)
    previous = -2.0
    for number in range(max_rounds):
        _compare(rows, which, 0, len(which), centres, sides)
        mean = _divide(rows, which, centres, sides, number == 0)
        if mean - previous < tolerance:
            break
        previous = mean
    return sides.in_first


def _in_first_half_by_blocks(rows: SparseRows, which: Ints, n_features: int, seeds: tuple[int, int], run: Run) -> Bools:
    """The same for many rows, which threads share."""
    work = starts_of(rows.start[which + 1] - rows.start[which])
    blocks = even_blocks(work, int(work[-1]) // ENTRIES_PER_BLOCK)
    centres, sides = _begin(rows, which, n_features, seeds)
    previous = -2.0
    for number in range(ROUNDS):
        run.map(lambda block: _compare(rows, which, *block, centres, sides), blocks)
        mean = _divide(rows, which, centres, sides, number == 0)
        if mean - previous < TOLERANCE:
            break
        previous = mean
    return sides.in_first


@njit(nogil=True, cache=True)
def _begin(rows: SparseRows, which: Ints, n_features: int, seeds: tuple[int, int]) -> tuple[_Centres, _Sides]:
    """The two seeds as centres."""
    n = len(which)
    sums = np.zeros((n_features, 2), dtype=np.float32)
    for side in range(2):
        seed = which[seeds[side]]
        for p in range(rows.start[seed], rows.start[seed + 1]):
            sums[rows.indices[p], side] = rows.values[p]
    centres = _Centres(sums, np.zeros(2, dtype=np.float64), np.ones(2, dtype=np.float32))
    sides = _Sides(np.zeros((n, 2), dtype=np.float32), np.zeros(n, dtype=np.float32), np.zeros(n, dtype=np.bool_))
    return centres, sides


@njit(nogil=True, cache=True, fastmath=True)
def _compare(rows: SparseRows, which: Ints, low: int, high: int, centres: _Centres, sides: _Sides) -> None:
    """Cosines of rows low..high to the two centres."""
    indptr, indices, values = rows
    sums, scale, nearer, difference = centres.sums, centres.scale, sides.nearer, sides.difference
    for i in range(low, high):
        a, b = two_sums(sums, indices, values, indptr[which[i]], indptr[which[i] + 1])
        nearer[i, 0], nearer[i, 1] = a * scale[0], b * scale[1]
        difference[i] = nearer[i, 1] - nearer[i, 0]


@njit(nogil=True, cache=True, fastmath=True)
def _divide(rows: SparseRows, which: Ints, centres: _Centres, sides: _Sides, seeded: bool) -> float:
    """Rows to the two sides, centres after them; the mean cosine of rows to the centre they went to.

    seeded  whether the centres are the seeds, which give way to sums of rows
    """
    indptr, indices, values = rows
    sums, squares, scale = centres
    nearer, difference, in_first = sides
    n = len(which)
    half = n // 2
    # the lower half in the order of (difference, number), without sorting all of them
    middle = nth_smallest(difference, half) if half > 0 else np.float32(0)
    equals = half
    for i in range(n):
        equals -= difference[i] < middle
    if seeded:
        sums[:] = 0
    mean = 0.0
    for i in range(n):
        is_first = difference[i] < middle
        if difference[i] == middle and equals > 0:
            is_first = True
            equals -= 1
        side = 0 if is_first else 1
        mean += nearer[i, side]
        # a row that changes its half is taken out of one sum and added to the other
        if seeded or is_first != in_first[i]:
            gained, lost = 0.0, 0.0
            for p in range(indptr[which[i]], indptr[which[i] + 1]):
                f, v = indices[p], values[p]
                gained += np.float64(v) * (2 * np.float64(sums[f, side]) + v)
                sums[f, side] += v
                if not seeded:
                    lost += np.float64(v) * (v - 2 * np.float64(sums[f, 1 - side]))
                    sums[f, 1 - side] -= v
            squares[side] += gained
            squares[1 - side] += lost
        in_first[i] = is_first
    for side in range(2):
        scale[side] = 1 / np.sqrt(squares[side]) if squares[side] > 1e-12 else 0
    return mean / n
