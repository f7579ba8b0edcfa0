"""The mean of several trees' lists, so made that the first k of any longer list are the k best."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from longtail.arrays import Floats, Ints, Longs, append_below, keep_best, njit

#: Labels per tree that the first places of the mean are taken from: a label may rank low in one tree and high on the
#: mean. Half as many places are filled; those behind are taken from lists twice as long, and so on.
DEPTH = 50
#: A log-score below this is as good as none; its exponential is far from the smallest number there is.
FAINTEST = -69.0


def depths(k: int, n_labels: int, n_trees: int) -> list[tuple[int, int]]:
    """(labels per tree, places): which lists the places up to each number are taken from, until k are.

    What is asked for decides how many steps there are, never what a step is: the first k of any longer list are the
    k best.
    """
    if n_trees == 1:
        return [(k, k)]
    steps = [(min(DEPTH, n_labels), DEPTH // 2)]
    while steps[-1][1] < k and steps[-1][0] < n_labels:
        steps.append((min(2 * steps[-1][0], n_labels), 2 * steps[-1][1]))
    depth, places = steps[-1]
    return [*steps[:-1], (depth, k if depth == n_labels else min(k, places))]


@lru_cache(maxsize=256)
def steps_for(k: int, n_labels: int, n_trees: int) -> Longs:
    """`depths` as kernels take them."""
    return np.array(depths(k, n_labels, n_trees))


@njit(nogil=True, cache=True)
def average(ids: Ints, scores: Floats, steps: Longs, out_ids: Ints, out_values: Floats) -> None:
    """Mean of exp(log-score) over trees for each document; a label that a tree does not list counts 0 there.

    ids, scores            (trees, n, m), the trees' lists
    steps                  int64 (steps, 2), as `depths` gives them
    out_ids, out_values    (n, k)
    """
    trees, n, _ = ids.shape
    k = out_ids.shape[1]
    most = trees * steps[-1, 0]
    labels = np.zeros(most + k, dtype=np.int32)
    totals = np.zeros(most + k, dtype=np.float32)
    best_ids = np.empty(k, dtype=np.int32)
    best_values = np.empty(k, dtype=np.float32)
    bits = 2
    while 1 << bits < 2 * (most + k):
        bits += 1
    table = np.full(1 << bits, -1, dtype=np.int32)
    for d in range(n):
        filled = 0
        for step in range(len(steps)):
            if trees == 1:  # sorted by log-scores, of which several may have the same exponential
                for b in range(steps[step, 0]):
                    if ids[0, d, b] < 0 or scores[0, d, b] < FAINTEST:
                        break
                    filled = append_below(np.exp(scores[0, d, b]), ids[0, d, b], out_ids[d], out_values[d], filled)
                continue
            size = 0
            for t in range(-1, trees):  # first what is listed already, which is not listed again
                for b in range(filled if t < 0 else steps[step, 0]):
                    label, value = out_ids[d, b] if t < 0 else ids[t, d, b], np.float32(-np.inf)
                    if t >= 0:
                        if label < 0 or scores[t, d, b] < FAINTEST:
                            break
                        value = np.exp(scores[t, d, b])
                    at = _place(label, bits, table, labels)
                    if table[at] < 0:
                        table[at], labels[size], totals[size] = size, label, value
                        size += 1
                    else:
                        totals[table[at]] += value
            found, room = 0, steps[step, 1] - filled
            for a in range(size):
                mean = totals[a] / np.float32(trees)
                if mean >= 0 and (found < room or mean >= best_values[room - 1]):
                    found = keep_best(mean, labels[a], best_ids[:room], best_values[:room], found)
            for a in range(size - 1, -1, -1):
                table[_place(labels[a], bits, table, labels)] = -1
            for a in range(found):
                filled = append_below(best_values[a], best_ids[a], out_ids[d], out_values[d], filled)
        for b in range(filled, k):
            out_ids[d, b] = -1
            out_values[d, b] = 0


@njit(nogil=True, cache=True)
def _place(label: int, bits: int, table: Ints, labels: Ints) -> int:
    """Where the table has the label's number, or has room for it."""
    at = ((np.int64(label) * 2654435769) & 0xFFFFFFFF) >> (32 - bits)
    while table[at] >= 0 and labels[table[at]] != label:
        at = (at + 1) & ((1 << bits) - 1)
    return int(at)
