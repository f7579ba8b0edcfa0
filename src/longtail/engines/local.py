"""Threads of this process. Kernels release the interpreter lock, so threads are enough."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, TypeVar

if TYPE_CHECKING:
    from longtail.run import Run

Task = TypeVar("Task")
Result = TypeVar("Result")
Shared = TypeVar("Shared")


def thread_map(
    function: Callable[[Task], Result],
    tasks: Sequence[Task],
    *,
    workers: int,
    cost: Callable[[Task], float] | None = None,
    run: Run | None = None,
    title: str | None = None,
) -> list[Result]:
    """Results in task order, whatever order the tasks ran in.

    The costliest tasks start first, so that no long task is left to run alone at the end. The first failure stops
    what has not started yet and is raised.
    """
    costs = [1.0 if cost is None else float(cost(task)) for task in tasks]
    order = sorted(range(len(tasks)), key=lambda t: (-costs[t], t))
    results: list[Result | None] = [None] * len(tasks)
    failures: list[BaseException] = []
    bar_context = run.bar(title, sum(costs)) if run is not None and title is not None else nullcontext()

    with bar_context as bar:

        def one(t: int) -> None:
            if failures:
                return
            try:
                results[t] = function(tasks[t])
            except BaseException as error:
                failures.append(error)
                return
            if bar is not None:
                bar.advance(costs[t])

        if workers <= 1 or len(tasks) <= 1:
            for t in order:
                one(t)
        else:
            with ThreadPoolExecutor(max_workers=min(workers, len(tasks))) as pool:
                futures = [pool.submit(one, t) for t in order]
                try:
                    wait(futures)
                except BaseException:  # an interrupt reaches this thread only
                    pool.shutdown(wait=True, cancel_futures=True)
                    raise
        if failures:
            raise failures[0]
    return results  # type: ignore[return-value]


class Crew:
    """Threads that stay, for tasks so short that to start threads for them would take as long."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._others = ThreadPoolExecutor(workers - 1) if workers > 1 else None

    def do(self, tasks: Sequence[Callable[[], object]]) -> None:
        """All of the tasks, some of them in this thread; a failure is raised when all that had begun have ended."""
        left = iter(tasks)

        def work() -> None:
            for task in left:
                task()

        count = min(self.workers, len(tasks)) - 1
        others = [] if self._others is None else [self._others.submit(work) for _ in range(count)]
        try:
            work()
        finally:
            wait(others)
        for other in others:
            other.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._others is not None:
            self._others.shutdown()


@dataclass(frozen=True)
class LocalEngine:
    """The threads of the run."""

    @property
    def remote(self) -> bool:
        return False

    def at_once(self, workers: int) -> int:
        return workers

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
        return thread_map(
            lambda task: function(shared, task), tasks, workers=run.tasks, cost=cost, run=run, title=title
        )

    def close(self) -> None:
        return None
