"""LSFA is interrupted in each of its phases: the same program again ends with the same bytes."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

pytest.importorskip("torch")
pytest.importorskip("lightning")

from longtail import fit as fits
from longtail.augment.label_features import LabelFeatures
from longtail.augment.pvae import Pvae
from longtail.corpus import Corpus
from longtail.labels import LabelIndex
from longtail.learners.neural.training import checkpoints as kept
from longtail.run import Run
from longtail.tagger import Tagger

#: Calls of each, in a whole run, before the one that does not come back: in the middle of a pass where there are any.
PHASES = {"first": 14, "features": 0, "pvae": 2, "second": 9}


class Killed(BaseException):
    """What no part catches."""


class Phases:
    """A progress that counts the steps of each phase, and ends the process, or hangs, in one of them."""

    def __init__(self, phase: str = "", hangs: Path | None = None) -> None:
        self.phase, self.hangs, self.counts = phase, hangs, dict.fromkeys(PHASES, 0)
        self.open = ""

    def bar(self, title: str, total: float | None) -> Any:
        named = {"Training": "first", "lsfa: PVAE": "pvae", "second stage: Second stage": "second"}
        self.open = named.get(title, "")
        return self

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exception: object) -> None:
        self.open = ""

    def advance(self, amount: float = 1) -> None:
        if self.open:
            self.counts[self.open] += int(amount)
            self.reached(self.open)

    def reached(self, phase: str) -> None:
        if phase == self.phase and self.counts[phase] >= PHASES[phase]:
            if self.hangs is None:
                raise Killed
            self.hangs.with_suffix(".new").write_text(phase)
            self.hangs.with_suffix(".new").rename(self.hangs)
            time.sleep(600)


def corpus() -> Corpus:
    rng = np.random.default_rng(3)
    share = 1 / np.arange(1, 13)
    Y = np.zeros((80, 12), dtype=np.float32)
    for row in range(80):
        Y[row, rng.choice(12, size=rng.integers(1, 3), replace=False, p=share / share.sum())] = 1
    texts = [" ".join(f"w{label}" for label in np.flatnonzero(y)) + f" n{rng.integers(9)}" for y in Y]
    return Corpus(labels=LabelIndex([f"l{j}" for j in range(12)]), Y=sp.csr_matrix(Y), texts=texts).counted()


def trained(checkpoints: Path | None, progress: Phases) -> dict[str, Any]:
    """The arrays of a model, trained with whatever there is already."""
    learner = {"part": "attentionxml", "encoder": {"part": "bag", "size": 16}, "epochs": 4, "batch": 16,
               "retune_epochs": 4}  # fmt: skip
    contrastive = {"part": "contrastive", "start": 0.3, "weight": 1.0}
    augment = {"part": "lsfa", "threshold": 8, "epochs": 4, "hidden": 16, "latent": 4, "contrastive": contrastive}
    tagger = Tagger(learner, augment=[augment], seed=3, threads=1)
    collected = LabelFeatures.collected

    def watched(*given: Any) -> Any:
        progress.reached("features")
        return collected(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept, "CHECKPOINT_SECONDS", 0.0)
        patch.setattr(fits, "KEPT_FROM", 0.0)
        patch.setattr(LabelFeatures, "collected", watched)
        tagger.fit(corpus(), run=Run(seed=3, threads=1, progress=progress, checkpoints=checkpoints))
    return {**tagger.learner.state(), **tagger.augment[0].state()}


@pytest.fixture(scope="module")
def whole() -> tuple[dict[str, Any], dict[str, int]]:
    progress = Phases()
    return trained(None, progress), progress.counts


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(one[name].tobytes() == other[name].tobytes() for name in one)


@pytest.mark.parametrize("phase", PHASES)
def test_interrupted_in_each_phase(phase: str, tmp_path: Path, whole: Any) -> None:
    expected, counts = whole
    with pytest.raises(Killed):
        trained(tmp_path, Phases(phase))
    progress = Phases()
    fits_again: list[int] = []
    fit = Pvae._fit

    def counted(self: Any, *given: Any) -> None:
        fits_again.append(1)
        fit(self, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Pvae, "_fit", counted)
        assert same(trained(tmp_path, progress), expected)
    if phase != "first":
        assert progress.counts["first"] == 0, "the first stage was kept"
    assert (not fits_again) == (phase == "second"), "and so was a PVAE that was finished"
    assert progress.counts["second"] == counts["second"], "steps done before count, too"


PROGRAM = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from test_kill_lsfa import Phases, trained
folder = Path(sys.argv[2])
trained(folder / "unfinished", Phases(sys.argv[3], folder / "reached"))
"""


@pytest.mark.parametrize("phase", PHASES)
def test_killed_in_each_phase(phase: str, tmp_path: Path, whole: Any) -> None:
    command = [sys.executable, "-c", PROGRAM, str(Path(__file__).parent), str(tmp_path), phase]
    with subprocess.Popen(command) as process:
        deadline = time.monotonic() + 120
        while not (tmp_path / "reached").exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
    assert (tmp_path / "reached").read_text() == phase
    progress = Phases()
    assert same(trained(tmp_path / "unfinished", progress), whole[0])
    assert (progress.counts["first"] == 0) == (phase != "first"), "a first stage that was finished is not done again"
