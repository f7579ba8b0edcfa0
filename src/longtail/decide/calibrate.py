"""From scores to probabilities, pooled over labels: rare labels have too few documents for a curve of their own.

One logistic regression over all shortlisted pairs, on the score, its rank and the label's training count, learns how
often a score like this was right for a label like that. Fitted on documents the learner did not see, with the counts
of what it did see: on those of the whole corpus, a label with one document would never be right.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from longtail.scores import Scores

#: Scores below count as this.
FLOOR = 1e-6

#: Pairs used, the most: thirteen coefficients need no more.
MOST_PAIRS = 400_000


#: Documents whose columns are made at once: those of all would be large beside everything else.
AT_ONCE = 1_000


class Calibrator:
    """p(label is right | score, rank, training count)."""

    def fit(
        self, scores: Scores, truth: NDArray[np.bool_], counts: NDArray[Any], rng: np.random.Generator
    ) -> Calibrator:
        """truth   bool (n, k), which shortlisted labels are right
        counts  (n, k), documents of each of them that the learner behind the scores was trained on
        """
        present = np.flatnonzero(scores.ids.ravel() >= 0)
        if len(present) > MOST_PAIRS:
            present = np.sort(rng.choice(present, MOST_PAIRS, replace=False))
        row, rank = np.divmod(present, scores.k)
        X = self._columns(scores.values.ravel()[present], counts.ravel()[present], rank, scores.values[row, 0])
        y = truth.ravel()[present].astype(np.float64)
        self.mean_, self.scale_ = X.mean(axis=0), X.std(axis=0) + 1e-9
        self.coefficients_ = _logistic((X - self.mean_) / self.scale_, y)
        return self

    def log_probability(self, scores: Scores, counts: NDArray[Any]) -> NDArray[np.float64]:
        """log p of each shortlisted label, (n, k); counts  (n, k); values at padding mean nothing"""
        found = np.empty(scores.ids.shape)
        rank = np.arange(scores.k)
        for begin in range(0, len(scores), AT_ONCE):
            some = slice(begin, begin + AT_ONCE)
            values = scores.values[some]
            X = (self._columns(values, counts[some], rank, values[:, :1]) - self.mean_) / self.scale_
            found[some] = -np.logaddexp(0, -(X @ self.coefficients_[1:] + self.coefficients_[0]))
        return found

    @staticmethod
    def _columns(
        values: NDArray[Any], counts: NDArray[Any], rank: NDArray[Any], best: NDArray[Any]
    ) -> NDArray[np.float64]:
        """(..., 12): powers and products of log-score, log-count and log-rank, and the best log-score of the list."""
        value = np.clip(values.astype(np.float64), FLOOR, 1)
        s = np.log(value)
        n = np.log(np.maximum(counts, 1))
        rank = np.broadcast_to(np.log1p(rank), s.shape)
        best = np.broadcast_to(np.log(np.clip(best.astype(np.float64), FLOOR, 1)), s.shape)
        columns = [s, s * s, s**3, value, n, n * s, n * n, n * value, best, rank, rank * n, rank * s]
        return np.stack(columns, axis=-1)

    def state(self) -> dict[str, NDArray[Any]]:
        return {"calibration": np.concatenate([self.mean_, self.scale_, self.coefficients_])}

    @classmethod
    def restored(cls, array: NDArray[Any]) -> Calibrator:
        if array.shape != (37,) or array.dtype != np.float64 or not np.isfinite(array).all():
            raise ValueError("'calibration' must be 37 finite numbers")
        calibrator = cls()
        calibrator.mean_, calibrator.scale_, calibrator.coefficients_ = array[:12], array[12:24], array[24:]
        return calibrator


def _logistic(X: NDArray[np.float64], y: NDArray[np.float64], ridge: float = 1e-3) -> NDArray[np.float64]:
    """Intercept and coefficients of a lightly ridged logistic regression, by Newton's method."""
    X = np.column_stack([np.ones(len(X)), X])
    w = np.zeros(X.shape[1])
    penalty = ridge * len(X) * np.diag([0.0] + [1.0] * (X.shape[1] - 1)) / 100
    for _ in range(50):
        p = 1 / (1 + np.exp(-np.clip(X @ w, -30, 30)))
        gradient = X.T @ (p - y) + penalty @ w
        curvature = (X * (p * (1 - p))[:, None]).T @ X + penalty + 1e-9 * np.eye(len(w))
        step = np.linalg.solve(curvature, gradient)
        w -= step * min(1.0, 5 / max(np.abs(step).max(), 1e-12))
        if np.abs(step).max() < 1e-6:
            break
    return w
