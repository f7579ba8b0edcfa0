"""The text format of the XMC repository: a header `N D L`, then `l1,l2 f1:v1 f2:v2` per line; features, no text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from longtail.corpus import Corpus
from longtail.errors import InputError
from longtail.keep.streams import Stream, decode
from longtail.labels import LabelIndex
from longtail.read.builder import complete
from longtail.read.flaws import RecordError
from longtail.read.options import ReadOptions
from longtail.read.reading import Reading
from longtail.sparse import starts_of
from longtail.texts import PackedTexts

#: Every label gets a name and a count, whether or not a document has it; a header above this is taken to be wrong.
MOST_LABELS = 100_000_000
MOST_FEATURES = 2**31 - 1

_HEADER = re.compile(rb"[ \t]*(\d{1,18})[ \t]+(\d{1,18})(?:[ \t]+(\d{1,18}))?[ \t\r]*")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


class Header(NamedTuple):
    """What the first line says."""

    documents: int
    features: int
    labels: int


class Parsed(NamedTuple):
    """Room for what lines hold: label ids and feature ids with their values one after the other, and how many of
    them each line has."""

    label_ids: NDArray[np.int32]
    label_lengths: NDArray[np.int32]
    feature_ids: NDArray[np.int32]
    values: NDArray[np.float32]
    feature_lengths: NDArray[np.int32]


@dataclass(frozen=True)
class NumberedRows:
    """Parsed lines: labels csr float32 (n, L), features csr float32 (n, D), the record number and line of each row."""

    labels: sp.csr_matrix
    features: sp.csr_matrix
    records: NDArray[np.int64]


def header_of(line: bytes) -> tuple[int, ...] | None:
    """The two or three whole numbers of a header line, else None."""
    match = _HEADER.fullmatch(line)
    return None if match is None else tuple(int(group) for group in match.groups() if group is not None)


def is_xmc(stream: Stream, _: ReadOptions) -> bool:
    header = header_of(stream.first_line)
    return header is not None and len(header) == 3


def read_xmc(stream: Stream, reading: Reading) -> Iterator[Corpus]:
    """Columns are those of the file; the lines of a labels file name them, else they are called by their number."""
    numbers = header_of(stream.first_line)
    if numbers is None or len(numbers) != 3:
        raise InputError(stream.name, "the first line must be the header: documents, features, labels", 1)
    header = Header(*numbers)
    require_all_labels(header.labels, reading, f"the header of {stream.name}")
    labels: LabelIndex | None = None
    for rows in read_rows(stream, header, reading):
        count_documents(rows.labels, rows.features, reading)
        labels = labels or column_labels(header.labels, reading)
        ids = PackedTexts.of(map(str, (rows.records + reading.rows_before).tolist()))
        corpus = Corpus(labels=labels, Y=rows.labels, X=rows.features, ids=ids, name=reading.report.source)
        yield complete(corpus, reading)


def require_all_labels(n_labels: int, reading: Reading, source: str) -> None:
    """The labels file, if there is one, must name every column.

    source  where the number of labels comes from, for messages
    """
    table = reading.table
    if table is not None and len(table.names) != n_labels:
        raise InputError(table.path, f"{len(table.names)} labels, but {source} says {n_labels}")


def column_labels(n_labels: int, reading: Reading) -> LabelIndex:
    """Names and texts of numbered columns, by the lines of the labels file; else they are called by their number."""
    if n_labels > MOST_LABELS:
        raise InputError(reading.report.source, "the header's numbers are implausibly large", 1)
    table = reading.table
    if table is None:
        return LabelIndex([str(column) for column in range(n_labels)])
    return LabelIndex(table.names, table.texts)


def count_documents(Y: sp.csr_matrix, X: sp.csr_matrix, reading: Reading) -> None:
    """Reports the documents, and those without labels or features."""
    report = reading.report
    report.documents += Y.shape[0]
    report.require_documents()
    report.unlabelled += int((np.diff(Y.indptr) == 0).sum())
    report.empty_texts += int((np.diff(X.indptr) == 0).sum())


def read_rows(stream: Stream, header: Header, reading: Reading) -> Iterator[NumberedRows]:
    """The lines after the header, all at once or in batches of about as many as asked for."""
    if header.features > MOST_FEATURES or header.labels > MOST_LABELS:
        raise InputError(stream.name, "the header's numbers are implausibly large", 1)
    lines = _Lines(stream.name, header, reading)
    first = True
    for block in stream.blocks_of_lines():
        lines.take(block, start=block.index(b"\n") + 1 if first else 0)
        first = False
        if reading.batch is not None and len(lines) >= reading.batch:
            rows = lines.taken()
            if len(rows.records):  # all may be bad
                yield rows
    lines.require_all()
    rows = lines.taken()
    if len(rows.records) or not reading.report.documents:
        yield rows


class _Lines:
    """Reads lines as they come, and gathers what they hold."""

    def __init__(self, source: str, header: Header, reading: Reading) -> None:
        self._source, self._header, self._reading = source, header, reading
        self._read = 0  # records so far, good and bad
        self._line = 2  # the number of the next line
        self._begin()

    def _begin(self) -> None:
        """Room for the next lines."""
        self._pieces = [_Pieces(array.dtype) for array in _room(b"")]
        self._first = self._read
        self._bad: list[int] = []  # records left out

    def __len__(self) -> int:
        """Records gathered since the last batch, good and bad."""
        return self._read - self._first

    def take(self, block: bytes, start: int) -> None:
        """Whole lines, from `start` on."""
        from longtail.read.xmc_kernel import parse_lines

        data = np.frombuffer(block, dtype=np.uint8)
        room = _room(block)
        n, n_features, n_labels = self._header
        while start < len(block):
            start, rows, labels, features = parse_lines(data, start, n - self._read, n_features, n_labels, room)
            counts = (labels, rows, features, features, rows)
            for pieces, filled, count in zip(self._pieces, room, counts, strict=True):
                pieces.add(filled[:count].copy())
            self._read += rows
            self._line += rows
            if start < len(block):
                end = block.index(b"\n", start)
                self._take_slowly(block[start:end])
                start = end + 1
                self._line += 1

    def _take_slowly(self, content: bytes) -> None:
        """A line that the kernel leaves alone."""
        n, n_features, n_labels = self._header
        if self._read == n:
            if content.strip():
                raise InputError(self._source, f"the header says {n} documents, here is one more", self._line)
            return
        try:
            labels, ids, values = parse_line(content, n_features, n_labels)
        except RecordError as problem:
            self._reading.report.problem(str(problem), self._line, self._reading.options.skip_bad)
            self._bad.append(self._read)
        else:
            parts: tuple[list[int] | list[float], ...] = (labels, [len(labels)], ids, values, [len(ids)])
            for pieces, part in zip(self._pieces, parts, strict=True):
                pieces.add(part)
        self._read += 1

    def require_all(self) -> None:
        n = self._header.documents
        if self._read != n:
            raise InputError(self._source, f"the header says {n} documents, the file has {self._read}", 1)

    def taken(self) -> NumberedRows:
        """The lines since the last batch."""
        _, n_features, n_labels = self._header
        records = np.delete(np.arange(self._first, self._read), np.array(self._bad, dtype=np.int64) - self._first)
        label_ids, label_lengths, feature_ids, values, feature_lengths = self._pieces
        Y, duplicates = _matrix(label_ids.all(), None, label_lengths.all(), n_labels)
        self._reading.report.duplicate_labels += duplicates
        X, _ = _matrix(feature_ids.all(), values.all(), feature_lengths.all(), n_features)
        infinite = np.flatnonzero(~np.isfinite(X.data))
        if len(infinite):
            row = int(np.searchsorted(X.indptr, infinite[0], side="right")) - 1
            raise InputError(
                self._source, "the values of a feature given twice add up to infinity", int(records[row]) + 2
            )
        self._begin()
        return NumberedRows(Y, X, records)


def _room(block: bytes) -> Parsed:
    """Arrays large enough for the lines of a block."""
    colons, lines = block.count(b":"), block.count(b"\n")
    return Parsed(
        np.empty(block.count(b",") + lines, dtype=np.int32),
        np.empty(lines, dtype=np.int32),
        np.empty(colons, dtype=np.int32),
        np.empty(colons, dtype=np.float32),
        np.empty(lines, dtype=np.int32),
    )


def parse_line(content: bytes, n_features: int, n_labels: int) -> tuple[list[int], list[int], list[float]]:
    """Labels, feature ids and values of one line; the slow reader whose word counts, and which says what is wrong."""
    try:
        text = decode(content)
    except ValueError as wrong:
        raise RecordError(str(wrong)) from None
    parts = [part for part in re.split(r"[ \t\r]+", text) if part]
    labels: list[int] = []
    if parts and ":" not in parts[0] and not text.startswith((" ", "\t")):
        labels = [_column_number(label, "label", n_labels, "L") for label in parts.pop(0).split(",")]
    ids, values = [], []
    for part in parts:
        feature, colon, value = part.partition(":")
        if not colon:
            raise RecordError(f"'{part[:40]}' is not feature:value")
        ids.append(_column_number(feature, "feature", n_features, "D"))
        if not _NUMBER.fullmatch(value):
            raise RecordError(f"feature {feature} has the value '{value[:40]}', which is not a finite number")
        with np.errstate(over="ignore"):
            number = np.float32(float(value))
        if not np.isfinite(number):
            raise RecordError(f"feature {feature} has the value {value[:40]}, too large for single precision")
        values.append(float(number))
    return labels, ids, values


def _column_number(text: str, what: str, size: int, header: str) -> int:
    """A label's or feature's number, which must be below what the header says."""
    if not (text.isascii() and text.isdigit()):
        raise RecordError(f"'{text[:40]}' is not a {what} id (a whole number from 0)")
    if len(text) > 18 or int(text) >= size:
        raise RecordError(f"{what} {text[:40]} is out of range: the header says {header} = {size}, ids count from 0")
    return int(text)


class _Pieces:
    """Arrays that become one at the end."""

    def __init__(self, dtype: np.dtype) -> None:
        self._dtype = dtype
        self._parts: list[NDArray] = [np.zeros(0, dtype=dtype)]

    def add(self, part: ArrayLike) -> None:
        self._parts.append(np.asarray(part, dtype=self._dtype))

    def all(self) -> NDArray:
        whole = np.concatenate(self._parts)
        self._parts = []
        return whole


def _matrix(
    ids: NDArray[np.int32], values: NDArray[np.float32] | None, lengths: NDArray[np.int32], width: int
) -> tuple[sp.csr_matrix, int]:
    """csr float32 (n, width) and how many entries were given twice: values add up, labels (no values) stay 1."""
    indptr = starts_of(lengths)
    data = np.ones(len(ids), dtype=np.float32) if values is None else values
    matrix = sp.csr_matrix((data, ids, indptr), shape=(len(lengths), width))
    given = matrix.nnz
    with np.errstate(over="ignore"):
        matrix.sum_duplicates()
    duplicates = given - matrix.nnz
    if values is None:
        matrix.data[:] = 1
    else:
        matrix.eliminate_zeros()
    return matrix, duplicates
