"""Stems, the language of a text, and what becomes of accents, marks and scripts without spaces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import longtail.registry  # noqa: F401  gives parts the names that messages call them by
from longtail.errors import UsageError
from longtail.features.analyser import Analyser, plain_words
from longtail.features.languages import LANGUAGES, languages_of, told_apart
from longtail.features.stems import stems
from longtail.features.tfidf import Tfidf
from longtail.features.tokenise import Words

#: A sentence of each language, of nobody's making but ours.
SENTENCES = {
    "ar": "ذهب الطلاب إلى المكتبة في المدينة من أجل قراءة الكتب التي كانت هناك",
    "cs": "Studenti šli do knihovny, protože tam byly knihy, které se jim líbily, a také pro klid",
    "da": "De studerende gik til biblioteket, fordi der var bøger, som de ikke kunne finde andre steder",
    "de": "Die Studenten gingen in die Bibliothek, weil es dort Bücher gab, die sie nicht zu Hause hatten",
    "el": "Οι φοιτητές πήγαν στη βιβλιοθήκη για να διαβάσουν τα βιβλία που δεν είναι στο σπίτι τους",
    "en": "The students went to the library because it had books that they could not find at home",
    "es": "Los estudiantes fueron a la biblioteca porque había libros que no tenían en su casa para leer",
    "fi": "Opiskelijat menivät kirjastoon, koska siellä oli kirjoja, joita heillä ei ollut kotona, mutta se on pieni",
    "fr": "Les étudiants sont allés à la bibliothèque parce que des livres y étaient, qu'ils n'ont pas chez eux",
    "hi": "छात्र पुस्तकालय में गए क्योंकि वहाँ किताबें थीं और वे घर पर नहीं थीं",
    "hu": "A diákok elmentek a könyvtárba, mert ott voltak azok a könyvek, amelyek nem voltak meg az otthonukban",
    "id": "Para siswa pergi ke perpustakaan karena ada buku yang tidak mereka miliki di rumah dan untuk membaca",
    "it": "Gli studenti sono andati nella biblioteca perché c'erano dei libri che non avevano a casa loro",
    "nl": "De studenten gingen naar de bibliotheek omdat er boeken waren die zij niet in het huis hadden",
    "no": "Studentene gikk til biblioteket fordi det var bøker der som de ikke hadde hjemme, og noe mer",
    "pl": "Studenci poszli do biblioteki, ponieważ były tam książki, które nie są w domu, oraz dla spokoju",
    "pt": "Os estudantes foram à biblioteca porque havia livros que não tinham em casa e também pelo sossego",
    "ro": "Studenții au mers la bibliotecă pentru că acolo sunt cărți pe care nu le au acasă și este liniște",
    "ru": "Студенты пошли в библиотеку, потому что там были книги, которых у них не было дома",
    "sv": "Studenterna gick till biblioteket eftersom det fanns böcker där som de inte hade hemma och för att läsa",
    "tr": "Öğrenciler kütüphaneye gitti çünkü orada evde olmayan kitaplar vardı ve bu onlar için çok iyi bir yer",
    "uk": "Студенти пішли до бібліотеки, тому що там були книги, яких у них не було вдома, та для тиші",
}  # fmt: skip
#: Forms of one word, and one that is another.
FORMS = {
    "de": (["Bibliothek", "Bibliotheken"], "Biber"),
    "en": (["library", "libraries"], "liberty"),
    "fr": (["bibliothèque", "bibliotheques", "Bibliothèques"], "bible"),
    "es": (["biblioteca", "bibliotecas"], "biblia"),
    "it": (["biblioteca", "biblioteche"], "bibbia"),
    "pt": (["biblioteca", "bibliotecas"], "bíblia"),
    "nl": (["boek", "boeken"], "boer"),
    "sv": (["biblioteket", "biblioteken"], "bibel"),
    "no": (["bøkene", "bøker"], "bord"),
    "da": (["bøgerne", "bøger"], "bord"),
    "fi": (["kirjasto", "kirjastossa"], "koira"),
    "hu": (["könyvtár", "könyvtárban"], "kutya"),
    "ro": (["bibliotecă", "biblioteci"], "biblie"),
    "ru": (["книга", "книги", "книгой"], "князь"),
    "tr": (["kitap", "kitaplar"], "kedi"),
    "el": (["φοιτητής", "φοιτητές"], "βουνό"),
    "ar": (["كتاب", "الكتاب"], "قلم"),
    "hi": (["किताब", "किताबें"], "कलम"),
    "pl": (["książka", "książki"], "księżyc"),
    "cs": (["kniha", "knihy"], "kočka"),
}


def spelled(words: Words) -> list[list[str]]:
    known = [words.blob[a:b].tobytes().decode() for a, b in zip(words.offsets[:-1], words.offsets[1:], strict=True)]
    assert len(set(known)) == len(known)
    starts = [0, *words.ends]
    return [[known[i] for i in words.stream[a:b]] for a, b in zip(starts[:-1], words.ends, strict=True)]


def analysed(language: str, *texts: str) -> list[list[str]]:
    analyser = Analyser.fitted(language, texts)
    assert analyser is not None
    return spelled(analyser(texts))


class TestStems:
    @pytest.mark.parametrize("language", FORMS)
    def test_forms_of_a_word_become_one(self, language: str) -> None:
        forms, other = FORMS[language]
        (found,) = analysed(language, " ".join([*forms, other]))
        assert len(set(found[:-1])) == 1
        assert found[-1] != found[0]

    def test_every_stemmer_opens(self) -> None:
        for language in LANGUAGES:
            assert len(stems([b"abcdefghijk", b"xy"], language)) == 2

    def test_worked_examples(self) -> None:
        assert analysed("de", "Häuser und Straßen, Universitäten") == [["haus", "und", "strass", "universitat"]]
        assert analysed("en", "The naïve connections of libraries") == [["the", "naiv", "connect", "of", "librari"]]
        assert analysed("sv", "Får får får?") == [["får", "får", "får"]]  # å is a letter of its own

    def test_it_is_not_idle(self) -> None:
        """What stems are for: a text is found by another form of its word."""
        texts = ["die alten Bibliotheken", "ein hoher Berg"]
        for language, found in (("none", 0), ("de", 1), ("auto", 1)):
            features = Tfidf(max_df=1.0, language=language)
            X = features.fit_transform(texts)
            assert (X @ features.transform(["Bibliothek"]).T).nnz == found

    def test_short_and_odd_words(self) -> None:
        words = [b"s", b"es", b"x1", b"2024", b"_", "ß".encode(), "ıı".encode(), b"e" * 500]
        for language in LANGUAGES:
            assert all(stems(words, language))

    def test_what_is_remembered_is_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from longtail.features import stems as module

        monkeypatch.setattr(module, "REMEMBERED", 3)
        monkeypatch.setattr(module, "_REMEMBERED", {})
        for word in (b"houses", b"cats", b"dogs", b"trees", b"houses"):
            assert stems([word], "en") == [{b"houses": b"hous"}.get(word, word[:-1])]
            assert len(module._REMEMBERED["en"]) <= 3


class TestLanguage:
    def test_of_a_sentence(self) -> None:
        every = told_apart()
        found = languages_of(plain_words(list(SENTENCES.values())), every)
        assert [every[number] for number in found] == list(SENTENCES)

    def test_of_a_corpus(self) -> None:
        texts = [SENTENCES["en"]] * 2 + [SENTENCES["de"]] * 3 + ["Fachwerk"] * 4
        analyser = Analyser.fitted("auto", texts)
        assert analyser is not None
        assert analyser.languages == ("de", "en")

    def test_a_word_said_again_and_again_does_not_decide(self) -> None:
        """'DIN' is the German institute of standards, and a Romanian word."""
        text = "Normen für das Bauwesen " + "DIN 276 " * 50
        assert languages_of(plain_words([text]), ("ro", "de")).tolist() == [1]

    def test_nothing_tells(self) -> None:
        analyser = Analyser.fitted("auto", ["xyzzy 12", "plugh", ""])
        assert analyser is not None
        assert analyser.languages == ("und",)
        assert spelled(analyser(["Plughs 12"])) == [["plughs", "12"]]

    def test_key_words_tell_nothing(self) -> None:
        """Names and terms that look like function words of some language do not make a corpus Catalan."""
        words = "oracle java vulnerability attackers remote code execution denial service memory buffer overflow kernel"
        texts = [f"{words} se als {words} sobre versions {number}" for number in range(50)]
        found = Analyser.fitted("auto", texts)
        assert found is not None and found.languages == ("und",)

    def test_titles_are_not_of_languages_that_share_a_word_with_them(self) -> None:
        titles = ["The history of the town", "A tale of the sea and of its people", "Poems for the young"] * 30
        odd = ["Symphony No. 5", "An Episode", "Seven Men", "Massacre at Paris", "King Henry VI"] * 4
        found = Analyser.fitted("auto", titles + odd)
        assert found is not None and found.languages == ("en",)

    def test_each_text_in_its_own(self) -> None:
        texts = [SENTENCES["de"], SENTENCES["en"], "der Hund und die Dogmen", "the dogs and the dogma of this"]
        found = analysed("auto", *texts)
        assert found[2] == ["der", "hund", "und", "die", "dogm"]
        assert found[3] == ["the", "dog", "and", "the", "dogma", "of", "this"]

    def test_english_alone_is_stemmed(self) -> None:
        for language in ("auto", "en"):
            assert analysed(language, "the dogs of the libraries") == [["the", "dog", "of", "the", "librari"]]

    def test_a_word_of_two_languages_has_one_stem(self) -> None:
        """The language that has it more often decides."""
        german = ["das Management und die Leute", "ein Management für den Verein", "das Training und der"]
        english = ["the management of this thing", "the training of this", "this training for that"]
        found = [words[1] for words in analysed("auto", *german, *english)]
        assert found == ["management", "management", "train", "management", "train", "train"]


class TestCharacters:
    def test_forms_of_characters(self) -> None:
        composed, apart = "Café naïve", "Cafe\u0301 nai\u0308ve"
        assert analysed("en", composed) == analysed("en", apart) == [["cafe", "naiv"]]
        assert analysed("en", "ﬁles ﬁle ＦＩＬＥ") == [["file"] * 3]  # ligatures and wide letters
        assert analysed("de", "Biblio\u00adthek Biblio\u200bthek") == [["bibliothek"] * 2]

    def test_marks_belong_to_words(self) -> None:
        assert len(analysed("ta", "தமிழ் மொழி")[0]) == 2
        assert analysed("hi", "हिन्दी") == [["हिन्द"]]
        assert analysed("ar", "كِتَاب") == analysed("ar", "كتاب")  # vowel points

    def test_scripts_without_spaces(self) -> None:
        assert analysed("zh", "图书馆学") == [["图书", "书馆", "馆学"]]
        assert analysed("ja", "東京のWeb図書館2階") == [["東京", "京の", "web", "図書", "書館", "2", "階"]]
        assert analysed("th", "ไทย") == [["ไท", "ทย"]]
        assert analysed("zh", "茶、书 x") == [["茶", "书"]]
        assert analysed("auto", "日本語の本と the book of it")[0][-4:] == ["the", "book", "of", "it"]

    def test_they_are_found_again(self) -> None:
        features = Tfidf(max_df=1.0, language="auto").fit(["大学図書館の歴史", "高い山"])
        assert (features.transform(["図書館"]).indices < features.n_features_).all()
        assert features.transform(["図書館"]).nnz == 2
        assert Tfidf(max_df=1.0, language="none").fit(["大学図書館の歴史", "高い山"]).transform(["図書館"]).nnz == 0


ALPHABET = "abeinst ABEINST äöüßéİΣ 漢字かカไท के का \u0301\u00ad.-_1"
TEXTS = st.lists(
    st.lists(
        st.sampled_from(
            ["the", "and", "of", "der", "die", "und", "eine", "les", "des", "Kirchengeschichte", "Kirche",
             "Geschichte", "libraries", "Universitätsbibliothek", "Bibliotheken", "management", "図書館", "книги"]
        )
        | st.text(ALPHABET, max_size=8),
        max_size=9,
    ).map(" ".join),
    min_size=1,
    max_size=6,
)  # fmt: skip
FITTED_ON = [
    "die Kirche und eine Geschichte", "die Geschichte der Kirche", "eine Universität und die Bibliothek",
    "Bibliotheken der Universität", "the management of libraries and churches", "das Management der Bibliothek",
    "図書館の歴史", "Universitätsbibliothek", "a history of the library",
]  # fmt: skip
OPTIONS: list[dict[str, Any]] = [
    {"language": "auto"},
    {"language": "de"},
    {"language": "de", "compounds": False},
    {"language": "en"},
    {"language": "auto", "ngrams": 3},
    {"language": "de", "ngrams": 2, "max_features": 9},
    {"language": "de", "min_df": 2},
    {"language": "auto", "hash_bits": 8, "ngrams": 2},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@settings(deadline=None, max_examples=60)
@given(texts=TEXTS)
def test_a_text_alone_is_what_it_is_among_others(options: dict[str, Any], texts: list[str]) -> None:
    features = Tfidf(max_df=1.0, **options).fit(FITTED_ON)
    X = features.transform(texts)
    for row, text in enumerate(texts):
        alone = features.transform([text])
        begin, end = X.indptr[row], X.indptr[row + 1]
        assert alone.indices.tolist() == X.indices[begin:end].tolist()
        assert alone.data.tobytes() == X.data[begin:end].tobytes()
        found = features.transform_one(text)
        if found is None:
            assert any(ord(c) >= 0xE00 for c in text)
            continue
        assert found[0].tolist() == alone.indices.tolist()
        assert found[1].tobytes() == alone.data.tobytes()


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@settings(deadline=None, max_examples=40)
@given(texts=TEXTS)
def test_fitting_counts_as_using_does(options: dict[str, Any], texts: list[str]) -> None:
    features = Tfidf(max_df=1.0, **options)
    texts = [*texts, *FITTED_ON]
    X, Z = features.fit_transform(texts), features.transform(texts)
    for part in ("indptr", "indices", "data"):
        assert getattr(X, part).tobytes() == getattr(Z, part).tobytes()


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_chunks_change_nothing(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    one = Tfidf(**options)
    X = one.fit_transform(FITTED_ON)
    monkeypatch.setattr(Tfidf, "chunk_characters", 30)
    other = Tfidf(**options)
    assert (other.fit_transform(FITTED_ON) != X).nnz == 0
    for name, array in one.state().items():
        assert array.tobytes() == other.state()[name].tobytes(), name


class TestCompounds:
    TEXTS = ("Kirchengeschichte", "Geschichte der Kirche", "Kirche und Geschichte", "Berg")

    def test_parts_count_beside_the_compound(self) -> None:
        features = Tfidf(max_df=1.0, language="de")
        X = features.fit_transform(list(self.TEXTS))
        column = {term: i for i, term in enumerate(features.terms_)}
        assert set(X[0].indices) == {column[term] for term in ("kirchengeschicht", "kirch", "geschicht")}
        assert features.terms_[:2] == ["geschicht", "kirch"]  # three documents each
        whole = Tfidf(max_df=1.0, language="de", compounds=False)
        assert whole.fit_transform(list(self.TEXTS))[0].nnz == 1

    def test_of_new_words(self) -> None:
        features = Tfidf(max_df=1.0, language="de").fit(list(self.TEXTS))
        found = features.transform(["Geschichtskirchen"])
        assert {features.terms_[i] for i in found.indices} == {"geschicht", "kirch"}

    def test_parts_must_be_words_of_several_documents(self) -> None:
        features = Tfidf(max_df=1.0, language="de").fit(["Kirchengeschichte", "Geschichte", "Kirche", "Kirche"])
        assert features.transform(["Kirchengeschichte"]).nnz == 1

    def test_only_where_a_language_has_them(self) -> None:
        texts = ["boekhandel", "boek handel", "handel boek"]
        assert Tfidf(max_df=1.0, language="en").fit_transform(texts)[0].nnz == 1
        assert Tfidf(max_df=1.0, language="nl").fit_transform(texts)[0].nnz == 3

    def test_numbers_are_no_compounds(self) -> None:
        texts = ["20052006", "2005 2006", "2006 2005", "data_base", "data base", "data base"]
        X = Tfidf(max_df=1.0, language="de").fit_transform(texts)
        assert np.diff(X.indptr)[[0, 3]].tolist() == [1, 1]


class TestState:
    @pytest.mark.parametrize("options", OPTIONS, ids=str)
    def test_round_trip(self, options: dict[str, Any]) -> None:
        features = Tfidf(max_df=1.0, **options)
        X = features.fit_transform(FITTED_ON)
        again = Tfidf(max_df=1.0, **options)
        again.restore(features.state())
        assert (again.transform(FITTED_ON) != X).nnz == 0
        assert again.state().keys() == features.state().keys()

    def test_a_model_from_before_there_were_languages(self) -> None:
        """It has none to read, whatever the option's default is by now."""
        plain = Tfidf(max_df=1.0, language="none")
        X = plain.fit_transform(FITTED_ON)
        for language in ("none", "auto"):
            again = Tfidf(max_df=1.0, language=language)
            again.restore(plain.state())
            assert again.language == "none"
            assert (again.transform(FITTED_ON) != X).nnz == 0

    ENGLISH = ("the houses of the towns", "a house in the town", "towns and their houses are for the people")

    @pytest.mark.parametrize("kept", [True, False])
    def test_english_words_of_older_models_stay_as_they_were(self, kept: bool) -> None:
        """There was a time when "auto" left words of English alone as they are; its models say so, or say nothing."""
        texts = list(self.ENGLISH)
        plain = Tfidf(max_df=1.0).fit(texts)
        state = {**plain.state(), "languages": np.frombuffer(b"en", dtype=np.uint8)}
        state |= {"stemmed": np.zeros(1, dtype=np.uint8)} if kept else {}
        older = Tfidf(max_df=1.0, language="auto")
        older.restore(state)
        assert (older.transform(texts) != plain.transform(texts)).nnz == 0
        assert older.transform_one("houses")[0].tolist() == plain.transform_one("houses")[0].tolist()  # type: ignore[index]
        assert "houses" in older.terms_ and "houses" not in Tfidf(max_df=1.0, language="auto").fit(texts).terms_

    def test_words_of_english_among_others_are_kept_as_they_were(self) -> None:
        state = Tfidf(max_df=1.0, language="auto").fit(FITTED_ON).state()
        flags = state["stemmed"]
        languages = bytes(state["languages"]).decode().split()
        assert flags.tolist() == [1] * len(languages) and "en" in languages
        other = Tfidf(max_df=1.0, language="auto")
        other.restore({**state, "stemmed": np.array([code != "en" for code in languages], dtype=np.uint8)})
        assert other.state()["stemmed"].tolist() == [int(code != "en") for code in languages]

    @pytest.mark.parametrize("hashed", [False, True])
    def test_hostile_arrays(self, hashed: bool) -> None:
        options: dict[str, Any] = {"max_df": 1.0, "language": "auto", "hash_bits": 6 if hashed else None}
        good = Tfidf(**options).fit(FITTED_ON).state()
        assert {"languages", "shared_of"} <= set(good)

        def with_value(name: str, at: object, value: float) -> dict[str, np.ndarray]:
            array = good[name].copy()
            array[at] = value
            return {**good, name: array}

        names = [name for name in good if name.startswith(("languages", "shared", "own", "parts"))]
        count = len(good["shared_of"])
        bad = [
            *({k: v for k, v in good.items() if k != name} for name in names),
            *({**good, name: good[name].astype(np.float64)} for name in [*names, "stemmed"]),
            *({**good, name: good[name][:-1]} for name in [*names, "stemmed"] if name != "languages"),
            {**good, "stemmed": np.zeros(len(good["stemmed"]), dtype=np.uint8)},
            {**good, "stemmed": np.full(len(good["stemmed"]), 2, dtype=np.uint8)},
            *({**good, name: good[name][None]} for name in names),
            {**good, "languages": good["languages"][:1]},
            {**good, "languages": np.frombuffer(b"de xx", dtype=np.uint8)},
            {**good, "languages": np.frombuffer(b"de de", dtype=np.uint8)},
            {**good, "languages": np.zeros(0, dtype=np.uint8)},
            {**good, "languages": np.full(10_000, 65, dtype=np.uint8)},
            with_value("shared_of", 0, 200),
            with_value("shared_offsets", 1, 2**40),
            with_value("shared_offsets", 1, -1),
            with_value("shared_slots", slice(None), 0),
            with_value("shared_slots", 0, count),
        ]
        if not hashed:
            T = len(good["offsets"]) - 1
            bad += [with_value("own", 0, -1), with_value("parts", (0, 0), T), with_value("parts", (0, 1), -2),
                    with_value("parts", (0, 0), T - 1)]  # fmt: skip
        for arrays in bad:
            part = Tfidf(**options)
            with pytest.raises(ValueError):
                part.restore(arrays)
            with pytest.raises(UsageError, match="not fitted"):
                part.transform(["text"])

    def test_languages_must_be_those_of_the_option(self) -> None:
        state = Tfidf(max_df=1.0, language="de").fit(FITTED_ON).state()
        for language in ("none", "en"):
            with pytest.raises(ValueError, match="language"):
                Tfidf(max_df=1.0, language=language).restore(state)
        plain = Tfidf(max_df=1.0, language="none").fit(FITTED_ON).state()
        with pytest.raises(ValueError, match="language"):
            Tfidf(max_df=1.0, language="de").restore(plain)


def test_unknown_language() -> None:
    with pytest.raises(UsageError, match=r"tfidf\.language cannot be 'German'; write 'de'"):
        Tfidf(language="German")
    with pytest.raises(UsageError, match="it is one of auto, none, ar"):
        Tfidf(language="xx")


@pytest.mark.parametrize("options", [{"language": "none"}, {"language": "de", "hash_bits": 8}], ids=str)
def test_compounds_are_refused_where_they_do_not_count(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"tfidf\.compounds"):
        Tfidf(compounds=False, **options)
    Tfidf(**options)
