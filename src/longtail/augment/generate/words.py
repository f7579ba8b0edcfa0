"""Words of other documents with the same labels, put where they fit: what a network that generates must beat.

Some words of a document are masked. Each gap is filled with a word that follows the same word in another document
with one of its labels; where there is none, with any word of that document. No statistics are stored: to draw a
document of a label and a place in it is to draw from the label's words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from longtail.arrays import Ints, Longs, mixed_bits, njit
from longtail.augment.generate.base import Generator, Writer
from longtail.corpus import Corpus
from longtail.fit import Fit
from longtail.part import option
from longtail.plan import Sizes, Stage
from longtail.run import Run
from longtail.sparse import starts_of
from longtail.texts import without_half_surrogates

#: Documents looked at for a word that follows the same word, and places looked at in each.
TRIES, PLACES = 4, 200
_STEP = np.uint64(0x9E3779B97F4A7C15)


@dataclass(kw_only=True)
class Words(Generator):
    """Gaps in a text filled with words of other documents that share a label with it."""

    #: Arrow, whose functions cut and join texts.
    libraries: ClassVar[int] = 75 << 20

    share: float = option(0.15, "share of the words that is masked (released code: 0.15)", low=0, high=1)
    labels: bool = option(True, "words come from documents with the same labels; if not, from any")

    def plan_writing(self, sizes: Sizes, texts: int, run: Run) -> list[Stage]:
        length = sizes.texts_bytes // max(1, sizes.documents)
        # a word takes its bytes and an offset while words are counted, and then four bytes
        reading = int(3.5 * sizes.characters)
        seconds = sizes.characters / 6e7 + texts * length / 2.5e7
        return [Stage("generate", seconds, reading + 3 * texts * length, texts * length)]

    def opened(self, corpus: Corpus, fit: Fit) -> Writer:
        return WordWriter(corpus, self.share, labels=self.labels)


class Lists(NamedTuple):
    """Lists of numbers one behind the other: list i is values[start[i] : start[i + 1]]."""

    values: NDArray[Any]
    start: Longs


class WordWriter:
    """The words of all documents as numbers, and the documents of every label."""

    identity = ""  # made anew as quickly as read

    def __init__(self, corpus: Corpus, share: float, *, labels: bool) -> None:
        assert corpus.texts is not None
        self.share = share
        documents = corpus.documents
        self.words, stream, start = words_of([corpus.texts[row] for row in documents])
        self.texts = Lists(stream, start)
        Y = corpus.documents_only().positives()
        place = np.full(len(corpus), -1, dtype=np.int64)
        place[documents] = np.arange(len(documents))
        self.place = place
        if labels:
            columns = Y.tocsc()
            self.sharing = Lists(_longs(columns.indices), _longs(columns.indptr))
            self.own = Lists(_longs(Y.indices), _longs(Y.indptr))
        else:  # one label that every document has
            count = len(documents)
            self.sharing = Lists(np.arange(count), np.array([0, count]))
            self.own = Lists(np.zeros(count, dtype=np.int64), np.arange(count + 1))

    def write(self, rows: NDArray[np.int64], seed: int) -> list[str]:
        documents = self.place[rows]
        start = starts_of(np.diff(self.texts.start)[documents])
        filled = _filled(documents, start, self.texts, self.own, self.sharing, self.share, np.uint64(seed))
        return joined(self.words, filled, start)


def _longs(array: NDArray[Any]) -> Longs:
    return array.astype(np.int64)


def words_of(texts: list[str]) -> tuple[Any, Ints, Longs]:
    """(distinct words as an Arrow array, the texts' words as numbers into it, where each text begins)."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        given = pa.array(texts, pa.large_string())
    except UnicodeEncodeError:  # half surrogates, which Arrow does not take
        given = pa.array([without_half_surrogates(text) for text in texts], pa.large_string())
    split = pc.utf8_split_whitespace(pc.utf8_trim_whitespace(given))
    encoded = split.flatten().dictionary_encode()
    start = np.asarray(split.offsets, dtype=np.int64)
    return encoded.dictionary, np.asarray(encoded.indices, dtype=np.int32), start - start[:1]


def joined(words: Any, stream: Ints, start: Longs) -> list[str]:
    """The texts again, with one space between words."""
    import pyarrow as pa
    import pyarrow.compute as pc

    lists = pa.ListArray.from_arrays(pa.array(start, pa.int32()), words.take(pa.array(stream)))
    found: list[str] = pc.binary_join(lists, pa.scalar(" ", pa.large_string())).to_pylist()
    return found


@njit(nogil=True, cache=True)
def _filled(
    documents: Longs, out_start: Longs, texts: Lists, own_labels: Lists, sharing: Lists, share: float, seed: np.uint64
) -> Ints:
    """The words of each of these documents, some of them drawn anew; int32 (out_start[-1],).

    sharing  the documents of every label
    """
    (stream, start), (own, own_start), (label_documents, label_start) = texts, own_labels, sharing
    out = np.empty(out_start[-1], dtype=np.int32)
    state = mixed_bits(seed + _STEP)
    for i in range(len(documents)):
        row = documents[i]
        low, high, at = start[row], start[row + 1], out_start[i]
        n_own = own_start[row + 1] - own_start[row]
        for p in range(low, high):
            out[at + p - low] = stream[p]
        for p in range(low, high):
            state += _STEP
            if n_own == 0 or (mixed_bits(state) >> np.uint64(11)) * 2.0**-53 >= share:
                continue
            before = out[at + p - low - 1] if p > low else np.int32(-1)
            behind = stream[p + 1] if p + 1 < high else np.int32(-1)
            word = stream[p]
            for _ in range(TRIES):
                state += _STEP
                label = own[own_start[row] + np.int64(mixed_bits(state) % np.uint64(n_own))]
                state += _STEP
                many = np.uint64(label_start[label + 1] - label_start[label])
                other = label_documents[label_start[label] + np.int64(mixed_bits(state) % many)]
                length = start[other + 1] - start[other]
                state += _STEP
                begin = np.int64(mixed_bits(state) % np.uint64(length))
                found, best = stream[start[other] + begin], 0
                for step in range(min(length, PLACES)):
                    place = begin + step
                    if place >= length:
                        place -= length
                    candidate = stream[start[other] + place]
                    left = stream[start[other] + place - 1] if place > 0 else np.int32(-1)
                    if candidate == word or left != before:
                        continue
                    right = stream[start[other] + place + 1] if place + 1 < length else np.int32(-1)
                    rank = 2 if right == behind else 1
                    if rank > best:
                        found, best = candidate, rank
                    if best == 2:
                        break
                out[at + p - low] = found
                if best > 0:
                    break
    return out
