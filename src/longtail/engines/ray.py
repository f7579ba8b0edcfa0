"""A Ray cluster: several processes on this machine, or several machines.

What tasks share is put into the object store once, by this process: it lies on the machine that drives the run, and
outlives any other. Each other machine fetches one copy, which all its processes map. A task whose process or machine
dies runs again elsewhere, and so does one whose result was lost with its machine.
"""

from __future__ import annotations

import os
import pickle
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from longtail.errors import LongtailError, UsageError, first_line

if TYPE_CHECKING:
    from longtail.run import Bar, Run

Task = TypeVar("Task")
Result = TypeVar("Result")
Shared = TypeVar("Shared")

#: Batches of tasks per processor of the cluster: enough that all end at about the same time, and that little is done
#: again when a machine dies.
BATCHES = 8
#: Batches per processor that are started ahead, so that none waits for this process.
AHEAD = 2
#: How often a batch whose process or machine died is run again.
RETRIES = 8

_Bytes = NDArray[np.uint8]


@dataclass
class RayEngine:
    """Tasks on the processors of a Ray cluster.

    address  "host:port" of a cluster that this machine is part of, "auto" for the one that runs here, or None for one
             of our own on this machine, which ends with `close`
    """

    address: str | None = None
    _put: tuple[Any, Any] | None = field(default=None, repr=False)  # what was shared last, and where it lies
    _lock: Any = field(default_factory=threading.Lock, repr=False)
    _started: bool = False

    @classmethod
    def connected(cls, address: str | None = None, *, workers: int = 0) -> RayEngine:
        """An engine that is ready to work.

        workers  processes of a cluster of our own, 0 for one per core
        """
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is reported to anybody
        try:
            import ray
        except ImportError:
            raise UsageError("--engine ray needs Ray: pip install 'longtail[ray]'") from None
        engine = cls(address)
        if ray.is_initialized():
            return engine
        if address is not None and address != "auto":
            _check_address(address)
        own: dict[str, Any] = {"num_cpus": workers or None, "include_dashboard": False} if address is None else {}
        try:
            ray.init(address or "local", log_to_driver=False, logging_level="ERROR", **own)
        except (ConnectionError, ValueError, RuntimeError) as error:
            where = "on this machine" if address is None else f"at {address}"
            raise UsageError(f"no Ray cluster {where}: {first_line(error)}") from None
        engine._started = True
        return engine

    @property
    def remote(self) -> bool:
        return True

    def at_once(self, workers: int) -> int:
        import ray

        return max(1, int(ray.cluster_resources().get("CPU", 1)))

    def map_shared(
        self,
        function: Callable[[Shared, Task], Result],
        shared: Shared,
        tasks: Sequence[Task],
        *,
        run: Run,
        title: str | None = None,
        cost: Callable[[Task], float] | None = None,
    ) -> list[Result]:
        import ray

        if not tasks:
            return []
        costs = [1.0 if cost is None else float(cost(task)) for task in tasks]
        batches = batched(costs, BATCHES * self.at_once(run.workers))
        work = ray.remote(num_cpus=1, max_retries=RETRIES)(_work)
        shared_at, function_at = self._shared(shared), ray.put(function)

        def start(batch: list[int]) -> Any:
            return work.remote(function_at, shared_at, [tasks[task] for task in batch])

        context = run.bar(title, sum(costs)) if title is not None else nullcontext()
        with context as bar:
            return _collected(batches, start, AHEAD * self.at_once(run.workers), costs, bar)

    def _shared(self, shared: Any) -> Any:
        """Where the shared data lies; what is the same from one call to the next is put there once."""
        import ray

        with self._lock:
            if self._put is None or not _same(self._put[0], shared):
                buffers: list[pickle.PickleBuffer] = []
                header = pickle.dumps(shared, protocol=5, buffer_callback=buffers.append)
                self._put = None  # the room of the last is free before the next is put
                at = ray.put((header, [np.asarray(buffer.raw()) for buffer in buffers]))
                self._put = (shared, at)
            return self._put[1]

    def close(self) -> None:
        import ray

        self._put = None
        if self._started:
            ray.shutdown()
            self._started = False


def _same(one: Any, other: Any) -> bool:
    """Whether these are one object, equal numbers and words, or tuples of such."""
    if one is other:
        return True
    if isinstance(one, tuple) and type(one) is type(other) and len(one) == len(other):
        return all(map(_same, one, other))
    return isinstance(one, int | float | str) and type(one) is type(other) and one == other


def _check_address(address: str) -> None:
    """Refuses an address where nobody answers, for which Ray itself would wait for many minutes."""
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdigit() or int(port) > 65_535:
        raise UsageError(f"--address takes HOST:PORT or auto, not '{address}'")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
    except OSError as error:
        raise UsageError(f"no Ray cluster at {address}: {error.strerror or error}") from None


def batched(costs: Sequence[float], count: int) -> list[list[int]]:
    """Task numbers in about `count` batches of similar cost, costliest first; a costly task is a batch of its own."""
    enough = sum(costs) / count
    batches: list[list[int]] = []
    filled = np.inf
    for task in sorted(range(len(costs)), key=lambda t: (-costs[t], t)):
        if filled + costs[task] > enough * (1 + 1e-9):
            batches.append([])
            filled = 0.0
        batches[-1].append(task)
        filled += costs[task]
    return batches


def _collected(
    batches: list[list[int]], start: Callable[[list[int]], Any], ahead: int, costs: Sequence[float], bar: Bar | None
) -> list[Any]:
    """Results in task order, taken out of the object store as they come.

    After a failure nothing more is started. What is under way ends by itself: Ray 2.60 aborts the whole process when a
    task is cancelled at the moment it ends.
    """
    import ray

    results: list[Any] = [None] * len(costs)
    waiting = iter(batches)
    under_way = {start(batch): batch for batch in islice(waiting, ahead)}
    try:
        while under_way:
            ready, _ = ray.wait(list(under_way), num_returns=1)
            for at in ready:
                found = pickle.loads(ray.get(at))
                done = under_way.pop(at)
                under_way |= {start(batch): batch for batch in islice(waiting, 1)}
                for task, result in zip(done, found, strict=True):
                    results[task] = result
                if bar is not None:
                    bar.advance(sum(costs[task] for task in done))
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None  # what the function raised
    except _lost() as error:
        raise LongtailError(f"the Ray cluster lost a task {RETRIES + 1} times: {first_line(error)}") from error
    except ray.exceptions.RayError as error:  # such as a machine where longtail is not installed
        raise LongtailError(f"a task could not run on the Ray cluster: {first_line(error)}") from error
    return results


def _lost() -> tuple[type[Exception], ...]:
    """What Ray raises when it gives up on a task that was lost again and again."""
    from ray import exceptions

    return (
        exceptions.WorkerCrashedError,
        exceptions.NodeDiedError,
        exceptions.ObjectLostError,
        exceptions.OutOfMemoryError,
    )


# on the workers
def _work(function: Callable[[Any, Any], Any], shared: tuple[bytes, list[_Bytes]], tasks: list[Any]) -> bytes:
    """The results of a batch, pickled: so they leave the object store when they are read."""
    header, buffers = shared
    data = pickle.loads(header, buffers=[_writable(buffer) for buffer in buffers])
    return pickle.dumps([function(data, task) for task in tasks], protocol=5)


class _Held:
    """Memory of an array under another flag; the array lives as long as this does."""

    def __init__(self, array: _Bytes) -> None:
        self.array = array
        interface = dict(array.__array_interface__)
        interface["data"] = (interface["data"][0], False)
        self.__array_interface__ = interface


def _writable(array: _Bytes) -> _Bytes:
    """The same memory without the mark 'read-only'.

    numba compiles another kernel for arrays with that mark, which costs half a minute and need not round alike. No
    function that is mapped over shared data writes to it.
    """
    return np.asarray(_Held(array))
