"""The vocabulary: gathered from chunks, pruned and ordered, and then only looked up.

Nodes are words and n-grams as in `kernels`. All results depend on the documents alone, not on how they were cut into
chunks: what follows the gathering goes by document frequency and by the terms' characters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longtail.features import kernels
from longtail.features.terms import ChunkTerms, power_of_two
from longtail.part import Arrays, checked_before


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """The array read-only. Kernels are compiled once for it, whether it is a memory map or not."""
    array = array.view()
    array.flags.writeable = False
    return array


class _Growing:
    """An array that grows at its end, doubling its room."""

    def __init__(self, dtype: type, width: int | None = None) -> None:
        self._room: NDArray[Any] = np.empty((0,) if width is None else (0, width), dtype=dtype)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def append(self, values: NDArray[Any]) -> None:
        end = self._size + len(values)
        if end > len(self._room):
            larger = np.empty((max(end, 2 * len(self._room)), *self._room.shape[1:]), dtype=self._room.dtype)
            larger[: self._size] = self._room[: self._size]
            self._room = larger
        self._room[self._size : end] = values
        self._size = end

    @property
    def values(self) -> NDArray[Any]:
        return self._room[: self._size]


class _Slots:
    """Hashes of things numbered from 0, with an open-addressing table over them that is at most half full."""

    def __init__(self) -> None:
        self.hashes = _Growing(np.uint64)
        self.slots = np.full(1024, -1, dtype=np.int32)

    def add(self, hashes: NDArray[np.uint64]) -> None:
        first = len(self.hashes)
        self.hashes.append(hashes)
        if 2 * len(self.hashes) > len(self.slots):
            self.slots = table(self.hashes.values, 4 * len(self.hashes))
        else:
            kernels.place(hashes, first, self.slots)


def table(hashes: NDArray[np.uint64], room: int) -> NDArray[np.int32]:
    """int32 (a power of 2, at least `room`,): an open-addressing table of the numbers 0, 1, ... by their hashes."""
    slots = np.full(power_of_two(room), -1, dtype=np.int32)
    kernels.place(hashes, 0, slots)
    return slots


def gather(blob: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Pieces of the blob one after the other."""
    shift = np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)
    return blob[shift + np.arange(len(shift))]


@dataclass
class Gathered:
    """All terms of a corpus: T words, then P n-grams.

    blob, offsets, pairs, hashes  as in `ChunkTerms`
    df, tf       int64 (T + P,), documents with the term, and occurrences
    nodes        for each chunk int32 (its nodes,), where its nodes are here
    """

    blob: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    pairs: NDArray[np.int32]
    hashes: NDArray[np.uint64]
    df: NDArray[np.int64]
    tf: NDArray[np.int64]
    nodes: list[NDArray[np.int32]]


def gather_terms(parts: Sequence[ChunkTerms]) -> Gathered:
    """The terms of all chunks together."""
    blob, offsets, words = _Growing(np.uint8), _Growing(np.int64), _Slots()
    offsets.append(np.zeros(1, dtype=np.int64))
    nodes = []
    for part in parts:
        found = np.empty(part.entries.nodes, dtype=np.int32)
        known = frozen(blob.values), frozen(offsets.values), frozen(words.slots)
        word_hashes = part.hashes[: part.words]
        kernels.find_words(part.blob, part.offsets, word_hashes, *known, found)
        new = np.flatnonzero(found[: part.words] < 0)
        found[new] = len(words.hashes) + np.arange(len(new))
        lengths = np.diff(part.offsets)[new]
        blob.append(gather(part.blob, part.offsets[new], lengths))
        offsets.append(offsets.values[-1] + np.cumsum(lengths))
        words.add(word_hashes[new])
        nodes.append(found)
    T = len(words.hashes)

    pairs, slots = _Growing(np.int32, 2), _Slots()
    for part, found in zip(parts, nodes, strict=True):
        if not len(part.pairs):
            continue
        kernels.find_pairs(part.pairs, part.hashes, part.words, T, frozen(pairs.values), frozen(slots.slots), found)
        new = part.words + np.flatnonzero(found[part.words :] < 0)
        found[new] = T + len(pairs) + np.arange(len(new))
        # An n-gram may be new together with the shorter one it begins with, whose number is known only now.
        pairs.append(found[part.pairs[new - part.words]])
        slots.add(part.hashes[new])

    df, tf = np.zeros((2, T + len(pairs)), dtype=np.int64)
    for part, found in zip(parts, nodes, strict=True):
        df[found] += part.entries.document_frequency()
        tf[found] += part.entries.term_frequency()
    hashes = np.concatenate([words.hashes.values, slots.hashes.values])
    return Gathered(blob.values, offsets.values, pairs.values, hashes, df, tf, nodes)


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
    """

    blob: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    slots: NDArray[np.int32]
    columns: NDArray[np.int32]
    pairs: NDArray[np.int32]
    pair_slots: NDArray[np.int32]

    def __post_init__(self) -> None:
        for name, array in vars(self).items():
            object.__setattr__(self, name, frozen(array))

    def find(self, part: ChunkTerms) -> NDArray[np.int32]:
        """int32 (nodes,): the column of each of the chunk's nodes, -1 for terms that are not here."""
        found = np.empty(part.entries.nodes, dtype=np.int32)
        word_hashes = part.hashes[: part.words]
        kernels.find_words(part.blob, part.offsets, word_hashes, self.blob, self.offsets, self.slots, found)
        if len(part.pairs):
            T = len(self.offsets) - 1
            kernels.find_pairs(part.pairs, part.hashes, part.words, T, self.pairs, self.pair_slots, found)
        columns = self.columns[found]
        columns[found < 0] = -1
        return columns

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
        """What a model keeps; the arrays of n-grams only if there are any."""
        return {name: array for name, array in vars(self).items() if len(self.pairs) or not name.startswith("pair")}

    @classmethod
    def restored(cls, arrays: Arrays, *, width: int, n: int) -> Vocabulary:
        """From what a model kept, for `width` columns and n-grams of up to n words.

        ValueError if it cannot be what `arrays` gave.
        """
        names = ["blob", "offsets", "slots", "columns"]
        if "pairs" in arrays or "pair_slots" in arrays:
            names += ["pairs", "pair_slots"]
        if set(arrays) != set(names):
            raise ValueError(f"the vocabulary needs the arrays {', '.join(names)}; the file has {sorted(arrays)[:8]}")
        wanted = {"blob": np.uint8, "offsets": np.int64}
        kept = {name: _array(name, arrays[name], wanted.get(name, np.int32)) for name in names if name != "pairs"}
        kept["pairs"] = _array("pairs", arrays.get("pairs", np.empty((0, 2), dtype=np.int32)), np.int32, 2)
        kept.setdefault("pair_slots", np.full(1, -1, dtype=np.int32))
        offsets, columns, pairs = (kept[name] for name in ("offsets", "columns", "pairs"))
        T, P = len(offsets) - 1, len(pairs)
        if T < 0 or len(columns) != T + P:
            raise ValueError(f"the vocabulary has {len(columns)} columns entries for {T + P} terms")
        for name, most in (("slots", T), ("pair_slots", P)):
            slots = kept[name]
            if not len(slots) or len(slots) & (len(slots) - 1) or len(slots) < 2 * most:
                raise ValueError(f"the vocabulary's {name} has {len(slots)} places, which does not fit {most} terms")
        if not checked_before():
            _check_terms(kept, width, n)
        return cls(**kept)


#: For features that keep no vocabulary.
NO_TERMS = Vocabulary(
    np.empty(0, dtype=np.uint8),
    np.zeros(1, dtype=np.int64),
    np.full(1, -1, dtype=np.int32),
    np.empty(0, dtype=np.int32),
    np.empty((0, 2), dtype=np.int32),
    np.full(1, -1, dtype=np.int32),
)


def _check_terms(kept: Arrays, width: int, n: int) -> None:
    """Refuses arrays of which an entry points where it must not."""
    blob, offsets, columns, pairs = (kept[name] for name in ("blob", "offsets", "columns", "pairs"))
    if offsets[0] != 0 or offsets[-1] != len(blob) or (offsets[1:] <= offsets[:-1]).any():
        raise ValueError("the vocabulary's offsets do not rise from 0 to the end of its words")
    T, P = len(offsets) - 1, len(pairs)
    if not _each_once(columns, width):
        raise ValueError(f"the vocabulary's terms do not fill the {width} columns once each")
    own = T + np.arange(P)
    if P and (pairs.min() < 0 or (pairs[:, 0] >= own).any() or pairs[:, 1].max() >= T):
        raise ValueError("the vocabulary's n-grams point outside it")
    if P and _depths(pairs[:, 0], T, n).max() > n:
        raise ValueError(f"the vocabulary has n-grams of more than {n} words")
    for name, most in (("slots", T), ("pair_slots", P)):
        if not _each_once(kept[name], most):
            raise ValueError(f"the vocabulary's {name} does not hold each term once")


def _each_once(numbers: NDArray[np.int32], n: int) -> bool:
    """Whether 0 to n - 1 are there once each, and else only -1."""
    if len(numbers) and (numbers.min() < -1 or numbers.max() >= n):
        return False
    return bool((np.bincount(numbers + 1, minlength=n + 1)[1:] == 1).all())


def _array(name: str, array: NDArray[Any], dtype: type, dimensions: int = 1) -> NDArray[Any]:
    """The array as plain, aligned numpy (a view where it already is), after checking its type and shape."""
    array = np.asarray(array)
    if array.dtype != dtype or array.ndim != dimensions or (dimensions == 2 and array.shape[1] != 2):
        shape = "(n,)" if dimensions == 1 else "(n, 2)"
        raise ValueError(f"'{name}' must be {np.dtype(dtype)} {shape}, the file has {array.dtype} {array.shape}")
    return np.require(array, requirements=["C", "A"])


def select(
    gathered: Gathered, documents: int, *, n: int, min_df: int, max_df: float, max_features: int | None
) -> tuple[Vocabulary, NDArray[np.int64], NDArray[np.int32]]:
    """Prunes and orders.

    Terms in fewer than min_df documents or in more than a share of max_df of them are left out; of the others the
    max_features most frequent in the corpus are kept, the first by characters where frequencies are equal.

    Gives the vocabulary, the document frequency of each column, and the column of each gathered node (int32, -1 for
    none).
    """
    T = len(gathered.offsets) - 1
    kept = (gathered.df >= min_df) & (gathered.df <= max_df * documents)
    nodes = _closure(kept, gathered.pairs, T, n)
    spelling = _spelling(gathered, nodes, n)
    if max_features is not None and kept.sum() > max_features:
        inside = kept[nodes]
        best = np.lexsort((*(key[inside] for key in reversed(spelling)), -gathered.tf[nodes[inside]]))
        chosen = nodes[inside][best[:max_features]]
        kept = np.zeros_like(kept)
        kept[chosen] = True
        fewer = np.isin(nodes, _closure(kept, gathered.pairs, T, n), assume_unique=True)
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
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        slots=table(gathered.hashes[words], 2 * len(words)),
        columns=columns[np.concatenate([words, grams])],
        pairs=number[gathered.pairs[grams - T]],
        pair_slots=table(gathered.hashes[grams], 2 * len(grams)),
    )
    return vocabulary, gathered.df[in_order], columns
