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
from longtail.learners.neural.heads.network import HeadNetwork
from longtail.learners.neural.shortlists.base import Children
from longtail.learners.neural.training.batches import Batch
from longtail.learners.neural.training.blocks import Residual
from longtail.learners.neural.training.network import Candidates, Network, best_labels
from longtail.scores import Scores

#: Documents whose candidates are held at once when scoring.
CHUNK = 2048


class TwoHeads(HeadNetwork):
    """One head for clusters, one for labels, each with a residual block of its own in front if asked for.

    An encoder may give a vector for each of the two: the first `width` numbers are the labels', the last the clusters'.
    """

    def __init__(self, clusters: HeadNetwork, labels: HeadNetwork, width: int, dropout: float | None) -> None:
        super().__init__()
        self.clusters, self.labels, self.width = clusters, labels, width
        self.cluster_block = None if dropout is None else Residual(width, dropout)
        self.label_block = None if dropout is None else Residual(width, dropout)
        self.detached = False
        self.points, self.reads_documents = labels.points, labels.reads_documents

    def rows(self) -> list[Tensor]:
        return [*self.clusters.rows(), *self.labels.rows()]

    def classifier(self) -> list[Tensor]:
        return self.labels.classifier()

    def restart(self) -> None:
        self.labels.restart()

    def start(self, directions: Tensor, centre: Tensor, length: float) -> None:
        self.labels.start(directions, centre, length)

    def cluster_logits(self, hidden: Tensor, mask: Tensor, labels: Tensor) -> Tensor:
        own = hidden[..., -self.width :]
        return self.clusters(own if self.cluster_block is None else self.cluster_block(own), mask, labels)

    def forward(self, hidden: Tensor, mask: Tensor, labels: Tensor, hooks: Hooks = NONE) -> Tensor:
        return self.labels(self._labels_own(hidden), mask, labels, hooks)

    def _labels_own(self, hidden: Tensor) -> Tensor:
        """What the head of the labels is shown."""
        own = hidden[..., : self.width]
        if self.detached and self.training:
            own = own.detach()
        found: Tensor = own if self.label_block is None else self.label_block(own)
        return found

    # single pairs, where the labels' head opens them
    def contexts(self, hidden: Tensor, mask: Tensor, documents: Tensor, labels: Tensor) -> Tensor:
        head: Any = self.labels
        found: Tensor = head.contexts(self._labels_own(hidden), mask, documents, labels)
        return found

    def pair_logits(
        self,
        contexts: Tensor,
        hidden: Tensor,
        mask: Tensor,
        documents: Tensor,
        labels: Tensor,
        share: Tensor | None = None,
    ) -> Tensor:
        head: Any = self.labels
        found: Tensor = head.pair_logits(contexts, self._labels_own(hidden), mask, documents, labels, share)
        return found

    def separators(self, labels: Tensor) -> Tensor:
        return self.labels.separators(labels)

    def classify(self, contexts: Tensor, labels: Tensor, hooks: Hooks = NONE) -> Tensor:
        return self.labels.classify(contexts, labels, hooks)

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

    def classifier(self) -> list[Tensor]:
        return self.heads.clusters.classifier()

    def restart(self) -> None:
        self.heads.clusters.restart()

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
        return batch

    def encoded(self, batch: Batch, network: Network, hidden: Tensor) -> Batch:
        heads: Any = network.head
        true, weights = self._true_clusters(batch)
        every = torch.arange(true.shape[1], device=true.device)
        # the same logits choose labels and are learnt from
        found = heads.cluster_logits(hidden, batch.mask, every)
        self.loss_ = functional.binary_cross_entropy_with_logits(found, true, weights, reduction="sum") / len(batch)
        # a document's own clusters come first, and there is room for all of them
        wanted = min(true.shape[1], max(self.candidates, int((true > 0).sum(dim=1).max())))
        chosen = (found.detach().sigmoid() + 2 * (true > 0)).topk(wanted, dim=1).indices
        lists, _ = self.children.expanded(chosen.cpu().numpy())
        return with_lists(batch, lists, len(self.cluster))

    def _true_clusters(self, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """(B, clusters): the strongest target among a cluster's labels, and weights where the batch has any.

        Pairs of weight 0 have no say; a cluster with no other pair of a document is no example for it either.
        """
        clusters = len(self.children.start) - 1
        place = torch.from_numpy(self.cluster[batch.labels.cpu().numpy()].astype(np.int64)).to(batch.targets.device)
        place = place.expand(len(batch), -1)

        def strongest(values: Tensor) -> Tensor:
            found = torch.zeros(len(batch), clusters, device=values.device)
            return found.scatter_reduce(1, place, values, "amax")

        if batch.weights is None:
            return strongest(batch.targets), None
        counts = batch.weights > 0
        true = strongest(batch.targets * counts)
        masked = strongest((~counts).to(batch.targets.dtype)) > 0
        return true, ((true > 0) | ~masked).to(true.dtype)

    def pairs(self, batch: Batch, network: Network, hidden: Tensor, logits: Tensor) -> tuple[Batch, Tensor, Any]:
        return batch, logits, self.loss_


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


def best_clusters(network: Network, tokens: Tokens, clusters: int, candidates: int) -> Scores:
    """The best clusters of each document."""
    heads: Any = network.head
    return best_labels(Network(network.encoder, ClusterView(heads)).eval(), tokens, clusters, candidates)


def score(
    network: Network, tokens: Tokens, cluster: NDArray[np.int32], candidates: int, k: int, *, joint: bool
) -> Scores:
    """The k best labels of the best clusters; with `joint` probabilities of label and cluster are multiplied."""
    clusters = int(cluster.max()) + 1
    children = Children.of(cluster, clusters)
    ids, values = [], []
    for start in range(0, len(tokens), CHUNK):
        part = tokens.rows(np.arange(start, min(start + CHUNK, len(tokens))))
        found = best_clusters(network, part, clusters, candidates)
        lists, whose = children.expanded(found.ids)
        there = lists < len(cluster)
        above = np.take_along_axis(found.values, whose, 1) if joint else np.ones_like(lists, dtype=np.float32)
        shown = Candidates(np.minimum(lists, len(cluster) - 1).astype(np.int32), np.where(there, above, np.float32(0)))
        best = best_labels(network, part, len(cluster), k, shown=shown).top(k)
        ids.append(best.ids)
        values.append(best.values)
    return Scores(np.concatenate(ids), np.concatenate(values))
