from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail.data import synthetic as module
from longtail.data.synthetic import synthetic
from longtail.data.synthetic_kernels import CLUSTER, WORDS_PER_LABEL
from longtail.errors import UsageError
from longtail.run import Run


def content(corpus):
    """Everything the corpus holds, as bytes."""
    parts = [corpus.Y.indptr, corpus.Y.indices, corpus.Y.data, corpus.labels.frequency]
    for matrix in (corpus.X, corpus.label_X):
        if matrix is not None:
            parts += [matrix.indptr, matrix.indices, matrix.data]
    texts = (corpus.texts, corpus.labels.texts, corpus.labels.names)
    return b"".join(part.tobytes() for part in parts) + repr(texts).encode()


def first_hits(scores, Y):
    """Share of the documents whose best label is right."""
    return np.asarray(Y[np.arange(Y.shape[0]), scores.argmax(axis=1)]).mean()


def test_label_frequencies_have_a_long_tail():
    corpus = synthetic(documents=6_000, labels=3_000, words=5_000)
    counts = corpus.labels.frequency
    assert (np.bincount(corpus.Y.indices, minlength=3_000) == counts).all()
    assert corpus.labels.documents == 6_000
    assert counts.min() >= 1
    assert (counts <= 5).mean() > 0.6
    head = np.sort(counts)[::-1]
    # by Zipf's law the first ten ranks have about ln(11) / ln(3001) = 30 % of the drawn pairs
    drawn = corpus.Y.nnz - 3_000
    assert 0.2 < head[:10].sum() / drawn < 0.4
    assert 2.8 < corpus.Y.nnz / len(corpus) < 3.1


def test_zipf_0_spreads_labels_evenly():
    even = synthetic(documents=4_000, labels=200, words=500, zipf=0.0, every_label=False).labels.frequency
    steep = synthetic(documents=4_000, labels=200, words=500, zipf=1.5, every_label=False).labels.frequency
    assert even.max() < 2 * even.mean()
    assert steep.max() > 10 * steep.mean()


@pytest.mark.parametrize("zipf", [0.0, 0.5, 1.0, 1.7])
def test_draws_follow_the_shares(zipf):
    share = module._shares(50, zipf)
    assert share.sum() == pytest.approx(1.0)
    assert (np.diff(share) <= 1e-12).all()
    corpus = synthetic(documents=20_000, labels=50, words=10, labels_per_document=1, zipf=zipf, every_label=False)
    seen = np.sort(corpus.labels.frequency)[::-1] / 20_000
    assert np.abs(seen - share).max() < 0.02


def test_every_label_is_optional():
    options = {"documents": 1_000, "labels": 1_000, "words": 100, "zipf": 2.0}
    assert synthetic(**options).labels.frequency.min() == 1
    assert synthetic(**options, every_label=False).labels.frequency.min() == 0
    few = synthetic(**{**options, "documents": 10})
    assert len(few) == 10
    assert (few.Y.sum(axis=1) >= 1).all()


def test_labels_of_a_cluster_occur_together():
    def pairs_of_best_partner(cooccurrence):
        corpus = synthetic(documents=5_000, labels=400, words=100, cooccurrence=cooccurrence, zipf=0.3)
        together = (corpus.Y.T @ corpus.Y).toarray()
        np.fill_diagonal(together, 0)
        strongest = np.sort(together, axis=1)[:, -(CLUSTER - 1) :].sum()
        return strongest / together.sum()

    assert pairs_of_best_partner(0.9) > 2 * pairs_of_best_partner(0.0)


def test_rows_have_unit_length_and_are_sorted():
    corpus = synthetic(documents=700, labels=90, words=300)
    for matrix in (corpus.X, corpus.label_X):
        assert matrix.dtype == np.float32
        np.testing.assert_allclose(np.sqrt(matrix.multiply(matrix).sum(axis=1)), 1, rtol=1e-5)
    for matrix in (corpus.X, corpus.Y, corpus.label_X):
        fresh = matrix.copy()
        fresh.has_canonical_format = False
        fresh.has_sorted_indices = False
        fresh.sum_duplicates()
        assert (fresh.indices == matrix.indices).all()
        assert matrix.indices.max() < matrix.shape[1]


def test_words_tell_the_labels():
    corpus = synthetic(documents=1_500, labels=300, words=5_000)
    lookup = first_hits((corpus.X @ corpus.label_X.T).toarray(), corpus.Y)
    most_frequent = corpus.labels.frequency.max() / len(corpus)
    assert lookup > 0.9
    assert lookup > 2 * most_frequent


def test_without_signal_words_tell_nothing():
    corpus = synthetic(documents=1_000, labels=300, words=5_000, signal=0.0)
    assert first_hits((corpus.X @ corpus.label_X.T).toarray(), corpus.Y) < 0.15


def test_texts_hold_the_words_of_the_features():
    options = {"documents": 300, "labels": 40, "words": 200, "words_per_document": 20}
    written, weighed = synthetic(**options, texts=True), synthetic(**options)
    assert written.X is None
    assert weighed.texts is None
    assert (written.Y != weighed.Y).nnz == 0
    for d, text in enumerate(written.texts):
        assert sorted({int(word[1:]) for word in text.split()}) == weighed.X[d].indices.tolist()
    assert 18 < np.mean([len(text.split()) for text in written.texts]) < 22
    for label, text in enumerate(written.labels.texts):
        assert len(text.split()) == WORDS_PER_LABEL
        assert {int(word[1:]) for word in text.split()} == set(weighed.label_X[label].indices.tolist())
    assert written.labels.names[:2] == ["label-000000", "label-000001"]


def test_weights_are_tfidf():
    options = {"documents": 50, "labels": 5, "words": 30}
    corpus, texts = synthetic(**options), synthetic(**options, texts=True).texts
    documents = [text.split() for text in texts]
    row = {
        word: (1 + np.log(documents[0].count(word)))
        * (np.log(51 / (1 + sum(word in document for document in documents))) + 1)
        for word in set(documents[0])
    }
    norm = np.sqrt(sum(weight**2 for weight in row.values()))
    for word, weight in row.items():
        assert corpus.X[0, int(word[1:])] == pytest.approx(weight / norm, rel=1e-5)


@pytest.mark.parametrize("texts", [False, True])
def test_same_seed_same_bytes_whatever_the_threads_and_blocks(texts, monkeypatch):
    options = {"documents": 500, "labels": 300, "words": 400, "texts": texts}
    expected = content(synthetic(**options, seed=3, run=Run(threads=1)))
    monkeypatch.setattr(module, "BLOCK", 37)
    for threads in (1, 2, 5):
        assert content(synthetic(**options, seed=3, run=Run(threads=threads, seed=threads))) == expected
    assert content(synthetic(**options, seed=4)) != expected


@settings(deadline=None, max_examples=40)
@given(
    documents=st.integers(1, 60),
    labels=st.integers(1, 40),
    words=st.integers(1, 50),
    words_per_document=st.floats(1, 30),
    zipf=st.floats(0, 10),
    cooccurrence=st.floats(0, 1),
    signal=st.floats(0, 1),
    more=st.floats(0, 1),
)
def test_any_size_is_a_valid_corpus(documents, labels, words, words_per_document, zipf, cooccurrence, signal, more):
    corpus = synthetic(
        documents=documents,
        labels=labels,
        words=words,
        words_per_document=words_per_document,
        labels_per_document=1 + more * (labels - 1),
        zipf=zipf,
        cooccurrence=cooccurrence,
        signal=signal,
    )
    assert corpus.Y.shape == (documents, labels)
    assert corpus.X.shape == (documents, words)
    assert (np.diff(corpus.Y.indptr) >= 1).all()
    assert (np.diff(corpus.X.indptr) >= 1).all()
    assert np.isfinite(corpus.X.data).all()
    assert not documents >= labels or corpus.labels.frequency.min() >= 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("documents", 0),
        ("documents", 2.5),
        ("documents", True),
        ("labels", -1),
        ("labels", "many"),
        ("words", 0),
        ("words", 2**31),
        ("words_per_document", 0),
        ("words_per_document", float("nan")),
        ("labels_per_document", 0.5),
        ("labels_per_document", 6_000),
        ("zipf", -1),
        ("zipf", float("inf")),
        ("cooccurrence", 1.5),
        ("signal", None),
        ("seed", -1),
    ],
)
def test_bad_arguments_are_named(name, value):
    with pytest.raises(UsageError, match=name):
        synthetic(**{name: value})


@pytest.mark.slow
def test_a_million_documents_and_labels_within_a_minute():
    start = time.perf_counter()
    corpus = synthetic(documents=1_000_000, labels=1_000_000, words=500_000)
    assert time.perf_counter() - start < 60
    assert (corpus.labels.frequency <= 5).mean() > 0.8
