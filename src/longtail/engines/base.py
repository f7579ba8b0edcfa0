"""What an engine is: where tasks over shared data run. None of them changes a result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from longtail.run import Run

Task = TypeVar("Task")
Result = TypeVar("Result")
Shared = TypeVar("Shared")


class Engine(Protocol):
    """One method does the work; `Run.map_shared` hands everything to it."""

    @property
    def remote(self) -> bool:
        """Whether tasks may run in other processes, which see files and what they are sent, but no objects of ours."""

    def at_once(self, workers: int) -> int:
        """How many tasks run at the same time, for a run with so many threads."""

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
        """function(shared, task) over tasks, results in task order; the first failure is raised."""

    def close(self) -> None:
        """Lets go of what the engine holds: processes that it started, connections."""
