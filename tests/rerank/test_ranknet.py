"""RankNet: the loss by hand, its derivative, the blocks against numpy, that they move, and what they must not do."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail.corpus import Corpus
from longtail.data.synthetic import synthetic
from longtail.evaluate import evaluate
from longtail.labels import LabelIndex
from longtail.plan import Sizes
from longtail.rerank.held_out import HeldOut, truth_of
from longtail.rerank.ranknet import MOST_MATRIX, RankNet
from longtail.rerank.ranknet_kernels import (
    Blocks,
    LabelFacts,
    Lists,
    Loss,
    Squares,
    _chosen,
    forward,
    loss_gradient,
    one_pass,
)
from longtail.run import Run
from longtail.scores import Scores
from longtail.tagger import Tagger

#: The form of the paper; what the defaults are is another matter.
PRINTED = {"scale": "scores", "weight": "none", "negatives": "random"}


def loss(margin=0.1, balance=1.0, scale=0.0, rate=0.01, listed=True):
    return Loss(np.float32(margin), np.float32(balance), np.float32(rate), np.float32(scale), listed)


def loss_of(F, truth, counts, *, weight=None, **settings):
    F = np.asarray(F, dtype=np.float32)
    weight = np.ones(len(F), np.float32) if weight is None else np.asarray(weight, np.float32)
    slope = np.zeros(len(F), dtype=np.float32)
    role = np.where(truth, 1, -1).astype(np.int32)
    return loss_gradient(F, role, np.asarray(counts, np.float32), weight, loss(**settings), slope), slope


def test_the_loss_by_hand():
    # labels 0 (90 documents) and 1 (10) are true, 2 is wrong; F = 0.9, 0.5, 0.45, c = 0.1
    # first term: label 0 is the more frequent and lies above: (90-10)/(90+10) * 0.4 = 0.32, and the sum over i and j
    #   has the pair twice, (i, j) and (j, i), both factors with the other sign: 0.64
    # second term: [0.45 - 0.9 + 0.1]+ = 0 and [0.45 - 0.5 + 0.1]+ = 0.05
    value, slope = loss_of([0.9, 0.5, 0.45], [True, True, False], [90, 10, 5])
    assert value == pytest.approx(0.64 + 0.05, abs=1e-6)
    np.testing.assert_allclose(slope, [1.6, -1.6 - 1, 1], atol=1e-6)
    # sums, not means: a second wrong label of the same score costs as much again
    assert loss_of([0.9, 0.5, 0.45, 0.45], [True, True, False, False], [90, 10, 5, 5])[0] == pytest.approx(0.74)
    assert loss_of([0.9, 0.5, 0.45], [True, True, False], [90, 10, 5], balance=3.0)[0] == pytest.approx(0.64 + 0.15)


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
        if abs((up - here) - (here - down)) < 1e-5:
            assert (up - down) / 2e-2 == pytest.approx(slope[b], abs=5e-3)


def test_the_labels_that_the_loss_is_taken_over():
    """Listed 4 and 2, true 2 and 7, drawn 4, 9 and 9: wrong labels are those drawn, listed or not."""
    ids, true, drawn = (np.array(each, dtype=np.int32) for each in ([4, 2, 5, -1], [2, 7], [4, 9, 9]))
    place, chosen, role = np.full(10, -1, np.int32), np.zeros(9, np.int32), np.zeros(9, np.int32)
    n = _chosen(ids, true, drawn, False, place, chosen, role)
    assert dict(zip(chosen[:n].tolist(), role[:n].tolist(), strict=True)) == {4: -1, 2: 1, 5: 0, 7: 1, 9: -1}
    assert (place == -1).all()
    n = _chosen(ids, true, drawn[:0], True, place, chosen, role)
    assert dict(zip(chosen[:n].tolist(), role[:n].tolist(), strict=True)) == {4: -1, 2: 1, 5: -1, 7: 1}


def one_step(inner):
    """One document: label 1 is true and rare, label 0 is wrong and above it; y = 0.8 and 0.6."""
    lists = Lists(np.array([[0, 1]], np.int32), np.array([[0.8, 0.6]], np.float32), np.array([0, 1]),
                  np.array([1], np.int32), np.array([0]))  # fmt: skip
    facts = LabelFacts(np.array([[50, 2]], np.float32), np.ones((1, 2), np.float32))
    width = 2 if len(inner) == 0 else inner.shape[1]
    blocks = Blocks(np.zeros((1, 2, width), np.float32), np.asarray(inner, np.float32)[None])
    squares = Squares(np.full((1, 2), 1e-12, np.float32), np.full((1, len(inner)), 1e-12, np.float32))
    drawn = np.zeros((1, 0), np.int32)
    before = one_pass(np.array([0]), drawn, lists, facts, blocks, squares, loss(rate=0.1))
    return before, blocks, forward(lists.ids, lists.start, blocks, np.float32(0))[0]


def test_one_step_of_a_matrix_by_hand():
    # the loss is 0.8 - 0.6 + 0.1 = 0.3, its slope by F is +1 and -1; what was read is (0.8, 0.6), of length 1, so that
    # the first step of each row has the length of the rate, 0.1: W[0] = -0.1 (0.8, 0.6), W[1] = +0.1 (0.8, 0.6)
    before, blocks, F = one_step(np.zeros((0, 0)))
    assert before == pytest.approx(0.3)
    np.testing.assert_allclose(blocks.out[0], [[-0.08, -0.06], [0.08, 0.06]], atol=1e-6)
    np.testing.assert_allclose(F, [0.8 - 0.1, 0.6 + 0.1], atol=1e-6)


def test_one_step_of_a_bottleneck_by_hand():
    # one unit reads 0.8 + 0.6 = 1.4; W2 begins at 0, so W1 does not move: W2 = -0.1 and +0.1, F = y -+ 0.14
    before, blocks, F = one_step(np.ones((2, 1)))
    assert before == pytest.approx(0.3)
    np.testing.assert_allclose(blocks.out[0], [[-0.1], [0.1]], atol=1e-6)
    np.testing.assert_allclose(blocks.inner[0], 1)
    np.testing.assert_allclose(F, [0.8 - 0.14, 0.6 + 0.14], atol=1e-6)


@pytest.mark.parametrize("scale", ["scores", "logits"])
@pytest.mark.parametrize("form", ["matrix", "bottleneck"])
@pytest.mark.parametrize("count", [1, 2])
def test_the_blocks_against_numpy(problem, scale, form, count):
    shortlist = problem[0].rows(np.arange(20))
    part = RankNet(scale=scale, form=form, blocks=count, **({"width": 5} if form == "bottleneck" else {}))
    part.n_labels_ = 300
    rng = np.random.default_rng(0)
    out, inner = part._new_blocks(rng)
    assert out.shape == ((count, 300, 300) if form == "matrix" else (count, 300, 5)) and not out.any()
    out += rng.normal(size=out.shape).astype(np.float32) * 0.05
    start = part._start(shortlist)
    found = forward(shortlist.ids, start, Blocks(out, inner), part._unit())
    unit = float(part._unit())
    for d in range(20):
        present = shortlist.ids[d] >= 0
        ids, y = shortlist.ids[d][present], start[d, present].astype(np.float64)
        for block in range(count):
            read = y if unit == 0 else 1 / (1 + np.exp((1 - y) * unit))
            read = np.where(read >= 0.01, read, 0)
            if form == "matrix":
                y = y + out[block][np.ix_(ids, ids)] @ read
            else:
                y = y + out[block][ids] @ np.maximum(0, read @ inner[block][ids])
        np.testing.assert_allclose(found[d, present], y, rtol=1e-3, atol=1e-4)


def test_in_an_ordinary_run_the_blocks_move_and_are_kept(problem):
    """As printed, on the learner's scores. It fails if the blocks end at zero, whatever the reason."""
    shortlist, documents, folds, test_shortlist, test = problem
    part = RankNet(form="matrix", **PRINTED, learning_rate=0.03)
    part.fit_held_out(shortlist, documents, folds, run=Run())
    assert part.acted()["blocks kept"] and part.acted()["norm"] > 0.1
    assert part.losses_[-1] < part.losses_[0]
    assert part.after_ > part.before_
    ranked = part.rerank(test_shortlist, test)
    assert (ranked.ids != test_shortlist.ids).any()
    assert evaluate(ranked, test)["PSP@1"] > evaluate(test_shortlist, test)["PSP@1"]
    counts = documents.labels.frequency
    assert counts[ranked.ids[:, 0]].mean() < counts[test_shortlist.ids[:, 0]].mean()


def told_by_others(documents, seed, groups=10):
    """Shortlists in which only another label tells what is true.

    A document lists three labels of one of ten groups: one at 0.7, one at 0.5, and at 0.3 one of two cues, which is not
    true: with the first cue the label at 0.7 is right, with the second that at 0.5.
    """
    rng = np.random.default_rng(seed)
    group, second = rng.integers(groups, size=documents), rng.random(documents) < 0.3
    ids = (4 * group)[:, None] + np.column_stack([np.zeros(documents), np.ones(documents), np.where(second, 3, 2)])
    values = np.tile(np.float32([0.7, 0.5, 0.3]), (documents, 1))
    Y = sp.csr_matrix((np.ones(documents, np.float32), (np.arange(documents), 4 * group + second)),
                      shape=(documents, 4 * groups))  # fmt: skip
    counts = np.tile([140, 60, 20, 20], groups)
    labels = LabelIndex([str(label) for label in range(4 * groups)], None, counts, 2000)
    return Scores(ids.astype(np.int32), values), Corpus(Y=Y, labels=labels)


@pytest.mark.parametrize("form", ["matrix", "bottleneck"])
@pytest.mark.parametrize("negatives", ["random", "shortlist"])
def test_blocks_learn_what_other_labels_tell(form, negatives):
    """Nothing but the blocks can: the same scores are right in one document and wrong in the next. With the defaults,
    where the first passes change no order yet: training must not stop for that."""
    part = RankNet(form=form, negatives=negatives)
    part.fit(*told_by_others(2000, seed=0))
    assert part.acted()["blocks kept"] and part.acted()["norm"] > 0.5
    assert part.before_ < 0.9 and part.after_ > 0.98
    shortlist, test = told_by_others(500, seed=1)
    assert evaluate(shortlist, test)["P@1"] < 75
    assert evaluate(part.rerank(shortlist, test), test)["P@1"] > 90


def test_with_its_defaults_in_a_tagger_the_blocks_are_kept():
    whole = synthetic(documents=1500, labels=120, words=900, words_per_document=12, signal=0.15, seed=2)
    tagger = Tagger({"part": "parabel", "trees": 1}, rerank=["ranknet"]).fit(whole)
    assert tagger.pipeline.acted()["ranknet"]["blocks kept"]
    assert tagger.pipeline.acted()["ranknet"]["norm"] > 0


def test_what_training_stops_by(problem):
    """PSP alone, or the mean of P and PSP; not the sum of all that an order gives."""
    shortlist, documents, folds, _, _ = problem
    held_out = HeldOut.of(shortlist, documents, folds, 0.55, 1.5)
    P1, PSP1, PSP3, PSP5, P3, P5 = held_out.measures(held_out.scores.values)
    assert RankNet()._worth(held_out, held_out.scores.values) == pytest.approx((PSP1 + PSP3 + PSP5) / 3)
    mixed = RankNet(stop="mix")._worth(held_out, held_out.scores.values)
    assert mixed == pytest.approx((P1 + P3 + P5 + PSP1 + PSP3 + PSP5) / 6)


def test_blocks_that_help_nobody_are_dropped_and_said_to_be(problem):
    shortlist, documents, folds, test_shortlist, test = problem
    part = RankNet(**PRINTED, learning_rate=50.0, epochs=1)
    part.fit_held_out(shortlist, documents, folds, run=Run())
    assert part.acted() == {"blocks kept": False, "norm": 0.0}
    assert part.rerank(test_shortlist, test) is test_shortlist
    again = RankNet(**PRINTED, learning_rate=50.0, epochs=1)
    again.restore(part.state())
    assert not again.kept_ and again.n_labels_ == 300


def test_it_starts_from_any_re_ranker_before_it():
    whole = synthetic(documents=800, labels=80, words=600, words_per_document=15, seed=2)
    seen = {}
    original = RankNet._learn

    def learn(self, scores, corpus, folds, run):
        seen["scores"], seen["folds"] = scores, folds
        original(self, scores, corpus, folds, run)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RankNet, "_learn", learn)
        for before in ("inverse-propensity", "calibrated-propensity"):
            tagger = Tagger({"part": "parabel", "trees": 1}, rerank=[before, {"part": "ranknet", "epochs": 1}])
            tagger.fit(whole)
            # counts of the folds, and values of the re-ranker before, which are not the learner's
            assert seen["folds"].counts.shape == (4, 80)
            plain = Tagger({"part": "parabel", "trees": 1}, rerank=[{"part": "ranknet", "epochs": 1}])
            with_before = seen["scores"].values
            plain.fit(whole)
            assert (with_before != seen["scores"].values).any()


def test_it_learns_from_documents_the_learner_did_not_see():
    whole = synthetic(documents=800, labels=80, words=600, words_per_document=15, seed=2)
    seen = {}
    original = RankNet.fit_held_out

    def fit(self, scores, corpus, folds, *, run=None):
        seen["right"], seen["documents"] = truth_of(scores, corpus)[:, 0].mean(), len(corpus)
        return original(self, scores, corpus, folds, run=run)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RankNet, "fit_held_out", fit)
        tagger = Tagger({"part": "parabel", "trees": 1}, rerank=[{"part": "ranknet", "epochs": 1}]).fit(whole)
    in_sample = tagger.learner.score(tagger.pipeline.with_features(whole, Run()), 1)
    assert seen["documents"] == len(whole)
    assert seen["right"] < truth_of(in_sample, whole)[:, 0].mean()


def test_what_it_needs_is_planned():
    few, many = (Sizes(documents=1000, labels=labels, pairs=3000) for labels in (MOST_MATRIX, MOST_MATRIX + 1))
    (matrix,), (bottleneck,) = (RankNet().plan(sizes, Run()) for sizes in (few, many))
    assert matrix.kept == 4 * MOST_MATRIX**2 and matrix.peak > 2 * matrix.kept
    assert bottleneck.kept == 4 * (MOST_MATRIX + 1) * 2 * 64
    assert RankNet()._matrix(MOST_MATRIX) and not RankNet()._matrix(MOST_MATRIX + 1)


def test_hostile_states_are_refused():
    part = RankNet(form="bottleneck", width=4)
    part.n_labels_ = 30
    part.weights_ = part._new_blocks(np.random.default_rng(0))
    state = part.state()
    bad = (("out", state["out"][:, :-1]), ("inner", state["inner"].astype(np.float64)), ("out", state["out"] * np.nan))
    for name, value in bad:
        with pytest.raises(ValueError, match=r"needed|finite"):
            RankNet(form="bottleneck", width=4).restore({**state, name: value})
    for wrong in (RankNet(), RankNet(form="bottleneck", width=5)):
        with pytest.raises(ValueError, match="are needed"):
            wrong.restore(state)


def test_values_stay_in_bounds_and_padding_stays_padding(problem):
    shortlist, documents, folds, _, _ = problem
    part = RankNet(**PRINTED, learning_rate=0.03)
    part.fit_held_out(shortlist, documents, folds, run=Run())
    short = Scores(np.array([[3, 5, -1]], np.int32), np.array([[0.9, 0.2, 0]], np.float32))
    ranked = part.rerank(short, documents)
    assert sorted(ranked.ids[0].tolist()) == [-1, 3, 5] and ranked.ids[0, 2] == -1 and ranked.values[0, 2] == 0
    assert ranked.values.min() >= 0 and ranked.values.max() <= 1
