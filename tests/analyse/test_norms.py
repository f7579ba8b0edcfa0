"""Norms of separators, and what is read off them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from longtail.analyse.norms import (
    entering_report,
    frequency_report,
    label_norms,
    rank_curve,
    shares_by_norm,
    spearman,
    top_k_shares,
    tree_norms,
)
from longtail.augment.taug import Taug
from longtail.corpus import Corpus
from longtail.data.synthetic import synthetic
from longtail.errors import UsageError
from longtail.labels import LabelIndex
from longtail.learners.base import Learner
from longtail.learners.linear.base import LinearLearner
from longtail.learners.linear.nodes import Separators
from longtail.learners.linear.tree import Shape, Tree
from longtail.registry import build
from longtail.run import Run
from longtail.scores import Scores

ONE = {"part": "parabel", "trees": 1, "max_leaf": 10}
FASTXML = {"part": "fastxml", "trees": 2}


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return synthetic(documents=500, labels=80, words=600, words_per_document=25, seed=3)


def fitted(part: object, corpus: Corpus) -> Learner:
    learner = build(part)  # type: ignore[arg-type]
    assert isinstance(learner, Learner)
    return learner.fit(corpus, run=Run(seed=1))


def row(kind: type, *values: float) -> np.ndarray:
    return np.array(values, dtype=kind)


def separators(features: list[int], rows: list[list[tuple[int, float]]], bias: list[float]) -> Separators:
    return Separators(
        row(np.int32, *features),
        row(np.int32, *map(len, rows)),
        row(np.uint16, *(slot for entries in rows for slot, _ in entries)),
        row(np.float32, *(weight for entries in rows for _, weight in entries)),
        row(np.float32, *bias),
    )


def test_norms_by_hand() -> None:
    """A root with two leaves over labels (2, 0) and (3,); label 1 is in no tree."""
    shape = Shape(row(np.int32, 0, 1, 3), row(np.int32, 0, 2, 4, 5), row(np.int32, 1, 2, 2, 0, 3),
                  row(np.bool_, False, True, True))  # fmt: skip
    root = separators([0, 5], [[(0, 100.0)], [(0, 100.0), (1, -100.0)]], [100.0, 100.0])  # inner: does not count
    first = separators([1, 4], [[(0, 3.0), (1, 2.0)], [(1, -3.0)]], [4.0, 6.0])
    second = separators([], [], [-0.5])
    norms = tree_norms([Tree.of(shape, [root, first, second])], 4)
    np.testing.assert_allclose(norms, [7.0, np.nan, 5.0, 0.5])  # sqrt(2² + 3² + 6²), -, sqrt(3² + 4²), |bias|


def test_the_mean_is_over_the_trees_that_have_the_label() -> None:
    def one_leaf(label: int, bias: float) -> Tree:
        shape = Shape(row(np.int32, 0, 1), row(np.int32, 0, 1), row(np.int32, label), row(np.bool_, True))
        return Tree.of(shape, [separators([], [], [bias])])

    np.testing.assert_allclose(tree_norms([one_leaf(0, 1), one_leaf(0, -3), one_leaf(1, 5)], 3), [2, 5, np.nan])


def naive_norms(learner: LinearLearner) -> np.ndarray:
    """The same from dense separators, one label and tree after the other."""
    found: list[list[float]] = [[] for _ in range(learner.n_labels_)]
    for tree in learner.trees_:
        for node in np.flatnonzero(tree.leaf):
            slots = range(tree.slot_start[node], tree.slot_start[node + 1])
            dense = np.zeros((learner.n_features_ + 1, len(slots)))
            own = tree.separators(node)
            dense[np.repeat(own.features, own.row_length), own.column] = own.weight
            dense[-1] = tree.bias[slots.start : slots.stop]
            for j, slot in enumerate(slots):
                found[tree.slot_target[slot]].append(float(np.linalg.norm(dense[:, j])))
    return np.array([np.mean(values) if values else np.nan for values in found])


@pytest.mark.parametrize("part", [ONE, {"part": "bonsai", "trees": 3, "branches": 5}, {"part": "one-vs-all"}],
                         ids=lambda part: part["part"])  # fmt: skip
def test_norms_of_fitted_learners_against_dense_separators(part: object, corpus: Corpus) -> None:
    learner = fitted(part, corpus)
    assert isinstance(learner, LinearLearner)
    norms = label_norms(learner)
    np.testing.assert_allclose(norms, naive_norms(learner), rtol=1e-6)
    assert norms.shape == (80,) and (norms > 0).all()
    restored = build(part)  # type: ignore[arg-type]
    assert isinstance(restored, Learner)
    restored.restore(learner.state())
    np.testing.assert_array_equal(label_norms(restored), norms)


def test_a_label_without_documents_has_no_norm(corpus: Corpus) -> None:
    wider = LabelIndex([*corpus.labels.names, "never seen"])
    norms = label_norms(fitted(ONE, corpus.aligned(wider).counted()))
    assert np.isnan(norms).tolist() == [False] * 80 + [True]


def test_each_side_of_decoupled_gives_the_norms_of_its_labels(corpus: Corpus) -> None:
    learner = fitted({"part": "decoupled", "learner": ONE, "tau": 0.1}, corpus)
    norms = label_norms(learner)
    for columns, member in zip(learner.columns_, learner.members_, strict=True):  # type: ignore[attr-defined]
        np.testing.assert_allclose(norms[columns], naive_norms(member), rtol=1e-6)
    assert not np.isnan(norms).any()


def test_members_of_an_ensemble_without_separators_are_left_out(corpus: Corpus) -> None:
    learner = fitted({"part": "ensemble", "members": [ONE, FASTXML, {"part": "one-vs-all"}]}, corpus)
    tree, _, flat = learner.members  # type: ignore[attr-defined]
    np.testing.assert_allclose(label_norms(learner), (naive_norms(tree) + naive_norms(flat)) / 2, rtol=1e-6)


def test_a_pipeline_gives_the_norms_of_its_learner(corpus: Corpus) -> None:
    alone = fitted(ONE, corpus)
    inside = fitted({"part": "pipeline", "learner": ONE, "features": None}, corpus)
    np.testing.assert_array_equal(label_norms(inside), label_norms(alone))
    mixed = fitted({"part": "ensemble", "members": [{"part": "pipeline", "learner": ONE}, FASTXML]}, corpus)
    assert not np.isnan(label_norms(mixed)).any()


def test_a_side_without_separators_has_no_norms(corpus: Corpus) -> None:
    learner = fitted({"part": "decoupled", "learner": ONE, "tail": FASTXML}, corpus)
    head = learner.columns_[0]  # type: ignore[attr-defined]
    assert sorted(np.flatnonzero(~np.isnan(label_norms(learner)))) == sorted(head)


@pytest.mark.parametrize(
    "part",
    [FASTXML, {"part": "ensemble", "members": [FASTXML]}, {"part": "decoupled", "learner": FASTXML}],
    ids=["fastxml", "ensemble", "decoupled"],
)
def test_learners_without_separators_are_refused(part: dict, corpus: Corpus) -> None:
    with pytest.raises(UsageError, match=f"{part['part']} has no separator for each label"):
        label_norms(fitted(part, corpus))


def test_more_copies_make_longer_tail_separators(corpus: Corpus) -> None:
    tail = corpus.labels.frequency <= 5
    means = []
    for n_aug in (0, 1, 4):
        made, augmenters = Taug(n_aug=n_aug).expanded(build(ONE))
        learner = build(made)
        assert isinstance(learner, Learner)
        noisy = corpus
        for augmenter in augmenters:
            noisy = augmenter.apply(noisy, Run(seed=1))
        norms = label_norms(learner.fit(noisy, run=Run(seed=1)))
        means.append([norms[tail].mean(), norms[corpus.labels.head_by_share(0.1)].mean()])
    (tail0, head0), (tail1, head1), (tail4, head4) = means
    assert tail0 * 1.02 < tail1 < tail4 / 1.02
    assert head0 == head1 == head4, "the head has no copies"


# read off the norms
def index(*counts: int) -> LabelIndex:
    return LabelIndex([f"l{i}" for i in range(len(counts))], counts=np.array(counts), documents=100)


def test_curve_by_hand() -> None:
    """Ranks 1, 2-3, 4-7: bins widen by 2; the label without documents is not ranked."""
    labels = index(1, 50, 3, 0, 20, 2, 2, 7)
    norms = np.array([0.25, 4.0, 1.0, 9.0, 3.0, 0.5, np.nan, 2.0])
    curve = rank_curve(norms, labels, bins=3, least=1)
    assert [(p["first_rank"], p["last_rank"], p["labels"]) for p in curve] == [(1, 1, 1), (2, 3, 2), (4, 7, 3)]
    assert [p["mean_norm"] for p in curve] == pytest.approx([4.0, 2.5, (1 + 0.5 + 0.25) / 3], abs=1e-6)
    assert [p["documents"] for p in curve] == [50, 13.5, 2]
    merged = rank_curve(norms, labels, bins=3, least=2)
    assert [(p["first_rank"], p["last_rank"]) for p in merged] == [(1, 3), (4, 7)]
    assert rank_curve(np.array([1.0]), index(0)) == []


@given(st.lists(st.integers(1, 30), min_size=1, max_size=60), st.integers(1, 40), st.integers(0, 9))
def test_every_label_is_in_one_bin_of_the_curve(counts: list[int], bins: int, seed: int) -> None:
    norms = np.random.default_rng(seed).uniform(0, 3, len(counts))
    curve = rank_curve(norms, index(*counts), bins=bins)
    assert sum(point["labels"] for point in curve) == len(counts)
    assert all(point["labels"] >= min(5, len(counts)) for point in curve)
    assert sum(point["labels"] * point["mean_norm"] for point in curve) == pytest.approx(norms.sum(), abs=1e-4)
    assert all(a["last_rank"] + 1 == b["first_rank"] for a, b in pairwise(curve))


def test_frequency_report_by_hand() -> None:
    report = frequency_report(np.array([1.0, 2.0, 3.0, np.nan]), index(2, 9, 40, 0))
    assert (report["labels"], report["labels_with_norm"], report["mean_norm"]) == (4, 3, 2.0)
    assert report["spearman_frequency"] == 1.0
    assert [(b["name"], b["labels"], b["mean_norm"]) for b in report["bands"]] == [
        ("head", 1, 3.0), ("middle", 1, 2.0), ("tail", 1, 1.0)
    ]  # fmt: skip
    lone = frequency_report(np.array([1.0]), index(2))
    assert lone["spearman_frequency"] is None and lone["bands"][0]["mean_norm"] is None


def test_shares_by_hand() -> None:
    scores = Scores(np.array([[2, 0], [2, -1], [1, 2], [2, 0]], dtype=np.int32), np.zeros((4, 2), dtype=np.float32))
    shares = top_k_shares(scores, 4)
    np.testing.assert_allclose(shares, [0.5, 0.25, 1.0, 0.0])
    groups = shares_by_norm(np.array([2.0, 1.0, 5.0, np.nan]), shares, bins=2)
    assert groups == [
        {"low": 1.0, "high": 2.0, "labels": 2, "mean_norm": 1.5, "share": 0.375},
        {"low": 5.0, "high": 5.0, "labels": 1, "mean_norm": 5.0, "share": 1.0},
    ]
    report = entering_report(np.array([2.0, 1.0, 5.0, np.nan]), index(3, 2, 30, 0), scores)
    assert (report["k"], report["documents"], report["spearman"]) == (2, 4, 1.0)
    assert report["spearman_within"] == {"head": None, "middle": None, "tail": 1.0}
    assert sum(group["labels"] for group in report["bins"]) == 3


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=30))
def test_rank_correlation_against_scipy(pairs: list[tuple[int, int]]) -> None:
    one, other = np.array([a for a, _ in pairs]), np.array([b for _, b in pairs])
    ours = spearman(one, other)
    if len(set(one.tolist())) < 2 or len(set(other.tolist())) < 2:
        assert np.isnan(ours)
    else:
        assert ours == pytest.approx(scipy.stats.spearmanr(one, other).statistic)
