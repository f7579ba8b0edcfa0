"""Astec's shortlists (https://arxiv.org/abs/2111.06685): labels near to a document, found by vectors of documents.

centroids   a label is as near as the nearest of its centroids: the mean of its documents' vectors, or means of
            clusters of them where the label has very many
documents   and each of a document's nearest training documents lends its labels the cosine of the two

similarity of label l = (1 - share) max over its centroids c of cos(x, c)
                        + share sum over its documents d among those nearest to x of cos(x, d)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail.arrays import SparseRows
from longtail.cluster.kmeans import k_means
from longtail.cluster.neighbours import Neighbours
from longtail.corpus import Corpus
from longtail.part import Arrays
from longtail.run import Run
from longtail.scores import Scores
from longtail.sparse import unit_rows

Vectors = NDArray[np.float32]
#: Added to similarities while they are ranked, for what is 0 is not ranked.
FLOOR = np.float32(2)


@dataclass(frozen=True)
class Nearness:
    """How near labels are: nearest documents that have a say and their share, centroids of labels with `many` more."""

    documents: int = 0
    share: float = 0.075
    centroids: int = 1
    many: int = 7500


@dataclass(eq=False)
class NearestLabels:
    """Centroids (C, D), the label of each (C,), and training documents (n, D) with their labels (n, L), if any."""

    nearness: Nearness
    n_labels: int
    centroids: Vectors
    label: NDArray[np.int32]
    documents: Vectors
    labels: sp.csr_matrix

    @classmethod
    def of(cls, vectors: Vectors, corpus: Corpus, nearness: Nearness, run: Run) -> NearestLabels:
        """From the documents' vectors (n, D)."""
        Y = corpus.positives()
        made, label = centroids(vectors, Y), np.arange(Y.shape[1], dtype=np.int32)
        if nearness.centroids > 1:
            many = np.flatnonzero(np.diff(Y.tocsc().indptr) > nearness.many)
            parts = [sub_centroids(vectors, Y, int(each), nearness.centroids, run) for each in many]
            kept = np.setdiff1d(label, many)
            made = np.concatenate([made[kept], *parts])
            label = np.concatenate([kept, np.repeat(many, [len(part) for part in parts])]).astype(np.int32)
        there = np.diff(Y.indptr) * (np.abs(vectors).sum(axis=1) > 0) > 0
        known = np.flatnonzero(there if nearness.documents else np.zeros_like(there))
        return cls(nearness, Y.shape[1], made, label, vectors[known], sp.csr_matrix(Y[known]))

    def opened(self, run: Run) -> Search:
        """To be searched on the run's threads; the same for every run."""
        known = np.flatnonzero(np.abs(self.centroids).sum(axis=1) > 0)
        if not len(known):  # no document has a word: all labels are equally near
            known = np.arange(len(self.centroids))
        documents = Neighbours.of(self.documents, run.silent()) if len(self.documents) else None
        return Search(self, Neighbours.of(self.centroids[known], run.silent()), self.label[known], documents)

    # keeping
    def state(self) -> dict[str, NDArray[Any]]:
        kept: dict[str, NDArray[Any]] = {"centroids": self.centroids}
        if self.nearness.centroids > 1:
            kept["centroid_label"] = self.label
        if self.nearness.documents:
            kept |= {"documents": self.documents, "document_start": self.labels.indptr.astype(np.int64)}
            kept["document_label"] = self.labels.indices.astype(np.int32)
        return kept

    @classmethod
    def restored(cls, nearness: Nearness, n_labels: int, width: int, arrays: Arrays) -> NearestLabels:
        """From what `state` gave; every shape and index is checked."""
        made = np.asarray(arrays["centroids"])
        label = np.asarray(arrays.get("centroid_label", np.arange(len(made), dtype=np.int32)))
        if ("centroid_label" in arrays) != (nearness.centroids > 1):
            raise ValueError("the labels of the centroids are missing, or there should be none")
        if made.dtype != np.float32 or made.shape != (len(label), width) or label.dtype != np.int32 or label.ndim != 1:
            raise ValueError("centroids and their labels do not fit")
        if len(np.unique(label)) != n_labels or label.min() < 0 or label.max() >= n_labels:
            raise ValueError("there is not a centroid per label")
        documents = np.empty((0, width), np.float32)
        labels = sp.csr_matrix(sp.coo_array((0, n_labels), dtype=np.float32))
        if nearness.documents:
            documents, labels = _documents(n_labels, width, arrays)
        return cls(nearness, n_labels, made, label, documents, labels)


@dataclass(frozen=True, eq=False)
class Search:
    """Indexes over the centroids of some labels (C,), and over documents, if any."""

    made: NearestLabels
    centroids: Neighbours
    label: NDArray[np.int32]
    documents: Neighbours | None

    def nearest(self, vectors: Vectors, k: int) -> tuple[NDArray[np.int32], Vectors]:
        """Labels (n, at most k) by falling similarity to vectors (n, D), -1 where there are fewer; similarities."""
        different = len(np.unique(self.label))
        k, several = min(k, different), len(self.label) > different
        # a label with several centroids may take several of the nearest places
        ids, cosine = self.centroids.search(vectors, min(len(self.label), k * (2 if several else 1)))
        labels = np.where(ids >= 0, self.label[ids], -1).astype(np.int32)
        if not several and self.documents is None:
            return labels, cosine
        near, share = _largest(labels, cosine, self.made.n_labels), self.made.nearness.share
        if self.documents is not None:
            lent = self._lent(self.documents, vectors)
            there = _ones(_ones(near) + _ones(lent))
            near = sp.csr_matrix((1 - share) * near + share * lent + FLOOR * there)
        else:
            near.data += FLOOR
        best = Scores.from_csr(near, k)
        return best.ids, np.where(best.ids >= 0, best.values - FLOOR, 0).astype(np.float32)

    def _lent(self, documents: Neighbours, vectors: Vectors) -> sp.csr_matrix:
        """csr (n, L): what the nearest documents lend to their labels."""
        have = self.made.labels
        ids, cosine = documents.search(vectors, min(self.made.nearness.documents, have.shape[0]))
        row, there = np.repeat(np.arange(len(ids)), ids.shape[1]), (ids >= 0).ravel()
        shape = (len(ids), have.shape[0])
        votes = sp.csr_matrix((cosine.ravel()[there], (row[there], ids.ravel()[there])), shape=shape)
        return sp.csr_matrix(votes @ (have > 0).astype(np.float32))


def centroids(vectors: Vectors, Y: sp.csr_matrix) -> Vectors:
    """float32 (L, D): the mean of the vectors of each label's documents, 0 for a label without any."""
    count = np.maximum(np.asarray(Y.sum(axis=0)).ravel(), 1e-9)
    return ((Y.T @ vectors) / count[:, None]).astype(np.float32)


def sub_centroids(vectors: Vectors, Y: sp.csr_matrix, label: int, count: int, run: Run) -> Vectors:
    """float32 (at most count, D): means of clusters of one label's documents."""
    own = np.flatnonzero(np.asarray(Y[:, [label]].todense()).ravel() > 0)
    rows = unit_rows(sp.csr_matrix(vectors[own]))
    cluster = k_means(SparseRows.of(rows), vectors.shape[1], count, run.rng(f"centroids/{label}"), run.silent())
    belongs = sp.csr_matrix((np.ones(len(own), np.float32), (cluster, np.arange(len(own)))))
    return np.asarray(belongs @ vectors[own] / belongs.sum(axis=1), dtype=np.float32)


def _largest(labels: NDArray[np.int32], cosine: Vectors, n_labels: int) -> sp.csr_matrix:
    """csr (n, L): the largest cosine of each label, of lists (n, C) by falling cosines in which labels may recur."""
    row = np.repeat(np.arange(len(labels)), labels.shape[1])
    label, value = labels.ravel().astype(np.int64), cosine.ravel()
    there = np.flatnonzero(label >= 0)
    _, first = np.unique(row[there] * n_labels + label[there], return_index=True)  # the nearest stands first
    kept = there[first]
    return sp.csr_matrix((value[kept], (row[kept], label[kept])), shape=(len(labels), n_labels))


def _ones(matrix: sp.csr_matrix) -> sp.csr_matrix:
    """1 wherever something is stored."""
    ones = np.ones(matrix.nnz, dtype=np.float32)
    return sp.csr_matrix((ones, matrix.indices, matrix.indptr), shape=matrix.shape)


def _documents(n_labels: int, width: int, arrays: Arrays) -> tuple[Vectors, sp.csr_matrix]:
    found = [arrays.get(name) for name in ("documents", "document_start", "document_label")]
    if any(array is None for array in found):
        raise ValueError("the documents of the shortlist are missing")
    documents, start, label = (np.asarray(array) for array in found)
    holds = documents.dtype == np.float32 and documents.ndim == 2 and documents.shape[1] == width
    holds = holds and start.dtype == np.int64 and start.shape == (len(documents) + 1,) and start[0] == 0
    holds = holds and bool((np.diff(start) >= 0).all()) and label.dtype == np.int32 and label.shape == (start[-1],)
    if not holds or (len(label) and (label.min() < 0 or label.max() >= n_labels)):
        raise ValueError("the documents of the shortlist are not what they should be")
    ones = np.ones(len(label), dtype=np.float32)
    return documents, sp.csr_matrix((ones, label, start), shape=(len(documents), n_labels))
