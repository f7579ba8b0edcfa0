"""Nearest neighbours among dense vectors: exact up to a size where that is quickest, beyond it by lists.

Exact search is a blocked matrix product whose blocks stay in the processor's cache; a kernel keeps the k best of each
query as the blocks pass. Beyond `EXACT_UP_TO` vectors, k-means sorts them into lists, and a query looks only into the
lists whose centres are nearest. All queries of a block that look into a list meet it in one matrix product, which makes
this quicker than libraries that answer one query at a time (measured in docs/nearest-neighbours.md).

Labels of one document often have the same vector. Equal vectors are searched as one and come back as all.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from longtail.arrays import Bools, Floats, Ints, Longs
from longtail.errors import UsageError, nearest
from longtail.run import Run

SPACES = ("cosine", "product")

#: Up to so many different vectors every one is compared (measured: benchmarks/nearest.py).
EXACT_UP_TO = 100_000

#: Lists a query looks into, of 2 sqrt(n).
PROBES = 64

ROUNDS = 10  # of k-means
SAMPLE = 64  # vectors a list that k-means sees
QUERY_BLOCK, VECTOR_BLOCK = 256, 2048  # of an exact product: 2 MB
LIST_BLOCK = 2048  # queries that are sorted by their lists together


@dataclass(frozen=True, eq=False)
class _Lists:
    """Vectors start[i]:start[i + 1] are those nearest to centres[i]."""

    centres: Floats  # (lists, D)
    start: Longs  # (lists + 1,)


class Nearest:
    """An index over n vectors of width D, made by `Nearest.of`.

    exact   whether every vector is compared
    probes  lists a query looks into otherwise; may be changed between searches
    """

    def __init__(
        self, vectors: Floats, groups: _Groups, lists: _Lists | None, *, probes: int, cosine: bool, run: Run
    ) -> None:
        self.probes = probes
        self._vectors = vectors  # different ones, (u, D)
        self._groups = groups
        self._lists = lists
        self._cosine = cosine
        self._run = run
        self._place = np.zeros(groups.members.max(initial=-1) + 1, dtype=np.int32)  # of a group, by its first member
        self._place[groups.first] = np.arange(len(vectors))

    @classmethod
    def of(
        cls,
        vectors: NDArray[np.floating],
        space: str = "cosine",
        *,
        exact_up_to: int = EXACT_UP_TO,
        probes: int = PROBES,
        seed: int = 0,
        threads: int = 0,
    ) -> Nearest:
        """An index over vectors (n, D).

        space        "cosine", or "product" for the inner product as it is
        exact_up_to  more different vectors than this are sorted into lists
        probes       lists a query looks into: more find more of the true neighbours and take longer
        seed         of the lists; the same seed gives the same answers, whatever the number of threads
        threads      0 for all cores
        """
        if space not in SPACES:
            raise UsageError(f"unknown space '{space}'; {nearest(space, SPACES)}")
        if probes < 1:
            raise UsageError(f"probes must be at least 1, not {probes}")
        run = Run(seed=seed, threads=threads)
        given = _checked(vectors, "vectors")
        if space == "cosine":
            given = _unit(given)
        groups = _equal_rows(given)
        different = given if len(groups.first) == len(given) else given[groups.first]
        lists = None
        if len(different) > exact_up_to:
            with _one_blas_thread():
                order, lists = _in_lists(different, run)
            different, groups = different[order], groups.take(order)
        return cls(different, groups, lists, probes=probes, cosine=space == "cosine", run=run)

    @property
    def exact(self) -> bool:
        return self._lists is None

    def search(self, queries: NDArray[np.floating], k: int) -> tuple[Ints, Floats]:
        """The k nearest of each query (m, D): ids int32 (m, k) and similarities float32 (m, k).

        Rows are sorted by (-similarity, id), padded with id -1 and similarity 0 where there are fewer than k vectors.
        """
        if k < 1:
            raise ValueError(f"k must be at least 1, not {k}")
        given = _checked(queries, "queries")
        if given.shape[1] != self._vectors.shape[1]:
            raise ValueError(f"queries of width {given.shape[1]} for vectors of width {self._vectors.shape[1]}")
        if len(given) == 0 or len(self._vectors) == 0:
            return np.full((len(given), k), -1, dtype=np.int32), np.zeros((len(given), k), dtype=np.float32)
        if self._cosine:
            given = _unit(given)
        size = QUERY_BLOCK if self._lists is None else LIST_BLOCK
        with _one_blas_thread():
            blocks = [given[start : start + size] for start in range(0, len(given), size)]
            parts = self._run.map(lambda block: self._block(block, k), blocks)
        return np.concatenate([ids for ids, _ in parts]), np.concatenate([values for _, values in parts])

    def _block(self, queries: Floats, k: int) -> tuple[Ints, Floats]:
        depth = min(k, len(self._vectors))
        if self._lists is None:
            found = self._compared(queries, depth)
        else:
            found = self._probed(queries, depth, self._lists)
            short = np.flatnonzero(found.min(axis=1) < 0)
            if len(short):  # the lists of these hold fewer than k
                found[short] = self._compared(queries[short], depth)
        # a block's products round by its shape; the answer must not depend on which queries came together
        values = _similarities(queries, self._vectors, self._place[found])
        order = np.lexsort((found, -values), axis=-1)
        found, values = np.take_along_axis(found, order, 1), np.take_along_axis(values, order, 1)
        return _expanded(self._place[found], values, self._groups.start, self._groups.members, k)

    def _compared(self, queries: Floats, depth: int) -> Ints:
        """First members of the groups nearest to each query, in no order, int32 (m, depth): all are compared."""
        values, found = _nothing(len(queries), depth)
        rows = np.arange(len(queries))
        for start in range(0, len(self._vectors), VECTOR_BLOCK):
            block = slice(start, start + VECTOR_BLOCK)
            _offer(queries @ self._vectors[block].T, rows, self._groups.first[block], values, found)
        return found

    def _probed(self, queries: Floats, depth: int, lists: _Lists) -> Ints:
        """As `_compared`, from the lists nearest to each query; -1 where they hold too few."""
        values, found = _nothing(len(queries), depth)
        near = _largest(queries @ lists.centres.T, self.probes)
        rows = np.argsort(near, axis=None, kind="stable") // near.shape[1]
        counts = np.bincount(near.ravel(), minlength=len(lists.centres))
        ends = np.cumsum(counts)
        for number in np.flatnonzero(counts):
            own = rows[ends[number] - counts[number] : ends[number]]
            block = slice(lists.start[number], lists.start[number + 1])
            _offer(queries[own] @ self._vectors[block].T, own, self._groups.first[block], values, found)
        return found


# equal vectors
@dataclass(frozen=True, eq=False)
class _Groups:
    """Group g holds the equal vectors members[start[g]:start[g + 1]], rising; first[g] is the smallest."""

    first: Ints  # (u,)
    start: Longs  # (u + 1,)
    members: Ints  # (n,)

    def take(self, order: NDArray[np.integer]) -> _Groups:
        """The groups in another order."""
        sizes = np.diff(self.start)[order]
        start = np.concatenate([[0], np.cumsum(sizes)])
        places = np.repeat(self.start[:-1][order] - start[:-1], sizes) + np.arange(start[-1])
        return _Groups(self.first[order], start, self.members[places])


def _equal_rows(vectors: Floats) -> _Groups:
    """Groups of equal rows, in the order of their first members."""
    order = np.argsort(_hashes(vectors.view(np.uint32)), kind="stable")
    begins = _differs(vectors, order)
    group = np.cumsum(begins) - 1
    first = order[begins]
    rank = np.argsort(np.argsort(first))[group] if len(first) else group
    sizes = np.bincount(rank, minlength=len(first))
    members = order[np.argsort(rank, kind="stable")].astype(np.int32)
    return _Groups(np.sort(first).astype(np.int32), np.concatenate([[0], np.cumsum(sizes)]), members)


@njit(nogil=True, cache=True)
def _hashes(bits: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """FNV-1a over the words of each row."""
    n, width = bits.shape
    found = np.empty(n, dtype=np.uint64)
    for row in range(n):
        state = np.uint64(14695981039346656037)
        for column in range(width):
            state = (state ^ np.uint64(bits[row, column])) * np.uint64(1099511628211)
        found[row] = state
    return found


@njit(nogil=True, cache=True)
def _differs(vectors: Floats, order: Longs) -> Bools:
    """Whether each row differs from the one before it in the order; the first does."""
    found = np.ones(len(order), dtype=np.bool_)
    for place in range(1, len(order)):
        found[place] = False
        for column in range(vectors.shape[1]):
            if vectors[order[place], column] != vectors[order[place - 1], column]:
                found[place] = True
                break
    return found


# lists
def _in_lists(vectors: Floats, run: Run) -> tuple[Longs, _Lists]:
    """An order of the vectors in which lists stand together, and the lists.

    k-means needs vectors of one length. Shorter ones get one more dimension that fills them up to the longest; a query
    has 0 there, so that its cosines with the filled vectors are in the order of its products.
    """
    squares = np.einsum("nd,nd->n", vectors, vectors)
    filled = np.column_stack([vectors, np.sqrt(np.maximum(squares.max() - squares, 0))])
    filled /= max(float(np.sqrt(squares.max())), 1e-30)
    rng = run.rng("nearest/lists")
    count = min(len(vectors), int(2 * len(vectors) ** 0.5))
    centres = filled[np.sort(rng.choice(len(vectors), count, replace=False))]
    sample = filled[np.sort(rng.choice(len(vectors), min(len(vectors), SAMPLE * count), replace=False))]
    for _ in range(ROUNDS):
        centres = _unit(_moved(sample, _nearest_centre(sample, centres, run), centres))
    home = _nearest_centre(filled, centres, run)
    start = np.concatenate([[0], np.cumsum(np.bincount(home, minlength=count))])
    kept = np.ascontiguousarray(centres[:, :-1])
    return np.argsort(home, kind="stable"), _Lists(kept, start)


def _nearest_centre(vectors: Floats, centres: Floats, run: Run) -> Longs:
    def one(start: int) -> Longs:
        return np.argmax(vectors[start : start + VECTOR_BLOCK] @ centres.T, axis=1)

    return np.concatenate(run.map(one, range(0, len(vectors), VECTOR_BLOCK)))


def _moved(vectors: Floats, home: Longs, centres: Floats) -> Floats:
    """Sums of the vectors of each centre; a centre without any stays where it is."""
    order = np.argsort(home, kind="stable")
    used, starts = np.unique(home[order], return_index=True)
    moved = centres.copy()
    moved[used] = np.add.reduceat(vectors[order], starts, axis=0)
    return moved


def _largest(values: Floats, count: int) -> Longs:
    """Columns of the `count` largest values of each row, in no order."""
    if count >= values.shape[1]:
        return np.broadcast_to(np.arange(values.shape[1]), values.shape)
    return np.argpartition(-values, count - 1, axis=1)[:, :count]


# the k best
def _nothing(m: int, depth: int) -> tuple[Floats, Ints]:
    return np.full((m, depth), -np.inf, dtype=np.float32), np.full((m, depth), -1, dtype=np.int32)


@njit(nogil=True, cache=True)
def _offer(products: Floats, rows: Longs, ids: Ints, best_values: Floats, best_ids: Ints) -> None:
    """Takes products (r, c) of queries `rows` with vectors `ids` into the best found so far.

    Each row of the best is a heap whose root is the worst: the smallest value, and of equal ones the largest id.
    """
    k = best_values.shape[1]
    for r in range(len(rows)):
        values, own = best_values[rows[r]], best_ids[rows[r]]
        for c in range(len(ids)):
            value = products[r, c]
            if value < values[0] or (value == values[0] and ids[c] > own[0] >= 0):
                continue
            place = 0
            while True:
                child = 2 * place + 1
                if child >= k:
                    break
                other = child + 1
                if other < k and (
                    values[other] < values[child] or (values[other] == values[child] and own[other] > own[child])
                ):
                    child = other
                if values[child] > value or (values[child] == value and own[child] < ids[c]):
                    break
                values[place], own[place] = values[child], own[child]
                place = child
            values[place], own[place] = value, ids[c]


@njit(nogil=True, cache=True, fastmath=True)
def _similarities(queries: Floats, vectors: Floats, places: Ints) -> Floats:
    """Inner products of each query (m, D) with its own vectors, float32 (m, k)."""
    m, k = places.shape
    found = np.empty((m, k), dtype=np.float32)
    for row in range(m):
        for j in range(k):
            vector = vectors[places[row, j]]
            total = np.float32(0)
            for d in range(vectors.shape[1]):
                total += queries[row, d] * vector[d]
            found[row, j] = total
    return found


@njit(nogil=True, cache=True)
def _expanded(places: Ints, values: Floats, start: Longs, members: Ints, k: int) -> tuple[Ints, Floats]:
    """The first k members of groups sorted by value, those of equal value by id; padded (m, k) arrays."""
    m, depth = places.shape
    ids = np.full((m, k), -1, dtype=np.int32)
    similarity = np.zeros((m, k), dtype=np.float32)
    for row in range(m):
        base, filled = 0, 0  # ids[row, base:filled] are of one value
        for j in range(depth):
            value = values[row, j]
            if j > 0 and value < values[row, j - 1]:
                base = filled
            if base == k:
                break
            for p in range(start[places[row, j]], start[places[row, j] + 1]):
                if filled == k and members[p] > ids[row, k - 1]:
                    break
                slot = min(filled, k - 1)
                filled = slot + 1
                similarity[row, slot] = value
                while slot > base and ids[row, slot - 1] > members[p]:
                    ids[row, slot] = ids[row, slot - 1]
                    slot -= 1
                ids[row, slot] = members[p]
    return ids, similarity


# helpers
def _checked(given: NDArray[np.floating], what: str) -> Floats:
    """A contiguous copy, float32 (n, D)."""
    array = np.array(given, dtype=np.float32, order="C")
    if array.ndim != 2:
        raise ValueError(f"{what} must be (n, D), not {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{what} must be finite numbers")
    array += 0  # makes -0 equal to 0 bit by bit
    return array


def _unit(vectors: Floats) -> Floats:
    """Rows brought to unit length in place; zeros stay zeros."""
    # squares of small numbers vanish in single precision
    lengths = np.sqrt(np.einsum("nd,nd->n", vectors, vectors, dtype=np.float64)).astype(np.float32)
    lengths[lengths == 0] = 1
    vectors /= lengths[:, None]
    return vectors


def _one_blas_thread() -> AbstractContextManager[Any]:
    """Blocks are shared out between threads already; and sums that are split by threads would round by their number."""
    return _blas().limit(limits=1, user_api="blas")


@cache
def _blas() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
