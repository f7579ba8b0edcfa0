"""How good generated texts are: whether they still hold the words that their labels are known by."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail.augment.generate.words import words_of
from longtail.augment.xda.made import Made
from longtail.corpus import Corpus

#: Words a label is known by, and labels that are looked at.
TOP, LABELS = 5, 2000


def top_words(corpus: Corpus, labels: NDArray[np.int64], most: int = TOP) -> dict[int, set[str]]:
    """The words of each of these labels with the largest sum of weights (rare words weigh more) over its documents."""
    assert corpus.texts is not None
    documents = corpus.documents_only()
    assert documents.texts is not None
    words, stream, start = words_of([text.lower() for text in documents.texts])
    n = len(documents)
    counts = sp.csr_matrix((np.ones(len(stream), np.float32), stream.copy(), start), shape=(n, len(words)))
    counts.sum_duplicates()
    counts.data[:] = 1
    weight = np.log(n / np.maximum(np.bincount(counts.indices, minlength=len(words)), 1)) + 1e-6
    rows = sp.csr_matrix(documents.positives().T.tocsr()[labels] @ counts)
    found = {}
    for place, label in enumerate(labels):
        own = slice(rows.indptr[place], rows.indptr[place + 1])
        best = np.argsort(-rows.data[own] * weight[rows.indices[own]], kind="stable")[:most]
        found[int(label)] = {words[int(word)].as_py() for word in rows.indices[own][best]}
    return found


def top_words_kept(corpus: Corpus, made: Made) -> float | None:
    """Share of the top words of a text's rare labels, among those its source has, that the text still has.

    Labels are those that count in the texts; None where no source has such a word.
    """
    Y = made.corpus.Y
    counts = np.ones(Y.nnz, dtype=bool) if made.pair_weight is None else made.pair_weight > 0
    labels = np.unique(Y.indices[counts])[:LABELS].astype(np.int64)
    if not len(labels) or corpus.texts is None:
        return None
    known = top_words(corpus, labels)
    there = kept = 0
    for place, text in enumerate(made.texts):
        pairs = slice(Y.indptr[place], Y.indptr[place + 1])
        wanted = {w for label in Y.indices[pairs][counts[pairs]] for w in known.get(int(label), ())}
        wanted &= set(corpus.texts[made.rows[place]].lower().split())
        there += len(wanted)
        kept += len(wanted & set(text.lower().split()))
    return round(kept / there, 4) if there else None
