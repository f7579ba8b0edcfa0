"""SQLite databases: one table, row by row; file.sqlite::table names the table, or a view."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from longtail.corpus import Corpus
from longtail.errors import InputError, first_line, nearest
from longtail.keep.streams import LONGEST_LINE, Stream
from longtail.read.cells import as_text
from longtail.read.fields import fits
from longtail.read.flaws import RecordError
from longtail.read.options import ReadOptions
from longtail.read.reading import Reading
from longtail.read.records import Numbered, read_records, with_columns

if TYPE_CHECKING:
    import sqlite3

ENDINGS = (".sqlite", ".sqlite3", ".db")


def is_sqlite(stream: Stream, _: ReadOptions) -> bool:
    return stream.start.startswith(b"SQLite format 3\0")


def read_sqlite(path: Path, reading: Reading) -> Iterator[Corpus]:
    import sqlite3

    row = 0
    try:
        with closing(_opened(path)) as base:
            table = _table(base, path, reading)
            reading.report.source = f"{path}::{table}"
            columns, reading = with_columns(_columns(base, table), reading, reading.report.source)
            wanted = ", ".join(map(_quoted, columns))

            def records() -> Iterator[Numbered]:
                nonlocal row
                with reading.run.bar(reading.title, None) as bar:
                    for values in base.execute(f"SELECT {wanted} FROM {_quoted(table)}"):
                        row += 1
                        bar.advance()
                        yield row, _record(columns, values)

            yield from read_records(records(), reading)
    except (sqlite3.Error, OverflowError, MemoryError, UnicodeError) as error:
        raise InputError(reading.report.source, f"cannot be read: {first_line(error)}", row or None) from None


def _opened(path: Path) -> sqlite3.Connection:
    """The database, not to be changed; what its schema would run is not trusted."""
    import sqlite3

    base = sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro", uri=True)
    base.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_LINE)
    base.execute("PRAGMA trusted_schema = OFF")
    base.execute("PRAGMA cell_size_check = ON")
    base.text_factory = _decoded
    return base


def _decoded(text: bytes) -> str | bytes:
    """Texts that are not UTF-8 stay bytes, and become a flaw of their row."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text


def _record(columns: list[str], values: tuple[Any, ...]) -> dict[str, Any] | RecordError:
    for name, value in zip(columns, values, strict=True):
        if isinstance(value, bytes):
            return RecordError(f"column '{name}' holds bytes, or text that is not UTF-8")
    return dict(zip(columns, map(as_text, values), strict=True))


def _table(base: sqlite3.Connection, path: Path, reading: Reading) -> str:
    """The table or view asked for, else the only table, else the only one that has texts and labels."""
    found = base.execute("SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name")
    known = {name: kind for name, kind in found if isinstance(name, str) and not name.startswith("sqlite_")}
    if reading.inside is not None:
        if reading.inside not in known:
            raise InputError(path, f"no table '{reading.inside}'; {nearest(reading.inside, known)}")
        return reading.inside
    if not known:
        raise InputError(path, "there is no table in the database")
    tables = [name for name, kind in known.items() if kind == "table"]
    if len(tables) > 1:
        tables = [name for name in tables if fits(_columns(base, name), reading.options)]
    if len(tables) != 1:
        raise InputError(
            path, f"say which table, as in {path.name}::{next(iter(known))}; there are: {', '.join(known)}"
        )
    if len(known) > 1:
        reading.report.notes.append(f"table '{tables[0]}' is read; {path.name}::TABLE reads another")
    return tables[0]


def _columns(base: sqlite3.Connection, table: str) -> list[str]:
    return [str(name) for _, name, *_ in base.execute(f"PRAGMA table_info({_quoted(table)})")]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
