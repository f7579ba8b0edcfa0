"""Tables and rows that people have in memory, as batches of columns; what they come from is not imported for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from longtail.errors import UsageError
from longtail.read.columns import BATCH
from longtail.read.huggingface import is_dataset, names_of_feature
from longtail.read.options import ID_FIELDS, ReadOptions

#: Columns by name, as many values in each.
Batch = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Table:
    """Something with named columns.

    name     what messages call it
    columns  their names
    batches  the columns asked for, some rows at a time
    index    names of the rows, for tables that have some beside their columns
    classes  for label columns of numbers that stand for names, these names
    """

    name: str
    columns: Sequence[Any]
    batches: Callable[[Sequence[str]], Iterator[Batch]]
    index: Sequence[Any] | None = None
    classes: Callable[[str], Sequence[str] | None] = lambda column: None


def table_of(given: Any) -> Table | None:
    """The table that was given, whatever library it is of; None for what is no table, such as a list of texts."""
    if _of("pandas", given):
        return _pandas(given) if hasattr(given, "columns") else None
    if _of("polars", given) and hasattr(given, "collect_schema") and hasattr(given, "lazy"):
        return _polars(given)
    if hasattr(given, "description") and hasattr(given, "fetchmany"):
        return _cursor(given)
    if is_dataset(given, ReadOptions()):
        return _dataset(given)
    if hasattr(given, "__arrow_c_stream__") and (hasattr(given, "schema") or hasattr(given, "columns")):
        return _arrow(given)
    return _mapping(given) if isinstance(given, Mapping) else None


def rows_table(rows: Iterable[Any]) -> Table | None:
    """Rows with column names (dicts, sqlite3.Row, named tuples); None where the first row has none."""
    rows = iter(rows)
    first = next(rows)
    names = _names_of(first)
    if names is None:
        return None
    return Table("the rows", names, lambda wanted: _row_batches(chain([first], rows), wanted))


def column(given: Any) -> list[Any] | None:
    """The values of a Series, an Arrow array or a numpy array, None where one is missing; None for what is no such."""
    if _of("pandas", given):
        return _without_missing(given) if hasattr(given, "notna") else None
    if isinstance(given, list | tuple):
        return None
    for method in ("to_pylist", "to_list", "tolist"):
        if hasattr(given, method):
            values = getattr(given, method)()
            return values if isinstance(values, list) else None
    return None


def _of(library: str, given: Any) -> bool:
    """Whether it is an object of a library, which need not be imported to find out."""
    return any(cls.__module__.partition(".")[0] == library for cls in type(given).__mro__)


# the kinds of tables
def _pandas(frame: Any) -> Table:
    def batches(wanted: Sequence[str]) -> Iterator[Batch]:
        for start in range(0, len(frame), BATCH):
            part = frame.iloc[start : start + BATCH]
            yield {name: _without_missing(part[name]) for name in wanted}

    return Table("the DataFrame", list(frame.columns), batches, index=frame.index.tolist())


def _without_missing(series: Any) -> list[Any]:
    """Python's own values: nan, NaT and NA are None."""
    values: list[Any] = series.astype(object).where(series.notna(), None).tolist()
    return values


def _polars(frame: Any) -> Table:
    def batches(wanted: Sequence[str]) -> Iterator[Batch]:
        return _arrow_batches(frame.lazy().select(list(wanted)).collect(), wanted)

    return Table("the DataFrame", frame.collect_schema().names(), batches)


def _arrow(table: Any) -> Table:
    schema = getattr(table, "schema", None)
    columns = getattr(schema, "names", None) or getattr(table, "columns", None)
    return Table("the table", list(columns or []), lambda wanted: _arrow_batches(table, wanted))


def _arrow_batches(table: Any, wanted: Sequence[str]) -> Iterator[Batch]:
    import pyarrow

    for part in pyarrow.RecordBatchReader.from_stream(table):
        for start in range(0, part.num_rows, BATCH):
            rows = part.slice(start, BATCH)
            yield {name: rows.column(name).to_pylist() for name in wanted}


def _dataset(dataset: Any) -> Table:
    """A Dataset of Hugging Face's, in memory or streamed; one of several splits must be chosen."""
    if isinstance(dataset, Mapping):
        splits = [str(name) for name in dataset]
        raise UsageError(
            f"this is a DatasetDict with the splits {', '.join(splits)}: give one of them, as in dataset[{splits[0]!r}]"
        )
    columns = dataset.column_names
    if columns is None:  # an IterableDataset may not know them before it is asked
        columns = list(next(iter(dataset), {}))

    def batches(wanted: Sequence[str]) -> Iterator[Batch]:
        chosen = dataset.select_columns(list(wanted)).with_format(None)
        for part in chosen.iter(batch_size=BATCH):
            yield {name: part[name] for name in wanted}

    features = getattr(dataset, "features", None) or {}
    return Table("the dataset", columns, batches, classes=lambda name: names_of_feature(features.get(name)))


def _cursor(cursor: Any) -> Table:
    """The result of a query: a cursor of Python's database interface, whichever the database."""
    if cursor.description is None:
        raise UsageError("the cursor has no result to give: execute a SELECT first")
    names = [entry[0] for entry in cursor.description]

    def batches(wanted: Sequence[str]) -> Iterator[Batch]:
        places = [names.index(name) for name in wanted]
        while rows := cursor.fetchmany(BATCH):
            # some drivers give dicts
            cells = [list(row.values()) if isinstance(row, Mapping) else row for row in rows]
            yield {name: [row[place] for row in cells] for name, place in zip(wanted, places, strict=True)}

    return Table("the query", names, batches)


def _mapping(columns: Mapping[Any, Any]) -> Table:
    """A dict of columns."""
    values: dict[Any, list[Any]] = {}
    for name, given in columns.items():
        found = column(given)
        if found is None and isinstance(given, list | tuple):
            found = list(given)
        if found is None:
            raise UsageError(
                f"a dict is taken as columns, each with a list of values, and '{name}' is {kind_of(given)}; "
                "a single document goes into a list"
            )
        values[name] = found
    sizes = {len(found) for found in values.values()}
    if len(sizes) > 1:
        told = ", ".join(f"{len(found)} of '{name}'" for name, found in values.items())
        raise UsageError(f"the columns differ in length: {told}")

    def batches(wanted: Sequence[str]) -> Iterator[Batch]:
        for start in range(0, max(sizes, default=0), BATCH):
            yield {name: values[name][start : start + BATCH] for name in wanted}

    return Table("the columns", list(values), batches)


# rows
def _names_of(row: Any) -> Sequence[str] | None:
    """Column names of a row, or None where it has none."""
    if isinstance(row, Mapping) or _of("sqlite3", row):
        return list(row.keys())
    return getattr(row, "_fields", None) if isinstance(row, tuple) or hasattr(row, "_mapping") else None


def _row_batches(rows: Iterable[Any], wanted: Sequence[str]) -> Iterator[Batch]:
    number = 0
    rows = iter(rows)
    while part := list(islice(rows, BATCH)):
        cells = []
        for row in part:
            names = _names_of(row)
            if names is None:
                raise UsageError(f"row {number} is {kind_of(row)}, and the rows before it have column names")
            record = row if isinstance(row, Mapping) else dict(zip(names, row, strict=True))
            missing = next((name for name in wanted if name not in record and name not in ID_FIELDS), None)
            if missing is not None:
                raise UsageError(f"row {number} has no column '{missing}'; {told(names)}")
            cells.append([record.get(name) for name in wanted])
            number += 1
        yield dict(zip(wanted, map(list, zip(*cells, strict=True)), strict=True))


def told(columns: Sequence[Any]) -> str:
    """A sentence that names columns."""
    shown = ", ".join(f"'{name}'" for name in columns[:12])
    return f"there are {shown}{', ...' if len(columns) > 12 else ''}" if shown else "there are no columns"


def kind_of(given: Any) -> str:
    """What something is, for a person."""
    if given is None:
        return "None"
    if isinstance(given, bool | int | float):
        return f"the value {given}"
    if isinstance(given, str):
        return f"the text '{given[:30]}'"
    if hasattr(given, "shape") and hasattr(given, "dtype"):
        return f"an array of shape {tuple(given.shape)} and type {given.dtype}"
    name = type(given).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
