"""TF-IDF features: weighted word counts of unit length (Salton & Buckley 1988).

The numbers are those of scikit-learn's `TfidfVectorizer(sublinear_tf=True)` with its default pattern: words are runs
of two or more word characters of the lower-cased text; a term that occurs tf times in a document and in df of the n
documents fitted on weighs (1 + ln tf) (ln((1 + n) / (1 + df)) + 1); rows are then scaled to unit length.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail.errors import UsageError
from longtail.features import kernels
from longtail.features.analyser import AUTO, NONE, SHARED, WHICH, Analyser, check_language, plain_words
from longtail.features.base import Features
from longtail.features.characters import analysed_table
from longtail.features.estimate import Words, words_of
from longtail.features.gathering import Limits, compounds_of, count_parts, gather_terms
from longtail.features.one_text import Lookup, Row, Terms, weighed_stems, weighed_text
from longtail.features.terms import (
    CHUNK_CHARACTERS,
    ChunkTerms,
    ColumnCounts,
    TermCounts,
    by_column,
    chunks,
    merged_columns,
    terms_of,
    terms_of_words,
)
from longtail.features.tokenise import tokenise, word_table
from longtail.features.vocabulary import NO_TERMS, Vocabulary, select
from longtail.features.word_tables import frozen
from longtail.part import Arrays, checked_before, option
from longtail.plan import Sizes, Stage
from longtail.run import Run

#: Rows of a chunk as indptr int64, columns int32 and values float32.
Weighed = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]


@dataclass(kw_only=True)
class Tfidf(Features):
    """Texts to csr float32 (n, D), rows of unit length, columns sorted within rows.

    Columns go by falling document frequency, then by the term's characters, so that the features most often read lie
    together. A document without a known word is an empty row.

    With `hash_bits` no vocabulary is kept: a term's column is its stable hash modulo 2 ** hash_bits (`tokenise` defines
    the hash of a word, `kernels` that of an n-gram), the counts of terms that share a column are added up, and idf and
    pruning go by column.

    Fitted: `n_features_`, `idf_` float32 (D,) (0 for columns that are not used, only with hashing), `terms_`.
    """

    #: Characters a task takes; results do not depend on it.
    chunk_characters: ClassVar[int] = CHUNK_CHARACTERS
    leaner: ClassVar[Mapping[str, Any]] = {"min_df": 2, "hash_bits": 18}

    ngrams: int = option(1, "longest word n-gram, in words", low=1, high=8)
    min_df: int = option(1, "leave out terms in fewer documents (measured: once-only words help rare labels)", low=1)
    max_df: float = option(0.5, "leave out terms in more than this share of the documents", low=0.0, high=1.0)
    max_features: int | None = option(None, "keep only this many terms, the most frequent in the corpus", low=1)
    hash_bits: int | None = option(None, "hash terms into 2 ** hash_bits columns, keep no vocabulary", low=1, high=28)
    sublinear: bool = option(True, "1 + ln(count) in place of the count")
    language: str = option("none", f"stems in place of words: {WHICH}")
    compounds: bool = option(
        True, "count the two words of a compound, too, in languages that write it as one; needs a vocabulary"
    )

    def validate(self) -> None:
        super().validate()
        check_language(self, self.language)
        if self.hash_bits is not None and self.max_features is not None:
            raise UsageError("tfidf.max_features needs a vocabulary and tfidf.hash_bits keeps none; set one of them")
        if not self.compounds and (self.language == NONE or self.hash_bits is not None):
            raise UsageError(
                "tfidf.compounds counts only where language is not none and hash_bits not set; leave it out"
            )

    # fitting
    def fit(self, texts: Sequence[str], *, run: Run | None = None) -> Self:
        self._fit(texts, run or Run(), rows_too=False)
        return self

    def fit_transform(self, texts: Sequence[str], *, run: Run | None = None) -> sp.csr_matrix:
        return self._fit(texts, run or Run(), rows_too=True)

    def _fit(self, texts: Sequence[str], run: Run, *, rows_too: bool) -> sp.csr_matrix:
        texts = _checked(texts)
        if not texts:
            raise UsageError("tfidf: there are no documents to fit on")
        analyser, words = Analyser.fitted_with_words(self.language, texts)
        with run.bar("Features", len(texts) * (1 + rows_too)) as bar:

            def count_chunk(chunk: slice) -> ChunkTerms:
                if analyser is None:
                    part = terms_of(texts[chunk], self.ngrams)
                else:
                    found = words or plain_words(texts[chunk])
                    part = terms_of_words(analyser.gathered(found), self.ngrams)
                bar.advance(chunk.stop - chunk.start)
                return part

            cut = [slice(0, len(texts))] if words is not None else list(chunks(texts, self.chunk_characters))
            parts = run.map(count_chunk, cut)
            if self.hash_bits is None:
                entries, columns = self._fit_vocabulary(parts, len(texts), analyser, run)
            else:
                entries, columns = self._fit_hashing(parts, len(texts), run)
            self._analyser_ = analyser
            if analyser is not None:
                analyser.settled()
            if not rows_too:
                return _stacked([], self.n_features_)

            def weighed(i: int) -> Weighed:
                rows = by_column(entries[i], columns[i])
                bar.advance(len(rows.indptr) - 1)
                return self._weigh(rows)

            return _stacked(run.map(weighed, range(len(entries))), self.n_features_)

    def _fit_vocabulary(
        self, parts: list[ChunkTerms], documents: int, analyser: Analyser | None, run: Run
    ) -> tuple[list[TermCounts], list[NDArray[np.int32]]]:
        stems = None if analyser is None else analyser.stems
        gathered = gather_terms(parts, stems, occurrences=self.max_features is not None)
        entries = [part.entries for part in parts]
        parts.clear()  # only the entries are needed from here on
        limits = Limits(documents, self.ngrams, self.min_df, self.max_df, self.max_features)
        compounds = None
        if self.compounds and analyser is not None and analyser.compounding:
            compounds = compounds_of(gathered, limits, run)
            entries = count_parts(gathered, entries, compounds, run)
        vocabulary, df, columns = select(gathered, limits, compounds)
        if not len(df):
            raise self._nothing_left(documents, len(gathered.df))
        self._fitted(_idf(df, documents), vocabulary)
        return entries, [columns[nodes] for nodes in gathered.nodes]

    def _fit_hashing(
        self, parts: list[ChunkTerms], documents: int, run: Run
    ) -> tuple[list[TermCounts], list[NDArray[np.int32]]]:
        every = run.map(lambda part: merged_columns(part.entries, self._hashed(part)), parts)
        parts.clear()
        df = np.zeros(1 << (self.hash_bits or 0), dtype=np.int64)
        for entries, columns in every:
            df[columns] += entries.document_frequency()
        used = (df >= self.min_df) & (df <= self.max_df * documents)
        if not used.any():
            raise self._nothing_left(documents, int((df > 0).sum()))
        self._fitted(np.where(used, _idf(df, documents), np.float32(0)), None)
        return [entries for entries, _ in every], [np.where(used[c], c, -1).astype(np.int32) for _, c in every]

    def _nothing_left(self, documents: int, terms: int) -> UsageError:
        if not terms:
            return UsageError(
                f"tfidf: none of the {documents} documents has a word of two characters or more; "
                "is the text field the right one?"
            )
        if documents == 1:
            return UsageError("tfidf: a single document is too little to learn from")
        return UsageError(
            f"tfidf: no term is left of {terms}: each is in fewer than {self.min_df} (min_df) or in more than "
            f"{self.max_df:g} (max_df) of the {documents} documents; lower tfidf.min_df or raise tfidf.max_df"
        )

    def plan(self, sizes: Sizes, run: Run) -> list[Stage]:
        """Counts of all chunks are held until the last is weighed; rows are copied once more when they are stacked."""
        words = self._words_of(sizes)
        made = self.planned(sizes)
        all_at_once = self.language == AUTO and sizes.characters <= SHARED
        largest = sizes.characters if all_at_once else min(self.chunk_characters, sizes.characters)
        chunks = 1 if all_at_once else -(-sizes.characters // self.chunk_characters)
        # a chunk's own table of words: spelling, place, hash, number
        tables = chunks * min(words.terms, int(words.terms / max(1, chunks) ** words.power)) * 34
        gathered = words.terms * (150 if self.hash_bits is None else 0)
        busy = min(run.tasks, chunks) * largest * 10 * self.ngrams
        peak = 8 * words.entries + tables + max(busy, gathered, 16 * made.nonzeros)
        seconds = self.ngrams * sizes.characters / 12e6 / min(run.tasks, 4)
        return [Stage("features", seconds, int(1.1 * peak), made.X_bytes + self._vocabulary_bytes(words))]

    def _words_of(self, sizes: Sizes) -> Words:
        splits = self.compounds and self.hash_bits is None
        return words_of(sizes, self.ngrams, self.max_df, language=self.language, compounds=splits)

    def _vocabulary_bytes(self, words: Words) -> int:
        return (
            (45 if self.language == NONE else 57) * words.in_at_least(self.min_df)
            if self.hash_bits is None
            else 4 << self.hash_bits
        )

    def planned(self, sizes: Sizes) -> Sizes:
        words = self._words_of(sizes)
        terms = min(words.in_at_least(self.min_df), self.max_features or words.terms)
        # terms that are left out are rare: each stands in fewer than min_df documents
        rare = (words.terms - words.in_at_least(self.min_df)) * (self.min_df + 1) / 2
        kept = max(sizes.documents, int(words.kept - rare))
        return replace(sizes, features=1 << self.hash_bits if self.hash_bits else terms, nonzeros=kept)

    # using
    def transform(self, texts: Sequence[str], *, run: Run | None = None) -> sp.csr_matrix:
        texts, run = _checked(texts), run or Run()
        self._require_fitted()
        with run.bar("Features", len(texts)) as bar:

            def one(chunk: slice) -> Weighed:
                rows = by_column(*self._counts(texts[chunk]))
                bar.advance(chunk.stop - chunk.start)
                return self._weigh(rows)

            return _stacked(run.map(one, list(chunks(texts, self.chunk_characters))), self.n_features_)

    def _counts(self, texts: Sequence[str]) -> tuple[TermCounts, NDArray[np.int32]]:
        """The counts of some texts, and the column of each of their nodes."""
        vocabulary, analyser = self._vocabulary_, self._analyser_
        if vocabulary is None:
            part = terms_of(texts, self.ngrams, analyser or tokenise)
            columns = self._hashed(part)
            columns[self.idf_[columns] == 0] = -1
            return part.entries, columns
        if analyser is None:
            return vocabulary.counts(terms_of(texts, self.ngrams))
        words, found = analyser.found_in(vocabulary, texts)
        return vocabulary.counts(terms_of_words(words, self.ngrams), found)

    def _hashed(self, part: ChunkTerms) -> NDArray[np.int32]:
        return (part.hashes & np.uint64((1 << (self.hash_bits or 0)) - 1)).astype(np.int32)

    def _weigh(self, rows: ColumnCounts) -> Weighed:
        data = np.empty(len(rows.columns), dtype=np.float32)
        kernels.weigh(rows.indptr, rows.columns, rows.counts, self.idf_, self.sublinear, data)
        return rows.indptr, rows.columns, data

    def _require_fitted(self) -> None:
        if not hasattr(self, "idf_"):
            raise UsageError("tfidf is not fitted yet; call fit first")

    def _fitted(self, idf: NDArray[np.float32], vocabulary: Vocabulary | None) -> None:
        self.idf_: NDArray[np.float32] = frozen(idf)
        self._vocabulary_ = vocabulary
        self._terms_: list[str] | None = None
        self._terms_of_one_: Terms | None = None
        self._lookup_: Lookup | None = None

    def transform_one(self, text: str) -> Row | None:
        self._require_fitted()
        terms, analyser = self._terms_of_one_, self._analyser_
        if terms is None or (terms.n, terms.sublinear) != (self.ngrams, self.sublinear):
            known = self._vocabulary_ or NO_TERMS
            mask = np.uint64(self.n_features_ - 1 if self._vocabulary_ is None else 0)
            terms = self._terms_of_one_ = Terms(
                word_table() if analyser is None else analysed_table(), known.blob, known.offsets, known.slots,
                known.columns, known.pairs, known.pair_slots, *known.compounds,
                self.idf_, self.ngrams, mask, self.sublinear,
            )  # fmt: skip
            self._lookup_ = None if analyser is None else Lookup.of(analyser)
        if analyser is None or self._lookup_ is None:
            return weighed_text(text, terms)
        return weighed_stems(text, terms, self._lookup_, analyser.stemmed)

    @property
    def n_features_(self) -> int:
        return len(self.idf_)

    @property
    def terms_(self) -> list[str]:
        """The terms by column, an n-gram's words with a space between them; there are none with hashing."""
        vocabulary: Vocabulary | None = getattr(self, "_vocabulary_", None)
        if vocabulary is None:
            raise AttributeError("tfidf has terms only once it is fitted, and none with hash_bits")
        if self._terms_ is None:
            self._terms_ = vocabulary.terms()
        return self._terms_

    def acted(self) -> dict[str, Any]:
        """The languages that texts were found to be in, or are said to be in."""
        return {} if self._analyser_ is None else {"languages": self._analyser_.said()}

    # keeping
    def state(self) -> dict[str, NDArray[Any]]:
        """idf and, without hashing, the arrays of `Vocabulary`; all that `transform` needs, ready to be mapped."""
        self._require_fitted()
        languages = {} if self._analyser_ is None else self._analyser_.arrays()
        return {"idf": self.idf_, **({} if self._vocabulary_ is None else self._vocabulary_.arrays()), **languages}

    def restore(self, arrays: Arrays) -> None:
        idf = arrays.get("idf")
        if idf is None or idf.dtype != np.float32 or idf.ndim != 1 or not len(idf):
            raise ValueError("tfidf needs an array 'idf' of float32, one number per feature")
        idf = np.require(np.asarray(idf), requirements=["C", "A"])
        if not checked_before() and not (np.isfinite(idf).all() and (idf >= 0).all()):
            raise ValueError("tfidf's idf has numbers that are negative or not finite")
        analyser, others = Analyser.of_arrays({name: arrays[name] for name in arrays if name != "idf"}, self.language)
        if self.hash_bits is None:
            self._fitted(idf, Vocabulary.restored(others, width=len(idf), n=self.ngrams))
        elif others or len(idf) != 1 << self.hash_bits:
            raise ValueError(
                f"tfidf hashes into {1 << self.hash_bits} columns; the file has {len(idf)}, {sorted(others)[:3]}"
            )
        else:
            self._fitted(idf, None)
        self._analyser_ = analyser
        self.language = self.language if analyser else NONE


def _checked(texts: Sequence[str]) -> Sequence[str]:
    if isinstance(texts, str):
        raise UsageError("tfidf takes a list of texts; put a single text into a list: [text]")
    if not isinstance(texts, list):
        texts = list(texts)
    other = tuple(kind for kind in set(map(type, texts)) if not issubclass(kind, str))
    if other:
        i = next(i for i, text in enumerate(texts) if isinstance(text, other))
        raise UsageError(f"tfidf takes texts; document {i} is of type {type(texts[i]).__name__}")
    return texts


def _idf(df: NDArray[np.int64], documents: int) -> NDArray[np.float32]:
    return (np.log((1 + documents) / (1 + df)) + 1).astype(np.float32)


def _stacked(parts: list[Weighed], width: int) -> sp.csr_matrix:
    """The chunks' rows as one matrix; each chunk is let go of as soon as it is copied."""
    documents = sum(len(part[0]) - 1 for part in parts)
    entries = sum(len(part[1]) for part in parts)
    # scipy keeps both index arrays in one type
    index: Any = np.int32 if entries <= np.iinfo(np.int32).max else np.int64
    indptr: NDArray[Any] = np.zeros(documents + 1, dtype=index)
    indices: NDArray[Any] = np.empty(entries, dtype=index)
    values = np.empty(entries, dtype=np.float32)
    row = at = 0
    parts.reverse()
    while parts:
        starts, columns, data = parts.pop()
        indptr[row : row + len(starts)] = at + starts
        indices[at : at + len(data)], values[at : at + len(data)] = columns, data
        row, at = row + len(starts) - 1, at + len(data)
    matrix: sp.csr_matrix = sp.csr_matrix((values, indices, indptr), shape=(documents, width))
    matrix.has_canonical_format = True
    return matrix
