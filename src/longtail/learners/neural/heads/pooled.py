"""A linear separator per label on one vector per document."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from longtail.augment.hooks import NONE, Hooks
from longtail.capabilities import Capabilities
from longtail.errors import UsageError
from longtail.learners.neural.encoders.base import Encoder
from longtail.learners.neural.heads.base import Head, HeadNetwork
from longtail.part import option


@dataclass(kw_only=True)
class Pooled(Head):
    """One vector per document, and one linear separator per label on top."""

    pooling: str = option("mean", "mean of the tokens' vectors, or the first token's", choices=("mean", "first"))
    bias: float = option(-4.0, "logit of every label before training: few labels hold (measured)", low=-30, high=30)
    strength: float = option(
        0.0, "length of label vectors that start from the label's documents, where these have one vector; 0: at random",
        low=0, high=1000,
    )  # fmt: skip

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(spaces=("labels",))

    @property
    def starts_from_documents(self) -> bool:
        return self.strength > 0

    def check_encoder(self, encoder: Encoder) -> None:
        per_token = encoder.capabilities.per_token
        if self.pooling != "mean" and not per_token:
            raise UsageError("pooled.pooling counts only with encoders that give one vector per token; leave it out")
        if self.strength and per_token:
            raise UsageError("pooled.strength counts only with encoders that give one vector per text; leave it out")

    def network(self, width: int, word_width: int, n_labels: int) -> HeadNetwork:
        return PooledNetwork(self, width, n_labels)


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
