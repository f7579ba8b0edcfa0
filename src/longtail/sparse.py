"""Small facts about sparse rows that many parts ask for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray


def starts_of(lengths: NDArray[np.integer] | Sequence[int]) -> NDArray[np.int64]:
    """int64 (n + 1,): where each of n runs begins when they are laid end to end, and where the last one ends."""
    starts = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=starts[1:])
    return starts


def rows_of_pairs(matrix: sp.csr_matrix) -> NDArray[np.int64]:
    """int64 (nnz,): the row of each stored entry."""
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))


def row_sums(values: NDArray[Any], indptr: NDArray[np.integer]) -> NDArray[np.float64]:
    """float64 (n,): the sum of each row's values, 0 for a row without any."""
    sums = np.add.reduceat(np.append(values.astype(np.float64), 0), indptr[:-1].astype(np.int64))
    sums[np.diff(indptr) == 0] = 0
    return sums
