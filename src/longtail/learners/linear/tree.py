"""A fitted label tree: its shape and its separators, as flat arrays.

Nodes are numbered level by level. The slots of a node are its children: nodes for an inner node, labels for a leaf.
Separators are kept node by node as sparse rows (feature -> slots), so that scoring reads a document's features once
for all children of a node; `weights.py` says how.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from longtail.arrays import Bools, Bytes, Floats, Ints, Longs, Shorts, UnsignedInts, njit, ones
from longtail.learners.linear.nodes import Separators
from longtail.learners.linear.older_tree import is_older, older_separators
from longtail.learners.linear.weights import (
    BITMAP,
    COLUMNS,
    ENTRIES,
    GROUPS,
    LOWS,
    MOST_BITS,
    OFFSETS,
    ROWS,
    VALUES,
    WEIGHTS,
    Codes,
    Packed,
    pack,
    unpack,
)  # fmt: skip
from longtail.part import checked_before
from longtail.run import Run


@dataclass(frozen=True, eq=False)
class Shape:
    """Which node lies under which, and which labels under which leaf.

    level_start  int32 (levels + 1,), first node of each level; all nodes of level 0 are roots
    slot_start   int32 (nodes + 1,), first slot of each node
    slot_target  int32 (slots,), the child node or the label
    leaf         bool (nodes,)
    """

    level_start: NDArray[np.int32]
    slot_start: NDArray[np.int32]
    slot_target: NDArray[np.int32]
    leaf: NDArray[np.bool_]

    @property
    def nodes(self) -> int:
        return len(self.leaf)


#: Types of a tree's arrays and their numbers of axes, but for those that follow from the format of the weights.
_KEPT: dict[str, tuple[type[np.generic], int]] = {
    "level_start": (np.int32, 1), "slot_start": (np.int32, 1), "slot_target": (np.int32, 1), "leaf": (np.bool_, 1),
    "bias": (np.float32, 1), "node_start": (np.int64, 2), "shift": (np.uint8, 1), "group_bits": (np.uint8, 1),
    "lookup": (np.uint32, 2), "low": (np.uint16, 1), "group": (np.uint32, 1), "offset": (np.uint16, 1),
    "scale": (np.float32, 1),
}  # fmt: skip


class Tree(NamedTuple):
    """Shape and separators: what a model file keeps, and what kernels take. `Shape` and `Packed` explain the arrays."""

    level_start: Ints
    slot_start: Ints
    slot_target: Ints
    leaf: Bools
    bias: Floats  # (slots,)
    node_start: Longs
    shift: Bytes
    group_bits: Bytes
    lookup: UnsignedInts
    low: Shorts
    group: UnsignedInts
    offset: Shorts
    column: NDArray[Any]
    weight: Codes
    scale: Floats

    @classmethod
    def of(
        cls, shape: Shape, separators: Iterable[Separators], weights: str = "float32", run: Run | None = None
    ) -> Tree:
        """separators  those of each node, which are let go of a few at a time if they come one by one
        weights     the format they are kept in, one of `WEIGHTS`
        """
        slots = np.diff(shape.slot_start)
        bias = np.empty(len(shape.slot_target), dtype=np.float32)

        def taken() -> Iterator[Separators]:
            for first, own in zip(shape.slot_start[:-1].tolist(), separators, strict=True):
                bias[first : first + len(own.bias)] = own.bias
                yield own

        kept = pack(taken(), int(slots.max()), weights, run)
        return cls(shape.level_start, shape.slot_start, shape.slot_target, shape.leaf, bias, *kept)

    @property
    def shape(self) -> Shape:
        return Shape(self.level_start, self.slot_start, self.slot_target, self.leaf)

    @property
    def weights(self) -> str:
        """The format of the weights."""
        return "float16" if self.weight.dtype == np.uint16 else self.weight.dtype.name

    def separators(self, node: int) -> Separators:
        """What a node's separators are as float32, those of an int8 tree multiplied out."""
        own = slice(self.slot_start[node], self.slot_start[node + 1])
        found = unpack(Packed(*self[5:]), node, self.bias[own])
        if self.weights == "int8":
            found.weight[:] *= self.scale[own][found.column]
        return found

    def converted(self, weights: str) -> Tree:
        """The same tree with weights of another format."""
        if weights == self.weights:
            return self
        return Tree.of(self.shape, (self.separators(node) for node in range(len(self.leaf))), weights)

    def arrays(self) -> dict[str, NDArray[Any]]:
        weight = self.weight.view(np.float16) if self.weights == "float16" else self.weight
        return {**self._asdict(), "weight": weight}

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]], n_features: int, n_labels: int) -> Tree:
        """The tree of a model file; every index is checked, since kernels trust them."""
        if is_older(arrays):
            separators = older_separators(arrays, n_features)
            arrays = {name: arrays[name] for name in ("level_start", "slot_start", "slot_target", "leaf", "bias")} | (
                pack(separators, max(len(own.bias) for own in separators), "float32")._asdict()
            )
        if set(arrays) != set(cls._fields):
            raise ValueError(f"a tree keeps {sorted(cls._fields)}, the file has {sorted(arrays)}")
        for name, (dtype, axes) in _KEPT.items():
            if arrays[name].dtype != dtype or arrays[name].ndim != axes:
                raise ValueError(f"{name} must be {np.dtype(dtype).name} with {axes} axes")
        weight, column = arrays["weight"], arrays["column"]
        if weight.dtype not in WEIGHTS.values() or column.dtype not in (np.uint8, np.uint16):
            raise ValueError(f"weights must be {', '.join(WEIGHTS)}, columns uint8 or uint16")
        if weight.ndim != 1 or column.ndim != 1:
            raise ValueError("weight and column must be rows")
        codes: NDArray[Any] = weight.view(np.uint16) if weight.dtype == np.float16 else weight
        tree = cls(**{**arrays, "weight": codes})
        tree._check_sizes()
        if not checked_before() and not _indices_hold(tree, n_features, n_labels):
            raise ValueError("a label, node, feature or slot number is out of range")
        return tree

    def _check_sizes(self) -> None:
        nodes, slots = len(self.leaf), len(self.slot_target)
        require_starts("level_start", self.level_start, nodes)
        require_starts("slot_start", self.slot_start, slots, nodes)
        shapes = self.node_start.shape, self.lookup.shape[1:], self.shift.shape, self.group_bits.shape
        if shapes != ((nodes + 1, 7), (2,), (nodes,), (1,)) or self.group_bits[0] > MOST_BITS:
            raise ValueError("node_start, lookup, shift or group_bits has another shape than the tree")
        parts: dict[int, NDArray[Any]] = {
            ENTRIES: self.lookup, LOWS: self.low, GROUPS: self.group, OFFSETS: self.offset, COLUMNS: self.column,
            VALUES: self.weight,
        }  # fmt: skip
        require_starts("node_start", self.node_start[:, ROWS], int(self.node_start[-1, ROWS]), nodes)
        for part, array in parts.items():
            require_starts("node_start", self.node_start[:, part], len(array), nodes)
        if len(self.bias) != slots or len(self.scale) != (slots if self.weights == "int8" else 0):
            raise ValueError("slots, biases and scales differ in number")


def require_starts(name: str, starts: NDArray[Any], total: int, count: int | None = None) -> None:
    if (
        len(starts) == 0
        or (count is not None and len(starts) != count + 1)
        or starts[0] != 0
        or starts[-1] != total
        or (not checked_before() and (starts[1:] < starts[:-1]).any())
    ):
        raise ValueError(f"{name} does not rise from 0 to {total}")


@njit(nogil=True, cache=True)
def _indices_hold(tree: Tree, n_features: int, n_labels: int) -> bool:
    """Whether every stored index points where it may: children one level down and only once, features rising."""
    nodes = len(tree.leaf)
    for level in range(len(tree.level_start) - 1):
        low = tree.level_start[level + 1]
        high = tree.level_start[level + 2] if level + 2 < len(tree.level_start) else nodes
        for node in range(tree.level_start[level], tree.level_start[level + 1]):
            for slot in range(tree.slot_start[node], tree.slot_start[node + 1]):
                target = tree.slot_target[slot]
                if tree.leaf[node]:
                    if target < 0 or target >= n_labels:
                        return False
                elif target < low or target >= high:
                    return False
    for node in range(nodes):  # noqa: SIM110
        if not _node_holds(tree, node, n_features):
            return False
    return True


@njit(nogil=True, cache=True)
def _node_holds(tree: Tree, node: int, n_features: int) -> bool:
    count = tree.node_start[node + 1] - tree.node_start[node]
    width = tree.slot_start[node + 1] - tree.slot_start[node]
    if tree.shift[node] == BITMAP:
        if not _bits_hold(tree, node, n_features):
            return False
    elif tree.shift[node] > MOST_BITS or not _buckets_hold(tree, node, n_features):
        return False
    if count[COLUMNS] == 0:
        return count[GROUPS] == 0 and count[OFFSETS] == 0 and count[VALUES] == count[ROWS] * width
    bits = tree.group_bits[0]
    if count[OFFSETS] != count[ROWS] + 1 or count[GROUPS] != (count[ROWS] >> bits) + 1:
        return False
    before = 0
    for row in range(count[OFFSETS]):
        start = np.int64(tree.group[tree.node_start[node, GROUPS] + (row >> bits)])
        start += np.int64(tree.offset[tree.node_start[node, OFFSETS] + row])
        if start < before or (row == 0 and start != 0):
            return False
        before = int(start)
    if before != count[VALUES] or count[COLUMNS] != count[VALUES]:
        return False
    for q in range(tree.node_start[node, COLUMNS], tree.node_start[node + 1, COLUMNS]):
        if tree.column[q] >= width:
            return False
    return True


@njit(nogil=True, cache=True)
def _bits_hold(tree: Tree, node: int, n_features: int) -> bool:
    first, count = tree.node_start[node, ENTRIES], tree.node_start[node + 1] - tree.node_start[node]
    row = 0
    for at in range(count[ENTRIES]):
        bits = tree.lookup[first + at, 0]
        beyond = at * 32 + 32 - n_features
        if tree.lookup[first + at, 1] != row or beyond > 31 or (beyond > 0 and bits >> np.uint32(32 - beyond) != 0):
            return False
        row += ones(bits)
    return row == count[ROWS] and count[LOWS] == 0


@njit(nogil=True, cache=True)
def _buckets_hold(tree: Tree, node: int, n_features: int) -> bool:
    first, count = tree.node_start[node, ENTRIES], tree.node_start[node + 1] - tree.node_start[node]
    shift, row = tree.shift[node], 0
    if count[LOWS] != count[ROWS]:
        return False
    for at in range(count[ENTRIES]):
        end = np.int64(tree.lookup[first + at, 1])
        if tree.lookup[first + at, 0] != row or end < row or end > count[ROWS]:
            return False
        before = -1
        while row < end:
            low = np.int64(tree.low[tree.node_start[node, LOWS] + row])
            if low <= before or low >> shift != 0 or (np.int64(at) << shift) + low >= n_features:
                return False
            before = int(low)
            row += 1
    return row == count[ROWS]
