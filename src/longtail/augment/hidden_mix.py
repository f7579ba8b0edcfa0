"""Manifold mixup (https://arxiv.org/abs/1806.05236, Verma et al. 2019): two documents mixed at a random layer.

    g~_k = lambda g_k(x_i) + (1 - lambda) g_k(x_j)          y~ = lambda y_i + (1 - lambda) y_j

where g_k is all that is below layer k, and the layers above see only the mixture. One lambda and one layer are drawn
for each batch. The layers are the embedding, the trained layers of the encoder, the labels' context vectors, and the
hidden layer of a classifier that has one. A mixture of sequences is as long as the longer one. Encoders of short texts
have layers without sequences: a bag's sum and its residual block, or what InceptionXML's convolutions find.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from longtail.augment.mixing import Mixer, layers_to_mix
from longtail.errors import UsageError
from longtail.part import option
from longtail.registry import name_of

if TYPE_CHECKING:
    from longtail.learners.neural.training.network import Network


@dataclass(kw_only=True)
class HiddenMix(Mixer):
    """Mixes at a random layer."""

    space: ClassVar[str] = "hidden"

    alpha: float = option(2.0, "lambda is drawn from Beta(alpha, alpha) (the paper's code: 2)", low=0.01, high=1000)

    def points(self, network: Network) -> list[str]:
        encoder = network.encoder
        # what frozen layers give is kept between epochs, and with it what they make of the embeddings
        found = [] if encoder.frozen else ["embedded"]
        found += [f"layer {number}" for number in layers_to_mix(encoder)]
        found += network.head.points
        if not found:
            raise UsageError(f"'{name_of(self)}' finds no trained layer to mix at: lower transformer.frozen")
        return found
