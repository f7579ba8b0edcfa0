"""Labels files: a name and a text for each label, in the order of the columns where columns are numbered."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from longtail.errors import InputError
from longtail.keep.streams import Stream, bare_name, decode, open_stream
from longtail.read.builder import (
    RecordError,
    joined_text,
    kind_of,
    label_name,
    missing_field,
)
from longtail.read.reading import LabelTable, ReadReport

#: Endings of files that may hold labels; the first that is there counts.
ENDINGS = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".tab", ".txt")

NAME_FIELDS = ("label", "uid", "id", "name")
TEXT_FIELDS = ("text", "title")


def read_labels(path: str | Path, text_fields: tuple[str, ...] | None = None) -> LabelTable:
    """JSONL or CSV/TSV with a name ("label", "uid", "id" or "name") and a text ("text" or "title"), or a name per line.

    text_fields names other fields to make the text of; those a line does not have add nothing.
    """
    names: list[str] = []
    texts: list[str] = []
    seen: dict[str, int] = {}
    with open_stream(path) as stream:
        if stream.empty:
            raise InputError(path, "the labels file is empty")
        for line, record in _records(stream):
            try:
                name, text = _entry(record, text_fields)
            except RecordError as problem:
                raise InputError(path, str(problem), line) from None
            if name in seen:
                raise InputError(path, f"label '{name}' is listed already in line {seen[name]}", line)
            seen[name] = line
            names.append(name)
            texts.append(text)
    return LabelTable(str(path), names, texts)


def _records(stream: Stream) -> Iterator[tuple[int, Any]]:
    report = ReadReport(stream.name)

    def bad(message: str, line: int) -> None:
        report.problem(message, line, skip=False)

    name = bare_name(stream.name)
    if stream.head.lstrip()[:1] == b"{":
        from longtail.read.jsonl import objects

        yield from objects(stream, bad)
    elif name.endswith((".csv", ".tsv", ".tab")):
        from longtail.read.csv import TableRows

        rows = TableRows(stream, [])
        if not set(NAME_FIELDS) & set(rows.header):
            rows = TableRows(stream, ["label"])
        for line, row in rows.records(bad):
            yield line, dict(zip(rows.header, row, strict=True))
    else:
        blank = 0
        for line, content in stream.lines():
            try:
                label = decode(content).strip()
            except ValueError as wrong:
                raise InputError(stream.name, str(wrong), line) from None
            if label and blank:
                raise InputError(stream.name, "a blank line between labels", blank)
            if label:
                yield line, {"label": label}
            else:
                blank = blank or line


def _entry(record: Any, text_fields: tuple[str, ...] | None) -> tuple[str, str]:
    if not isinstance(record, dict):
        raise RecordError(f"expected an object with a label and its text, found {kind_of(record)}")
    given = next((field for field in NAME_FIELDS if record.get(field) is not None), None)
    if given is None:
        raise RecordError(missing_field("label", record))
    name = label_name(record[given], given)
    fields = text_fields or tuple(field for field in TEXT_FIELDS if field in record)[:1]
    return name, joined_text(record, tuple(field for field in fields if field in record))
