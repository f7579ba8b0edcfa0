"""longtail compare: several models on the same documents, as text and as JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from cli_helpers import TOPICS, Command, documents, write_jsonl

QUICK = ["--learner", "parabel", "--set", "learner.trees=1", "--quiet"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models trained by the command line: on all topics, without boats, and with a rare topic; read only."""
    from longtail.cli import run

    folder = tmp_path_factory.mktemp("compare")
    everything = documents(60)
    rare = [{"text": f"tram {word} tram", "labels": ["rare: trams"]} for word in ("line", "depot")]
    corpora = {
        "plain": everything,
        "landlocked": [d for d in everything if "boats" not in d["labels"]],
        "rare": everything + rare,
    }
    for name, records in corpora.items():
        train = write_jsonl(folder / f"{name}.jsonl", records)
        assert run(["train", str(train), "-o", str(folder / name), *QUICK]) == 0
    write_jsonl(folder / "test.jsonl", documents(30, seed=1))
    return folder


def compared(command: Command, *arguments: object) -> dict[str, Any]:
    result = command("compare", *arguments, "--json")
    assert (result.code, result.err, result.out.count("\n")) == (0, "", 1)
    return json.loads(result.out)


def test_json(command: Command, trained: Path) -> None:
    data = trained / "test.jsonl"
    found = compared(command, trained / "plain", trained / "landlocked", "--data", data, "--examples", 4, "-k", 2)
    assert (found["data"], found["k"], found["documents"]) == (str(data), 2, 30)
    truth = {record["id"]: record for record in documents(30, seed=1)}
    assert [model["name"] for model in found["models"]] == ["plain", "landlocked"]
    assert [model["labels"] for model in found["models"]] == [4, 3]
    hits = [0, 0]
    for example in found["examples"]:
        record = truth[example["id"]]
        assert example["text"] == record["text"]
        assert {label["label"] for label in example["labels"]} == set(record["labels"])
        for number, prediction in enumerate(example["predictions"]):
            assert prediction["model"] == found["models"][number]["name"]
            labels = prediction["labels"]
            assert len(labels) == 2 and labels[0]["score"] >= labels[1]["score"]
            for label in labels:
                assert label["right"] == (label["label"] in record["labels"])
                assert label["training_documents"] > 5
                hits[number] += label["right"]
    assert [model["right"] for model in found["models"]] == hits
    assert [model["shown"] for model in found["models"]] == [8, 8]


def test_figures_are_those_of_evaluate(command: Command, trained: Path) -> None:
    data = trained / "test.jsonl"
    found = compared(command, trained / "plain", trained / "landlocked", "--data", data, "--propensity", "amazon")
    for model in found["models"]:
        options = ["--propensity", "amazon", "--json"]
        report = json.loads(command("evaluate", trained / model["name"], data, *options).out)
        assert [model[name] for name in ("P@1", "PSP@1", "documents")] == [
            report[name] for name in ("P@1", "PSP@1", "documents")
        ]
    assert (found["A"], found["B"]) == (0.6, 2.6)


def test_documents_on_which_models_differ_come_first(command: Command, trained: Path) -> None:
    """The landlocked model can differ in what it finds only where the truth holds boats."""
    models = [trained / "plain", trained / "landlocked"]
    found = compared(command, *models, "--data", trained / "test.jsonl", "--examples", 5, "-k", 2)
    assert 5 <= found["right_labels_differ"] <= found["labels_differ"]
    for example in found["examples"]:
        assert "boats" in [label["label"] for label in example["labels"]]
    ids = [example["id"] for example in found["examples"]]
    assert ids == sorted(ids, key=lambda ident: int(ident[1:])), "in the order of the file"
    everything = compared(command, *models, "--data", trained / "test.jsonl", "--examples", 99)
    assert len(everything["examples"]) == 30


def test_documents_are_drawn_by_the_seed(command: Command, trained: Path) -> None:
    def drawn(seed: int) -> list[str]:
        options = ["--data", trained / "test.jsonl", "--examples", 5, "--seed", seed]
        return [e["id"] for e in compared(command, trained / "plain", trained / "landlocked", *options)["examples"]]

    assert drawn(1) == drawn(1)
    assert len({tuple(drawn(seed)) for seed in range(5)}) > 1


def test_text(command: Command, trained: Path) -> None:
    models = [trained / "plain", trained / "landlocked"]
    options = ["--data", trained / "test.jsonl", "--examples", 2, "-k", 2]
    result = command("compare", *models, *options)
    assert (result.code, result.err) == (0, "")
    found = compared(command, *models, *options)
    lines = result.out.splitlines()
    assert "\x1b" not in result.out, "no colour in a pipe: the tick says it"
    for example in found["examples"]:
        place = next(n for n, line in enumerate(lines) if line.startswith(f"{example['id']}  “"))
        assert example["text"] in lines[place]
        assert lines[place + 1] == "true: " + ", ".join(label["label"] for label in example["labels"])
        assert lines[place + 2].split() == ["plain", "landlocked"]
        for row in range(2):
            labels = [prediction["labels"][row] for prediction in example["predictions"]]
            cells = [f"{'✓' if label['right'] else '·'} {label['label']}" for label in labels]
            assert re.split(r"\s{2,}", lines[place + 3 + row].strip()) == cells
    for model in found["models"]:
        line = next(line for line in lines if line.startswith(model["name"]) and " of " in line)
        wanted = [f"{model['right']} of 4", f"{model['P@1']:.2f}", f"{model['PSP@1']:.2f}", "30"]
        if model["name"] == "landlocked":
            wanted[-1] = str(model["documents"])
        assert re.split(r"\s{2,}", line.strip())[1:] == wanted
    assert f"the models give different labels to {found['labels_differ']} of 30 documents" in result.out


def test_rare_labels_carry_their_training_count(command: Command, trained: Path) -> None:
    result = command("compare", trained / "rare", trained / "plain", "--text", "tram depot", "-k", "1")
    assert result.code == 0
    assert "rare: trams (2)" in result.out
    for topic in TOPICS:
        assert f"{topic} (" not in result.out


def test_texts_of_the_command_line(command: Command, trained: Path) -> None:
    given = ["--text", "a guitar concert", "--text", "galaxy \x1b[31m comet"]
    found = compared(command, trained / "plain", *given)
    assert [example["text"] for example in found["examples"]] == given[1::2]
    assert found["examples"][0]["predictions"][0]["labels"][0]["label"] == "music"
    for example in found["examples"]:
        assert example["labels"] is None and example["predictions"][0]["labels"][0]["right"] is None
    assert [found["models"][0][name] for name in ("right", "P@1", "PSP@1", "documents")] == [None] * 4
    result = command("compare", trained / "plain", *given)
    assert result.code == 0 and "music" in result.out and "✓" not in result.out and "P@1" not in result.out
    assert "\x1b" not in result.out, "a text does not command the terminal"


def test_data_without_labels(command: Command, trained: Path, tmp_path: Path) -> None:
    plain = tmp_path / "texts.txt"
    plain.write_text("guitar piano\nsail mast\n", encoding="utf-8")
    found = compared(command, trained / "plain", trained / "landlocked", "--data", plain, "--examples", 1)
    assert (found["documents"], found["right_labels_differ"]) == (2, None)
    result = command("compare", trained / "plain", trained / "landlocked", "--data", plain)
    assert result.code == 0 and "the models give different labels to 2 of 2 documents" in result.out


def test_features_instead_of_texts(command: Command, tmp_path: Path) -> None:
    rows = "".join(f"{j % 3} {j % 3}:1.0 {3 + j % 2}:0.5\n" for j in range(30))
    (tmp_path / "train.svm").write_text(f"30 5 3\n{rows}")
    assert command("train", tmp_path / "train.svm", "-o", tmp_path / "m", *QUICK).code == 0
    found = compared(command, tmp_path / "m", "--data", tmp_path / "train.svm", "--examples", 2)
    assert all(example["text"] is None for example in found["examples"]) and found["models"][0]["P@1"] == 100
    assert command("compare", tmp_path / "m", "--data", tmp_path / "train.svm").code == 0
    refused = command("compare", tmp_path / "m", "--text", "words")
    assert refused.code == 2 and "trained on features" in refused.line


def test_own_labels_are_left_out(command: Command, trained: Path, tmp_path: Path) -> None:
    records = [{"text": "music", "labels": ["boats"]}, {"text": "sail", "labels": ["boats"]}]
    data = write_jsonl(tmp_path / "own.jsonl", records)
    train = write_jsonl(tmp_path / "train.jsonl", [*documents(40), *[{"text": "music", "labels": ["music"]}] * 5])
    assert command("train", train, "-o", tmp_path / "m", *QUICK).code == 0
    plain = compared(command, tmp_path / "m", "--data", data, "-k", 1)
    own = compared(command, tmp_path / "m", "--data", data, "-k", 1, "--reciprocal")
    first = [found["examples"][0]["predictions"][0]["labels"][0]["label"] for found in (plain, own)]
    assert first[0] == "music" and first[1] != "music"
    report = json.loads(command("evaluate", tmp_path / "m", data, "--reciprocal", "--json").out)
    assert own["models"][0]["P@1"] == report["P@1"]
    said = command("compare", tmp_path / "m", "--data", trained / "test.jsonl", "--reciprocal").err
    assert "no document is itself a label" in said


def test_models_of_the_same_name_are_told_apart(command: Command, trained: Path, tmp_path: Path) -> None:
    other = tmp_path / "plain"
    other.symlink_to(trained / "rare")
    assert [m["name"] for m in compared(command, other, trained / "plain", "--text", "x")["models"]] == [
        "rare",
        "plain",
    ]
    twice = compared(command, trained / "plain", trained / "plain", "--data", trained / "test.jsonl")
    assert [m["name"] for m in twice["models"]] == [str(trained / "plain")] * 2
    assert twice["labels_differ"] == 0 and len(twice["examples"]) == 5, "nothing differs, so any will do"


def test_labels_that_no_model_knows(command: Command, trained: Path, tmp_path: Path) -> None:
    data = write_jsonl(tmp_path / "odd.jsonl", [{"text": "guitar piano", "labels": ["unheard of"]}])
    found = compared(command, trained / "plain", "--data", data)
    assert found["examples"][0]["labels"] == [{"label": "unheard of", "text": "unheard of", "training_documents": 0}]
    assert (found["models"][0]["right"], found["models"][0]["P@1"]) == (0, None)
    assert "unheard of (0)" in command("compare", trained / "plain", "--data", data).out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["plain"], "give documents by --data FILE or --text TEXT, one of the two"),
        (
            ["plain", "--data", "test.jsonl", "--text", "x"],
            "give documents by --data FILE or --text TEXT, one of the two",
        ),
        (["plain", "nowhere", "--text", "x"], "nowhere/ does not exist; give the directory that holds the model"),
        (["plain", "--data", "nowhere.jsonl"], "nowhere.jsonl: no such file"),
        (["plain", "--text", "x", "-k", "0"], "-k"),
        (["plain", "--data", "test.jsonl", "--examples", "0"], "--examples"),
        (["plain", "--text", "x", "--propensity", "amazn"], "did you mean 'amazon'?"),
        (["--text", "x"], "missing argument 'MODEL"),
    ],
)
def test_refused(
    command: Command, trained: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], said: str
) -> None:
    monkeypatch.chdir(trained)
    result = command("compare", *options)
    assert result.code == 2 and said in result.line
