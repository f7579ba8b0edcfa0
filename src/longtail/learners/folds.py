"""What re-rankers learn from: shortlists of documents that the learner behind them did not see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail.corpus import Corpus
from longtail.fit import Fit
from longtail.learners.base import Learner
from longtail.part import Arrays
from longtail.registry import config_of
from longtail.rerank.base import Reranker
from longtail.rerank.held_out import Folds
from longtail.run import Run
from longtail.scores import Scores

if TYPE_CHECKING:
    from longtail.learners.pipeline import Pipeline

#: Folds that documents are split into.
FOLDS = 4
#: Up to this many documents all folds are held out in turn; beyond, only the first, unless a re-ranker asks for all.
ALL_FOLDS = 20_000
#: Documents whose doubles are looked for at once.
AT_ONCE = 10_000


def folds_held_out(rerankers: Sequence[Reranker], documents: int) -> int:
    """How many of the folds are held out, each for one more training of the learner; 0 where no re-ranker learns."""
    learning = [part for part in rerankers if part.capabilities.learns]
    if not learning:
        return 0
    return FOLDS if documents <= ALL_FOLDS or any(part.all_folds for part in learning) else 1


def rows_of_folds(folds: int, documents: Corpus, run: Run) -> list[NDArray[np.int64]]:
    """The documents of the first so many folds, drawn at random; doubles of a document stay in its fold.

    A learner that has seen a document's double knows its labels, the rarest above all: what it says of rare labels
    there does not hold for new documents.
    """
    group = _doubles(documents)
    sizes = np.bincount(group, minlength=1)
    drawn = run.rng("out-of-fold").permutation(len(sizes))
    # where each fold of equal size ends; a group belongs to the fold in which it begins
    ends = np.cumsum([len(part) for part in np.array_split(group, FOLDS)])
    of = np.empty(len(sizes), dtype=np.int64)
    of[drawn] = np.searchsorted(ends, np.cumsum(sizes[drawn]) - sizes[drawn], side="right")
    rows = [np.flatnonzero(of[group] == number) for number in range(folds)]
    return [each for each in rows if len(each)]


def _doubles(documents: Corpus) -> NDArray[np.int64]:
    """A number per document, rising by first sight; the same for documents of equal features, or of equal texts where
    there are none. Documents without any feature are not doubles, nor is what would be most of a fold."""
    n = len(documents)
    if documents.X is not None:
        marks, empty = _marks(documents.X), np.diff(documents.X.indptr) == 0
    else:
        texts = documents.texts or [""] * n
        marks, empty = np.array([hash(text) for text in texts]), np.array([not text for text in texts])
    _, first, which = np.unique(marks, return_index=True, return_inverse=True)
    alone = empty | (np.bincount(which)[which] > n // (2 * FOLDS))
    return np.unique(np.where(alone, np.arange(n), first[which]), return_inverse=True)[1].astype(np.int64)


def _marks(X: sp.csr_matrix) -> NDArray[np.uint64]:
    """A number per row that equal rows share, whatever the order of their entries; others do but once in 2^64."""
    marks = np.empty(X.shape[0], dtype=np.uint64)
    for begin in range(0, X.shape[0], AT_ONCE):
        ends = X.indptr[begin : begin + AT_ONCE + 1]
        some = slice(ends[0], ends[-1])
        mixed = (X.indices[some].astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= X.data[some].astype(np.float32).view(np.uint32) * np.uint64(0xC2B2AE3D27D4EB4F)
        mixed ^= mixed >> np.uint64(29)
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(32)
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mixed, dtype=np.uint64)])
        marks[begin : begin + AT_ONCE] = np.diff(sums[ends - ends[0]])
    return marks


def out_of_fold(pipeline: Pipeline, documents: Corpus, augmented: Corpus, fit: Fit) -> tuple[Scores, Corpus, Folds]:
    """Shortlists of documents that the learner behind them did not see, those documents, and what it saw instead.

    On its own training documents a learner is nearly perfect, which would teach a re-ranker nothing.

    documents  with features
    augmented  what the learner is trained on: rows that an augmenter made stay in training, but for those made from
               documents that are held out
    """
    held_out = rows_of_folds(folds_held_out(pipeline.rerank, len(documents)), documents, fit.run)
    shortlists = []
    for number, rows in enumerate(held_out):
        fold = fit.child(f"fold/{number}").apart().with_valid(None)
        staged = _Staged(pipeline, pipeline.learner.unfitted())
        fold.train(staged, augmented.without_documents(documents.origins()[rows]))
        scores = staged.learner.score(documents.rows(rows), pipeline.depth, run=fold.run)
        shortlists.append(scores.top(pipeline.depth))
    scores = Scores.stacked(shortlists, max(pipeline.depth, 1))
    return scores, documents.rows(np.concatenate(held_out)), Folds.held_out(held_out, documents)


@dataclass
class _Staged:
    """A learner of one fold, with both stages: what a fit trains once and keeps."""

    pipeline: Pipeline
    learner: Learner

    def learn(self, corpus: Corpus, fit: Fit) -> None:
        self.pipeline.fit_learner(self.learner, corpus, fit, fold=True)

    def config(self) -> list[Any]:
        return [config_of(self.learner), *(config_of(part) for part in self.pipeline.augment)]

    def state(self) -> dict[str, NDArray[Any]]:
        return self.learner.state()

    def restore(self, arrays: Arrays) -> None:
        self.learner.restore(arrays)
