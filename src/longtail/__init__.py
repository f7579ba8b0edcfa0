"""longtail: extreme multi-label text classification that gets the rare labels right.

>>> from longtail import Tagger, read
>>> tagger = Tagger(learner="bonsai").fit(read("articles.jsonl"))   # doctest: +SKIP
>>> tagger.predict(["some text"], k=5)                              # doctest: +SKIP
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from longtail.choose import train
    from longtail.classifier import LongtailClassifier
    from longtail.corpus import Corpus
    from longtail.describe import describe_corpus, describe_labels, describe_model
    from longtail.errors import LongtailError
    from longtail.evaluate import compare, evaluate
    from longtail.inputs import as_corpus
    from longtail.labels import LabelIndex
    from longtail.predictions import Prediction
    from longtail.read import ReadOptions, read
    from longtail.scores import Scores
    from longtail.tagger import Tagger

__version__ = "0.2.0"
__all__ = [
    "Corpus",
    "LabelIndex",
    "LongtailClassifier",
    "LongtailError",
    "Prediction",
    "ReadOptions",
    "Scores",
    "Tagger",
    "__version__",
    "as_corpus",
    "compare",
    "describe_corpus",
    "describe_labels",
    "describe_model",
    "evaluate",
    "read",
    "train",
]

_HOMES = {
    "Corpus": "longtail.corpus",
    "LabelIndex": "longtail.labels",
    "LongtailClassifier": "longtail.classifier",
    "LongtailError": "longtail.errors",
    "Prediction": "longtail.predictions",
    "ReadOptions": "longtail.read.options",
    "Scores": "longtail.scores",
    "Tagger": "longtail.tagger",
    "as_corpus": "longtail.inputs",
    "compare": "longtail.evaluate.comparison",
    "describe_corpus": "longtail.describe.corpus",
    "describe_labels": "longtail.describe.label",
    "describe_model": "longtail.describe.model",
    "evaluate": "longtail.evaluate",
    "read": "longtail.read",
    "train": "longtail.choose",
}


def __getattr__(name: str) -> Any:
    """Names are imported when first used, so that `import longtail` stays fast."""
    if name not in _HOMES:
        raise AttributeError(f"module 'longtail' has no attribute '{name}'")
    module = importlib.import_module(_HOMES[name])
    # A module that shares its function's name is callable itself: replacing it would hide what is inside it.
    value = module if callable(module) else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
