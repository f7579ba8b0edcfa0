"""Whether made-up features are like real ones: how much they vary, and where their means lie."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from longtail.augment.base import VectorSource
from longtail.augment.label_features import LabelFeatures
from longtail.run import Run

#: Labels looked at, and features of each, at most.
LABELS, FEATURES = 100, 200


def checked(source: VectorSource, features: LabelFeatures, head: NDArray[np.int64], run: Run) -> dict[str, float]:
    """Made-up features beside real ones of head labels that the PVAE did not learn from, where there are some.

    spread                    standard deviation of made-up features within labels to that of real ones, per number of
    spread_low, spread_high   a feature: the median, and what one in twenty lies below and above
    cosine, cosine_low        of the mean of a label's made-up features and its prototype: mean and least over labels
    """
    whose = features.held_out(head, run.rng("pvae"))[1][1]
    labels = np.unique(whose)
    labels = labels[features.counts[labels] > 1][:LABELS]
    if not len(labels):
        return {}
    rng = run.rng("checks")
    real, made = (np.zeros(features.width) for _ in range(2))
    cosines, freedom = [], 0
    for label in labels:
        rows = features.rows_of(np.array([label]))[0][:FEATURES]
        drawn = source.draw(np.full(len(rows), label), rng).astype(np.float64)
        own = features.some(rows).astype(np.float64)
        real += np.square(own - own.mean(axis=0)).sum(axis=0)
        made += np.square(drawn - drawn.mean(axis=0)).sum(axis=0)
        freedom += len(rows) - 1
        cosines.append(_cosine(drawn.mean(axis=0), features.prototypes[label]))
    moves = real / freedom > 1e-8
    ratio = np.sqrt(made[moves] / real[moves]) if moves.any() else np.ones(1)
    low, middle, high = np.quantile(ratio, (0.05, 0.5, 0.95))
    return {
        "spread": float(middle),
        "spread_low": float(low),
        "spread_high": float(high),
        "cosine": float(np.mean(cosines)),
        "cosine_low": float(np.min(cosines)),
    }


def _cosine(one: NDArray[np.float64], other: NDArray[np.float32]) -> float:
    return float(one @ other / max(float(np.linalg.norm(one) * np.linalg.norm(other)), 1e-12))
