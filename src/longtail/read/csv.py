"""CSV and TSV with a header line; the label cell is cut at a separator, or holds a JSON list."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator

from longtail.corpus import Corpus
from longtail.errors import InputError
from longtail.keep.streams import LONGEST_LINE, Stream, bare_name, decode
from longtail.read.builder import Builder, missing_field
from longtail.read.options import ReadOptions
from longtail.read.reading import Reading

#: Stands between labels unless another separator is given.
DEFAULT_SEPARATOR = "|"

#: Tried in this order: the first that gives the header all the fields wanted.
_DELIMITERS = (",", "\t", ";")

#: Other characters people put between labels; only ever mentioned, never assumed.
_USUAL_SEPARATORS = ";,"


def is_csv(stream: Stream, options: ReadOptions) -> bool:
    """Whether the first line names the fields that are wanted."""
    line = stream.first_line.decode(errors="replace")
    cells = {cell.strip('" \r') for cell in re.split("|".join(_DELIMITERS), line)}
    return len(cells) > 1 and set(options.required) <= cells


def read_csv(stream: Stream, reading: Reading) -> Iterator[Corpus]:
    separator = reading.options.separator or DEFAULT_SEPARATOR
    reading = reading.changed(separator=separator)
    options = reading.options
    wanted = list(options.required)
    rows = TableRows(stream, wanted)
    for name in wanted:
        if name not in rows.header:
            raise InputError(stream.name, missing_field(name, rows.header), 1)
    builder = Builder(reading)
    places = {name: rows.header.index(name) for name in options.fields if name in rows.header}
    label_places = [places[name] for name in options.labels_fields if name in places]
    separated = 0
    suspects = dict.fromkeys(_USUAL_SEPARATORS, 0)
    for line, row in rows.records(builder.bad):
        builder.add({name: row[place] for name, place in places.items()}, line)
        for place in label_places:
            cell = row[place]
            separated += separator in cell or cell.startswith(("[", "{"))
            for sign in suspects:
                suspects[sign] += sign in cell
        if builder.full:
            yield builder.taken()
    yield from builder.rest()
    sign = max(suspects, key=lambda s: suspects[s])
    if not separated and suspects[sign] * 2 > reading.report.documents:
        reading.report.notes.append(
            f"no label cell has the separator '{separator}' but {suspects[sign]} have '{sign}'; "
            f"if that stands between labels, give it as the separator"
        )


class TableRows:
    """The rows of a table, after its header."""

    def __init__(self, stream: Stream, wanted: list[str]) -> None:
        self._stream = stream
        try:
            line = decode(stream.first_line).rstrip("\r")
        except ValueError as wrong:
            raise InputError(stream.name, str(wrong), 1) from None
        choices = ("\t",) if bare_name(stream.name).endswith((".tsv", ".tab")) else _DELIMITERS
        headers = {delimiter: _header(line, delimiter) for delimiter in choices}
        self.delimiter = next((d for d, names in headers.items() if set(wanted) <= set(names)), choices[0])
        self.header = headers[self.delimiter]
        for name in wanted:
            if self.header.count(name) > 1:
                raise InputError(stream.name, f"two columns are called '{name}'", 1)

    def records(self, bad: Callable[[str, int], None]) -> Iterator[tuple[int, list[str]]]:
        """(number of its first line, cells) of each row; bad rows go to `bad`, blank ones may only end the file.

        The limit on a cell is the csv module's own and holds for the whole process, so it is put back at the end.
        """
        lines = _Text(self._stream)
        reader = csv.reader(lines, delimiter=self.delimiter, strict=True)
        before = csv.field_size_limit(LONGEST_LINE)
        blank = 0
        try:
            first = True
            while True:
                line = lines.number + 1
                try:
                    row = next(reader)
                except StopIteration:
                    return
                except csv.Error as error:
                    bad(f"not a row of a table: {error}", line)
                    continue
                except ValueError as wrong:
                    bad(str(wrong), lines.number)
                    continue
                if first:
                    first = False
                    continue
                if not row:
                    blank = blank or line
                    continue
                if blank:
                    bad("a blank line between documents", blank)
                    blank = 0
                if len(row) != len(self.header):
                    bad(f"{len(row)} cells, but the header has {len(self.header)}", line)
                    continue
                yield line, row
        finally:
            csv.field_size_limit(before)


class _Text:
    """Decoded lines with their ends. Not a generator: it goes on after a line that raised."""

    def __init__(self, stream: Stream) -> None:
        self._lines = stream.lines()
        self.number = 0

    def __iter__(self) -> _Text:
        return self

    def __next__(self) -> str:
        self.number, line = next(self._lines)
        return decode(line) + "\n"


def _header(line: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True), [])
    except csv.Error:
        return []
