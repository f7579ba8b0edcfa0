"""Where augmenters reach into a neural fit: four named spaces, and the points in the forward pass that make them up.

    tokens      "tokens" (ids and targets of a batch may be rewritten), "embedded"
    hidden      "layer 1" ... "layer n", the encoder's layers; the last one's output is what the head attends to
    context     "context", one vector a label and document, and `pairs` for single (document, label) pairs
    classifier  "classifier", the hidden layer of the classifier

A hook draws once a batch and is then applied at its point. It draws from a generator of its own, so that dropout and
batches are the same with and without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail.augment.base import Augmenter
from longtail.labels import LabelIndex

if TYPE_CHECKING:
    from torch import Tensor

    from longtail.features.tokens import Tokens
    from longtail.learners.neural.batches import Batch
    from longtail.learners.neural.network import Network


@dataclass(eq=False)
class Setting:
    """What a hook may know before training starts.

    labels  the label index with the counts of the training data
    Y       csr (n, L), the training targets
    is_document  bool (n,), rows that are documents, not made by an augmenter
    layers  hidden layers of the encoder; `first` is the first that is trained
    steps   optimiser steps of the whole fit
    texts   tokens of each label's text (its name, if it has none), as the encoder reads them; None where labels are
            no labels of the corpus but nodes of a tree
    length  tokens the encoder reads of a document, at the most
    """

    labels: LabelIndex
    Y: sp.csr_matrix
    is_document: NDArray[np.bool_]
    layers: int
    first: int
    steps: int
    texts: Tokens | None = None
    length: int = 1 << 30


@dataclass(kw_only=True)
class Hook(Augmenter):
    """Base of augmenters inside a neural fit; each overrides what it needs."""

    def begin(self, setting: Setting) -> None:
        """Once, before training."""

    def draw(self, batch: Batch, network: Network, rng: np.random.Generator, step: int) -> Batch:
        """Makes the random choices of one step; may give another batch, with other tokens or targets."""
        return batch

    def at(self, point: str, values: Tensor) -> Tensor:
        """At a point of the forward pass: values (B, ...) as they are, or mixed."""
        return values

    def wants(self, point: str) -> bool:
        """Whether `at` does anything at this point in this step: heads take a quicker way if not."""
        return False

    def pairs(self, batch: Batch, network: Network, hidden: Tensor, logits: Tensor) -> tuple[Batch, Tensor, Any]:
        """After the head: the batch with targets changed, the logits (B, S) changed, and an extra loss or None."""
        return batch, logits, None


class Hooks:
    """The hooks of one fit as one."""

    def __init__(self, hooks: Sequence[Hook] = ()) -> None:
        self.hooks = list(hooks)

    def wants(self, point: str) -> bool:
        return any(hook.wants(point) for hook in self.hooks)

    def at(self, point: str, values: Tensor) -> Tensor:
        for hook in self.hooks:
            values = hook.at(point, values)
        return values


#: No hooks: what validation and prediction use.
NONE = Hooks()
