"""Batches of documents with the labels the loss is taken over, each a pure function of (seed, step).

Because no batch depends on what was drawn before, a run that was killed goes on in the middle of an epoch with exactly
the batches it would have seen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from longtail.features.tokens import PAD, Tokens

if TYPE_CHECKING:
    from torch import Tensor

    from longtail.learners.neural.shortlists.base import LabelChoice

#: Documents are sorted by length within this many batches: little padding, and still another mixture every epoch.
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
    hidden   float (B, T, width) or (B, width) or None: what the whole encoder makes of them, where it stands still
    """

    rows: NDArray[np.int64]
    tokens: Tensor
    mask: Tensor
    labels: Tensor
    targets: Tensor
    weights: Tensor | None = None
    states: Tensor | None = None
    hidden: Tensor | None = None

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def shared(self) -> bool:
        """Whether all documents have the same labels."""
        return self.labels.ndim == 1


@dataclass(frozen=True)
class Share:
    """Which batches a process trains on: from a step on, and of several processes every w-th."""

    start: int = 0
    rank: int = 0
    world: int = 1


class Batches:
    """The training batches of epoch after epoch, from a given step on.

    states, hidden  what the encoder makes of documents, where that is kept (see `Batch`)
    new_epoch       called before the first batch of each epoch is drawn
    """

    def __init__(
        self,
        tokens: Tokens,
        choice: LabelChoice,
        size: int,
        *,
        seed: int,
        states: NDArray[np.float16] | None = None,
        share: Share | None = None,
    ) -> None:
        self.tokens, self.choice, self.size, self.seed, self.states = tokens, choice, size, seed, states
        self.hidden: KeptVectors | None = None
        self.new_epoch: Callable[[], None] = lambda: None
        share = share or Share()
        self.rank, self.world = share.rank, share.world
        self._next_epoch, self._position = divmod(share.start, len(self))

    def __len__(self) -> int:
        return math.ceil(math.ceil(len(self.tokens) / self.size) / self.world)

    def __iter__(self) -> Iterator[Batch]:
        return (self.batch(rows, rng) for rows, rng in self.rows())

    def rows(self) -> Iterator[tuple[NDArray[np.int64], np.random.Generator]]:
        """The documents of each batch of the next epoch, and what its labels are drawn by."""
        epoch, position = self._next_epoch, self._position
        self._next_epoch, self._position = epoch + 1, 0
        if position == 0:
            self.new_epoch()
        order = self.order(epoch)
        for number in range(position, len(self)):
            mine = (number * self.world + self.rank) % len(order)
            yield order[mine], np.random.default_rng([self.seed, 1, epoch, mine])

    def order(self, epoch: int) -> list[NDArray[np.int64]]:
        """The documents of each batch of an epoch, batches of similar length in random order."""
        rng = np.random.default_rng([self.seed, 0, epoch])
        shuffled = rng.permutation(len(self.tokens))
        pool = np.arange(len(shuffled)) // (self.size * BUCKET)
        shuffled = shuffled[np.lexsort((self.tokens.lengths[shuffled], pool))]
        batches = [shuffled[start : start + self.size] for start in range(0, len(shuffled), self.size)]
        return [batches[number] for number in rng.permutation(len(batches))]

    def batch(self, rows: NDArray[np.int64], rng: np.random.Generator) -> Batch:
        import torch

        labels, targets, weights = self.choice.choose(rows, rng)
        return Batch(
            rows,
            *token_tensors(self.tokens, rows),
            torch.from_numpy(labels),
            torch.from_numpy(targets),
            None if weights is None else torch.from_numpy(weights),
            state_tensor(self.states, self.tokens, rows),
            None if self.hidden is None else self.hidden.of(self.tokens, rows),
        )


def dropout_seed(seed: int, step: int, rank: int = 0) -> int:
    """What a step's dropout is drawn by."""
    return int(np.random.SeedSequence([seed, step, rank]).generate_state(1, np.uint64)[0] >> np.uint64(1))


def seed_dropout(seed: int, step: int, rank: int = 0, *, device: str = "cpu") -> None:
    """What is dropped follows from the step, so that a resumed run drops what an uninterrupted one drops."""
    import torch

    drawn = dropout_seed(seed, step, rank)
    if device == "cpu":
        torch.default_generator.manual_seed(drawn)
    else:
        torch.manual_seed(drawn)  # notes for each kind of device there is not where it was called: not for every step


def token_tensors(tokens: Tokens, rows: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
    """Tokens (B, T) of some documents and the mask of where there are any."""
    import torch

    padded = torch.from_numpy(tokens.padded(rows))
    return padded, padded != PAD


def state_tensor(states: NDArray[np.floating] | None, tokens: Tokens, rows: NDArray[np.int64]) -> Tensor | None:
    """float (B, T, width): the kept states of some documents' tokens, padded with 0; states has a row per token."""
    if states is None:
        return None
    import torch

    lengths = tokens.lengths[rows]
    padded = np.zeros((len(rows), int(lengths.max()), states.shape[1]), dtype=np.float32)
    for number, row in enumerate(rows):
        padded[number, : lengths[number]] = states[tokens.indptr[row] : tokens.indptr[row + 1]]
    return torch.from_numpy(padded)


@dataclass(eq=False)
class KeptVectors:
    """What an encoder that stands still makes of all documents: (tokens, width), or (documents, width)."""

    values: NDArray[np.floating]
    per_token: bool

    def of(self, tokens: Tokens, rows: NDArray[np.int64]) -> Tensor | None:
        """Those of some documents, as `Batch.hidden` has them."""
        if self.per_token:
            return state_tensor(self.values, tokens, rows)
        import torch

        return torch.from_numpy(np.ascontiguousarray(self.values[rows], dtype=np.float32))


def in_length_order(tokens: Tokens, size: int) -> list[NDArray[np.int64]]:
    """All documents in batches of similar length: how predictions are made."""
    order = np.argsort(tokens.lengths, kind="stable")
    return [order[start : start + size] for start in range(0, len(order), size)]
