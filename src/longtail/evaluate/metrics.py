"""Everything the metrics are made of, counted in one pass over the documents.

With r_1..r_k the k best predicted labels of a document, y its 0/1 truth, m = |y| and q the inverse propensities:

    P@k       mean of           (1/k) sum_j y[r_j]
    R@k       mean of           (1/m) sum_j y[r_j]
    RP@k      mean of    1/min(k, m) sum_j y[r_j]
    nDCG@k    mean of           sum_j y[r_j] / log2(j+1)  over  sum_{j <= min(k, m)} 1 / log2(j+1)
    PSP@k     sum over documents of sum_j q[r_j] y[r_j]  over  the same sum for the best possible k labels
    PSnDCG@k  the same with q[r_j] y[r_j] / log2(j+1); see `document_metrics` for its two normalisations
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail.arrays import njit
from longtail.corpus import Corpus
from longtail.errors import UsageError
from longtail.labels import Band
from longtail.scores import Scores

#: A stored pair counts as true from this target on: a soft label below it says "rather not".
TRUE_FROM = 0.5

PSNDCG = ("sum", "mean")


def left_out(corpus: Corpus) -> sp.csr_matrix | None:
    """Pairs that count neither as true nor as wrong, csr bool (n, L): own labels of documents, and masked ones."""
    own = corpus.reciprocal
    if corpus.pair_weight is None or not corpus.masked:
        return own
    pairs = (corpus.pair_weight == 0, corpus.Y.indices, corpus.Y.indptr)
    masked: sp.csr_matrix = sp.csr_matrix(pairs, shape=corpus.Y.shape, copy=True)
    masked.eliminate_zeros()
    return masked if own is None else sp.csr_matrix(masked + own.astype(bool))


def most_left_out(corpus: Corpus) -> int:
    """The most pairs of one document that are left out, by which rankings are longer before they are cut at k."""
    out = left_out(corpus)
    return 0 if out is None else int(np.diff(out.indptr).max(initial=0))


def true_pairs(corpus: Corpus) -> sp.csr_matrix:
    """The pairs that count as true, csr (n, L): targets from one half on, without those left out."""
    true, out = corpus.Y >= TRUE_FROM, left_out(corpus)
    if out is not None:
        true = true > out.astype(bool)
    true.eliminate_zeros()
    return true


class Pairs(NamedTuple):
    """(document, label) pairs: row starts int64 (n + 1,), and within a row rising label ids."""

    indptr: NDArray[np.int64]
    ids: NDArray[np.int32]


class LabelKinds(NamedTuple):
    """Of each label its inverse propensity and its number among the bands, (L,) each."""

    q: NDArray[np.float64]
    band: NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Counts:
    """What was hit, predicted and possible, for the n documents that have a true label, L labels, b bands, c cut-offs.

    Index j of a cut-off axis holds the figure within the first ks[j] predictions.
    """

    ks: tuple[int, ...]
    rows: NDArray[np.int64]  # (n,) positions in the corpus
    true: NDArray[np.int64]  # (n,) true labels m
    returned: NDArray[np.int64]  # (n,) predictions there are, up to the largest k
    hits: NDArray[np.int32]  # (n, c)
    dcg: NDArray[np.float64]  # (n, c) hits, discounted
    gain: NDArray[np.float64]  # (n, c) inverse propensities of the hits
    psdcg: NDArray[np.float64]  # (n, c) inverse propensities of the hits, discounted
    best_dcg: NDArray[np.float64]  # (n, c) the same three for the best possible ranking
    best_gain: NDArray[np.float64]
    best_psdcg: NDArray[np.float64]
    band_true: NDArray[np.int32]  # (n, b)
    band_hits: NDArray[np.int32]  # (n, b, c)
    band_predicted: NDArray[np.int32]  # (n, b, c)
    label_true: NDArray[np.int64]  # (L,) documents that carry the label
    label_hits: NDArray[np.int64]  # (c, L)
    label_predicted: NDArray[np.int64]  # (c, L)


@dataclass(frozen=True, eq=False)
class Documents:
    """Per-document parts of every metric: its value is sum(numerators) / sum(denominators).

    rows          (n,) positions of the counted documents in the corpus
    true          (n,) number of their true labels
    numerators    metric -> (n,); band figures are named "tail/recall@5"
    denominators  metric -> (n,), for ratios of sums; a metric that is not in it is a plain mean over documents
    """

    rows: NDArray[np.int64]
    true: NDArray[np.int64]
    numerators: dict[str, NDArray[np.number]]
    denominators: dict[str, NDArray[np.number]]

    def __len__(self) -> int:
        return len(self.rows)

    def value(self, name: str) -> float:
        """The metric over all documents, nan when there is nothing to divide by."""
        below = float(self.denominators[name].sum()) if name in self.denominators else float(len(self))
        return float(self.numerators[name].sum()) / below if below > 0 else float("nan")


def count(
    scores: Scores, corpus: Corpus, *, ks: tuple[int, ...], inverse_propensity: NDArray[np.float64], bands: list[Band]
) -> Counts:
    """One pass over predictions and truth; documents without a true label are left out of every figure."""
    _check_columns(scores, corpus)
    skip = _pairs(left_out(corpus), len(corpus))
    Y = corpus.Y
    truth = _truth(Pairs(Y.indptr.astype(np.int64), Y.indices.astype(np.int32)), Y.data >= TRUE_FROM, skip)
    true = np.diff(truth.indptr)
    # Beyond the deepest prediction and the longest truth a ranking changes nothing, however large k is.
    depth = min(ks[-1], max(scores.k, int(true.max(initial=0)), 1))
    kinds = _kinds(inverse_propensity, bands)
    ids = np.ascontiguousarray(scores.ids, dtype=np.int32)
    twin, returned, *parts = _count(ids, truth, skip, kinds, len(bands), np.array(ks, dtype=np.int64), depth)
    if twin >= 0:
        raise UsageError(f"the scores of document {twin} name a label twice")
    hits, reals, band_true, band_hits, band_predicted, label_true, label_hits, label_predicted = parts
    rows = np.flatnonzero(true)
    if len(rows) < len(corpus):
        true, returned, hits, reals = true[rows], returned[rows], hits[rows], reals[:, rows]
        band_true, band_hits, band_predicted = band_true[rows], band_hits[rows], band_predicted[rows]
    dcg, gain, psdcg, best_dcg, best_gain, best_psdcg = np.cumsum(reals, axis=2)
    return Counts(
        ks=ks,
        rows=rows,
        true=true,
        returned=returned,
        hits=np.cumsum(hits, axis=1, dtype=np.int32),
        dcg=dcg,
        gain=gain,
        psdcg=psdcg,
        best_dcg=best_dcg,
        best_gain=best_gain,
        best_psdcg=best_psdcg,
        band_true=band_true,
        band_hits=np.cumsum(band_hits, axis=2, dtype=np.int32),
        band_predicted=np.cumsum(band_predicted, axis=2, dtype=np.int32),
        label_true=label_true,
        label_hits=np.cumsum(label_hits, axis=0),
        label_predicted=np.cumsum(label_predicted, axis=0),
    )


def _check_columns(scores: Scores, corpus: Corpus) -> None:
    L = corpus.n_labels
    if len(scores) != len(corpus):
        raise UsageError(f"scores of {len(scores)} documents cannot be evaluated on a corpus of {len(corpus)}")
    if scores.ids.size and scores.ids.max() >= L:
        raise UsageError(
            f"the scores name label column {scores.ids.max()}, the corpus has {L} labels: "
            "align the corpus to the model's labels first"
        )


def _kinds(inverse_propensity: NDArray[np.float64], bands: Sequence[Band]) -> LabelKinds:
    band_of = np.zeros(len(inverse_propensity), dtype=np.int32)
    for number, band in enumerate(bands):
        band_of[band.members] = number
    return LabelKinds(np.ascontiguousarray(inverse_propensity, dtype=np.float64), band_of)


def document_metrics(counts: Counts, bands: Sequence[Band], psndcg: str) -> Documents:
    """The per-document parts of every metric that is a mean or a ratio of sums over documents.

    PSnDCG comes in two normalisations. "sum" divides the summed gains by the summed best gains (the XMC
    repository's MATLAB scripts, AttentionXML). "mean" first divides both of a document by its own
    sum_{j <= min(k, m)} 1/log2(j+1) (pyxclib, napkinXC), which weighs documents with few labels more.
    """
    above: dict[str, NDArray[np.number]] = {}
    below: dict[str, NDArray[np.number]] = {}
    for j, k in enumerate(counts.ks):
        hits = counts.hits[:, j]
        above[f"P@{k}"] = hits / k
        above[f"nDCG@{k}"] = counts.dcg[:, j] / counts.best_dcg[:, j]
        above[f"PSP@{k}"], below[f"PSP@{k}"] = counts.gain[:, j], counts.best_gain[:, j]
        norm = counts.best_dcg[:, j] if psndcg == "mean" else np.float64(1)
        above[f"PSnDCG@{k}"], below[f"PSnDCG@{k}"] = counts.psdcg[:, j] / norm, counts.best_psdcg[:, j] / norm
        above[f"R@{k}"] = hits / counts.true
        above[f"RP@{k}"] = hits / np.minimum(k, counts.true)
        for number, band in enumerate(bands):
            recall, precision = f"{band.name}/recall@{k}", f"{band.name}/precision@{k}"
            above[recall] = above[precision] = counts.band_hits[:, number, j]
            below[recall], below[precision] = counts.band_true[:, number], counts.band_predicted[:, number, j]
    return Documents(counts.rows, counts.true, above, below)


def _pairs(matrix: sp.csr_matrix | None, n: int) -> Pairs:
    """The true entries of a boolean matrix; nothing for None."""
    if matrix is None:
        return Pairs(np.zeros(n + 1, dtype=np.int64), np.zeros(0, dtype=np.int32))
    matrix = sp.csr_matrix(matrix, dtype=bool, copy=True)
    matrix.eliminate_zeros()
    matrix.sort_indices()
    return Pairs(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32))


@njit(nogil=True, cache=True)
def _holds(pairs: Pairs, row: int, label: int) -> bool:
    """Whether the label is among those of the row."""
    low, high = pairs.indptr[row], pairs.indptr[row + 1]
    end = high
    while low < high:
        middle = (low + high) // 2
        if pairs.ids[middle] < label:
            low = middle + 1
        else:
            high = middle
    return low < end and pairs.ids[low] == label


@njit(nogil=True, cache=True)
def _truth(pairs: Pairs, strong: NDArray[np.bool_], skip: Pairs) -> Pairs:
    """The pairs that count as true: strong enough and not to be skipped."""
    n = len(pairs.indptr) - 1
    kept_indptr = np.zeros(n + 1, dtype=np.int64)
    kept = np.empty(len(pairs.ids), dtype=np.int32)
    filled = 0
    for row in range(n):
        for p in range(pairs.indptr[row], pairs.indptr[row + 1]):
            if strong[p] and not _holds(skip, row, pairs.ids[p]):
                kept[filled] = pairs.ids[p]
                filled += 1
        kept_indptr[row + 1] = filled
    return Pairs(kept_indptr, kept[:filled].copy())


@njit(nogil=True, cache=True)
def _count(
    ids: NDArray[np.int32],
    truth: Pairs,
    skip: Pairs,
    kinds: LabelKinds,
    n_bands: int,
    ks: NDArray[np.int64],
    depth: int,
) -> tuple[Any, ...]:
    """The arrays of `Counts` for all documents; `reals` holds the six float figures in its order.

    Each event is written to the first cut-off it lies within only: running sums over the cut-off axis are to follow.
    The first value returned is a document that names a label twice, -1 if there is none.
    """
    q, band_of = kinds.q, kinds.band
    n, c, L = len(truth.indptr) - 1, len(ks), len(q)
    discount = 1.0 / np.log2(np.arange(depth) + 2.0)
    cut = np.empty(depth, dtype=np.int64)  # first cut-off that holds position j
    slot = 0
    for j in range(depth):
        if j >= ks[slot]:
            slot += 1
        cut[j] = slot
    returned = np.zeros(n, dtype=np.int64)
    hits = np.zeros((n, c), dtype=np.int32)
    reals = np.zeros((6, n, c))
    band_true = np.zeros((n, n_bands), dtype=np.int32)
    band_hits = np.zeros((n, n_bands, c), dtype=np.int32)
    band_predicted = np.zeros((n, n_bands, c), dtype=np.int32)
    label_true = np.zeros(L, dtype=np.int64)
    label_hits = np.zeros((c, L), dtype=np.int64)
    label_predicted = np.zeros((c, L), dtype=np.int64)
    best = np.empty(depth)
    ranked = np.empty(depth, dtype=np.int32)
    twin = -1
    for row in range(n):
        low, high = truth.indptr[row], truth.indptr[row + 1]
        if low == high:
            continue
        # the predictions, skipped pairs taken out and the rest moved up
        j = 0
        for p in range(ids.shape[1]):
            if j == depth:
                break
            label = ids[row, p]
            if label < 0 or _holds(skip, row, label):
                continue
            for earlier in range(j):
                if ranked[earlier] == label:
                    twin = row
            ranked[j] = label
            slot, band = cut[j], band_of[label]
            label_predicted[slot, label] += 1
            band_predicted[row, band, slot] += 1
            if _holds(truth, row, label):
                hits[row, slot] += 1
                label_hits[slot, label] += 1
                band_hits[row, band, slot] += 1
                reals[0, row, slot] += discount[j]
                reals[1, row, slot] += q[label]
                reals[2, row, slot] += q[label] * discount[j]
            j += 1
        returned[row] = j
        # the best possible ranking: true labels by falling inverse propensity
        filled = 0
        for p in range(low, high):
            label = truth.ids[p]
            label_true[label] += 1
            band_true[row, band_of[label]] += 1
            if filled == depth and best[depth - 1] >= q[label]:
                continue
            place = filled if filled < depth else depth - 1
            filled = min(filled + 1, depth)
            while place > 0 and best[place - 1] < q[label]:
                best[place] = best[place - 1]
                place -= 1
            best[place] = q[label]
        for j in range(filled):
            reals[3, row, cut[j]] += discount[j]
            reals[4, row, cut[j]] += best[j]
            reals[5, row, cut[j]] += best[j] * discount[j]
    return (
        twin, returned, hits, reals, band_true, band_hits, band_predicted, label_true, label_hits, label_predicted,
    )  # fmt: skip
