"""Labels files: a name and a text for each label, in the order of the columns where columns are numbered."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from longtail.errors import InputError, UsageError
from longtail.keep.encodings import FALLBACK
from longtail.keep.streams import Stream, bare_name, open_stream
from longtail.read.builder import joined_text, kind_of, label_name, missing_field
from longtail.read.flaws import RecordError
from longtail.read.label_table import LabelTable, ends_of
from longtail.read.place import INSIDE, Place, place_of
from longtail.read.skos import FORMATS as RDF_FORMATS
from longtail.run import Run

#: Endings of files that may hold labels; the first that is there counts.
ENDINGS = (
    ".jsonl",
    ".ndjson",
    ".json",
    ".csv",
    ".tsv",
    ".tab",
    ".txt",
    ".xlsx",
    *(e for e in RDF_FORMATS if e != ".xml"),
)

NAME_FIELDS = ("label", "uid", "id", "name")
TEXT_FIELDS = ("text", "title")

#: Where a file has neither of the texts' names: what documents have, and what it is called.
_ID_NAMES = ("uri", "id", "uid", "notation", "code", "key", "identifier", "nr", "nummer", "signatur", "gnd", "ppn")
_TEXT_NAMES = ("label", "preflabel", "preferredname", "name", "term", "bezeichnung", "benennung", "schlagwort", "titel",
               "libelle", "libellé", "nom", "nombre", "nome", "naam", "nimi", "namn", "description")  # fmt: skip
_URI = re.compile(r"<([^<>]+)>")
_ANNIF = re.compile(rb"<[^<>\s]+>\t[^\t]")


def read_labels(
    path: str | Path,
    text_fields: tuple[str, ...] | None = None,
    *,
    run: Run | None = None,
    encoding: str | None = None,
) -> LabelTable:
    """JSONL, CSV, TSV or Excel with a name and a text, Annif's `<uri>`, tab, label, SKOS, or a name per line.

    text_fields  other fields to make the text of; those a line does not have add nothing
    encoding     what to take for text that is not UTF-8
    """
    from longtail.read.skos import format_of, read_skos

    place = place_of(path)
    with open_stream(place.path, None, encoding or FALLBACK) as stream:
        if stream.empty:
            raise InputError(place.path, "the labels file is empty")
        if format_of(stream) is not None:
            return read_skos(place.path, place.inside, run or Run())
        entries = _Entries(str(path), text_fields)
        for line, record in _records(stream, place):
            entries.add(line, record)
        remark = stream.encoding.remark
    return entries.table([remark] if remark else [])


class _Entries:
    """Collects the lines of a labels file."""

    def __init__(self, path: str, text_fields: tuple[str, ...] | None) -> None:
        self._path, self._text_fields = path, text_fields
        self._names: list[str] = []
        self._texts: list[str] = []
        self._seen: dict[str, int] = {}

    def add(self, line: int, record: Any) -> None:
        try:
            name, text = _entry(record, self._text_fields)
        except RecordError as problem:
            raise InputError(self._path, str(problem), line) from None
        if name in self._seen:
            raise InputError(self._path, f"label '{name}' is listed already in line {self._seen[name]}", line)
        self._seen[name] = line
        self._names.append(name)
        self._texts.append(text)

    def table(self, remarks: Sequence[str]) -> LabelTable:
        by_text: dict[str, int] = {}
        for number, text in enumerate(self._texts):
            if text:
                by_text.setdefault(text, number)
        others = {"the ends of their addresses": ends_of(self._names), "their texts": by_text}
        others = {way: names for way, names in others.items() if names}
        return LabelTable(self._path, self._names, self._texts, other_names=others, remarks=remarks)


def _records(stream: Stream, place: Place) -> Iterator[tuple[int, Any]]:
    name = bare_name(stream.name)
    if stream.start.startswith(b"PK\x03\x04"):
        yield from _excel_records(place)
        return
    if place.inside is not None:
        raise UsageError(f"{place.path}{INSIDE}{place.inside}: only Excel files and vocabularies have parts to choose")
    stream.require_text()
    if stream.head.lstrip()[:1] == b"{":
        from longtail.read.jsonl import objects

        yield from objects(stream)
    elif _ANNIF.match(stream.first_line):
        yield from _annif_records(stream)
    elif name.endswith((".csv", ".tsv", ".tab")):
        from longtail.read.csv import TableRows

        table = TableRows(stream, [])
        for line, row in table.rows():
            yield line, row if isinstance(row, RecordError) else dict(zip(table.header, row, strict=True))
    else:
        yield from _plain_records(stream)


def _excel_records(place: Place) -> Iterator[tuple[int, Any]]:
    from longtail.read.excel import sheet_rows
    from longtail.read.options import ReadOptions
    from longtail.read.reading import Reading, ReadReport

    reading = Reading(ReadOptions(), ReadReport(str(place.path)), read_labels, inside=place.inside)
    rows = sheet_rows(place.path, reading, documents=False)
    _, header = next(rows)
    for line, row in rows:
        yield line, {name: cell for name, cell in zip(header, row, strict=False) if name}


def _annif_records(stream: Stream) -> Iterator[tuple[int, Any]]:
    """Lines `<uri>`, a tab, the label, and what else follows."""
    for line, content in _decoded(stream):
        uri, tab, rest = content.partition("\t")
        match = _URI.fullmatch(uri.strip())
        if content.strip() and not (match and tab):
            yield line, RecordError("expected <uri>, a tab, and the label")
        elif match:
            yield line, {"label": match[1], "text": rest.partition("\t")[0].strip()}


def _plain_records(stream: Stream) -> Iterator[tuple[int, Any]]:
    """A name per line; blank lines may only end the file."""
    blank = 0
    for line, content in _decoded(stream):
        label = content.strip()
        if label and blank:
            yield blank, RecordError("a blank line between labels")
        if label:
            yield line, {"label": label}
        else:
            blank = blank or line


def _decoded(stream: Stream) -> Iterator[tuple[int, str]]:
    for line, content in stream.lines():
        try:
            yield line, stream.decode(content)
        except ValueError as wrong:
            raise InputError(stream.name, str(wrong), line) from None


def _entry(record: Any, text_fields: tuple[str, ...] | None) -> tuple[str, str]:
    if isinstance(record, RecordError):
        raise record
    if not isinstance(record, dict):
        raise RecordError(f"expected an object with a label and its text, found {kind_of(record)}")
    given = next((field for field in NAME_FIELDS if record.get(field) is not None), None)
    fields = text_fields or tuple(field for field in TEXT_FIELDS if field in record)[:1]
    if not text_fields and not fields:
        given, fields = _usual(record, given)
    if given is None:
        raise RecordError(missing_field("label", record))
    name = label_name(record[given], given)
    match = _URI.fullmatch(name)
    return match[1] if match else name, joined_text(record, tuple(field for field in fields if field in record))


def _usual(record: Mapping[str, Any], given: str | None) -> tuple[str | None, tuple[str, ...]]:
    """Name and text of a line that has no text by its usual name: an id and a name, if there are both."""
    folded = {str(field).strip().lower().replace(" ", ""): field for field in record}
    ids = [folded[name] for name in _ID_NAMES if name in folded and record[folded[name]] not in (None, "")]
    # Annif's files have a name for each language: label_en, label_fi
    named = [folded[name] for name in _TEXT_NAMES if name in folded]
    named += [field for name, field in folded.items() if re.fullmatch(r"(?:pref)?label[_@][a-z]{2}", name)]
    if ids and named:
        return ids[0], (named[0],)
    return given or next(iter(named), None), ()
