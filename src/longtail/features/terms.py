"""A chunk of documents as counted terms, and the same by column."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from longtail.features import kernels
from longtail.features.tokenise import Words, tokenise
from longtail.features.word_tables import power_of_two
from longtail.sparse import starts_of

#: Characters a chunk aims at: small enough for its tables to stay in the processor's cache, large enough for Python's
#: part to be negligible. Results do not depend on it.
CHUNK_CHARACTERS = 2_000_000


class TermCounts(NamedTuple):
    """How often each node occurs in each document: a node at most once per row, rows in any order.

    indptr int64 (documents + 1,); ids and counts int32 (entries,); nodes: ids are below it
    """

    indptr: NDArray[np.int64]
    ids: NDArray[np.int32]
    counts: NDArray[np.int32]
    nodes: int

    def document_frequency(self) -> NDArray[np.int64]:
        return np.bincount(self.ids, minlength=self.nodes)

    def term_frequency(self) -> NDArray[np.int64]:
        return np.bincount(self.ids, weights=self.counts, minlength=self.nodes).astype(np.int64)


class ChunkTerms(NamedTuple):
    """The terms of a chunk of documents, as nodes of the chunk's own: T words, then P n-grams.

    blob, offsets  the words' UTF-8 bytes and, int64 (T + 1,), where each begins
    pairs          int32 (P, 2), each n-gram as (node of the n-gram without its last word, node of that word)
    hashes         uint64 (T + P,), stable hashes
    numbers        as in `Words`, in place of bytes
    """

    blob: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    pairs: NDArray[np.int32]
    hashes: NDArray[np.uint64]
    entries: TermCounts
    numbers: NDArray[np.int32] | None = None

    @property
    def words(self) -> int:
        return self.entries.nodes - len(self.pairs)


class ColumnCounts(NamedTuple):
    """Counts by column: rows sorted by column, no column twice. int64 (documents + 1,), int32, int32."""

    indptr: NDArray[np.int64]
    columns: NDArray[np.int32]
    counts: NDArray[np.int32]


def chunks(texts: Sequence[str], characters: int) -> Iterator[slice]:
    """Runs of consecutive documents with about this many characters together (one is added for each document)."""
    ends = np.cumsum(np.fromiter(map(len, texts), dtype=np.int64, count=len(texts)) + 1)
    start = before = 0
    while start < len(texts):
        stop = min(int(np.searchsorted(ends, before + characters)) + 1, len(texts))
        yield slice(start, stop)
        start, before = stop, int(ends[stop - 1])


def terms_of(texts: Sequence[str], n: int, words_of: Callable[[Sequence[str]], Words] = tokenise) -> ChunkTerms:
    """The words and n-grams (up to n words) of some texts, given what finds their words."""
    return terms_of_words(words_of(texts), n)


def terms_of_words(found_words: Words, n: int) -> ChunkTerms:
    """Words and n-grams (up to n words), counted."""
    stream, ends, blob, offsets, word_hashes, numbers = found_words
    words, tokens = len(word_hashes), len(stream)
    most = (n - 1) * tokens
    hashes = np.empty(words + most, dtype=np.uint64)
    hashes[:words] = word_hashes
    pairs = np.empty((most, 2), dtype=np.int32)
    slots = np.full(power_of_two(2 * most), -1, dtype=np.int32)
    last = np.full(words + most, -1, dtype=np.int64)
    indptr = np.empty(len(ends) + 1, dtype=np.int64)
    ids, counts = np.empty((2, n * tokens), dtype=np.int32)
    room, found = kernels.TermRoom(hashes, pairs, slots, last), kernels.Entries(indptr, ids, counts)
    known, entries = kernels.count_terms(stream, ends, words, n, room, found)
    # Copies let go of the room that was not needed.
    kept = TermCounts(indptr, ids[:entries].copy(), counts[:entries].copy(), words + known)
    return ChunkTerms(blob, offsets, pairs[:known].copy(), hashes[: words + known].copy(), kept, numbers)


def by_column(entries: TermCounts, columns: NDArray[np.int32]) -> ColumnCounts:
    """Counts by column, given each node's column (-1 for none)."""
    order = np.argsort(columns, kind="stable")
    order = order[np.searchsorted(columns[order], 0) :]
    starts = starts_of(entries.document_frequency())
    scratch = np.empty((2, len(entries.ids)), dtype=np.int32)
    new_columns, new_counts = np.empty((2, len(entries.ids)), dtype=np.int32)
    arranged = kernels.Entries(np.empty(len(entries.indptr), dtype=np.int64), new_columns, new_counts)
    kernels.arrange(kernels.Entries(*entries[:3]), starts, columns, order, scratch, arranged)
    kept = int(arranged.indptr[-1])
    return ColumnCounts(arranged.indptr, new_columns[:kept].copy(), new_counts[:kept].copy())


def merged_columns(entries: TermCounts, columns: NDArray[np.int32]) -> tuple[TermCounts, NDArray[np.int32]]:
    """Nodes of one column made into one node, for hashing; and, int32 (nodes,), each new node's column."""
    rows = by_column(entries, columns)
    kept, ids = np.unique(rows.columns, return_inverse=True)
    return TermCounts(rows.indptr, ids.astype(np.int32), rows.counts, len(kept)), kept
