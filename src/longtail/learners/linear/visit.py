"""What a document meets in one node of a tree: which of its features have rows there, their sums, and the scores.

Sums are added in the order of a document's features, heavy rows first, whichever way they are looked up: so every way
of searching gives the same bits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from longtail.arrays import Doubles, Floats, Ints, Longs, Shorts, SparseRows, UnsignedInts, keep_best, njit, ones
from longtail.learners.linear.kernels import SQUARED_HINGE
from longtail.learners.linear.tree import Tree
from longtail.learners.linear.weights import BITMAP, COLUMNS, ENTRIES, GROUPS, LOWS, OFFSETS, VALUES, number

#: A row is heavy if it has a weight for one child of so many: heavy rows are added first, and laid out in full for
#: nodes that many documents visit.
HEAVY = 8

#: For what is called per document and node: handing a tree's arrays over would take longer than the work.
inlined = njit(nogil=True, inline="always")


class SearchOptions(NamedTuple):
    """How trees are searched: the loss of their separators, nodes kept per level, factor on what lies above."""

    loss: int
    beam: int
    discount: float


class Hits(NamedTuple):
    """Features of a document that a node has rows for: where the rows' weights lie, how many, the features' values."""

    first: Longs
    length: Ints
    value: Floats


class Found(NamedTuple):
    """Hits among the heavy rows, and among the others."""

    heavy: Hits
    light: Hits


@njit(nogil=True, cache=True)
def _hits(most: int) -> Hits:
    """Room for one more than `most`: what is no hit is written there, too, and overwritten."""
    size = most + 1
    return Hits(np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int32), np.empty(size, dtype=np.float32))


@njit(nogil=True, cache=True)
def room_for(most: int) -> Found:
    return Found(_hits(most), _hits(most))


@inlined
def _row(index: UnsignedInts, low: Shorts, shift: int, entries: tuple[int, int], lows: int, feature: int) -> Any:
    """The row of a feature, counted from the node's, or -1.

    entries  the node's part of the index; lows is where its part of `low` begins
    """
    at = entries[0] + (feature >> (5 if shift == BITMAP else shift))
    if at >= entries[1]:
        return -1
    if shift == BITMAP:
        place = np.uint32(feature & 31)
        bits = np.uint32(index[at, 0] >> place)
        before = np.uint32(index[at, 0]) & ((np.uint32(1) << place) - np.uint32(1))
        row = np.int64(index[at, 1]) + np.int64(ones(np.uint32(before)))
        return row if bits & np.uint32(1) else -1
    row, end = np.int64(index[at, 0]), np.int64(index[at, 1])
    wanted = feature & ((1 << shift) - 1)
    while row < end and low[lows + row] < wanted:
        row += 1
    return row if row < end and low[lows + row] == wanted else -1


@inlined
def row_start(group: UnsignedInts, offset: Shorts, bits: int, groups: int, offsets: int, row: int) -> Any:
    """The first weight of a row, counted from the node's; not for a node that keeps all weights."""
    return np.int64(group[groups + (row >> bits)]) + np.int64(offset[offsets + row])


@inlined
def look_up(tree: Tree, node: int, rows: SparseRows, document: int, found: Found) -> tuple[int, int]:
    """Looks each feature up by itself; how many heavy and light hits there are."""
    index, low, group, offset = tree.lookup, tree.low, tree.group, tree.offset
    indices, values, heavy, light = rows.indices, rows.values, found.heavy, found.light
    heavy_first, heavy_length, heavy_value = heavy.first, heavy.length, heavy.value
    light_first, light_length, light_value = light.first, light.length, light.value
    width = np.int64(tree.slot_start[node + 1] - tree.slot_start[node])
    begin, after = tree.node_start[node], tree.node_start[node + 1]
    entries, lows, groups, offsets = (begin[ENTRIES], after[ENTRIES]), begin[LOWS], begin[GROUPS], begin[OFFSETS]
    full, shift, bits = begin[COLUMNS] == after[COLUMNS], np.int64(tree.shift[node]), np.int64(tree.group_bits[0])
    n_heavy, n_light = 0, 0
    for p in range(rows.start[document], rows.start[document + 1]):
        row = _row(index, low, shift, entries, lows, np.int64(indices[p]))
        if row < 0:
            continue
        if full:
            heavy_first[n_heavy], heavy_length[n_heavy], heavy_value[n_heavy] = row * width, width, values[p]
            n_heavy += 1
            continue
        first = row_start(group, offset, bits, groups, offsets, row)
        count = row_start(group, offset, bits, groups, offsets, row + 1) - first
        if count * HEAVY >= width:
            heavy_first[n_heavy], heavy_length[n_heavy], heavy_value[n_heavy] = first, count, values[p]
            n_heavy += 1
        else:
            light_first[n_light], light_length[n_light], light_value[n_light] = first, count, values[p]
            n_light += 1
    return n_heavy, n_light


@inlined
def add_rows(tree: Tree, node: int, hits: Hits, n: int, z: Floats) -> None:
    """z += sum over the hits of value times weights, as they are kept."""
    weight, column, firsts, counts, values = tree.weight, tree.column, hits.first, hits.length, hits.value
    weights, columns = tree.node_start[node, VALUES], tree.node_start[node, COLUMNS]
    if columns == tree.node_start[node + 1, COLUMNS]:
        for h in range(n):
            first, value = np.uint64(weights + firsts[h]), values[h]
            for j in range(np.uint64(counts[h])):
                z[j] += value * number(weight[first + j])
    else:
        for h in range(n):
            value, first = values[h], np.uint64(weights + firsts[h])
            to_column = np.uint64(columns) - np.uint64(weights)
            for q in range(first, first + np.uint64(counts[h])):
                z[column[q + to_column]] += value * number(weight[q])


@inlined
def to_scores(tree: Tree, node: int, above: np.float32, loss: int, z: Floats) -> None:
    """From sums to log-scores: -max(0, 1 - w.x)^2, or -log(1 + exp(-w.x)), added to what lies above."""
    bias, scale = tree.bias, tree.scale
    begin = np.uint64(tree.slot_start[node])
    width = np.uint64(tree.slot_start[node + 1]) - begin
    if len(scale) > 0:
        for j in range(width):
            z[j] *= scale[begin + j]
    if loss == SQUARED_HINGE:
        for j in range(width):
            short = max(np.float32(0), np.float32(1) - (bias[begin + j] + z[j]))
            z[j] = above - short * short
    else:
        for j in range(width):
            w = bias[begin + j] + z[j]
            if w > 0:
                z[j] = above - np.log1p(np.exp(-w))
            else:
                z[j] = above + w - np.log1p(np.exp(w))


@inlined
def keep_children(tree: Tree, node: int, scores: Floats, ids: Ints, values: Floats, filled: int) -> int:
    """Puts the children of a node that belong there into a list of the best; the list's new length."""
    begin = tree.slot_start[node]
    size = len(ids)
    for j in range(tree.slot_start[node + 1] - begin):
        if filled < size or scores[j] >= values[size - 1]:
            filled = keep_best(scores[j], tree.slot_target[begin + j], ids, values, filled)
    return filled


#: Rows whose squared lengths are no further from 1 are taken as they are.
UNIT = 1e-3


@njit(nogil=True, cache=True)
def factors(rows: SparseRows) -> Doubles:
    """What brings each row to length 1; 1 for one that is near enough, or empty."""
    found = np.ones(len(rows.start) - 1)
    for d in range(len(found)):
        square = 0.0
        for p in range(rows.start[d], rows.start[d + 1]):
            square += np.float64(rows.values[p]) * np.float64(rows.values[p])
        if square > 0 and abs(square - 1) > UNIT:
            found[d] = 1 / np.sqrt(square)
    return found


@njit(nogil=True, cache=True)
def scaled(rows: SparseRows, factor: Doubles) -> SparseRows:
    """The rows times a factor each."""
    values = np.empty(len(rows.values), dtype=np.float32)
    for d in range(len(factor)):
        for p in range(rows.start[d], rows.start[d + 1]):
            values[p] = np.float32(np.float64(rows.values[p]) * factor[d])
    return SparseRows(rows.start, rows.indices, values)


def of_unit_length(rows: SparseRows) -> SparseRows:
    """The rows at length 1, each by itself; the same arrays where all are already."""
    factor = factors(rows)
    return rows if (factor == 1).all() else scaled(rows, factor)
