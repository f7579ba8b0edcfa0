"""Collecting documents into a corpus, and what may stand in the fields of a record."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail.corpus import Corpus
from longtail.errors import InputError
from longtail.labels import LabelIndex
from longtail.read.augmented import masked_labels, source_of, with_marks, with_origins
from longtail.read.flaws import RecordError
from longtail.read.label_table import LabelTable
from longtail.read.options import ID_FIELDS
from longtail.read.reading import Reading
from longtail.read.separators import split_cell
from longtail.texts import Packing

#: Characters of a batch's texts, at most but for the last one: long documents come in smaller batches.
MOST_CHARACTERS = 1 << 24

#: Below this a weight is 0 in single precision.
_SMALLEST_WEIGHT = float(np.finfo(np.float32).tiny)


class Builder:
    """Collects documents one by one; columns are the sorted label names.

    A reader adds a document and, where `full` says so, yields what `taken` gives; at the end it yields from `rest`.

    columns  a labels file whose lines are the columns instead
    """

    def __init__(self, reading: Reading, columns: LabelTable | None = None) -> None:
        self.reading, self.report, self.options = reading, reading.report, reading.options
        self._fixed = columns
        # a bad labels file is found before the documents; nobody asks for the labels of batches
        wanted = columns is None and reading.batch is None and not reading.shared
        self._table = reading.table if wanted else None
        self._most = sys.maxsize if reading.batch is None else reading.batch
        self.records = 0  # good and bad: the row number that stands in for an id
        self._bad: list[int] = []  # row numbers of those left out
        self._batches = 0  # given so far
        self._begin()

    def _begin(self) -> None:
        """Room for the next documents."""
        self._texts: list[str] = []
        self._ids = Packing()
        self._characters = 0
        self._codes: dict[str, int] = {}
        self._columns = array("i")
        self._weights = array("f")
        self._ends = array("q", [0])
        self._masked: dict[int, list[str]] = {}  # labels that count neither way, by row

    @property
    def full(self) -> bool:
        """Whether a batch is complete; never where all documents are read at once."""
        return len(self._texts) >= self._most or (self._characters >= MOST_CHARACTERS and self._most < sys.maxsize)

    @property
    def kept(self) -> NDArray[np.int64]:
        """Row numbers of the documents kept."""
        return np.delete(np.arange(self.records), self._bad)

    def add(self, record: Any, line: int) -> None:
        """One record, a mapping from field to value; a bad one raises InputError or is counted."""
        try:
            if isinstance(record, RecordError):
                raise record
            if not isinstance(record, Mapping):
                raise RecordError(f"expected an object with fields, found {kind_of(record)}")
            text = joined_text(record, self.options.text_fields)
            targets, given = self._targets(record)
            ident = document_id(record, self.reading.rows_before + self.records, self.reading.id_fields)
            source = source_of(record) if self.reading.batch is None else None
            if source is not None:
                self._masked[len(self._texts)] = masked_labels(record, targets)
                self.report.made_from[len(self._texts)] = source
        except RecordError as problem:
            self.bad(str(problem), line)
            return
        self.add_document(text, targets, given, ident)

    def bad(self, message: str, line: int | None) -> None:
        if self.reading.batch is None:
            self._bad.append(self.records)
        self.records += 1
        self.report.problem(message, line, self.options.skip_bad)

    def add_document(self, text: str, targets: Mapping[str, float], given: int, ident: str | None = None) -> None:
        """A document that was checked already: weight of each label, and how many were given before equal ones
        became one. Without an id the row number is its id."""
        codes = self._codes
        self.append(text, ident, [codes.setdefault(name, len(codes)) for name in targets], targets.values(), given)

    def append(
        self, text: str, ident: str | None, columns: Sequence[int], weights: Iterable[float], given: int
    ) -> None:
        """As `add_document`, with labels that are numbers of columns already."""
        self._texts.append(text)
        self._characters += len(text)
        self._ids.append(str(self.reading.rows_before + self.records) if ident is None else ident)
        self._columns.extend(columns)
        self._weights.extend(weights)
        self._ends.append(len(self._columns))
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

    def rest(self) -> Iterator[Corpus]:
        """The last batch, which is the only one where all documents are read at once."""
        if not self.reading.shared:
            self.report.require_documents()
        if len(self._texts) or not self._batches:
            yield self.taken()

    def taken(self) -> Corpus:
        """The documents since the last batch."""
        self._batches += 1
        columns = np.frombuffer(self._columns, dtype=np.int32) if len(self._columns) else np.zeros(0, np.int32)
        weights = np.frombuffer(self._weights, dtype=np.float32) if len(self._weights) else np.zeros(0, np.float32)
        if self._fixed is not None:
            labels = LabelIndex(self._fixed.names, self._fixed.texts)
        else:
            names = sorted(self._codes)
            renumber = np.empty(len(names), dtype=np.int32)
            renumber[[self._codes[name] for name in names]] = np.arange(len(names), dtype=np.int32)
            columns = renumber[columns]
            table = self._table
            labels = LabelIndex(names, None if table is None else table.texts_of(names, self.report, self._texts))
        ends = np.array(self._ends, dtype=np.int64)
        Y = sp.csr_matrix((weights, columns, ends), shape=(len(self._ids), len(labels)))
        Y.sort_indices()
        corpus = Corpus(labels=labels, Y=Y, texts=self._texts, ids=self._ids.packed(), name=self.report.source)
        corpus = with_marks(corpus, self.report.made_from, self._masked)
        self._begin()
        return complete(corpus, self.reading)


def complete(corpus: Corpus, reading: Reading) -> Corpus:
    """Last check of every reader, and the label counts of the corpus read."""
    if reading.options.need_labels and corpus.Y.nnz == 0 and not reading.shared:
        raise InputError(reading.report.source, "no document has a label")
    if corpus.Y.nnz == 0 and reading.batch is None:
        reading.report.unlabelled = 0  # nobody asked for labels, so nobody misses them
    if reading.shared:
        return corpus.counted()
    if reading.batch is None and not reading.report.made_from:
        reading.report.repeated_ids = _repeated(corpus.ids or ())
    return with_origins(corpus, reading.report.made_from).counted()


def _repeated(ids: Sequence[str]) -> int:
    """How many are equal to one before them; by hashes, which take less room than a set of all."""
    hashes = np.sort(np.fromiter(map(hash, ids), dtype=np.int64, count=len(ids)))
    return int((hashes[1:] == hashes[:-1]).sum())


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


def document_id(record: Mapping[str, Any], row: int, fields: Sequence[str] = ID_FIELDS) -> str:
    """The first id field that is filled, else the row number from 0."""
    for name in fields:
        value = record.get(name)
        if value is not None and value != "":
            if type(value) not in (str, int):
                if name not in ID_FIELDS:  # a guess, and a wrong one
                    continue
                raise RecordError(f"field '{name}' must be text or a whole number, found {kind_of(value)}")
            return str(value)
    return str(row)


def targets_of(value: Any, name: str, separator: str | None) -> tuple[dict[str, float], int]:
    """Weight of each label, and how many were given: equal ones are one label, the largest weight counts.

    A list of names, or an object from name to weight in (0, 1]. A text is cut at the separator if there is one, and a
    whole number is then a label.
    """
    if separator is not None and type(value) is str:
        value = split_cell(value, separator)
    elif separator is not None and type(value) is int:
        value = [value]
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
                raise RecordError(f"label '{label}' has weight {shown}; weights must be above 0 and at most 1")
            key = label_name(label, name)
            targets[key] = max(targets.get(key, 0.0), float(weight))
        return targets, len(value)
    if type(value) is str:
        raise RecordError(
            f"field '{name}' is text, not a list; write [\"{value[:40]}\"], or give a separator to split the text at"
        )
    raise RecordError(f"field '{name}' must be a list of labels, found {kind_of(value)}")


def label_name(label: Any, name: str = "labels") -> str:
    if type(label) is str:
        if not label or label.isspace():
            raise RecordError(f"field '{name}' has an empty label")
        return label
    if type(label) is int:
        return str(label)
    raise RecordError(f"field '{name}' must hold text or whole numbers, found {kind_of(label)}")


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
