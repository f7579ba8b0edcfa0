"""A corpus: documents as texts and/or features, their targets, and the label index."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail.labels import LabelIndex
from longtail.sparse import entries_kept, pieces_of, rows_of_pairs, starts_of

if TYPE_CHECKING:
    from longtail.noise import FeatureNoise


@dataclass(kw_only=True, eq=False)
class Corpus:
    """n documents over L labels.

    labels       the L labels
    Y            csr float32 (n, L), targets in (0, 1]; rows sorted by label, no duplicates
    texts        n texts, or None for corpora that come as features
    X            csr float32 (n, D), or None until features are made
    ids          n document ids as given by the file, or None
    pair_weight  float32 (Y.nnz,), in the order of Y.data, or None for 1 everywhere. A stored pair of weight 0 is
                 neither a positive nor a negative example
    label_X      csr float32 (L, D), features of the labels themselves, for corpora without text
    reciprocal   csr bool (n, L), pairs in which the document is the label itself: never rewarded, never punished
    noise        noisy copies the documents have in training, drawn on the fly, or None
    X_made       whether a pipeline made X from the texts: another may then make features of its own
    made         bool (n,), rows that an augmenter made, or None where every row is a document
    origin       int32 (n,), the document a row is or was made from, -1 for a row made from none; None where every row
                 is a document and has its own number
    name         where it came from, for messages
    """

    labels: LabelIndex
    Y: sp.csr_matrix
    texts: Sequence[str] | None = None
    X: sp.csr_matrix | None = None
    ids: Sequence[str] | None = None
    pair_weight: NDArray[np.float32] | None = None
    label_X: sp.csr_matrix | None = None
    reciprocal: sp.csr_matrix | None = None
    noise: FeatureNoise | None = None
    X_made: bool = False
    made: NDArray[np.bool_] | None = None
    origin: NDArray[np.int32] | None = None
    name: str = "corpus"

    def __post_init__(self) -> None:
        Y = self.Y if isinstance(self.Y, sp.csr_matrix) else sp.csr_matrix(self.Y)
        if Y.dtype != np.float32:
            Y = Y.astype(np.float32)
        if not Y.has_canonical_format:
            if self.pair_weight is not None:
                raise ValueError("Y must be sorted and free of duplicates when pair weights are given")
            Y = Y.copy()
            Y.sum_duplicates()
        self.Y = Y
        for part in ("X", "label_X", "reciprocal"):
            given = getattr(self, part)
            if given is not None and not isinstance(given, sp.csr_matrix):
                setattr(self, part, sp.csr_matrix(given))
        n, L = Y.shape
        if len(self.labels) != L:
            raise ValueError(f"Y has {L} columns for {len(self.labels)} labels")
        if Y.nnz and not (Y.data.min() > 0 and Y.data.max() <= 1):
            raise ValueError("targets must lie in (0, 1]")
        sizes = {
            "texts": None if self.texts is None else len(self.texts),
            "X": None if self.X is None else self.X.shape[0],
            "ids": None if self.ids is None else len(self.ids),
            "reciprocal": None if self.reciprocal is None else self.reciprocal.shape[0],
            "noise": None if self.noise is None else len(self.noise.draw),
            "made": None if self.made is None else len(self.made),
            "origin": None if self.origin is None else len(self.origin),
        }
        for part, size in sizes.items():
            if size is not None and size != n:
                raise ValueError(f"{size} rows of {part} for {n} documents")
        if self.reciprocal is not None and self.reciprocal.shape[1] != L:
            raise ValueError(f"{self.reciprocal.shape[1]} columns of reciprocal pairs for {L} labels")
        if self.label_X is not None and self.label_X.shape[0] != L:
            raise ValueError(f"{self.label_X.shape[0]} rows of label_X for {L} labels")
        if self.pair_weight is not None and len(self.pair_weight) != Y.nnz:
            raise ValueError(f"{len(self.pair_weight)} pair weights for {Y.nnz} stored pairs")

    @classmethod
    def unlabelled(cls, labels: LabelIndex, size: int, **given: Any) -> Corpus:
        """So many documents, none of which has any of the labels."""
        return cls(labels=labels, Y=sp.csr_matrix(sp.coo_array((size, len(labels)), dtype=np.float32)), **given)

    def __len__(self) -> int:
        return self.Y.shape[0]

    @property
    def n_labels(self) -> int:
        return self.Y.shape[1]

    @property
    def features(self) -> sp.csr_matrix:
        """X, for code that cannot do without."""
        if self.X is None:
            raise ValueError(f"{self.name} has no features yet")
        return self.X

    def weighted_targets(self) -> NDArray[np.float32]:
        """Strength of each stored pair as a positive example, target times pair weight, float32 (Y.nnz,)."""
        return self.Y.data if self.pair_weight is None else (self.Y.data * self.pair_weight).astype(np.float32)

    def origins(self) -> NDArray[np.int32]:
        """`origin`, or each row's own number where every row is a document."""
        return np.arange(len(self), dtype=np.int32) if self.origin is None else self.origin

    @property
    def documents(self) -> NDArray[np.int64]:
        """Rows that are documents, not made by an augmenter; rising."""
        return np.arange(len(self)) if self.made is None else np.flatnonzero(~self.made)

    def documents_only(self) -> Corpus:
        """The corpus without the rows that an augmenter made."""
        return self if self.made is None or not self.made.any() else self.rows(self.documents)

    def without_documents(self, origins: NDArray[np.integer]) -> Corpus:
        """The corpus without some documents, given by their origin, and without what was made from them."""
        return self.rows(np.flatnonzero(~np.isin(self.origins(), origins)))

    @property
    def masked(self) -> bool:
        """Whether any pair is neither a positive nor a negative example."""
        return self.pair_weight is not None and not (self.pair_weight > 0).all()

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all that a fit can learn from: texts, features, targets, weights, labels and their texts."""
        state = hashlib.sha256()
        for f in fields(self):
            if f.name not in ("name", "ids", "labels"):
                _digest(state, getattr(self, f.name))
        for part in (self.labels.names, self.labels.texts, self.labels.counts, self.labels.documents):
            _digest(state, part)
        return state.hexdigest()

    def positives(self) -> sp.csr_matrix:
        """csr (n, L): the pairs that are positive examples, as strongly as they are; those of weight 0 are none."""
        if self.pair_weight is None:
            return self.Y
        Y: sp.csr_matrix = sp.csr_matrix(
            (self.weighted_targets().copy(), self.Y.indices.copy(), self.Y.indptr.copy()), shape=self.Y.shape
        )
        Y.eliminate_zeros()
        return Y

    def counted(self) -> Corpus:
        """The same corpus with its label counts taken from its own targets: what training starts with."""
        counted = self.documents_only()
        counts = np.bincount(counted.positives().indices, minlength=self.n_labels)
        return replace(self, labels=self.labels.with_counts(counts, len(counted)))

    def rows(self, rows: NDArray[np.integer]) -> Corpus:
        """Some of the documents, in the order given; label counts stay those of the whole."""
        rows = np.asarray(rows)
        return replace(
            self,
            Y=self.Y[rows],
            texts=None if self.texts is None else [self.texts[i] for i in rows],
            X=None if self.X is None else self.X[rows],
            ids=None if self.ids is None else [self.ids[i] for i in rows],
            pair_weight=None if self.pair_weight is None else self.pair_weight[_entries(self.Y.indptr, rows)],
            reciprocal=None if self.reciprocal is None else self.reciprocal[rows],
            noise=None if self.noise is None else self.noise.rows(rows),
            made=None if self.made is None else self.made[rows],
            origin=None if self.origin is None else self.origin[rows],
        )

    def with_rows(
        self,
        *,
        texts: Sequence[str],
        Y: sp.csr_matrix,
        ids: Sequence[str],
        X: sp.csr_matrix | None = None,
        pair_weight: NDArray[np.float32] | None = None,
        reciprocal: sp.csr_matrix | None = None,
        origin: NDArray[np.int32] | None = None,
    ) -> Corpus:
        """The corpus with rows that an augmenter made behind its own; without their X features are to be made anew.

        pair_weight  of the new rows' pairs, 1 if not given; reciprocal  their reciprocal pairs, none if not given;
        origin       the documents they were made from, none if not given
        """
        Y = sp.csr_matrix(Y)
        Y.sort_indices()
        n, added = len(self), Y.shape[0]
        weights = None
        if self.pair_weight is not None or pair_weight is not None:
            own = np.ones(self.Y.nnz, np.float32) if self.pair_weight is None else self.pair_weight
            weights = np.concatenate([own, np.ones(Y.nnz, np.float32) if pair_weight is None else pair_weight])
        pairs = None
        if self.reciprocal is not None or reciprocal is not None:
            halves = ((self.reciprocal, self.Y.shape), (reciprocal, Y.shape))
            none = [sp.csr_matrix(sp.coo_array(shape, dtype=bool)) if m is None else m for m, shape in halves]
            pairs = sp.vstack(none, format="csr")
        new = np.full(added, -1, np.int32) if origin is None else origin.astype(np.int32)
        return replace(
            self,
            Y=sp.vstack([self.Y, Y], format="csr"),
            texts=None if self.texts is None else [*self.texts, *texts],
            X=None if X is None or self.X is None else sp.vstack([self.X, X], format="csr"),
            ids=None if self.ids is None else [*self.ids, *ids],
            pair_weight=weights,
            reciprocal=pairs,
            noise=None if self.noise is None else self.noise.with_rows(added),
            made=np.concatenate([np.zeros(n, bool) if self.made is None else self.made, np.ones(added, bool)]),
            origin=np.concatenate([self.origins(), new]),
        )

    def by_group(self, group: NDArray[np.int32]) -> Corpus:
        """The same documents with groups of labels in place of labels; group int32 (L,), -1 for none.

        The strongest of a document's pairs in a group counts. A group in which a document has only pairs of weight 0
        is masked, too: neither a positive nor a negative example.
        """
        row, column = rows_of_pairs(self.Y), group[self.Y.indices]
        value = np.minimum(self.weighted_targets(), np.float32(1))
        there = column >= 0
        row, column, value = row[there], column[there], value[there]
        groups = int(group.max(initial=-1)) + 1
        order = np.lexsort((value, column, row))
        key = (row * groups + column)[order]
        last = np.append(key[1:] != key[:-1], True) if len(key) else np.zeros(0, dtype=bool)
        kept = order[last]
        row, column, value = row[kept], column[kept], value[kept]
        indptr = starts_of(np.bincount(row, minlength=len(self)))
        positive = value > 0
        targets = np.where(positive, value, np.float32(1)).astype(np.float32)
        Y = sp.csr_matrix((targets, column.astype(np.int32), indptr), shape=(len(self), groups))
        grouped = replace(
            self,
            labels=LabelIndex(list(map(str, range(groups)))),
            Y=Y,
            pair_weight=None if positive.all() else positive.astype(np.float32),
            label_X=None,
            reciprocal=None,
        )
        return grouped.counted()

    def columns(self, columns: NDArray[np.integer]) -> Corpus:
        """The same documents with only some of the labels, renumbered in the (rising) order given."""
        columns = np.asarray(columns)
        if (np.diff(columns) <= 0).any():
            raise ValueError("columns must rise")
        renumber = np.full(self.n_labels, -1, dtype=np.int64)
        renumber[columns] = np.arange(len(columns))
        kept = renumber[self.Y.indices] >= 0
        indptr = entries_kept(self.Y, kept)
        Y = sp.csr_matrix(
            (self.Y.data[kept], renumber[self.Y.indices[kept]].astype(np.int32), indptr), (len(self), len(columns))
        )
        return replace(
            self,
            labels=self.labels.take(columns),
            Y=Y,
            pair_weight=None if self.pair_weight is None else self.pair_weight[kept],
            label_X=None if self.label_X is None else self.label_X[columns],
            reciprocal=None if self.reciprocal is None else sp.csr_matrix(self.reciprocal[:, columns]),
        )

    def aligned(self, labels: LabelIndex, *, keep_unknown: bool = False) -> Corpus:
        """The same documents in another index's columns, matched by name.

        Labels that the index does not know are dropped, or, with `keep_unknown`, put behind its own columns with
        a training count of 0.
        """
        if labels is self.labels or (not keep_unknown and labels.names == self.labels.names):
            return replace(self, labels=labels)
        renumber = np.array([labels.ids.get(name, -1) for name in self.labels.names], dtype=np.int64)
        unknown = [int(column) for column in np.flatnonzero(renumber < 0)]
        if keep_unknown and unknown:
            renumber[unknown] = len(labels) + np.arange(len(unknown))
            texts = None
            if labels.texts is not None or self.labels.texts is not None:
                texts = [*(labels.texts or [""] * len(labels)), *(self.labels.text(c) for c in unknown)]
            counts = np.concatenate([labels.frequency, np.zeros(len(unknown), dtype=np.int64)])
            names = [*labels.names, *(self.labels.names[c] for c in unknown)]
            labels = LabelIndex(names, texts, counts, labels.documents)
        Y, entries = _recolumn(self.Y, renumber, len(labels))
        reciprocal = None if self.reciprocal is None else _recolumn(self.reciprocal, renumber, len(labels))[0]
        weight = None if self.pair_weight is None else self.pair_weight[entries]
        return replace(self, labels=labels, Y=Y, reciprocal=reciprocal, pair_weight=weight, label_X=None)

    def without_unseen(self) -> Corpus:
        """The same corpus with no pair of a label that training never saw: nobody can be expected to predict it."""
        kept = self.labels.frequency[self.Y.indices] > 0
        if kept.all():
            return self
        indptr = entries_kept(self.Y, kept)
        Y = sp.csr_matrix((self.Y.data[kept], self.Y.indices[kept], indptr), shape=self.Y.shape)
        return replace(self, Y=Y, pair_weight=None if self.pair_weight is None else self.pair_weight[kept])

    def with_reciprocal(self) -> Corpus:
        """The same corpus, marking every pair in which the document is itself the label beside those marked already.

        A document is a label if its text is the label's text, the first line of it, or its name, letter case and white
        space aside, or its id the label's name. Ids that are all whole numbers say nothing, for they may be row
        numbers; neither does a number as the name of a label that has a text.
        """
        n, L = self.Y.shape
        rows, columns = _own_labels(self.labels, self.texts, self.ids)
        if not rows:
            return self
        own = sp.csr_matrix((np.ones(len(rows), dtype=bool), (rows, columns)), shape=(n, L))
        if self.reciprocal is not None:
            own = sp.csr_matrix(own + self.reciprocal.astype(bool))
        own.sum_duplicates()
        return replace(self, reciprocal=own)

    def split(self, share: float, rng: np.random.Generator) -> tuple[Corpus, Corpus]:
        """Two random parts, the second with about `share` of the documents; each counts as it was counted before."""
        order = rng.permutation(len(self))
        cut = round(share * len(self))
        return self.rows(np.sort(order[cut:])), self.rows(np.sort(order[:cut]))


def _own_labels(
    labels: LabelIndex, texts: Sequence[str] | None, ids: Sequence[str] | None
) -> tuple[list[int], list[int]]:
    """Documents and columns of the pairs in which a document is itself the label."""
    named: dict[str, list[int]] = {}
    for column, name in enumerate(labels.names):
        text, title = labels.text(column), labels.title(column)
        for key in {_folded(text), _folded(title), _folded(title if name.isdigit() else name)}:
            named.setdefault(key, []).append(column)
    named.pop("", None)
    pairs: set[tuple[int, int]] = set()
    for row, text in enumerate(texts or ()):
        pairs.update((row, column) for column in named.get(_folded(text), ()))
    if ids is not None and not all(ident.isdigit() for ident in ids):
        pairs.update((row, labels.ids[ident]) for row, ident in enumerate(ids) if ident in labels.ids)
    return [row for row, _ in pairs], [column for _, column in pairs]


def _digest(state: Any, value: Any) -> None:
    """Adds a value to a hash, each delimited by its length."""
    if isinstance(value, sp.csr_matrix):
        for part in (value.shape, value.indptr, value.indices, value.data):
            _digest(state, part)
    elif isinstance(value, np.ndarray):
        state.update(f"{value.dtype}{value.shape}".encode())
        state.update(np.ascontiguousarray(value).data)
    elif isinstance(value, Sequence) and not isinstance(value, str) and value and isinstance(value[0], str):
        for text in value:
            state.update(f"{len(text)}:".encode())
            state.update(text.encode("utf-8", "surrogatepass"))
    elif hasattr(value, "__dataclass_fields__"):
        for f in fields(value):
            _digest(state, getattr(value, f.name))
    else:
        state.update(f"{value!r};".encode())


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()


def _entries(indptr: NDArray[np.integer], rows: NDArray[np.integer]) -> NDArray[np.int64]:
    """Positions of the stored entries of some rows, in the rows' order."""
    return pieces_of(indptr[rows], indptr[rows + 1] - indptr[rows])


def _recolumn(
    matrix: sp.csr_matrix, renumber: NDArray[np.int64], width: int
) -> tuple[sp.csr_matrix, NDArray[np.int64]]:
    """The matrix with column c moved to renumber[c] (dropped if -1), rows sorted, and where each entry came from."""
    new = renumber[matrix.indices]
    row = rows_of_pairs(matrix)
    kept = np.flatnonzero(new >= 0)
    order = kept[np.lexsort((new[kept], row[kept]))]
    indptr = starts_of(np.bincount(row[order], minlength=matrix.shape[0]))
    shape = (matrix.shape[0], width)
    return sp.csr_matrix((matrix.data[order], new[order].astype(np.int32), indptr), shape), order
