"""Drawing the labels and words of synthetic documents, and counting them."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from longtail.arrays import njit

WORDS_PER_LABEL = 4  # the first of them is shared by the labels of a cluster
CLUSTER = 8  # labels in a cluster


class Law(NamedTuple):
    """What documents follow; the fields are those of `longtail.data.synthetic.Shape`."""

    zipf: float
    labels_per_document: float
    cooccurrence: float
    words: int
    words_per_document: float
    signal: float


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
    """A rank in [0, count), by inversion of the continuous law whose steps are the shares of the ranks."""
    u = _uniform(state)
    if abs(zipf - 1.0) < 1e-9:
        x = math.exp(u * math.log(count + 1.0))
    else:
        x = (1.0 + u * ((count + 1.0) ** (1.0 - zipf) - 1.0)) ** (1.0 / (1.0 - zipf))
    return min(max(int(x) - 1, 0), count - 1)


@njit(nogil=True, cache=True)
def words_of_labels(labels: int, words: int, key: np.uint64) -> NDArray[np.int32]:
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
def draw_labels(
    first: int,
    forced: NDArray[np.int32],
    share: NDArray[np.float64],
    law: Law,
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
    stop = math.exp(1.0 - law.labels_per_document)
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
            for _ in range(16):  # a label that is there already is drawn again, but not forever
                if slot == 0 and forced[d] >= 0:
                    rank = int(forced[d])
                elif slot == 0 or _uniform(state) >= law.cooccurrence:
                    rank = _zipf_rank(state, law.zipf, L)
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
def draw_words(
    first: int,
    how_many: NDArray[np.int64],
    ranks: NDArray[np.int32],
    own_words: NDArray[np.int32],
    law: Law,
    key: np.uint64,
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """(words per document, words) in a mixed order; each label of a document gives a word before one gives two."""
    longest = int(1.5 * law.words_per_document) + 1
    lengths = np.empty(len(how_many), dtype=np.int64)
    tokens = np.empty(len(how_many) * longest, dtype=np.int32)
    used = start = 0
    for d in range(len(how_many)):
        state = _stream(key, first + d, 4)
        length = max(1, min(longest, int(law.words_per_document * (0.5 + _uniform(state)) + 0.5)))
        telling = 0
        if law.signal > 0:
            telling = min(length, max(how_many[d], int(law.signal * length + 0.5)))
        for i in range(length):
            if i < telling:
                rank = ranks[start + i % how_many[d]]
                tokens[used + i] = own_words[rank, _below(state, WORDS_PER_LABEL)]
            else:
                tokens[used + i] = _zipf_rank(state, 1.0, law.words)
        for i in range(length - 1, 0, -1):
            j = _below(state, i + 1)
            tokens[used + i], tokens[used + j] = tokens[used + j], tokens[used + i]
        lengths[d] = length
        used += length
        start += how_many[d]
    return lengths, tokens[:used].copy()


@njit(nogil=True, cache=True)
def sort_rows(lengths: NDArray[np.int64], values: NDArray[np.int32]) -> None:
    start = 0
    for length in lengths:
        values[start : start + length].sort()
        start += length


@njit(nogil=True, cache=True)
def count_words(
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
def weigh(
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
