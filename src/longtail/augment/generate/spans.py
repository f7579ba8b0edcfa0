"""Texts with gaps: words masked at random, the labels in front, and texts put together again from what fills them.

labels </s> The <extra_id_0> sat on <extra_id_1>   ->   <extra_id_0> cat <extra_id_1> the mat <extra_id_2>     T5
labels </s> The <mask> sat on <mask>               ->   The cat sat on the mat                                BART
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

#: Labels in front of a text take no more words than this share of a window.
LABEL_SHARE = 0.5


@dataclass(frozen=True)
class Window:
    """A piece of a document: its labels' words, the text's words, and which of all of them are masked.

    gaps  (start, stop) of each run of masked words, rising, counted over labels and text together
    """

    labels: tuple[str, ...]
    words: tuple[str, ...]
    gaps: tuple[tuple[int, int], ...]

    @property
    def all_words(self) -> tuple[str, ...]:
        return (*self.labels, *self.words)

    def source(self, signs: Sequence[str], separator: str) -> str:
        """What the encoder reads: signs in place of the gaps, the separator between labels and text."""
        pieces: list[str] = []
        begin = 0
        words = self.all_words
        border = len(self.labels)

        def add(start: int, stop: int) -> None:
            if border and start < border <= stop:
                pieces.extend([*words[start:border], separator, *words[border:stop]])
            else:
                pieces.extend(words[start:stop])

        for number, (start, stop) in enumerate(self.gaps):
            add(begin, start)
            pieces.append(signs[number])
            if border and start < border <= stop:
                pieces.append(separator)
            begin = stop
        add(begin, len(words))
        return " ".join(pieces)

    def target(self, signs: Sequence[str]) -> str:
        """What fills the gaps, each behind its sign."""
        words = self.all_words
        pieces = [piece for number, (start, stop) in enumerate(self.gaps)
                  for piece in (signs[number], *words[start:stop])]  # fmt: skip
        return " ".join([*pieces, signs[len(self.gaps)]])

    def filled(self, found: Sequence[str | None]) -> str:
        """The text with its gaps filled; None leaves what was there. What fills gaps among the labels is dropped."""
        words, border = self.all_words, len(self.labels)
        pieces: list[str] = []
        begin = border
        for (start, stop), own in zip(self.gaps, found, strict=True):
            if stop <= border:
                continue
            pieces.extend(words[begin : max(start, begin)])
            pieces.extend(words[max(start, border) : stop] if own is None else own.split())
            begin = stop
        pieces.extend(words[begin:])
        return " ".join(pieces)


def label_words(titles: Sequence[str], most: int) -> list[str]:
    """The words of labels, a comma behind each label but the last, whole labels as long as there is room."""
    words: list[str] = []
    for title in titles:
        own = title.split()
        if words and len(words) + len(own) > most:
            break
        if words:
            words[-1] += ","
        words += own[:most]
    return words


def cut(words: Sequence[str], size: int) -> list[tuple[str, ...]]:
    """Windows of nearly equal length, none longer than `size`; one, which may be empty, at least."""
    count = max(1, -(-len(words) // size))
    bounds = np.linspace(0, len(words), count + 1).round().astype(int)
    return [tuple(words[a:b]) for a, b in pairwise(bounds)]


def gaps_in(maskable: NDArray[np.bool_], share: float, most: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    """(start, stop) of gaps: a share of the words, at least one, masked at random; neighbours become one gap.

    So gaps may be anywhere: masks of random lengths in turn would always end a short text with one.
    most  gaps, at most
    """
    places = np.flatnonzero(maskable)
    if not len(places) or share <= 0 or most < 1:
        return []
    masked = np.sort(rng.permutation(places)[: max(1, round(share * len(places)))])
    breaks = np.flatnonzero(np.diff(masked) > 1) + 1
    runs = np.split(masked, breaks)
    if len(runs) > most:
        runs = [runs[at] for at in np.sort(rng.permutation(len(runs))[:most])]
    return [(int(run[0]), int(run[-1]) + 1) for run in runs]


def window_of(
    labels: Sequence[str],
    words: tuple[str, ...],
    share: float,
    most: int,
    rng: np.random.Generator,
    *,
    mask_labels: bool,
) -> Window:
    """A window with gaps drawn; labels are kept whole unless they are masked like any word."""
    maskable = np.ones(len(labels) + len(words), dtype=bool)
    maskable[: len(labels)] = mask_labels
    return Window(tuple(labels), words, tuple(gaps_in(maskable, share, most, rng)))
