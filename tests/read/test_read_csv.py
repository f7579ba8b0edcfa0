"""CSV and TSV."""

from __future__ import annotations

import csv

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from longtail.errors import InputError
from longtail.read import read, read_texts, read_with_report


def names_of(corpus):
    return [[corpus.labels.names[c] for c in row.indices] for row in corpus.Y]


@pytest.mark.parametrize(
    ("name", "delimiter"), [("d.csv", ","), ("d.csv", ";"), ("d.csv", "\t"), ("d.tsv", "\t"), ("d.txt", ",")]
)
def test_hand_worked(tmp_path, name, delimiter):
    rows = [
        ["id", "text", "labels"],
        ["7", "plain", "b| a"],
        ["", 'quoted, "so"\ntwo lines', ""],
        ["9", "json", '["x|y", 3]'],
        ["10", "soft", '{"a": 0.5}'],
    ]
    path = tmp_path / name
    with path.open("w", newline="") as file:
        csv.writer(file, delimiter=delimiter).writerows(rows)
    corpus, report = read_with_report(path)
    assert corpus.texts == ["plain", 'quoted, "so"\ntwo lines', "json", "soft"]
    assert corpus.ids == ["7", "1", "9", "10"]
    assert names_of(corpus) == [["a", "b"], [], ["3", "x|y"], ["a"]]
    assert corpus.Y[3].data.tolist() == [0.5]
    assert report.format == "csv" and report.unlabelled == 1


def test_separator_is_found_and_said(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text("text,labels\na,x;y\nb,x;z;\n")
    corpus, report = read_with_report(path)
    assert names_of(corpus) == [["x", "y"], ["x", "z"]]
    assert report.notes == ["labels are separated by ';'"]
    corpus, report = read_with_report(path, separator=";")
    assert names_of(corpus) == [["x", "y"], ["x", "z"]] and report.notes == []
    assert names_of(read(path, separator="|")) == [["x;y"], ["x;z;"]]


def test_long_cells_and_byte_order_mark(tmp_path):
    path = tmp_path / "d.csv"
    path.write_bytes(b"\xef\xbb\xbftext,labels\r\n" + b"w " * 200_000 + b",x\r\n\r\n")
    limit = csv.field_size_limit()
    assert len(read(path).texts[0]) == 400_000
    assert csv.field_size_limit() == limit


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("only one cell", "1 cell, but the header has 2"),
        ("a,b,c", "3 cells, but the header has 2"),
        ('a,"[""x"", """"]"', "empty label"),
        ("a,\"['x' 'y']\"", "look like a list but are not JSON"),
        ('"a"b,x', "not a row of a table"),
        ("\xff,x", "byte 1 of the line is not UTF-8"),
        ("", "a blank line between documents"),
    ],
)
def test_bad_rows(tmp_path, row, message):
    path = tmp_path / "d.csv"
    path.write_bytes('text,labels\n"two\nlínes",g\n'.encode() + row.encode("latin-1") + b"\nlast,g\n")
    with pytest.raises(InputError) as caught:
        read(path)
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"{path}:4: ")
    corpus, report = read_with_report(path, skip_bad=True)
    assert corpus.texts == ["two\nlínes", "last"] and report.skipped == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,b\na,b\n", ":1: columns are: a, b; name them with --text-field, --labels-field"),
        ("title,b\na,b\n", ":1: columns are: title, b; name one with --labels-field"),
        ("a,labels\na,b\n", ":1: columns are: a, labels; name one with --text-field"),
        ("text,labels\n", ": no documents in the file"),
        ("text,text,labels\na,b,c\n", ":1: two columns are called 'text'"),
        ('text,labels\n"never closed,x\na,b\n', ":2: a quote that opens here is never closed"),
    ],
)
def test_bad_files(tmp_path, content, message):
    path = tmp_path / "d.csv"
    path.write_text(content)
    with pytest.raises(InputError) as caught:
        read(path)
    assert str(caught.value) == f"{path}{message}"


def test_prediction_needs_no_label_column(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text("text\na\nb\n")
    assert read_texts(path).texts == ["a", "b"]


cells = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), min_size=1)
labels = st.lists(st.text("abcXYZ 09-", min_size=1).map(str.strip).filter(bool))


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(cells, labels), min_size=1, max_size=15), st.sampled_from([",", ";", "\t"]))
def test_written_by_csv_read_back(tmp_path_factory, rows, delimiter):
    path = tmp_path_factory.mktemp("csv") / "d.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(["text", "labels"])
        writer.writerows((text, "|".join(names)) for text, names in rows)
    corpus = read(path, need_labels=False)
    assert corpus.texts == [text for text, _ in rows]
    assert names_of(corpus) == [sorted(set(names)) for _, names in rows]


@pytest.mark.parametrize("encoding", ["utf-16", "UTF-32", "utf-16-be"])
def test_an_encoding_that_is_not_the_files(tmp_path, encoding):
    path = tmp_path / "d.csv"
    path.write_bytes("text,labels\nKäse,a\n".encode("cp1252"))
    with pytest.raises(InputError):
        read(path, encoding=encoding)
    path.write_bytes("text,labels\nKäse,a\n".encode("utf-16-le"))  # no mark tells the order of bytes
    assert read(path, encoding="utf-16").texts == ["Käse"]
