"""What label trees need: time and memory of their fit, told from the sizes of a corpus before it starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from longtail.plan import Sizes, Stage

if TYPE_CHECKING:
    from longtail.run import Run

#: Different features of m documents grow as this power of m, as words do (measured on four corpora).
GROWTH = 0.7
#: Bytes of a block of weights, at most: children of a node are solved in blocks of such a width.
BLOCK = 32 << 20
#: Bytes per separator's weight in a finished tree: its column and value, and its share of rows and copies.
WEIGHT = 9
#: Bytes per stored feature while lengths of rows are made, in double precision.
UNIT = 40


def label_nonzeros(sizes: Sizes) -> int:
    """Stored features of all label vectors: the different features of each label's documents."""
    each = np.minimum(sizes.row * sizes.frequency.astype(np.float64) ** GROWTH, sizes.features)
    return int(each.sum())


def block_width(features: int, children: int) -> int:
    """Children that are solved together."""
    return max(8, min(children, BLOCK // (4 * (features + 1))))


def task_bytes(sizes: Sizes, documents: int, children: int) -> int:
    """One block of a node with that many documents: its rows, its weights, and the dual variables of all pairs."""
    share = documents / max(1, sizes.documents)
    width = block_width(sizes.features, children)
    rows = int(8 * sizes.nonzeros * share)
    return rows + 4 * width * (sizes.features + 1 + int((sizes.documents + sizes.copies) * share))


def tree_stages(sizes: Sizes, run: Run, *, trees: int, centres: int, leaf: int) -> list[Stage]:
    """Clustering by label vectors, then all nodes of all trees.

    centres  of a division of labels, which are held as dense vectors
    leaf     labels of the largest leaf
    """
    vectors = 8 * label_nonzeros(sizes)
    laid_out = 24 * sizes.pairs + 8 * sizes.documents
    model = trees * WEIGHT * vectors // 8
    dividing = max(UNIT * sizes.nonzeros, 2 * vectors + 4 * (centres + 8) * sizes.features)
    busy = min(run.tasks, 2 * trees) * task_bytes(sizes, sizes.documents, max(centres, leaf))
    seconds = trees * sizes.nonzeros * (centres + leaf) / 4e8
    return [
        Stage("cluster", trees * vectors / 1e8, dividing + laid_out, vectors + laid_out),
        Stage("train", seconds / min(run.tasks, 4), busy + 2 * model, model - vectors - laid_out),
    ]


def every_document(sizes: Sizes, run: Run, *, width: int, prune: float) -> list[Stage]:
    """Blocks of labels, each over all documents."""
    laid_out = 24 * sizes.pairs + 8 * sizes.documents
    # small weights are kept, too, where hardly any are dropped
    model = int(WEIGHT * label_nonzeros(sizes) * (1 + 0.1 / max(prune, 0.005)))
    busy = min(run.tasks, -(-sizes.labels // width)) * task_bytes(sizes, sizes.documents, min(width, sizes.labels))
    seconds = sizes.labels * sizes.nonzeros / 2e8 / min(run.tasks, 4)
    peak = max(UNIT * sizes.nonzeros, busy + 2 * model) + laid_out
    return [Stage("train", seconds, peak, model)]


def forest_stages(sizes: Sizes, run: Run, *, trees: int, leaf_labels: int) -> list[Stage]:
    """Trees over documents: their leaves keep labels, their nodes sparse weights; all are joined in the end."""
    per_document = min(leaf_labels, sizes.pairs / max(1, sizes.documents))
    model = int(trees * (8 * sizes.documents * per_document + 3 * sizes.nonzeros))
    task = 16 * sizes.nonzeros + 40 * (sizes.features + sizes.documents)
    seconds = trees * sizes.nonzeros / 1e6 / min(run.tasks, 4)
    return [Stage("train", seconds, run.tasks * task + 2 * model + 16 * sizes.pairs, model)]
