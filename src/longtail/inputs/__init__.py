"""From what people have in Python to a corpus: texts and labels, tables, rows, query results, matrices."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from longtail.corpus import Corpus
from longtail.errors import InputError, UsageError, warn
from longtail.inputs.label_cells import LabelCells
from longtail.inputs.tables import Batch, Table, column, kind_of, rows_table, table_of, told
from longtail.read.builder import joined_text
from longtail.read.columns import BATCH, read_batches
from longtail.read.flaws import RecordError
from longtail.read.label_file import read_labels
from longtail.read.options import ID_FIELDS, ReadOptions
from longtail.read.reading import Reading, ReadReport

#: A column name, or several whose contents are put together.
Names = str | Sequence[str] | None

_NOTHING = object()

#: What readers tell people to give on the command line, and what it is called here.
_ARGUMENTS = {"--labels-field": "labels=", "--text-field": "text=", "--separator": "separator="}

_TAKEN = (
    "texts, a table (pandas, polars, Arrow, a Hugging Face Dataset, a dict of columns), rows with column names (dicts, "
    "a database cursor), a matrix of features, or a Corpus"
)


class Documents(NamedTuple):
    """Documents without labels: their texts, or their features; ids  as they were given, None where they have none"""

    texts: list[str] | None
    X: sp.csr_matrix | None = None
    ids: Sequence[Any] | None = None

    @property
    def size(self) -> int:
        return len(self.texts) if self.X is None else self.X.shape[0]  # type: ignore[arg-type]


def as_corpus(
    documents: Any,
    labels: Any = None,
    *,
    text: Names = None,
    separator: str | None = None,
    label_texts: Mapping[str, str] | None = None,
) -> Corpus:
    """A corpus of documents with labels, as people have them in Python.

    documents    texts with the labels of each beside them; or a table or rows with columns for both; or a matrix of
                 features, one row per document; or a Corpus
    labels       labels of each document (a list of names, one name, or a dict from name to weight); for tables the
                 column that holds them, "labels" unless given
    text         for tables, the column with the text, "text" unless given; several are joined by a space
    separator    cuts labels that stand in one text, as ";" does "art; music"; without it a text is one label
    label_texts  what labels are called, by name, where names are codes
    """
    corpus = _corpus(documents, labels, text, separator)
    return corpus if label_texts is None else _with_texts(corpus, label_texts)


def _with_texts(corpus: Corpus, texts: Mapping[str, str]) -> Corpus:
    if not isinstance(texts, Mapping):
        raise UsageError(f"label_texts takes a dict from label name to text, not {kind_of(texts)}")
    return replace(corpus, labels=corpus.labels.with_texts(texts))


def _corpus(documents: Any, labels: Any, text: Names, separator: str | None) -> Corpus:
    if isinstance(documents, Corpus):
        refuse(labels=labels, text=text, separator=separator, because="a Corpus has its labels already")
        return documents
    source = _source_of(documents)
    if isinstance(source, Table) and _are_names(labels):
        return _of_table(source, text, labels, separator)
    if isinstance(source, Table):  # the labels stand beside the table
        texts = _texts_of_table(source, text).texts
    else:
        refuse(text=text, because="it names a column, and there is none")
        if labels is None:
            raise UsageError("the labels are missing: give the labels of each document, as in fit(texts, labels)")
        if isinstance(labels, str):
            raise UsageError(f"labels='{labels}' names a column, and texts have none: give the labels of each document")
        texts = None if sp.issparse(source) else source
    size = source.shape[0] if texts is None else len(texts)
    corpus = _of_labels(texts, _labels_of(labels), size, separator)
    if texts is None:
        return replace(corpus, texts=None, X=source, name="the matrix")
    return corpus


def documents_of(documents: Any, text: Names) -> Documents:
    """Documents to predict, which are no corpus yet."""
    if type(documents) is list and all(type(each) is str for each in documents):
        refuse(text=text, because="it names a column, and there is none")
        return Documents(documents)
    source = _source_of(documents, empty=True)
    if isinstance(source, Table):
        return _texts_of_table(source, text)
    refuse(text=text, because="it names a column, and there is none")
    return Documents(None, source) if isinstance(source, sp.csr_matrix) else Documents(source)


def refuse(*, because: str, **given: Any) -> None:
    """No argument is taken and ignored."""
    for name, value in given.items():
        if value is not None:
            raise UsageError(f"{name} has no use here: {because}")


# what was given
def _source_of(documents: Any, *, empty: bool = False) -> Any:
    """A Table, a csr matrix of features, or a list of texts; empty  whether there may be no documents at all"""
    if isinstance(documents, str | bytes):
        raise UsageError(
            f'these are no documents but {kind_of(documents)}: a single text goes into a list, as in ["some text"]; '
            'a file is read first, as in longtail.read("articles.jsonl")'
        )
    if isinstance(documents, PathLike):
        raise UsageError(f'a file is read first: longtail.read("{documents}")')
    if sp.issparse(documents) or (isinstance(documents, np.ndarray) and documents.ndim == 2):
        return _matrix(documents)
    table = table_of(documents)
    if table is not None:
        return table
    values = column(documents)
    if values is not None:
        return _texts(["" if value is None else value for value in values], empty=empty)
    if not isinstance(documents, Iterable) or isinstance(documents, set | frozenset):
        raise UsageError(f"documents may be {_TAKEN}, not {kind_of(documents)}")
    return _of_items(documents, empty=empty)


def _of_items(items: Iterable[Any], *, empty: bool) -> Any:
    """Rows with column names, or texts, by what the first one is."""
    rest = iter(items)
    first = next(rest, _NOTHING)
    if first is _NOTHING:
        return _texts([], empty=empty)
    if isinstance(first, str):
        return _texts([first, *rest], empty=empty)
    table = rows_table(chain([first], rest))
    if table is not None:
        return table
    if isinstance(first, list | tuple):
        raise UsageError(
            "the rows have no column names: give the cursor itself, dicts, or texts and labels apart as in "
            "fit(texts, labels)"
        )
    raise UsageError(f"document 0 is {kind_of(first)}, not a text; documents may be {_TAKEN}")


def _texts(values: list[Any], *, empty: bool) -> list[str]:
    for number, value in enumerate(values):
        if not isinstance(value, str):
            raise UsageError(f"document {number} is {kind_of(value)}, not a text")
    if not values and not empty:
        raise UsageError("there are no documents")
    return values


def _matrix(given: Any) -> sp.csr_matrix:
    if given.dtype.kind not in "fiub":
        raise UsageError(f"a matrix of features holds numbers, and this is {kind_of(given)}; texts go into a list")
    return sp.csr_matrix(given, dtype=np.float32)


def _are_names(labels: Any) -> bool:
    """Whether the labels of a table are given as names of columns."""
    return labels is None or isinstance(labels, str) or (
        isinstance(labels, list | tuple) and bool(labels) and all(isinstance(name, str) for name in labels)
    )  # fmt: skip


def _labels_of(labels: Any) -> list[Any]:
    """The labels of each document, in a list."""
    if sp.issparse(labels) or getattr(labels, "ndim", 1) == 2:
        raise UsageError(
            'labels are names, as in [["art", "music"], ["art"]], and this is a matrix; LongtailClassifier takes one'
        )
    values = column(labels)
    if values is not None:
        return values
    if not isinstance(labels, Iterable) or isinstance(labels, str | set | frozenset | Mapping):
        raise UsageError(f"labels takes the labels of each document, one after the other, not {kind_of(labels)}")
    return list(labels)


# corpora
def _of_labels(texts: list[str] | None, labels: list[Any], size: int, separator: str | None) -> Corpus:
    """Texts, or documents that have none, with the labels of each."""
    if size != len(labels):
        raise UsageError(f"there are {size:,} documents and labels for {len(labels):,}")
    given = [""] * size if texts is None else texts

    def batches(wanted: Sequence[str]) -> Iterator[Batch]:
        for start in range(0, size, BATCH):
            rows = slice(start, start + BATCH)
            yield {"text": given[rows], "labels": labels[rows]}

    table = Table("the texts", ["text", "labels"], batches)
    return _of_table(table, None, None, separator, has_texts=texts is not None)


def _of_table(table: Table, text: Names, labels: Any, separator: str | None, *, has_texts: bool = True) -> Corpus:
    # who gives data by hand is warned of labels that look odd, and not stopped
    options = ReadOptions(text_field=text, labels_field=labels, separator=separator, force=True)
    _require(table, options.text_fields, "text")
    _require(table, options.labels_fields, "labels")
    idents = [name for name in ID_FIELDS if name in table.columns][:1]
    wanted = list(dict.fromkeys((*options.text_fields, *options.labels_fields, *idents)))
    cells = {name: LabelCells(separator, table.classes(name)) for name in options.labels_fields}

    def batches() -> Iterator[Batch]:
        for batch in table.batches(wanted):
            made = {name: [cells[name].labels_of(value) for value in batch[name]] for name in options.labels_fields}
            named = {name: [None if value is None else str(value) for value in batch[name]] for name in idents}
            yield {**batch, **named, **made}

    report = ReadReport(table.name)
    try:
        (corpus,) = read_batches(batches(), Reading(options, report, read_labels))
    except InputError as error:
        row = "" if error.line is None else f", row {error.line - 1}"  # as Python counts
        raise UsageError(f"{table.name}{row}: {error.reason}") from None
    for each in cells.values():
        each.check()
    report.empty_texts *= has_texts
    for line in report.summary():
        warn(re.sub("|".join(_ARGUMENTS), lambda option: _ARGUMENTS[option[0]], line))
    return corpus


def _texts_of_table(table: Table, text: Names) -> Documents:
    fields = ReadOptions(text_field=text).text_fields
    _require(table, fields, "text")
    idents = [name for name in ID_FIELDS if name in table.columns][:1]
    texts: list[str] = []
    ids: list[Any] = []
    for batch in table.batches(list(dict.fromkeys((*fields, *idents)))):
        for values in zip(*(batch[name] for name in fields), strict=True):
            try:
                texts.append(joined_text(dict(zip(fields, values, strict=True)), fields))
            except RecordError as error:
                raise UsageError(f"{table.name}, row {len(texts)}: {error}") from None
        for name in idents:
            ids += batch[name]
    return Documents(texts, ids=ids if idents else table.index)


def _require(table: Table, names: Sequence[str], argument: str) -> None:
    for name in names:
        if list(table.columns).count(name) == 1:
            continue
        if name in table.columns:
            raise UsageError(f"two columns of {table.name} are called '{name}'")
        raise UsageError(f"no column '{name}' in {table.name}; {told(table.columns)}: name one with {argument}=")
