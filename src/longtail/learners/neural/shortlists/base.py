"""Which labels a loss is taken over: shared by a batch, or a list of each document's own.

A stored pair of weight 0 is neither a positive nor a negative example in any of them. A `Shortlist` is the part that
holds the options; a `LabelChoice` chooses for one network.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail.corpus import Corpus
from longtail.features.tokens import Tokens
from longtail.part import Arrays, Part
from longtail.plan import Sizes
from longtail.scores import Scores
from longtail.sparse import pieces_of, starts_of

if TYPE_CHECKING:
    from longtail.learners.neural.base import NeuralLearner
    from longtail.learners.neural.encoders.base import Encoder
    from longtail.learners.neural.encoders.network import EncoderNetwork
    from longtail.learners.neural.heads.network import HeadNetwork
    from longtail.learners.neural.training.network import Network
    from longtail.learners.neural.training.task import Task


class LabelChoice(Protocol):
    """The labels that the loss of a batch is taken over, and the targets there."""

    def choose(
        self, rows: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.float32] | None]:
        """labels (S,) or (B, S), targets and weights (B, S)."""
        ...


@dataclass(kw_only=True)
class Shortlist(Part, ABC):
    """How a network over all labels is trained, kept and asked: which labels each document meets."""

    kind: ClassVar[str] = "shortlist"

    def check_encoder(self, encoder: Encoder) -> None:
        """Refuses options that this encoder leaves without any effect."""

    def shown(self, sizes: Sizes, batch: int) -> tuple[int, bool]:
        """Labels that a batch's loss is taken over, and whether each document has as many of its own."""
        return sizes.labels, False

    def weights(self, width: int, sizes: Sizes) -> int:
        """Numbers that are trained beside the network's own."""
        return 0

    @abstractmethod
    def choice(self, corpus: Corpus) -> LabelChoice:
        """Which labels a batch's loss is taken over."""

    def train(self, learner: NeuralLearner, network: Network, task: Task) -> Network:
        """Trains the network; gives what is kept of it."""
        learner.train_network(network, replace(task, choice=self.choice(task.corpus)))
        return network.folded()

    def retune_choice(self, network: Network, corpus: Corpus, tokens: Tokens) -> LabelChoice:
        """Which labels the loss of the second stage is taken over."""
        return self.choice(corpus)

    def kept_head(self, learner: NeuralLearner, encoder: EncoderNetwork, n_labels: int) -> HeadNetwork:
        """The head of a network as it is kept, its weights still to come."""
        head: HeadNetwork = learner.head.folded_network(encoder.width, encoder.word_width, n_labels)
        return head

    def best(self, network: Network, tokens: Tokens, n_labels: int, k: int) -> Scores:
        """The k best labels of each document."""
        from longtail.learners.neural.training.network import best_labels

        return best_labels(network, tokens, n_labels, k)

    def restore_for(self, n_labels: int, arrays: Arrays) -> None:
        """Takes back what `state` gave, for this many labels."""
        self.restore(arrays)


@dataclass(eq=False)
class SharedLabels:
    """All labels, or the batch's positives and some random others (`negatives` of them, 0 for all)."""

    Y: sp.csr_matrix
    pair_weight: NDArray[np.float32] | None
    negatives: int

    def choose(
        self, rows: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.float32] | None]:
        labels, (document, column, value), weight = self.pairs(rows, rng)
        targets = np.zeros((len(rows), len(labels)), dtype=np.float32)
        targets[document, column] = value
        if weight is None:
            return labels, targets, None
        weights = np.ones_like(targets)
        weights[document, column] = weight
        return labels, targets, weights

    def pairs(
        self, rows: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], tuple[NDArray[Any], ...], NDArray[np.float32] | None]:
        """Labels (S,), and the stored pairs only: document and label by their places, targets; weights if there are."""
        document, entries = _stored(self.Y, rows)
        found = self.Y.indices[entries]
        n_labels = self.Y.shape[1]
        if self.negatives and self.negatives < n_labels:
            labels = np.union1d(found, rng.integers(0, n_labels, self.negatives)).astype(np.int64)
        else:
            labels = np.arange(n_labels)
        weights = None if self.pair_weight is None else self.pair_weight[entries]
        return labels, (document, np.searchsorted(labels, found), self.Y.data[entries]), weights


@dataclass(eq=False)
class Children:
    """The children of each parent in a label tree: `labels` int32, `start` int64 (parents + 1,)."""

    start: NDArray[np.int64]
    labels: NDArray[np.int32]
    n_labels: int

    @classmethod
    def of(cls, parent: NDArray[np.int32], parents: int) -> Children:
        """From the parent of each label, -1 for a label that is in no tree."""
        there = np.flatnonzero(parent >= 0)
        order = there[np.argsort(parent[there], kind="stable")]
        counts = np.bincount(parent[there], minlength=parents)
        return cls(starts_of(counts), order.astype(np.int32), len(parent))

    def expanded(self, parents: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Children of parents (B, C), -1 for none: sorted lists (B, S), filled up with n_labels.

        The second array tells whose child each is, by the place in `parents`; 0 where the list is filled up.
        """
        counts = np.where(parents >= 0, np.diff(self.start)[parents], 0)
        width = int(counts.sum(axis=1).max(initial=1)) or 1
        row = np.repeat(np.arange(len(parents)), counts.sum(axis=1))
        origin = np.repeat(np.tile(np.arange(parents.shape[1]), len(parents)), counts.ravel())
        before = np.cumsum(counts.ravel()) - counts.ravel()
        inside = np.arange(len(row)) - np.repeat(before, counts.ravel())
        label = self.labels[np.repeat(self.start[parents.ravel()], counts.ravel()) + inside]
        order = np.lexsort((label, row))
        row, origin, label = row[order], origin[order], label[order]
        place = np.arange(len(row)) - np.searchsorted(row, row)
        lists = np.full((len(parents), width), self.n_labels, dtype=np.int64)
        whose = np.zeros((len(parents), width), dtype=np.int64)
        lists[row, place], whose[row, place] = label, origin
        return lists, whose


@dataclass(eq=False)
class _LabelLists(ABC):
    """A list of labels for each document, with targets and weights from its stored pairs."""

    Y: sp.csr_matrix
    pair_weight: NDArray[np.float32] | None

    @abstractmethod
    def lists_of(
        self, rows: NDArray[np.int64], stored: tuple[NDArray[np.int64], NDArray[np.int64]], rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """Sorted lists (B, S) of some documents, filled up with n_labels; stored: their pairs, as of `_stored`."""

    def choose(
        self, rows: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.float32]]:
        stored = _stored(self.Y, rows)
        return _targets(self.lists_of(rows, stored, rng), self.Y, self.pair_weight, *stored)


@dataclass(eq=False)
class OwnLabels(_LabelLists):
    """A shortlist for each document: the children of its parents (n, C), its true ones among them."""

    parents: NDArray[np.int32]
    children: Children

    def lists_of(
        self, rows: NDArray[np.int64], stored: tuple[NDArray[np.int64], NDArray[np.int64]], rng: np.random.Generator
    ) -> NDArray[np.int64]:
        return self.children.expanded(self.parents[rows])[0]


@dataclass(eq=False)
class ListedLabels(_LabelLists):
    """A list for each document (n, C), -1 for none, its own labels and some random ones beside."""

    lists: NDArray[np.int32]
    random: int

    def lists_of(
        self, rows: NDArray[np.int64], stored: tuple[NDArray[np.int64], NDArray[np.int64]], rng: np.random.Generator
    ) -> NDArray[np.int64]:
        n_labels, (document, entries) = self.Y.shape[1], stored
        counts = np.diff(self.Y.indptr)[rows]
        own = np.full((len(rows), int(counts.max(initial=0))), n_labels, dtype=np.int64)
        place = np.arange(len(document)) - np.repeat(np.cumsum(counts) - counts, counts)
        own[document, place] = self.Y.indices[entries]
        drawn = rng.integers(0, n_labels, (len(rows), self.random))
        listed = self.lists[rows]
        lists = np.sort(np.concatenate([own, drawn, np.where(listed < 0, n_labels, listed)], axis=1), axis=1)
        lists[:, 1:][lists[:, 1:] == lists[:, :-1]] = n_labels  # a label that stands twice counts once
        return np.sort(lists, axis=1)


def true_first(found: Scores, Y: sp.csr_matrix, count: int) -> NDArray[np.int32]:
    """int32 (n, C): a document's true parents, then the best found ones; -1 where there are fewer."""
    true: sp.csr_matrix = sp.csr_matrix((np.full(Y.nnz, 2, dtype=np.float32), Y.indices, Y.indptr), shape=Y.shape)
    return Scores.from_csr(sp.csr_matrix(found.to_csr(Y.shape[1]) + true), count).ids


def _targets(
    lists: NDArray[np.int64],
    Y: sp.csr_matrix,
    pair_weight: NDArray[np.float32] | None,
    document: NDArray[np.int64],
    entries: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.float32]]:
    """Sorted lists (B, S) filled up with n_labels, and their targets and weights, from the stored pairs."""
    n_labels = Y.shape[1]
    # sorted rows laid end to end rise, so one search finds every pair
    flat = (lists + np.arange(len(lists))[:, None] * (n_labels + 1)).ravel()
    wanted = Y.indices[entries] + document * (n_labels + 1)
    at = np.minimum(np.searchsorted(flat, wanted), len(flat) - 1)
    there = flat[at] == wanted
    targets = np.zeros(lists.size, dtype=np.float32)
    targets[at[there]] = Y.data[entries[there]]
    weights = (lists < n_labels).astype(np.float32).ravel()
    if pair_weight is not None:
        weights[at[there]] = pair_weight[entries[there]]
    shape = lists.shape
    return np.minimum(lists, n_labels - 1), targets.reshape(shape), weights.reshape(shape)


def _stored(Y: sp.csr_matrix, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The place in `rows` and in Y's arrays of each stored pair of some documents."""
    starts = Y.indptr[rows].astype(np.int64)
    lengths = Y.indptr[rows + 1] - starts
    document = np.repeat(np.arange(len(rows)), lengths)
    return document, pieces_of(starts, lengths)
