"""Weights as float32, float16 and int8: what is kept, what is found in it, and that every way of searching agrees."""

from __future__ import annotations

import copy
import pickle
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail.corpus import Corpus
from longtail.data.synthetic import synthetic
from longtail.labels import LabelIndex
from longtail.learners.decoupled import Decoupled
from longtail.learners.ensemble import Ensemble
from longtail.learners.linear.base import LinearLearner
from longtail.learners.linear.fastxml import FastXML
from longtail.learners.linear.label_tree import Bonsai, Parabel
from longtail.learners.linear.nodes import Separators
from longtail.learners.linear.one_vs_all import OneVsAll
from longtail.learners.linear.tree import Shape, Tree
from longtail.learners.linear.weights import BITMAP, WEIGHTS
from longtail.learners.pipeline import Pipeline
from longtail.run import Run

#: Features of the trees made here: few, which are kept as bits, and many, which are kept in buckets.
FEW, MANY = 60, 200_000


def separators(dense: np.ndarray, features: np.ndarray, bias: np.ndarray) -> Separators:
    row, column = np.nonzero(dense)
    there, lengths = np.unique(row, return_counts=True)
    return Separators(
        features[there].astype(np.int32), lengths.astype(np.int32), column.astype(np.uint16),
        dense[row, column].astype(np.float32), bias.astype(np.float32),
    )  # fmt: skip


def one_node(node: Separators, weights: str) -> Tree:
    """A tree of one leaf."""
    width = len(node.bias)
    ends = np.array([0, 1], dtype=np.int32)
    shape = Shape(ends, np.array([0, width], dtype=np.int32), np.arange(width, dtype=np.int32), np.array([True]))
    return Tree.of(shape, [node], weights)


def learner_of(trees: list[Tree], n_features: int, n_labels: int) -> OneVsAll:
    learner = OneVsAll(weights=trees[0].weights)
    learner.trees_, learner.n_features_, learner.n_labels_ = trees, n_features, n_labels
    return learner


def corpus_of(X: sp.csr_matrix, n_labels: int) -> Corpus:
    names = [str(label) for label in range(n_labels)]
    return Corpus(labels=LabelIndex(names), Y=sp.csr_matrix((X.shape[0], n_labels), dtype=np.float32), X=X)


@pytest.mark.parametrize(
    ("weights", "kept", "expected"),
    [
        ("float32", np.array([1, 0.3, 0, -0.6], np.float32), [[1, 0.3], [0, -0.6]]),
        (
            "float16",
            np.array([1, 0.3, 0, -0.6], np.float16),
            [[1, float(np.float16(0.3))], [0, float(np.float16(-0.6))]],
        ),
        # the largest weight of a child is 127: 1 / 127 is the first child's unit, 0.6 / 127 the second's
        ("int8", np.array([127, 64, 0, -127], np.int8), [[1, 64 * 0.6 / 127], [0, -0.6]]),
    ],
)
def test_a_worked_example(weights: str, kept: np.ndarray, expected: list[list[float]]) -> None:
    node = separators(np.array([[1, 0.3], [0, -0.6]]), np.array([2, 5]), np.array([0.25, -1]))
    tree = one_node(node, weights)
    arrays = tree.arrays()
    assert arrays["weight"].dtype == kept.dtype and arrays["weight"].tolist() == kept.tolist()
    assert arrays["lookup"].tolist() == [[0b100100, 0]] and arrays["shift"].tolist() == [BITMAP]
    found = tree.separators(0)
    assert found.features.tolist() == [2, 5] and found.row_length.tolist() == [2, 1]
    assert found.column.tolist() == [0, 1, 1]
    np.testing.assert_allclose(found.weight, [expected[0][0], expected[0][1], expected[1][1]], rtol=1e-6)
    x = sp.csr_matrix(np.array([[0, 0, 0.6, 0, 0, 0.8]], dtype=np.float32))
    scores = learner_of([tree], 6, 2).score(corpus_of(x, 2), 2)
    z = [0.25 + 0.6, -1 + 0.6 * expected[0][1] + 0.8 * expected[1][1]]
    np.testing.assert_allclose(scores.values[0], np.exp([-((1 - value) ** 2) for value in z]), rtol=1e-5)


def random_tree(rng: np.random.Generator, n_features: int, weights: str, wide: int = 0) -> Tree:
    """A root with three children: two leaves, the second `wide`, and a node that has one more."""
    widths = [3, int(rng.integers(1, 40)), wide or int(rng.integers(1, 40)), 1, 2]
    shape = Shape(
        np.array([0, 1, 4, 5], dtype=np.int32),
        np.concatenate([[0], np.cumsum(widths)]).astype(np.int32),
        np.concatenate([[1, 2, 3], np.arange(widths[1] + widths[2]), [4], widths[1] + widths[2] + np.arange(2)]).astype(
            np.int32
        ),
        np.array([False, True, True, False, True]),
    )
    nodes = []
    for width in widths:
        count = int(rng.integers(0, min(n_features, 50)))
        features = np.sort(rng.choice(n_features, count, replace=False))
        dense = rng.normal(size=(count, width)) * (rng.random((count, width)) < rng.choice([0.05, 0.3, 1]))
        nodes.append(separators(dense, features, rng.normal(size=width)))
    return Tree.of(shape, nodes, weights)


def brute_force(tree: Tree, x: np.ndarray) -> dict[int, float]:
    """Every label's log-score, from dense separators."""
    above, found = {0: 0.0}, {}
    for node in range(len(tree.leaf)):
        own = tree.separators(node)
        z = own.bias.astype(np.float64).copy()
        np.add.at(z, own.column, own.weight.astype(np.float64) * x[np.repeat(own.features, own.row_length)])
        scores = above[node] - np.maximum(0, 1 - z) ** 2
        targets = tree.slot_target[tree.slot_start[node] : tree.slot_start[node + 1]]
        (found if tree.leaf[node] else above).update(zip(targets.tolist(), scores.tolist(), strict=True))
    return found


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32), st.sampled_from([FEW, MANY]), st.sampled_from([*WEIGHTS]), st.sampled_from([0, 0, 300]))
def test_searching_equals_brute_force_and_a_row_the_batch(seed: int, n_features: int, weights: str, wide: int) -> None:
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, n_features, weights, wide)
    n_labels = int((np.diff(tree.slot_start) * tree.leaf).sum())
    used = np.unique(np.concatenate([tree.separators(node).features for node in range(5)] + [np.array([0])]))
    X = np.zeros((int(rng.integers(1, 40)), n_features), dtype=np.float32)
    X[:, used] = rng.normal(size=(len(X), len(used))) * (rng.random((len(X), len(used))) < 0.5)
    X[:, -1] = 1
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    matrix = sp.csr_matrix(X)
    learner = learner_of([tree], n_features, n_labels)
    learner.beam_width = 10
    scores = learner.score(corpus_of(matrix, n_labels), n_labels, run=Run(threads=1))
    for i, x in enumerate(X):
        expected = brute_force(tree, x)
        there = scores.ids[i] >= 0
        assert set(scores.ids[i, there]) == {label for label, score in expected.items() if score > -68.9} or (
            min(abs(score + 69) for score in expected.values()) < 0.1
        )
        for label, value in zip(scores.ids[i, there], scores.values[i, there], strict=True):
            assert value == pytest.approx(np.exp(expected[label]), abs=1e-5)
        own = slice(matrix.indptr[i], matrix.indptr[i + 1])
        for k in (1, n_labels):
            ids, values = learner.score_row(matrix.indices[own], matrix.data[own], k)
            assert ids.tobytes() == scores.ids[i, :k][there[:k]].tobytes()
            assert values.tobytes() == scores.values[i, :k][there[:k]].tobytes()


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32), st.sampled_from([FEW, MANY]), st.sampled_from([*WEIGHTS]))
def test_what_is_kept_comes_back(seed: int, n_features: int, weights: str) -> None:
    tree = random_tree(np.random.default_rng(seed), n_features, "float32")
    n_labels = int((np.diff(tree.slot_start) * tree.leaf).sum())
    assert tree.converted("float32") is tree
    same = Tree.of(tree.shape, [tree.separators(node) for node in range(5)], "float32")
    assert all(a.tobytes() == b.tobytes() for a, b in zip(tree, same, strict=True))
    other = Tree.from_arrays(tree.converted(weights).arrays(), n_features, n_labels)
    assert other.weights == weights
    for node in range(5):
        exact, found = tree.separators(node), other.separators(node)
        for part in (exact, found):
            assert (np.diff(part.features) > 0).all() and part.row_length.sum() == len(part.weight)
        dense = np.zeros((2, n_features if n_features == FEW else 0, len(exact.bias)))
        if n_features == FEW:
            for place, part in enumerate((exact, found)):
                dense[place, np.repeat(part.features, part.row_length), part.column] = part.weight
            largest = np.abs(dense[0]).max(axis=0, initial=0)
            step = {"float32": 0 * largest, "float16": largest / 1024, "int8": largest / 127 * 0.501}[weights]
            assert (np.abs(dense[0] - dense[1]) <= step + 1e-7).all()


def test_a_float16_has_a_largest_and_a_smallest() -> None:
    node = separators(np.array([[1e6, -1e6, 1e-7, 1e-12]]), np.array([0]), np.zeros(4))
    found = one_node(node, "float16").separators(0)
    assert found.column.tolist() == [0, 1, 2]
    np.testing.assert_allclose(found.weight, [65504, -65504, 1.1920929e-07])


@cache
def corpora() -> tuple[Corpus, Corpus]:
    whole = synthetic(documents=600, labels=90, words=400, words_per_document=12, seed=4)
    train, test = whole.split(0.2, np.random.default_rng(0))
    return train.counted(), test


def small(weights: str = "float32", trees: int = 2) -> Parabel:
    return Parabel(trees=trees, max_leaf=20, weights=weights)


@pytest.mark.parametrize("weights", WEIGHTS)
def test_one_row_is_as_the_batch_over_several_trees(weights: str) -> None:
    train, test = corpora()
    learner = small(weights, trees=3).fit(train)
    assert {tree.weights for tree in learner.trees_} == {weights}
    scores = learner.score(test, 40)
    for i in range(len(test)):
        own = slice(test.X.indptr[i], test.X.indptr[i + 1])
        ids, values = learner.score_row(test.X.indices[own], test.X.data[own], 40)
        assert ids.tobytes() == scores.ids[i, : len(ids)].tobytes() and (scores.ids[i, len(ids) :] == -1).all()
        assert values.tobytes() == scores.values[i, : len(ids)].tobytes()


def test_trees_with_narrow_and_wide_nodes_are_searched_together() -> None:
    """The types of their columns differ."""
    rng = np.random.default_rng(3)
    wide = random_tree(rng, FEW, "int8", wide=300)
    n_labels = int((np.diff(wide.slot_start) * wide.leaf).sum())
    narrow = random_tree(rng, FEW, "int8")
    assert (wide.column.dtype, narrow.column.dtype) == (np.uint16, np.uint8)
    learner = learner_of([wide, narrow], FEW, n_labels)
    learner.beam_width = 10
    X = sp.random(7, FEW, 0.4, format="csr", dtype=np.float32, random_state=1)
    scores = learner.score(corpus_of(X, n_labels), 30)
    for i in range(7):
        own = slice(X.indptr[i], X.indptr[i + 1])
        ids, values = learner.score_row(X.indices[own], X.data[own], 30)
        assert ids.tolist() == scores.ids[i].tolist() and values.tolist() == scores.values[i].tolist()


def test_a_learner_without_a_way_for_one_row_says_so() -> None:
    assert FastXML().score_row(np.zeros(0, np.int32), np.zeros(0, np.float32), 5) is None


def test_a_row_of_another_length_leaves_the_others_as_they_are() -> None:
    """Values far from unit length are brought to it; those of the other documents are not touched."""
    train, test = corpora()
    learner = small().fit(train)
    X = test.X.copy()
    X.data[X.indptr[0] : X.indptr[1]] *= 7
    mixed, plain = learner.score(corpus_of(X, 90), 9), learner.score(corpus_of(test.X, 90), 9)
    assert mixed.values[1:].tobytes() == plain.values[1:].tobytes()
    np.testing.assert_allclose(mixed.values[0], plain.values[0], rtol=1e-4)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda learner: pickle.loads(pickle.dumps(learner))])
def test_a_copy_has_weights_of_its_own(copied) -> None:
    train, test = corpora()
    learner = small().fit(train)
    before = learner.score(test, 5)
    other = copied(learner)
    for tree in learner.trees_:
        tree.weight[:] = 0
    after = other.score(test, 5)
    assert before.values.tobytes() == after.values.tobytes()


def linear_parts(part) -> list[LinearLearner]:
    if isinstance(part, LinearLearner):
        return [part]
    inner = {"members": "members", "learner": "learner"}
    if isinstance(part, Decoupled):
        return [found for member in [*part.members_, part.gate_] for found in linear_parts(member)]
    values = getattr(part, inner["members"], None) or [getattr(part, "learner", None)]
    return [found for value in values if value is not None for found in linear_parts(value)]


@pytest.mark.parametrize(
    "part",
    [
        Ensemble(members=[small(), FastXML(trees=2)]),
        Decoupled(learner=small(), gate=1.0),
        Pipeline(learner=Bonsai(trees=1, branches=5, weights="float32"), features=None),
    ],
    ids=["ensemble", "decoupled", "pipeline"],
)
def test_parts_inside_are_converted_too(part) -> None:
    train, test = corpora()
    part = part.unfitted().fit(train)
    exact = part.score(test, 5)
    assert part.convert_weights("int8")
    inside = linear_parts(part)
    assert inside and all({tree.weights for tree in own.trees_} == {own.weights} == {"int8"} for own in inside)
    again = part.unfitted()
    again.restore(part.state())
    rounded = again.score(test, 5)
    assert 0 < np.abs(rounded.values - exact.values).max() < 0.05


def test_where_nothing_is_linear_nothing_is_converted() -> None:
    assert not FastXML(trees=2).fit(corpora()[0]).convert_weights("int8")


def test_trees_of_different_formats_are_refused() -> None:
    learner = small().fit(corpora()[0])
    learner.trees_[1] = learner.trees_[1].converted("int8")
    with pytest.raises(ValueError, match="different formats: float32, int8"):
        small().restore(learner.state())


@cache
def states() -> dict[str, dict[str, np.ndarray]]:
    """A model of each format, and one with buckets instead of bits."""
    train, _ = corpora()
    found = {weights: small(weights, trees=1).fit(train).state() for weights in WEIGHTS}
    tree = random_tree(np.random.default_rng(5), MANY, "int8")
    n_labels = int((np.diff(tree.slot_start) * tree.leaf).sum())
    return found | {"buckets": learner_of([tree], MANY, n_labels).state()}


@settings(deadline=None, max_examples=200)
@given(st.sampled_from([*WEIGHTS, "buckets"]), st.integers(0, 2**32))
def test_a_tree_with_any_number_changed_is_refused_or_searched_without_harm(which: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    state = {name: array.copy() for name, array in states()[which].items()}
    name = str(rng.choice([name for name in state if name != "size" and state[name].size and "weight" not in name]))
    flat = state[name].reshape(-1)
    flat[rng.integers(len(flat))] = rng.choice([0, 1, 2, 31, 100, 255]) if rng.random() < 0.8 else flat[0]
    learner = OneVsAll()
    try:
        learner.restore(state)
    except ValueError:
        return
    X = sp.random(30, learner.n_features_, min(1.0, 200 / learner.n_features_), "csr", np.float32, random_state=1)
    learner.beam_width = 3
    scores = learner.score(corpus_of(X, learner.n_labels_), 5)
    assert scores.ids.max() < learner.n_labels_
    learner.score_row(X.indices[: X.indptr[1]], X.data[: X.indptr[1]], 5)


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("weight", lambda array: array.astype(np.float64)),
        ("weight", lambda array: array[:-1]),
        ("column", lambda array: array.astype(np.int64)),
        ("node_start", lambda array: array[:, :6].copy()),
        ("lookup", lambda array: array.reshape(-1)),
        ("scale", lambda array: np.ones(3, np.float32)),
        ("bias", lambda array: array[1:]),
        ("group_bits", lambda array: np.array([31], np.uint8)),
    ],
)
def test_arrays_of_another_form_are_refused(name: str, changed) -> None:
    state = dict(states()["float32"])
    state[f"tree0.{name}"] = changed(state[f"tree0.{name}"])
    with pytest.raises(ValueError, match=r"must be|rise|differ|shape|out of range"):
        small(trees=1).restore(state)
