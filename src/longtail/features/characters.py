"""Characters as the analysis of languages sees them: normalised, marks within words, accents to be taken off.

Python's `\\w` ends a word at every mark, which tears Hindi, Tamil or Thai to pieces. Here marks are part of words, and
what only guides the eye or the tongue is left out: soft hyphens, joiners, accents that no letter comes with, the vowel
points of Hebrew and Arabic.
"""

from __future__ import annotations

import unicodedata
from functools import cache

import numpy as np
from numpy.typing import NDArray

from longtail.features.tokenise import CODE_POINTS, as_bytes, word_table

#: Left out of words, as ranges of code points (the last is meant, too).
LEFT_OUT = (
    (0x00AD, 0x00AD),  # soft hyphen
    (0x0300, 0x036F),  # accents
    (0x0591, 0x05BD), (0x05BF, 0x05BF), (0x05C1, 0x05C2), (0x05C4, 0x05C5), (0x05C7, 0x05C7),  # Hebrew points
    (0x0610, 0x061A), (0x0640, 0x0640), (0x064B, 0x065F), (0x0670, 0x0670), (0x06D6, 0x06DC),  # Arabic points
    (0x200B, 0x200D), (0x2060, 0x2060), (0xFEFF, 0xFEFF),  # joiners of no width
    (0xFE00, 0xFE0F),  # variants of a character
)  # fmt: skip


@cache
def analysed_table() -> NDArray[np.int32]:
    """int32 (0x110000,): as `word_table`, with marks as word characters, and -1 for what is left out."""
    table = word_table().copy()
    for point in range(0x0300, CODE_POINTS):
        if 0x20000 <= point < 0xE0000:  # ideographs and nothing else
            continue
        if unicodedata.category(chr(point)) in ("Mn", "Mc"):
            table[point] = point
    for first, last in LEFT_OUT:
        table[first : last + 1] = -1
    table.flags.writeable = False
    return table


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
