"""Runners that measure rows one by one: what is measured, what is kept, and whose rows are left alone."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

import common


@pytest.fixture
def result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(common, "WORK", tmp_path / "work")
    (tmp_path / "work").mkdir()
    return tmp_path / "result.json"


def run(result: Path, names: list[str], monkeypatch: pytest.MonkeyPatch, *options: str) -> list[str]:
    """The rows that were measured."""
    measured: list[str] = []

    def measure(row: dict[str, Any], data: Path) -> dict[str, Any]:
        measured.append(row["row"])
        return {**row, "figures": {"P@1": 1.0}}

    monkeypatch.setattr(sys, "argv", ["runner", "--data", str(result.parent), *options])
    common.run_rows("", result, "runner", [{"row": name} for name in names], measure)
    return measured


def kept(result: Path) -> list[str]:
    return [row["row"] for row in json.loads(result.read_text())["rows"]]


def test_finished_rows_are_not_measured_again(result: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(result, ["a", "b"], monkeypatch, "--rows", "b") == ["b"]
    assert run(result, ["a", "b"], monkeypatch) == ["a"]
    assert run(result, ["a", "b"], monkeypatch, "--fresh", "--rows", "b") == ["b"]
    assert kept(result) == ["a", "b"]


def test_rows_that_this_run_does_not_know_stay(result: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process, started from another list of rows, may have measured them in the meantime."""
    run(result, ["theirs", "a"], monkeypatch)
    run(result, ["b", "a"], monkeypatch)
    assert kept(result) == ["b", "a", "theirs"]


def test_each_setting_with_each_seed_once() -> None:
    rows = common.rows_of([("c", "l", ("x", "y"), (0,)), ("c", "l", ("x",), (0, 1))])
    assert [row["row"] for row in rows] == ["c/l/x/0", "c/l/y/0", "c/l/x/1"]
    assert rows[2] == {"row": "c/l/x/1", "corpus": "c", "learner": "l", "setting": "x", "seed": 1}
