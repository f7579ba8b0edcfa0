"""The command line. Nothing here imports numpy or anything heavier; each verb does so when it is asked for."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Annotated, Any

import typer

from longtail import __version__
from longtail.cli import analyse, augment
from longtail.cli.compare import compare
from longtail.cli.convert import convert
from longtail.cli.demo import demo
from longtail.cli.evaluate import evaluate
from longtail.cli.help_words import take_types_off
from longtail.cli.inspect import inspect
from longtail.cli.methods import methods
from longtail.cli.predict import predict
from longtail.cli.recipes import recipes
from longtail.cli.split import split
from longtail.cli.train import train
from longtail.errors import OUT_OF_MEMORY, OUT_OF_MEMORY_TRAINING, LongtailError, StoppedError, nearest, out_of_memory

app = typer.Typer(
    name="longtail",
    help="Tag texts with labels out of thousands, and get the rare ones right.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with: longtail demo",
)
for verb in (demo, split, train, predict, evaluate, compare, inspect, convert, methods, recipes):
    app.command(verb.__name__)(verb)
app.add_typer(analyse.app, name="analyse")
app.add_typer(augment.app, name="augment")

#: What the extra 'neural' brings: what trains without it by default may still need it for what is asked for besides.
NEURAL = ("torch", "lightning", "transformers")
#: The exit code of a command that was stopped by Ctrl-C or by the system.
INTERRUPTED = 130

#: Root of the argument parser's own errors: typer brings click along, or holds a copy of it, by version.
_ParserError: type[Exception] = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"longtail {__version__}")
        raise typer.Exit


@app.callback()
def _everything(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and stop.")
    ] = False,
) -> None:
    pass


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs a command and exits: 0 done, 2 with one line on stderr for what a user can put right, 130 interrupted."""
    signal.signal(signal.SIGTERM, _interrupt)
    if isinstance(sys.stdout, TextIOWrapper):  # a character that the reader's encoding lacks is shown as '?'
        sys.stdout.reconfigure(errors="replace")
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def _interrupt(*_: object) -> None:
    """To be ended by the system is to be interrupted: what was written halfway is put away."""
    raise KeyboardInterrupt


def run(arguments: Sequence[str]) -> int:
    no_memory = OUT_OF_MEMORY_TRAINING if "train" in arguments[:1] else OUT_OF_MEMORY
    try:
        command = typer.main.get_command(app)
        take_types_off(command)
        code = command(args=list(arguments), prog_name="longtail", standalone_mode=False)
        sys.stdout.flush()
    except StoppedError as error:
        return _fail(str(error), INTERRUPTED)
    except LongtailError as error:
        return _fail(str(error))
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted", INTERRUPTED)
    except BrokenPipeError:
        return _reader_left()
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # typer and rich exit with 1 where a pipe is closed
            return _reader_left()
        raise
    except MemoryError:
        return _fail(no_memory)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _fail(no_memory if out_of_memory(error) else f"{where}{error.strerror or error}")
    except _ParserError as error:
        return _parser_failure(error)
    except ModuleNotFoundError as error:
        if error.name not in NEURAL:
            raise
        return _fail(f"this needs the extra 'neural': pip install 'longtail[neural]' (no {error.name})")
    except Exception as error:
        from longtail.memory import exhausted

        if out_of_memory(error) or exhausted():
            return _fail(no_memory)
        raise
    if code == INTERRUPTED:
        return _fail("interrupted", INTERRUPTED)
    return code if isinstance(code, int) else 0


def _fail(message: str, code: int = 2) -> int:
    print(f"longtail: {' '.join(message.split())}", file=sys.stderr)
    return code


def _reader_left() -> int:
    """Whoever read our output has closed the pipe: stop without a word, and let the last flush go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _parser_failure(error: Any) -> int:
    """Errors of the argument parser in our words, with the nearest option name."""
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        print(error.format_message(), file=sys.stderr)
        return 2
    message = error.format_message().rstrip(".")
    wrong = getattr(error, "option_name", None)
    if type(error).__name__ == "NoSuchOption" and context is not None:
        kind = "--" if str(wrong).startswith("--") else "-"  # a single letter would be like anything
        known = {name for p in context.command.params for name in (*p.opts, *p.secondary_opts) if name.startswith(kind)}
        is_json = wrong == "--json" and context.command.name == "predict"
        advice = "predict writes JSON as it is" if is_json else nearest(str(wrong), known)
        message = f"no such option '{wrong}'; {advice}"
    message = message[:1].lower() + message[1:]
    help_ = f" (see {context.command_path} --help)" if context is not None else ""
    return _fail(f"{message}{help_}")
