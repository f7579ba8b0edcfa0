"""Excel workbooks (.xlsx): one sheet, row by row; file.xlsx::Sheet names the sheet."""

from __future__ import annotations

import re
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from longtail.corpus import Corpus
from longtail.errors import InputError, first_line, nearest
from longtail.keep.streams import Stream, bare_name
from longtail.read.cells import as_text
from longtail.read.fields import fits
from longtail.read.options import ReadOptions
from longtail.read.reading import Reading
from longtail.read.records import Numbered, read_records, with_columns

ENDINGS = (".xlsx", ".xlsm")

#: Bounds of what is unpacked: all of a workbook, its parts other than cells, one row or shared text, and how much
#: smaller than its content a large part may be. Workbooks of people stay far below; those made to harm do not.
MOST_BYTES, MOST_OTHER, LONGEST_ROW, MOST_PACKED, LARGE = 1 << 31, 1 << 26, 1 << 24, 200, 1 << 24

#: Rows and columns that Excel has.
_ROWS, _COLUMNS = 1_048_576, 16_384
#: Rows in which a header is looked for.
_NEAR = 20

_CHUNK = 1 << 20
_END_OF_ROW = re.compile(rb"</(?:\w+:)?(?:row|si)\s*>|<(?:\w+:)?(?:row|si)\b[^<>]*/>")
_ERRORS = {"#N/A", "#REF!", "#NAME?", "#VALUE!", "#DIV/0!", "#NUM!", "#NULL!"}


def is_excel(stream: Stream, _: ReadOptions) -> bool:
    if not stream.start.startswith(b"PK\x03\x04"):
        return False
    return bare_name(stream.name).endswith(ENDINGS) or b"xl/workbook.xml" in stream.start or b"xl/_rels" in stream.start


def read_excel(path: Path, reading: Reading) -> Iterator[Corpus]:
    rows = sheet_rows(path, reading)
    first, header = next(rows)
    names = [name for name in header if name]
    columns, reading = with_columns(names, reading, reading.report.source, first)

    def records() -> Iterator[Numbered]:
        for number, row in rows:
            cells = dict(zip(header, row, strict=False))
            yield number, {name: cells.get(name) for name in columns}

    yield from read_records(records(), reading)


def sheet_rows(path: Path, reading: Reading, *, documents: bool = True) -> Iterator[tuple[int, list[Any]]]:
    """(row number, cells) of the rows of a sheet that are not blank, first the header; cells are texts or None.

    documents  whether the sheet is to hold documents; then the first one that does is read
    """
    check_archive(path)
    warnings.filterwarnings("ignore", module="openpyxl")  # of styles and charts, which nobody reads here
    from openpyxl import load_workbook

    number = 0
    try:
        with (
            path.open("rb") as file,
            closing(load_workbook(file, read_only=True, data_only=True, keep_links=False)) as book,
        ):
            sheet = _sheet(book, path, reading, documents)
            total = sheet.max_row
            sheet.reset_dimensions()  # files lie about them
            with reading.run.bar(reading.title, total) as bar:
                for number, row in enumerate(sheet.iter_rows(max_row=_ROWS, values_only=True), start=1):
                    bar.advance()
                    cells = [_text(value) for value in row[:_COLUMNS]]
                    if any(cell not in (None, "") for cell in cells):
                        yield number, cells
    except InputError:
        raise
    except Exception as error:  # openpyxl raises whatever a damaged file leads it to
        raise InputError(
            path, f"not a readable Excel file: {first_line(error)}", number + 1 if number else None
        ) from None
    if not number:
        raise InputError(reading.report.source, "the sheet is empty")


def _sheet(book: Any, path: Path, reading: Reading, documents: bool) -> Any:
    """The sheet asked for, else the first one shown that has columns of documents, else the first one shown; the report
    says where others are."""
    sheets = {sheet.title: sheet for sheet in book.worksheets}
    if not sheets:
        raise InputError(path, "there is no sheet in the file")
    wanted = reading.inside
    if wanted is None:
        shown = [title for title, sheet in sheets.items() if sheet.sheet_state == "visible"] or list(sheets)
        fitting = (title for title in shown if fits(_header(sheets[title]), reading.options))
        wanted = next(fitting, shown[0]) if documents and len(shown) > 1 else shown[0]
        if len(shown) > 1:
            reading.report.source = f"{path}::{wanted}"
            others = ", ".join(f"'{title}'" for title in [title for title in shown if title != wanted][:5])
            reading.report.notes.append(f"sheet '{wanted}' is read; {path.name}::SHEET reads another: {others}")
    elif wanted not in sheets:
        raise InputError(path, f"no sheet '{wanted}'; {nearest(wanted, sheets)}")
    else:
        reading.report.source = f"{path}::{wanted}"
    return sheets[wanted]


def _header(sheet: Any) -> list[str]:
    """The texts of the first row that is not blank, if it stands near the top."""
    rows = ([_text(cell) for cell in row[:_COLUMNS]] for row in sheet.iter_rows(max_row=_NEAR, values_only=True))
    return [cell for cell in next((row for row in rows if any(row)), []) if isinstance(cell, str)]


def _text(value: Any) -> Any:
    value = as_text(value)
    if type(value) is str:
        value = value.replace("_x000D_", "").strip()
        return None if value in _ERRORS else value
    return value


def check_archive(path: Path) -> None:
    """Refuses workbooks that would unpack to more than can be meant, before anything is parsed."""
    try:
        with zipfile.ZipFile(path) as archive:
            parts = archive.infolist()
            total = sum(part.file_size for part in parts)
            if total > MOST_BYTES:
                raise InputError(path, f"unpacks to {total / 1e9:.1f} GB; save it as CSV, or in several files")
            for part in parts:
                cells = part.filename.endswith(".xml")
                if part.file_size > (MOST_BYTES if cells else MOST_OTHER):
                    raise InputError(path, f"{part.filename} in it is implausibly large; save it as CSV")
                if part.file_size > LARGE and part.file_size > MOST_PACKED * part.compress_size:
                    raise InputError(path, f"{part.filename} in it is packed implausibly well; save it as CSV")
                if cells:
                    _check_rows(archive, part, path)
    except InputError:
        raise
    except Exception as error:  # as above
        raise InputError(path, f"not a readable Excel file: {first_line(error)}") from None


def _check_rows(archive: zipfile.ZipFile, part: zipfile.ZipInfo, path: Path) -> None:
    """Rows, shared texts and what stands around them are parsed one at a time: none may be too large for that."""
    data = b""
    offset = 0  # where `data` begins in the part
    last = 0  # where the last row or text ended
    with archive.open(part) as content:
        while chunk := content.read(_CHUNK):
            kept = data[-100:]  # a tag may be cut in two
            offset += len(data) - len(kept)
            data = kept + chunk
            if b"\0" in chunk or b"<!DOCTYPE" in data:
                raise InputError(path, f"{part.filename} in it is not what Excel writes")
            longest = 0
            for match in _END_OF_ROW.finditer(data):
                longest = max(longest, offset + match.start() - last)
                last = offset + match.end()
            if max(longest, offset + len(data) - last) > LONGEST_ROW:
                raise InputError(path, f"{part.filename} in it has a row of more than {LONGEST_ROW >> 20} MB")
