"""fastText's lines of labels and text."""

from __future__ import annotations

import gzip
import io
import sys

import pytest

from longtail.errors import InputError
from longtail.read import read, read_texts, read_with_report

LINES = """__label__sauce __label__cheese How much does potato starch affect a cheese sauce recipe?
__label__food-safety   Dangerous pathogens capable of growing in acidic environments
no label at all
"""


def labels_of(corpus):
    return [[corpus.labels.names[c] for c in row.indices] for row in corpus.Y]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "cooking.train"
    path.write_text(LINES)
    return path


def test_labels_and_texts(file):
    corpus, report = read_with_report(file)
    assert report.format == "fasttext"
    assert corpus.labels.names == ["cheese", "food-safety", "sauce"]
    assert labels_of(corpus) == [["cheese", "sauce"], ["food-safety"], []]
    assert corpus.texts == [
        "How much does potato starch affect a cheese sauce recipe?",
        "Dangerous pathogens capable of growing in acidic environments",
        "no label at all",
    ]
    assert corpus.ids == ["0", "1", "2"] and report.unlabelled == 1


@pytest.mark.parametrize(
    ("line", "labels", "text"),
    [
        ("__label__a text __label__b", ["a", "b"], "text"),
        ("__label__a one __label__b two", ["a", "b"], "one two"),
        ("__label__a\tone  two\r", ["a"], "one  two"),
        ("__label__a", ["a"], ""),
        ("__label__a __label__a text", ["a"], "text"),
        ("__label__a not__label__b text", ["a"], "not__label__b text"),
        ("__label____label__a text", ["__label__a"], "text"),
        ("__label__é\N{NO-BREAK SPACE}x text", ["é\N{NO-BREAK SPACE}x"], "text"),  # fastText ends words at ASCII blanks
    ],
)
def test_what_is_a_label(tmp_path, line, labels, text):
    path = tmp_path / "a.txt"
    path.write_text(line + "\n", newline="")
    corpus = read(path)
    assert labels_of(corpus) == [labels] and corpus.texts == [text]


def test_an_equal_label_is_counted(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("__label__a __label__a __label__b text\n")
    assert read_with_report(path)[1].duplicate_labels == 1


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        (b"__label__a one\n__label__ two\n", 2, "an empty label: there is no name after __label__"),
        (b"__label__a one\n\n__label__a two\n", 2, "a blank line between documents"),
        (
            b"__label__a one\n__label__a t\xffo\n__label__a \xc3\xa9\xc3\xa8\n",
            2,
            "byte 13 of the line is not UTF-8 (0xff); another encoding is set with --encoding, as in cp1252",
        ),
    ],
)
def test_bad_lines(tmp_path, content, line, message):
    path = tmp_path / "a.txt"
    path.write_bytes(content + b"__label__b three\n")
    with pytest.raises(InputError) as caught:
        read(path)
    assert str(caught.value) == f"{path}:{line}: {message}"
    corpus, report = read_with_report(path, skip_bad=True)
    assert report.skipped == 1 and corpus.texts[0] == "one" and corpus.texts[-1] == "three"


def test_blank_lines_may_end_the_file(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("__label__a one\n\n \n")
    assert len(read(path)) == 1


def test_a_file_without_labels_is_no_training_file(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("__label__ one\n")
    with pytest.raises(InputError, match="cannot tell the format"):
        read(path)


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.txt", "text about __label__x\n__label__x is a prefix\n", "text"),
        ("a.txt", "__labels__x some text\n", "text"),
        ("a.txt", "__label__ some text\n", "text"),
        ("a.csv", "text,labels\n__label__a b,c\n", "csv"),
        ("a", '{"text": "__label__x"}\n', "jsonl"),
        ("a.jsonl", '{"text": "__label__x"}\n', "jsonl"),
        ("a", "__label__x first,text\n", "fasttext"),  # 'text' looks like a field of a table
    ],
)
def test_other_files_are_not_taken_for_it(tmp_path, name, content, expected):
    path = tmp_path / name
    path.write_text(content)
    assert read_with_report(path, need_labels=False)[1].format == expected


def test_compressed_and_on_standard_input(file, monkeypatch):
    packed = gzip.compress(file.read_bytes(), mtime=0)
    file.with_suffix(".gz").write_bytes(packed)
    assert read(file.with_suffix(".gz")).texts == read(file).texts
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(packed)))
    assert labels_of(read_texts("-")) == labels_of(read(file))


def test_in_a_folder_with_label_texts(tmp_path):
    (tmp_path / "cooking_train.txt").write_text(LINES)
    (tmp_path / "cooking_dev.txt").write_text("__label__sauce one\n")
    (tmp_path / "labels.csv").write_text("label,text\nsauce,things to pour\n")
    assert list(read(tmp_path).labels.texts) == ["", "", "things to pour"]
    assert read(tmp_path, split="valid").texts == ["one"]
