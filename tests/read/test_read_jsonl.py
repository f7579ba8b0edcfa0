"""JSONL, and what all readers of records share: texts, labels, ids, reports, labels files."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from longtail.errors import InputError, UsageError
from longtail.read import read, read_with_report


def write(path, *records):
    lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def pairs(corpus):
    """The targets as {label: weight} a document."""
    return [{corpus.labels.names[c]: float(w) for c, w in zip(row.indices, row.data, strict=True)} for row in corpus.Y]


@pytest.fixture
def file(tmp_path):
    return tmp_path / "data.jsonl"


def test_hand_worked(file):
    write(
        file,
        {"id": "a", "text": "one two", "labels": ["zebra", "apple"], "more": 1},
        {"text": "three", "labels": ["apple"]},
    )
    corpus, report = read_with_report(file)
    assert corpus.texts == ["one two", "three"]
    assert corpus.ids == ["a", "1"]
    assert corpus.labels.names == ["apple", "zebra"]  # sorted, whatever the order of the documents
    assert corpus.Y.toarray().tolist() == [[1, 1], [1, 0]]
    assert corpus.labels.frequency.tolist() == [2, 1] and corpus.labels.documents == 2
    assert corpus.X is None and corpus.labels.texts is None
    assert (report.format, report.documents, report.summary()) == ("jsonl", 2, [])


def test_fields_are_joined_by_a_space(file):
    write(file, {"title": "T", "text": "body", "subjects": ["x"]}, {"title": None, "text": "only", "subjects": ["x"]})
    corpus = read(file, text_field=["title", "text"], labels_field="subjects")
    assert corpus.texts == ["T body", "only"]
    assert read(file, text_field="title", labels_field="subjects").texts == ["T", ""]


def test_ids(file):
    labels = {"text": "t", "labels": ["x"]}
    write(file, {"uid": 7, **labels}, {"_id": "m", **labels}, {"id": None, **labels}, {"id": "", "uid": 5, **labels})
    assert read(file).ids == ["7", "m", "2", "5"]


def test_soft_targets_duplicates_and_numbers(file):
    write(
        file,
        {"text": "t", "labels": {"a": 0.25, "b": 1}},
        {"text": "t", "labels": ["a", "a", 12, "12"]},
        {"text": "", "labels": []},
        {"text": " ", "labels": None},
    )
    corpus, report = read_with_report(file)
    assert pairs(corpus) == [{"a": 0.25, "b": 1}, {"a": 1, "12": 1}, {}, {}]
    assert (report.documents, report.duplicate_labels, report.unlabelled, report.empty_texts) == (4, 2, 2, 2)
    assert "2 documents without text, 2 documents without labels, 2 labels given twice" in report.summary()[0]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"text": "a", "labels": ["x"]', "not JSON"),
        ('{"title": "a", "labels": ["x"]}', "no field 'text'; there is 'title', 'labels'"),
        ('{"text": "a"}', "no field 'labels'; there is 'text'"),
        ("{}", "no field 'text'; there are no fields at all"),
        ('{"text": "a", "labels": "x"}', 'is text, not a list; write ["x"]'),
        ('{"text": "a", "labels": 3}', "must be a list of labels, found the number 3"),
        ('{"text": "a", "labels": ["x", ""]}', "empty label"),
        ('{"text": "a", "labels": ["  "]}', "empty label"),
        ('{"text": "a", "labels": [true]}', "found true or false"),
        ('{"text": "a", "labels": [1.5]}', "found the number 1.5"),
        ('{"text": "a", "labels": [["x"]]}', "found a list"),
        ('{"text": "a", "labels": {"x": 0}}', "label 'x' has weight 0;"),
        ('{"text": "a", "labels": {"x": 1.01}}', "weight 1.01"),
        ('{"text": "a", "labels": {"x": 1e-60}}', "weight 1e-60"),
        ('{"text": "a", "labels": {"x": "1"}}', "weight the text '1'"),
        ('{"text": 5, "labels": ["x"]}', "field 'text' must be text, found the number 5"),
        ('{"text": ["a"], "labels": ["x"]}', "found a list"),
        ('{"text": "a", "labels": ["x"], "id": 1.5}', "field 'id'"),
        ('["a"]', "expected an object with fields, found a list"),
        ("null", "found null"),
        ('{"text": "\\ud800", "labels": ["x"]}', "not JSON"),
        ("\xff", "byte 1 of the line is not UTF-8"),
        ("", "a blank line between documents"),
    ],
)
def test_bad_lines(tmp_path, line, message):
    good = '{"text": "góod", "labels": ["g"]}'.encode()
    file = tmp_path / "data.jsonl.gz"
    file.write_bytes(gzip.compress(b"\n".join([good, line.encode("latin-1"), good])))
    with pytest.raises(InputError) as caught:
        read(file)
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"{file}:2: ")
    assert "\n" not in str(caught.value)

    corpus, report = read_with_report(file, skip_bad=True)
    assert corpus.ids == ["0", "2"]  # the number of a document does not depend on what was skipped before it
    assert report.skipped == 1 and report.problems == [str(caught.value)]
    assert "1 bad line skipped" in report.summary()[0]


def test_only_bad_lines_is_an_error(file):
    write(file, "x", "y")
    with pytest.raises(InputError, match=r"all 2 documents are bad, the first: .*:1: not JSON"):
        read(file, skip_bad=True)


def test_the_report_keeps_the_first_problems_only(file):
    write(file, *["x"] * 100, {"text": "a", "labels": ["b"]})
    _, report = read_with_report(file, skip_bad=True)
    assert report.skipped == 100 and len(report.problems) == 5


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "the file is empty"),
        ("\n\n \n", "the file is empty"),
        ('[{"text": "a", "labels": ["x"]},\n{"text": "b"\n]\n', ":3: not JSON"),
        ('{\n"text": "a"\n}\n', ":1: JSON spread over lines; one object per line is needed"),
        ('{"a": "b", "c": []}\n', ":1: fields are: a, c; name them with --text-field, --labels-field"),
        ('{"text": "a", "labels": []}\n', "no document has a label"),
    ],
)
def test_whole_files_that_do_not_do(file, content, message):
    file.write_text(content)
    with pytest.raises(InputError) as caught:
        read(file)
    assert message in str(caught.value)


def test_blank_lines_at_the_end_and_windows_ends(file):
    file.write_bytes(b'{"text": "a", "labels": ["x"]}\r\n{"text": "b", "labels": ["y"]}\r\n\r\n\n  \n')
    assert read(file).texts == ["a", "b"]


def test_a_separator_cuts_label_texts(file):
    write(file, {"text": "a", "labels": "x; y"}, {"text": "b", "labels": ["p; q"]})
    assert pairs(read(file, separator=";")) == [{"x": 1, "y": 1}, {"p; q": 1}]
    with pytest.raises(UsageError, match="separator"):
        read(file, separator="")


def test_labels_are_not_needed_for_prediction(file):
    write(file, {"text": "a"}, {"text": "b", "labels": ["x"]})
    corpus, report = read_with_report(file, need_labels=False)
    assert pairs(corpus) == [{}, {"x": 1}] and report.unlabelled == 1
    write(file, {"text": "a"})
    corpus, report = read_with_report(file, need_labels=False)
    assert corpus.Y.shape == (1, 0) and report.summary() == []


def test_split_of_a_single_file(file):
    write(file, {"text": "a", "labels": ["x"]})
    with pytest.raises(UsageError, match="single file"):
        read(file, split="test")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("l.jsonl", '{"label": "x", "text": "ex"}\n{"label": "unused", "text": "?"}\n\n'),
        ("l.csv", "label,text\nx,ex\nunused,?\n"),
        ("l.tsv", "text\tlabel\nex\tx\n"),
        ("l.csv", "label;text\nx;ex\n"),
        ("l.json", '{"uid": "x", "title": "ex"}'),
    ],
)
def test_label_texts(file, tmp_path, name, content):
    write(file, {"text": "a", "labels": ["x", "y"]})
    (tmp_path / name).write_text(content)
    corpus, report = read_with_report(file, labels=tmp_path / name)
    assert corpus.labels.names == ["x", "y"]  # only labels that occur
    assert corpus.labels.texts == ["ex", ""]
    assert corpus.labels.text(1) == "y"
    assert "1 of 2 labels are listed" in report.notes[0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"label": "x"}\n{"label": "x"}', ":2: label 'x' is listed already in line 1"),
        ('{"text": "x"}', ":1: no field 'label'"),
        ('{"label": ""}', ":1: field 'label' has an empty label"),
        ('{"label": "x", "text": 3}', ":1: field 'text' must be text"),
        ('{"label": "x"', ":1: not JSON"),
        ("x\n\ny", ":2: a blank line"),
        ("", "the labels file is empty"),
    ],
)
def test_bad_labels_files(file, tmp_path, content, message):
    write(file, {"text": "a", "labels": ["x"]})
    labels = tmp_path / "labels.txt"
    labels.write_text(content)
    with pytest.raises(InputError) as caught:
        read(file, labels=labels)
    assert str(caught.value).startswith(f"{labels}{message}" if message[0] == ":" else f"{labels}: {message}")


names = st.text(st.characters(codec="utf-8"), min_size=1).filter(lambda name: not name.isspace())
documents = st.lists(
    st.fixed_dictionaries(
        {
            "text": st.none() | st.text(st.characters(codec="utf-8")),
            "labels": st.lists(names | st.integers(-(2**53), 2**53)) | st.dictionaries(names, st.floats(0.001, 1)),
        },
        optional={"id": names | st.integers(-(2**53), 2**53), "other": st.booleans()},
    ),
    min_size=1,
    max_size=20,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(documents)
def test_parity_with_a_slow_reader(tmp_path_factory, records):
    """The same documents through the json module and dictionaries."""
    file = tmp_path_factory.mktemp("parity") / "data.jsonl"
    file.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records), encoding="utf-8")
    corpus, report = read_with_report(file, need_labels=False)

    expected, texts, ids = [], [], []
    for row, line in enumerate(file.read_bytes().decode().split("\n")[:-1]):
        record = json.loads(line)
        labels = record["labels"]
        weights = labels if isinstance(labels, dict) else {str(name): 1.0 for name in labels}
        expected.append({name: float(np.float32(weight)) for name, weight in weights.items()})
        texts.append(record["text"] or "")
        ids.append(str(record.get("id", row)))
    assert pairs(corpus) == expected
    assert corpus.texts == texts and corpus.ids == ids
    assert list(corpus.labels.names) == sorted({name for labels in expected for name in labels})
    counts = {name: sum(name in labels for labels in expected) for name in corpus.labels.names}
    assert corpus.labels.frequency.tolist() == list(counts.values())
    assert report.documents == len(records)


def test_labels_of_several_fields_are_put_together(tmp_path):
    path = tmp_path / "two.jsonl"
    path.write_text(
        '{"text": "a", "topics": ["x", "y"], "places": {"y": 0.5, "z": 0.25}}\n'
        '{"text": "b", "topics": [], "places": ["z"]}\n'
    )
    corpus, report = read_with_report(path, labels_field=("topics", "places"))
    assert list(corpus.labels.names) == ["x", "y", "z"]
    assert corpus.Y.toarray().tolist() == [[1, 1, 0.25], [0, 0, 1]]
    assert report.duplicate_labels == 1


def test_ids_that_several_documents_have_are_said(tmp_path):
    lines = [json.dumps({"id": ident, "text": f"text {ident}", "labels": ["x"]}) for ident in ("a", "b", "a", "a")]
    path = tmp_path / "train.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    corpus, report = read_with_report(path)
    assert len(corpus) == 4 and report.repeated_ids == 2
    assert "2 documents with the id of another one" in report.summary()[0]
    other = tmp_path / "more.jsonl"
    other.write_text(lines[1] + "\n" + lines[1].replace('"b"', '"c"'), encoding="utf-8")
    assert read_with_report([path, other])[1].repeated_ids == 3
    path.write_text("\n".join(lines[:2]), encoding="utf-8")
    assert read_with_report(path)[1].summary() == []
