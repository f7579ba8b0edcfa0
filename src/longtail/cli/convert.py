"""longtail convert: the same tagger, its weights in another number format."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from longtail.cli import options
from longtail.cli.console import numbers, print_json, start_run, stdout_console
from longtail.cli.data import DataOptions
from longtail.errors import UsageError

if TYPE_CHECKING:
    from longtail.evaluate import Report


class Weights(StrEnum):
    float32 = "float32"
    float16 = "float16"
    int8 = "int8"


def convert(
    model: options.Model,
    output: options.ModelOutput,
    weights: Annotated[Weights, typer.Option("--weights", help="Number format of the weights.", show_default=False)],
    data: Annotated[
        Path | None,
        typer.Option("--data", help="Texts with labels: how much P and PSP change on them.", show_default=False),
    ] = None,
    k: Annotated[str, typer.Option("-k", help="Cut-offs of P and PSP, for example 1,3,5.")] = "1,3,5",
    labels: options.LabelsFile = None,
    text_field: options.TextField = None,
    labels_field: options.LabelsField = None,
    separator: options.Separator = None,
    split: options.Split = None,
    skip_bad: options.SkipBad = False,
    encoding: options.Encoding = None,
    threads: options.Threads = 0,
    overwrite: options.Overwrite = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Write a copy of a tagger whose weights have another number format.

    Weights that have been rounded stay rounded: converting back to float32 restores nothing.
    """
    ks = numbers(k, "-k")
    from longtail.keep.model import check_model_output
    from longtail.keep.shard_folders import shard_folder, shard_folders
    from longtail.tagger import Tagger

    if shards := shard_folders(model):
        raise UsageError(f"{model} is in shards: convert each of them, for example {shards[0]} -o {output}")
    run = start_run(threads=threads, quiet=quiet)
    tagger = Tagger.load(model, threads=threads)
    folder = output if tagger.share_ is None else shard_folder(output, tagger.share_.shard)
    check_model_output(folder, overwrite=overwrite)
    reports: list[Report] = []
    how = DataOptions(labels, text_field, labels_field, separator, split, skip_bad, encoding=encoding)
    corpus = None if data is None else how.read(data, run, split="test")
    if corpus is not None:
        reports.append(tagger.evaluate(corpus, ks=ks, run=run))
    before = _bytes(model)
    tagger.convert(weights.value)
    if corpus is not None:
        reports.append(tagger.evaluate(corpus, ks=ks, run=run))
    tagger.save(output, overwrite=overwrite)
    figures = [f"{name}@{cut}" for name in ("P", "PSP") for cut in ks] if reports else []
    found = {
        "weights": weights.value,
        "bytes": {"before": before, "after": _bytes(folder)},
        **{name: {"before": reports[0][name], "after": reports[1][name]} for name in figures},
    }
    if json:
        print_json(found)
    elif not quiet:
        _show(found, figures)


def _bytes(model: Path) -> int:
    return sum(file.stat().st_size for file in model.iterdir() if file.is_file())


def _show(found: dict[str, Any], figures: list[str]) -> None:
    from longtail.analyse.drawing import plain_table

    table = plain_table("", "before", "after", "change", left=1)
    before, after = found["bytes"]["before"], found["bytes"]["after"]
    table.add_row("MB", f"{before / 1e6:,.1f}", f"{after / 1e6:,.1f}", f"{100 * (after / before - 1):+.0f} %")
    for name in figures:
        old, new = found[name]["before"], found[name]["after"]
        table.add_row(name, f"{old:.2f}", f"{new:.2f}", f"{new - old:+.2f}")
    stdout_console().print(table)
