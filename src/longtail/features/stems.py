"""Stems of words, by Snowball, remembered: stemming a word takes longer than reading it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longtail.features.characters import all_without_accents, without_accents
from longtail.features.languages import ACCENTED, LANGUAGES

#: Words of a language whose stems are remembered; one more, and all are forgotten.
REMEMBERED = 1 << 17

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


def stem_bytes(words: list[bytes], language: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The same as bytes one after the other, and the length of each stem."""
    made = _with_accents(words, language)
    blob = np.frombuffer(b"".join(made), dtype=np.uint8)
    lengths = np.fromiter(map(len, made), dtype=np.int64, count=len(made))
    return all_without_accents(blob, lengths) if language in ACCENTED else (blob, lengths)
