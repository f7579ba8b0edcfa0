"""Finding the format, folders with splits, texts for prediction, and start-up."""

from __future__ import annotations

import gzip
import io
import subprocess
import sys

import pytest
import zstandard

import longtail
from longtail.errors import InputError, UsageError
from longtail.read import ReadOptions, read, read_texts, read_with_report
from longtail.read.formats import ENDINGS, FORMATS
from longtail.run import Run

LINE = b'{"text": "a", "labels": ["x"]}\n'


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.jsonl", LINE, "jsonl"),
        ("a.json", LINE, "jsonl"),
        ("a", LINE, "jsonl"),
        ("a.txt", b"  " + LINE, "jsonl"),
        ("a.jsonl.gz", LINE, "jsonl"),  # named gz, not packed: the content counts
        ("a.jsonl", gzip.compress(mtime=0, data=LINE), "jsonl"),
        ("a.jsonl.zst", zstandard.compress(LINE), "jsonl"),
        ("a.tsv", b"text\tlabels\na\tx\n", "csv"),
        ("a.dat", b"labels;text\nx;a\n", "csv"),
        ("a.txt.gz", gzip.compress(mtime=0, data=b"1 2 3\n0 0:1\n"), "xmc"),
    ],
)
def test_format_is_found(tmp_path, name, content, expected):
    (tmp_path / name).write_bytes(content)
    corpus, report = read_with_report(tmp_path / name)
    assert report.format == expected and len(corpus) == 1
    assert read(str(tmp_path / name)).name == str(tmp_path / name)


def test_unknown_and_missing(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("just some words\n")
    with pytest.raises(InputError, match="cannot tell the format"):
        read(path)
    with pytest.raises(InputError, match="none: no such file"):
        read(tmp_path / "none")
    path.write_bytes(gzip.compress(mtime=0, data=b""))
    with pytest.raises(InputError, match="the file is empty"):
        read(path)


def test_folder_with_splits_and_labels(tmp_path):
    (tmp_path / "train.jsonl.gz").write_bytes(gzip.compress(mtime=0, data=LINE * 3))
    (tmp_path / "corpus_dev.csv").write_text("text,labels\nb,x|y\n")
    (tmp_path / "test.svm").write_text("1 1 1\n0 0:1\n")
    (tmp_path / "test.jsonl").write_bytes(LINE)
    (tmp_path / "labels.csv").write_text("label,text\nx,the x\n")
    assert len(read(tmp_path)) == 3
    assert read(tmp_path).labels.texts == ["the x"]
    assert read(tmp_path, split="valid").texts == ["b"]
    corpus, report = read_with_report(tmp_path, split="test")
    assert corpus.texts == ["a"] and "read test.jsonl; test.svm ignored" in report.notes[0]
    (tmp_path / "mine.txt").write_text("x\n")
    assert read(tmp_path, labels=tmp_path / "mine.txt").labels.texts == [""]


def test_folder_with_files_of_features(tmp_path):
    (tmp_path / "train.libsvm").write_text("1 1 1\n0 0:1\n")
    assert read(tmp_path).X.shape == (1, 1)


def test_every_ending_belongs_to_one_format():
    endings = [ending for form in FORMATS for ending in form.endings]
    assert len(endings) == len(set(endings)) and all(ending in ENDINGS for ending in endings)


def test_folder_without_the_split(tmp_path):
    with pytest.raises(InputError, match="no data file 'train'"):
        read(tmp_path)
    (tmp_path / "test.jsonl").write_bytes(LINE)
    with pytest.raises(UsageError, match="no file for the split 'valid'; there are: test"):
        read(tmp_path, split="valid")
    with pytest.raises(UsageError, match="no file for the split 'train'; there are: test"):
        read(tmp_path)


def test_texts_one_a_line(tmp_path):
    path = tmp_path / "new.txt"
    path.write_bytes("first\r\n\nthird é\n".encode())
    corpus = read_texts(path)
    assert corpus.texts == ["first", "", "third é"]  # what comes out lines up with what went in
    assert corpus.ids == ["0", "1", "2"] and corpus.Y.shape == (3, 0)
    path.write_bytes("góod\n".encode() + b"\xff\n")
    with pytest.raises(InputError, match=r"new.txt:2: byte 1 of the line is not UTF-8"):
        read_texts(path)
    assert read_texts(path, skip_bad=True).texts == ["góod"]


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        (b"some text\n", ["some text"]),
        (b'{"id": 7, "text": "t"}\n', ["t"]),
        (gzip.compress(mtime=0, data=b"packed"), ["packed"]),
    ],
)
def test_standard_input(monkeypatch, content, texts):
    stdin = io.TextIOWrapper(io.BytesIO(content))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert read_texts("-").texts == texts
    assert not stdin.buffer.closed


def test_empty_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    with pytest.raises(InputError, match="standard input: the file is empty"):
        read_texts("-")


def test_texts_themselves():
    corpus = read_texts(["a", "b"])
    assert corpus.texts == ["a", "b"] and corpus.ids == ["0", "1"]


def test_options_as_one_value_by_name_or_both(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("title,tags\na,x;y\n")
    options = ReadOptions(text_field="title", labels_field=["tags"], separator=";")
    corpus = read(path, options=options)
    assert corpus.labels.names == ["x", "y"]
    assert read(path, text_field="title", labels_field="tags", separator=";").labels.names == ["x", "y"]
    assert read(path, options=options, separator="|").labels.names == ["x;y"]
    assert read_with_report(path, options=options)[1].documents == 1
    assert read_texts(path, options=ReadOptions(text_field="title")).texts == ["a"]
    assert read(path, options=ReadOptions(need_labels=False, labels_field="gone"), text_field="title").n_labels == 0
    assert options.separator == ";" and longtail.ReadOptions is ReadOptions


def test_usage():
    for given in ([], [1]):
        with pytest.raises(UsageError, match="text_field needs the name of at least one field"):
            read("x", text_field=given)
    with pytest.raises(UsageError, match="labels_field needs the name"):
        ReadOptions(labels_field=())
    with pytest.raises(UsageError, match="separator of labels must not be empty"):
        ReadOptions(separator="")
    with pytest.raises(UsageError, match="no option 'text_fields' of reading; did you mean 'text_field'"):
        read("x", text_fields="a")
    for nothing in (7, {}):
        with pytest.raises(UsageError, match="give a path, a list of paths, or a Hugging Face dataset"):
            read(nothing)


def test_progress(tmp_path):
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(mtime=0, data=LINE * 1000))
    seen = []

    class Bars:
        def bar(self, title, total):
            seen.append((title, total))
            return self

        def __enter__(self):
            return self

        def __exit__(self, *exception):
            return None

        def advance(self, amount=1):
            seen.append(amount)

    read(path, run=Run(progress=Bars()))
    assert seen[0] == ("Reading", path.stat().st_size)
    assert sum(seen[1:]) == path.stat().st_size


def test_import_is_light():
    code = "import sys, longtail.read; print([m for m in ('numpy', 'scipy', 'numba', 'pyarrow') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


def test_reading_imports_only_what_the_format_needs(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(LINE)
    heavy = ("numba", "pyarrow", "datasets")
    code = f"import sys, longtail; longtail.read({str(path)!r}); print([m for m in {heavy} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


@pytest.mark.parametrize(
    "first", ["", "import longtail.read.options", "import longtail.read", "from longtail import read"]
)
def test_read_is_a_function_and_a_package_in_any_order(tmp_path, first):
    path = tmp_path / "a.jsonl"
    path.write_bytes(LINE)
    code = f"{first}\nfrom longtail import read\nimport longtail.read.jsonl as j, longtail\n" + (
        f"assert len(read({str(path)!r})) == len(longtail.read({str(path)!r})) == 1 and j.read_jsonl"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_vocabulary_is_no_corpus(tmp_path):
    path = tmp_path / "v.ttl"
    path.write_text("@prefix skos: <http://www.w3.org/2004/02/skos/core#> .\n<http://x/1> skos:prefLabel 'a' .\n")
    with pytest.raises(InputError, match=r"v.ttl: this is a vocabulary: --labels takes it"):
        read(path)
