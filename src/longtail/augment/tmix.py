"""TMix (https://arxiv.org/abs/2004.12239, Chen et al. 2020): two texts mixed at one of the encoder's upper layers.

    h~_m = lambda h^i_m + (1 - lambda) h^j_m          y~ = lambda y^i + (1 - lambda) y^j

Both texts go through layers 1 to m by themselves, the mixture through the rest. lambda' ~ Beta(alpha, alpha) and
lambda = max(lambda', 1 - lambda'), one for each batch: a mixture is mostly its first text, whose length it keeps. The
layer m is drawn anew for each batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from longtail.augment.mixing import Mixer, layers_to_mix
from longtail.errors import UsageError
from longtail.part import option
from longtail.registry import name_of

if TYPE_CHECKING:
    from longtail.learners.neural.training.network import Network

#: The paper's layers, of the 12 that BERT has.
BERT = (7, 9, 12)


@dataclass(kw_only=True)
class TMix(Mixer):
    """Mixes at an upper layer, keeping the mask of the first text."""

    space: ClassVar[str] = "hidden"
    unites: ClassVar[bool] = False

    alpha: float = option(0.75, "lambda is drawn from Beta(alpha, alpha) (the paper's code: 0.75, and 16 in its script "
                          "for 10 documents per label)", low=0.01, high=1000)  # fmt: skip
    layers: list[float] | None = option(
        None, "numbers of the layers to draw from; none: the paper's 7, 9 and 12 of 12, scaled to the encoder's depth"
    )

    def points(self, network: Network) -> list[str]:
        possible = layers_to_mix(network.encoder)
        if not possible:
            raise UsageError(f"'{name_of(self)}' finds no trained layer to mix at: lower transformer.frozen")
        if self.layers is None:
            chosen = sorted({-(-number * network.encoder.layers // 12) for number in BERT} & set(possible))
        elif self.layers and all(number in possible for number in self.layers):
            chosen = [int(number) for number in self.layers]
        else:
            these = " to ".join(str(number) for number in sorted({possible[0], possible[-1]}))
            raise UsageError(f"{name_of(self)}.layers must be layers to mix at ({these} here), not {self.layers}")
        return [f"layer {number}" for number in chosen]

    def draw_lambda(self, rng: np.random.Generator) -> float:
        drawn = super().draw_lambda(rng)
        return max(drawn, 1 - drawn)
