"""One fit with Lightning: progress, checkpoints and resuming, early stopping, averaged weights, logs."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import shutil
import signal
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning import pytorch as lightning
from lightning.pytorch.callbacks import Callback, Checkpoint, EarlyStopping, WeightAveraging
from lightning.pytorch.loggers import CSVLogger, Logger, TensorBoardLogger
from lightning.pytorch.plugins import TorchCheckpointIO
from lightning.pytorch.strategies import DDPStrategy, Strategy

from longtail.augment.hooks import Hook, TrainingPlan
from longtail.errors import UsageError
from longtail.features.pretrained import torch_threads
from longtail.keep.files import atomic_file
from longtail.learners.neural.training import checkpoints
from longtail.learners.neural.training.data import Course, TrainingData
from longtail.learners.neural.training.module import Module
from longtail.learners.neural.training.network import Network
from longtail.run import Hardware, Run

#: Variables that Lightning sets.
ENVIRONMENT = ("CUBLAS_WORKSPACE_CONFIG", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "NODE_RANK", "WORLD_SIZE")


def train(
    network: Network, data: TrainingData, course: Course, hooks: Sequence[Hook], plan: TrainingPlan, run: Run
) -> Network:
    """The network trained, in place: with the weights of its best validation, averaged if asked for."""
    for hook in hooks:
        hook.begin(plan)
    network.train()
    module = Module(network, data, course.schedule, hooks, course.metric)
    if course.checkpoints is not None:
        course.checkpoints.mkdir(parents=True, exist_ok=True)
    with quiet(), torch_threads(run.workers), _as_before():
        trainer = _trainer(course, hooks, data.valid is not None, run)
        try:
            trainer.fit(module, ckpt_path=checkpoints.latest(course.checkpoints), weights_only=True)
        except SystemExit:
            # Lightning ends the whole program when it is interrupted; whoever called may want to do something else
            if trainer.interrupted:
                raise KeyboardInterrupt from None
            raise
    network.cpu().eval()
    if run.hardware.devices * run.hardware.nodes == 1:  # what other processes did, hooks here do not know
        for hook in hooks:
            hook.end()
    if course.checkpoints is not None:
        shutil.rmtree(course.checkpoints, ignore_errors=True)
    return network


def _trainer(course: Course, hooks: Sequence[Hook], checked: bool, run: Run) -> lightning.Trainer:
    hardware = run.hardware
    strategy = _strategy(hardware)
    average = None if course.average_from is None else AveragedWeights(course.average_from, course.average_every)
    steps, folder = course.schedule.steps, course.checkpoints
    # processes of their own have no bar, which only the caller can draw
    callbacks: list[Callback] = [_Bar(run, course.title, steps) if strategy == "auto" else _OneThread()]
    callbacks += [] if average is None else [average]
    callbacks += [KeepBest(course.metric, average), _Until(steps), HookStates(hooks)]
    if checked and course.patience:
        callbacks.append(EarlyStopping(course.metric, mode="max", patience=course.patience, check_finite=False))
    if folder is not None:
        callbacks.append(Checkpoints(folder, checkpoints.CHECKPOINT_SECONDS, steps))
    return lightning.Trainer(
        accelerator="auto",
        strategy=strategy,
        devices=hardware.devices,
        num_nodes=hardware.nodes,
        precision=hardware.precision,  # type: ignore[arg-type]
        # and no max_steps, with which Lightning loses an epoch when it goes on from the end of one
        max_epochs=course.epochs,
        callbacks=callbacks,
        logger=_loggers(hardware.logs, course.title),
        plugins=[AtomicFiles()],
        enable_checkpointing=folder is not None,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        log_every_n_steps=50,
        deterministic=True,
        use_distributed_sampler=False,
        default_root_dir=folder,
    )


def _strategy(hardware: Hardware) -> str | Strategy:
    """How several processes train together: forked ones share the data and give the weights back to their caller.

    Lightning's own choice would start the caller's whole program once more for each device.
    """
    if hardware.devices * hardware.nodes <= 1:
        return "auto"
    if "fork" not in multiprocessing.get_all_start_methods():
        raise UsageError(f"devices is {hardware.devices}, but this system cannot fork processes: set it to 1")
    # of the ways processes talk to each other, gloo is the one that takes sparse gradients
    return DDPStrategy(start_method="fork", process_group_backend="gloo")


def _loggers(folder: str | None, title: str) -> list[Logger] | bool:
    if folder is None:
        return False
    try:
        return [CSVLogger(folder, name=f"{title}-csv"), TensorBoardLogger(folder, name=f"{title}-tensorboard")]
    except ModuleNotFoundError:
        raise UsageError("logs are written with the package tensorboard: pip install tensorboard") from None


class AtomicFiles(TorchCheckpointIO):
    """Checkpoints that are there as a whole or not at all."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any | None = None) -> None:
        with atomic_file(path, overwrite=True) as handle:
            torch.save(checkpoint, handle)


class Checkpoints(Checkpoint):
    """Keeps what a fit has, every few seconds, at moments from which it goes on exactly.

    After the last batch of an epoch comes its validation, and what is kept is kept behind that. Nothing is kept when
    training is over: there would be nothing to go on with.
    """

    def __init__(self, folder: Path, seconds: float, steps: int) -> None:
        self.folder, self.seconds, self.steps = folder, seconds, steps

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self._last = time.monotonic()

    def on_train_batch_end(self, trainer: Any, *others: Any) -> None:
        if not trainer.fit_loop.epoch_loop.batch_progress.is_last_batch:
            self._keep(trainer)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        self._keep(trainer)

    def _keep(self, trainer: Any) -> None:
        # processes keep one checkpoint together, so that one clock decides
        due = trainer.strategy.broadcast(time.monotonic() - self._last >= self.seconds)
        if not due or trainer.should_stop or trainer.global_step >= self.steps:
            return
        new = self.folder / f"{trainer.global_step}.ckpt"
        trainer.save_checkpoint(new)
        if trainer.is_global_zero:
            checkpoints.only(new)
        self._last = time.monotonic()


class AveragedWeights(WeightAveraging):
    """Stochastic weight averaging: the equal average of the weights from a given step on, taken every few steps."""

    def __init__(self, start: int, every: int = 1) -> None:
        super().__init__()
        self.start, self.every = start, every

    def should_update(self, step_idx: int | None = None, epoch_idx: int | None = None) -> bool:
        return step_idx is not None and step_idx >= self.start and (step_idx - self.start) % self.every == 0

    @property
    def begun(self) -> bool:
        return self._average_model is not None and int(self._average_model.n_averaged) > 0

    @property
    def network(self) -> Network | None:
        """The averaged network, once there is one."""
        model: Any = self._average_model
        return model.module.network if self.begun else None

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
    """Holds the weights of the best validation, and gives them back in the end; they travel in checkpoints, too."""

    def __init__(self, metric: str, average: AveragedWeights | None = None) -> None:
        self.metric, self.average = metric, average
        self.best = -1.0
        self.weights: dict[str, Any] | None = None

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        value = trainer.callback_metrics.get(self.metric)
        if value is not None and float(value) > self.best:
            self.best = float(value)
            # the average that was validated has given way to the weights being trained by now
            validated = (self.average and self.average.network) or pl_module.network
            self.weights = {name: w.detach().cpu().clone() for name, w in validated.state_dict().items()}

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        if self.weights is not None:
            pl_module.network.load_state_dict(self.weights)

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best, "weights": self.weights}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.best, self.weights = state_dict["best"], state_dict["weights"]


class HookStates(Callback):
    """What hooks remember travels in checkpoints; arrays as tensors, for nothing else is read back from a file."""

    def __init__(self, hooks: Sequence[Hook]) -> None:
        self.hooks = list(hooks)

    def state_dict(self) -> dict[str, Any]:
        return {
            str(number): {
                name: torch.from_numpy(np.array(value)) if isinstance(value, np.ndarray) else value
                for name, value in hook.state().items()
            }
            for number, hook in enumerate(self.hooks)
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        for number, hook in enumerate(self.hooks):
            kept = state_dict[str(number)]
            hook.restore_state(
                {name: value.numpy() if isinstance(value, torch.Tensor) else value for name, value in kept.items()}
            )


class _Bar(Callback):
    """Steps on the run's own progress bar."""

    def __init__(self, run: Run, title: str, steps: int) -> None:
        self._run, self._context, self._open = run, run.bar(title, steps), contextlib.ExitStack()

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self._bar = self._open.enter_context(self._context)
        with self._run.earlier() if trainer.global_step else contextlib.nullcontext():
            self._bar.advance(trainer.global_step)

    def on_train_batch_end(self, trainer: Any, *others: Any) -> None:
        self._bar.advance(1)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self._open.close()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._open.close()


class _Until(Callback):
    """Ends training after a given number of steps, even in the middle of an epoch."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def on_train_batch_end(self, trainer: Any, *others: Any) -> None:
        if trainer.global_step >= self.steps:
            trainer.should_stop = True


class _OneThread(Callback):
    """A forked process has none of its parent's threads, and would wait for them forever."""

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        torch.set_num_threads(1)


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
def _as_before() -> Iterator[None]:
    """What Lightning changes for the whole process is put back: torch's algorithms, the environment, Ctrl-C."""
    algorithms = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    environment, interrupt = {name: os.environ.get(name) for name in ENVIRONMENT}, signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(algorithms, warn_only=warn_only)
        for name, value in environment.items():
            os.environ.pop(name, None)
            os.environ |= {} if value is None else {name: value}
        if threading.current_thread() is threading.main_thread() and interrupt is not None:
            signal.signal(signal.SIGINT, interrupt)
