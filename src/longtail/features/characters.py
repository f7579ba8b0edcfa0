"""Characters as the analysis of languages sees them: normalised, marks within words, accents to be taken off.

Python's `\\w` ends a word at every mark, which tears Hindi, Tamil or Thai to pieces. Here marks are part of words, and
what only guides the eye or the tongue is left out: soft hyphens, joiners, accents that no letter comes with, the vowel
points of Hebrew and Arabic.

Texts are normalised (NFKC) one by one only if they have a character whose normal form depends on its neighbours, or is
several characters; all others change by the table alone.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from longtail.arrays import njit
from longtail.features.tokenise import CODE_POINTS, SPECIAL, as_bytes, word_table
from longtail.features.unspaced import code_point, width_of

#: Left out of words, as ranges of code points (the last is meant, too).
LEFT_OUT = (
    (0x00AD, 0x00AD),  # soft hyphen
    (0x0300, 0x036F),  # accents
    (0x0591, 0x05BD), (0x05BF, 0x05BF), (0x05C1, 0x05C2), (0x05C4, 0x05C5), (0x05C7, 0x05C7),  # Hebrew points
    (0x0610, 0x061A), (0x0640, 0x0640), (0x064B, 0x065F), (0x0670, 0x0670), (0x06D6, 0x06DC),  # Arabic points
    (0x200B, 0x200D), (0x2060, 0x2060), (0xFEFF, 0xFEFF),  # joiners of no width
    (0xFE00, 0xFE0F),  # variants of a character
)  # fmt: skip


#: No character from here on has another normal form.
NORMAL = 0x30000
#: Set in one of eight bytes that are not all ASCII.
_HIGH_BITS = np.uint64(0x8080808080808080)


@cache
def analysed_table() -> NDArray[np.int32]:
    """int32 (0x110000,): as `word_table`, with marks as word characters, and -1 for what is left out.

    Characters that are not normal have what their normal form has, unless they are `dependent`.
    """
    return _tables()[0]


def dependent() -> NDArray[np.bool_]:
    """bool (0x110000,): characters for which a text must be normalised, or lowered, as a whole."""
    return _tables()[1]


@cache
def _tables() -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    table = word_table().copy()
    depends = np.zeros(CODE_POINTS, dtype=bool)
    for point in (*range(0x0300, 0x20000), *range(0xE0000, 0xF0000)):  # ideographs between, private ones behind
        if unicodedata.category(chr(point)) in ("Mn", "Mc"):
            table[point] = point
            depends[point] = unicodedata.combining(chr(point)) != 0
    for first, last in LEFT_OUT:
        table[first : last + 1] = -1
    # What may melt into the character before it: all that others are taken apart into behind their first character
    # (for Hangul, its vowels and last consonants).
    others = [chr(point) for point in range(0x80, NORMAL) if unicodedata.decomposition(chr(point))]
    joining = {ord(mark) for other in others for mark in unicodedata.normalize("NFD", other)[1:]}
    depends[[*joining, *range(0x1161, 0x1176), *range(0x11A8, 0x11C3), *map(ord, SPECIAL)]] = True
    for other in others:
        form = unicodedata.normalize("NFKC", other)
        kept = [value for value in map(int, table[[ord(character) for character in form]]) if value >= 0]
        several = len(kept) > 1 and any(kept)
        begins = ord(unicodedata.normalize("NFKD", other)[0])
        depends[ord(other)] |= several or depends[begins] or any(letter in form for letter in SPECIAL)
        if form != other and not several:
            table[ord(other)] = kept[0] if kept else -1
    for array in (table, depends):
        array.flags.writeable = False
    return table, depends


def joined_bytes(texts: Sequence[str]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """UTF-8 of texts, a newline behind each, as `tokenise_bytes` and `analysed_table` take them; and, int64 (texts,),
    where each ends, behind its newline."""
    joined = "\n".join([*texts, ""])
    ends = np.cumsum(np.fromiter(map(len, texts), dtype=np.int64, count=len(texts)) + 1)
    if joined.isascii():
        return np.frombuffer(joined.encode(), dtype=np.uint8), ends
    encoded = joined.encode("utf-8", "surrogatepass")
    data = np.frombuffer(encoded, dtype=np.uint8)
    found = np.empty(len(texts), dtype=bool)
    _find_ends(data, data[: len(data) & ~7].view(np.uint64), dependent(), ends, found)
    if not found.any():
        return data, ends
    lengths = np.diff(ends, prepend=0)
    pieces, at = [], 0
    for number in np.flatnonzero(found).tolist():
        normal = analysed_bytes(texts[number]) + b"\n"
        end = int(ends[number])
        pieces += [encoded[at : end - int(lengths[number])], normal]
        lengths[number], at = len(normal), end
    return np.frombuffer(b"".join([*pieces, encoded[at:]]), dtype=np.uint8), np.cumsum(lengths)


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator, unused-ignore]
def _find_ends(data, eights, depends, ends, found):  # type: ignore[no-untyped-def]
    """From characters to bytes.

    data    uint8, UTF-8; eights: uint64, the same eight bytes at a time
    ends    int64 (texts,), where each ends in characters; on return in bytes
    found   bool (texts,), written: whether a text has a character that `depends`
    """
    i = 0
    done = 0
    for text in range(len(ends)):
        left = ends[text] - done
        done = ends[text]
        met = False
        while left > 0:
            if data[i] < 0x80:
                if i & 7 == 0 and left >= 8 and eights[i >> 3] & _HIGH_BITS == 0:
                    i += 8
                    left -= 8
                else:
                    i += 1
                    left -= 1
            else:
                met |= depends[code_point(data, i)]
                i += width_of(data[i])
                left -= 1
        ends[text] = i
        found[text] = met


def analysed_bytes(text: str) -> bytes:
    """UTF-8 of the text with compatible characters made one: ligatures, wide and narrow forms, letters and marks."""
    if text.isascii():
        return text.encode()
    if not unicodedata.is_normalized("NFKC", text):
        text = unicodedata.normalize("NFKC", text)
    return as_bytes(text)


@cache
def _without_accents() -> dict[int, str]:
    """Latin letters with accents to those without."""
    plain = {ord("ß"): "ss", ord("æ"): "ae", ord("œ"): "oe", ord("ø"): "o", ord("đ"): "d", ord("ł"): "l", ord("ı"): "i"}
    for point in (*range(0x00E0, 0x0250), *range(0x1E00, 0x1F00)):
        base = unicodedata.normalize("NFKD", chr(point))[0]
        if base.isascii() and base.isalpha():
            plain[point] = base
    return plain


def without_accents(word: bytes) -> bytes:
    """A lower-case word in UTF-8 with the accents taken off its Latin letters."""
    return word if word.isascii() else word.decode().translate(_without_accents()).encode()


def all_without_accents(
    blob: NDArray[np.uint8], lengths: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The same for words one after the other, and the length of each."""
    if not len(blob) or blob.max() < 0x80:
        return blob, lengths
    plain, shorter = np.empty_like(blob), np.empty_like(lengths)
    size = _take_accents_off(blob, lengths, _plain_letters(), plain, shorter)
    return plain[:size], shorter


@cache
def _plain_letters() -> NDArray[np.uint8]:
    """uint8 (code points, 2): the letters of `_without_accents`, 0 where there is none."""
    letters = _without_accents()
    table = np.zeros((max(letters) + 1, 2), dtype=np.uint8)
    for point, plain in letters.items():
        table[point, : len(plain)] = list(plain.encode())
    return table


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator, unused-ignore]
def _take_accents_off(blob, lengths, letters, plain, new_lengths):  # type: ignore[no-untyped-def]
    """The number of bytes written to `plain`, which has as much room as the blob: no letter becomes longer."""
    i = 0
    at = 0
    for word in range(len(lengths)):
        begin = at
        end = i + lengths[word]
        while i < end:
            width = width_of(blob[i])
            point = code_point(blob, i)
            if width > 1 and point < len(letters) and letters[point, 0] > 0:
                for k in range(2):
                    plain[at] = letters[point, k]
                    at += letters[point, k] > 0
            else:
                for k in range(width):
                    plain[at + k] = blob[i + k]
                at += width
            i += width
        new_lengths[word] = at - begin
    return at
