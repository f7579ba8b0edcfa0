"""Trees as kernels take them: addresses and lengths of their arrays, in one array.

Handing over a tree's fifteen arrays takes longer than many a search, and makes kernels anew for arrays that may not be
written to, such as those of a model file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import carray, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from longtail.arrays import Longs, njit
from longtail.learners.linear.tree import Tree


class Forest(NamedTuple):
    """Trees whose weights and columns are of the same types.

    address  int64 (trees, arrays), where each array of each tree lies
    length   int64 (trees, arrays), how long it is
    weight, column  empty arrays of the trees' types
    """

    address: Longs
    length: Longs
    weight: NDArray[Any]
    column: NDArray[Any]


class Forests:
    """The trees of a learner as kernels take them; holds the trees, which kernels must not outlive."""

    def __init__(self, trees: Sequence[Tree]) -> None:
        self._given = tuple(trees)
        self.trees = tuple(Tree(*(np.ascontiguousarray(array) for array in tree)) for tree in trees)
        self._each = [
            Forest(
                np.array([[array.ctypes.data for array in tree]], dtype=np.int64),
                np.array([[len(array) for array in tree]], dtype=np.int64),
                np.empty(0, dtype=tree.weight.dtype),
                np.empty(0, dtype=tree.column.dtype),
            )
            for tree in self.trees
        ]
        self.runs = list(self._joined())

    def __reduce__(self) -> Any:
        """A copy has arrays, and addresses, of its own."""
        return Forests, (self._given,)

    def holds(self, trees: Sequence[Tree]) -> bool:
        """Whether these are the very trees it was made of."""
        return len(trees) == len(self._given) and all(a is b for a, b in zip(trees, self._given, strict=True))

    def __len__(self) -> int:
        return len(self.trees)

    def __getitem__(self, t: int) -> Forest:
        """One of the trees by itself."""
        return self._each[t]

    def _joined(self) -> Iterator[tuple[int, Forest]]:
        """(number of the first tree, trees of the same types one after the other)"""
        first = 0
        for t in range(1, len(self) + 1):
            if t == len(self) or self._types(t) != self._types(first):
                parts = self._each[first:t]
                address, length = (np.concatenate([part[field] for part in parts]) for field in range(2))
                yield first, Forest(address, length, parts[0].weight, parts[0].column)
                first = t

    def _types(self, t: int) -> tuple[Any, Any]:
        return self._each[t].weight.dtype, self._each[t].column.dtype


@intrinsic
def _pointer(typing_context: Any, address: Any) -> Any:
    def made(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(types.voidptr))

    return types.voidptr(types.int64), made


@njit(nogil=True, inline="always")
def tree_at(forest: Forest, t: int) -> Tree:
    """A tree of the forest."""
    a, n = forest.address[t], forest.length[t]
    return Tree(
        carray(_pointer(a[0]), n[0], np.int32),
        carray(_pointer(a[1]), n[1], np.int32),
        carray(_pointer(a[2]), n[2], np.int32),
        carray(_pointer(a[3]), n[3], np.bool_),
        carray(_pointer(a[4]), n[4], np.float32),
        carray(_pointer(a[5]), (n[5], 7), np.int64),
        carray(_pointer(a[6]), n[6], np.uint8),
        carray(_pointer(a[7]), n[7], np.uint8),
        carray(_pointer(a[8]), (n[8], 2), np.uint32),
        carray(_pointer(a[9]), n[9], np.uint16),
        carray(_pointer(a[10]), n[10], np.uint32),
        carray(_pointer(a[11]), n[11], np.uint16),
        carray(_pointer(a[12]), n[12], forest.column.dtype),
        carray(_pointer(a[13]), n[13], forest.weight.dtype),
        carray(_pointer(a[14]), n[14], np.float32),
    )
