"""InceptionXML (https://arxiv.org/abs/2109.07319): short texts through convolutions along their word embeddings.

As InceptionXML, all labels are told apart at once; as InceptionXML+ (shortlist "label-clusters") clusters of labels
find each document's hard ones while training.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from longtail.learners.neural.short_text import ShortTextLearner
from longtail.part import option


@dataclass(kw_only=True)
class InceptionXML(ShortTextLearner):
    encoder: Any = option("inception", "what turns a text into one vector")
