"""What the learners of folds have seen, and what held-out documents are measured by."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail.corpus import Corpus
from longtail.data.synthetic import synthetic
from longtail.evaluate import evaluate
from longtail.fit import Fit
from longtail.labels import LabelIndex
from longtail.learners.folds import ALL_FOLDS, folds_held_out, out_of_fold, rows_of_folds
from longtail.learners.pipeline import Pipeline
from longtail.registry import build
from longtail.rerank.held_out import Folds, HeldOut, _found, known_labels, true_labels, truth_of, without_masked
from longtail.run import Run
from longtail.scores import Scores

ONE = {"part": "parabel", "trees": 1}


def small() -> Corpus:
    """Four documents and three labels: label 0 in all, 1 in two, 2 in one."""
    Y = sp.csr_matrix(np.array([[1, 1, 0], [1, 1, 0], [1, 0, 1], [1, 0, 0]], dtype=np.float32))
    return Corpus(labels=LabelIndex(["a", "b", "c"]), Y=Y, X=sp.csr_matrix(np.eye(4, dtype=np.float32))).counted()


def test_counts_of_folds_by_hand():
    # documents 0 and 2 are held out first, then 1 and 3
    folds = Folds.held_out([np.array([0, 2]), np.array([1, 3])], small())
    assert folds.of.tolist() == [0, 0, 1, 1]
    assert folds.counts.tolist() == [[2, 1, 0], [2, 1, 1]]
    assert folds.documents.tolist() == [2, 2]
    assert folds.counts_of(np.array([[2], [1], [2], [0]], dtype=np.int32)).tolist() == [[0], [1], [1], [2]]
    whole = LabelIndex(["a", "b", "c"], None, np.array([2, 1, 1]), 2).inverse_propensity()
    np.testing.assert_allclose(folds.inverse_propensity(0.55, 1.5)[1], whole, rtol=1e-6)


def test_labels_that_a_fold_never_saw_are_not_on_its_shortlists():
    folds = Folds.held_out([np.array([0, 2]), np.array([1, 3])], small())
    ids = np.array([[2, 0], [0, 2], [2, 0], [2, 0]], dtype=np.int32)
    known = known_labels(
        Scores(ids, np.tile(np.float32([0.9, 0.5]), (4, 1))), small().rows(np.array([0, 2, 1, 3])), folds
    )
    assert known.ids.tolist() == [[0, -1], [0, -1], [2, 0], [2, 0]]


def test_psp_is_divided_by_all_true_labels_listed_or_not():
    """One document is listed rightly, one not at all: PSP@1 is what `evaluate` says of the same."""
    corpus = small()
    scores = Scores(np.array([[0], [0], [0], [-1]], dtype=np.int32), np.full((4, 1), 0.5, np.float32))
    held_out = HeldOut.of(scores, corpus, Folds.none(4, corpus.labels), 0.55, 1.5)
    q = corpus.labels.inverse_propensity()
    np.testing.assert_allclose(held_out.ideal[:, 0], [q[1], q[1], q[2], q[0]], rtol=1e-6)
    P1, PSP1, PSP3 = held_out.measures(scores.values)[:3]
    assert pytest.approx(3 / 4) == P1
    assert pytest.approx(3 * q[0] / (2 * q[1] + q[2] + q[0])) == PSP1
    assert pytest.approx(3 * q[0] / (4 * q[0] + 2 * q[1] + q[2])) == PSP3


def test_measures_are_those_of_evaluate():
    whole = synthetic(documents=600, labels=80, words=500, words_per_document=15, signal=0.15, seed=3)
    train, test = whole.split(0.5, np.random.default_rng(0))
    train = train.counted()
    test = test.aligned(train.labels)
    scores = build(ONE).fit(train).score(test, 30)
    held_out = HeldOut.of(scores, test, Folds.none(len(test), train.labels), 0.55, 1.5)
    assert (held_out.scores.ids == scores.ids).all() or (train.labels.frequency == 0).any()
    report = evaluate(held_out.scores, test, all_labels=True) if (train.labels.frequency == 0).any() else None
    found = held_out.measures(held_out.scores.values) * 100
    report = report or evaluate(scores, test)
    assert found[0] == pytest.approx(report["P@1"], abs=1e-3)
    for at, k in ((1, 1), (2, 3), (3, 5)):
        assert found[at] == pytest.approx(report[f"PSP@{k}"], abs=1e-3)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000))
def test_places_are_those_of_a_stable_sort(seed):
    """Ties, padding and lists shorter than five included."""
    rng = np.random.default_rng(seed)
    n, k = 7, int(rng.integers(1, 9))
    F, q = rng.integers(4, size=(n, k)).astype(np.float32), rng.uniform(1, 9, (n, k)).astype(np.float32)
    truth = rng.random((n, k)) < 0.4
    ids = np.where(np.arange(k) < rng.integers(k + 1, size=(n, 1)), np.arange(k), -1).astype(np.int32)
    hits, gains = np.zeros(5), np.zeros(5)
    for d in range(n):
        listed = np.flatnonzero(ids[d] >= 0)
        for place, b in enumerate(listed[np.argsort(-F[d, listed], kind="stable")][:5]):
            hits[place] += truth[d, b]
            gains[place] += truth[d, b] * q[d, b]
    found = _found(F, ids, truth, q)
    np.testing.assert_allclose(found, (hits, gains), rtol=1e-6)


def test_doubles_of_a_document_stay_in_its_fold():
    corpus = synthetic(documents=300, labels=40, words=400, words_per_document=15, seed=2)
    apart = rows_of_folds(4, corpus, Run())
    # without doubles, the drawn documents in equal parts
    parts = np.array_split(Run().rng("out-of-fold").permutation(300), 4)
    assert all((np.sort(part) == rows).all() for part, rows in zip(parts, apart, strict=True))
    doubled = corpus.rows(np.concatenate([np.arange(300), np.arange(100), np.arange(50)]))
    fold = np.empty(450, dtype=np.int64)
    for number, rows in enumerate(rows_of_folds(4, doubled, Run())):
        fold[rows] = number
        assert abs(len(rows) - 450 / 4) < 5
    assert (fold[:100] == fold[300:400]).all() and (fold[:50] == fold[400:]).all()
    texts = Corpus(Y=doubled.Y, labels=doubled.labels, texts=[str(row % 150) for row in range(450)])
    for rows in rows_of_folds(4, texts, Run()):
        assert {row % 150 for row in rows.tolist()} == {row % 150 for row in rows if row < 150}
    # all documents alike: no fold takes them all
    same = Corpus(Y=doubled.Y, labels=doubled.labels, texts=["same"] * 450)
    assert [len(rows) for rows in rows_of_folds(4, same, Run())] == [113, 113, 112, 112]


def test_out_of_fold_a_label_of_one_document_is_never_true_and_its_fold_knows():
    corpus = synthetic(documents=400, labels=120, words=400, words_per_document=15, seed=2).counted()
    pipeline = Pipeline(learner=ONE, rerank=["calibrated-propensity"])
    pipeline.features_ = None
    scores, seen, folds = out_of_fold(pipeline, corpus, corpus, Fit(Run()))
    assert len(seen) == len(corpus) == len(folds.of) and len(folds.counts) == 4
    truth, left = truth_of(scores, seen), folds.counts_of(scores.ids)
    whole = corpus.labels.frequency[scores.ids]
    listed = scores.ids >= 0
    assert not truth[listed & (whole == 1)].any()  # what calibration by counts of the whole would learn
    assert truth[listed & (left == 1)].any()
    indptr, labels = true_labels(seen)
    assert indptr[-1] == len(labels) == seen.Y.nnz
    for fold in range(4):
        rows = np.flatnonzero(folds.of == fold)
        others = np.flatnonzero(folds.of != fold)
        np.testing.assert_array_equal(folds.counts[fold], np.bincount(seen.rows(others).Y.indices, minlength=120))
        assert folds.documents[fold] == len(others) == len(seen) - len(rows)


def test_how_many_folds_are_held_out():
    cheap, thorough, none = build("calibrated-propensity"), build("ranknet"), build("inverse-propensity")
    assert folds_held_out([none], 100) == 0
    assert folds_held_out([cheap], ALL_FOLDS) == 4 and folds_held_out([cheap], ALL_FOLDS + 1) == 1
    assert folds_held_out([cheap, thorough], ALL_FOLDS + 1) == 4


def test_masked_pairs_are_neither_right_nor_wrong():
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
    for part in ("ranknet", "calibrated-propensity"):
        one, other = build(part).fit(scores, masked), build(part).fit(left, gone)
        for name, array in one.state().items():
            np.testing.assert_array_equal(array, other.state()[name])
