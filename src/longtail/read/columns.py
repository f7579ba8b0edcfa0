"""Arrow tables, batch by batch: what Parquet files and saved Hugging Face datasets have in common."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from longtail.corpus import Corpus
from longtail.errors import InputError
from longtail.read.builder import Builder, missing_field
from longtail.read.options import ReadOptions
from longtail.read.reading import Reading

#: Rows turned into Python values at a time.
BATCH = 1024


def require_columns(there: Sequence[str], options: ReadOptions, path: str) -> list[str]:
    """The columns to read; those that must be there are."""
    for name in options.required:
        if name not in there:
            raise InputError(path, missing_field(name, there))
        if list(there).count(name) > 1:
            raise InputError(path, f"two columns are called '{name}'")
    return [name for name in options.fields if name in there]


def read_batches(
    batches: Iterable[Mapping[str, Sequence[Any]]],
    reading: Reading,
    class_names: Mapping[str, Sequence[str]] | None = None,
) -> Iterator[Corpus]:
    """Documents from column batches, each a mapping from column to its values; the line in messages is the row from 1.

    class_names turns whole numbers in a labels column into names (a ClassLabel column of a Hugging Face dataset).
    """
    builder = Builder(reading)
    names_of = class_names or {}
    row = 0
    for batch in batches:
        names = list(batch)
        for values in zip(*batch.values(), strict=True):
            row += 1
            record = dict(zip(names, values, strict=True))
            try:
                for field in reading.options.labels_fields:
                    if field in record:
                        record[field] = _plain(record[field], names_of.get(field))
            except IndexError:
                builder.bad(f"a label number outside the {len(names_of[field])} class names", row)
                continue
            builder.add(record, row)
            if builder.full:
                yield builder.taken()
    yield from builder.rest()


def _plain(value: Any, class_names: Sequence[str] | None) -> Any:
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
