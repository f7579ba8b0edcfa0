"""RankNet ("Improving Tail Label Prediction for Extreme Multi-label Learning"): residual blocks that rank again.

A block is F(y) = y + W2 s(W1 y), y the scores of the L labels, with a bottleneck of V units between (W1: V x L, W2:
L x V), so that no L x L matrix is ever held; blocks may be stacked. Only the labels on a document's shortlist are
touched: y is 0 elsewhere. The population-aware loss of a document with true labels T is

    mean over i, j in T of (n_i - n_j)/(n_i + n_j) [F_i - F_j]_+     a frequent label must not outrank a rare one
  + lambda * mean over i in T, k not in T of w_i [F_k - F_i + c]_+   a wrong label must not outrank a true one

n being training counts. As printed (`start = "scores"`), y are the learner's scores and w = 1. By default the blocks
correct a better start: log F = (1 - a) log f + a log p + e log q, with p the calibrated probability of the score
f and q the inverse propensity; and w_i is q_i, what PSP pays for label i. W1 always reads probabilities, in which most
labels are near 0. `strength` says how much precision may be spent: of all (a, e) that on validation documents are no
worse than inverse propensity of that strength in P@1 and in PSP@1, 3 and 5, the best is taken.

Written in numba rather than torch: the work is a few sparse products per document, and the core install stays small.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from longtail.arrays import Bools, Floats, Ints, Longs
from longtail.corpus import Corpus
from longtail.decide.calibrate import Calibrator
from longtail.part import Arrays, option
from longtail.plan import Sizes, Stage
from longtail.rerank.base import Reranker
from longtail.rerank.ranknet_kernels import (
    Blocks,
    LabelFacts,
    LossSettings,
    Shortlists,
    forward,
    one_pass,
    truth_of,
    without_masked,
)
from longtail.run import Run
from longtail.scores import Scores

#: Scores below count as this: the logarithm of the least likely label stays in bounds.
FLOOR = 1e-4


#: Shares of calibration, and exponents of q, tried on validation documents.
SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0)
TOLERANCE = 0.001  # of P@1: a tenth of a point is far below what so many documents can tell
EXPONENTS = tuple(round(0.1 * step, 1) for step in range(13))


@dataclass(kw_only=True)
class RankNet(Reranker):
    """Trained on scores of documents the learner did not see, with early stopping on a part of them."""

    favours_rare: ClassVar[bool] = True

    strength: float | None = option(
        None,
        "how much precision may be spent on rare labels, as inverse propensity of this strength would: 0 none, 1 the "
        "paper's; by default what adds up to the most",
        low=0,
        high=10,
    )
    start: str = option("calibrated", "what the blocks correct: calibrated, inverse-propensity, or scores as printed",
                        choices=("calibrated", "inverse-propensity", "scores"))  # fmt: skip
    width: int = option(64, "units of the bottleneck, V", low=1, high=65_536)
    blocks: int = option(1, "residual blocks, one after the other", low=1, high=16)
    margin: float = option(0.1, "c, by how much true labels must lie above wrong ones", low=0)
    balance: float = option(1.0, "lambda, weight of the second term", low=0)
    learning_rate: float = option(0.01, "of AdaGrad", low=1e-6)
    epochs: int = option(20, "maximum number of passes over the documents", low=0)
    patience: int = option(3, "passes without a better validation score before it stops", low=1)
    A: float = option(0.55, "A of the propensity model (Jain et al. 2016)", low=0, high=10)
    B: float = option(1.5, "B of the propensity model (Jain et al. 2016)", low=0, high=1000)

    def plan(self, sizes: Sizes, run: Run) -> list[Stage]:
        """Two matrices of a block with AdaGrad's sums beside them, and the shortlists of all documents."""
        weights = 2 * 4 * self.blocks * sizes.labels * self.width
        lists = min(sizes.documents, 20_000) * self.depth * 60
        seconds = sizes.documents * self.depth * self.epochs / 1e6
        return [Stage("re-rank", seconds, 3 * weights + lists, weights)]

    def fit(self, scores: Scores, corpus: Corpus, *, run: Run | None = None) -> Self:
        run = run or Run()
        rng = run.rng("ranknet")
        self.q_ = corpus.labels.inverse_propensity(self.A, self.B).astype(np.float32)
        self.counts_ = corpus.labels.frequency.astype(np.float32)
        self.n_labels_ = corpus.n_labels
        shape = (self.blocks, corpus.n_labels, self.width)
        self.w1_ = rng.standard_normal(shape, dtype=np.float32) / np.float32(np.sqrt(self.width))
        self.w2_ = np.zeros(shape, dtype=np.float32)  # F = y to begin with
        scores = without_masked(scores, corpus)
        truth = truth_of(scores, corpus)
        usable = rng.permutation(np.flatnonzero(truth.any(axis=1)))
        valid, train = np.split(usable, [len(usable) // 4])
        self._choose_start(scores, truth, train, valid, rng)
        self._train(self._shortlists(scores, truth), train, valid, rng, run)
        return self

    def _choose_start(
        self, scores: Scores, truth: Bools, train: NDArray[np.int64], valid: NDArray[np.int64], rng: np.random.Generator
    ) -> None:
        """The calibrator, and the share of it and the exponent of q that are best on the documents."""
        self.calibrator_, self.share_, self.exponent_ = None, 0.0, 1.0 if self.strength is None else self.strength
        if self.start == "scores" or len(train) == 0 or len(valid) == 0:
            return
        given = (0.0, self.exponent_)
        choices = [given]
        if self.start == "calibrated" and not truth[train].all():
            self.calibrator_ = Calibrator().fit(scores.rows(train), truth[train], self.counts_, rng)
            choices += [(share, exponent) for share in SHARES for exponent in EXPONENTS]
        elif self.strength is None:
            choices += [(0.0, exponent) for exponent in EXPONENTS]
        # thirteen pooled coefficients cannot learn documents by heart, so the choice is made on all of them
        rows = np.concatenate([train, valid])
        documents, right = scores.rows(rows), truth[rows]
        logarithms = self._logarithms(documents)
        measured = {}
        for self.share_, self.exponent_ in choices:
            F = self._start(documents, logarithms)
            measured[self.share_, self.exponent_] = self._measures(documents.ids, right, F)
        if self.strength is not None:
            # no worse than inverse propensity of that strength in P@1 and PSP@1, 3, 5, the first four measures
            bar = measured[given][:4] - np.array([TOLERANCE, 0, 0, 0])
            measured = {choice: m for choice, m in measured.items() if (m[:4] >= bar).all()}
        self.share_, self.exponent_ = max(measured, key=lambda choice: measured[choice].sum())

    def _train(self, lists: Shortlists, train: Longs, valid: Longs, rng: np.random.Generator, run: Run) -> None:
        labels = LabelFacts(self.counts_, np.ones_like(self.q_) if self.start == "scores" else self.q_)
        blocks, squares = Blocks(self.w1_, self.w2_), Blocks(np.ones_like(self.w1_), np.ones_like(self.w2_))
        settings = LossSettings(
            np.float32(self.margin), np.float32(self.balance), np.float32(self.learning_rate), self._scale()
        )
        held_out = Shortlists(lists.ids[valid], lists.start[valid], lists.shift[valid], lists.truth[valid])
        best, kept, waited = self._worth(held_out, held_out.start), Blocks(self.w1_.copy(), self.w2_.copy()), 0
        with run.bar("RankNet", self.epochs) as bar:
            for _ in range(self.epochs):
                rng.shuffle(train)
                one_pass(train, lists, labels, blocks, squares, settings)
                bar.advance(1)
                worth = self._worth(held_out, forward(held_out, blocks, self._scale()))
                waited = 0 if worth > best else waited + 1
                if worth > best:
                    best, kept = worth, Blocks(self.w1_.copy(), self.w2_.copy())
                elif waited >= self.patience:
                    break
        self.w1_, self.w2_ = kept

    def _shortlists(self, scores: Scores, truth: Bools | None = None) -> Shortlists:
        """Shortlists as the kernels read them, with F before the blocks."""
        right = np.zeros(scores.ids.shape, dtype=bool) if truth is None else truth
        return Shortlists(np.ascontiguousarray(scores.ids), self._start(scores), self._shift(scores), right)

    def _measures(self, ids: Ints, truth: Bools, F: Floats) -> NDArray[np.float64]:
        """P@1, PSP@1, PSP@3, PSP@5, P@3, P@5 over the shortlists, as shares."""
        if len(ids) == 0:
            return np.zeros(6)
        worth = np.where(truth, self.q_[ids], 0)
        best = np.argpartition(-F, min(4, F.shape[1] - 1), axis=1)[:, :5]
        order = np.take_along_axis(best, np.argsort(-np.take_along_axis(F, best, 1), axis=1, kind="stable"), 1)
        gain, hits = np.take_along_axis(worth, order, 1), np.take_along_axis(truth, order, 1)
        ideal = -np.sort(-worth, axis=1)[:, :5]
        psp = [gain[:, :k].sum(dtype=np.float64) / max(ideal[:, :k].sum(dtype=np.float64), 1e-12) for k in (1, 3, 5)]
        precision = [hits[:, :k].mean(dtype=np.float64) for k in (1, 3, 5)]
        return np.array([precision[0], *psp, *precision[1:]])

    def _worth(self, lists: Shortlists, F: Floats) -> float:
        """P and PSP at 1, 3 and 5, added up: what is won for rare labels must not be lost on the others."""
        return float(self._measures(lists.ids, lists.truth, F).sum())

    def _scale(self) -> np.float32:
        """How many natural logarithms one unit of F is; 0 where F is on the scale of the scores themselves."""
        return np.float32(0 if self.start == "scores" else -np.log(FLOOR))

    def _shift(self, scores: Scores) -> Floats:
        """What F has of the propensity: taken off before W1 reads F as a probability."""
        if self.start == "scores":
            return np.zeros(scores.ids.shape, dtype=np.float32)
        return (self.exponent_ * np.log(self.q_[scores.ids]) / self._scale()).astype(np.float32)

    def _logarithms(self, scores: Scores) -> tuple[Floats, Floats]:
        """log f and log p, p the calibrated probability; log f twice without a calibrator."""
        plain = np.log(np.maximum(scores.values, FLOOR)).astype(np.float32)
        if self.calibrator_ is None:
            return plain, plain
        calibrated = self.calibrator_.log_probability(scores, self.counts_)
        return plain, np.maximum(calibrated, np.log(FLOOR)).astype(np.float32)

    def _start(self, scores: Scores, logarithms: tuple[Floats, Floats] | None = None) -> Floats:
        """F before the blocks, about 0 to 1; -inf at padding."""
        if self.start == "scores":
            return np.array(scores.values, dtype=np.float32)
        plain, calibrated = logarithms or self._logarithms(scores)
        mixed = (1 - self.share_) * plain + self.share_ * calibrated
        F = 1 + mixed / self._scale() + self._shift(scores)
        return np.where(scores.ids >= 0, F, -np.inf).astype(np.float32)

    def rerank(self, scores: Scores, corpus: Corpus) -> Scores:
        F = forward(self._shortlists(scores), Blocks(self.w1_, self.w2_), self._scale())
        # to (0, 1) by a function that rises everywhere
        odds = np.exp(F) if self.start == "scores" else np.exp((F - 1) * self._scale())
        values = np.where(scores.ids >= 0, odds / (1 + odds), 0).astype(np.float32)
        return Scores(scores.ids, values).sorted()

    def state(self) -> dict[str, NDArray[Any]]:
        state = {
            "q": self.q_,
            "counts": self.counts_,
            "w1": self.w1_,
            "w2": self.w2_,
            "start": np.array([self.share_, self.exponent_]),
        }
        return state | ({} if self.calibrator_ is None else self.calibrator_.state())

    def restore(self, arrays: Arrays) -> None:
        names = {"q", "counts", "w1", "w2", "start"}
        if set(arrays) - {"calibration"} != names or any(arrays[n].dtype != np.float32 for n in names - {"start"}):
            raise ValueError(f"{sorted(names)} are needed, as float32")
        q, counts, w1, w2 = (np.asarray(arrays[name]) for name in ("q", "counts", "w1", "w2"))
        if (
            q.ndim != 1
            or q.shape != counts.shape
            or w1.shape != (self.blocks, len(q), self.width)
            or w2.shape != w1.shape
        ):
            raise ValueError(
                f"weights of {w1.shape} and {w2.shape} do not fit {self.blocks} blocks of {self.width} units"
            )
        start = arrays["start"]
        if start.shape != (2,) or start.dtype != np.float64 or not (0 <= start[0] <= 1 and 0 <= start[1] <= 10):
            raise ValueError("'start' must be a share from 0 to 1 and an exponent from 0 to 10")
        if not (np.isfinite(q).all() and (q >= 1).all() and np.isfinite(counts).all()):
            raise ValueError("inverse propensities are finite and at least 1")
        self.q_, self.counts_, self.w1_, self.w2_, self.n_labels_ = q, counts, w1, w2, len(q)
        self.share_, self.exponent_ = (float(value) for value in start)
        self.calibrator_ = Calibrator.restored(arrays["calibration"]) if "calibration" in arrays else None
