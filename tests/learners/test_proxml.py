"""ProXML: separators are the optimum of the stated objective, few weights, and nothing is held features x labels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail import Tagger
from longtail.arrays import SparseRows
from longtail.corpus import Corpus
from longtail.data.synthetic import synthetic
from longtail.labels import LabelIndex
from longtail.learners.linear.kernels import LOGISTIC, SQUARED_HINGE
from longtail.learners.linear.nodes import Documents
from longtail.learners.linear.one_vs_all import OneVsAll
from longtail.learners.linear.proxml import ProXML, Room, SparseOptions, columns_of, solve_label
from longtail.plan import Sizes
from longtail.run import Run

EXACT: dict[str, Any] = {"eps": 1e-5, "max_passes": 5_000, "weights": "float32"}


def by_hand() -> Corpus:
    """Two documents that share nothing; the first carries the only label."""
    X = sp.csr_matrix(np.array([[1.0, 0.0], [0.0, 1.0]], dtype=np.float32))
    Y = sp.csr_matrix(np.array([[1.0], [0.0]], dtype=np.float32))
    return Corpus(labels=LabelIndex(["a"]), X=X, Y=Y).counted()


def random_corpus(seed: int, documents: int = 40, features: int = 12) -> Corpus:
    rng = np.random.default_rng(seed)
    X = sp.random_array((documents, features), density=0.4, rng=rng, dtype=np.float32, format="csr")
    X = sp.csr_matrix(X + sp.csr_matrix((np.full(documents, 0.1, np.float32), (range(documents), [0] * documents)),
                                        shape=X.shape))  # fmt: skip
    X = sp.csr_matrix(X / np.sqrt(X.multiply(X).sum(axis=1)))
    Y = (rng.random((documents, 3)) < 0.3).astype(np.float32)
    Y[0] = 1
    return Corpus(labels=LabelIndex(["a", "b", "c"]), X=X.astype(np.float32), Y=sp.csr_matrix(Y)).counted()


def separators(corpus: Corpus, loss: int = SQUARED_HINGE, cost: float = 1.0, penalty: float = 0.1) -> np.ndarray:
    """(labels, features + 1), solved far beyond what is needed."""
    documents = Documents.of(corpus)
    columns, room = columns_of(documents), Room.of(documents.count, documents.n_features)
    made = np.zeros((corpus.n_labels, documents.n_features + 1))
    for label in range(corpus.n_labels):
        own = slice(documents.labels.start[label], documents.labels.start[label + 1])
        features, weights = solve_label(
            documents.rows, columns, documents.labels.indices[own], documents.labels.values[own],
            SparseOptions(loss, cost, penalty, 1e-5, 5_000), label, room,
        )  # fmt: skip
        made[label, features], made[label, -1] = weights[:-1], weights[-1]
        assert not room.weights.any() and not room.listed.any(), "left as they were found"
    return made


def objective(w: np.ndarray, corpus: Corpus, label: int, loss: int, cost: float, penalty: float) -> float:
    X = np.hstack([corpus.features.toarray(), np.ones((len(corpus), 1))])
    sign = np.where(corpus.Y.toarray()[:, label] > 0, 1, -1)
    margin = sign * (X @ w)
    losses = np.maximum(0, 1 - margin) ** 2 if loss == SQUARED_HINGE else np.logaddexp(0, -margin)
    return float(cost * losses.sum() + penalty * np.abs(w).sum())


# the objective
def test_two_documents_by_hand() -> None:
    """By symmetry w = (a, -a) without a bias: 2 C (1 - a)^2 + 2 lambda a is smallest at a = 1 - lambda / 2C."""
    found = separators(by_hand())
    np.testing.assert_allclose(found, [[0.95, -0.95, 0]], atol=1e-4)
    np.testing.assert_allclose(separators(by_hand(), cost=2.0, penalty=0.8), [[0.8, -0.8, 0]], atol=1e-4)
    # 2 C is the gradient of either weight at 0: a penalty as large leaves nothing
    assert not separators(by_hand(), penalty=2.0).any()


@pytest.mark.parametrize("seed", range(3))
def test_the_optimum_is_that_of_liblinear(seed: int) -> None:
    """LIBLINEAR's solver 5 minimises |w|_1 + C sum of losses, the bias penalised like a weight."""
    from sklearn.svm import LinearSVC

    corpus = random_corpus(seed)
    found = separators(corpus)
    for label in range(corpus.n_labels):
        model = LinearSVC(penalty="l1", dual=False, C=10.0, tol=1e-8, max_iter=100_000, random_state=0)
        model.fit(corpus.features, corpus.Y.toarray()[:, label] > 0)
        theirs = np.append(model.coef_.ravel(), model.intercept_)
        np.testing.assert_allclose(found[label], theirs, atol=2e-3)
        ours = objective(found[label], corpus, label, SQUARED_HINGE, 1.0, 0.1)
        assert ours <= objective(theirs, corpus, label, SQUARED_HINGE, 1.0, 0.1) + 1e-4


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    loss=st.sampled_from([SQUARED_HINGE, LOGISTIC]),
    cost=st.floats(0.1, 10),
    penalty=st.floats(0.01, 5),
)
def test_no_change_of_weights_is_better(seed: int, loss: int, cost: float, penalty: float) -> None:
    """The objective is convex: what no step along a weight or at random improves is its minimum."""
    corpus = random_corpus(seed, documents=15, features=6)
    found = separators(corpus, loss, cost, penalty)
    rng = np.random.default_rng(seed)
    for label in range(corpus.n_labels):
        best = objective(found[label], corpus, label, loss, cost, penalty)
        steps = [*np.eye(7), *-np.eye(7), *rng.normal(size=(20, 7))]
        for step in steps:
            for size in (1e-3, 1e-1):
                assert objective(found[label] + size * step, corpus, label, loss, cost, penalty) >= best - 1e-4 * cost


def test_a_pair_of_weight_0_has_no_say() -> None:
    corpus = random_corpus(1)
    Y = corpus.Y.tocsr()
    weight = np.ones(Y.nnz, dtype=np.float32)
    weight[np.flatnonzero(Y.indices == 0)[1]] = 0
    row = int(np.repeat(np.arange(len(corpus)), np.diff(Y.indptr))[np.flatnonzero(Y.indices == 0)[1]])
    masked = separators(replace(corpus, pair_weight=weight))[0]
    without = separators(corpus.rows(np.setdiff1d(np.arange(len(corpus)), [row])))[0]
    np.testing.assert_allclose(masked, without, atol=1e-3)


def test_columns_are_the_rows_turned_round_and_the_bias() -> None:
    corpus = random_corpus(2)
    columns = columns_of(Documents.of(corpus))
    assert isinstance(columns, SparseRows) and columns.n_rows == 13
    dense = sp.csr_matrix((columns.values, columns.indices, columns.start), shape=(13, 40)).toarray()
    np.testing.assert_allclose(dense, np.vstack([corpus.features.toarray().T, np.ones(40)]))


# the learner
def words() -> Corpus:
    return synthetic(documents=200, labels=40, words=300, words_per_document=20, signal=0.7, seed=5)


def test_the_penalty_acts() -> None:
    """Fewer weights than without it, fewer the larger it is; and what is left finds the labels."""
    corpus = words()
    plain = Tagger({"part": "one-vs-all", "prune": 0.0}, threads=1).fit(corpus)
    sizes = []
    for penalty in (0.01, 0.1, 1.0):
        tagger = Tagger({"part": "proxml", "penalty": penalty}, threads=1).fit(corpus)
        sizes.append(sum(array.nbytes for array in tagger.learner.state().values()))
    assert sizes == sorted(sizes, reverse=True) and sizes[-1] < sizes[0]
    assert sizes[1] < 0.5 * sum(array.nbytes for array in plain.learner.state().values())
    found = Tagger({"part": "proxml", "eps": 1e-3}, threads=1).fit(corpus).evaluate(corpus).to_dict()
    assert found["P@1"] > 80


def test_a_fit_gives_the_optimum_of_every_label() -> None:
    """Through blocks, trees and scores: a document's score is exp(-max(0, 1 - w.x)^2) of the optimum."""
    corpus = random_corpus(4)
    learner = ProXML(**EXACT).fit(corpus, run=Run(threads=1))
    scores = learner.score(corpus, 3)
    X = np.hstack([corpus.features.toarray(), np.ones((len(corpus), 1))])
    expected = np.exp(-(np.maximum(0, 1 - X @ separators(corpus).T) ** 2))
    np.testing.assert_allclose(scores.values, np.take_along_axis(expected, scores.ids, axis=1), atol=2e-3)


def test_any_number_of_threads_gives_the_same(tmp_path: Path) -> None:
    corpus = words()
    one, two = (ProXML().fit(corpus, run=Run(threads=threads)).state() for threads in (1, 2))
    assert all(np.array_equal(one[name], two[name]) for name in one)
    tagger = Tagger("proxml", threads=1).fit(corpus)
    tagger.save(tmp_path / "model")
    again = Tagger.load(tmp_path / "model", threads=1)
    assert np.array_equal(again.score(corpus, 5).ids, tagger.score(corpus, 5).ids)


def test_is_not_one_vs_all() -> None:
    corpus = words()
    ours, theirs = (part().fit(corpus, run=Run(threads=1)).state() for part in (ProXML, OneVsAll))
    assert sum(a.nbytes for a in ours.values()) < sum(a.nbytes for a in theirs.values())


def test_its_plan_grows_with_features_plus_labels() -> None:
    """Not with features times labels: ten times of both take about ten times as much, not a hundred."""
    corpus = words()
    sizes = Sizes.of(corpus)
    small = ProXML().plan(sizes, Run(threads=2))[0]
    large = ProXML().plan(replace(sizes, features=10 * sizes.features, labels=10 * sizes.labels), Run(threads=2))[0]
    assert small.peak < large.peak < 12 * small.peak
