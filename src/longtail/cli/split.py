"""longtail split: documents to train on and documents to test on."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from longtail.cli import options
from longtail.cli.console import print_json, start_run, stdout_console
from longtail.cli.data import DataOptions


def split(
    data: options.LabelledData,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="The folder to write, train.jsonl and test.jsonl.", show_default=False),
    ],
    test: Annotated[
        float, typer.Option("--test", min=0.0001, max=0.9999, help="Share of the documents that is set aside.")
    ] = 0.1,
    labels: options.LabelsFile = None,
    text_field: options.TextField = None,
    labels_field: options.LabelsField = None,
    separator: options.Separator = None,
    skip_bad: options.SkipBad = False,
    encoding: options.Encoding = None,
    force: options.Force = False,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Which documents are drawn.")] = 0,
    overwrite: options.Overwrite = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Set documents aside to test on: a folder that train, evaluate and predict read.

    Documents are drawn at random. Those of the same text stay together.
    """
    from longtail.data.held_out import hold_out, not_parts, write_parts
    from longtail.keep.files import check_output

    check_output(output, overwrite=overwrite, directory=True, refusal=not_parts)
    run = start_run(seed=seed, quiet=quiet)
    how = DataOptions(labels, text_field, labels_field, separator, None, skip_bad, encoding=encoding, force=force)
    train, tested = hold_out(how.read(data, run), test, run.rng("split"))
    write_parts(output, train, tested, overwrite=overwrite)
    if json:
        print_json({"train": len(train), "test": len(tested)})
    elif not quiet:
        console = stdout_console()
        folder = quote(str(output))
        done = f"{len(train):,} documents to train on, {len(tested):,} to test on, in {output}"
        lines = (done, "next:", f"  longtail train {folder} -o MODEL", f"  longtail evaluate MODEL {folder}")
        console.print(*lines, sep="\n", soft_wrap=True, markup=False)
