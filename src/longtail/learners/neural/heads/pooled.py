"""A linear separator per label on one vector per document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from longtail.capabilities import Capabilities
from longtail.errors import UsageError
from longtail.learners.neural.encoders.base import Encoder
from longtail.learners.neural.heads.base import Head
from longtail.part import option

if TYPE_CHECKING:
    from longtail.learners.neural.heads.network import HeadNetwork


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
        from longtail.learners.neural.heads.pooled_network import PooledNetwork

        return PooledNetwork(self, width, n_labels)
