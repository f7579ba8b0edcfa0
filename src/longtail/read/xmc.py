"""The text format of the XMC repository: a header `N D L`, then `l1,l2 f1:v1 f2:v2` a line; features, no text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail.corpus import Corpus
from longtail.errors import InputError
from longtail.labels import LabelIndex
from longtail.read.builder import LabelTable, Options, ReadReport, RecordError, complete
from longtail.read.open import Stream, decode
from longtail.sparse import starts_of

#: Every label gets a name and a count before the first line is read; a header above this is taken for a lie.
MOST_LABELS = 100_000_000
MOST_FEATURES = 2**31 - 1

_HEADER = re.compile(rb"[ \t]*(\d{1,18})[ \t]+(\d{1,18})(?:[ \t]+(\d{1,18}))?[ \t\r]*")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


@dataclass(frozen=True)
class Rows:
    """Parsed lines: labels csr float32 (n, L), features csr float32 (n, D), the record number and line of each row."""

    labels: sp.csr_matrix
    features: sp.csr_matrix
    records: NDArray[np.int64]


def header_of(line: bytes) -> tuple[int, ...] | None:
    """The two or three whole numbers of a header line, else None."""
    match = _HEADER.fullmatch(line)
    return None if match is None else tuple(int(group) for group in match.groups() if group is not None)


def read_xmc(stream: Stream, options: Options, report: ReadReport, table: LabelTable | None = None) -> Corpus:
    """Columns are those of the file; the lines of a labels file name them, else they are called by their number."""
    header = header_of(stream.head.split(b"\n", 1)[0])
    if header is None or len(header) != 3:
        raise InputError(stream.name, "the first line must be the header: documents, features, labels", 1)
    n, n_features, n_labels = header
    if table is not None and len(table.names) != n_labels:
        raise InputError(table.path, f"{len(table.names)} labels, but the header of {stream.name} says {n_labels}")
    rows = read_rows(stream, n, n_features, n_labels, options, report)
    report.documents = len(rows.records)
    report.require_documents()
    names: Sequence[str] = [str(column) for column in range(n_labels)] if table is None else table.names
    report.unlabelled = int((np.diff(rows.labels.indptr) == 0).sum())
    report.empty_texts = int((np.diff(rows.features.indptr) == 0).sum())
    corpus = Corpus(
        labels=LabelIndex(names, None if table is None else table.texts),
        Y=rows.labels,
        X=rows.features,
        ids=[str(record) for record in rows.records],
        name=report.source,
    )
    return complete(corpus, report, options)


def read_rows(stream: Stream, n: int, n_features: int, n_labels: int, options: Options, report: ReadReport) -> Rows:
    """The n lines behind the header of a file that says it has n_features and n_labels."""
    from longtail.read.xmc_kernel import parse_lines

    if n_features > MOST_FEATURES or n_labels > MOST_LABELS:
        raise InputError(stream.name, "the header's numbers are too large to be true", 1)
    label_ids, label_lengths = _Pieces(np.int32), _Pieces(np.int32)
    feature_ids, values, feature_lengths = _Pieces(np.int32), _Pieces(np.float32), _Pieces(np.int32)
    bad_rows: list[int] = []
    read = 0  # records so far, good and bad
    line = 2
    skip_header = True
    for block in stream.blocks_of_lines():
        start = block.index(b"\n") + 1 if skip_header else 0
        skip_header = False
        data = np.frombuffer(block, dtype=np.uint8)
        colons, lines = block.count(b":"), block.count(b"\n")
        arrays = (
            np.empty(block.count(b",") + lines, dtype=np.int32),
            np.empty(lines, dtype=np.int32),
            np.empty(colons, dtype=np.int32),
            np.empty(colons, dtype=np.float32),
            np.empty(lines, dtype=np.int32),
        )
        while start < len(block):
            stop, rows, labels, features = parse_lines(data, start, n - read, n_features, n_labels, *arrays)
            for pieces, filled, count in zip(
                (label_ids, label_lengths, feature_ids, values, feature_lengths),
                arrays,
                (labels, rows, features, features, rows),
                strict=True,
            ):
                pieces.add(filled[:count].copy())
            read += rows
            line += rows
            start = stop
            if start == len(block):
                break
            end = block.index(b"\n", start)
            content = block[start:end]
            start = end + 1
            if read == n:
                if content.strip():
                    raise InputError(stream.name, f"the header says {n} documents, here is one more", line)
                line += 1
                continue
            try:
                slow_labels, slow_ids, slow_values = parse_line(content, n_features, n_labels)
            except RecordError as problem:
                report.problem(str(problem), line, options.skip_bad)
                bad_rows.append(read)
            else:
                label_ids.add(np.array(slow_labels, dtype=np.int32))
                label_lengths.add(np.array([len(slow_labels)], dtype=np.int32))
                feature_ids.add(np.array(slow_ids, dtype=np.int32))
                values.add(np.array(slow_values, dtype=np.float32))
                feature_lengths.add(np.array([len(slow_ids)], dtype=np.int32))
            read += 1
            line += 1
    if read != n:
        raise InputError(stream.name, f"the header says {n} documents, the file has {read}", 1)
    records = np.delete(np.arange(n), bad_rows)
    Y, duplicates = _matrix(label_ids.all(), None, label_lengths.all(), n_labels)
    report.duplicate_labels += duplicates
    X, _ = _matrix(feature_ids.all(), values.all(), feature_lengths.all(), n_features)
    infinite = np.flatnonzero(~np.isfinite(X.data))
    if len(infinite):
        row = int(np.searchsorted(X.indptr, infinite[0], side="right")) - 1
        raise InputError(stream.name, "the values of a feature given twice add up to infinity", int(records[row]) + 2)
    return Rows(Y, X, records)


def parse_line(content: bytes, n_features: int, n_labels: int) -> tuple[list[int], list[int], list[float]]:
    """Labels, feature ids and values of one line; the slow reader whose word counts, and which says what is wrong."""
    try:
        text = decode(content)
    except ValueError as wrong:
        raise RecordError(str(wrong)) from None
    parts = [part for part in re.split(r"[ \t\r]+", text) if part]
    labels: list[int] = []
    if parts and ":" not in parts[0] and not text.startswith((" ", "\t")):
        labels = [_whole(label, "label", n_labels, "L") for label in parts.pop(0).split(",")]
    ids, values = [], []
    for part in parts:
        feature, colon, value = part.partition(":")
        if not colon:
            raise RecordError(f"'{part[:40]}' is not feature:value")
        ids.append(_whole(feature, "feature", n_features, "D"))
        if not _NUMBER.fullmatch(value):
            raise RecordError(f"feature {feature} has the value '{value[:40]}', which is not a finite number")
        with np.errstate(over="ignore"):
            number = np.float32(float(value))
        if not np.isfinite(number):
            raise RecordError(f"feature {feature} has the value {value[:40]}, too large for single precision")
        values.append(float(number))
    return labels, ids, values


def _whole(text: str, what: str, size: int, header: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise RecordError(f"'{text[:40]}' is not a {what} id (a whole number from 0)")
    if len(text) > 18 or int(text) >= size:
        raise RecordError(f"{what} {text[:40]} is out of range: the header says {header} = {size}, ids count from 0")
    return int(text)


class _Pieces:
    """Arrays that become one at the end."""

    def __init__(self, dtype: type[np.generic]) -> None:
        self._parts: list[NDArray] = [np.zeros(0, dtype=dtype)]

    def add(self, part: NDArray) -> None:
        if len(part):
            self._parts.append(part)

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
