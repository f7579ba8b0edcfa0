"""Numbers worked by hand, conventions, and agreement with the naive implementation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_metrics import make_corpus, make_scores, naive

from longtail.errors import InputError, UsageError
from longtail.evaluate import evaluate
from longtail.evaluate.metrics import count, document_metrics, left_out, most_left_out, true_pairs
from longtail.labels import LabelIndex
from longtail.scores import Scores


def with_propensities(rankings, truth, q, ks, psndcg="sum"):
    """Percentages under inverse propensities of one's own."""
    corpus = make_corpus(truth, np.ones(len(q), dtype=int))
    bands = corpus.labels.bands()
    counts = count(make_scores(rankings), corpus, ks=ks, inverse_propensity=np.array(q, dtype=float), bands=bands)
    documents = document_metrics(counts, bands, psndcg)
    return {name: 100 * documents.value(name) for name in documents.numerators}


def test_inverse_propensities_of_eurlex_and_amazoncat():
    # C = (ln N - 1)(B + 1)^A and q = 1 + C (n + B)^-A with A = 0.55, B = 1.5.
    # EUR-Lex, N = 15,449: C = (9.6453 - 1) * 2.5^0.55 = 14.31
    counts = np.array([1, 2, 5, 10, 50, 100, 1000])
    eurlex = LabelIndex([str(c) for c in counts], None, counts, 15_449).inverse_propensity(0.55, 1.5)
    assert np.round(eurlex, 2).tolist() == [9.65, 8.18, 6.11, 4.73, 2.64, 2.13, 1.32]
    assert (np.diff(eurlex) < 0).all()
    # AmazonCat-13K, N = 1,186,239: C = 21.50
    amazon = LabelIndex(["a", "b"], None, np.array([1, 100]), 1_186_239).inverse_propensity(0.55, 1.5)
    assert np.round(amazon, 2).tolist() == [13.99, 2.69]


def test_precision_recall_and_ndcg_of_one_document():
    # Truth {0, 2, 4}, ranking 0 1 2 3 4: hits at places 1, 3, 5.
    # P@1 = 1, P@3 = 2/3, P@5 = 3/5; R@1 = 1/3, R@3 = 2/3, R@5 = 1; RP@5 = 3/min(5, 3) = 1.
    # DCG@3 = 1 + 1/log2(4) = 1.5, ideal = 1 + 0.63093 + 0.5 = 2.13093: nDCG@3 = 0.70392.
    # DCG@5 = 1.5 + 1/log2(6) = 1.88685, the same ideal (three labels): nDCG@5 = 0.88546.
    report = evaluate(make_scores([[0, 1, 2, 3, 4]]), make_corpus([{0, 2, 4}], [10] * 5))
    expected = {
        "P@1": 100, "P@3": 66.6667, "P@5": 60, "R@1": 33.3333, "R@3": 66.6667, "R@5": 100,
        "RP@1": 100, "RP@3": 66.6667, "RP@5": 100, "nDCG@1": 100, "nDCG@3": 70.3918, "nDCG@5": 88.5460,
    }  # fmt: skip
    result = report.to_dict()
    assert {name: result[name] for name in expected} == expected


def test_psp_of_the_maintainers_example():
    # pyxclib issue 3: the true labels have q = 4, 5, 6, 1, 2, 3; the three predicted have 1, 2, 3.
    # PSP@3 = (1 + 2 + 3) / (4 + 5 + 6) = 6/15 = 40 %: the 1/k cancels.
    values = with_propensities([[3, 4, 5]], [{0, 1, 2, 3, 4, 5}], [4, 5, 6, 1, 2, 3], (3,))
    assert values["PSP@3"] == pytest.approx(40.0)


def test_psp_is_a_ratio_of_sums_not_a_mean_of_ratios():
    # First document: its label of q = 1 is found (1 of 1). Second: its label of q = 9 is missed (0 of 9).
    # Ratio of sums: 1/10. The mean of the two ratios would be 50 %.
    values = with_propensities([[0], [0]], [{0}, {1}], [1, 9], (1,))
    assert values["PSP@1"] == pytest.approx(10.0)
    assert values["P@1"] == pytest.approx(50.0)


def test_psndcg_in_both_normalisations():
    # k = 2, discounts 1 and d = 1/log2(3) = 0.63093.
    # First document: truth {0} with q = 2, ranking 3 0: gain 2d = 1.26186, best 2, ideal DCG 1.
    # Second: truth {1, 2} with q = 3 and 1, ranking 2 1: gain 1 + 3d = 2.89279, best 3 + d = 3.63093, ideal DCG 1 + d.
    # sum:  (1.26186 + 2.89279) / (2 + 3.63093) = 73.783 %
    # mean: (1.26186 + 2.89279/1.63093) / (2 + 3.63093/1.63093) = 3.03557 / 4.22630 = 71.826 %
    given = ([[3, 0], [2, 1]], [{0}, {1, 2}], [2, 3, 1, 1], (1, 2))
    assert with_propensities(*given)["PSnDCG@2"] == pytest.approx(73.783, abs=1e-3)
    assert with_propensities(*given, psndcg="mean")["PSnDCG@2"] == pytest.approx(71.826, abs=1e-3)
    assert with_propensities(*given)["PSnDCG@1"] == with_propensities(*given, psndcg="mean")["PSnDCG@1"]


def test_predicting_only_frequent_labels_has_much_lower_psp_than_p():
    truth = [{0, c} for c in range(1, 9)]
    report = evaluate(make_scores([[0]] * 8), make_corpus(truth, [5000] + [1] * 8, documents=10_000), ks=(1,))
    assert report["P@1"] == 100
    assert report["PSP@1"] < 15


def test_the_best_possible_ranking_gives_100():
    rng = np.random.default_rng(0)
    truth = [set(rng.choice(40, size=5 + row % 3, replace=False).tolist()) for row in range(30)]
    counts = rng.integers(1, 60, 40)
    corpus = make_corpus(truth, counts)
    q = corpus.labels.inverse_propensity()
    rankings = [sorted(t, key=lambda c: (-q[c], c)) for t in truth]
    for psndcg in ("sum", "mean"):
        report = evaluate(make_scores(rankings), corpus, ks=(1, 3, 5), psndcg=psndcg)
        for name in ("P", "nDCG", "PSP", "PSnDCG", "RP"):
            assert [report[f"{name}@{k}"] for k in (1, 3, 5)] == pytest.approx([100] * 3)
    # recall and the figures by label are complete once k reaches the longest truth
    report = evaluate(make_scores(rankings), corpus, ks=(7,))
    for name in ("nDCG", "PSP", "PSnDCG", "R", "RP", "coverage_true", "found", "macro_P", "macro_R"):
        assert report[f"{name}@7"] == pytest.approx(100)
    for band in report.bands:
        assert band.pairs and band.figures["recall@7"] == band.figures["precision@7"] == 100


def test_padding_and_missing_places_count_as_wrong():
    corpus = make_corpus([{0, 1}, {2}], [3, 3, 3])
    scores = Scores(np.array([[0, -1], [-1, -1]], dtype=np.int32), np.array([[0.9, 0], [0, 0]], dtype=np.float32))
    report = evaluate(scores, corpus, ks=(1, 4))
    # P@4 = (1/4 + 0) / 2: the denominator is k, though only two places are stored and three labels exist
    assert report["P@4"] == 12.5
    assert report["P@1"] == 50
    assert any("Fewer than 4 predictions for 2 documents" in note for note in report.notes)


def test_k_may_exceed_everything_without_memory_for_it():
    report = evaluate(make_scores([[0, 1]]), make_corpus([{1}], [3, 3]), ks=(2, 10**12))
    assert report[f"R@{10**12}"] == report["R@2"] == 100
    assert report[f"nDCG@{10**12}"] == pytest.approx(report["nDCG@2"])
    assert report[f"P@{10**12}"] == pytest.approx(1e-10)


def test_ties_are_ranked_by_label_id():
    corpus = make_corpus([{1}], [3, 3, 3])
    tied = sp.csr_matrix(np.array([[0, 0.5, 0.5]]))
    assert evaluate(Scores.from_csr(tied, 1), corpus, ks=(1,))["P@1"] == 100
    tied = sp.csr_matrix(np.array([[0.5, 0.5, 0.5]]))
    assert evaluate(Scores.from_csr(tied, 1), corpus, ks=(1,))["P@1"] == 0


def test_reciprocal_pairs_are_neither_rewarded_nor_punished():
    # The document is label 0. Ranking 0 1 2 becomes 1 2; truth {0, 1} becomes {1}.
    truth, rankings = [{0, 1}], [[0, 1, 2]]
    filtered = evaluate(make_scores(rankings), make_corpus(truth, [3] * 3, reciprocal=[(0, 0)]), ks=(1, 2))
    assert filtered["P@1"] == 100
    assert filtered["P@2"] == 50
    assert filtered["R@1"] == 100  # of one true label, not two
    assert any("before ranking: 1 reciprocal pair." in note for note in filtered.notes)
    # a wrong first place is no longer held against the ranking
    wrong = [[0, 1, 2]], [{1}]
    assert evaluate(make_scores(wrong[0]), make_corpus(wrong[1], [3] * 3), ks=(1,))["P@1"] == 0
    assert evaluate(make_scores(wrong[0]), make_corpus(wrong[1], [3] * 3, reciprocal=[(0, 0)]), ks=(1,))["P@1"] == 100
    # other documents keep the label
    two = make_corpus([{1}, {0}], [3] * 3, reciprocal=[(0, 0)])
    assert evaluate(make_scores([[0, 1], [0, 1]]), two, ks=(1,))["P@1"] == 100


def test_masked_pairs_are_neither_rewarded_nor_punished():
    # Document 0 ranks 0 1 2, has 0 (masked) and 1, and 2 wrongly: without the masked pair its first label is right.
    corpus = make_corpus([{0, 1}, {2}], [3] * 3)
    masked = replace(corpus, pair_weight=np.array([0, 1, 1], np.float32))
    scores = make_scores([[0, 1, 2], [2, 0, 1]])
    report = evaluate(scores, masked, ks=(1, 2))
    without = evaluate(make_scores([[1, 2], [2, 0, 1]]), make_corpus([{1}, {2}], [3] * 3), ks=(1, 2))
    assert report.values == without.values and report["P@2"] == 50
    assert any("before ranking: 1 masked pair." in note for note in report.notes)
    assert (masked.Y != corpus.Y).nnz == 0 and masked.Y.nnz == 3  # the corpus is as it was
    both = replace(masked, reciprocal=sp.csr_matrix(([True], ([1], [0])), shape=(2, 3)))
    assert evaluate(scores, both, ks=(2,))["P@2"] == 50  # document 1 is left with 2 and 1
    assert left_out(both).toarray().tolist() == [[True, False, False], [True, False, False]]
    assert true_pairs(both).toarray().tolist() == [[False, True, False], [False, False, True]]
    assert most_left_out(corpus) == 0 and most_left_out(both) == 1


def test_a_document_left_without_truth_by_the_filter_is_not_counted():
    report = evaluate(make_scores([[0], [1]]), make_corpus([{0}, {1}], [3, 3], reciprocal=[(0, 0)]), ks=(1,))
    assert (report.documents, report.documents_without_labels, report["P@1"]) == (1, 1, 100)


def test_documents_without_labels_are_counted_out_and_reported():
    report = evaluate(make_scores([[0], [1], [2]]), make_corpus([{0}, set(), {1}], [3] * 3), ks=(1,))
    assert report["P@1"] == 50  # of two documents, not three
    assert report["coverage@1"] == pytest.approx(200 / 3)  # label 1 is predicted only where nothing is counted
    assert (report.documents, report.documents_without_labels) == (2, 1)
    assert report.notes[0] == "Not counted: 1 of 3 documents, because they have no known label."
    assert report.per_document.rows.tolist() == [0, 2]


def test_weak_targets_are_not_true():
    corpus = make_corpus([{0: 0.5, 1: 0.49, 2: 1.0}], [3] * 3)
    report = evaluate(make_scores([[0, 1]]), corpus, ks=(1, 2))
    assert (report["P@1"], report["P@2"], report["R@2"]) == (100, 50, 50)
    assert any("1 pair with a target below 0.5" in note for note in report.notes)


def test_labels_never_seen_in_training_count_as_misses_under_all_labels():
    training = make_corpus([{0}, {1}, {0}], [2, 1], documents=3).labels
    test = make_corpus([{0, 2}, {2}], [0, 0, 0], documents=0)
    scores = make_scores([[0, 1], [1, 0]])
    known = evaluate(scores, test.aligned(training), ks=(1, 2))
    assert (known.documents, known["R@1"], known["RP@2"]) == (1, 100, 100)
    everything = evaluate(scores, test.aligned(training, keep_unknown=True), ks=(1, 2))
    # first document: 1 of 2 labels; second: 0 of 1
    assert (everything.documents, everything["R@1"], everything["RP@2"]) == (2, 25, 25)
    assert everything.bands[0].name == "unseen"
    assert everything.bands[0].figures["recall@2"] == 0
    assert everything.bands[0].pairs == 2
    assert any("never seen in training: 2 pairs of 1 label." in note for note in everything.notes)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ks": (0, 1)}, "at least 1"),
        ({"ks": (-3,)}, "at least 1"),
        ({"ks": (1.5,)}, "whole number"),
        ({"ks": (True,)}, "whole number"),
        ({"ks": ()}, "at least one k"),
        ({"psndcg": "sums"}, "did you mean 'sum'"),
        ({"B": 0.0}, "B > 0"),
        ({"A": float("nan")}, "A >= 0"),
        ({"edges": (5, 3)}, "band edges"),
        ({"bootstrap": -1}, "negative"),
        ({"bootstrap": 5, "confidence": 1.0}, "confidence"),
    ],
)
def test_options_that_do_not_fit_are_refused_in_one_line(options, message):
    with pytest.raises(UsageError, match=message) as error:
        evaluate(make_scores([[0]]), make_corpus([{0}], [3]), **options)
    assert "\n" not in str(error.value)


def test_scores_that_do_not_fit_the_corpus_are_refused():
    corpus = make_corpus([{0}, {1}], [3, 3])
    with pytest.raises(UsageError, match="1 documents cannot be evaluated on a corpus of 2"):
        evaluate(make_scores([[0]]), corpus)
    with pytest.raises(UsageError, match="label column 7, the corpus has 2 labels"):
        evaluate(make_scores([[0], [7]]), corpus)
    with pytest.raises(UsageError, match="document 1 name a label twice"):
        evaluate(make_scores([[0, 1], [1, 1]]), corpus)


@pytest.mark.parametrize("truth", [[], [set(), set()]])
def test_nothing_to_measure_is_said_in_one_line(truth):
    corpus = make_corpus(truth, [3])
    with pytest.raises(InputError, match=f"none of the {len(truth)} documents has a label"):
        evaluate(Scores.empty(len(truth), 5), corpus)


@st.composite
def problems(draw):
    """Small rankings and truths with everything that can go wrong: padding, soft targets, filters, unseen labels."""
    L = draw(st.integers(1, 8))
    n = draw(st.integers(1, 6))
    label = st.integers(0, L - 1)
    target = st.sampled_from([0.25, 0.5, 0.75, 1.0])
    truth = draw(st.lists(st.dictionaries(label, target, max_size=L), min_size=n, max_size=n))
    rankings = draw(st.lists(st.lists(label, unique=True, max_size=L), min_size=n, max_size=n))
    counts = draw(st.lists(st.integers(0, 30), min_size=L, max_size=L))
    reciprocal = draw(st.sets(st.tuples(st.integers(0, n - 1), label), max_size=4))
    ks = tuple(sorted(draw(st.sets(st.integers(1, 10), min_size=1, max_size=4))))
    return truth, rankings, counts, reciprocal, ks, draw(st.sampled_from(["sum", "mean"]))


@settings(deadline=None, max_examples=200)
@given(problems())
def test_every_metric_agrees_with_the_naive_implementation(problem):
    truth, rankings, counts, reciprocal, ks, psndcg = problem
    corpus = make_corpus(truth, counts, documents=500, reciprocal=reciprocal)
    scores = make_scores(rankings, k=max([1, *map(len, rankings)]))
    q = corpus.labels.inverse_propensity(0.6, 2.6)
    bands = corpus.labels.bands((2, 9))
    counted = [any(t >= 0.5 and (row, c) not in reciprocal for c, t in y.items()) for row, y in enumerate(truth)]
    if not any(counted):
        with pytest.raises(InputError):
            evaluate(scores, corpus, ks=ks)
        return
    report = evaluate(scores, corpus, ks=ks, A=0.6, B=2.6, edges=(2, 9), psndcg=psndcg)
    values, per_band = naive(rankings, truth, counts, ks=ks, q=q, bands=bands, psndcg=psndcg, reciprocal=reciprocal)
    result = report.to_dict()
    assert report.values.keys() == values.keys()
    for name, value in values.items():
        assert result[name] == (None if value is None else pytest.approx(value, abs=1e-4)), name
    assert len(result["bands"]) == len(per_band)
    for band, expected in zip(result["bands"], per_band, strict=True):
        assert band.keys() - {"name", "counts"} == expected.keys()
        for name, value in expected.items():
            assert band[name] == (None if value is None else pytest.approx(value, abs=1e-4)), (band["name"], name)
    assert report.documents == sum(counted)
    # laws that hold for any ranking
    if 1 in ks:
        assert report["PSP@1"] == pytest.approx(report["PSnDCG@1"])
        assert report["P@1"] == pytest.approx(report["nDCG@1"])
    for k in ks:
        assert sum(band.figures[f"contribution@{k}"] for band in report.bands) == pytest.approx(report[f"P@{k}"])
        assert report[f"P@{k}"] <= report[f"RP@{k}"] + 1e-9
    assert all(np.isnan(value) or -1e-9 <= value <= 100 + 1e-9 for value in report.values.values())
