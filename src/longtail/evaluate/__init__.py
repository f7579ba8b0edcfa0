"""How good the scores are, and for which labels."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from longtail.evaluate.bootstrap import Difference, paired_difference
from longtail.evaluate.comparison import Comparison, Predictions, compare
from longtail.evaluate.report import Report, evaluate
from longtail.evaluate.unseen import Unseen, evaluate_on

__all__ = [
    "Comparison",
    "Difference",
    "Predictions",
    "Report",
    "Unseen",
    "compare",
    "evaluate",
    "evaluate_on",
    "paired_difference",
]


class _Callable(ModuleType):
    """`from longtail import evaluate` finds this module once anything has imported it, and must be callable then."""

    def __call__(self, *arguments: Any, **options: Any) -> Report:
        return evaluate(*arguments, **options)


sys.modules[__name__].__class__ = _Callable
