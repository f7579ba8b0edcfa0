"""The first hour of a stranger: from an empty folder with files as people have them to tags with names.

Every step is a command as it stands in the docs, run in a process of its own; files are made on the spot.
"""

from __future__ import annotations

import csv
import json
import random
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

#: GND-like codes, what they are called, and words that titles about them have.
SUBJECTS = {
    "4016397-0": ("Fachwerk", "Fachwerkhäuser Balken Zimmerer Gefüge Ständer"),
    "4006777-4": ("Bienen", "Imkerei Honig Königin Völker Waben"),
    "4061963-1": ("Gletscher", "Eismassen Moränen Alpen Schmelze Zungen"),
    "4035964-5": ("Orgel", "Pfeifen Register Kantoren Prospekte Spieltische"),
}
TRAINING, TESTING = 160, 40

TURTLE = """@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix gnd: <https://d-nb.info/gnd/> .
"""


def records(count: int, seed: int) -> list[dict[str, str]]:
    draw = random.Random(seed)
    made = []
    for number in range(count):
        chosen = sorted(draw.sample(sorted(SUBJECTS), draw.choice((1, 1, 2))))
        words = [word for code in chosen for word in draw.sample(SUBJECTS[code][1].split(), 3)]
        title, rest = " ".join(words[:2]), " ".join(words[2:])
        made.append({"Nr": str(number), "Titel": f"Über {title}", "Beschreibung": f"Eine Studie über {rest}",
                     "Schlagwörter": "; ".join(chosen)})  # fmt: skip
    return made


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def longtail(*arguments: str, code: int = 0, given: str | None = None) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "longtail", *arguments]
    done = subprocess.run(line, capture_output=True, text=True, input=given, timeout=300, encoding="utf-8")
    assert done.returncode == code, (arguments, done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    return done


def write_csv(path: Path, rows: list[dict[str, str]], encoding: str, delimiter: str = ";") -> None:
    with path.open("w", encoding=encoding, newline="") as handle:
        writer = csv.DictWriter(handle, list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)


def write_skos(path: Path) -> None:
    concepts = [
        f'gnd:{code} a skos:Concept ; skos:prefLabel "{text}"@de ; skos:altLabel "{text} (Thema)"@de .'
        for code, (text, _) in SUBJECTS.items()
    ]
    path.write_text(TURTLE + "\n".join(concepts) + "\n", encoding="utf-8")


def names_of(line: str) -> list[str]:
    return [found.get("text", found["label"]) for found in json.loads(line)["labels"]]


def test_from_a_spreadsheet_to_tags_with_names(folder: Path) -> None:
    """A semicolon CSV of another machine, German column names, codes for labels and a thesaurus with their names."""
    write_csv(folder / "bestand.csv", records(TRAINING, 1), "cp1252")
    write_csv(folder / "neu.csv", records(TESTING, 2), "cp1252")
    write_skos(folder / "schlagwoerter.ttl")

    looked = longtail("inspect", "bestand.csv", "--labels", "schlagwoerter.ttl")
    assert "160" in looked.stdout

    plan = longtail("train", "bestand.csv", "--labels", "schlagwoerter.ttl", "--dry-run")
    assert not (folder / "model").exists() and "in all" in plan.stdout
    assert "recipe gandalf: labels have texts" in plan.stderr  # chosen, and said with the reason

    trained = longtail("train", "bestand.csv", "--labels", "schlagwoerter.ttl", "-o", "model")
    said = trained.stdout + trained.stderr
    for found in ("Schlagwörter", "cp1252", "';'"):  # columns, encoding and separator were found, and said
        assert found in said, said

    tags = longtail("predict", "model", "-", "-k", "1", given="Balken und Ständer: Zimmerer und Gefüge\n").stdout
    (found,) = json.loads(tags)["labels"]
    assert (found["label"], found["text"]) == ("4016397-0", "Fachwerk") and 0 < found["score"] <= 1

    measured = json.loads(longtail("evaluate", "model", "neu.csv", "--json").stdout)
    assert measured["P@1"] > 80
    for said in ("Fachwerk", "Fachwerk (Thema)", "4016397-0"):  # any of its names
        assert "Fachwerk" in longtail("inspect", "model", "--label", said).stdout
    rare = longtail("predict", "model", "neu.csv", "--rare", "0.5", "-o", "rare.jsonl", "-k", "2")
    assert rare.stdout == "" and len((folder / "rare.jsonl").read_text("utf-8").splitlines()) == TESTING


def test_the_same_from_a_workbook_a_database_and_utf16(folder: Path) -> None:
    rows = records(TRAINING, 1)
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(list(rows[0]))
    for row in rows:
        book.active.append(list(row.values()))
    book.save(folder / "bestand.xlsx")
    with sqlite3.connect(folder / "bestand.sqlite") as database:
        columns = ", ".join(f'"{name}" TEXT' for name in rows[0])
        database.execute(f"CREATE TABLE bestand ({columns})")
        database.executemany(f"INSERT INTO bestand VALUES ({', '.join('?' * len(rows[0]))})",
                             [tuple(row.values()) for row in rows])  # fmt: skip
    write_csv(folder / "bestand.csv", rows, "utf-16", delimiter="\t")
    answers = []
    for number, data in enumerate(("bestand.xlsx", "bestand.sqlite::bestand", "bestand.csv")):
        longtail("train", data, "-o", f"model-{number}", "--recipe", "bonsai", "--set", "learner.trees=1", "--quiet")
        tags = longtail("predict", f"model-{number}", "-", "-k", "1", given="Honig und Waben der Imkerei\n").stdout
        answers.append(json.loads(tags)["labels"])
    assert answers[0][0]["label"] == "4006777-4" and answers[0] == answers[1] == answers[2]


def test_the_same_from_pieces_and_folders_with_vocabularies_of_all_kinds(folder: Path) -> None:
    rdflib, parquet = pytest.importorskip("rdflib"), pytest.importorskip("pyarrow.parquet")
    import pyarrow

    from longtail import read

    rows = records(TRAINING, 1)
    texts = [f"{row['Titel']} {row['Beschreibung']}" for row in rows]
    codes = [row["Schlagwörter"].split("; ") for row in rows]
    for place in ("stuecke", "texte"):
        (folder / place).mkdir()
    for start in range(0, TRAINING, 40):
        part = {"text": texts[start : start + 40], "labels": codes[start : start + 40]}
        parquet.write_table(pyarrow.table(part), folder / "stuecke" / f"teil-{start:05}.parquet")
    for number, (text, labels) in enumerate(zip(texts, codes, strict=True)):
        lines = "".join(f"<https://d-nb.info/gnd/{code}>\t{SUBJECTS[code][0]}\n" for code in labels)
        (folder / "texte" / f"{number:03}.txt").write_text(text, encoding="utf-8")
        (folder / "texte" / f"{number:03}.tsv").write_text(lines, encoding="utf-8")
    write_skos(folder / "v.ttl")
    rdflib.Graph().parse(folder / "v.ttl").serialize(folder / "v.rdf", format="xml")
    names = "".join(f"<https://d-nb.info/gnd/{code}>\t{text}\n" for code, (text, _) in SUBJECTS.items())
    (folder / "v.tsv").write_text(names, encoding="utf-8")
    pieces, full = read("stuecke"), read("texte")
    assert pieces.texts == full.texts == texts and (pieces.Y != full.Y).nnz == 0
    called = {text for text, _ in SUBJECTS.values()}
    for vocabulary in ("v.ttl", "v.rdf", "v.tsv"):
        for data in ("stuecke", "texte"):
            labels = read(data, labels=vocabulary).labels
            assert {labels.title(column) for column in range(len(labels.names))} == called, (data, vocabulary)


def test_what_goes_wrong_is_said_in_one_line(folder: Path) -> None:
    rows = records(TRAINING, 1)
    other = [{"A": row["Nr"], "B": row["Titel"], "C": row["Schlagwörter"]} for row in rows]
    write_csv(folder / "fremd.csv", other, "utf-8", delimiter=",")
    said = longtail("train", "fremd.csv", "-o", "model", code=2).stderr
    assert "columns are: A, B, C" in said and "--text-field" in said and said.count("\n") == 1

    unique = [row | {"Schlagwörter": f"sehr eigenes Wort {number}"} for number, row in enumerate(rows)]
    write_csv(folder / "eigen.csv", unique, "utf-8")
    assert "--force" in longtail("train", "eigen.csv", "-o", "model", code=2).stderr
    assert "fehlt.csv" in longtail("train", "fehlt.csv", "-o", "model", code=2).stderr
    (folder / "zeilen.jsonl").write_text('{"text": "gut", "labels": ["a"]}\n{"text": "schlecht"\n', encoding="utf-8")
    assert "zeilen.jsonl:2:" in longtail("train", "zeilen.jsonl", "-o", "model", code=2).stderr
    assert not (folder / "model").exists()


def test_from_a_data_frame(folder: Path) -> None:
    pandas = pytest.importorskip("pandas")
    from longtail import LongtailClassifier, Tagger

    frame, test = (pandas.DataFrame(records(*given)) for given in ((TRAINING, 1), (TESTING, 2)))
    texts = {code: text for code, (text, _) in SUBJECTS.items()}
    columns: dict[str, Any] = {"text": ["Titel", "Beschreibung"], "labels": "Schlagwörter", "separator": ";"}
    tagger = Tagger("bonsai").fit(frame, **columns, label_texts=texts)
    ((best, *_),) = tagger.predict(["Pfeifen und Register der Kantoren"])
    assert (best.label, best.text) == ("4035964-5", "Orgel")
    assert tagger.evaluate(test, **columns).to_dict()["P@1"] > 80
    shown = tagger.predict(test, text=["Titel", "Beschreibung"], k=2).to_frame()
    assert list(shown.columns) == ["id", "rank", "label", "text", "score"] and len(shown) == 2 * TESTING

    labels = [row.split("; ") for row in frame["Schlagwörter"]]
    estimator = LongtailClassifier().fit(list(frame["Titel"]), labels)
    assert estimator.score(list(frame["Titel"]), labels) > 0.8


def test_every_kind_of_table_gives_the_same(folder: Path) -> None:
    pandas, polars, arrow, datasets = map(pytest.importorskip, ("pandas", "polars", "pyarrow", "datasets"))
    from longtail import Tagger

    rows = records(TRAINING, 1)
    frames = (pandas.DataFrame, polars.DataFrame, polars.LazyFrame)
    tables = [rows, *(frame(rows) for frame in frames), arrow.Table.from_pylist(rows), datasets.Dataset.from_list(rows)]
    found = []
    for table in tables:
        tagger = Tagger({"part": "bonsai", "trees": 1})
        tagger.fit(table, text=["Titel", "Beschreibung"], labels="Schlagwörter", separator=";")
        found.append([(each.label, each.score) for each in tagger.predict(["Honig und Waben"], k=3)[0]])
    assert found[0][0][0] == "4006777-4" and all(each == found[0] for each in found)


def test_habits_of_scikit_learn(folder: Path) -> None:
    import joblib
    from sklearn.base import clone
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MultiLabelBinarizer

    from longtail import LongtailClassifier

    rows = records(TRAINING, 1)
    texts = [f"{row['Titel']} {row['Beschreibung']}" for row in rows]
    labels = [row["Schlagwörter"].split("; ") for row in rows]
    plain = LongtailClassifier("parabel", threshold=0.2, threads=1)
    y = MultiLabelBinarizer().fit_transform(labels)
    piped = make_pipeline(TfidfVectorizer(), clone(plain)).fit(texts, y)
    assert piped.predict(["Honig Waben Imkerei"]).tolist() == [[1, 0, 0, 0]]
    assert cross_val_score(plain, texts, y, cv=3, scoring="f1_micro").min() > 0.8
    search = GridSearchCV(plain, {"learner__trees": [1, 2]}, cv=KFold(2)).fit(texts, labels)
    joblib.dump(search.best_estimator_, folder / "kept.joblib")
    assert joblib.load(folder / "kept.joblib").predict(["Honig Waben Imkerei"]) == [["4006777-4"]]
