"""Figures as subject indexing reports them, beside those of extreme classification.

F1@5 and NDCG count every true label, those that no training document has among them, over all documents: the mean over
documents of the harmonic mean of precision and recall among the five best; binary gains, log2 discount and the ideal
over all true labels, up to 20. P and PSP count labels that a training document has, as everywhere else here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from longtail.corpus import Corpus
from longtail.evaluate import evaluate
from longtail.scores import Scores

#: Labels per document that NDCG looks at.
DEPTH = 20
KEPT = ("P@1", "P@3", "P@5", "PSP@1", "PSP@3", "PSP@5")


def figures(scores: Scores, test: Corpus) -> dict[str, float]:
    """All of them, in per cent; test  in the columns of the scores, with labels that training never saw behind them"""
    known = evaluate(scores, test.without_unseen()).to_dict()
    return {name: known[name] for name in KEPT} | {
        name: round(100 * value, 3) for name, value in all_labels(scores, test).items()
    }


def all_labels(scores: Scores, test: Corpus) -> dict[str, float]:
    """F1@5 and NDCG over all true labels, 0 to 1."""
    true, ids = test.positives(), scores.top(DEPTH).ids
    listed = ids >= 0
    row = np.nonzero(listed)[0]
    # a pair is found by its number among all pairs of a document and a label
    width = max(true.shape[1], int(ids.max(initial=-1)) + 1)
    pairs = np.repeat(np.arange(len(test)), np.diff(true.indptr)) * width + true.indices
    hits: Any = np.zeros(ids.shape, dtype=bool)
    hits[listed] = np.isin(row * width + ids[listed], pairs)
    count = np.diff(true.indptr)
    right = hits[:, :5].sum(axis=1)
    f1 = 2 * right / (5 + count)  # the harmonic mean of right / 5 and right / count
    discount = 1 / np.log2(np.arange(2, DEPTH + 2))
    ideal = np.concatenate([[np.inf], np.cumsum(discount)])[np.minimum(count, DEPTH)]
    ndcg = (hits * discount[: hits.shape[1]]).sum(axis=1) / ideal
    return {"F1@5": float(f1.mean()), "NDCG": float(ndcg.mean())}
