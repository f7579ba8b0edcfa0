"""Dual coordinate descent for many linear separators at once.

A problem has n documents and up to 32 children, and for every child a separator that tells the documents of that child
from the others,

    min_w  1/2 |w|^2 + sum_i C_i loss(y_i w.x_i),   loss = max(0, 1 - m)^2 (squared hinge) or log(1 + exp(-m)),

the bias being one more feature of value 1. LIBLINEAR visits one document for one separator: a sparse dot product
of scalar gathers. Here a visit updates the dual variables of all children together: their weights lie side by side, in
lanes of vector registers, and a document's features are read once for all of them. A feature gets a row of weights when
a document that has it first moves a separator; until then it points at a row of zeros. So a problem takes memory, and
cache, for what it has learnt, not for what it has read.

Dual variables are kept signed, beta = y alpha, so that w = sum_i beta_i x_i: beta <= 0 for a negative document,
beta >= 0 for a positive one. A pair of a document and a child is positive if it is listed, with a cost of its own
(0 takes it out of the problem); otherwise it is negative where the document's bit of that child is set, and out of the
problem where it is not.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from longtail.arrays import Floats, Ints, Longs, Shorts, SparseRows, lowest_one, njit, ones, sort_distinct
from longtail.lanes import add_rows, add_to_rows, fetch, larger_than, negative_steps
from longtail.noise import NoiseArrays, draw_copy

SQUARED_HINGE = 0
LOGISTIC = 1

#: Documents whose largest violation falls below this share of eps rest until the others have converged.
RESTING = 0.3
#: Violations below this share of eps are let be: correcting them moves every weight of a document for nothing.
LET_BE = 0.1
#: So many documents do not stay in the cache: what a visit reads is asked for up to four times AHEAD visits before.
#: Blocks of more than NARROW lanes do not gain by it: most features of theirs share the row of zeros.
FAR, AHEAD, NARROW = 4096, 3, 16

#: Rows of weights that are no feature's: zeros, for features nobody has moved yet, and the biases.
ZEROS, BIAS, FIRST = 0, 1, 2


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


class Reading(NamedTuple):
    """What the solver reads of documents.

    rows   their features
    norms  float32 (documents,), |x|^2 with the bias feature
    """

    rows: SparseRows
    norms: Floats


class Problem(NamedTuple):
    """Documents and what they say of up to 32 children.

    document  int32 (n,), rows of the corpus
    copy      int32 (n,), 0 for the document itself, else the number of a noisy copy
    start     int64 (n + 1,), where the positives of each begin
    lane      int32 (pairs,), children that a document belongs to
    cost      float32 (pairs,), C of each pair; 0 leaves it out
    negative  uint32 (n,), bits of the children that a document is no example of unless it is listed
    """

    document: Ints
    copy: Ints
    start: Longs
    lane: Ints
    cost: Floats
    negative: NDArray[np.uint32]


class Workspace(NamedTuple):
    """What a thread uses again for problem after problem; kernels leave it as they found it, all zeros.

    slot     int32 (features,), the row of weights of each feature
    weights  float32 (rows, lanes)
    touched  int32 (rows,), the feature of each row of weights
    marks    what features are sorted with
    """

    slot: Ints
    weights: Floats
    touched: Ints
    marks: NDArray[np.uint64]


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
def solve(
    documents: Reading,
    problem: Problem,
    noise: NoiseArrays | None,
    options: SolverOptions,
    seed: int,
    work: Workspace,
    lanes: tuple[int, ...],
) -> int:
    """Leaves the separators in the workspace, and gives the number of its rows that are in use.

    noise  what copies are drawn from, None if there are none

    Every array has a name of its own before the loops: taken out of a tuple within them, each would be counted as one
    more reference, and given back, at every visit.
    """
    document, copy, pair_start = problem.document, problem.copy, problem.start
    pair_lane, pair_cost, negative = problem.lane, problem.cost, problem.negative
    slot, weights, touched = work.slot, work.weights, work.touched
    rows, norms = documents
    row_start, row_indices, row_values = rows.start, rows.indices, rows.values
    n, width = len(document), len(lanes)
    if noise is None:
        indices, values = row_indices, row_values
    else:  # what is looked at is written here first
        longest = 0
        for i in range(n):
            longest = max(longest, row_start[document[i] + 1] - row_start[document[i]])
        indices, values = np.zeros(longest, dtype=np.int32), np.zeros(longest, dtype=np.float32)
    loss, cost, eps = options.loss, np.float32(options.cost), np.float32(options.eps)
    half = np.float32(0.5) / cost
    beta = np.zeros((n, width), dtype=np.float32)
    z = np.zeros(width, dtype=np.float32)
    step = np.zeros(width, dtype=np.float32)
    state = np.array([np.uint64(seed) | np.uint64(1)], dtype=np.uint64)
    order = np.empty(n, dtype=np.int32)
    # those that belong to a child come first: the others then meet separators worth correcting
    low, high = 0, n
    for i in range(n):
        if pair_start[i + 1] > pair_start[i]:
            order[low] = i
            low += 1
        else:
            high -= 1
            order[high] = i
    shuffle(order[:low], low, state)
    shuffle(order[low:], n - low, state)
    used = FIRST
    active = n
    far = noise is None and width <= NARROW and n >= FAR
    for number in range(options.max_passes):
        everyone = active == n
        if number > 0:
            shuffle(order, active, state)
        worst = np.float32(0)
        position = 0
        while position < active:
            if far and position + 4 * AHEAD < active:
                # a document's address leads to the next: each is asked for when the one before has come
                i = order[position + 4 * AHEAD]
                fetch(document, i)
                fetch(pair_start, i)
                fetch(negative, i)
                fetch(beta, np.int64(i) * width)
                row = document[order[position + 3 * AHEAD]]
                fetch(row_start, row)
                fetch(norms, row)
                i = order[position + 2 * AHEAD]
                row = document[i]
                for p in range(row_start[row], min(row_start[row + 1], row_start[row] + 64), 16):
                    fetch(row_indices, p)
                    fetch(row_values, p)
                fetch(pair_lane, pair_start[i])
                fetch(pair_cost, pair_start[i])
                row = document[order[position + AHEAD]]
                for p in range(row_start[row], min(row_start[row + 1], row_start[row] + 32)):
                    fetch(weights, np.int64(slot[row_indices[p]]) * width)
            i = order[position]
            row = document[i]
            start, stop = row_start[row], row_start[row + 1]
            if noise is not None:
                if copy[i] > 0:
                    stop = draw_copy(rows, noise, row, copy[i], indices, values)
                else:
                    for p in range(start, stop):
                        indices[p - start], values[p - start] = row_indices[p], row_values[p]
                    stop -= start
                start = 0
            norm = norms[row]
            for j in range(width):
                z[j] = weights[BIAS, j]
            add_rows(weights, slot, indices, values, start, stop, z, lanes)
            largest = np.float32(0)
            if loss == SQUARED_HINGE:
                largest = negative_steps(z, beta, i, negative[i], half, np.float32(1) / (norm + half), step, lanes)
            else:
                for j in range(width):
                    step[j] = 0
                    if (negative[i] >> np.uint32(j)) & np.uint32(1):
                        step[j] = logistic_step(z[j], beta[i, j], np.float32(-1), cost, norm)
                        largest = max(largest, abs(step[j]))
            if pair_start[i + 1] > pair_start[i]:
                for q in range(pair_start[i], pair_start[i + 1]):
                    j = pair_lane[q]
                    step[j] = positive_step(z[j], beta[i, j], pair_cost[q], norm, loss)
                largest = np.float32(0)
                for j in range(width):
                    largest = max(largest, abs(step[j]))
            violation = largest * (norm + half)
            if violation > np.float32(LET_BE) * eps:
                for p in range(start, stop):
                    f = indices[p]
                    if slot[f] == ZEROS:
                        slot[f] = used
                        touched[used] = f
                        used += 1
                for j in range(width):
                    beta[i, j] += step[j]
                    weights[BIAS, j] += step[j]
                add_to_rows(weights, slot, indices, values, start, stop, step, lanes)
            worst = max(worst, violation)
            if violation < np.float32(RESTING) * eps:
                active -= 1
                order[position], order[active] = order[active], order[position]
            else:
                position += 1
        if worst <= eps:
            if everyone:
                break
            active = n  # those at rest are looked at once more before the problem is called done
        elif active == 0:
            active = n
    return used


@njit(nogil=True, cache=True)
def features_kept(work: Workspace, used: int, prune: float, lanes: tuple[int, ...]) -> tuple[Ints, NDArray[np.uint32]]:
    """The features with a weight above the threshold in size, rising, and the bits of the lanes that have one."""
    slot, weights, touched = work.slot, work.weights, work.touched
    of_row = np.empty(used, dtype=np.uint32)
    features = np.empty(used - FIRST, dtype=np.int32)
    count = 0
    for r in range(FIRST, used):
        of_row[r] = larger_than(weights, r, prune, lanes)
        features[count] = touched[r]
        count += of_row[r] != 0
    features = features[:count].copy()
    sort_distinct(features, work.marks)
    bits = np.empty(count, dtype=np.uint32)
    for a in range(count):
        bits[a] = of_row[slot[features[a]]]
    return features, bits


@njit(nogil=True, cache=True)
def sparse_weights(
    work: Workspace, kept: Ints, bits: NDArray[np.uint32], low: int, high: int, prune: float
) -> tuple[Ints, Ints, Shorts, Floats, Floats]:
    """The weights of lanes low..high as sparse rows, of what `features_kept` has found.

    Features that have any, their numbers of weights, lanes counted from low, weights, and the biases (high - low,).
    """
    slot, weights = work.slot, work.weights
    own = np.uint32(
        ((np.uint64(1) << np.uint64(high)) - np.uint64(1)) & ~((np.uint64(1) << np.uint64(low)) - np.uint64(1))
    )
    size, count = 0, 0
    for a in range(len(kept)):
        left = bits[a] & own
        count += left != 0
        size += ones(left)
    features = np.empty(count, dtype=np.int32)
    length = np.empty(count, dtype=np.int32)
    column = np.empty(size, dtype=np.uint16)
    weight = np.empty(size, dtype=np.float32)
    size, count = 0, 0
    for a in range(len(kept)):
        left = bits[a] & own
        if left == 0:
            continue
        begin, row = size, slot[kept[a]]
        while left != 0:
            lane = np.int64(lowest_one(left))
            left &= left - np.uint32(1)
            column[size] = lane - low
            weight[size] = weights[row, lane]
            size += 1
        features[count] = kept[a]
        length[count] = size - begin
        count += 1
    bias = np.zeros(high - low, dtype=np.float32)
    for j in range(low, high):
        if abs(weights[BIAS, j]) > prune:
            bias[j - low] = weights[BIAS, j]
    return features, length, column, weight, bias


@njit(nogil=True, cache=True)
def clear(work: Workspace, used: int) -> None:
    """Leaves the workspace as it was before a problem was solved."""
    slot, touched = work.slot, work.touched
    for r in range(FIRST, used):
        slot[touched[r]] = ZEROS
    work.weights[BIAS:used] = 0
