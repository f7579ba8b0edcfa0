"""The label correlation graph (ECLARE, https://arxiv.org/abs/2108.00261): how often a walk from a label meets others.

A hop goes from a label to one of its documents and on to one of that document's labels, both at random; before the
next hop the walk starts anew at its label with probability `restart`. A row of the graph holds the visits of one
label's walk: labels of the same documents above all, and labels of those labels' documents. Labels with very many
documents are left out, for they lead everywhere.

    random_walks      one walk per label, as published
    expected_visits   what such walks visit on average, without drawing any

Y holds the original documents only; a pair counts if its value is positive, whatever it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypedDict, Unpack

import numpy as np
import scipy.sparse as sp

from longtail.arrays import Doubles, Floats, Ints, Longs, SparseRows, keep_best, mixed_bits, njit
from longtail.run import Run
from longtail.sparse import entries_kept, rows_of_pairs, starts_of

#: How the visits are found.
KINDS = ("expected", "walk")
#: What rows of the graph are divided by to make soft annotations of them.
DIVISORS = ("diagonal", "largest")
#: Labels of a task; tasks depend on the data only, so that the result does not depend on the number of threads.
CHUNK = 2048
#: A label's share of a walk that is followed further, for each of its documents; see `expected_visits`.
PRECISION = 3e-4


class Walk(TypedDict, total=False):
    """Options that both kinds of visits share, as `random_walks` explains them."""

    hops: int
    restart: float
    most: int
    head: int


def label_graph(
    Y: sp.csr_matrix, kind: str = "expected", *, seed: int = 0, run: Run | None = None, **walk: Unpack[Walk]
) -> sp.csr_matrix:
    """csr float32 (L, L): visits of label m by the walk of label l, the diagonal always there."""
    if kind not in KINDS:
        raise ValueError(f"a label graph is one of {KINDS}, not '{kind}'")
    return random_walks(Y, seed=seed, run=run, **walk) if kind == "walk" else expected_visits(Y, run=run, **walk)


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
    """csr float32 (L, L): counted visits of one walk per label, its `most` largest and the diagonal.

    A walk has `hops` hops, and starts anew before each with probability `restart`.
    Labels with more than `head` documents are neither started from nor met: their row is a lone 1 on the diagonal, as
    is that of a label without documents. A walk that never meets its own label counts it once. What a walk draws
    follows from (seed, label) alone.
    """
    pairs = _pairs(Y, head)
    options = _WalkOptions(hops, restart, most, seed)

    def walk(low: int, high: int) -> SparseRows:
        return _walks(pairs, low, high, options)

    return _in_chunks(Y.shape[1], walk, run)


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
    pairs = _pairs(Y, head)
    q = 1.0 - restart
    deep = hops if q == 1 else 1 if q == 0 else int(np.ceil(np.log(max(precision, 1e-12)) / np.log(q)))
    power = np.arange(1, min(max(deep, 1), hops) + 1)
    weight = q ** (power - 1.0) * (1 + restart * (hops - power))
    options = _SpreadOptions(_returning(pairs), weight, q, precision, most)

    def spread(low: int, high: int) -> SparseRows:
        return _expected(pairs, low, high, options)

    return _in_chunks(Y.shape[1], spread, run)


def propagation(graph: sp.csr_matrix) -> sp.csr_matrix:
    """csr float32 (L, L): D_r^-1/2 W D_c^-1/2 with the sums of rows and columns, for passing values along edges."""
    rows = np.sqrt(np.maximum(np.asarray(graph.sum(axis=1), dtype=np.float64).ravel(), 1e-30))
    columns = np.sqrt(np.maximum(np.asarray(graph.sum(axis=0), dtype=np.float64).ravel(), 1e-30))
    values = graph.data / rows[rows_of_pairs(graph)] / columns[graph.indices]
    return sp.csr_matrix((values.astype(np.float32), graph.indices.copy(), graph.indptr.copy()), shape=graph.shape)


def soft_annotations(graph: sp.csr_matrix, threshold: float = 0.1, divisor: str = "diagonal") -> sp.csr_matrix:
    """csr float32 (L, L): rows divided by their diagonal, at most 1; what is not above the threshold is left out.

    divisor  "largest": rows are divided by their largest value, which need not be the diagonal

    The diagonal is left out, too: that a label's text is annotated with the label itself goes without saying.
    """
    row = rows_of_pairs(graph)
    by = graph.diagonal() if divisor == "diagonal" else np.maximum.reduceat(graph.data, graph.indptr[:-1])
    values = np.minimum(graph.data / by[row], np.float32(1))
    kept = (values > threshold) & (row != graph.indices)
    indptr = entries_kept(graph, kept)
    return sp.csr_matrix((values[kept].astype(np.float32), graph.indices[kept], indptr), shape=graph.shape)


class _Pairs(NamedTuple):
    """Documents of each label and labels of each document, labels with too many documents left out."""

    document_start: Longs
    document_labels: Ints
    label_start: Longs
    label_documents: Ints


class _WalkOptions(NamedTuple):
    """As `random_walks` takes them."""

    hops: int
    restart: float
    most: int
    seed: int


class _SpreadOptions(NamedTuple):
    """How far hops are followed.

    returning           float64 (L,), how likely a hop from a label ends where it began
    weight              float64 (powers,), weight[m - 1] is what the m-th power of P counts for
    q, precision, most  as in `expected_visits`
    """

    returning: Doubles
    weight: Doubles
    q: float
    precision: float
    most: int


def _pairs(Y: sp.csr_matrix, head: int) -> _Pairs:
    count = np.bincount(Y.indices[Y.data > 0], minlength=Y.shape[1])
    kept = (Y.data > 0) & (count <= head)[Y.indices]
    labels = Y.indices[kept].astype(np.int32)
    document = rows_of_pairs(Y)[kept].astype(np.int32)
    order = np.argsort(labels, kind="stable")
    return _Pairs(entries_kept(Y, kept), labels, starts_of(np.bincount(labels, minlength=Y.shape[1])), document[order])


def _returning(pairs: _Pairs) -> Doubles:
    """float64 (L,): the diagonal of P."""
    n_labels, count = len(pairs.label_start) - 1, np.diff(pairs.label_start)
    share = 1 / np.maximum(np.diff(pairs.document_start), 1)
    label = np.repeat(np.arange(n_labels), count)
    total = np.bincount(label, weights=share[pairs.label_documents], minlength=n_labels)
    return np.asarray(total / np.maximum(count, 1), dtype=np.float64)


def _in_chunks(n_labels: int, rows_of: Callable[[int, int], SparseRows], run: Run | None) -> sp.csr_matrix:
    """The rows of all labels, found chunk by chunk on the run's threads."""
    starts = range(0, max(n_labels, 1), CHUNK)
    parts = (run or Run()).map(lambda low: rows_of(low, min(low + CHUNK, n_labels)), starts, title="Label graph")
    return SparseRows.joined(parts).matrix(n_labels)


@njit(nogil=True, cache=True)
def _largest(label: int, met: Ints, values: Doubles, most: int, out_labels: Ints, out_values: Floats) -> int:
    """Writes the `most` largest of a label's visits (ties by number), and its own, by rising label; how many there are.

    met     the labels visited, in any order
    values  (L,), the visits, which are set back to 0
    """
    size = 0
    for j in met:
        size = keep_best(np.float32(values[j]), j, out_labels[:most], out_values[:most], size)
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
def _walks(pairs: _Pairs, low: int, high: int, options: _WalkOptions) -> SparseRows:
    """Rows low..high of the graph, one walk each."""
    document_start, document_labels, label_start, label_documents = pairs
    hops, most = options.hops, options.most
    n_labels = len(label_start) - 1
    visits = np.zeros(n_labels, dtype=np.float64)
    met = np.empty(min(hops, n_labels), dtype=np.int32)
    starts = np.zeros(high - low + 1, dtype=np.int64)
    labels = np.empty((high - low) * (most + 1), dtype=np.int32)
    values = np.empty((high - low) * (most + 1), dtype=np.float32)
    step = np.uint64(0x9E3779B97F4A7C15)
    again = np.uint64(options.restart * 9007199254740992.0)  # 2^53
    size = 0
    for label in range(low, high):
        n_met = 0
        if label_start[label + 1] > label_start[label]:
            state = mixed_bits(np.uint64(options.seed) + step * np.uint64(label + 1))
            here = label
            for hop in range(hops):
                if hop > 0:
                    state += step
                    if (mixed_bits(state) >> np.uint64(11)) < again:
                        here = label
                state += step
                drawn = mixed_bits(state)
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
    return SparseRows(starts, labels[:size].copy(), values[:size].copy())


@njit(nogil=True, cache=True)
def _expected(pairs: _Pairs, low: int, high: int, options: _SpreadOptions) -> SparseRows:
    """Rows low..high of the graph."""
    document_start, document_labels, label_start, label_documents = pairs
    returning, weight, q, precision, most = options
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
    return SparseRows(starts, labels[:size].copy(), values[:size].copy())
