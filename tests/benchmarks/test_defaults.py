"""The runner of the defaults: every setting changes its recipe, and one thing of it only."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

import defaults
import render_defaults
from longtail.recipe import Recipe


@pytest.mark.parametrize("setting", defaults.SETTINGS)
def test_a_setting_differs_from_its_recipe(setting: str) -> None:
    recipe = setting.partition(",")[0]
    changed = defaults.tagger_of(setting, 0).config() != Recipe.find(recipe).tagger().config()
    assert changed == ("," in setting)


def test_members_are_taken_out_with_their_weights() -> None:
    def ensemble(setting: str) -> dict[str, Any]:
        return defaults.tagger_of(setting, 0).config()["learner"]

    assert [each["part"] for each in ensemble("label-text, without the network")["members"]] == ["pipeline"]
    inner = ensemble("label-text, without nearest documents")["members"][0]["learner"]
    assert [each["part"] for each in inner["members"]] == ["bonsai", "parabel"] and inner["weights"] == [0.7, 0.3]


def test_gains_are_paired_by_seed() -> None:
    def row(setting: str, seed: int, value: float) -> dict[str, Any]:
        figures = dict.fromkeys(render_defaults.FIGURES, value)
        return {"setting": setting, "corpus": "c", "seed": seed, "figures": figures}

    rows = [row("r", 0, 10.0), row("r", 1, 20.0), row("r, x", 0, 11.0), row("r, x", 1, 23.0)]
    lines = render_defaults.defaults_section({"rows": rows, "command": "made"}).splitlines()
    assert lines[2] == "| r | 15.0<br>15.0<br>15.0 |"
    assert lines[3] == "| r, x | +2.0 (1.4)<br>+2.0 (1.4)<br>+2.0 (1.4) |"
