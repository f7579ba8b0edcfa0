"""Input dropout and swap on words (Taug for learners that read texts): noisy copies of tail documents as new texts.

The same idea as `input-dropout` and `input-swap`, one step earlier: words are dropped with probability 1 - rho, or
change places, before any features or tokens are made of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from longtail.augment.base import Augmenter
from longtail.augment.input_noise import tail_documents
from longtail.corpus import Corpus
from longtail.errors import UsageError
from longtail.part import option
from longtail.plan import Sizes, Stage
from longtail.run import Run


@dataclass(kw_only=True)
class _WordNoise(Augmenter, ABC):
    """What both share: which documents get copies, how many, and where they go."""

    space: ClassVar[str] = "texts"

    n_aug: int = option(4, "copies of each tail document (paper)", low=0, high=1000)
    tau: float = option(0.1, "labels behind this most frequent share are tail (paper: 0.1 EUR-Lex)", low=0, high=1)

    @abstractmethod
    def noisy(self, words: list[str], rng: np.random.Generator) -> list[str]:
        """One copy of a text, as words."""

    def plan(self, sizes: Sizes, run: Run) -> list[Stage]:
        made = self.planned(sizes)
        added = made.texts_bytes - sizes.texts_bytes + 100 * (made.documents - sizes.documents)
        return [Stage("augment", (made.characters - sizes.characters) / 2e6, 2 * added, added)]

    def planned(self, sizes: Sizes) -> Sizes:
        rows = self.n_aug * sizes.documents_with(sizes.tail(self.tau))
        share = rows / max(1, sizes.documents)
        return sizes.with_documents(rows, int(share * sizes.characters), int(share * sizes.pairs), sizes.sample)

    def apply(self, corpus: Corpus, run: Run) -> Corpus:
        """The corpus with the copies behind its documents; labels are those of the original."""
        if corpus.texts is None:
            raise UsageError(f"noise on words needs texts, and {corpus.name} has features only; use input-dropout")
        rows = np.tile(np.flatnonzero(tail_documents(corpus, self.tau)), self.n_aug)
        rng = run.rng(type(self).__name__)
        made = [" ".join(self.noisy(corpus.texts[row].split(), rng)) for row in rows]
        copied = corpus.rows(rows)
        return corpus.with_rows(
            texts=made,
            Y=copied.Y,
            ids=copied.ids or [],
            pair_weight=copied.pair_weight,
            reciprocal=copied.reciprocal,
            origin=corpus.origins()[rows],
        )


@dataclass(kw_only=True)
class WordDropout(_WordNoise):
    """Words are dropped at random; at least one stays."""

    rho: float = option(0.8, "probability that a word stays (not in the paper)", low=0.01, high=1)

    def noisy(self, words: list[str], rng: np.random.Generator) -> list[str]:
        kept = [word for word, coin in zip(words, rng.random(len(words)), strict=True) if coin < self.rho]
        return kept or [words[rng.integers(len(words))]] if words else []


@dataclass(kw_only=True)
class WordSwap(_WordNoise):
    """Pairs of words change places. Bags of words do not notice; learners that read the order do."""

    share: float = option(0.1, "pairs exchanged, as a share of the words (not in the paper)", low=0.001, high=10)

    def noisy(self, words: list[str], rng: np.random.Generator) -> list[str]:
        words = list(words)
        if len(words) > 1:
            for _ in range(max(1, int(self.share * len(words)))):
                a, b = rng.choice(len(words), size=2, replace=False)
                words[a], words[b] = words[b], words[a]
        return words
