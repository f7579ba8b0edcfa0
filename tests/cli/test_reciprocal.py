"""longtail evaluate where a document is itself one of the labels: filter files, and --reciprocal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cli_helpers import Command, write_jsonl

#: Pages and what they point to. Every page is a label too, and a page's own words are its best evidence for itself.
PAGES = {
    "oat": ["oatmeal", "porridge"],
    "oatmeal": ["oat", "porridge"],
    "porridge": ["oat", "oatmeal"],
    "sail": ["mast"],
    "mast": ["sail"],
}
NAMES = list(PAGES)
QUICK = ["--learner", "one-vs-all", "--quiet"]


def titles() -> list[dict[str, Any]]:
    """Training documents: each label's own name leads to it, as with label texts as documents, and so do its links."""
    return [{"title": name, "target_ind": [NAMES.index(name)]} for name in NAMES] * 4 + links()


def links() -> list[dict[str, Any]]:
    return [{"title": name, "target_ind": [NAMES.index(to) for to in pointed]} for name, pointed in PAGES.items()]


def as_jsonl(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"text": r["title"], "labels": [NAMES[column] for column in r["target_ind"]]} for r in records]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An LF folder of the XMC repository with filter files."""
    made = tmp_path / "LF-Pages"
    made.mkdir()
    write_jsonl(made / "trn.json", titles())
    write_jsonl(made / "tst.json", links())
    write_jsonl(made / "lbl.json", [{"uid": f"u{number}", "title": name} for number, name in enumerate(NAMES)])
    (made / "filter_labels_test.txt").write_text("".join(f"{row} {row}\n" for row in range(len(NAMES))))
    (made / "filter_labels_train.txt").write_text("")
    return made


def evaluated(command: Command, *arguments: object) -> tuple[dict[str, Any], str]:
    result = command("evaluate", *arguments, "-k", "1,2", "--json")
    assert result.code == 0, result.err
    return json.loads(result.out), result.err


def test_filter_files_count_end_to_end(command: Command, folder: Path, tmp_path: Path) -> None:
    """Worked by hand: the first place always goes to the page itself, the second to a page it points to.

    With the page itself in the ranking P@1 = 0; once it is taken out, P@1 = 100, and the three pages with two links
    and the two with one have P@2 = (3 * 2 + 2 * 1) / (5 * 2) = 80.
    """
    assert command("train", folder, "-o", tmp_path / "m", *QUICK).code == 0
    filtered, said = evaluated(command, tmp_path / "m", folder)
    assert (filtered["P@1"], filtered["P@2"], filtered["documents"], said) == (100, 80, 5, "")
    assert "Taken out of predictions and truth before ranking: 5 reciprocal pairs." in filtered["notes"]
    (folder / "filter_labels_test.txt").unlink()
    plain, _ = evaluated(command, tmp_path / "m", folder)
    assert plain["P@1"] == 0 and not any("reciprocal" in note for note in plain["notes"])
    by_text, said = evaluated(command, tmp_path / "m", folder, "--reciprocal")
    assert (by_text, said) == (filtered, ""), "texts tell the same pairs as the filter file"


def test_filter_files_count_for_sparse_files_too(command: Command, tmp_path: Path) -> None:
    """The same pages as features: one word each, which is the page itself."""
    folder = tmp_path / "LF-Sparse"
    folder.mkdir()
    for short, records in (("trn", titles()), ("tst", links())):
        words = "".join(f"{NAMES.index(record['title'])}:1.0\n" for record in records)
        labels = "".join(" ".join(f"{column}:1.0" for column in record["target_ind"]) + "\n" for record in records)
        (folder / f"{short}_X_Xf.txt").write_text(f"{len(records)} {len(NAMES)}\n{words}")
        (folder / f"{short}_X_Y.txt").write_text(f"{len(records)} {len(NAMES)}\n{labels}")
    assert command("train", folder, "-o", tmp_path / "m", *QUICK).code == 0
    assert evaluated(command, tmp_path / "m", folder)[0]["P@1"] == 0
    (folder / "filter_labels_test.txt").write_text("".join(f"{row} {row}\n" for row in range(len(NAMES))))
    filtered, _ = evaluated(command, tmp_path / "m", folder)
    assert (filtered["P@1"], filtered["P@2"]) == (100, 80)


def test_reciprocal_for_jsonl(command: Command, tmp_path: Path) -> None:
    train = write_jsonl(tmp_path / "train.jsonl", as_jsonl(titles()))
    # "sail" is no true label of this file, and yet the document "sail" must not be punished for it
    test = write_jsonl(tmp_path / "test.jsonl", as_jsonl([link for link in links() if link["title"] != "mast"]))
    assert command("train", train, "-o", tmp_path / "m", *QUICK).code == 0
    assert evaluated(command, tmp_path / "m", test)[0]["P@1"] == 0
    report, _ = evaluated(command, tmp_path / "m", test, "--reciprocal")
    assert report["P@1"] == 100
    assert any("4 reciprocal pairs" in note for note in report["notes"])
    assert evaluated(command, tmp_path / "m", test, "--reciprocal", "--all-labels")[0]["P@1"] == 100


def test_reciprocal_by_id(command: Command, tmp_path: Path) -> None:
    """Texts that say more than the title: the id names the label."""
    records = [{"id": r["text"], "text": f"about {r['text']}", "labels": r["labels"]} for r in as_jsonl(links())]
    train = write_jsonl(tmp_path / "train.jsonl", as_jsonl(titles()))
    test = write_jsonl(tmp_path / "test.jsonl", records)
    assert command("train", train, "-o", tmp_path / "m", *QUICK).code == 0
    assert evaluated(command, tmp_path / "m", test)[0]["P@1"] == 0
    assert evaluated(command, tmp_path / "m", test, "--reciprocal")[0]["P@1"] == 100


def test_reciprocal_by_texts_of_a_labels_file(command: Command, tmp_path: Path) -> None:
    """The model knows the labels by name only; the labels file given beside the data says what they are called."""
    names = {name: f"id-{number}" for number, name in enumerate(NAMES)}
    renamed = [
        [{**r, "labels": [names[n] for n in r["labels"]]} for r in as_jsonl(part)] for part in (titles(), links())
    ]
    train, test = (write_jsonl(tmp_path / f"{n}.jsonl", r) for n, r in zip(("train", "test"), renamed, strict=True))
    labels = write_jsonl(tmp_path / "labels.jsonl", [{"label": i, "text": f"  {n.upper()}"} for n, i in names.items()])
    assert command("train", train, "-o", tmp_path / "m", *QUICK).code == 0
    report, _ = evaluated(command, tmp_path / "m", test, "--labels", labels, "--reciprocal")
    assert report["P@1"] == 100
    report, said = evaluated(command, tmp_path / "m", test, "--reciprocal")
    assert report["P@1"] == 0
    assert said == f"longtail: {test}: no document is itself a label, so --reciprocal changes nothing\n"
