"""Tokens: a plain loop's rows, words in reading order, and a cache that never gets in the way."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail.errors import UsageError
from longtail.features import tokens as module
from longtail.features.tokens import FIRST_WORD, PAD, UNKNOWN, Tokens, WordTokeniser, cached
from longtail.keep.cache import cache_folder
from longtail.keep.safetensors import read_arrays, write_arrays
from longtail.run import Run

RUN = Run(threads=1)
DOCUMENTS = st.lists(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=9), max_size=8)
TEXTS = st.lists(
    st.lists(st.sampled_from(["ab", "cd", "Ab", "x", "straße", "ΑΣ", "_1", "𐐀𐐀", "..."])).map(" ".join), max_size=8
)


def made(documents: list[list[int]]) -> Tokens:
    indptr = np.cumsum([0, *map(len, documents)], dtype=np.int64)
    return Tokens(np.array([i for document in documents for i in document], dtype=np.int32), indptr)


def listed(tokens: Tokens) -> list[list[int]]:
    return [tokens.ids[a:b].tolist() for a, b in zip(tokens.indptr[:-1], tokens.indptr[1:], strict=True)]


class TestTokens:
    def test_by_hand(self) -> None:
        tokens = made([[5, 6, 7], [8], [9, 2]])
        assert len(tokens) == 3
        assert tokens.lengths.tolist() == [3, 1, 2]
        assert tokens.lengths.dtype == np.int64
        assert listed(tokens.rows([2, 0])) == [[9, 2], [5, 6, 7]]
        assert tokens.padded([2, 0, 1]).tolist() == [[9, 2, PAD], [5, 6, 7], [8, PAD, PAD]]
        assert tokens.padded(np.array([1])).tolist() == [[8]]
        assert tokens.padded([]).shape == (0, 1)
        assert tokens.padded([1]).dtype == np.int64
        assert listed(tokens.cut(2)) == [[5, 6], [8], [9, 2]]
        assert tokens.cut(3) is tokens

    @given(documents=DOCUMENTS, data=st.data(), max_length=st.integers(1, 10))
    def test_like_a_loop(self, documents: list[list[int]], data: st.DataObject, max_length: int) -> None:
        tokens = made(documents)
        assert len(tokens) == len(documents)
        assert tokens.lengths.tolist() == [len(document) for document in documents]
        rows = data.draw(st.lists(st.integers(-len(documents), len(documents) - 1))) if documents else []
        chosen = [documents[row] for row in rows]

        taken = tokens.rows(rows)
        assert listed(taken) == chosen
        assert taken.ids.dtype == np.int32
        assert taken.indptr.dtype == np.int64

        width = max([1, *map(len, chosen)])
        padded = tokens.padded(np.array(rows, dtype=np.int32))
        assert padded.shape == (len(rows), width)
        assert padded.tolist() == [document + [PAD] * (width - len(document)) for document in chosen]

        assert listed(tokens.cut(max_length)) == [document[:max_length] for document in documents]

    def test_masks(self) -> None:
        tokens = made([[5], [6, 7], [8]])
        assert listed(tokens.rows(np.array([True, False, True]))) == [[5], [8]]

    def test_rows_that_are_not_there(self) -> None:
        with pytest.raises(IndexError):
            made([[1]]).rows([1])

    @pytest.mark.parametrize("length", [0, -1])
    def test_no_length(self, length: int) -> None:
        with pytest.raises(UsageError, match="max_length"):
            made([[1]]).cut(length)

    @pytest.mark.parametrize(
        ("ids", "indptr"),
        [
            (np.array([1], dtype=np.int64), np.array([0, 1])),
            (np.array([1], dtype=np.int32), np.array([0, 1], dtype=np.int32)),
            (np.array([[1]], dtype=np.int32), np.array([0, 1])),
            (np.array([1], dtype=np.int32), np.empty(0, dtype=np.int64)),
            (np.array([1, 2], dtype=np.int32), np.array([1, 2])),
            (np.array([1, 2], dtype=np.int32), np.array([0, 1])),
            (np.array([1, 2], dtype=np.int32), np.array([0, 3])),
            (np.array([1, 2], dtype=np.int32), np.array([0, 0, 2])),
            (np.array([1, 2], dtype=np.int32), np.array([0, 3, 2])),
            (np.array([1, -2], dtype=np.int32), np.array([0, 2])),
        ],
    )
    def test_not_tokens(self, ids: np.ndarray, indptr: np.ndarray) -> None:
        with pytest.raises(ValueError, match="tokens"):
            Tokens(ids, indptr)


class TestStems:
    TEXTS = ("die Kirchen und eine Geschichte", "Geschichten der Kirche", "Kirchengeschichte")

    def fitted(self, language: str = "de") -> WordTokeniser:
        return WordTokeniser.fitted(list(self.TEXTS), min_df=1, max_words=50, run=RUN, language=language)

    def test_forms_of_a_word_are_one_token(self) -> None:
        words = self.fitted()
        assert {"kirch", "geschicht", "kirchengeschicht"} <= set(words.words())
        first, second = (set(words.tokens([text], 9, run=RUN).ids.tolist()) for text in ("Kirche", "Kirchen"))
        assert first == second
        assert self.fitted("none").size != words.size

    def test_the_parts_of_a_compound_follow_it(self) -> None:
        words = self.fitted()
        spelled = ["", "?", *words.words()]
        tokens = words.tokens(["eine Kirchengeschichte", "Geschichtskirche", ""], 9, run=RUN)
        found = [[spelled[i] for i in tokens.rows([row]).ids] for row in range(3)]
        assert found == [["ein", "kirchengeschicht", "kirch", "geschicht"], ["?", "geschicht", "kirch"], ["?"]]
        assert words.tokens(["eine Kirchengeschichte und"], 3, run=RUN).ids.tolist() == tokens.ids.tolist()[:3]

    @pytest.mark.parametrize("max_words", [2, 50])
    def test_kept_and_restored(self, max_words: int) -> None:
        for language in ("de", "auto"):
            texts = list(self.TEXTS)
            words = WordTokeniser.fitted(texts, min_df=1, max_words=max_words, run=RUN, language=language)
            again = WordTokeniser.restored(words.arrays(), language)
            assert again.size == words.size == len(words.words()) + FIRST_WORD <= max_words + FIRST_WORD
            assert again.tokens(texts, 9, run=RUN).ids.tolist() == words.tokens(texts, 9, run=RUN).ids.tolist()
            assert words.tokens(texts, 9, run=RUN).ids.max() < words.size
            with pytest.raises(ValueError, match="language"):
                WordTokeniser.restored(words.arrays(), "none")


class TestWordTokeniser:
    def test_by_hand(self) -> None:
        texts = ["The cat, the hat", "the cat & a dog", "", "The the THE end"]
        words = WordTokeniser.fitted(texts, min_df=2, max_words=10, run=RUN)
        assert words.words() == ["the", "cat"]
        assert words.size == 4
        the, cat = FIRST_WORD, FIRST_WORD + 1
        found = words.tokens(texts, 10, run=RUN)
        assert listed(found) == [[the, cat, the, UNKNOWN], [the, cat, UNKNOWN], [UNKNOWN], [the, the, the, UNKNOWN]]
        assert found.ids.dtype == np.int32
        assert listed(words.tokens(texts, 2, run=RUN)) == [[the, cat], [the, cat], [UNKNOWN], [the, the]]
        assert listed(words.tokens(["", "x", "", "nothing known", "cat"], 9, run=RUN)) == [
            [UNKNOWN],
            [UNKNOWN],
            [UNKNOWN],
            [UNKNOWN, UNKNOWN],
            [cat],
        ]

    def test_limits(self) -> None:
        texts = ["aa bb cc", "bb cc", "cc dd dd dd dd"]
        assert WordTokeniser.fitted(texts, min_df=1, max_words=9, run=RUN).words() == ["cc", "bb", "aa", "dd"]
        # The most frequent are kept by how often they occur, then ordered by how many documents they are in.
        assert WordTokeniser.fitted(texts, min_df=1, max_words=2, run=RUN).words() == ["cc", "dd"]
        assert WordTokeniser.fitted(texts, min_df=3, max_words=2, run=RUN).words() == ["cc"]

    @pytest.mark.parametrize("texts", [[], ["", "?", "x"], ["all", "different"]])
    def test_no_words(self, texts: list[str]) -> None:
        words = WordTokeniser.fitted(texts, min_df=2, max_words=10, run=RUN)
        assert words.size == FIRST_WORD
        assert words.words() == []
        for again in (words, WordTokeniser.restored(words.arrays())):
            assert listed(again.tokens(["", "some words"], 5, run=RUN)) == [[UNKNOWN], [UNKNOWN, UNKNOWN]]
            assert len(again.tokens([], 5, run=RUN)) == 0

    @settings(max_examples=50, deadline=None)
    @given(texts=TEXTS, others=TEXTS, max_length=st.integers(1, 6))
    def test_like_the_pattern(self, texts: list[str], others: list[str], max_length: int) -> None:
        words = WordTokeniser.fitted(texts, min_df=1, max_words=5, run=RUN)
        number = {word: FIRST_WORD + i for i, word in enumerate(words.words())}
        assert words.size == FIRST_WORD + len(number)
        naive = [
            [number.get(word, UNKNOWN) for word in re.findall(r"(?u)\b\w\w+\b", text.lower())][:max_length]
            for text in others
        ]
        assert listed(words.tokens(others, max_length, run=RUN)) == [row or [UNKNOWN] for row in naive]

    def test_threads_and_chunks_change_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        texts = [f"word{i % 7} word{i % 11} other{i}" * (i % 3) for i in range(60)]
        one = WordTokeniser.fitted(texts, min_df=2, max_words=12, run=RUN)
        expected = one.tokens(texts, 4, run=RUN)
        for threads, size in ((1, 1), (3, 100)):
            monkeypatch.setattr(module, "CHUNK_CHARACTERS", size)
            other = WordTokeniser.fitted(texts, min_df=2, max_words=12, run=Run(threads=threads))
            for name, array in one.arrays().items():
                assert array.tobytes() == other.arrays()[name].tobytes()
            found = other.tokens(texts, 4, run=Run(threads=threads))
            assert found.ids.tobytes() == expected.ids.tobytes()
            assert found.indptr.tobytes() == expected.indptr.tobytes()

    def test_no_length(self) -> None:
        words = WordTokeniser.fitted(["some words"], min_df=1, max_words=5, run=RUN)
        with pytest.raises(UsageError, match="max_length"):
            words.tokens(["some"], 0, run=RUN)

    def test_restored(self) -> None:
        words = WordTokeniser.fitted(["some more words", "some words"], min_df=1, max_words=5, run=RUN)
        again = WordTokeniser.restored(words.arrays())
        assert again.size == words.size
        assert again.words() == words.words() == ["some", "words", "more"]
        assert listed(again.tokens(["more words here"], 5, run=RUN)) == [[FIRST_WORD + 2, FIRST_WORD + 1, UNKNOWN]]

    def test_hostile_arrays(self) -> None:
        good = WordTokeniser.fitted(["some more words", "some words"], min_df=1, max_words=5, run=RUN).arrays()

        def with_value(name: str, at: int, value: int) -> dict[str, np.ndarray]:
            array = good[name].copy()
            array[at] = value
            return {**good, name: array}

        taken = int(np.flatnonzero(good["slots"] >= 0)[0])
        bad = [
            {},
            *({key: array for key, array in good.items() if key != name} for name in good),
            {**good, "extra": good["columns"]},
            {**good, "columns": good["columns"].astype(np.int64)},
            {**good, "columns": np.array(3, dtype=np.int32)},
            {**good, "columns": good["columns"][:-1]},
            with_value("columns", 0, -1),
            with_value("columns", 0, 1),
            with_value("columns", 0, 2**31 - 1),
            with_value("offsets", 1, -5),
            with_value("offsets", 1, 1000),
            with_value("slots", taken, -1),
            with_value("slots", taken, 3),
            {**good, "slots": good["slots"][:3]},
            {
                **good,
                "columns": np.arange(4, dtype=np.int32),
                "pairs": np.array([[0, 1]], dtype=np.int32),
                "pair_slots": np.array([0, -1], dtype=np.int32),
            },
        ]
        for arrays in bad:
            with pytest.raises(ValueError, match=r"vocabulary|must be"):
                WordTokeniser.restored(arrays)


TEXTS_KEPT = ["one two", "three"]
KEPT = [[2, 3], [4]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LONGTAIL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "tokens"


class Maker:
    """Counts how often it is asked."""

    def __init__(self, documents: list[list[int]] = KEPT) -> None:
        self.documents, self.calls = documents, 0

    def __call__(self) -> Tokens:
        self.calls += 1
        return made(self.documents)


class TestCache:
    def test_made_once(self, folder: Path) -> None:
        make = Maker()
        for _ in range(3):
            assert listed(cached(["words", b"\x00"], TEXTS_KEPT, make)) == KEPT
        assert make.calls == 1
        (file,) = folder.iterdir()
        assert re.fullmatch(r"[0-9a-f]{64}\.safetensors", file.name)
        assert sorted(read_arrays(file.read_bytes(), "file")) == ["ids", "indptr"]

    def test_every_piece_is_part_of_the_key(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        cases: list[tuple[list[str | bytes], list[str]]] = [
            (["a", "b"], ["xx", "yy"]),
            (["ab"], ["xx", "yy"]),
            (["", "ab"], ["xx", "yy"]),
            (["a", "b"], ["xxyy", ""]),
            (["a", "b"], ["xx", "yz"]),
            (["a", "b", "xx"], ["yy", ""]),
            ([], ["\ud800", "é"]),
        ]
        make = Maker()
        for size in (10**6, 1):
            monkeypatch.setattr(module, "CHUNK_CHARACTERS", size)
            make.calls = 0
            for _ in range(2):
                for parts, texts in cases:
                    cached(parts, texts, make)
            assert make.calls == len(cases)
        assert len(list(folder.iterdir())) == 2 * len(cases)

    def test_no_documents(self, folder: Path) -> None:
        make = Maker([])
        for _ in range(2):
            assert len(cached(["words"], [], make)) == 0
        assert make.calls == 1
        assert folder.is_dir()

    @staticmethod
    def _arrays(ids: list[int], indptr: list[int]) -> dict[str, np.ndarray]:
        return {"ids": np.array(ids, dtype=np.int32), "indptr": np.array(indptr, dtype=np.int64)}

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"nonsense",
            lambda good: good[:-1],
            lambda good: good + b"x",
            lambda good: good[:8] + b"\xff" + good[9:],
            _arrays([2, 3, 4], [0, 3]),
            _arrays([2, 3, 4], [0, 0, 3]),
            _arrays([2, 3, 4], [0, 2, 4]),
            _arrays([2, -3, 4], [0, 2, 3]),
            _arrays([2, 3, 4], []),
            {"ids": np.array([2, 3, 4], dtype=np.int32)},
            {"ids": np.array([2.0, 3, 4]), "indptr": np.array([0, 2, 3])},
        ],
    )
    def test_damaged_file_is_made_again(
        self, folder: Path, content: bytes | Callable[[bytes], bytes] | dict[str, np.ndarray]
    ) -> None:
        make = Maker()
        cached(["words"], TEXTS_KEPT, make)
        (file,) = folder.iterdir()
        good = file.read_bytes()
        file.unlink()  # the tokens above may still be views of it
        if isinstance(content, dict):
            with file.open("wb") as handle:
                write_arrays(handle, content)
        else:
            file.write_bytes(content if isinstance(content, bytes) else content(good))
        assert listed(cached(["words"], TEXTS_KEPT, make)) == KEPT
        assert make.calls == 2
        assert file.read_bytes() == good
        assert listed(cached(["words"], TEXTS_KEPT, make)) == KEPT
        assert make.calls == 2

    def test_folder_in_the_files_place(self, folder: Path) -> None:
        make = Maker()
        cached(["words"], TEXTS_KEPT, make)
        (file,) = folder.iterdir()
        file.unlink()
        file.mkdir()
        assert listed(cached(["words"], TEXTS_KEPT, make)) == KEPT

    def test_folder_that_cannot_be_written(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "file").write_text("no folder")
        monkeypatch.setenv("LONGTAIL_CACHE", str(tmp_path / "file"))
        make = Maker()
        for _ in range(2):
            assert listed(cached(["words"], TEXTS_KEPT, make)) == KEPT
        assert make.calls == 2

    def test_off(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("LONGTAIL_CACHE", "")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        monkeypatch.chdir(tmp_path)
        make = Maker()
        for _ in range(2):
            assert listed(cached(["words"], TEXTS_KEPT, make)) == KEPT
        assert make.calls == 2
        assert cache_folder() is None
        assert not list(tmp_path.iterdir())

    def test_failure_to_make_is_not_hidden(self, folder: Path) -> None:
        def fails() -> Tokens:
            raise ValueError("from make")

        with pytest.raises(ValueError, match="from make"):
            cached(["words"], TEXTS_KEPT, fails)
        assert not folder.exists()

    def test_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        monkeypatch.setenv("LONGTAIL_CACHE", str(tmp_path / "own"))
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
        assert cache_folder() == tmp_path / "own"
        monkeypatch.setenv("LONGTAIL_CACHE", "~/mine")
        assert cache_folder() == tmp_path / "home" / "mine"
        monkeypatch.delenv("LONGTAIL_CACHE")
        assert cache_folder() == tmp_path / "xdg" / "longtail"
        for ignored in ("", "relative"):
            monkeypatch.setenv("XDG_CACHE_HOME", ignored)
            assert cache_folder() == tmp_path / "home" / ".cache" / "longtail"
        monkeypatch.delenv("XDG_CACHE_HOME")
        assert cache_folder() == tmp_path / "home" / ".cache" / "longtail"
