"""What the runners measure: taggers follow from the names of rows, and every runner starts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

import label_text
import lsfa
import neural_tail
import peers_rows
import quality
import tail
import xda
from longtail.corpus import Corpus
from longtail.recipe import Recipe
from longtail.registry import config_of

BENCHMARKS = Path(tail.__file__).parent


@pytest.mark.parametrize("setting", neural_tail.SETTINGS)
def test_shorter_texts_change_nothing_else_of_the_encoder(setting: str) -> None:
    row: dict[str, Any] = {"learner": "attentionxml", "setting": setting, "seed": 0}
    long, short = (
        config_of(neural_tail.tagger_of({**row, "corpus": corpus}).learner)
        for corpus in ("vuln-libraries", "eurlex57k-4k")
    )
    assert short["encoder"]["max_length"] == neural_tail.SHORTER["eurlex57k-4k"] != long["encoder"]["max_length"]
    short["encoder"]["max_length"] = long["encoder"]["max_length"]
    assert short == long


@pytest.mark.parametrize("row", neural_tail.rows(), ids=lambda row: row["row"])
def test_neural_rows_have_taggers(row: dict[str, Any]) -> None:
    if row["setting"] != neural_tail.ENSEMBLE:
        assert config_of(neural_tail.tagger_of(row).learner)["part"] == row["learner"]


@pytest.mark.parametrize("row", lsfa.rows(), ids=lambda row: row["row"])
def test_lsfa_rows_have_taggers(row: dict[str, Any]) -> None:
    tagger = lsfa.tagger_of(row)
    assert config_of(tagger.learner)["part"] == row["learner"] and tagger.threads == 1
    assert bool(tagger.augment) == (row["setting"] not in ("plain", "pooled"))
    shorter = neural_tail.SHORTER.get(lsfa.source_of(row["corpus"]))
    linear = row["learner"] == lsfa.LINEAR
    assert linear or shorter is None or tagger.learner.encoder.max_length == shorter


def test_searched_settings_differ_and_are_not_measured_on_test_documents() -> None:
    searched = [row for row in lsfa.rows() if row["setting"] in set(lsfa.SEARCHED) - set(lsfa.SETTINGS)]
    assert searched and all(row["corpus"].endswith(lsfa.HELD_OUT) for row in searched)
    held_out = [row for row in lsfa.rows() if row["corpus"].endswith(lsfa.HELD_OUT) and row["seed"] == 0]
    assert len({repr(lsfa.tagger_of(row)) for row in held_out}) == len(held_out) == 2 + len(lsfa.SEARCHED)


def test_a_row_of_lsfa_takes_the_first_stage_that_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    from longtail import Tagger
    from longtail import fit as fits
    from longtail.data.synthetic import synthetic

    def small(name: str, data: Path) -> tuple[Corpus, Corpus]:
        made = synthetic(documents=160, labels=20, words=200, words_per_document=8, texts=True, seed=0)
        return made.rows(range(120)).counted(), made.rows(range(120, 160))  # type: ignore[arg-type]

    def quick(row: dict[str, Any]) -> Tagger:
        learner = {"part": "attentionxml", "encoder": {"part": "bag", "size": 8}, "epochs": 2, "retune_epochs": 1}
        augment = [] if row["setting"] == "plain" else [{"part": "lsfa", "generator": "copies", "contrastive": None}]
        return Tagger(learner, augment=augment, threads=1)

    monkeypatch.setattr(lsfa, "corpora", small)
    monkeypatch.setattr(lsfa, "tagger_of", quick)
    monkeypatch.setattr(lsfa, "WORK", tmp_path)
    monkeypatch.setattr(fits, "KEPT_FROM", 0.0)
    row = {"row": "x", "corpus": "small", "learner": "attentionxml", "setting": "plain", "seed": 0}
    plain = lsfa.measure(row, Path())
    assert plain["seconds"]["train"] > 0
    other = lsfa.measure({**row, "setting": "copies"}, Path())
    assert "train" not in other["seconds"] and other["seconds"]["retune"] > 0, "the first stage is taken as it was"
    assert set(other["figures"]) == set(plain["figures"]) and "seconds" in other


@pytest.mark.parametrize("row", label_text.rows(), ids=lambda row: row["row"])
def test_label_text_rows_have_taggers(row: dict[str, Any]) -> None:
    tagger = label_text.tagger_of(row, 1000)
    assert (tagger.seed, tagger.threads) == (row["seed"], 1)
    assert bool(tagger.augment) == (row["setting"] not in ("plain", "published"))


def test_one_tree_is_a_setting_of_the_recipes() -> None:
    for name, (recipe, *options) in quality.RECIPES.items():
        trees = Recipe.find(recipe).override(settings=options[1:]).learner["trees"]
        assert trees == (1 if name.endswith("-1") else 3)


def test_sources_behind_the_times_are_there() -> None:
    package = BENCHMARKS.parent / "src" / "longtail"
    assert all((package / source).exists() for source in peers_rows.TIMED_SOURCES)


@pytest.mark.parametrize("setting", ["plain", "taug-gate0.5"])
def test_a_row_of_the_tail_methods(setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from longtail.data.synthetic import synthetic

    def small(name: str, data: Path) -> tuple[Corpus, Corpus]:
        made = synthetic(documents=260, labels=20, words=300, words_per_document=12, seed=0)
        return made.rows(range(200)).counted(), made.rows(range(200, 260))  # type: ignore[arg-type]

    monkeypatch.setattr(tail, "corpora", small)
    row = {"row": "x", "corpus": "small", "learner": "bonsai-1", "setting": setting, "seed": 0}
    measured = tail.measure(row, Path())
    assert set(measured["curves"]["ranknet"]) == {"0.0", "0.5", "1.0"}
    assert measured["curves"]["inverse-propensity"]["0.0"]["P@5"] == measured["figures"]["P@5"], (
        "strength 0 is as it was"
    )


@pytest.mark.parametrize(
    "script", [path.name for path in sorted(BENCHMARKS.glob("*.py")) if "__main__" in path.read_text()]
)
def test_runners_start(script: str) -> None:
    done = subprocess.run([sys.executable, BENCHMARKS / script, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "usage:" in done.stdout, done.stderr


def test_tables_of_lsfa() -> None:
    import render_lsfa

    bands = {band: {"recall@5": 50.0} for band in ("tail", "middle", "head")}
    names = [f"{metric}@{k}" for metric in ("P", "PSP", "PSnDCG") for k in (1, 3, 5)]
    made = {"figures": {**dict.fromkeys(names, 12.345), "bands": bands}, "train_s": 9.0}
    checks = dict.fromkeys(render_lsfa.CHECKS, 0.987)
    rows = [{**row, **made, "checks": checks if row["setting"] == "lsfa" else {}} for row in lsfa.rows()]
    machine = {"cores": 2, "cpu": "a CPU", "memory_gb": 4.0, "system": "Linux", "python": "3.11"}
    results = {"command": "python benchmarks/papers.py lsfa", "machine": machine, "rows": rows}
    shown = render_lsfa.lsfa_section(results)
    assert "| LSFA (A) | 3 | 12.35/12.35/12.35 |" in shown.replace("12.34", "12.35") and "0.99" in shown
    assert lsfa.HELD_OUT not in shown
    search = render_lsfa.lsfa_search_section(results)
    assert all(f"| {setting} | 3 |" in search for setting in lsfa.SEARCHED)


@pytest.mark.parametrize("row", xda.rows(), ids=lambda row: row["row"])
def test_xda_rows_have_taggers(row: dict[str, Any]) -> None:
    tagger = xda.tagger_of(row)
    assert config_of(tagger.learner)["part"] == row["learner"] and tagger.threads == 1
    assert bool(tagger.augment) == (row["setting"] != "plain")
    assert row["setting"] not in xda.SEARCHED or row["corpus"].endswith(xda.HELD_OUT), "never on test documents"
