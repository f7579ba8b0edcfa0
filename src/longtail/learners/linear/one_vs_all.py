"""One-vs-all (DiSMEC, https://arxiv.org/abs/1609.02521): one linear separator per label, trained on all documents."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from longtail.learners.linear.base import LinearLearner
from longtail.learners.linear.memory import every_document
from longtail.learners.linear.nodes import Documents
from longtail.learners.linear.tree import Shape
from longtail.part import option
from longtail.plan import Sizes, Stage
from longtail.run import Run

#: Labels trained together: wide enough for the vector units, narrow enough for the cache.
BLOCK = 64


@dataclass(kw_only=True)
class OneVsAll(LinearLearner):
    """No tree: every label is scored for every document.

    The scores are exp(-max(0, 1 - w.x)^2), so they compare with those of the label trees.
    """

    eps: float = option(0.01, "stop when no document violates the optimum by more (DiSMEC)", low=1e-6)
    max_passes: int = option(200, "maximum number of passes; most of them visit only documents not at rest", low=1)
    prune: float = option(0.01, "weights no larger are dropped (DiSMEC's Delta)", low=0)

    all_documents = True

    def plan(self, sizes: Sizes, run: Run) -> list[Stage]:
        return every_document(sizes, run, prune=self.prune)

    def shapes(self, documents: Documents, run: Run) -> list[Shape]:
        """Leaves only: blocks of labels that some document carries, all of them roots."""
        labels = documents.carried_labels()
        starts = np.append(np.arange(0, len(labels), BLOCK), len(labels)).astype(np.int32)
        blocks = len(starts) - 1
        shape = Shape(np.array([0, blocks], dtype=np.int32), starts, labels, np.ones(blocks, dtype=bool))
        return [shape]
