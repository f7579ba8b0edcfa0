"""Batches: every document once an epoch, a pure function of seed and step, and targets that are those of Y."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from longtail.features.tokens import PAD, Tokens  # noqa: E402
from longtail.learners.neural.shortlists.base import Children, OwnLabels, SharedLabels  # noqa: E402
from longtail.learners.neural.training import batches as module  # noqa: E402
from longtail.learners.neural.training.batches import (  # noqa: E402
    Batch,
    Batches,
    Share,
    in_length_order,
    state_tensor,
    token_tensors,
)

LABELS, PARENTS = 9, 4


def tokens_of(lengths: list[int]) -> Tokens:
    indptr = np.cumsum([0, *lengths], dtype=np.int64)
    return Tokens(np.arange(1, indptr[-1] + 1, dtype=np.int32), indptr)


def targets_of(n: int, seed: int, labels: int = LABELS) -> tuple[sp.csr_matrix, Any]:
    """Y with soft targets, some documents without any, and a weight a stored pair, some of them 0."""
    rng = np.random.default_rng(seed)
    Y = sp.random(n, labels, density=0.3, format="csr", dtype=np.float32, random_state=rng)
    Y.data[:] = rng.choice(np.array([0.25, 0.5, 1.0], dtype=np.float32), Y.nnz)
    Y.sort_indices()
    return sp.csr_matrix(Y), rng.choice(np.array([0.0, 0.5, 1.0], dtype=np.float32), Y.nnz)


CORPORA = st.lists(st.integers(1, 12), min_size=1, max_size=30)


def made(lengths: list[int], size: int, seed: int = 3, negatives: int = 4, **more: Any) -> Batches:
    Y, weights = targets_of(len(lengths), 0)
    states = more.pop("states", None)
    choice = SharedLabels(Y, weights, negatives)
    return Batches(tokens_of(lengths), choice, size, seed=seed, states=states, share=Share(**more))


def epochs(batches: Batches) -> Iterator[Batch]:
    while True:
        yield from batches


def same(one: Batch, other: Batch) -> bool:
    pairs = [(vars(one)[name], vars(other)[name]) for name in vars(one)]
    return all(a is b is None or np.array_equal(np.asarray(a), np.asarray(b)) for a, b in pairs)


class TestOrder:
    @given(lengths=CORPORA, size=st.integers(1, 8), seed=st.integers(0, 2**63 - 1), epoch=st.integers(0, 5))
    def test_every_document_once(self, lengths: list[int], size: int, seed: int, epoch: int) -> None:
        batches = made(lengths, size, seed)
        order = batches.order(epoch)
        assert sorted(np.concatenate(order).tolist()) == list(range(len(lengths)))
        assert len(order) == len(batches) == -(-len(lengths) // size)
        assert (
            sorted(map(len, order))
            == sorted([size] * (len(lengths) // size) + [len(lengths) % size or size])[-len(order) :]
        )
        again = batches.order(epoch)
        assert all(np.array_equal(a, b) for a, b in zip(order, again, strict=True))

    @given(lengths=st.lists(st.integers(1, 50), min_size=2, max_size=60), size=st.integers(3, 6))
    def test_like_lengths_together(self, lengths: list[int], size: int) -> None:
        """So small a corpus is one bucket: no batch reaches into another's lengths."""
        assert len(lengths) <= size * module.BUCKET
        batches = made(lengths, size)
        found = [batches.tokens.lengths[rows] for rows in batches.order(0)]
        spans = sorted((min(batch), max(batch)) for batch in found)
        assert all(before[1] <= after[0] for before, after in pairwise(spans))

    def test_buckets_mix_anew(self) -> None:
        """Beyond one bucket each epoch puts other documents together, and little is padding all the same."""
        rng = np.random.default_rng(0)
        lengths = rng.integers(1, 100, 2000).tolist()
        batches = made(lengths, 8)
        firsts = [{frozenset(rows.tolist()) for rows in batches.order(epoch)} for epoch in (0, 1)]
        assert len(firsts[0] & firsts[1]) < 3
        padded = sum(len(rows) * batches.tokens.lengths[rows].max() for rows in batches.order(0))
        assert padded < 1.15 * sum(lengths)
        means = [batches.tokens.lengths[rows].mean() for rows in batches.order(0)]
        assert abs(np.corrcoef(means, np.arange(len(means)))[0, 1]) < 0.3, "short and long batches take turns"


class TestBatches:
    @settings(max_examples=40)
    @given(lengths=CORPORA, size=st.integers(1, 8), start=st.integers(0, 70), seed=st.integers(0, 9))
    def test_starting_late_is_skipping(self, lengths: list[int], size: int, start: int, seed: int) -> None:
        whole = islice(epochs(made(lengths, size, seed)), start, start + 12)
        resumed = islice(epochs(made(lengths, size, seed, start=start)), 12)
        for one, other in zip(whole, resumed, strict=True):
            assert same(one, other)

    def test_the_first_pass_after_a_late_start_is_the_rest_of_an_epoch(self) -> None:
        batches = made([1] * 10, 2, start=13)
        assert [len(list(batches)) for _ in range(3)] == [2, 5, 5]
        assert len(batches) == 5

    def test_an_iterator_that_is_not_used_skips_nothing(self) -> None:
        """Lightning may ask for an iterator twice before it takes a batch."""
        one, other = made([1] * 10, 2), made([1] * 10, 2)
        iter(one)
        assert all(same(a, b) for a, b in zip(one, other, strict=True))

    @settings(max_examples=30)
    @given(lengths=CORPORA, size=st.integers(1, 8), world=st.integers(2, 4))
    def test_processes_share_the_batches(self, lengths: list[int], size: int, world: int) -> None:
        alone = made(lengths, size)
        ranks = [made(lengths, size, rank=rank, world=world) for rank in range(world)]
        for _ in range(2):
            own = [[tuple(batch.rows) for batch in batches] for batches in ranks]
            assert {len(rows) for rows in own} == {-(-len(alone) // world)}, "all take the same number of steps"
            dealt = [rows for step in zip(*own, strict=True) for rows in step]
            expected = [tuple(batch.rows) for batch in alone]
            assert dealt[: len(expected)] == expected
            # some go round once more, so that no process stands waiting
            assert dealt[len(expected) :] == [
                expected[number % len(expected)] for number in range(len(expected), len(dealt))
            ]

    def test_processes_draw_what_one_would(self) -> None:
        alone = list(made([1] * 12, 2))
        for rank in (0, 1):
            for one, other in zip(alone[rank::2], made([1] * 12, 2, rank=rank, world=2), strict=True):
                assert same(one, other)

    def test_seeds_and_epochs_differ(self) -> None:
        batches = made([1] * 40, 4, seed=1)
        first, second = ([tuple(batch.rows) for batch in batches] for _ in range(2))
        assert first != second
        assert first != [tuple(batch.rows) for batch in made([1] * 40, 4, seed=2)]
        labels = {tuple(batch.labels.tolist()) for batch in made([1] * 40, 4, negatives=2)}
        assert len(labels) > 1, "negatives are drawn anew for every batch"

    def test_tokens_mask_and_states(self) -> None:
        lengths = [3, 1, 4, 2]
        tokens = tokens_of(lengths)
        states = np.random.default_rng(0).normal(size=(10, 6)).astype(np.float16)
        for batch in made(lengths, 3, states=states):
            assert batch.tokens.dtype == torch.int64 and batch.mask.dtype == torch.bool
            assert batch.states is not None and batch.states.dtype == torch.float32
            assert batch.states.shape == (*batch.tokens.shape, 6)
            for row, ids, mask, kept in zip(batch.rows, batch.tokens, batch.mask, batch.states, strict=True):
                at = slice(tokens.indptr[row], tokens.indptr[row + 1])
                assert ids[mask].tolist() == tokens.ids[at].tolist()
                assert mask.tolist() == [t < lengths[row] for t in range(len(ids))]
                assert (ids[~mask] == PAD).all()
                np.testing.assert_array_equal(kept[mask].numpy(), states[at])
                assert (kept[~mask] == 0).all()
        assert state_tensor(None, tokens, np.array([0])) is None

    @given(lengths=CORPORA, size=st.integers(1, 8))
    def test_length_order(self, lengths: list[int], size: int) -> None:
        tokens = tokens_of(lengths)
        order = in_length_order(tokens, size)
        assert np.concatenate(order).tolist() == sorted(range(len(lengths)), key=lambda row: lengths[row])
        assert max(map(len, order)) <= size
        ids, mask = token_tensors(tokens, order[0])
        assert ids.shape == mask.shape == (len(order[0]), max(tokens.lengths[order[0]]))


ROWS = st.lists(st.integers(0, 11), min_size=1, max_size=8, unique=True).map(
    lambda rows: np.array(rows, dtype=np.int64)
)


def tree(rng: np.random.Generator, width: int) -> tuple[Children, Any]:
    """Labels under random parents, some under none, and some parents for each of 12 documents, -1 for fewer."""
    children = Children.of(rng.integers(-1, PARENTS, LABELS).astype(np.int32), PARENTS)
    parents = np.array([rng.permutation(PARENTS)[:width] for _ in range(12)], dtype=np.int32)
    parents[rng.random(parents.shape) < 0.2] = -1
    return children, parents


def check(
    Y: sp.csr_matrix, weight: Any, rows: Any, labels: Any, targets: Any, weights: Any, weighted: bool = True
) -> None:
    """Targets and weights, pair by pair."""
    dense = Y.toarray()
    weight_of = sp.csr_matrix((weight + 1, Y.indices, Y.indptr), Y.shape).toarray()  # 0 for pairs not stored
    for number, row in enumerate(rows):
        own = labels if labels.ndim == 1 else labels[number]
        for place, label in enumerate(own):
            assert targets[number, place] == dense[row, label]
            stored = weight_of[row, label]
            if weights is not None:
                assert weights[number, place] == (stored - 1 if stored and weighted else 1)


class TestTargets:
    @settings(max_examples=60)
    @given(rows=ROWS, seed=st.integers(0, 50), negatives=st.integers(0, LABELS + 1), weighted=st.booleans())
    def test_shared(self, rows: Any, seed: int, negatives: int, weighted: bool) -> None:
        Y, weight = targets_of(12, seed)
        choice = SharedLabels(Y, weight if weighted else None, negatives)
        labels, targets, weights = choice.choose(rows, np.random.default_rng(seed))
        assert labels.dtype == np.int64 and targets.dtype == np.float32
        assert (weights is not None) == weighted
        positives = set(Y[rows].indices.tolist())
        if 0 < negatives < LABELS:
            assert positives <= set(labels.tolist()) and (np.diff(labels) > 0).all()
            assert len(labels) <= len(positives) + negatives
        else:
            assert labels.tolist() == list(range(LABELS))
        assert targets.shape == (len(rows), len(labels))
        assert targets.sum() == Y[rows].sum(), "no positive is lost"
        check(Y, weight, rows, labels, targets, weights)

    @settings(max_examples=60)
    @given(rows=ROWS, seed=st.integers(0, 50), weighted=st.booleans(), width=st.integers(1, PARENTS))
    def test_own(self, rows: Any, seed: int, weighted: bool, width: int) -> None:
        """Lists need not hold every positive: what they do hold has its target, and what fills them up no say."""
        Y, weight = targets_of(12, seed)
        rng = np.random.default_rng(seed)
        children, parents = tree(rng, width)
        choice = OwnLabels(Y, weight if weighted else None, parents, children)
        labels, targets, weights = choice.choose(rows, rng)
        assert labels.dtype == np.int64 and targets.dtype == np.float32 and weights is not None
        assert targets.shape == labels.shape == weights.shape
        parent_of = np.full(LABELS, -1)
        for parent in range(PARENTS):
            parent_of[children.labels[children.start[parent] : children.start[parent + 1]]] = parent
        own = []
        for number, row in enumerate(rows):
            held = [label for label in range(LABELS) if parent_of[label] in parents[row][parents[row] >= 0]]
            own.append(held)
            assert labels[number, : len(held)].tolist() == held
            assert (weights[number, len(held) :] == 0).all() and (targets[number, len(held) :] == 0).all()
            assert (labels[number] < LABELS).all()
            at = slice(0, len(held))
            check(Y, weight, [row], labels[number, at], targets[[number], at], weights[[number], at], weighted=weighted)
        assert labels.shape == (len(rows), max(1, *map(len, own)))

    @given(seed=st.integers(0, 50), width=st.integers(1, PARENTS))
    def test_whose_child(self, seed: int, width: int) -> None:
        children, parents = tree(np.random.default_rng(seed), width)
        lists, whose = children.expanded(parents)
        for own, labels, places in zip(parents, lists, whose, strict=True):
            for label, place in zip(labels[labels < LABELS], places[labels < LABELS], strict=True):
                start, end = children.start[own[place]], children.start[own[place] + 1]
                assert own[place] >= 0 and label in children.labels[start:end]

    def test_no_overflow_with_many_labels(self) -> None:
        """Place in the batch times number of labels does not fit into 32 bits."""
        n_labels = 2**31 - 1
        Y = sp.csr_matrix((np.ones(3, np.float32), np.array([5, 7, n_labels - 1], np.int32), np.array([0, 1, 2, 3])),
                          shape=(3, n_labels))  # fmt: skip
        children = Children(np.array([0, 2, 4, 6]), np.array([4, 5, 7, 8, 0, n_labels - 1], dtype=np.int32), n_labels)
        parents = np.arange(3, dtype=np.int32)[:, None]
        _, targets, _ = OwnLabels(Y, None, parents, children).choose(np.arange(3), np.random.default_rng(0))
        assert targets.tolist() == [[0, 1], [1, 0], [0, 1]]

    @pytest.mark.parametrize("choice", ["shared", "own"])
    def test_batches_carry_them(self, choice: str) -> None:
        Y, weight = targets_of(12, 1)
        children = Children.of(np.zeros(LABELS, dtype=np.int32), 1)
        own = OwnLabels(Y, weight, np.zeros((12, 1), dtype=np.int32), children)
        chosen: Any = SharedLabels(Y, weight, 0) if choice == "shared" else own
        for batch in Batches(tokens_of([2] * 12), chosen, 5, seed=0):
            assert batch.shared == (choice == "shared")
            assert batch.weights is not None
            check(Y, weight, batch.rows, batch.labels.numpy(), batch.targets.numpy(), batch.weights.numpy())
