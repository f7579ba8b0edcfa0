"""One fit with Lightning: progress, checkpoints and resuming, early stopping, averaged weights, logs."""

from __future__ import annotations

import contextlib
import logging
import shutil
import warnings
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from lightning import pytorch as lightning
from lightning.pytorch.callbacks import Callback, EarlyStopping, ModelCheckpoint, WeightAveraging
from lightning.pytorch.loggers import CSVLogger, Logger, TensorBoardLogger

from longtail.learners.neural.hooks import Hook, Setting
from longtail.learners.neural.module import Module, Schedule, TrainingData
from longtail.learners.neural.network import Network
from longtail.run import Run

#: Seconds between checkpoints of a run that keeps any.
CHECKPOINT_SECONDS = 30


def train(
    network: Network,
    data: TrainingData,
    schedule: Schedule,
    hooks: Sequence[Hook],
    setting: Setting,
    *,
    epochs: int,
    metric: str,
    patience: int,
    average_from: int | None,
    precision: str,
    devices: int,
    nodes: int,
    logs: str | None,
    title: str,
    checkpoints: Path | None,
    run: Run,
) -> Network:
    """The network trained, in place: with the weights of its best validation, averaged if so asked.

    checkpoints  a folder for this very fit: one that was interrupted goes on from what it finds there
    """
    for hook in hooks:
        hook.begin(setting)
    module = Module(network, data, schedule, hooks, metric, k=max(5, int(metric.partition("@")[2])))
    best = KeepBest(metric)
    callbacks: list[Callback] = [_Bar(run, title, schedule.steps), best]
    if average_from is not None:
        callbacks.insert(0, AveragedWeights(average_from))
    if data.valid is not None and patience:
        callbacks.append(EarlyStopping(metric, mode="max", patience=patience, check_finite=False))
    if checkpoints is not None:
        checkpoints.mkdir(parents=True, exist_ok=True)
        callbacks.append(
            ModelCheckpoint(
                checkpoints,
                filename="{step}",
                train_time_interval=timedelta(seconds=CHECKPOINT_SECONDS),
                save_top_k=1,
                enable_version_counter=False,
            )
        )
    with quiet(), torch_threads(run.workers):
        trainer = lightning.Trainer(
            accelerator="auto",
            devices=devices or 1,
            num_nodes=nodes,
            precision=precision,  # type: ignore[arg-type]
            max_epochs=epochs,
            max_steps=schedule.steps,
            callbacks=callbacks,
            logger=_loggers(logs, title),
            enable_checkpointing=checkpoints is not None,
            enable_progress_bar=False,
            enable_model_summary=False,
            num_sanity_val_steps=0,
            log_every_n_steps=50,
            deterministic=True,
            use_distributed_sampler=False,
            default_root_dir=checkpoints,
        )
        trainer.fit(module, ckpt_path=_latest(checkpoints), weights_only=False)
    if best.weights is not None:
        network.load_state_dict(best.weights)
    network.cpu().eval()
    if checkpoints is not None:
        shutil.rmtree(checkpoints, ignore_errors=True)
    return network


def _latest(folder: Path | None) -> str | None:
    """The newest whole checkpoint of a folder that only this program writes to."""
    if folder is None or not folder.is_dir():
        return None
    found = sorted(folder.glob("*.ckpt"), key=lambda file: file.stat().st_mtime)
    return str(found[-1]) if found else None


def _loggers(folder: str | None, title: str) -> list[Logger] | bool:
    if folder is None:
        return False
    return [CSVLogger(folder, name=f"{title}-csv"), TensorBoardLogger(folder, name=f"{title}-tensorboard")]


class AveragedWeights(WeightAveraging):
    """Stochastic weight averaging: the equal average of the weights after every step from a given one on."""

    def __init__(self, start: int) -> None:
        super().__init__()
        self.start = start

    def should_update(self, step_idx: int | None = None, epoch_idx: int | None = None) -> bool:
        return step_idx is not None and step_idx >= self.start

    @property
    def begun(self) -> bool:
        return self._average_model is not None and int(self._average_model.n_averaged) > 0

    # until there is an average, the weights themselves are validated and kept
    def on_validation_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        if self.begun:
            super().on_validation_epoch_start(trainer, pl_module)

    def on_validation_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        if self.begun:
            super().on_validation_epoch_end(trainer, pl_module)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        if self.begun:
            super().on_train_end(trainer, pl_module)


class KeepBest(Callback):
    """Holds the weights of the best validation; they travel in checkpoints, too."""

    def __init__(self, metric: str) -> None:
        self.metric = metric
        self.best = -1.0
        self.weights: dict[str, Any] | None = None

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        value = trainer.callback_metrics.get(self.metric)
        if value is not None and float(value) > self.best:
            self.best = float(value)
            self.weights = {name: w.detach().cpu().clone() for name, w in pl_module.network.state_dict().items()}

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best, "weights": self.weights}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.best, self.weights = state_dict["best"], state_dict["weights"]


class _Bar(Callback):
    """Steps on the run's own progress bar."""

    def __init__(self, run: Run, title: str, steps: int) -> None:
        self._context = run.bar(title, steps)

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self._bar = self._context.__enter__()
        self._bar.advance(trainer.global_step)

    def on_train_batch_end(self, trainer: Any, *others: Any) -> None:
        self._bar.advance(1)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self._context.__exit__(None, None, None)

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._context.__exit__(None, None, None)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Lightning talks about devices and data loaders; a person who tags texts need not read it."""
    loggers = [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric", "lightning")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


@contextlib.contextmanager
def torch_threads(threads: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
