"""Words of many texts to their stems. A word is looked up once per chunk of texts, and stemmed once per language."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from longtail.arrays import njit
from longtail.features import kernels
from longtail.features.characters import all_without_accents
from longtail.features.languages import elected, voters
from longtail.features.stems import stem_bytes
from longtail.features.tokenise import Words
from longtail.features.vocabulary import Found, Vocabulary
from longtail.features.word_tables import (
    Growing,
    GrowingWords,
    Spelling,
    WordTable,
    gather,
    hashes_of,
    looked_up,
    numbered,
    spelled,
    taken,
)
from longtail.sparse import starts_of

#: Words that are remembered; one more, and all are forgotten.
FORMS = 1 << 20
#: In place of a node: nobody has looked for it yet.
NOT_ASKED = -2
NO_BYTES, NO_OFFSETS = np.empty(0, dtype=np.uint8), np.zeros(1, dtype=np.int64)


class Forms:
    """Words to their stems, for many at a time. It learns as it is asked; threads may share it.

    What is remembered of each word: which function word it is, its language wherever it stands, and the number of its
    stem in each language, or -1 for none. `stems` are those of all texts so far; of each is remembered where it is in
    the vocabulary that was last asked about.
    """

    def __init__(
        self, languages: tuple[str, ...], stemmed: Sequence[str], shared: WordTable, of: NDArray[np.uint8]
    ) -> None:
        self._voters, self._stemmed, self._shared, self._of = voters(languages), stemmed, shared, of
        self._lock = threading.Lock()
        self._forget(False)

    def settle(self) -> None:
        """Nothing is gathered any more: as much is forgotten as at any other time."""
        if len(self.stems) > FORMS:
            self._forget(False)

    def _forget(self, but_stems: bool) -> None:
        if not but_stems:
            self.stems = GrowingWords()
            self._place = np.empty(0, dtype=np.int32)
            self._vocabulary: Vocabulary | None = None
        self._words = GrowingWords()
        self._voter, self._fixed = Growing(np.int32), Growing(np.int32)
        self._stem_of = Growing(np.int32, len(self._stemmed))

    def stems_of(self, words: Words, gathered: bool = False) -> Words:
        """The stems of some words in place of these.

        gathered  in place of bytes they have `numbers`, places in `stems`, of which none is forgotten meanwhile
        """
        with self._lock:
            stream, chosen = self._numbered(words, gathered)
            if gathered:
                spelling = Spelling(NO_BYTES, NO_OFFSETS, self.stems.values.hashes[chosen])
            else:
                spelling = taken(self.stems.values, chosen)
        return Words(stream, words.ends, *spelling, chosen if gathered else None)

    def found_in(self, vocabulary: Vocabulary, words: Words) -> tuple[Words, Found]:
        """The stems of some words in place of these, without bytes, and where they are in a vocabulary."""
        with self._lock:
            stream, chosen = self._numbered(words, False)
            stems = self.stems.values
            if self._vocabulary is not vocabulary:
                self._vocabulary, self._nodes = vocabulary, Growing(np.int32, 3)
            self._nodes.append(np.full((len(stems.hashes) - len(self._nodes), 3), NOT_ASKED, dtype=np.int32))
            nodes = self._nodes.values
            found: NDArray[np.int32] = nodes.take(chosen, axis=0)
            new = np.flatnonzero(found[:, 0] == NOT_ASKED)
            if len(new):
                found[new] = nodes[chosen[new]] = vocabulary.found(taken(stems, chosen[new]))
        return Words(stream, words.ends, NO_BYTES, NO_OFFSETS, stems.hashes.take(chosen)), found

    def _numbered(self, words: Words, gathered: bool) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The stream of words as that of their stems, and the number of each different stem in `stems`."""
        if len(self._words) > FORMS:
            self._forget(gathered)
        known = self._known(words)
        stream, of, language = self._in_languages(words, known)
        stem = self._stemmed_in(words, known, of, language)
        if len(self._place) < len(self.stems):
            self._place = np.full(2 * len(self.stems), -1, dtype=np.int32)
        numbers, chosen = np.empty((2, len(of)), dtype=np.int32)
        count = kernels.number_numbers(stem, self._place, numbers, chosen)
        return looked_up(stream, numbers), chosen[:count].copy()

    def _known(self, words: Words) -> NDArray[np.int32]:
        """int32 (words,): the number of each word here; new ones are taken in."""
        before = len(self._words)
        known = self._words.numbered(words)
        new = np.flatnonzero(known >= before)
        if len(new):
            if len(self._stemmed) > 1:
                fresh = taken(words, new)
                place = self._shared.find(fresh)
                self._voter.append(self._voters.words.find(fresh))
                self._fixed.append(np.where(place >= 0, np.append(self._of, 0)[place], -1))
            self._stem_of.append(np.full((len(new), len(self._stemmed)), -1, dtype=np.int32))
        return known

    def _in_languages(
        self, words: Words, known: NDArray[np.int32]
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
        """The stream of words as that of pairs of a word and its language, and, int32 (pairs,), these."""
        count, languages = len(known), len(self._stemmed)
        if languages == 1:
            return words.stream, np.arange(count, dtype=np.int32), np.zeros(count, dtype=np.int32)
        spoken = elected(words, looked_up(known, self._voter.values), self._voters.votes)
        stream = np.empty(len(words.stream), dtype=np.int32)
        pairs = np.empty((2, min(len(stream), count * languages)), dtype=np.int32)
        numbers = np.full((languages, count), -1, dtype=np.int32)
        fixed = looked_up(known, self._fixed.values)
        found = _pairs(words.stream, words.ends, spoken, fixed, numbers, stream, pairs)
        return stream, pairs[0, :found], pairs[1, :found]

    def _stemmed_in(
        self, words: Words, known: NDArray[np.int32], of: NDArray[np.int32], language: NDArray[np.int32]
    ) -> NDArray[np.int32]:
        """int32 (pairs,): the numbers of the stems of pairs of a word and its language."""
        stem_of = self._stem_of.values.ravel()
        place = looked_up(of, known) * np.int64(len(self._stemmed)) + language
        stem = looked_up(place, stem_of)
        missing = np.flatnonzero(stem < 0)
        for number, name in enumerate(self._stemmed):
            some = missing[language[missing] == number] if len(missing) else missing
            if len(some):
                stem[some] = stem_of[place[some]] = self._added(*stem_bytes(spelled(words, of[some]), name))
        return stem

    def _added(self, blob: NDArray[np.uint8], lengths: NDArray[np.int64]) -> NDArray[np.int32]:
        """int32 (stems,): the numbers of stems, which are taken in if they are new."""
        offsets = starts_of(lengths)
        return self.stems.numbered(Spelling(blob, offsets, hashes_of(blob, offsets)))


class Unstemmed:
    """In place of `Forms` where words have no stems: they lose their accents at most, and nothing is remembered."""

    stems = None

    def __init__(self, *, accents: bool) -> None:
        self._accents = accents

    def settle(self) -> None:
        """There is nothing to forget."""

    def stems_of(self, words: Words, gathered: bool = False) -> Words:
        """The words, without their accents where these do not count; with bytes, `gathered` or not."""
        blob, lengths = words.blob, np.diff(words.offsets)
        if not self._accents:
            blob, lengths = all_without_accents(blob, lengths)
        if blob is words.blob:
            return words
        starts = starts_of(lengths)
        numbers, kept, hashes = numbered(blob, starts[:-1], lengths)
        plain = gather(blob, starts[kept], lengths[kept])
        return Words(looked_up(words.stream, numbers), words.ends, plain, starts_of(lengths[kept]), hashes)

    def found_in(self, vocabulary: Vocabulary, words: Words) -> tuple[Words, Found]:
        """The words, and where they are in a vocabulary."""
        words = self.stems_of(words)
        return words, vocabulary.found(words)


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator, unused-ignore]
def _pairs(stream, ends, languages, fixed, known, new_stream, pairs):  # type: ignore[no-untyped-def]
    """Numbers pairs of a word and the language it is stemmed in, as they come, and gives how many there are.

    stream, ends  as in `Words`
    languages     int32 (documents,); fixed: int32 (words,), the language of a word wherever it stands, or -1
    known         int32 (languages, words), -1 everywhere
    new_stream    int32, the stream's words as pairs, written; pairs: int32 (2, pairs), words and languages, written
    """
    count = 0
    begin = 0
    for document in range(len(ends)):
        spoken = languages[document]
        for i in range(begin, ends[document]):
            word = stream[i]
            number = known[spoken, word]
            if number < 0:
                language = fixed[word]
                if language < 0:
                    language = spoken
                if known[language, word] < 0:
                    known[language, word] = count
                    pairs[0, count] = word
                    pairs[1, count] = language
                    count += 1
                number = known[language, word]
                known[spoken, word] = number
            new_stream[i] = number
        begin = ends[document]
    return count
