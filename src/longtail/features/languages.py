"""Languages: which are known, and how the language of a text is told.

A text's language is told by its function words (the, und, dans), which nearly every text has and names and terms
hardly ever are. Each different one counts once for the languages that have it, the less the more of these there are.
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from longtail.arrays import njit
from longtail.features.tokenise import Words
from longtail.features.word_tables import WordTable

#: Languages by their ISO 639-1 code: the name of their Snowball stemmer, empty for those that have none.
LANGUAGES: dict[str, str] = {
    "ar": "arabic", "bg": "", "ca": "catalan", "cs": "czech", "da": "danish", "de": "german", "el": "greek",
    "en": "english", "eo": "esperanto", "es": "spanish", "et": "estonian", "eu": "basque", "fa": "persian",
    "fi": "finnish", "fr": "french", "ga": "irish", "hi": "hindi", "hu": "hungarian", "hy": "armenian",
    "id": "indonesian", "is": "", "it": "italian", "ja": "", "km": "", "ko": "", "la": "", "lo": "", "lt": "lithuanian",
    "lv": "", "my": "", "ne": "nepali", "nl": "dutch", "no": "norwegian", "pl": "polish", "pt": "portuguese",
    "ro": "romanian", "ru": "russian", "sk": "", "sl": "", "sr": "serbian", "st": "sesotho", "sv": "swedish",
    "ta": "tamil", "th": "", "tr": "turkish", "uk": "", "vi": "", "yi": "yiddish", "zh": "",
}  # fmt: skip
#: Of texts in which nothing tells the language, where no other text tells it either.
UNDETERMINED = "und"
#: English without stems, which no corpus of English texts alone was better for (see docs/languages.md).
ENGLISH_WORDS = "en words"
#: Languages in which marks are accents that people leave out; elsewhere (å, ł, ş) they make letters of their own.
ACCENTED = frozenset({"ca", "de", "en", ENGLISH_WORDS, "es", "fr", "ga", "it", "nl", "pt"})
#: What a function word gives to the languages that have it, shared out among them.
VOTE = 60


# the language of a text
class Voters(NamedTuple):
    """Function words, and int32 (words, languages), what each gives to every language."""

    words: WordTable
    votes: NDArray[np.int32]


@cache
def _function_words() -> dict[str, list[str]]:
    """Languages to their function words."""
    text = resources.files("longtail.features").joinpath("function_words.txt").read_text(encoding="utf-8")
    lines = [line.split() for line in text.splitlines() if not line.startswith("#")]
    return {language: list(dict.fromkeys(words)) for language, *words in lines}


def told_apart() -> tuple[str, ...]:
    """All languages that can be told, behind the undetermined one, which is that of texts without function words."""
    return (UNDETERMINED, *_function_words())


@cache
def voters(languages: tuple[str, ...]) -> Voters:
    having: dict[str, list[int]] = {}
    for number, language in enumerate(languages):
        for word in _function_words().get(language, ()):
            having.setdefault(word, []).append(number)
    votes = np.zeros((len(having), len(languages)), dtype=np.int32)
    for row, numbers in enumerate(having.values()):
        votes[row, numbers] = VOTE // len(numbers)
    votes.flags.writeable = False
    return Voters(WordTable.of([word.encode() for word in having]), votes)


def languages_of(words: Words, languages: tuple[str, ...]) -> NDArray[np.int32]:
    """int32 (documents,): each document's language, as its place among these; the first of them where nothing tells."""
    table = voters(languages)
    chosen = np.empty(len(words.ends), dtype=np.int32)
    elect(words.stream, words.ends, table.words.find(words), table.votes, chosen)
    return chosen


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator, unused-ignore]
def winner(scores):  # type: ignore[no-untyped-def]
    """The language with most votes, the first of them if several have as many."""
    best = 0
    for language in range(1, len(scores)):
        if scores[language] > scores[best]:
            best = language
    return best


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator, unused-ignore]
def elect(stream, ends, voter, votes, chosen):  # type: ignore[no-untyped-def]
    """chosen: int32 (documents,), written: each document's language.

    stream, ends  as in `Words`
    voter         int32 (words,), the function word that a word is, or -1; votes: as in `Voters`
    """
    # words that are none vote for nothing: with few languages that is quicker than a branch
    given = np.zeros((len(votes) + 1, votes.shape[1]), dtype=np.int64)
    given[: len(votes)] = votes
    last = np.full(len(given), -1, dtype=np.int64)
    scores = np.zeros(votes.shape[1], dtype=np.int64)
    few = len(scores) <= 4
    begin = 0
    for document in range(len(ends)):
        scores[:] = 0
        for i in range(begin, ends[document]):
            row = voter[stream[i]]
            row = len(votes) if row < 0 else row
            counts = np.int64(last[row] != document)
            last[row] = document
            if few or counts:
                for language in range(len(scores)):
                    scores[language] += given[row, language] * counts
        begin = ends[document]
        chosen[document] = winner(scores)
