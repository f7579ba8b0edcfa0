"""Intervals and paired differences."""

from __future__ import annotations

import numpy as np
import pytest
from naive_metrics import make_corpus, make_scores

from longtail.errors import UsageError
from longtail.evaluate import bootstrap, evaluate, paired_difference


def random_problem(seed, n=61, L=12):
    rng = np.random.default_rng(seed)
    truth = [set(rng.choice(L, size=rng.integers(1, 5), replace=False).tolist()) for _ in range(n)]
    rankings = [rng.permutation(L)[:6].tolist() for _ in range(n)]
    return truth, rankings, make_corpus(truth, rng.integers(1, 40, L))


def test_intervals_are_those_of_resampled_corpora():
    # Each resample evaluated as a corpus of its own must give the numbers the matrix products give.
    truth, rankings, corpus = random_problem(1)
    report = evaluate(make_scores(rankings), corpus, ks=(1, 3), bootstrap=40, confidence=0.9, rng=7)
    drawn = np.random.default_rng(7).integers(len(truth), size=(40, len(truth)), dtype=np.int32)
    repeats = [evaluate(make_scores(rankings).rows(rows), corpus.rows(rows), ks=(1, 3)) for rows in drawn]
    for name in ("P@1", "nDCG@3", "PSP@3", "PSnDCG@3", "R@3", "RP@3"):
        expected = np.quantile([repeat[name] for repeat in repeats], [0.05, 0.95])
        assert report.intervals[name] == pytest.approx(tuple(expected)), name
    tail = np.quantile([repeat.bands[0].figures["recall@3"] for repeat in repeats], [0.05, 0.95])
    assert report.bands[0].intervals["recall@3"] == pytest.approx(tuple(tail))
    assert report.to_dict()["intervals"]["P@1"] == pytest.approx(report.intervals["P@1"], abs=1e-4)
    assert report.to_dict()["bands"][0]["intervals"]["recall@3"] == pytest.approx(tuple(tail), abs=1e-4)


def test_the_width_is_that_of_a_binomial():
    # P@1 of n independent documents, half of them right: standard error sqrt(0.25 / n).
    n = 400
    corpus = make_corpus([{0}] * n, [9, 9])
    report = evaluate(make_scores([[row % 2] for row in range(n)]), corpus, ks=(1,), bootstrap=2000)
    low, high = report.intervals["P@1"]
    assert high - low == pytest.approx(2 * 1.96 * 100 * np.sqrt(0.25 / n), rel=0.1)
    assert low < report["P@1"] < high


def test_same_seed_same_intervals_whatever_the_block(monkeypatch):
    _, rankings, corpus = random_problem(2)
    first = evaluate(make_scores(rankings), corpus, bootstrap=50, rng=3).intervals
    assert first == evaluate(make_scores(rankings), corpus, bootstrap=50, rng=np.random.default_rng(3)).intervals
    assert first != evaluate(make_scores(rankings), corpus, bootstrap=50, rng=4).intervals
    monkeypatch.setattr(bootstrap, "BLOCK", 7 * len(corpus))
    again = evaluate(make_scores(rankings), corpus, bootstrap=50, rng=3).intervals
    for name, pair in first.items():
        assert again[name] == pytest.approx(pair)


def test_no_intervals_unless_asked_for():
    _, rankings, corpus = random_problem(3)
    result = evaluate(make_scores(rankings), corpus).to_dict()
    assert "intervals" not in result
    assert "intervals" not in result["bands"][0]


def test_a_band_without_pairs_has_no_interval():
    report = evaluate(make_scores([[0], [0]]), make_corpus([{0}, {0}], [2, 50]), ks=(1,), bootstrap=20)
    assert report.to_dict()["bands"][2]["intervals"] == {"recall@1": [None, None], "precision@1": [None, None]}
    assert report.to_dict()["bands"][0]["intervals"]["recall@1"] == [100, 100]


def test_a_model_does_not_differ_from_itself():
    _, rankings, corpus = random_problem(4)
    documents = evaluate(make_scores(rankings), corpus).per_document
    for difference in paired_difference(documents, documents, resamples=50).values():
        assert (difference.difference, difference.low, difference.high, difference.p) == (0, 0, 0, 1)


def test_a_better_model_differs_and_swapping_turns_the_sign():
    truth, rankings, corpus = random_problem(5)
    better = [[*sorted(t), *(c for c in r if c not in t)] for t, r in zip(truth, rankings, strict=True)]
    a = evaluate(make_scores(rankings), corpus)
    b = evaluate(make_scores(better), corpus)
    found = paired_difference(a.per_document, b.per_document, resamples=500)
    for name in ("P@1", "PSP@5", "nDCG@3", "tail/recall@5"):
        assert found[name].low > 0
        assert found[name].p == pytest.approx(2 / 501)
    assert found["P@1"].difference == pytest.approx(b["P@1"] - a["P@1"])
    assert found["PSP@5"].difference == pytest.approx(b["PSP@5"] - a["PSP@5"])
    back = paired_difference(b.per_document, a.per_document, resamples=500)
    assert back["P@1"].difference == pytest.approx(-found["P@1"].difference)
    assert back["P@1"].high == pytest.approx(-found["P@1"].low)


def test_pairing_sees_what_two_separate_intervals_miss():
    # 5 of 200 documents gain a hit, none loses one: the two intervals overlap widely, the paired one excludes 0.
    n = 200
    corpus = make_corpus([{0}] * n, [9, 9])
    first = evaluate(make_scores([[row % 2] for row in range(n)]), corpus, ks=(1,), bootstrap=500)
    second = evaluate(make_scores([[0 if row < 10 else row % 2] for row in range(n)]), corpus, ks=(1,), bootstrap=500)
    assert first.intervals["P@1"][1] > second.intervals["P@1"][0]
    found = paired_difference(first.per_document, second.per_document)["P@1"]
    assert found.difference == pytest.approx(2.5)
    assert found.low > 0
    assert found.p < 0.05


def test_chance_differences_are_not_called_significant():
    corpus = make_corpus([{0}] * 300, [9, 9])
    rng = np.random.default_rng(0)
    significant = 0
    for _ in range(40):
        a, b = (evaluate(make_scores(rng.integers(2, size=(300, 1)).tolist()), corpus, ks=(1,)) for _ in range(2))
        significant += paired_difference(a.per_document, b.per_document, resamples=200, rng=rng)["P@1"].p < 0.05
    assert significant <= 6  # 2 expected


def test_reports_on_different_documents_cannot_be_paired():
    _, rankings, corpus = random_problem(6)
    whole = evaluate(make_scores(rankings), corpus).per_document
    half = evaluate(make_scores(rankings).rows(slice(30)), corpus.rows(np.arange(30))).per_document
    with pytest.raises(UsageError, match="same documents"):
        paired_difference(whole, half)
    with pytest.raises(UsageError, match="resamples"):
        paired_difference(whole, whole, resamples=0)
