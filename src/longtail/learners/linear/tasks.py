"""How the training of label trees is cut into tasks: by the data alone, never by threads or memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from longtail.arrays import Ints, SparseRows
from longtail.lanes import WIDEST
from longtail.learners.linear.nodes import LevelsTask, NodeTask, Task
from longtail.learners.linear.problems import Levels
from longtail.learners.linear.tree import Shape
from longtail.sparse import starts_of

#: A task takes as many blocks of one node as there are here pairs of documents and labels, at least one.
PAIRS_PER_TASK = 200_000
#: Tasks that cost this much together, some ten seconds of a core, are kept as soon as they are done.
COST_PER_BATCH = 2e8
#: So do tasks whose separators take so many bytes together, about: until then they are held.
BYTES_PER_BATCH = 128 << 20
#: Bytes of a feature's row with weights of two children, as separators are held.
BYTES_PER_ROW = 20
#: Nodes with no more children are solved together with narrow levels below them.
NARROW = 8
#: Their children side by side, at most: three levels of halves, whose weights stay in the cache.
SIDE_BY_SIDE = 16


class Layout(NamedTuple):
    """The labels of a tree in the order of its leaves: those below a node lie side by side.

    order      int32 (labels,)
    low, high  int64 (nodes,), where the labels below each node lie
    """

    order: Ints
    low: NDArray[np.int64]
    high: NDArray[np.int64]

    @classmethod
    def of(cls, shape: Shape) -> Layout:
        nodes = shape.nodes
        slots = np.diff(shape.slot_start).astype(np.int64)
        size = np.where(shape.leaf, slots, 0)
        inner = np.flatnonzero(~shape.leaf)
        for node in inner[::-1].tolist():
            first, last = shape.slot_start[node], shape.slot_start[node + 1]
            size[node] = size[shape.slot_target[first:last]].sum()
        low = np.zeros(nodes, dtype=np.int64)
        roots = shape.level_start[1] if len(shape.level_start) > 1 else 0
        low[:roots] = starts_of(size[:roots])[:-1]
        for node in inner.tolist():
            children = shape.slot_target[shape.slot_start[node] : shape.slot_start[node + 1]]
            low[children] = low[node] + starts_of(size[children])[:-1]
        order = np.empty(int(size[:roots].sum()), dtype=np.int32)
        leaf_slots = np.repeat(shape.leaf, slots)
        leaves = np.flatnonzero(shape.leaf)
        place = np.repeat(low[leaves] - starts_of(slots[leaves])[:-1], slots[leaves])
        order[place + np.arange(len(place))] = shape.slot_target[leaf_slots]
        return cls(order, low, low + size)


def tasks_of(
    tree: int, shape: Shape, label_count: NDArray[np.int64], seed: int, *, all_documents: bool
) -> Iterator[Task]:
    """The tasks of one tree.

    label_count  pairs of documents and each label
    """
    layout = Layout.of(shape)
    pairs = starts_of(label_count[layout.order])
    done = np.zeros(shape.nodes, dtype=bool)
    for node in range(shape.nodes):
        if done[node]:
            continue
        first, last = shape.slot_start[node], shape.slot_start[node + 1]
        if not shape.leaf[node] and last - first <= NARROW:
            task = _levels(tree, node, shape, layout, seed + node * 65_536)
            done[[member for member, _, _ in task.nodes]] = True
            yield task
            continue
        low, high = layout.low[node], layout.high[node]
        if shape.leaf[node]:
            sizes = np.ones(last - first, dtype=np.int64)
        else:
            targets = shape.slot_target[first:last]
            sizes = layout.high[targets] - layout.low[targets]
        child = np.repeat(np.arange(last - first, dtype=np.int32), sizes)
        step = WIDEST * max(1, PAIRS_PER_TASK // max(1, int(pairs[high] - pairs[low])))
        width = int(last - first)
        for begin in range(0, width, step):
            yield NodeTask(
                tree, node, layout.order[low:high], child, width, begin, min(begin + step, width),
                all_documents, not shape.leaf[node], seed + node * 65_536,
            )  # fmt: skip


def _levels(tree: int, root: int, shape: Shape, layout: Layout, seed: int) -> LevelsTask:
    """A narrow node and the levels of narrow nodes below it, as many as fit side by side."""
    members: list[tuple[int, int, int]] = []
    rows: list[list[int]] = []
    frontier, used = [root], 0
    while frontier:
        widths = [int(shape.slot_start[node + 1] - shape.slot_start[node]) for node in frontier]
        if used + sum(widths) > SIDE_BY_SIDE:
            break
        rows.append(frontier)
        for node, width in zip(frontier, widths, strict=True):
            members.append((node, used, used + width))
            used += width
        below = [int(child) for node in frontier
                 for child in shape.slot_target[shape.slot_start[node] : shape.slot_start[node + 1]]]  # fmt: skip
        frontier = [child for child in below if not shape.leaf[child]]
    low, high = layout.low[root], layout.high[root]
    path = np.full((high - low, len(rows)), -1, dtype=np.int8)
    siblings = np.zeros(used, dtype=np.uint32)
    level_of = {node: level for level, row in enumerate(rows) for node in row}
    for node, first, last in members:
        siblings[first:last] = (1 << last) - (1 << first)
        for lane, child in enumerate(shape.slot_target[shape.slot_start[node] : shape.slot_start[node + 1]], first):
            path[layout.low[child] - low : layout.high[child] - low, level_of[node]] = lane
    return LevelsTask(tree, members, Levels(layout.order[low:high], path, siblings), seed)


def cost_of(task: Task, label_count: NDArray[np.int64], n_documents: int) -> float:
    """About how long a task takes beside others."""
    if isinstance(task, LevelsTask):
        return float(label_count[task.levels.labels].sum()) * WIDEST
    pairs = n_documents if task.all_documents else label_count[task.labels].sum()
    return float(pairs) * (4 + task.last - task.first)


def room_of(task: Task, label_count: NDArray[np.int64], rows: SparseRows, n_features: int) -> float:
    """About how many bytes the separators of a task take: a row per feature of a node's documents, two children each.

    rows  features by document
    """
    features = len(rows.indices) / max(1, rows.n_rows)
    if isinstance(task, LevelsTask):
        pairs, nodes = label_count[task.levels.labels].sum() * task.levels.path.shape[1], len(task.nodes)
    else:
        nodes = task.last - task.first
        pairs = label_count[task.labels].sum() * nodes / task.n_children
    return BYTES_PER_ROW * min(float(pairs) * features, float(nodes) * n_features)


def batches(
    tasks: list[Task], cost: Callable[[Task], float], room: Callable[[Task], float], at_once: int
) -> Iterator[list[Task]]:
    """All tasks, the costliest first, in pieces that are worth keeping, and whose separators take little memory.

    at_once  tasks that go on side by side: there are enough for all of them
    """
    batch: list[Task] = []
    total = held = 0.0
    for own, place in sorted((-cost(task), place) for place, task in enumerate(tasks)):
        batch.append(tasks[place])
        total -= own
        held += room(tasks[place])
        if total >= COST_PER_BATCH or (held >= BYTES_PER_BATCH and len(batch) >= 4 * at_once):
            yield batch
            batch, total, held = [], 0.0, 0.0
    if batch:
        yield batch
