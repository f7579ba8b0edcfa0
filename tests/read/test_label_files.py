"""Labels files of all kinds: SKOS, Annif's, tables, Excel; and what documents may call their labels."""

from __future__ import annotations

import json
import time

import openpyxl
import pytest

from longtail.errors import InputError, UsageError
from longtail.read import read, read_with_report
from longtail.read.label_file import read_labels
from longtail.read.options import ReadOptions
from longtail.run import Run

TURTLE = """
# a small vocabulary
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix ex: <http://ex.org/> .
ex:1 a skos:Concept ; skos:prefLabel "cheese"@en, "Käse"@de-DE ; skos:altLabel "fromage frais"@en, "Quark"@de ;
    skos:broader ex:3 ; skos:notation "A1" .
ex:2 a skos:Concept ; skos:prefLabel "oil"@en, "Öl"@de ; skos:altLabel "grease"@en ; skos:scopeNote "not crude"@en .
ex:3 a skos:Concept ; skos:prefLabel "food"@en, "Lebensmittel"@de ; skos:narrower ex:2 .
ex:scheme a skos:ConceptScheme .
"""
XML = """<?xml version="1.0" encoding="iso-8859-1"?>
<!DOCTYPE rdf:RDF [<!ENTITY skos "http://www.w3.org/2004/02/skos/core#">]>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:skos="&skos;">
 <skos:Concept rdf:about="http://ex.org/1"><skos:prefLabel xml:lang="de">Käse</skos:prefLabel>
  <skos:altLabel xml:lang="de">Quark</skos:altLabel><skos:broader rdf:resource="http://ex.org/3"/></skos:Concept>
 <skos:Concept rdf:about="http://ex.org/2"><skos:prefLabel xml:lang="de">Öl</skos:prefLabel></skos:Concept>
 <skos:Concept rdf:about="http://ex.org/3"><skos:prefLabel xml:lang="de">Lebensmittel</skos:prefLabel></skos:Concept>
</rdf:RDF>
"""
NT = """<http://ex.org/1> <http://www.w3.org/2004/02/skos/core#prefLabel> "K\\u00E4se"@de .
<http://ex.org/1> <http://www.w3.org/2004/02/skos/core#altLabel> "Quark"@de .
<http://ex.org/1> <http://www.w3.org/2004/02/skos/core#broader> <http://ex.org/3> .
<http://ex.org/2> <http://www.w3.org/2004/02/skos/core#prefLabel> "\\u00D6l"@de .
<http://ex.org/3> <http://www.w3.org/2004/02/skos/core#prefLabel> "Lebensmittel"@de .
"""
GND = """@prefix gndo: <https://d-nb.info/standards/elementset/gnd#> .
<https://d-nb.info/gnd/1> gndo:preferredNameForTheSubjectHeading "Käse" ; gndo:gndIdentifier "1" ;
    gndo:variantNameForTheSubjectHeading "Quark" ; gndo:broaderTermGeneral <https://d-nb.info/gnd/3> .
<https://d-nb.info/gnd/3> gndo:preferredNameForTheSubjectHeading "Lebensmittel" .
"""


def documents(path, *labels, text="some text"):
    path.write_text("".join(json.dumps({"text": text, "labels": [label]}) + "\n" for label in labels))
    return path


@pytest.fixture
def turtle(tmp_path):
    path = tmp_path / "v.ttl"
    path.write_text(TURTLE, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "content", "encoding"),
    [
        ("v.ttl", TURTLE, "utf-8"),
        ("v", TURTLE, "utf-8"),
        ("v.rdf", XML, "latin-1"),
        ("v.xml", XML, "latin-1"),
        ("v.nt", NT, "utf-8"),
        ("v", NT, "utf-8"),
    ],
)
def test_skos(tmp_path, name, content, encoding):
    path = tmp_path / name
    path.write_bytes(content.encode(encoding))
    german = f"{path}::de"
    table = read_labels(german)
    assert table.names == ["http://ex.org/1", "http://ex.org/2", "http://ex.org/3"]
    assert table.texts[0].split("\n") == ["Käse", "Quark", "Lebensmittel"]
    assert table.texts[2] == "Lebensmittel"
    corpus = read(documents(tmp_path / "d.jsonl", "http://ex.org/1", "http://ex.org/2"), labels=german)
    assert corpus.labels.title(0) == "Käse" and corpus.labels.text(0) == "Käse\nQuark\nLebensmittel"


def test_words_of_the_gnd(tmp_path):
    path = tmp_path / "gnd.ttl"
    path.write_text(GND)
    assert read_labels(path).texts == ["Käse\nQuark\nLebensmittel", "Lebensmittel"]


@pytest.mark.parametrize(
    ("labels", "way"),
    [
        (["http://ex.org/1", "http://ex.org/2"], None),
        (["1", "2"], "the ends of their addresses"),
        (["A1"], "their notations"),
        (["Käse", "Öl"], "their preferred names"),
        (["cheese", "oil"], "their preferred names"),
    ],
)
def test_documents_may_call_labels_otherwise(turtle, tmp_path, labels, way):
    corpus, report = read_with_report(documents(tmp_path / "d.jsonl", *labels), labels=f"{turtle}::en")
    found = dict(zip(corpus.labels.names, corpus.labels.texts, strict=True))
    assert found[labels[-1]] != ""
    assert [note for note in report.notes if " by " in note] == (
        [f"labels are found in {turtle} by {way}"] if way else []
    )


def test_texts_by_any_name(turtle):
    texts = read_labels(f"{turtle}::en").by_any_name()
    assert texts["http://ex.org/1"] == texts["1"] == texts["A1"] == texts["cheese"] == texts["Käse"]


def test_the_language_of_the_documents(turtle, tmp_path):
    for text, first in (("das Käse und Öl Brot", "Käse"), ("the cheese and oil bread", "cheese")):
        path = documents(tmp_path / "d.jsonl", "http://ex.org/1", "http://ex.org/2", text=text)
        corpus, report = read_with_report(path, labels=turtle)
        assert corpus.labels.title(0) == first
        assert f"label texts are in '{'de' if first == 'Käse' else 'en'}'" in report.notes[-1]
    assert read(path, labels=f"{turtle}::de").labels.text(1) == "Öl\nLebensmittel"
    with pytest.raises(UsageError, match="no names in the language 'fr'; there are: en, de"):
        read(path, labels=f"{turtle}::fr")


def test_a_language_that_nothing_tells(turtle, tmp_path):
    _, report = read_with_report(documents(tmp_path / "d.jsonl", "1", "2", "3", text="other words"), labels=turtle)
    said = [note for note in report.notes if "label texts are in" in note]
    assert len(said) == 1 and "as the documents are" not in said[0] and "others: " in said[0]


def test_tables_with_addresses_of_labels(tmp_path):
    path = tmp_path / "v.tsv"
    path.write_text("<http://ex.org/gnd/1-0>\tcheese\n<http://ex.org/gnd/2-X>\toil\n")
    corpus, report = read_with_report(documents(tmp_path / "d.jsonl", "1-0", "2-X"), labels=path)
    assert corpus.labels.texts == ["cheese", "oil"]
    assert report.notes == [f"labels are found in {path} by the ends of their addresses"]


def test_a_file_of_other_labels(tmp_path):
    path = tmp_path / "v.csv"
    path.write_text("label,text\nzebra,Zebras\n")
    _, report = read_with_report(documents(tmp_path / "d.jsonl", "a", "b"), labels=path)
    assert report.notes == [f"none of 2 labels, such as 'a', is listed in {path}; it has names such as 'zebra'"]


def test_progress_of_reading_labels(turtle):
    seen = []

    class Bars:
        def bar(self, title, total):
            seen.append((title, total))
            return self

        def __enter__(self):
            return self

        def __exit__(self, *exception):
            return None

        def advance(self, amount=1):
            seen.append(amount)

    read_labels(turtle, run=Run(progress=Bars()))
    assert seen[0] == ("Reading labels", None) and sum(seen[1:]) == 17


RDF = """<?xml version="1.0"?>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:s="http://www.w3.org/2004/02/skos/core#">
<s:Concept rdf:about="http://ex.org/1">%s</s:Concept></rdf:RDF>
"""
NAMESPACES = " ".join(f"xmlns:p{n}='x:{n}'" for n in range(5000))
ENTITIES = "".join("<!ENTITY a{} '{}'>".format(n, f"&a{n - 1};" * 10) for n in range(1, 31))
LAUGHS = f"""<?xml version="1.0"?>
<!DOCTYPE rdf:RDF [<!ENTITY a0 "ha">{ENTITIES}]>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:s="http://www.w3.org/2004/02/skos/core#">
<s:Concept rdf:about="http://ex.org/1"><s:prefLabel>&a30;</s:prefLabel></s:Concept></rdf:RDF>
"""
OUTSIDE = """<?xml version="1.0"?>
<!DOCTYPE rdf:RDF [<!ENTITY x SYSTEM "%s">]>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:s="http://www.w3.org/2004/02/skos/core#">
<s:Concept rdf:about="http://ex.org/1"><s:prefLabel>before &x; after</s:prefLabel></s:Concept></rdf:RDF>
"""


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("v.rdf", LAUGHS, "a text of more than 64 KB"),
        ("v.rdf", RDF % ("<s:prefLabel>" + "a\n" * 300_000 + "</s:prefLabel>"), "a text of more than 64 KB"),
        ("v.rdf", RDF % ('<s:note rdf:parseType="Literal">' + "<b/>" * 100_000 + "</s:note>"), "no preferred name"),
        ("v.rdf", RDF % ("<s:broader><s:Concept>" * 50_000), "implausibly many namespaces, or elements inside"),
        ("v.rdf", RDF % f"<s:a {NAMESPACES}/>", "implausibly many namespaces"),
        ("v.ttl", "@prefix a: <b> .\n<x> <y> " + "[" * 100_000, "not readable as turtle: "),
        ("v.ttl", "@prefix a: <b> .\n<x> <y> (" + "(" * 100_000, "not readable as turtle: "),
        ("v.ttl", '@prefix a: <b#> . # it\'s\n<x:x> <y:y> """' + 'a"\n' * 300_000 + '""" .', ":2: a text of more than"),
        ("v.ttl", "@prefix a: <b> .\n<x:x> <y:y> '" + "\\n" * 300_000, ":2: a text of more than 64 KB"),
        ("v.nt", '<a> <b> "' + "\\n" * 300_000 + '" .\n', "a text of more than 64 KB"),
        ("v.ttl", "@prefix a: <b> .\n\n<x> nonsense", ":3: not readable as turtle: "),
        ("v.rdf", "<?xml version='1.0'?>\n<rdf:RDF>", ":2: not readable as xml: unbound prefix"),
        ("v.nt", "<a> <b> <c> .\nnonsense", "not readable as nt: "),
        ("v.ttl", "@prefix a: <b> .\n<x:x> <y:y> <z:z> .", "there is no preferred name of a concept"),
        ("v.jsonld", '{"@context": "http://ex.org"}', "JSON-LD is not read; save it as Turtle"),
    ],
)
def test_bad_and_hostile_vocabularies(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_text(content)
    begun = time.monotonic()
    with pytest.raises(InputError) as caught:
        read(documents(tmp_path / "d.jsonl", "x"), labels=path)
    assert message in str(caught.value) and str(caught.value).isprintable()
    assert time.monotonic() - begun < 20


def test_half_a_character_is_no_text(tmp_path):
    path = tmp_path / "v.ttl"
    path.write_text('<http://x/1> <http://www.w3.org/2004/02/skos/core#prefLabel> "a\\ud800b" .')
    assert read_labels(path).texts == ["a?b"]


def test_nothing_outside_is_read(tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("a secret")
    path = tmp_path / "v.rdf"
    path.write_text(OUTSIDE % secret.as_uri())
    try:
        texts = read_labels(path).texts
    except InputError as refused:
        texts = [str(refused)]
    assert "a secret" not in texts[0]


def test_what_unpacks_to_too_much(tmp_path, monkeypatch, turtle):
    monkeypatch.setattr("longtail.read.rdf.MOST_BYTES", 100)
    with pytest.raises(InputError, match="unpacks to more than"):
        read_labels(turtle)


@pytest.mark.parametrize(
    ("name", "content", "texts"),
    [
        ("v.tsv", "<http://x/1>\tcats\n<http://x/2>\tdogs\textra\n\n", ["cats", "dogs"]),
        (
            "v.csv",
            "uri,notation,label_en,label_fi\nhttp://x/1,,cats,kissat\n<http://x/2>,,dogs,koirat\n",
            ["cats", "dogs"],
        ),
        ("v.csv", "id;label\nhttp://x/1;cats\nhttp://x/2;dogs\n", ["cats", "dogs"]),
        ("v.csv", "Nr;Bezeichnung\nhttp://x/1;Käse\nhttp://x/2;Öl\n", ["Käse", "Öl"]),
        ("v.csv", "label\nhttp://x/1\nhttp://x/2\n", ["", ""]),
    ],
)
def test_tables_of_labels(tmp_path, name, content, texts):
    path = tmp_path / name
    path.write_text(content, encoding="cp1252")
    table = read_labels(path)
    assert list(table.names) == ["http://x/1", "http://x/2"] and list(table.texts) == texts
    assert bool(table.remarks) == ("ä" in content)


def test_an_excel_file_of_labels(tmp_path):
    book = openpyxl.Workbook()
    book.active.append(["label", "text"])
    second = book.create_sheet("Zweites")
    for row in (["id", "name"], [1, "cats"], [2, "dogs"]):
        second.append(row)
    book.save(tmp_path / "v.xlsx")
    table = read_labels(f"{tmp_path}/v.xlsx::Zweites")
    assert (list(table.names), list(table.texts)) == (["1", "2"], ["cats", "dogs"])
    corpus, report = read_with_report(documents(tmp_path / "d.jsonl", "cats"), labels=f"{tmp_path}/v.xlsx::Zweites")
    assert corpus.labels.texts == ["cats"] and "by their texts" in report.notes[0]


def test_bad_tables_of_labels(tmp_path):
    path = tmp_path / "v.tsv"
    path.write_text("<http://x/1>\tcats\nhttp://x/2\tdogs\n")
    with pytest.raises(InputError, match=r"v.tsv:2: expected <uri>, a tab, and the label"):
        read_labels(path)
    path.write_text("label\ttext\nx\ty\n")
    with pytest.raises(UsageError, match="only Excel files and vocabularies have parts"):
        read_labels(f"{path}::en")


def test_the_encoding_of_documents_helps(tmp_path):
    path = tmp_path / "v.csv"
    path.write_bytes("label,text\nx,мир\n".encode("cp1251"))
    data = tmp_path / "d.csv"
    data.write_bytes("text,labels\nПривет,x\n".encode("cp1251"))
    corpus = read(data, options=ReadOptions(encoding="cp1251", labels=path))
    assert corpus.texts == ["Привет"] and corpus.labels.texts == ["мир"]
