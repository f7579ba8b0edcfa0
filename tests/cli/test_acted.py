"""What parts did in a training stands in its report and in `inspect`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from longtail.describe import describe_model

Command = Any


def test_re_rankers_say_what_they_did(command: Command, data: Path, tmp_path: Path) -> None:
    train = ("train", data / "train.jsonl", "--learner", "bonsai", "--rerank", "calibrated-propensity")
    summary = json.loads(command(*train, "--rerank", "ranknet", "-o", tmp_path / "m", "--json").out)
    assert set(summary["acted"]) == {"calibrated-propensity", "ranknet"}
    assert set(summary["acted"]["ranknet"]) == {"blocks kept", "norm"}
    assert summary["acted"]["ranknet"]["blocks kept"] == (summary["acted"]["ranknet"]["norm"] > 0)
    assert describe_model(tmp_path / "m").acted == summary["acted"]
    assert json.loads(command("inspect", tmp_path / "m", "--json").out)["acted"] == summary["acted"]
    shown = command("inspect", tmp_path / "m").out
    assert "ranknet, learnt" in shown and "blocks kept" in shown
    said = command(*train, "-o", tmp_path / "n").out
    assert "calibrated-propensity: share" in said and "exponent" in said


def test_a_manifest_may_say_anything(command: Command, data: Path, tmp_path: Path) -> None:
    from longtail.describe.model import _acted, said_by

    assert _acted(None) == _acted([1]) == {}
    hostile = _acted({"a\x1b[2J": {"b\x1b": "c\x1b[2J", "d": [1]}, "e": 3})
    assert "\x1b" not in str(hostile.keys()) and len(hostile) == 1
    assert "\x1b" not in said_by(next(iter(hostile.values())))
