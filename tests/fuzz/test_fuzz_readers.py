"""Whatever bytes a reader is given, it ends in a corpus or in an InputError of one line; nothing else."""

from __future__ import annotations

import gzip
import io
import json
import os
import sqlite3
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from longtail.corpus import Corpus
from longtail.errors import InputError
from longtail.read import read_with_report

EXAMPLES = int(os.environ.get("LONGTAIL_FUZZ", "60"))  # more for a night's search
quick = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)

ROWS = [
    {"id": "d1", "text": "the first document", "labels": ["alpha", "beta"]},
    {"id": "d2", "text": "", "labels": []},
    {"id": "d3", "text": "ünïcode 文", "labels": ["alpha", "gamma delta"]},
] * 3


def _parquet() -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(ROWS), sink)
    return sink.getvalue()


def _arrow(form) -> bytes:
    sink = io.BytesIO()
    table = pa.Table.from_pylist(ROWS)
    with form(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _excel() -> bytes:
    sink = io.BytesIO()
    book = openpyxl.Workbook()
    for row in (["id", "text", "labels"], *([row["id"], row["text"], "|".join(row["labels"])] for row in ROWS)):
        book.active.append(row)
    book.save(sink)
    return sink.getvalue()


def _sqlite() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "d.sqlite"
        base = sqlite3.connect(path)
        with base:
            base.execute("PRAGMA page_size = 512")
            base.execute("CREATE TABLE records (id TEXT, text TEXT, labels TEXT)")
            rows = [(row["id"], row["text"], "|".join(row["labels"])) for row in ROWS]
            base.executemany("INSERT INTO records VALUES (?, ?, ?)", rows)
        base.close()
        return path.read_bytes()


GERMAN = "Nr;Titel;Beschreibung;Schlagwörter\n1;Käse;Über Käse;Öl / Käse\n2;Öl;Über Öl;Öl / Brot\n"
SHORT = "the first text\t<http://x/1> <http://x/2>\nünïcode 文\t<http://x/1>\n".encode()
TURTLE = b"""@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
<http://x/alpha> a skos:Concept ; skos:prefLabel "the alpha"@en, "das Alpha"@de ; skos:altLabel 'first'@en .
<http://x/beta> skos:prefLabel \"\"\"beta\"\"\" ; skos:broader <http://x/alpha> ,
    [ skos:prefLabel "x" ] ; skos:notation ( 1 2 ) .
"""
RDF_XML = b"""<?xml version="1.0"?><!DOCTYPE r [<!ENTITY s "http://www.w3.org/2004/02/skos/core#">]>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:skos="&s;">
<skos:Concept rdf:about="http://x/alpha"><skos:prefLabel xml:lang="en">the alpha</skos:prefLabel>
<skos:broader rdf:resource="http://x/beta"/><skos:note rdf:parseType="Literal"><b>x</b></skos:note></skos:Concept>
</rdf:RDF>
"""
NT = b'<http://x/alpha> <http://www.w3.org/2004/02/skos/core#prefLabel> "the alpha"@en .\n' * 3
JSONL = "\n".join(json.dumps(row, ensure_ascii=False) for row in ROWS).encode()
SOFT = b'{"text": "a", "labels": {"x": 0.5, "y": 1}}\n{"text": "b", "labels": ["x", 3]}\n'
CSV = 'id,text,labels\n1,"quoted, ""text""\nhere",a|b\n2,plain,"[""c"", ""d""]"\n3,é,\n'.encode()
TSV = 'id\ttext\tlabels\n1\t"quoted ""text""\nhere"\ta|b\n2\tplain\t"[""c"", ""d""]"\n3\té\t\n'.encode()
XMC = b"4 9 5\n0,3 1:1 4:0.25 8:-3e2\n 2:1\n4 0:12.5\n1,2,3 7:1\n"
LF = b'{"uid": "a", "title": "t", "content": "c", "target_ind": [0, 1], "target_rel": [1.0, 0.5]}\n' * 3
FASTTEXT = "__label__alpha __label__beta the first document\n__label__ü ünïcode 文 __label__alpha\nno label\n".encode()
FILES = {
    "jsonl": ("data.jsonl", JSONL),
    "soft": ("data.jsonl", SOFT),
    "jsonl.gz": ("data.jsonl.gz", gzip.compress(JSONL, mtime=0)),
    "jsonl.zst": ("data.jsonl.zst", zstandard.compress(JSONL)),
    "csv": ("data.csv", CSV),
    "tsv": ("data.tsv", TSV),
    "xmc": ("data.svm", XMC),
    "xmc.gz": ("data.txt", gzip.compress(XMC, mtime=0)),
    "fasttext": ("data.txt", FASTTEXT),
    "lf": ("trn.json", LF),
    "parquet": ("data.parquet", _parquet()),
    "list": ("data.json", json.dumps(ROWS, indent=1).encode()),
    "cp1252": ("data.csv", GERMAN.encode("cp1252")),
    "utf-16": ("data.csv", GERMAN.encode("utf-16")),
    "short texts": ("data.tsv", SHORT),
    "excel": ("data.xlsx", _excel()),
    "sqlite": ("data.sqlite", _sqlite()),
    "arrow stream": ("data.arrow", _arrow(pa.ipc.new_stream)),
    "arrow file": ("data.arrow", _arrow(pa.ipc.new_file)),
    "no name": ("data", JSONL),
}
TEXTUAL = ["jsonl", "soft", "csv", "tsv", "xmc", "lf", "fasttext", "list", "short texts"]


@pytest.fixture(autouse=True)
def modest_headers(monkeypatch):
    """A mutated header may name millions of labels, which is no error but takes memory that a test machine lacks."""
    monkeypatch.setattr("longtail.read.xmc.MOST_LABELS", 10_000)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz")
    (folder / "lbl.json").write_text('{"uid": "l0", "title": "zero"}\n{"uid": "l1", "title": "one"}\n')
    (folder / "filter_labels_train.txt").write_text("0 1\n")
    return folder


def check(path, content: bytes, **options) -> Corpus | None:
    """Reads the content with and without skipping; the corpus, if there is one, must be sound."""
    path.write_bytes(content)
    kept = None
    for skip in (False, True):
        try:
            corpus, report = read_with_report(path, skip_bad=skip, **options)
        except InputError as error:
            assert str(error).isprintable() and error.reason
            continue
        assert len(corpus) == report.documents > 0
        assert corpus.Y.has_canonical_format and corpus.Y.shape == (len(corpus), len(corpus.labels))
        assert len(set(corpus.labels.names)) == len(corpus.labels) and all(corpus.labels.names)
        assert np.array_equal(corpus.labels.frequency, np.bincount(corpus.Y.indices, minlength=corpus.n_labels))
        if corpus.texts is not None:
            "".join(corpus.texts).encode()
        if corpus.X is not None:
            assert np.isfinite(corpus.X.data).all()
        if not skip:
            kept = corpus
            assert report.skipped == 0
        elif kept is not None:
            assert corpus.ids == kept.ids and (corpus.Y != kept.Y).nnz == 0
    return kept


@pytest.mark.parametrize("kind", FILES)
def test_the_unharmed_file_reads(folder, kind):
    name, content = FILES[kind]
    assert check(folder / name, content) is not None


@pytest.mark.parametrize("kind", FILES)
@quick
@given(data=st.data())
def test_mutated_files(folder, kind, data):
    name, content = FILES[kind]
    check(folder / name, mutated(content, data), need_labels=data.draw(st.booleans()))


@pytest.mark.parametrize("kind", TEXTUAL)
@quick
@given(data=st.data())
def test_mutated_text(folder, kind, data):
    """Changes that keep to the signs of the format go deeper than random bytes."""
    name, content = FILES[kind]
    lines = content.split(b"\n")
    signs = st.sampled_from(
        [*'{}[]",:|\\ \t\n\r0159-+.eE', "nan", "null", "true", "1e400", '""', "\ud7ff", "\0", "__label__"]
    )
    for _ in range(data.draw(st.integers(1, 3))):
        number = data.draw(st.integers(0, len(lines) - 1))
        text = lines[number].decode(errors="replace")
        place = data.draw(st.integers(0, len(text)))
        gone = data.draw(st.integers(0, 3))
        lines[number] = (text[:place] + "".join(data.draw(st.lists(signs, max_size=4))) + text[place + gone :]).encode()
    check(folder / name, b"\n".join(lines), need_labels=data.draw(st.booleans()))


NAMES = ["d.jsonl", "d.csv", "d.tsv", "d.svm", "d.txt", "d", "d.parquet", "d.arrow", "d.gz", "d.xlsx", "d.sqlite"]


@pytest.mark.parametrize("name", NAMES)
@quick
@given(
    content=st.binary(max_size=200),
    start=st.sampled_from(
        [
            b"",
            b"{",
            b"1 2 3\n",
            b"__label__",
            b"PAR1",
            b"\x1f\x8b\x08",
            b"(",
            b"PK\3\4",
            b"SQLite format 3\0",
            b"\xff\xfe",
            b"[{",
        ]
    ),
)
def test_random_bytes(folder, name, content, start):
    check(folder / name, start + content, need_labels=False)


@quick
@given(
    records=st.lists(
        st.recursive(
            st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(st.sampled_from(["text", "labels", "id", "x"]), inner, max_size=4)
            ),
            max_leaves=8,
        ),
        min_size=1,
        max_size=4,
    )
)
def test_any_json(folder, records):
    check(folder / "d.jsonl", "\n".join(json.dumps(record) for record in records).encode(), need_labels=False)


def mutated(content: bytes, data: st.DataObject) -> bytes:
    """A few bytes set, cut, put in, left out or repeated."""
    changed = bytearray(content)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(changed)))
        change = data.draw(st.sampled_from(["set", "cut", "insert", "drop", "repeat"]))
        if change == "set" and place < len(changed):
            changed[place] = data.draw(st.integers(0, 255))
        elif change == "cut":
            del changed[place:]
        elif change == "insert":
            changed[place:place] = data.draw(st.binary(max_size=8))
        elif change == "drop":
            del changed[place : place + data.draw(st.integers(1, 20))]
        elif change == "repeat":
            changed[place:place] = changed[place : place + data.draw(st.integers(1, 40))]
    return bytes(changed)


@quick
@given(data=st.data())
def test_mutated_parts_of_a_workbook(folder, data):
    """Checksums keep most changes of a zip file from being parsed; parts changed before they are packed are."""
    sink = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(FILES["excel"][1])) as old, zipfile.ZipFile(sink, "w") as new:
        chosen = data.draw(st.sampled_from(sorted(old.namelist())))
        for name in old.namelist():
            new.writestr(name, mutated(old.read(name), data) if name == chosen else old.read(name))
    check(folder / "data.xlsx", sink.getvalue(), need_labels=data.draw(st.booleans()))


LABEL_FILES = {
    "v.ttl": TURTLE,
    "v.rdf": RDF_XML,
    "v.nt": NT,
    "v.tsv": b"<http://x/1>\talpha\n<http://x/2>\tbeta\n",
    "v.csv": "id;Bezeichnung\n1;Käse\n2;Öl\n".encode("cp1252"),
    "v.xlsx": _excel(),
}


@pytest.mark.parametrize("name", LABEL_FILES)
@quick
@given(data=st.data())
def test_mutated_labels_files(folder, name, data):
    (folder / name).write_bytes(mutated(LABEL_FILES[name], data))
    check(folder / "data.jsonl", JSONL, labels=folder / name)


@quick
@given(content=st.binary(max_size=100) | st.sampled_from([JSONL, CSV]), name=st.sampled_from(["l.jsonl", "l.csv", "l"]))
def test_any_labels_file(folder, content, name):
    (folder / name).write_bytes(content)
    check(folder / "data.jsonl", JSONL, labels=folder / name)
    check(folder / "data.svm", XMC, labels=folder / name)
