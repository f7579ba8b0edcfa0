"""Texts as sequences of numbers, for learners that read words in their order; kept on disk once they are made.

A number is a word's column in the vocabulary, moved up to make room for the two numbers that are no word.
"""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from longtail.errors import LongtailError, UsageError
from longtail.features.analyser import NONE, Analyser
from longtail.features.gathering import Limits, compounds_of, count_parts, gather_terms
from longtail.features.terms import CHUNK_CHARACTERS, ChunkTerms, chunks, terms_of
from longtail.features.tokenise import tokenise
from longtail.features.vocabulary import Vocabulary, select
from longtail.keep.cache import cache_folder
from longtail.keep.files import atomic_file
from longtail.keep.safetensors import read_arrays, write_arrays
from longtail.part import Arrays
from longtail.run import Run
from longtail.sparse import starts_of

#: Fills rows up to a common length.
PAD = 0
#: Stands for every word that is not in the vocabulary, and for the text of a document that has no words.
UNKNOWN = 1
#: The number of the vocabulary's first word.
FIRST_WORD = 2

#: Part of every key: another layout of the files gets other names.
_CACHE_FORMAT = b"longtail tokens 1"

RowChoice = NDArray[np.integer] | NDArray[np.bool_] | Sequence[int]


@dataclass(frozen=True, eq=False)
class Tokens:
    """The tokens of n documents, at least one per document.

    ids     int32 (total,), one document after the other, none negative
    indptr  int64 (n + 1,), where each begins
    """

    ids: NDArray[np.int32]
    indptr: NDArray[np.int64]

    def __post_init__(self) -> None:
        ids, indptr = self.ids, self.indptr
        if ids.dtype != np.int32 or ids.ndim != 1 or indptr.dtype != np.int64 or indptr.ndim != 1:
            raise ValueError(
                f"tokens are int32 (total,) and int64 (n + 1,), not {ids.dtype} {ids.shape}, "
                f"{indptr.dtype} {indptr.shape}"
            )
        if not len(indptr) or indptr[0] != 0 or indptr[-1] != len(ids) or (indptr[1:] <= indptr[:-1]).any():
            raise ValueError("the tokens' indptr does not rise from 0 to their number, at least one per document")
        if ids.min(initial=0) < 0:
            raise ValueError("there are tokens with negative numbers")

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """int64 (n,)"""
        return np.diff(self.indptr)

    def rows(self, rows: RowChoice) -> Tokens:
        """The documents of these rows (numbers, or a mask), in the order given."""
        return _taken(self.ids, *self._spans(rows))

    def padded(self, rows: RowChoice) -> NDArray[np.int64]:
        """int64 (B, T): those documents, one per row, filled up with PAD; T is the longest one's length, at least 1."""
        starts, lengths = self._spans(rows)
        matrix = np.full((len(lengths), int(lengths.max(initial=1))), PAD, dtype=np.int64)
        matrix[np.arange(matrix.shape[1]) < lengths[:, None]] = self.ids[_positions(starts, lengths)]
        return matrix

    def cut(self, max_length: int) -> Tokens:
        """The first max_length tokens of each document."""
        _check_length(max_length)
        lengths = self.lengths
        if lengths.max(initial=0) <= max_length:
            return self
        return _taken(self.ids, self.indptr[:-1], np.minimum(lengths, max_length))

    def _spans(self, rows: RowChoice) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where each of the documents begins, and its length."""
        chosen: NDArray[Any] = np.asarray(rows)
        if not chosen.size:
            chosen = np.empty(0, dtype=np.int64)  # an empty list is of no whole-number type
        starts = self.indptr[:-1][chosen]
        return starts, self.indptr[1:][chosen] - starts


def _check_length(max_length: int) -> None:
    if max_length < 1:
        raise UsageError(f"a document keeps at least one token; max_length is {max_length}")


def _positions(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """int64 (sum of lengths,): start, start + 1, ... of each span, one span after the other."""
    shift = np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)
    return shift + np.arange(len(shift))


def _taken(ids: NDArray[np.int32], starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> Tokens:
    """The spans of ids as documents."""
    return Tokens(ids[_positions(starts, lengths)], starts_of(lengths))


def _joined(parts: list[Tokens]) -> Tokens:
    """The documents of all parts, one part after the other."""
    if not parts:
        return Tokens(np.empty(0, dtype=np.int32), np.zeros(1, dtype=np.int64))
    return Tokens(
        np.concatenate([part.ids for part in parts]), starts_of(np.concatenate([part.lengths for part in parts]))
    )


@dataclass(frozen=True, eq=False)
class WordTokeniser:
    """Texts to the numbers of their words, as `tokenise` finds them; the word of column c has number FIRST_WORD + c.

    With an analyser it is stems in place of words, and the parts of a compound follow it.
    """

    vocabulary: Vocabulary
    analyser: Analyser | None = None

    @classmethod
    def fitted(cls, texts: Sequence[str], *, min_df: int, max_words: int, run: Run, language: str = NONE) -> Self:
        """Knows the words in at least min_df of the texts, the max_words most frequent of them."""
        analyser = Analyser.fitted(language, texts)
        with run.bar("Vocabulary", len(texts)) as bar:

            def count_chunk(chunk: slice) -> ChunkTerms:
                part = terms_of(texts[chunk], 1, analyser or tokenise)
                bar.advance(chunk.stop - chunk.start)
                return part

            parts = run.map(count_chunk, list(chunks(texts, CHUNK_CHARACTERS)))
        gathered = gather_terms(parts, occurrences=True)
        limits, compounds = Limits(len(texts), 1, min_df, 1.0, max_words), None
        if analyser is not None and analyser.compounding:
            compounds = compounds_of(gathered, limits, run)
            count_parts(gathered, [part.entries for part in parts], compounds, run)
        vocabulary, _, _ = select(gathered, limits, compounds)
        return cls(vocabulary, analyser)

    @property
    def size(self) -> int:
        """How many numbers there are, with PAD and UNKNOWN."""
        return FIRST_WORD + self.vocabulary.width

    def words(self) -> list[str]:
        """The words by number, from FIRST_WORD on."""
        return self.vocabulary.terms()

    def tokens(self, texts: Sequence[str], max_length: int, *, run: Run) -> Tokens:
        """The first max_length words of each text, in reading order."""
        _check_length(max_length)
        # What is not found has place -1, which is the last one; a word without a column gets the same number.
        numbers = np.append(self.vocabulary.columns + FIRST_WORD, UNKNOWN).astype(np.int32)
        with run.bar("Tokens", len(texts)) as bar:

            def one(chunk: slice) -> Tokens:
                words = (self.analyser or tokenise)(texts[chunk])
                nodes, ends = self.vocabulary.stream(words)
                # A document without words takes its one token from behind the stream.
                ids = np.append(numbers[nodes], np.int32(UNKNOWN))
                lengths = np.diff(ends, prepend=0)
                starts = np.where(lengths > 0, ends - lengths, len(nodes))
                part = _taken(ids, starts, np.clip(lengths, 1, max_length))
                bar.advance(chunk.stop - chunk.start)
                return part

            return _joined(run.map(one, list(chunks(texts, CHUNK_CHARACTERS))))

    # keeping
    def arrays(self) -> dict[str, NDArray[Any]]:
        """What a model keeps: the arrays of `Vocabulary` and of `Analyser`."""
        return {**self.vocabulary.arrays(), **({} if self.analyser is None else self.analyser.arrays())}

    @classmethod
    def restored(cls, arrays: Arrays, language: str = NONE) -> Self:
        """From what a model kept; ValueError if it cannot be what `arrays` gave."""
        analyser, own = Analyser.of_arrays(arrays, language)
        # The columns are 0 to their number - 1.
        width = int((np.asarray(own.get("columns", ())) >= 0).sum())
        return cls(Vocabulary.restored(own, width=width, n=1), analyser)


# the cache
def cached(key_parts: Sequence[str | bytes], texts: Sequence[str], make: Callable[[], Tokens]) -> Tokens:
    """The tokens that `make` gives for the texts, from the cache if they are there.

    key_parts  all that the tokens depend on beside the texts
    No trouble with the cache is ever an error: the tokens are made, as if there were none.
    """
    folder = cache_folder()
    if folder is None:
        return make()
    path = folder / "tokens" / f"{_key(key_parts, texts)}.safetensors"
    with suppress(OSError, ValueError, KeyError, LongtailError):
        tokens = _read(path)
        if len(tokens) == len(texts):
            return tokens
    tokens = make()
    with suppress(OSError, LongtailError), atomic_file(path, overwrite=True) as handle:
        write_arrays(handle, {"ids": tokens.ids, "indptr": tokens.indptr})
    return tokens


def _read(path: Path) -> Tokens:
    """The file's arrays as views of a memory map: tokens that are not asked for need no memory."""
    with path.open("rb") as handle:
        data = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ)
    arrays = read_arrays(data, str(path))
    return Tokens(arrays["ids"], arrays["indptr"])


def _key(key_parts: Sequence[str | bytes], texts: Sequence[str]) -> str:
    """sha256 in hex. Pieces are hashed behind their lengths, so that no two lists run into the same bytes."""
    digest = hashlib.sha256(_CACHE_FORMAT)

    def add(pieces: Sequence[str | bytes]) -> None:
        encoded = [p if isinstance(p, bytes) else p.encode("utf-8", "surrogatepass") for p in pieces]
        lengths = np.fromiter(map(len, encoded), dtype="<i8", count=len(encoded))
        digest.update(len(encoded).to_bytes(8, "little"))
        digest.update(lengths.tobytes())
        digest.update(b"".join(encoded))

    add(key_parts)
    for chunk in chunks(texts, CHUNK_CHARACTERS):
        add(texts[chunk])
    return digest.hexdigest()
