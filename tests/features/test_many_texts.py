"""Many texts at a time give what each gives by itself: bytes, accents, stems that are forgotten, texts read once."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import numpy as np
import pytest

from longtail.features import analyser, forms
from longtail.features.characters import (
    NORMAL,
    all_without_accents,
    analysed_bytes,
    analysed_table,
    dependent,
    joined_bytes,
    without_accents,
)
from longtail.features.languages import ENGLISH_WORDS, elected
from longtail.features.tfidf import Tfidf
from longtail.features.tokenise import CODE_POINTS, Words, tokenise_bytes
from longtail.features.word_tables import GrowingWords, Spelling, hashes_of, spelled, starts_of

#: All characters that may have another normal form.
LETTERS = [chr(point) for point in range(0x80, NORMAL) if not 0xD800 <= point < 0xE000]
TEXTS = [
    "Die Universitätsbibliothek und die Bibliotheken der Universität",
    "The libraries of the universities and their books",
    "Bücher der Bibliothek, und ein Katalog der Bücher",
    "A catalogue of books that the library has",
    "Die Kirchengeschichte und die Geschichte der Kirche in der Universität",
    "Of churches and their history, and of the catalogue",
] * 2


def one_by_one(texts: Sequence[str]) -> Words:
    encoded = [analysed_bytes(text) + b"\n" for text in texts]
    data = np.frombuffer(b"".join(encoded), dtype=np.uint8)
    return tokenise_bytes(data, np.cumsum([len(each) for each in encoded], dtype=np.int64), analysed_table(), True)


def same(texts: Sequence[str]) -> bool:
    together = tokenise_bytes(*joined_bytes(texts), analysed_table(), True)
    return all(np.array_equal(a, b) for a, b in zip(together[:5], one_by_one(texts)[:5], strict=True))


def test_every_character_is_normalised() -> None:
    assert same([f"a{letter}b {letter}{letter} Z{letter}" for letter in LETTERS])
    assert not any(unicodedata.normalize("NFKC", chr(p)) != chr(p) for p in range(NORMAL, CODE_POINTS))


@pytest.mark.parametrize("seed", range(20))
def test_characters_beside_each_other(seed: int) -> None:
    rng = np.random.default_rng(seed)
    odd = [letter for letter in LETTERS if unicodedata.normalize("NFKC", letter) != letter]
    marks = [letter for letter in LETTERS if dependent()[ord(letter)]]
    kinds = (list("abc \nXYZ1_"), odd, marks, LETTERS)

    def text(length: int, most: int) -> str:
        chosen = [kinds[kind] for kind in rng.integers(0, most, length)]
        return "".join(kind[rng.integers(len(kind))] for kind in chosen)

    assert same([text(int(rng.integers(0, 30)), int(rng.integers(1, 5))) for _ in range(60)])


def test_texts_that_are_ascii_and_none_at_all() -> None:
    assert same([])
    assert same(["", "plain words", ""])


def test_accents_of_many_words() -> None:
    words = [f"x{letter}y".encode() for letter in LETTERS]
    lengths = np.array([len(word) for word in words])
    blob, shorter = all_without_accents(np.frombuffer(b"".join(words), dtype=np.uint8), lengths)
    plain = [without_accents(word) for word in words]
    assert blob.tobytes() == b"".join(plain)
    assert shorter.tolist() == [len(word) for word in plain]


@pytest.mark.parametrize("at_once", [True, False])
def test_what_is_forgotten_and_read_anew_changes_nothing(monkeypatch: pytest.MonkeyPatch, at_once: bool) -> None:
    wanted = Tfidf(language="auto", max_df=1.0)
    X, Z = wanted.fit_transform(TEXTS), wanted.transform(TEXTS[::-1])
    monkeypatch.setattr(forms, "FORMS", 3)
    monkeypatch.setattr(Tfidf, "chunk_characters", 100)
    if not at_once:
        monkeypatch.setattr(analyser, "SHARED", len("".join(TEXTS)) - 1)
    features = Tfidf(language="auto", max_df=1.0)
    assert abs(features.fit_transform(TEXTS) - X).nnz == 0
    assert features.terms_ == wanted.terms_
    assert abs(features.transform(TEXTS[::-1]) - Z).nnz == 0
    kept = features._analyser_
    assert kept is not None
    assert len(kept.stems) < len(features.terms_)  # the stems of a fit are let go of


def test_stems_keep_their_places_in_the_vocabulary_from_chunk_to_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    features = Tfidf(language="auto", max_df=1.0).fit(TEXTS)
    texts = [*TEXTS, "Kirchenbibliothek", "plugh", *TEXTS, "Kirchenbibliothek", "plugh"]
    wanted = features.transform(texts)
    assert wanted[12].nnz > 0  # parts of a compound that the vocabulary does not have
    restored = Tfidf(language="auto", max_df=1.0)
    restored.restore(features.state())
    monkeypatch.setattr(Tfidf, "chunk_characters", 60)
    for each in (features, restored, restored):
        found = each.transform(texts)
        assert (found.indptr.tolist(), found.indices.tolist()) == (wanted.indptr.tolist(), wanted.indices.tolist())
        assert found.data.tobytes() == wanted.data.tobytes()


def test_one_election_among_few_languages_and_among_many() -> None:
    rng = np.random.default_rng(7)
    lengths = rng.integers(0, 30, 200)
    stream = rng.integers(0, 50, lengths.sum()).astype(np.int32)
    voter = rng.integers(-1, 20, 50).astype(np.int32)
    nothing = np.empty(0, dtype=np.uint8), np.zeros(51, dtype=np.int64), np.zeros(50, dtype=np.uint64)
    words = Words(stream, np.cumsum(lengths), *nothing)
    votes = rng.integers(0, 60, (20, 4)).astype(np.int32)
    few = elected(words, voter, votes)
    assert len(set(few.tolist())) == 4
    assert np.array_equal(few, elected(words, voter, np.pad(votes, ((0, 0), (0, 3)))))  # three that nobody votes for
    assert np.array_equal(few, elected(words, voter, votes * 4000))  # more than 16 bits hold


def test_words_are_numbered_as_they_come() -> None:
    known = GrowingWords()
    rng = np.random.default_rng(3)
    numbers: dict[bytes, int] = {}
    for _ in range(5):
        given = [f"w{n}".encode() * (1 + n % 4) for n in rng.integers(0, 3000, 2000)]
        blob = np.frombuffer(b"".join(given), dtype=np.uint8)
        offsets = starts_of(np.array([len(word) for word in given]))
        found = known.numbered(Spelling(blob, offsets, hashes_of(blob, offsets)))
        assert found.tolist() == [numbers.setdefault(word, len(numbers)) for word in given]
    assert spelled(known.values, np.arange(len(known))) == list(numbers)


ENGLISH = [
    "The café of the fiancée, and of her naïve cousins",
    "A cafe in the town of the cousins and the fiancee",
    "Cafés and the façade of a town",
    "Nothing but plain words of the town",
]


@pytest.mark.parametrize("texts", [ENGLISH, ENGLISH[3:]])
def test_words_that_stay_are_those_of_stems(texts: list[str]) -> None:
    """The short way, which remembers nothing, gives what the long one does."""
    for language, stemmed in (("en", ENGLISH_WORDS), ("und", "und"), ("zh", "zh")):
        alone = analyser.Analyser((language,), (stemmed,))
        stemming = forms.Forms(alone.languages, alone.stemmed, alone.shared, alone.of)
        short, long = alone(texts), stemming.stems_of(analyser.plain_words(texts))
        for name in ("stream", "ends", "blob", "offsets", "hashes"):
            assert np.array_equal(getattr(short, name), getattr(long, name)), name
        assert alone.stems is None


def test_english_texts_at_once_and_one_by_one() -> None:
    features = Tfidf(language="auto", max_df=1.0)
    fitted = features.fit_transform(ENGLISH)
    assert features._analyser_ is not None
    assert features._analyser_.stemmed == ("en",)
    assert not {"café", "cafés", "cousins"} & set(features.terms_)
    again = features.transform(ENGLISH)
    assert (fitted != again).nnz == 0
    for number, text in enumerate(ENGLISH):
        one = features.transform_one(text)
        assert one is not None
        assert np.array_equal(one[0], again[number].indices)
        assert np.allclose(one[1], again[number].data, rtol=1e-6)
