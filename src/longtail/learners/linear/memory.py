"""What label trees need: time and memory of their fit, told from the sizes of a corpus before it starts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from longtail.lanes import LANES, WIDEST
from longtail.plan import Sizes, Stage

if TYPE_CHECKING:
    from longtail.run import Run

#: Different features of m documents grow as this power of m, as words do (measured: 0.80 to 0.86 on two corpora).
GROWTH = 0.83
#: Bytes that a tree keeps per pair of a document and a label (measured: 67 to 172 on four corpora of 7 to 134 features
#: per document: longer documents have smaller weights, of which more are dropped), and more per level of halves, up to
#: a limit (106 with a million labels in 13 levels).
KEPT, PER_LEVEL, MOST_KEPT = 120, 0.2, 250
#: Bytes that sparse separators keep per label, and stored features times labels that are solved per second.
SPARSE, SPARSE_SPEED = 4096, 2e7
#: Bytes of separators that are held where a run keeps those that are finished in files: a batch of them, and it once
#: more while it is written.
BATCH = 256 << 20
#: Bytes of label vectors that are summed up side by side, at most, beside those that are finished.
SUMS = 64 << 20
#: Bytes per stored feature while lengths of rows are made, in double precision.
UNIT = 40


def label_nonzeros(sizes: Sizes) -> int:
    """Stored features of all label vectors: the different features of each label's documents."""
    each = np.minimum(sizes.row * sizes.frequency.astype(np.float64) ** GROWTH, sizes.features)
    return int(each.sum())


def task_bytes(sizes: Sizes, children: int) -> int:
    """One block of children of the largest node: dual variables of all documents, and weights of all features, which
    a thread has room for in each of the widths that occur."""
    widths = [width for width in LANES if width < children] or [min(LANES)]
    widths += [width for width in LANES if width >= children][:1]
    rows = sizes.documents + sizes.copies
    weights = sum(4 * width + 8 for width in set(widths)) * (sizes.features + 1)
    return weights + (4 * max(widths) + 28) * rows + 8 * sizes.pairs


def tree_stages(sizes: Sizes, run: Run, *, trees: int, centres: int, leaf: int) -> list[Stage]:
    """Clustering by label vectors, then all nodes of all trees.

    centres  of a division of labels, which are held as dense vectors
    leaf     labels of the largest leaf
    """
    vectors = 8 * label_nonzeros(sizes)
    laid_out = 24 * sizes.pairs + 8 * sizes.documents
    levels = math.log2(max(2, sizes.labels / leaf)) if centres == 2 else 1
    model = int(trees * sizes.pairs * min(MOST_KEPT, KEPT * (1 + PER_LEVEL * levels)))
    # trees are divided side by side where there are more of them than threads, each with vectors of its own
    divisions = run.tasks if trees > run.workers else 1
    # halves take cosines of each label, more centres a copy of the vectors
    division = (24 * sizes.labels if centres == 2 else int(1.7 * vectors)) + 4 * (centres + 8) * sizes.features
    dividing = max(UNIT * sizes.nonzeros, vectors + max(min(vectors, SUMS), divisions * division))
    busy = min(run.tasks, 4 * trees) * task_bytes(sizes, max(centres, leaf))
    held = _separators(model, run)
    seconds = trees * sizes.nonzeros * (centres + leaf) / 4e8
    return [
        Stage("cluster", trees * vectors / 1e8, dividing + laid_out, vectors + laid_out),
        Stage("train", seconds / min(run.tasks, 4), int(1.15 * (busy + held)), model - vectors - laid_out),
    ]


def every_document(sizes: Sizes, run: Run, *, prune: float) -> list[Stage]:
    """Blocks of labels, each over all documents."""
    laid_out = 24 * sizes.pairs + 8 * sizes.documents
    # small weights are kept, too, where hardly any are dropped
    model = int(KEPT * sizes.pairs * (1 + 0.02 / max(prune, 0.002)))
    busy = min(run.tasks, -(-sizes.labels // WIDEST)) * task_bytes(sizes, sizes.labels)
    seconds = sizes.labels * sizes.nonzeros / 2e8 / min(run.tasks, 4)
    peak = max(UNIT * sizes.nonzeros, busy + _separators(model, run)) + laid_out
    return [Stage("train", seconds, peak, model)]


def _separators(model: int, run: Run) -> int:
    """Bytes of all separators and of the trees they become; finished ones are held only where the run has no files."""
    held = int(2.2 * model)
    return held if run.checkpoints is None else min(held, model + BATCH)


def sparse_labels(sizes: Sizes, run: Run) -> list[Stage]:
    """Labels one by one, each over all documents, of which the features are held by document and by feature."""
    laid_out = 24 * sizes.pairs + 8 * sizes.documents
    columns = 8 * (sizes.nonzeros + sizes.documents + sizes.features)
    model = SPARSE * sizes.labels
    task = 12 * sizes.documents + 17 * sizes.features
    busy = min(run.tasks, sizes.labels) * task
    seconds = sizes.labels * sizes.nonzeros / SPARSE_SPEED / min(run.tasks, 4)
    peak = laid_out + max(UNIT * sizes.nonzeros, columns + busy + int(2.2 * model))
    return [Stage("train", seconds, peak, model)]


def forest_stages(sizes: Sizes, run: Run, *, trees: int, leaf_labels: int) -> list[Stage]:
    """Trees over documents: their leaves keep labels, their nodes sparse weights; all are joined in the end."""
    per_document = min(leaf_labels, sizes.pairs / max(1, sizes.documents))
    model = int(trees * (8 * sizes.documents * per_document + 3 * sizes.nonzeros))
    task = 16 * sizes.nonzeros + 40 * (sizes.features + sizes.documents)
    seconds = trees * sizes.nonzeros / 1e6 / min(run.tasks, 4)
    return [Stage("train", seconds, run.tasks * task + 2 * model + 16 * sizes.pairs, model)]
