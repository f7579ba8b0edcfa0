"""Figures by frequency of the labels."""

from __future__ import annotations

import numpy as np
import pytest
from naive_metrics import make_corpus, make_scores

from longtail.errors import UsageError
from longtail.evaluate import evaluate

# Labels 0, 1 are tail (2 and 5 training documents), 2 is middle (20), 3, 4 are head (21, 900).
COUNTS = [2, 5, 20, 21, 900]
TRUTH = [{0, 3}, {0, 4}, {2, 3}, {3}]
RANKINGS = [[3, 0], [4, 1], [3, 2], [4, 0]]


def by_name(report):
    return {band["name"]: band for band in report.to_dict()["bands"]}


def test_bands_of_a_small_example():
    bands = by_name(evaluate(make_scores(RANKINGS), make_corpus(TRUTH, COUNTS), ks=(1, 2)))
    assert {name: band["counts"] for name, band in bands.items()} == {"tail": "1-5", "middle": "6-20", "head": "21+"}
    tail, middle, head = bands["tail"], bands["middle"], bands["head"]
    assert [(b["labels"], b["labels_true"], b["documents"], b["pairs"]) for b in (tail, middle, head)] == [
        (2, 1, 2, 2),
        (1, 1, 1, 1),
        (2, 2, 4, 4),
    ]
    # Tail predictions within the first two: 0 (right), 1 (wrong), 0 (wrong); one of two true pairs is found.
    assert (tail["recall@1"], tail["recall@2"], tail["precision@2"]) == (0, 50, pytest.approx(33.3333))
    assert tail["precision@1"] is None  # nothing of the band is predicted first
    assert (tail["coverage@1"], tail["coverage@2"]) == (0, 100)
    # Label 0 is the only tail label true somewhere: predicted twice, right once, true for two documents.
    assert (tail["macro_P@2"], tail["macro_R@2"], tail["found@2"]) == (50, 50, 100)
    # Head: 3 right, 4 right, 3 right, 4 wrong.
    assert (head["recall@1"], head["precision@1"]) == (75, 75)
    # Label 3 is predicted for 2 of its 3 documents, both right; label 4 for two, one of them right.
    assert head["macro_P@1"] == 75
    assert head["macro_R@1"] == pytest.approx(83.3333)
    # P@2 = (2 + 1 + 2 + 0) / 8 = 62.5 %, of which tail 1/8, middle 1/8, head 3/8
    assert [b["contribution@2"] for b in (tail, middle, head)] == [12.5, 12.5, 37.5]


def test_coverage_in_its_three_readings():
    report = evaluate(make_scores(RANKINGS), make_corpus(TRUTH, COUNTS), ks=(1, 2))
    # All five labels are predicted within two places, four of them are true somewhere, and those four are found.
    assert [report[f"{name}@2"] for name in ("coverage", "coverage_true", "found")] == [100, 100, 100]
    # First places: 3 and 4, both true somewhere (of 0, 2, 3, 4) and both right once.
    assert [report[f"{name}@1"] for name in ("coverage", "coverage_true", "found")] == [40, 50, 50]


def test_edges_of_ones_own():
    bands = by_name(evaluate(make_scores(RANKINGS), make_corpus(TRUTH, COUNTS), ks=(1,), edges=(2, 5, 100)))
    assert list(bands) == ["1-2", "3-5", "6-100", "101+"]
    assert [band["labels"] for band in bands.values()] == [1, 1, 2, 1]
    assert bands["3-5"]["recall@1"] is None  # label 1 is true nowhere


def test_frequency_bins_run_from_frequent_to_rare():
    report = evaluate(make_scores(RANKINGS), make_corpus(TRUTH, COUNTS), ks=(1, 2))
    bins = report.frequency_bins(2)
    assert [(b["most"], b["least"], b["labels"]) for b in bins] == [(900, 21, 2), (20, 5, 2), (2, 2, 1)]
    # Bin 1 holds label 2 (right once of one) and label 1 (true nowhere: left out of the mean).
    assert [b["macro_P@2"] for b in bins] == [75, 100, 50]
    assert [b["macro_P@1"] for b in bins] == [75, 0, 0]
    assert len(report.frequency_bins()) == 1
    with pytest.raises(UsageError, match="at least 1 label"):
        report.frequency_bins(0)


def test_macro_averages_weigh_labels_equally():
    # 99 documents of a frequent label are right, one document of a rare one is wrong.
    truth = [{0}] * 99 + [{1}]
    report = evaluate(make_scores([[0]] * 100), make_corpus(truth, [500, 1]), ks=(1,))
    assert report["P@1"] == 99
    assert report["macro_R@1"] == 50
    assert report["macro_P@1"] == 49.5  # the frequent label's precision is 99/100, the rare one is never predicted
    assert np.isnan(report.bands[1].figures["recall@1"])
