"""Labels are shown with their texts, whether they came with the training data or come with --labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cli_helpers import Command, write_jsonl

TEXTS = {
    "4016397-0": "Fachwerk",
    "4016399-4": "Fachwerkbau",
    "4040802-4": "Musik",
    "4165853-5": "Boot",
    "4057375-0": "Stern",
}
WORDS = {
    "4016397-0": "timber frame gable",
    "4016399-4": "beam joint roof",
    "4040802-4": "guitar piano chord",
    "4165853-5": "sail harbour anchor",
    "4057375-0": "comet orbit galaxy",
}


def records(names: list[str], n: int) -> list[dict[str, Any]]:
    return [{"text": f"{WORDS[name]} {number % 3}", "labels": [name]} for number in range(n) for name in names]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models, one trained with texts and one without, neither of which has seen a star; read only."""
    from longtail.cli import run

    folder = tmp_path_factory.mktemp("names")
    known = list(WORDS)[:-1]
    write_jsonl(folder / "train.jsonl", records(known, 6))
    write_jsonl(folder / "test.jsonl", [*records(known, 2), *records(["4057375-0"], 2)])
    write_jsonl(folder / "labels.jsonl", [{"label": name, "text": text} for name, text in TEXTS.items()])
    quick = ["--learner", "parabel", "--set", "learner.trees=1", "--quiet"]
    for name, options in {"with": ["--labels", str(folder / "labels.jsonl")], "without": []}.items():
        assert run(["train", str(folder / "train.jsonl"), "-o", str(folder / name), *quick, *options]) == 0
    return folder


@pytest.mark.parametrize("model", ["with", "without"])
def test_compare(command: Command, folder: Path, model: str) -> None:
    options = ["--labels", folder / "labels.jsonl"] if model == "without" else []
    asked = ["compare", folder / model, "--text", "timber frame gable", "-k", "1", *options]
    assert "4016397-0 Fachwerk" in command(*asked).out
    (label,) = json.loads(command(*asked, "--json").out)["examples"][0]["predictions"][0]["labels"]
    assert (label["label"], label["text"]) == ("4016397-0", "Fachwerk")


def test_compare_names_true_labels_too(command: Command, folder: Path) -> None:
    asked = ["compare", folder / "with", "--data", folder / "test.jsonl", "--examples", "10"]
    found = json.loads(command(*asked, "--labels", folder / "labels.jsonl", "--json").out)
    true = {label["label"]: label["text"] for example in found["examples"] for label in example["labels"]}
    assert true == TEXTS, "labels that only the file knows, too"
    shown = command(*asked, "--labels", folder / "labels.jsonl").out
    assert "true: 4057375-0 Stern (0)" in shown and "true: 4165853-5 Boot" in shown
    plain = json.loads(command("compare", folder / "without", "--text", "timber frame gable", "--json").out)
    for label in plain["examples"][0]["predictions"][0]["labels"]:
        assert label["text"] == label["label"], "a label without a text is called by its name"


@pytest.mark.parametrize("verb", ["evaluate", "predict", "compare"])
def test_texts_of_other_labels_are_refused(command: Command, folder: Path, tmp_path: Path, verb: str) -> None:
    other = write_jsonl(tmp_path / "other.jsonl", [{"label": "x", "text": "y"}])
    data = ["--data", folder / "test.jsonl"] if verb == "compare" else [folder / "test.jsonl"]
    refused = command(verb, folder / "without", *data, "--labels", other)
    assert refused.code == 2 and "no name in common" in refused.line
    empty = write_jsonl(tmp_path / "empty.jsonl", [{"label": "4016397-0", "text": ""}])
    refused = command(verb, folder / "without", *data, "--labels", empty)
    assert refused.code == 2 and refused.line == f"{empty}: no label has a text"


def test_predict(command: Command, folder: Path) -> None:
    asked = ["predict", folder / "without", "-", "-k", "1"]
    (plain,) = json.loads(command(*asked, stdin=b"timber frame gable").out)["labels"]
    assert plain["label"] == "4016397-0" and "text" not in plain
    given = command(*asked, "--labels", folder / "labels.jsonl", stdin=b"timber frame gable")
    assert json.loads(given.out)["labels"] == [{**plain, "text": "Fachwerk"}]


class TestInspect:
    def found(self, command: Command, folder: Path, source: str, wanted: str) -> str:
        options = [] if source == "with" else ["--labels", folder / "labels.jsonl"]
        result = command("inspect", folder / source, "--label", wanted, *options, "--json")
        assert result.code == 0, result.err
        (label,) = json.loads(result.out)["labels"]
        assert label["text"] == TEXTS[label["label"]]
        return str(label["label"])

    @pytest.mark.parametrize("source", ["train.jsonl", "with", "without"])
    def test_by_name_or_text(self, command: Command, folder: Path, source: str) -> None:
        for wanted in ("4016397-0", "Fachwerk", "fachwerk", "FACHWERK"):
            assert self.found(command, folder, source, wanted) == "4016397-0", "the whole text before pieces of others"
        for wanted in ("Fachwerkbau", "fachwerkb", "werkbau", "4016399"):
            assert self.found(command, folder, source, wanted) == "4016399-4"

    def test_several_are_listed(self, command: Command, folder: Path) -> None:
        refused = command("inspect", folder / "with", "--label", "fach")
        assert refused.code == 2
        assert refused.line.endswith("has 2 labels like 'fach': 4016397-0 Fachwerk, 4016399-4 Fachwerkbau")

    def test_what_a_label_is_called_comes_before_what_is_above_it(self, command: Command, tmp_path: Path) -> None:
        write_jsonl(tmp_path / "d.jsonl", [{"text": "a", "labels": ["1", "2", "3"]}] * 3)
        broader = [{"label": "1", "text": "Bees\nInsects"}, {"label": "2", "text": "Insects\nAnimals"},
                   {"label": "3", "text": "Ants\nInsects"}]  # fmt: skip
        write_jsonl(tmp_path / "v.jsonl", broader)
        asked = command(
            "inspect", tmp_path / "d.jsonl", "--label", "insects", "--labels", tmp_path / "v.jsonl", "--json"
        )
        assert [each["label"] for each in json.loads(asked.out)["labels"]] == ["2"]

    def test_the_nearest_is_named(self, command: Command, folder: Path) -> None:
        refused = command("inspect", folder / "with", "--label", "Muzik")
        assert refused.code == 2 and refused.line.endswith("has no label 'Muzik'; did you mean 'Musik'?")
        assert command("inspect", folder / "with", "--label", "").code == 2

    def test_shown(self, command: Command, folder: Path, tmp_path: Path) -> None:
        out = command("inspect", folder / "with", "--label", "Boot").out
        assert out == "4165853-5  6 training documents\nBoot\n"
        pairs = [{"text": "x", "labels": ["4016397-0", "4016399-4"]} for _ in range(3)]
        data = write_jsonl(tmp_path / "pairs.jsonl", pairs)
        options = ["--labels", folder / "labels.jsonl"]
        out = command("inspect", data, "--label", "Fachwerk", *options).out
        assert out.startswith("4016397-0  3 documents\nFachwerk\n") and "4016399-4 Fachwerkbau" in out
        found = json.loads(command("inspect", data, "--label", "Fachwerk", *options, "--json").out)
        assert found["labels"][0]["neighbours"][0]["text"] == "Fachwerkbau"


class TestUnseen:
    def test_said_first(self, command: Command, folder: Path) -> None:
        lines = command("evaluate", folder / "with", folder / "test.jsonl", "--labels", folder / "labels.jsonl").out
        first, second, *rest = lines.splitlines()
        assert first == (
            "Never seen in training: 1 of 5 test labels, 2 of 10 label assignments, in 2 of 10 documents, "
            "2 of which have no other label."
        )
        assert second == "They are: 4057375-0 Stern"
        assert "Without labels never seen in training, 8 documents:" in rest
        assert "With labels never seen in training as misses, 10 documents:" in rest
        precisions = [line.split()[1] for line in rest if line.startswith("P ")]
        assert precisions == ["100.00", "80.00"]
        turned = command("evaluate", folder / "with", folder / "test.jsonl", "--all-labels").out.splitlines()
        assert [line.split()[1] for line in turned if line.startswith("P ")] == ["80.00", "100.00"]

    def test_json(self, command: Command, folder: Path) -> None:
        asked = ["evaluate", folder / "with", folder / "test.jsonl", "--labels", folder / "labels.jsonl", "--json"]
        found = json.loads(command(*asked).out)
        assert found["unseen"] == {
            "labels": 1, "of_labels": 5, "pairs": 2, "of_pairs": 10, "documents": 2, "of_documents": 10,
            "documents_without_other": 2, "examples": [{"label": "4057375-0", "text": "Stern", "documents": 2}],
        }  # fmt: skip
        assert (found["P@1"], found["documents"], found["convention"]) == (100, 8, "unseen_dropped")
        dropped, missed = (found["conventions"][name] for name in ("unseen_dropped", "unseen_missed"))
        assert (dropped["P@1"], dropped["documents"]) == (100, 8)
        assert (missed["P@1"], missed["documents"]) == (80, 10)
        other = json.loads(command(*asked, "--all-labels").out)
        assert (other["P@1"], other["convention"]) == (80, "unseen_missed")
        assert other["conventions"] == found["conventions"]

    def test_nothing_is_unseen(self, command: Command, folder: Path) -> None:
        shown = command("evaluate", folder / "with", folder / "train.jsonl").out
        assert shown.startswith("All 4 test labels were seen in training.\n") and shown.count("\nP ") == 1
        assert "conventions" not in json.loads(
            command("evaluate", folder / "with", folder / "train.jsonl", "--json").out
        )

    def test_everything_is_unseen(self, command: Command, folder: Path, tmp_path: Path) -> None:
        stars = write_jsonl(tmp_path / "stars.jsonl", records(["4057375-0"], 3))
        refused = command("evaluate", folder / "with", stars)
        assert refused.code == 2 and "none of the 3 documents has a label that is known" in refused.line
        found = json.loads(command("evaluate", folder / "with", stars, "--all-labels", "--json").out)
        assert found["P@1"] == 0 and found["unseen"]["labels"] == 1 and "conventions" not in found
