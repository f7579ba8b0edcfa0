"""Stems of words, by Snowball, remembered: stemming a word takes longer than reading it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longtail.features import kernels
from longtail.features.characters import all_without_accents, without_accents
from longtail.features.languages import ACCENTED, LANGUAGES
from longtail.features.tokenise import Words
from longtail.features.word_tables import Growing, GrowingWords, Spelling, gather, numbered, spelled, starts_of, taken

#: Words whose stems are remembered, of a language in `stems`, of all in `Forms`; one more, and all are forgotten.
REMEMBERED, FORMS = 1 << 17, 1 << 19

_REMEMBERED: dict[str, dict[bytes, bytes]] = {}
_OF_THREAD = threading.local()


def stems(words: list[bytes], language: str) -> list[bytes]:
    """The stems of lower-case words in UTF-8, without accents where the language has such."""
    known = _REMEMBERED.setdefault(language, {})
    found = list(map(known.get, words))
    if None in found:
        missing = [word for word, stem in zip(words, found, strict=True) if stem is None]
        new = dict(zip(missing, stemmed(missing, language), strict=True))
        if len(known) + len(new) > REMEMBERED:
            known.clear()
        known.update(new)
        found = [new[word] if stem is None else stem for word, stem in zip(words, found, strict=True)]
    return found  # type: ignore[return-value]


def stems_in(words: list[bytes], of: list[int], languages: Sequence[str]) -> list[bytes]:
    """The stems of words, each in its own language, given as its place among some."""
    known = [_REMEMBERED.setdefault(language, {}) for language in languages]
    found = [known[number].get(word) for word, number in zip(words, of, strict=True)]
    if None in found:
        found = [
            stems([word], languages[number])[0] if stem is None else stem
            for word, number, stem in zip(words, of, found, strict=True)
        ]
    return found  # type: ignore[return-value]


def stemmed(words: list[bytes], language: str) -> list[bytes]:
    """The stems of words that nobody remembers."""
    made = _with_accents(words, language)
    return [stem if stem.isascii() else without_accents(stem) for stem in made] if language in ACCENTED else made


def _with_accents(words: list[bytes], language: str) -> list[bytes]:
    name = LANGUAGES.get(language)
    made: list[bytes] = _stemmer(name).stemWords(words) if name else words
    # no word becomes nothing
    return made if all(made) else [stem or word for word, stem in zip(words, made, strict=True)]


def _stemmer(name: str) -> Any:
    """The thread's own: Snowball's are not to be shared."""
    stemmer = getattr(_OF_THREAD, name, None)
    if stemmer is None:
        import Stemmer

        stemmer = Stemmer.Stemmer(name)
        stemmer.maxCacheSize = 0  # what is remembered here is found quicker
        setattr(_OF_THREAD, name, stemmer)
    return stemmer


class Forms:
    """Words in some languages to their stems, for many at a time. It learns as it is asked; threads may share it."""

    def __init__(self, languages: Sequence[str]) -> None:
        self._languages, self._lock = languages, threading.Lock()
        self._forget()

    def _forget(self) -> None:
        self._words = [GrowingWords() for _ in self._languages]
        self._stem_of = [Growing(np.int32) for _ in self._languages]
        self._stems = GrowingWords()

    def stems_of(self, words: Words, of: NDArray[np.integer], language: NDArray[np.int32]) -> Words:
        """Words as their stems: those of a stream of pairs of a word and its language.

        words         the stream, as places in `of` and `language`, and the words
        of, language  int32 (pairs,)
        """
        with self._lock:
            if sum(map(len, self._words)) > FORMS:
                self._forget()
            stem = np.empty(len(of), dtype=np.int32)
            for number in range(len(self._languages)):
                places = np.flatnonzero(language == number)
                stem[places] = self._find(number, words, of[places])
            numbers, chosen = np.empty((2, len(of)), dtype=np.int32)
            room = np.full(len(self._stems), -1, dtype=np.int32)
            count = kernels.number_numbers(stem, room, numbers, chosen)
            blob, offsets, hashes = taken(self._stems.values, chosen[:count])
        return Words(numbers[words.stream], words.ends, blob, offsets, hashes)

    def _find(self, language: int, words: Words, some: NDArray[np.integer]) -> NDArray[np.int32]:
        """int32: the numbers of the stems of some words of a language."""
        known, stem_of = self._words[language], self._stem_of[language]
        found = known.find(words, some)
        new = np.flatnonzero(found < 0)
        if len(new):
            found[new] = len(known) + np.arange(len(new))
            known.add(words, some[new])
            stem_of.append(self._stemmed(spelled(words, some[new]), self._languages[language]))
        numbers: NDArray[np.int32] = stem_of.values[found]
        return numbers

    def _stemmed(self, words: list[bytes], language: str) -> NDArray[np.int32]:
        """int32 (words,): the numbers of the stems of words, which are taken in if they are new."""
        made = _with_accents(words, language)
        blob = np.frombuffer(b"".join(made), dtype=np.uint8)
        lengths = np.fromiter(map(len, made), dtype=np.int64, count=len(made))
        if language in ACCENTED:
            blob, lengths = all_without_accents(blob, lengths)
        offsets = starts_of(lengths)
        numbers, firsts, hashes = numbered(blob, offsets[:-1], lengths)
        different = Spelling(gather(blob, offsets[firsts], lengths[firsts]), starts_of(lengths[firsts]), hashes)
        found = self._stems.find(different)
        new = np.flatnonzero(found < 0)
        found[new] = len(self._stems) + np.arange(len(new))
        self._stems.add(different, new)
        return found[numbers]
