"""From which score on labels are predicted: chosen on documents that the model behind it did not see."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from longtail.corpus import Corpus
from longtail.scores import Scores
from longtail.sparse import rows_of_pairs
from longtail.tagger import Tagger

#: Taken where there are too few documents to hold some out.
USUAL = 0.2
FEWEST = 50

#: Share of the documents that is held out, and how many at most.
SHARE, MOST = 0.2, 10_000


def chosen_threshold(corpus: Corpus, make: Callable[[], Tagger], k: int, seed: int) -> float:
    """The threshold with the best micro-averaged F1 on held-out documents.

    make  a tagger to be trained on the others
    k     labels scored per document
    """
    if len(corpus) < FEWEST:
        return USUAL
    train, held_out = corpus.split(min(SHARE, MOST / len(corpus)), np.random.default_rng(seed))
    if train.Y.nnz == 0 or held_out.Y.nnz == 0:
        return USUAL
    return best_threshold(make().fit(train).score(held_out, k), held_out)


def best_threshold(scores: Scores, truth: Corpus) -> float:
    """The threshold with the best micro-averaged F1 of these scores, halfway to the next score below it."""
    found = scores.ids >= 0
    values = scores.values[found].astype(np.float64)
    order = np.argsort(-values, kind="stable")
    values, right = values[order], _right(scores, truth)[found][order]
    if not right.any():
        return USUAL
    f1 = 2 * np.cumsum(right) / (np.arange(1, len(values) + 1) + truth.Y.nnz)
    f1[np.append(values[1:] == values[:-1], False)] = 0  # equal scores are predicted together
    best = int(np.argmax(f1))
    below = values[best + 1] if best + 1 < len(values) else 0.0
    return float((values[best] + below) / 2)


def _right(scores: Scores, truth: Corpus) -> NDArray[np.bool_]:
    """Which of the labels are true, bool (n, k)."""
    width = truth.n_labels
    pairs = rows_of_pairs(truth.Y).astype(np.int64) * width + truth.Y.indices
    asked = np.arange(len(scores), dtype=np.int64)[:, None] * width + scores.ids
    return np.isin(asked, pairs) & (scores.ids >= 0)
