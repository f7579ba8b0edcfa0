"""Taug ("Improving Tail Label Prediction for Extreme Multi-label Learning"): decouple head and tail, augment the tail.

The named combination of parts that stand on their own: a `Decoupled` learner over the one chosen, with `InputDropout`
and `InputSwap` on the documents of its tail side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from longtail.augment.base import Augmenter
from longtail.augment.input_noise import InputDropout, InputSwap
from longtail.corpus import Corpus
from longtail.part import Part, option
from longtail.run import Run


@dataclass(kw_only=True)
class Taug(Augmenter):
    """Stands for its parts: a tagger that is given it holds them in its place."""

    space: ClassVar[str] = "features"

    tau: float = option(0.1, "share of labels that form the head (paper: 0.1 EUR-Lex, 0.01 larger sets)", low=0, high=1)
    n_aug: int = option(4, "copies of each tail document (paper)", low=0, high=1000)
    rho: float = option(0.8, "probability that a feature stays (not in the paper; measured)", low=0.01, high=1)
    share: float = option(0.1, "pairs of features that exchange values, as a share of all (not in the paper)", low=0)

    gate: float = option(0.1, "power of the score that a document has any tail label (0: the paper's merge)", low=0)

    def augmenters(self) -> list[Augmenter]:
        made: list[Augmenter] = [InputDropout(n_aug=self.n_aug, tau=self.tau, rho=self.rho)]
        if self.share > 0:
            made.append(InputSwap(n_aug=self.n_aug, tau=self.tau, share=self.share))
        return made

    def expanded(self, learner: Part) -> tuple[Any, list[Any]]:
        return {"part": "decoupled", "learner": learner, "tau": self.tau, "gate": self.gate}, self.augmenters()

    def apply(self, corpus: Corpus, run: Run) -> Corpus:
        """The noise alone, for those who decouple by themselves."""
        for part in self.augmenters():
            corpus = part.apply(corpus, run)
        return corpus
