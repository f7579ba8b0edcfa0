"""Compounds: words made of two words that the corpus also has by themselves, as German makes them.

Of all ways to cut a word in two, with or without a letter or three that link the parts (Universität-s-bibliothek), the
one counts whose parts are in most documents, by the product of their numbers (Koehn & Knight 2003, Empirical methods
for compound splitting). The parts are counted beside the compound, which stays.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from longtail.arrays import njit
from longtail.features.kernels import Entries, find_word, stable_hash
from longtail.features.terms import TermCounts
from longtail.features.tokenise import mix
from longtail.features.word_tables import Spelled, WordTable, frozen, power_of_two, taken
from longtail.features.word_tables import table as table_of
from longtail.run import Run

#: Languages that write compounds as one word.
COMPOUNDING = frozenset({"da", "de", "et", "fi", "hu", "is", "nl", "no", "sv"})
#: Fewest bytes of a part, and fewest documents that have it as a word.
SHORTEST, FEWEST = 4, 2
#: What has more bytes is no word.
LONGEST = 100
#: What may stand between two stems: its number of bytes and these.
LINKS = np.array(
    [[len(link), *link.ljust(3)] for link in (b"", b"s", b"n", b"e", b"es", b"en", b"er", b"ns", b"ens")],
    dtype=np.uint8,
)
#: Words that a task cuts.
_WORDS_OF_TASK = 50_000


def documents_of_parts(
    df: NDArray[np.int64], lengths: NDArray[np.int64], documents: int, *, min_df: int, max_df: float, most: int | None
) -> NDArray[np.int32]:
    """int32 (words,): in how many documents each word is, 0 for one that cannot be a part.

    df, lengths   of each word, the length in bytes
    min_df, max_df  words outside are no terms, and no parts either
    most          no more parts than this; the rarer words of the corpus are left out then
    """
    fewest = max(FEWEST, min_df)
    can_be = (df >= fewest) & (df <= max_df * documents) & (lengths >= SHORTEST)
    if most is not None and can_be.sum() > most:
        can_be &= df > np.sort(df[can_be])[-most - 1]
    return np.where(can_be, np.minimum(df, np.iinfo(np.int32).max), 0).astype(np.int32)


def parts_of_words(words: Spelled, own: NDArray[np.int32], run: Run) -> NDArray[np.int32]:
    """int32 (words, 2): the parts of each word as numbers of others, or -1 twice.

    own  as `documents_of_parts` gives it
    """
    # a table of the words that can be parts, and no others, is in the processor's cache sooner
    can_be = np.flatnonzero(own)
    blob, offsets, hashes = taken(words, can_be)
    table, documents = WordTable(blob, offsets, table_of(hashes, 2 * len(hashes))), own[can_be]
    ends = ends_of_parts(blob, offsets, documents)

    def of_some(first: int) -> NDArray[np.int32]:
        some = words.offsets[first : first + _WORDS_OF_TASK + 1]
        unknown = np.full(len(some) - 1, -1, dtype=np.int32)
        return find_parts(words.blob, some, unknown, table, Parts(documents, np.empty((0, 2), dtype=np.int32), ends))

    found = np.concatenate(run.map(of_some, range(0, len(own), _WORDS_OF_TASK)))
    return np.where(found >= 0, np.append(can_be, -1)[found], -1).astype(np.int32)


class Parts(NamedTuple):
    """own, parts: as in `Vocabulary`; ends: as `ends_of_parts` gives them."""

    own: NDArray[np.int32]
    parts: NDArray[np.int32]
    ends: NDArray[np.uint8]


def ends_of_parts(blob: NDArray[np.uint8], offsets: NDArray[np.int64], own: NDArray[np.int32]) -> NDArray[np.uint8]:
    """uint8 (a power of 2,): bits that are set for words that may be parts, by their first and last four bytes.

    Most ways to cut a word give no such words; this tells quicker than looking them up.
    """
    ends = np.zeros(power_of_two(2 * int((own > 0).sum())), dtype=np.uint8)
    _mark_ends(blob, offsets, own, ends)
    return frozen(ends)


def find_parts(
    blob: NDArray[np.uint8], offsets: NDArray[np.int64], known: NDArray[np.int32], words: WordTable, parts: Parts
) -> NDArray[np.int32]:
    """int32 (words, 2): the parts of words as numbers in a table, or -1.

    blob, offsets, known  the words, and the number of each in the table or -1
    words, parts          the table, and what its words are as parts
    """
    found = np.empty((len(known), 2), dtype=np.int32)
    _find_parts(blob, offsets, known, (words.blob, words.offsets, words.slots), parts, found)
    return found


def with_parts(
    entries: TermCounts, known: NDArray[np.int32], parts: NDArray[np.int32]
) -> tuple[TermCounts, NDArray[np.int32]]:
    """Counts with those of the parts of words added.

    known  int32 (nodes,), the number in a table of each node, or -1
    parts  int32 (words, 2), those of the first nodes, as numbers in the table, or -1
    Gives the new counts, and `known` with the nodes that come in new.
    """
    size = int(max(known.max(initial=-1), parts.max(initial=-1))) + 1
    new = np.empty(2 * len(parts), dtype=np.int32)
    nodes = np.empty((len(parts), 2), dtype=np.int32)
    count, any_at_all = _nodes_of_parts(known, parts, np.full(size, -1, dtype=np.int32), new, nodes)
    if not any_at_all:
        return entries, known
    # room that is not written to takes no memory
    made = Entries(np.empty(len(entries.indptr), dtype=np.int64), *np.empty((2, 3 * len(entries.ids)), dtype=np.int32))
    last = np.full(len(known) + count, -1, dtype=np.int64)
    kept = _add_parts(Entries(*entries[:3]), nodes, last, made)
    counted = TermCounts(made.indptr, made.numbers[:kept].copy(), made.counts[:kept].copy(), len(last))
    return counted, np.concatenate([known, new[:count]])


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator, unused-ignore]
def _number_of(blob, start, length, table_blob, table_offsets, table_slots):  # type: ignore[no-untyped-def]
    """The number of a word in a table, or -1."""
    h = stable_hash(blob, start, length)
    return find_word(blob, start, length, h, table_blob, table_offsets, table_slots)


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator, unused-ignore]
def _four(blob, start):  # type: ignore[no-untyped-def]
    """Four bytes as one number."""
    return (
        np.uint64(blob[start])
        | np.uint64(blob[start + 1]) << np.uint64(8)
        | np.uint64(blob[start + 2]) << np.uint64(16)
        | np.uint64(blob[start + 3]) << np.uint64(24)
    )


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator, unused-ignore]
def _bit_of_ends(first, last, size):  # type: ignore[no-untyped-def]
    """The byte and the bit of words with these first and last four bytes in `ends_of_parts`."""
    h = mix(first | last << np.uint64(32))
    return np.int64((h >> np.uint64(3)) & np.uint64(size - 1)), np.uint8(1) << np.uint8(h & np.uint64(7))


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator, unused-ignore]
def _may_be_part(first, last, ends):  # type: ignore[no-untyped-def]
    """Whether a word with these first and last four bytes may be a part at all."""
    at, bit = _bit_of_ends(first, last, len(ends))
    return ends[at] & bit != 0


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator, unused-ignore]
def _mark_ends(blob, offsets, own, ends):  # type: ignore[no-untyped-def]
    """ends: uint8, 0 everywhere, written; see `ends_of_parts`."""
    for word in range(len(own)):
        if own[word] > 0 and offsets[word + 1] - offsets[word] >= SHORTEST:
            first, last = _four(blob, offsets[word]), _four(blob, offsets[word + 1] - 4)
            at, bit = _bit_of_ends(first, last, len(ends))
            ends[at] |= bit


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator, unused-ignore]
def split(blob, start, length, table, own, ends):  # type: ignore[no-untyped-def]
    """The numbers of the two parts of a word, or -1 twice."""
    left = np.int32(-1)
    right = np.int32(-1)
    if length < 2 * SHORTEST or length > LONGEST:
        return left, right
    table_blob, table_offsets, table_slots = table
    for j in range(start, start + length):
        if blob[j] < 0x61 or 0x7A < blob[j] < 0x80:  # a digit or an underscore
            return left, right
    best = np.int64(0)
    begin, last = _four(blob, start), _four(blob, start + length - 4)
    for cut in range(SHORTEST, length - SHORTEST + 1):
        if blob[start + cut] & 0xC0 == 0x80:
            continue  # within a character
        if not _may_be_part(_four(blob, start + cut), last, ends):
            continue
        second = np.int32(-2)  # not looked up yet
        for link in range(len(LINKS)):
            end = cut - np.int64(LINKS[link, 0])
            fits = end >= SHORTEST
            j = 0
            while fits and end + j < cut:
                fits = blob[start + end + j] == LINKS[link, 1 + j]
                j += 1
            if not fits or not _may_be_part(begin, _four(blob, start + end - 4), ends):
                continue
            if second == -2:
                second = _number_of(blob, start + cut, length - cut, table_blob, table_offsets, table_slots)
            if second < 0 or own[second] == 0:
                break
            first = _number_of(blob, start, end, table_blob, table_offsets, table_slots)
            if first >= 0 and np.int64(own[first]) * np.int64(own[second]) > best:
                best = np.int64(own[first]) * np.int64(own[second])
                left, right = first, second
    return left, right


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator, unused-ignore]
def _find_parts(blob, offsets, known, table, of_table, found):  # type: ignore[no-untyped-def]
    """found: int32 (words, 2), written; see `find_parts`."""
    own, parts, ends = of_table
    for word in range(len(known)):
        number = known[word]
        if number >= 0:
            found[word, 0] = parts[number, 0]
            found[word, 1] = parts[number, 1]
        else:
            start = offsets[word]
            length = offsets[word + 1] - start
            left, right = split(blob, start, length, table, own, ends)
            found[word, 0] = left
            found[word, 1] = right


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator, unused-ignore]
def _nodes_of_parts(known, parts, place, new, nodes):  # type: ignore[no-untyped-def]
    """How many nodes come in new, and whether any word has parts.

    known, parts  as `with_parts` has them
    place  int32, -1 for every number of the table; new: int32, the numbers of the new nodes, written
    nodes  int32 (words, 2), the parts as nodes, written
    """
    for node in range(len(known)):
        if known[node] >= 0:
            place[known[node]] = node
    count = 0
    any_at_all = False
    for word in range(len(parts)):
        for k in range(2):
            number = parts[word, k]
            if number >= 0 and place[number] < 0:
                place[number] = len(known) + count
                new[count] = number
                count += 1
            nodes[word, k] = place[number] if number >= 0 else -1
            any_at_all |= number >= 0
    return count, any_at_all


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator, unused-ignore]
def _add_parts(given, parts, last, made):  # type: ignore[no-untyped-def]
    """The number of entries written.

    given  `Entries` by node; made: the same with those of parts, written; there is room for thrice as many
    parts  int32 (words, 2), those of the first nodes as nodes, or -1 twice; last: int64 (all nodes,), -1 everywhere
    """
    indptr, ids, counts = given
    new_indptr, new_ids, new_counts = made
    compounds = np.empty(1024, dtype=np.int64)
    entries = 0
    new_indptr[0] = 0
    for row in range(len(indptr) - 1):
        first = entries
        begin, end = indptr[row], indptr[row + 1]
        while len(compounds) < end - begin:
            compounds = np.empty(2 * len(compounds), dtype=np.int64)
        found = 0
        for e in range(begin, end):
            node = ids[e]
            last[node] = entries
            new_ids[entries] = node
            new_counts[entries] = counts[e]
            entries += 1
            compounds[found] = e
            found += node < len(parts) and parts[node, 0] >= 0
        for c in range(found):
            count = counts[compounds[c]]
            for k in range(2):
                node = parts[ids[compounds[c]], k]
                if last[node] >= first:
                    new_counts[last[node]] += count
                else:
                    last[node] = entries
                    new_ids[entries] = node
                    new_counts[entries] = count
                    entries += 1
        new_indptr[row + 1] = entries
    return entries
