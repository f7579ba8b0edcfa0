"""Astec's shortlists: nearest centroids, several of a label, and the labels of the nearest documents."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("torch")

from longtail.corpus import Corpus
from longtail.labels import LabelIndex
from longtail.learners.neural.shortlists.nearest import NearestLabels, Nearness
from longtail.run import Run

ONE = Run(threads=1)
ROOT = np.sqrt(0.5)


def corpus_of(rows: list[list[int]], labels: int) -> Corpus:
    Y = np.zeros((len(rows), labels), dtype=np.float32)
    for row, own in enumerate(rows):
        Y[row, own] = 1
    return Corpus(labels=LabelIndex([f"l{n}" for n in range(labels)]), Y=sp.csr_matrix(Y)).counted()


def near(vectors: Any, rows: list[list[int]], labels: int, **options: Any) -> NearestLabels:
    return NearestLabels.of(np.array(vectors, np.float32), corpus_of(rows, labels), Nearness(**options), ONE)


def found(made: NearestLabels, vector: list[float], k: int = 9) -> dict[int, float]:
    ids, values = made.opened(ONE).nearest(np.array([vector], np.float32), k)
    assert (np.diff(values[0][ids[0] >= 0]) <= 0).all()
    return {int(label): float(value) for label, value in zip(ids[0], values[0], strict=True) if label >= 0}


def test_one_centroid_per_label() -> None:
    """Label 0 has documents (1, 0) and (0, 1), whose mean points half-way; label 1 has the second; label 2 has none."""
    made = near([[1, 0], [0, 1]], [[0], [0, 1]], 3)
    assert found(made, [1, 0]) == {0: pytest.approx(ROOT, rel=1e-6), 1: 0}
    assert found(made, [0, 1], 1) == {1: 1}


def test_several_centroids_of_a_label_with_many_documents() -> None:
    """A label on two sides: its mean is near to neither, its two centroids are; the nearest of them counts."""
    vectors = [[1, 0], [1, 0.01], [0, 1], [0.01, 1], [1, 1]]
    rows = [[0], [0], [0], [0], [1]]
    assert found(near(vectors, rows, 2), [1, 0]) == pytest.approx({0: ROOT, 1: ROOT}, rel=1e-3)
    several = near(vectors, rows, 2, centroids=2, many=3)
    assert several.label.tolist() == [1, 0, 0] and several.centroids.shape == (3, 2)
    assert found(several, [1, 0]) == pytest.approx({0: 1, 1: ROOT}, rel=1e-3)
    assert found(several, [0, 1]) == pytest.approx({0: 1, 1: ROOT}, rel=1e-3)
    few = near(vectors, rows, 2, centroids=2, many=4)
    assert few.label.tolist() == [0, 1], "no label has more than four"


def test_nearest_documents_lend_their_labels() -> None:
    """0.9 cos(x, centroid) + 0.1 sum of cosines of the two nearest documents that have the label."""
    vectors, rows = [[1, 0], [1, 1], [0, 1]], [[0, 1], [1], [2]]
    made = near(vectors, rows, 3, documents=2, share=0.1)
    centroid = np.array([2, 1]) / np.sqrt(5)
    expected = {0: 0.9 + 0.1, 1: 0.9 * centroid[0] + 0.1 * (1 + ROOT), 2: 0.0}
    assert found(made, [1, 0]) == pytest.approx(expected, abs=1e-6)
    assert found(made, [1, 0]) != found(near(vectors, rows, 3), [1, 0])


def test_a_label_that_only_a_document_finds() -> None:
    """Its centroid lies among those that are not looked at; a document next to the query has it."""
    vectors, rows = [[1, 0], [-1, 0.1], [-1, 0], [1, 0.2]], [[0], [1], [0], [2]]
    rows[0] = [0, 1]
    plain = near(vectors, rows, 3)
    assert list(found(plain, [1, 0.05], 1)) == [2]
    lent = near(vectors, rows, 3, documents=1, share=1.0)
    assert list(found(lent, [1, 0.0], 2)) == [0, 1]


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 999), documents=st.integers(0, 6), several=st.booleans(), k=st.integers(1, 8))
def test_the_formula(seed: int, documents: int, several: bool, k: int) -> None:
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(20, 3)).astype(np.float32)
    corpus = corpus_of([rng.choice(6, rng.integers(1, 3), replace=False).tolist() for _ in range(20)], 6)
    nearness = Nearness(documents, 0.2, 3 if several else 1, 5)
    made = NearestLabels.of(vectors, corpus, nearness, ONE)
    queries = rng.normal(size=(4, 3)).astype(np.float32)
    ids, values = made.opened(ONE).nearest(queries, 6)

    def cosines(others: Any) -> Any:
        unit = others / np.maximum(np.linalg.norm(others, axis=1, keepdims=True), 1e-9)
        return queries / np.linalg.norm(queries, axis=1, keepdims=True) @ unit.T

    Y = corpus.Y.toarray()
    by_centroid = cosines(made.centroids)
    by_document = cosines(vectors)
    for row in range(4):
        for label, value in zip(ids[row], values[row], strict=True):
            if label < 0:
                continue
            own = by_centroid[row][made.label == label].max()
            best = np.argsort(-by_document[row], kind="stable")[:documents]
            lent = (by_document[row][best] * Y[best, label]).sum()
            assert value == pytest.approx(own if not documents else 0.8 * own + 0.2 * lent, abs=1e-4)
    again = NearestLabels.restored(nearness, 6, 3, made.state())
    other = again.opened(Run(threads=2)).nearest(queries, k)
    first = made.opened(ONE).nearest(queries, k)
    assert all(one.tobytes() == two.tobytes() for one, two in zip(first, other, strict=True))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("centroids", lambda a: a[:-1]), ("centroids", lambda a: a.astype(np.float64)),
        ("centroid_label", lambda a: a + 1), ("centroid_label", lambda a: a * 0),
        ("centroid_label", lambda a: a.astype(np.int64)), ("centroid_label", None),
        ("documents", lambda a: a[:, :1]), ("documents", None), ("documents", lambda a: a[1:]),
        ("document_start", lambda a: a[::-1].copy()), ("document_start", lambda a: a + 1),
        ("document_label", lambda a: a + 9), ("document_label", lambda a: a[:-1]), ("document_label", lambda a: -a - 1),
    ],
)  # fmt: skip
def test_arrays_that_do_not_fit_are_refused(name: str, change: Any) -> None:
    made = near([[1, 0], [0, 1], [1, 1]], [[0], [0, 1], [0]], 2, documents=2, centroids=2, many=2)
    state = made.state()
    if change is None:
        del state[name]
    else:
        state[name] = change(state[name])
    with pytest.raises(ValueError):
        NearestLabels.restored(made.nearness, 2, 2, state)
