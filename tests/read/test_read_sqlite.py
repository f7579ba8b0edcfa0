"""SQLite databases."""

from __future__ import annotations

import sqlite3

import pytest

from longtail.errors import InputError
from longtail.read import read, read_in_batches, read_with_report
from longtail.read.estimate import corpus_bytes


def database(path, *statements, rows=()):
    base = sqlite3.connect(path)
    with base:
        base.execute("CREATE TABLE records (nr INTEGER PRIMARY KEY, titel TEXT, jahr INTEGER, schlagworte TEXT)")
        base.executemany("INSERT INTO records VALUES (?, ?, ?, ?)", rows)
        for statement in statements:
            base.execute(statement)
    base.close()
    return path


ROWS = [(7, "Käse", 1984, "Milch; Käse"), (8, "Öl", None, "Öl"), (9, None, 2000, None)]


def names_of(corpus):
    return [[corpus.labels.names[c] for c in row.indices] for row in corpus.Y]


@pytest.mark.parametrize("inside", ["", "::records"])
def test_a_table(tmp_path, inside):
    path = database(tmp_path / "k.sqlite", rows=ROWS)
    corpus, report = read_with_report(f"{path}{inside}")
    assert corpus.texts == ["Käse", "Öl", ""] and corpus.ids == ["7", "8", "9"]
    assert names_of(corpus) == [["Käse", "Milch"], ["Öl"], []]
    assert report.format == "sqlite" and report.source == f"{path}::records"
    assert report.notes[0] == "text from 'titel', labels from 'schlagworte', ids from 'nr'"
    assert read(path, text_field=["titel", "jahr"]).texts == ["Käse 1984", "Öl", "2000"]
    assert list(tmp_path.iterdir()) == [path], "nothing is written beside it"


def test_several_tables_and_views(tmp_path):
    path = database(
        tmp_path / "k.db",
        "CREATE TABLE tags (nr INTEGER, name TEXT)",
        "INSERT INTO tags VALUES (7, 'a'), (7, 'b'), (8, 'c')",
        "CREATE VIEW joined AS SELECT titel AS text,"
        " (SELECT group_concat(name, '|') FROM tags WHERE tags.nr = records.nr) AS labels FROM records",
        rows=ROWS[:2],
    )
    corpus, report = read_with_report(path)
    assert corpus.texts == ["Käse", "Öl"] and report.notes[0] == "table 'records' is read; k.db::TABLE reads another"
    assert names_of(read(f"{path}::joined")) == [["a", "b"], ["c"]]
    with pytest.raises(InputError, match=r"no table 'record'; did you mean 'records'"):
        read(f"{path}::record")
    with pytest.raises(InputError, match=r"say which table, as in k.db::joined; there are: joined, records, tags"):
        read(path, text_field="nowhere")


def test_in_batches(tmp_path):
    path = database(tmp_path / "k.sqlite", rows=[(n, f"t{n}", None, f"l{n % 3}") for n in range(25)])
    batches, report = read_in_batches(path, 10)
    assert [len(batch) for batch in batches] == [10, 10, 5] and report.documents == 25
    assert corpus_bytes(f"{path}::records") == corpus_bytes(path) > 0


def test_bad_rows_and_files(tmp_path):
    path = database(
        tmp_path / "k.sqlite",
        "INSERT INTO records VALUES (4, x'00ff', 1, 'x')",
        "INSERT INTO records VALUES (5, CAST(x'c3ff' AS TEXT), 1, 'x')",
        rows=[(1, "a", 1, "x")],
    )
    with pytest.raises(InputError, match=r"k.sqlite::records:2: column 'titel' holds bytes, or text that is not UTF-8"):
        read(path)
    corpus, report = read_with_report(path, skip_bad=True)
    assert corpus.texts == ["a"] and report.skipped == 2
    path.unlink()
    database(path, rows=[(n, f"a text {n}" * 9, 1, "x") for n in range(500)])
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match=r"cannot be read: database disk image is malformed"):
        read(path)
    path.write_bytes(b"SQLite format 3\0" + b"\0" * 100)
    with pytest.raises(InputError, match=r"cannot be read: |no table"):
        read(path)
    sqlite3.connect(tmp_path / "empty.db").executescript("CREATE TABLE a (b); DROP TABLE a").close()
    with pytest.raises(InputError, match=r"there is no table in the database"):
        read(tmp_path / "empty.db")


def test_names_are_quoted(tmp_path):
    path = database(tmp_path / "k.sqlite", 'CREATE TABLE "a""; DROP TABLE records" ("te""xt" TEXT, labels TEXT)',
                    "INSERT INTO \"a\"\"; DROP TABLE records\" VALUES ('t', 'x')")  # fmt: skip
    corpus = read(f'{path}::a"; DROP TABLE records', text_field='te"xt')
    assert corpus.texts == ["t"]


def test_a_schema_runs_nothing(tmp_path):
    """Functions in a view that reach out of the database are not trusted."""
    path = database(tmp_path / "k.sqlite", "CREATE VIEW v AS SELECT load_extension('x') AS text, 'l' AS labels")
    with pytest.raises(InputError, match=r"cannot be read: "):
        read(f"{path}::v")
