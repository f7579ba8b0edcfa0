"""What a corpus, some of its labels, or a model is: the numbers behind `longtail inspect`."""

from __future__ import annotations

from longtail.describe.corpus import BandFacts, CorpusFacts, PropensityFacts, describe_corpus
from longtail.describe.find import find_label, shown_label
from longtail.describe.label import LabelFacts, Neighbour, describe_labels, describe_model_labels
from longtail.describe.model import ModelFacts, describe_model, is_model

__all__ = [
    "BandFacts",
    "CorpusFacts",
    "LabelFacts",
    "ModelFacts",
    "Neighbour",
    "PropensityFacts",
    "describe_corpus",
    "describe_labels",
    "describe_model",
    "describe_model_labels",
    "find_label",
    "is_model",
    "shown_label",
]
