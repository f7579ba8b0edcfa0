"""Label trees in shards: each keeps the labels of some of a tree's branches, and what leads there from the root.

All shards see the same tree, so what they keep of it are parts of one model: the scores of a label are those of the
whole model up to rounding, and the lists of the shards, put together tree by tree, are its lists. Only the beam
differs: each shard has one of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from longtail.arrays import Bools, Floats, Ints, Longs, SparseRows, keep_best, njit
from longtail.errors import UsageError
from longtail.keep.shard_folders import Shard
from longtail.learners.linear.average import average, depths
from longtail.learners.linear.nodes import LevelsTask, NodeTask, Piece, Separators
from longtail.learners.linear.search import chunks, size_of
from longtail.learners.linear.tree import Shape
from longtail.run import Run
from longtail.scores import Scores
from longtail.sparse import starts_of

if TYPE_CHECKING:
    from longtail.learners.linear.base import LinearLearner

#: The largest shard may have so many times the labels of an even share before branches are divided further.
UNEVEN = 1.1
#: Branches per shard beyond which an uneven division is left as it is.
BRANCHES = 16


@dataclass(frozen=True, eq=False)
class Part:
    """What one shard keeps of a tree.

    shape  of that part, a tree of its own
    nodes  int32, rising: the nodes it has, by their numbers in the whole tree
    slots  bool, which slots of the whole tree it has
    """

    shape: Shape
    nodes: Ints
    slots: Bools
    whole: Shape

    @classmethod
    def of(cls, shape: Shape, shard: Shard | None) -> Part:
        """The part of a shard, or all of the tree."""
        if shard is None:
            return cls(
                shape, np.arange(shape.nodes, dtype=np.int32), np.ones(len(shape.slot_target), dtype=bool), shape
            )
        owned = _owned(shape, shard)
        inner_slot = np.repeat(~shape.leaf, np.diff(shape.slot_start))
        slots = np.repeat(owned, np.diff(shape.slot_start))
        slots[inner_slot] &= owned[shape.slot_target[inner_slot]]
        nodes = np.flatnonzero(owned).astype(np.int32)
        renumbered = (np.cumsum(owned) - 1).astype(np.int32)
        target = shape.slot_target.copy()
        target[inner_slot] = renumbered[target[inner_slot]]
        sizes = np.diff(starts_of(slots)[shape.slot_start])[nodes]
        levels = np.searchsorted(nodes, shape.level_start)
        part = Shape(levels.astype(np.int32), starts_of(sizes).astype(np.int32), target[slots], shape.leaf[nodes])
        return cls(part, nodes, slots, shape)

    def needs(self, task: NodeTask | LevelsTask) -> bool:
        """Whether some child that a task trains is in the part."""
        if isinstance(task, LevelsTask):
            return any(self._slots(node, 0, last - first).any() for node, first, last in task.nodes)
        return bool(self._slots(task.node, task.first, task.last).any())

    def kept(self, piece: Piece) -> list[Separators]:
        """Of some separators of a node those of children that the part has, if there are any."""
        whole = piece.separators
        kept = self._slots(piece.node, piece.first, piece.first + len(whole.bias))
        if kept.all():
            return [whole]
        if not kept.any():
            return []
        row = np.repeat(np.arange(len(whole.features)), whole.row_length)
        entry = kept[whole.column]
        length = np.bincount(row[entry], minlength=len(whole.features)).astype(np.int32)
        column = (np.cumsum(kept) - 1).astype(np.uint16)[whole.column[entry]]
        there = length > 0
        return [Separators(whole.features[there], length[there], column, whole.weight[entry], whole.bias[kept])]

    def _slots(self, node: int, first: int, last: int) -> Bools:
        start = self.whole.slot_start[node]
        return self.slots[start + first : start + last]


def _owned(shape: Shape, shard: Shard) -> Bools:
    """Which nodes of a tree a shard has: its branches, and the nodes above them."""
    parent = np.full(shape.nodes, -1, dtype=np.int64)
    inner_slot = np.repeat(~shape.leaf, np.diff(shape.slot_start))
    parent[shape.slot_target[inner_slot]] = np.repeat(np.arange(shape.nodes), np.diff(shape.slot_start))[inner_slot]
    levels = [slice(low, high) for low, high in zip(shape.level_start[:-1], shape.level_start[1:], strict=True)]
    labels = np.where(shape.leaf, np.diff(shape.slot_start), 0).astype(np.int64)
    for level in levels[:0:-1]:
        np.add.at(labels, parent[level], labels[level])
    owned = np.zeros(shape.nodes, dtype=bool)
    owned[_branches(shape, labels, shard)] = True
    below = owned.copy()
    for level in levels[1:]:
        below[level] |= below[parent[level]]
    for level in levels[:0:-1]:
        np.logical_or.at(owned, parent[level], owned[level])
    return owned | below


def _branches(shape: Shape, labels: Longs, shard: Shard) -> list[int]:
    """The nodes below which a shard has everything; labels  int64 (nodes,), how many lie below each"""
    frontier = list(range(shape.level_start[1]))
    total = int(labels[frontier].sum())
    while True:
        shares: list[list[int]] = [[] for _ in range(shard.total)]
        filled = [0] * shard.total
        for node in sorted(frontier, key=lambda node: (-labels[node], node)):
            least = filled.index(min(filled))
            shares[least].append(node)
            filled[least] += int(labels[node])
        even = len(frontier) >= shard.total and max(filled) <= UNEVEN * total / shard.total
        if even or len(frontier) >= BRANCHES * shard.total or shape.leaf[frontier].all():
            break
        frontier = [
            below
            for node in frontier
            for below in (
                [node]
                if shape.leaf[node]
                else shape.slot_target[shape.slot_start[node] : shape.slot_start[node + 1]].tolist()
            )
        ]
    if min(filled) == 0:
        raise UsageError(f"{total:,} labels lie in {len(frontier)} groups, too few for {shard.total} shards")
    return shares[shard.number - 1]


# scoring
class Lists(NamedTuple):
    """What the trees of a shard find: ids int32 and log-scores float32 (trees, documents, labels), padded with -1."""

    ids: Ints
    scores: Floats


def merged(shards: Sequence[Lists], k: int, n_labels: int) -> Scores:
    """The k best labels of each document by the lists of all shards."""
    ids = np.concatenate([shard.ids for shard in shards], axis=2)
    scores = np.concatenate([shard.scores for shard in shards], axis=2)
    trees, n, _ = ids.shape
    k = min(k, n_labels)
    steps = np.array(depths(k, n_labels, trees))
    best = Lists(
        np.full((trees, n, steps[-1, 0]), -1, dtype=np.int32), np.zeros((trees, n, steps[-1, 0]), dtype=np.float32)
    )
    _best(ids, scores, best.ids, best.scores)
    found = Scores.empty(n, k)
    average(best.ids, best.scores, steps, found.ids, found.values)
    return found


def score_shards(shards: Sequence[LinearLearner], rows: SparseRows, k: int, run: Run) -> Scores:
    """The k best labels by several shards in this process."""
    n, n_labels = rows.n_rows, shards[0].n_labels_

    def one(chunk: tuple[int, int]) -> Scores:
        first, last = chunk
        return merged([shard.lists(rows, first, last, k) for shard in shards], k, n_labels)

    found = run.map(one, chunks(n, run), cost=size_of, title="Scoring")
    return Scores.stacked(found, min(k, n_labels))


@njit(nogil=True, cache=True)
def _best(ids: Ints, scores: Floats, out_ids: Ints, out_scores: Floats) -> None:
    """The best of the lists of all shards, for each tree and document."""
    trees, n, m = ids.shape
    for t in range(trees):
        for d in range(n):
            filled = 0
            for a in range(m):
                if ids[t, d, a] >= 0:
                    filled = keep_best(scores[t, d, a], ids[t, d, a], out_ids[t, d], out_scores[t, d], filled)
