"""Prototypical supervised contrastive loss (LSFA, https://doi.org/10.1609/aaai.v37i9.26259), beside cross entropy.

The context vector v of a document and one of its labels is drawn to the label's prototype p, the mean of its context
vectors, and pushed away from the prototypes of other labels:

    -log [ exp(v . p_own / tau) / sum over labels j of exp(v . p_j / tau) ]          v and p of unit length

Prototypes are made anew before each epoch, from all training documents and without dropout, and have no gradient. The
paper's equation 9 leaves the own prototype out of the sum; its equation 8 takes the batch's other vectors in place of
prototypes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from longtail.augment.hooks import Hook, TrainingPlan
from longtail.errors import UsageError, warn
from longtail.part import option

if TYPE_CHECKING:
    from torch import Tensor

    from longtail.learners.neural.training.batches import Batch
    from longtail.learners.neural.training.data import TrainingData
    from longtail.learners.neural.training.network import Network

#: Forms of the loss.
FORMS = ("standard", "equation-8", "equation-9")


@dataclass(kw_only=True)
class Contrastive(Hook):
    space: ClassVar[str] = "context"

    form: str = option(
        "standard",
        "standard: own prototype once in the sum; equation-9: not in it (paper); equation-8: the batch's other vectors "
        "in place of prototypes (supervised contrastive loss)",
        choices=FORMS,
    )
    weight: float = option(0.01, "of this loss beside cross entropy (alpha; measured; paper: 0.1)", low=0, high=1000)
    temperature: float = option(0.07, "divides the similarities (tau; LSFA's code: 0.07)", low=1e-3, high=100)
    cosine: bool = option(True, "vectors are brought to unit length first (LSFA's code); if not, as equations 8 and 9")
    start: float = option(
        0.5, "share of the training before it begins (LSFA's code: epoch 25 of at most 100)", low=0, high=1
    )
    others: int = option(
        5000, "prototypes of other labels in the sum, drawn at every step where there are more (paper: all)",
        low=1, only={"form": ("standard", "equation-9")},
    )  # fmt: skip

    def begin(self, plan: TrainingPlan) -> None:
        self.first_ = int(self.start * plan.steps)
        self.Y_ = plan.corpus.positives()
        self._take(None)
        self.acts_ = False
        self.steps_ = self.pairs_ = 0

    def epoch(self, network: Network, data: TrainingData) -> None:
        if "context" not in network.head.points:
            raise UsageError("'contrastive' needs context vectors: a head with label-wise attention")
        self.acts_ = self.steps_ >= self.first_
        if self.acts_ and self.form != "equation-8":
            self._take(network.prototypes(data.tokens, self.Y_, data.states))

    def _take(self, prototypes: Tensor | None) -> None:
        """Prototypes (L, width) as they are, and what a step needs of them: which there are, and their directions."""
        from torch.nn import functional

        self.prototypes_ = prototypes
        if prototypes is not None:
            self.known_ = (prototypes != 0).any(dim=1)
            self.shown_ = functional.normalize(prototypes, dim=1) if self.cosine else prototypes

    def draw(self, batch: Batch, network: Network, rng: np.random.Generator, step: int) -> Batch:
        self.steps_ = step + 1
        self.seed_ = int(rng.integers(1 << 62))
        return batch

    def pairs(self, batch: Batch, network: Network, hidden: Tensor, logits: Tensor) -> tuple[Batch, Tensor, Any]:
        if not self.acts_:
            return batch, logits, None
        positive = batch.targets > 0
        if batch.weights is not None:  # a pair of weight 0 is no example of anything
            positive = positive & (batch.weights > 0)
        document, column = positive.nonzero(as_tuple=True)
        label = batch.labels[column] if batch.shared else batch.labels[document, column]
        head: Any = network.head
        vectors = head.contexts(hidden, batch.mask, document, label).float()
        losses = self._losses(vectors, label)
        if losses is None:
            return batch, logits, None
        self.pairs_ += len(label)
        return batch, logits, self.weight * (losses * batch.targets[document, column]).sum() / len(batch)

    def _losses(self, vectors: Tensor, labels: Tensor) -> Tensor | None:
        """(P,): the loss of each pair; None where there is nothing to tell apart."""
        import torch
        from torch.nn import functional

        if self.cosine:
            vectors = functional.normalize(vectors, dim=1)
        if self.form == "equation-8":
            return supervised(vectors, labels, self.temperature) if len(labels) > 1 else None
        if self.known_.device != vectors.device:  # they came from a checkpoint
            self._take(self.prototypes_ if self.prototypes_ is None else self.prototypes_.to(vectors.device))
        there = self.known_.clone()
        if len(there) > self.others:
            drawn = np.random.default_rng(self.seed_).choice(len(there), self.others, replace=False)
            listed = torch.zeros_like(there)
            listed[torch.from_numpy(drawn).to(there.device)] = True
            there &= listed
        there[labels] = True
        columns = there.nonzero()[:, 0]
        if len(columns) < 2 or not len(labels):
            return None
        own = torch.searchsorted(columns, labels)
        return prototypical(vectors, own, self.shown_[columns], self.temperature, own_in_sum=self.form == "standard")

    def end(self) -> None:
        if not self.pairs_:
            warn(
                f"the contrastive loss never acted: it begins with the first epoch after {self.start:.0%} of the "
                "training, which had ended by then; lower contrastive.start or train longer"
            )

    def state(self) -> dict[str, Any]:
        none = np.zeros((0, 0), dtype=np.float32)
        made = none if self.prototypes_ is None else self.prototypes_.cpu().numpy()
        return {"prototypes": made, "acts": self.acts_, "steps": self.steps_, "pairs": self.pairs_}

    def restore_state(self, state: dict[str, Any]) -> None:
        import torch

        kept = torch.from_numpy(np.array(state["prototypes"]))
        self._take(kept if len(kept) else None)
        self.acts_, self.steps_, self.pairs_ = state["acts"], state["steps"], state["pairs"]


def prototypical(
    vectors: Tensor, own: Tensor, prototypes: Tensor, temperature: float, *, own_in_sum: bool = True
) -> Tensor:
    """(P,): -log of exp(v . p_own / tau) over the sum of exp(v . p_j / tau).

    own         (P,), which of the prototypes (K, width) is that of the pair's own label
    own_in_sum  False for equation 9, whose sum is over other labels only
    """
    import torch

    similar = vectors @ prototypes.T / temperature
    right = similar.gather(1, own[:, None])[:, 0]
    if not own_in_sum:
        similar = similar.scatter(1, own[:, None], -torch.inf)
    return similar.logsumexp(dim=1) - right


def supervised(vectors: Tensor, labels: Tensor, temperature: float) -> Tensor:
    """(P,): equation 8, over the other vectors of the batch; 0 for a vector whose label no other one has."""
    import torch

    itself = torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    similar = (vectors @ vectors.T / temperature).masked_fill(itself, -torch.inf)
    same = (labels[:, None] == labels[None, :]) & ~itself
    log_share = similar - similar.logsumexp(dim=1, keepdim=True)
    total = torch.where(same, log_share, torch.zeros_like(log_share)).sum(dim=1)
    return -total / same.sum(dim=1).clamp_min(1)
