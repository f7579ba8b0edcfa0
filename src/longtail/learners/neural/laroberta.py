"""LaRoBERTa (https://arxiv.org/abs/2009.10778): a Transformer encoder under AttentionXML's label-wise attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from longtail.learners.neural.base import NeuralLearner
from longtail.part import option


@dataclass(kw_only=True)
class LaRoBERTa(NeuralLearner):
    """The encoder's layers learn slowly, from what they know; label vectors start from nothing, and learn fast."""

    encoder: Any = option("transformer", "what turns a text into one vector per token")
    epochs: int | None = option(
        None, "passes over the documents; none: 10, more on small corpora, see least_steps",
        low=1, high=100_000, only={"steps": None},
    )  # fmt: skip
    rate: float = option(1e-4, "learning rate of layers (TailMix: 1e-5 for RoBERTa)", low=0, high=10)
    decay: float = option(0.01, "weight decay of layers (TailMix)", low=0, high=10)

    default_epochs: ClassVar[int] = 10
