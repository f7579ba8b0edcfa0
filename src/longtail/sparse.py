"""Small facts about sparse rows that many parts ask for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray


def starts_of(lengths: NDArray[np.integer] | NDArray[np.bool_] | Sequence[int]) -> NDArray[np.int64]:
    """int64 (n + 1,): where each of n runs begins when they are laid end to end, and where the last one ends."""
    starts = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=starts[1:])
    return starts


def rows_of_pairs(matrix: sp.csr_matrix) -> NDArray[np.int64]:
    """int64 (nnz,): the row of each stored entry."""
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))


def pieces_of(starts: NDArray[np.integer], lengths: NDArray[np.integer]) -> NDArray[np.int64]:
    """int64 (sum of lengths,): the places starts[i], starts[i] + 1, ... of each piece, laid end to end."""
    shift = np.repeat(np.asarray(starts, dtype=np.int64) - starts_of(lengths)[:-1], lengths)
    return shift + np.arange(len(shift))


def pair_keys(matrix: sp.csr_matrix) -> NDArray[np.int64]:
    """int64 (nnz,): one number per stored entry, rising where rows are sorted."""
    return rows_of_pairs(matrix) * matrix.shape[1] + matrix.indices


def entries_kept(matrix: sp.csr_matrix, kept: NDArray[np.bool_]) -> NDArray[np.int64]:
    """int64 (n + 1,): where the rows begin when only some of the stored entries are kept."""
    return starts_of(kept)[matrix.indptr]


def unit_rows(matrix: sp.csr_matrix, tolerance: float = 0.0) -> sp.csr_matrix:
    """csr float32: every row at length 1, empty ones as they are; the matrix itself if its squared lengths are so
    within the tolerance."""
    squares = row_sums(matrix.data.astype(np.float64) ** 2, matrix.indptr)
    if matrix.dtype == np.float32 and (np.abs(squares[squares > 0] - 1) <= tolerance).all():
        return matrix
    scale = 1 / np.sqrt(np.where(squares > 0, squares, 1))
    values = matrix.data * np.repeat(scale, np.diff(matrix.indptr))
    return sp.csr_matrix((values.astype(np.float32), matrix.indices, matrix.indptr), shape=matrix.shape)


def row_sums(values: NDArray[Any], indptr: NDArray[np.integer]) -> NDArray[np.float64]:
    """float64 (n,): the sum of each row's values, 0 for a row without any."""
    sums = np.add.reduceat(np.append(values.astype(np.float64), 0), indptr[:-1].astype(np.int64))
    sums[np.diff(indptr) == 0] = 0
    return sums
