"""longtail train: texts and labels in, a tagger out."""

from __future__ import annotations

import shutil
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from longtail.cli import options
from longtail.cli.console import (
    peak_memory_megabytes,
    print_json,
    start_run,
    stdout_console,
)
from longtail.cli.data import DataOptions

if TYPE_CHECKING:
    from longtail.corpus import Corpus
    from longtail.tagger import Tagger

#: The stages every training reports, whether or not its parts have them.
STAGES = ("read", "features", "cluster", "train", "save")

_METHOD, _HARDWARE = "Method", "Hardware"


class Precision(StrEnum):
    full = "32-true"
    bfloat = "bf16-mixed"
    half = "16-mixed"


def train(
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="A file or folder with texts and labels.", show_default=False)
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The model directory to write.", show_default=False)],
    recipe: Annotated[
        str | None,
        typer.Option(
            "--recipe",
            help="One of longtail recipes, FILE.toml or FILE.toml#ROW.",
            rich_help_panel=_METHOD,
            show_default=False,
        ),
    ] = None,
    learner: Annotated[
        str | None,
        typer.Option("--learner", help="See longtail methods (default: bonsai).", rich_help_panel=_METHOD),
    ] = None,
    augment: Annotated[
        list[str] | None,
        typer.Option("--augment", help="Augmenter; may be given several times.", rich_help_panel=_METHOD),
    ] = None,
    rerank: Annotated[
        list[str] | None,
        typer.Option("--rerank", help="Re-ranker; may be given several times.", rich_help_panel=_METHOD),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="PATH=VALUE",
            help="An option of a part, as in learner.trees=1 or parabel.trees=1; may be given several times.",
            rich_help_panel=_METHOD,
        ),
    ] = None,
    valid: Annotated[
        Path | None, typer.Option("--valid", help="Data to tune on, for methods that do.", show_default=False)
    ] = None,
    labels: options.LabelsFile = None,
    text_field: options.TextField = None,
    labels_field: options.LabelsField = None,
    separator: options.Separator = None,
    split: options.Split = None,
    skip_bad: options.SkipBad = False,
    seed: options.Seed = 0,
    threads: options.Threads = 0,
    devices: Annotated[
        int,
        typer.Option(
            "--devices",
            min=1,
            max=1024,
            help="Processors networks are trained on together: GPUs, or processes on a CPU.",
            rich_help_panel=_HARDWARE,
        ),
    ] = 1,
    nodes: Annotated[
        int,
        typer.Option(
            "--nodes", min=1, max=1024, help="Machines that train a network together.", rich_help_panel=_HARDWARE
        ),
    ] = 1,
    precision: Annotated[
        Precision,
        typer.Option("--precision", help="Numbers of a network's arithmetic.", rich_help_panel=_HARDWARE),
    ] = Precision.full,
    logs: Annotated[
        Path | None,
        typer.Option(
            "--logs",
            help="Folder for CSV and TensorBoard logs of networks.",
            rich_help_panel=_HARDWARE,
            show_default=False,
        ),
    ] = None,
    overwrite: options.Overwrite = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Train a tagger on texts with labels."""
    from longtail.keep.model import check_model_output

    check_model_output(output, overwrite=overwrite)
    from longtail.recipe import Recipe
    from longtail.run import Hardware

    plan = Recipe.find(recipe) if recipe is not None else Recipe()
    plan.override(learner=learner, augment=augment or (), rerank=rerank or (), settings=settings or ())
    tagger = plan.tagger(seed=seed, threads=threads)
    run = start_run(seed=seed, threads=threads, quiet=quiet)
    run.hardware = Hardware(devices, nodes, precision.value, None if logs is None else str(logs))
    # what long fits keep on the way: the same command goes on from there after it was killed
    run.checkpoints = output.absolute().parent / f".{output.name}.unfinished"
    how = DataOptions(labels, text_field, labels_field, separator, split, skip_bad)
    corpus = how.read(data, run)
    held_out = None if valid is None else how.read(valid, run, split="valid")
    tagger.fit(corpus, valid=held_out, run=run)
    with run.stage("save"):
        tagger.save(output, overwrite=overwrite)
    shutil.rmtree(run.checkpoints, ignore_errors=True)
    summary = summarise(tagger, corpus, run.seconds, output)
    if json:
        print_json(summary)
    elif not quiet:
        _show(summary, output)


def summarise(tagger: Tagger, corpus: Corpus, seconds: dict[str, float], output: Path) -> dict[str, Any]:
    from longtail.describe.model import directory_megabytes
    from longtail.registry import name_of

    peak = peak_memory_megabytes()
    return {
        "learner": name_of(tagger.learner),
        "documents": len(corpus),
        "labels": len(tagger.labels_),
        "tail_share": round(tagger.labels_.tail_share, 4),
        "features": tagger.n_features_,
        "seconds": {name: round(seconds.get(name, 0.0), 3) for name in (*STAGES, *sorted(set(seconds) - {*STAGES}))},
        "peak_memory_mb": None if peak is None else round(peak, 1),
        "model_mb": round(directory_megabytes(output), 4),
    }


def _show(summary: dict[str, Any], output: Path) -> None:
    from longtail.cli.tables import tail_words

    console = stdout_console()
    console.print(f"[bold]{summary['learner']}[/bold] trained, kept in {output}")
    console.print(
        f"  {summary['documents']:,} documents, {summary['labels']:,} labels, {tail_words(summary['tail_share'])}"
    )
    spent = [f"{name} {seconds:.1f} s" for name, seconds in summary["seconds"].items() if seconds >= 0.05]
    console.print(f"  {', '.join(spent)}")
    peak = summary["peak_memory_mb"]
    console.print(f"  model {summary['model_mb']:,.1f} MB" + (f", peak memory {peak:,.0f} MB" if peak else ""))
    console.print("next:")
    console.print(f"  longtail evaluate {output} TEST-FILE")
    console.print(f'  echo "some text" | longtail predict {output} -')
