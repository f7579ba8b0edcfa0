"""AttentionXML (https://arxiv.org/abs/1811.01727): BiLSTM, one attention a label, and a label tree for many labels."""

from __future__ import annotations

from dataclasses import dataclass

from longtail.learners.neural.base import NeuralLearner


@dataclass(kw_only=True)
class AttentionXML(NeuralLearner):
    pass
