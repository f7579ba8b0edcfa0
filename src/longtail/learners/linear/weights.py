"""Number formats of separators' weights, and sparse rows laid out in them.

A node's rows are its features in rising order. Where a node has rows for many of the features, one bit per feature
says for which, and the row is found by counting bits; elsewhere features that agree but for their last bits share a
bucket, in which the row is searched for. A node most of whose weights are there keeps all of them, row after row;
others keep (child, weight) pairs and where each row begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import overload
from numpy.typing import NDArray

from longtail.arrays import Bytes, Floats, Growing, Ints, Longs, Shorts, UnsignedInts, lowest_one, njit
from longtail.learners.linear.nodes import Separators
from longtail.memory import give_back
from longtail.run import Run
from longtail.sparse import starts_of

#: Formats by name. int8 comes with one factor per child: its largest weight is 127.
WEIGHTS: dict[str, type[np.generic]] = {"float32": np.float32, "float16": np.float16, "int8": np.int8}
LARGEST = 127
#: Rows that a bucket has on average, about.
BUCKET = 16
#: Bits of a feature's number that a row of a bucket keeps, at most.
MOST_BITS = 16
#: A node has one bit per feature if that takes no more than so many times the bytes of buckets.
BITS_WORTH = 1.5
#: `Packed.shift` of a node with one bit per feature: 32 features share an entry of its lookup.
BITMAP = 255
#: Nodes that are packed side by side have about so many weights together, those that one thread packs so many.
WEIGHTS_AT_A_TIME, WEIGHTS_PER_TASK = 1_000_000, 50_000
#: Columns of `Packed.node_start`.
ENTRIES, ROWS, LOWS, GROUPS, OFFSETS, COLUMNS, VALUES = range(7)

Codes = NDArray[Any]


class Packed(NamedTuple):
    """Sparse weights of one node after the other.

    node_start  int64 (nodes + 1, 7), each node's first lookup entry, row, last bits, group, offset, column and weight
    shift       uint8 (nodes,), BITMAP, or how many last bits features of a bucket may differ in
    group_bits  uint8 (1,), 2^group_bits rows share a group
    lookup      uint32 (entries, 2): 32 bits and the rows before them; or the first row of a bucket and that behind it
    low         uint16, the last bits of each row's feature; none for a node with a bitmap
    group       uint32, the first weight of each group of rows, counted from the node's; as `offset` none for a node
                that keeps all weights
    offset      uint16 (rows + 1 per node), the first weight of each row, counted from its group's, and the end
    column      uint8 or uint16, the child each weight belongs to; none for a node that keeps all weights
    weight      float32, float16 (as uint16: kernels know no float16) or int8
    scale       float32, by which the weights of a child are multiplied if they are int8; empty otherwise
    """

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


def number(code: Any) -> Any:
    """A stored weight as float32; only inside kernels."""
    raise NotImplementedError


@overload(number)
def _number(code: Any) -> Any:
    if code == types.uint16:

        def of_float16(code: Any) -> Any:
            # exponent and fraction move to where float32 has them; the product mends the exponent's offset
            size = np.uint32(np.uint32(code & np.uint16(0x7FFF)) << np.uint32(13)).view(np.float32)
            size *= np.float32(5.192296858534828e33)
            return -size if code & np.uint16(0x8000) else size

        return of_float16

    def as_it_is(code: Any) -> Any:
        return np.float32(code)

    return as_it_is


def pack(separators: Iterable[Separators], widest: int, weights: str, run: Run | None = None) -> Packed:
    """The separators of all nodes in one of the formats of `WEIGHTS`; what is 0 in that format is left out.

    Separators that come one by one are held a few at a time, which the run's threads share.

    widest  children of the node that has most of them
    """
    narrow = np.empty(0, dtype=np.uint8 if widest <= 256 else np.uint16)
    group_bits = max(0, 16 - max(1, widest).bit_length())  # a group's weights are numbered with 16 bits

    def packed(several: list[Separators]) -> tuple[Longs, Any]:
        together = _Together.of(several)
        codes, scale = _coded(together, weights)
        counts, *arrays = _pack_nodes(together, codes, group_bits, narrow)
        if (counts[:, VALUES] >= 1 << 32).any():
            raise ValueError("a node has more than 4 billion weights")
        shift, lookup, *rest = arrays
        return counts, (shift, lookup.reshape(-1, 2), *rest, scale)

    counts, parts = Growing(), [Growing() for _ in range(8)]
    counts.add(np.zeros((1, 7), dtype=np.int64))
    for many in _few_at_a_time(separators, WEIGHTS_AT_A_TIME):
        for own, arrays in (run or Run(threads=1)).map(packed, list(_few_at_a_time(many, WEIGHTS_PER_TASK))):
            counts.add(own)
            for part, array in zip(parts, arrays, strict=True):
                part.add(array)
    give_back()
    shift, *rest = (part.array() for part in parts)
    return Packed(np.cumsum(counts.array(), axis=0), shift, np.full(1, group_bits, dtype=np.uint8), *rest)


def _few_at_a_time(separators: Iterable[Separators], weights: int) -> Iterator[list[Separators]]:
    few: list[Separators] = []
    held = 0
    for s in separators:
        few.append(s)
        held += len(s.weight)
        if held >= weights:
            yield few
            few, held = [], 0
    if few:
        yield few


class _Together(NamedTuple):
    """Separators of several nodes, laid end to end.

    row_start, weight_start, child_start  int64 (nodes + 1,), where the rows, weights and children of each begin
    """

    row_start: Longs
    weight_start: Longs
    child_start: Longs
    features: Ints
    row_length: Ints
    column: Shorts
    weight: Floats

    @classmethod
    def of(cls, several: list[Separators]) -> _Together:
        return cls(
            starts_of([len(s.features) for s in several]),
            starts_of([len(s.weight) for s in several]),
            starts_of([len(s.bias) for s in several]),
            np.concatenate([s.features for s in several]),
            np.concatenate([s.row_length for s in several]),
            np.concatenate([s.column for s in several]),
            np.concatenate([s.weight for s in several]),
        )


def _coded(nodes: _Together, weights: str) -> tuple[Codes, Floats]:
    """Weights in the format, and the factors of the children."""
    none = np.empty(0, dtype=np.float32)
    if weights == "float32":
        return nodes.weight, none
    if weights == "float16":
        # what is larger than any float16 becomes the largest
        return nodes.weight.clip(-65504, 65504).astype(np.float16).view(np.uint16), none
    return _eighths(nodes)


@njit(nogil=True, cache=True)
def _eighths(nodes: _Together) -> tuple[NDArray[np.int8], Floats]:
    weight_start, child_start, column, weight = nodes.weight_start, nodes.child_start, nodes.column, nodes.weight
    scale = np.zeros(child_start[-1], dtype=np.float32)
    codes = np.empty(len(weight), dtype=np.int8)
    for node in range(len(weight_start) - 1):
        own = scale[child_start[node] : child_start[node + 1]]
        for q in range(weight_start[node], weight_start[node + 1]):
            own[column[q]] = max(own[column[q]], abs(weight[q]))
        for j in range(len(own)):
            own[j] = own[j] / np.float32(LARGEST)
            if own[j] == 0:
                own[j] = 1
        for q in range(weight_start[node], weight_start[node + 1]):
            codes[q] = np.int8(np.rint(weight[q] / own[column[q]]))
    return codes, scale


@njit(nogil=True, cache=True)
def _pack_nodes(nodes: _Together, codes: Codes, group_bits: int, narrow: Codes) -> Any:
    """What `Packed` keeps of several nodes: how much of each, and the arrays from `shift` to `weight` but for
    `group_bits`, each end to end; the lookup as one row of numbers."""
    row_start, weight_start, child_start = nodes.row_start, nodes.weight_start, nodes.child_start
    features, row_length, column = nodes.features, nodes.row_length, nodes.column
    count = len(row_start) - 1
    counts, shift = np.empty((count, 7), dtype=np.int64), np.empty(count, dtype=np.uint8)
    found = []
    for node in range(count):
        rows = slice(row_start[node], row_start[node + 1])
        own = slice(weight_start[node], weight_start[node + 1])
        width = child_start[node + 1] - child_start[node]
        found.append(_pack_node(features[rows], row_length[rows], column[own], codes[own], width, group_bits, narrow))
    for node in range(count):
        counts[node], shift[node] = found[node][0], found[node][1]
    return (
        counts,
        shift,
        _end_to_end([each[2].reshape(-1) for each in found]),
        _end_to_end([each[3] for each in found]),
        _end_to_end([each[4] for each in found]),
        _end_to_end([each[5] for each in found]),
        _end_to_end([each[6] for each in found]),
        _end_to_end([each[7] for each in found]),
    )


@njit(nogil=True, cache=True)
def _end_to_end(parts: Any) -> Any:
    size = 0
    for part in parts:
        size += len(part)
    out = np.empty(size, dtype=parts[0].dtype)
    size = 0
    for part in parts:
        out[size : size + len(part)] = part
        size += len(part)
    return out


@njit(nogil=True, cache=True)
def _pack_node(
    features: Ints, row_length: Ints, column: Shorts, codes: Codes, width: int, group_bits: int, narrow: Codes
) -> Any:
    """What `Packed` keeps of a node: how much of each, its shift, and the arrays from `lookup` to `weight`."""
    rows, entries, last = 0, 0, -1
    start = 0
    for r in range(len(features)):
        before = entries
        for q in range(start, start + row_length[r]):
            entries += number(codes[q]) != 0
        start += row_length[r]
        if entries > before:
            rows += 1
            last = features[r]
    shift = 0
    while shift < MOST_BITS and ((last >> shift) + 1) * BUCKET > max(rows, BUCKET):
        shift += 1
    bitmap = ((last >> 5) + 1) * 8 <= BITS_WORTH * (2 * rows + 8 * ((last >> shift) + 1))
    if bitmap:
        shift = 5
    size = codes.itemsize
    full = rows * width * size <= entries * (size + narrow.itemsize) + (rows + 1) * 2 + ((rows >> group_bits) + 1) * 4
    index = np.zeros(((last >> shift) + 1, 2), dtype=np.uint32)
    low = np.empty(0 if bitmap else rows, dtype=np.uint16)
    group = np.zeros(0 if full else (rows >> group_bits) + 1, dtype=np.uint32)
    offset = np.zeros(0 if full else rows + 1, dtype=np.uint16)
    kept_column = np.empty(0 if full else entries, dtype=narrow.dtype)
    kept = np.zeros(rows * width if full else entries, dtype=codes.dtype)
    row, filled, done, start = 0, 0, -1, 0
    for r in range(len(features)):
        before = filled
        for q in range(start, start + row_length[r]):
            if number(codes[q]) != 0:
                if full:
                    kept[row * width + column[q]] = codes[q]
                else:
                    kept_column[filled] = column[q]
                    kept[filled] = codes[q]
                filled += 1
        start += row_length[r]
        if filled == before:
            continue
        at = features[r] >> shift
        while done < at:
            done += 1
            index[done, 1 if bitmap else 0] = row
            if not bitmap:
                index[done, 1] = row
        if bitmap:
            index[at, 0] |= np.uint32(1) << np.uint32(features[r] & 31)
        else:
            index[at, 1] = row + 1
            low[row] = features[r] & ((1 << shift) - 1)
        if not full:
            if row & ((1 << group_bits) - 1) == 0:
                group[row >> group_bits] = before
            offset[row] = before - group[row >> group_bits]
        row += 1
    if not full:
        if rows & ((1 << group_bits) - 1) == 0:
            group[rows >> group_bits] = entries
        offset[rows] = entries - group[rows >> group_bits]
    counts = np.array([len(index), rows, len(low), len(group), len(offset), len(kept_column), len(kept)])
    return counts, BITMAP if bitmap else shift, index, low, group, offset, kept_column, kept


def unpack(packed: Packed, node: int, bias: Floats) -> Separators:
    """The separators of a node as they are kept, without zeros; int8 weights not multiplied out."""
    entries, rows, low, group, offset, column, value = (
        slice(*packed.node_start[node : node + 2, part].tolist()) for part in range(7)
    )
    shift, n_rows = int(packed.shift[node]), rows.stop - rows.start
    features = np.empty(n_rows, dtype=np.int32)
    features_of(packed.lookup[entries], packed.low[low], shift, features)
    codes = packed.weight[value]
    weights = (codes.view(np.float16) if codes.dtype == np.uint16 else codes).astype(np.float32)
    if column.start == column.stop:
        kept = weights != 0
        columns = np.tile(np.arange(len(bias), dtype=np.uint16), n_rows)[kept]
        lengths = kept.reshape(n_rows, len(bias)).sum(axis=1)
        return Separators(features, lengths.astype(np.int32), columns, weights[kept], bias)
    groups = np.arange(n_rows + 1) >> int(packed.group_bits[0])
    first = packed.group[group].astype(np.int64)[groups] + packed.offset[offset]
    return Separators(features, np.diff(first).astype(np.int32), packed.column[column].astype(np.uint16), weights, bias)


@njit(nogil=True, cache=True)
def features_of(index: UnsignedInts, low: Shorts, shift: int, features: Ints) -> None:
    """The feature of each of a node's rows."""
    row = 0
    for at in range(len(index)):
        if shift == BITMAP:
            bits = index[at, 0]
            while bits != 0:
                features[row] = at * 32 + lowest_one(bits)
                bits = np.uint32(bits & (bits - np.uint32(1)))
                row += 1
        else:
            for r in range(np.int64(index[at, 0]), np.int64(index[at, 1])):
                features[r] = (at << shift) | low[r]
