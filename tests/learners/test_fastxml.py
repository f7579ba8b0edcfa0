"""FastXML and PfastreXML against hand-worked splits, scikit-learn's solver and plain re-statements."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from longtail.arrays import SparseRows
from longtail.corpus import Corpus
from longtail.data.synthetic import synthetic
from longtail.evaluate import evaluate
from longtail.labels import LabelIndex
from longtail.learners.linear.fastxml import FastXML, PfastreXML, _discounts, _rows
from longtail.learners.linear.fastxml_forest import route
from longtail.learners.linear.fastxml_kernels import leaf_means, part, rank
from longtail.learners.linear.fastxml_solver import L1Options, Sides, candidates, solve_l1
from longtail.run import Run
from longtail.tagger import Tagger

SECOND = 1 / np.log2(3)  # discount of the second place


def corpus_of(Y, X=None, counted=True) -> Corpus:
    Y = sp.csr_matrix(np.asarray(Y, dtype=np.float32))
    X = sp.csr_matrix(np.asarray(np.eye(Y.shape[0]) if X is None else X, dtype=np.float32))
    corpus = Corpus(labels=LabelIndex([f"l{j}" for j in range(Y.shape[1])]), Y=Y, X=X)
    return corpus.counted() if counted else corpus


@pytest.fixture(scope="module")
def corpora() -> tuple[Corpus, Corpus]:
    whole = synthetic(documents=1500, labels=200, words=1500, words_per_document=30, seed=3)
    train, test = whole.split(0.2, np.random.default_rng(0))
    return train.counted(), test


def precision_at_1(learner, corpus) -> float:
    best = learner.score(corpus, 1).ids[:, 0]
    return np.mean([best[i] in corpus.Y[i].indices for i in range(len(corpus)) if corpus.Y[i].nnz])


def leaves_of(learner, corpus) -> np.ndarray:
    """The leaf of each document in each tree, (trees, n)."""
    f = learner.forest_
    out = np.full((f.trees, len(corpus)), -1, dtype=np.int32)
    lookup = np.zeros(corpus.X.shape[1], dtype=np.float32)
    route(_rows(corpus), f, lookup, out)
    assert not lookup.any()
    return out


# --- the partition


def run_part(Y, positive, tolerance=1e-6, pair_weight=None):
    corpus = corpus_of(Y)
    if pair_weight is not None:
        corpus = replace(corpus, pair_weight=np.asarray(pair_weight, dtype=np.float32))
    gain, _ = FastXML().gains(corpus)
    positive = np.array(positive, dtype=bool)
    discount = _discounts(corpus.n_labels).astype(np.float32)
    pairs = SparseRows.of(corpus.Y)._replace(values=gain)
    mean = part(pairs, corpus.n_labels, discount, tolerance, positive)
    return mean, positive


def test_gains_are_strengths_over_the_ideal():
    # two labels: 1 + 1/log2(3); one label: 1. Soft targets and weights lower the gain, not the ideal.
    corpus = corpus_of([[1, 1, 0], [0, 0, 0.5], [1, 0, 1]])
    gain, share = FastXML().gains(corpus)
    two = 1 / (1 + SECOND)
    np.testing.assert_allclose(gain, [two, two, 0.5, two, two], rtol=1e-6)
    assert (share == 1).all()
    weighted = replace(corpus, pair_weight=np.array([1, 0, 1, 0.5, 2], dtype=np.float32))
    np.testing.assert_allclose(FastXML().gains(weighted)[0], [1, 0, 0.5, two / 2, two * 2], rtol=1e-6)


def test_a_partition_by_hand():
    # Sides: {0} and {1, 2, 3}. The upper ranks a, b; the lower b (2 documents), a (1).
    # Document 1 has 1 above and 1/log2(3) below: it moves; documents 2 and 3 have it the other way round and stay.
    # First turn: everyone ends with the first place of a side, mean 1; the second turn changes nothing.
    Y = [[1, 0], [1, 0], [0, 1], [0, 1]]
    mean, positive = run_part(Y, [True, False, False, False])
    assert positive.tolist() == [True, True, False, False]
    assert mean == pytest.approx(1)


def test_the_first_turn_by_hand():
    # a, b, c; upper {0, 1}: document 0 has a and b (gain 1/(1 + s) = 0.6131 each), document 1 has b (1).
    #   totals a 0.6131, b 1.6131, c 0: order b, a, c, discounts 0.6309, 1, 0.5
    # lower {2}: c 1: order c, a, b (ties by label), discounts of a 0.6309, b 0.5, c 1.
    # Document 0: above 0.6131 (0.6309 + 1) = 1, below 0.6131 (0.6309 + 0.5) = 0.6934.
    # Document 1: 1 above. Document 2: 0.5 above, 1 below. Mean 1.
    # Starting with document 0 alone above: order a, b, c; lower {1, 2}: b 1, c 1, a 0: discounts b 1, c 0.6309, a 0.5.
    # Document 0: above 1, below 0.6131 (0.5 + 1) = 0.9197; document 1: above 0.6309, below 1; document 2: above 0.5,
    # below 0.6309. Mean of the first turn (1 + 1 + 0.6309) / 3, and no one moves.
    Y = [[1, 1, 0], [0, 1, 0], [0, 0, 1]]
    mean, positive = run_part(Y, [True, True, False])
    assert positive.tolist() == [True, True, False] and mean == pytest.approx(1)
    mean, positive = run_part(Y, [True, False, False])
    assert positive.tolist() == [True, False, False] and mean == pytest.approx((2 + SECOND) / 3)


def test_documents_without_a_preference_stay():
    _, positive = run_part([[1, 0], [0, 0], [0, 0]], [True, True, False])
    assert positive.tolist() == [True, True, False]


def test_a_pair_of_weight_0_has_no_say():
    Y = [[1, 0], [1, 1], [0, 1], [0, 1]]
    _, positive = run_part(Y, [True, False, False, False], pair_weight=[1, 1, 0, 1, 1])
    assert positive.tolist() == [True, True, False, False]
    _, positive = run_part(Y, [True, False, False, False], pair_weight=[1, 0, 1, 1, 1])
    assert positive.tolist() == [True, False, False, False]


@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0, 1 / 3, 7.7, 300.0, 1e-3]), min_size=1, max_size=300))
@settings(deadline=None)
def test_ranking_is_by_gain_then_label(gains):
    gain = np.zeros((len(gains), 2), dtype=np.float32)
    gain[:, 1] = gains
    order, spare = np.zeros(len(gains), dtype=np.int32), np.zeros(len(gains), dtype=np.int32)
    rank(gain, 1, order, spare, np.zeros(256, dtype=np.int32))
    assert order.tolist() == np.lexsort((np.arange(len(gains)), -gain[:, 1])).tolist()


@given(st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=50)
def test_more_turns_never_lower_the_mean(seed):
    rng = np.random.default_rng(seed)
    Y = rng.random((40, 12)) < 0.2
    positive = rng.random(40) < 0.5
    means = []
    for _ in range(6):
        mean, positive = run_part(Y, positive, tolerance=1e9)  # one turn
        means.append(mean)
    assert (np.diff(means) >= -1e-6).all()
    assert 0 <= means[-1] <= 1 + 1e-6


# --- the separator


def logistic_problem(seed, n=300, d=80, signed=False):
    rng = np.random.default_rng(seed)
    X = sp.random(n, d, 0.15, format="csr", random_state=rng, dtype=np.float32)
    X.data = (rng.normal(size=X.nnz) if signed else rng.uniform(0.1, 0.8, size=X.nnz)).astype(np.float32)
    truth = rng.normal(size=d) * (rng.random(d) < 0.2) * 4
    positive = np.asarray(X @ truth).ravel() + 0.5 * rng.normal(size=n) > 0.4
    return X, positive


def own_solution(X, positive, cost, eps=0.01, newton=10, passes=10):
    n, d = X.shape
    sides = Sides(positive, cost * n / positive.sum(), cost * n / (n - positive.sum()))
    bounds, slot = np.zeros((d, 2), dtype=np.float32), np.zeros(d, dtype=np.int32)
    rows = np.arange(n, dtype=np.int32)
    columns = candidates(SparseRows.of(X), rows, sides, bounds, slot)
    assert not bounds.any() and not slot.any()
    state = np.array([99], dtype=np.uint64)
    w = solve_l1(columns, sides, L1Options(eps, newton, passes), state)
    weights = np.zeros(d)
    weights[columns.features] = w[:-1]
    return weights, float(w[-1]), columns.features


def objective(X, positive, cost, weights, bias):
    n = len(positive)
    C = np.where(positive, cost * n / positive.sum(), cost * n / (n - positive.sum()))
    margin = np.where(positive, 1, -1) * (X @ weights + bias)
    return np.abs(weights).sum() + abs(bias) + (C * np.logaddexp(0, -margin)).sum()


def liblinear_solution(X, positive, cost):
    n = len(positive)
    model = LogisticRegression(
        l1_ratio=1.0, solver="liblinear", C=cost, tol=1e-6, max_iter=5000, intercept_scaling=1.0,
        class_weight={True: n / positive.sum(), False: n / (n - positive.sum())}, random_state=0,
    )  # fmt: skip
    model.fit(X.astype(np.float64), positive)
    return model.coef_.ravel(), float(model.intercept_[0])


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("cost", [0.3, 1.0, 10.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_separator_reaches_liblinears_objective(seed, cost, signed):
    X, positive = logistic_problem(seed, signed=signed)
    best = objective(X, positive, cost, *liblinear_solution(X, positive, cost))
    *close, _ = own_solution(X, positive, cost, eps=1e-5, newton=100, passes=100)
    assert objective(X, positive, cost, *close) == pytest.approx(best, rel=1e-4)
    *quick, _ = own_solution(X, positive, cost)
    if cost <= 1:  # where the classes can be told apart fully, ten Newton steps stop short
        assert objective(X, positive, cost, *quick) == pytest.approx(best, rel=0.02)
    assert objective(X, positive, cost, *quick) < objective(X, positive, cost, np.zeros(X.shape[1]), 0.0)


@pytest.mark.parametrize("signed", [False, True])
def test_features_left_out_have_no_weight_at_the_optimum(signed):
    X, positive = logistic_problem(5, n=60, d=200, signed=signed)
    cost = 0.4
    weights, _ = liblinear_solution(X, positive, cost)
    _, _, used = own_solution(X, positive, cost)
    assert 0 < len(used) < 200, "some stay, some go"
    assert set(np.flatnonzero(np.abs(weights) > 1e-6)) <= set(used)
    assert (weights != 0).any()


def test_a_separator_that_cannot_pay_is_zero():
    X, positive = logistic_problem(0)
    weights, bias, _ = own_solution(X, positive, 1e-4)
    assert not weights.any() and bias == 0


# --- leaves and trees


def test_a_leaf_by_hand():
    corpus = corpus_of([[1, 1, 0, 0], [1, 0, 0.5, 0], [1, 0, 0, 1]])
    weights = np.array([1, 1, 0, 1, 1, 1], dtype=np.float32)  # the pair (document 1, label 0) is left out
    pairs = SparseRows.of(corpus.Y)._replace(values=corpus.Y.data * weights)
    zeros, slot = np.zeros(4, dtype=np.float32), np.zeros(4, dtype=np.int32)
    rows = np.arange(3, dtype=np.int32)
    labels, shares = leaf_means(pairs, np.ones(4, dtype=np.float32), rows, 100, zeros, slot)
    assert labels.tolist() == [0, 1, 2, 3]
    np.testing.assert_allclose(shares, [1, 1 / 3, 1 / 6, 1 / 3], rtol=1e-6)  # label 0: 2 of the 2 that count
    factor = np.array([0.1, 1, 1, 1], dtype=np.float32)
    labels, shares = leaf_means(pairs, factor, rows, 2, zeros, slot)
    assert labels.tolist() == [1, 3], "the two largest, ties by label"
    assert not zeros.any() and not slot.any()


@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.integers(1, 12))
@settings(deadline=None, max_examples=40)
def test_every_document_lies_in_one_leaf_and_leaves_are_means(seed, n, max_leaf):
    rng = np.random.default_rng(seed)
    Y = np.where(rng.random((n, 9)) < 0.25, rng.choice([0.5, 1.0], size=(n, 9)), 0)
    X = np.where(rng.random((n, 15)) < 0.3, rng.normal(0.5, 1, size=(n, 15)), 0)
    corpus = corpus_of(Y, X)
    learner = FastXML(trees=3, max_leaf=max_leaf, cost=5.0).fit(corpus, run=Run(seed % 1000, 1))
    forest = learner.forest_
    leaves = leaves_of(learner, corpus)
    dense = corpus.Y.toarray()
    for tree in range(3):
        low, high = forest.tree_start[tree], forest.tree_start[tree + 1]
        ends = np.flatnonzero(forest.child[low:high] < 0) + low
        assert set(leaves[tree]) == set(ends), "no leaf is empty, and documents end in leaves"
        for leaf in ends:
            span = slice(forest.leaf_start[leaf], forest.leaf_start[leaf + 1])
            stored = np.zeros(9)
            stored[forest.label[span]] = forest.share[span]
            np.testing.assert_allclose(stored, dense[leaves[tree] == leaf].mean(axis=0), atol=1e-6)
    scores = learner.score(corpus, 9)
    assert scores.values.min() >= 0 and scores.values.max() <= 1
    assert (scores.sorted().ids == scores.ids).all()
    mean = np.zeros((n, 9))
    for tree in range(3):
        for row, leaf in enumerate(leaves[tree]):
            span = slice(forest.leaf_start[leaf], forest.leaf_start[leaf + 1])
            mean[row, forest.label[span]] += forest.share[span] / 3
    np.testing.assert_allclose(scores.to_csr(9).toarray(), mean, atol=1e-6)


def test_leaves_are_small_where_documents_can_be_parted(corpora):
    train, _ = corpora
    learner = FastXML(trees=2, cost=10.0).fit(train)
    sizes = np.bincount(leaves_of(learner, train)[0])
    assert np.median(sizes[sizes > 0]) <= 10
    assert len(FastXML(trees=1, max_leaf=len(train)).fit(train).forest_.child) == 1


@dataclass(kw_only=True)
class RandomSplits(FastXML):
    """No gain anywhere: documents stay on the side that chance gave them."""

    def gains(self, corpus):
        gain, share = super().gains(corpus)
        return np.zeros_like(gain), share


def test_learns_and_random_splits_are_worse(corpora):
    train, test = corpora
    grown = precision_at_1(FastXML(trees=10).fit(train), test)
    chance = precision_at_1(RandomSplits(trees=10).fit(train), test)
    none = precision_at_1(FastXML(trees=1, max_leaf=len(train)).fit(train), test)
    assert grown > 0.5
    assert grown > chance + 0.1
    assert chance >= none


def test_more_trees_are_better(corpora):
    train, test = corpora
    assert precision_at_1(FastXML(trees=20).fit(train), test) > precision_at_1(FastXML(trees=1).fit(train), test) + 0.03


def test_unsorted_rows_are_the_same_rows(corpora):
    train, _ = corpora
    train = train.rows(np.arange(200))
    shuffled = train.X.copy()
    for i in range(len(train)):
        span = slice(shuffled.indptr[i], shuffled.indptr[i + 1])
        shuffled.indices[span] = shuffled.indices[span][::-1].copy()
        shuffled.data[span] = shuffled.data[span][::-1].copy()
    shuffled.has_sorted_indices = False
    shuffled.has_canonical_format = False
    first, second = FastXML(trees=2).fit(train), FastXML(trees=2).fit(replace(train, X=shuffled))
    assert all((first.state()[name] == second.state()[name]).all() for name in first.state())


def test_one_document_at_a_time_is_the_same_as_in_bulk(corpora):
    train, test = corpora
    for learner in (FastXML(trees=3), PfastreXML(trees=3)):
        learner.fit(train)
        bulk = learner.score(test, 5)
        for i in range(10):
            single = learner.score(test.rows(np.array([i])), 5)
            assert single.values.tobytes() == bulk.values[i].tobytes()
            assert single.ids.tobytes() == bulk.ids[i].tobytes()


# --- PfastreXML


def test_without_propensities_and_tail_term_pfastrexml_is_fastxml():
    """One label a document makes every ideal 1; labels that were not counted have q = 1."""
    rng = np.random.default_rng(0)
    Y = np.eye(8, dtype=np.float32)[rng.integers(0, 8, size=200)]
    corpus = corpus_of(
        Y, rng.random((200, 20)) * (rng.random((200, 20)) < 0.3) + Y @ rng.random((8, 20)), counted=False
    )
    assert (corpus.labels.inverse_propensity() == 1).all()
    fast, pfast = FastXML(trees=3).fit(corpus), PfastreXML(trees=3, alpha=1.0).fit(corpus)
    assert len(fast.forest_.child) > 10
    for name, array in fast.forest_.arrays().items():
        assert array.tobytes() == pfast.forest_.arrays()[name].tobytes(), name
    first, second = fast.score(corpus, 5), pfast.score(corpus, 5)
    assert (first.ids == second.ids).all() and (first.values == second.values).all()


def test_gains_and_shares_are_weighted_by_inverse_propensity(corpora):
    train, _ = corpora
    q = train.labels.inverse_propensity(0.6, 2.6)
    gain, share = PfastreXML(A=0.6, B=2.6).gains(train)
    np.testing.assert_allclose(gain, q[train.Y.indices], rtol=1e-6)
    np.testing.assert_allclose(share, q / q.max(), rtol=1e-6)


@pytest.mark.parametrize("alpha", [0.0, 0.8])
def test_scores_combine_trees_and_distance_to_the_centre(corpora, alpha):
    train, test = corpora
    rng = np.random.default_rng(1)
    weight = rng.choice([0.0, 0.5, 1.0], size=train.Y.nnz).astype(np.float32)
    train = replace(train, X=sp.csr_matrix(train.X * 3), pair_weight=weight)  # centres are of unit vectors
    learner = PfastreXML(trees=3, alpha=alpha, gamma=5.0).fit(train)
    scores = learner.score(test, 200)
    learner.alpha = 1.0
    by_trees = learner.score(test, 200).to_csr(200).toarray()
    X = train.X.toarray() / np.linalg.norm(train.X.toarray(), axis=1, keepdims=True)
    S = sp.csr_matrix((weight, train.Y.indices, train.Y.indptr), train.Y.shape).toarray()
    centres = (S / np.maximum(S.sum(axis=0), 1e-12)).T @ X
    x = test.X.toarray() / np.linalg.norm(test.X.toarray(), axis=1, keepdims=True)
    distance = ((x[:, None, :] - centres[None]) ** 2).sum(axis=2)
    expected = np.where(by_trees > 0, by_trees**alpha * (2 / (1 + np.exp(5.0 * distance))) ** (1 - alpha), 0)
    np.testing.assert_allclose(scores.to_csr(200).toarray(), expected, rtol=2e-3, atol=1e-7)
    assert (scores.sorted().ids == scores.ids).all() and scores.values.max() <= 1


def test_only_the_shortlist_is_ranked_again(corpora):
    train, test = corpora
    learner = PfastreXML(trees=5, shortlist=4, gamma=100.0).fit(train)
    few = learner.score(test, 4)
    learner.alpha = 1.0
    by_trees = learner.score(test, 4)
    assert (np.sort(few.ids, axis=1) == np.sort(by_trees.ids, axis=1)).all()
    assert (few.ids != by_trees.ids).any()


def test_a_label_far_from_its_centre_keeps_a_score(corpora):
    train, test = corpora
    scores = PfastreXML(trees=2, alpha=0.0, gamma=1e6).fit(train).score(test, 5)
    assert (scores.values[scores.ids >= 0] > 0).all()


def test_rare_labels_gain(corpora):
    train, test = corpora
    plain = evaluate(FastXML(trees=20).fit(train).score(test, 5), test.aligned(train.labels))
    weighted = evaluate(PfastreXML(trees=20).fit(train).score(test, 5), test.aligned(train.labels))
    for k in (1, 3, 5):
        assert weighted[f"PSP@{k}"] > plain[f"PSP@{k}"]


# --- keeping


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("forest.child", lambda a: np.where(a >= 0, 0, a)),  # a circle
        ("forest.child", lambda a: np.where(a >= 0, len(a) - 1, a)),  # its sibling lies outside
        ("forest.child", lambda a: np.where(a >= 0, a, -2)),
        ("forest.tree_start", lambda a: np.concatenate([a[:1], a[:1], a[2:]])),
        ("forest.feature", lambda a: a + 10_000),
        ("forest.feature", lambda a: -a - 1),
        ("forest.label", lambda a: a + 10_000),
        ("forest.label", lambda a: a * 0),
        ("forest.share", lambda a: a + 1),
        ("forest.share", lambda a: a * np.nan),
        ("forest.weight_start", lambda a: a[::-1].copy()),
        ("forest.leaf_start", lambda a: a + 1),
        ("centre.label", lambda a: a - 1),
        ("centre.label", lambda a: a + 200),
        ("centre.start", lambda a: a[::-1].copy()),
        ("centre.norm", lambda a: a + np.inf),
        ("size", lambda a: -a),
        ("size", lambda a: a // 2),
    ],
)
def test_restore_checks_every_index(corpora, name, change):
    learner = PfastreXML(trees=2).fit(corpora[0].rows(np.arange(300)))
    state = learner.state()
    PfastreXML(trees=2).restore(state)
    with pytest.raises(ValueError):
        PfastreXML(trees=2).restore({**state, name: change(state[name]).astype(state[name].dtype)})
    with pytest.raises(ValueError):
        FastXML(trees=2).restore(state)  # has arrays it does not know


@pytest.mark.parametrize("name", ["fastxml", "pfastrexml"])
def test_from_texts_to_a_saved_model_and_back(name, tmp_path: Path):
    corpus = synthetic(documents=300, labels=20, words=300, words_per_document=20, seed=2, texts=True)
    tagger = Tagger({"part": name, "trees": 5}, features={"part": "tfidf", "min_df": 1}).fit(corpus)
    tagger.save(tmp_path / "model")
    loaded = Tagger.load(tmp_path / "model")
    first, second = tagger.score(corpus, 5), loaded.score(corpus, 5)
    assert first.ids.tobytes() == second.ids.tobytes() and first.values.tobytes() == second.values.tobytes()
    right = [first.ids[i, 0] in corpus.Y[i].indices for i in range(len(corpus))]
    assert np.mean(right) > 0.6
