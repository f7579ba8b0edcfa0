"""Counting, looking up, arranging and weighing terms.

A term is a node: words come first (0 to T - 1), then n-grams, each a pair (node of the n-gram without its last word,
node of the last word), so n-grams are compared exactly without their characters being written out. The stable hash of
an n-gram is mix(31 * hash of the n-gram without its last word + hash of the last word).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from longtail.arrays import njit
from longtail.features.tokenise import mix
from longtail.lanes import fetch

FACTOR = np.uint64(31)
#: Words between a place being asked for and being read.
AHEAD = 8


class Entries(NamedTuple):
    """Numbers and how often each stands in each document.

    indptr  int64 (documents + 1,); numbers and counts: int32 (entries,)
    """

    indptr: NDArray[np.int64]
    numbers: NDArray[np.int32]
    counts: NDArray[np.int32]


class WordRoom(NamedTuple):
    """Words and room for more: UTF-8 bytes, where each begins, stable hashes, and an open-addressing table over these
    that has at least one empty slot when the room is full."""

    blob: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    hashes: NDArray[np.uint64]
    slots: NDArray[np.int32]


class TermRoom(NamedTuple):
    """Room for the terms that `count_terms` finds in S words, T of them different, with n-grams of up to n words.

    hashes  uint64 (T + (n - 1) S,), the words' filled in
    pairs   int32 ((n - 1) S, 2)
    slots   int32 (a power of 2 that is at least twice the room in pairs,), -1 everywhere
    last    int64 (T + (n - 1) S,), -1 everywhere: where a node was counted last
    """

    hashes: NDArray[np.uint64]
    pairs: NDArray[np.int32]
    slots: NDArray[np.int32]
    last: NDArray[np.int64]


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator, unused-ignore]
def count_terms(stream, ends, words, n, room, found):  # type: ignore[no-untyped-def]
    """The terms of each document with their counts, in order of first appearance.

    stream  int32 (S,), word nodes; ends: int64 (documents,)
    words   T; n: the longest n-gram
    room    `TermRoom`, hashes and pairs are written
    found   `Entries` with room for n S, written
    Gives the number of pairs and the number of entries written.
    """
    hashes, pairs, slots, last = room
    indptr, ids, counts = found
    mask = len(slots) - 1
    known = 0
    entries = 0
    begin = 0
    indptr[0] = 0
    for document in range(len(ends)):
        end = ends[document]
        first = entries
        for i in range(begin, end):
            node = np.int64(stream[i])
            for k in range(i, min(i + n, end)):
                if k > i:
                    word = stream[k]
                    h = mix(hashes[node] * FACTOR + hashes[word])
                    at = np.int64(h & np.uint64(mask))
                    while slots[at] >= 0 and (pairs[slots[at], 0] != node or pairs[slots[at], 1] != word):
                        at = (at + 1) & mask
                    if slots[at] < 0:
                        slots[at] = known
                        pairs[known, 0] = node
                        pairs[known, 1] = word
                        hashes[words + known] = h
                        known += 1
                    node = words + slots[at]
                if last[node] >= first:
                    counts[last[node]] += 1
                else:
                    last[node] = entries
                    ids[entries] = node
                    counts[entries] = 1
                    entries += 1
        begin = end
        indptr[document + 1] = entries
    return known, entries


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator, unused-ignore]
def stable_hash(blob, start, length):  # type: ignore[no-untyped-def]
    """The stable hash of a word, as `tokenise` defines it."""
    h = np.uint64(0)
    for j in range(0, length, 8):
        eight = np.uint64(0)
        for k in range(min(8, length - j)):
            eight |= np.uint64(blob[start + j + k]) << np.uint64(k << 3)
        h = mix(h ^ eight)
    return h


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator, unused-ignore]
def copy_pieces(blob, starts, lengths, apart, out):  # type: ignore[no-untyped-def]
    """out: uint8, written: pieces of the blob one after the other, so many bytes apart."""
    at = 0
    for piece in range(len(starts)):
        start = starts[piece]
        for j in range(lengths[piece]):
            out[at + j] = blob[start + j]
        at += lengths[piece] + apart


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator, unused-ignore]
def number_numbers(given, place, numbers, chosen):  # type: ignore[no-untyped-def]
    """Numbers the different ones of some numbers in order of first appearance, and gives how many they are.

    given    int32, none negative; place: int32, -1 for each number there may be, and left so
    numbers  int32, written; chosen: int32 (as many as may be different,), written
    """
    known = 0
    for i in range(len(given)):
        number = given[i]
        if place[number] < 0:
            place[number] = known
            chosen[known] = number
            known += 1
        numbers[i] = place[number]
    for k in range(known):
        place[chosen[k]] = -1
    return known


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator, unused-ignore]
def look_up(places, numbers, found):  # type: ignore[no-untyped-def]
    """found: int32, written: the number at each place."""
    for i in range(len(places)):
        found[i] = numbers[places[i]]


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator, unused-ignore]
def number_words(blob, starts, lengths, slots, numbers, firsts, hashes):  # type: ignore[no-untyped-def]
    """Numbers the different ones of some words in order of first appearance, and gives how many they are.

    starts, lengths  int64 (words,), where each is in the blob
    slots    int32 (a power of 2 above the number of words,), -1 everywhere
    numbers  int32 (words,), written; firsts: int64 (words,), the first word with each number, written
    hashes   uint64 (words,), by number, written
    """
    mask = len(slots) - 1
    known = 0
    for word in range(len(starts)):
        start = starts[word]
        length = lengths[word]
        h = stable_hash(blob, start, length)
        at = np.int64(h & np.uint64(mask))
        found = np.int32(-1)
        while slots[at] >= 0 and found < 0:
            candidate = slots[at]
            begin = starts[firsts[candidate]]
            same = hashes[candidate] == h and lengths[firsts[candidate]] == length
            j = 0
            while same and j < length:
                same = blob[begin + j] == blob[start + j]
                j += 1
            if same:
                found = candidate
            else:
                at = (at + 1) & mask
        if found < 0:
            found = np.int32(known)
            slots[at] = found
            firsts[known] = word
            hashes[known] = h
            known += 1
        numbers[word] = found
    return known


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator, unused-ignore]
def find_word(blob, start, length, h, table_blob, table_offsets, table_slots):  # type: ignore[no-untyped-def]
    """The number in a table of the word with that hash at `start` in the blob, or -1. The table has an empty slot."""
    mask = len(table_slots) - 1
    at = np.int64(h & np.uint64(mask))
    while table_slots[at] >= 0:
        candidate = table_slots[at]
        begin = table_offsets[candidate]
        same = table_offsets[candidate + 1] - begin == length
        j = 0
        while same and j < length:
            same = table_blob[begin + j] == blob[start + j]
            j += 1
        if same:
            return candidate
        at = (at + 1) & mask
    return np.int32(-1)


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator, unused-ignore]
def _ask_ahead(hashes, word, blob, offsets, slots):  # type: ignore[no-untyped-def]
    """Asks for what the words behind this one will be compared with: tables are larger than the processor's cache."""
    mask = np.uint64(len(slots) - 1)
    if word + 3 * AHEAD < len(hashes):
        fetch(slots, np.int64(hashes[word + 3 * AHEAD] & mask))
        candidate = slots[np.int64(hashes[word + 2 * AHEAD] & mask)]
        if candidate >= 0:
            fetch(offsets, np.int64(candidate))
        candidate = slots[np.int64(hashes[word + AHEAD] & mask)]
        if candidate >= 0:
            fetch(blob, offsets[candidate])


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator, unused-ignore]
def find_words(blob, offsets, hashes, table_blob, table_offsets, table_slots, found):  # type: ignore[no-untyped-def]
    """found: int32, for each word its number in the table, or -1. The table has at least one empty slot."""
    for word in range(len(hashes)):
        _ask_ahead(hashes, word, table_blob, table_offsets, table_slots)
        start = offsets[word]
        length = offsets[word + 1] - start
        found[word] = find_word(blob, start, length, hashes[word], table_blob, table_offsets, table_slots)


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator, unused-ignore]
def hash_words(blob, offsets, hashes):  # type: ignore[no-untyped-def]
    """hashes: uint64 (words,), written: the stable hash of each word."""
    for word in range(len(hashes)):
        hashes[word] = stable_hash(blob, offsets[word], offsets[word + 1] - offsets[word])


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator, unused-ignore]
def take_in(blob, offsets, hashes, known, room, numbers):  # type: ignore[no-untyped-def]
    """Looks words up, takes in those that are not there yet, and gives how many are there now.

    known    how many are there; room: `WordRoom`, with room for all the words, written
    numbers  int32 (words,), written
    """
    table_blob, table_offsets, table_hashes, slots = room
    mask = len(slots) - 1
    for word in range(len(hashes)):
        _ask_ahead(hashes, word, table_blob, table_offsets, slots)
        start = offsets[word]
        length = offsets[word + 1] - start
        at = np.int64(hashes[word] & np.uint64(mask))
        while slots[at] >= 0:
            begin = table_offsets[slots[at]]
            same = table_offsets[slots[at] + 1] - begin == length
            j = 0
            while same and j < length:
                same = table_blob[begin + j] == blob[start + j]
                j += 1
            if same:
                break
            at = (at + 1) & mask
        if slots[at] < 0:
            slots[at] = known
            begin = table_offsets[known]
            for j in range(length):
                table_blob[begin + j] = blob[start + j]
            table_offsets[known + 1] = begin + length
            table_hashes[known] = hashes[word]
            known += 1
        numbers[word] = slots[at]
    return known


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator, unused-ignore]
def find_pairs(pairs, hashes, words, table_words, table_pairs, table_slots, found):  # type: ignore[no-untyped-def]
    """Completes `found`, int32 (words + pairs,), whose part for the words is filled in.

    A pair's node in the table is `table_words` plus its number there; pairs made of a node that the table does not
    know are not in it either.
    """
    mask = len(table_slots) - 1
    for p in range(len(pairs)):
        left = found[pairs[p, 0]]
        right = found[pairs[p, 1]]
        answer = -1
        if left >= 0 and right >= 0:
            at = np.int64(hashes[words + p] & np.uint64(mask))
            while table_slots[at] >= 0:
                candidate = table_slots[at]
                if table_pairs[candidate, 0] == left and table_pairs[candidate, 1] == right:
                    answer = table_words + candidate
                    break
                at = (at + 1) & mask
        found[words + p] = answer


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator, unused-ignore]
def place(hashes, first, slots):  # type: ignore[no-untyped-def]
    """Enters numbers first, first + 1, ... by their hashes; none of them may be in the table yet."""
    mask = len(slots) - 1
    for i in range(len(hashes)):
        at = np.int64(hashes[i] & np.uint64(mask))
        while slots[at] >= 0:
            at = (at + 1) & mask
        slots[at] = first + i


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator, unused-ignore]
def arrange(given, starts, columns, order, scratch, arranged):  # type: ignore[no-untyped-def]
    """Entries by node to entries by column: rows sorted, equal columns added up, nodes without a column left out.

    given      `Entries` by node, rows in any order
    starts     int64 (nodes + 1,), sums of the nodes' document frequencies
    columns    int32 (nodes,), -1 for none; order: int64, the nodes that have one, by column
    scratch    int32 (2, entries)
    arranged   `Entries` by column, with as much room, written
    Writing the entries by node first and then walking the nodes by column sorts all rows at once, in linear time.
    """
    indptr, ids, counts = given
    new_indptr, new_columns, new_counts = arranged
    rows, amounts = scratch[0], scratch[1]
    documents = len(indptr) - 1
    cursor = starts.copy()
    for row in range(documents):
        kept = 0
        for e in range(indptr[row], indptr[row + 1]):
            node = ids[e]
            if columns[node] >= 0:
                rows[cursor[node]] = row
                amounts[cursor[node]] = counts[e]
                cursor[node] += 1
                kept += 1
        new_indptr[row + 1] = kept
    new_indptr[0] = 0
    for row in range(documents):
        new_indptr[row + 1] += new_indptr[row]
    write = new_indptr[:documents].copy()
    for node in order:
        column = columns[node]
        for e in range(starts[node], cursor[node]):
            row = rows[e]
            at = write[row]
            if at > new_indptr[row] and new_columns[at - 1] == column:
                new_counts[at - 1] += amounts[e]
            else:
                new_columns[at] = column
                new_counts[at] = amounts[e]
                write[row] = at + 1
    # Adding up leaves gaps at the ends of rows.
    at = 0
    for row in range(documents):
        begin = new_indptr[row]
        new_indptr[row] = at
        for e in range(begin, write[row]):
            new_columns[at] = new_columns[e]
            new_counts[at] = new_counts[e]
            at += 1
    new_indptr[documents] = at


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator, unused-ignore]
def _weight(count, sublinear):  # type: ignore[no-untyped-def]
    if not sublinear:
        return float(count)
    return 1.0 + math.log(float(count)) if count > 1 else 1.0


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator, unused-ignore]
def weigh(indptr, columns, counts, idf, sublinear, data):  # type: ignore[no-untyped-def]
    """data: float32 (entries,), written: term frequency times idf, each row of unit length."""
    for row in range(len(indptr) - 1):
        total = 0.0
        for e in range(indptr[row], indptr[row + 1]):
            value = _weight(counts[e], sublinear) * idf[columns[e]]
            total += value * value
        scale = 1.0 / math.sqrt(total) if total > 0 else 0.0
        for e in range(indptr[row], indptr[row + 1]):
            data[e] = _weight(counts[e], sublinear) * idf[columns[e]] * scale
