"""Calibrated propensity: what it chooses, what it must not learn from folds, and models that called it ranknet."""

from __future__ import annotations

import numpy as np
import pytest

from longtail.data.synthetic import synthetic
from longtail.decide.calibrate import Calibrator
from longtail.evaluate import evaluate
from longtail.fit import Fit
from longtail.labels import LabelIndex
from longtail.learners.folds import out_of_fold
from longtail.learners.pipeline import Pipeline
from longtail.rerank.calibrated_propensity import CalibratedPropensity
from longtail.rerank.held_out import Folds, HeldOut
from longtail.rerank.propensity import InversePropensity
from longtail.run import Run
from longtail.scores import Scores


class OfLabels:
    """All that ranking reads of a corpus."""

    labels = LabelIndex(["head", "middle", "tail"], counts=np.array([1000, 10, 1]), documents=15_449)


def test_by_hand():
    # without a calibrator and with an exponent of 1 it is inverse propensity: 0.9 * 1.32, 0.5 * 4.73, 0.1 * 9.65
    shortlist = Scores(np.array([[0, 1, 2]], dtype=np.int32), np.array([[0.9, 0.5, 0.1]], dtype=np.float32))
    part = CalibratedPropensity()
    q = OfLabels.labels.inverse_propensity().astype(np.float32)
    part.restore({"q": q, "counts": np.float32([1000, 10, 1]), "start": np.array([0.0, 1.0])})
    ranked = part.rerank(shortlist, OfLabels)  # type: ignore[arg-type]
    assert ranked.ids.tolist() == [[1, 0, 2]]
    np.testing.assert_allclose(ranked.values[0], [2.366 / 3.366, 1.188 / 2.188, 0.965 / 1.965], rtol=2e-3)
    # half the logarithm of q: 0.9 * 1.15, 0.5 * 2.18, 0.1 * 3.11
    part.exponent_ = 0.5
    assert part.rerank(shortlist, OfLabels).ids.tolist() == [[1, 0, 2]]  # type: ignore[arg-type]
    part.exponent_ = 0.0
    untouched = part.rerank(shortlist, OfLabels)  # type: ignore[arg-type]
    np.testing.assert_allclose(untouched.values[0], [0.9 / 1.9, 1 / 3, 0.1 / 1.1], rtol=1e-5)


def test_calibration_by_hand():
    """log F = (1 - a) log f + a log p + e log q: half of 0.9 and 0.1 is 0.3, half of 0.5 and 0.32 is 0.4."""
    probability = np.array([0.1, 0.32, 0.9])

    class Told(Calibrator):
        """Label by label, whatever the score: 0.1, 0.32 and 0.9."""

        def log_probability(self, scores, counts):
            assert counts.tolist() == [[1000, 10, 1]]
            return np.log(probability[scores.ids])

    shortlist = Scores(np.array([[0, 1, 2]], dtype=np.int32), np.array([[0.9, 0.5, 0.1]], dtype=np.float32))
    part = CalibratedPropensity()
    q = OfLabels.labels.inverse_propensity().astype(np.float32)
    part.restore({"q": q, "counts": np.float32([1000, 10, 1]), "start": np.array([0.5, 0.0])})
    part.calibrator_ = Told()
    ranked = part.rerank(shortlist, OfLabels)  # type: ignore[arg-type]
    assert ranked.ids.tolist() == [[1, 0, 2]]
    np.testing.assert_allclose(ranked.values[0], [0.4 / 1.4, 0.3 / 1.3, 0.3 / 1.3], rtol=1e-5)
    # all of p and all of q: 0.1 * 1.32, 0.32 * 4.73, 0.9 * 9.65
    part.share_, part.exponent_ = 1.0, 1.0
    ranked = part.rerank(shortlist, OfLabels)  # type: ignore[arg-type]
    assert ranked.ids.tolist() == [[2, 1, 0]]
    np.testing.assert_allclose(ranked.values[0], [8.686 / 9.686, 1.514 / 2.514, 0.132 / 1.132], rtol=2e-3)


def test_it_acts_and_is_no_worse_than_inverse_propensity_where_it_may_choose(problem):
    shortlist, documents, folds, test_shortlist, test = problem
    for strength in (0.0, 0.5, 1.0):
        plain = InversePropensity(strength=strength).fit(shortlist, documents).rerank(test_shortlist, test)
        part = CalibratedPropensity(strength=strength)
        part.fit_held_out(shortlist, documents, folds, run=Run())
        ranked = part.rerank(test_shortlist, test)
        for k in (1, 3, 5):  # on the documents it chose by it is no worse by construction; on others within noise
            assert evaluate(ranked, test)[f"PSP@{k}"] > evaluate(plain, test)[f"PSP@{k}"] - 1.0
    free = CalibratedPropensity()
    free.fit_held_out(shortlist, documents, folds, run=Run())
    assert free.acted()["calibrated"] and 0 <= free.exponent_ <= 1.2 and 0 <= free.share_ <= 1
    ranked = free.rerank(test_shortlist, test)
    assert (ranked.ids != test_shortlist.ids).any()
    assert evaluate(ranked, test)["PSP@1"] > evaluate(test_shortlist, test)["PSP@1"]


def test_strength_is_how_much_precision_may_be_spent(problem):
    """On the documents it chooses by, it is as precise as inverse propensity of that strength, and as good in PSP."""
    shortlist, documents, folds, _, _ = problem
    held_out = HeldOut.of(shortlist, documents, folds, 0.55, 1.5)
    plain = np.log(np.maximum(held_out.scores.values, 1e-4))
    worth = np.log(np.maximum(held_out.q, 1))
    precision = []
    for strength in (0.0, 0.5, 1.0):
        part = CalibratedPropensity(strength=strength)
        part.fit_held_out(shortlist, documents, folds, run=Run())
        calibrated = part._logarithms(held_out.scores, held_out.counts)[1]
        found = held_out.measures((1 - part.share_) * plain + part.share_ * calibrated + part.exponent_ * worth)
        bar = held_out.measures(plain + strength * worth)
        assert found[0] >= bar[0] - 0.0011 and (found[1:4] >= bar[1:4] - 1e-9).all()
        precision.append(bar[0])
    assert precision[0] > precision[-1]  # so that a strength of 1 may spend some


def test_calibration_of_rare_labels_goes_by_what_the_folds_have_seen():
    """By counts of the whole, labels of one document are never true; by those of the folds, as often as on test."""
    whole = synthetic(documents=2400, labels=1200, words=2500, words_per_document=15, signal=0.3, seed=6)
    train, test = whole.split(0.4, np.random.default_rng(0))
    train = train.counted()
    test = test.aligned(train.labels)
    pipeline = Pipeline(learner={"part": "parabel", "trees": 1}, rerank=[{"part": "ranknet", "depth": 20}])
    shortlist, documents, folds = out_of_fold(pipeline, train, train, Fit(Run()))
    after, before = CalibratedPropensity(), CalibratedPropensity()
    after.fit_held_out(shortlist, documents, folds, run=Run())
    before.fit(shortlist, documents, run=Run())
    scores = pipeline.learner.fit(train).score(test, 20)
    held_out = HeldOut.of(scores, test, Folds.none(len(test), train.labels), 0.55, 1.5)
    rare = (held_out.scores.ids >= 0) & (held_out.counts == 1)
    rare[:, 10:] = False
    share = held_out.truth[rare].mean()
    said = {name: part.probabilities(held_out.scores)[rare].mean() for name, part in (("b", before), ("a", after))}
    assert rare.sum() > 200 and share > 0
    assert said["a"] > said["b"]
    assert abs(np.log(said["a"] / share)) < abs(np.log(said["b"] / share))


def test_out_of_fold_lists_go_on_as_test_documents_would(problem):
    """What follows in the list reads values that were made with the counts of the folds."""
    shortlist, documents, folds, _, _ = problem
    part = CalibratedPropensity()
    given = part.fit_held_out(shortlist, documents, folds, run=Run())
    by_whole = part.rerank(shortlist, documents)
    assert (np.sort(given.ids, axis=1) == np.sort(shortlist.ids, axis=1)).all()
    assert (given.values != by_whole.values).any()


def test_calibration_tells_how_often_a_score_is_right():
    rng = np.random.default_rng(0)
    values = np.sort(rng.uniform(0.05, 0.95, (4000, 10)), axis=1)[:, ::-1].astype(np.float32)
    ids = np.tile(np.arange(10, dtype=np.int32), (4000, 1))
    counts = np.where(np.arange(10) < 5, 1, 100)[ids]
    # scores of rare labels are twice too high, those of frequent ones are right
    truth = rng.random(values.shape) < np.where(counts == 1, values / 2, values)
    scores = Scores(ids, values)
    p = np.exp(Calibrator().fit(scores, truth, counts, rng).log_probability(scores, counts))
    for rare in (True, False):
        for low in (0.1, 0.4, 0.7):
            here = (values > low) & (values < low + 0.2) & ((counts == 1) == rare)
            if here.sum() > 500:
                assert p[here].mean() == pytest.approx(truth[here].mean(), abs=0.05)


def test_hostile_states_are_refused(problem):
    shortlist, documents, _, _, _ = problem
    state = CalibratedPropensity().fit(shortlist, documents, run=Run()).state()
    for name, value in (("counts", state["counts"][:-1]), ("start", np.array([2.0, 0.5])), ("q", state["q"] * 0),
                        ("calibration", np.zeros(3)), ("q", state["q"].astype(np.float64))):  # fmt: skip
        with pytest.raises(ValueError, match=r"as many|start|finite|calibration|float32"):
            CalibratedPropensity().restore({**state, name: value})


def test_what_was_called_ranknet_is_read_as_what_it_does(problem):
    shortlist, documents, _, test_shortlist, test = problem
    part = CalibratedPropensity().fit(shortlist, documents, run=Run())
    zero = np.zeros((1, 300, 64), dtype=np.float32)
    older = {**part.state(), "w1": zero + 1, "w2": zero}
    again = CalibratedPropensity()
    again.restore(older)
    assert again.rerank(test_shortlist, test).values.tobytes() == part.rerank(test_shortlist, test).values.tobytes()
    with pytest.raises(ValueError, match="blocks of a form that is gone; train it again"):
        again.restore({**older, "w2": zero + 1})
