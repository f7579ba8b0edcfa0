"""Short names for the array types that kernels take, and the product most of them spend their time in."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Bools = NDArray[np.bool_]
Shorts = NDArray[np.uint16]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Floats = NDArray[np.float32]


@njit(nogil=True, cache=True, fastmath=True)
def add_products(indices: Ints, values: Floats, start: int, stop: int, matrix: Floats, out: Floats) -> None:
    """out += sum of values[p] * matrix[indices[p]] for p from start to stop.

    Four rows a round, so that out is loaded and stored a quarter as often.
    """
    width = matrix.shape[1]
    p = start
    while p + 4 <= stop:
        v0, v1, v2, v3 = values[p], values[p + 1], values[p + 2], values[p + 3]
        r0, r1 = matrix[indices[p]], matrix[indices[p + 1]]
        r2, r3 = matrix[indices[p + 2]], matrix[indices[p + 3]]
        for j in range(width):
            out[j] += v0 * r0[j] + v1 * r1[j] + v2 * r2[j] + v3 * r3[j]
        p += 4
    while p < stop:
        v, row = values[p], matrix[indices[p]]
        for j in range(width):
            out[j] += v * row[j]
        p += 1
