"""A number of optimiser steps in place of epochs: exactly so many, and a run that was cut goes on to the same end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("lightning")

from neural_helpers import AN_EPOCH, Watch, checkpoint_files, copied, fitted, same, small_learner, topics  # noqa: E402
from short_text_cases import LEARNERS, titles  # noqa: E402

from longtail import fit as fits  # noqa: E402
from longtail.errors import UsageError  # noqa: E402
from longtail.fit import Fit  # noqa: E402
from longtail.learners.neural.training import checkpoints  # noqa: E402
from longtail.learners.neural.training.task import Task  # noqa: E402
from longtail.registry import build  # noqa: E402
from longtail.run import Run  # noqa: E402

STEPS = 7
assert STEPS % AN_EPOCH, "the last step is in the middle of an epoch"


class Stop(Exception):  # noqa: N818
    """What cuts a run off."""


class Steps(Watch):
    """Counts optimiser steps, of networks whose training has one of these titles, and may cut the run off after one."""

    TITLES = ("Training", "Training clusters", "Phase I", "Phase II")

    def __init__(self, cut: int | None = None) -> None:
        super().__init__(lambda step: None)
        self.cut, self.counting, self.taken = cut, False, 0

    def bar(self, title: str, total: float | None) -> Any:
        self.counting = any(title.endswith(own) for own in self.TITLES)
        return self

    def advance(self, amount: float = 1) -> None:
        if self.counting:
            self.steps += int(amount)
            self.taken += amount == 1
            if self.steps == self.cut:
                raise Stop


@pytest.mark.parametrize("steps", [1, AN_EPOCH, STEPS, 11])
def test_so_many_steps(steps: int) -> None:
    bar = Steps()
    small_learner(steps=steps).fit(topics(), run=Run(threads=1, progress=bar))
    assert bar.steps == bar.taken == steps


def test_rates_fall_over_the_steps_there_are() -> None:
    task = Task(topics(), Fit())
    schedule = small_learner(steps=STEPS).schedule_of(task)
    assert schedule.steps == STEPS and schedule.factor(STEPS - 1) < 1 / STEPS + 0.01
    assert small_learner(epochs=2, least_steps=1).schedule_of(task).steps == 2 * AN_EPOCH


def test_none_is_refused() -> None:
    with pytest.raises(UsageError, match=r"attentionxml\.steps must be at least 1"):
        small_learner(steps=0)


def test_goes_on_from_every_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "CHECKPOINT_SECONDS", 0)
    options: dict[str, Any] = {"steps": STEPS, "epochs": 3, "valid": False}
    after: list[Any] = []
    whole = copied(fitted(after_step=lambda network, step: after.append(copied(network)), **options))
    assert len(after) == STEPS and same(after[-1], whole)
    for cut in range(2, STEPS + 1):

        def stop(network: Any, step: int, cut: int = cut) -> None:
            if step == cut:
                raise Stop

        folder = tmp_path / str(cut)
        with pytest.raises(Stop):
            fitted(after_step=stop, checkpoints=folder, **options)
        assert checkpoint_files(folder) == [f"{cut - 1}.ckpt"]
        seen: list[int] = []
        again = fitted(after_step=lambda network, step, seen=seen: seen.append(step), checkpoints=folder, **options)
        assert seen == list(range(cut - 1, STEPS + 1)), "it went on where it was cut, to the last step and no further"
        assert same(copied(again), whole)
        assert not folder.exists()


def test_epochs_beside_steps_are_refused() -> None:
    with pytest.raises(UsageError, match=r"attentionxml\.epochs counts only where steps is"):
        small_learner(steps=5, epochs=3)


@pytest.mark.parametrize("name", ["decaf", "decaf, clusters", "inceptionxml-lf, clusters"])
def test_learners_of_short_texts_go_on(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fit of several networks is cut in its last one: that goes on, and those before are not trained again."""
    monkeypatch.setattr(checkpoints, "CHECKPOINT_SECONDS", 0)
    monkeypatch.setattr(fits, "KEPT_FROM", 0)
    corpus = titles()

    def fit(checkpoints: Path | None, bar: Steps) -> Any:
        run = Run(seed=5, threads=1, progress=bar, checkpoints=checkpoints)
        return build(LEARNERS[name]).fit(corpus, run=run).state()

    bar = Steps()
    whole = fit(None, bar)
    every = bar.taken
    assert every >= 6
    with pytest.raises(Stop):
        fit(tmp_path, Steps(cut=every))
    kept = list(tmp_path.rglob("*.ckpt"))
    assert len(kept) == 1
    assert len(list(tmp_path.rglob("*.finished"))) == (name != "decaf")
    bar = Steps()
    again = fit(tmp_path, bar)
    assert bar.taken == 1, "only the last step was left"
    assert whole.keys() == again.keys() and all(whole[key].tobytes() == again[key].tobytes() for key in whole)
    assert not list(tmp_path.rglob("*.ckpt"))
