"""XDA's filter: examples worked by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp

from longtail.augment.xda.filtering import best_share, consistency, divergence, scaled
from longtail.scores import Scores


def scores(*rows: list[tuple[int, float]]) -> Scores:
    ids = np.array([[label for label, _ in row] for row in rows], dtype=np.int32)
    return Scores(ids, np.array([[value for _, value in row] for row in rows], dtype=np.float32))


def test_divergence_by_hand() -> None:
    Y = sp.csr_matrix(np.array([[1, 1, 0, 0], [0, 0, 1, 0], [1, 0, 0, 0]], dtype=np.float32))
    found = scores([(0, 0.6), (2, 0.2)], [(2, 0.5), (-1, 0.0)], [(-1, 0.0), (-1, 0.0)])
    kl = divergence(found, Y, 0.2)
    # p = (3/4, 0, 1/4, 0); q = 0.8 (1/2, 1/2, 0, 0) + 0.2 (1/4, ...) = (.45, .45, .05, .05)
    assert kl[0] == pytest.approx(0.75 * math.log(0.75 / 0.45) + 0.25 * math.log(0.25 / 0.05))
    assert kl[1] == pytest.approx(math.log(1 / 0.85)), "q of the label is 0.8 + 0.05"
    assert kl[2] == 0, "a text that gets no label differs from nothing"


def test_without_smoothing_only_what_is_off_the_labels_counts() -> None:
    """With a floor of 1e-12 how the labels share their part hardly matters; with 0.1 it does."""
    Y = sp.csr_matrix(np.ones((2, 2), dtype=np.float32) @ np.eye(2, 4, dtype=np.float32))
    found = scores([(0, 0.45), (1, 0.45), (2, 0.1)], [(0, 0.85), (2, 0.1), (1, 0.05)])
    hard, soft = divergence(found, Y, 1e-12), divergence(found, Y, 0.1)
    assert abs(hard[0] - hard[1]) < 0.25 * hard[0] and abs(soft[0] - soft[1]) > 0.5 * soft[0]


def test_soft_targets_are_shares_too() -> None:
    Y = sp.csr_matrix(np.array([[1, 0.5]], dtype=np.float32))
    kl = divergence(scores([(0, 0.8), (1, 0.4)]), Y, 1e-12)
    assert kl[0] == pytest.approx(0, abs=1e-6), "the learner gives exactly the targets' shares"


def test_consistency_by_hand() -> None:
    made = scores([(3, 0.9), (1, 0.5), (0, 0.1)], [(2, 0.9), (0, 0.1), (-1, 0)], [(1, 0.9), (0, 0.1), (2, 0.1)])
    source = scores([(1, 0.9), (3, 0.8), (2, 0.1)], [(0, 0.9), (2, 0.1), (-1, 0)], [(1, 0.9), (3, 0.1), (-1, 0)])
    found = consistency(made, source, np.array([2, 1, 0]), 4)
    assert found.tolist() == [1.0, 0.0, 1.0], "k is the number of labels, at least 1; order within does not count"
    assert consistency(made, source, np.array([3, 2, 9]), 4).tolist() == [2 / 3, 1.0, 1 / 3]


def test_scaling() -> None:
    assert scaled(np.array([2.0, 4.0, 3.0])).tolist() == [0, 1, 0.5]
    assert scaled(np.array([5.0, 5.0])).tolist() == [0, 0]
    assert scaled(np.array([])).tolist() == []


def test_the_best_share_per_document_or_of_all() -> None:
    score = np.array([0.1, 0.9, 0.5, 0.5, 0.2, 0.3])
    group = np.array([0, 0, 0, 0, 7, 7])
    assert best_share(score, group, 0.5).tolist() == [False, True, True, False, False, True], "the first of equals"
    assert best_share(score, group, 0.01).tolist() == [False, True, False, False, False, True], "one at least"
    assert best_share(score, None, 0.5).tolist() == [False, True, True, True, False, False]
    assert best_share(score, None, 1.0).all()
