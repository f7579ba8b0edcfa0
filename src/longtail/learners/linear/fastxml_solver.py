"""L1-regularised logistic regression for the nodes of FastXML's trees.

    min_w  |w|_1 + sum_i C_i log(1 + exp(-y_i w.x_i)),   C_i = C / (share of i's side)

by Newton steps whose quadratic model is solved by coordinate descent (newGLMNET, Yuan, Ho & Lin 2012). The bias is one
more feature of value 1 and is regularised as the others are.

Most features never take part. At any w the derivative of the loss in one weight lies between two sums over the
documents, each the worst that all probabilities together could do. A feature whose sums both stay within 1 has weight
0 at the optimum, and `candidates` leaves it out before anything is solved: near the leaves hardly any is left.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from longtail.arrays import Bools, Floats, Ints, Longs, SparseRows, njit
from longtail.learners.linear.kernels import next_random

#: Weights at 0 whose derivative is at most this rest until the others have converged.
RESTING = 0.5
NEVER = 1e30


class Sides(NamedTuple):
    """The two sides that a separator tells apart: bool (documents,), and C of the documents of each."""

    positive: Bools
    cost_positive: float
    cost_negative: float


class Columns(NamedTuple):
    """The features that may have a weight, by column; the last column is the bias and no feature.

    features  int32, rising
    start     int64 (columns + 1,), rows and values: the documents with the feature, and how much of it they have
    slope     float32 (columns,), derivative of the loss in each weight at w = 0
    """

    features: Ints
    start: Longs
    rows: Ints
    values: Floats
    slope: Floats


class L1Options(NamedTuple):
    """When a separator is done.

    eps         its violations have fallen to this share of what they were at w = 0
    max_newton  Newton steps at most
    max_passes  passes of coordinate descent within each, at most
    """

    eps: float
    max_newton: int
    max_passes: int


@njit(nogil=True, cache=True)
def candidates(rows: SparseRows, chosen: Ints, sides: Sides, bounds: Floats, slot: Ints) -> Columns:
    """The features of some rows that may have a weight; column entries are numbered as the chosen rows are.

    bounds  float32 (D, 2), zeros, and left so
    slot    int32 (D,), zeros, and left so
    """
    size = 0
    for row in chosen:
        size += rows.start[row + 1] - rows.start[row]
    seen = np.empty(min(size, len(slot)), dtype=np.int32)
    n_seen = 0
    for i in range(len(chosen)):
        side = 0 if sides.positive[i] else 1
        cost = np.float32(sides.cost_positive if sides.positive[i] else sides.cost_negative)
        for p in range(rows.start[chosen[i]], rows.start[chosen[i] + 1]):
            f, v = rows.indices[p], rows.values[p]
            if slot[f] == 0:
                seen[n_seen] = f
                n_seen += 1
            slot[f] += 1
            if v >= 0:
                bounds[f, side] += cost * v
            else:
                bounds[f, 1 - side] -= cost * v
    kept = 0
    for a in range(n_seen):
        f = seen[a]
        if bounds[f, 0] > 1 or bounds[f, 1] > 1:
            seen[a], seen[kept] = seen[kept], seen[a]
            kept += 1
    used = seen[:kept].copy()
    used.sort()
    start = np.zeros(kept + 2, dtype=np.int64)
    slope = np.zeros(kept + 1, dtype=np.float32)
    for a in range(kept):
        f = used[a]
        start[a + 1] = start[a] + slot[f]
        slope[a] = np.float32(0.5) * (bounds[f, 1] - bounds[f, 0])
    start[kept + 1] = start[kept] + len(chosen)
    for a in range(n_seen):
        slot[seen[a]] = 0
        bounds[seen[a], 0] = 0
        bounds[seen[a], 1] = 0
    n_positive = 0
    for i in range(len(chosen)):
        n_positive += sides.positive[i]
    slope[kept] = np.float32(0.5) * (
        sides.cost_negative * (len(chosen) - n_positive) - sides.cost_positive * n_positive
    )
    column_row = np.empty(start[kept + 1], dtype=np.int32)
    column_value = np.empty(start[kept + 1], dtype=np.float32)
    for a in range(kept):
        slot[used[a]] = a + 1
    end = start[: kept + 1].copy()
    if kept > 0:
        for i in range(len(chosen)):
            for p in range(rows.start[chosen[i]], rows.start[chosen[i] + 1]):
                a = slot[rows.indices[p]] - 1
                if a >= 0:
                    column_row[end[a]] = i
                    column_value[end[a]] = rows.values[p]
                    end[a] += 1
    for i in range(len(chosen)):
        column_row[end[kept] + i] = i
        column_value[end[kept] + i] = 1
    for a in range(kept):
        slot[used[a]] = 0
    return Columns(used, start, column_row, column_value, slope)


@njit(nogil=True, cache=True, fastmath=True)
def _dot(rows: Ints, values: Floats, start: int, stop: int, other: Floats) -> np.float32:
    total = np.float32(0)
    for p in range(start, stop):
        total += values[p] * other[rows[p]]
    return total


@njit(nogil=True, cache=True, fastmath=True)
def _slope_and_curvature(
    rows: Ints, values: Floats, start: int, stop: int, residual: Floats, curvature: Floats
) -> tuple[np.float32, np.float32]:
    g, h = np.float32(0), np.float32(0)
    for p in range(start, stop):
        g += values[p] * residual[rows[p]]
        h += values[p] * values[p] * curvature[rows[p]]
    return g, h


@njit(nogil=True, cache=True)
def _add(rows: Ints, values: Floats, start: int, stop: int, step: np.float32, out: Floats) -> None:
    for p in range(start, stop):
        out[rows[p]] += step * values[p]


@njit(nogil=True, cache=True)
def _loss(z: Floats, sides: Sides) -> float:
    total = 0.0
    for i in range(len(z)):
        m = np.float64(z[i]) if sides.positive[i] else -np.float64(z[i])
        value = np.log1p(np.exp(-abs(m))) + max(0.0, -m)
        total += value * (sides.cost_positive if sides.positive[i] else sides.cost_negative)
    return total


@njit(nogil=True, cache=True)
def _violation(w: np.float32, g: np.float32) -> np.float32:
    """How far a weight is from its optimum: the least size of a subgradient."""
    if w > 0:
        return abs(g + np.float32(1))
    if w < 0:
        return abs(g - np.float32(1))
    return max(np.float32(0), abs(g) - np.float32(1))


@njit(nogil=True, cache=True)
def solve_l1(columns: Columns, sides: Sides, options: L1Options, state: NDArray[np.uint64]) -> Floats:
    """Weights of the columns, float32 (columns,)."""
    start, rows, values, slope = columns.start, columns.rows, columns.values, columns.slope
    positive = sides.positive
    n, m = len(positive), len(start) - 1
    w = np.zeros(m, dtype=np.float32)
    first_norm = np.float32(0)
    for j in range(m):
        first_norm += _violation(w[j], slope[j])
    if first_norm <= 0:
        return w
    z = np.zeros(n, dtype=np.float32)  # w.x
    moved = np.zeros(n, dtype=np.float32)  # z after the step
    residual = np.zeros(n, dtype=np.float32)  # derivative of the loss in z
    curvature = np.zeros(n, dtype=np.float32)
    pull = np.zeros(n, dtype=np.float32)  # curvature times the change of z so far
    change = np.zeros(n, dtype=np.float32)
    g = slope.copy()
    h = np.zeros(m, dtype=np.float32)
    aim = np.zeros(m, dtype=np.float32)  # w after a full step
    order = np.arange(m).astype(np.int32)
    inner = np.arange(m).astype(np.int32)
    loss = _loss(z, sides)
    active = m
    slack = np.float32(RESTING)
    inner_eps = np.float32(1)
    newton = 0
    fresh = True  # g is known for w = 0
    while newton < options.max_newton:
        for i in range(n):
            cost = np.float32(sides.cost_positive if positive[i] else sides.cost_negative)
            p = np.float32(1) / (np.float32(1) + np.exp(-z[i]))
            residual[i] = cost * (p - np.float32(1)) if positive[i] else cost * p
            curvature[i] = cost * p * (np.float32(1) - p)
        everyone = active == m
        norm, worst = np.float32(0), np.float32(0)
        position = 0
        while position < active:
            j = order[position]
            if not fresh or abs(g[j]) >= np.float32(1) - slack:
                g[j], h[j] = _slope_and_curvature(rows, values, start[j], start[j + 1], residual, curvature)
            if w[j] == 0 and abs(g[j]) < np.float32(1) - slack:
                active -= 1
                order[position], order[active] = order[active], order[position]
                continue
            violation = _violation(w[j], g[j])
            norm += violation
            worst = max(worst, violation)
            position += 1
        fresh = False
        if norm <= options.eps * first_norm:
            if everyone:
                break
            active = m  # those at rest are looked at once more
            slack = np.float32(RESTING)
            continue
        slack = min(np.float32(RESTING), worst / np.float32(n))

        for a in range(active):
            j = order[a]
            aim[j] = w[j]
            inner[a] = j
        pull[:] = 0
        inner_active = active
        inner_slack = np.float32(NEVER)
        passes = 0
        while passes < options.max_passes:
            for a in range(inner_active - 1, 0, -1):
                b = np.int64(next_random(state) % np.uint64(a + 1))
                inner[a], inner[b] = inner[b], inner[a]
            inner_norm, inner_worst = np.float32(0), np.float32(0)
            position = 0
            whole = inner_active == active
            while position < inner_active:
                j = inner[position]
                G = g[j] + _dot(rows, values, start[j], start[j + 1], pull)
                H = max(h[j], np.float32(1e-10))
                if aim[j] == 0 and abs(G) < np.float32(1) - inner_slack:
                    inner_active -= 1
                    inner[position], inner[inner_active] = inner[inner_active], inner[position]
                    continue
                violation = _violation(aim[j], G)
                inner_norm += violation
                inner_worst = max(inner_worst, violation)
                if G + np.float32(1) < H * aim[j]:
                    step = -(G + np.float32(1)) / H
                elif G - np.float32(1) > H * aim[j]:
                    step = -(G - np.float32(1)) / H
                else:
                    step = -aim[j]
                step = min(max(step, np.float32(-10)), np.float32(10))
                if abs(step) > np.float32(1e-9):
                    aim[j] += step
                    for p in range(start[j], start[j + 1]):
                        pull[rows[p]] += step * values[p] * curvature[rows[p]]
                position += 1
            passes += 1
            if inner_norm <= inner_eps * first_norm:
                if whole:
                    break
                inner_active = active
                inner_slack = np.float32(NEVER)
            else:
                inner_slack = inner_worst / np.float32(n)
        if passes == 1:
            inner_eps *= np.float32(0.25)

        change[:] = 0
        fall = 0.0  # what the linear model promises
        for a in range(active):
            j = order[a]
            if aim[j] != w[j]:
                _add(rows, values, start[j], start[j + 1], aim[j] - w[j], change)
                fall += np.float64(g[j]) * (aim[j] - w[j]) + abs(aim[j]) - abs(w[j])
        length = np.float32(1)
        found = False
        for _ in range(20):
            size = 0.0
            for a in range(active):
                j = order[a]
                size += abs(w[j] + length * (aim[j] - w[j])) - abs(w[j])
            for i in range(n):
                moved[i] = z[i] + length * change[i]
            new_loss = _loss(moved, sides)
            if new_loss - loss + size <= 0.01 * length * fall:
                found = True
                break
            length *= np.float32(0.5)
        newton += 1
        if not found:
            break  # float32 sees no further descent
        loss = new_loss
        z, moved = moved, z
        for a in range(active):
            j = order[a]
            w[j] = aim[j] if length == 1 else w[j] + length * (aim[j] - w[j])
    return w
