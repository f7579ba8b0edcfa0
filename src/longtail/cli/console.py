"""What a person sees after a verb ran, and where: consoles, remarks on stderr, JSON on stdout."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from longtail.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from longtail.plan import Plan
    from longtail.run import Run

PIPE_WIDTH = 160
#: Width of lists that people read, where there is no terminal to tell.
LIST_WIDTH = 80


def start_run(*, seed: int = 0, threads: int = 0, quiet: bool = False) -> Run:
    """A run that shows its progress on stderr unless nobody wants to see it: bars on a terminal, lines elsewhere."""
    from longtail.run import Run

    if quiet:
        return Run(seed=seed, threads=threads)
    from longtail.cli.progress import Bars, Lines

    display = Bars() if sys.stderr.isatty() else Lines()
    return Run(seed=seed, threads=threads, progress=display, watch=display)


def follow(run: Run, plan: Plan) -> None:
    """From now on progress says how long the whole command will take."""
    from longtail.cli.progress import Display

    if isinstance(run.watch, Display):
        run.watch.follow(plan, run.seconds.get("read", 0.0))


def allowed_memory(given: str | None, run: Run) -> int | None:
    """Bytes that the run may hold: as given, else 80 % of what is free."""
    from longtail.memory import default_memory
    from longtail.plan import parse_size

    return parse_size(given) if given is not None else default_memory(run.workers)


def stdout_console(pipe_width: int = PIPE_WIDTH) -> Console:
    from rich.console import Console

    # a pipe has no width, and a program that reads a table wants whole cells
    return Console(highlight=False, width=None if sys.stdout.isatty() else pipe_width)


def listing(*rows: tuple[str, str]) -> Table:
    """Names and what they are, in two columns of which the second goes on on the next line."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, meaning in rows:
        table.add_row(f"  {name}", escape(meaning))
    return table


def print_json(value: Any) -> None:
    """One object on one line of stdout; characters are escaped where its encoding may lack some."""
    lacking = (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"
    print(json.dumps(value, ensure_ascii=lacking), flush=True)


def note(message: str) -> None:
    """A remark beside the output, for a person: on stderr, so that pipes stay clean."""
    print(f"longtail: {message}", file=sys.stderr)


def peak_memory_megabytes() -> float | None:
    """The most memory this process has held so far, or None where the system does not say."""
    from longtail.memory import peak

    return peak() / 1e6 or None


def numbers(text: str, option: str) -> list[int]:
    """A list such as 1,3,5 given to an option."""
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"{option} takes whole numbers separated by commas, for example 1,3,5, not '{text}'") from None
    if min(found) < 1:
        raise UsageError(f"{option} takes numbers of at least 1, not {min(found)}")
    return found
