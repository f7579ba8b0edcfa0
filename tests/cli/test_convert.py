"""longtail convert: a model with weights of another format, whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_helpers import Command

from longtail.read import read
from longtail.tagger import Tagger


@pytest.fixture(scope="module")
def exact(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with float32 weights; read only."""
    path = tmp_path_factory.mktemp("models") / "exact"
    Tagger({"part": "parabel", "trees": 2, "weights": "float32"}).fit(read(data / "train.jsonl")).save(path)
    return path


def test_a_model_is_converted_and_what_changes_is_shown(
    command: Command, exact: Path, data: Path, tmp_path: Path
) -> None:
    out = tmp_path / "small"
    done = command("convert", exact, "-o", out, "--weights", "int8", "--data", data / "test.jsonl")
    assert done.code == 0, done.err
    first = [line.split()[0] for line in done.out.splitlines()]
    assert first == ["before", "MB", "P@1", "P@3", "P@5", "PSP@1", "PSP@3", "PSP@5"]
    converted, original = Tagger.load(out), Tagger.load(exact)
    assert converted.learner.weights == "int8" and original.learner.weights == "float32"
    assert converted.config()["learner"]["weights"] == "int8"
    assert (out / "learner.safetensors").stat().st_size < (exact / "learner.safetensors").stat().st_size
    texts = ["apple banana cherry", "sail the harbour"]
    for one, other in zip(converted.predict(texts, 1), original.predict(texts, 1), strict=True):
        assert one[0].label == other[0].label and one[0].score == pytest.approx(other[0].score, abs=0.02)


def test_json_says_the_same_in_bytes_and_percent(command: Command, exact: Path, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "half"
    done = command(
        "convert", exact, "-o", out, "--weights", "float16", "--data", data / "test.jsonl", "-k", "1", "--json"
    )
    found = json.loads(done.out)
    assert set(found) == {"weights", "bytes", "P@1", "PSP@1"} and found["weights"] == "float16"
    assert found["bytes"] == {name: sum(file.stat().st_size for file in model.iterdir())
                              for name, model in (("before", exact), ("after", out))}  # fmt: skip
    assert found["P@1"]["before"] > 90


def test_converting_to_the_same_format_changes_no_byte(command: Command, exact: Path, tmp_path: Path) -> None:
    out = tmp_path / "same"
    done = command("convert", exact, "-o", out, "--weights", "float32", "--quiet")
    assert (done.code, done.out) == (0, "")
    for file in exact.iterdir():
        assert file.read_bytes() == (out / file.name).read_bytes(), file.name


def test_a_model_without_such_weights_is_refused(command: Command, data: Path, tmp_path: Path) -> None:
    Tagger({"part": "fastxml", "trees": 2}).fit(read(data / "train.jsonl")).save(tmp_path / "model")
    done = command("convert", tmp_path / "model", "-o", tmp_path / "out", "--weights", "int8")
    assert done.code == 2
    assert done.err == "longtail: fastxml has no weights to convert: label trees and one-vs-all have\n"
    assert not (tmp_path / "out").exists()


def test_an_output_that_exists_and_an_unknown_format_are_refused(command: Command, exact: Path, tmp_path: Path) -> None:
    done = command("convert", exact, "-o", exact, "--weights", "int8")
    assert done.code == 2 and "exists; --overwrite replaces it" in done.err
    done = command("convert", exact, "-o", tmp_path / "out", "--weights", "int4")
    assert done.code == 2 and "int4" in done.err and done.err.count("\n") == 1
