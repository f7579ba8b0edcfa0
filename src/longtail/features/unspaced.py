"""Scripts that put no spaces between words: a run of their characters is cut into pairs of neighbours.

Whole runs are clauses that hardly ever come again. Pairs of characters find Chinese and Japanese texts about as well as
words from a dictionary do (Kwok 1997, Comparing representations in Chinese information retrieval).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from longtail.arrays import njit


def cut_runs(
    blob: NDArray[np.uint8], offsets: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]] | None:
    """Words with such runs in pieces; None where no word has any.

    blob, offsets  UTF-8 bytes of the words and, int64 (words + 1,), where each begins
    Gives where each piece begins in the blob and its length, int64 (pieces,), and, int64 (words + 1,), the first piece
    of each word. What stands beside such a run is a piece of its own; a run of one character is one, too.
    """
    if not _any_unspaced(blob):
        return None
    firsts = np.empty(len(offsets), dtype=np.int64)
    # At most as many pieces as characters.
    starts, lengths = np.empty((2, int((blob & 0xC0 != 0x80).sum())), dtype=np.int64)
    pieces = _cut(blob, offsets, firsts, starts, lengths)
    return starts[:pieces].copy(), lengths[:pieces].copy(), firsts


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator, unused-ignore]
def is_unspaced(point):  # type: ignore[no-untyped-def]
    """Whether a character is of a script without spaces: Thai, Lao, Burmese, Khmer, Japanese, Chinese."""
    if point < 0x3005:
        return 0x0E00 <= point < 0x0F00 or 0x1000 <= point < 0x10A0 or 0x1780 <= point < 0x1800
    return (
        point < 0x3008
        or 0x3040 <= point < 0x3100
        or 0x31F0 <= point < 0x3200
        or 0x3400 <= point < 0x4DC0
        or 0x4E00 <= point < 0xA000
        or 0xF900 <= point < 0xFB00
        or 0x20000 <= point < 0x40000
    )


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator, unused-ignore]
def width_of(byte):  # type: ignore[no-untyped-def]
    """Bytes of the character that begins with this one."""
    return 1 if byte < 0x80 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator, unused-ignore]
def code_point(data, i):  # type: ignore[no-untyped-def]
    """The code point of the character at byte i."""
    byte = np.int64(data[i])
    if byte < 0x80:
        return byte
    if byte < 0xE0:
        return ((byte & 0x1F) << 6) | (np.int64(data[i + 1]) & 0x3F)
    second = np.int64(data[i + 1]) & 0x3F
    third = np.int64(data[i + 2]) & 0x3F
    if byte < 0xF0:
        return ((byte & 0x0F) << 12) | (second << 6) | third
    return ((byte & 0x07) << 18) | (second << 12) | (third << 6) | (np.int64(data[i + 3]) & 0x3F)


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator, unused-ignore]
def _any_unspaced(blob):  # type: ignore[no-untyped-def]
    """Whether a character of UTF-8 bytes is of a script without spaces."""
    i = 0
    while i < len(blob) and not (blob[i] >= 0xE0 and is_unspaced(code_point(blob, i))):
        i += 1
    return i < len(blob)


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator, unused-ignore]
def _cut(blob, offsets, firsts, starts, lengths):  # type: ignore[no-untyped-def]
    """The number of pieces; see `cut_runs`."""
    pieces = 0
    for word in range(len(offsets) - 1):
        firsts[word] = pieces
        i = offsets[word]
        end = offsets[word + 1]
        run = i  # where the present run begins: all of its characters are of such a script, or none is
        inside = is_unspaced(code_point(blob, i))
        last = i  # the character before i
        while i < end:
            now = is_unspaced(code_point(blob, i))
            width = width_of(blob[i])
            if now != inside:
                if not inside or last == run:
                    starts[pieces] = run
                    lengths[pieces] = i - run
                    pieces += 1
                run = i
                inside = now
            elif inside and i > run:
                starts[pieces] = last
                lengths[pieces] = i + width - last
                pieces += 1
            last = i
            i += width
        if not inside or last == run:
            starts[pieces] = run
            lengths[pieces] = end - run
            pieces += 1
    firsts[len(offsets) - 1] = pieces
    return pieces
