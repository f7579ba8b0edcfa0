"""What a person sees while and after a verb runs: consoles, progress bars on stderr, JSON on stdout."""

from __future__ import annotations

import json
import sys
import threading
from typing import TYPE_CHECKING, Any

from longtail.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

    from longtail.run import Run

PIPE_WIDTH = 160


def start_run(*, seed: int = 0, threads: int = 0, quiet: bool = False) -> Run:
    """A run that draws bars on stderr, if that is a terminal and nobody asked for quiet."""
    from longtail.run import SILENT, Run

    show = not quiet and sys.stderr.isatty()
    return Run(seed=seed, threads=threads, progress=Bars() if show else SILENT)


def allowed_memory(given: str | None, run: Run) -> int | None:
    """Bytes that the run may hold: as given, else 80 % of what is free."""
    from longtail.memory import default_memory
    from longtail.plan import parse_size

    return parse_size(given) if given is not None else default_memory(run.workers)


def stdout_console() -> Console:
    from rich.console import Console

    # a pipe has no width, and a program that reads a table wants whole cells
    return Console(highlight=False, width=None if sys.stdout.isatty() else PIPE_WIDTH)


def print_json(value: Any) -> None:
    """One object on one line of stdout."""
    print(json.dumps(value, ensure_ascii=False), flush=True)


def note(message: str) -> None:
    """A remark beside the output, for a person: on stderr, so that pipes stay clean."""
    print(f"longtail: {message}", file=sys.stderr)


class Bars:
    """Progress bars with a rate and an end; those under way at the same time share the screen."""

    def __init__(self) -> None:
        self._progress: Progress | None = None
        self._open = 0
        self._lock = threading.Lock()

    def bar(self, title: str, total: float | None) -> _Bar:
        return _Bar(self, title, total)

    def start(self, title: str, total: float | None) -> tuple[Progress, TaskID]:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
        from rich.progress import TimeRemainingColumn as Remaining

        with self._lock:
            if self._progress is None:
                self._progress = Progress(
                    TextColumn("{task.description}"),
                    BarColumn(),
                    TaskProgressColumn(show_speed=True),
                    TimeElapsedColumn(),
                    TextColumn("left"),
                    Remaining(),
                    console=Console(stderr=True),
                )
                self._progress.start()
            self._open += 1
            return self._progress, self._progress.add_task(title[:1].upper() + title[1:], total=total)

    def stop(self) -> None:
        with self._lock:
            self._open -= 1
            if self._open == 0 and self._progress is not None:
                self._progress.stop()
                self._progress = None


class _Bar:
    def __init__(self, bars: Bars, title: str, total: float | None) -> None:
        self._bars, self._title, self._total = bars, title, total

    def __enter__(self) -> _Bar:
        self._progress, self._task = self._bars.start(self._title, self._total)
        return self

    def __exit__(self, *exception: object) -> None:
        self._bars.stop()

    def advance(self, amount: float = 1) -> None:
        self._progress.advance(self._task, amount)


def peak_memory_megabytes() -> float | None:
    """The most memory this process has held so far, or None where the system does not say."""
    from longtail.memory import peak

    return peak() / 1e6 or None


def numbers(text: str, option: str) -> list[int]:
    """A list such as 1,3,5 given to an option."""
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"{option} takes whole numbers with commas between, as in 1,3,5, not '{text}'") from None
    if min(found) < 1:
        raise UsageError(f"{option} takes numbers of at least 1, not {min(found)}")
    return found
