"""longtail analyse: what the weights of trained models look like, and what Taug and LSFA change."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from longtail.cli import analyse_gandalf, analyse_xda, options
from longtail.cli.compare import names_of
from longtail.cli.console import note, print_json, start_run, stdout_console
from longtail.cli.data import DataOptions
from longtail.cli.label_texts import opened

if TYPE_CHECKING:
    from longtail.analyse.norms import Norms
    from longtail.tagger import Tagger

app = typer.Typer(
    no_args_is_help=True,
    help="Look into trained models and trainings: norms of label weights, effects of Taug, LSFA, XDA and Gandalf.",
)

_TrainedOn = Annotated[
    Path | None,
    typer.Option("--train", help="Documents the models were trained on: for label counts and features in the plane."),
]


@app.command()
def norms(
    models: options.Models,
    data: Annotated[
        Path | None,
        typer.Option("--data", help="Documents to predict: do labels with larger norms enter the top k more often?"),
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Labels predicted per document of --data.")] = 5,
    png: options.Png = None,
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
    """Norm of each label's separator against how frequent the label is, for one or more models.

    Correlations are Spearman's over labels: of the norm with the frequency
    and, given --data, with how often a label enters the top k.
    """
    check_png(png, overwrite)
    run = start_run(threads=threads, quiet=quiet)
    taggers = opened(models, threads)
    from longtail.analyse import norm_figures
    from longtail.analyse.norms import entering_report, frequency_report

    found = _norms(models, taggers)
    how = DataOptions(labels, text_field, labels_field, separator, split, skip_bad, encoding=encoding)
    corpus = None if data is None else how.read(data, run, split="test", need_labels=False)
    shown = []
    for head, tagger, own in zip(_headers(models, taggers), taggers, found, strict=True):
        top = None if corpus is None else entering_report(own, tagger.labels_, tagger.score(corpus, k, run=run))
        shown.append({**head, **frequency_report(own, tagger.labels_), "top_k": top})
    _note_other_labels(taggers)
    if png is not None:
        norm_figures.norms_png(shown, png, overwrite=overwrite)
    if json:
        print_json({"data": None if data is None else str(data), "models": shown})
        return
    console = stdout_console()
    console.print(norm_figures.norms_table(shown))
    console.print()
    console.print(norm_figures.correlation_table(shown))
    console.print()
    console.print(norm_figures.norms_plot(shown), end="")
    _say_drawn(png)


@app.command()
def taug(
    models: options.Models,
    data: options.TestData,
    propensity: options.Propensity = "default",
    png: options.Png = None,
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
    """PSP, P and the tail's recall against the number of noisy copies (n_aug) and the head's share (tau).

    Both are read from each model's own configuration; a plain model has no copies.
    Models that differ in nothing but their seed are averaged.
    """
    from longtail.labels import propensity_parameters

    A, B = propensity_parameters(propensity)
    check_png(png, overwrite)
    run = start_run(threads=threads, quiet=quiet)
    taggers = opened(models, threads)
    from longtail.analyse import taug_figures
    from longtail.analyse.taug import KS, Measured, TaugSettings, slices
    from longtail.errors import UsageError

    how = DataOptions(labels, text_field, labels_field, separator, split, skip_bad, encoding=encoding)
    corpus = how.read(data, run, split="test")
    measured = []
    for tagger in taggers:
        report = tagger.evaluate(corpus, ks=KS, A=A, B=B, run=run)
        measured.append(Measured.of(TaugSettings.of(tagger.config(), tagger.labels_), report))
    _note_other_labels(taggers)
    heads = _headers(models, taggers)
    shown = [{**head, **own.figures} for head, own in zip(heads, measured, strict=True)]
    curves = [one.to_dict() for one in slices(measured)]
    if png is not None and not curves:
        raise UsageError("--png: there is no curve to draw; give models of one learner that differ in n_aug or tau")
    if png is not None:
        taug_figures.taug_png(curves, png, overwrite=overwrite)
    if json:
        print_json({"data": str(data), "A": A, "B": B, "models": shown, "slices": curves})
        return
    console = stdout_console()
    console.print(taug_figures.taug_table(shown))
    console.print()
    console.print(taug_figures.taug_plot(curves), end="")
    _say_drawn(png)


@app.command()
def lsfa(
    models: options.Models,
    data: options.TestData,
    train: _TrainedOn = None,
    size: Annotated[int, typer.Option("--bin", min=1, help="Labels per bin of macro P@5 (paper: 400).")] = 400,
    propensity: options.Propensity = "default",
    png: options.Png = None,
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
    """LSFA's figures: macro P@5 by frequency, ablation, N_t and N_a, and whether made-up features are like real ones.

    What a model is, is read from its own configuration. With --train, also the
    label distribution and features in the plane (t-SNE), of a model with the
    contrastive loss and one without.
    """
    from longtail.labels import propensity_parameters

    A, B = propensity_parameters(propensity)
    check_png(png, overwrite)
    run = start_run(threads=threads, quiet=quiet)
    taggers = opened(models, threads)
    from longtail.analyse import lsfa as numbers
    from longtail.analyse import lsfa_figures

    how = DataOptions(labels, text_field, labels_field, separator, split, skip_bad, encoding=encoding)
    corpus = how.read(data, run, split="test")
    shown: list[dict[str, Any]] = []
    for path, name, tagger in zip(models, names_of(models), taggers, strict=True):
        report = tagger.evaluate(corpus, ks=numbers.KS, A=A, B=B, run=run)
        head = {"model": str(path), "name": name, "seed": tagger.seed, **numbers.LsfaSettings.of(tagger).to_dict()}
        shown.append({**head, "checks": numbers.checks(tagger), **numbers.measured(report, size)})
    _note_other_labels(taggers)
    drawn = None if train is None else how.read(train, run, split="train")
    found = {
        "data": str(data), "A": A, "B": B, "models": shown,
        "ablation": numbers.ablation(shown), "curves": numbers.curves(shown),
        **numbers.of_training(taggers, drawn, run),
    }  # fmt: skip
    if png is not None:
        lsfa_figures.lsfa_png(found, png, overwrite=overwrite)
    if json:
        print_json(found)
        return
    console = stdout_console()
    console.print(lsfa_figures.lsfa_table(shown))
    console.print()
    console.print(lsfa_figures.bins_table(shown))
    _say_drawn(png)


def check_png(png: Path | None, overwrite: bool) -> None:
    if png is not None:
        from longtail.keep.files import check_output

        check_output(png, overwrite=overwrite)


def _norms(models: list[Path], taggers: list[Tagger]) -> list[Norms]:
    """Those of every model before any prediction: one that has none is refused at once."""
    from longtail.analyse.norms import label_norms
    from longtail.errors import UsageError

    found = []
    for path, tagger in zip(models, taggers, strict=True):
        try:
            found.append(label_norms(tagger.learner))
        except UsageError as error:
            raise UsageError(f"{path}: {error}") from None
    return found


def _headers(models: list[Path], taggers: list[Tagger]) -> list[dict[str, Any]]:
    """What the JSON says first of each model: where it is, and its setting."""
    from longtail.analyse.taug import TaugSettings

    headers = []
    for path, name, tagger in zip(models, names_of(models), taggers, strict=True):
        setting = TaugSettings.of(tagger.config(), tagger.labels_)
        headers.append(
            {
                "model": str(path),
                "name": name,
                "description": setting.describe(),
                **setting.to_dict(),
                "seed": tagger.seed,
            }
        )
    return headers


def _note_other_labels(taggers: list[Tagger]) -> None:
    """Curves over different labels can be drawn side by side, but hardly mean anything."""
    first = taggers[0].labels_
    for tagger in taggers[1:]:
        if list(tagger.labels_.names) != list(first.names) or (tagger.labels_.frequency != first.frequency).any():
            note("the models were not trained on the same labels and counts; they compare only roughly")
            return


def _say_drawn(png: Path | None) -> None:
    if png is not None:
        stdout_console().print(f"drawn into {png}", markup=False)


app.command()(analyse_xda.xda)
app.command()(analyse_gandalf.gandalf)
