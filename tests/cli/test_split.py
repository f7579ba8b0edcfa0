"""longtail split: from one file to a folder that the other verbs read."""

from __future__ import annotations

import json
from pathlib import Path

from cli_helpers import Command, documents, write_jsonl


def test_one_file_is_split_trained_on_and_measured(command: Command, tmp_path: Path) -> None:
    data, parts, model = write_jsonl(tmp_path / "all.jsonl", documents(80)), tmp_path / "parts", tmp_path / "model"
    done = command("split", data, "-o", parts)
    assert done.code == 0 and "72 documents to train on, 8 to test on" in done.out
    assert command("train", parts, "-o", model, "--learner", "parabel", "--set", "learner.trees=1").code == 0
    measured = json.loads(command("evaluate", model, parts, "--json").out)
    assert measured["documents"] == 8 and measured["P@1"] > 80


def test_share_and_seed(command: Command, tmp_path: Path) -> None:
    data = write_jsonl(tmp_path / "all.jsonl", documents(80))
    drawn = []
    for seed in (0, 1):
        done = command("split", data, "-o", tmp_path / f"{seed}", "--test", "0.25", "--seed", seed, "--json")
        assert json.loads(done.out) == {"train": 60, "test": 20}
        drawn.append((tmp_path / f"{seed}" / "test.jsonl").read_bytes())
    assert drawn[0] != drawn[1]


def test_the_output_is_looked_at_before_the_data(command: Command, tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "mine.txt").write_text("mine")
    for more in ((), ("--overwrite",)):
        refused = command("split", tmp_path / "missing.jsonl", "-o", tmp_path / "parts", *more)
        assert refused.code == 2 and "parts/" in refused.line and "missing" not in refused.line


def test_what_to_do_next_can_be_copied(command: Command, tmp_path: Path) -> None:
    """Folders with blanks are quoted, brackets are no markup, and no line is broken where a terminal ends."""
    data, parts = write_jsonl(tmp_path / "all.jsonl", documents(80)), tmp_path / f"my [red] parts {'x' * 80}"
    assert f"  longtail train '{parts}' -o MODEL\n" in command("split", data, "-o", parts).out
    model = tmp_path / "my [b] model"
    done = command("train", parts, "-o", model, "--learner", "parabel", "--set", "learner.trees=1")
    assert f"  longtail evaluate '{model}' TEST-FILE\n" in done.out
    assert f"saved in {model}\n" in done.out
