"""Noisy copies of documents, drawn when they are looked at instead of being stored (Taug's augmentation).

A copy keeps each feature with probability `keep` and exchanges the values of random pairs of its features; its length
is brought back to the original's, as the label trees see unit vectors. What a copy looks like follows from (seed,
document, copy) alone, so a kernel may draw it again in every pass and at every node and always sees the same data set.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray

from longtail.arrays import Floats, Ints, Longs

if TYPE_CHECKING:
    from longtail.corpus import Corpus


@dataclass(frozen=True, eq=False)
class FeatureNoise:
    """What copies a corpus has beside its documents.

    copies  of each document that has any (n_aug)
    keep    probability that a feature stays (rho); 1 keeps all
    swaps   pairs of features that exchange values, as a share of the features left; 0 for none, else at least one pair
    seed    of all draws
    draw    int32 (n,), the number that a document's draws follow from, or -1 for a document without copies
    """

    copies: int
    keep: float
    swaps: float
    seed: int
    draw: NDArray[np.int32]

    def rows(self, rows: NDArray[np.integer]) -> FeatureNoise:
        return replace(self, draw=self.draw[rows])

    def with_rows(self, count: int) -> FeatureNoise:
        """The noise of a corpus with so many rows behind its own, which have no copies."""
        return replace(self, draw=np.concatenate([self.draw, np.full(count, -1, dtype=np.int32)]))

    def virtual_rows(self) -> tuple[Ints, Ints]:
        """Row and copy number of every document and every copy; copy 0 is the document itself."""
        n = len(self.draw)
        noisy = np.flatnonzero(self.draw >= 0).astype(np.int32)
        row = np.concatenate([np.arange(n, dtype=np.int32), np.tile(noisy, self.copies)])
        copy = np.repeat(np.arange(self.copies + 1, dtype=np.int32), [n] + [len(noisy)] * self.copies)
        return row, copy


def written_out(corpus: Corpus) -> Corpus:
    """The corpus with its copies as rows of their own."""
    if corpus.noise is None:
        return corpus
    X = corpus.features
    row, copy = corpus.noise.virtual_rows()
    indptr, indices, values = _write_out(
        X.indptr.astype(np.int64), X.indices, X.data, row, copy, corpus.noise.draw,
        corpus.noise.keep, corpus.noise.swaps, corpus.noise.seed,
    )  # fmt: skip
    made = replace(corpus, noise=None).rows(row)
    return replace(made, X=sp.csr_matrix((values, indices, indptr), shape=(len(row), X.shape[1])))


@njit(nogil=True, cache=True)
def _mixed(x: np.uint64) -> np.uint64:
    """splitmix64's finisher: neighbouring numbers give unrelated ones."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@njit(nogil=True, cache=True)
def draw_copy(
    indices: Ints,
    values: Floats,
    start: int,
    stop: int,
    keep: float,
    swaps: float,
    seed: int,
    draw: int,
    copy: int,
    out_indices: Ints,
    out_values: Floats,
) -> int:
    """Writes one copy of a row into the buffers and gives its number of features."""
    step = np.uint64(0x9E3779B97F4A7C15)
    state = _mixed(np.uint64(seed) + step * np.uint64(draw + 1)) + step * np.uint64(copy)
    length_before, length_after = 0.0, 0.0
    size = 0
    threshold = np.uint64(keep * 9007199254740992.0)  # 2^53
    for p in range(start, stop):
        state += step
        length_before += values[p] * values[p]
        if (_mixed(state) >> np.uint64(11)) < threshold:
            out_indices[size] = indices[p]
            out_values[size] = values[p]
            length_after += values[p] * values[p]
            size += 1
    if size == 0 and stop > start:  # a copy is never empty
        state += step
        only = start + np.int64(_mixed(state) % np.uint64(stop - start))
        out_indices[0] = indices[only]
        out_values[0] = values[only]
        length_after = float(values[only] * values[only])
        size = 1
    if swaps > 0 and size > 1:
        for _ in range(max(1, int(swaps * size))):
            state += step
            a = np.int64(_mixed(state) % np.uint64(size))
            state += step
            b = np.int64(_mixed(state) % np.uint64(size - 1))
            if b >= a:
                b += 1
            out_values[a], out_values[b] = out_values[b], out_values[a]
    if length_after > 0:
        scale = np.float32(np.sqrt(length_before / length_after))
        for p in range(size):
            out_values[p] *= scale
    return size


@njit(nogil=True, cache=True)
def _write_out(
    indptr: Longs,
    indices: Ints,
    values: Floats,
    row: Ints,
    copy: Ints,
    draw: Ints,
    keep: float,
    swaps: float,
    seed: int,
) -> tuple[Longs, Ints, Floats]:
    room = 0
    for r in row:
        room += indptr[r + 1] - indptr[r]
    out_start = np.zeros(len(row) + 1, dtype=np.int64)
    out_indices = np.empty(room, dtype=np.int32)
    out_values = np.empty(room, dtype=np.float32)
    size = 0
    for i in range(len(row)):
        start, stop = indptr[row[i]], indptr[row[i] + 1]
        if copy[i] == 0:
            out_indices[size : size + stop - start] = indices[start:stop]
            out_values[size : size + stop - start] = values[start:stop]
            size += stop - start
        else:
            size += draw_copy(
                indices, values, start, stop, keep, swaps, seed, draw[row[i]], copy[i],
                out_indices[size:], out_values[size:],
            )  # fmt: skip
        out_start[i + 1] = size
    return out_start, out_indices[:size].copy(), out_values[:size].copy()
