"""Texts to words: exactly the matches of `(?u)\\b\\w\\w+\\b` in `text.lower()`, found over UTF-8 bytes.

A run of word characters ends where a character that is none begins, so the pattern's matches are the maximal runs of
two or more word characters. One table gives, for each code point, its lower-case form if that is a word character and
0 otherwise; it is built from `re` and `str.lower` themselves, so it follows the Unicode version of the interpreter.
Another table (`characters`) gives other words: it may also leave characters out, by -1.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from longtail.arrays import njit
from longtail.features.unspaced import code_point, is_unspaced

CODE_POINTS = 0x110000
#: No character beyond the first two planes has a case; `word_table` checks it.
CASED = 0x20000
#: The only letters whose lower case is more than one character, or depends on its neighbours (final sigma). Texts
#: with one of them are lowered by `str.lower` before the kernel sees them.
SPECIAL = ("\u0130", "\u03a3")

MIX_1 = np.uint64(0xFF51AFD7ED558CCD)
MIX_2 = np.uint64(0xC4CEB9FE1A85EC53)
SHIFT = np.uint64(33)
ZERO = np.uint64(0)
ONE = np.uint64(1)


class Words(NamedTuple):
    """The words of a chunk of documents, as numbers into the chunk's own list of distinct words.

    stream   int32 (tokens,), the words in reading order
    ends     int64 (documents,), where each document ends in the stream
    blob     uint8, the distinct words' UTF-8 bytes one after the other, in order of first appearance
    offsets  int64 (words + 1,), where each begins in the blob
    hashes   uint64 (words,), the stable hash of each
    numbers  in place of bytes, for `Analyser.gathered`: int32 (words,), where each is in a list that all chunks share
    """

    stream: NDArray[np.int32]
    ends: NDArray[np.int64]
    blob: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    hashes: NDArray[np.uint64]
    numbers: NDArray[np.int32] | None = None


class _Room(NamedTuple):
    """What `_tokenise` works and writes in.

    packed      uint64, one document's lower-case bytes, 0 for what is no word character; lower: the same as uint8
    run_starts  int64, where the document's runs of word characters begin; run_ends: where they end
    stream, offsets  as in `Words`, written; begins: int64, where each word begins in the kernel's own copy
    """

    packed: NDArray[np.uint64]
    lower: NDArray[np.uint8]
    run_starts: NDArray[np.int64]
    run_ends: NDArray[np.int64]
    stream: NDArray[np.int32]
    begins: NDArray[np.int64]
    offsets: NDArray[np.int64]


@cache
def word_table() -> NDArray[np.int32]:
    """int32 (0x110000,): the lower-case code point where it is a word character, 0 elsewhere."""
    points = np.arange(CODE_POINTS, dtype="<u4")
    every = points.tobytes().decode("utf-32-le", "surrogatepass")
    is_word = np.zeros(CODE_POINTS, dtype=bool)
    for run in re.finditer(r"\w+", every):
        is_word[run.start() : run.end()] = True
    if every[CASED:].lower() != every[CASED:]:
        raise RuntimeError("this interpreter's Unicode has letters with a case beyond U+1FFFF")
    lower = points.astype(np.int32)
    # All at once, for single letters take long. Special ones never reach the table; one character is as good as any.
    cased = every[:CASED].translate({ord(letter): letter.lower()[:1] for letter in SPECIAL})
    lower[:CASED] = np.frombuffer(cased.lower().encode("utf-32-le", "surrogatepass"), dtype="<u4")
    table = np.where(is_word[lower], lower, 0).astype(np.int32)
    table.flags.writeable = False
    return table


def tokenise(texts: Sequence[str], *, table: NDArray[np.int32] | None = None) -> Words:
    """The words of some texts; the interpreter lock is held only while they are turned into bytes.

    table  another one than `word_table`; with it a single character of a script without spaces is a word
    """
    encoded = [as_bytes(text) for text in texts]
    data = np.frombuffer(b"\n".join([*encoded, b""]), dtype=np.uint8)
    ends = np.cumsum(np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded)) + 1)
    return tokenise_bytes(data, ends, word_table() if table is None else table, table is not None)


def tokenise_bytes(data: NDArray[np.uint8], ends: NDArray[np.int64], table: NDArray[np.int32], lone: bool) -> Words:
    """The words of texts in UTF-8, without special letters.

    data, ends  the texts, a newline behind each, and where each ends behind it; ends is written over
    lone        see `is_no_word`
    """
    longest = int(np.diff(ends, prepend=0).max(initial=1))
    # Lowering turns 2 bytes into at most 3.
    packed = np.zeros((longest + longest // 2) // 8 + 3, dtype=np.uint64)
    runs = np.empty((2, longest // 2 + 2), dtype=np.int64)
    most = len(data) // 3 + 1  # a word is two characters and a separator
    stream = np.empty(most, dtype=np.int32)
    begins, offsets = np.empty((2, most + 1), dtype=np.int64)
    room = _Room(packed, packed.view(np.uint8), runs[0], runs[1], stream, begins, offsets)
    words, blob, hashes = _tokenise(data, ends, table, lone, room)
    # Copies let go of the room that was not needed.
    tokens = int(ends[-1]) if len(ends) else 0
    return Words(stream[:tokens].copy(), ends, blob, offsets[: words + 1].copy(), hashes[:words].copy())


def as_bytes(text: str) -> bytes:
    if not text.isascii() and any(letter in text for letter in SPECIAL):
        text = text.lower()
    return text.encode("utf-8", "surrogatepass")


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator, unused-ignore]
def mix(h):  # type: ignore[no-untyped-def]
    """MurmurHash3's 64-bit finaliser: a bijection in which every bit of h moves every bit of the result."""
    h = (h ^ (h >> SHIFT)) * MIX_1
    h = (h ^ (h >> SHIFT)) * MIX_2
    return h ^ (h >> SHIFT)


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator, unused-ignore]
def eight_bytes(packed, start, length):  # type: ignore[no-untyped-def]
    """Up to eight bytes from byte `start` on as one little-endian number; bytes beyond `length` count as 0."""
    k = start >> 3
    bits = np.uint64((start & 7) << 3)
    # The upper part is shifted twice, because a shift by 64 (start on a boundary) is undefined.
    value = (packed[k] >> bits) | ((packed[k + 1] << ONE) << (np.uint64(63) - bits))
    return value if length >= 8 else value & ((ONE << np.uint64(length << 3)) - ONE)


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator, unused-ignore]
def word_runs(data, i, end, table, lower, run_starts, run_ends):  # type: ignore[no-untyped-def]
    """Lowers the bytes from i to end, which close with a newline, and gives the number of runs of word characters."""
    runs = 0
    closed = 0
    inside = False
    position = 0
    while i < end:
        byte = data[i]
        if byte < 0x80:
            i += 1
            c = table[byte]
            lower[position] = c
            width = 1
        else:
            if byte < 0xE0:
                point = ((byte & 0x1F) << 6) | (data[i + 1] & 0x3F)
                i += 2
            elif byte < 0xF0:
                point = ((byte & 0x0F) << 12) | ((data[i + 1] & 0x3F) << 6) | (data[i + 2] & 0x3F)
                i += 3
            else:
                point = (
                    ((byte & 0x07) << 18)
                    | ((data[i + 1] & 0x3F) << 12)
                    | ((data[i + 2] & 0x3F) << 6)
                    | (data[i + 3] & 0x3F)
                )
                i += 4
            c = table[point]
            if c < 0:
                continue
            if c < 0x80:
                lower[position] = c
                width = 1
            elif c < 0x800:
                lower[position] = 0xC0 | (c >> 6)
                lower[position + 1] = 0x80 | (c & 0x3F)
                width = 2
            elif c < 0x10000:
                lower[position] = 0xE0 | (c >> 12)
                lower[position + 1] = 0x80 | ((c >> 6) & 0x3F)
                lower[position + 2] = 0x80 | (c & 0x3F)
                width = 3
            else:
                lower[position] = 0xF0 | (c >> 18)
                lower[position + 1] = 0x80 | ((c >> 12) & 0x3F)
                lower[position + 2] = 0x80 | ((c >> 6) & 0x3F)
                lower[position + 3] = 0x80 | (c & 0x3F)
                width = 4
        word = c != 0
        run_starts[runs] = position
        run_ends[closed] = position
        runs += word & (not inside)
        closed += inside & (not word)
        inside = word
        position += width
    return runs


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator, unused-ignore]
def is_no_word(lower, start, length, lone):  # type: ignore[no-untyped-def]
    """Whether a run is a single character, of several bytes maybe; with `lone` that of a script without spaces is a
    word."""
    if length < 2:
        return True
    byte = lower[start]
    if byte < 0xC0 or length != (2 if byte < 0xE0 else 3 if byte < 0xF0 else 4):
        return False
    return not (lone and is_unspaced(code_point(lower, start)))


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator, unused-ignore]
def _tokenise(data, ends, table, lone, room):  # type: ignore[no-untyped-def]
    """data: UTF-8 bytes, each document closed by a newline; ends: int64, one behind each document's newline; on return
    where each document ends in `stream`, which takes the words' numbers. lone: see `is_no_word`.

    A document is first lowered and cut into runs of word characters, with as few branches as can be, then each run is
    looked up. The stable hash of a word: its lower-case UTF-8 bytes are taken eight at a time, little-endian, the
    last eight filled up with zeros, and h = mix(h ^ eight) from h = 0 on. For words of up to eight bytes that is a
    bijection, so two short words with one hash are the same word; longer ones are compared in full.
    """
    packed, lower, run_starts, run_ends, stream, begins, offsets = room
    documents = len(ends)
    # Open addressing. A slot is two numbers: the hash, and twice the word's number plus 2, plus 1 if it is short.
    capacity = 1024
    slots = np.zeros(2 * capacity, dtype=np.uint64)
    # The words, each filled up to whole numbers of eight bytes.
    size = 1024
    eights = np.empty(size, dtype=np.uint64)
    used = 0
    offsets[0] = 0
    hashes = np.empty(len(stream), dtype=np.uint64)
    words = 0
    tokens = 0
    i = 0
    for document in range(documents):
        end = ends[document]
        runs = word_runs(data, i, end, table, lower, run_starts, run_ends)
        i = end
        for r in range(runs):
            start = run_starts[r]
            length = run_ends[r] - start
            if is_no_word(lower, start, length, lone):
                continue
            h = mix(eight_bytes(packed, start, length))
            count = (length + 7) >> 3
            for j in range(1, count):
                h = mix(h ^ eight_bytes(packed, start + 8 * j, length - 8 * j))
            short = ONE if count == 1 else ZERO
            at = np.int64(h & np.uint64(capacity - 1))
            found = np.int64(-1)
            while slots[2 * at + 1] != 0:
                if slots[2 * at] == h and slots[2 * at + 1] & ONE == short:
                    candidate = np.int64(slots[2 * at + 1] >> ONE) - 1
                    if count == 1:
                        found = candidate
                        break
                    begin = begins[candidate]
                    same = begins[candidate + 1] - begin == count
                    j = 0
                    while same and j < count:
                        same = eights[begin + j] == eight_bytes(packed, start + 8 * j, length - 8 * j)
                        j += 1
                    if same:
                        found = candidate
                        break
                at = (at + 1) & (capacity - 1)
            if found < 0:
                found = np.int64(words)
                slots[2 * at] = h
                slots[2 * at + 1] = (np.uint64(words + 1) << ONE) | short
                while used + count > size:
                    size *= 2
                    larger = np.empty(size, dtype=np.uint64)
                    for j in range(used):
                        larger[j] = eights[j]
                    eights = larger
                begins[words] = used
                for j in range(count):
                    eights[used + j] = eight_bytes(packed, start + 8 * j, length - 8 * j)
                used += count
                hashes[words] = h
                offsets[words + 1] = offsets[words] + length
                words += 1
                begins[words] = used
                if 2 * words > capacity:
                    old = slots
                    capacity *= 4
                    slots = np.zeros(2 * capacity, dtype=np.uint64)
                    for o in range(0, len(old), 2):
                        if old[o + 1] != 0:
                            at = np.int64(old[o] & np.uint64(capacity - 1))
                            while slots[2 * at + 1] != 0:
                                at = (at + 1) & (capacity - 1)
                            slots[2 * at] = old[o]
                            slots[2 * at + 1] = old[o + 1]
            stream[tokens] = found
            tokens += 1
        ends[document] = tokens
    blob = np.empty(offsets[words], dtype=np.uint8)
    for word in range(words):
        start = offsets[word]
        for j in range(offsets[word + 1] - start):
            eight = eights[begins[word] + (j >> 3)]
            blob[start + j] = (eight >> np.uint64((j & 7) << 3)) & np.uint64(0xFF)
    return words, blob, hashes
