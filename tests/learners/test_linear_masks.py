"""A pair of weight 0 is neither a positive nor a negative example to a linear learner, at any level."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from longtail.corpus import Corpus
from longtail.labels import LabelIndex
from longtail.learners.linear.fastxml import FastXML, PfastreXML, _rows
from longtail.learners.linear.fastxml_forest import route
from longtail.learners.linear.label_tree import Bonsai, Parabel
from longtail.learners.linear.nodes import Documents
from longtail.learners.linear.one_vs_all import OneVsAll
from longtail.learners.linear.tree import Tree
from longtail.run import Run

N, L = 120, 16


def small() -> Corpus:
    """Documents of one to three labels; each has a word per label, and one that no other document has."""
    rng = np.random.default_rng(4)
    Y = np.zeros((N, L), dtype=np.float32)
    for row in range(N):
        Y[row, rng.choice(L, size=rng.integers(1, 4), replace=False)] = 1
    X = sp.csr_matrix(np.hstack([Y, 0.7 * np.eye(N)]).astype(np.float32))
    return Corpus(labels=LabelIndex([f"l{j}" for j in range(L)]), Y=sp.csr_matrix(Y), X=X).counted()


def with_weight(corpus: Corpus, pair: int, weight: float) -> Corpus:
    weights = np.ones(corpus.Y.nnz, dtype=np.float32)
    weights[pair] = weight
    return replace(corpus, pair_weight=weights)


def without(corpus: Corpus, pair: int) -> Corpus:
    """The corpus in which the document does not have the label: a negative example."""
    Y = corpus.Y.copy()
    Y.data[pair] = 0
    Y.eliminate_zeros()
    return replace(corpus, Y=Y)


def pair_of_several(corpus: Corpus) -> tuple[int, int, int]:
    """A pair of a document with three labels: its place in Y, the document and the label."""
    row = int(np.flatnonzero(np.diff(corpus.Y.indptr) == 3)[0])
    place = int(corpus.Y.indptr[row])
    return place, row, int(corpus.Y.indices[place])


def weights_of_feature(tree: Tree, feature: int) -> dict[tuple[int, int], float]:
    """(node, slot) -> weight of a feature, where it has one."""
    found = {}
    for node in range(len(tree.leaf)):
        own = tree.separators(node)
        here = np.repeat(own.features, own.row_length) == feature
        for slot, weight in zip(own.column[here], own.weight[here], strict=True):
            found[node, int(slot)] = float(weight)
    return found


def paths(tree: Tree) -> dict[int, list[tuple[int, int]]]:
    """label -> the (node, slot) pairs above it."""
    above: dict[int, list[tuple[int, int]]] = {}
    found: dict[int, list[tuple[int, int]]] = {}
    for node in range(len(tree.leaf)):
        for slot, target in enumerate(tree.slot_target[tree.slot_start[node] : tree.slot_start[node + 1]]):
            path = [*above.get(node, []), (node, slot)]
            (found if tree.leaf[node] else above)[int(target)] = path
    return found


EXACT = {"eps": 1e-4, "max_passes": 500, "prune": 0.0}


@pytest.mark.parametrize("loss", ["squared-hinge", "logistic"])
@pytest.mark.parametrize(
    "make",
    [
        OneVsAll,
        lambda **options: Parabel(trees=1, max_leaf=3, **options),
        lambda **options: Bonsai(trees=1, branches=4, max_leaf=2, depth=2, **options),
    ],
    ids=["one-vs-all", "parabel", "bonsai"],
)
def test_a_document_leaves_no_trace_on_a_label_that_is_masked_for_it(make, loss: str) -> None:
    """Its own word has a weight wherever it is an example: above 0 as a positive one, below 0 as a negative one."""
    corpus = small()
    place, row, label = pair_of_several(corpus)
    word = L + row

    def trace(given: Corpus) -> tuple[list[float], list[list[float]]]:
        """Weights of the word on the way to the label alone, and on the ways to the document's other labels."""
        tree = make(loss=loss, **EXACT).fit(given, run=Run(seed=1)).trees_[0]
        weights, ways = weights_of_feature(tree, word), paths(tree)
        others = [int(other) for other in corpus.Y[row].indices if other != label]
        shared = {step for other in others for step in ways[other]}
        own = [weights.get(step, 0.0) for step in ways[label] if step not in shared]
        return own, [[weights.get(step, 0.0) for step in ways[other]] for other in others]

    positive, _ = trace(corpus)
    masked, others = trace(with_weight(corpus, place, 0.0))
    negative, _ = trace(without(corpus, place))
    assert masked and masked == [0.0] * len(masked)
    assert max(positive) > 0.01 and min(negative) < -0.01, "so that a trace would be seen"
    assert all(max(way) > 0.01 for way in others), "its other labels still learn from it"


def test_the_target_of_a_masked_pair_does_not_make_others_faint() -> None:
    """A target of 0.3 is little beside 1, but all there is where that 1 is masked."""
    Y = sp.csr_matrix(np.array([[1, 0.3, 0], [0, 0, 1]], dtype=np.float32))
    X = sp.csr_matrix(np.eye(2, dtype=np.float32))
    corpus = Corpus(labels=LabelIndex(list("abc")), Y=Y, X=X)
    assert Documents.of(corpus).label_sure.tolist() == [True, False, True]
    masked = Documents.of(with_weight(corpus, 0, 0.0))
    absent = Documents.of(without(corpus, 0))
    assert masked.label_sure[1:].tolist() == absent.label_sure.tolist() == [True, True]


@pytest.mark.parametrize("make", [FastXML, PfastreXML])
def test_masked_pairs_part_documents_as_if_absent_and_leaves_do_not_count_them(make) -> None:
    """Rankings know no negatives: trees are those of the corpus without the pairs. Leaves count documents, and leave
    out those for which the label is masked."""
    corpus = small()
    rng = np.random.default_rng(0)
    hidden = np.flatnonzero(rng.random(corpus.Y.nnz) < 0.2)
    masked, absent = with_weight(corpus, hidden, 0.0), without(corpus, hidden)
    first, second = (make(trees=4, max_leaf=8).fit(given, run=Run(seed=3)) for given in (masked, absent))
    for name in ("child", "bias", "feature", "weight"):
        assert getattr(first.forest_, name).tobytes() == getattr(second.forest_, name).tobytes(), name
    forest, weight = first.forest_, first.gains(masked)[1]
    leaves = np.empty((forest.trees, N), dtype=np.int32)
    route(_rows(corpus), forest, np.zeros(corpus.X.shape[1], dtype=np.float32), leaves)
    there = absent.Y.toarray()
    known = ~((corpus.Y.toarray() > 0) & (there == 0))
    differs = 0
    for tree in range(forest.trees):
        for leaf in np.unique(leaves[tree]):
            own = leaves[tree] == leaf
            stored = np.zeros(L)
            span = slice(forest.leaf_start[leaf], forest.leaf_start[leaf + 1])
            stored[forest.label[span]] = forest.share[span]
            expected = there[own].sum(axis=0) / np.maximum(known[own].sum(axis=0), 1) * weight
            np.testing.assert_allclose(stored, expected, rtol=1e-5)
            differs += not np.allclose(expected, there[own].mean(axis=0) * weight)
    assert differs > 0, "some leaf has a masked pair"


def test_centres_leave_masked_documents_out() -> None:
    corpus = small()
    place, row, label = pair_of_several(corpus)
    masked, absent, full = (
        PfastreXML(trees=1).fit(given).centres_
        for given in (with_weight(corpus, place, 0.0), without(corpus, place), corpus)
    )
    for one, other in zip(masked, absent, strict=True):
        assert one.tobytes() == other.tobytes(), "a mean of positives knows no negatives"
    word = slice(full.start[L + row], full.start[L + row + 1])
    assert label in full.label[word]
    assert label not in masked.label[masked.start[L + row] : masked.start[L + row + 1]]
