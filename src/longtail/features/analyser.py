"""The analysis of languages: texts to stems, each word in its own language.

A word is stemmed in one language wherever it stands, be it in a German or an English text, so that texts of several
languages share what words they share. Words that a sample of the training texts has in more than one language are
stemmed in that in which more of these texts have them, all others in the language of their text. (On German and
English library records that is worth as much again as the stems themselves; see docs/languages.md.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longtail.arrays import njit
from longtail.errors import UsageError
from longtail.features.characters import analysed_table, joined_bytes
from longtail.features.compounds import COMPOUNDING
from longtail.features.forms import Forms, Unstemmed
from longtail.features.languages import ACCENTED, ENGLISH_WORDS, LANGUAGES, UNDETERMINED, languages_of, told, told_apart
from longtail.features.tokenise import Words, tokenise_bytes
from longtail.features.unspaced import cut_runs
from longtail.features.vocabulary import Found, Vocabulary
from longtail.features.word_tables import GrowingWords, WordTable, frozen, gather, numbered, spelled
from longtail.part import Arrays, Part, shown_name
from longtail.sparse import starts_of

#: What `language` may be beside a language.
AUTO, NONE = "auto", "none"
CHOICES = (AUTO, NONE, *LANGUAGES)
#: Characters of the texts that the languages of a corpus are told from, and of those that tell words of several.
SAMPLED, SHARED = 500_000, 4_000_000
#: A language counts as one of a corpus if so many different function words tell it in at least this share of the texts;
#: the second where the first finds none, as in short titles.
EVIDENCE = ((2, 0.01), (1, 0.25))

#: Names of the arrays that a model keeps: the last four where there are shared words.
KEPT = ("languages", "stemmed", "shared_blob", "shared_offsets", "shared_slots", "shared_of")

#: Beside "auto" and "none", for the help of options.
WHICH = "a language as in de or en (docs/languages.md), auto for those the texts are found to be in, or none"

NO_WORDS = WordTable(np.empty(0, dtype=np.uint8), np.zeros(1, dtype=np.int64), np.full(1, -1, dtype=np.int32))
NO_NUMBERS = frozen(np.empty(0, dtype=np.uint8))


def check_language(part: Part, language: str) -> None:
    """Refuses what is no language, as an option of a part."""
    if language not in CHOICES:
        codes = [code for code, name in LANGUAGES.items() if name and name == language.lower()]
        advice = f"write '{codes[0]}'" if codes else f"it is one of {', '.join(CHOICES)}"
        raise UsageError(f"{shown_name(part)}.language cannot be {language!r}; {advice}")


@dataclass(frozen=True, eq=False)
class Analyser:
    """What finds the words of texts, and makes stems of them.

    languages  that texts may be in, the first where nothing tells
    stemmed    what words of each are stemmed as
    shared     words of several of them, and of: uint8 (words,), the language of each, as its place among them
    """

    languages: tuple[str, ...]
    stemmed: tuple[str, ...]
    shared: WordTable = NO_WORDS
    of: NDArray[np.uint8] = field(default_factory=lambda: NO_NUMBERS)

    @classmethod
    def fitted(cls, language: str, texts: Sequence[str]) -> Analyser | None:
        """For texts in a language, in those that the texts are found to be in ("auto"), or nothing for "none"."""
        return cls.fitted_with_words(language, texts)[0]

    @classmethod
    def fitted_with_words(cls, language: str, texts: Sequence[str]) -> tuple[Analyser | None, Words | None]:
        """The same, and the plain words of all texts, where these are so few that they had to be read for it."""
        if language == NONE:
            return None, None
        if language != AUTO:
            return cls((language,), (language,)), None
        characters = sum(map(len, texts))
        step = max(1, -(-characters // SAMPLED))
        every = plain_words(texts) if characters <= SHARED else None
        sample = _documents(every, step) if every else plain_words(texts[::step])
        languages = _languages_of_corpus(sample)
        if len(languages) == 1:
            return cls(languages, languages), every
        words = every or plain_words(texts[:: -(-characters // SHARED)])
        return cls(languages, languages, *_shared_words(words, languages)), every

    # using
    def __call__(self, texts: Sequence[str]) -> Words:
        """The stems of some texts, in place of their words."""
        return self._forms.stems_of(plain_words(texts))

    def gathered(self, words: Words) -> Words:
        """The stems of the plain words of some texts; where there are `stems`, as numbers among these until they are
        `settled`."""
        return self._forms.stems_of(words, gathered=True)

    def found_in(self, vocabulary: Vocabulary, texts: Sequence[str]) -> tuple[Words, Found]:
        """The stems of some texts, maybe without bytes, and where they are in a vocabulary."""
        return self._forms.found_in(vocabulary, plain_words(texts))

    @property
    def stems(self) -> GrowingWords | None:
        """The stems of all texts that were `gathered`; none where words stay as they are."""
        return self._forms.stems

    def settled(self) -> None:
        """Nothing more is gathered, and the stems are not needed any more."""
        self._forms.settle()

    @property
    def compounding(self) -> bool:
        """Whether a language is among them that writes compounds as one word."""
        return not COMPOUNDING.isdisjoint(self.languages)

    def said(self) -> str:
        """Its languages, for a person."""
        return ", ".join(self.languages) if self.languages != (UNDETERMINED,) else "not told, so words stay as they are"

    @cached_property
    def _forms(self) -> Forms | Unstemmed:
        if len(self.stemmed) == 1 and not LANGUAGES.get(self.stemmed[0]):
            return Unstemmed(accents=self.stemmed[0] not in ACCENTED)
        return Forms(self.languages, self.stemmed, self.shared, self.of)

    # keeping
    def arrays(self) -> dict[str, NDArray[Any]]:
        """What a model keeps."""
        kept: dict[str, NDArray[Any]] = {
            "languages": np.frombuffer(" ".join(self.languages).encode(), dtype=np.uint8),
            "stemmed": np.array([stem == code for stem, code in zip(self.stemmed, self.languages, strict=True)], "u1"),
        }
        if len(self.of):
            kept |= {f"shared_{name}": array for name, array in vars(self.shared).items()} | {"shared_of": self.of}
        return kept

    @classmethod
    def of_arrays(cls, arrays: Arrays, language: str) -> tuple[Analyser | None, dict[str, NDArray[Any]]]:
        """The analyser that a model kept among other arrays, and these; None for "none".

        A model from before there were languages has none, and "auto" finds nothing of it: that is no fault.
        """
        own = {name: arrays[name] for name in KEPT if name in arrays}
        analyser = cls.restored(own, language) if own else None
        found = NONE if analyser is None else " ".join(analyser.languages)
        if (language == NONE) != (analyser is None) and not (analyser is None and language == AUTO):
            raise ValueError(f"the language is {language}, and the file has {found}")
        if analyser is not None and language not in (AUTO, found):
            raise ValueError(f"the language is {language}, and the file has {found}")
        return analyser, {name: array for name, array in arrays.items() if name not in KEPT}

    @classmethod
    def restored(cls, arrays: Arrays, language: str) -> Analyser:
        """From what a model kept, and the option; ValueError if it cannot be what `arrays` gave."""
        names = set(KEPT if "shared_of" in arrays else KEPT[:2])
        if set(arrays) | {"stemmed"} != names:
            raise ValueError(f"the languages need the arrays {', '.join(sorted(names))}; there are {sorted(arrays)}")
        languages = _kept_languages(arrays["languages"])
        stemmed = _kept_stems(arrays["stemmed"], languages) if "stemmed" in arrays else _as_0_2(languages, language)
        if "shared_of" not in arrays:
            return cls(languages, stemmed)
        shared = WordTable.restored({name: arrays[f"shared_{name}"] for name in ("blob", "offsets", "slots")})
        of = np.asarray(arrays["shared_of"])
        if of.dtype != np.uint8 or of.shape != (len(shared),) or of.max(initial=0) >= len(languages):
            raise ValueError(f"'shared_of' must be one of {len(languages)} languages for each of {len(shared)} words")
        return cls(languages, stemmed, shared, frozen(np.require(of, requirements=["C", "A"])))


def _as_0_2(languages: tuple[str, ...], language: str) -> tuple[str, ...]:
    """What words were stemmed as when models did not keep it: English alone was not."""
    return (ENGLISH_WORDS,) if language == AUTO and languages == ("en",) else languages


def _kept_stems(array: NDArray[Any], languages: tuple[str, ...]) -> tuple[str, ...]:
    flags = np.asarray(array)
    stays = [code == "en" for code in languages]
    if flags.dtype != np.uint8 or flags.shape != (len(languages),) or not ((flags == 1) | ((flags == 0) & stays)).all():
        raise ValueError(
            "'stemmed' must be 1 for each language, or 0 for English words that stay as they are, as uint8"
        )
    return tuple(code if flag else ENGLISH_WORDS for code, flag in zip(languages, flags, strict=True))


def _kept_languages(array: NDArray[Any]) -> tuple[str, ...]:
    if array.dtype != np.uint8 or array.ndim != 1 or len(array) > 4 * len(LANGUAGES):
        raise ValueError("'languages' must be codes of languages with a space between them, as uint8")
    languages = tuple(np.asarray(array).tobytes().decode("ascii", "replace").split(" "))
    unknown = [code for code in languages if code not in LANGUAGES and code != UNDETERMINED]
    if unknown or len(set(languages)) < len(languages):
        raise ValueError(f"the languages {' '.join(languages)[:40]!r} are not all known, or not all different")
    return languages


def plain_words(texts: Sequence[str]) -> Words:
    """The words of some texts as they stand, scripts without spaces in pairs of characters."""
    words = tokenise_bytes(*joined_bytes(texts), analysed_table(), lone=True)
    pieces = cut_runs(words.blob, words.offsets)
    if pieces is None:
        return words
    starts, lengths, firsts = pieces
    numbers, kept, hashes = numbered(words.blob, starts, lengths)
    counts = np.diff(firsts)[words.stream]
    steps = np.repeat(firsts[words.stream] - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
    ends = starts_of(counts)[words.ends]
    return Words(
        numbers[steps], ends, gather(words.blob, starts[kept], lengths[kept]), starts_of(lengths[kept]), hashes
    )


# what a corpus is like
def _documents(words: Words, step: int) -> Words:
    """The words of every so many documents; the list of different words stays as it is."""
    lengths = np.diff(words.ends, prepend=0)
    chosen = np.arange(len(lengths)) % step == 0
    return words._replace(stream=words.stream[np.repeat(chosen, lengths)], ends=np.cumsum(lengths[chosen]))


def _languages_of_corpus(words: Words) -> tuple[str, ...]:
    """The languages of some texts, most frequent first."""
    every = told_apart()
    for different, share in EVIDENCE:
        count = np.bincount(told(words, every, different), minlength=len(every))[1:]
        found = np.flatnonzero(count >= max(1, share * len(words.ends)))
        if len(found):
            return tuple(every[1 + i] for i in found[np.argsort(-count[found], kind="stable")])
    return (UNDETERMINED,)


def _shared_words(words: Words, languages: tuple[str, ...]) -> tuple[WordTable, NDArray[np.uint8]]:
    """Words in texts of several languages, and the language in which more of these have each."""
    count = np.zeros((len(words.hashes), len(languages)), dtype=np.int32)
    _count_documents(words.stream, words.ends, languages_of(words, languages), count)
    several = np.flatnonzero((count > 0).sum(axis=1) > 1)
    names = spelled(words, several)
    # by their characters, so that nothing depends on the order of the texts
    order = sorted(range(len(names)), key=names.__getitem__)
    of = count[several[order]].argmax(axis=1).astype(np.uint8)
    return WordTable.of([names[place] for place in order]), frozen(of)


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator, unused-ignore]
def _count_documents(stream, ends, languages, count):  # type: ignore[no-untyped-def]
    """count: int32 (words, languages), raised by the documents of each language that have a word."""
    last = np.full(len(count), -1, dtype=np.int64)
    begin = 0
    for document in range(len(ends)):
        for i in range(begin, ends[document]):
            word = stream[i]
            if last[word] != document:
                last[word] = document
                count[word, languages[document]] += 1
        begin = ends[document]
