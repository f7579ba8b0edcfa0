"""A small corpus that any learner can learn, with the oddities real ones have."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from longtail.corpus import Corpus
from longtail.labels import LabelIndex

N, L, D = 90, 14, 40


def small_corpus(seed: int = 0) -> Corpus:
    """90 documents, 14 labels of falling frequency, two features a label plus noise.

    Document 3 has no labels, document 5 no features, document 7 neither; label 13 has no document.
    """
    rng = np.random.default_rng(seed)
    share = 1.0 / np.arange(1, L)
    Y = np.zeros((N, L), dtype=np.float32)
    for row in range(N):
        Y[row, rng.choice(L - 1, size=rng.integers(1, 4), replace=False, p=share / share.sum())] = 1
    X = np.zeros((N, D), dtype=np.float32)
    for row in range(N):
        for label in np.flatnonzero(Y[row]):
            X[row, [2 * label, 2 * label + 1]] = rng.uniform(0.6, 1.0, size=2)
        X[row, rng.integers(2 * L, D, size=3)] = rng.uniform(0.05, 0.3, size=3)
    Y[[3, 7]] = 0
    X[[5, 7]] = 0
    lengths = np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-9)
    texts = [" ".join(f"word{j:02d}" for j in np.flatnonzero(x)) for x in X]
    labels = LabelIndex([f"label {j}" for j in range(L)], [f"word{2 * j:02d} word{2 * j + 1:02d}" for j in range(L)])
    return Corpus(labels=labels, Y=sp.csr_matrix(Y), X=sp.csr_matrix(X / lengths), texts=texts).counted()


@pytest.fixture
def corpus() -> Corpus:
    return small_corpus()
