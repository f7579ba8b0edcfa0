"""Scores: the k best labels of each document, the only thing a learner or re-ranker returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail.arrays import append_below, keep_best, njit
from longtail.sparse import starts_of


@dataclass(frozen=True, eq=False)
class Scores:
    """ids int32 (n, k) and values float32 (n, k), rows sorted by (-value, id), padded with id -1 and value 0."""

    ids: NDArray[np.int32]
    values: NDArray[np.float32]

    def __post_init__(self) -> None:
        if self.ids.ndim != 2 or self.ids.shape != self.values.shape:
            raise ValueError(f"ids {self.ids.shape} and values {self.values.shape} must be equal (n, k)")

    def __len__(self) -> int:
        return self.ids.shape[0]

    @property
    def k(self) -> int:
        return self.ids.shape[1]

    def top(self, k: int) -> Scores:
        """The k best of the stored ones, padded if fewer are stored."""
        if k <= self.k:
            return Scores(self.ids[:, :k], self.values[:, :k])
        wider = ((0, 0), (0, k - self.k))
        return Scores(np.pad(self.ids, wider, constant_values=-1), np.pad(self.values, wider))

    def followed_by(self, longer: Scores) -> Scores:
        """These labels, then those of a longer list that are not among them, in its order and lower than these.

        So the first k of any longer list are the k best, however many are asked for.
        """
        if longer.k <= self.k:
            return self
        ids, values = self.top(longer.k).ids.copy(), self.top(longer.k).values.copy()
        _append_unlisted(ids, values, longer.ids, longer.values)
        return Scores(ids, values)

    def rows(self, rows: NDArray[np.integer] | slice) -> Scores:
        return Scores(self.ids[rows], self.values[rows])

    def sorted(self) -> Scores:
        """Rows put in the order (-value, id), padding last and of value 0: for code that rewrote the values."""
        padded = self.ids < 0
        values = np.where(padded, np.float32(0), self.values)
        order = np.lexsort((self.ids, -values, padded), axis=-1)
        return Scores(np.take_along_axis(self.ids, order, 1), np.take_along_axis(values, order, 1))

    def to_csr(self, n_labels: int) -> sp.csr_matrix:
        """The stored scores as a sparse matrix (n, n_labels)."""
        present = self.ids >= 0
        indptr = starts_of(present.sum(axis=1))
        return sp.csr_matrix((self.values[present], self.ids[present], indptr), shape=(len(self), n_labels))

    @classmethod
    def empty(cls, n: int, k: int) -> Scores:
        return cls(np.full((n, k), -1, dtype=np.int32), np.zeros((n, k), dtype=np.float32))

    @classmethod
    def stacked(cls, parts: Sequence[Scores], k: int) -> Scores:
        """The rows of all parts, one part after the other; k  labels per row where there is no part"""
        if not parts:
            return cls.empty(0, k)
        return cls(np.concatenate([part.ids for part in parts]), np.concatenate([part.values for part in parts]))

    @classmethod
    def from_csr(cls, matrix: sp.csr_matrix, k: int) -> Scores:
        """The k largest stored entries of each row; entries of value 0 are not ranked."""
        if k < 1:
            raise ValueError(f"k must be at least 1, not {k}")
        matrix = sp.csr_matrix(matrix)
        return cls(*top_k(matrix.indptr, matrix.indices.astype(np.int32), matrix.data.astype(np.float32), k))


@njit(nogil=True, cache=True)
def top_k(
    indptr: NDArray[np.integer], ids: NDArray[np.int32], values: NDArray[np.float32], k: int
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The k best (value, id) pairs of each row by (-value, id), zeros left out, as padded (n, k) arrays."""
    n = len(indptr) - 1
    best_ids = np.full((n, k), -1, dtype=np.int32)
    best_values = np.zeros((n, k), dtype=np.float32)
    for row in range(n):
        filled = 0
        for p in range(indptr[row], indptr[row + 1]):
            if values[p] != 0:
                filled = keep_best(values[p], ids[p], best_ids[row], best_values[row], filled)
    return best_ids, best_values


@njit(nogil=True, cache=True)
def _append_unlisted(
    ids: NDArray[np.int32],
    values: NDArray[np.float32],
    longer_ids: NDArray[np.int32],
    longer_values: NDArray[np.float32],
) -> None:
    """Fills the padding of lists (n, k) with the labels of longer lists (n, K) that they do not have."""
    for row in range(len(ids)):
        listed = 0
        while listed < ids.shape[1] and ids[row, listed] >= 0:
            listed += 1
        known = np.sort(ids[row, :listed])
        filled = listed
        for a in range(longer_ids.shape[1]):
            label = longer_ids[row, a]
            if label < 0:
                break
            at = np.searchsorted(known, label)
            if at == listed or known[at] != label:
                filled = append_below(longer_values[row, a], label, ids[row], values[row], filled)
