"""TF-IDF of one text in microseconds: one kernel, in room that a thread keeps from text to text."""

from __future__ import annotations

import threading
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from longtail.arrays import njit
from longtail.features.kernels import FACTOR, weigh
from longtail.features.tokenise import as_bytes, eight_bytes, is_one_character, mix, word_runs

#: Longer texts go the general way: no thread is to keep room for a book.
LONGEST_TEXT = 1 << 22

Row = tuple[NDArray[np.int32], NDArray[np.float32]]


class Terms(NamedTuple):
    """What terms weigh, and where they are looked up.

    table      as `word_table` gives it
    blob, offsets, slots, columns, pairs, pair_slots   as in `Vocabulary`
    idf        float32 (D,)
    n          the longest n-gram
    hash_mask  0, or one less than the number of columns where a term's hash is its column
    sublinear  1 + ln(count) in place of the count
    """

    table: NDArray[np.int32]
    blob: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    slots: NDArray[np.int32]
    columns: NDArray[np.int32]
    pairs: NDArray[np.int32]
    pair_slots: NDArray[np.int32]
    idf: NDArray[np.float32]
    n: int
    hash_mask: np.uint64
    sublinear: bool


class Room(NamedTuple):
    """What `_weighed` works and writes in, for texts of so many bytes.

    packed, lower, run_starts, run_ends  as in `tokenise`
    nodes, hashes  of each word of the text
    seen           int32 (D,), 0 everywhere, and left so
    indptr         int64 (2,), written: 0 and the number of entries
    columns, counts, values  of the entries, written, rising by column
    """

    packed: NDArray[np.uint64]
    lower: NDArray[np.uint8]
    run_starts: NDArray[np.int64]
    run_ends: NDArray[np.int64]
    nodes: NDArray[np.int32]
    hashes: NDArray[np.uint64]
    seen: NDArray[np.int32]
    indptr: NDArray[np.int64]
    columns: NDArray[np.int32]
    counts: NDArray[np.int32]
    values: NDArray[np.float32]

    @classmethod
    def of(cls, size: int, n: int, width: int) -> Room:
        words = size // 3 + 1  # a word is two characters and a separator
        packed = np.zeros((size + size // 2) // 8 + 3, dtype=np.uint64)  # lowering turns 2 bytes into at most 3
        runs = np.empty((2, size // 2 + 2), dtype=np.int64)
        columns, counts = np.empty((2, n * words), dtype=np.int32)
        return cls(
            packed,
            packed.view(np.uint8),
            runs[0],
            runs[1],
            np.empty(words, dtype=np.int32),
            np.empty(words, dtype=np.uint64),
            np.zeros(width, dtype=np.int32),
            np.zeros(2, dtype=np.int64),
            columns,
            counts,
            np.empty(n * words, dtype=np.float32),
        )


class _Kept(threading.local):
    """The room of a thread: large enough for the longest text, the longest n-gram and the widest X it has met."""

    size, n, width = 0, 0, 0
    room: Room | None = None

    def room_for(self, size: int, n: int, width: int) -> Room:
        if self.room is None or size > self.size or n > self.n or width > self.width:
            self.size, self.n, self.width = max(2 * size, self.size, 4096), max(n, self.n), max(width, self.width)
            self.room = Room.of(self.size, self.n, self.width)
        return self.room


_KEPT = _Kept()


def weighed_text(text: str, terms: Terms) -> Row | None:
    """Columns and values of a text's row of X, as `Tfidf.transform` gives them; None for a text that is too long.

    They are the thread's own, and hold until it asks again.
    """
    data = np.frombuffer(as_bytes(text) + b"\n", dtype=np.uint8)
    if len(data) > LONGEST_TEXT:
        return None
    room = _KEPT.room_for(len(data), terms.n, len(terms.idf))
    entries = _weighed(data, terms, room)
    return room.columns[:entries], room.values[:entries]


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator, unused-ignore]
def _find_word(terms, lower, start, length, h):  # type: ignore[no-untyped-def]
    """The node of a word, or -1."""
    mask = len(terms.slots) - 1
    at = np.int64(h & np.uint64(mask))
    while terms.slots[at] >= 0:
        candidate = terms.slots[at]
        begin = terms.offsets[candidate]
        same = terms.offsets[candidate + 1] - begin == length
        j = 0
        while same and j < length:
            same = terms.blob[begin + j] == lower[start + j]
            j += 1
        if same:
            return candidate
        at = (at + 1) & mask
    return np.int32(-1)


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator, unused-ignore]
def _find_pair(terms, left, right, h):  # type: ignore[no-untyped-def]
    """The node of an n-gram, or -1."""
    if left < 0 or right < 0:
        return np.int32(-1)
    mask = len(terms.pair_slots) - 1
    at = np.int64(h & np.uint64(mask))
    while terms.pair_slots[at] >= 0:
        candidate = terms.pair_slots[at]
        if terms.pairs[candidate, 0] == left and terms.pairs[candidate, 1] == right:
            return np.int32(len(terms.offsets) - 1 + candidate)
        at = (at + 1) & mask
    return np.int32(-1)


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator, unused-ignore]
def _weighed(data, terms, room):  # type: ignore[no-untyped-def]
    """The number of entries; see `Room`. data: UTF-8 bytes that close with a newline."""
    hashed = terms.hash_mask != 0
    words = 0
    for r in range(word_runs(data, 0, len(data), terms.table, room.lower, room.run_starts, room.run_ends)):
        start = room.run_starts[r]
        length = room.run_ends[r] - start
        if is_one_character(room.lower, start, length):
            continue
        h = mix(eight_bytes(room.packed, start, length))
        for j in range(8, length, 8):
            h = mix(h ^ eight_bytes(room.packed, start + j, length - j))
        room.hashes[words] = h
        room.nodes[words] = np.int32(0) if hashed else _find_word(terms, room.lower, start, length, h)
        words += 1
    entries = 0
    for i in range(words):
        node = room.nodes[i]
        h = room.hashes[i]
        for k in range(i, min(i + terms.n, words)):
            if k > i:
                h = mix(h * FACTOR + room.hashes[k])
                if not hashed:
                    node = _find_pair(terms, node, room.nodes[k], h)
            if hashed:
                column = np.int32(h & terms.hash_mask)
                if terms.idf[column] == 0:
                    continue
            elif node < 0:
                break  # nothing longer is known either
            else:
                column = terms.columns[node]
                if column < 0:
                    continue
            if room.seen[column] == 0:
                room.columns[entries] = column
                entries += 1
            room.seen[column] += 1
    columns = room.columns[:entries]
    columns.sort()
    for e in range(entries):
        room.counts[e] = room.seen[columns[e]]
        room.seen[columns[e]] = 0
    room.indptr[1] = entries
    weigh(room.indptr, columns, room.counts, terms.idf, terms.sublinear, room.values)
    return entries
