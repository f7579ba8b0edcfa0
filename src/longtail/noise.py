"""Noisy copies of documents, drawn when they are looked at instead of being stored (Taug's augmentation).

A copy keeps each feature with probability `keep` and exchanges the values of random pairs of its features; its length
is brought back to the original's, as the label trees see unit vectors. What a copy looks like follows from (seed,
document, copy) alone, so a kernel may draw it again in every pass and at every node and always sees the same data set.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from longtail.arrays import Floats, Ints, SparseRows, mixed_bits, njit

if TYPE_CHECKING:
    from longtail.corpus import Corpus


class NoiseArrays(NamedTuple):
    """What kernels draw copies from: the fields of `FeatureNoise` of these names, and the rows that are looked at.

    row, copy  int32, the row and the copy number of every document and every copy; copy 0 is the document itself
    """

    keep: float
    swaps: float
    seed: int
    draw: Ints
    row: Ints
    copy: Ints


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
        """The noise of a corpus with this many rows behind its own, which have no copies."""
        return replace(self, draw=np.concatenate([self.draw, np.full(count, -1, dtype=np.int32)]))

    @classmethod
    def none(cls, n: int) -> FeatureNoise:
        """n documents without copies."""
        return cls(0, 1.0, 0.0, 0, np.full(n, -1, dtype=np.int32))

    def draws(self) -> NoiseArrays:
        """What single copies are drawn from, without a list of them."""
        nothing = np.empty(0, dtype=np.int32)
        return NoiseArrays(self.keep, self.swaps, self.seed, self.draw, nothing, nothing)

    def arrays(self) -> NoiseArrays:
        n = len(self.draw)
        noisy = np.flatnonzero(self.draw >= 0).astype(np.int32)
        row = np.concatenate([np.arange(n, dtype=np.int32), np.tile(noisy, self.copies)])
        copy = np.repeat(np.arange(self.copies + 1, dtype=np.int32), [n] + [len(noisy)] * self.copies)
        return NoiseArrays(self.keep, self.swaps, self.seed, self.draw, row, copy)


def written_out(corpus: Corpus) -> Corpus:
    """The corpus with its copies as rows of their own, which are no documents."""
    if corpus.noise is None:
        return corpus
    noise = corpus.noise.arrays()
    rows = _write_out(SparseRows.of(corpus.features), noise)
    copied = replace(corpus, noise=None, origin=corpus.origins()).rows(noise.row)
    made = noise.copy > 0 if copied.made is None else copied.made | (noise.copy > 0)
    return replace(copied, X=rows.matrix(corpus.features.shape[1]), made=made)


@njit(nogil=True, cache=True)
def draw_copy(rows: SparseRows, noise: NoiseArrays, row: int, copy: int, out_indices: Ints, out_values: Floats) -> int:
    """Writes a copy of a document (numbers begin at 1) into the buffers; its number of features."""
    indices, values = rows.indices, rows.values
    start, stop = rows.start[row], rows.start[row + 1]
    step = np.uint64(0x9E3779B97F4A7C15)
    own = np.uint64(noise.draw[row] + 1)
    state = mixed_bits(np.uint64(noise.seed) + step * own) + step * np.uint64(copy)
    length_before, length_after = 0.0, 0.0
    size = 0
    threshold = np.uint64(noise.keep * 9007199254740992.0)  # 2^53
    for p in range(start, stop):
        state += step
        length_before += values[p] * values[p]
        if (mixed_bits(state) >> np.uint64(11)) < threshold:
            out_indices[size] = indices[p]
            out_values[size] = values[p]
            length_after += values[p] * values[p]
            size += 1
    if size == 0 and stop > start:  # a copy is never empty
        state += step
        only = start + np.int64(mixed_bits(state) % np.uint64(stop - start))
        out_indices[0] = indices[only]
        out_values[0] = values[only]
        length_after = float(values[only] * values[only])
        size = 1
    if noise.swaps > 0 and size > 1:
        for _ in range(max(1, int(noise.swaps * size))):
            state += step
            a = np.int64(mixed_bits(state) % np.uint64(size))
            state += step
            b = np.int64(mixed_bits(state) % np.uint64(size - 1))
            if b >= a:
                b += 1
            out_values[a], out_values[b] = out_values[b], out_values[a]
    if length_after > 0:
        scale = np.float32(np.sqrt(length_before / length_after))
        for p in range(size):
            out_values[p] *= scale
    return size


@njit(nogil=True, cache=True)
def _write_out(rows: SparseRows, noise: NoiseArrays) -> SparseRows:
    room = 0
    for r in noise.row:
        room += rows.start[r + 1] - rows.start[r]
    out_start = np.zeros(len(noise.row) + 1, dtype=np.int64)
    out_indices = np.empty(room, dtype=np.int32)
    out_values = np.empty(room, dtype=np.float32)
    size = 0
    for i in range(len(noise.row)):
        start, stop = rows.start[noise.row[i]], rows.start[noise.row[i] + 1]
        if noise.copy[i] == 0:
            out_indices[size : size + stop - start] = rows.indices[start:stop]
            out_values[size : size + stop - start] = rows.values[start:stop]
            size += stop - start
        else:
            size += draw_copy(rows, noise, noise.row[i], noise.copy[i], out_indices[size:], out_values[size:])
        out_start[i + 1] = size
    return SparseRows(out_start, out_indices[:size].copy(), out_values[:size].copy())
