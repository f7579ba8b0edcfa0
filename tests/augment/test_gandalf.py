"""Gandalf: label texts as documents, with correlated labels as soft targets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail.augment.gandalf import Gandalf
from longtail.corpus import Corpus
from longtail.data.synthetic import synthetic
from longtail.errors import UsageError
from longtail.features.tfidf import Tfidf
from longtail.fit import Fit
from longtail.graphs.label_walk import DIVISORS, expected_visits, soft_annotations
from longtail.labels import LabelIndex
from longtail.learners.pipeline import Pipeline
from longtail.run import Run
from longtail.tagger import Tagger

ONE_TREE = {"part": "parabel", "trees": 1}


def by_hand(**others: object) -> Corpus:
    """Labels a and b share a document, c is alone, d has none; b has no text of its own."""
    Y = sp.csr_matrix(np.array([[1, 1, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]], dtype=np.float32))
    labels = LabelIndex(["a", "b", "c", "d"], ["text a", "", "text c", "text d"])
    return Corpus(labels=labels, Y=Y, texts=["one", "two", "three"], **others).counted()  # type: ignore[arg-type]


def test_rows_by_hand() -> None:
    """One hop: a meets itself and b equally often, b meets a with 1/4 and itself with 3/4."""
    out = Gandalf(hops=1, strength=0.5).apply(by_hand(), Run())
    assert list(out.texts or []) == ["one", "two", "three", "text a", "b", "text c"]
    expected = [[1, 1, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [1, 0.5, 0, 0], [1 / 6, 1, 0, 0], [0, 0, 1, 0]]
    np.testing.assert_allclose(out.Y.toarray(), expected, rtol=1e-6)
    assert out.labels.frequency.tolist() == [1, 2, 1, 0] and out.labels.documents == 3
    assert out.X is None and out.ids is None and out.pair_weight is None and out.reciprocal is None


def test_the_normalised_graph_by_hand() -> None:
    """Visits of one hop are ((1/2, 1/2), (1/4, 3/4)): rows sum to 1, columns to 3/4 and 5/4.

    Scaled by the roots of these, row a divided by its diagonal is sqrt(3/5), row b is 1/3 sqrt(5/3).
    """
    out = Gandalf(hops=1, strength=1.0, scaled=True).apply(by_hand(), Run())
    rows = [[1, np.sqrt(3 / 5), 0, 0], [np.sqrt(5 / 3) / 3, 1, 0, 0], [0, 0, 1, 0]]
    np.testing.assert_allclose(out.Y.toarray()[3:], rows, rtol=1e-5)


def test_rows_divided_by_their_largest_value() -> None:
    """a meets c more often than itself, 0.75 to 0.5, and b half as often: by the largest b is 1/3, not 1/2."""
    Y = sp.csr_matrix(np.array([[1, 1, 1], [0, 1, 1], [0, 1, 1], [0, 0, 1]], dtype=np.float32))
    graph = sp.csr_matrix(np.array([[0.5, 0.25, 0.75], [0, 1, 0.5], [0, 0, 2]], dtype=np.float32))
    by_diagonal = soft_annotations(graph).toarray()
    by_largest = soft_annotations(graph, divisor="largest").toarray()
    np.testing.assert_allclose(by_diagonal, [[0, 0.5, 1], [0, 0, 0.5], [0, 0, 0]], rtol=1e-6)
    np.testing.assert_allclose(by_largest, [[0, 1 / 3, 1], [0, 0, 0.5], [0, 0, 0]], rtol=1e-6)
    corpus = Corpus(labels=LabelIndex(["a", "b", "c"]), Y=Y, texts=["w"] * 4).counted()
    diagonal, largest = (Gandalf(divisor=divisor, strength=1.0).apply(corpus, Run()) for divisor in DIVISORS)
    assert (largest.Y != diagonal.Y).nnz > 0 and largest.Y.diagonal(k=0).max() == 1


def test_labels_without_documents_have_rows_where_asked_for() -> None:
    out = Gandalf(all_labels=True).apply(by_hand(), Run())
    assert list(out.texts or [])[3:] == ["text a", "b", "text c", "text d"]
    assert out.Y.toarray()[6].tolist() == [0, 0, 0, 1] and out.labels.frequency.tolist() == [1, 2, 1, 0]


@pytest.mark.parametrize("learner", [ONE_TREE, {"part": "bonsai", "trees": 1}, "one-vs-all"])
def test_a_label_without_documents_is_found_by_its_text(learner: Any) -> None:
    texts = [f"{word} {number}" for number in range(20) for word in ("apple", "stone")]
    Y = sp.csr_matrix(np.tile(np.eye(2, 3, dtype=np.float32), (20, 1)))
    labels = LabelIndex(["fruit", "mineral", "animal"], ["banana", "granite", "zebra"])
    corpus = Corpus(labels=labels, Y=Y, texts=texts).counted()
    for all_labels in (True, False):
        tagger = Tagger(learner, augment=[{"part": "gandalf", "all_labels": all_labels}]).fit(corpus)
        (found,) = tagger.predict(["zebra"], k=1)
        assert (bool(found) and found[0].label == "animal") == all_labels


@pytest.mark.parametrize("options", [{"soft": False}, {"strength": 0.0}, {"threshold": 1.0}])
def test_own_labels_only(options: dict[str, float]) -> None:
    out = Gandalf(**options).apply(by_hand(), Run())  # type: ignore[arg-type]
    assert out.Y.toarray()[3:].tolist() == [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]]


def test_everything_a_corpus_carries() -> None:
    reciprocal = sp.csr_matrix(np.eye(3, 4, dtype=bool))
    X = sp.csr_matrix(np.ones((3, 2), dtype=np.float32))
    weight = np.array([0, 1, 1, 0.5], dtype=np.float32)
    given = by_hand(ids=["x", "y", "z"], pair_weight=weight, reciprocal=reciprocal, X=X)
    out = Gandalf().apply(given, Run())
    assert list(out.ids or []) == ["x", "y", "z", "gandalf/b", "gandalf/c"], "a has no document that counts"
    assert out.pair_weight is not None and out.pair_weight.tolist() == [0, 1, 1, 0.5, 1, 1]
    assert out.reciprocal is not None and out.reciprocal.toarray()[3:].any() == np.False_
    assert out.reciprocal.dtype == bool and out.X is None and out.noise is None
    assert out.Y.toarray()[3:].tolist() == [[0, 1, 0, 0], [0, 0, 1, 0]]


def test_rows_behind_the_documents_have_no_say() -> None:
    once = Gandalf().apply(by_hand(), Run())
    twice = Gandalf().apply(once, Run())
    assert len(twice) == 9 and (twice.Y[6:] != once.Y[3:]).nnz == 0


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 9999), strength=st.floats(0.01, 1), threshold=st.floats(0, 0.9))
def test_rows_follow_the_graph(seed: int, strength: float, threshold: float) -> None:
    rng = np.random.default_rng(seed)
    Y = sp.csr_matrix((rng.random((10, 7)) < 0.25).astype(np.float32))
    labels = LabelIndex([f"name {j}" for j in range(7)])
    corpus = Corpus(labels=labels, Y=Y, texts=[""] * 10).counted()
    out = Gandalf(strength=strength, threshold=threshold).apply(corpus, Run())
    points = np.flatnonzero(corpus.labels.frequency)
    assert list(out.texts or [])[10:] == [f"name {j}" for j in points]
    rows = out.Y[10:].toarray()
    assert (rows[np.arange(len(points)), points] == 1).all() and rows.max(initial=0) <= 1
    soft = soft_annotations(expected_visits(Y), threshold).toarray()[points] * np.float32(strength)
    soft[np.arange(len(points)), points] = 1
    np.testing.assert_allclose(rows, soft, rtol=1e-6)
    assert (out.Y[:10] != Y).nnz == 0 and out.Y.has_canonical_format


@pytest.mark.parametrize("graph", ["expected", "walk"])
def test_the_same_for_any_number_of_threads(graph: str) -> None:
    corpus = synthetic(documents=200, labels=60, words=100, texts=True, seed=1)
    first, second = (Gandalf(graph=graph).apply(corpus, Run(seed=4, threads=t)) for t in (1, 3))
    assert first.Y.data.tobytes() == second.Y.data.tobytes() and first.Y.indices.tobytes() == second.Y.indices.tobytes()
    other = Gandalf(graph=graph).apply(corpus, Run(seed=5))
    assert ((other.Y != first.Y).nnz == 0) == (graph == "expected")


def test_needs_texts() -> None:
    with pytest.raises(UsageError, match=r"'gandalf' puts label texts beside documents, and .* has no texts"):
        Gandalf().apply(replace(by_hand(), texts=None), Run())


def test_a_label_is_found_by_words_that_only_its_text_has() -> None:
    """What a no-op would not do: no document says 'zebra', the label's text does."""
    texts = [f"{word} {number}" for number in range(20) for word in ("apple", "stone", "river")]
    Y = sp.csr_matrix(np.tile(np.eye(3, dtype=np.float32), (20, 1)))
    labels = LabelIndex(["fruit", "mineral", "animal"], ["banana", "granite", "zebra"])
    corpus = Corpus(labels=labels, Y=Y, texts=texts).counted()
    tagger = Tagger(ONE_TREE, augment=["gandalf"]).fit(corpus)
    found = tagger.predict(["zebra", "granite"], k=1)
    assert [labels[0].label for labels in found] == ["animal", "mineral"]
    plain = Tagger(ONE_TREE).fit(corpus)
    assert plain.predict(["zebra"]) == plain.predict(["quagga"]), "plain, it is a word as any that nobody has seen"


def test_end_to_end_with_a_reranker() -> None:
    corpus = synthetic(documents=300, labels=40, words=300, texts=True, seed=1)
    plain, more = (Tagger(ONE_TREE, augment=a, rerank=["ranknet"]).fit(corpus) for a in ([], ["gandalf"]))
    assert more.learner.trees_[0].weight.sum() != plain.learner.trees_[0].weight.sum()
    assert more.labels_.frequency.tolist() == corpus.labels.frequency.tolist()
    assert more.evaluate(corpus).to_dict()["P@1"] > 50


def test_held_out_documents_stay_out_and_label_rows_stay_in(monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = synthetic(documents=80, labels=10, words=100, texts=True, seed=1)
    tagger = Tagger(ONE_TREE, augment=["gandalf"])
    seen: list[tuple[int, int]] = []
    learn = type(tagger.learner).learn

    def watched(self, given, fit):  # type: ignore[no-untyped-def]
        seen.append((len(given), sum(text in set(list(made.texts)[80:]) for text in given.texts)))
        return learn(self, given, fit)

    run = Run()
    made = replace(tagger.augment[0].apply(corpus, run), labels=corpus.labels)
    with_features = replace(made, X=Tfidf().fit_transform(made.texts, run=run))
    monkeypatch.setattr(type(tagger.learner), "learn", watched)
    pipeline = Pipeline(learner=ONE_TREE, rerank=["ranknet"])
    scores, documents = pipeline.out_of_fold(with_features.rows(np.arange(80)), with_features, Fit(run))
    points = len(made) - 80
    assert seen == [(60 + points, points)] * 4 and len(documents) == len(scores.ids) == 80
