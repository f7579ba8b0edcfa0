"""Where and how work runs: one seed, a number of threads, progress, and the time each stage took."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np

from longtail.engines.base import Engine
from longtail.engines.local import Crew, LocalEngine, thread_map

Task = TypeVar("Task")
Result = TypeVar("Result")
Shared = TypeVar("Shared")


class Bar(Protocol):
    """A progress bar under way."""

    def advance(self, amount: float = 1) -> None: ...


class Progress(Protocol):
    """Whatever shows bars; the command line gives one that draws them with rich."""

    def bar(self, title: str, total: float | None) -> _BarContext: ...


class _BarContext(Protocol):
    def __enter__(self) -> Bar: ...
    def __exit__(self, *exception: object) -> None: ...


class _Silent:
    """Shows nothing: the default in Python code, tests and pipes."""

    def bar(self, title: str, total: float | None) -> _Silent:
        return self

    def __enter__(self) -> _Silent:
        return self

    def __exit__(self, *exception: object) -> None:
        return None

    def advance(self, amount: float = 1) -> None:
        return None


SILENT: Progress = _Silent()


class Watch:
    """Who is told what a run does beside its bars; this one does not listen."""

    def stage(self, owner: str, name: str) -> AbstractContextManager[None]:
        """Around a stage; owner  the nested fits around it, outermost first, as in "2 decaf: second stage"."""
        return nullcontext()

    def earlier(self) -> AbstractContextManager[None]:
        """Around what a run that was killed has done already: what bars advance by within took no time."""
        return nullcontext()


@dataclass(frozen=True)
class _Titled:
    """Progress of a nested fit: its titles say whose they are."""

    outer: Progress
    name: str

    def bar(self, title: str, total: float | None) -> _BarContext:
        return self.outer.bar(f"{self.name}: {title}", total)


@dataclass(frozen=True)
class _Within:
    """Progress of a piece of work whose bar is open already: its own bars move that one on."""

    outer: Bar

    def bar(self, title: str, total: float | None) -> _Within:
        return self

    def __enter__(self) -> Bar:
        return self.outer

    def __exit__(self, *exception: object) -> None:
        return None


@dataclass(frozen=True)
class Hardware:
    """What networks are trained on; no part of a model.

    devices    processors of the kind found (GPUs, or processes on a CPU); more than 1 share batches
    nodes      machines that train together
    precision  number format of the arithmetic: 32-true, bf16-mixed or 16-mixed
    logs       folder for CSV and TensorBoard logs of the training, or None
    """

    devices: int = 1
    nodes: int = 1
    precision: str = "32-true"
    logs: str | None = None


@dataclass
class Run:
    """One training or prediction run.

    seed         every random stream follows from it: `run.rng(name)` gives one stream per name
    threads      0 for all cores
    seconds      what each stage took
    checkpoints  where fits that take long keep what they have, so that the same run can go on after it was killed
    hardware     what networks are trained on
    memory       bytes that the process may hold, or None for no limit; never changes a result
    engine       where `map_shared` runs: the threads of this process, or a Ray cluster; never changes a result
    at_once      tasks that go on at the same time where memory allows no more, 0 for one per thread
    watch        who is told of stages, and of work that need not be done again
    owner        the nested fits around, outermost first
    """

    seed: int = 0
    threads: int = 0
    progress: Progress = SILENT
    seconds: dict[str, float] = field(default_factory=dict)
    checkpoints: Path | None = None
    hardware: Hardware = Hardware()
    memory: int | None = None
    engine: Engine = LocalEngine()
    at_once: int = 0
    watch: Watch = field(default_factory=Watch)
    owner: str = ""

    def child(self, name: str, title: str | None = None) -> Run:
        """The run of something nested: seed, titles and checkpoint folder of its own; its stages count here, too.

        title  what a person calls it, and its plan; the name by default
        """
        shown = name.replace("/", " ") if title is None else title
        return replace(
            self,
            seed=self.seed_of(name),
            progress=self.progress if self.progress is SILENT else _Titled(self.progress, shown),
            checkpoints=None if self.checkpoints is None else self.checkpoints / name.replace("/", "-"),
            owner=f"{self.owner}: {shown}" if self.owner else shown,
        )

    def apart(self) -> Run:
        """The same run with a clock of its own: for work within a stage that is timed already, or beside another."""
        return replace(self, seconds={})

    def on_one_thread(self) -> Run:
        """The same run for work that is one of many tasks already."""
        return replace(self, threads=1, progress=SILENT)

    def shared_by(self, tasks: int) -> tuple[Run, Run]:
        """The runs inside so many tasks and around them: many go on side by side, few use the threads one by one."""
        alone = self.on_one_thread()
        return (alone, self) if tasks >= self.workers else (self, alone)

    def within(self, bar: Bar) -> Run:
        """The same run for a piece of the work that a bar shows: bars of the piece move that one on."""
        return replace(self, progress=_Within(bar))

    def silent(self) -> Run:
        """The same run without progress bars."""
        return replace(self, progress=SILENT)

    @property
    def workers(self) -> int:
        return self.threads or available_cores()

    @property
    def tasks(self) -> int:
        """Tasks that go on at the same time."""
        return min(self.workers, self.at_once or self.workers)

    def seed_of(self, name: str) -> int:
        """A 63-bit seed for the stream of that name, independent of the order in which streams are asked for."""
        digest = hashlib.sha256(f"{self.seed}/{name}".encode()).digest()
        return int.from_bytes(digest[:8], "little") >> 1

    def rng(self, name: str) -> np.random.Generator:
        return np.random.default_rng(self.seed_of(name))

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Adds the time spent inside to `seconds[name]`, but for stages within it, which count for themselves."""
        start, counted = time.perf_counter(), sum(self.seconds.values())
        try:
            with self.watch.stage(self.owner, name):
                yield
        finally:
            own = time.perf_counter() - start - (sum(self.seconds.values()) - counted)
            self.seconds[name] = self.seconds.get(name, 0.0) + max(0.0, own)

    def bar(self, title: str, total: float | None) -> _BarContext:
        return self.progress.bar(title, total)

    def earlier(self) -> AbstractContextManager[None]:
        """Around what a run that was killed has done already."""
        return self.watch.earlier()

    def map(
        self,
        function: Callable[[Task], Result],
        tasks: Sequence[Task],
        *,
        title: str | None = None,
        cost: Callable[[Task], float] | None = None,
    ) -> list[Result]:
        """function over tasks on the run's threads, results in task order; the costliest tasks start first."""
        return thread_map(function, tasks, workers=self.tasks, cost=cost, run=self, title=title)

    def crew(self) -> Crew:
        """The run's threads for many short tasks, one after the other: `with run.crew() as crew: crew.do(tasks)`."""
        return Crew(self.tasks)

    def map_shared(
        self,
        function: Callable[[Shared, Task], Result],
        shared: Shared,
        tasks: Sequence[Task],
        *,
        title: str | None = None,
        cost: Callable[[Task], float] | None = None,
    ) -> list[Result]:
        """function(shared, task) over tasks, results in task order.

        function is one of a module, shared and tasks are plain data: what runs elsewhere than in this process gets
        `shared` once, not with every task.
        """
        return self.engine.map_shared(function, shared, tasks, run=self, title=title, cost=cost)


def available_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
