"""Inverse propensity re-ranking."""

from __future__ import annotations

import numpy as np
import pytest

from longtail.data.synthetic import synthetic
from longtail.labels import LabelIndex
from longtail.rerank.propensity import InversePropensity
from longtail.scores import Scores
from longtail.tagger import Tagger


class Corpus:
    """All the re-ranker reads of a corpus: its labels."""

    labels = LabelIndex(["head", "middle", "tail"], counts=np.array([1000, 10, 1]), documents=15_449)


SHORTLIST = Scores(
    np.array([[0, 1, 2], [0, 2, -1]], dtype=np.int32), np.array([[0.9, 0.5, 0.1], [0.9, 0.2, 0]], dtype=np.float32)
)


def test_by_hand():
    # q = 1.32, 4.73, 9.65 (N = 15,449): 0.9 q = 1.19, 0.5 q = 2.37, 0.1 q = 0.97; and 1.19 against 0.2 q = 1.93
    scores = InversePropensity().fit(SHORTLIST, Corpus).rerank(SHORTLIST, Corpus)
    assert scores.ids.tolist() == [[1, 0, 2], [2, 0, -1]]
    np.testing.assert_allclose(scores.values[0], np.array([2.366, 1.188, 0.965]) / 9.651, rtol=2e-3)


def test_strength_goes_from_nothing_to_everything():
    untouched = InversePropensity(strength=0.0).fit(SHORTLIST, Corpus).rerank(SHORTLIST, Corpus)
    assert untouched.ids.tolist() == SHORTLIST.ids.tolist()
    np.testing.assert_allclose(untouched.values, SHORTLIST.values)
    half = InversePropensity(strength=0.5).fit(SHORTLIST, Corpus).rerank(SHORTLIST, Corpus)
    assert half.ids.tolist() == [[1, 0, 2], [0, 2, -1]]


def test_values_stay_in_bounds_and_hostile_states_are_refused():
    part = InversePropensity(strength=3.0).fit(SHORTLIST, Corpus)
    values = part.rerank(SHORTLIST, Corpus).values
    assert values.min() >= 0 and values.max() <= 1
    for q in (np.array([0.5]), np.array([np.nan]), np.array([[1.0]]), np.array([2], dtype=np.int64)):
        with pytest.raises(ValueError, match=r"q|propensities"):
            InversePropensity().restore({"q": q})


def test_end_to_end_it_moves_rare_labels_up_and_acts_on_a_long_shortlist():
    whole = synthetic(documents=2000, labels=400, words=2000, words_per_document=20, signal=0.15, seed=4)
    train, test = whole.split(0.3, np.random.default_rng(0))
    train = train.counted()
    plain = Tagger({"part": "parabel", "trees": 1}).fit(train)
    ranked = Tagger({"part": "parabel", "trees": 1}, rerank=["inverse-propensity"]).fit(train)
    before, after = plain.evaluate(test), ranked.evaluate(test)
    assert after["PSP@1"] > before["PSP@1"]
    counts = train.labels.frequency
    assert counts[ranked.score(test, 1).ids].mean() < counts[plain.score(test, 1).ids].mean()
    # with a shortlist of only k labels the set of labels could not change
    assert (np.sort(plain.score(test, 5).ids) != np.sort(ranked.score(test, 5).ids)).any()
