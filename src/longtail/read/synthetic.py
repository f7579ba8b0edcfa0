"""Corpora of any size that behave like extreme multi-label data, for scale tests and for trying things out.

Label frequencies follow Zipf's law, labels come in clusters whose members occur together, and each label has a few
words of its own that turn up in its documents between background words, which follow Zipf's law as well.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray

from longtail.corpus import Corpus
from longtail.errors import UsageError
from longtail.labels import LabelIndex
from longtail.run import Run
from longtail.sparse import starts_of

WORDS_PER_LABEL = 4  # the first of them is shared by the labels of a cluster
CLUSTER = 8  # labels in a cluster
BLOCK = 8192  # documents in a task; the outcome does not depend on it


def synthetic(
    *,
    documents: int = 10_000,
    labels: int = 5_000,
    words: int = 50_000,
    words_per_document: float = 50,
    labels_per_document: float = 3.0,
    zipf: float = 1.0,
    cooccurrence: float = 0.5,
    signal: float = 0.3,
    every_label: bool = True,
    seed: int = 0,
    texts: bool = False,
    run: Run | None = None,
) -> Corpus:
    """A corpus with counted labels; the same arguments give the same bytes, whatever the number of threads.

    words_per_document   mean length; single documents have between half and one and a half times as many words
    labels_per_document  mean number of labels, each document has at least 1
    zipf                 exponent of the label frequencies: 0 gives every label the same share
    cooccurrence         how often a further label of a document is of the cluster of its first label
    signal               share of a document's words that are words of its labels
    every_label          give every label at least one document, where there are as many documents as labels
    texts                words as texts ("w12 w7 ...") and label texts, instead of X (tf-idf, unit length) and label_X
    """
    _check(documents, labels, words, words_per_document, labels_per_document, zipf, cooccurrence, signal, seed)
    run = run or Run()
    key = np.uint64(Run(seed=int(seed)).seed_of("synthetic"))
    rng = np.random.default_rng(int(key))
    column_of_rank = rng.permutation(labels).astype(np.int32)  # a label's number says nothing about its frequency
    forced = np.full(documents, -1, dtype=np.int32)  # rank of a document's first label; -1 for one drawn by Zipf's law
    if every_label and documents >= labels:
        forced[rng.permutation(documents)[:labels]] = np.arange(labels)
    share = _shares(labels, float(zipf))
    own_words = _words_of_labels(labels, words, key)  # by rank

    def block(start: int) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64], NDArray[np.int32]]:
        part = forced[start : start + BLOCK]
        how_many, ranks = _draw_labels(
            start, part, share, float(zipf), float(labels_per_document), float(cooccurrence), key
        )
        lengths, tokens = _draw_words(
            start, how_many, ranks, own_words, words, float(words_per_document), float(signal), key
        )
        columns = column_of_rank[ranks]
        _sort_rows(how_many, columns)
        return how_many, columns, lengths, tokens

    def features(start: int) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
        return _count_words(*blocks[start // BLOCK][2:])

    with run.stage("synthetic"):
        starts = list(range(0, documents, BLOCK))
        blocks = run.map(block, starts, title="drawing documents")
        how_many, columns = (np.concatenate([b[part] for b in blocks]) for part in (0, 1))
        Y = _csr(how_many, columns, np.ones(len(columns), dtype=np.float32), labels)
        own_words = own_words[np.argsort(column_of_rank)]
        digits = max(6, len(str(labels - 1)))
        names = [f"label-{column:0{digits}d}" for column in range(labels)]
        name = f"synthetic ({documents} documents, {labels} labels, seed {seed})"
        if texts:
            vocabulary = [f"w{word}" for word in range(words)]
            written = [text for b in blocks for text in _texts(b[2], b[3], vocabulary)]
            label_lengths = np.full(labels, own_words.shape[1])
            index = LabelIndex(names, _texts(label_lengths, own_words.ravel(), vocabulary))
            return Corpus(labels=index, Y=Y, texts=written, name=name).counted()
        counted = run.map(features, starts, title="counting words")
        blocks.clear()
        lengths, word_columns, values = (np.concatenate([c[part] for c in counted]) for part in (0, 1, 2))
        del counted
        seen = np.bincount(word_columns, minlength=words)
        idf = (np.log((1.0 + documents) / (1.0 + seen)) + 1.0).astype(np.float32)
        X = _csr(lengths, word_columns, values, words)
        _weigh(X.indptr, X.indices, X.data, idf)
        label_lengths, label_columns, label_values = _count_words(
            np.full(labels, own_words.shape[1]), own_words.ravel()
        )
        label_X = _csr(label_lengths, label_columns, label_values, words)
        _weigh(label_X.indptr, label_X.indices, label_X.data, idf)
        return Corpus(labels=LabelIndex(names), Y=Y, X=X, label_X=label_X, name=name).counted()


def _check(
    documents: Any,
    labels: Any,
    words: Any,
    words_per_document: Any,
    labels_per_document: Any,
    zipf: Any,
    cooccurrence: Any,
    signal: Any,
    seed: Any,
) -> None:
    """Refuses what cannot be generated, naming the argument."""
    largest = 2**31 - 1
    for name, value, low, high in (
        ("documents", documents, 1, largest),
        ("labels", labels, 1, largest),
        ("words", words, 1, largest),
        ("seed", seed, 0, 2**63 - 1),
    ):
        if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer) or not low <= value <= high:
            raise UsageError(f"{name} of a synthetic corpus must be a whole number of at least {low}, not {value!r}")
    for name, value, low, high in (
        ("words_per_document", words_per_document, 1, 100_000),
        ("labels_per_document", labels_per_document, 1, min(labels, 500)),
        ("zipf", zipf, 0, 10),
        ("cooccurrence", cooccurrence, 0, 1),
        ("signal", signal, 0, 1),
    ):
        number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        if not number or not low <= value <= high:  # NaN is in no range
            raise UsageError(f"{name} of a synthetic corpus must lie between {low} and {high}, not {value!r}")


def _csr(lengths: NDArray[np.integer], columns: NDArray[np.int32], values: NDArray[np.float32], width: int) -> Any:
    indptr = starts_of(lengths)
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


# Randomness is a stream of its own for each document (splitmix64 started from the key and the document's number), so
# that documents can be made in any order and on any number of threads.


@njit(nogil=True, cache=True, inline="always")
def _mixed(x: np.uint64) -> np.uint64:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@njit(nogil=True, cache=True, inline="always")
def _stream(key: np.uint64, number: int, purpose: int) -> NDArray[np.uint64]:
    state = np.empty(1, dtype=np.uint64)
    state[0] = _mixed(_mixed(key + np.uint64(purpose)) ^ (np.uint64(number) * np.uint64(0x9E3779B97F4A7C15)))
    return state


@njit(nogil=True, cache=True, inline="always")
def _uniform(state: NDArray[np.uint64]) -> float:
    """The next number in [0, 1)."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    return float(_mixed(state[0]) >> np.uint64(11)) * 2.0**-53


@njit(nogil=True, cache=True, inline="always")
def _below(state: NDArray[np.uint64], limit: int) -> int:
    return min(int(_uniform(state) * limit), limit - 1)


@njit(nogil=True, cache=True)
def _zipf_rank(state: NDArray[np.uint64], zipf: float, count: int) -> int:
    """A rank in [0, count) by inversion of the continuous law whose steps are `_shares`."""
    u = _uniform(state)
    if abs(zipf - 1.0) < 1e-9:
        x = math.exp(u * math.log(count + 1.0))
    else:
        x = (1.0 + u * ((count + 1.0) ** (1.0 - zipf) - 1.0)) ** (1.0 / (1.0 - zipf))
    return min(max(int(x) - 1, 0), count - 1)


@njit(nogil=True, cache=True)
def _words_of_labels(labels: int, words: int, key: np.uint64) -> NDArray[np.int32]:
    """The words of the label of each rank, int32 (L, WORDS_PER_LABEL)."""
    out = np.empty((labels, WORDS_PER_LABEL), dtype=np.int32)
    clusters = (labels + CLUSTER - 1) // CLUSTER
    for rank in range(labels):
        out[rank, 0] = _below(_stream(key, rank % clusters, 1), words)
        state = _stream(key, rank, 2)
        for j in range(1, WORDS_PER_LABEL):
            out[rank, j] = _below(state, words)
    return out


@njit(nogil=True, cache=True)
def _draw_labels(
    first: int,
    forced: NDArray[np.int32],
    share: NDArray[np.float64],
    zipf: float,
    labels_per_document: float,
    cooccurrence: float,
    key: np.uint64,
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """(labels per document, ranks of the labels) of the documents numbered from `first`, one for each of `forced`.

    A cluster holds every (L / CLUSTER)-th rank, so each has frequent and rare labels. Within a cluster labels are
    drawn by their shares, which leaves the overall frequencies as they are.
    """
    L = len(share)
    clusters = (L + CLUSTER - 1) // CLUSTER
    how_many = np.zeros(len(forced), dtype=np.int64)
    ranks = np.empty(1024, dtype=np.int32)
    used = 0
    stop = math.exp(1.0 - labels_per_document)
    for d in range(len(forced)):
        state = _stream(key, first + d, 3)
        wanted = 1
        product = _uniform(state)
        while product > stop:  # Knuth's way to a Poisson number
            product *= _uniform(state)
            wanted += 1
        wanted = min(wanted, L)
        if used + wanted > len(ranks):
            ranks = np.concatenate((ranks, np.empty(len(ranks) + wanted, dtype=np.int32)))
        start = used
        for slot in range(wanted):
            for _ in range(16):  # a label that is there already is drawn again, but not for ever
                if slot == 0 and forced[d] >= 0:
                    rank = int(forced[d])
                elif slot == 0 or _uniform(state) >= cooccurrence:
                    rank = _zipf_rank(state, zipf, L)
                else:
                    rank = _cluster_mate(state, ranks[start] % clusters, clusters, share)
                new = True
                for other in range(start, used):
                    new = new and ranks[other] != rank
                if new:
                    ranks[used] = rank
                    used += 1
                    break
        how_many[d] = used - start
    return how_many, ranks[:used].copy()


@njit(nogil=True, cache=True)
def _cluster_mate(state: NDArray[np.uint64], cluster: int, clusters: int, share: NDArray[np.float64]) -> int:
    total = 0.0
    for rank in range(cluster, len(share), clusters):
        total += share[rank]
    target = _uniform(state) * total
    rank = cluster
    target -= share[rank]
    while target >= 0 and rank + clusters < len(share):
        rank += clusters
        target -= share[rank]
    return rank


@njit(nogil=True, cache=True)
def _draw_words(
    first: int,
    how_many: NDArray[np.int64],
    ranks: NDArray[np.int32],
    own_words: NDArray[np.int32],
    words: int,
    words_per_document: float,
    signal: float,
    key: np.uint64,
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """(words per document, words) in a mixed order; each label of a document gives a word before one gives two."""
    longest = int(1.5 * words_per_document) + 1
    lengths = np.empty(len(how_many), dtype=np.int64)
    tokens = np.empty(len(how_many) * longest, dtype=np.int32)
    used = start = 0
    for d in range(len(how_many)):
        state = _stream(key, first + d, 4)
        length = max(1, min(longest, int(words_per_document * (0.5 + _uniform(state)) + 0.5)))
        telling = 0
        if signal > 0:
            telling = min(length, max(how_many[d], int(signal * length + 0.5)))
        for i in range(length):
            if i < telling:
                rank = ranks[start + i % how_many[d]]
                tokens[used + i] = own_words[rank, _below(state, WORDS_PER_LABEL)]
            else:
                tokens[used + i] = _zipf_rank(state, 1.0, words)
        for i in range(length - 1, 0, -1):
            j = _below(state, i + 1)
            tokens[used + i], tokens[used + j] = tokens[used + j], tokens[used + i]
        lengths[d] = length
        used += length
        start += how_many[d]
    return lengths, tokens[:used].copy()


@njit(nogil=True, cache=True)
def _sort_rows(lengths: NDArray[np.int64], values: NDArray[np.int32]) -> None:
    start = 0
    for length in lengths:
        values[start : start + length].sort()
        start += length


@njit(nogil=True, cache=True)
def _count_words(
    lengths: NDArray[np.int64], tokens: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
    """(different words per document, the words in rising order, 1 + ln of how often each occurs)."""
    different = np.zeros(len(lengths), dtype=np.int64)
    columns = np.empty(len(tokens), dtype=np.int32)
    values = np.empty(len(tokens), dtype=np.float32)
    used = start = 0
    for d in range(len(lengths)):
        row = np.sort(tokens[start : start + lengths[d]])
        begin = 0
        for i in range(len(row)):
            if i + 1 == len(row) or row[i + 1] != row[i]:
                columns[used] = row[i]
                values[used] = 1.0 + math.log(i + 1.0 - begin)
                begin = i + 1
                used += 1
                different[d] += 1
        start += lengths[d]
    return different, columns[:used].copy(), values[:used].copy()


@njit(nogil=True, cache=True)
def _weigh(
    indptr: NDArray[np.integer],
    indices: NDArray[np.integer],
    data: NDArray[np.float32],
    idf: NDArray[np.float32],
) -> None:
    """Multiplies by the inverse document frequencies and brings rows to unit length, in place."""
    for row in range(len(indptr) - 1):
        squares = 0.0
        for entry in range(indptr[row], indptr[row + 1]):
            data[entry] *= idf[indices[entry]]
            squares += float(data[entry]) ** 2
        if squares > 0:
            scale = 1.0 / math.sqrt(squares)
            for entry in range(indptr[row], indptr[row + 1]):
                data[entry] *= scale
