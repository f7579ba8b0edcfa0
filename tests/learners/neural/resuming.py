"""A fit that is cut off and goes on, for tests of whole learners."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from neural_helpers import Watch

from longtail.corpus import Corpus
from longtail.learners.neural.training import checkpoints, module
from longtail.registry import build
from longtail.run import Run


class Cut(Exception):  # noqa: N818
    """What cuts a run off."""


def check_resumes(
    config: dict[str, Any], corpus: Corpus, folder: Path, monkeypatch: pytest.MonkeyPatch, at: int = 5
) -> None:
    """Cut off at an optimiser step, the same fit goes on from there, and learns the same bytes as one in one go."""
    whole: Any = build(config)
    whole.fit(corpus, run=Run(seed=3, threads=1))
    monkeypatch.setattr(checkpoints, "CHECKPOINT_SECONDS", 0)
    done = [0]
    step = module.Module.training_step

    def counted(self: Any, batch: Any, batch_idx: int) -> Any:
        if done[0] == at:
            raise Cut
        done[0] += 1
        return step(self, batch, batch_idx)

    monkeypatch.setattr(module.Module, "training_step", counted)
    with pytest.raises(Cut):
        build(config).fit(corpus, run=Run(seed=3, threads=1, checkpoints=folder))  # type: ignore[attr-defined]
    assert list(folder.rglob("*.ckpt")), "what was done is kept"
    monkeypatch.setattr(module.Module, "training_step", step)
    steps: list[int] = []
    watch = Watch(steps.append)
    again: Any = build(config)
    again.fit(corpus, run=Run(seed=3, threads=1, checkpoints=folder, progress=watch))
    one, other = whole.state(), again.state()
    assert one.keys() == other.keys()
    assert [name for name in one if one[name].tobytes() != other[name].tobytes()] == []
