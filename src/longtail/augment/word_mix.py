"""Word mixup (https://arxiv.org/abs/1905.08941, Guo et al. 2019): word embeddings of two texts mixed place by place.

    B~_t = lambda B^i_t + (1 - lambda) B^j_t          y~ = lambda y^i + (1 - lambda) y^j

for every position t of the two embedded texts B^i and B^j, the shorter one filled up with zeros. One lambda is drawn
for each batch, the partner is a random document of it, and the mixed text is as long as the longer one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from longtail.augment.mixing import Mixer
from longtail.part import option

if TYPE_CHECKING:
    from longtail.learners.neural.training.network import Network


@dataclass(kw_only=True)
class WordMix(Mixer):
    """Mixes where words have just become vectors."""

    space: ClassVar[str] = "tokens"

    alpha: float = option(1.0, "lambda is drawn from Beta(alpha, alpha) (paper: 1; SSMix's comparison: 0.2)",
                          low=0.01, high=1000)  # fmt: skip

    def points(self, network: Network) -> list[str]:
        return ["embedded"]
