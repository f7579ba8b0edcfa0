"""What is found out about a file by itself, and said: fields, delimiters, quotes, separators, encodings."""

from __future__ import annotations

import json
import logging

import pytest

from longtail.errors import InputError, UsageError
from longtail.read import read, read_in_batches, read_texts, read_with_report
from longtail.read.dialect import find_dialect
from longtail.read.fields import find_fields
from longtail.read.options import ReadOptions
from longtail.read.separators import find_separator, split_cell


def names_of(corpus):
    return [[corpus.labels.names[c] for c in row.indices] for row in corpus.Y]


GERMAN = (
    "Nr;Titel;Beschreibung;Schlagwörter\n"
    '7;Käse;"Über Käse; und ""Brot""";Milch / Käse\n'
    "8;Öl;Über Öl;Öl / Käse\n"
    "9;Brot;;Käse / Brot / Öl\n"
)


# --- fields
@pytest.mark.parametrize(
    ("there", "text", "labels", "ids"),
    [
        (["Nr", "Titel", "Beschreibung", "Schlagwörter"], ["Titel", "Beschreibung"], "Schlagwörter", "Nr"),
        (["ID", "Title", "Abstract", "Author Keywords", "Keywords"], ["Title", "Abstract"], "Keywords", "ID"),
        (["titre", "RÉSUMÉ", "mots_cles"], ["titre", "RÉSUMÉ"], "mots_cles", None),
        (["Título", "Resumen", "Palabras clave"], ["Título", "Resumen"], "Palabras clave", None),
        (["Titolo", "Riassunto", "Parole chiave"], ["Titolo", "Riassunto"], "Parole chiave", None),
        (["titel", "samenvatting", "trefwoorden"], ["titel", "samenvatting"], "trefwoorden", None),
        (["Título", "Resumo", "Palavras-chave"], ["Título", "Resumo"], "Palavras-chave", None),
        (["Otsikko", "Tiivistelmä", "Asiasanat"], ["Otsikko", "Tiivistelmä"], "Asiasanat", None),
        (["Titel", "Sammanfattning", "Ämnesord"], ["Titel", "Sammanfattning"], "Ämnesord", None),
        (["dc:title", "dcterms.description", "dc:subject"], ["dc:title", "dcterms.description"], "dc:subject", None),
        (["title_de", "title_en", "subjects@de"], ["title_de"], "subjects@de", None),
        (["question", "tags"], ["question"], "tags", None),
        (["text", "label"], ["text"], "label", None),
        (["id", "title", "text", "labels", "tags"], ["text"], "labels", "id"),  # what the docs say comes first
        (["name", "description", "category", "price"], ["name", "description"], "category", None),
    ],
)
def test_usual_names(there, text, labels, ids):
    found = find_fields(there, ReadOptions())
    assert (list(found.text), list(found.labels)) == (text, [labels])
    assert list(found.ids) == ([ids] if ids else [])


def test_fields_asked_for_are_not_guessed():
    there = ["title", "abstract", "tags", "keywords"]
    assert find_fields(there, ReadOptions(text_field="tags")).labels == ("keywords",)
    assert find_fields(there, ReadOptions(text_field="title")).text == ("title",)
    assert find_fields(there, ReadOptions(labels_field="abstract")).text == ("title",)
    assert find_fields(["a", "b"], ReadOptions()) == find_fields([], ReadOptions())


def test_a_german_spreadsheet(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text(GERMAN, encoding="cp1252")
    corpus, report = read_with_report(path)
    assert corpus.texts == ['Käse Über Käse; und "Brot"', "Öl Über Öl", "Brot"]
    assert corpus.ids == ["7", "8", "9"]
    assert names_of(corpus) == [["Käse", "Milch"], ["Käse", "Öl"], ["Brot", "Käse", "Öl"]]
    assert report.notes == [
        "not UTF-8: read as cp1252, as in 'Schlagwörter'; if that looks wrong, set --encoding",
        "text from 'Titel' and 'Beschreibung', labels from 'Schlagwörter', ids from 'Nr'",
        "labels are separated by '/'",
    ]
    assert report.summary() == [f"{path}: {note}" for note in report.notes]


def test_labels_that_are_kept_whole_are_said(tmp_path):
    path = tmp_path / "d.jsonl"
    path.write_text("".join(json.dumps({"text": "a", "labels": each}) + "\n" for each in ["bees, whales", "bees"] * 9))
    corpus, report = read_with_report(path)
    assert list(corpus.labels.names) == ["bees", "bees, whales"]
    assert report.notes == ["labels such as 'bees, whales' are kept whole; --separator ',' cuts them"]
    corpus, report = read_with_report(path, separator=",")
    assert list(corpus.labels.names) == ["bees", "whales"] and report.notes == []


def test_nothing_that_fits(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text("Nr,Buch,Inhaltliches,Worte\n1,a,b,c\n")
    with pytest.raises(InputError) as caught:
        read(path)
    asked = "columns are: Nr, Buch, Inhaltliches, Worte; name them with --text-field, --labels-field"
    assert str(caught.value) == f"{path}:1: {asked}"
    assert read(path, text_field="Buch", labels_field="Worte").texts == ["a"]
    with pytest.raises(InputError, match=r"name one with --labels-field"):
        read(path, text_field="Buch")
    assert read_texts(path, text_field=["Buch", "Inhaltliches"]).texts == ["a b"]


def test_fields_of_json_are_found_among_the_first_records(tmp_path):
    path = tmp_path / "d.jsonl"
    records = [{"title": "a"}, {"title": "b", "tags": ["x"]}]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    with pytest.raises(InputError, match=r"d.jsonl:1: no field 'tags'; there is 'title'"):
        read(path)
    corpus, report = read_with_report(path, skip_bad=True)
    assert corpus.texts == ["b"] and report.notes == ["text from 'title', labels from 'tags'"]


def test_prediction_does_not_trip_over_labels_it_guessed(tmp_path):
    path = tmp_path / "d.jsonl"
    path.write_text('{"title": "a", "topic": 1.5}\n')
    (batch,) = read_in_batches(path, 10)[0]
    assert batch.texts == ["a"]


def test_an_id_that_was_guessed_may_be_odd(tmp_path):
    path = tmp_path / "d.jsonl"
    path.write_text('{"title": "a", "tags": ["x"], "nr": 1.5}\n{"title": "a", "tags": ["x"], "nr": 3}\n')
    assert read(path).ids == ["0", "3"]


def test_python_is_told_by_a_log(tmp_path, caplog):
    path = tmp_path / "d.csv"
    path.write_text(GERMAN)
    with caplog.at_level(logging.WARNING, logger="longtail.read"):
        read(path)
    assert "text from 'Titel' and 'Beschreibung'" in caplog.text and str(path) in caplog.text


# --- delimiters and quotes
@pytest.mark.parametrize(
    ("content", "delimiter", "header"),
    [
        ("a;b, c;d\n1;2, 3;4\n5;6;7\n", ";", ["a", "b, c", "d"]),
        ("a|b\n1, 2|3\n", "|", ["a", "b"]),
        ("a\tb\n1\t2\n", "\t", ["a", "b"]),
        ('sep=;\n"x,y";z\n1;2\n', ";", ["x,y", "z"]),
        ('"a\nb",c\n1,2\n', ",", ["a\nb", "c"]),
        (" a , b \r\n1,2\r\n", ",", ["a", "b"]),
    ],
)
def test_delimiters(content, delimiter, header):
    found = find_dialect(content.encode(), [], tabs=False)
    assert (found.delimiter, found.header) == (delimiter, header)


def test_the_delimiter_that_gives_what_is_wanted():
    assert find_dialect(b"a,b;c\n1,2;3\n", ["b;c"], tabs=False).delimiter == ","
    assert find_dialect(b"a,b;c\n1,2;3\n", ["c"], tabs=False).delimiter == ";"


def test_a_line_before_the_header_and_line_numbers(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text('sep=;\n"text\n";labels\na;x\nb\n')
    with pytest.raises(InputError, match=r"d.csv:5: 1 cell, but the header has 2"):
        read(path)
    assert read(path, skip_bad=True).texts == ["a"]


def test_quotes_of_other_kinds(tmp_path):
    path = tmp_path / "d.tsv"
    path.write_text('text\tlabels\n"Never" say never\tx\n"odd\ty\n')
    corpus, report = read_with_report(path)
    assert corpus.texts == ['"Never" say never', '"odd'] and "quotes are part of the text" in report.notes
    path = tmp_path / "d.csv"
    path.write_text('text,labels\n"say \\"no\\", then",x\n"b",y\n')
    corpus, report = read_with_report(path)
    assert corpus.texts == ['say "no", then', "b"] and "marked by a backslash" in report.notes[0]


def test_one_column_needs_no_delimiter(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text('Text\nyes, no; maybe\n"quoted, too"\n')
    assert read_texts(path).texts == ["yes, no; maybe", "quoted, too"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("Titel;Schlagwort\na;b\n", "csv"),
        ("title,tags\na,b\n", "csv"),
        ("Title, yes\nthat is a title\n", "text"),
        ("just, words\n", "text"),
    ],
)
def test_tables_without_a_telling_name(tmp_path, content, expected):
    path = tmp_path / "d.dat"
    path.write_text(content)
    assert read_with_report(path, need_labels=False)[1].format == expected


# --- separators
@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["a; b", "b; c", "a"], ";"),
        (["a|b", "c"], "|"),
        (["a\nb", "c"], "\n"),
        (["a\tb", "c"], "\t"),
        (["a, b", "b, c", "a, c", "c, a, b"], ","),
        (["a/b", "b/c", "a/c"], "/"),
        (["Adams, Douglas", "Lem, Stanisław", "Adams, Douglas", "Carroll, Lewis"], None),
        (["http://a.org/1", "http://a.org/2", "http://a.org/1"], None),
        (["R&amp;D", "Q&amp;A"], None),
        (["and/or", "x", "y", "z", "x", "y"], None),
        (["physics", "physics", "music"], None),
        (['["a;b"]', "['x', 'y']", "<u> <v>"], None),
        (["", " "], None),
    ],
)
def test_separators(texts, expected):
    assert find_separator(texts) == expected


@pytest.mark.parametrize(
    ("cell", "names"),
    [
        ("a; b;;c; ", ["a", "b", "c"]),
        ('["a;b", 3]', ["a;b", 3]),
        ("['it''s', \"x\", 3]", None),
        ("['a;b', \"it's\", 3, ]", ["a;b", "it's", 3]),
        ("[]", []),
        ("['\\ud800']", None),
        ("['a' 'b']", None),
        ("<http://x/1> <http://x/2>", ["http://x/1", "http://x/2"]),
        ("<python><pandas>", ["python", "pandas"]),
        ("<a> b", ["<a> b"]),
    ],
)
def test_cells(cell, names):
    if names is None:
        with pytest.raises(Exception, match=r"not JSON"):
            split_cell(cell, ";")
    else:
        assert split_cell(cell, ";") == names


def test_texts_and_numbers_as_labels_in_json(tmp_path):
    path = tmp_path / "d.jsonl"
    path.write_text('{"text": "a", "label": "x; y"}\n{"text": "b", "label": "y"}\n{"text": "c", "label": 3}\n')
    assert names_of(read(path)) == [["x", "y"], ["y"], ["3"]]
    path.write_text('{"text": "a", "label": ["x"]}\n{"text": "b", "label": "y"}\n')  # a slip among lists
    with pytest.raises(InputError, match=r"d.jsonl:2: field 'label' is text, not a list"):
        read(path)


def test_a_json_list(tmp_path):
    path = tmp_path / "d.json"
    path.write_text(json.dumps([{"text": "a", "labels": ["x"]}, {"text": "b", "labels": 3}], indent=1))
    with pytest.raises(InputError, match=r"d.json:2: field 'labels' must be a list"):
        read(path)
    assert read(path, skip_bad=True).texts == ["a"]
    assert read_with_report(path, skip_bad=True)[1].format == "jsonl"


# --- labels that are none
def rows(tmp_path, labels):
    path = tmp_path / "d.jsonl"
    path.write_text("".join(json.dumps({"text": f"t{n}", "labels": names}) + "\n" for n, names in enumerate(labels)))
    return path


def test_unique_labels_are_refused(tmp_path):
    path = rows(tmp_path, [[f"some sentence {n}"] for n in range(150)])
    with pytest.raises(InputError) as caught:
        read(path)
    assert str(caught.value).startswith(
        f"{path}: nearly every label is unique: 150 labels, given 150 times, as in 'some"
    )
    assert str(caught.value).endswith("--force reads it all the same") and "\n" not in str(caught.value)
    corpus, report = read_with_report(path, force=True)
    assert len(corpus) == 150 and report.notes[0].startswith("nearly every label is unique")
    assert len(read(rows(tmp_path, [[f"l{n}"] for n in range(50)]))) == 50  # too few to say
    assert len(read(rows(tmp_path, [[f"l{n}", "l"] for n in range(150)]))) == 150


@pytest.mark.parametrize("sign", [";", "|", ",", "\t"])
def test_labels_with_separators_in_them_are_refused(tmp_path, sign):
    path = rows(tmp_path, [[f"a{n}{sign} b{n}"] for n in range(30)])
    with pytest.raises(InputError, match=r"30 of 30 labels hold .*give it with --separator"):
        read(path)
    assert "30 of 30 labels hold" in read_with_report(path, force=True)[1].notes[0]


def test_names_with_commas_are_names(tmp_path):
    path = rows(tmp_path, [[f"Family{n % 30}, Given"] for n in range(150)])
    assert len(read(path)) == 150


# --- encodings
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "latin-1", "utf-16", "utf-16-le", "utf-32"])
@pytest.mark.parametrize("name", ["d.csv", "d.jsonl", "d.txt", "d.ft"])
def test_encodings_of_all_text_formats(tmp_path, encoding, name):
    content = {
        "d.csv": "text;labels\nÜber Öl;Öl\nKäse;Käse\n",
        "d.jsonl": '{"text": "Über Öl", "labels": ["Öl"]}\n{"text": "Käse", "labels": ["Käse"]}\n',
        "d.txt": "Über Öl\nKäse\n",
        "d.ft": "__label__Öl Über Öl\n__label__Käse Käse\n",
    }[name]
    path = tmp_path / name
    path.write_bytes(content.encode(encoding))
    corpus, report = read_with_report(path, need_labels=False)
    assert corpus.texts == ["Über Öl", "Käse"]
    assert bool(report.notes) == (not encoding.startswith("utf-8"))
    if name != "d.txt":
        assert corpus.labels.names == ["Käse", "Öl"]
    batches, again = read_in_batches(path, 1)
    assert [batch.texts for batch in batches] == [["Über Öl"], ["Käse"]]
    assert again.notes == report.notes
    assert read(path, need_labels=False, encoding=encoding).texts == corpus.texts


def test_an_encoding_that_is_set(tmp_path):
    path = tmp_path / "d.csv"
    path.write_bytes("text,labels\nПривет,мир\n".encode("cp1251"))
    with pytest.raises(InputError, match=r"d.csv:2: byte 1 of the line is not UTF-8 .*--encoding"):
        read(path)
    corpus, report = read_with_report(path, encoding="cp1251")
    assert corpus.texts == ["Привет"] and report.notes == []
    with pytest.raises(UsageError, match=r"no encoding 'cp12521'; usual ones are"):
        read(path, encoding="cp12521")
    (tmp_path / "d.sqlite").write_bytes(b"SQLite format 3\0")
    with pytest.raises(UsageError, match=r"says itself how its text is encoded"):
        read(tmp_path / "d.sqlite", encoding="cp1251")
