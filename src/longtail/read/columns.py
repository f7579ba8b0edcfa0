"""Arrow tables, batch by batch: what Parquet files and saved Hugging Face datasets have in common."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from longtail.corpus import Corpus
from longtail.read.flaws import RecordError
from longtail.read.reading import Reading
from longtail.read.records import Numbered, read_records

#: Rows turned into Python values at a time.
BATCH = 1024


def read_batches(
    batches: Iterable[Mapping[str, Sequence[Any]]],
    reading: Reading,
    class_names: Mapping[str, Sequence[str]] | None = None,
) -> Iterator[Corpus]:
    """Documents from column batches, each a mapping from column to its values; the line in messages is the row from 1.

    class_names turns whole numbers in a labels column into names (a ClassLabel column of a Hugging Face dataset).
    """
    return read_records(_records(batches, reading.options.labels_fields, class_names or {}), reading)


def _records(
    batches: Iterable[Mapping[str, Sequence[Any]]], labels: Sequence[str], class_names: Mapping[str, Sequence[str]]
) -> Iterator[Numbered]:
    row = 0
    for batch in batches:
        names = list(batch)
        for values in zip(*batch.values(), strict=True):
            row += 1
            record = dict(zip(names, values, strict=True))
            try:
                for field in labels:
                    if field in record:
                        record[field] = _as_json_has_it(record[field], class_names.get(field))
            except IndexError:
                yield row, RecordError(f"a label number outside the {len(class_names[field])} class names")
                continue
            yield row, record


def _as_json_has_it(value: Any, class_names: Sequence[str] | None) -> Any:
    """Arrow's ways to write labels brought to JSON's: structs lose their nulls, maps become objects."""
    if isinstance(value, dict):
        return {name: weight for name, weight in value.items() if weight is not None}
    if class_names is not None and type(value) is int:
        value = [value]
    if isinstance(value, list | tuple):
        if value and isinstance(value[0], tuple):
            return {pair[0]: pair[1] for pair in value if isinstance(pair, tuple) and len(pair) == 2}
        if class_names is not None:
            return [_class_name(item, class_names) for item in value]
        return list(value)
    return value


def _class_name(item: Any, class_names: Sequence[str]) -> Any:
    if type(item) is not int:
        return item
    if item < 0:
        raise IndexError(item)
    return class_names[item]
