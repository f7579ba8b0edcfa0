"""Small data files, one trained model, and ways to run the command line inside and outside this process."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

TOPICS = {
    "fruit & vegetables": "apple banana cherry orchard juice",
    "music": "guitar piano chord melody concert",
    "boats": "sail harbour anchor deck mast",
    "Sterne, Ümläute": "telescope orbit comet galaxy lens",
}


def documents(n: int, seed: int = 0) -> list[dict[str, Any]]:
    """Records of one or two topics, five words of each."""
    rng = np.random.default_rng(seed)
    names = list(TOPICS)
    records = []
    for number in range(n):
        chosen = sorted(rng.choice(len(names), size=rng.integers(1, 3), replace=False))
        words = [" ".join(rng.choice(TOPICS[names[c]].split(), size=5)) for c in chosen]
        records.append({"id": f"d{number}", "text": " ".join(words), "labels": [names[c] for c in chosen]})
    return records


def write_jsonl(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records), encoding="utf-8")
    return path


@dataclass
class Result:
    code: int
    out: str
    err: str

    @property
    def line(self) -> str:
        """The one line on stderr that a failure consists of."""
        assert self.out == ""
        assert self.err.startswith("longtail: ") and self.err.endswith("\n") and self.err.count("\n") == 1, self.err
        assert "Traceback" not in self.err
        return self.err[len("longtail: ") : -1]


Command = Callable[..., Result]


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


def outside(*arguments: object, **given: Any) -> subprocess.CompletedProcess[str]:
    """Runs the command line as a user does, in a process of its own."""
    line = [sys.executable, "-m", "longtail", *(str(argument) for argument in arguments)]
    return subprocess.run(line, capture_output=True, text=True, timeout=120, **given)


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
