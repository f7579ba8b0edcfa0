"""Several files as one corpus: lists, patterns, pieces in a folder."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from longtail.errors import InputError, UsageError
from longtail.read import read, read_in_batches, read_with_report
from longtail.read.estimate import corpus_bytes


def names_of(corpus):
    return [[corpus.labels.names[c] for c in row.indices] for row in corpus.Y]


def jsonl(path, *records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def pieces(folder, name, *texts):
    for number, text in enumerate(texts):
        rows = [{"text": text, "labels": [text, "all"]}] if text else []
        schema = pa.schema({"text": pa.string(), "labels": pa.list_(pa.string())})
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), folder / name.format(number))


def test_files_of_different_formats(tmp_path):
    first = jsonl(tmp_path / "a.jsonl", {"text": "one", "labels": ["x", "b"]}, {"text": "two", "labels": {"x": 0.5}})
    second = tmp_path / "b.csv"
    second.write_text("Titel;Schlagwort\ndrei;a; b\n".replace("a; b", '"a; b"'), encoding="cp1252")
    corpus, report = read_with_report([first, str(second)])
    assert corpus.texts == ["one", "two", "drei"] and corpus.ids == ["0", "1", "2"]
    assert corpus.labels.names == ["a", "b", "x"] and corpus.labels.frequency.tolist() == [1, 2, 2]
    assert corpus.Y.toarray().tolist() == [[0, 1, 1], [0, 0, 0.5], [1, 1, 0]]
    assert report.documents == 3 and report.format == "jsonl+csv"
    assert report.source == f"{first} and 1 more" == corpus.name
    assert report.notes == ["b.csv: text from 'Titel', labels from 'Schlagwort'", "b.csv: labels are separated by ';'"]
    batches, again = read_in_batches([first, second], 2)
    assert [batch.texts for batch in batches] == [["one", "two"], ["drei"]] and again.documents == 3
    assert corpus_bytes([first, second]) == corpus_bytes(first) + corpus_bytes(second)
    assert read([first]).texts == ["one", "two"]


def test_the_same_remark_is_made_once(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text("Titel;Tags\na;x|y\n")
    notes = read_with_report([tmp_path / "a.csv", tmp_path / "b.csv"])[1].notes
    assert notes == ["text from 'Titel', labels from 'Tags'", "labels are separated by '|'"]


def test_errors_name_the_file(tmp_path):
    good = jsonl(tmp_path / "a.jsonl", {"text": "one", "labels": ["x"]})
    bad = jsonl(tmp_path / "b.jsonl", {"text": "one", "labels": ["x"]}, {"text": 3, "labels": []})
    with pytest.raises(InputError, match=r"b.jsonl:2: field 'text' must be text"):
        read([good, bad])
    corpus, report = read_with_report([bad, good], skip_bad=True)
    assert corpus.ids == ["0", "2"] and report.skipped == 1 and "b.jsonl:2" in report.problems[0]
    with pytest.raises(InputError, match=r"none: no such file"):
        read([good, tmp_path / "none"])
    with pytest.raises(UsageError, match=r"cannot read a list"):
        read([])
    with pytest.raises(UsageError, match=r"single file"):
        read([good, bad], split="test")


def test_labels_and_texts_of_labels(tmp_path):
    files = [jsonl(tmp_path / f"{n}.jsonl", {"text": n, "labels": [n, "all"]}) for n in "ab"]
    (tmp_path / "l.csv").write_text("label,text\na,ay\nall,every\n")
    corpus, report = read_with_report(files, labels=tmp_path / "l.csv")
    assert corpus.labels.texts == ["ay", "every", ""]
    assert len(report.notes) == 1 and "2 of 3 labels are listed" in report.notes[0]
    unlabelled = jsonl(tmp_path / "c.jsonl", {"text": "c", "labels": []})
    assert len(read([*files, unlabelled])) == 3
    with pytest.raises(InputError, match=r"no document has a label"):
        read([unlabelled, unlabelled])


def test_what_does_not_look_like_labels_is_looked_for_in_all(tmp_path):
    files = [
        jsonl(tmp_path / f"{part}.jsonl", *({"text": "t", "labels": [f"{part} {n}"]} for n in range(60)))
        for part in "ab"
    ]
    assert len(read(files[0])) == 60
    with pytest.raises(InputError, match=r"a.jsonl and 1 more: nearly every label is unique"):
        read(files)
    assert len(read([files[0], files[0]])) == 120


def test_features(tmp_path):
    for name, content in (
        ("a.svm", "1 3 2\n0 1:1\n"),
        ("b.svm", "2 3 2\n1 2:1\n0,1 0:1\n"),
        ("c.svm", "1 4 2\n1 2:1\n"),
    ):
        (tmp_path / name).write_text(content)
    corpus = read([tmp_path / "a.svm", tmp_path / "b.svm"])
    assert corpus.X.shape == (3, 3) and corpus.Y.toarray().tolist() == [[1, 0], [0, 1], [1, 1]]
    assert corpus.ids == ["0", "1", "2"] and corpus.labels.names == ["0", "1"]
    with pytest.raises(InputError, match=r"has 4 features, but .*a.svm has 3"):
        read([tmp_path / "a.svm", tmp_path / "c.svm"])
    texts = jsonl(tmp_path / "d.jsonl", {"text": "d", "labels": ["0"]})
    with pytest.raises(InputError, match=r"has texts, but .*a.svm has features"):
        read([tmp_path / "a.svm", texts])


@pytest.mark.parametrize("name", ["part-{:05}.parquet", "train-{:05}-of-00003.parquet", "corpus_train_{}.parquet"])
def test_a_folder_of_pieces(tmp_path, name):
    pieces(tmp_path, name, "a", "", "b")
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / ".hidden.parquet").touch()
    corpus, report = read_with_report(tmp_path)
    assert corpus.texts == ["a", "b"] and corpus.ids == ["0", "1"] and names_of(corpus) == [["a", "all"], ["all", "b"]]
    assert report.documents == 2
    assert corpus_bytes(tmp_path) == sum(corpus_bytes(path) for path in tmp_path.glob("*-*.parquet")) or "_" in name
    if name.startswith("part"):
        assert read(tmp_path, usual_split="test").texts == ["a", "b"]
        with pytest.raises(InputError, match=r"no data file 'test'"):
            read(tmp_path, split="test")
    else:
        pieces(tmp_path, name.replace("train", "test"), "c")
        assert read(tmp_path, split="test").texts == ["c"] and read(tmp_path).texts == ["a", "b"]


def test_patterns(tmp_path):
    pieces(tmp_path, "part-{}.parquet", "a", "b", "c")
    assert read(f"{tmp_path}/part-[01].parquet").texts == ["a", "b"]
    assert read([f"{tmp_path}/part-2.*", tmp_path / "part-0.parquet"]).texts == ["c", "a"]
    assert corpus_bytes(f"{tmp_path}/*.parquet") == corpus_bytes(tmp_path) > 0
    with pytest.raises(InputError, match=r"no file matches this pattern"):
        read(f"{tmp_path}/*.csv")
    odd = jsonl(tmp_path / "odd[1].jsonl", {"text": "odd", "labels": ["x"]})
    assert read(odd).texts == ["odd"]


def test_a_folder_of_other_files(tmp_path):
    jsonl(tmp_path / "2023.jsonl", {"text": "a", "labels": ["x"]})
    jsonl(tmp_path / "2024.jsonl", {"text": "b", "labels": ["x"]})
    (tmp_path / "labels.csv").write_text("label,text\nx,ex\n")
    corpus = read(tmp_path)
    assert corpus.texts == ["a", "b"] and corpus.labels.texts == ["ex"]
    (tmp_path / "2025.csv").write_text("text,labels\nc,x\n")
    with pytest.raises(InputError, match=r"no data file 'train'"):
        read(tmp_path)


def test_an_estimate_looks_where_documents_are_read(tmp_path):
    for folder in ("train", ".cache/x", "other/below/deep"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "train" / "a.jsonl").write_text("x" * 100)
    small = corpus_bytes(tmp_path)
    for path in (".cache/big.jsonl", ".cache/x/big.jsonl", "other/below/deep/big.jsonl"):
        (tmp_path / path).write_text("x" * 10_000)
    assert corpus_bytes(tmp_path) == small > 0
