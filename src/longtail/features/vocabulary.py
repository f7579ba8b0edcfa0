"""The vocabulary: gathered from chunks, pruned and ordered, and then only looked up.

Nodes are words and n-grams as in `kernels`. All results depend on the documents alone, not on how they were cut into
chunks: what follows the gathering goes by document frequency and by the terms' characters.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longtail.features import kernels
from longtail.features.compounds import Parts, ends_of_parts, find_parts, with_parts
from longtail.features.gathering import Compounds, Gathered, Limits
from longtail.features.terms import ChunkTerms, TermCounts
from longtail.features.tokenise import Words
from longtail.features.word_tables import (
    Spelled,
    Spelling,
    WordTable,
    check_slots,
    check_words,
    each_once,
    frozen,
    gather,
    plain_array,
    table,
)
from longtail.part import Arrays, checked_before
from longtail.sparse import starts_of

#: int32 (words, 3): the number of each word in a vocabulary, and those of its two parts, or -1.
Found = NDArray[np.int32]


def lexical_ranks(blob: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """int64 (words,): each word's place in the order of code points, which is that of UTF-8 bytes.

    Words are compared eight bytes at a time, and only those still tied go on to their next eight.
    """
    padded = np.concatenate([blob, np.zeros(8, dtype=np.uint8)])
    rank = np.zeros(len(starts), dtype=np.int64)
    tied = np.arange(len(starts))
    depth = 0
    steps = np.arange(8)
    while len(tied):
        at = np.minimum(starts[tied] + depth, len(blob))
        eight = padded[at[:, None] + steps]
        eight[steps >= (lengths[tied] - depth)[:, None]] = 0
        key = eight.view(">u8").ravel().astype(np.uint64)
        order = np.lexsort((key, rank[tied]))
        tied, key = tied[order], key[order]
        group = rank[tied]
        new_group = np.concatenate([[True], group[1:] != group[:-1]])
        new = new_group.copy()
        new[1:] |= key[1:] != key[:-1]
        place = np.arange(len(tied))
        first_of_group = np.maximum.accumulate(np.where(new_group, place, 0))
        first = np.maximum.accumulate(np.where(new, place, 0))
        rank[tied] = group + first - first_of_group
        alone = new & np.concatenate([new[1:], [True]])
        tied = tied[~alone]
        depth += 8
    return rank


def _closure(mask: NDArray[np.bool_], pairs: NDArray[np.int32], words: int, n: int) -> NDArray[np.int64]:
    """Nodes in the mask and all they are made of, rising."""
    mask = mask.copy()
    for _ in range(n - 1):
        mask[pairs[mask[words:]].ravel()] = True
    return np.flatnonzero(mask)


def _spelling(gathered: Gathered, nodes: NDArray[np.int64], n: int) -> list[NDArray[np.int64]]:
    """n keys int64 (nodes,), first word first, -1 behind an n-gram's end, that order terms as their characters do.

    A space comes before every word character, so comparing word by word is comparing character by character. The
    nodes rise and hold all that they are made of.
    """
    T = len(gathered.offsets) - 1
    words = nodes[nodes < T]
    keys = np.full((n, len(nodes)), -1, dtype=np.int64)
    starts = gathered.offsets[words]
    keys[0, : len(words)] = lexical_ranks(gathered.blob, starts, gathered.offsets[words + 1] - starts)
    left, right = np.searchsorted(nodes, gathered.pairs[nodes[len(words) :] - T].T)
    depth = _depths(left, len(words), n)[len(words) :]
    for k in range(1, n):
        now = np.flatnonzero(depth == k + 1)
        keys[:k, len(words) + now] = keys[:k, left[now]]
        keys[k, len(words) + now] = keys[0, right[now]]
    return list(keys)


def _depths(left: NDArray[np.integer], words: int, n: int) -> NDArray[np.int64]:
    """int64 (words + n-grams,): how many words each node has, given what each n-gram begins with; n + 1 for more."""
    depth = np.full(words + len(left), n + 1, dtype=np.int64)
    depth[:words] = 1
    for k in range(1, n):
        depth[words + np.flatnonzero(depth[left] == k)] = k + 1
    return depth


@dataclass(frozen=True)
class Vocabulary:
    """Terms to columns. Columns go by falling document frequency, then by the term's characters.

    T words and P n-grams are nodes; more of them than columns where an n-gram is kept and a word in it is not.
    blob        uint8, the words' UTF-8 bytes one after the other
    offsets     int64 (T + 1,), where each begins
    slots       int32, open-addressing table of the words by their stable hash, -1 for empty
    columns     int32 (T + P,), each node's column or -1
    pairs       int32 (P, 2), each n-gram as (node of the n-gram without its last word, node of that word)
    pair_slots  int32, as `slots`, of the n-grams
    own         int32 (T,), the documents with each word that may be part of a compound, else 0; empty where the parts
                of compounds do not count
    parts       int32 (T, 2), the two words that each is made of, or -1 twice; empty as `own`
    """

    blob: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    slots: NDArray[np.int32]
    columns: NDArray[np.int32]
    pairs: NDArray[np.int32]
    pair_slots: NDArray[np.int32]
    own: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, dtype=np.int32))
    parts: NDArray[np.int32] = field(default_factory=lambda: np.empty((0, 2), dtype=np.int32))

    def __post_init__(self) -> None:
        for name, array in vars(self).items():
            object.__setattr__(self, name, frozen(array))

    def found(self, words: Spelled) -> Found:
        """Where words are here."""
        found = np.full((len(words.hashes), 3), -1, dtype=np.int32)
        found[:, 0] = self._words.find(words)
        if len(self.own):
            found[:, 1:] = find_parts(words.blob, words.offsets, found[:, 0].copy(), self._words, self.compounds)
        return found

    def counts(self, part: ChunkTerms, words: Found | None = None) -> tuple[TermCounts, NDArray[np.int32]]:
        """The counts of a chunk's terms, those of parts of compounds among them, and, int32, the column of each node
        or -1.

        words  where the chunk's words are here, if that is known
        """
        if words is None:
            words = self.found(Spelling(part.blob, part.offsets, part.hashes[: part.words]))
        found, entries = self._nodes(part, words[:, 0]), part.entries
        if len(self.own):
            entries, found = with_parts(entries, found, words[:, 1:])
        columns = self.columns[found]
        columns[found < 0] = -1
        return entries, columns

    def stream(self, words: Words) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """A stream of words as nodes here or -1, the parts of each compound behind it, and its documents' ends."""
        found = self.found(words)
        if not len(self.own):
            return found[words.stream, 0], words.ends
        every = found[words.stream]
        kept = every[:, 1] >= 0
        counts = np.where(kept, 3, 1)
        chosen = np.repeat(kept[:, None], 3, axis=1)
        chosen[:, 0] = True
        return every[chosen], starts_of(counts)[words.ends]

    @cached_property
    def compounds(self) -> Parts:
        """What its words are as parts of compounds."""
        return Parts(self.own, self.parts, ends_of_parts(self.blob, self.offsets, self.own))

    @property
    def width(self) -> int:
        """How many columns there are."""
        return int((self.columns >= 0).sum())

    @cached_property
    def _words(self) -> WordTable:
        return WordTable(self.blob, self.offsets, self.slots)

    def _nodes(self, part: ChunkTerms, words: NDArray[np.int32]) -> NDArray[np.int32]:
        """int32 (nodes,): the number of each of the chunk's nodes here, or -1, given those of its words."""
        found = np.empty(part.entries.nodes, dtype=np.int32)
        found[: part.words] = words
        if len(part.pairs):
            T = len(self.offsets) - 1
            kernels.find_pairs(part.pairs, part.hashes, part.words, T, self.pairs, self.pair_slots, found)
        return found

    def terms(self) -> list[str]:
        """The terms by column."""
        everything = self.blob.tobytes()
        offsets = self.offsets.tolist()
        spelled = [everything[a:b].decode("utf-8", "replace") for a, b in pairwise(offsets)]
        for left, right in self.pairs.tolist():
            spelled.append(f"{spelled[left]} {spelled[right]}")
        node = np.flatnonzero(self.columns >= 0)
        return [spelled[i] for i in node[np.argsort(self.columns[node])].tolist()]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What a model keeps; the arrays of n-grams and of compounds only if there are any."""
        idle = [*(() if len(self.pairs) else ("pairs", "pair_slots")), *(() if len(self.own) else ("own", "parts"))]
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name not in idle}

    @classmethod
    def restored(cls, arrays: Arrays, *, width: int, n: int) -> Vocabulary:
        """From what a model kept, for `width` columns and n-grams of up to n words.

        ValueError if it cannot be what `arrays` gave.
        """
        names = ["blob", "offsets", "slots", "columns"]
        names += ["pairs", "pair_slots"] if "pairs" in arrays or "pair_slots" in arrays else []
        names += ["own", "parts"] if "own" in arrays or "parts" in arrays else []
        if set(arrays) != set(names):
            raise ValueError(f"the vocabulary needs the arrays {', '.join(names)}; the file has {sorted(arrays)[:8]}")
        types = {"blob": np.uint8, "offsets": np.int64}
        kept = {
            name: plain_array(name, arrays[name], types.get(name, np.int32), 2 if name in ("pairs", "parts") else 1)
            for name in names
        }
        kept.setdefault("pairs", np.empty((0, 2), dtype=np.int32))
        kept.setdefault("pair_slots", np.full(1, -1, dtype=np.int32))
        offsets, columns, pairs = (kept[name] for name in ("offsets", "columns", "pairs"))
        T, P = len(offsets) - 1, len(pairs)
        if T < 0 or len(columns) != T + P:
            raise ValueError(f"the vocabulary has {len(columns)} columns entries for {T + P} terms")
        check_words(kept["blob"], offsets, kept["slots"])
        check_slots("pair_slots", kept["pair_slots"], P)
        if "own" in kept:
            _check_parts(T, kept["own"], kept["parts"])
        if not checked_before():
            _check_terms(T, columns, pairs, width, n)
        return cls(**kept)


def _check_parts(T: int, own: NDArray[np.int32], parts: NDArray[np.int32]) -> None:
    """Refuses parts of compounds that point where they must not."""
    if not len(own) == len(parts) == T:
        raise ValueError(f"the vocabulary has {len(own)} and {len(parts)} parts of compounds for {T} words")
    if checked_before() or not T:
        return
    if own.min() < 0 or parts.min() < -1 or parts.max() >= T or ((parts[:, 0] < 0) != (parts[:, 1] < 0)).any():
        raise ValueError("the vocabulary's parts of compounds point outside it")


#: For features that keep no vocabulary.
NO_TERMS = Vocabulary(
    np.empty(0, dtype=np.uint8),
    np.zeros(1, dtype=np.int64),
    np.full(1, -1, dtype=np.int32),
    np.empty(0, dtype=np.int32),
    np.empty((0, 2), dtype=np.int32),
    np.full(1, -1, dtype=np.int32),
)


def _check_terms(T: int, columns: NDArray[np.int32], pairs: NDArray[np.int32], width: int, n: int) -> None:
    """Refuses terms of which an entry points where it must not."""
    P = len(pairs)
    if not each_once(columns, width):
        raise ValueError(f"the vocabulary's terms do not fill the {width} columns once each")
    own = T + np.arange(P)
    if P and (pairs.min() < 0 or (pairs[:, 0] >= own).any() or pairs[:, 1].max() >= T):
        raise ValueError("the vocabulary's n-grams point outside it")
    if P and _depths(pairs[:, 0], T, n).max() > n:
        raise ValueError(f"the vocabulary has n-grams of more than {n} words")


def select(
    gathered: Gathered, limits: Limits, compounds: Compounds | None = None
) -> tuple[Vocabulary, NDArray[np.int64], NDArray[np.int32]]:
    """Prunes and orders.

    Terms in fewer than min_df documents or in more than a share of max_df of them are left out; of the others the
    max_features most frequent in the corpus are kept, the first by characters where frequencies are equal. Words that
    may be parts of compounds stay, with or without a column.

    Gives the vocabulary, the document frequency of each column, and the column of each gathered node (int32, -1 for
    none).
    """
    T = len(gathered.offsets) - 1
    documents, n, min_df, max_df, max_features = limits
    kept = (gathered.df >= min_df) & (gathered.df <= max_df * documents)
    needed = np.zeros_like(kept)
    if compounds is not None:
        needed[:T] = compounds.own > 0
    nodes = _closure(kept | needed, gathered.pairs, T, n)
    spelling = _spelling(gathered, nodes, n)
    if max_features is not None and kept.sum() > max_features:
        inside = kept[nodes]
        best = np.lexsort((*(key[inside] for key in reversed(spelling)), -gathered.tf[nodes[inside]]))
        chosen = nodes[inside][best[:max_features]]
        kept = np.zeros_like(kept)
        kept[chosen] = True
        fewer = np.isin(nodes, _closure(kept | needed, gathered.pairs, T, n), assume_unique=True)
        nodes, spelling = nodes[fewer], [key[fewer] for key in spelling]
    # What a term is made of comes before it: it is in as many documents or more, and is the shorter of the two.
    nodes = nodes[np.lexsort((*reversed(spelling), -gathered.df[nodes]))]

    words, grams = nodes[nodes < T], nodes[nodes >= T]
    number = np.full(len(gathered.df), -1, dtype=np.int32)
    number[words] = np.arange(len(words))
    number[grams] = len(words) + np.arange(len(grams))
    in_order = nodes[kept[nodes]]
    columns = np.full(len(gathered.df), -1, dtype=np.int32)
    columns[in_order] = np.arange(len(in_order))

    lengths = np.diff(gathered.offsets)[words]
    vocabulary = Vocabulary(
        blob=gather(gathered.blob, gathered.offsets[words], lengths),
        offsets=starts_of(lengths),
        slots=table(gathered.hashes[words], 2 * len(words)),
        columns=columns[np.concatenate([words, grams])],
        pairs=number[gathered.pairs[grams - T]],
        pair_slots=table(gathered.hashes[grams], 2 * len(grams)),
        **(
            {}
            if compounds is None
            else {"own": compounds.own[words], "parts": _renumbered(compounds.parts, words, number)}
        ),
    )
    return vocabulary, gathered.df[in_order], columns


def _renumbered(parts: NDArray[np.int32], words: NDArray[np.int64], number: NDArray[np.int32]) -> NDArray[np.int32]:
    """The parts of the chosen words by their new numbers."""
    chosen = parts[words]
    return np.where(chosen >= 0, number[chosen], -1).astype(np.int32)
