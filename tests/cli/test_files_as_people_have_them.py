"""From files as people have them to predictions: no option is needed, or the one that the error names."""

from __future__ import annotations

import csv
import json
import sqlite3
from pathlib import Path

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cli_helpers import Command, documents

QUICK = ("--set", "learner.trees=1", "--quiet")
HEADER = ["Nr", "Titel", "Beschreibung", "Schlagwörter"]


def rows(n: int, seed: int = 0, separator: str = " | ") -> list[list[str]]:
    """Records with an id, a title, a text and labels in one cell."""
    found = []
    for record in documents(n, seed):
        first, *rest = record["text"].split()
        found.append([record["id"], first, " ".join(rest), separator.join(record["labels"])])
    return found


def table(path: Path, content: list[list[str]], encoding: str = "cp1252", delimiter: str = ";") -> Path:
    with path.open("w", encoding=encoding, newline="") as file:
        csv.writer(file, delimiter=delimiter).writerows([HEADER, *content])
    return path


def workbook(path: Path, content: list[list[str]]) -> Path:
    book = openpyxl.Workbook()
    book.active.title = "Katalog"
    for row in [HEADER, *content]:
        book.active.append(row)
    book.create_sheet("Notizen")
    book.save(path)
    return path


def database(path: Path, content: list[list[str]]) -> Path:
    base = sqlite3.connect(path)
    with base:
        base.execute("CREATE TABLE records (nr TEXT, titel TEXT, beschreibung TEXT, schlagworte TEXT)")
        base.executemany("INSERT INTO records VALUES (?, ?, ?, ?)", content)
        base.execute("CREATE TABLE loans (nr TEXT, day TEXT)")
    base.close()
    return path


def full_texts(path: Path, content: list[list[str]]) -> Path:
    path.mkdir()
    for ident, title, text, labels in content:
        (path / f"{ident}.txt").write_text(f"{title}\n{text}", encoding="utf-8")
        (path / f"{ident}.key").write_text(labels.replace(" | ", "\n"), encoding="utf-8")
    return path


def pieces(path: Path, content: list[list[str]]) -> Path:
    path.mkdir()
    for number in range(3):
        records = [dict(zip(HEADER, row, strict=True)) for row in content[number::3]]
        pq.write_table(pa.Table.from_pylist(records), path / f"part-{number:05}.parquet")
    return path


KINDS = {
    "cp1252.csv": table,
    "utf16.tsv": lambda path, content: table(path, content, "utf-16", "\t"),
    "mark.csv": lambda path, content: table(path, content, "utf-8-sig", ","),
    "k.xlsx": workbook,
    "k.sqlite": database,
    "texts": full_texts,
    "parquet": pieces,
}


@pytest.mark.parametrize("name", KINDS)
def test_train_evaluate_predict(name: str, command: Command, tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    (tmp_path / "test").mkdir()
    train, test = KINDS[name](tmp_path / "train" / name, rows(60)), KINDS[name](tmp_path / "test" / name, rows(20, 1))
    trained = command("train", train, "-o", tmp_path / "m", *QUICK)
    assert trained.code == 0, trained.err
    if name != "texts":
        assert "text from '" in trained.err and "labels from 'S" in trained.err.replace("'schlag", "'Schlag")
        assert "labels are separated by '|'" in trained.err
    if name == "cp1252.csv":
        assert "read as cp1252, as in 'Schlagwörter'" in trained.err
    report = json.loads(command("evaluate", tmp_path / "m", test, "--json").out)
    assert report["documents"] == 20 and report["P@1"] > 90
    predicted = [json.loads(line) for line in command("predict", tmp_path / "m", test, "-k", "1").out.splitlines()]
    assert {line["id"] for line in predicted} == {row[0] for row in rows(20, 1)}
    assert "Sterne, Ümläute" in {line["labels"][0]["label"] for line in predicted}


def test_a_sheet_and_a_table_by_name(command: Command, tmp_path: Path) -> None:
    book = workbook(tmp_path / "k.xlsx", rows(40))
    base = database(tmp_path / "k.db", rows(40))
    for source in (f"{book}::Katalog", f"{base}::records"):
        assert json.loads(command("inspect", source, "--json").out)["documents"] == 40
        assert command("train", source, "-o", tmp_path / "m", "--overwrite", *QUICK).code == 0
        assert len(command("predict", tmp_path / "m", source).out.splitlines()) == 40
    failed = command("train", f"{book}::Kataloge", "-o", tmp_path / "n")
    assert (failed.code, failed.line) == (2, f"{book}: no sheet 'Kataloge'; did you mean 'Katalog'?")


def test_several_files(command: Command, tmp_path: Path) -> None:
    first, second = table(tmp_path / "a.csv", rows(40)), workbook(tmp_path / "b.xlsx", rows(30, 1))
    result = command("train", first, second, "-o", tmp_path / "m", "--json", *QUICK)
    assert result.code == 0 and json.loads(result.out)["documents"] == 70
    assert f"{first} and 1 more: text from 'Titel' and 'Beschreibung'" in result.err
    assert json.loads(command("evaluate", tmp_path / "m", first, second, "--json").out)["documents"] == 70
    assert len(command("predict", tmp_path / "m", first, second).out.splitlines()) == 70
    result = command("train", first, tmp_path / "gone.csv", "-o", tmp_path / "n")
    assert (result.code, result.line) == (2, f"{tmp_path / 'gone.csv'}: no such file")


def test_columns_are_asked_for(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "k.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["Nr", "Eins", "Zwei", "Drei"], *rows(40)])
    asked = command("train", path, "-o", tmp_path / "m", *QUICK)
    said = f"{path}:1: columns are: Nr, Eins, Zwei, Drei; name them with --text-field, --labels-field"
    assert (asked.code, asked.line) == (2, said)
    fields = ["--text-field", "Eins", "--text-field", "Zwei"]
    result = command("train", path, "-o", tmp_path / "m", *fields, "--labels-field", "Drei", *QUICK)
    assert result.code == 0 and "labels are separated by '|'" in result.err
    assert command("predict", tmp_path / "m", path, *fields).code == 0


def test_an_encoding_that_is_set(command: Command, tmp_path: Path) -> None:
    path = table(tmp_path / "k.csv", rows(40), encoding="mac_roman")
    result = command("train", path, "-o", tmp_path / "m", "--encoding", "mac_roman", "--json", *QUICK)
    assert result.code == 0 and json.loads(result.out)["labels"] == 4 and "cp1252" not in result.err
    predicted = command("predict", tmp_path / "m", path, "--encoding", "mac_roman")
    assert "Sterne, Ümläute" in predicted.out
    for verb in (["evaluate", tmp_path / "m"], ["inspect"]):
        assert command(*verb, path, "--encoding", "mac_roman").code == 0
        assert "there is no encoding 'mac'" in command(*verb, path, "--encoding", "mac").line


def test_a_wrong_encoding_is_said_where_it_hides_a_column(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "k.csv"
    content = "\n".join(";".join(row) for row in [["Nr", "Titel", "Text", "Schlagwörter"], *rows(40)])
    path.write_bytes(content.encode("mac_roman"))
    line = command("train", path, "-o", tmp_path / "m", *QUICK).line
    assert "Schlagwšrter; name one with --labels-field (not UTF-8: read as cp1252" in line and "--encoding" in line


def test_labels_that_are_none(command: Command, tmp_path: Path) -> None:
    unique = [[ident, title, text, f"{title} {text} {ident}"] for ident, title, text, _ in rows(150)]
    path = table(tmp_path / "k.csv", unique)
    refused = command("train", path, "-o", tmp_path / "m", *QUICK)
    assert refused.code == 2 and "nearly every label is unique: 150 labels" in refused.err.splitlines()[-1]
    assert not (tmp_path / "m").exists()
    forced = command("train", path, "-o", tmp_path / "m", "--force", *QUICK)
    assert forced.code == 0 and "nearly every label is unique" in forced.err
    looked_at = command("inspect", path)
    assert looked_at.code == 0 and "nearly every label is unique" in looked_at.err
    assert command("evaluate", tmp_path / "m", path).code == 0, "test documents may have labels of their own"


def test_a_vocabulary(command: Command, tmp_path: Path) -> None:
    vocabulary = tmp_path / "v.ttl"
    vocabulary.write_text(
        "@prefix skos: <http://www.w3.org/2004/02/skos/core#> .\n"
        '<http://x/1> skos:prefLabel "music"@en, "Musik"@de ; skos:altLabel "tunes"@en .\n'
        '<http://x/2> skos:prefLabel "boats"@en, "Boote"@de ; skos:broader <http://x/3> .\n'
        '<http://x/3> skos:prefLabel "vehicles"@en, "Fahrzeuge"@de .\n'
    )
    path = table(tmp_path / "k.csv", rows(40))
    options = ["--augment", "gandalf", "--labels", f"{vocabulary}::en", *QUICK]
    result = command("train", path, "-o", tmp_path / "m", *options)
    assert result.code == 0 and f"labels are found in {vocabulary} by their preferred names" in result.err
    assert f"2 of 4 labels are listed in {vocabulary}" in result.err
    predicted = command("predict", tmp_path / "m", path, "-k", "1", "--labels", f"{vocabulary}::de").out
    assert '{"label":"boats","text":"Boote","score":' in predicted, "and not its broader concept"
    wrong = command("train", path, "-o", tmp_path / "n", "--labels", f"{vocabulary}::fr", *QUICK)
    assert wrong.code == 2 and "no names in the language 'fr'; there are: en, de" in wrong.line
