"""DECAF (https://arxiv.org/abs/2108.00368): a label's separator is made of its text and of a vector of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from longtail.learners.neural.short_text import ShortTextLearner
from longtail.part import option


@dataclass(kw_only=True)
class Decaf(ShortTextLearner):
    head: Any = option("label-text", "what turns that into one score per label")
    word_rate: float = option(0.015, "learning rate of word vectors (measured)", low=0, high=10)
    label_rate: float = option(0.01, "learning rate of free label vectors (measured)", low=0, high=10)
