"""GLaS (Guo et al. 2019, https://arxiv.org/abs/1905.10529): label vectors as similar as labels are in the documents.

Beside the loss of the documents stands one of the classifier's label vectors alone,

    R(V) = 1/K^2 |V V^T - G|^2          G_ij = (A_ij / A_jj + A_ij / A_ii) / 2,   A = Y^T Y

G_ij is the mean of two conditional frequencies: how often label i holds where j does, and the other way round. Labels
that never occur together are held apart, and those that do are drawn together, a rare label to the frequent ones that
it comes with. G has ones on its diagonal, so label vectors are brought to unit length. At every step it is taken over
the K labels of the batch's documents; G is that of all training documents.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse as sp

from longtail.augment.hooks import Hook, TrainingPlan
from longtail.errors import warn
from longtail.graphs.cooccurrence import cooccurrence
from longtail.part import option
from longtail.sparse import rows_of_pairs

if TYPE_CHECKING:
    from torch import Tensor

    from longtail.learners.neural.training.batches import Batch
    from longtail.learners.neural.training.network import Network


@dataclass(kw_only=True)
class Glas(Hook):
    space: ClassVar[str] = "labels"

    weight: float = option(10.0, "of the regulariser beside cross entropy (lambda; 10 in public code)", low=0, high=1e6)
    cosine: bool = option(
        True, "label vectors are brought to unit length first (public code); if not, products as they are"
    )
    most: int = option(1000, "labels per step, drawn at random where a batch's documents have more (K)",
                       low=2, high=20_000)  # fmt: skip

    def begin(self, plan: TrainingPlan) -> None:
        corpus = plan.corpus
        self.graph_ = conditional_frequencies(sp.csr_matrix(corpus.positives()[corpus.documents]))
        self.steps_, self.first_, self.last_ = 0, 0.0, 0.0

    def draw(self, batch: Batch, network: Network, rng: np.random.Generator, step: int) -> Batch:
        self.seed_ = int(rng.integers(1 << 62))
        return batch

    def pairs(self, batch: Batch, network: Network, hidden: Tensor, logits: Tensor) -> tuple[Batch, Tensor, Any]:
        import torch

        positive = batch.targets > 0
        if batch.weights is not None:  # a pair of weight 0 is no example of anything
            positive = positive & (batch.weights > 0)
        held = batch.labels[positive.any(dim=0)] if batch.shared else batch.labels[positive]
        labels = np.unique(held.cpu().numpy())
        if len(labels) > self.most:
            labels = np.sort(np.random.default_rng(self.seed_).choice(labels, self.most, replace=False))
        if len(labels) < 2:
            return batch, logits, None
        vectors = network.head.separators(torch.from_numpy(labels).to(batch.labels.device)).float()
        wanted = torch.from_numpy(self.graph_[labels][:, labels].toarray()).to(vectors.device)
        value = regulariser(vectors, wanted, cosine=self.cosine)
        self.last_ = float(value.detach())
        self.first_ = self.first_ if self.steps_ else self.last_
        self.steps_ += 1
        return batch, logits, self.weight * value

    def end(self) -> None:
        if not self.steps_:
            warn("glas never acted: no batch had two labels")

    def state(self) -> dict[str, Any]:
        return {"steps": self.steps_, "first": self.first_, "last": self.last_}

    def restore_state(self, state: dict[str, Any]) -> None:
        self.steps_, self.first_, self.last_ = state["steps"], state["first"], state["last"]


def conditional_frequencies(Y: sp.csr_matrix) -> sp.csr_matrix:
    """G, csr float32 (L, L): the mean of P(i | j) and P(j | i) over documents, and 1 on the diagonal."""
    graph = cooccurrence(Y)
    count = np.maximum(np.bincount(Y.indices, minlength=Y.shape[1]), 1)
    shares = (1 / count[rows_of_pairs(graph)] + 1 / count[graph.indices]) / 2
    scaled = sp.csr_matrix((graph.data * shares.astype(np.float32), graph.indices, graph.indptr), shape=graph.shape)
    return sp.csr_matrix(scaled + sp.eye_array(Y.shape[1], dtype=np.float32, format="csr"))


def regulariser(vectors: Tensor, wanted: Tensor, *, cosine: bool = True) -> Tensor:
    """R of label vectors (K, width), given the similarities wanted (K, K)."""
    from torch.nn import functional

    if cosine:
        vectors = functional.normalize(vectors, dim=1)
    return (vectors @ vectors.T - wanted).square().mean()
