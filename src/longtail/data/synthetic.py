"""Corpora of any size that behave like extreme multi-label data, for scale tests and for trying things out.

Label frequencies follow Zipf's law, labels come in clusters whose members occur together, and each label has a few
words of its own that turn up in its documents between background words, which follow Zipf's law as well.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail.corpus import Corpus
from longtail.data.synthetic_kernels import Law, count_words, draw_labels, draw_words, sort_rows, weigh, words_of_labels
from longtail.errors import UsageError
from longtail.labels import LabelIndex
from longtail.run import Run

BLOCK = 8192  # documents in a task; the outcome does not depend on it

#: The labels and the words of some documents: how many each document has, and which, one after the other.
_Block = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64], NDArray[np.int32]]


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What a synthetic corpus is like.

    words_per_document   mean length; single documents have between half and one and a half times as many words
    labels_per_document  mean number of labels, each document has at least 1
    zipf                 exponent of the label frequencies: 0 gives every label the same share
    cooccurrence         how often a further label of a document is of the cluster of its first label
    signal               share of a document's words that are words of its labels
    every_label          give every label at least one document, where there are as many documents as labels
    texts                words as texts ("w12 w7 ...") and label texts, instead of X (tf-idf, unit length) and label_X
    """

    documents: int = 10_000
    labels: int = 5_000
    words: int = 50_000
    words_per_document: float = 50
    labels_per_document: float = 3.0
    zipf: float = 1.0
    cooccurrence: float = 0.5
    signal: float = 0.3
    every_label: bool = True
    seed: int = 0
    texts: bool = False

    def __post_init__(self) -> None:
        """Refuses what cannot be generated, naming the argument."""
        largest = 2**31 - 1
        for name, low, high in (
            ("documents", 1, largest),
            ("labels", 1, largest),
            ("words", 1, largest),
            ("seed", 0, 2**63 - 1),
        ):
            value = getattr(self, name)
            whole = isinstance(value, int | np.integer) and not isinstance(value, bool | np.bool_)
            if not whole or not low <= value <= high:
                raise UsageError(
                    f"{name} of a synthetic corpus must be a whole number of at least {low}, not {value!r}"
                )
        for name, low, high in (
            ("words_per_document", 1, 100_000),
            ("labels_per_document", 1, min(self.labels, 500)),
            ("zipf", 0, 10),
            ("cooccurrence", 0, 1),
            ("signal", 0, 1),
        ):
            value = getattr(self, name)
            number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
            if not number or not low <= value <= high:  # NaN is in no range
                raise UsageError(f"{name} of a synthetic corpus must lie between {low} and {high}, not {value!r}")

    @property
    def law(self) -> Law:
        return Law(
            zipf=float(self.zipf),
            labels_per_document=float(self.labels_per_document),
            cooccurrence=float(self.cooccurrence),
            words=int(self.words),
            words_per_document=float(self.words_per_document),
            signal=float(self.signal),
        )


def synthetic(*, run: Run | None = None, **shape: Any) -> Corpus:
    """A corpus with counted labels; the same arguments give the same bytes, whatever the number of threads.

    shape  as in documents=1_000, labels=500: see `Shape`
    """
    run = run or Run()
    drawing = _Drawing(Shape(**shape))
    with run.stage("synthetic"):
        return drawing.corpus(run)


class _Drawing:
    """Draws the documents of one corpus. Labels have ranks by frequency, which say nothing about their columns."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.key = np.uint64(Run(seed=int(shape.seed)).seed_of("synthetic"))
        rng = np.random.default_rng(int(self.key))
        self.column_of_rank = rng.permutation(shape.labels).astype(np.int32)
        # rank of a document's first label; -1 for one drawn by Zipf's law
        self.forced = np.full(shape.documents, -1, dtype=np.int32)
        if shape.every_label and shape.documents >= shape.labels:
            self.forced[rng.permutation(shape.documents)[: shape.labels]] = np.arange(shape.labels)
        self.share = _shares(shape.labels, float(shape.zipf))
        self.words_of_rank = words_of_labels(shape.labels, shape.words, self.key)

    def corpus(self, run: Run) -> Corpus:
        shape = self.shape
        blocks = run.map(self._block, range(0, shape.documents, BLOCK), title="drawing documents")
        how_many, columns = (np.concatenate([block[part] for block in blocks]) for part in (0, 1))
        Y = _csr(how_many, columns, np.ones(len(columns), dtype=np.float32), shape.labels)
        digits = max(6, len(str(shape.labels - 1)))
        names = [f"label-{column:0{digits}d}" for column in range(shape.labels)]
        name = f"synthetic ({shape.documents} documents, {shape.labels} labels, seed {shape.seed})"
        if shape.texts:
            texts, label_texts = self._written(blocks)
            return Corpus(labels=LabelIndex(names, label_texts), Y=Y, texts=texts, name=name).counted()
        X, label_X = self._weighed(blocks, run)
        return Corpus(labels=LabelIndex(names), Y=Y, X=X, label_X=label_X, name=name).counted()

    def _block(self, start: int) -> _Block:
        law = self.shape.law
        forced = self.forced[start : start + BLOCK]
        how_many, ranks = draw_labels(start, forced, self.share, law, self.key)
        lengths, tokens = draw_words(start, how_many, ranks, self.words_of_rank, law, self.key)
        columns = self.column_of_rank[ranks]
        sort_rows(how_many, columns)
        return how_many, columns, lengths, tokens

    @property
    def _label_words(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Number of words per label, and the words, in the order of the columns."""
        words = self.words_of_rank[np.argsort(self.column_of_rank)]
        return np.full(len(words), words.shape[1]), words.ravel()

    def _written(self, blocks: list[_Block]) -> tuple[list[str], list[str]]:
        """Texts of the documents and of the labels."""
        vocabulary = [f"w{word}" for word in range(self.shape.words)]
        written = [text for block in blocks for text in _texts(block[2], block[3], vocabulary)]
        return written, _texts(*self._label_words, vocabulary)

    def _weighed(self, blocks: list[_Block], run: Run) -> tuple[sp.csr_matrix, sp.csr_matrix]:
        """Features of the documents and of the labels; empties the blocks, which are large."""
        words = self.shape.words
        counted = run.map(lambda block: count_words(*block[2:]), blocks, title="counting words")
        blocks.clear()
        lengths, columns, values = (np.concatenate([count[part] for count in counted]) for part in (0, 1, 2))
        del counted
        seen = np.bincount(columns, minlength=words)
        idf = (np.log((1.0 + self.shape.documents) / (1.0 + seen)) + 1.0).astype(np.float32)
        X = _csr(lengths, columns, values, words)
        label_lengths, label_columns, label_values = count_words(*self._label_words)
        label_X = _csr(label_lengths, label_columns, label_values, words)
        for matrix in (X, label_X):
            weigh(matrix.indptr, matrix.indices, matrix.data, idf)
        return X, label_X


def _csr(lengths: NDArray[np.integer], columns: NDArray[np.int32], values: NDArray[np.float32], width: int) -> Any:
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    matrix = sp.csr_matrix((values, columns, indptr), shape=(len(lengths), width), copy=False)
    matrix.has_canonical_format = True  # rows are made sorted and free of duplicates
    return matrix


def _texts(lengths: NDArray[np.integer], words: NDArray[np.int32], vocabulary: list[str]) -> list[str]:
    ends = np.cumsum(lengths).tolist()
    spelt = [vocabulary[word] for word in words.tolist()]
    return [" ".join(spelt[start:end]) for start, end in zip([0, *ends[:-1]], ends, strict=True)]


def _shares(labels: int, zipf: float) -> NDArray[np.float64]:
    """Probability of the label of each rank, float64 (L,): that of rank r is nearly proportional to (r + 1.5)^-zipf."""
    edges = np.arange(1, labels + 2, dtype=np.float64)
    if abs(zipf - 1.0) < 1e-9:
        below = np.log(edges) / math.log(labels + 1)
    else:
        below = (edges ** (1.0 - zipf) - 1.0) / ((labels + 1.0) ** (1.0 - zipf) - 1.0)
    return np.diff(below)
