"""Intervals and paired comparisons by resampling documents with replacement."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from longtail.arrays import njit
from longtail.errors import UsageError
from longtail.evaluate.metrics import Documents

#: Entries of a block of resampling counts: bounds its memory at about 16 MB for anything but millions of documents.
BLOCK = 2_000_000

Randomness = np.random.Generator | int | None


@dataclass(frozen=True)
class Difference:
    """How far the second model is from the first, in percentage points."""

    difference: float
    low: float
    high: float
    p: float


def intervals(
    documents: Documents, *, resamples: int, confidence: float, rng: Randomness = None
) -> dict[str, tuple[float, float]]:
    """Percentile intervals of every metric, as shares; nan where no resample has anything to count."""
    _check(resamples, confidence)
    names = list(documents.numerators)
    parts = _Parts(documents, names)
    drawn = np.concatenate([parts.metrics(weights) for weights in _weights(len(documents), resamples, rng)])
    low, high = _percentiles(drawn, confidence)
    return {name: (float(low[m]), float(high[m])) for m, name in enumerate(names)}


def paired_difference(
    first: Documents,
    second: Documents,
    *,
    resamples: int = 1000,
    confidence: float = 0.95,
    rng: Randomness = None,
) -> dict[str, Difference]:
    """Second minus first for every metric both have, over the same resamples of the same documents.

    `p` is two-sided: twice the smaller share of resamples in which the difference lies on the other side of zero
    (or on it), counting the data itself as one resample, so that it is never 0.
    """
    _check(resamples, confidence)
    if not np.array_equal(first.rows, second.rows) or not np.array_equal(first.true, second.true):
        raise UsageError(
            "the two reports do not count the same documents and true labels: evaluate both models on the same file, "
            "with all labels counted if the models know different ones"
        )
    names = [name for name in first.numerators if name in second.numerators]
    one, two = _Parts(first, names), _Parts(second, names)
    drawn = np.concatenate([two.metrics(w) - one.metrics(w) for w in _weights(len(first), resamples, rng)])
    low, high = _percentiles(drawn, confidence)
    # A resample in which a metric is undefined speaks for neither side.
    counted = (~np.isnan(drawn)).sum(axis=0)
    below, above = (drawn <= 0).sum(axis=0), (drawn >= 0).sum(axis=0)
    p = np.minimum(1.0, 2 * (np.minimum(below, above) + 1) / (counted + 1))
    return {
        name: Difference(
            100 * (second.value(name) - first.value(name)), 100 * float(low[m]), 100 * float(high[m]), float(p[m])
        )
        for m, name in enumerate(names)
    }


def _check(resamples: int, confidence: float) -> None:
    if resamples < 1:
        raise UsageError(f"the number of resamples must be at least 1, not {resamples}")
    if not 0 < confidence < 1:
        raise UsageError(f"confidence must lie between 0 and 1, not {confidence}")


def _weights(n: int, resamples: int, rng: Randomness) -> Iterator[NDArray[np.float64]]:
    """How often each document is drawn, (block, n) at a time in one buffer; the draws do not depend on the block."""
    rng = np.random.default_rng(0 if rng is None else rng)
    block = min(resamples, max(1, BLOCK // n))
    weights = np.empty((block, n))
    for start in range(0, resamples, block):
        drawn = rng.integers(n, size=(min(block, resamples - start), n), dtype=np.int32)
        yield _tally(drawn, weights)


@njit(nogil=True, cache=True)
def _tally(drawn: NDArray[np.int32], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """How often each number occurs in each row of `drawn`, written into the first rows of `weights`."""
    weights[: len(drawn)] = 0
    for row in range(drawn.shape[0]):
        for column in range(drawn.shape[1]):
            weights[row, drawn[row, column]] += 1
    return weights[: len(drawn)]


class _Parts:
    """The per-document parts of some metrics as two matrices, so that a block of resamples is two products."""

    def __init__(self, documents: Documents, names: list[str]) -> None:
        self.ratios = [m for m, name in enumerate(names) if name in documents.denominators]
        self.above = np.stack([documents.numerators[name] for name in names], axis=1).astype(np.float64)
        below = [documents.denominators[names[m]] for m in self.ratios]
        self.below = np.stack(below, axis=1).astype(np.float64) if below else np.zeros((len(documents), 0))

    def metrics(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Every metric in every resample, (block, metrics); nan where a resample has nothing to divide by."""
        values: NDArray[np.float64] = weights @ self.above
        totals = np.full_like(values, weights.shape[1])
        totals[:, self.ratios] = weights @ self.below
        return np.divide(values, totals, out=np.full_like(values, np.nan), where=totals > 0)


def _percentiles(drawn: NDArray[np.float64], confidence: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The central interval of each column, undefined resamples left out."""
    tail = (1 - confidence) / 2
    low, high = np.full(drawn.shape[1], np.nan), np.full(drawn.shape[1], np.nan)
    defined = ~np.isnan(drawn).all(axis=0)
    if defined.any():
        low[defined], high[defined] = np.nanquantile(drawn[:, defined], [tail, 1 - tail], axis=0)
    return low, high
