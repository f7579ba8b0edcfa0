"""ProXML (https://arxiv.org/abs/1803.01570, Babbar & Schölkopf 2019): one-vs-all with sparse separators.

    min_w  sum_i C_i loss(y_i w.x_i) + lambda |w|_1,   loss = max(0, 1 - m)^2 (squared hinge) or log(1 + exp(-m)),

the bias being one more feature of value 1, penalised like the others. The sum over labels is a Hamming loss: every
label is a problem of its own. An L1 norm is what is left of the worst change that an adversary can make to features,
and few features carry what is known of a rare label.

ProXML's code takes steps of proximal gradients; here weights are set one by one (coordinate descent, as LIBLINEAR's
solver 5 has it), which finds the same minimum sooner. A label starts from its bias alone. Features whose gradient at 0
outweighs the penalty are then worked on until none of them violates the optimum, all features are looked at again, and
so on until none is found. So a label takes memory for the weights it has; a thread takes some numbers per feature and
per document, and nothing is sized features x labels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail.arrays import Bytes, Doubles, Floats, Ints, SparseRows, njit
from longtail.capabilities import Capabilities
from longtail.learners.linear.base import LOSSES
from longtail.learners.linear.kernels import SQUARED_HINGE, shuffle
from longtail.learners.linear.memory import sparse_labels
from longtail.learners.linear.nodes import Documents, NodeTask, Piece, Separators, Task
from longtail.learners.linear.one_vs_all import OneVsAll
from longtail.part import option
from longtail.plan import Sizes, Stage
from longtail.run import Run

#: Of the decrease that a Newton step promises, the share it must bring; halvings of a step that does not; the largest
#: step of one weight.
SIGMA, HALVINGS, LONGEST = 0.01, 20, 10.0
#: Maximum number of passes over the listed features before all are looked at again.
LOOK = 10
#: A weight of 0 whose gradient is below this share of the penalty is left alone until then.
RESTING = 0.8


@dataclass(kw_only=True)
class ProXML(OneVsAll):
    """Separators with few weights; scores as those of one-vs-all."""

    cost: float = option(1.0, "C, weight of the loss against the penalty (ProXML)", low=1e-6)
    penalty: float = option(0.1, "lambda, weight of the L1 norm of each separator (ProXML)", low=1e-6, high=1e6)
    eps: float = option(0.02, "stop when no weight's gradient violates the optimum by more", low=1e-6)
    max_passes: int = option(200, "maximum number of passes over the weights of a label", low=1)
    prune: float = option(0.0, "weights no larger are dropped; the penalty leaves few as it is", low=0)

    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, noise=False)

    def plan(self, sizes: Sizes, run: Run) -> list[Stage]:
        return sparse_labels(sizes, run)

    def solving(self, documents: Documents) -> tuple[Callable[[Any, Task], list[Piece]], Any]:
        options = SparseOptions(LOSSES[self.loss], self.cost, self.penalty, self.eps, self.max_passes)
        return solve_labels, (documents, columns_of(documents), options, self.prune)


class SparseOptions(NamedTuple):
    """How a label is solved: SQUARED_HINGE or LOGISTIC, C, lambda, when to stop."""

    loss: int
    cost: float
    penalty: float
    eps: float
    max_passes: int


class Room(NamedTuple):
    """What a task uses again for label after label.

    signed    float32 (documents,), C of each with the sign of its class; 0 leaves it out
    sums      float64 (documents,), w.x
    weights   float64 (features + 1,), the bias last; zeros between labels
    gradient  float32 (features,)
    listed    uint8 (features + 1,), whether a feature is being worked on; zeros between labels
    active    int32 (features + 1,), those that are
    """

    signed: Floats
    sums: Doubles
    weights: Doubles
    gradient: Floats
    listed: Bytes
    active: Ints

    @classmethod
    def of(cls, documents: int, features: int) -> Room:
        return cls(
            np.empty(documents, dtype=np.float32),
            np.empty(documents, dtype=np.float64),
            np.zeros(features + 1, dtype=np.float64),
            np.empty(features, dtype=np.float32),
            np.zeros(features + 1, dtype=np.uint8),
            np.empty(features + 1, dtype=np.int32),
        )


def columns_of(documents: Documents) -> SparseRows:
    """Documents by feature, and the bias as one more feature, which all have."""
    start, indices, values = documents.rows
    shape = (documents.count, documents.n_features)
    by_feature = sp.csr_matrix((values, indices, start), shape=shape).tocsc()
    everyone = np.arange(documents.count, dtype=np.int32)
    return SparseRows(
        np.append(by_feature.indptr, by_feature.nnz + documents.count).astype(np.int64),
        np.concatenate([by_feature.indices.astype(np.int32, copy=False), everyone]),
        np.concatenate([by_feature.data, np.ones(documents.count, dtype=np.float32)]),
    )


def solve_labels(training: tuple[Documents, SparseRows, SparseOptions, float], task: Task) -> list[Piece]:
    """The separators of a block of labels, one after the other."""
    documents, columns, options, prune = training
    assert isinstance(task, NodeTask)
    room = Room.of(documents.count, documents.n_features)
    own = documents.labels
    features, weights, bias = [], [], np.zeros(task.last - task.first, dtype=np.float32)
    for place in range(task.first, task.last):
        label = task.labels[place]
        these = slice(own.start[label], own.start[label + 1])
        found, weight = solve_label(
            documents.rows, columns, own.indices[these], own.values[these], options, task.seed + place, room
        )
        bias[place - task.first] = weight[-1] if abs(weight[-1]) > prune else 0
        kept = np.abs(weight[:-1]) > prune
        features.append(found[kept])
        weights.append(weight[:-1][kept])
    return [Piece(task.tree, task.node, task.first, _by_feature(features, weights, bias))]


def _by_feature(features: list[Ints], weights: list[Floats], bias: Floats) -> Separators:
    """The separators of a block, whose rows are features."""
    feature = np.concatenate(features)
    column = np.repeat(np.arange(len(features)), [len(each) for each in features]).astype(np.uint16)
    order = np.lexsort((column, feature))
    distinct, length = np.unique(feature, return_counts=True)
    weight = np.concatenate(weights)[order]
    return Separators(distinct.astype(np.int32), length.astype(np.int32), column[order], weight, bias)


@njit(nogil=True, cache=True)
def _slopes(loss: int, sum_: float, signed: float) -> tuple[float, float]:
    """First and second derivative of C loss(y s) in the sum s."""
    sign, cost = (1.0, signed) if signed > 0 else (-1.0, -signed)
    margin = sign * sum_
    if loss == SQUARED_HINGE:
        return (-2 * cost * sign * (1 - margin), 2 * cost) if margin < 1 else (0.0, 0.0)
    share = 1 / (1 + np.exp(margin))
    return -cost * sign * share, cost * share * (1 - share)


@njit(nogil=True, cache=True)
def _loss(loss: int, sum_: float, signed: float) -> float:
    margin = sum_ if signed > 0 else -sum_
    if loss == SQUARED_HINGE:
        return abs(signed) * (1 - margin) ** 2 if margin < 1 else 0.0
    return abs(signed) * (np.log1p(np.exp(-margin)) if margin > 0 else np.log1p(np.exp(margin)) - margin)


@njit(nogil=True, cache=True)
def _violation(gradient: float, weight: float, penalty: float) -> float:
    """How far the smallest subgradient of a weight is from 0."""
    if weight > 0:
        return abs(gradient + penalty)
    if weight < 0:
        return abs(gradient - penalty)
    return max(0.0, abs(gradient) - penalty)


@njit(nogil=True, cache=True)
def _step(columns: SparseRows, feature: int, options: SparseOptions, room: Room) -> tuple[float, float]:
    """One Newton step of one weight, shortened until it pays; its gradient before, and how far it violated."""
    start, indices, values = columns
    signed, sums, weights = room.signed, room.sums, room.weights
    loss, penalty = options.loss, options.penalty
    first, last = start[feature], start[feature + 1]
    gradient, curvature, most = 0.0, 1e-12, 0.0
    for p in range(first, last):
        i, x = indices[p], values[p]
        if signed[i] != 0:
            slope, bend = _slopes(loss, sums[i], signed[i])
            gradient += slope * x
            curvature += bend * x * x
            most += abs(signed[i]) * x * x
    weight = weights[feature]
    violation = _violation(gradient, weight, penalty)
    if violation == 0:
        return gradient, violation
    if gradient + penalty < curvature * weight:
        step = -(gradient + penalty) / curvature
    elif gradient - penalty > curvature * weight:
        step = -(gradient - penalty) / curvature
    else:
        step = -weight
    step = min(max(step, -LONGEST), LONGEST)
    # of the second derivative's bound in a document's sum, half: 1 for the squared hinge, 1/8 for the logistic loss
    most *= 1.0 if loss == SQUARED_HINGE else 0.125
    promised = gradient * step + penalty * (abs(weight + step) - abs(weight))
    for _ in range(HALVINGS):
        wanted = penalty * (abs(weight + step) - abs(weight)) - SIGMA * promised
        change = most * step * step + gradient * step
        if change + wanted > 0:
            change = 0.0
            for p in range(first, last):
                i = indices[p]
                if signed[i] != 0:
                    change += _loss(loss, sums[i] + step * values[p], signed[i]) - _loss(loss, sums[i], signed[i])
        if change + wanted <= 0:
            for p in range(first, last):
                sums[indices[p]] += step * values[p]
            weights[feature] = weight + step
            break
        step *= 0.5
        promised *= 0.5
    return gradient, violation


@njit(nogil=True, cache=True)
def _all_gradients(rows: SparseRows, options: SparseOptions, room: Room) -> None:
    """Of every feature; documents beyond the margin have no say and are passed over."""
    start, indices, values = rows
    signed, sums, gradient, loss = room.signed, room.sums, room.gradient, options.loss
    gradient[:] = 0
    for i in range(len(sums)):
        if signed[i] == 0:
            continue
        slope = np.float32(_slopes(loss, sums[i], signed[i])[0])
        if slope != 0:
            for p in range(start[i], start[i + 1]):
                gradient[indices[p]] += slope * values[p]


@njit(nogil=True, cache=True)
def solve_label(
    rows: SparseRows,
    columns: SparseRows,
    own: Ints,
    strength: Floats,
    options: SparseOptions,
    seed: int,
    room: Room,
) -> tuple[Ints, NDArray[np.float32]]:
    """Features that have a weight, rising, and their weights with the bias behind them.

    own, strength  documents of the label, and how surely; 0 leaves one out
    """
    weights, listed, active = room.weights, room.listed, room.active
    bias = len(weights) - 1
    room.signed[:] = -options.cost
    for q in range(len(own)):
        room.signed[own[q]] = options.cost * strength[q]
    room.sums[:] = 0
    state = np.array([np.uint64(seed) | np.uint64(1)], dtype=np.uint64)
    active[0], size, listed[bias] = bias, 1, 1
    passes, worst = 0, 0.0
    while passes < options.max_passes:
        # those that are listed, until none violates the optimum; one that rests at 0 for good waits for the next look
        for _ in range(min(LOOK, options.max_passes - passes)):
            shuffle(active, size, state)
            passes += 1
            worst, place = 0.0, 0
            while place < size:
                feature = active[place]
                gradient, violation = _step(columns, feature, options, room)
                worst = max(worst, violation)
                rests = weights[feature] == 0 and abs(gradient) < RESTING * options.penalty
                if rests and feature != bias:
                    size -= 1
                    listed[feature] = 0
                    active[place] = active[size]
                else:
                    place += 1
            if worst <= options.eps:
                break
        _all_gradients(rows, options, room)
        before = size
        for feature in range(bias):
            if not listed[feature] and abs(room.gradient[feature]) > options.penalty + options.eps:
                listed[feature] = 1
                active[size] = feature
                size += 1
        if size == before and worst <= options.eps:
            break
    features = np.empty(size, dtype=np.int32)
    count = 0
    for place in range(size):
        listed[active[place]] = 0
        if active[place] != bias and weights[active[place]] != 0:
            features[count] = active[place]
            count += 1
    features = features[:count].copy()
    features.sort()
    found = np.empty(count + 1, dtype=np.float32)
    for place in range(count):
        found[place] = weights[features[place]]
        weights[features[place]] = 0
    found[count] = weights[bias]
    weights[bias] = 0
    return features, found
