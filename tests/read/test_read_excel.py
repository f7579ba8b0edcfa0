"""Excel workbooks: sheets, cells of all kinds, and files made to harm."""

from __future__ import annotations

import datetime
import io
import time
import zipfile

import openpyxl
import pytest

from longtail.errors import InputError, UsageError
from longtail.read import read, read_in_batches, read_with_report
from longtail.read.estimate import corpus_bytes

HEADER = ["Nr", "Titel", "Beschreibung", "Schlagwörter", None]


def workbook(path, *rows, title="Katalog", **others):
    book = openpyxl.Workbook()
    book.active.title = title
    for name, content in {title: rows, **others}.items():
        sheet = book[name] if name in book.sheetnames else book.create_sheet(name)
        for row in content:
            sheet.append(row)
    book.save(path)
    return path


def names_of(corpus):
    return [[corpus.labels.names[c] for c in row.indices] for row in corpus.Y]


def test_a_workbook(tmp_path):
    path = workbook(
        tmp_path / "k.xlsx",
        [None, None],
        HEADER,
        [7, "Käse", "Über Käse", "Milch; Käse"],
        [None, None, None],
        [8.0, 1984, datetime.date(2024, 5, 1), "Öl", "stray"],
        [9, "#N/A", None, None],
    )
    corpus, report = read_with_report(path)
    assert corpus.texts == ["Käse Über Käse", "1984 2024-05-01", ""]
    assert corpus.ids == ["7", "8", "9"]
    assert names_of(corpus) == [["Käse", "Milch"], ["Öl"], []]
    assert report.format == "excel" and (report.empty_texts, report.unlabelled) == (1, 1)
    assert report.notes == [
        "text from 'Titel' and 'Beschreibung', labels from 'Schlagwörter', ids from 'Nr'",
        "labels are separated by ';'",
    ]
    path.rename(tmp_path / "no-ending")
    assert read(tmp_path / "no-ending").texts == corpus.texts


def test_sheets(tmp_path):
    first, second = [HEADER, [1, "a", "b", "x"]], [HEADER, [2, "c", "d", "y"]]
    path = workbook(tmp_path / "k.xlsx", *first, zwei=second, drei=second)
    corpus, report = read_with_report(path)
    assert corpus.ids == ["1"]
    assert report.notes[0] == "sheet 'Katalog' is read; k.xlsx::SHEET reads another: 'zwei', 'drei'"
    corpus, report = read_with_report(f"{path}::zwei")
    assert corpus.ids == ["2"] and report.source == f"{path}::zwei" and len(report.notes) == 1
    with pytest.raises(InputError, match=r"no sheet 'zwo'; did you mean 'zwei'"):
        read(f"{path}::zwo")
    (tmp_path / "d.csv").write_text("text,labels\na,b\n")
    with pytest.raises(UsageError, match=r"has no sheets or tables"):
        read(f"{tmp_path}/d.csv::x")
    with pytest.raises(InputError, match=r"gone.xlsx::x: no such file"):
        read(tmp_path / "gone.xlsx::x")


def test_the_sheet_with_documents_is_found(tmp_path):
    notes, first = [["Please read"], ["made in May"]], [[], HEADER, [1, "a", "b", "x"]]
    path = workbook(tmp_path / "k.xlsx", *notes, title="Notes", Katalog=first)
    corpus, report = read_with_report(path)
    assert corpus.ids == ["1"]
    assert report.notes[0] == "sheet 'Katalog' is read; k.xlsx::SHEET reads another: 'Notes'"
    assert read(path, text_field="Titel", labels_field="Nr").texts == ["a"], "fields that are asked for count"
    workbook(path, *notes, title="Notes", more=[["x", "y"]])
    with pytest.raises(InputError, match=r"k.xlsx::Notes:1: columns are: Please read; name them"):
        read(path)


def test_errors_name_the_row(tmp_path):
    path = workbook(tmp_path / "k.xlsx", ["text", "labels"], ["a", "x"], [], ["b", '["x", ""]'])
    with pytest.raises(InputError, match=r"k.xlsx:4: field 'labels' has an empty label"):
        read(path)
    assert read(path, skip_bad=True).texts == ["a"]
    path = workbook(tmp_path / "k.xlsx", ["a", "b"], ["a", "x"])
    with pytest.raises(InputError, match=r"k.xlsx:1: columns are: a, b; name them with"):
        read(path)
    with pytest.raises(InputError, match=r"the sheet is empty"):
        read(workbook(tmp_path / "k.xlsx"))
    with pytest.raises(InputError, match=r"no documents in the file"):
        read(workbook(tmp_path / "k.xlsx", ["text", "labels"]))


def test_in_batches_and_in_a_folder(tmp_path):
    rows = [["text", "labels"], *([f"t{n}", f"l{n % 3}"] for n in range(25))]
    path = workbook(tmp_path / "test.xlsx", *rows)
    batches, report = read_in_batches(path, 10)
    assert [len(batch) for batch in batches] == [10, 10, 5] and report.documents == 25
    assert read(tmp_path, split="test").texts == [f"t{n}" for n in range(25)]


def test_an_estimate_of_memory(tmp_path):
    texts = [["text", "labels"], *([f"some words that are long {n}" * 20, "x"] for n in range(500))]
    path = workbook(tmp_path / "k.xlsx", *texts)
    characters = sum(len(text) for text, _ in texts)
    assert characters < corpus_bytes(path) < 3 * characters
    assert corpus_bytes(f"{path}::Katalog") == corpus_bytes(path)


# --- made to harm
def repacked(path, changes):
    """The workbook with other content in some parts."""
    sink = io.BytesIO()
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as new:
        for part in old.namelist():
            with new.open(part, "w", force_zip64=True) as target:
                for piece in changes.get(part, [old.read(part)]):
                    target.write(piece)
    path.write_bytes(sink.getvalue())
    return path


SHEET = "xl/worksheets/sheet1.xml"
OPENING = b'<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>'
CLOSING = b"</sheetData></worksheet>"
LAUGHS = b'<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'


@pytest.mark.parametrize(
    ("sheet", "message"),
    [
        ([OPENING, *[b"<row><c/></row>" * 100_000] * 40, CLOSING], "packed implausibly well"),
        ([OPENING, b"<row>", *[b"<c/>" * 1_000_000] * 5, b"</row>", CLOSING], "packed implausibly well|a row of more"),
        ([LAUGHS, OPENING, b"<row><c><v>&b;</v></c></row>", CLOSING], "not what Excel writes"),
        ([OPENING.decode().encode("utf-16"), CLOSING.decode().encode("utf-16-le")], "not what Excel writes"),
        ([OPENING, b"<row>", CLOSING], "not a readable Excel file"),
        ([b""], "not a readable Excel file"),
    ],
    ids=["many rows", "a long row", "entities", "utf-16", "not closed", "empty"],
)
def test_hostile_sheets(tmp_path, sheet, message):
    path = repacked(workbook(tmp_path / "k.xlsx", ["text", "labels"], ["a", "x"]), {SHEET: sheet})
    begun = time.monotonic()
    with pytest.raises(InputError, match=message) as caught:
        read(path)
    assert time.monotonic() - begun < 20 and str(caught.value).isprintable()


def test_a_long_row_that_packs_badly(tmp_path, monkeypatch):
    monkeypatch.setattr("longtail.read.excel.LONGEST_ROW", 30_000)
    cells = b"".join(b"<c><v>%d</v></c>" % (n * n) for n in range(5000))
    path = workbook(tmp_path / "k.xlsx", ["text", "labels"], ["a", "x"])
    repacked(path, {SHEET: [OPENING, b"<row>", cells, b"</row>", CLOSING]})
    with pytest.raises(InputError, match=r"sheet1.xml in it has a row of more than"):
        read(path)
    rows = b"".join(b"<row><c><v>%d</v></c></row>" % n for n in range(5000))
    repacked(path, {SHEET: [OPENING, rows, CLOSING]})
    with pytest.raises(InputError, match=r"columns are: 0"):
        read(path)


def test_row_numbers_beyond_reason(tmp_path):
    rows = b'<row r="1"><c t="str"><v>text</v></c></row><row r="99999999999"><c t="str"><v>b</v></c></row>'
    path = workbook(tmp_path / "k.xlsx", ["text"], ["a"])
    repacked(path, {SHEET: [OPENING, rows, CLOSING]})
    begun = time.monotonic()
    with pytest.raises(InputError, match=r"no documents"):
        read(path, need_labels=False)
    assert time.monotonic() - begun < 20


def test_a_bomb_in_another_part(tmp_path):
    path = workbook(tmp_path / "k.xlsx", ["text", "labels"], ["a", "x"])
    repacked(path, {"xl/styles.xml": [b" " * (1 << 20)] * 80})
    with pytest.raises(InputError, match=r"styles.xml in it is packed implausibly well"):
        read(path)


def test_other_office_files(tmp_path):
    path = tmp_path / "k.xls"
    path.write_bytes(bytes.fromhex("d0cf11e0a1b11ae1") + b"\0" * 100)
    with pytest.raises(InputError, match=r"an old or locked Office file; save it as .xlsx or CSV"):
        read(path)
    path = tmp_path / "k.ods"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
    with pytest.raises(InputError, match=r"a zip archive; unpack it first"):
        read(path)
