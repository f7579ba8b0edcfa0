"""LightXML's classifier for many labels (https://arxiv.org/abs/2101.03305): narrow label vectors behind one layer."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from longtail.learners.neural.heads.network import HeadNetwork
from longtail.learners.neural.heads.pooled import Pooled
from longtail.learners.neural.heads.pooled_network import PooledNetwork
from longtail.part import option


@dataclass(kw_only=True)
class Bottleneck(Pooled):
    """One vector per document through a layer without activation, and one narrow separator per label on top."""

    size: int = option(256, "numbers of a label's vector (LightXML: 400 and 500)", low=1, high=8192)

    def weights(self, width: int, word_width: int, n_labels: int) -> int:
        return n_labels * (self.size + 1) + self.size * (width + 1)

    def network(self, width: int, word_width: int, n_labels: int) -> HeadNetwork:
        return BottleneckNetwork(self, width, n_labels)


class BottleneckNetwork(PooledNetwork):
    def __init__(self, options: Bottleneck, width: int, n_labels: int) -> None:
        super().__init__(options, options.size, n_labels)
        self.layer = nn.Linear(width, options.size)

    @torch.no_grad()
    def start(self, directions: Tensor, centre: Tensor, length: float) -> None:
        """As what the layer makes of them; it keeps angles, more or less, for it starts at random."""
        seen = functional.normalize(functional.linear(directions, self.layer.weight), dim=1)
        # the layer shortens vectors, and products are to be as they were
        shorter = functional.linear(functional.normalize(directions, dim=1), self.layer.weight).norm(dim=1)
        known = shorter > 0
        scale = float(shorter[known].mean()) if known.any() else 1.0
        super().start(seen / scale, self.layer(centre), length)

    def document(self, hidden: Tensor, mask: Tensor) -> Tensor:
        found: Tensor = self.layer(super().document(hidden, mask))
        return found
