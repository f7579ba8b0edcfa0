"""A step of Adam on some rows of a table of words or labels, as numbers in memory."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from longtail.arrays import Floats, Longs, njit

#: How far Adam's moments stay at a step, and what keeps it from dividing by 0.
BETAS, EPS = (0.9, 0.999), 1e-8


class Pace(NamedTuple):
    """Which step it is, from 1, its learning rate, and the weight decay."""

    step: int
    lr: float
    decay: float = 0.0


class Tables(NamedTuple):
    """A parameter with a row per word or label, and Adam's moments of it."""

    weights: Floats
    mean: Floats
    square: Floats


class Numbers(NamedTuple):
    """The numbers of one step of Adam: how far either moment stays, the rate and scale of this step, eps, decay."""

    first: float
    second: float
    rate: float
    scale: float
    eps: float
    decay: float


@njit(nogil=True, cache=True, fastmath=True, error_model="numpy")
def adam_step(tables: Tables, rows: Longs, gradient: Floats, numbers: Numbers) -> None:
    """One step of Adam on some rows, in one pass over memory: torch's operations take eight.

    numpy's way with a division by 0, which is a number and no error, lets it divide several numbers at once.
    """
    weights, means, squares = tables.weights, tables.mean, tables.square
    keep, add = np.float32(numbers.first), np.float32(1 - numbers.first)
    keep_square, add_square = np.float32(numbers.second), np.float32(1 - numbers.second)
    step, by = np.float32(numbers.rate), np.float32(1 / numbers.scale)
    floor, shrink = np.float32(numbers.eps), np.float32(numbers.decay)
    for i in range(len(rows)):
        w, m, v, g = weights[rows[i]], means[rows[i]], squares[rows[i]], gradient[i]
        for j in range(len(g)):
            m[j] = keep * m[j] + add * g[j]
            v[j] = keep_square * v[j] + add_square * g[j] * g[j]
            w[j] -= step * m[j] / (np.sqrt(v[j]) * by + floor) + shrink * w[j]


def update_rows(tables: Tables, rows: Longs, gradient: Floats, at: Pace) -> None:
    """A step on rows (R,) with gradients (R, width), each row once."""
    first, second = BETAS
    rate, scale = at.lr / (1 - first**at.step), (1 - second**at.step) ** 0.5
    adam_step(tables, rows, gradient, Numbers(first, second, rate, scale, EPS, at.decay * at.lr))
