"""What numba kernels share: short names for array types, sparse rows, products, lists of the best, random bits."""

from __future__ import annotations

import itertools
import os
import pickle
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import numba
import numpy as np
import scipy.sparse as sp
from numba import types
from numba.core.bytecode import FunctionIdentity
from numba.extending import intrinsic
from numpy.typing import NDArray

from longtail.sparse import starts_of


def _number_kernels_anew() -> None:
    """Lets numba count functions from a number of this process's own.

    Machine code is named after its function and that number, which every process counts from 1, and cached under its
    name. Where two processes compile np.sort and np.argsort under one number, a third that loads both kernels from
    the cache runs whichever it loaded first in place of the other.
    """
    FunctionIdentity._unique_ids = itertools.count(int.from_bytes(os.urandom(5), "little"))


_number_kernels_anew()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_number_kernels_anew)


def njit(**options: Any) -> Callable[[Any], Any]:
    """numba's njit, for kernels cached on disk whose arguments are named tuples.

    numba keeps the tuples' classes in the index of its cache, and fails on an index that another version left behind
    if a class has another name by now: such an index counts as none.
    """

    def made(function: Any) -> Any:
        kernel = numba.njit(**options)(function)
        file = getattr(getattr(kernel, "_cache", None), "_cache_file", None)
        if file is not None:
            file._load_index = _or_nothing(file._load_index)
        return kernel

    return made


def _or_nothing(load: Callable[[], dict[Any, Any]]) -> Callable[[], dict[Any, Any]]:
    def loaded() -> dict[Any, Any]:
        try:
            return load()
        except (AttributeError, ImportError, TypeError, ValueError, EOFError, pickle.UnpicklingError):
            return {}

    return loaded


Bools = NDArray[np.bool_]
Bytes = NDArray[np.uint8]
Shorts = NDArray[np.uint16]
Ints = NDArray[np.int32]
UnsignedInts = NDArray[np.uint32]
Longs = NDArray[np.int64]
Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]


class SparseRows(NamedTuple):
    """Rows of a sparse matrix as kernels take them: row r has values[start[r]:start[r + 1]] in columns `indices`."""

    start: Longs
    indices: Ints
    values: Floats

    @classmethod
    def of(cls, matrix: sp.csr_matrix) -> Self:
        return cls(
            matrix.indptr.astype(np.int64),
            matrix.indices.astype(np.int32, copy=False),
            matrix.data.astype(np.float32, copy=False),
        )

    @classmethod
    def joined(cls, parts: Sequence[SparseRows]) -> Self:
        """The rows of all parts, one part after the other."""
        lengths = np.concatenate([np.diff(part.start) for part in parts])
        return cls(
            starts_of(lengths),
            np.concatenate([part.indices for part in parts]),
            np.concatenate([part.values for part in parts]),
        )

    @property
    def n_rows(self) -> int:
        return len(self.start) - 1

    def matrix(self, n_columns: int) -> sp.csr_matrix:
        return sp.csr_matrix((self.values, self.indices, self.start), shape=(self.n_rows, n_columns))


class Growing:
    """An array that pieces are put behind, one after the other, without a second copy of all of them in the end.

    The system moves what has grown large by its page tables, so that growing takes neither time nor memory.
    """

    def __init__(self) -> None:
        self._content = bytearray()
        self._like: NDArray[Any] | None = None

    def add(self, piece: NDArray[Any]) -> None:
        """Puts a piece behind; all have one type and the same sides but for the first."""
        self._like = piece[:0] if self._like is None else self._like
        if piece.size:
            self._content += np.ascontiguousarray(piece).reshape(-1).view(np.uint8).data

    def array(self) -> NDArray[Any]:
        """All pieces; nothing can be put behind from then on."""
        if self._like is None:
            raise ValueError("no piece was put in")
        return np.frombuffer(self._content, self._like.dtype).reshape(-1, *self._like.shape[1:])


@njit(nogil=True, cache=True)
def keep_best(value: np.float32, label: int, ids: Ints, values: Floats, filled: int) -> int:
    """Puts (value, label) into a list sorted by (-value, label) if it belongs there; the new length of the list."""
    k = len(ids)
    if filled == k:
        if value < values[k - 1] or (value == values[k - 1] and label > ids[k - 1]):
            return filled
        slot = k - 1
    else:
        slot = filled
        filled += 1
    while slot > 0 and (values[slot - 1] < value or (values[slot - 1] == value and ids[slot - 1] > label)):
        values[slot] = values[slot - 1]
        ids[slot] = ids[slot - 1]
        slot -= 1
    values[slot] = value
    ids[slot] = label
    return filled


@njit(nogil=True, cache=True)
def append_below(value: np.float32, label: int, ids: Ints, values: Floats, filled: int) -> int:
    """Puts (value, label) behind a list sorted by (-value, label), its value lowered as far as the order needs.

    The new length of the list: a label that could only be put there below 0 stays out, as does one beyond its end.
    """
    if filled == len(ids):
        return filled
    if filled > 0:
        value = min(value, values[filled - 1])
        if value == values[filled - 1] and label < ids[filled - 1]:
            if value == 0:
                return filled
            value = np.nextafter(value, np.float32(-np.inf))
    values[filled] = value
    ids[filled] = label
    return filled + 1


@intrinsic
def ones(typing_context: Any, bits: Any) -> Any:
    """How many bits of a uint32 are 1."""

    def made(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint32(types.uint32), made


@intrinsic
def lowest_one(typing_context: Any, bits: Any) -> Any:
    """The place of the lowest bit of a uint32 or uint64 that is 1."""

    def made(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], context.get_constant(types.boolean, False))

    return bits(bits), made


#: `sort_distinct` marks numbers and looks the marks through if there are no more words of marks per number than this.
MARKED_UP_TO = 8


@njit(nogil=True, cache=True)
def sort_distinct(numbers: Ints, marks: NDArray[np.uint64]) -> None:
    """Sorts numbers that are all different, in place.

    marks  uint64, a bit for each number there may be, all 0, and left so
    """
    low, high = len(marks), -1
    for number in numbers:
        word = number >> 6
        low, high = min(low, word), max(high, word)
    if high - low > MARKED_UP_TO * len(numbers):
        numbers.sort()
        return
    for number in numbers:
        marks[number >> 6] |= np.uint64(1) << np.uint64(number & 63)
    size = 0
    for word in range(low, high + 1):
        bits = marks[word]
        marks[word] = 0
        while bits != 0:
            numbers[size] = (word << 6) + np.int64(lowest_one(bits))
            bits &= bits - np.uint64(1)
            size += 1


def marks_for(count: int) -> NDArray[np.uint64]:
    """What `sort_distinct` marks numbers below `count` in."""
    return np.zeros((count + 63) // 64, dtype=np.uint64)


#: Parts that `nth_smallest` cuts the span of the values into.
SPANS = 1024


@njit(nogil=True, cache=True)
def nth_smallest(values: Floats, n: int) -> np.float32:
    """The value at place n of the sorted values.

    They are counted by equal parts of their span, and only those of the part that holds it are looked at closely:
    comparing all with one another would be as many branches that nobody can foresee.
    """
    low, high = values[0], values[0]
    for value in values:
        low, high = min(low, value), max(high, value)
    if len(values) < SPANS or not np.float32(1e-30) < high - low < np.float32(1e30):
        return np.partition(values, n)[n]
    scale = np.float32(SPANS - 1) / (high - low)
    counts = np.zeros(SPANS, dtype=np.int64)
    for value in values:
        counts[np.int64((value - low) * scale)] += 1
    span = 0
    while counts[span] <= n:
        n -= counts[span]
        span += 1
    near = np.empty(counts[span], dtype=np.float32)
    size = 0
    for value in values:
        if np.int64((value - low) * scale) == span:
            near[size] = value
            size += 1
    return np.partition(near, n)[n]


@njit(nogil=True, cache=True)
def mixed_bits(x: np.uint64) -> np.uint64:
    """splitmix64's finisher: neighbouring numbers give unrelated ones."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@njit(nogil=True, cache=True)
def with_own_columns(rows: SparseRows, chosen: Ints, slot: Ints) -> tuple[SparseRows, Ints]:
    """Some of the rows with the columns they use numbered from 0 in rising order, and those columns.

    slot  int32 (columns,), all -1, and left so
    """
    size = 0
    for row in chosen:
        size += rows.start[row + 1] - rows.start[row]
    start = np.empty(len(chosen) + 1, dtype=np.int64)
    local = np.empty(size, dtype=np.int32)
    data = np.empty(size, dtype=np.float32)
    used = np.empty(min(size, len(slot)), dtype=np.int32)
    n_used = 0
    for row in chosen:
        for p in range(rows.start[row], rows.start[row + 1]):
            if slot[rows.indices[p]] < 0:
                slot[rows.indices[p]] = 0
                used[n_used] = rows.indices[p]
                n_used += 1
    used = used[:n_used].copy()
    used.sort()
    for a in range(n_used):
        slot[used[a]] = a
    start[0] = 0
    q = 0
    for i in range(len(chosen)):
        for p in range(rows.start[chosen[i]], rows.start[chosen[i] + 1]):
            local[q] = slot[rows.indices[p]]
            data[q] = rows.values[p]
            q += 1
        start[i + 1] = q
    for a in range(n_used):
        slot[used[a]] = -1
    return SparseRows(start, local, data), used


@njit(nogil=True, cache=True)
def largest_entries(rows: SparseRows, most: int) -> SparseRows:
    """Each row's `most` largest values (the first of equals), in the order they had."""
    count = len(rows.start) - 1
    start = np.zeros(count + 1, dtype=np.int64)
    for i in range(count):
        start[i + 1] = start[i] + min(most, rows.start[i + 1] - rows.start[i])
    kept_indices = np.empty(start[-1], dtype=np.int32)
    kept_values = np.empty(start[-1], dtype=np.float32)
    for i in range(count):
        low, high = rows.start[i], rows.start[i + 1]
        least, equals = np.float32(-np.inf), 0
        if high - low > most:
            least = np.partition(rows.values[low:high], high - low - most)[high - low - most]
            equals = most - np.sum(rows.values[low:high] > least)
        q = start[i]
        for p in range(low, high):
            if rows.values[p] == least:
                equals -= 1
                if equals < 0:
                    continue
            if rows.values[p] >= least:
                kept_indices[q] = rows.indices[p]
                kept_values[q] = rows.values[p]
                q += 1
    return SparseRows(start, kept_indices, kept_values)
