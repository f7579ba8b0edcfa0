"""What a corpus, a label and a model are, called from Python."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from longtail import describe_corpus, describe_labels, describe_model
from longtail.corpus import Corpus
from longtail.data.synthetic import synthetic
from longtail.describe import BandFacts, is_model
from longtail.errors import ModelError, UsageError
from longtail.labels import LabelIndex
from longtail.tagger import Tagger


@pytest.fixture
def corpus() -> Corpus:
    """Eight documents over four labels, of which one is never used; counts 6, 2, 1, 0."""
    rows = [[0], [0], [0], [0], [0], [0, 1], [1, 2], []]
    Y = sp.lil_matrix((8, 4), dtype=np.float32)
    for row, columns in enumerate(rows):
        for column in columns:
            Y[row, column] = 1
    Y[6, 2] = 0.5
    texts = ["one two three", "one", "  ONE Text", "", "one", "one", "one", "one"]
    labels = LabelIndex(["a", "b", "c", "d"], ["one text", "", "", ""])
    return Corpus(labels=labels, Y=sp.csr_matrix(Y), texts=texts, name="eight").counted()


def test_a_corpus_by_hand(corpus: Corpus) -> None:
    facts = describe_corpus(corpus)
    assert (facts.name, facts.documents, facts.documents_without_labels, facts.labels) == ("eight", 8, 1, 4)
    assert (facts.labels_per_document, facts.most_labels) == (9 / 8, 2)
    assert (facts.documents_per_label, facts.most_documents) == (3, 6), "of the three labels that occur"
    assert facts.tail_share == pytest.approx(2 / 3, abs=1e-4)
    assert (facts.label_texts, facts.soft_targets, facts.features) == (1, 1, None)
    assert facts.words_per_document == pytest.approx(10 / 8, abs=0.01)
    assert facts.texts_that_are_label_texts == 1 / 8
    assert facts.bands == [
        BandFacts("unseen", "0", 1, 0), BandFacts("tail", "1-5", 2, 3), BandFacts("middle", "6-20", 1, 6),
        BandFacts("head", "21+", 0, 0),
    ]  # fmt: skip
    assert json.loads(json.dumps(facts.to_dict())) == facts.to_dict()


def test_inverse_propensities_by_hand(corpus: Corpus) -> None:
    """C = (ln 8 - 1) 2.5^0.55 = 1.7868; 1 + C (n + 1.5)^-0.55 for counts 6, 2 and 1; the unused label is left out."""
    found = describe_corpus(corpus).inverse_propensity
    assert found is not None and (found.A, found.B) == (0.55, 1.5)
    assert (found.least, found.quartiles[1], found.most) == pytest.approx((1.5899, 1.8971, 2.0794), abs=2e-4)
    assert found.mean == pytest.approx((1.5899 + 1.8971 + 2.0794) / 3, abs=2e-4)
    assert len(found.histogram) == 20 and found.histogram[0] == found.histogram[-1] == 1 and sum(found.histogram) == 3
    empty = Corpus(labels=LabelIndex(["a"]), Y=sp.csr_matrix((2, 1), dtype=np.float32), texts=["one", "two"]).counted()
    assert describe_corpus(empty).inverse_propensity is None


def test_a_corpus_without_texts_and_one_without_documents() -> None:
    facts = describe_corpus(synthetic(documents=50, labels=10, words=40, seed=1))
    assert (facts.words_per_document, facts.texts_that_are_label_texts) == (None, None)
    assert facts.features is not None and facts.features > 0
    empty = Corpus(labels=LabelIndex(["a"]), Y=sp.csr_matrix((0, 1), dtype=np.float32), texts=[])
    nothing = describe_corpus(empty)
    assert (nothing.documents, nothing.labels_per_document, nothing.words_per_document, nothing.tail_share) == (
        0,
        0,
        0,
        0,
    )


def test_labels_and_their_neighbours(corpus: Corpus) -> None:
    second, alone = describe_labels(corpus, ["b", "d"])
    assert (second.label, second.text, second.documents) == ("b", "b", 2)
    assert sorted(neighbour.label for neighbour in second.neighbours) == ["a", "c"]
    weights = [neighbour.weight for neighbour in second.neighbours]
    assert weights == sorted(weights, reverse=True) and weights[-1] > 0
    assert {neighbour.label: neighbour.documents for neighbour in second.neighbours} == {"a": 6, "c": 1}
    assert (alone.documents, alone.neighbours) == (0, [])
    assert describe_labels(corpus, ["a"])[0].text == "one text"
    assert second.to_dict()["neighbours"][0]["label"] == second.neighbours[0].label


def test_labels_that_are_not_there(corpus: Corpus) -> None:
    corpus.labels = LabelIndex(["music", "b", "c", "d"], None, corpus.labels.counts, 8)
    with pytest.raises(UsageError, match=r"eight has no label 'musik'; did you mean 'music'\?"):
        describe_labels(corpus, ["musik"])
    with pytest.raises(UsageError, match=r"eight has no label 'xyz'$"):
        describe_labels(corpus, ["xyz"])
    with pytest.raises(UsageError, match="list of labels"):
        describe_labels(corpus, "music")


def test_a_model(corpus: Corpus, tmp_path: Path) -> None:
    tagger = Tagger({"part": "parabel", "trees": 2}, rerank=["inverse-propensity"], seed=3).fit(corpus)
    tagger.save(tmp_path / "m")
    assert is_model(tmp_path / "m") and not is_model(tmp_path)
    facts = describe_model(tmp_path / "m")
    assert (facts.model, facts.labels, facts.trained_on) == (str(tmp_path / "m"), 4, 8)
    assert facts.tail_share == pytest.approx(2 / 3, abs=1e-4)
    assert facts.features == tagger.n_features_ and facts.makes_features
    assert facts.config == tagger.config()
    assert facts.files["labels.safetensors"] == (tmp_path / "m" / "labels.safetensors").stat().st_size
    parts = facts.parts()
    assert list(parts) == ["learner", "features", "rerank"]
    assert parts["learner"].startswith("parabel(") and "trees=2" in parts["learner"]
    assert set(facts.to_dict()) == {
        "model", "format_version", "library", "labels", "trained_on", "tail_share", "features", "megabytes", "config",
        "files", "acted",
    }  # fmt: skip


def test_features_that_a_model_does_not_make_are_no_part_of_it(tmp_path: Path) -> None:
    Tagger({"part": "parabel", "trees": 1}).fit(synthetic(documents=50, labels=10, words=40, seed=1)).save(
        tmp_path / "m"
    )
    assert list(describe_model(tmp_path / "m").parts()) == ["learner"]


def test_what_is_not_a_model(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="does not exist"):
        describe_model(tmp_path / "gone")
