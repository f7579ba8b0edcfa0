"""The XMC repository's folders with label features: texts (trn.json, lbl.json) or sparse files (trn_X_Xf.txt)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from longtail.corpus import Corpus
from longtail.errors import InputError, UsageError
from longtail.keep.streams import Stream, bare_name, open_stream
from longtail.read.builder import (
    Builder,
    complete,
    document_id,
    joined_text,
    kind_of,
    missing_field,
)
from longtail.read.flaws import RecordError
from longtail.read.options import ReadOptions
from longtail.read.reading import Reading, ReadReport
from longtail.read.splits import XMC_SHORT, split_of
from longtail.read.xmc import Header, column_labels, count_documents, header_of, read_rows, require_all_labels

#: The texts of this layout; they stand in where no other text field is asked for.
_TEXTS = ("title", "content")


def is_xmc_folder(folder: Path, _: ReadOptions) -> bool:
    return any(find(folder, f"{short}{ending}") for short in XMC_SHORT.values() for ending in (".json", "_X_Y.txt"))


def is_xmc_json(stream: Stream, options: ReadOptions) -> bool:
    """Whether a JSONL file holds documents of this layout, and no other field is asked for its labels."""
    named = bare_name(stream.name) in [f"{short}.json" for short in XMC_SHORT.values()]
    first = stream.first_line
    return options.default_labels and (named or (first.lstrip().startswith(b"{") and b'"target_ind"' in first))


def read_xmc_folder(folder: Path, reading: Reading) -> Iterator[Corpus]:
    wanted = reading.options.split or reading.options.usual_split
    split = split_of(wanted)
    if split not in XMC_SHORT:
        raise UsageError(f"{folder} has the splits {' and '.join(XMC_SHORT)}, not '{wanted}'")
    documents = find(folder, f"{XMC_SHORT[split]}.json")
    if documents is not None:
        reading.report.source = str(documents)
        with open_stream(documents) as stream, reading.run.bar(reading.title, stream.length) as stream.bar:
            yield from read_xmc_json(stream, reading)
    else:
        yield _read_sparse(folder, split, reading)


def read_xmc_json(stream: Stream, reading: Reading) -> Iterator[Corpus]:
    """trn.json or tst.json; labels come from lbl.json beside it, reciprocal pairs from filter_labels_*.txt."""
    from longtail.read.jsonl import objects
    from longtail.read.label_file import read_labels

    path, options = Path(stream.name), reading.options
    fields = _TEXTS if options.default_text else options.text_fields
    labels_at = options.labels or find(path.parent, "lbl.json")
    if labels_at is None:
        raise InputError(path, "the labels are numbers, but there is no lbl.json beside the file to name them")
    table = read_labels(labels_at, fields)
    builder = Builder(reading, columns=table)
    for line, record in objects(stream):
        try:
            if isinstance(record, RecordError):
                raise record
            if not isinstance(record, dict):
                raise RecordError(f"expected an object with fields, found {kind_of(record)}")
            # A file of titles has no content; a field that is nowhere is a mistake.
            text = joined_text(record, tuple(f for f in fields if f in record) or fields)
            targets, given = _targets(record, len(table.names), options.need_labels)
            ident = document_id(record, reading.rows_before + builder.records)
        except RecordError as problem:
            builder.bad(str(problem), line)
            continue
        builder.append(text, ident, list(targets), targets.values(), given)
        if builder.full:
            yield builder.taken()
    for corpus in builder.rest():
        # who reads batches predicts, and has no use for pairs
        pairs = None if reading.batch else _reciprocal(path.parent, _split_of(path), corpus, builder.kept)
        yield replace(corpus, reciprocal=pairs)


def _targets(record: dict[str, Any], n_labels: int, needed: bool) -> tuple[dict[int, float], int]:
    """Weight of each label column, and how many labels were given."""
    if "target_ind" not in record:
        if needed:
            raise RecordError(missing_field("target_ind", record))
        return {}, 0
    columns = record["target_ind"]
    weights = record.get("target_rel")
    if weights is None and isinstance(columns, list):
        weights = [1.0] * len(columns)
    if not isinstance(columns, list) or not isinstance(weights, list) or len(columns) != len(weights):
        raise RecordError("'target_ind' and 'target_rel' must be lists of the same length")
    targets: dict[int, float] = {}
    for column, weight in zip(columns, weights, strict=True):
        if type(column) is not int or not 0 <= column < n_labels:
            raise RecordError(f"label {str(column)[:40]} is out of range: there are {n_labels} labels, counted from 0")
        if type(weight) not in (int, float) or not np.finfo(np.float32).tiny <= weight <= 1:
            raise RecordError(f"label {column} has the relevance {str(weight)[:40]}; it must be above 0 and at most 1")
        targets[column] = max(targets.get(column, 0.0), float(weight))
    return targets, len(columns)


def _read_sparse(folder: Path, split: str, reading: Reading) -> Corpus:
    """trn_X_Xf.txt and trn_X_Y.txt, with lbl_X_Xf.txt or Y_Yf.txt as the labels' own features if there."""
    short, report = XMC_SHORT[split], reading.report
    paths = {part: find(folder, f"{short}_X_{part}.txt") for part in ("Xf", "Y")}
    for part, path in paths.items():
        if path is None:
            raise InputError(folder, f"no {short}_X_{part}.txt, and no {short}.json")
    if reading.options.skip_bad:
        raise UsageError(f"{folder}: bad lines cannot be skipped where a document is spread over two files")
    report.source = str(paths["Y"])
    X = _sparse(paths["Xf"], reading)
    Y = _sparse(paths["Y"], reading)
    if X.shape[0] != Y.shape[0]:
        raise InputError(folder, f"{X.shape[0]} documents in {short}_X_Xf.txt, {Y.shape[0]} in {short}_X_Y.txt")
    wrong = np.flatnonzero(~((Y.data > 0) & (Y.data <= 1)))
    if len(wrong):
        line = int(np.searchsorted(Y.indptr, wrong[0], side="right")) + 1
        raise InputError(report.source, "a label's relevance must be above 0 and at most 1", line)
    count_documents(Y, X, reading)
    n, n_labels = Y.shape
    require_all_labels(n_labels, reading, report.source)
    labels = column_labels(n_labels, reading)
    own = find(folder, "lbl_X_Xf.txt") or find(folder, "Y_Yf.txt")
    label_X = None if own is None else _sparse(own, reading)
    if label_X is not None and label_X.shape != (n_labels, X.shape[1]):
        label_X = None
        report.notes.append(f"{own} does not fit the documents' features and is left out")
    corpus = Corpus(
        labels=labels,
        Y=Y,
        X=X,
        label_X=label_X,
        ids=[str(row) for row in range(n)],
        name=report.source,
    )
    corpus = replace(corpus, reciprocal=_reciprocal(folder, split, corpus, np.arange(n)))
    return complete(corpus, reading)


def _sparse(path: Path | None, reading: Reading) -> sp.csr_matrix:
    """A header `N D` and `f:v f:v` per line."""
    assert path is not None
    with open_stream(path) as stream, reading.run.bar("Reading", stream.length) as stream.bar:
        header = header_of(stream.first_line)
        if header is None or len(header) != 2:
            raise InputError(path, "the first line must be the header: rows, columns", 1)
        whole = replace(reading, report=ReadReport(str(path)), batch=None)
        (rows,) = read_rows(stream, Header(*header, labels=0), whole)
        return rows.features


def _reciprocal(folder: Path, split: str | None, corpus: Corpus, kept: np.ndarray) -> sp.csr_matrix | None:
    """Pairs `document label` of filter_labels_train.txt or filter_labels_test.txt, as csr bool (n, L)."""
    path = None if split is None else find(folder, f"filter_labels_{split}.txt")
    if path is None:
        return None
    n, n_labels = corpus.Y.shape
    total = int(kept.max()) + 1 if len(kept) else 0
    place = np.full(total, -1, dtype=np.int64)
    place[kept] = np.arange(n)
    rows, columns = [], []
    with open_stream(path) as stream:
        for line, content in stream.lines():
            if not content.strip():
                continue
            pair = header_of(content)
            if pair is None or len(pair) != 2:
                raise InputError(path, "expected two whole numbers, document and label", line)
            if pair[1] >= n_labels:
                raise InputError(path, f"label {pair[1]} is out of range: there are {n_labels}", line)
            if pair[0] >= total:
                raise InputError(path, f"document {pair[0]} is out of range: there are {total}", line)
            if place[pair[0]] >= 0:
                rows.append(place[pair[0]])
                columns.append(pair[1])
    matrix = sp.csr_matrix((np.ones(len(rows), dtype=bool), (rows, columns)), shape=(n, n_labels))
    matrix.sum_duplicates()
    return matrix


def _split_of(path: Path) -> str | None:
    """The split a documents file belongs to, by its name."""
    return split_of(bare_name(path).removesuffix(".json").removesuffix(".jsonl"))


def find(folder: Path, name: str) -> Path | None:
    """The file of that name in the folder, compressed or not."""
    return next((path for ending in ("", ".gz", ".zst") if (path := folder / f"{name}{ending}").is_file()), None)
