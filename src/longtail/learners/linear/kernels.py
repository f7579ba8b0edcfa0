"""Dual coordinate descent for many linear separators at once.

A node of a label tree (or a block of labels) is one problem: n documents, c children, and for every child a
separator that tells the documents of that child from the others of the node,

    min_w  1/2 |w|^2 + sum_i C_i loss(y_i w.x_i),   loss = max(0, 1 - m)^2 (squared hinge) or log(1 + exp(-m)),

the bias being one more feature of value 1. LIBLINEAR visits one document for one separator: a sparse dot product
of scalar gathers. Here a visit updates the dual variables of all children of the node together: weights are one
(features + 1, children) block, row-major, so the inner loops run over contiguous children and vectorise, and a
document's features are read once for all of them.

Dual variables are kept signed, beta = y alpha, so that w = sum_i beta_i x_i: beta <= 0 for a negative document,
beta >= 0 for a positive one. A document is negative for every child but those in its list of positives, each of
which carries its own cost; cost 0 takes the pair out of the problem. Faint documents are negative for none.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from longtail.arrays import Bools, Floats, Ints, Longs, SparseRows, add_products, njit
from longtail.noise import NoiseArrays, draw_copy

SQUARED_HINGE = 0
LOGISTIC = 1

#: Documents whose largest violation falls below this share of eps rest until the others have converged.
RESTING = 0.3


class SolverOptions(NamedTuple):
    """How separators are trained.

    loss        SQUARED_HINGE or LOGISTIC
    cost        C of the negative pairs, and what strengths of positive ones are multiplied by
    eps         stop when no document violates the optimum by more
    max_passes  passes over the documents at most
    prune       weights no larger are dropped afterwards
    """

    loss: int
    cost: float
    eps: float
    max_passes: int
    prune: float


class Positives(NamedTuple):
    """The children each document belongs to.

    start  int64 (documents + 1,)
    child  int32 (pairs,)
    cost   float32 (pairs,), C of each pair; 0 leaves it out
    faint  bool (documents,), documents that are no negatives for children they do not belong to
    """

    start: Longs
    child: Ints
    cost: Floats
    faint: Bools


class Features(NamedTuple):
    """The features of one document: places start..stop of indices and values; norm is |x|^2 with the bias feature."""

    indices: Ints
    values: Floats
    start: int
    stop: int
    norm: np.float32


@njit(nogil=True, cache=True)
def next_random(state: NDArray[np.uint64]) -> np.uint64:
    """xorshift64*: enough for shuffling, the same on every machine; state is uint64 (1,), never 0."""
    x = state[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state[0] = x
    return (x * np.uint64(2685821657736338717)) >> np.uint64(11)


@njit(nogil=True, cache=True)
def shuffle(items: Ints, size: int, state: NDArray[np.uint64]) -> None:
    for i in range(size - 1, 0, -1):
        j = np.int64(next_random(state) % np.uint64(i + 1))
        items[i], items[j] = items[j], items[i]


@njit(nogil=True, cache=True, fastmath=True)
def margins(x: Features, weights: Floats, out: Floats) -> None:
    """out[j] = w_j . x for all children, the bias included."""
    bias = weights[weights.shape[0] - 1]
    if weights.shape[1] == 2:
        a, b = bias[0], bias[1]
        for p in range(x.start, x.stop):
            a += x.values[p] * weights[x.indices[p], 0]
            b += x.values[p] * weights[x.indices[p], 1]
        out[0], out[1] = a, b
        return
    for j in range(len(out)):
        out[j] = bias[j]
    add_products(x.indices, x.values, x.start, x.stop, weights, out)


@njit(nogil=True, cache=True, fastmath=True)
def add_to_weights(x: Features, step: Floats, changed: Ints, weights: Floats) -> None:
    """w_j += step_j x; only the changed children are touched when they are few."""
    width = weights.shape[1]
    bias = weights[weights.shape[0] - 1]
    if width == 2:
        a, b = step[0], step[1]
        bias[0] += a
        bias[1] += b
        for p in range(x.start, x.stop):
            weights[x.indices[p], 0] += x.values[p] * a
            weights[x.indices[p], 1] += x.values[p] * b
        return
    if len(changed) * 6 < width:
        for j in changed:
            bias[j] += step[j]
        for p in range(x.start, x.stop):
            v, row = x.values[p], weights[x.indices[p]]
            for j in changed:
                row[j] += v * step[j]
        return
    for j in range(width):
        bias[j] += step[j]
    for p in range(x.start, x.stop):
        v, row = x.values[p], weights[x.indices[p]]
        for j in range(width):
            row[j] += v * step[j]


@njit(nogil=True, cache=True, fastmath=True)
def hinge_step(z: np.float32, beta: np.float32, y: np.float32, cost: np.float32, norm: np.float32) -> np.float32:
    """Exact minimiser of the squared-hinge dual in one variable, as a change of the signed beta."""
    half = np.float32(0.5) / cost
    moved = beta - (z - y + half * beta) / (norm + half)
    if moved * y < 0:
        moved = np.float32(0)
    return moved - beta


@njit(nogil=True, cache=True, fastmath=True)
def logistic_step(z: np.float32, beta: np.float32, y: np.float32, cost: np.float32, norm: np.float32) -> np.float32:
    """Minimiser of the logistic dual in one variable, as a change of the signed beta.

    With alpha = C s(-t), s the sigmoid, the condition is t = m + Q (C s(-t) - alpha), m the present margin. The
    left side minus the right rises in t, so there is one root; it lies between the ends that s = 0 and s = 1 give,
    and a Newton step that leaves them is replaced by a halving.
    """
    alpha = beta * y
    low = z * y - norm * alpha
    high = low + norm * cost
    fixed = low
    t = min(max(z * y, low), high)
    for _ in range(30):
        s = np.float32(1) / (np.float32(1) + np.exp(t))
        gap = t - fixed - norm * cost * s
        if abs(gap) < np.float32(1e-5) * (np.float32(1) + abs(t)):
            break
        if gap > 0:
            high = t
        else:
            low = t
        t -= gap / (np.float32(1) + norm * cost * s * (np.float32(1) - s))
        if not low <= t <= high:
            t = (low + high) * np.float32(0.5)
    return y * cost / (np.float32(1) + np.exp(t)) - beta


@njit(nogil=True, cache=True, fastmath=True)
def positive_step(z: np.float32, beta: np.float32, cost: np.float32, norm: np.float32, loss: int) -> np.float32:
    """The change of beta for a positive pair, 0 for one that is left out."""
    if cost <= 0:
        return np.float32(0)
    if loss == SQUARED_HINGE:
        return hinge_step(z, beta, np.float32(1), cost, norm)
    return logistic_step(z, beta, np.float32(1), cost, norm)


@njit(nogil=True, cache=True, fastmath=True)
def visit_faint(x: Features, children: Ints, costs: Floats, loss: int, beta: Floats, weights: Floats) -> np.float32:
    """Moves the separators of a document's own children and no others; the largest change of beta (children,)."""
    last = weights.shape[0] - 1
    largest = np.float32(0)
    for q in range(len(children)):
        j = children[q]
        z = weights[last, j]
        for p in range(x.start, x.stop):
            z += x.values[p] * weights[x.indices[p], j]
        step = positive_step(z, beta[j], costs[q], x.norm, loss)
        beta[j] += step
        weights[last, j] += step
        for p in range(x.start, x.stop):
            weights[x.indices[p], j] += x.values[p] * step
        largest = max(largest, abs(step))
    return largest


@njit(nogil=True, cache=True, fastmath=True)
def solve(
    rows: SparseRows,
    n_features: int,
    positives: Positives,
    noise: NoiseArrays,
    n_children: int,
    options: SolverOptions,
    seed: int,
) -> Floats:
    """Weights (n_features + 1, children rounded up to whole vectors), the bias in the last row.

    rows   the documents' features, indices below n_features
    noise  the documents and their noisy copies
    """
    n = len(noise.row)
    loss, eps = options.loss, options.eps
    longest = 0
    for r in range(len(rows.start) - 1):
        longest = max(longest, rows.start[r + 1] - rows.start[r])
    copy_indices = np.zeros(longest, dtype=np.int32)
    copy_values = np.zeros(longest, dtype=np.float32)
    width = n_children if n_children <= 4 else (n_children + 7) // 8 * 8
    weights = np.zeros((n_features + 1, width), dtype=np.float32)
    beta = np.zeros((n, n_children), dtype=np.float32)
    z = np.zeros(width, dtype=np.float32)
    step = np.zeros(width, dtype=np.float32)
    changed = np.zeros(width, dtype=np.int32)
    state = np.array([np.uint64(seed) | np.uint64(1)], dtype=np.uint64)
    order = np.arange(n).astype(np.int32)
    c = np.float32(options.cost)
    half = np.float32(0.5) / c
    active = n
    for _ in range(options.max_passes):
        everyone = active == n
        shuffle(order, active, state)
        worst = np.float32(0)
        position = 0
        while position < active:
            i = order[position]
            row = noise.row[i]
            start, stop = rows.start[row], rows.start[row + 1]
            indices, values = rows.indices, rows.values
            if noise.copy[i] > 0:
                stop = draw_copy(rows, noise, i, copy_indices, copy_values)
                start, indices, values = 0, copy_indices, copy_values
            norm = np.float32(1)
            for p in range(start, stop):
                norm += values[p] * values[p]
            x = Features(indices, values, start, stop, norm)
            own = slice(positives.start[row], positives.start[row + 1])
            if positives.faint[row]:
                largest = visit_faint(x, positives.child[own], positives.cost[own], loss, beta[i], weights)
            else:
                b = beta[i]
                margins(x, weights, z)
                if loss == SQUARED_HINGE:
                    scale = np.float32(1) / (norm + half)
                    for j in range(n_children):
                        moved = b[j] - (z[j] + np.float32(1) + half * b[j]) * scale
                        moved = min(moved, np.float32(0))
                        step[j] = moved - b[j]
                else:
                    for j in range(n_children):
                        step[j] = logistic_step(z[j], b[j], np.float32(-1), c, norm)
                for q in range(positives.start[row], positives.start[row + 1]):
                    j = positives.child[q]
                    step[j] = positive_step(z[j], b[j], positives.cost[q], norm, loss)
                largest = np.float32(0)
                for j in range(n_children):
                    largest = max(largest, abs(step[j]))
                if largest * (norm + half) > np.float32(0.01) * eps:
                    n_changed = 0
                    for j in range(n_children):
                        if step[j] != 0:
                            changed[n_changed] = j
                            n_changed += 1
                            b[j] += step[j]
                    add_to_weights(x, step, changed[:n_changed], weights)
            violation = largest * (norm + half)
            worst = max(worst, violation)
            if violation < np.float32(RESTING) * eps:
                active -= 1
                order[position], order[active] = order[active], order[position]
            else:
                position += 1
        if worst <= eps:
            if everyone:
                break
            active = n  # those at rest are looked at once more before the node is called done
        elif active == 0:
            active = n
    return weights
