"""The targets of a classifier, in whichever form scikit-learn's users write them, and predictions in the same form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import column_or_1d

from longtail.inputs.tables import column, kind_of
from longtail.sparse import rows_of_pairs, starts_of

#: One class per document; an indicator matrix, dense or sparse; a list of labels per document.
SINGLE, DENSE, SPARSE, LISTS = "single", "dense", "sparse", "lists"


@dataclass(frozen=True)
class Form:
    """How targets were written.

    kind     one of those above
    classes  (L,), what the columns stand for
    dtype    of an indicator matrix
    array    whether a sparse one is of scipy's arrays, not of its matrices
    """

    kind: str
    classes: NDArray[Any]
    dtype: Any = None
    array: bool = False

    @property
    def multilabel(self) -> bool:
        return self.kind != SINGLE

    def written(self, marks: sp.csr_matrix) -> Any:
        """Predictions in the form of the targets; rows of `marks` are in the order of their scores."""
        if self.kind == LISTS:
            labels = self.classes[marks.indices].tolist()
            return [labels[begin:end] for begin, end in pairwise(marks.indptr.tolist())]
        if self.kind == DENSE:
            return marks.astype(self.dtype).toarray()
        marks = marks.astype(self.dtype)
        marks.sort_indices()
        return sp.csr_array(marks) if self.array else marks


def read_targets(y: Any) -> tuple[Form, sp.csr_matrix]:
    """What the targets are, and they themselves as csr float32 (n, L)."""
    if sp.issparse(y):
        return _of_sparse(y)
    lists = _as_lists(y)
    if lists is not None:
        return _of_lists(lists)
    if y is None:
        raise ValueError("LongtailClassifier requires y to be passed, but the target y is None")
    check_classification_targets(y)
    if type_of_target(y, input_name="y") == "multilabel-indicator":
        dense = np.asarray(y)
        if not np.isin(dense, (0, 1)).all():
            raise ValueError("Unknown label type: an indicator matrix holds 0 and 1, and y has other values")
        return Form(DENSE, np.arange(dense.shape[1]), dense.dtype), _ones(sp.csr_matrix(dense != 0))
    classes, codes = np.unique(column_or_1d(y, warn=True), return_inverse=True)
    indptr = np.arange(len(codes) + 1)
    Y = sp.csr_matrix((np.ones(len(codes), np.float32), codes.astype(np.int32), indptr), (len(codes), len(classes)))
    return Form(SINGLE, classes), Y


def known_targets(y: Any, form: Form) -> tuple[sp.csr_matrix, int]:
    """Targets in the columns of a fitted form, and how many labels were given that it does not know."""
    given, Y = read_targets(y)
    if given.kind in (DENSE, SPARSE) and form.kind in (DENSE, SPARSE):
        if Y.shape[1] != len(form.classes):
            raise ValueError(f"y has {Y.shape[1]} columns, and the classifier was fitted with {len(form.classes)}")
        return Y, 0
    if given.kind != form.kind:
        raise ValueError(f"y has the form '{given.kind}', and the classifier was fitted with '{form.kind}'")
    places = {label: number for number, label in enumerate(form.classes.tolist())}
    columns = np.array([places.get(label, -1) for label in given.classes.tolist()], dtype=np.int64)[Y.indices]
    rows = rows_of_pairs(Y)
    kept = columns >= 0
    shape = (Y.shape[0], len(form.classes))
    found = sp.csr_matrix((np.ones(kept.sum(), np.float32), (rows[kept], columns[kept])), shape)
    return found, int((~kept).sum())


def _ones(matrix: sp.csr_matrix) -> sp.csr_matrix:
    return matrix.astype(np.float32)


def _of_sparse(y: Any) -> tuple[Form, sp.csr_matrix]:
    Y = sp.csr_matrix(y)
    Y.sum_duplicates()
    Y.eliminate_zeros()
    if Y.nnz and not (Y.data == 1).all():
        raise ValueError("Unknown label type: an indicator matrix holds 0 and 1, and y has other values")
    return Form(SPARSE, np.arange(Y.shape[1]), y.dtype, isinstance(y, sp.sparray)), _ones(Y)


# lists of labels
def _as_lists(y: Any) -> list[Any] | None:
    """The lists of labels, or None where the targets are of another form."""
    if getattr(y, "ndim", 1) != 1:
        return None
    values = y if isinstance(y, list | tuple) else column(y)
    if not values or not any(isinstance(each, list | tuple | set | frozenset | np.ndarray) for each in values):
        return None
    return None if _is_indicator(values) else list(values)


def _is_indicator(rows: Sequence[Any]) -> bool:
    """Whether lists are rows of an indicator matrix: all of one length, and nothing but 0 and 1."""
    if any(isinstance(row, set | frozenset | None.__class__) for row in rows) or len({len(row) for row in rows}) != 1:
        return False
    # a list is compared as it is: an array of texts and numbers would hold texts only
    return all(type(value) in (int, bool) or isinstance(value, np.number | np.bool_) for value in rows[0]) and bool(
        np.isin(np.asarray(rows), (0, 1)).all()
    )


def _of_lists(rows: Sequence[Any]) -> tuple[Form, sp.csr_matrix]:
    labels = [_labels_of(row) for row in rows]
    counts = [len(row) for row in labels]
    flat = list(chain.from_iterable(labels))
    kinds = {type(label) for label in flat}
    if not kinds <= {str} and not kinds <= {int}:
        wrong = next(label for label in flat if type(label) not in (str, int)) if kinds - {str, int} else None
        said = "texts and numbers" if wrong is None else kind_of(wrong)
        raise ValueError(f"Unknown label type: lists of labels hold texts, or whole numbers, and these hold {said}")
    names, codes = np.unique(np.array(flat) if flat else np.zeros(0, dtype=str), return_inverse=True)
    Y = sp.csr_matrix((np.ones(len(flat), np.float32), codes.astype(np.int32), starts_of(np.array(counts))),
                      shape=(len(labels), len(names)))  # fmt: skip
    return Form(LISTS, names), Y


def _labels_of(row: Any) -> list[Any]:
    """The labels of one document, each once."""
    if row is None:
        return []
    if hasattr(row, "tolist"):
        row = row.tolist()
    if not isinstance(row, list | tuple | set | frozenset):
        raise ValueError(f"Unknown label type: y has lists of labels, and {kind_of(row)} among them")
    return list(dict.fromkeys(label.item() if isinstance(label, np.generic) else label for label in row))
