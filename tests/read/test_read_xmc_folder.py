"""The XMC repository's folders with label features."""

from __future__ import annotations

import gzip
import json

import pytest

from longtail.errors import InputError, UsageError
from longtail.read import read, read_with_report


def dump(path, records):
    path.write_bytes(gzip.compress("".join(json.dumps(r) + "\n" for r in records).encode()))


@pytest.fixture
def folder(tmp_path):
    dump(tmp_path / "lbl.json.gz", [{"uid": "L9", "title": "nine"}, {"uid": "L1", "title": "one", "content": "more"}])
    dump(
        tmp_path / "trn.json.gz",
        [
            {"uid": "a", "title": "t", "content": "c", "target_ind": [1, 0], "target_rel": [1.0, 0.5]},
            {"uid": "b", "title": "u", "content": "", "target_ind": [0, 0], "target_rel": [0.25, 0.75]},
            {"uid": "c", "title": "v", "target_ind": [], "target_rel": []},
        ],
    )
    dump(tmp_path / "tst.json.gz", [{"uid": "z", "title": "w", "content": "x", "target_ind": [1]}])
    (tmp_path / "filter_labels_train.txt").write_text("0 1\n1 0\n0 1\n\n")
    (tmp_path / "filter_labels_test.txt").write_text("0 0\n")
    return tmp_path


def test_texts(folder):
    corpus, report = read_with_report(folder)
    assert corpus.texts == ["t c", "u", "v"] and corpus.ids == ["a", "b", "c"]
    assert corpus.labels.names == ["L9", "L1"] and corpus.labels.texts == ["nine", "one more"]
    assert corpus.Y.toarray().tolist() == [[0.5, 1], [0.75, 0], [0, 0]]
    assert corpus.labels.frequency.tolist() == [2, 1]
    assert corpus.reciprocal.toarray().tolist() == [[False, True], [True, False], [False, False]]
    assert (report.duplicate_labels, report.unlabelled) == (1, 1)


def test_other_split_and_single_file(folder):
    for corpus in (read(folder, split="test"), read(folder, split="tst"), read(folder / "tst.json.gz")):
        assert corpus.texts == ["w x"]
        assert corpus.Y.toarray().tolist() == [[0, 1]]
        assert corpus.reciprocal.toarray().tolist() == [[True, False]]
    assert read(folder, split="test", text_field="title").texts == ["w"]
    with pytest.raises(UsageError, match="train and test"):
        read(folder, split="valid")


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"uid": "a", "title": "t", "target_ind": [2]}, "label 2 is out of range: there are 2 labels"),
        ({"uid": "a", "title": "t", "target_ind": [-1]}, "label -1 is out of range"),
        ({"uid": "a", "title": "t", "target_ind": ["0"]}, "label 0 is out of range"),
        ({"uid": "a", "title": "t", "target_ind": [0], "target_rel": [7]}, "relevance 7"),
        ({"uid": "a", "title": "t", "target_ind": [0], "target_rel": []}, "lists of the same length"),
        ({"uid": "a", "title": "t"}, "no field 'target_ind'"),
        ({"uid": "a", "target_ind": [0]}, "no field 'title'"),
        (["a"], "expected an object"),
    ],
)
def test_bad_documents(folder, record, message):
    good = {"uid": "g", "title": "t", "target_ind": [0]}
    dump(folder / "trn.json.gz", [good, record, good])
    (folder / "filter_labels_train.txt").write_text("2 1\n1 0\n")
    with pytest.raises(InputError) as caught:
        read(folder)
    assert f"trn.json.gz:2: {message}" in str(caught.value) or message in str(caught.value)
    corpus, report = read_with_report(folder, skip_bad=True)
    assert report.skipped == 1
    assert corpus.reciprocal.toarray().tolist() == [[False, False], [False, True]]  # follows the documents


@pytest.mark.parametrize(
    ("content", "message"),
    [("0 2\n", "label 2 is out of range"), ("3 0\n", "document 3 is out of range"), ("0 x\n", "two whole numbers")],
)
def test_bad_filters(folder, content, message):
    (folder / "filter_labels_train.txt").write_text(content)
    with pytest.raises(InputError, match=f"filter_labels_train.txt:1: .*{message}"):
        read(folder)


def test_labels_are_needed(folder):
    (folder / "lbl.json.gz").unlink()
    with pytest.raises(InputError, match=r"no lbl\.json"):
        read(folder)


def test_sparse_files(tmp_path):
    (tmp_path / "trn_X_Xf.txt").write_text("2 3\n0:1 2:0.5\n1:2\n")
    (tmp_path / "trn_X_Y.txt").write_text("2 2\n1:1.0\n\n")
    (tmp_path / "lbl_X_Xf.txt").write_text("2 3\n0:1\n2:1\n")
    corpus = read(tmp_path)
    assert corpus.X.toarray().tolist() == [[1, 0, 0.5], [0, 2, 0]]
    assert corpus.Y.toarray().tolist() == [[0, 1], [0, 0]]
    assert corpus.label_X.toarray().tolist() == [[1, 0, 0], [0, 0, 1]]
    (tmp_path / "trn_X_Y.txt").write_text("2 2\n1:1.0\n0:3\n")
    with pytest.raises(InputError, match=r"trn_X_Y.txt:3: a label's relevance"):
        read(tmp_path)
    (tmp_path / "trn_X_Y.txt").write_text("1 2\n1:1.0\n")
    with pytest.raises(InputError, match=r"2 documents in trn_X_Xf.txt, 1 in trn_X_Y.txt"):
        read(tmp_path)
    with pytest.raises(InputError, match=r"no tst_X_Xf.txt"):
        read(tmp_path, split="test")
