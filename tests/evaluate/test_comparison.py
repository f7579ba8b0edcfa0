"""Several models on the same documents, called from Python."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from naive_metrics import make_corpus, make_scores

from longtail.corpus import Corpus
from longtail.data.synthetic import synthetic
from longtail.errors import UsageError
from longtail.evaluate import Predictions, compare, evaluate
from longtail.evaluate.comparison import PredictedLabel, TrueLabel, with_own_labels
from longtail.labels import LabelIndex
from longtail.read import read_texts
from longtail.scores import Scores
from longtail.tagger import Tagger

#: Training counts: label 0 is rare, label 3 was never seen.
COUNTS = [2, 9, 30, 0]
TRUTH: list[Any] = [{0}, {1, 2}, {2}, {3}, set()]
TWICE = [(f"label {c}", f"label {c}") for c in range(4)]  # labels without a text are called by their names
LABELS = LabelIndex([f"label {c}" for c in range(4)], None, np.array(COUNTS), 1000)


def predictions(*rankings: list[int]) -> Predictions:
    return Predictions(LABELS, make_scores(list(rankings), k=2))


FIRST = predictions([0, 1], [1, 2], [2, 0], [1, 2], [0, 1])
SECOND = predictions([1, 2], [2, 1], [2, 1], [1, 2], [0, 1])


def test_by_hand() -> None:
    found = compare({"first": FIRST, "second": SECOND}, make_corpus(TRUTH, COUNTS), 2)
    assert found.names == ["first", "second"] and found.labelled
    assert found.right[0].tolist() == [[True, False], [True, True], [True, False], [False, False], [False, False]]
    said, true = found.differing()
    assert said.tolist() == [True, False, True, False, False], "another order is the same answer"
    assert true.tolist() == [True, False, False, False, False]
    # label 3 was never seen in training: its document counts for nobody, as in evaluate
    assert [figures and (figures.values["P@1"], figures.documents) for figures in found.figures] == [
        (100, 3), (pytest.approx(66.6667), 3)
    ]  # fmt: skip
    example = found.example(0)
    assert (example.id, example.text, example.labels) == ("0", None, [TrueLabel("label 0", "label 0", 2)])
    assert example.predictions == [
        ("first", [PredictedLabel(*TWICE[0], 1.0, True, 2), PredictedLabel(*TWICE[1], 0.5, False, 9)]),
        ("second", [PredictedLabel(*TWICE[1], 1.0, False, 9), PredictedLabel(*TWICE[2], 0.5, False, 30)]),
    ]
    assert found.example(4).labels == []


def test_the_dictionary_is_plain_json() -> None:
    found = compare([("a", FIRST), ("a", SECOND)], make_corpus(TRUTH, COUNTS), 2, A=0.6, B=2.6)
    result = found.to_dict([0, 2])
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    assert list(result) == ["k", "A", "B", "documents", "labels_differ", "right_labels_differ", "models", "examples"]
    assert (result["k"], result["A"], result["B"], result["documents"]) == (2, 0.6, 2.6, 5)
    assert (result["labels_differ"], result["right_labels_differ"]) == (2, 1)
    assert [(m["name"], m["labels"], m["shown"], m["right"]) for m in result["models"]] == [
        ("a", 4, 4, 2),
        ("a", 4, 4, 1),
    ]
    assert [example["id"] for example in result["examples"]] == ["0", "2"]
    everything = found.to_dict()
    assert [example["id"] for example in everything["examples"]] == list("01234")
    assert [model["shown"] for model in everything["models"]] == [10, 10]


def test_figures_are_those_of_evaluate() -> None:
    corpus = make_corpus(TRUTH[:3], COUNTS)
    first = predictions([1, 0], [1, 2], [0, 2])
    (figures,) = compare([first], corpus, A=0.5, B=0.4).figures
    report = evaluate(first.scores, corpus, ks=(1,), A=0.5, B=0.4)
    assert figures is not None
    assert figures.values == {name: pytest.approx(report[name], abs=1e-4) for name in ("P@1", "PSP@1")}


def test_drawing_prefers_documents_on_which_models_differ() -> None:
    n = 40
    answers = [[0, 1]] * n
    other = [[0, 1] if row % 2 else [1, 2] for row in range(n)]
    truth = [{0} if row % 10 == 0 else {3} for row in range(n)]
    found = compare([predictions(*answers), predictions(*other)], make_corpus(truth, COUNTS), 2)
    assert found.names == ["model 1", "model 2"]
    assert found.draw(4) == [0, 10, 20, 30], "hits differ there"
    for seed in range(5):
        drawn = found.draw(10, seed)
        assert {0, 10, 20, 30} <= set(drawn) and all(row % 2 == 0 for row in drawn) and drawn == sorted(drawn)
    assert len({tuple(found.draw(10, seed)) for seed in range(5)}) > 1
    assert found.draw(99, np.random.default_rng(1)) == list(range(n))


def test_labels_are_matched_by_name() -> None:
    turned = LabelIndex(["label 2", "label 0"], None, np.array([7, 1]), 50)
    scores = make_scores([[1], [0], [0]], k=1)
    corpus = make_corpus(TRUTH[:3], COUNTS)
    whole = predictions([0, 1], [1, 2], [2, 0])
    both = compare({"all": whole, "two": Predictions(turned, scores)}, corpus, 1)
    assert [right[:, 0].tolist() for right in both.right] == [[True, True, True], [True, True, True]]
    (_, first), (_, second) = both.example(0).predictions
    assert (first[0].training_documents, second[0].training_documents) == (2, 1), "each model's own counts"
    assert both.example(0).labels == [TrueLabel("label 0", "label 0", 2)], "the larger of the two"


def test_own_labels_are_taken_out_before_the_cut() -> None:
    corpus = make_corpus([{1}, {2}], COUNTS, reciprocal=[(0, 0), (1, 2)])
    models = predictions([0, 1], [2, 0])
    found = compare([models], corpus, 1)
    assert [[label.label for label in found.example(row).predictions[0][1]] for row in (0, 1)] == [
        ["label 1"],
        ["label 0"],
    ]
    assert found.example(1).labels == [], "and out of the truth"


def test_documents_that_are_labels_of_the_model_only() -> None:
    texts = ["label 0", "words"]
    own = LabelIndex(["label 1"], None, np.array([1]), 10)
    corpus = Corpus(labels=own, Y=sp.csr_matrix(np.ones((2, 1), dtype=np.float32)), texts=texts)
    model = predictions([0, 1], [0, 1])
    assert compare([model], corpus, 1).example(0).predictions[0][1][0].label == "label 0"
    assert compare([model], corpus, 1, reciprocal=True).example(0).predictions[0][1][0].label == "label 1"
    marked = with_own_labels(corpus, LABELS)
    assert marked.reciprocal is not None and marked.reciprocal.nnz == 1 and marked.n_labels == 4


def test_taggers_and_texts_without_labels() -> None:
    corpus = synthetic(documents=200, labels=30, words=200, texts=True, seed=1)
    tagger = Tagger({"part": "parabel", "trees": 1}).fit(corpus)
    found = compare({"it": tagger}, read_texts((corpus.texts or [])[:3]), 2)
    assert not found.labelled and found.figures == [None]
    result = found.to_dict()
    assert (result["right_labels_differ"], result["models"][0]["right"], result["models"][0]["P@1"]) == (
        None,
        None,
        None,
    )
    names = [[label.label for label in found.example(row).predictions[0][1]] for row in range(3)]
    assert names == [[each.label for each in labels] for labels in tagger.predict((corpus.texts or [])[:3], k=2)]


def test_refused() -> None:
    corpus = make_corpus(TRUTH, COUNTS)
    with pytest.raises(UsageError, match="no model"):
        compare({}, corpus)
    with pytest.raises(UsageError, match="model 1 is not trained yet"):
        compare([Tagger()], corpus)  # type: ignore[list-item]
    with pytest.raises(UsageError, match="at least 1, not 0"):
        compare([FIRST], corpus, 0)
    with pytest.raises(UsageError, match="predictions for 3 documents, and corpus has 5"):
        compare([Predictions(LABELS, Scores.empty(3, 1))], corpus)


def test_compare_is_exported_and_found_whatever_was_imported_before() -> None:
    for before in ("", "import longtail.evaluate.comparison; ", "from longtail import evaluate; "):
        code = before + "from longtail import compare, evaluate; print(compare.__name__, callable(evaluate))"
        said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert said.stdout == "compare True\n", said.stderr
