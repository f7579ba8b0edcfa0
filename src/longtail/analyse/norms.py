"""The norm of each label's separator, against how often the label occurs and how often it is predicted.

"Improving Tail Label Prediction for Extreme Multi-label Learning" claims that ||w_l|| falls with the label's frequency
(figures 1 and 4), that noisy copies of tail documents raise it (figure 2), and that the probability of entering the
top k grows with it (theorem 1). Here are the numbers behind each of the three; `analyse.norm_figures` draws them.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longtail.errors import UsageError
from longtail.labels import LabelIndex
from longtail.learners.base import Learner
from longtail.learners.decoupled import Decoupled
from longtail.learners.ensemble import Ensemble
from longtail.learners.linear.base import LinearLearner
from longtail.learners.linear.tree import Tree
from longtail.learners.pipeline import Pipeline
from longtail.registry import name_of
from longtail.scores import Scores

Norms = NDArray[np.float64]

#: Points of a curve over the ranks, and groups of labels of similar norm.
RANK_BINS = 32
LEAST_IN_BIN = 5
NORM_BINS = 10


def label_norms(learner: Learner) -> Norms:
    """Euclidean norm of each label's separator, weights and bias together; float64 (L,), nan for a label without one.

    In label trees a label's separator is the one in its leaf, and the norm is the mean over the trees. Each side of a
    `Decoupled` gives the norms of its own labels; an `Ensemble` gives the mean over the members that have separators;
    a `Pipeline` those of its learner.
    """
    norms = _norms(learner)
    if norms is None:
        raise UsageError(
            f"{name_of(learner)} has no separator for each label, so there are no norms to show; "
            "one-vs-all, parabel and bonsai have, alone or inside decoupled or ensemble"
        )
    return norms


def _norms(learner: Learner) -> Norms | None:
    if isinstance(learner, LinearLearner):
        return tree_norms(learner.trees_, learner.n_labels_)
    if isinstance(learner, Pipeline):
        return _norms(learner.learner)
    if isinstance(learner, Decoupled):
        sides = [_norms(member) for member in learner.members_]
        if all(side is None for side in sides):
            return None
        norms = np.full(learner.n_labels_, np.nan)
        for side, columns in zip(sides, learner.columns_, strict=True):
            if side is not None:
                norms[columns] = side
        return norms
    if isinstance(learner, Ensemble):
        members = [own for member in learner.members if (own := _norms(member)) is not None]
        return _mean_of_known(np.array(members)) if members else None
    return None


def _mean_of_known(rows: NDArray[np.float64]) -> Norms:
    """Mean of each column over the rows that are not nan there; nan where none is."""
    known = (~np.isnan(rows)).sum(axis=0)
    return np.where(known > 0, np.nansum(rows, axis=0) / np.maximum(known, 1), np.nan)


def tree_norms(trees: list[Tree], n_labels: int) -> Norms:
    """Mean over trees of the norm of a label's separator in its leaf; float64 (n_labels,), nan for a label in none."""
    total, found = np.zeros(n_labels), np.zeros(n_labels, dtype=np.int64)
    for tree in trees:
        for node in np.flatnonzero(tree.leaf):
            own = tree.separators(int(node))
            squares = np.bincount(own.column, weights=own.weight.astype(np.float64) ** 2, minlength=len(own.bias))
            labels = tree.slot_target[tree.slot_start[node] : tree.slot_start[node + 1]]
            total[labels] += np.sqrt(squares + own.bias.astype(np.float64) ** 2)
            found[labels] += 1
    return np.where(found > 0, total / np.maximum(found, 1), np.nan)


# against frequency
def frequency_report(norms: Norms, labels: LabelIndex) -> dict[str, Any]:
    """How norms go with frequency, in plain values; null where there is nothing to count."""
    known = ~np.isnan(norms)
    return {
        "labels": len(labels),
        "labels_with_norm": int(known.sum()),
        "mean_norm": json_number(_mean(norms[known])),
        "spearman_frequency": json_number(spearman(norms[known], labels.frequency[known])),
        "bands": [
            {
                "name": band.name,
                "counts": band.range,
                "labels": int((band.members & known).sum()),
                "mean_norm": json_number(_mean(norms[band.members & known])),
            }
            for band in reversed(labels.bands())
            if band.low > 0
        ],
        "curve": rank_curve(norms, labels),
    }


def rank_curve(
    norms: Norms, labels: LabelIndex, bins: int = RANK_BINS, least: int = LEAST_IN_BIN
) -> list[dict[str, Any]]:
    """Mean norm in bins of the frequency rank, rank 1 being the most frequent label.

    Bins widen by a constant factor, but those that would hold fewer than `least` labels are put together.
    Labels without a training document have no rank; a bin none of whose labels has a norm is left out.
    """
    order = labels.by_frequency()
    order = order[labels.frequency[order] > 0]
    end = len(order) + 1
    edges = [1]
    for edge in np.geomspace(1, end, bins + 1).round().astype(np.int64).tolist():
        if edges[-1] + least <= edge <= end - least:
            edges.append(edge)
    if end > 1:
        edges.append(end)
    curve = []
    for low, high in pairwise(edges):
        members = order[low - 1 : high - 1]
        known = norms[members][~np.isnan(norms[members])]
        if len(known):
            curve.append(
                {
                    "first_rank": int(low),
                    "last_rank": int(high - 1),
                    "documents": float(np.median(labels.frequency[members])),
                    "labels": len(known),
                    "mean_norm": json_number(_mean(known)),
                }
            )
    return curve


# against predictions
def top_k_shares(scores: Scores, n_labels: int) -> NDArray[np.float64]:
    """For each label the share of documents that have it among the predictions given; float64 (n_labels,)."""
    return np.bincount(scores.ids[scores.ids >= 0], minlength=n_labels) / max(len(scores), 1)


def entering_report(norms: Norms, labels: LabelIndex, scores: Scores) -> dict[str, Any]:
    """Theorem 1 as a question to data: does a label enter the top k more often, the larger its norm?

    scores  the k best labels of each document
    """
    shares = top_k_shares(scores, len(labels))
    known = ~np.isnan(norms)
    # frequent labels have both larger norms and more predictions; within a band that explains less
    within = {
        band.name: json_number(spearman(norms[band.members & known], shares[band.members & known]))
        for band in reversed(labels.bands())
        if band.low > 0
    }
    return {
        "k": scores.k,
        "documents": len(scores),
        "spearman": json_number(spearman(norms[known], shares[known])),
        "spearman_within": within,
        "bins": shares_by_norm(norms, shares),
    }


def shares_by_norm(norms: Norms, shares: NDArray[np.float64], bins: int = NORM_BINS) -> list[dict[str, Any]]:
    """Labels in groups of equal size from the smallest norm to the largest, and the mean share of each group."""
    order = np.argsort(norms, kind="stable")[: int((~np.isnan(norms)).sum())]  # nan sorts last
    return [
        {
            "low": json_number(norms[members[0]]),
            "high": json_number(norms[members[-1]]),
            "labels": len(members),
            "mean_norm": json_number(_mean(norms[members])),
            "share": json_number(_mean(shares[members]), 8),
        }
        for members in np.array_split(order, bins)
        if len(members)
    ]


def spearman(one: NDArray[Any], other: NDArray[Any]) -> float:
    """Rank correlation, ties at their mean rank; nan for fewer than two values or where one side is constant."""
    a, b = _ranks(one), _ranks(other)
    a, b = a - a.mean() if len(a) else a, b - b.mean() if len(b) else b
    size = math.sqrt(float(a @ a) * float(b @ b))
    return float(a @ b) / size if size > 0 else math.nan


def _ranks(values: NDArray[Any]) -> NDArray[np.float64]:
    _, place, size = np.unique(values, return_inverse=True, return_counts=True)
    mean_rank = np.cumsum(size) - (size - 1) / 2
    return mean_rank[place].astype(np.float64)


def _mean(values: NDArray[np.float64]) -> float:
    return float(values.mean()) if len(values) else math.nan


def json_number(value: float, digits: int = 6) -> float | None:
    """A JSON value: rounded, nan as null."""
    return None if math.isnan(value) else round(float(value), digits)
