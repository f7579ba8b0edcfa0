"""Calibrated propensity: the probability that a score is right, times a power of the inverse propensity.

    log F = (1 - a) log f + a log p + e log q

f is the score, p the calibrated probability that such a score is right for a label this rare, q the inverse propensity.
Where p is exact, a = e = 1 is the best rule for PSP@k. Both are chosen on documents that the learner did not see, by
what they give: `strength` says how much precision may be spent. Of all (a, e) that on those documents are no worse than
inverse propensity of that strength in P@1 and in PSP@1, 3 and 5, the one with the largest sum of P and PSP is taken.

Held-out documents come from folds, whose learners have seen fewer documents of each label than the model: calibration
and propensities go by what those learners have seen (`rerank/held_out.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from longtail.arrays import Floats
from longtail.corpus import Corpus
from longtail.decide.calibrate import Calibrator
from longtail.part import Arrays, checked_before, option
from longtail.plan import Sizes, Stage
from longtail.rerank.base import Reranker
from longtail.rerank.held_out import Folds, HeldOut
from longtail.run import Run
from longtail.scores import Scores

#: Scores below count as this: the logarithm of the least likely label stays in bounds.
FLOOR = 1e-4
#: Shares of calibration, and exponents of q, tried on held-out documents.
SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0)
EXPONENTS = tuple(round(0.1 * step, 1) for step in range(13))
TOLERANCE = 0.001  # of P@1: a tenth of a point is far below what so many documents can tell
#: Documents that the choice is made on, the most.
MOST_DOCUMENTS = 20_000


@dataclass(kw_only=True)
class CalibratedPropensity(Reranker):
    """Thirteen pooled coefficients, a share and an exponent: nothing per label but its count."""

    favours_rare: ClassVar[bool] = True

    strength: float | None = option(
        None,
        "how much precision may be spent on rare labels, as inverse propensity of this strength would: 0 none, 1 as "
        "much as it does; by default what adds up to the most",
        low=0,
        high=10,
    )
    A: float = option(0.55, "A of the propensity model (Jain et al. 2016)", low=0, high=10)
    B: float = option(1.5, "B of the propensity model (Jain et al. 2016)", low=0, high=1000)

    def plan(self, sizes: Sizes, run: Run) -> list[Stage]:
        """The columns of the calibration, and the shortlists of the documents that the choice is made on."""
        pairs = min(sizes.documents, MOST_DOCUMENTS) * self.depth
        return [Stage("re-rank", 2 + pairs * len(SHARES) * len(EXPONENTS) / 4e7, 300 * pairs, 12 * sizes.labels)]

    def fit(self, scores: Scores, corpus: Corpus, *, run: Run | None = None) -> Self:
        self._learn(scores, corpus, Folds.none(len(scores), corpus.labels), run or Run())
        return self

    def fit_held_out(self, scores: Scores, corpus: Corpus, folds: Folds, *, run: Run | None = None) -> Scores:
        self._learn(scores, corpus, folds, run or Run())
        q = folds.inverse_propensity(self.A, self.B)[folds.of[:, None], scores.ids]
        return self._ranked(scores, folds.counts_of(scores.ids), q)

    def _learn(self, scores: Scores, corpus: Corpus, folds: Folds, run: Run) -> None:
        rng = run.rng("calibrated-propensity")
        self.q_ = corpus.labels.inverse_propensity(self.A, self.B).astype(np.float32)
        self.counts_ = corpus.labels.frequency.astype(np.float32)
        self.n_labels_ = corpus.n_labels
        rows = np.arange(len(scores))
        if len(rows) > MOST_DOCUMENTS:
            rows = np.sort(rng.choice(rows, MOST_DOCUMENTS, replace=False))
        held_out = HeldOut.of(scores.rows(rows), corpus.rows(rows), folds.rows(rows), self.A, self.B)
        self._choose(held_out, rng)

    def _choose(self, held_out: HeldOut, rng: np.random.Generator) -> None:
        """The calibrator, and the share of it and the exponent of q that are best on the documents."""
        given = (0.0, 1.0 if self.strength is None else self.strength)
        self.calibrator_, (self.share_, self.exponent_) = None, given
        listed = held_out.scores.ids >= 0
        if not held_out.truth.any() or held_out.truth[listed].all():
            return  # nothing to learn from: inverse propensity
        self.calibrator_ = Calibrator().fit(held_out.scores, held_out.truth, held_out.counts, rng)
        # thirteen pooled coefficients cannot learn documents by heart, so the choice is made on the same ones
        plain, calibrated = self._logarithms(held_out.scores, held_out.counts)
        worth = np.log(np.maximum(held_out.q, 1))
        measured = {
            (share, exponent): held_out.measures((1 - share) * plain + share * calibrated + exponent * worth)
            for share, exponent in [given, *((share, exponent) for share in SHARES for exponent in EXPONENTS)]
        }
        if self.strength is not None:
            # no worse than inverse propensity of that strength in P@1 and PSP@1, 3, 5, the first four measures
            bar = measured[given][:4] - np.array([TOLERANCE, 0, 0, 0])
            measured = {choice: m for choice, m in measured.items() if (m[:4] >= bar).all()}
        self.share_, self.exponent_ = max(measured, key=lambda choice: measured[choice].sum())

    def _logarithms(self, scores: Scores, counts: NDArray[Any]) -> tuple[Floats, Floats]:
        """log f and log p, (n, k); log f twice without a calibrator."""
        plain = np.log(np.maximum(scores.values, FLOOR)).astype(np.float32)
        if self.calibrator_ is None:
            return plain, plain
        calibrated = self.calibrator_.log_probability(scores, counts)
        return plain, np.maximum(calibrated, np.log(FLOOR)).astype(np.float32)

    def probabilities(self, scores: Scores) -> Floats:
        """p, (n, k): how likely each listed label is right; meaningless at padding."""
        return np.exp(self._logarithms(scores, self.counts_[scores.ids])[1])

    def rerank(self, scores: Scores, corpus: Corpus) -> Scores:
        return self._ranked(scores, self.counts_[scores.ids], self.q_[scores.ids])

    def _ranked(self, scores: Scores, counts: NDArray[Any], q: Floats) -> Scores:
        """Values F / (1 + F), which rise with F and stay in (0, 1)."""
        plain, calibrated = self._logarithms(scores, counts)
        F = np.exp((1 - self.share_) * plain + self.share_ * calibrated + self.exponent_ * np.log(q))
        values = np.where(scores.ids >= 0, F / (1 + F), 0).astype(np.float32)
        return Scores(scores.ids, values).sorted()

    def acted(self) -> dict[str, Any]:
        return {"share": self.share_, "exponent": self.exponent_, "calibrated": self.calibrator_ is not None}

    def state(self) -> dict[str, NDArray[Any]]:
        state = {"q": self.q_, "counts": self.counts_, "start": np.array([self.share_, self.exponent_])}
        return state | ({} if self.calibrator_ is None else self.calibrator_.state())

    def restore(self, arrays: Arrays) -> None:
        arrays = _without_blocks(arrays)
        names = {"q", "counts", "start"}
        if set(arrays) - {"calibration"} != names or any(arrays[n].dtype != np.float32 for n in ("q", "counts")):
            raise ValueError(f"{sorted(names)} are needed, inverse propensities and counts as float32")
        q, counts, start = (np.asarray(arrays[name]) for name in ("q", "counts", "start"))
        if q.ndim != 1 or q.shape != counts.shape:
            raise ValueError("inverse propensities and counts must be as many")
        if start.shape != (2,) or start.dtype != np.float64 or not (0 <= start[0] <= 1 and 0 <= start[1] <= 10):
            raise ValueError("'start' must be a share from 0 to 1 and an exponent from 0 to 10")
        if not checked_before() and not (np.isfinite(q).all() and (q >= 1).all() and np.isfinite(counts).all()):
            raise ValueError("inverse propensities are finite and at least 1")
        self.q_, self.counts_, self.n_labels_ = q, counts, len(q)
        self.share_, self.exponent_ = (float(value) for value in start)
        self.calibrator_ = Calibrator.restored(arrays["calibration"]) if "calibration" in arrays else None


def _without_blocks(arrays: Arrays) -> Arrays:
    """What models of version 0.2 keep under `ranknet` had blocks, too: most were zero, and did nothing."""
    if {"w1", "w2"} <= set(arrays) and np.asarray(arrays["w2"]).any():
        raise ValueError("its `ranknet` has residual blocks of a form that is gone; train it again")
    return {name: array for name, array in arrays.items() if name not in ("w1", "w2")}
