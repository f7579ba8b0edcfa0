"""What hooks are told and when, and what they remember when a run goes on after it was cut."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("lightning")

from neural_helpers import AN_EPOCH, DOCUMENTS, LABELS, checkpoint_files, copied, fitted, same  # noqa: E402

from longtail import augment  # noqa: E402
from longtail.augment.hooks import Hook, TrainingPlan  # noqa: E402
from longtail.learners.neural.training import checkpoints  # noqa: E402

STEPS = 3 * AN_EPOCH


class Stop(Exception):  # noqa: N818
    """What cuts a run off."""


class Notes(Hook):
    """Writes down every call."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def begin(self, plan: TrainingPlan) -> None:
        self.calls.append(("begin", len(plan.corpus), plan.corpus.n_labels, plan.steps))

    def epoch(self, network: Any, data: Any) -> None:
        assert network.training and len(data.tokens) == DOCUMENTS
        self.calls.append("epoch")

    def draw(self, batch: Any, network: Any, rng: Any, step: int) -> Any:
        self.calls.append(("draw", step))
        return batch

    def encoded(self, batch: Any, network: Any, hidden: Any) -> Any:
        assert hidden.requires_grad and len(hidden) == len(batch)
        self.calls.append("encoded")
        return batch

    def pairs(self, batch: Any, network: Any, hidden: Any, logits: Any) -> Any:
        self.calls.append("pairs")
        return batch, logits, None


def test_calls_in_order() -> None:
    notes = Notes()
    fitted(hooks=[notes])
    expected: list[Any] = [("begin", DOCUMENTS, LABELS, STEPS)]
    for step in range(STEPS):
        expected += ["epoch"] if step % AN_EPOCH == 0 else []
        expected += [("draw", step), "encoded", "pairs"]
    assert notes.calls == expected


def test_labels_chosen_between_encoder_and_head() -> None:
    """The head and the loss see the batch that `encoded` gave."""
    seen = []

    class Half(Hook):
        def encoded(self, batch: Any, network: Any, hidden: Any) -> Any:
            return replace(batch, labels=batch.labels[:3], targets=batch.targets[:, :3])

        def pairs(self, batch: Any, network: Any, hidden: Any, logits: Any) -> Any:
            seen.append(tuple(logits.shape))
            return batch, logits, None

    fitted(hooks=[Half()], steps=AN_EPOCH)
    assert seen == [(8, 3)] * AN_EPOCH


@dataclass(kw_only=True)
class Remembers(Hook):
    """Weighs each document the less the more often it was seen, and all the more the more epochs have begun."""

    def begin(self, plan: TrainingPlan) -> None:
        self.seen_ = np.zeros(len(plan.corpus), dtype=np.int64)
        self.epochs_ = 0

    def epoch(self, network: Any, data: Any) -> None:
        self.epochs_ += 1

    def draw(self, batch: Any, network: Any, rng: Any, step: int) -> Any:
        self.seen_[batch.rows] += 1 + step
        weight = torch.from_numpy((1 + self.epochs_) / self.seen_[batch.rows]).to(batch.targets)
        return replace(batch, weights=weight[:, None].expand_as(batch.targets))

    def state(self) -> dict[str, Any]:
        return {"seen": self.seen_, "epochs": self.epochs_}

    def restore_state(self, state: dict[str, Any]) -> None:
        self.seen_, self.epochs_ = np.array(state["seen"]), state["epochs"]


class Forgets(Remembers):
    def state(self) -> dict[str, Any]:
        return {}

    def restore_state(self, state: dict[str, Any]) -> None:
        return None


@pytest.mark.parametrize("valid", [False, True])
def test_what_a_hook_remembers_goes_on_exactly(tmp_path: Path, valid: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the middle of every epoch and from the ends of all but the last."""
    monkeypatch.setattr(checkpoints, "CHECKPOINT_SECONDS", 0)
    whole = copied(fitted(hooks=[Remembers()], valid=valid))
    for cut in range(2, STEPS + 1):

        def stop(network: Any, step: int, cut: int = cut) -> None:
            if step == cut:
                raise Stop

        # that the test would notice a hook that forgets is shown once
        for kind in (Remembers, Forgets) if cut == STEPS // 2 and not valid else (Remembers,):
            with pytest.raises(Stop):
                fitted(hooks=[kind()], valid=valid, after_step=stop, checkpoints=tmp_path / "kept")
            assert checkpoint_files(tmp_path / "kept") == [f"{cut - 1}.ckpt"]
            again = copied(fitted(hooks=[kind()], valid=valid, checkpoints=tmp_path / "kept"))
            assert same(again, whole) == (kind is Remembers), cut


def test_augmenters_know_no_learner() -> None:
    """They are handed networks and ask what these can do; only type checkers see where those are made."""
    for file in sorted(Path(augment.__file__).parent.glob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        typing_only = {
            id(inner)
            for node in ast.walk(tree)
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
            for inner in ast.walk(node)
        }
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
        found = [ast.unparse(node) for node in imports if id(node) not in typing_only]
        assert not [line for line in found if "longtail.learners" in line], file.name
