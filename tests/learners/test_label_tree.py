"""Trees against a plain re-statement of their definition."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from linear_helpers import train_node

from longtail.corpus import Corpus
from longtail.data.synthetic import synthetic
from longtail.labels import LabelIndex
from longtail.learners.linear.kernels import SolverOptions
from longtail.learners.linear.label_tree import Bonsai, Parabel
from longtail.learners.linear.nodes import Documents
from longtail.learners.linear.one_vs_all import OneVsAll
from longtail.learners.linear.problems import Node
from longtail.learners.linear.tree import Tree
from longtail.run import Run
from longtail.sparse import unit_rows


@pytest.fixture(scope="module")
def corpora() -> tuple[Corpus, Corpus]:
    whole = synthetic(documents=1500, labels=300, words=2000, words_per_document=30, seed=3)
    train, test = whole.split(0.2, np.random.default_rng(0))
    return train.counted(), test


def precision_at_1(learner, corpus):
    best = learner.score(corpus, 1).ids[:, 0]
    return np.mean([best[i] in corpus.Y[i].indices for i in range(len(corpus)) if corpus.Y[i].nnz])


def naive_scores(tree: Tree, x: np.ndarray, discount=1.0, logistic=False) -> dict[int, float]:
    """Every label's score by walking all paths: no beam, no sparsity."""
    scores: dict[int, float] = {}

    def walk(node: int, above: float) -> None:
        slots = range(tree.slot_start[node], tree.slot_start[node + 1])
        weights = np.zeros((len(x), len(slots)))
        own = tree.separators(node)
        weights[np.repeat(own.features, own.row_length), own.column] = own.weight
        for j, slot in enumerate(slots):
            z = x @ weights[:, j] + tree.bias[slot]
            edge = -np.log1p(np.exp(-z)) if logistic else -(max(0, 1 - z) ** 2)
            if tree.leaf[node]:
                scores[int(tree.slot_target[slot])] = np.exp(above * discount + edge)
            else:
                walk(int(tree.slot_target[slot]), above * discount + edge)

    for root in range(tree.level_start[1]):
        walk(root, 0.0)
    return scores


def naive_list(per_tree: list[dict[int, float]], k: int, n_labels: int) -> dict[int, float]:
    """The k best labels by the mean over trees, in order: 25 from the 50 best per tree, 25 from the 100 best, ..."""
    if len(per_tree) == 1:
        return dict(sorted(per_tree[0].items(), key=lambda pair: -pair[1])[:k])
    listed: dict[int, float] = {}
    depth, places, last = 50, 25, 1.0
    while len(listed) < k:
        best = [dict(sorted(scores.items(), key=lambda pair: -pair[1])[:depth]) for scores in per_tree]
        mean = {label: sum(own.get(label, 0) for own in best) / len(best) for own in best for label in own}
        unlisted = sorted((label for label in mean if label not in listed), key=lambda label: -mean[label])
        for label in unlisted[: k if depth >= n_labels else min(k, places) - len(listed)]:
            last = listed[label] = min(mean[label], last)
        if depth >= n_labels:
            break
        depth, places = 2 * depth, 2 * places
    return listed


@pytest.mark.parametrize(
    ("learner", "discount", "logistic"),
    [
        (Parabel(trees=2, max_leaf=20, beam=1000), 1.0, False),
        (Parabel(trees=1, max_leaf=20, beam=1000, loss="logistic"), 1.0, True),
        (Bonsai(trees=2, branches=6, max_leaf=20, depth=3, discount=0.98, beam=1000), 0.98, False),
        (OneVsAll(), 1.0, False),
    ],
)
def test_scores_are_the_mean_over_trees_of_the_product_along_the_path(corpora, learner, discount, logistic):
    train, test = corpora
    learner.fit(train)
    scores = learner.score(test, 300)
    for i in range(0, len(test), 50):
        x = test.X[i].toarray().ravel()
        per_tree = [naive_scores(tree, x, discount, logistic) for tree in learner.trees_]
        expected = naive_list(per_tree, 300, 300)
        there = scores.ids[i] >= 0
        assert set(scores.ids[i, there]) == set(expected)
        for place, (label, value) in enumerate(zip(scores.ids[i, there], scores.values[i, there], strict=True)):
            assert value == pytest.approx(expected[label], abs=1e-4)
            assert value == pytest.approx(list(expected.values())[place], abs=1e-4)


@pytest.mark.parametrize(
    "learner", [Parabel(trees=1), Bonsai(trees=1, branches=10), OneVsAll(), Parabel(loss="logistic")]
)
def test_learners_learn(corpora, learner):
    train, test = corpora
    assert precision_at_1(learner.fit(train), test) > 0.6


def test_parabel_is_balanced_and_every_label_lies_in_one_leaf(corpora):
    train, _ = corpora
    tree = Parabel(trees=1, max_leaf=20).fit(train).trees_[0]
    sizes = np.diff(tree.slot_start)
    assert sizes[tree.leaf].max() <= 20
    assert sizes[tree.leaf].max() - sizes[tree.leaf].min() <= 1
    assert (sizes[~tree.leaf] == 2).all()
    labels = np.concatenate(
        [tree.slot_target[tree.slot_start[v] : tree.slot_start[v + 1]] for v in np.flatnonzero(tree.leaf)]
    )
    assert sorted(labels) == sorted(np.unique(train.Y.indices))


def test_bonsai_is_shallow_and_leaves_at_different_depths_are_all_reached(corpora):
    train, _ = corpora
    tree = Bonsai(trees=1, branches=5, max_leaf=40, depth=3).fit(train).trees_[0]
    depths = np.searchsorted(tree.level_start, np.flatnonzero(tree.leaf), side="right")
    assert len(set(depths)) > 1
    scores = Bonsai(trees=1, branches=5, max_leaf=40, depth=3, beam=1000).fit(train).score(train, 300)
    assert set(np.unique(scores.ids)) - {-1} == set(np.unique(train.Y.indices))


def test_depth_follows_the_number_of_labels_unless_given(corpora):
    train, _ = corpora
    assert len(Bonsai(trees=1, branches=5, max_leaf=20).fit(train).trees_[0].level_start) == 3
    assert len(Bonsai(trees=1, branches=5, max_leaf=20, depth=2).fit(train).trees_[0].level_start) == 4


def test_small_beams_lose_little_and_a_beam_of_one_loses_something(corpora):
    train, test = corpora
    learner = Parabel(trees=1, max_leaf=10).fit(train)
    wide = learner.score(test, 5).ids
    learner.beam = 1
    narrow = learner.score(test, 5).ids
    assert (narrow[:, 0] == wide[:, 0]).mean() < 1
    learner.beam = 64
    assert (learner.score(test, 5).ids[:, 0] == wide[:, 0]).mean() > 0.97


def test_one_document_at_a_time_is_the_same_as_in_bulk(corpora):
    train, test = corpora
    learner = Bonsai(trees=2, branches=8).fit(train)
    bulk = learner.score(test, 5)
    for i in range(20):
        single = learner.score(test.rows(np.array([i])), 5)
        assert single.ids.tobytes() == bulk.ids[i].tobytes()
        assert single.values.tobytes() == bulk.values[i].tobytes()


def test_negatives_come_from_the_node_only():
    # Document 1 has no label below the node of label 0 alone, so its separator never sees it.
    corpus = synthetic(documents=40, labels=10, words=100, seed=1)
    documents = Documents.of(corpus)
    solver = SolverOptions(0, 1.0, 0.01, 100, 0.0)
    label = int(corpus.Y.indices[0])
    node = Node(np.array([label], dtype=np.int32), np.zeros(1, np.int32), 1)
    own = train_node(documents, node, solver)
    everyone = train_node(documents, node, solver, all_documents=True)
    carriers = corpus.Y[:, [label]].nonzero()[0]
    assert set(own.features) <= set(corpus.X[carriers].indices)
    assert not set(everyone.features) <= set(corpus.X[carriers].indices)
    assert (everyone.weight < 0).any()
    assert not (own.weight < 0).any()


def soft_corpus(targets):
    """One document a row of targets, each with a word of its own and the word they all share."""
    Y = sp.csr_matrix(np.array(targets, dtype=np.float32))
    X = sp.csr_matrix(np.hstack([np.eye(Y.shape[0]), np.ones((Y.shape[0], 1))]).astype(np.float32))
    return Corpus(labels=LabelIndex(tuple("abcd"[: Y.shape[1]])), Y=Y, X=X)


def test_a_document_meets_labels_it_hardly_carries_at_their_leaves_only():
    corpus = soft_corpus([[1, 0, 0], [0, 1, 0], [0.3, 0, 1], [0.3, 0.2, 0]])
    documents = Documents.of(corpus)
    # beside a document's surest label: 0.3 of 1 is little, 0.3 of 0.3 is all, 0.2 of 0.3 is enough
    assert documents.label_sure.tolist() == [True, False, True, True, True, True]
    solver = SolverOptions(0, 1.0, 0.01, 100, 0.0)
    node = Node(np.array([0, 1], np.int32), np.array([0, 1], np.int32), 2)
    leaf = train_node(documents, node, solver)
    inner = train_node(documents, node, solver, sure_only=True)
    assert set(leaf.features) == {0, 1, 2, 3, 4}
    assert set(inner.features) == {0, 1, 3, 4}
    # and there it speaks for label 0, not against label 1
    own = leaf.column[np.repeat(leaf.features, leaf.row_length) == 2]
    assert own.tolist() == [0]
    others = leaf.column[np.repeat(leaf.features, leaf.row_length) == 0]
    assert others.tolist() == [0, 1]


def test_soft_targets_alone_still_train_every_node(corpora):
    """Documents of which no target is sure go down the tree all the same."""
    train, test = corpora
    faint = replace(train, Y=sp.csr_matrix(train.Y * np.float32(0.3)))
    plain, soft = (Parabel(trees=1).fit(each).score(test, 1) for each in (train, faint))
    assert (plain.ids == soft.ids).mean() > 0.6


def test_pruning_drops_small_weights_and_shrinks_the_model(corpora):
    train, _ = corpora
    full, pruned = (Parabel(trees=1, prune=p, weights="float32").fit(train).trees_[0] for p in (0.0, 0.3))
    assert len(pruned.weight) < len(full.weight)
    assert min(np.abs(pruned.separators(node).weight).min() for node in range(len(pruned.leaf))) > 0.3


def test_labels_nobody_carries_are_never_predicted(corpora):
    train, test = corpora
    weights = np.ones(train.Y.nnz, dtype=np.float32)
    weights[train.Y.indices == 7] = 0
    masked = Corpus(labels=train.labels, Y=train.Y, X=train.X, pair_weight=weights)
    for learner in (Parabel(trees=1), Bonsai(trees=1, branches=8), OneVsAll()):
        assert 7 in learner.fit(train).score(test, 300).ids
        assert 7 not in learner.fit(masked).score(test, 300).ids


def test_seed_changes_trees_threads_do_not(corpora):
    train, _ = corpora
    states = [
        Parabel(trees=2, max_leaf=20).fit(train, run=Run(seed, threads)).state()
        for seed, threads in ((0, 1), (0, 3), (1, 1))
    ]
    blobs = [b"".join(array.tobytes() for array in state.values()) for state in states]
    assert blobs[0] == blobs[1] != blobs[2]


@pytest.mark.parametrize(
    ("name", "position", "value"),
    [("slot_target", -1, 10**6), ("slot_target", 0, 0), ("slot_start", -1, 3), ("level_start", 1, 0),
     ("node_start", (1, 0), -5), ("node_start", (-1, 6), 3), ("node_start", (1, 1), 1), ("shift", 0, 40),
     ("shift", 0, 4), ("lookup", (0, 0), 5), ("lookup", (1, 1), 10**6), ("group", 0, 9), ("offset", 1, 65_535),
     ("column", 0, 255)],
)  # fmt: skip
def test_a_tampered_tree_is_refused_before_any_kernel_runs(corpora, name, position, value):
    train, _ = corpora
    learner = Parabel(trees=1).fit(train)
    state = {key: array.copy() for key, array in learner.state().items()}
    state[f"tree0.{name}"][position] = value
    with pytest.raises(ValueError, match=r"out of range|does not rise"):
        Parabel(trees=1).restore(state)


def test_missing_and_surplus_arrays_are_refused(corpora):
    train, _ = corpora
    state = Parabel(trees=1).fit(train).state()
    no_weights = {k: v for k, v in state.items() if k != "tree0.weight"}
    no_size = {k: v for k, v in state.items() if k != "size"}
    surplus = {**state, "tree1.weight": state["tree0.weight"]}
    for broken in (no_weights, no_size, surplus, {**state, "size": np.array([1, 2])}):
        with pytest.raises(ValueError, match=r"keeps|expected|must hold"):
            Parabel(trees=1).restore(broken)


def test_raw_counts_are_brought_to_unit_length(corpora):
    """Features as given may be counts of any size; the trees see directions."""
    train, test = corpora
    rng = np.random.default_rng(0)
    scaled = [replace(c, X=sp.csr_matrix(c.X.multiply(rng.uniform(0.1, 50, (len(c), 1))))) for c in corpora]
    plain = Parabel(trees=1).fit(train).score(test, 5)
    same = Parabel(trees=1).fit(scaled[0]).score(scaled[1], 5)
    assert (plain.ids[:, 0] == same.ids[:, 0]).mean() > 0.99
    np.testing.assert_allclose(plain.values[:, 0], same.values[:, 0], atol=0.02)


def test_unit_rows_leaves_unit_and_empty_rows_alone():
    X = sp.csr_matrix(np.array([[0.6, 0.8, 0], [0, 0, 0], [0, 0, 1]], dtype=np.float32))
    assert unit_rows(X, 1e-3) is X
    np.testing.assert_allclose(unit_rows(sp.csr_matrix(X * 5)).toarray(), X.toarray(), rtol=1e-6)
    assert unit_rows(sp.csr_matrix((2, 3), dtype=np.float32)).nnz == 0
    assert unit_rows(sp.csr_matrix((0, 3), dtype=np.float32)).shape == (0, 3)


def test_one_vs_all_has_passes_enough_to_converge(corpora):
    """Passes visit documents that are not at rest; twenty were used up before those at rest were looked at again."""
    train, _ = corpora
    found = {
        passes: OneVsAll(weights="float32", prune=0.0, **({"max_passes": passes} if passes else {}))
        .fit(train, run=Run(seed=0))
        .score(train, 20)
        for passes in (0, 20, 5000)
    }
    np.testing.assert_allclose(found[0].values, found[5000].values, atol=0.01)
    assert np.abs(found[20].values - found[5000].values).max() > 0.02  # the case is one in which passes matter
