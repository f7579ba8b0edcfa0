"""Training: averaged and best weights, stopping, going on exactly where a run was cut, and nothing left changed."""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("lightning")

from neural_helpers import (  # noqa: E402
    AN_EPOCH,
    Watch,
    Weights,
    checkpoint_files,
    copied,
    fitted,
    same,
    small_learner,
    topics,
)

from longtail.augment.hooks import Hook  # noqa: E402
from longtail.errors import UsageError  # noqa: E402
from longtail.learners.neural.training import checkpoints, module  # noqa: E402
from longtail.learners.neural.training import trainer as training  # noqa: E402
from longtail.run import Hardware, Run  # noqa: E402

STEPS = 3 * AN_EPOCH


class Validations:
    """Stands in for `measure`: gives the values it was told, and keeps the weights that were validated."""

    def __init__(self, values: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
        self.values = values
        self.validated: list[Weights] = []
        monkeypatch.setattr(module, "measure", lambda scores, valid, metric: self.values[len(self.validated) - 1])
        scoring = module.best_labels

        def keep(network: Any, *others: Any, **more: Any) -> Any:
            self.validated.append(copied(network))
            return scoring(network, *others, **more)

        monkeypatch.setattr(module, "best_labels", keep)


def recorded(**options: Any) -> tuple[Weights, list[Weights]]:
    """The weights in the end, and after each step."""
    after: list[Weights] = []
    network = fitted(after_step=lambda network, step: after.append(copied(network)), **options)
    return copied(network), after


def mean_of(weights: list[Weights]) -> Weights:
    return {name: torch.stack([w[name].double() for w in weights]).mean(dim=0).float() for name in weights[0]}


def close(one: Weights, other: Weights) -> bool:
    return all(torch.allclose(one[name], other[name], rtol=1e-5, atol=1e-6) for name in one)


class TestAveragedWeights:
    @pytest.mark.parametrize("start", [0, 4, STEPS - 1, STEPS])
    def test_mean_of_the_weights_after_each_step(self, start: int) -> None:
        end, after = recorded(valid=False, average_from=start)
        assert len(after) == STEPS
        if start < STEPS:
            assert close(end, mean_of(after[start:]))
            assert start == STEPS - 1 or not close(end, after[-1])
        else:
            assert same(end, after[-1]), "averaging that never begins changes nothing"

    @pytest.mark.parametrize("every", [2, 3])
    def test_only_after_every_so_many(self, every: int) -> None:
        end, after = recorded(valid=False, average_from=1, average_every=every)
        assert close(end, mean_of(after[1::every])) and not close(end, mean_of(after[1:]))

    def test_training_itself_is_the_same(self) -> None:
        _, plain = recorded()
        _, averaged = recorded(average_from=2)
        assert all(same(one, other) for one, other in zip(plain, averaged, strict=True))

    def test_what_is_validated(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The weights themselves before there is an average, then the average so far."""
        seen = Validations([0.1, 0.2, 0.3], monkeypatch)
        start = AN_EPOCH + 1
        end, after = recorded(average_from=start)
        assert len(seen.validated) == 3
        assert same(seen.validated[0], after[AN_EPOCH - 1])
        for epoch in (2, 3):
            assert close(seen.validated[epoch - 1], mean_of(after[start : epoch * AN_EPOCH]))
        assert same(end, seen.validated[2])


class TestKeepBest:
    @pytest.mark.parametrize("average_from", [None, 0, AN_EPOCH + 1])
    @pytest.mark.parametrize("best", [0, 1, 2])
    def test_best_validations_weights_come_back(
        self, monkeypatch: pytest.MonkeyPatch, best: int, average_from: int | None
    ) -> None:
        values = [0.5, 0.5, 0.5]
        values[best] = 0.6
        seen = Validations(values, monkeypatch)
        end, _ = recorded(average_from=average_from)
        assert same(end, seen.validated[best])
        assert not same(end, seen.validated[best - 1])

    def test_the_first_of_equals(self, monkeypatch: pytest.MonkeyPatch) -> None:
        seen = Validations([0.0, 0.0, 0.0], monkeypatch)
        assert same(recorded()[0], seen.validated[0])

    def test_without_validation_the_last(self) -> None:
        end, after = recorded(valid=False)
        assert same(end, after[-1])


@pytest.mark.parametrize("values, validations", [([0.5, 0.4, 0.6, 0.1], 2), ([0.1, 0.2, 0.3, 0.4], 4)])
def test_early_stopping(monkeypatch: pytest.MonkeyPatch, values: list[float], validations: int) -> None:
    seen = Validations(values, monkeypatch)
    end, after = recorded(steps=4 * AN_EPOCH, patience=1)
    assert len(seen.validated) == validations and len(after) == validations * AN_EPOCH
    assert same(end, seen.validated[values.index(max(values[:validations]))])


@pytest.mark.parametrize("metric", ["nDCG@5", "PSP@5", "P@1", "PSP@1"])
def test_every_metric_can_be_measured(metric: str) -> None:
    fitted(metric=metric, steps=AN_EPOCH)


def test_logs(tmp_path: Path) -> None:
    fitted(logs=str(tmp_path), title="Training level 1 of 2", steps=60)
    (rows,) = tmp_path.glob("Training level 1 of 2-csv/version_0/metrics.csv")
    header, *lines = rows.read_text().splitlines()
    assert {"epoch", "step", "loss", "nDCG@5"} <= set(header.split(","))
    assert len(lines) >= 60 // AN_EPOCH
    assert list(tmp_path.glob("*-tensorboard/version_0/events.out.tfevents.*"))


def test_logs_without_tensorboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*options: Any, **more: Any) -> None:
        raise ModuleNotFoundError("Neither `tensorboard` nor `tensorboardX` is available.\nTry one")

    monkeypatch.setattr(training, "TensorBoardLogger", missing)
    with pytest.raises(UsageError, match=r"pip install tensorboard$"):
        fitted(logs=str(tmp_path))


@pytest.mark.parametrize("classifier", ["own", "shared"])
def test_half_precision(classifier: str) -> None:
    head = {"part": "label-attention", "classifier": classifier}
    corpus = topics()
    learner = small_learner(head=head, epochs=20)
    learner.fit(corpus, run=Run(threads=1, hardware=Hardware(precision="bf16-mixed")))
    assert all(value.dtype == torch.float32 for value in learner.network_.state_dict().values())
    found = learner.score(corpus, 1, run=Run(threads=1)).ids[:, 0]
    assert (found == corpus.Y.indices).mean() > 0.9


class TestSameSeedSameWeights:
    def test_fit(self) -> None:
        one, other, third = (
            copied(small_learner().fit(topics(), run=Run(seed=seed, threads=1)).network_) for seed in (1, 1, 2)
        )
        assert same(one, other)
        assert not any(torch.equal(one[name], third[name]) for name in one if name != "head.centre")

    def test_whatever_was_drawn_before(self) -> None:
        one, _ = recorded()
        torch.rand(17)
        other, _ = recorded()
        assert same(one, other)
        assert not same(one, recorded(seed=1)[0])

    def test_validation_draws_nothing(self) -> None:
        _, checked = recorded(valid=True)
        _, unchecked = recorded(valid=False)
        assert all(same(a, b) for a, b in zip(checked, unchecked, strict=True))


def test_training_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dropout is on in every step, behind validations too, and off in the end."""
    modes = []

    class Look(Hook):
        def draw(self, batch: Any, network: Any, rng: Any, step: int) -> Any:
            modes.append({part.training for part in network.modules()})
            return batch

    network = fitted(hooks=[Look()])
    assert modes == [{True}] * STEPS
    assert not any(part.training for part in network.modules())


class Stop(Exception):  # noqa: N818
    """What cuts a run off."""


def cut_at(step: int) -> Callable[[Any, int], None]:
    def after_step(network: Any, done: int) -> None:
        if done == step:
            raise Stop

    return after_step


@pytest.fixture
def every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps a checkpoint whenever one may be kept, and gives validations a value that is best somewhere within."""
    monkeypatch.setattr(checkpoints, "CHECKPOINT_SECONDS", 0)
    rise_and_fall = [0.2, 0.5, 0.4, 0.3]

    def value(scores: Any, valid: Any, metric: str) -> float:
        # of the weights alone, so that it is the same whenever it is asked
        return known.setdefault(float(scores.values.astype("f8").sum()), rise_and_fall[min(len(known), 3)])

    known: dict[float, float] = {}
    monkeypatch.setattr(module, "measure", value)


KINDS: dict[str, dict[str, Any]] = {
    "stopping": {"patience": 1, "steps": 4 * AN_EPOCH},
    "averaged": {"average_from": 4},
    "averaged, not validated": {"average_from": 4, "valid": False},
    "one batch an epoch": {"batch": 24, "steps": 5},
}


@pytest.mark.parametrize("kind", KINDS)
def test_goes_on_exactly_from_every_step(tmp_path: Path, every_step: None, kind: str) -> None:
    """In the middle of epochs and at their ends, where validation, averages and patience are carried over, too."""
    options = KINDS[kind]
    whole, after = recorded(**options)
    folder = tmp_path / "checkpoints"
    for step in range(2, len(after) + 1):
        with pytest.raises(Stop):
            fitted(after_step=cut_at(step), checkpoints=folder, **options)
        assert checkpoint_files(folder) == [f"{step - 1}.ckpt"]
        end, rest = recorded(checkpoints=folder, **options)
        # the bar starts from the steps done, which counts as one more call
        assert len(rest) == 1 + len(after) - (step - 1)
        assert all(same(a, b) for a, b in zip(rest[1:], after[step - 1 :], strict=True))
        assert same(end, whole), step
        assert not folder.exists()


def test_cut_while_validating(tmp_path: Path, every_step: None, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, _ = recorded()
    folder = tmp_path / "checkpoints"
    value = module.measure
    for epoch in range(3):
        left = [epoch]

        def cut(*given: Any, left: list[int] = left) -> float:
            left[0] -= 1
            if left[0] < 0:
                raise Stop
            return float(value(*given))

        monkeypatch.setattr(module, "measure", cut)
        with pytest.raises(Stop):
            fitted(checkpoints=folder)
        assert checkpoint_files(folder) == [f"{(epoch + 1) * AN_EPOCH - 1}.ckpt"], "not between a batch and its check"
        monkeypatch.setattr(module, "measure", value)
        end, _ = recorded(checkpoints=folder)
        assert same(end, whole), epoch


def test_cut_twice(tmp_path: Path, every_step: None) -> None:
    whole, _ = recorded(average_from=3)
    for step in (2, 5, 8):
        with pytest.raises(Stop):
            fitted(after_step=cut_at(step), checkpoints=tmp_path, average_from=3)
        assert checkpoint_files(tmp_path) == [f"{step - 1}.ckpt"]
    assert same(recorded(checkpoints=tmp_path, average_from=3)[0], whole)


class Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path(os.environ["LONGTAIL_TEST_BOMB"]),)


@pytest.mark.parametrize("damage", ["cut short", "empty", "garbage", "code", "one byte less"])
def test_damaged_checkpoint(tmp_path: Path, every_step: None, damage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is as good as none, an older one is taken, and what it holds is never run."""
    whole, _ = recorded()
    folder = tmp_path / "checkpoints"
    with pytest.raises(Stop):
        fitted(after_step=cut_at(5), checkpoints=folder)
    newest = folder / "4.ckpt"
    data = newest.read_bytes()
    monkeypatch.setenv("LONGTAIL_TEST_BOMB", str(tmp_path / "exploded"))
    damaged = {
        "cut short": data[: len(data) // 2],
        "empty": b"",
        "garbage": b"not a checkpoint",
        "code": pickle.dumps(Bomb()),
        "one byte less": data[:-1],
    }
    newest.write_bytes(damaged[damage])
    end, after = recorded(checkpoints=folder)
    assert same(end, whole) and len(after) == STEPS, "started over"
    assert not (tmp_path / "exploded").exists()
    with pytest.raises(Stop):
        fitted(after_step=cut_at(5), checkpoints=folder)
    (folder / "5.ckpt").write_bytes(damaged[damage])
    end, after = recorded(checkpoints=folder)
    assert same(end, whole) and len(after) == 1 + STEPS - 4, "went on from the older one"


def test_no_checkpoint_before_its_time(tmp_path: Path) -> None:
    assert checkpoints.CHECKPOINT_SECONDS >= 10
    folder = tmp_path / "checkpoints"
    with pytest.raises(Stop):
        fitted(after_step=cut_at(5), checkpoints=folder)
    assert checkpoint_files(folder) == []


class TestNothingIsLeftChanged:
    @pytest.fixture(autouse=True)
    def as_torch_starts(self) -> None:
        torch.use_deterministic_algorithms(False)

    def state(self) -> tuple[Any, ...]:
        variables = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
        return (
            torch.are_deterministic_algorithms_enabled(),
            torch.get_num_threads(),
            torch.is_grad_enabled(),
            signal.getsignal(signal.SIGINT),
            signal.getsignal(signal.SIGTERM),
            variables,
        )

    def test_after_a_fit(self, capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: Any) -> None:
        monkeypatch.chdir(tmp_path)
        before = self.state()
        fitted()
        assert self.state() == before
        assert capfd.readouterr() == ("", "")
        assert list(tmp_path.iterdir()) == []

    def test_after_an_error(self) -> None:
        before = self.state()
        with pytest.raises(Stop):
            fitted(after_step=cut_at(2))
        assert self.state() == before

    def test_interrupted(self) -> None:
        """Ctrl-C reaches the caller as such, and the next one is heard, too."""
        before = self.state()

        def interrupt(network: Any, step: int) -> None:
            if step == 2:
                os.kill(os.getpid(), signal.SIGINT)

        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                fitted(after_step=interrupt)
            assert self.state() == before


class TestBar:
    def test_advances_to_its_end(self) -> None:
        bar = Watch(lambda step: None)
        small_learner().fit(topics(), run=Run(threads=1, progress=bar))
        assert bar.open == 0 and bar.steps >= 2 * AN_EPOCH

    @pytest.mark.parametrize("where", ["configure_optimizers", "training_step", "validation_step"])
    def test_closed_after_an_error(self, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
        """And not closed if it was never open."""

        def fails(*given: Any) -> None:
            raise Stop

        monkeypatch.setattr(module.Module, where, fails)
        bar = Watch(lambda step: None)
        with pytest.raises(Stop):
            small_learner(valid_share=0.2).fit(topics(), run=Run(threads=1, progress=bar))
        assert bar.open == 0


def test_no_processes_without_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training.multiprocessing, "get_all_start_methods", lambda: ["spawn"])
    with pytest.raises(UsageError, match="cannot fork"):
        fitted(devices=2)
