"""longtail recipes: the list, one of them, and training by one."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

from cli_helpers import Command

PAPERS = Path(__file__).resolve().parents[2] / "benchmarks" / "papers"


def test_the_list_says_when_to_take_which(command: Command) -> None:
    result = command("recipes")
    listed = json.loads(command("recipes", "--json").out)
    assert result.code == 0 and len(listed) == 12
    shown = " ".join(result.out.split())
    for recipe in listed:
        assert recipe["recipe"] in shown and " ".join(recipe["when"].split()) in shown, "nothing is cut"
    lines = result.out.splitlines()
    assert lines[0].startswith("Try these first") and max(map(len, lines)) <= 80
    order = [line.split()[0] for line in lines if re.match(r"  [a-z]", line)]
    assert order[:3] == ["label-text", "gandalf", "bonsai"]
    assert sorted(order) == [recipe["recipe"] for recipe in listed]
    assert "needs longtail[neural]" in shown, "brackets are no markup"


def test_one_recipe_is_toml_to_start_from(command: Command, data: Path, tmp_path: Path) -> None:
    result = command("recipes", "inverse-propensity")
    table = tomllib.loads(result.out)
    assert table["rerank"] == [{"part": "inverse-propensity", "strength": 0.5}]
    own = tmp_path / "own.toml"
    own.write_text(result.out)
    options = ["--recipe", own, "--set", "inverse-propensity.strength=0.3", "--set", "features.ngrams=2"]
    assert command("train", data / "train.jsonl", "-o", tmp_path / "m", *options).code == 0
    config = json.loads(command("inspect", tmp_path / "m", "--json").out)["config"]
    assert config["rerank"][0]["strength"] == 0.3 and config["features"]["ngrams"] == 2
    full = json.loads(command("recipes", "inverse-propensity", "--json").out)
    assert full["recipe"] == "inverse-propensity" and full["learner"]["beam"] == 10 and full["features"] == "auto"


def test_an_unknown_recipe_gets_the_nearest_name(command: Command) -> None:
    result = command("recipes", "bonsay")
    assert result.code == 2 and result.err == "longtail: unknown recipe 'bonsay'; did you mean 'bonsai'?\n"


def test_a_row_of_a_paper_is_trained(command: Command, data: Path, tmp_path: Path) -> None:
    row = f"{PAPERS / 'ranknet-taug.toml'}#taug-d-bonsai"
    options = ["--recipe", row, "--set", "decoupled.tau=0.5", "--set", "input-dropout.tau=0.5"]
    assert command("train", data / "train.jsonl", "-o", tmp_path / "m", *options).code == 0
    config = json.loads(command("inspect", tmp_path / "m", "--json").out)["config"]
    assert config["learner"]["part"] == "decoupled" and config["augment"][0]["part"] == "input-dropout"
    wrong = command("train", data / "train.jsonl", "-o", tmp_path / "n", "--recipe", f"{row}s")
    assert wrong.code == 2 and "has no row 'taug-d-bonsais'; did you mean 'taug-d-bonsai'?" in wrong.err
