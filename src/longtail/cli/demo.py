"""longtail demo: trains on the embedded corpus and shows what comes out, with nothing to download."""

from __future__ import annotations

import time
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from longtail.cli import options
from longtail.cli.console import print_json, start_run, stdout_console

if TYPE_CHECKING:
    from rich.console import Console

    from longtail.corpus import Corpus
    from longtail.tagger import Tagger

EXAMPLES = 5


def demo(
    long: Annotated[bool, typer.Option("--long", help="Whole docstrings instead of name and summary.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Keep the model in this directory.", show_default=False)
    ] = None,
    learner: Annotated[str, typer.Option("--learner", help="See longtail methods.")] = "bonsai",
    seed: options.Seed = 0,
    threads: options.Threads = 0,
    overwrite: options.Overwrite = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Train and measure on the embedded corpus: which functions does the documentation of a function point to?"""
    if output is not None:
        from longtail.keep.model import check_model_output

        check_model_output(output, overwrite=overwrite)
    start = time.perf_counter()
    from longtail.data.demo import demo as corpora
    from longtail.tagger import Tagger

    tagger = Tagger(learner, seed=seed, threads=threads)
    run = start_run(seed=seed, threads=threads, quiet=quiet)
    with run.stage("read"):
        train, test = corpora("long" if long else "short")
    tagger.fit(train, run=run)
    report = tagger.evaluate(test, run=run)
    shown = examples(tagger, test)
    if output is not None:
        tagger.save(output, overwrite=overwrite)
    seconds = time.perf_counter() - start
    if json:
        print_json({**report.to_dict(), "seconds": round(seconds, 2), "examples": shown})
        return
    console = stdout_console()
    if not quiet:
        _introduce(console, train, test, learner, seconds, long=long)
    from longtail.cli.tables import show_report

    show_report(report, console)
    _show_examples(console, shown)
    if not quiet:
        _next(console, output)


def examples(tagger: Tagger, test: Corpus, k: int = 5) -> list[dict[str, Any]]:
    """A few test documents spread over the corpus, with hits where there are any."""
    import numpy as np

    from longtail.evaluate import compare

    found = compare([tagger], test, k)
    hits = np.asarray(found.right[0].any(axis=1))
    shown = []
    for stretch in np.array_split(np.arange(len(test)), EXAMPLES):
        # one document from each stretch of the corpus, of typical rather than best quality
        rows = stretch[hits[stretch]] if hits[stretch].any() else stretch
        if not len(rows):
            continue
        example = found.example(int(rows[len(rows) // 2])).to_dict()
        labels = example["predictions"][0]["labels"]
        given = {label["label"] for label in labels}
        missed = [label["label"] for label in example["labels"] or [] if label["label"] not in given]
        shown.append({"text": example["text"], "labels": labels, "missed": missed})
    return shown


def _introduce(console: Console, train: Corpus, test: Corpus, learner: str, seconds: float, *, long: bool) -> None:
    what = "docstrings" if long else "names and summaries"
    console.print(
        f"[bold]{learner}[/bold] read the {what} of {len(train):,} numpy, scipy, scikit-learn and matplotlib functions "
        f"and learned which of {len(train.labels):,} others their 'See Also' names;"
    )
    console.print(
        f"{train.labels.tail_share:.0%} of those labels have 1 to 5 training documents. "
        f"Measured on {len(test):,} others, {seconds:.1f} s in all:\n"
    )


def _show_examples(console: Console, shown: list[dict[str, Any]]) -> None:
    from rich.text import Text

    for example in shown:
        words = " ".join(example["text"].split())
        line = Text("\n“")
        line.append(words if len(words) <= 110 else f"{words[:107]}...", style="italic")
        console.print(line.append("”"))
        for label in example["labels"]:
            mark, style = ("✓", "green") if label["right"] else ("·", "dim")
            seen = label["training_documents"]
            rare = f"   seen {seen} time{'s' if seen != 1 else ''} in training" if label["right"] and seen <= 5 else ""
            console.print(Text(f"  {mark} {label['score']:.2f}  {label['label']}{rare}", style=style))


def _next(console: Console, output: Path | None) -> None:
    model = "model/" if output is None else quote(str(output))
    console.print("\nnext:")
    if output is None:
        console.print("  longtail demo -o model/                     keep the model")
    console.print(f'  echo "sort an array" | longtail predict {model} -', soft_wrap=True, markup=False)
    line = '{"text": ..., "labels": [...]}'
    console.print(f"  longtail train YOUR-FILE.jsonl -o model/    one {line} per line", markup=False)
    console.print("  longtail methods                            what else there is")
