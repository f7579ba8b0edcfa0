"""A process that trains is killed in the middle of an epoch: run again, it goes on and ends with the same weights."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

pytest.importorskip("torch")
pytest.importorskip("lightning")

from longtail.augment.hooks import Hook, TrainingPlan
from longtail.corpus import Corpus
from longtail.fit import Fit
from longtail.labels import LabelIndex
from longtail.registry import build
from longtail.run import Run

DOCUMENTS, LABELS, BATCH, EPOCHS = 40, 8, 4, 4
AN_EPOCH = DOCUMENTS // BATCH

TRAINER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_kill_training import Steps, fit
fit(Path(sys.argv[1]), eval(sys.argv[3]), Steps(seconds=0.05, tell=True), sys.argv[4] == "True")
"""


class Steps:
    """A progress that counts optimiser steps, dawdles at each, and tells whoever waits."""

    def __init__(self, seconds: float = 0.0, tell: bool = False) -> None:
        self.seconds, self.tell = seconds, tell
        self.counting = False
        self.amounts: list[int] = []  # the first is how many were done before

    def bar(self, title: str, total: float | None) -> Any:
        self.counting = title == "Training"
        return self

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exception: object) -> None:
        self.counting = False

    def advance(self, amount: float = 1) -> None:
        if not self.counting:
            return
        self.amounts.append(int(amount))
        if self.tell:
            print(sum(self.amounts), flush=True)
        time.sleep(self.seconds)


def corpus(seed: int) -> Corpus:
    rng = np.random.default_rng(seed)
    label = rng.permutation(np.arange(DOCUMENTS) % LABELS)
    texts = [f"topic{own} " + " ".join(f"noise{n}" for n in rng.integers(0, 9, 1 + own)) for own in label]
    Y = sp.csr_matrix((np.ones(DOCUMENTS, np.float32), (np.arange(DOCUMENTS), label)), shape=(DOCUMENTS, LABELS))
    return Corpus(labels=LabelIndex([f"label {n}" for n in range(LABELS)]), Y=Y, texts=texts)


@dataclass(kw_only=True)
class Remembers(Hook):
    """Weighs each document the less the more often it was seen: what is learnt depends on all steps before."""

    def begin(self, plan: TrainingPlan) -> None:
        self.seen_ = np.zeros(len(plan.corpus), dtype=np.int64)
        self.epochs_ = 0

    def epoch(self, network: Any, data: Any) -> None:
        self.epochs_ += 1

    def draw(self, batch: Any, network: Any, rng: Any, step: int) -> Any:
        import torch

        self.seen_[batch.rows] += 1 + step
        weight = torch.from_numpy(self.epochs_ / self.seen_[batch.rows]).to(batch.targets)
        return replace(batch, weights=weight[:, None].expand_as(batch.targets))

    def state(self) -> dict[str, Any]:
        return {"seen": self.seen_, "epochs": self.epochs_}

    def restore_state(self, state: dict[str, Any]) -> None:
        self.seen_, self.epochs_ = np.array(state["seen"]), state["epochs"]


def fit(checkpoints: Path | None, average: float | None, progress: Any, hooked: bool = False) -> dict[str, Any]:
    """The arrays of a small network, trained with whatever checkpoints there are."""
    from longtail.learners.neural.training import checkpoints as kept

    options = {"epochs": EPOCHS, "least_steps": 1, "batch": BATCH, "average": average}
    encoder = {"part": "bilstm", "size": 8, "hidden": 4}
    learner: Any = build({"part": "attentionxml", "encoder": encoder, **options})
    run = Run(seed=3, threads=1, progress=progress, checkpoints=checkpoints)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept, "CHECKPOINT_SECONDS", 0.1)
        learner.learn(corpus(0), Fit(run, corpus(1), [Remembers()] if hooked else []))
    state: dict[str, Any] = learner.state()
    return state


def killed(checkpoints: Path, average: float | None, hooked: bool = False) -> None:
    """Starts a fit and kills it in the middle of its second epoch."""
    command = [sys.executable, "-c", TRAINER, str(checkpoints), str(Path(__file__).parent), repr(average)]
    command.append(str(hooked))
    with subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "OMP_NUM_THREADS": "1"}) as trainer:
        try:
            assert trainer.stdout is not None
            while int(trainer.stdout.readline()) < AN_EPOCH + AN_EPOCH // 2:
                pass
            assert list(checkpoints.glob("*/*.ckpt")), "there is something to go on from"
        finally:
            trainer.send_signal(signal.SIGKILL)
    assert trainer.returncode == -signal.SIGKILL


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


def test_what_hooks_and_averages_remember_survives(tmp_path: Path) -> None:
    whole = fit(None, 0.5, Steps(), hooked=True)
    killed(tmp_path, 0.5, hooked=True)
    steps = Steps()
    assert same(fit(tmp_path, 0.5, steps, hooked=True), whole)
    assert steps.amounts[0] > 0, "it went on, and did not start over"
    assert not same(fit(None, 0.5, Steps()), whole), "the hook has a say"
    assert not same(fit(None, None, Steps(), hooked=True), whole), "and so has the average"


def test_killed_while_training(tmp_path: Path) -> None:
    whole = fit(None, None, Steps())
    checkpoints = tmp_path / "checkpoints"
    killed(checkpoints, None)
    damaged = shutil.copytree(checkpoints, tmp_path / "damaged")

    steps = Steps()
    assert same(fit(checkpoints, None, steps), whole)
    assert steps.amounts[0] > 0, "it went on, and did not start over"
    assert sum(steps.amounts) == EPOCHS * AN_EPOCH
    assert not list(checkpoints.iterdir()), "nothing is left to go on from"

    for file in damaged.glob("*/*.ckpt"):
        os.truncate(file, file.stat().st_size // 2)
    steps = Steps()
    assert same(fit(damaged, None, steps), whole)
    assert steps.amounts == [0] + [1] * (EPOCHS * AN_EPOCH), "it started over"
    assert not list(damaged.iterdir())
