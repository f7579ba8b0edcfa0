"""Clusters of labels by the words of their documents, by their texts, and along the graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

pytest.importorskip("torch")

from short_text_cases import ONE

from longtail.arrays import SparseRows, largest_entries
from longtail.corpus import Corpus
from longtail.labels import LabelIndex
from longtail.learners.neural.encoders.short import WeightedBag
from longtail.learners.neural.heads.base import LabelFacts
from longtail.learners.neural.shortlists import grouping as clusters
from longtail.learners.neural.shortlists.grouping import grouped, grouped_by_vectors, grouped_labels


def corpus_of(documents: list[tuple[str, list[int]]], texts: list[str]) -> Corpus:
    Y = np.zeros((len(documents), len(texts)), dtype=np.float32)
    for row, (_, labels) in enumerate(documents):
        Y[row, labels] = 1
    index = LabelIndex([f"label {n}" for n in range(len(texts))], texts)
    return Corpus(labels=index, Y=sp.csr_matrix(Y), texts=[text for text, _ in documents]).counted()


def clusters_of(corpus: Corpus, size: int, head: int = 500, graph: Any = None) -> list[list[int]]:
    """Labels of each cluster."""
    encoder = WeightedBag(size=4)
    texts = corpus.labels.texts or []
    encoder.fit_tokeniser([*(corpus.texts or []), *texts], ONE)
    about = LabelFacts(encoder.weights(encoder.tokens(texts, ONE)))
    if graph is not None:
        about.graph = sp.csr_matrix(np.array(graph, dtype=np.float32))
    found = grouped_labels(encoder, corpus, about, size, ONE, head)
    assert found.dtype == np.int32
    return sorted(np.flatnonzero(found == cluster).tolist() for cluster in range(found.max() + 1))


DOCUMENTS = [("river lake", [0]), ("lake river", [2]), ("rock stone", [1]), ("stone rock", [3])]
#: Texts that say the opposite of the documents.
TEXTS = ["same same", "same same", "other other", "other other"]


def test_by_the_words_of_their_documents() -> None:
    assert clusters_of(corpus_of(DOCUMENTS, TEXTS), 2) == [[0, 2], [1, 3]]


def test_a_label_without_documents_goes_by_its_text() -> None:
    corpus = corpus_of([*DOCUMENTS[:3], ("sea", [4]), ("sand", [5])], ["x1", "x2", "x3", "rock stone", "x5", "x6"])
    assert [1, 3] in clusters_of(corpus, 2)


def test_along_the_graph() -> None:
    """Labels that occur together may share no word: what neighbours' documents say counts, too."""
    documents = [("aa", [0]), ("bb", [1]), ("cc", [2]), ("dd", [3])]
    texts = ["xx", "xx", "xx", "xx"]
    graph = [[1, 0, 0, 1], [0, 1, 1, 0], [0, 1, 1, 0], [1, 0, 0, 1]]
    assert clusters_of(corpus_of(documents, texts), 2, graph=graph) == [[0, 3], [1, 2]]


def test_what_neighbours_lend_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it where there is room, in whatever chunks; else the largest entries of each label."""
    rng = np.random.default_rng(0)
    graph, vectors = (sp.random(50, width, 0.3, "csr", np.float32, rng=rng) for width in (50, 40))
    whole = (graph @ vectors).toarray()
    monkeypatch.setattr(clusters, "CHUNK", 7)
    np.testing.assert_array_equal(clusters.smoothed(graph, vectors, ONE).toarray(), whole)
    monkeypatch.setattr(clusters, "ENTRIES", 50 * 6)
    kept = clusters.smoothed(graph, vectors, ONE)
    assert (np.diff(kept.indptr) == 6).all()
    np.testing.assert_array_equal(np.sort(kept.toarray())[:, -6:], np.sort(whole)[:, -6:])


def test_the_first_of_equal_entries_stay() -> None:
    indices, values = np.array([9, 2, 7, 1, 3], np.int32), np.array([1, 2, 1, 1, 5], np.float32)
    found = largest_entries(SparseRows(np.array([0, 4, 4, 5]), indices, values), 2)
    assert tuple(array.tolist() for array in found) == ([0, 2, 2, 3], [9, 2, 3], [1, 2, 5])


def test_frequent_labels_are_clusters_of_their_own() -> None:
    corpus = corpus_of([*DOCUMENTS, ("river", [0]), ("rock", [1])], TEXTS)
    assert clusters_of(corpus, 4, head=1) == [[0], [1], [2, 3]]
    assert clusters_of(corpus, 4, head=2) == [[0, 1, 2, 3]]


def test_all_labels_may_be_frequent() -> None:
    vectors = sp.csr_matrix(np.eye(3, dtype=np.float32))
    assert grouped(vectors, np.array([True, True, True]), 2, ONE).tolist() == [0, 1, 2]
    assert grouped(vectors, np.array([True, False, True]), 2, ONE).tolist() == [0, 2, 1]


def test_dense_vectors_are_brought_to_one_length() -> None:
    """As when InceptionXML-LF clusters labels by the vectors of their texts: long ones do not decide."""
    vectors = np.array([[10, 1], [0.1, 0.01], [1, 10], [0.01, 0.1]], dtype=np.float32)
    found = grouped(sp.csr_matrix(vectors), np.zeros(4, dtype=bool), 2, ONE)
    assert found[0] == found[1] != found[2] == found[3]


class TestByVectors:
    """Documents of labels 0 and 2 point one way, those of 1 and 3 the other; words and texts say nothing of it."""

    VECTORS = np.array([[1, 0.1], [2, 0], [0, 1], [0.1, 3]], dtype=np.float32)
    CORPUS = staticmethod(lambda: corpus_of([("x", [0]), ("x", [2]), ("x", [1]), ("x", [3])], ["t"] * 4))

    def found(self, graph: Any = None, head: int = 500) -> list[list[int]]:
        about = LabelFacts(sp.csr_matrix((4, 1), dtype=np.float32))
        about.graph = None if graph is None else sp.csr_matrix(np.array(graph, dtype=np.float32))
        cluster = grouped_by_vectors(self.VECTORS, self.CORPUS(), about, 2, ONE, head)
        return sorted(np.flatnonzero(cluster == c).tolist() for c in range(cluster.max() + 1))

    def test_by_the_vectors_of_their_documents(self) -> None:
        assert self.found() == [[0, 2], [1, 3]]

    def test_along_the_graph(self) -> None:
        swapped = [[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
        assert self.found(swapped) == [[0, 3], [1, 2]]

    def test_frequent_labels_are_clusters_of_their_own(self) -> None:
        corpus = corpus_of([("x", [0]), ("x", [0]), ("x", [1]), ("x", [2])], ["t"] * 3)
        cluster = grouped_by_vectors(self.VECTORS, corpus, None, 2, ONE, 1)
        assert cluster[0] not in cluster[1:].tolist() and cluster[1] == cluster[2]
