"""One trained model, small data files, and the command line inside this process."""

from __future__ import annotations

import io
import math
import sys
from pathlib import Path

import pytest
from cli_helpers import TOPICS, Command, Result, documents, write_jsonl


@pytest.fixture(autouse=True)
def _compiled_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether kernels are compiled yet changes nothing that is said."""
    monkeypatch.setattr("longtail.cli.compiling.SECONDS", math.inf)


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs the command line inside this process: quick, for the many small cases."""
    from longtail.cli import run

    def one(*arguments: object, stdin: bytes = b"") -> Result:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        capfd.readouterr()
        code = run([str(argument) for argument in arguments])
        captured = capfd.readouterr()
        return Result(code, captured.out, captured.err)

    return one


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train.jsonl, test.jsonl and labels.jsonl; read only."""
    folder = tmp_path_factory.mktemp("data")
    write_jsonl(folder / "train.jsonl", documents(60))
    write_jsonl(folder / "test.jsonl", documents(20, seed=1))
    write_jsonl(folder / "labels.jsonl", [{"label": name, "text": words} for name, words in TOPICS.items()])
    return folder


@pytest.fixture(scope="session")
def model(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model trained on train.jsonl; read only."""
    from longtail.read import read
    from longtail.tagger import Tagger

    path = tmp_path_factory.mktemp("models") / "model"
    Tagger({"part": "parabel", "trees": 1}).fit(read(data / "train.jsonl")).save(path)
    return path
