"""How many words texts have, told from a sample of them before any features are made.

The number of different words grows as a power of the number of words (Heaps). The power at the end of the sample is the
share of its words that are in one document only, for that is how often a word is a new one. With the same power b the
words in at least m documents are a share of all of them, (1 - b) (1 - b/2) ... (1 - b/(m - 1)) (Pitman and Yor's urn).
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from longtail.features.analyser import NONE, Analyser
from longtail.features.gathering import Limits, compounds_of, count_parts, gather_terms
from longtail.features.terms import terms_of
from longtail.features.tokenise import tokenise
from longtail.plan import Sizes
from longtail.run import Run


class Words(NamedTuple):
    """What a corpus has of words and n-grams.

    tokens    words as they stand, at most max_length per document
    entries   different terms per document, summed up
    kept      those of them that are in no more than max_df of the documents
    terms     different terms in all
    power     of the growth of their number
    longest   words of the longest text, at most max_length
    """

    tokens: int
    entries: int
    kept: int
    terms: int
    power: float
    longest: int

    def in_at_least(self, min_df: int) -> int:
        """Terms in at least that many documents."""
        share = 1.0
        for k in range(1, min(min_df, 1000)):
            share *= 1 - self.power / k
        return max(1, int(self.terms * share))


def words_of(
    sizes: Sizes,
    n: int = 1,
    max_df: float = 1.0,
    max_length: int | None = None,
    *,
    language: str = NONE,
    compounds: bool = True,
) -> Words:
    """Words and n-grams (up to n words) of all texts, from the sample of them.

    language, compounds  as in `Tfidf`
    """
    if not sizes.sample:
        return Words(0, 0, 0, 1, 0.5, 1)
    found = _counted(sizes.sample, n, language, compounds)
    seen = sum(map(len, sizes.sample))
    growth = max(1.0, sizes.characters / max(1, seen))
    lengths = found.lengths if max_length is None else np.minimum(found.lengths, max_length)
    common = found.df > max_df * len(sizes.sample)
    entries, once = int(found.df.sum()), int((found.df == 1).sum())
    power = min(0.95, max(0.05, once / max(1, len(found.df))))
    return Words(
        tokens=int(np.maximum(lengths, 1).sum() * growth),
        entries=int(entries * growth),
        kept=int((entries - found.df[common].sum()) * growth),
        terms=max(1, int(len(found.df) * growth**power)),
        power=power,
        longest=int(lengths.max(initial=1)),
    )


class _Counted(NamedTuple):
    lengths: NDArray[np.int64]  # words of each text
    df: NDArray[np.int64]  # texts with each term


@lru_cache(maxsize=4)
def _counted(sample: tuple[str, ...], n: int, language: str, compounds: bool) -> _Counted:
    analyser = Analyser.fitted(language, sample)
    part = terms_of(sample, n, analyser or tokenise)
    entries = part.entries
    if compounds and analyser is not None and analyser.compounding:
        gathered, run = gather_terms([part]), Run(threads=1)
        (entries,) = count_parts(gathered, [entries], compounds_of(gathered, Limits(len(sample), n), run), run)
    rows = np.repeat(np.arange(len(sample)), np.diff(entries.indptr))
    words = entries.ids < part.words
    lengths = np.bincount(rows[words], weights=entries.counts[words], minlength=len(sample)).astype(np.int64)
    return _Counted(lengths, entries.document_frequency())
