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
    assert set(summary["acted"]) == {"tfidf", "calibrated-propensity", "ranknet"}
    assert set(summary["acted"]["ranknet"]) == {"blocks kept", "norm"}
    assert summary["acted"]["ranknet"]["blocks kept"] == (summary["acted"]["ranknet"]["norm"] > 0)
    assert describe_model(tmp_path / "m").acted == summary["acted"]
    assert json.loads(command("inspect", tmp_path / "m", "--json").out)["acted"] == summary["acted"]
    shown = command("inspect", tmp_path / "m").out
    assert "ranknet, learnt" in shown and "blocks kept" in shown
    said = command(*train, "-o", tmp_path / "n").out
    assert "calibrated-propensity: share" in said and "exponent" in said


def test_languages_that_were_found_are_said(command: Command, tmp_path: Path) -> None:
    german = ["Die Geschichte der Stadt und ihrer Bürger", "Das Haus und der Garten der Familie"]
    english = ["The history of the town and its people", "The house and the garden of a family"]
    lines = [
        {"text": f"{text} {number}", "labels": [f"l{number % 4}"]} for number in range(10) for text in german + english
    ]
    path = tmp_path / "train.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    said = command("train", path, "--learner", "parabel", "-o", tmp_path / "m").out
    assert "tfidf: languages de, en" in said
    assert "languages de, en" in command("inspect", tmp_path / "m").out
    recipe = ("train", path, "--recipe", "label-trees", "-o", tmp_path / "n", "--json")
    assert json.loads(command(*recipe).out)["acted"]["ensemble"]["languages"] == "de, en"
    key_words = [{**line, "text": f"oracle java kernel {number} buffer"} for number, line in enumerate(lines)]
    path.write_text("\n".join(map(json.dumps, key_words)), encoding="utf-8")
    assert "languages not told" in command("train", path, "--learner", "parabel", "-o", tmp_path / "o").out
    none = ("train", path, "--language", "none", "--learner", "parabel", "-o", tmp_path / "p", "--json")
    assert json.loads(command(*none).out)["acted"] == {}


def test_members_that_say_different_things_are_told_apart() -> None:
    from longtail import Tagger

    def member(language: str) -> dict[str, Any]:
        features = {"part": "tfidf", "language": language, "max_df": 1.0}
        return {"part": "pipeline", "learner": {"part": "parabel", "trees": 1}, "features": features}

    texts = [f"die Häuser der Stadt {number}" for number in range(8)]
    labels = [[f"l{number % 2}"] for number in range(8)]
    tagger = Tagger({"part": "ensemble", "members": [member("de"), member("de"), member("en")]}).fit(texts, labels)
    assert tagger.pipeline.acted() == {"ensemble": {"languages": "de", "languages of 3 pipeline": "en"}}


def test_a_manifest_may_say_anything(command: Command, data: Path, tmp_path: Path) -> None:
    from longtail.describe.model import _acted, said_by

    assert _acted(None) == _acted([1]) == {}
    hostile = _acted({"a\x1b[2J": {"b\x1b": "c\x1b[2J", "d": [1]}, "e": 3})
    assert "\x1b" not in str(hostile.keys()) and len(hostile) == 1
    assert "\x1b" not in said_by(next(iter(hostile.values())))
