"""Clusters of labels, by the words of their documents."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail.arrays import SparseRows, largest_entries
from longtail.cluster.balanced import balanced
from longtail.corpus import Corpus
from longtail.errors import UsageError
from longtail.features.tfidf import Tfidf
from longtail.learners.neural.heads.base import LabelFacts
from longtail.learners.neural.training.task import label_texts, texts_of
from longtail.run import Run
from longtail.sparse import unit_rows

#: Words of all labels together that clusters are made by. Neighbours lend each other theirs, and where labels are many
#: that would fill the memory: each keeps its largest then.
ENTRIES = 2**27
#: Labels smoothed at once.
CHUNK = 8192
#: Labels with more documents are clusters of their own (ECLARE, InceptionXML).
HEAD = 500


def grouped_labels(
    encoder: Any, corpus: Corpus, facts: LabelFacts, size: int, run: Run, head: int = HEAD
) -> NDArray[np.int32]:
    """int32 (L,): clusters of at most `size` labels, by the words of their documents, smoothed along the graph if any.

    A label without documents goes by its text.
    """
    X = encoder.weights(encoder.tokens(texts_of(corpus), run))
    made = sp.csr_matrix(corpus.positives().T @ X)
    empty = np.diff(made.indptr) == 0
    made = unit_rows(made) + sp.csr_matrix(sp.diags_array(empty.astype(np.float32)) @ facts.texts)
    if facts.graph is not None:
        made = smoothed(facts.graph, sp.csr_matrix(made), run)
    return grouped(sp.csr_matrix(made), corpus.labels.frequency > head, size, run)


def grouped_by_words(corpus: Corpus, size: int, run: Run, head: int = HEAD) -> NDArray[np.int32]:
    """The same for learners whose encoder does not weigh words: by TF-IDF features made for the purpose."""
    features = Tfidf()
    try:
        X = features.fit_transform(texts_of(corpus), run=run)
    except UsageError:  # no word tells any two documents apart, and so none tells labels apart
        nothing = sp.csr_matrix(sp.coo_array((corpus.n_labels, 1), dtype=np.float32))
        return grouped(nothing, corpus.labels.frequency > head, size, run)
    made = sp.csr_matrix(corpus.positives().T @ X)
    empty = np.diff(made.indptr) == 0
    if empty.any():
        texts = features.transform(label_texts(corpus.labels), run=run)
        made = sp.csr_matrix(made + sp.diags_array(empty.astype(np.float32)) @ texts)
    return grouped(made, corpus.labels.frequency > head, size, run)


def grouped_by_vectors(
    vectors: NDArray[np.float32], corpus: Corpus, facts: LabelFacts | None, size: int, run: Run, head: int = HEAD
) -> NDArray[np.int32]:
    """The same by dense vectors of the documents (n, D): a label's is the direction of the sum of its documents'.

    A label without documents has none of its own: where there is no graph to lend it one, it goes with any others.
    """
    made = unit_rows(sp.csr_matrix(np.asarray(corpus.positives().T @ vectors, dtype=np.float32)))
    if facts is not None and facts.graph is not None:
        made = sp.csr_matrix(facts.graph @ made)
    return grouped(made, corpus.labels.frequency > head, size, run)


def smoothed(graph: sp.csr_matrix, vectors: sp.csr_matrix, run: Run) -> sp.csr_matrix:
    """csr float32 (L, D): graph @ vectors; of each row the largest entries, where all would be too many."""
    L = vectors.shape[0]
    most = max(1, ENTRIES // max(1, L))

    def one(low: int) -> sp.csr_matrix:
        rows = sp.csr_matrix(graph[low : low + CHUNK] @ vectors)
        return largest_entries(SparseRows.of(rows), most).matrix(rows.shape[1])

    return sp.vstack(run.map(one, range(0, L, CHUNK)), format="csr")


def grouped(vectors: sp.csr_matrix, alone: NDArray[np.bool_], size: int, run: Run) -> NDArray[np.int32]:
    """int32 (L,): balanced clusters of label vectors (L, D), those of `alone` each by itself."""
    cluster = np.empty(vectors.shape[0], dtype=np.int32)
    first = int(alone.sum())
    cluster[alone] = np.arange(first)
    rest = unit_rows(sp.csr_matrix(vectors[np.flatnonzero(~alone)]))
    cluster[~alone] = balanced(SparseRows.of(rest), rest.shape[1], size, run) + first
    return cluster
