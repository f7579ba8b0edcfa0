"""Input dropout and input swap (Taug, "Improving Tail Label Prediction for Extreme Multi-label Learning").

Tail documents get `n_aug` noisy copies with the same labels: dropout multiplies every feature by a coin that shows 1
with probability rho, x' = x * Bernoulli(rho); swap exchanges the values of two non-zero features, several times over.
Used together, each copy is dropped and then swapped.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from longtail.augment.base import Augmenter
from longtail.corpus import Corpus
from longtail.noise import FeatureNoise
from longtail.part import option
from longtail.plan import Sizes
from longtail.run import Run
from longtail.sparse import rows_of_pairs


@dataclass(kw_only=True)
class _InputNoise(Augmenter, ABC):
    """What both share: which documents get copies, how many, and where."""

    space: ClassVar[str] = "features"

    n_aug: int = option(4, "copies of each tail document (paper)", low=0, high=1000)
    tau: float = option(0.1, "labels behind this most frequent share are tail (paper: 0.1 EUR-Lex)", low=0, high=1)

    @abstractmethod
    def chances(self) -> dict[str, float]:
        """What it sets of the noise's keep and swaps."""

    def planned(self, sizes: Sizes) -> Sizes:
        copies = self.n_aug * sizes.documents_with(sizes.tail(self.tau))
        return replace(sizes, copies=max(copies, sizes.copies))

    def apply(self, corpus: Corpus, run: Run) -> Corpus:
        """Declares the copies; who trains draws them, or has them written out."""
        chances = {"keep": 1.0, "swaps": 0.0}
        copies = self.n_aug
        if corpus.noise is not None:
            chances = {"keep": corpus.noise.keep, "swaps": corpus.noise.swaps}
            copies = max(copies, corpus.noise.copies)
        chances |= self.chances()
        draw = np.where(tail_documents(corpus, self.tau), np.arange(len(corpus)), -1).astype(np.int32)
        if corpus.noise is not None:
            draw = np.maximum(draw, corpus.noise.draw)
        return replace(corpus, noise=FeatureNoise(copies, **chances, seed=run.seed_of("input-noise"), draw=draw))


def tail_documents(corpus: Corpus, tau: float) -> NDArray[np.bool_]:
    """Documents with at least one label behind the most frequent share tau; with tau 0 every document with a label."""
    counted = corpus.labels if corpus.labels.documents else corpus.counted().labels
    head = counted.head_by_share(tau) if 0 < tau < 1 else np.full(corpus.n_labels, tau == 1)
    row = rows_of_pairs(corpus.Y)
    mask = np.zeros(len(corpus), dtype=bool)
    mask[row[~head[corpus.Y.indices] & (corpus.weighted_targets() > 0)]] = True
    return mask


@dataclass(kw_only=True)
class InputDropout(_InputNoise):
    """Features of a copy are dropped at random; its length is brought back to the original's."""

    rho: float = option(0.8, "probability that a feature stays (not in the paper; measured)", low=0.01, high=1)

    def chances(self) -> dict[str, float]:
        return {"keep": self.rho}


@dataclass(kw_only=True)
class InputSwap(_InputNoise):
    """Pairs of features of a copy exchange their values."""

    share: float = option(0.1, "pairs exchanged, as a share of the features (not in the paper)", low=0.001, high=10)

    def chances(self) -> dict[str, float]:
        return {"swaps": self.share}
