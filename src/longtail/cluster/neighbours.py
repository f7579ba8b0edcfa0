"""Nearest neighbours among dense vectors: every one is compared.

Search is a blocked matrix product whose blocks stay in the processor's cache; a kernel keeps the k best of each query
as the blocks pass. Labels of one document often have the same vector: equal vectors are searched as one and come back
as all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from longtail.arrays import Bools, Floats, Ints, Longs, njit
from longtail.blas import blas_threads
from longtail.run import Run
from longtail.sparse import starts_of

QUERY_BLOCK, VECTOR_BLOCK = 256, 2048  # of a product: 2 MB


class Neighbours:
    """An index over vectors (n, D) by their cosines, made by `Neighbours.of`."""

    def __init__(self, vectors: Floats, groups: _Groups, run: Run) -> None:
        self._vectors = vectors  # different ones, (u, D)
        self._groups = groups
        self._run = run
        self._place = np.zeros(groups.members.max(initial=-1) + 1, dtype=np.int32)  # of a group, by its first member
        self._place[groups.first] = np.arange(len(vectors))

    @classmethod
    def of(cls, vectors: NDArray[np.floating], run: Run | None = None) -> Neighbours:
        """An index over vectors (n, D), searched on the run's threads."""
        given = _unit(_checked(vectors, "vectors"))
        groups = _equal_rows(given)
        different = given if len(groups.first) == len(given) else given[groups.first]
        return cls(different, groups, run or Run())

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
        given = _unit(given)
        # blocks are shared out between threads already; and sums split by threads would round by their number
        with blas_threads(1):
            blocks = [given[start : start + QUERY_BLOCK] for start in range(0, len(given), QUERY_BLOCK)]
            parts = self._run.map(lambda block: self._block(block, k), blocks)
        return np.concatenate([ids for ids, _ in parts]), np.concatenate([values for _, values in parts])

    def _block(self, queries: Floats, k: int) -> tuple[Ints, Floats]:
        found = self._compared(queries, min(k, len(self._vectors)))
        # a block's products round by its shape; the answer must not depend on which queries came together
        values = _similarities(queries, self._vectors, self._place[found])
        order = np.lexsort((found, -values), axis=-1)
        found, values = np.take_along_axis(found, order, 1), np.take_along_axis(values, order, 1)
        return _expanded(self._place[found], values, self._groups.start, self._groups.members, k)

    def _compared(self, queries: Floats, depth: int) -> Ints:
        """First members of the groups nearest to each query, in no order, int32 (m, depth)."""
        values = np.full((len(queries), depth), -np.inf, dtype=np.float32)
        found = np.full((len(queries), depth), -1, dtype=np.int32)
        for start in range(0, len(self._vectors), VECTOR_BLOCK):
            block = slice(start, start + VECTOR_BLOCK)
            _offer(queries @ self._vectors[block].T, self._groups.first[block], values, found)
        return found


# equal vectors
@dataclass(frozen=True, eq=False)
class _Groups:
    """Group g holds the equal vectors members[start[g]:start[g + 1]], rising; first[g] is the smallest."""

    first: Ints  # (u,)
    start: Longs  # (u + 1,)
    members: Ints  # (n,)


def _equal_rows(vectors: Floats) -> _Groups:
    """Groups of equal rows, in the order of their first members."""
    order = np.argsort(_hashes(vectors.view(np.uint32)), kind="stable")
    begins = _differs(vectors, order)
    group = np.cumsum(begins) - 1
    first = order[begins]
    rank = np.argsort(np.argsort(first))[group] if len(first) else group
    sizes = np.bincount(rank, minlength=len(first))
    members = order[np.argsort(rank, kind="stable")].astype(np.int32)
    return _Groups(np.sort(first).astype(np.int32), starts_of(sizes), members)


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


# the k best
@njit(nogil=True, cache=True)
def _offer(products: Floats, ids: Ints, best_values: Floats, best_ids: Ints) -> None:
    """Takes products (r, c) of queries with vectors `ids` into the best found so far.

    Each row of the best is a heap whose root is the worst: the smallest value, and of equal ones the largest id.
    """
    k = best_values.shape[1]
    for r in range(len(products)):
        values, own = best_values[r], best_ids[r]
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
