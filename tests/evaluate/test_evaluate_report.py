"""The report as a person and a program see it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from naive_metrics import make_corpus, make_scores

from longtail.evaluate import evaluate

RANKINGS, TRUTH, COUNTS = [[0, 1], [1, 2], [2, 0]], [{0}, {2}, set()], [3, 10, 70]


def test_the_dictionary_is_plain_json_with_the_promised_keys():
    report = evaluate(make_scores(RANKINGS), make_corpus(TRUTH, COUNTS), bootstrap=10)
    result = report.to_dict()
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    for name in ("P", "nDCG", "PSP", "PSnDCG", "R", "RP", "coverage", "coverage_true", "found", "macro_P", "macro_R"):
        for k in (1, 3, 5):
            assert isinstance(result[f"{name}@{k}"], float)
    assert (result["documents"], result["documents_without_labels"], result["labels"]) == (2, 1, 3)
    assert (result["A"], result["B"], result["psndcg"], result["confidence"]) == (0.55, 1.5, "sum", 0.95)
    assert [band["name"] for band in result["bands"]] == ["tail", "middle", "head"]
    resampled = ("P", "nDCG", "PSP", "PSnDCG", "R", "RP")
    assert set(result["intervals"]) == {f"{name}@{k}" for name in resampled for k in (1, 3, 5)}


def test_cut_offs_are_sorted_and_named_once():
    report = evaluate(make_scores(RANKINGS), make_corpus(TRUTH, COUNTS), ks=[2, 1, 2])
    assert report.ks == (1, 2)


def test_figures_by_name():
    report = evaluate(make_scores(RANKINGS), make_corpus(TRUTH, COUNTS), ks=(1,))
    assert report["P@1"] == 50
    with pytest.raises(KeyError, match="did you mean 'PSP@1'"):
        report["PSP@l"]


def test_the_printed_table():
    text = repr(evaluate(make_scores(RANKINGS), make_corpus(TRUTH, COUNTS), ks=(1, 2), psndcg="mean"))
    lines = text.splitlines()
    assert lines[0] == "2 documents, 3 labels"
    assert lines[2].split() == ["P", "50.00", "50.00"]
    assert any(line.split() == ["middle", "6-20", "1", "0", "-", "-"] for line in lines)
    assert "PSnDCG normalised by 'mean'" in text
    assert lines[-1] == "Not counted: 1 of 3 documents, because they have no known label."


def test_labels_without_training_counts_are_pointed_out():
    report = evaluate(make_scores(RANKINGS), make_corpus(TRUTH, [0, 0, 0], documents=0), ks=(1,))
    assert "The labels carry no training counts, so all propensities are 1." in report.notes
    assert report["PSP@1"] == report["P@1"]


@pytest.mark.parametrize("before", ["", "import longtail.evaluate.report; "])
def test_evaluate_can_be_called_from_the_package_whatever_was_imported_before(before):
    code = before + "from longtail import evaluate; print(callable(evaluate))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "True\n"
