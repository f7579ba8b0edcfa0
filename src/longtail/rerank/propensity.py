"""Inverse propensity: F(x)_l = q_l f(x)_l, the simple instantiation of "Improving Tail Label Prediction for XML".

Ranking by q_l p_l is the best rule for PSP@k where the scores are calibrated probabilities p_l. It needs nothing but
the labels' training counts, which every model has, so its strength can be chosen anew at every prediction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray

from longtail.capabilities import Capabilities
from longtail.corpus import Corpus
from longtail.errors import UsageError
from longtail.labels import LabelIndex
from longtail.part import Arrays, checked_before, option
from longtail.rerank.base import Reranker
from longtail.rerank.held_out import Folds
from longtail.run import Run
from longtail.scores import Scores


@dataclass(kw_only=True)
class InversePropensity(Reranker):
    """Values are divided by the largest factor there is, so that they stay in [0, 1]; the order is untouched by it."""

    favours_rare: ClassVar[bool] = True

    strength: float = option(1.0, "exponent of q: 0 leaves the order as it is, 1 is the paper's", low=0, high=10)
    A: float = option(0.55, "A of the propensity model (Jain et al. 2016)", low=0, high=10)
    B: float = option(1.5, "B of the propensity model (Jain et al. 2016)", low=0, high=1000)

    def fit(self, scores: Scores, corpus: Corpus, *, run: Run | None = None) -> Self:
        return self.for_labels(corpus.labels)

    def fit_held_out(self, scores: Scores, corpus: Corpus, folds: Folds, *, run: Run | None = None) -> Scores:
        self.fit(scores, corpus, run=run)
        factors = folds.inverse_propensity(self.A, self.B) ** np.float32(self.strength)
        factors /= factors.max(axis=1, keepdims=True)
        values = np.where(scores.ids >= 0, scores.values * factors[folds.of[:, None], scores.ids], 0)
        return Scores(scores.ids, values.astype(np.float32)).sorted()

    def for_labels(self, labels: LabelIndex) -> Self:
        self.q_ = labels.inverse_propensity(self.A, self.B)
        self.n_labels_ = len(self.q_)
        return self

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(learns=False)

    def rerank(self, scores: Scores, corpus: Corpus) -> Scores:
        return self.rerank_alone(scores)

    def rerank_alone(self, scores: Scores) -> Scores:
        values = np.where(scores.ids >= 0, scores.values * self._factor()[scores.ids], 0).astype(np.float32)
        return Scores(scores.ids, values).sorted()

    def _factor(self) -> NDArray[np.float32]:
        """float32 (L,): what each label's score is multiplied by, made once for one strength."""
        made = getattr(self, "_made_", None)
        if made is None or made[0] is not self.q_ or made[1] != self.strength:
            factor = (self.q_**self.strength / self.q_.max(initial=1.0) ** self.strength).astype(np.float32)
            made = self._made_ = (self.q_, self.strength, factor)
        return cast(NDArray[np.float32], made[2])

    def state(self) -> dict[str, NDArray[Any]]:
        return {"q": self.q_}

    def restore(self, arrays: Arrays) -> None:
        if set(arrays) != {"q"} or arrays["q"].dtype != np.float64 or arrays["q"].ndim != 1:
            raise ValueError("'q' must be a row of float64")
        if not checked_before() and not (np.isfinite(arrays["q"]).all() and (arrays["q"] >= 1).all()):
            raise ValueError("inverse propensities are finite and at least 1")
        self.q_ = np.asarray(arrays["q"])
        self.n_labels_ = len(self.q_)


def favouring_rare(rerankers: Sequence[Reranker], labels: LabelIndex, strength: float) -> list[Reranker]:
    """Re-rankers with inverse propensity of this strength in place of what favours rare labels; 0 for none at all."""
    if not 0 <= strength <= 10:
        raise UsageError(f"rare must lie between 0, the learner's own order, and 10, not {strength:g}")
    others = [part for part in rerankers if not part.favours_rare]
    if strength == 0:
        return others
    own = [part for part in rerankers if isinstance(part, InversePropensity)]
    chosen = own[0].unfitted() if own else InversePropensity()
    return [*others, chosen.set_params(strength=strength).for_labels(labels)]
