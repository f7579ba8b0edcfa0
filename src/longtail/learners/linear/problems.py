"""From the nodes of a label tree to problems of up to 32 children: which documents, and what they say of the children.

Children of a node are separate problems over the same documents. A wide node is cut into blocks of children, by the
data alone, so that a problem's weights stay within the cache and bound the memory. The other way round, binary nodes of
several levels are solved together: a document then is read once for all levels, and has a say only on the children of
those nodes that it reaches.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from longtail.arrays import Bools, Floats, Ints, Longs, SparseRows, njit, sort_distinct
from longtail.learners.linear.kernels import Problem
from longtail.noise import NoiseArrays


class Node(NamedTuple):
    """The labels below a node of a tree.

    labels      int32, grouped by child
    child       int32, the child each of them lies under, not falling
    n_children  how many there are
    """

    labels: Ints
    child: Ints
    n_children: int


class Levels(NamedTuple):
    """Nodes of several levels of a tree, the first of which is above all others.

    labels    int32, labels below the first node
    path      int8 (labels, levels), the children above each label, -1 where the levels end before
    siblings  uint32 (children,), bits of the children of the same node
    """

    labels: Ints
    path: NDArray[np.int8]
    siblings: NDArray[np.uint32]


class Marks(NamedTuple):
    """What documents are found with; kernels leave both as they were.

    slot   int32 (documents,), all -1
    marks  what documents are sorted with
    """

    slot: Ints
    marks: NDArray[np.uint64]


class NodeDocuments(NamedTuple):
    """The documents of a node.

    document  int32 (n,), rising
    start     int64 (n + 1,), where the children of each begin
    child     int32 (pairs,), rising within a document
    strength  float32 (pairs,), of the strongest pair under each child; 0 leaves it out
    faint     bool (n,), documents that are no negatives for children they do not belong to
    """

    document: Ints
    start: Longs
    child: Ints
    strength: Floats
    faint: Bools


@njit(nogil=True, cache=True)
def node_documents(
    labels: SparseRows, label_sure: Bools, node: Node, found: Marks, all_documents: bool, sure_only: bool
) -> NodeDocuments:
    """Documents of a node (rising) and the children they belong to (rising), with the strongest pair under each.

    A document belongs to the node if it carries one of the labels with a strength above 0, and surely if asked for;
    it is faint if it carries none of them surely.
    """
    slot = found.slot
    label_start, label_document, label_strength = labels.start, labels.indices, labels.values
    node_labels, node_child = node.labels, node.child
    n = 0
    entries = 0
    for label in node_labels:
        entries += label_start[label + 1] - label_start[label]
    rows = np.empty(len(slot) if all_documents else min(entries, len(slot)), dtype=np.int32)
    if all_documents:
        n = len(slot)
        rows[:] = np.arange(n)
    else:
        for label in node_labels:
            for q in range(label_start[label], label_start[label + 1]):
                document = label_document[q]
                if slot[document] < 0 and label_strength[q] > 0 and (label_sure[q] or not sure_only):
                    slot[document] = 0
                    rows[n] = document
                    n += 1
        rows = rows[:n].copy()
        sort_distinct(rows, found.marks)
    for row in range(n):
        slot[rows[row]] = row
    faint = np.full(n, not all_documents)
    start = np.zeros(n + 1, dtype=np.int64)
    for label in node_labels:
        for q in range(label_start[label], label_start[label + 1]):
            row = slot[label_document[q]]
            if row >= 0:
                start[row + 1] += 1
                if label_strength[q] > 0 and label_sure[q]:
                    faint[row] = False
    for row in range(n):
        start[row + 1] += start[row]
    child = np.empty(entries, dtype=np.int32)
    strength = np.empty(entries, dtype=np.float32)
    end = start[:-1].copy()
    for m in range(len(node_labels)):
        for q in range(label_start[node_labels[m]], label_start[node_labels[m] + 1]):
            row = slot[label_document[q]]
            if row < 0:
                continue
            p = end[row]
            if p > start[row] and child[p - 1] == node_child[m]:
                strength[p - 1] = max(strength[p - 1], label_strength[q])
            else:
                child[p] = node_child[m]
                strength[p] = label_strength[q]
                end[row] = p + 1
    closed = np.zeros(n + 1, dtype=np.int64)
    size = 0
    for row in range(n):
        for p in range(start[row], end[row]):
            child[size] = child[p]
            strength[size] = strength[p]
            size += 1
        closed[row + 1] = size
    for row in range(n):
        slot[rows[row]] = -1
    return NodeDocuments(rows, closed, child[:size].copy(), strength[:size].copy(), faint)


@njit(nogil=True, cache=True)
def block_problem(own: NodeDocuments, first: int, last: int, cost: float) -> Problem:
    """The problem of children first..last of a node, at most 32."""
    document, own_start, own_child, own_strength, faint = own
    n = len(document)
    everything = np.uint32(0)
    for j in range(last - first):
        everything |= np.uint32(1) << np.uint32(j)
    start = np.zeros(n + 1, dtype=np.int64)
    negative = np.empty(n, dtype=np.uint32)
    size = 0
    for i in range(n):
        for q in range(own_start[i], own_start[i + 1]):
            if first <= own_child[q] < last:
                size += 1
        start[i + 1] = size
        negative[i] = np.uint32(0) if faint[i] else everything
    lane = np.empty(size, dtype=np.int32)
    costs = np.empty(size, dtype=np.float32)
    size = 0
    for i in range(n):
        for q in range(own_start[i], own_start[i + 1]):
            if first <= own_child[q] < last:
                lane[size] = own_child[q] - first
                costs[size] = own_strength[q] * np.float32(cost)
                size += 1
    return Problem(document, np.zeros(n, dtype=np.int32), start, lane, costs, negative)


@njit(nogil=True, cache=True)
def levels_problem(labels: SparseRows, label_sure: Bools, levels: Levels, found: Marks, cost: float) -> Problem:
    """The problem of several levels of nodes at once.

    A document reaches a node if it carries a label below it surely; it has a say on the children of nodes it reaches.
    """
    slot = found.slot
    label_start, label_document, label_strength = labels.start, labels.indices, labels.values
    own_labels, path, siblings = levels
    n_levels = path.shape[1]
    entries = 0
    for label in own_labels:
        entries += label_start[label + 1] - label_start[label]
    rows = np.empty(min(entries, len(slot)), dtype=np.int32)
    n = 0
    for label in own_labels:
        for q in range(label_start[label], label_start[label + 1]):
            document = label_document[q]
            if slot[document] < 0 and label_strength[q] > 0 and label_sure[q]:
                slot[document] = 0
                rows[n] = document
                n += 1
    rows = rows[:n].copy()
    sort_distinct(rows, found.marks)
    for i in range(n):
        slot[rows[i]] = i
    negative = np.zeros(n, dtype=np.uint32)
    start = np.zeros(n + 1, dtype=np.int64)
    for m in range(len(own_labels)):
        for q in range(label_start[own_labels[m]], label_start[own_labels[m] + 1]):
            i = slot[label_document[q]]
            if i < 0:
                continue
            start[i + 1] += 1
            if label_strength[q] > 0 and label_sure[q]:
                for level in range(n_levels):
                    if path[m, level] >= 0:
                        negative[i] |= siblings[path[m, level]]
    for i in range(n):
        start[i + 1] += start[i]
    place = np.empty(start[n], dtype=np.int32)
    strength = np.empty(start[n], dtype=np.float32)
    for m in range(len(own_labels)):
        for q in range(label_start[own_labels[m]], label_start[own_labels[m] + 1]):
            i = slot[label_document[q]]
            if i >= 0:
                place[start[i]] = m
                strength[start[i]] = label_strength[q]
                start[i] += 1
    for i in range(n):
        slot[rows[i]] = -1
    # start[i] is now where the next document's pairs begin
    strongest = np.empty(len(siblings), dtype=np.float32)
    closed = np.zeros(n + 1, dtype=np.int64)
    lane = np.empty(len(place) * n_levels, dtype=np.int32)
    costs = np.empty(len(place) * n_levels, dtype=np.float32)
    size = 0
    for i in range(n):
        strongest[:] = -1
        for p in range(start[i - 1] if i > 0 else 0, start[i]):
            for level in range(n_levels):
                j = path[place[p], level]
                if j >= 0 and (negative[i] >> np.uint32(j)) & np.uint32(1):
                    strongest[j] = max(strongest[j], strength[p])
        for j in range(len(strongest)):
            if strongest[j] >= 0:
                lane[size] = j
                costs[size] = strongest[j] * np.float32(cost)
                size += 1
        closed[i + 1] = size
    return Problem(rows, np.zeros(n, dtype=np.int32), closed, lane[:size].copy(), costs[:size].copy(), negative)


@njit(nogil=True, cache=True)
def with_copies(problem: Problem, noise: NoiseArrays, copies: int) -> Problem:
    """The problem with the noisy copies of its documents beside them."""
    own_document, _, own_start, own_lane, own_cost, own_negative = problem
    draw = noise.draw
    n = len(own_document)
    total, pairs = n, len(own_lane)
    for i in range(n):
        if draw[own_document[i]] >= 0:
            total += copies
            pairs += copies * (own_start[i + 1] - own_start[i])
    document = np.empty(total, dtype=np.int32)
    copy = np.empty(total, dtype=np.int32)
    start = np.zeros(total + 1, dtype=np.int64)
    lane = np.empty(pairs, dtype=np.int32)
    cost = np.empty(pairs, dtype=np.float32)
    negative = np.empty(total, dtype=np.uint32)
    to, size = 0, 0
    for number in range(copies + 1):
        for i in range(n):
            if number > 0 and draw[own_document[i]] < 0:
                continue
            document[to], copy[to], negative[to] = own_document[i], number, own_negative[i]
            for q in range(own_start[i], own_start[i + 1]):
                lane[size], cost[size] = own_lane[q], own_cost[q]
                size += 1
            to += 1
            start[to] = size
    return Problem(document, copy, start, lane, cost, negative)
