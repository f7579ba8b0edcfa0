"""longtail augment xda: a file of texts that a person can read, edit and train on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cli_helpers import Command, documents, write_jsonl

from longtail.read import read


@pytest.fixture
def train(tmp_path: Path) -> Path:
    """Sixty documents of four frequent topics; six of them have a rare label, too."""
    records = documents(60)
    for number in range(6):
        records[10 * number]["labels"].append(f"rare {number % 3}")
        records[10 * number]["text"] += f" word{number % 3}"
    return write_jsonl(tmp_path / "train.jsonl", records)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_what_is_written_is_read_again_with_its_mask(command: Command, train: Path, tmp_path: Path) -> None:
    model, out = tmp_path / "f0", tmp_path / "augmented.jsonl"
    assert command("train", train, "-o", model, "--learner", "parabel", "-q").code == 0
    done = command("augment", "xda", train, "-o", out, "--model", model, "--set", "xda.copies=4")
    assert done.code == 0 and "12 texts of 6 documents" in done.out and "24 made" in done.out
    found = lines(out)
    assert [line["id"].partition("+")[0] for line in found] == [line["augmented_from"] for line in found]
    assert {line["augmented_from"] for line in found} == {f"d{10 * n}" for n in range(6)}
    for line in found:
        rare = [label for label in line["labels"] if label.startswith("rare")]
        assert rare and sorted([*rare, *line["masked"]]) == sorted(line["labels"])
        assert {"text", "diversity", "consistency", "score"} <= set(line)
    corpus = read([train, out])
    assert len(corpus) == 72 and len(corpus.documents) == 60 and corpus.pair_weight is not None
    assert int((corpus.pair_weight == 0).sum()) == sum(len(line["masked"]) for line in found)
    assert corpus.labels.frequency.tolist() == read(train).labels.frequency.tolist(), "copies are never counted"
    assert corpus.origins()[60:].tolist() == [int(line["augmented_from"][1:]) for line in found]
    assert command("train", train, out, "-o", tmp_path / "model", "--learner", "bonsai").code == 0
    both = write_jsonl(tmp_path / "both.jsonl", [*lines(train), *found])
    refused = command("split", both, "-o", tmp_path / "parts")
    assert refused.line.endswith("holds texts that longtail augment made; split the documents before")


def test_an_edited_file_is_what_counts(command: Command, train: Path, tmp_path: Path) -> None:
    out = tmp_path / "augmented.jsonl"
    unfiltered = ("--set", "xda.filter=false", "--set", "xda.copies=1")
    assert command("augment", "xda", train, "-o", out, *unfiltered, "--json", "-q").code == 0
    found = lines(out)
    assert len(found) == 6 and "score" not in found[0]
    edited = [{**found[0], "text": "edited by hand", "masked": []}, found[1]]
    corpus = read([train, write_jsonl(tmp_path / "edited.jsonl", edited)])
    assert len(corpus) == 62 and (corpus.texts or [])[60] == "edited by hand"
    alone = read(write_jsonl(tmp_path / "alone.jsonl", found[:3]))
    assert alone.made is None and len(alone.documents) == 3, "on their own they are the documents there are"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"masked": ["no such label"]}, "label 'no such label' is masked, but it is not among the labels of the line"),
        ({"masked": "music"}, "field 'masked' must be a list of labels"),
        ({"augmented_from": [1]}, "field 'augmented_from' must be the id of a document"),
    ],
)
def test_marks_that_make_no_sense(command: Command, tmp_path: Path, change: dict[str, Any], message: str) -> None:
    record = {"id": "d0+1", "augmented_from": "d0", "text": "a", "labels": ["music"], "masked": [], **change}
    path = write_jsonl(tmp_path / "bad.jsonl", [*documents(3), record])
    refused = command("train", path, "-o", tmp_path / "model", "--learner", "parabel")
    assert refused.code == 2 and refused.line == f"{path}:4: {message}"


def test_refusals_are_one_line_and_leave_nothing(command: Command, train: Path, tmp_path: Path) -> None:
    out = tmp_path / "augmented.jsonl"
    asked = ("augment", "xda", train, "-o", out)
    assert command(*asked).line.startswith("--model is needed: the model that filters the texts")
    every = ("--set", "xda.filter=false", "--set", "xda.copies=1", "-q")
    frequent = write_jsonl(tmp_path / "frequent.jsonl", documents(60))
    refused = command("augment", "xda", frequent, "-o", out, *every)
    assert refused.code == 2 and refused.line.endswith("so none is copied; raise xda.rarest")
    assert command(*asked, *every, "--model", "f0").line.startswith("--model filters texts, and xda.filter is false")
    assert "no option 'copie'" in command(*asked, "--set", "xda.copie=1").line
    assert not out.exists() and not list(tmp_path.glob(".augmented*"))
    assert command(*asked, *every).code == 0
    assert "exists; --overwrite replaces it" in command(*asked, *every).line
    assert command(*asked, *every, "--overwrite").code == 0


def test_a_generator_that_is_not_there(command: Command, train: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "empty").mkdir()
    asked = ("augment", "xda", train, "-o", tmp_path / "out.jsonl", "--set", "xda.filter=false", "-q")
    generator = ("--set", "xda.generator=encoder-decoder", "--set", f"encoder-decoder.model={tmp_path / 'empty'}")
    assert "empty is not an encoder that can be read: it has no config.json" in command(*asked, *generator).line
    assert "name one of its options" in command(*asked, "--set", "xda.generator=bonsai").line
