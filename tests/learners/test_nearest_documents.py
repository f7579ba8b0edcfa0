"""Nearest documents: similar training documents vote for their labels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail.corpus import Corpus
from longtail.data.synthetic import synthetic
from longtail.labels import LabelIndex
from longtail.learners.nearest_documents import NearestDocuments
from longtail.run import Run
from longtail.tagger import Tagger


def corpus_of(X: object, Y: object, **others: object) -> Corpus:
    targets = sp.csr_matrix(np.asarray(Y, dtype=np.float32))
    labels = LabelIndex([f"l{j}" for j in range(targets.shape[1])])
    features = sp.csr_matrix(np.asarray(X, dtype=np.float32))
    return Corpus(labels=labels, Y=targets, X=features, **others).counted()  # type: ignore[arg-type]


TRAIN = ([[1, 0], [0, 2], [3, 3]], [[1, 0, 0], [0, 1, 0], [1, 0, 1]])


def test_votes_by_hand() -> None:
    """The query is the first axis: cosines 1, 0 and 0.7071; document 1 is not similar at all, and has no vote."""
    learner = NearestDocuments(neighbours=3, power=2).fit(corpus_of(*TRAIN))
    scores = learner.score(corpus_of([[5, 0]], [[0, 0, 0]]), 3)
    assert scores.ids.tolist() == [[0, 2, -1]]
    np.testing.assert_allclose(scores.values, [[1, 0.5 / 1.5, 0]], rtol=1e-5)
    nearest = NearestDocuments(neighbours=1, power=2).fit(corpus_of(*TRAIN))
    assert nearest.score(corpus_of([[5, 0]], [[0, 0, 0]]), 3).ids.tolist() == [[0, -1, -1]]


def test_a_masked_pair_votes_neither_way() -> None:
    """Document 0 is masked for label 0: of the votes that count for label 0, document 2 has all."""
    weight = np.array([0, 1, 1, 1], dtype=np.float32)
    learner = NearestDocuments(neighbours=3, power=2).fit(corpus_of(*TRAIN, pair_weight=weight))
    scores = learner.score(corpus_of([[5, 0]], [[0, 0, 0]]), 3)
    found = dict(zip(scores.ids[0].tolist(), scores.values[0].tolist(), strict=True))
    assert found[0] == pytest.approx(1) and found[2] == pytest.approx(0.5 / 1.5)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 9999), neighbours=st.integers(1, 12), power=st.floats(0.5, 8))
def test_against_numpy(seed: int, neighbours: int, power: float) -> None:
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((10, 6)) < 0.5, rng.random((10, 6)), 0).astype(np.float32)
    Y = (rng.random((10, 5)) < 0.4).astype(np.float32)
    query = np.where(rng.random((3, 6)) < 0.5, rng.random((3, 6)), 0).astype(np.float32)
    scores = NearestDocuments(neighbours=neighbours, power=power).fit(corpus_of(X, Y)).score(
        corpus_of(query, np.zeros((3, 5))), 5
    )  # fmt: skip
    unit = [rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9) for rows in (query, X)]
    cosine = unit[0] @ unit[1].T
    for row in range(3):
        near = [d for d in np.lexsort((np.arange(10), -cosine[row])) if cosine[row, d] > 0][:neighbours]
        votes = cosine[row, near].astype(np.float64) ** power
        expected = (votes[:, None] * Y[near]).sum(axis=0) / max(votes.sum(), 1e-30)
        found = np.zeros(5)
        found[scores.ids[row][scores.ids[row] >= 0]] = scores.values[row][scores.ids[row] >= 0]
        np.testing.assert_allclose(found, expected, atol=1e-4)


def test_end_to_end_in_an_ensemble_and_the_first_of_any_longer_list() -> None:
    whole = synthetic(documents=600, labels=80, words=800, texts=True, seed=2)
    train, test = whole.split(0.25, np.random.default_rng(0))
    train = train.counted()
    members = [{"part": "parabel", "trees": 1}, "nearest-documents"]
    plain, both = (Tagger(learner).fit(train) for learner in (members[0], {"part": "ensemble", "members": members}))
    alone = Tagger("nearest-documents").fit(train)
    assert alone.evaluate(test)["P@1"] > 50
    assert both.predict(test, 5) != plain.predict(test, 5)
    assert alone.score(test, 3).ids.tolist() == alone.score(test, 40).ids[:, :3].tolist()
    run = [alone.learner.score(replace(test, X=alone.features.transform(test.texts)), 5, run=Run(threads=t))
           for t in (1, 3)]  # fmt: skip
    assert run[0].values.tobytes() == run[1].values.tobytes()
