"""RankNet: the loss by hand, its derivative, the blocks against numpy, and what it must not do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail.data.synthetic import synthetic
from longtail.decide.calibrate import Calibrator
from longtail.registry import build
from longtail.rerank.propensity import InversePropensity
from longtail.rerank.ranknet import RankNet
from longtail.rerank.ranknet_kernels import (
    Blocks,
    LabelFacts,
    LossSettings,
    forward,
    loss_gradient,
    truth_of,
    without_masked,
)
from longtail.run import Run
from longtail.scores import Scores
from longtail.tagger import Tagger


def loss_of(F, truth, counts, *, weight=None, margin=0.1, balance=1.0):
    F, k = np.asarray(F, dtype=np.float32), len(F)
    weight = np.ones(k, np.float32) if weight is None else np.asarray(weight, np.float32)
    slope = np.zeros(k, dtype=np.float32)
    ids = np.arange(k, dtype=np.int32)
    facts = LabelFacts(np.asarray(counts, np.float32), weight)
    return loss_gradient(ids, F, np.asarray(truth), facts, settings_of(margin, balance), slope), slope


def settings_of(margin, balance):
    return LossSettings(np.float32(margin), np.float32(balance), np.float32(0.01), np.float32(0))


def after_blocks(part, scores):
    return forward(part._shortlists(scores), Blocks(part.w1_, part.w2_), part._scale())


def test_the_loss_by_hand():
    # labels 0 (90 documents) and 1 (10) are true, 2 is wrong; F = 0.9, 0.5, 0.45, c = 0.1
    # first term: label 0 is the more frequent and lies above: (90-10)/(90+10) * 0.4 = 0.32; both orders of the pair in
    #   the double sum have the same value, and the mean over the two ordered pairs is 0.32
    # second term: [0.45 - 0.9 + 0.1]+ = 0 and [0.45 - 0.5 + 0.1]+ = 0.05, mean over two pairs 0.025
    value, slope = loss_of([0.9, 0.5, 0.45], [True, True, False], [90, 10, 5])
    assert value == pytest.approx(0.32 + 0.025, abs=1e-6)
    np.testing.assert_allclose(slope, [0.8, -0.8 - 0.5, 0.5], atol=1e-6)


def test_a_rare_label_above_a_frequent_one_costs_nothing():
    assert loss_of([0.5, 0.9], [True, True], [90, 10])[0] == 0
    assert loss_of([0.9, 0.9], [True, True], [90, 10])[0] == 0  # no margin in the first term


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10_000))
def test_the_slope_is_the_derivative(seed):
    rng = np.random.default_rng(seed)
    k = 6
    F, truth, counts = rng.normal(size=k), rng.random(k) < 0.5, rng.integers(1, 100, k)
    weight = rng.uniform(1, 5, k)
    _, slope = loss_of(F, truth, counts, weight=weight, balance=0.7)
    for b in range(k):
        step = np.zeros(k)
        step[b] = 1e-2
        up, down = (loss_of(F + s, truth, counts, weight=weight, balance=0.7)[0] for s in (step, -step))
        # the loss is piecewise linear: away from a kink the two differences agree
        here = loss_of(F, truth, counts, weight=weight, balance=0.7)[0]
        if abs((up - here) - (here - down)) < 1e-6:
            assert (up - down) / 2e-2 == pytest.approx(slope[b], abs=2e-3)


@pytest.fixture(scope="module")
def problem():
    whole = synthetic(documents=3000, labels=300, words=2000, words_per_document=15, signal=0.12, seed=6)
    train, test = whole.split(0.3, np.random.default_rng(0))
    train = train.counted()
    rows = np.random.default_rng(1).permutation(len(train))
    learner = build({"part": "parabel", "trees": 1}).fit(train.rows(np.sort(rows[700:])))
    held_out = train.rows(np.sort(rows[:700]))
    return learner.score(held_out, 40), held_out, learner.score(test, 40), test


def psp(scores, corpus, k):
    from longtail.evaluate import evaluate

    return evaluate(scores, corpus, ks=(k,))[f"PSP@{k}"]


@pytest.mark.parametrize("start", ["scores", "inverse-propensity", "calibrated"])
@pytest.mark.parametrize("blocks", [1, 2])
def test_the_blocks_against_numpy(problem, start, blocks):
    shortlist, held_out, _, _ = problem
    part = RankNet(start=start, blocks=blocks, width=5, epochs=2, patience=5).fit(shortlist, held_out, run=Run())
    rng = np.random.default_rng(0)
    part.w2_ = rng.normal(size=part.w2_.shape).astype(np.float32) * 0.05
    few = shortlist.rows(np.arange(20))
    F = part._start(few).astype(np.float64)
    shift, scale = part._shift(few).astype(np.float64), float(part._scale())
    for d in range(20):
        present = few.ids[d] >= 0
        ids = few.ids[d][present]
        y = F[d, present]
        for block in range(blocks):
            read = y if scale == 0 else np.minimum(1, np.exp((y - shift[d, present] - 1) * scale))
            y = y + part.w2_[block][ids] @ np.maximum(0, read @ part.w1_[block][ids])
        np.testing.assert_allclose(after_blocks(part, few)[d, present], y, rtol=1e-4, atol=1e-5)


def test_training_lowers_the_loss_it_is_given(problem):
    """A pass that did nothing, or went the wrong way, would not."""
    shortlist, held_out, _, _ = problem
    truth = truth_of(shortlist, held_out)
    counts = held_out.labels.frequency

    def total(part):
        F = after_blocks(part, shortlist)
        rows = np.flatnonzero(truth.any(axis=1))
        return np.mean([loss_of_row(F[d], truth[d], counts, shortlist.ids[d]) for d in rows])

    def loss_of_row(F, right, counts, ids):
        slope = np.zeros(len(F), dtype=np.float32)
        weight = np.ones(len(counts), np.float32)
        facts = LabelFacts(counts.astype(np.float32), weight)
        return loss_gradient(ids[ids >= 0], F, right, facts, settings_of(0.1, 1.0), slope)

    untrained = RankNet(start="scores", epochs=0).fit(shortlist, held_out, run=Run())
    trained = RankNet(start="scores", epochs=5, patience=99).fit(shortlist, held_out, run=Run())
    trained_last = RankNet(start="scores", epochs=5, patience=99)
    trained_last._worth = _always_better()  # keep the last weights, whatever validation says
    trained_last.fit(shortlist, held_out, run=Run())
    assert total(trained_last) < total(untrained)
    assert np.abs(trained_last.w2_).max() > 0
    assert trained.w2_.shape == untrained.w2_.shape


def _always_better():
    counter = iter(range(10_000))
    return lambda *_: float(next(counter))


def test_it_is_no_worse_than_inverse_propensity_where_it_may_choose(problem):
    shortlist, held_out, test_shortlist, test = problem
    for strength in (0.0, 0.5, 1.0):
        plain = InversePropensity(strength=strength).fit(shortlist, held_out).rerank(test_shortlist, held_out)
        part = RankNet(strength=strength, epochs=0).fit(shortlist, held_out, run=Run())
        ranked = part.rerank(test_shortlist, held_out)
        truth = truth_of(shortlist, held_out)
        # on the documents it chose from it is no worse by construction; on others within noise
        assert (part.share_, part.exponent_) == (0.0, strength) or truth.any()
        for k in (1, 3, 5):
            assert psp(ranked, test, k) > psp(plain, test, k) - 1.0


def test_strength_moves_along_the_trade_off(problem):
    shortlist, held_out, test_shortlist, _ = problem
    counts = held_out.labels.frequency
    mean = []
    for strength in (0.0, 0.5, 1.0, 2.0):
        part = RankNet(strength=strength, epochs=0, start="inverse-propensity").fit(shortlist, held_out, run=Run())
        mean.append(counts[part.rerank(test_shortlist, held_out).ids[:, 0]].mean())
    assert mean == sorted(mean, reverse=True) and mean[0] > mean[-1]
    free = RankNet(epochs=0).fit(shortlist, held_out, run=Run())
    assert 0 <= free.exponent_ <= 1.2 and 0 <= free.share_ <= 1


def test_hostile_states_are_refused(problem):
    shortlist, held_out, _, _ = problem
    state = RankNet(epochs=0, width=4).fit(shortlist, held_out, run=Run()).state()
    for name, value in (("w1", state["w1"][:, :-1]), ("start", np.array([2.0, 0.5])), ("q", state["q"] * 0),
                        ("calibration", np.zeros(3)), ("w2", state["w2"].astype(np.float64))):  # fmt: skip
        with pytest.raises(ValueError, match=r"fit|start|finite|calibration|float32"):
            RankNet(epochs=0, width=4).restore({**state, name: value})


def test_in_a_tagger_it_learns_from_documents_the_learner_did_not_see(monkeypatch):
    whole = synthetic(documents=800, labels=80, words=600, words_per_document=15, seed=2)
    seen = {}

    def fit(self, scores, corpus, *, run=None):
        seen["right"] = truth_of(scores, corpus)[:, 0].mean()
        seen["documents"] = len(corpus)
        return original(self, scores, corpus, run=run)

    original = RankNet.fit
    monkeypatch.setattr(RankNet, "fit", fit)
    tagger = Tagger({"part": "parabel", "trees": 1}, rerank=[{"part": "ranknet", "epochs": 1}]).fit(whole)
    in_sample = tagger.learner.score(tagger.pipeline.with_features(whole, Run()), 1)
    assert seen["documents"] == len(whole)  # four folds make up the whole of a small corpus
    assert seen["right"] < truth_of(in_sample, whole)[:, 0].mean()


def test_calibration_tells_how_often_a_score_is_right():
    rng = np.random.default_rng(0)
    values = np.sort(rng.uniform(0.05, 0.95, (4000, 10)), axis=1)[:, ::-1].astype(np.float32)
    ids = np.tile(np.arange(10, dtype=np.int32), (4000, 1))
    counts = np.where(np.arange(10) < 5, 1, 100)
    # scores of rare labels are twice too high, those of frequent ones are right
    chance = np.where(counts[ids] == 1, values / 2, values)
    truth = rng.random(values.shape) < chance
    scores = Scores(ids, values)
    p = np.exp(Calibrator().fit(scores, truth, counts, rng).log_probability(scores, counts))
    for rare in (True, False):
        for low in (0.1, 0.4, 0.7):
            here = (values > low) & (values < low + 0.2) & ((counts[ids] == 1) == rare)
            if here.sum() > 500:
                assert p[here].mean() == pytest.approx(truth[here].mean(), abs=0.05)


def test_a_masked_pair_is_neither_right_nor_wrong():
    corpus = synthetic(documents=200, labels=30, words=200, seed=3).counted()
    rng = np.random.default_rng(0)
    ids = np.array([rng.permutation(30)[:20] for _ in range(len(corpus))], dtype=np.int32)
    scores = Scores(ids, rng.random(ids.shape, dtype=np.float32)).sorted()
    masked = replace(corpus, pair_weight=(rng.random(corpus.Y.nnz) < 0.5).astype(np.float32))
    hidden = corpus.Y.copy()
    hidden.data = np.where(masked.pair_weight == 0, 1, 0).astype(np.float32)
    left = without_masked(scores, masked)
    for row, own in enumerate(hidden.toarray()):
        kept = [label for label in scores.ids[row] if not own[label]]
        assert left.ids[row, : len(kept)].tolist() == kept
        assert (left.ids[row, len(kept) :] == -1).all()
    # what the mask hides may be anything: here the same documents without those pairs and without those candidates
    gone = replace(corpus, Y=masked.positives())
    one, other = RankNet(width=4).fit(scores, masked), RankNet(width=4).fit(left, gone)
    np.testing.assert_array_equal(one.w2_, other.w2_)
