"""The label correlation graph (ECLARE, https://arxiv.org/abs/2108.00261): how often a walk from a label meets others.

A hop goes from a label to one of its documents and on to one of that document's labels, both at random; before the
next hop the walk starts anew at its label with probability `restart`. A row of the graph holds the visits of one
label's walk: labels of the same documents above all, and labels of those labels' documents. Labels with very many
documents are left out, for they lead everywhere.

    random_walks      one walk a label, as published
    expected_visits   what such walks visit on average, without drawing any

Y holds the original documents only; a pair counts if its value is positive, whatever it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray

from longtail.arrays import Floats, Ints, Longs
from longtail.run import Run

#: How the visits are found.
KINDS = ("expected", "walk")
#: Labels of a task; tasks depend on the data only, so that the result does not depend on the number of threads.
CHUNK = 2048
#: A label's share of a walk that is followed further, for each of its documents; see `expected_visits`.
PRECISION = 3e-4

Doubles = NDArray[np.float64]
Rows = tuple[Longs, Ints, Floats]


def label_graph(
    Y: sp.csr_matrix,
    kind: str = "expected",
    *,
    hops: int = 400,
    restart: float = 0.8,
    most: int = 10,
    head: int = 500,
    seed: int = 0,
    run: Run | None = None,
) -> sp.csr_matrix:
    """csr float32 (L, L): visits of label m by the walk of label l, the diagonal always there."""
    if kind not in KINDS:
        raise ValueError(f"a label graph is one of {KINDS}, not '{kind}'")
    if kind == "walk":
        return random_walks(Y, hops=hops, restart=restart, most=most, head=head, seed=seed, run=run)
    return expected_visits(Y, hops=hops, restart=restart, most=most, head=head, run=run)


def random_walks(
    Y: sp.csr_matrix,
    *,
    hops: int = 400,
    restart: float = 0.8,
    most: int = 10,
    head: int = 500,
    seed: int,
    run: Run | None = None,
) -> sp.csr_matrix:
    """csr float32 (L, L): counted visits of one walk a label, its `most` largest and the diagonal.

    Labels with more than `head` documents are neither started from nor met: their row is a lone 1 on the diagonal, as
    is that of a label without documents. A walk that never meets its own label counts it once. What a walk draws
    follows from (seed, label) alone.
    """
    pairs = _Pairs.of(Y, head)

    def walk(low: int, high: int) -> Rows:
        return _walks(*pairs.arrays(), low, high, hops, restart, most, seed)

    return _in_chunks(pairs.n_labels, walk, run)


def expected_visits(
    Y: sp.csr_matrix,
    *,
    hops: int = 400,
    restart: float = 0.8,
    most: int = 10,
    head: int = 500,
    precision: float = PRECISION,
    run: Run | None = None,
) -> sp.csr_matrix:
    """csr float32 (L, L): the visits that `random_walks` counts on average, its `most` largest and the diagonal.

    With P = D_l^-1 Y' D_d^-1 Y (one hop) and q = 1 - restart, the hops of a walk from label l are spread over

        v_1 = e_l P,   v_t+1 = (restart e_l + q v_t) P,   sum_t v_t = sum_m q^(m-1) (1 + restart (hops - m)) e_l P^m

    and powers are soon negligible. A label j with n_j documents that the m-th hop meets with probability a is followed
    further if q^m a > precision n_j; if not, only what comes straight back to it is. As n_i P_ij = n_j P_ji, no label
    j loses more than precision n_j of the hops at each of the first log(precision) / log(q) powers, and the powers
    beyond hold no more than precision of the hops; with precision 0 nothing is lost.
    """
    pairs = _Pairs.of(Y, head)
    q = 1.0 - restart
    deep = hops if q == 1 else 1 if q == 0 else int(np.ceil(np.log(max(precision, 1e-12)) / np.log(q)))
    power = np.arange(1, min(max(deep, 1), hops) + 1)
    weight = q ** (power - 1.0) * (1 + restart * (hops - power))
    returning = pairs.returning()

    def spread(low: int, high: int) -> Rows:
        return _expected(*pairs.arrays(), returning, low, high, weight, q, precision, most)

    return _in_chunks(pairs.n_labels, spread, run)


def propagation(graph: sp.csr_matrix) -> sp.csr_matrix:
    """csr float32 (L, L): D_r^-1/2 W D_c^-1/2 with the sums of rows and columns, for passing values along edges."""
    rows = np.sqrt(np.maximum(np.asarray(graph.sum(axis=1), dtype=np.float64).ravel(), 1e-30))
    columns = np.sqrt(np.maximum(np.asarray(graph.sum(axis=0), dtype=np.float64).ravel(), 1e-30))
    values = graph.data / np.repeat(rows, np.diff(graph.indptr)) / columns[graph.indices]
    return sp.csr_matrix((values.astype(np.float32), graph.indices.copy(), graph.indptr.copy()), shape=graph.shape)


def soft_annotations(graph: sp.csr_matrix, threshold: float = 0.1) -> sp.csr_matrix:
    """csr float32 (L, L): rows divided by their diagonal, at most 1; what is not above the threshold is left out.

    The diagonal is left out, too: that a label's text is annotated with the label itself goes without saying.
    """
    row = np.repeat(np.arange(graph.shape[0]), np.diff(graph.indptr))
    values = np.minimum(graph.data / graph.diagonal()[row], np.float32(1))
    kept = (values > threshold) & (row != graph.indices)
    indptr = np.concatenate([[0], np.cumsum(kept)])[graph.indptr]
    return sp.csr_matrix((values[kept].astype(np.float32), graph.indices[kept], indptr), shape=graph.shape)


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Documents of each label and labels of each document, labels with too many documents left out."""

    document_start: Longs
    document_labels: Ints
    label_start: Longs
    label_documents: Ints

    @classmethod
    def of(cls, Y: sp.csr_matrix, head: int) -> _Pairs:
        count = np.bincount(Y.indices[Y.data > 0], minlength=Y.shape[1])
        kept = (Y.data > 0) & (count <= head)[Y.indices]
        start = np.concatenate([[0], np.cumsum(kept)])[Y.indptr]
        labels = Y.indices[kept].astype(np.int32)
        document = np.repeat(np.arange(Y.shape[0], dtype=np.int32), np.diff(start))
        label_start = np.concatenate([[0], np.cumsum(np.bincount(labels, minlength=Y.shape[1]))])
        order = np.argsort(labels, kind="stable")
        return cls(start.astype(np.int64), labels, label_start.astype(np.int64), document[order])

    @property
    def n_labels(self) -> int:
        return len(self.label_start) - 1

    def arrays(self) -> tuple[Longs, Ints, Longs, Ints]:
        return self.document_start, self.document_labels, self.label_start, self.label_documents

    def returning(self) -> Doubles:
        """float64 (L,): the diagonal of P, how likely a hop from a label ends where it began."""
        share = 1 / np.maximum(np.diff(self.document_start), 1)
        label = np.repeat(np.arange(self.n_labels), np.diff(self.label_start))
        total = np.bincount(label, weights=share[self.label_documents], minlength=self.n_labels)
        return np.asarray(total / np.maximum(np.diff(self.label_start), 1), dtype=np.float64)


def _in_chunks(n_labels: int, rows_of: Callable[[int, int], Rows], run: Run | None) -> sp.csr_matrix:
    """The rows of all labels, found chunk by chunk on the run's threads."""
    starts = range(0, max(n_labels, 1), CHUNK)
    parts = (run or Run()).map(lambda low: rows_of(low, min(low + CHUNK, n_labels)), starts, title="Label graph")
    lengths = np.concatenate([np.zeros(1, dtype=np.int64), *(np.diff(part[0]) for part in parts)])
    return sp.csr_matrix(
        (np.concatenate([part[2] for part in parts]), np.concatenate([part[1] for part in parts]), np.cumsum(lengths)),
        shape=(n_labels, n_labels),
    )


@njit(nogil=True, cache=True)
def _mixed(x: np.uint64) -> np.uint64:
    """splitmix64's finisher: neighbouring numbers give unrelated ones."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@njit(nogil=True, cache=True)
def _largest(label: int, met: Ints, values: Doubles, most: int, out_labels: Ints, out_values: Floats) -> int:
    """Writes the `most` largest of a label's visits (ties by number), and its own, by rising label; how many there are.

    met     the labels visited, in any order
    values  (L,), the visits, which are set back to 0
    """
    size = 0
    for j in met:
        value = np.float32(values[j])
        if size == most:
            if value < out_values[size - 1] or (value == out_values[size - 1] and j > out_labels[size - 1]):
                continue
            at = size - 1
        else:
            at = size
            size += 1
        while at > 0 and (out_values[at - 1] < value or (out_values[at - 1] == value and out_labels[at - 1] > j)):
            out_values[at] = out_values[at - 1]
            out_labels[at] = out_labels[at - 1]
            at -= 1
        out_values[at] = value
        out_labels[at] = j
    own = False
    for at in range(size):
        own = own or out_labels[at] == label
    if not own:
        out_labels[size] = label
        out_values[size] = np.float32(values[label]) if values[label] > 0 else np.float32(1)
        size += 1
    for j in met:
        values[j] = 0
    order = np.argsort(out_labels[:size])
    out_values[:size] = out_values[:size][order]
    out_labels[:size] = out_labels[:size][order]
    return size


@njit(nogil=True, cache=True)
def _walks(
    document_start: Longs,
    document_labels: Ints,
    label_start: Longs,
    label_documents: Ints,
    low: int,
    high: int,
    hops: int,
    restart: float,
    most: int,
    seed: int,
) -> Rows:
    """Rows low..high of the graph, one walk each."""
    n_labels = len(label_start) - 1
    visits = np.zeros(n_labels, dtype=np.float64)
    met = np.empty(min(hops, n_labels), dtype=np.int32)
    starts = np.zeros(high - low + 1, dtype=np.int64)
    labels = np.empty((high - low) * (most + 1), dtype=np.int32)
    values = np.empty((high - low) * (most + 1), dtype=np.float32)
    step = np.uint64(0x9E3779B97F4A7C15)
    again = np.uint64(restart * 9007199254740992.0)  # 2^53
    size = 0
    for label in range(low, high):
        n_met = 0
        if label_start[label + 1] > label_start[label]:
            state = _mixed(np.uint64(seed) + step * np.uint64(label + 1))
            here = label
            for hop in range(hops):
                if hop > 0:
                    state += step
                    if (_mixed(state) >> np.uint64(11)) < again:
                        here = label
                state += step
                drawn = _mixed(state)
                # the two halves of a number draw twice; the product's upper part is an even draw without a division
                n_documents = np.uint64(label_start[here + 1] - label_start[here])
                place = ((drawn >> np.uint64(32)) * n_documents) >> np.uint64(32)
                document = label_documents[label_start[here] + np.int64(place)]
                n_own = np.uint64(document_start[document + 1] - document_start[document])
                place = ((drawn & np.uint64(0xFFFFFFFF)) * n_own) >> np.uint64(32)
                here = document_labels[document_start[document] + np.int64(place)]
                if visits[here] == 0:
                    met[n_met] = here
                    n_met += 1
                visits[here] += 1
        size += _largest(label, met[:n_met], visits, most, labels[size:], values[size:])
        starts[label - low + 1] = size
    return starts, labels[:size].copy(), values[:size].copy()


@njit(nogil=True, cache=True)
def _expected(
    document_start: Longs,
    document_labels: Ints,
    label_start: Longs,
    label_documents: Ints,
    returning: Doubles,
    low: int,
    high: int,
    weight: Doubles,
    q: float,
    precision: float,
    most: int,
) -> Rows:
    """Rows low..high of the graph; weight[m - 1] is what the m-th power of P counts for."""
    n_labels = len(label_start) - 1
    visits = np.zeros(n_labels, dtype=np.float64)
    met = np.empty(n_labels, dtype=np.int32)
    now = np.zeros(n_labels, dtype=np.float64)
    here = np.empty(n_labels, dtype=np.int32)
    later = np.zeros(n_labels, dtype=np.float64)
    there = np.empty(n_labels, dtype=np.int32)
    starts = np.zeros(high - low + 1, dtype=np.int64)
    labels = np.empty((high - low) * (most + 1), dtype=np.int32)
    values = np.empty((high - low) * (most + 1), dtype=np.float32)
    size = 0
    for label in range(low, high):
        n_met, n_here = 0, 0
        if label_start[label + 1] > label_start[label]:
            here[0], now[label], n_here = label, 1.0, 1
        fading = 1.0  # q to the power of the hops so far without a new start
        for m in range(len(weight)):
            n_there = 0
            for place in range(n_here):
                i = here[place]
                a = now[i]
                now[i] = 0
                n_documents = label_start[i + 1] - label_start[i]
                if m > 0 and fading * a <= precision * n_documents:
                    if fading * a > precision:
                        if later[i] == 0:
                            there[n_there] = i
                            n_there += 1
                        later[i] += a * returning[i]
                    continue
                a /= n_documents
                for p in range(label_start[i], label_start[i + 1]):
                    begin, end = document_start[label_documents[p]], document_start[label_documents[p] + 1]
                    share = a / (end - begin)
                    for r in range(begin, end):
                        j = document_labels[r]
                        if later[j] == 0:
                            there[n_there] = j
                            n_there += 1
                        later[j] += share
            for place in range(n_there):
                j = there[place]
                if visits[j] == 0:
                    met[n_met] = j
                    n_met += 1
                visits[j] += weight[m] * later[j]
            here, there = there, here
            now, later = later, now
            n_here = n_there
            fading *= q
        for place in range(n_here):
            now[here[place]] = 0
        size += _largest(label, met[:n_met], visits, most, labels[size:], values[size:])
        starts[label - low + 1] = size
    return starts, labels[:size].copy(), values[:size].copy()
