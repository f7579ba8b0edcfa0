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
#: English without stems, as older models have it where all texts were English.
ENGLISH_WORDS = "en words"
#: Languages in which marks are accents that people leave out; elsewhere (å, ł, ş) they make letters of their own.
ACCENTED = frozenset({"ca", "de", "en", ENGLISH_WORDS, "es", "fr", "ga", "it", "nl", "pt"})
#: What a function word gives to the languages that have it, shared out among them.
VOTE = 60
#: Share of the words of a text that tells its language; in running text it is a third or more.
LEAST_FUNCTION_WORDS = 0.1


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
    return elected(words, table.words.find(words), table.votes)


def told(words: Words, languages: tuple[str, ...], different: int) -> NDArray[np.int32]:
    """The same for documents that leave no doubt, 0 for all others: so many different function words at least must be
    of that language, and a share of `LEAST_FUNCTION_WORDS` of all words.

    Names and terms look like function words of some language (no, an, men); texts of key words alone have no others.
    """
    table = voters(languages)
    voter = table.words.find(words)
    chosen = elected(words, voter, table.votes)
    _leave_doubtful(words.stream, words.ends, voter, table.votes, different, chosen)
    return chosen


def elected(words: Words, voter: NDArray[np.int32], votes: NDArray[np.int32]) -> NDArray[np.int32]:
    """int32 (documents,): each document's language.

    voter  int32 (words,), the function word that a word is, or -1; votes: as in `Voters`
    """
    chosen = np.empty(len(words.ends), dtype=np.int32)
    fit_together = votes.shape[1] <= 4 and votes.sum(axis=0).max(initial=0) < 1 << 16
    (_elect_of_few if fit_together else _elect)(words.stream, words.ends, voter, votes, chosen)
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
def _elect(stream, ends, voter, votes, chosen):  # type: ignore[no-untyped-def]
    """chosen: int32 (documents,), written: each document's language; see `elected`."""
    last = np.full(len(votes), -1, dtype=np.int64)
    scores = np.zeros(votes.shape[1], dtype=np.int64)
    begin = 0
    for document in range(len(ends)):
        scores[:] = 0
        for i in range(begin, ends[document]):
            row = voter[stream[i]]
            if row >= 0 and last[row] != document:
                last[row] = document
                for language in range(len(scores)):
                    scores[language] += votes[row, language]
        begin = ends[document]
        chosen[document] = winner(scores)


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator, unused-ignore]
def _elect_of_few(stream, ends, voter, votes, chosen):  # type: ignore[no-untyped-def]
    """The same among up to four languages, twice as fast: their scores are 16 bits each of one number, to which words
    that are no function words add nothing, so that there is no branch to guess."""
    together = np.zeros(len(votes) + 1, dtype=np.uint64)
    for row in range(len(votes)):
        for language in range(votes.shape[1]):
            together[row] |= np.uint64(votes[row, language]) << np.uint64(16 * language)
    row_of = np.empty(len(voter), dtype=np.int32)
    for word in range(len(voter)):
        row_of[word] = voter[word] if voter[word] >= 0 else len(votes)
    last = np.full(len(together), -1, dtype=np.int64)
    scores = np.zeros(votes.shape[1], dtype=np.int64)
    begin = 0
    for document in range(len(ends)):
        total = np.uint64(0)
        for i in range(begin, ends[document]):
            row = row_of[stream[i]]
            total += together[row] * np.uint64(last[row] != document)
            last[row] = document
        begin = ends[document]
        for language in range(len(scores)):
            scores[language] = (total >> np.uint64(16 * language)) & np.uint64(0xFFFF)
        chosen[document] = winner(scores)


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator, unused-ignore]
def _leave_doubtful(stream, ends, voter, votes, different, chosen):  # type: ignore[no-untyped-def]
    """chosen: int32 (documents,), becomes 0 where too few words are function words of the language; see `told`."""
    last = np.full(len(votes), -1, dtype=np.int64)
    begin = 0
    for document in range(len(ends)):
        count = 0
        met = 0
        for i in range(begin, ends[document]):
            row = voter[stream[i]]
            if row >= 0 and votes[row, chosen[document]] > 0:
                count += 1
                met += last[row] != document
                last[row] = document
        if met < different or count < LEAST_FUNCTION_WORDS * (ends[document] - begin):
            chosen[document] = 0
        begin = ends[document]
