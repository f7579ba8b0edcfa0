"""Parquet, row batch by row batch; only the columns that are needed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from longtail.corpus import Corpus
from longtail.errors import InputError, first_line
from longtail.keep.streams import Stream
from longtail.read.columns import BATCH, read_batches
from longtail.read.options import ReadOptions
from longtail.read.reading import Reading
from longtail.read.records import with_columns


def is_parquet(stream: Stream, _: ReadOptions) -> bool:
    return stream.start.startswith(b"PAR1")


def read_parquet(path: Path, reading: Reading) -> Iterator[Corpus]:
    import pyarrow
    import pyarrow.parquet

    failures = (pyarrow.ArrowException, OSError, ValueError, KeyError, MemoryError, OverflowError)
    try:
        file = pyarrow.parquet.ParquetFile(path)
        there = list(file.schema_arrow.names)
    except failures as error:
        raise InputError(path, f"not a readable Parquet file: {first_line(error)}") from None
    with file, reading.run.bar(reading.title, file.metadata.num_rows) as bar:
        columns, reading = with_columns(there, reading, str(path))

        def batches() -> Iterator[dict[str, list[Any]]]:
            parts = file.iter_batches(batch_size=BATCH, columns=columns)
            row = 0
            while True:
                try:
                    part = next(parts, None)
                    values = None if part is None else {name: part.column(name).to_pylist() for name in columns}
                except failures as error:
                    raise InputError(path, f"damaged Parquet data: {first_line(error)}", row + 1) from None
                if part is None or values is None:
                    return
                row += part.num_rows
                bar.advance(part.num_rows)
                yield values

        yield from read_batches(batches(), reading)
