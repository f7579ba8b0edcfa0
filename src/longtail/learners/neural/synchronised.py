"""Two levels trained together: a classifier of label clusters finds the labels that the other tells apart.

InceptionXML+ (https://arxiv.org/abs/2109.07319) calls it synchronised negative mining. At each step the labels of the
best clusters of every document, its true ones among them, are what its loss is taken over, beside the loss of the
clusters themselves. The better the clusters are told apart, the harder are the labels beside the true ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from longtail.augment.hooks import NONE, Hook, Hooks
from longtail.features.tokens import Tokens
from longtail.learners.neural.batches import Batch, Children
from longtail.learners.neural.blocks import Residual
from longtail.learners.neural.heads import HeadNetwork
from longtail.learners.neural.module import best_labels
from longtail.learners.neural.network import Network
from longtail.scores import Scores

#: Documents whose candidates are held at once when scoring.
CHUNK = 2048


class TwoHeads(HeadNetwork):
    """One head for clusters, one for labels, each with a residual block of its own in front if so asked.

    An encoder may give a vector for each of the two: the first `width` numbers are the labels', the last the clusters'.
    """

    def __init__(self, clusters: HeadNetwork, labels: HeadNetwork, width: int, dropout: float | None) -> None:
        super().__init__()
        self.clusters, self.labels, self.width = clusters, labels, width
        self.cluster_block = None if dropout is None else Residual(width, dropout)
        self.label_block = None if dropout is None else Residual(width, dropout)
        self.detached = False

    def rows(self) -> list[Tensor]:
        return [*self.clusters.rows(), *self.labels.rows()]

    def cluster_logits(self, hidden: Tensor, mask: Tensor, labels: Tensor) -> Tensor:
        own = hidden[:, -self.width :]
        return self.clusters(own if self.cluster_block is None else self.cluster_block(own), mask, labels)

    def forward(self, hidden: Tensor, mask: Tensor, labels: Tensor, hooks: Hooks = NONE) -> Tensor:
        own = hidden[:, : self.width]
        if self.detached and self.training:
            own = own.detach()
        return self.labels(own if self.label_block is None else self.label_block(own), mask, labels, hooks)

    def folded(self) -> HeadNetwork:
        made = TwoHeads(self.clusters.folded(), self.labels.folded(), self.width, None)
        made.cluster_block, made.label_block = self.cluster_block, self.label_block
        return made


class ClusterView(HeadNetwork):
    """The cluster side of two heads as a head."""

    def __init__(self, heads: TwoHeads) -> None:
        super().__init__()
        self.heads = heads

    def rows(self) -> list[Tensor]:
        return self.heads.clusters.rows()

    def forward(self, hidden: Tensor, mask: Tensor, labels: Tensor, hooks: Hooks = NONE) -> Tensor:
        return self.heads.cluster_logits(hidden, mask, labels)


@dataclass(kw_only=True)
class Mining(Hook):
    """Chooses each document's labels by the clusters that the network finds for it at this step."""

    def __init__(self, children: Children, cluster: NDArray[np.int32], candidates: int, detached_until: int) -> None:
        self.children, self.cluster, self.candidates = children, cluster, candidates
        self.detached_until = detached_until

    def draw(self, batch: Batch, network: Network, rng: np.random.Generator, step: int) -> Batch:
        heads: Any = network.head
        heads.detached = step < self.detached_until
        true = self._true_clusters(batch)
        self.targets_ = true
        network.eval()
        with torch.no_grad():
            every = torch.arange(true.shape[1], device=true.device)
            logits = heads.cluster_logits(network.encoder(batch), batch.mask, every)
        network.train()
        # a document's own clusters come first, and there is room for all of them
        wanted = min(true.shape[1], max(self.candidates, int((true > 0).sum(dim=1).max())))
        chosen = (logits.sigmoid() + 2 * (true > 0)).topk(wanted, dim=1).indices
        lists, _ = self.children.expanded(chosen.cpu().numpy())
        return with_lists(batch, lists, len(self.cluster))

    def _true_clusters(self, batch: Batch) -> Tensor:
        """(B, clusters): the strongest target among a cluster's labels; pairs of weight 0 have no say."""
        strength = batch.targets if batch.weights is None else batch.targets * (batch.weights > 0)
        found = torch.zeros(len(batch), len(self.children.start) - 1, device=strength.device)
        place = torch.from_numpy(self.cluster[batch.labels.cpu().numpy()].astype(np.int64)).to(strength.device)
        return found.scatter_reduce(1, place.expand(len(batch), -1), strength, "amax")

    def pairs(self, batch: Batch, network: Network, hidden: Tensor, logits: Tensor) -> tuple[Batch, Tensor, Any]:
        heads: Any = network.head
        every = torch.arange(self.targets_.shape[1], device=self.targets_.device)
        found = heads.cluster_logits(hidden, batch.mask, every)
        loss = functional.binary_cross_entropy_with_logits(found, self.targets_, reduction="sum")
        return batch, logits, loss / len(batch)


def with_lists(batch: Batch, lists: NDArray[np.int64], n_labels: int) -> Batch:
    """The batch, whose labels are shared, with lists (B, S) of each document's own; n_labels fills lists up."""
    labels = torch.from_numpy(lists).to(batch.labels.device)
    place = torch.searchsorted(batch.labels, labels).clamp_max(len(batch.labels) - 1)
    there = batch.labels[place] == labels
    targets = torch.where(there, batch.targets.gather(1, place), 0)
    weights = (labels < n_labels).to(targets.dtype)
    if batch.weights is not None:
        weights = torch.where(there, batch.weights.gather(1, place), weights)
    return replace(batch, labels=labels.clamp_max(n_labels - 1), targets=targets, weights=weights)


def score(
    network: Network, tokens: Tokens, cluster: NDArray[np.int32], candidates: int, k: int, *, joint: bool
) -> Scores:
    """The k best labels of the best clusters; with `joint` probabilities of label and cluster are multiplied."""
    heads: Any = network.head
    clusters = int(cluster.max()) + 1
    children = Children.of(cluster, clusters)
    view = Network(network.encoder, ClusterView(heads)).eval()
    ids, values = [], []
    for start in range(0, len(tokens), CHUNK):
        part = tokens.rows(np.arange(start, min(start + CHUNK, len(tokens))))
        found = best_labels(view, part, clusters, candidates)
        lists, whose = children.expanded(found.ids)
        there = lists < len(cluster)
        above = np.take_along_axis(found.values, whose, 1) if joint else np.ones_like(lists, dtype=np.float32)
        best = best_labels(
            network,
            part,
            len(cluster),
            k,
            candidates=np.minimum(lists, len(cluster) - 1).astype(np.int32),
            prior=np.where(there, above, np.float32(0)),
        ).top(k)
        ids.append(best.ids)
        values.append(best.values)
    return Scores(np.concatenate(ids), np.concatenate(values))
