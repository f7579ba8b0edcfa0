"""Parsing lines `l1,l2 f1:v1 f2:v2` from bytes, fast.

The kernel takes every line written in the usual way and stops at the first that is not: a bad one, or one with a
number it cannot be sure to round as Python does. `xmc.parse_line` then reads that line slowly and words the error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from longtail.arrays import njit

if TYPE_CHECKING:
    from longtail.read.xmc import Parsed

_TENS = 10.0 ** np.arange(23)  # the powers of ten that a double holds exactly


@njit(nogil=True, cache=True)
def parse_lines(
    data: NDArray[np.uint8],
    start: int,
    room: int,
    n_features: int,
    n_labels: int,
    out: Parsed,
) -> tuple[int, int, int, int]:
    """Fills the arrays of `out` with at most `room` lines of data[start:], which ends with a line end.

    Returns the start of the first line not taken, and the numbers of lines, labels and features taken.
    """
    position, rows, labels, features = start, 0, 0, 0
    end = len(data)
    while position < end and rows < room:
        p = position
        label_count, feature_count = 0, 0
        good = True

        # The label list: digits and commas up to a space; a line that starts with a space has none. A first number
        # that turns out to stand before ':' is a feature, and the list is empty.
        q = p
        while 48 <= data[q] <= 57:
            q += 1
        if q > p and data[q] != 58:
            while True:
                number, digits = 0, 0
                while 48 <= data[p] <= 57 and digits < 11:
                    number = number * 10 + (data[p] - 48)
                    digits += 1
                    p += 1
                if digits == 0 or digits > 10 or number >= n_labels:
                    good = False
                    break
                out.label_ids[labels + label_count] = number
                label_count += 1
                if data[p] != 44:
                    break
                p += 1

        while good:
            blanks = p
            while data[p] == 32 or data[p] == 9 or data[p] == 13:
                p += 1
            if data[p] == 10:
                break
            if p == blanks and p > position:
                good = False
                break
            number, digits = 0, 0
            while 48 <= data[p] <= 57 and digits < 11:
                number = number * 10 + (data[p] - 48)
                digits += 1
                p += 1
            if digits == 0 or digits > 10 or number >= n_features or data[p] != 58:
                good = False
                break
            p += 1
            p, value, sure = _value(data, p)
            if not sure:
                good = False
                break
            out.feature_ids[features + feature_count] = number
            out.values[features + feature_count] = value
            feature_count += 1

        if not good:
            break
        position = p + 1
        out.label_lengths[rows] = label_count
        out.feature_lengths[rows] = feature_count
        labels += label_count
        features += feature_count
        rows += 1
    return position, rows, labels, features


@njit(nogil=True, cache=True, inline="always")
def _value(data: NDArray[np.uint8], p: int) -> tuple[int, np.float32, bool]:
    """A decimal number at p: where it ends, its value in single precision, and whether that is sure to be right.

    Up to 18 digits are taken exactly and scaled by one power of ten, so the double is off by a few units in its last
    place at most. Where a nudge of that size changes the single-precision value, the slow path decides.
    """
    negative = data[p] == 45
    if negative or data[p] == 43:
        p += 1
    mantissa, digits, significant, exponent = np.int64(0), 0, 0, 0
    fraction = False
    while True:
        byte = data[p]
        if 48 <= byte <= 57:
            digits += 1
            if significant < 18:
                mantissa = mantissa * 10 + (byte - 48)
                if mantissa > 0:
                    significant += 1
                if fraction:
                    exponent -= 1
            elif not fraction:
                exponent += 1
        elif byte == 46 and not fraction:
            fraction = True
        else:
            break
        p += 1
    if digits == 0:
        return p, np.float32(0), False
    if data[p] in (69, 101):
        p += 1
        below = data[p] == 45
        if below or data[p] == 43:
            p += 1
        power, power_digits = 0, 0
        while 48 <= data[p] <= 57 and power_digits < 5:
            power = power * 10 + (data[p] - 48)
            power_digits += 1
            p += 1
        if power_digits in (0, 5):
            return p, np.float32(0), False
        exponent += -power if below else power
    if not (data[p] == 32 or data[p] == 10 or data[p] == 9 or data[p] == 13):
        return p, np.float32(0), False
    if mantissa == 0:
        return p, np.float32(0), True
    if exponent < -22 or exponent > 22:
        return p, np.float32(0), False
    number = float(mantissa)
    number = number / _TENS[-exponent] if exponent < 0 else number * _TENS[exponent]
    value = np.float32(number)
    sure = np.float32(number * (1 - 1e-15)) == np.float32(number * (1 + 1e-15)) and number < 3e38
    return p, (-value if negative else value), sure
