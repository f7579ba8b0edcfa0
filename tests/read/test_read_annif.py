"""Annif's corpora: folders of full texts, and lines of short ones."""

from __future__ import annotations

import gzip

import pytest

from longtail.errors import InputError, UsageError
from longtail.read import read, read_in_batches, read_texts, read_with_report
from longtail.read.estimate import corpus_bytes


def names_of(corpus):
    return [[corpus.labels.names[c] for c in row.indices] for row in corpus.Y]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "b.txt").write_text("Second text\nof two lines\n")
    (tmp_path / "b.tsv").write_text("<http://x.org/1>\tcats\n<http://x.org/2>\tdogs\n\n")
    (tmp_path / "a.txt").write_bytes("Über Öl".encode("cp1252"))
    (tmp_path / "a.tsv").write_text("<http://x.org/1>\tcats\n")
    (tmp_path / "c.txt").write_text("no subjects")
    return tmp_path


def test_full_texts_with_uris(folder):
    corpus, report = read_with_report(folder)
    assert corpus.ids == ["a", "b", "c"]
    assert corpus.texts == ["Über Öl", "Second text\nof two lines", "no subjects"]
    assert names_of(corpus) == [["http://x.org/1"], ["http://x.org/1", "http://x.org/2"], []]
    assert corpus.labels.texts == ["cats", "dogs"]
    assert report.format == "annif" and report.unlabelled == 1 and report.source == str(folder)
    assert report.notes == ["1 of the files not UTF-8: read as cp1252; if that looks wrong, set --encoding"]
    (folder / "labels.csv").write_text("label,text\nhttp://x.org/1,felines\n")
    assert read(folder, labels=folder / "labels.csv").labels.texts == ["felines", ""]


def test_full_texts_with_keys(folder):
    (folder / "c.key").write_text("cats\n mice \n\n")
    corpus = read(folder)
    assert names_of(corpus)[2] == ["cats", "mice"]


def test_prediction_and_splits(folder, tmp_path_factory):
    batches, report = read_in_batches(folder, 2, usual_split="test")
    assert [list(batch.ids) for batch in batches] == [["a", "b"], ["c"]] and report.documents == 3
    for path in folder.glob("*.tsv"):
        path.unlink()
    assert read_texts(folder).ids == ["a", "b", "c"]
    with pytest.raises(InputError, match="no data file 'train'"):
        read(folder)
    with pytest.raises(UsageError, match="there is no split to choose"):
        read_texts(folder, split="test")
    above = tmp_path_factory.mktemp("corpus")
    for split in ("train", "validate", "test"):
        (above / split).mkdir()
        (above / split / "d.txt").write_text(f"of {split}")
        (above / split / "d.key").write_text("x\n")
    assert read(above).texts == ["of train"]
    assert read(above, split="test").texts == read(above, usual_split="test").texts == ["of test"]


def test_bad_files_are_named(folder):
    (folder / "a.txt").write_bytes("é\nè\n".encode() + b"x\n\xff")
    with pytest.raises(InputError, match=r"a.txt:4: byte 1 of the line is not UTF-8"):
        read(folder)
    corpus, report = read_with_report(folder, skip_bad=True)
    assert corpus.ids == ["b", "c"] and report.skipped == 1
    (folder / "a.txt").write_text("fine")
    (folder / "a.tsv").write_bytes("é\nè\n".encode() + b"\xff\n")
    with pytest.raises(InputError, match=r"a.tsv:3: byte 1"):
        read(folder)


def test_an_estimate_of_memory(folder):
    (folder / "b.txt").write_text("x" * 10_000)
    (folder / "d.txt").write_text("x" * 10_000)
    assert corpus_bytes(folder) > 20_000


def test_short_texts(tmp_path):
    path = tmp_path / "corpus.tsv.gz"
    content = "first\ttext\t<http://x/1> <http://x/2>\nsecond\t<http://x/1>\n\nthird\t\n"
    path.write_bytes(gzip.compress(content.encode()))
    with pytest.raises(InputError, match="columns are"):  # the first line says that it is another table
        read(path)
    path.write_bytes(gzip.compress(content.replace("first\t", "first ").encode()))
    corpus, report = read_with_report(path)
    assert corpus.texts == ["first text", "second", "third"] and report.format == "annif"
    assert names_of(corpus) == [["http://x/1", "http://x/2"], ["http://x/1"], []]
    (tmp_path / "d.tsv").write_text("a\t<http://x/1>\nb\tx\n")
    with pytest.raises(InputError, match=r"d.tsv:2: expected a text, a tab, and labels in angle brackets"):
        read(tmp_path / "d.tsv")
    assert read(tmp_path / "d.tsv", skip_bad=True).texts == ["a"]


def test_a_table_with_uris(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text("text,subject_uris\na,<http://x/1> <http://x/2>\nb,<http://x/1>\n")
    assert names_of(read(path)) == [["http://x/1", "http://x/2"], ["http://x/1"]]
