"""Beam search over label trees: batches node by node over the documents that reach it, and one document by itself.

Both give the same bits: lists of the best do not depend on the order in which they were filled.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from longtail.arrays import Floats, Ints, Longs, SparseRows, njit
from longtail.cluster.blocks import even_blocks
from longtail.learners.linear.average import average
from longtail.learners.linear.forest import Forest, tree_at
from longtail.learners.linear.spread import (
    MOST_IN_FULL,
    Layout,
    Spread,
    add_in_full,
    add_pairs,
    gather_rows,
    in_full,
    largest,
    look_up_spread,
    spread_rows,
    stride_of,
)  # fmt: skip
from longtail.learners.linear.visit import (
    SearchOptions,
    add_rows,
    factors,
    keep_children,
    look_up,
    room_for,
    scaled,
    to_scores,
)  # fmt: skip
from longtail.learners.linear.weights import COLUMNS, ROWS
from longtail.run import Run

#: Documents scored together, at most: enough that a node's separators are looked up in for many of them (on
#: germeval-gnd 4,096 take 15 % longer), and so few that their lists do not crowd the cache.
CHUNK = 10_240
#: Fewer documents are not shared out: finding a node's separators would take longer than using them.
SMALLEST_CHUNK = 256
#: A node's rows are spread over all features if its visitors ask for this share of them, or more.
WORTH = 0.5


def chunks(n: int, run: Run) -> list[tuple[int, int]]:
    """Documents first..last that are scored together: equally many, and as many times as keep all threads busy.

    What is found does not depend on them: every document is searched by itself.
    """
    rounds = -(-n // (CHUNK * run.tasks))
    count = max(1, -(-n // CHUNK), min(rounds * run.tasks, n // SMALLEST_CHUNK))
    return even_blocks(np.arange(n + 1), count)


def size_of(chunk: tuple[int, int]) -> int:
    return chunk[1] - chunk[0]


class Beams(NamedTuple):
    """The best nodes of each document on a level: (documents, beam), and how many there are."""

    nodes: Ints
    scores: Floats
    filled: Ints


@njit(nogil=True, cache=True)
def _beams(n: int, beam: int) -> Beams:
    return Beams(
        np.zeros((n, beam), dtype=np.int32), np.zeros((n, beam), dtype=np.float32), np.zeros(n, dtype=np.int32)
    )


@njit(nogil=True, cache=True)
def search(
    rows: SparseRows,
    first: int,
    forest: Forest,
    options: SearchOptions,
    spread: Spread,
    out_ids: Ints,
    out_scores: Floats,
) -> None:
    """Beam search in a single tree for documents first, first + 1, ...: the best of each by the sum of log-scores.

    What lies above is multiplied by the discount at each step down. Each level keeps the best nodes of a document;
    leaves give their labels when they are reached.

    out_ids            int32 (documents, k), filled with labels, padded with -1
    out_scores         float32 (documents, k), log-scores
    """
    tree = tree_at(forest, 0)
    n, k = out_ids.shape
    loss, beam, discount = options.loss, options.beam, np.float32(options.discount)
    filled = np.zeros(n, dtype=np.int32)
    widest, most_rows, most_in_full = largest(tree)
    longest = 0
    for d in range(n):
        longest = max(longest, rows.start[first + d + 1] - rows.start[first + d])
    z = np.zeros(stride_of(widest), dtype=np.float32)
    layout = Layout(
        np.zeros(most_rows, dtype=np.int32), np.zeros(most_rows, dtype=np.int64), np.zeros(most_in_full, np.float32)
    )
    found = room_for(longest)
    reached, following = _beams(n, beam), _beams(n, beam)
    by_document = np.zeros(n * beam, dtype=np.int32)
    by_score = np.zeros(n * beam, dtype=np.float32)
    for level in range(len(tree.level_start) - 1):
        low, high = tree.level_start[level], tree.level_start[level + 1]
        following.filled[:] = 0
        # first the best node of each document, then the others: by then some cannot matter any more
        for turn in range(1 if level == 0 else 2):
            begin = np.zeros(high - low + 1, dtype=np.int64)
            if level > 0:
                for fill in range(2):
                    for d in range(n):
                        for b in range(turn, reached.filled[d] if turn == 1 else min(1, reached.filled[d])):
                            node = reached.nodes[d, b]
                            above = reached.scores[d, b] * discount
                            # no label below can score more than its node
                            bounded = tree.leaf[node] or discount == 1.0
                            if bounded and filled[d] == k and above < out_scores[d, k - 1]:
                                continue
                            if fill == 0:
                                begin[node - low + 1] += 1
                            else:
                                by_document[begin[node - low]] = d
                                by_score[begin[node - low]] = above
                                begin[node - low] += 1
                    if fill == 0:
                        for v in range(high - low):
                            begin[v + 1] += begin[v]
                # filling moved each start to the next one's place
                for v in range(high - low, 0, -1):
                    begin[v] = begin[v - 1]
                begin[0] = 0
            for node in range(low, high):
                visitors = n if level == 0 else begin[node - low + 1] - begin[node - low]
                if visitors == 0:
                    continue
                asked = 0
                for visitor in range(visitors):
                    d = visitor if level == 0 else by_document[begin[node - low] + visitor]
                    asked += rows.start[first + d + 1] - rows.start[first + d]
                n_rows = tree.node_start[node + 1, ROWS] - tree.node_start[node, ROWS]
                width = tree.slot_start[node + 1] - tree.slot_start[node]
                is_spread = asked > WORTH * n_rows and in_full(tree, node) <= MOST_IN_FULL
                pairs = width == 2 and tree.node_start[node, COLUMNS] == tree.node_start[node + 1, COLUMNS]
                if is_spread:
                    spread_rows(tree, node, spread, layout)
                for visitor in range(visitors):
                    d = visitor if level == 0 else by_document[begin[node - low] + visitor]
                    above = np.float32(0) if level == 0 else by_score[begin[node - low] + visitor]
                    if is_spread and pairs:
                        add_pairs(spread.pairs, rows, first + d, z)
                    elif is_spread:
                        stride = stride_of(width)
                        z[:stride] = 0
                        n_heavy, n_light = look_up_spread(tree, node, spread, layout, rows, first + d, found)
                        add_in_full(layout.block, stride, found.heavy, n_heavy, z)
                        add_rows(tree, node, found.light, n_light, z)
                    else:
                        z[:width] = 0
                        n_heavy, n_light = look_up(tree, node, rows, first + d, found)
                        add_rows(tree, node, found.heavy, n_heavy, z)
                        add_rows(tree, node, found.light, n_light, z)
                    to_scores(tree, node, above, loss, z)
                    if tree.leaf[node]:
                        filled[d] = keep_children(tree, node, z, out_ids[d], out_scores[d], filled[d])
                    else:
                        following.filled[d] = keep_children(
                            tree, node, z, following.nodes[d], following.scores[d], following.filled[d]
                        )
                if is_spread:
                    gather_rows(tree, node, spread, layout)
        reached, following = following, reached
    for d in range(n):
        for b in range(filled[d], k):
            out_ids[d, b] = -1
            out_scores[d, b] = 0


@njit(nogil=True, cache=True)
def search_row(forest: Forest, indices: Ints, values: Floats, options: SearchOptions, depth: int) -> Any:
    """The lists of one document, (trees, 1, depth) labels and log-scores: what `search` gives for it."""
    given = SparseRows(np.array([0, len(indices)]), indices, values)
    row = scaled(given, factors(given))
    trees, loss, beam, discount = len(forest.address), options.loss, options.beam, np.float32(options.discount)
    ids = np.full((trees, 1, depth), -1, dtype=np.int32)
    scores = np.zeros((trees, 1, depth), dtype=np.float32)
    found = room_for(len(indices))
    nodes, next_nodes = np.zeros(beam, dtype=np.int32), np.zeros(beam, dtype=np.int32)
    above, next_above = np.zeros(beam, dtype=np.float32), np.zeros(beam, dtype=np.float32)
    for t in range(trees):
        tree = tree_at(forest, t)
        widest = 0
        for node in range(len(tree.leaf)):
            widest = max(widest, tree.slot_start[node + 1] - tree.slot_start[node])
        z = np.zeros(widest, dtype=np.float32)
        own_ids, own_scores, filled = ids[t, 0], scores[t, 0], 0
        roots = tree.level_start[1] if len(tree.level_start) > 1 else 0
        reached = roots
        for level in range(len(tree.level_start) - 1):
            following = 0
            for b in range(reached):
                node = b if level == 0 else nodes[b]
                score = np.float32(0) if level == 0 else above[b] * discount
                is_leaf = tree.leaf[node]
                if level > 0 and filled == depth and score < own_scores[depth - 1] and (is_leaf or discount == 1.0):
                    continue
                z[:] = 0
                n_heavy, n_light = look_up(tree, node, row, 0, found)
                add_rows(tree, node, found.heavy, n_heavy, z)
                add_rows(tree, node, found.light, n_light, z)
                to_scores(tree, node, score, loss, z)
                if is_leaf:
                    filled = keep_children(tree, node, z, own_ids, own_scores, filled)
                else:
                    following = keep_children(tree, node, z, next_nodes, next_above, following)
            nodes, next_nodes, above, next_above = next_nodes, nodes, next_above, above
            reached = following
    return ids, scores


@njit(nogil=True, cache=True)
def score_row(forest: Forest, indices: Ints, values: Floats, options: SearchOptions, steps: Longs, k: int) -> Any:
    """The k best labels of one document over all trees of the forest, (1, k) labels and values."""
    ids, scores = search_row(forest, indices, values, options, steps[-1, 0])
    best, best_values = np.empty((1, k), dtype=np.int32), np.empty((1, k), dtype=np.float32)
    average(ids, scores, steps, best, best_values)
    return best, best_values
