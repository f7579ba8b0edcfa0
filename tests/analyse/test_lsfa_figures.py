"""LSFA's figures: the numbers behind them from small models, and the command that prints and draws them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("lightning")

sys.path.append(str(Path(__file__).resolve().parents[1] / "augment"))

from test_retune import attention, network_corpus

from longtail.analyse.lsfa import LsfaSettings, ablation, chosen_labels, curves, distribution
from longtail.augment.lsfa import Lsfa
from longtail.cli import run
from longtail.data.held_out import record
from longtail.tagger import Tagger

SMALL: dict[str, Any] = {"part": "lsfa", "threshold": 8, "epochs": 2, "hidden": 16, "latent": 4}
AUGMENT: dict[str, list[dict[str, Any]]] = {
    "a": [{**SMALL, "contrastive": {"part": "contrastive", "start": 0.0}}],
    "b": [{**SMALL, "contrastive": None}],
    "b-20": [{**SMALL, "contrastive": None, "times": 20}],
    "c": [],
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lsfa")
    corpus = network_corpus()
    lines = [json.dumps(record(corpus, row)) for row in range(len(corpus))]
    (folder / "train.jsonl").write_text("\n".join(lines) + "\n")
    for name, augment in AUGMENT.items():
        Tagger(attention(), augment=augment, threads=1).fit(corpus).save(folder / name)
    Tagger(attention(head="pooled"), threads=1).fit(corpus).save(folder / "d")
    return folder


def test_letters_of_the_ablation(trained: Path) -> None:
    found = {name: LsfaSettings.of(Tagger.load(trained / name)) for name in (*AUGMENT, "d")}
    assert {name: one.letter for name, one in found.items()} == {"a": "A", "b": "B", "b-20": "B", "c": "C", "d": "D"}
    assert (found["a"].threshold, found["a"].times, found["a"].generator) == (8, 10, "pvae")
    assert found["c"].description == "plain" and found["c"].threshold is None
    assert found["b"].description == "lsfa pvae" and found["a"].description == "lsfa pvae, contrastive"


def test_distribution_by_hand() -> None:
    """Label 0 has 40 documents; augmented documents bring it along at sample level, and not at pair level."""
    corpus = network_corpus()
    found = distribution(Lsfa(threshold=8, times=10), corpus)
    counts, Y = corpus.labels.frequency, corpus.Y.toarray() > 0
    tail = (counts < 8) & (counts > 0)
    first = found["points"][0]
    top = int(np.argmax(counts))
    assert first["original"] == first["pair_level"] == counts[top]
    assert first["sample_level"] == counts[top] + 10 * (Y[:, tail].any(axis=1) & Y[:, top]).sum()
    last = found["points"][-1]
    assert last["pair_level"] == last["original"] + 10 and last["sample_level"] >= last["original"] + 10
    chosen = chosen_labels(Lsfa(threshold=8), corpus)
    assert counts[chosen[0]] >= 8 and (counts[chosen[1:]] < 8).all() and len(chosen) == 3


def model(letter: str, value: float, **more: Any) -> dict[str, Any]:
    figures = dict.fromkeys(("P@1", "PSP@1", "P@5", "nDCG@5", "PSP@5"), value)
    base = {"learner": "x", "description": "y", "generator": "pvae", "threshold": 50, "times": 10, "options": {}}
    return {"letter": letter, **base, **figures, **more}


def test_seeds_are_averaged_and_settings_kept_apart() -> None:
    models = [model("A", 4), model("A", 6), model("A", 9, times=20), model("C", 1, generator=None)]
    assert [(row["letter"], row["models"], row["P@5"]) for row in ablation(models)] == [("A", 2, 5), ("C", 1, 1)]
    (one,) = curves(models)
    assert one["against"] == "times" and [(p["times"], p["PSP@5"]) for p in one["points"]] == [(10, 5), (20, 9)]


def test_the_command(trained: Path, capfd: pytest.CaptureFixture[str]) -> None:
    names = [str(trained / name) for name in ("a", "b", "b-20", "c", "d")]
    data, png = str(trained / "train.jsonl"), trained / "figure.png"
    options = ["--data", data, "--train", data, "--bin", "4", "--threads", "1"]
    assert run(["analyse", "lsfa", *names, *options, "--png", str(png), "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert [row["letter"] for row in found["ablation"]] == ["A", "B", "C", "D"]
    assert [one["against"] for one in found["curves"]] == ["times"]
    assert [one["contrastive"] for one in found["planes"]] == [False, True]
    assert all(len(one["real"]) and len(one["generated"]) for one in found["planes"])
    assert len(found["models"][0]["bins"]) == 3 and found["models"][0]["checks"]["spread"] > 0
    assert png.read_bytes()[:4] == b"\x89PNG"
    assert run(["analyse", "lsfa", *names[:4], "--data", data, "--threads", "1"]) == 0
    shown = capfd.readouterr().out
    assert "macro P@5" in shown and "lsfa pvae" in shown
    assert run(["analyse", "lsfa", names[3], "--data", data, "--train", data]) == 2
    assert "--train is for models with lsfa, of which none is given" in capfd.readouterr().err
