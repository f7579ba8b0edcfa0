"""The first k labels of any longer list are the k best: asking for more never changes what comes first."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail.corpus import Corpus
from longtail.data.synthetic import synthetic
from longtail.learners.base import Learner
from longtail.learners.ensemble import Ensemble
from longtail.learners.linear.average import depths
from longtail.learners.linear.fastxml import FastXML, PfastreXML
from longtail.learners.linear.label_tree import Bonsai, Parabel
from longtail.learners.linear.one_vs_all import OneVsAll
from longtail.learners.pipeline import Pipeline
from longtail.run import Run
from longtail.scores import Scores

N_LABELS = 260

LEARNERS = {
    "parabel": Parabel(trees=3, max_leaf=12),
    "parabel, one tree": Parabel(trees=1, max_leaf=12),
    "parabel, logistic": Parabel(trees=2, max_leaf=12, loss="logistic"),
    "bonsai": Bonsai(trees=3, branches=9, max_leaf=15, depth=3, beam=4),
    "bonsai, discount": Bonsai(trees=2, branches=9, max_leaf=15, depth=3, beam=4, discount=0.9),
    "one-vs-all": OneVsAll(prune=0.2),
    "fastxml": FastXML(trees=6),
    "pfastrexml": PfastreXML(trees=6, shortlist=7),
    "ensemble": Ensemble(members=[Parabel(trees=2, max_leaf=12), FastXML(trees=4)]),
    "re-ranked": Pipeline(learner=Parabel(trees=2), features=None, rerank=[{"part": "inverse-propensity", "depth": 9}]),
}


@cache
def corpora() -> tuple[Corpus, Corpus]:
    whole = synthetic(documents=900, labels=N_LABELS, words=500, words_per_document=12, seed=5)
    train, test = whole.split(0.1, np.random.default_rng(0))
    # documents without features, and the same features twice: scores that are equal everywhere
    blank = test.X[:20].copy()
    blank.data[:] = 0
    blank.eliminate_zeros()
    X = sp.vstack([test.X, blank, test.X[:5]], format="csr")
    Y = sp.vstack([test.Y, test.Y[:20], test.Y[:5]], format="csr")
    return train.counted(), Corpus(labels=test.labels, Y=Y, X=X)


@cache
def fitted(name: str) -> Learner:
    return LEARNERS[name].fit(corpora()[0], run=Run(seed=2))


@cache
def longest(name: str) -> Scores:
    return fitted(name).score(corpora()[1], N_LABELS)


@pytest.mark.parametrize("name", LEARNERS)
@settings(deadline=None, max_examples=12)
@given(k=st.integers(1, N_LABELS))
def test_the_first_of_a_longer_list(name: str, k: int) -> None:
    scores, longer = fitted(name).score(corpora()[1], k), longest(name)
    assert scores.ids.tobytes() == np.ascontiguousarray(longer.ids[:, :k]).tobytes()
    assert scores.values.tobytes() == np.ascontiguousarray(longer.values[:, :k]).tobytes()


@pytest.mark.parametrize("name", LEARNERS)
def test_the_longest_lists_are_in_order_and_hold_no_label_twice(name: str) -> None:
    scores = longest(name)
    assert (scores.sorted().ids == scores.ids).all()
    assert (scores.ids[:, 30] >= 0).mean() > 0.5, "lists are long enough to tell"
    for ids in scores.ids:
        there = ids[ids >= 0]
        assert len(set(there.tolist())) == len(there)
        assert (ids[len(there) :] == -1).all()


def test_separators_with_the_same_exponential_go_by_log_score_then_label() -> None:
    """Log-scores of -1e-9 and -2e-9 differ, their exponentials do not."""
    from longtail.learners.linear.average import average

    ids = np.array([[[9, 3, 4]]], dtype=np.int32)
    log_scores = np.array([[[-1e-9, -2e-9, -2e-9]]], dtype=np.float32)
    found = []
    for k in (1, 2, 3):
        out_ids, out_values = np.empty((1, k), np.int32), np.empty((1, k), np.float32)
        average(ids[:, :, :k], log_scores[:, :, :k], np.array(depths(k, 10, 1)), out_ids, out_values)
        assert (Scores(out_ids, out_values).sorted().ids == out_ids).all()
        found.append(out_ids[0].tolist())
    assert found == [[9], [9, 3], [9, 3, 4]]


@given(st.integers(1, 3000), st.integers(1, 3000))
def test_steps_do_not_depend_on_what_is_asked_for(k: int, n_labels: int) -> None:
    k = min(k, n_labels)
    steps, all_steps = depths(k, n_labels, 3), depths(n_labels, n_labels, 3)
    assert steps[-1][1] == k and all_steps[-1] == (n_labels, n_labels)
    for (depth, places), (same, longer) in zip(steps, all_steps, strict=False):
        assert depth == same and (places == longer or places == k <= longer)
    assert depths(min(5, n_labels), n_labels, 3)[0][0] == min(50, n_labels)
