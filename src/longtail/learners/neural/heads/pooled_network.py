"""Networks with one linear separator per label: on one vector per document, and whatever else has such."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from longtail.augment.hooks import NONE, Hooks
from longtail.learners.neural.heads.network import HeadNetwork

if TYPE_CHECKING:
    from longtail.learners.neural.heads.pooled import Pooled


class SeparatorNetwork(HeadNetwork):
    """A vector and a bias per label, which are all there is of the classifier."""

    def make_separators(self, n_labels: int, width: int, bias: float) -> None:
        self.first_bias = bias
        self.vectors = nn.Embedding(n_labels, width, sparse=True)
        nn.init.xavier_normal_(self.vectors.weight)
        self.bias = nn.Embedding(n_labels, 1, sparse=True)
        nn.init.constant_(self.bias.weight, bias)

    def rows(self) -> list[Tensor]:
        return [self.vectors.weight, self.bias.weight]

    def classifier(self) -> list[Tensor]:
        return [self.vectors.weight, self.bias.weight]

    def separators(self, labels: Tensor) -> Tensor:
        found: Tensor = self.vectors(labels)
        return found

    def restart(self) -> None:
        nn.init.xavier_normal_(self.vectors.weight)
        nn.init.constant_(self.bias.weight, self.first_bias)


class PooledNetwork(SeparatorNetwork):
    def __init__(self, options: Pooled, width: int, n_labels: int) -> None:
        super().__init__()
        self.pooling, self.strength = options.pooling, options.strength
        self.make_separators(n_labels, width, options.bias)

    @torch.no_grad()
    def start(self, directions: Tensor, centre: Tensor, length: float) -> None:
        """Directions are seen from the centre: where that is not 0, the bias takes its share of the product off."""
        known = directions.norm(dim=1) > 0
        if self.strength:
            self.vectors.weight[known] = directions[known] * self.strength
            self.bias.weight[known] -= (self.vectors.weight[known] @ centre)[:, None]

    def document(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """(B, width): one vector per document."""
        if hidden.ndim == 2:
            return hidden
        if self.pooling == "first":
            return hidden[:, 0]
        return (hidden * mask[:, :, None]).sum(dim=1) / mask.sum(dim=1, keepdim=True)

    def forward(self, hidden: Tensor, mask: Tensor, labels: Tensor, hooks: Hooks = NONE) -> Tensor:
        pooled = self.document(hidden, mask)
        if labels.ndim == 1:
            return pooled @ self.vectors(labels).T + self.bias(labels)[:, 0]
        # a label of several lists is looked up once, and has one row of gradient
        found, places = torch.unique(labels, return_inverse=True)
        vectors, bias = (
            functional.embedding(places, self.vectors(found)),
            functional.embedding(places, self.bias(found)),
        )
        return (vectors @ pooled[:, :, None])[..., 0] + bias[..., 0]
