"""longtail analyse gandalf: what augmenters do to a network for short texts, by epoch and by cosines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from longtail.cli import options
from longtail.cli.console import print_json, start_run, stdout_console
from longtail.cli.data import DataOptions

if TYPE_CHECKING:
    from longtail.tagger import Tagger

#: What figure 4 of the paper compares; the first is training as it is.
COMPARED = ("plain", "hiddenmix", "labelmix", "gandalf")


def gandalf(
    data: options.LabelledData,
    test: options.TestData,
    learner: Annotated[
        str, typer.Option("--learner", help="A network with one vector per document (paper: inceptionxml-lf).")
    ] = "inceptionxml-lf",
    augment: Annotated[
        list[str] | None,
        typer.Option(
            "--augment", help="What to compare, plain among them (default: plain hiddenmix labelmix gandalf)."
        ),
    ] = None,
    epochs: Annotated[int, typer.Option("--epochs", min=1, help="Passes over the documents per training.")] = 10,
    sample: Annotated[int, typer.Option("--sample", min=2, help="Documents measured on (paper: 50,000).")] = 5000,
    settings: options.Settings = None,
    png: options.Png = None,
    labels: options.LabelsFile = None,
    text_field: options.TextField = None,
    labels_field: options.LabelsField = None,
    separator: options.Separator = None,
    split: options.Split = None,
    skip_bad: options.SkipBad = False,
    encoding: options.Encoding = None,
    seed: options.Seed = 0,
    threads: options.Threads = 0,
    overwrite: options.Overwrite = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Gandalf's figures: P@1 by epoch under augmenters, and how near texts lie to one another.

    Trains the network anew for each augmenter: longtail analyse gandalf train.jsonl --data test.jsonl.
    Settings of an augmenter (--set gandalf.strength=1) are for its training alone.
    """
    from longtail.analyse import gandalf as numbers
    from longtail.analyse import gandalf_figures
    from longtail.keep.files import check_output

    if png is not None:
        check_output(png, overwrite=overwrite)

    compared = list(dict.fromkeys(augment or COMPARED))
    given = [f"learner.epochs={epochs}", "learner.least_steps=1", *(settings or ())]
    taggers = [_tagger(name, learner, compared, given, seed=seed, threads=threads) for name in compared]
    run = start_run(seed=seed, threads=threads, quiet=quiet)
    how = DataOptions(labels, text_field, labels_field, separator, split, skip_bad, encoding=encoding)
    train = how.read(data, run).counted()
    measured = how.read(test, run, split="test").aligned(train.labels)
    trained = []
    for name, tagger in zip(compared, taggers, strict=True):
        curve = numbers.by_epoch(tagger.pipeline, train, measured, run, sample=sample)
        near = numbers.cosines(tagger.pipeline, train, run, sample=sample)
        trained.append({"name": name, "augment": None if name == "plain" else name, **curve, "cosines": near})
    found = {"data": str(test), "learner": learner, "seed": seed, "sample": sample, "trained": trained}
    if png is not None:
        gandalf_figures.gandalf_png(found, png, overwrite=overwrite)
    if json:
        print_json(found)
    else:
        _show(trained, png)


def _show(trained: list[dict[str, Any]], png: Path | None) -> None:
    from longtail.analyse import gandalf_figures

    console = stdout_console()
    console.print(gandalf_figures.epochs_table(trained), gandalf_figures.cosines_table(trained), sep="\n\n")
    if png is not None:
        console.print(f"drawn into {png}", markup=False)


def _tagger(name: str, learner: str, compared: list[str], given: list[str], *, seed: int, threads: int) -> Tagger:
    """The network with one augmenter; settings of the others are not for it."""
    from longtail.analyse import gandalf as numbers
    from longtail.recipe import Recipe

    own = [each for each in given if each.partition(".")[0] not in {*COMPARED, *compared} - {name}]
    parts: dict[str, Any] = {"learner": learner, "augment": () if name == "plain" else (name,), "settings": own}
    tagger = Recipe().override(**parts).tagger(seed=seed, threads=threads)
    numbers.check(tagger.pipeline)
    return tagger
