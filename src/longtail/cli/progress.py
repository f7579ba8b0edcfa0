"""What a person sees while a verb runs: bars on a terminal, elsewhere a line every half minute."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

from longtail.cli.ahead import Ahead, Done
from longtail.run import Watch

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from longtail.plan import Plan

#: Seconds between two lines where there is no terminal.
LINE_SECONDS = 30.0


def duration(seconds: float) -> str:
    """A rough time for a person."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class Display(Watch):
    """Keeps count of bars and stages; what is shown, and when, is said by those derived from it."""

    #: Whether it is said that kernels are compiled: to somebody who is watching.
    watched: ClassVar[bool] = False

    def __init__(self) -> None:
        self.ahead: Ahead | None = None
        self.stages: list[str] = []
        self.bars: list[_Bar] = []
        self._lock = threading.RLock()
        self._thread = threading.local()
        self._resumed = False
        self._before = 0.0  # the share of the last bar that an earlier run did
        self._hears = False

    def follow(self, plan: Plan, read_seconds: float) -> None:
        """From now on there is a plan to say how long all will take."""
        with self._lock:
            self.ahead = Ahead.of(plan, read_seconds)

    # what a run tells
    def bar(self, title: str, total: float | None) -> _Bar:
        return _Bar(self, Done(title[:1].upper() + title[1:], total, 0.0))

    @contextmanager
    def stage(self, owner: str, name: str) -> Iterator[None]:
        with self._lock:
            self._hear()
            self._say_resumed()
            if self.ahead is not None:
                self.ahead.begin(owner, name, time.monotonic())
            self._before = 0.0
            self.stages.append(f"{owner}: {name}" if owner else name)
            self.changed()
        done = False
        try:
            yield
            done = True
        finally:
            with self._lock:
                self.stages.remove(f"{owner}: {name}" if owner else name)
                if self.ahead is not None and done:
                    self.ahead.end(owner, name, time.monotonic(), self._before)
                self.changed()

    @contextmanager
    def earlier(self) -> Iterator[None]:
        self._thread.earlier = True
        try:
            yield
            self._resumed = True
        finally:
            self._thread.earlier = False

    # bars
    def opened(self, bar: _Bar) -> None:
        with self._lock:
            self._hear()
            bar.state.started = time.monotonic()
            self.bars.append(bar)
            self.changed()

    def advanced(self, bar: _Bar, amount: float) -> None:
        with self._lock:
            if getattr(self._thread, "earlier", False):
                bar.state.before += amount
                bar.state.started = time.monotonic()
            elif amount:
                self._say_resumed()
            bar.state.done += amount
            self._before = bar.state.before / bar.state.total if bar.state.total else 0.0
            self.moved(bar)

    def closed(self, bar: _Bar) -> None:
        with self._lock:
            self.bars.remove(bar)
            self.changed()

    # how far all is
    def share_and_left(self) -> tuple[float, float] | None:
        """The share of the whole command that is done, and the seconds that are left; None without a plan."""
        if self.ahead is None:
            return None
        now, bars = time.monotonic(), [bar.state for bar in self.bars]
        return self.ahead.share(now, bars), self.ahead.left(now, bars)

    def _say_resumed(self) -> None:
        if self._resumed:
            self._resumed = False
            far = self.share_and_left()
            self.say("resumed" if far is None else f"resumed at {far[0]:.0%}".replace("%", " %"))

    def _hear(self) -> None:
        """From when on there is something to compile, which is not imported for this alone."""
        if self.watched and not self._hears and "numba" in sys.modules:
            from longtail.cli.compiling import tell_of_compiling

            self._hears = True
            tell_of_compiling(self.say)

    # for those derived
    def changed(self) -> None:
        """Bars or stages began or ended."""

    def moved(self, bar: _Bar) -> None:
        """A bar moved on."""

    def say(self, message: str) -> None:
        """A remark for a person."""
        print(f"longtail: {message}", file=sys.stderr, flush=True)


class _Bar:
    def __init__(self, display: Display, state: Done) -> None:
        self.display, self.state = display, state
        self.drawn: TaskID | None = None

    def __enter__(self) -> _Bar:
        self.display.opened(self)
        return self

    def __exit__(self, *exception: object) -> None:
        self.display.closed(self)

    def advance(self, amount: float = 1) -> None:
        self.display.advanced(self, amount)


class Lines(Display):
    """One line on stderr about every half minute while something is under way."""

    def __init__(self) -> None:
        super().__init__()
        self._begun = self._last = time.monotonic()
        self._idle: threading.Event | None = None

    def changed(self) -> None:
        busy = bool(self.bars or self.stages)
        if busy and self._idle is None:
            self._idle = threading.Event()
            threading.Thread(target=self._tick, args=(self._idle,), daemon=True).start()
        elif not busy and self._idle is not None:
            self._idle.set()
            self._idle = None

    def _tick(self, idle: threading.Event) -> None:
        while not idle.wait(max(0.01, self._last + LINE_SECONDS - time.monotonic())):
            with self._lock:
                if idle.is_set():
                    return
                self._last = time.monotonic()
                line = self.line()
            self.say(line)

    def line(self) -> str:
        """Stage, how much of it is done, at which rate, and the time left."""
        now, far = time.monotonic(), self.share_and_left()
        bar = next((bar.state for bar in reversed(self.bars) if bar.state.total), None)
        if bar is None:
            doing = self.stages[-1] if self.stages else self.bars[-1].state.title
            parts = [f"{doing[:1].upper()}{doing[1:]}, {duration(now - self._begun)} so far"]
        else:
            parts = [f"{bar.title} {_amounts(bar, now)}"]
            left = bar.left(now)
            if left:
                parts[0] += f", {duration(left)} left"
        if far is not None:
            parts.append(f"whole command {100 * far[0]:.0f} %, about {duration(far[1])} left")
        return "; ".join(parts)


def _amounts(bar: Done, now: float) -> str:
    """What is done of what there is to do, and the rate; only whole numbers count something a person knows."""
    assert bar.total
    rate, share = bar.rate(now), f"{100 * bar.done / bar.total:.0f} %"
    if not bar.before < bar.done < bar.total:
        return f"{share}, {duration(now - bar.started)} so far"
    if not isinstance(bar.total, int):
        speed = 100 * rate / bar.total
        return f"{share}, {speed:.1f} % per second" if speed >= 1 else f"{share}, {60 * speed:.1f} % per minute"
    return f"{share}, {_count(bar.done)} of {_count(bar.total)}, {_count(rate)} per second"


def _count(number: float) -> str:
    """A number that fits on a line: 1,234, 567k, 8.9M."""
    if number >= 1e6:
        return f"{number / 1e6:,.1f}M"
    if number >= 1e5:
        return f"{number / 1e3:,.0f}k"
    return f"{number:.1f}" if number < 10 and number % 1 else f"{number:,.0f}"


class Bars(Display):
    """Progress bars with a rate and an end; those under way at the same time share the screen, with one for all."""

    watched = True

    def __init__(self) -> None:
        super().__init__()
        self._screen: Progress | None = None
        self._all: TaskID | None = None

    def changed(self) -> None:
        if self.bars and self._screen is None:
            self._screen = _screen(self)
            self._screen.start()
        if self._screen is None:
            return
        for bar in self.bars:
            if bar.drawn is None:
                bar.drawn = self._screen.add_task(bar.state.title, total=bar.state.total)
        self._show_all()
        if not self.bars:
            if self._all is not None:
                self._screen.remove_task(self._all)
            self._screen.stop()
            self._screen = self._all = None

    def moved(self, bar: _Bar) -> None:
        if self._screen is not None and bar.drawn is not None:
            self._screen.update(bar.drawn, completed=bar.state.done)
            self._show_all()

    def _show_all(self) -> None:
        """The bar of the whole command, below all others."""
        far = self.share_and_left()
        if far is None or self._screen is None:
            return
        if self._all is not None and bool(self.bars) and self._screen.task_ids[-1] != self._all:
            self._screen.remove_task(self._all)
            self._all = None
        if self._all is None:
            self._all = self._screen.add_task("Whole command", total=1.0, whole=True)
        self._screen.update(self._all, completed=far[0])

    def say(self, message: str) -> None:
        if self._screen is None:
            super().say(message)
        else:
            self._screen.console.print(f"longtail: {message}", highlight=False, markup=False)


def _screen(display: Display) -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskProgressColumn, TextColumn
    from rich.text import Text

    class Left(ProgressColumn):
        """Time left: of a bar at its own rate, of the whole command by its plan."""

        max_refresh = 0.5

        def render(self, task: Task) -> Text:
            if task.fields.get("whole"):
                far = display.share_and_left()
                left = None if far is None else far[1]
            else:
                bar = next((bar.state for bar in display.bars if bar.drawn == task.id), None)
                left = 0.0 if task.finished else None if bar is None else bar.left(time.monotonic())
            return Text(
                "" if left is None else f"{duration(left)} left" if left else "done", style="progress.remaining"
            )

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(show_speed=True),
        Left(),
        console=Console(stderr=True),
    )
