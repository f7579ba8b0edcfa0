"""What networks are trained on is said on the command line, and is no part of the model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_helpers import Command

pytest.importorskip("torch")
pytest.importorskip("lightning")
pytest.importorskip("tensorboard")


def test_logs_and_precision(command: Command, data: Path, tmp_path: Path) -> None:
    small = ["--learner", "astec", "--set", "learner.least_steps=4", "--set", "learner.epochs=1", "--threads", "1"]
    hardware = ["--precision", "bf16-mixed", "--devices", "1", "--nodes", "1", "--logs", tmp_path / "logs"]
    result = command("train", data / "train.jsonl", "-o", tmp_path / "m", *small, *hardware)
    assert result.code == 0, result.err
    assert list((tmp_path / "logs").glob("Training-csv/version_0/metrics.csv"))
    config = json.loads(command("inspect", tmp_path / "m", "--json").out)["config"]
    assert not {"precision", "devices", "nodes", "logs"} & set(config["learner"])


def test_help_and_refusals(command: Command, data: Path, tmp_path: Path) -> None:
    text = command("train", "--help").out
    assert "Hardware" in text and all(name in text for name in ("--devices", "--nodes", "--precision", "--logs"))
    for wrong in (["--devices", "0"], ["--precision", "64"]):
        result = command("train", data / "train.jsonl", "-o", tmp_path / "m", *wrong)
        assert result.code == 2 and wrong[0] in result.err
