"""Where augmenters reach into a neural fit: five named spaces, and the points in the forward pass that make them up.

    tokens      "tokens" (ids and targets of a batch may be rewritten), "embedded"
    hidden      "layer 1" ... "layer n", the encoder's layers; the last one's output is what the head attends to.
                Encoders of short texts have layers, too, whose values are of documents, not of tokens
    context     "context", one vector per label and document, and `pairs` for single (document, label) pairs
    classifier  "classifier", the hidden layer of the classifier
    labels      no point: `HeadNetwork.separators`, the classifier's vectors of labels

A training goes begin, then per epoch `epoch`, then per step draw, (encoder) `encoded`, (head) `pairs`, then end. A hook
draws once per batch and is then applied at its point. It draws from a generator of its own, so that dropout and batches
are the same with and without it. What it remembers from step to step is its `state`, which travels in checkpoints.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from longtail.augment.base import Augmenter
from longtail.corpus import Corpus
from longtail.run import Run

if TYPE_CHECKING:
    from torch import Tensor

    from longtail.features.tokens import Tokens
    from longtail.learners.neural.training.batches import Batch
    from longtail.learners.neural.training.data import TrainingData
    from longtail.learners.neural.training.network import Network


@dataclass(eq=False)
class TrainingPlan:
    """What a hook may know before training starts.

    corpus        what is trained on: its labels with the counts of the training data, its targets, its documents
    layers        hidden layers of the encoder
    steps         optimiser steps of the whole training
    label_tokens  tokens of each label's text (its name, if it has none), as the encoder reads them; None where labels
                  are nodes of a tree
    max_tokens    most tokens that the encoder reads per document
    run           of the fit
    """

    corpus: Corpus
    layers: int
    steps: int
    label_tokens: Tokens | None = None
    max_tokens: int = 1 << 30
    run: Run = field(default_factory=Run)


class ContextHead(Protocol):
    """What a head with "context" among its points offers for single pairs of a document and a label."""

    points: tuple[str, ...]
    reads_documents: bool

    def contexts(self, hidden: Tensor, mask: Tensor, documents: Tensor, labels: Tensor) -> Tensor:
        """c (P, width) of P pairs: documents (P,), rows of the batch in rising order, and labels (P,)."""
        ...

    def pair_logits(
        self,
        contexts: Tensor,
        hidden: Tensor,
        mask: Tensor,
        documents: Tensor,
        labels: Tensor,
        share: Tensor | None = None,
    ) -> Tensor:
        """Logits (P,) of P pairs, given their contexts (P, width).

        share  (P,), how much the document's vector counts, where `reads_documents`; None for all of it
        """
        ...


@dataclass(kw_only=True)
class Hook(Augmenter):
    """Base of augmenters inside a neural fit; each overrides what it needs."""

    def begin(self, plan: TrainingPlan) -> None:
        """Once, before training."""

    def epoch(self, network: Network, data: TrainingData) -> None:
        """Before the first batch of each epoch is drawn; not again by a run that goes on in the middle of one."""

    def draw(self, batch: Batch, network: Network, rng: np.random.Generator, step: int) -> Batch:
        """Makes the random choices of one step; may give another batch, with other tokens or targets."""
        return batch

    def apply_at(self, point: str, values: Tensor) -> Tensor:
        """At a point of the forward pass: values (B, ...) as they are, or mixed."""
        return values

    def wants(self, point: str) -> bool:
        """Whether `apply_at` does anything at this point in this step: heads take a quicker way if not."""
        return False

    def encoded(self, batch: Batch, network: Network, hidden: Tensor) -> Batch:
        """Between encoder and head: may give a batch with other labels, chosen by what the encoder found."""
        return batch

    def pairs(self, batch: Batch, network: Network, hidden: Tensor, logits: Tensor) -> tuple[Batch, Tensor, Any]:
        """After the head: the batch with targets changed, the logits (B, S) changed, and an extra loss or None."""
        return batch, logits, None

    def end(self) -> None:
        """Once, after a training in this process."""

    def state(self) -> dict[str, Any]:
        """What it remembers from step to step, named arrays or plain values: kept in checkpoints."""
        return {}

    def restore_state(self, state: dict[str, Any]) -> None:
        """Takes back what `state` gave, after `begin`."""


class Hooks:
    """The hooks of one fit as one."""

    def __init__(self, hooks: Sequence[Hook] = ()) -> None:
        self.hooks = list(hooks)

    def wants(self, point: str) -> bool:
        return any(hook.wants(point) for hook in self.hooks)

    def apply_at(self, point: str, values: Tensor) -> Tensor:
        for hook in self.hooks:
            values = hook.apply_at(point, values)
        return values


#: No hooks: what validation and prediction use.
NONE = Hooks()
