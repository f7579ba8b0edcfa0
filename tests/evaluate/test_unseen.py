"""Labels of test documents that training never saw, called from Python."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from longtail.corpus import Corpus
from longtail.evaluate import Unseen, evaluate_on
from longtail.labels import LabelIndex
from longtail.scores import Scores

#: The model knows a, b and c, but has seen no document with c.
MODEL = LabelIndex(["a", "b", "c"], ["", "", "sea"], np.array([3, 2, 0]), 5)
NAMES, TEXTS = ["b", "c", "new", "a", "unused"], ["", "", "a new one", "", ""]


def corpus(rows: list[dict[str, float]], texts: list[str] | None = TEXTS) -> Corpus:
    Y = sp.lil_matrix((len(rows), len(NAMES)), dtype=np.float32)
    for number, row in enumerate(rows):
        for name, target in row.items():
            Y[number, NAMES.index(name)] = target
    return Corpus(labels=LabelIndex(NAMES, texts), Y=sp.csr_matrix(Y), name="test")


ROWS: list[dict[str, float]] = [
    {"a": 1}, {"a": 1, "c": 1}, {"new": 1}, {"b": 1, "new": 1, "c": 0.3}, {"c": 1, "new": 1}, {}
]  # fmt: skip
SCORES = Scores(np.zeros((6, 1), dtype=np.int32), np.ones((6, 1), dtype=np.float32))  # always a


def test_counts() -> None:
    found = Unseen.of(corpus(ROWS).aligned(MODEL, keep_unknown=True))
    assert (found.labels, found.of_labels) == (2, 4)
    assert (found.pairs, found.of_pairs) == (5, 8), "a target of 0.3 is not true"
    assert (found.documents, found.of_documents, found.documents_without_other) == (4, 5, 2)
    assert [(each.label, each.text, each.documents) for each in found.examples] == [
        ("new", "a new one", 3), ("c", "sea", 2)
    ]  # fmt: skip
    assert found.sentence() == (
        "Never seen in training: 2 of 4 test labels, 5 of 8 label assignments, in 4 of 5 documents, 2 of which have no "
        "other label."
    )


@pytest.mark.parametrize("texts", [TEXTS, None])
def test_texts_are_those_that_anybody_has(texts: list[str] | None) -> None:
    plain = LabelIndex(MODEL.names, None, MODEL.counts, MODEL.documents)
    found = Unseen.of(corpus(ROWS, texts).aligned(plain, keep_unknown=True))
    assert [each.text for each in found.examples] == ["new" if texts is None else "a new one", "c"]


def test_both_conventions() -> None:
    dropped = evaluate_on(SCORES, corpus(ROWS), MODEL, ks=(1,))
    missed = evaluate_on(SCORES, corpus(ROWS), MODEL, True, ks=(1,), bootstrap=5)
    assert (dropped["P@1"], dropped.documents) == (pytest.approx(200 / 3), 3)
    assert (missed["P@1"], missed.documents) == (pytest.approx(40), 5)
    assert dropped.conventions == missed.conventions
    assert dropped.conventions[dropped.convention]["P@1"] == dropped["P@1"]
    assert dropped.conventions[missed.convention]["P@1"] == missed["P@1"]
    assert missed.intervals and not dropped.intervals
    assert dropped.bands[0].name == "unseen", "c is a label of the model"
    assert repr(dropped).startswith("Never seen in training: 2 of 4")


def test_no_difference() -> None:
    report = evaluate_on(SCORES, corpus([{"a": 1}, {"b": 1}, *[{}] * 4]), MODEL, ks=(1,))
    assert report.unseen is not None and report.unseen.pairs == 0 and not report.conventions
    assert report.unseen.sentence() == "All 2 test labels were seen in training."
    assert repr(report).startswith("2 documents")
