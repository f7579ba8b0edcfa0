"""Ctrl-C, or the system's polite end, in the middle of `longtail train`: what is kept, what is said, and going on."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROGRAM = """
import sys, time
from longtail import fit as fits
from longtail.learners.linear import base, tasks
from longtail.cli import main
fits.KEPT_FROM, tasks.COST_PER_BATCH = 0.0, 5_000
seconds, solve = float(sys.argv[1]), base.solve_task
def slow(shared, task):
    if seconds > 1:
        print("begun", file=sys.stderr, flush=True)
    time.sleep(seconds)
    return solve(shared, task)
base.solve_task = slow
if "astec" in sys.argv:
    from longtail.learners.neural.training import checkpoints, module
    checkpoints.CHECKPOINT_SECONDS, step = 0.0, module.Module.training_step
    def slow_step(self, *given):
        time.sleep(seconds)
        return step(self, *given)
    module.Module.training_step = slow_step
main(sys.argv[2:])
"""
TREES = [
    "--learner",
    "bonsai",
    "--set",
    "learner.trees=2",
    "--set",
    "learner.branches=4",
    "--set",
    "learner.max_leaf=4",
]
NETWORK = ["--learner", "astec", "--set", "learner.epochs=3", "--set", "learner.batch=32"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from longtail.data.synthetic import synthetic

    corpus = synthetic(documents=300, labels=60, words=200, texts=True, seed=3)
    path = tmp_path_factory.mktemp("interrupt") / "train.csv"
    rows = [
        f"{text},{' '.join(corpus.labels.names[c] for c in corpus.Y[[row]].indices)}"
        for row, text in enumerate(corpus.texts or [])
    ]
    path.write_text("\n".join(["text,labels", *rows, ""]), encoding="utf-8")
    return path


def start(data: Path, model: Path, learner: list[str], seconds: float) -> subprocess.Popen[str]:
    options = ["-o", str(model), "--separator", " ", "--threads", "1", *learner]
    command = [sys.executable, "-c", PROGRAM, str(seconds), "train", str(data), *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def kept(model: Path) -> list[Path]:
    folder = model.parent / f".{model.name}.unfinished"
    return [path for path in folder.rglob("*") if path.suffix in (".finished", ".ckpt")]


@pytest.mark.parametrize(
    ("learner", "sent"),
    [(TREES, signal.SIGINT), (TREES, signal.SIGTERM), pytest.param(NETWORK, signal.SIGTERM, marks=pytest.mark.slow)],
    ids=["trees, Ctrl-C", "trees, ended", "network, ended"],
)  # fmt: skip
def test_an_interrupted_training_goes_on(data: Path, tmp_path: Path, learner: list[str], sent: signal.Signals) -> None:
    if learner is NETWORK:
        pytest.importorskip("lightning")
    model = tmp_path / "model"
    process = start(data, model, learner, 0.2)
    deadline = time.monotonic() + 60
    while len(kept(model)) < (1 if learner is NETWORK else 3) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(sent)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert err.splitlines()[-1] == "longtail: interrupted: repeat the command to go on"
    assert "Traceback" not in err and not model.exists() and kept(model)
    again = start(data, model, learner, 0)
    out, err = again.communicate(timeout=120)
    assert again.returncode == 0
    said = re.findall(r"longtail: resumed at (\d+) %", err)
    assert said and 0 < int(said[0]) < 100, err
    assert not kept(model) and not (tmp_path / ".model.unfinished").exists()
    if learner is NETWORK:  # whose bytes tests/kill/test_kill_training.py looks at
        return
    whole = tmp_path / "whole"
    out, err = start(data, whole, learner, 0).communicate(timeout=120)
    assert "resumed" not in err and "trained" in out
    files = sorted(path.name for path in whole.iterdir())
    assert files == sorted(path.name for path in model.iterdir())
    assert all((whole / name).read_bytes() == (model / name).read_bytes() for name in files), "the very same model"


def test_interrupted_too_early(data: Path, tmp_path: Path) -> None:
    process = start(data, tmp_path / "model", TREES, 60)
    assert process.stderr is not None
    assert process.stderr.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    err = process.communicate(timeout=60)[1]
    assert (process.returncode, err) == (130, "longtail: interrupted: too early for anything to be kept\n")
    assert list(tmp_path.iterdir()) == []
