"""What is read in batches is what is read at once: documents, complaints with their lines, and the report."""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from longtail.corpus import Corpus
from longtail.errors import InputError, UsageError
from longtail.read import builder, read_in_batches, read_with_report
from longtail.read.reading import ReadReport

N = 23
RECORDS: list[dict[str, Any]] = [
    {"id": f"d{row}", "text": f"text {row} ü", "labels": [f"l{row % 5}", "all"][: row % 3]} for row in range(N)
]


def lines(path: Path, *content: str) -> Path:
    data = "\n".join(content).encode() + b"\n"
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def jsonl(folder: Path) -> Path:
    return lines(folder / "d.jsonl", *map(json.dumps, RECORDS))


def jsonl_gz(folder: Path) -> Path:
    return lines(folder / "d.jsonl.gz", *map(json.dumps, RECORDS))


def without_ids(folder: Path) -> Path:
    return lines(folder / "d.jsonl", *(json.dumps({"text": record["text"]}) for record in RECORDS))


def csv(folder: Path) -> Path:
    return lines(
        folder / "d.csv", "id,text,labels", *(f"{r['id']},{r['text']},{'|'.join(r['labels'])}" for r in RECORDS)
    )


def csv_with_another_separator(folder: Path) -> Path:
    return lines(folder / "d.csv", "text,labels", *(f"{r['text']},a;b" for r in RECORDS))


def text(folder: Path) -> Path:
    return lines(folder / "d.txt", *(record["text"] * (row % 4 > 0) for row, record in enumerate(RECORDS)))


def fasttext(folder: Path) -> Path:
    return lines(folder / "d.txt", *(f"__label__a{row} some text {row}" for row in range(N)))


def xmc(folder: Path) -> Path:
    return lines(folder / "d.svm", f"{N} 30 7", *(f"{row % 7},6 {row}:0.5 29:1" for row in range(N)))


def parquet(folder: Path) -> Path:
    pq.write_table(pa.Table.from_pylist(RECORDS), folder / "d.parquet", row_group_size=5)
    return folder / "d.parquet"


def cp1252(folder: Path) -> Path:
    rows = [f"{r['id']};{r['text']};{' | '.join(r['labels'])}" for r in RECORDS]
    (folder / "d.csv").write_text("\n".join(["id;text;labels", *rows]), encoding="cp1252")
    return folder / "d.csv"


def excel(folder: Path) -> Path:
    book = openpyxl.Workbook()
    for row in (["id", "text", "labels"], *([r["id"], r["text"], "\n".join(r["labels"])] for r in RECORDS)):
        book.active.append(row)
    book.save(folder / "d.xlsx")
    return folder / "d.xlsx"


def sqlite(folder: Path) -> Path:
    base = sqlite3.connect(folder / "d.sqlite")
    with base:
        base.execute("CREATE TABLE d (id TEXT, text TEXT, labels TEXT)")
        base.executemany(
            "INSERT INTO d VALUES (?, ?, ?)", [(r["id"], r["text"], ";".join(r["labels"])) for r in RECORDS]
        )
    base.close()
    return folder / "d.sqlite"


def full_texts(folder: Path) -> Path:
    for record in RECORDS:
        (folder / f"{record['id']}.txt").write_text(record["text"])
        (folder / f"{record['id']}.key").write_text("\n".join(record["labels"]))
    return folder


def json_list(folder: Path) -> Path:
    return lines(folder / "d.json", json.dumps(RECORDS, indent=1))


def xmc_texts(folder: Path) -> Path:
    lines(folder / "lbl.json", *(json.dumps({"uid": f"u{label}", "title": "a label"}) for label in range(5)))
    lines(folder / "filter_labels_test.txt", "0 0", "3 1")
    records = [{"uid": f"d{row}", "title": f"text {row}", "target_ind": [row % 5]} for row in range(N)]
    return lines(folder / "tst.json", *map(json.dumps, records)).parent


def folder_with_labels(folder: Path) -> Path:
    lines(folder / "labels.jsonl", json.dumps({"label": "all", "text": "x"}))
    return lines(folder / "test.jsonl", *map(json.dumps, RECORDS)).parent


FORMATS = [jsonl, jsonl_gz, without_ids, json_list, csv, cp1252, csv_with_another_separator, text, fasttext, xmc,
           parquet, excel, sqlite, full_texts, xmc_texts]  # fmt: skip


def joined(batches: list[Corpus]) -> tuple[list[str], list[str], Any]:
    texts = [text for batch in batches for text in batch.texts or ()]
    ids = [ident for batch in batches for ident in batch.ids or ()]
    X = None if batches[0].X is None else sp.vstack([batch.X for batch in batches]).toarray().tolist()
    return ids, texts, X


def said(report: ReadReport) -> dict[str, Any]:
    """All but the remark about label texts, for nobody asks for the labels of batches."""
    return {**asdict(report), "notes": [note for note in report.notes if "are listed in" not in note]}


@pytest.mark.parametrize("size", [1, 4, 22, 23, 1000])
@pytest.mark.parametrize("made", [*FORMATS, folder_with_labels], ids=lambda made: made.__name__)
def test_the_same_documents(tmp_path: Path, made: Callable[[Path], Path], size: int) -> None:
    path = made(tmp_path)
    split = {"usual_split": "test"}
    whole, about_whole = read_with_report(path, need_labels=False, **split)
    batches, report = read_in_batches(path, size, **split)
    found = list(batches)
    assert joined(found) == joined([whole])
    assert said(report) == said(about_whole)
    if made is not xmc:  # lines come by the block there
        assert [len(batch) for batch in found] == [len(part) for part in np.split(np.arange(N), range(size, N, size))]


def test_rows_of_features_come_by_the_block(tmp_path: Path) -> None:
    rows = 150_000
    path = lines(tmp_path / "d.svm", f"{rows} 9 2", *(f"{row % 2} {row % 9}:1.5 8:0.25" for row in range(rows)))
    batches = list(read_in_batches(path, 4096)[0])
    assert len(batches) > 1
    assert joined(batches) == joined([read_with_report(path)[0]])


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("d.jsonl", [json.dumps({"text": "fine"})] * 9 + ["{"], "d.jsonl:10: not JSON"),
        (
            "d.jsonl.gz",
            [json.dumps({"text": "fine"})] * 9 + ['{"text": 3}'],
            "d.jsonl.gz:10: field 'text' must be text",
        ),
        ("d.csv", ["text,labels"] + ["a,b"] * 9 + ["a"], "d.csv:11: 1 cell, but the header has 2"),
        ("d.svm", ["11 3 2"] + ["0 1:1"] * 9 + ["0 7:1", "0 1:1"], "d.svm:11: feature 7 is out of range"),
        ("d.svm", ["11 3 2"] + ["0 1:1"] * 9, "d.svm:1: the header says 11 documents, the file has 9"),
    ],
)
def test_complaints_name_the_line(tmp_path: Path, name: str, content: list[str], complaint: str) -> None:
    path = lines(tmp_path / name, *content)
    batches, _ = read_in_batches(path, 2)
    with pytest.raises(InputError) as caught:
        list(batches)
    assert f"{tmp_path}/{complaint}" in str(caught.value)


@pytest.mark.parametrize("size", [1, 3, 100])
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("d.jsonl", ["{", json.dumps({"text": "one"}), "[", "3"] + [json.dumps({"text": "two"})] * 5 + ["x"]),
        ("d.svm", ["9 3 2"] + ["0 7:1"] * 4 + ["0 1:1"] * 3 + ["x", "1 2:1"]),
    ],
)
def test_bad_lines_are_skipped_and_counted(tmp_path: Path, name: str, content: list[str], size: int) -> None:
    path = lines(tmp_path / name, *content)
    whole, about_whole = read_with_report(path, need_labels=False, skip_bad=True)
    batches, report = read_in_batches(path, size, skip_bad=True)
    assert joined(list(batches)) == joined([whole])
    assert asdict(report) == asdict(about_whole)


def test_nothing_but_bad_lines(tmp_path: Path) -> None:
    batches, _ = read_in_batches(lines(tmp_path / "d.jsonl", "{", "{", "{"), 1, skip_bad=True)
    with pytest.raises(InputError, match="all 3 documents are bad"):
        list(batches)


def test_long_texts_come_in_smaller_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builder, "MOST_CHARACTERS", 10)
    path = lines(tmp_path / "d.txt", "a" * 30, "b", "c" * 8, "d" * 2, "e")
    assert [len(batch) for batch in read_in_batches(path, 4)[0]] == [1, 3, 1]
    assert len(read_with_report(path, need_labels=False)[0]) == 5


def test_a_batch_has_documents(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="at least 1 document"):
        read_in_batches(tmp_path, 0)
