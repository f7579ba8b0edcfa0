"""The terms of all chunks of a corpus together, as nodes (see `kernels`), counted, with the parts of compounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from longtail.features import kernels
from longtail.features.compounds import documents_of_parts, parts_of_words, with_parts
from longtail.features.terms import ChunkTerms, TermCounts
from longtail.features.word_tables import Growing, GrowingWords, Slots, Spelling, frozen
from longtail.run import Run


@dataclass
class Gathered:
    """All terms of a corpus: T words, then P n-grams.

    blob, offsets, pairs, hashes  as in `ChunkTerms`
    df, tf       int64 (T + P,), documents with the term, and occurrences, where these are asked for
    nodes        for each chunk int32 (its nodes,), where its nodes are here
    """

    blob: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    pairs: NDArray[np.int32]
    hashes: NDArray[np.uint64]
    df: NDArray[np.int64]
    tf: NDArray[np.int64]
    nodes: list[NDArray[np.int32]]


def gather_terms(
    parts: Sequence[ChunkTerms], stems: GrowingWords | None = None, *, occurrences: bool = False
) -> Gathered:
    """The terms of all chunks together; stems: what the `numbers` of the chunks' words are places in."""
    words, nodes = GrowingWords() if stems is None else stems, []
    for part in parts:
        found = np.empty(part.entries.nodes, dtype=np.int32)
        nodes.append(found)
        if part.numbers is not None:
            found[: part.words] = part.numbers
            continue
        own = Spelling(part.blob, part.offsets, part.hashes[: part.words])
        found[: part.words] = words.numbered(own)
    T = len(words)

    pairs, slots = Growing(np.int32, 2), Slots()
    for part, found in zip(parts, nodes, strict=True):
        if not len(part.pairs):
            continue
        kernels.find_pairs(part.pairs, part.hashes, part.words, T, frozen(pairs.values), frozen(slots.slots), found)
        new = part.words + np.flatnonzero(found[part.words :] < 0)
        found[new] = T + len(pairs) + np.arange(len(new))
        # An n-gram may be new together with the shorter one it begins with, whose number is known only now.
        pairs.append(found[part.pairs[new - part.words]])
        slots.add(part.hashes[new])

    df = np.zeros(T + len(pairs), dtype=np.int64)
    tf = np.zeros(len(df) if occurrences else 0, dtype=np.int64)
    blob, offsets, word_hashes = words.values
    hashes = np.concatenate([word_hashes, slots.hashes.values])
    gathered = Gathered(blob, offsets, pairs.values, hashes, df, tf, nodes)
    _count_documents(gathered, [part.entries for part in parts])
    return gathered


class Limits(NamedTuple):
    """What terms are kept of a number of documents: n-grams of up to n words, in at least min_df documents and at most
    a share of max_df of them, of these the max_features most frequent."""

    documents: int
    n: int = 1
    min_df: int = 1
    max_df: float = 1.0
    max_features: int | None = None


class Compounds(NamedTuple):
    """own, parts: as in `Vocabulary`, for the gathered words."""

    own: NDArray[np.int32]
    parts: NDArray[np.int32]


def compounds_of(gathered: Gathered, limits: Limits, run: Run) -> Compounds:
    """Which of the gathered words are made of which."""
    T = len(gathered.offsets) - 1
    documents, _, min_df, max_df, most = limits
    own = documents_of_parts(
        gathered.df[:T], np.diff(gathered.offsets), documents, min_df=min_df, max_df=max_df, most=most
    )
    words = Spelling(gathered.blob, gathered.offsets, gathered.hashes[:T])
    return Compounds(own, parts_of_words(words, own, run))


def count_parts(gathered: Gathered, entries: Sequence[TermCounts], compounds: Compounds, run: Run) -> list[TermCounts]:
    """The counts of all chunks with those of parts of compounds; what was gathered counts these from now on."""

    def one(chunk: int) -> tuple[TermCounts, NDArray[np.int32]]:
        nodes = gathered.nodes[chunk]
        words = nodes[nodes < len(compounds.parts)] if len(gathered.pairs) else nodes
        return with_parts(entries[chunk], nodes, compounds.parts.take(words, axis=0))

    counted = run.map(one, range(len(entries)))
    gathered.nodes[:] = [nodes for _, nodes in counted]
    made = [entries for entries, _ in counted]
    _count_documents(gathered, made)
    return made


def _count_documents(gathered: Gathered, entries: Sequence[TermCounts]) -> None:
    gathered.df[:], gathered.tf[:] = 0, 0
    for part, nodes in zip(entries, gathered.nodes, strict=True):
        gathered.df[nodes] += part.document_frequency()
        if len(gathered.tf):
            gathered.tf[nodes] += part.term_frequency()
