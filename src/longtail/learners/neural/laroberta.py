"""LaRoBERTa (https://arxiv.org/abs/2009.10778): a Transformer encoder under AttentionXML's label-wise attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from longtail.learners.neural.base import NeuralLearner
from longtail.part import option


@dataclass(kw_only=True)
class LaRoBERTa(NeuralLearner):
    """The encoder's layers learn slowly, from what they know; label vectors start from nothing, and learn fast."""

    encoder: Any = option("transformer", "what turns a text into one vector per token")
    epochs: int = option(10, "passes over the documents", low=1, high=100_000)
    rate: float = option(1e-4, "learning rate of layers (TailMix: 1e-5 for RoBERTa)", low=0, high=10)
    decay: float = option(0.01, "weight decay of layers (TailMix)", low=0, high=10)
