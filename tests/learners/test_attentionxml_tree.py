"""AttentionXML's label tree: its arithmetic by hand, the search against a plain one, and memory for many labels."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

torch = pytest.importorskip("torch")
pytest.importorskip("lightning")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402

from longtail.corpus import Corpus  # noqa: E402
from longtail.data.synthetic import synthetic  # noqa: E402
from longtail.labels import LabelIndex  # noqa: E402
from longtail.learners.linear.tree import Shape  # noqa: E402
from longtail.learners.neural import attentionxml  # noqa: E402
from longtail.learners.neural.attentionxml import AttentionXML, _leaves  # noqa: E402
from longtail.learners.neural.heads import label_attention as heads  # noqa: E402
from longtail.learners.neural.shortlists.base import Children, OwnLabels, true_first  # noqa: E402
from longtail.learners.neural.training.network import score_batches  # noqa: E402
from longtail.registry import build, config_of  # noqa: E402
from longtail.run import Run  # noqa: E402
from longtail.scores import Scores  # noqa: E402
from longtail.tagger import Tagger  # noqa: E402

ENCODER = {"part": "bilstm", "size": 24, "hidden": 4}
QUICK = {"part": "attentionxml", "encoder": ENCODER, "epochs": 1, "least_steps": 40, "batch": 32, "warm_up": 5}
TREE = {**QUICK, "tree": "always", "branches": 3, "top": 8, "candidates": 6}
RUN = Run(threads=1)


@cache
def corpus() -> Corpus:
    sizes = {"documents": 240, "labels": 40, "words": 300, "words_per_document": 15, "labels_per_document": 2}
    return synthetic(**sizes, signal=0.8, zipf=0.4, texts=True, seed=1)


@cache
def fitted() -> AttentionXML:
    learner = build(TREE).fit(corpus(), run=RUN)
    assert isinstance(learner, AttentionXML)
    return learner


# by hand
def test_leaves_are_numbered_from_left_to_right() -> None:
    """Node 0 has nodes 1 and 2; node 1 has nodes 3 and 4; 2, 3 and 4 are leaves. Label 3 is in none."""
    shape = Shape(
        level_start=np.array([0, 1, 3, 5], dtype=np.int32),
        slot_start=np.array([0, 2, 4, 6, 8, 9], dtype=np.int32),
        slot_target=np.array([1, 2, 3, 4, 1, 5, 4, 0, 2], dtype=np.int32),
        leaf=np.array([False, False, True, True, True]),
    )
    assert _leaves(shape, 6).tolist() == [0, 2, 1, -1, 0, 2]


def test_a_tree_of_one_leaf() -> None:
    shape = Shape(*(np.array(a, dtype=np.int32) for a in ([0, 1], [0, 2], [2, 0])), np.array([True]))
    assert _leaves(shape, 3).tolist() == [0, -1, 0]


def test_parents_hold_where_a_child_does() -> None:
    """The strongest child counts, labels that are in no tree do not; only pairs of weight 0 make a pair of weight 0."""
    Y = sp.csr_matrix(np.array([[1, 0.5, 0, 0, 1], [0, 0.25, 0.75, 1, 0], [0, 0, 0, 0, 1]], dtype=np.float32))
    weight = np.array([0.5, 1, 1, 1, 1, 0, 1], dtype=np.float32)
    labels = LabelIndex([f"label {j}" for j in range(5)])
    given = Corpus(labels=labels, Y=Y, texts=["a", "b", "c"], pair_weight=weight)
    above = given.by_group(np.array([0, 1, 1, 0, -1], dtype=np.int32))
    assert above.positives().toarray().tolist() == [[0.5, 0.5], [0, 0.75], [0, 0]]
    assert above.labels.frequency.tolist() == [1, 2] and above.texts == given.texts
    assert above.pair_weight is not None and above.Y[1, 0] == 1 and above.pair_weight.tolist() == [1, 1, 0, 1]


def test_true_parents_come_first() -> None:
    found = Scores(
        np.array([[3, 1, 0], [2, 0, -1], [1, -1, -1]], dtype=np.int32),
        np.array([[0.9, 0.5, 0.1], [0.6, 0.2, 0], [0.4, 0, 0]], dtype=np.float32),
    )
    Y = sp.csr_matrix(np.array([[1, 0, 0, 0], [0.1, 0.1, 0.1, 0.1], [0, 0, 0, 0]], dtype=np.float32))
    assert true_first(found, Y, 2).tolist() == [[0, 3], [2, 0], [1, -1]]
    assert true_first(found, Y, 4).tolist() == [[0, 3, 1, -1], [2, 0, 1, 3], [1, -1, -1, -1]]


def test_children_by_hand() -> None:
    children = Children.of(np.array([1, 0, 1, -1, 3], dtype=np.int32), 4)
    assert children.start.tolist() == [0, 1, 3, 3, 4] and children.labels.tolist() == [1, 0, 2, 4]
    lists, whose = children.expanded(np.array([[3, 1], [2, -1], [0, -1]]))
    assert lists.tolist() == [[0, 2, 4], [5, 5, 5], [1, 5, 5]]
    assert whose.tolist() == [[1, 1, 0], [0, 0, 0], [0, 0, 0]]


def test_shortlists_by_hand() -> None:
    """Places that are only there to fill a list up have no say; nor has a true label whose parent is not looked at."""
    Y = sp.csr_matrix(np.array([[1, 0, 0, 0, 0.5], [0, 1, 0, 0, 0]], dtype=np.float32))
    parents = np.array([[1, -1], [0, 3]], dtype=np.int32)
    children = Children.of(np.array([1, 0, 1, -1, 3], dtype=np.int32), 4)
    labels, targets, weights = OwnLabels(Y, None, parents, children).choose(np.array([1, 0]), np.random.default_rng(0))
    assert labels.tolist() == [[1, 4], [0, 2]]
    assert targets.tolist() == [[1, 0], [1, 0]] and weights is not None and weights.tolist() == [[1, 1], [1, 1]]
    parents[0] = -1
    labels, targets, weights = OwnLabels(Y, None, parents, children).choose(np.array([0, 1]), np.random.default_rng(0))
    assert weights is not None and weights.tolist() == [[0, 0], [1, 1]] and targets.tolist() == [[0, 0], [1, 0]]


# the tree that is grown
def test_levels_fit_one_another() -> None:
    learner = fitted()
    assert len(learner.parents_) >= 2 and len(learner.networks_) == len(learner.parents_) + 1
    seen = corpus().labels.frequency > 0
    assert ((learner.parents_[-1] >= 0) == seen).all(), "labels that documents carry are in the tree, others are not"
    sizes = learner._sizes()
    assert sizes[0] <= learner.top and [len(p) for p in learner.parents_] == [*sizes[1:], corpus().n_labels]
    for parent in learner.parents_:
        assert np.bincount(parent[parent >= 0]).max() <= learner.branches
        assert np.bincount(parent[parent >= 0]).min() >= 1


@pytest.mark.parametrize(("flat", "levels"), [(40, 0), (39, 2)])
def test_when_a_tree_is_grown(flat: int, levels: int) -> None:
    options = {**QUICK, "least_steps": 1, "batch": 128, "tree": "auto", "flat": flat, "branches": 8, "top": 16}
    learner = build(options).fit(corpus(), run=RUN)
    assert len(learner.networks_) == max(levels, 1) and learner.network_ is learner.networks_[-1]


def test_learns() -> None:
    scores = fitted().score(corpus(), 5, run=RUN)
    right = np.asarray(corpus().Y[np.arange(len(corpus())), scores.ids[:, 0]]).ravel() > 0
    assert right.mean() > 0.8
    assert len(np.unique(scores.ids[:, 0])) > 20


def test_kept_and_opened_again(tmp_path: Path) -> None:
    tagger = Tagger({**TREE, "least_steps": 4}, features=None, threads=1).fit(corpus())
    tagger.save(tmp_path / "model")
    again = Tagger.load(tmp_path / "model", threads=1)
    first, second = (each.score(corpus(), 6) for each in (tagger, again))
    assert first.ids.tobytes() == second.ids.tobytes() and first.values.tobytes() == second.values.tobytes()


def test_levels_that_do_not_fit_are_refused() -> None:
    state, config = fitted().state(), config_of(fitted())
    lowest = f"parent{len(fitted().parents_) - 1}"
    wrong: list[dict[str, Any]] = [
        {"parent0": state["parent0"] + 1},
        {"parent0": np.full_like(state["parent0"], -2)},
        {"parent0": np.full_like(state["parent0"], np.iinfo(np.int32).max)},
        {lowest: np.append(state[lowest], np.int32(0))},
        {lowest: state[lowest].astype(np.int64)},
        {lowest: np.full_like(state[lowest], -1)},
        {"level9.head.bias.weight": np.zeros((3, 1), dtype=np.float32)},
    ]
    for change in wrong:
        with pytest.raises(ValueError):
            build(config).restore({**state, **change})


# searching
def naive_search(learner: AttentionXML, texts: Sequence[str]) -> np.ndarray:
    """float64 (n, L): the product of probabilities from the first level down to each label; 0 outside the tree."""
    tokens = learner.encoder.tokens(texts, RUN)
    levels = []
    for network, size in zip(learner.networks_, [*learner._sizes(), learner.n_labels_], strict=True):
        probabilities = np.zeros((len(texts), size))
        for rows, _, found in score_batches(network, tokens, size):
            probabilities[rows] = found.sigmoid().numpy()
        levels.append(probabilities)
    products = levels[0]
    for parent, probabilities in zip(learner.parents_, levels[1:], strict=True):
        products = np.where(parent >= 0, products[:, parent] * probabilities, 0)
    return products


@pytest.mark.parametrize("chunk", [1024, 7])
def test_like_a_plain_search_when_nothing_is_left_out(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attentionxml, "CHUNK", chunk)
    wide = build({**config_of(fitted()), "candidates": 1000})
    wide.restore(fitted().state())
    texts = [*corpus().texts[:40], ""]
    given = Corpus(labels=corpus().labels, Y=sp.csr_matrix((41, 40), dtype=np.float32), texts=texts)
    scores = wide.score(given, 40, run=RUN)
    expected = naive_search(fitted(), texts)
    np.testing.assert_allclose(scores.to_csr(40).toarray(), expected, rtol=1e-4, atol=1e-7)
    assert (scores.ids >= 0).sum(axis=1).tolist() == (expected > 0).sum(axis=1).tolist()
    order = np.take_along_axis(expected, np.maximum(scores.ids, 0), 1)
    assert (np.diff(order, axis=1) <= 1e-6).all()


def test_lists_of_different_lengths_are_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """With few candidates a chunk's longest list may be shorter than what is asked for."""
    narrow = build({**config_of(fitted()), "candidates": 1})
    narrow.restore(fitted().state())
    whole = narrow.score(corpus(), 10, run=RUN)
    assert whole.ids.shape == (len(corpus()), 10) and ((whole.ids >= 0).sum(axis=1) <= 3).all()
    monkeypatch.setattr(attentionxml, "CHUNK", 1)
    one_by_one = narrow.score(corpus().rows(np.arange(20)), 10, run=RUN)
    assert (one_by_one.ids == whole.ids[:20]).all()


# many labels
MANY = 50_000


class Largest(TorchDispatchMode):
    """The shape of the largest tensor that any operation gives."""

    def __init__(self) -> None:
        super().__init__()
        self.elements, self.shape = 0, ()

    def __torch_dispatch__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(made):
            if isinstance(tensor, torch.Tensor) and not tensor.is_sparse and tensor.untyped_storage().nbytes():
                # an expanded tensor shows more numbers than it holds
                held = tensor.untyped_storage().nbytes() // tensor.element_size()
                if held > self.elements:
                    self.elements, self.shape = held, tuple(tensor.shape)
        return made


@cache
def many() -> Corpus:
    """2,000 documents of some ten words with 25 of 50,000 labels each."""
    rng = np.random.default_rng(0)
    n, each = 2_000, 25
    columns = np.sort((rng.integers(0, MANY, (n, 1)) + rng.choice(200, (n, each))) % MANY, axis=1)
    Y = sp.csr_matrix((np.ones(n * each, dtype=np.float32), (np.repeat(np.arange(n), each), columns.ravel())))
    Y.resize(n, MANY)
    Y.sum_duplicates()
    Y.data[:] = 1
    words = np.hstack([columns[:, :6] // 50, rng.integers(1000, 1500, (n, 4))])
    texts = [" ".join(f"w{word}" for word in row) for row in words]
    return Corpus(labels=LabelIndex([f"{j}" for j in range(MANY)]), Y=Y, texts=texts).counted()


def test_a_tree_over_many_labels_never_holds_documents_by_labels() -> None:
    """Of a whole fit, no tensor has as many numbers as a batch x all labels; label vectors themselves are narrower."""
    encoder = {"part": "bilstm", "size": 8, "hidden": 4}
    options = {"batch": 64, "least_steps": 1, "epochs": 1, "branches": 16, "top": 512, "candidates": 10}
    learner = build({"part": "attentionxml", "encoder": encoder, **options})
    start = time.process_time()
    with Largest() as seen:
        learner.fit(many(), run=RUN)
        scores = learner.score(many().rows(np.arange(100)), 5, run=RUN)
    assert time.process_time() - start < 60
    assert len(learner.parents_) == 2, "50,000 labels, some 4,000 clusters, some 250 clusters of clusters"
    assert seen.elements < learner.batch * MANY, seen.shape
    assert seen.elements <= MANY * 16, f"the label vectors are the largest, not {seen.shape}"
    assert scores.ids.shape == (100, 5)


def test_a_flat_learner_over_many_labels_never_holds_documents_by_labels_by_width() -> None:
    encoder = {"part": "bilstm", "size": 32, "hidden": 16}
    options = {"batch": 50, "least_steps": 1, "epochs": 1, "tree": "never"}
    learner = build({"part": "attentionxml", "encoder": encoder, **options})
    with Largest() as training:
        learner.fit(many().rows(np.arange(500)), run=RUN)
    width = learner.network_.encoder.width
    assert training.elements <= MANY * width, f"the label vectors are the largest, not {training.shape}"
    with Largest() as scoring:
        scores = learner.score(many().rows(np.arange(64)), 5, run=RUN)
    assert scoring.elements <= heads.BLOCK < 64 * MANY * width, scoring.shape
    assert (scores.ids >= 0).all()
