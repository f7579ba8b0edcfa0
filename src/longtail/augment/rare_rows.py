"""Documents of rare labels, and masks of frequent ones: what methods that add rows for rare labels share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from longtail.corpus import Corpus
from longtail.sparse import rows_of_pairs


def documents_with(corpus: Corpus, labels: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Rows of the documents that are positive examples of one of these labels; rising."""
    positive = corpus.weighted_targets() > 0
    found = np.unique(rows_of_pairs(corpus.Y)[positive & labels[corpus.Y.indices]])
    return found if corpus.made is None else found[~corpus.made[found]]


def masked_weights(corpus: Corpus, labels: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Pair weights with which all but these labels count neither way; weights that were there stay."""
    given = np.ones(corpus.Y.nnz, np.float32) if corpus.pair_weight is None else corpus.pair_weight
    return np.where(labels[corpus.Y.indices], given, np.float32(0))
