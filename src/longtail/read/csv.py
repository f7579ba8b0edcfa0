"""CSV and TSV with a header line; the label cell is cut at a separator, or holds a list."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence

from longtail.corpus import Corpus
from longtail.errors import InputError, counted
from longtail.keep.streams import LONGEST_LINE, Stream, bare_name
from longtail.read.dialect import find_dialect
from longtail.read.fields import find_fields, is_usual
from longtail.read.flaws import RecordError
from longtail.read.options import ReadOptions
from longtail.read.reading import Reading
from longtail.read.records import Numbered, read_records, with_columns

#: Names of columns are short; a first line with longer ones is a text.
_LONGEST_NAME = 60


def is_csv(stream: Stream, options: ReadOptions) -> bool:
    """Whether the first line names the fields that are wanted, or columns that look like them."""
    header = find_dialect(stream.head, options.required, tabs=False).header
    if len(header) < 2:
        return False
    if set(options.required) <= set(header):
        return True
    if any(len(name) > _LONGEST_NAME for name in header):
        return False
    found = find_fields(header, options)
    usual = sum(map(is_usual, header))
    return bool(found.text) and (bool(found.labels) if options.need_labels else usual > 1)


def read_csv(stream: Stream, reading: Reading) -> Iterator[Corpus]:
    table = TableRows(stream, reading.options.required)
    try:
        columns, reading = with_columns(table.header, reading, stream.name, table.line)
    except InputError as wrong:
        if not stream.encoding.found or "".join(table.header).isascii():
            raise
        raise InputError(stream.name, f"{wrong.reason} ({stream.encoding.remark})", table.line) from None
    if table.dialect.remark:
        reading.report.notes.append(table.dialect.remark)
    places = {name: table.header.index(name) for name in columns}

    def records() -> Iterator[Numbered]:
        for line, row in table.rows():
            if isinstance(row, RecordError):
                yield line, row
            else:
                yield line, {name: row[place] for name, place in places.items()}

    yield from read_records(records(), reading)


class TableRows:
    """The rows of a table, after its header."""

    def __init__(self, stream: Stream, wanted: Sequence[str]) -> None:
        self._stream = stream
        self.dialect = find_dialect(stream.head, wanted, tabs=bare_name(stream.name).endswith((".tsv", ".tab")))
        self.header, self.line = self.dialect.header, self.dialect.skip + 1
        try:
            stream.decode(stream.head.split(b"\n", self.line)[self.line - 1])
        except ValueError as wrong:
            raise InputError(stream.name, str(wrong), self.line) from None

    def rows(self) -> Iterator[tuple[int, list[str] | RecordError]]:
        """(number of its first line, cells) of each row, or what is wrong with it; blank rows may only end the file.

        The limit on a cell is the csv module's own and holds for the whole process, so it is put back at the end.
        """
        lines = _Text(self._stream)
        reader = csv.reader(lines, **self.dialect.format, strict=True)
        before = csv.field_size_limit(LONGEST_LINE)
        blank = 0
        try:
            while True:
                line = lines.number + 1
                try:
                    row = next(reader)
                except StopIteration:
                    return
                except csv.Error as error:
                    unclosed = "unexpected end of data" in str(error)
                    what = "a quote that opens here is never closed" if unclosed else f"not a row of a table: {error}"
                    yield line, RecordError(what)
                    continue
                except ValueError as wrong:
                    yield lines.number, RecordError(str(wrong))
                    continue
                if line <= self.line:
                    continue
                if not row:
                    blank = blank or line
                    continue
                if blank:
                    yield blank, RecordError("a blank line between documents")
                    blank = 0
                if len(row) != len(self.header):
                    yield line, RecordError(f"{counted(len(row), 'cell')}, but the header has {len(self.header)}")
                    continue
                yield line, row
        finally:
            csv.field_size_limit(before)


class _Text:
    """Decoded lines with their ends. Not a generator: it goes on after a line that raised."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._lines = stream.lines()
        self.number = 0

    def __iter__(self) -> _Text:
        return self

    def __next__(self) -> str:
        self.number, line = next(self._lines)
        return self._stream.decode(line) + "\n"
