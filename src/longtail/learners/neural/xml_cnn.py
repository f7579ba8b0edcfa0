"""XML-CNN (https://doi.org/10.1145/3077136.3080834): convolutions along the words, dynamic max-pooling, bottleneck."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from longtail.learners.neural.base import NeuralLearner
from longtail.part import option


@dataclass(kw_only=True)
class XMLCNN(NeuralLearner):
    """One vector per document, and one separator per label on top."""

    encoder: Any = option("convolutions", "what turns a text into one vector")
    head: Any = option({"part": "pooled", "bias": -6.0, "strength": 3.0}, "what turns that into one score per label")
