"""What all readers share: options, the report on what was read, and the collecting of documents into a corpus."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import scipy.sparse as sp

from longtail.corpus import Corpus
from longtail.errors import InputError
from longtail.labels import LabelIndex
from longtail.run import Run

#: Fields that may hold a document's id, the first that is there counts.
ID_FIELDS = ("id", "uid", "_id")

#: Messages about bad lines kept in the report.
PROBLEMS_KEPT = 5

#: Below this a weight is 0 in single precision.
_SMALLEST_WEIGHT = float(np.finfo(np.float32).tiny)


class RecordError(Exception):
    """One thing wrong with one record; becomes an InputError, or a count under `skip_bad`."""


@dataclass(frozen=True)
class Options:
    """How a file is to be read; see `longtail.read.read` for the meaning of each."""

    text_fields: tuple[str, ...] = ("text",)
    labels_fields: tuple[str, ...] = ("labels",)
    separator: str | None = None
    skip_bad: bool = False
    need_labels: bool = True
    labels: Path | None = None
    split: str | None = None
    run: Run = field(default_factory=Run)

    @property
    def fields(self) -> tuple[str, ...]:
        """All fields that are looked at, for formats that read column by column."""
        return tuple(dict.fromkeys((*self.text_fields, *self.labels_fields, *ID_FIELDS)))

    @property
    def required(self) -> tuple[str, ...]:
        """Fields that must be there."""
        return (*self.text_fields, *(self.labels_fields if self.need_labels else ()))


@dataclass
class ReadReport:
    """What was found in a file.

    documents         kept
    skipped           bad records left out (only with `skip_bad`)
    problems          the first few of their messages
    empty_texts       documents kept although they have no text, or no features where the file gives features
    unlabelled        documents kept although they have no label
    duplicate_labels  labels given once more to a document that has them already
    notes             what looks odd but is no error
    """

    source: str
    format: str = ""
    documents: int = 0
    skipped: int = 0
    problems: list[str] = field(default_factory=list)
    empty_texts: int = 0
    unlabelled: int = 0
    duplicate_labels: int = 0
    notes: list[str] = field(default_factory=list)

    def summary(self) -> list[str]:
        """Lines for a person; none when there is nothing to say."""
        said = []
        if self.skipped:
            said.append(f"{self.source}: {self.skipped} bad lines skipped, the first: {self.problems[0]}")
        counts = {
            "documents without text": self.empty_texts,
            "documents without labels": self.unlabelled,
            "labels given twice to one document": self.duplicate_labels,
        }
        found = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
        if found:
            said.append(f"{self.source}: {found}")
        return [*said, *(f"{self.source}: {note}" for note in self.notes)]

    def problem(self, message: str, line: int | None, skip: bool) -> None:
        """Raises, or counts, a problem with one record."""
        error = InputError(self.source, message, line)
        if not skip:
            raise error
        self.skipped += 1
        if len(self.problems) < PROBLEMS_KEPT:
            self.problems.append(str(error))

    def require_documents(self) -> None:
        if self.documents:
            return
        if self.skipped:
            raise InputError(self.source, f"all {self.skipped} documents are bad, the first: {self.problems[0]}")
        raise InputError(self.source, "no documents in the file")


@dataclass(frozen=True)
class LabelTable:
    """The lines of a labels file: names and texts in file order."""

    path: str
    names: Sequence[str]
    texts: Sequence[str]

    def texts_of(self, names: Sequence[str], report: ReadReport) -> list[str]:
        """Text of each name, "" for those the file does not list."""
        known = dict(zip(self.names, self.texts, strict=True))
        missing = sum(name not in known for name in names)
        if missing:
            which = "none" if missing == len(names) else f"{len(names) - missing}"
            report.notes.append(f"{which} of {len(names)} labels are listed in {self.path}; the others have no text")
        return [known.get(name, "") for name in names]


class Builder:
    """Collects documents one by one; columns are the sorted label names, or those of a fixed table."""

    def __init__(self, report: ReadReport, options: Options) -> None:
        self.report, self.options = report, options
        self._texts: list[str] = []
        self._ids: list[str] = []
        self._codes: dict[str, int] = {}
        self._columns = array("i")
        self._weights = array("f")
        self._ends = array("q", [0])
        self.records = 0  # good and bad: the row number that stands in for an id
        self.kept: list[int] = []  # row numbers of the documents kept

    def add(self, record: Any, line: int) -> None:
        """One record, a mapping from field to value; a bad one raises InputError or is counted."""
        try:
            if not isinstance(record, Mapping):
                raise RecordError(f"expected an object with fields, found {kind_of(record)}")
            text = joined_text(record, self.options.text_fields)
            targets, given = self._targets(record)
            ident = document_id(record, self.records)
        except RecordError as problem:
            self.bad(str(problem), line)
            return
        codes = self._codes
        self.append(text, ident, [codes.setdefault(name, len(codes)) for name in targets], targets.values(), given)

    def bad(self, message: str, line: int | None) -> None:
        self.records += 1
        self.report.problem(message, line, self.options.skip_bad)

    def append(
        self, text: str, ident: str | None, columns: Sequence[int], weights: Iterable[float], given: int
    ) -> None:
        """A document that was checked already; `given` is its number of labels before equal ones became one."""
        self._texts.append(text)
        self._ids.append(str(self.records) if ident is None else ident)
        self._columns.extend(columns)
        self._weights.extend(weights)
        self._ends.append(len(self._columns))
        self.kept.append(self.records)
        self.records += 1
        report = self.report
        report.documents += 1
        report.empty_texts += not text or text.isspace()
        report.unlabelled += not columns
        report.duplicate_labels += given - len(columns)

    def _targets(self, record: Mapping[str, Any]) -> tuple[dict[str, float], int]:
        """Labels of all label fields together; the largest weight counts."""
        joined: dict[str, float] = {}
        total = 0
        for name in self.options.labels_fields:
            if name not in record:
                if self.options.need_labels:
                    raise RecordError(missing_field(name, record))
                continue
            targets, given = targets_of(record[name], name, self.options.separator)
            total += given
            if not joined:
                joined = targets
            else:
                for label, weight in targets.items():
                    joined[label] = max(joined.get(label, 0.0), weight)
        return joined, total

    def finish(self, table: LabelTable | None = None, *, fixed: LabelTable | None = None, texts: bool = True) -> Corpus:
        """The corpus; `table` gives label texts, `fixed` the columns themselves."""
        self.report.require_documents()
        columns = np.frombuffer(self._columns, dtype=np.int32) if len(self._columns) else np.zeros(0, np.int32)
        weights = np.frombuffer(self._weights, dtype=np.float32) if len(self._weights) else np.zeros(0, np.float32)
        if fixed is not None:
            labels = LabelIndex(fixed.names, fixed.texts)
        else:
            names = sorted(self._codes)
            renumber = np.empty(len(names), dtype=np.int32)
            renumber[[self._codes[name] for name in names]] = np.arange(len(names), dtype=np.int32)
            columns = renumber[columns]
            labels = LabelIndex(names, None if table is None else table.texts_of(names, self.report))
        ends = np.array(self._ends, dtype=np.int64)
        Y = sp.csr_matrix((weights.copy(), columns.copy(), ends), shape=(len(self._ids), len(labels)))
        Y.sort_indices()
        return complete(
            Corpus(labels=labels, Y=Y, texts=self._texts if texts else None, ids=self._ids, name=self.report.source),
            self.report,
            self.options,
        )


def complete(corpus: Corpus, report: ReadReport, options: Options) -> Corpus:
    """Last check of every reader, and the label counts of the corpus read."""
    if options.need_labels and corpus.Y.nnz == 0:
        raise InputError(report.source, "no document has a label")
    if corpus.Y.nnz == 0:
        report.unlabelled = 0  # nobody asked for labels, so nobody misses them
    return corpus.counted()


def joined_text(record: Mapping[str, Any], fields: tuple[str, ...]) -> str:
    """The text fields joined by a space; null and empty ones add nothing."""
    parts = []
    for name in fields:
        try:
            value = record[name]
        except KeyError:
            raise RecordError(missing_field(name, record)) from None
        if type(value) is str:
            parts.append(value)
        elif value is not None:
            raise RecordError(f"field '{name}' must be text, found {kind_of(value)}")
    return parts[0] if len(parts) == 1 else " ".join(part for part in parts if part)


def document_id(record: Mapping[str, Any], row: int) -> str:
    """The first id field that is filled, else the row number from 0."""
    for name in ID_FIELDS:
        value = record.get(name)
        if value is not None and value != "":
            if type(value) not in (str, int):
                raise RecordError(f"field '{name}' must be a text or a whole number, found {kind_of(value)}")
            return str(value)
    return str(row)


def targets_of(value: Any, name: str, separator: str | None) -> tuple[dict[str, float], int]:
    """Weight of each label, and how many were given: equal ones are one label, the largest weight counts.

    A list of names, or an object from name to weight in (0, 1]. A text is cut at the separator if there is one.
    """
    if type(value) is str and separator is not None:
        value = split_cell(value, separator)
    if value is None:
        return {}, 0
    targets: dict[str, float] = {}
    if type(value) is list:
        for label in value:
            targets[label_name(label, name)] = 1.0
        return targets, len(value)
    if type(value) is dict:
        for label, weight in value.items():
            if type(weight) not in (float, int) or not _SMALLEST_WEIGHT <= weight <= 1:
                shown = weight if type(weight) in (float, int) else kind_of(weight)
                raise RecordError(f"label '{label}' has weight {shown}; weights lie above 0 and at most at 1")
            key = label_name(label, name)
            targets[key] = max(targets.get(key, 0.0), float(weight))
        return targets, len(value)
    if type(value) is str:
        raise RecordError(
            f"field '{name}' is a text, not a list; write [\"{value[:40]}\"], or give a separator that cuts the text"
        )
    raise RecordError(f"field '{name}' must be a list of labels, found {kind_of(value)}")


def label_name(label: Any, name: str = "labels") -> str:
    if type(label) is str:
        if not label or label.isspace():
            raise RecordError(f"field '{name}' has an empty label")
        return label
    if type(label) is int:
        return str(label)
    raise RecordError(f"field '{name}' must hold texts or whole numbers, found {kind_of(label)}")


def split_cell(cell: str, separator: str) -> Any:
    """Labels of a cell of a table: a JSON list or object if it looks like one, else names between separators."""
    cell = cell.strip()
    if not cell:
        return None
    if (cell[0], cell[-1]) in (("[", "]"), ("{", "}")):
        try:
            return orjson.loads(cell)
        except orjson.JSONDecodeError:
            raise RecordError(
                f"the labels {cell[:40]} look like a list but are not JSON (names go in double quotes)"
            ) from None
    return [part.strip() for part in cell.split(separator)]


def missing_field(name: str, record: Iterable[str]) -> str:
    there = ", ".join(f"'{key}'" for key in list(record)[:12])
    return f"no field '{name}'; there is {there}" if there else f"no field '{name}'; there are no fields at all"


def kind_of(value: Any) -> str:
    """What a JSON value is, for a person."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return f"the number {value}"
    if isinstance(value, str):
        return f"the text '{value[:30]}'"
    if isinstance(value, list | tuple):
        return "a list"
    return "an object" if isinstance(value, Mapping) else f"a value of type {type(value).__name__}"
