"""TF-IDF of one text in microseconds: one kernel, in room that a thread keeps from text to text."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from longtail.arrays import njit
from longtail.features.analyser import Analyser
from longtail.features.characters import analysed_bytes
from longtail.features.compounds import split
from longtail.features.kernels import FACTOR, find_word, stable_hash, weigh
from longtail.features.languages import voters, winner
from longtail.features.stems import stems, stems_in
from longtail.features.tokenise import as_bytes, eight_bytes, is_no_word, mix, word_runs
from longtail.features.unspaced import code_point, is_unspaced, width_of
from longtail.features.word_tables import frozen

#: Longer texts go the general way: no thread is to keep room for a book.
LONGEST_TEXT = 1 << 22

Row = tuple[NDArray[np.int32], NDArray[np.float32]]


class Terms(NamedTuple):
    """What terms weigh, and where they are looked up.

    table      as `word_table` gives it
    blob, offsets, slots, columns, pairs, pair_slots, own, parts   as in `Vocabulary`
    ends       as in `Parts`
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
    own: NDArray[np.int32]
    parts: NDArray[np.int32]
    ends: NDArray[np.uint8]
    idf: NDArray[np.float32]
    n: int
    hash_mask: np.uint64
    sublinear: bool


class Lookup(NamedTuple):
    """How the language of a text and of its words is told.

    voters  blob, offsets and slots of the function words, and what each gives to every language, as in `Voters`
    shared  blob, offsets and slots of the words that have a language of their own, and, uint8, which
    """

    voters: tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]
    shared: tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int32], NDArray[np.uint8]]

    @classmethod
    def of(cls, analyser: Analyser) -> Lookup:
        (function_words, votes), shared = voters(analyser.languages), analyser.shared
        return cls(
            (function_words.blob, function_words.offsets, function_words.slots, votes),
            (shared.blob, shared.offsets, shared.slots, frozen(analyser.of)),
        )


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
        most = (n + 2) * words  # entries: n-grams, and the two parts of each compound
        packed = np.zeros((size + size // 2) // 8 + 3, dtype=np.uint64)  # lowering turns 2 bytes into at most 3
        runs = np.empty((2, size // 2 + 2), dtype=np.int64)
        columns, counts = np.empty((2, most), dtype=np.int32)
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
            np.empty(most, dtype=np.float32),
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


def weighed_stems(text: str, terms: Terms, lookup: Lookup, stemmed: Sequence[str]) -> Row | None:
    """The same for stems in place of words; None also for scripts without spaces, which go the general way.

    stemmed  as in `Analyser`
    """
    data = np.frombuffer(analysed_bytes(text) + b"\n", dtype=np.uint8)
    if len(data) > LONGEST_TEXT:
        return None
    room = _KEPT.room_for(len(data), terms.n, len(terms.idf))
    several = len(stemmed) > 1
    words, end = _words(data, terms.table, several, lookup, room)
    if words < 0:
        return None
    lower = room.lower[:end].tobytes()
    spelled = [
        lower[a:b] for a, b in zip(room.run_starts[:words].tolist(), room.run_ends[:words].tolist(), strict=True)
    ]
    if several:
        made = stems_in(spelled, room.nodes[:words].tolist(), stemmed)
    else:
        made = stems(spelled, stemmed[0])
    made.append(b"")  # so that the last one is closed, too
    entries = _weighed_stems(np.frombuffer(b"\n".join(made), dtype=np.uint8), terms, room)
    return room.columns[:entries], room.values[:entries]


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
def _words(data, table, several, lookup, room):  # type: ignore[no-untyped-def]
    """The number of words, whose places are written over those of the runs, and the bytes that are lower case.

    -1 for a text with a script without spaces. With `several` languages that of each word is written as its node.
    """
    lower, run_starts, run_ends, nodes = room.lower, room.run_starts, room.run_ends, room.nodes
    voter_blob, voter_offsets, voter_slots, votes = lookup.voters
    shared_blob, shared_offsets, shared_slots, shared_of = lookup.shared
    voted = np.zeros(len(votes), dtype=np.bool_)
    scores = np.zeros(votes.shape[1], dtype=np.int64)
    runs = word_runs(data, 0, len(data), table, lower, run_starts, run_ends)
    words = 0
    end = 0
    for r in range(runs):
        start = run_starts[r]
        end = run_ends[r]
        i = start
        while i < end:
            if lower[i] >= 0xE0 and is_unspaced(code_point(lower, i)):
                return -1, 0
            i += width_of(lower[i])
        if is_no_word(lower, start, end - start, True):
            continue
        run_starts[words] = start
        run_ends[words] = end
        if several:
            h = stable_hash(lower, start, end - start)
            row = find_word(lower, start, end - start, h, voter_blob, voter_offsets, voter_slots)
            if row >= 0 and not voted[row]:
                voted[row] = True
                for language in range(len(scores)):
                    scores[language] += votes[row, language]
            place = find_word(lower, start, end - start, h, shared_blob, shared_offsets, shared_slots)
            nodes[words] = shared_of[place] if place >= 0 else -1
        words += 1
    if several:
        language = winner(scores)
        for word in range(words):
            if nodes[word] < 0:
                nodes[word] = language
    return words, end


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator, unused-ignore]
def _weighed_stems(data, terms, room):  # type: ignore[no-untyped-def]
    """The number of entries; see `Room`. data: UTF-8 bytes of words, a newline behind each."""
    hashed = terms.hash_mask != 0
    compounds = len(terms.own) > 0
    blob, offsets, slots = terms.blob, terms.offsets, terms.slots
    own, parts, ends = terms.own, terms.parts, terms.ends
    words = 0
    start = 0
    entries = 0
    for i in range(len(data)):
        if data[i] != 0x0A:
            continue
        h = stable_hash(data, start, i - start)
        room.hashes[words] = h
        node = np.int32(0)
        if not hashed:
            node = find_word(data, start, i - start, h, blob, offsets, slots)
            if compounds:
                if node >= 0:
                    left, right = parts[node, 0], parts[node, 1]
                else:
                    left, right = split(data, start, i - start, (blob, offsets, slots), own, ends)
                if left >= 0:
                    entries = _count(terms.columns[left], entries, room)
                    entries = _count(terms.columns[right], entries, room)
        room.nodes[words] = node
        words += 1
        start = i + 1
    return _weigh_terms(words, entries, terms, room)


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator, unused-ignore]
def _weighed(data, terms, room):  # type: ignore[no-untyped-def]
    """The number of entries; see `Room`. data: UTF-8 bytes that close with a newline."""
    hashed = terms.hash_mask != 0
    blob, offsets, slots = terms.blob, terms.offsets, terms.slots
    words = 0
    for r in range(word_runs(data, 0, len(data), terms.table, room.lower, room.run_starts, room.run_ends)):
        start = room.run_starts[r]
        length = room.run_ends[r] - start
        if is_no_word(room.lower, start, length, False):
            continue
        h = mix(eight_bytes(room.packed, start, length))
        for j in range(8, length, 8):
            h = mix(h ^ eight_bytes(room.packed, start + j, length - j))
        room.hashes[words] = h
        room.nodes[words] = np.int32(0) if hashed else find_word(room.lower, start, length, h, blob, offsets, slots)
        words += 1
    return _weigh_terms(words, 0, terms, room)


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator, unused-ignore]
def _count(column, entries, room):  # type: ignore[no-untyped-def]
    """Counts a term, and gives the number of entries there are now."""
    if column < 0:
        return entries
    if room.seen[column] == 0:
        room.columns[entries] = column
        entries += 1
    room.seen[column] += 1
    return entries


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator, unused-ignore]
def _weigh_terms(words, entries, terms, room):  # type: ignore[no-untyped-def]
    """The number of entries, given the nodes and hashes of the words, and some entries that are counted already."""
    hashed = terms.hash_mask != 0
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
            entries = _count(column, entries, room)
    columns = room.columns[:entries]
    columns.sort()
    for e in range(entries):
        room.counts[e] = room.seen[columns[e]]
        room.seen[columns[e]] = 0
    room.indptr[1] = entries
    weigh(room.indptr, columns, room.counts, terms.idf, terms.sublinear, room.values)
    return entries
