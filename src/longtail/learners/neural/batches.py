"""Batches of documents with the labels the loss is taken over, each a pure function of (seed, step).

Because no batch depends on what was drawn before, a run that was killed goes on in the middle of an epoch with exactly
the batches it would have seen.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from longtail.features.tokens import PAD, Tokens
from longtail.sparse import pieces_of, starts_of

#: Documents are sorted by length within so many batches: little padding, and still another mixture every epoch.
BUCKET = 20


@dataclass(eq=False)
class Batch:
    """B documents and the labels their loss is taken over.

    rows     int64 (B,), numbers of the documents
    tokens   int64 (B, T), padded with PAD
    mask     bool (B, T), where there are tokens
    labels   int64 (S,), the same for all documents, or (B, S), each document's own
    targets  float (B, S), in [0, 1]
    weights  float (B, S) or None for 1 everywhere; a pair of weight 0 has no say
    states   float (B, T, width) or None: what the frozen part of the encoder makes of the tokens
    """

    rows: NDArray[np.int64]
    tokens: Tensor
    mask: Tensor
    labels: Tensor
    targets: Tensor
    weights: Tensor | None = None
    states: Tensor | None = None

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def shared(self) -> bool:
        """Whether all documents have the same labels."""
        return self.labels.ndim == 1


class LabelChoice(Protocol):
    """Which labels a batch's loss is taken over, and its targets there."""

    def choose(
        self, rows: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.float32] | None]:
        """labels (S,) or (B, S), targets and weights (B, S)."""
        ...


@dataclass(eq=False)
class SharedLabels:
    """All labels, or the batch's positives and some random others (`negatives` of them, 0 for all)."""

    Y: sp.csr_matrix
    pair_weight: NDArray[np.float32] | None
    negatives: int

    def choose(
        self, rows: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.float32] | None]:
        document, entries = _stored(self.Y, rows)
        found = self.Y.indices[entries]
        n_labels = self.Y.shape[1]
        if self.negatives and self.negatives < n_labels:
            labels = np.union1d(found, rng.integers(0, n_labels, self.negatives)).astype(np.int64)
        else:
            labels = np.arange(n_labels)
        column = np.searchsorted(labels, found)
        targets = np.zeros((len(rows), len(labels)), dtype=np.float32)
        targets[document, column] = self.Y.data[entries]
        if self.pair_weight is None:
            return labels, targets, None
        weights = np.ones_like(targets)
        weights[document, column] = self.pair_weight[entries]
        return labels, targets, weights


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
class OwnLabels:
    """A shortlist for each document: the children of its parents (n, C), its true ones among them."""

    Y: sp.csr_matrix
    pair_weight: NDArray[np.float32] | None
    parents: NDArray[np.int32]
    children: Children

    def choose(
        self, rows: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.float32] | None]:
        lists, _ = self.children.expanded(self.parents[rows])
        document, entries = _stored(self.Y, rows)
        return _targets(lists, self.Y, self.pair_weight, document, entries)


@dataclass(eq=False)
class ListedLabels:
    """A list for each document (n, C), -1 for none, its own labels and some random ones beside."""

    Y: sp.csr_matrix
    pair_weight: NDArray[np.float32] | None
    lists: NDArray[np.int32]
    random: int

    def choose(
        self, rows: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.float32] | None]:
        n_labels = self.Y.shape[1]
        document, entries = _stored(self.Y, rows)
        counts = np.diff(self.Y.indptr)[rows]
        own = np.full((len(rows), int(counts.max(initial=0))), n_labels, dtype=np.int64)
        own[document, np.arange(len(document)) - np.repeat(np.cumsum(counts) - counts, counts)] = self.Y.indices[
            entries
        ]
        drawn = rng.integers(0, n_labels, (len(rows), self.random))
        listed = self.lists[rows]
        lists = np.sort(np.concatenate([own, drawn, np.where(listed < 0, n_labels, listed)], axis=1), axis=1)
        lists[:, 1:][lists[:, 1:] == lists[:, :-1]] = n_labels  # a label that stands twice counts once
        return _targets(np.sort(lists, axis=1), self.Y, self.pair_weight, document, entries)


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


class Batches:
    """The training batches of epoch after epoch, from a given step on.

    Several processes share the batches of an epoch: process r of w takes every w-th.
    """

    def __init__(
        self,
        tokens: Tokens,
        choice: LabelChoice,
        size: int,
        *,
        seed: int,
        states: NDArray[np.float16] | None = None,
        start: int = 0,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        self.tokens, self.choice, self.size, self.seed, self.states = tokens, choice, size, seed, states
        self.rank, self.world = rank, world
        self._next_epoch, self._position = divmod(start, len(self))

    def __len__(self) -> int:
        return math.ceil(math.ceil(len(self.tokens) / self.size) / self.world)

    def __iter__(self) -> Iterator[Batch]:
        epoch, position = self._next_epoch, self._position
        self._next_epoch, self._position = epoch + 1, 0
        order = self.order(epoch)
        for number in range(position, len(self)):
            mine = (number * self.world + self.rank) % len(order)
            yield self.batch(order[mine], np.random.default_rng([self.seed, 1, epoch, mine]))

    def order(self, epoch: int) -> list[NDArray[np.int64]]:
        """The documents of each batch of an epoch, batches of like length in random order."""
        rng = np.random.default_rng([self.seed, 0, epoch])
        shuffled = rng.permutation(len(self.tokens))
        pool = np.arange(len(shuffled)) // (self.size * BUCKET)
        shuffled = shuffled[np.lexsort((self.tokens.lengths[shuffled], pool))]
        batches = [shuffled[start : start + self.size] for start in range(0, len(shuffled), self.size)]
        return [batches[number] for number in rng.permutation(len(batches))]

    def batch(self, rows: NDArray[np.int64], rng: np.random.Generator) -> Batch:
        labels, targets, weights = self.choice.choose(rows, rng)
        return Batch(
            rows,
            *token_tensors(self.tokens, rows),
            torch.from_numpy(labels),
            torch.from_numpy(targets),
            None if weights is None else torch.from_numpy(weights),
            state_tensor(self.states, self.tokens, rows),
        )


def token_tensors(tokens: Tokens, rows: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
    """Tokens (B, T) of some documents and the mask of where there are any."""
    padded = torch.from_numpy(tokens.padded(rows))
    return padded, padded != PAD


def state_tensor(states: NDArray[np.float16] | None, tokens: Tokens, rows: NDArray[np.int64]) -> Tensor | None:
    """float (B, T, width): the kept states of some documents' tokens, padded with 0; states has a row a token."""
    if states is None:
        return None
    lengths = tokens.lengths[rows]
    padded = np.zeros((len(rows), int(lengths.max()), states.shape[1]), dtype=np.float32)
    for number, row in enumerate(rows):
        padded[number, : lengths[number]] = states[tokens.indptr[row] : tokens.indptr[row + 1]]
    return torch.from_numpy(padded)


def in_length_order(tokens: Tokens, size: int) -> list[NDArray[np.int64]]:
    """All documents in batches of like length: how predictions are made."""
    order = np.argsort(tokens.lengths, kind="stable")
    return [order[start : start + size] for start in range(0, len(order), size)]
