"""RankNet ("Improving Tail Label Prediction for Extreme Multi-label Learning"): residual blocks that rank again.

A block is F(y) = y + W y, one matrix L x L, or F(y) = y + W2 relu(W1 y) with a bottleneck of V units where L x L would
be too large; blocks may be stacked. y are the values of a document's shortlist, 0 elsewhere: those of the learner, or
of a re-ranker before this one. The population-aware loss of a document with true labels T is

    sum over i, j in T of [(n_i - n_j)/(n_i + n_j) (F_i - F_j)]_+     a frequent label must not outrank a rare one
  + lambda * sum over i in T, k not in T of w_i [F_k - F_i + c]_+     a wrong label must not outrank a true one

n being training counts. As printed w = 1, wrong labels are drawn at random, and F lies on the scale of the scores.

Written in numba rather than torch: the work is a few sparse products per document, and the core install stays small.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from longtail.arrays import Floats, Longs
from longtail.corpus import Corpus
from longtail.part import Arrays, checked_before, option
from longtail.plan import Sizes, Stage
from longtail.rerank.base import Reranker
from longtail.rerank.held_out import Folds, HeldOut, known_labels, true_labels
from longtail.rerank.ranknet_kernels import Blocks, LabelFacts, Lists, Loss, Squares, forward, one_pass
from longtail.run import Run
from longtail.scores import Scores

#: Up to this many labels a block is one matrix L x L (100 MB).
MOST_MATRIX = 5_000
#: Documents whose random labels are drawn at once.
DRAWN = 4_096
#: Values below count as this where F is a logit, and one unit of F is so many natural logarithms.
FLOOR = 1e-4
UNIT = float(-np.log(FLOOR))


@dataclass(kw_only=True)
class RankNet(Reranker):
    """Trained on shortlists of documents the learner did not see, and kept only where documents held out gain by it."""

    favours_rare: ClassVar[bool] = True
    all_folds: ClassVar[bool] = True

    form: str = option("auto", "a block: matrix, one of labels x labels; bottleneck; auto: matrix up to 5,000 labels",
                       choices=("auto", "matrix", "bottleneck"))  # fmt: skip
    width: int = option(64, "units of the bottleneck, V", low=1, high=65_536, only={"form": ("auto", "bottleneck")})
    blocks: int = option(1, "residual blocks, one after the other", low=1, high=16)
    margin: float = option(0.1, "c, by how much true labels must lie above wrong ones", low=0)
    balance: float = option(1.0, "lambda, weight of the second term", low=0)
    weight: str = option("none", "w of the second term: none, as printed, or propensity: q, what PSP pays for a label",
                         choices=("none", "propensity"))  # fmt: skip
    negatives: str = option("random", "wrong labels: random ones, as printed, or all those of the shortlist",
                            choices=("random", "shortlist"))  # fmt: skip
    drawn: int = option(100, "labels drawn at random per document", low=1, high=100_000, only={"negatives": "random"})
    scale: str = option("scores", "what the blocks add to: scores, as printed, or their logits",
                        choices=("scores", "logits"))  # fmt: skip
    stop: str = option("psp", "what training stops by, on held-out documents: psp, the mean of PSP@1, 3 and 5; mix: of "
                       "P and PSP", choices=("psp", "mix"))  # fmt: skip
    learning_rate: float = option(0.01, "of AdaGrad, with one rate per label", low=1e-6)
    epochs: int = option(10, "maximum number of passes over the documents", low=1)
    patience: int = option(2, "passes with a worse validation score before it stops", low=1)
    A: float = option(0.55, "A of the propensity model (Jain et al. 2016)", low=0, high=10)
    B: float = option(1.5, "B of the propensity model (Jain et al. 2016)", low=0, high=1000)

    def plan(self, sizes: Sizes, run: Run) -> list[Stage]:
        """The weights, the best of them so far, and the shortlists of all documents."""
        weights = 4 * self.blocks * sizes.labels * (sizes.labels if self._matrix(sizes.labels) else 2 * self.width)
        seconds = sizes.documents * self.depth * self.epochs / 1e6
        return [Stage("re-rank", seconds, 2 * weights + 40 * sizes.documents * self.depth, weights)]

    def _matrix(self, labels: int) -> bool:
        return self.form == "matrix" or (self.form == "auto" and labels <= MOST_MATRIX)

    def fit(self, scores: Scores, corpus: Corpus, *, run: Run | None = None) -> Self:
        self._learn(scores, corpus, Folds.none(len(scores), corpus.labels), run or Run())
        return self

    def fit_held_out(self, scores: Scores, corpus: Corpus, folds: Folds, *, run: Run | None = None) -> Scores:
        self._learn(scores, corpus, folds, run or Run())
        return self.rerank(scores, corpus)

    def _learn(self, scores: Scores, corpus: Corpus, folds: Folds, run: Run) -> None:
        rng = run.rng("ranknet")
        self.n_labels_ = corpus.n_labels
        scores = known_labels(scores, corpus, folds)
        lists = Lists(np.ascontiguousarray(scores.ids), self._start(scores), *true_labels(corpus), folds.of)
        rows = rng.permutation(len(scores))
        valid, train = np.split(rows, [len(rows) // 4])
        train = train[np.diff(lists.indptr)[train] > 0]
        held_out = HeldOut.of(scores.rows(valid), corpus.rows(valid), folds.rows(valid), self.A, self.B)
        q = folds.inverse_propensity(self.A, self.B)
        facts = LabelFacts(folds.counts.astype(np.float32), q if self.weight == "propensity" else np.ones_like(q))
        self._train(lists, train, facts, held_out, rng, run)

    def _train(
        self, lists: Lists, train: Longs, facts: LabelFacts, held_out: HeldOut, rng: np.random.Generator, run: Run
    ) -> None:
        """Passes until documents that are held out gain nothing more; the best weights are kept, if any were better."""
        blocks = self._new_blocks(rng)
        squares = Squares(*(np.full(each.shape[:2], 1e-12, dtype=np.float32) for each in blocks))
        start = self._start(held_out.scores)
        self.before_ = self.after_ = best = self._worth(held_out, start)
        kept, waited, self.losses_ = None, 0, []
        with run.bar("RankNet", self.epochs) as bar:
            for _ in range(self.epochs):
                rng.shuffle(train)
                self.losses_.append(self._pass(lists, train, facts, blocks, squares, rng))
                bar.advance(1)
                self.after_ = self._worth(held_out, forward(held_out.scores.ids, start, blocks, self._unit()))
                if self.after_ > best:
                    best, kept, waited = self.after_, Blocks(*(each.copy() for each in blocks)), 0
                # blocks that grow slowly change no order at first: that is no reason to stop
                waited += self.after_ < best
                if waited >= self.patience:
                    break
        self.weights_ = Blocks(*(each[:0] for each in blocks)) if kept is None else kept
        self.after_ = best

    def _pass(
        self, lists: Lists, order: Longs, facts: LabelFacts, blocks: Blocks, squares: Squares, rng: np.random.Generator
    ) -> float:
        """One pass over the documents; the mean loss on the way."""
        loss = Loss(np.float32(self.margin), np.float32(self.balance), np.float32(self.learning_rate), self._unit(),
                    self.negatives == "shortlist")  # fmt: skip
        total = 0.0
        for begin in range(0, len(order), DRAWN):
            some = order[begin : begin + DRAWN]
            count = self.drawn if self.negatives == "random" else 0
            drawn = rng.integers(self.n_labels_, size=(len(some), count), dtype=np.int32)
            total += one_pass(some, drawn, lists, facts, blocks, squares, loss)
        return total / max(len(order), 1)

    def _new_blocks(self, rng: np.random.Generator) -> Blocks:
        """Weights with which F = y."""
        labels = self.n_labels_
        if self._matrix(labels):
            return Blocks(
                np.zeros((self.blocks, labels, labels), np.float32), np.zeros((self.blocks, 0, 0), np.float32)
            )
        shape = (self.blocks, labels, self.width)
        inner = rng.standard_normal(shape, dtype=np.float32) / np.float32(np.sqrt(self.width))
        return Blocks(np.zeros(shape, np.float32), inner)

    def _worth(self, held_out: HeldOut, F: Floats) -> float:
        """What training stops by, as a share."""
        measures = held_out.measures(F)
        return float(measures[1:4].mean() if self.stop == "psp" else measures.mean())

    def _unit(self) -> np.float32:
        """Natural logarithms per unit of F; 0 where F is on the scale of the scores themselves."""
        return np.float32(0 if self.scale == "scores" else UNIT)

    def _start(self, scores: Scores) -> Floats:
        """F before the blocks, about 0 to 1."""
        if self.scale == "scores":
            return np.array(scores.values, dtype=np.float32)
        values = np.clip(scores.values.astype(np.float64), FLOOR, 1 - FLOOR)
        return (1 + np.log(values / (1 - values)) / UNIT).astype(np.float32)

    def rerank(self, scores: Scores, corpus: Corpus) -> Scores:
        return self.rerank_alone(scores)

    def rerank_alone(self, scores: Scores) -> Scores:
        if not self.kept_:
            return scores
        F = forward(np.ascontiguousarray(scores.ids), self._start(scores), self.weights_, self._unit())
        # to (0, 1) by a function that rises everywhere
        F = F if self.scale == "scores" else (F - 1) * UNIT
        return Scores(scores.ids, (1 / (1 + np.exp(-F.astype(np.float64)))).astype(np.float32)).sorted()

    @property
    def kept_(self) -> bool:
        """Whether the blocks made documents that were held out better; others are not kept."""
        return len(self.weights_.out) > 0

    def acted(self) -> dict[str, Any]:
        return {"blocks kept": self.kept_, "norm": round(float(np.linalg.norm(self.weights_.out)), 4)}

    def state(self) -> dict[str, NDArray[Any]]:
        return {"out": self.weights_.out, "inner": self.weights_.inner}

    def restore(self, arrays: Arrays) -> None:
        if set(arrays) != {"out", "inner"} or any(array.dtype != np.float32 for array in arrays.values()):
            raise ValueError("'out' and 'inner' are needed, as float32")
        out, inner = np.asarray(arrays["out"]), np.asarray(arrays["inner"])
        labels = out.shape[1] if out.ndim == 3 else 0
        count = self.blocks if out.ndim == 3 and len(out) else 0
        shapes = ((count, labels, labels), (count, 0, 0))
        if not self._matrix(labels):
            shapes = ((count, labels, self.width),) * 2
        if (out.shape, inner.shape) != shapes:
            raise ValueError(f"weights of {out.shape} and {inner.shape} where {shapes[0]} and {shapes[1]} are needed")
        if not checked_before() and not (np.isfinite(out).all() and np.isfinite(inner).all()):
            raise ValueError("weights must be finite")
        self.weights_, self.n_labels_ = Blocks(out, inner), labels
