"""The rows of a node spread over all features, for nodes that many documents visit: a look is then one step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from longtail.arrays import Floats, Ints, Longs, SparseRows, njit
from longtail.learners.linear.tree import Tree
from longtail.learners.linear.visit import HEAVY, Found, Hits, inlined, row_start
from longtail.learners.linear.weights import (
    COLUMNS,
    ENTRIES,
    GROUPS,
    LOWS,
    OFFSETS,
    ROWS,
    VALUES,
    features_of,
    number,
)  # fmt: skip

#: Numbers that heavy rows of a node may take, laid out in full.
MOST_IN_FULL = 1 << 22


class Spread(NamedTuple):
    """Rows of a node by feature, for the nodes that many documents visit; kernels leave the arrays as they found them.

    row    int32 (D,), all -1
    pairs  float32 (D, 2), all 0: the weights of a node with two children
    """

    row: Ints
    pairs: Floats

    @classmethod
    def over(cls, n_features: int) -> Spread:
        return cls(np.full(n_features, -1, dtype=np.int32), np.zeros((n_features, 2), dtype=np.float32))


class Layout(NamedTuple):
    """What `spread_rows` makes of a node's rows beside their places by feature.

    feature  int32, the feature of each row
    start    int64, the first weight of each row; of a heavy row its first number in the block
    block    float32, heavy rows laid out in full, each `stride_of(width)` numbers
    """

    feature: Ints
    start: Longs
    block: Floats


@inlined
def stride_of(width: int) -> int:
    return (width + 7) // 8 * 8


@njit(nogil=True, cache=True)
def _heavy_rows(tree: Tree, node: int) -> int:
    group, offset, begin = tree.group, tree.offset, tree.node_start[node]
    rows = tree.node_start[node + 1, ROWS] - begin[ROWS]
    width = tree.slot_start[node + 1] - tree.slot_start[node]
    if begin[COLUMNS] == tree.node_start[node + 1, COLUMNS]:
        return rows
    groups, offsets, bits = begin[GROUPS], begin[OFFSETS], np.int64(tree.group_bits[0])
    heavy, start = 0, 0
    for row in range(rows):
        end = row_start(group, offset, bits, groups, offsets, row + 1)
        heavy += (end - start) * HEAVY >= width
        start = end
    return heavy


@njit(nogil=True, cache=True)
def spread_rows(tree: Tree, node: int, spread: Spread, layout: Layout) -> None:
    """Puts rows where `add_pairs` or `look_up_spread` finds them: heavy ones as odd numbers, others as even ones."""
    begin, after = tree.node_start[node], tree.node_start[node + 1]
    weight, column, weights, columns = tree.weight, tree.column, begin[VALUES], begin[COLUMNS]
    row_of, pairs, feature, start, block = spread.row, spread.pairs, layout.feature, layout.start, layout.block
    rows, width = after[ROWS] - begin[ROWS], np.int64(tree.slot_start[node + 1] - tree.slot_start[node])
    features_of(
        tree.lookup[begin[ENTRIES] : after[ENTRIES]], tree.low[begin[LOWS] : after[LOWS]], tree.shift[node], feature
    )
    stride, used = stride_of(width), 0
    if columns == after[COLUMNS] and width == 2:
        for row in range(rows):
            pairs[feature[row], 0] = number(weight[weights + 2 * row])
            pairs[feature[row], 1] = number(weight[weights + 2 * row + 1])
    elif columns == after[COLUMNS]:
        for row in range(rows):
            for j in range(width):
                block[used + j] = number(weight[weights + row * width + j])
            start[row] = used
            row_of[feature[row]] = 2 * row + 1
            used += stride
    else:
        group, offset, bits = tree.group, tree.offset, np.int64(tree.group_bits[0])
        end = 0
        for row in range(rows):
            first = end
            end = row_start(group, offset, bits, begin[GROUPS], begin[OFFSETS], row + 1)
            heavy = (end - first) * HEAVY >= width
            row_of[feature[row]] = 2 * row + heavy
            start[row] = first
            if heavy:
                for j in range(stride):
                    block[used + j] = 0
                for q in range(first, end):
                    block[used + column[columns + q]] = number(weight[weights + q])
                start[row] = used
                used += stride


@njit(nogil=True, cache=True)
def gather_rows(tree: Tree, node: int, spread: Spread, layout: Layout) -> None:
    """Takes back what `spread_rows` did."""
    row_of, pairs, feature = spread.row, spread.pairs, layout.feature
    for row in range(tree.node_start[node + 1, ROWS] - tree.node_start[node, ROWS]):
        row_of[feature[row]] = -1
        pairs[feature[row], 0] = 0
        pairs[feature[row], 1] = 0


@inlined
def look_up_spread(
    tree: Tree, node: int, spread: Spread, layout: Layout, rows: SparseRows, document: int, found: Found
) -> tuple[int, int]:
    """As `look_up` where rows lie spread: first which are hits, without branches, then where their weights lie."""
    row_of, start, indices, values, group, offset = (
        spread.row, layout.start, rows.indices, rows.values, tree.group, tree.offset,
    )  # fmt: skip
    heavy, light = found.heavy, found.light
    heavy_first, heavy_length, heavy_value = heavy.first, heavy.length, heavy.value
    light_first, light_length, light_value = light.first, light.length, light.value
    groups, offsets, bits = tree.node_start[node, GROUPS], tree.node_start[node, OFFSETS], np.int64(tree.group_bits[0])
    n_heavy, n_light = 0, 0
    for p in range(rows.start[document], rows.start[document + 1]):
        row, value = row_of[indices[p]], values[p]
        heavy_length[n_heavy] = row
        heavy_value[n_heavy] = value
        light_length[n_light] = row
        light_value[n_light] = value
        n_heavy += (row >= 0) & (row & 1)
        n_light += (row >= 0) & ~row & 1
    for h in range(n_heavy):
        heavy_first[h] = start[heavy_length[h] >> 1]
    for h in range(n_light):
        row = np.int64(light_length[h] >> 1)
        light_first[h] = start[row]
        light_length[h] = row_start(group, offset, bits, groups, offsets, row + 1) - start[row]
    return n_heavy, n_light


@inlined
def add_pairs(pairs: Floats, rows: SparseRows, document: int, z: Floats) -> None:
    indices, values = rows.indices, rows.values
    z0, z1 = np.float32(0), np.float32(0)
    for p in range(rows.start[document], rows.start[document + 1]):
        z0 += values[p] * pairs[indices[p], 0]
        z1 += values[p] * pairs[indices[p], 1]
    z[0], z[1] = z0, z1


@inlined
def add_in_full(block: Floats, stride: int, hits: Hits, n: int, z: Floats) -> None:
    """z += sum over the hits of value times rows laid out in full.

    Four rows per round, so that z is loaded and stored a quarter as often; added one after the other all the same.
    """
    first, values = hits.first, hits.value
    h = 0
    while h + 4 <= n:
        v0, v1, v2, v3 = values[h], values[h + 1], values[h + 2], values[h + 3]
        a, b, c, d = np.uint64(first[h]), np.uint64(first[h + 1]), np.uint64(first[h + 2]), np.uint64(first[h + 3])
        for j in range(np.uint64(stride)):
            z[j] = (((z[j] + v0 * block[a + j]) + v1 * block[b + j]) + v2 * block[c + j]) + v3 * block[d + j]
        h += 4
    while h < n:
        value, a = values[h], np.uint64(first[h])
        for j in range(np.uint64(stride)):
            z[j] += value * block[a + j]
        h += 1


@njit(nogil=True, cache=True)
def in_full(tree: Tree, node: int) -> int:
    """Numbers that the heavy rows of a node take in full; 0 for pairs, which lie elsewhere."""
    width = tree.slot_start[node + 1] - tree.slot_start[node]
    if width == 2 and tree.node_start[node, COLUMNS] == tree.node_start[node + 1, COLUMNS]:
        return 0
    return _heavy_rows(tree, node) * stride_of(width)


@njit(nogil=True, cache=True)
def largest(tree: Tree) -> tuple[int, int, int]:
    """Slots of the widest node, rows of the one with most, numbers of heavy rows in full as far as they are wanted."""
    slots, rows, numbers = 0, 0, 0
    for node in range(len(tree.leaf)):
        slots = max(slots, tree.slot_start[node + 1] - tree.slot_start[node])
        rows = max(rows, tree.node_start[node + 1, ROWS] - tree.node_start[node, ROWS])
        own = in_full(tree, node)
        if own <= MOST_IN_FULL:
            numbers = max(numbers, own)
    return slots, rows, numbers
