"""Parquet, Arrow and Hugging Face datasets."""

from __future__ import annotations

import io
import json
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from longtail.errors import InputError, UsageError
from longtail.read import read, read_with_report

ROWS = [
    {"id": 4, "text": "one", "labels": ["b", "a"], "other": 1.5},
    {"id": 5, "text": None, "labels": [], "other": None},
    {"id": 6, "text": "three", "labels": ["a", "a"], "other": 2.5},
] * 500


def names_of(corpus):
    return [[corpus.labels.names[c] for c in row.indices] for row in corpus.Y[:3]]


def check(corpus, report):
    assert len(corpus) == 1500 and corpus.texts[:3] == ["one", "", "three"] and corpus.ids[:3] == ["4", "5", "6"]
    assert names_of(corpus) == [["a", "b"], [], ["a"]]
    assert corpus.labels.frequency.tolist() == [1000, 500]
    assert (report.empty_texts, report.unlabelled, report.duplicate_labels) == (500, 500, 500)


def test_parquet(tmp_path):
    path = tmp_path / "data.parquet"
    pq.write_table(pa.Table.from_pylist(ROWS), path, row_group_size=400)
    check(*read_with_report(path))
    path.rename(tmp_path / "no-ending")
    check(*read_with_report(tmp_path / "no-ending"))


def test_labels_as_text_map_struct_and_numbers(tmp_path):
    path = tmp_path / "data.parquet"
    texts = pa.array(["t", "t"])
    pq.write_table(pa.table({"text": texts, "labels": ["a;b", "b"]}), path)
    corpus, report = read_with_report(path)
    assert names_of(corpus) == [["a", "b"], ["b"]] and report.notes == ["labels are separated by ';'"]
    assert names_of(read(path, separator="|")) == [["a;b"], ["b"]]

    maps = pa.array([[("a", 0.5)], [("b", 1.0), ("a", 0.25)]], type=pa.map_(pa.string(), pa.float64()))
    pq.write_table(pa.table({"text": texts, "labels": maps}), path)
    assert read(path).Y.toarray().tolist() == [[0.5, 0], [0.25, 1]]

    pq.write_table(pa.table({"text": texts, "labels": [{"a": 0.5}, {"b": 1.0}]}), path)
    assert read(path).Y.toarray().tolist() == [[0.5, 0], [0, 1]]

    pq.write_table(pa.table({"text": texts, "labels": [[3], [10]]}), path)
    assert read(path).labels.names == ["10", "3"]


def test_bad_parquet(tmp_path):
    path = tmp_path / "data.parquet"
    pq.write_table(pa.table({"a": ["a"], "labels": [["x"]]}), path)
    with pytest.raises(InputError, match="columns are: a, labels; name one with --text-field"):
        read(path)
    with pytest.raises(InputError, match="no field 'b'; there is 'a', 'labels'"):
        read(path, text_field="b")
    pq.write_table(pa.table({"text": ["a"] * 3, "labels": [["x"], [""], ["y"]]}), path)
    with pytest.raises(InputError, match=r"data.parquet:2: .*empty label"):
        read(path)
    assert read_with_report(path, skip_bad=True)[1].skipped == 1
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match="not a readable Parquet file"):
        read(path)
    pq.write_table(pa.table({"text": pa.array([], pa.string()), "labels": pa.array([], pa.list_(pa.string()))}), path)
    with pytest.raises(InputError, match="no documents"):
        read(path)
    broken = pa.StringArray.from_buffers(1, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff"))
    pq.write_table(pa.table({"text": broken, "labels": [["x"]]}), path)
    with pytest.raises(InputError, match="damaged Parquet data"):
        read(path)


def test_parquet_needs_a_file(tmp_path, monkeypatch):
    path = tmp_path / "data.parquet"
    pq.write_table(pa.Table.from_pylist(ROWS), path)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
    with pytest.raises(InputError, match="standard input: Parquet is read from a file, not from a pipe"):
        read("-")


@pytest.mark.parametrize("form", ["new_stream", "new_file"])
def test_arrow_files(tmp_path, form):
    path = tmp_path / "data.arrow"
    table = pa.Table.from_pylist(ROWS)
    with pa.OSFile(str(path), "wb") as sink, getattr(pa.ipc, form)(sink, table.schema) as writer:
        writer.write_table(table)
    check(*read_with_report(path))


@pytest.fixture(scope="module")
def dataset():
    datasets = pytest.importorskip("datasets")
    return datasets.Dataset.from_list(ROWS)


def test_dataset_objects(dataset):
    check(*read_with_report(dataset))
    turned = dataset.select(range(len(dataset) - 1, -1, -1))
    assert read(turned).texts == read(dataset).texts[::-1]  # row indices count
    check(*read_with_report(dataset.to_iterable_dataset()))
    with pytest.raises(InputError, match="dataset: no field 'nothing'; there is 'id', 'text'"):
        read(dataset, text_field="nothing")


def test_dataset_dicts(dataset):
    import datasets

    parts = datasets.DatasetDict(train=dataset, validation=dataset.select([0]), test=dataset.select([2]))
    check(*read_with_report(parts))
    assert read(parts, split="test").ids == ["6"]
    assert read(parts, split="valid").ids == read(parts, split="dev").ids == ["4"]
    assert read(parts, split="tst").ids == ["6"]
    with pytest.raises(UsageError, match="say which split; there are: validation, test"):
        read({name: parts[name] for name in ("validation", "test")})
    assert read({"all": dataset}).ids == read(dataset).ids
    with pytest.raises(UsageError, match="no split 'tset'; did you mean 'test'"):
        read(parts, split="tset")
    with pytest.raises(UsageError, match="single Dataset"):
        read(dataset, split="test")


def test_saved_folders_need_no_datasets(dataset, tmp_path):
    import datasets

    dataset.save_to_disk(tmp_path / "one", num_shards=3)
    datasets.DatasetDict(train=dataset, test=dataset.select([2])).save_to_disk(tmp_path / "many")
    check(*read_with_report(tmp_path / "one"))
    check(*read_with_report(tmp_path / "many"))
    assert read(tmp_path / "many", split="test").ids == ["6"]
    code = (
        "import sys; sys.modules['datasets'] = None\n"
        f"from longtail.read import read; assert len(read({str(tmp_path / 'many')!r})) == 1500"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_class_labels(tmp_path):
    datasets = pytest.importorskip("datasets")
    classes = datasets.ClassLabel(names=["zero", "one", "two"])
    features = datasets.Features({"text": datasets.Value("string"), "labels": datasets.Sequence(classes)})
    many = datasets.Dataset.from_dict({"text": ["a", "b"], "labels": [[2, 0], []]}, features=features)
    many.save_to_disk(tmp_path / "many")
    for source in (many, tmp_path / "many"):
        assert names_of(read(source)) == [["two", "zero"], []]
    features = datasets.Features({"text": datasets.Value("string"), "label": classes})
    single = datasets.Dataset.from_dict({"text": ["a", "b"], "label": [2, 1]}, features=features)
    assert names_of(read(single, labels_field="label")) == [["two"], ["one"]]


def test_hostile_folders(dataset, tmp_path):
    dataset.select([0]).save_to_disk(tmp_path)
    state = json.loads((tmp_path / "state.json").read_text())
    for name in ("../secret", "/etc/passwd", "..", "a\0b"):
        state["_data_files"] = [{"filename": name}]
        (tmp_path / "state.json").write_text(json.dumps(state))
        with pytest.raises(InputError, match="leads out of the folder"):
            read(tmp_path)
    for content in ("", "[]", "{}", '{"_data_files": [3]}', '{"_data_files": [{"filename": "none.arrow"}]}'):
        (tmp_path / "state.json").write_text(content)
        with pytest.raises(InputError):
            read(tmp_path)
    with pytest.raises(UsageError, match="cannot read a int"):
        read(3)
