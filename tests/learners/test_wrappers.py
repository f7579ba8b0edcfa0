"""Decoupled and Ensemble."""

from __future__ import annotations

import numpy as np
import pytest

from longtail.errors import UsageError
from longtail.learners.decoupled import Decoupled
from longtail.learners.ensemble import Ensemble
from longtail.learners.linear.label_tree import Parabel
from longtail.read.synthetic import synthetic
from longtail.registry import build, config_of
from longtail.run import Run

ONE = {"part": "parabel", "trees": 1}


@pytest.fixture(scope="module")
def corpora():
    whole = synthetic(documents=1200, labels=200, words=1500, words_per_document=30, seed=5)
    train, test = whole.split(0.2, np.random.default_rng(0))
    return train.counted(), test


def test_each_side_of_decoupled_is_a_model_of_its_own_labels_and_documents(corpora):
    train, test = corpora
    learner = Decoupled(learner=ONE, tau=0.1, gate=0.0).fit(train)
    head = train.labels.head_by_share(0.1)
    assert head.sum() == 20
    columns = np.flatnonzero(~head)
    tail = train.columns(columns)
    alone = Parabel(trees=1).fit(tail.rows(np.flatnonzero(np.diff(tail.Y.indptr))), run=Run())
    scores, own = learner.score(test, 30), alone.score(test, 200)
    for i in range(0, len(test), 40):
        merged = {label: v for label, v in zip(scores.ids[i], scores.values[i], strict=True) if not head[label]}
        expected = {columns[label]: v for label, v in zip(own.ids[i], own.values[i], strict=True) if label >= 0}
        assert merged == pytest.approx({label: expected[label] for label in merged})


def test_decoupled_scores_stay_sorted_and_reach_both_sides(corpora):
    train, test = corpora
    scores = Decoupled(learner=ONE, tau=0.1).fit(train).score(test, 10)
    assert (np.diff(scores.values, axis=1) <= 0).all()
    head = train.labels.head_by_share(0.1)
    assert head[scores.ids].any()
    assert (~head)[scores.ids].any()


def test_the_gate_lowers_tail_scores_of_documents_without_tail_labels(corpora):
    train, test = corpora
    head = train.labels.head_by_share(0.1)
    has_tail = np.asarray(test.Y[:, np.flatnonzero(~head)].sum(axis=1)).ravel() > 0
    printed, gated = (Decoupled(learner=ONE, gate=g).fit(train).score(test, 200) for g in (0.0, 1.0))

    def best_tail(scores):
        return np.where(~head[scores.ids] & (scores.ids >= 0), scores.values, 0).max(axis=1)

    kept = best_tail(gated) / np.maximum(best_tail(printed), 1e-9)
    assert kept.max() <= 1 + 1e-6
    assert kept[has_tail].mean() > kept[~has_tail].mean() + 0.2
    heads = [
        {label: v for label, v in zip(s.ids[0], s.values[0], strict=True) if label >= 0 and head[label]}
        for s in (printed, gated)
    ]
    assert heads[0] == pytest.approx(heads[1])  # the head is left alone


def test_decoupled_by_count_and_impossible_splits(corpora):
    train, _ = corpora
    learner = Decoupled(learner=ONE, head_above=20).fit(train)
    assert learner.columns_[0].tolist() == np.flatnonzero(train.labels.frequency > 20).tolist()
    with pytest.raises(UsageError, match="the head has no labels"):
        Decoupled(learner=ONE, head_above=10**6).fit(train)
    with pytest.raises(UsageError, match="unknown learner"):
        Decoupled(learner="parabell")


def test_ensemble_by_hand(corpora):
    train, test = corpora
    learner = Ensemble(members=[ONE, {"part": "one-vs-all"}], weights=[3, 1]).fit(train)
    scores = learner.score(test, 3)
    a, b = (member.score(test, 200) for member in learner.members)
    for i in range(0, len(test), 60):
        total = {}
        for member, weight in ((a, 0.75), (b, 0.25)):
            for label, value in zip(member.ids[i][:100], member.values[i][:100], strict=True):
                total[label] = total.get(label, 0) + weight * value / member.values[i, 0]
        best = sorted(total.items(), key=lambda item: (-item[1], item[0]))[:3]
        np.testing.assert_allclose(scores.values[i], [value for _, value in best], rtol=1e-5)


def test_members_of_one_kind_draw_different_seeds(corpora):
    train, _ = corpora
    first, second = Ensemble(members=[ONE, ONE]).fit(train).members
    assert first.trees_[0].slot_target.tolist() != second.trees_[0].slot_target.tolist()


@pytest.mark.parametrize(
    "options",
    [
        {"members": []},
        {"weights": [1.0]},
        {"weights": [0.0, 0.0]},
        {"weights": [-1.0, 2.0]},
        {"scale": "maximum"},
        {"members": ["bonsay"]},
    ],
)
def test_ensembles_that_make_no_sense_are_refused(options):
    with pytest.raises(UsageError):
        build({"part": "ensemble", **options})


def test_nested_wrappers_survive_their_own_config():
    config = {"part": "ensemble", "members": [{"part": "decoupled", "learner": ONE}, ONE]}
    part = build(config)
    assert config_of(build(config_of(part))) == config_of(part)
    assert part.members[0].learner.trees == 1
