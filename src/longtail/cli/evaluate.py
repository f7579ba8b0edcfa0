"""longtail evaluate: how good a tagger is on texts whose labels are known."""

from __future__ import annotations

from typing import Annotated

import typer

from longtail.cli import options
from longtail.cli.console import note, numbers, print_json, start_run, stdout_console
from longtail.cli.data import DataOptions
from longtail.cli.label_texts import opened

_METRICS = "Metrics"
Reciprocal = Annotated[
    bool,
    typer.Option(
        "--reciprocal",
        help="Leave out pairs in which the document is itself the label, as the LF data sets require.",
        rich_help_panel=_METRICS,
    ),
]

_CutOffs = Annotated[str, typer.Option("-k", help="Cut-offs, for example 1,3,5.", rich_help_panel=_METRICS)]
_AllLabels = Annotated[
    bool,
    typer.Option(
        "--all-labels",
        help="Labels never seen in training count as misses in all figures, not in a table of their own.",
        rich_help_panel=_METRICS,
    ),
]
_Bands = Annotated[str, typer.Option("--bands", help="Band boundaries, for example 5,20.", rich_help_panel=_METRICS)]
_A = Annotated[float | None, typer.Option("--A", help="A of the propensity model.", rich_help_panel=_METRICS)]
_B = Annotated[float | None, typer.Option("--B", help="B of the propensity model.", rich_help_panel=_METRICS)]
_Psndcg = Annotated[
    str,
    typer.Option(
        "--psndcg", help="Normalisation of PSnDCG: sum (XMC repository) or mean (pyxclib).", rich_help_panel=_METRICS
    ),
]
_Bootstrap = Annotated[
    int, typer.Option("--bootstrap", min=0, help="Resamples for 95 % intervals.", rich_help_panel=_METRICS)
]


def evaluate(
    model: options.Model,
    data: options.LabelledData,
    k: _CutOffs = "1,3,5",
    all_labels: _AllLabels = False,
    reciprocal: Reciprocal = False,
    rare: options.Rare = None,
    bands: _Bands = "5,20",
    propensity: options.Propensity = "default",
    A: _A = None,
    B: _B = None,
    psndcg: _Psndcg = "sum",
    bootstrap: _Bootstrap = 0,
    labels: options.LabelsFile = None,
    text_field: options.TextField = None,
    labels_field: options.LabelsField = None,
    separator: options.Separator = None,
    split: options.Split = None,
    skip_bad: options.SkipBad = False,
    encoding: options.Encoding = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Which resamples --bootstrap draws.")] = 0,
    threads: options.Threads = 0,
    engine: options.Engine = options.EngineName.local,
    address: options.Address = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Measure a tagger: precision, nDCG and their propensity-scored variants, by frequency band.

    Says first how many labels of the test documents were never seen in training.
    """
    ks, edges = numbers(k, "-k"), numbers(bands, "--bands")
    from longtail import engines
    from longtail.evaluate.comparison import with_own_labels
    from longtail.labels import propensity_parameters

    A, B = propensity_parameters(propensity, A, B)
    run = start_run(seed=seed, threads=threads, quiet=quiet)
    run.engine = engines.chosen(engine, address=address, workers=threads)
    [tagger] = opened([model], threads, labels=labels, rare=rare)
    how = DataOptions(labels, text_field, labels_field, separator, split, skip_bad, encoding=encoding)
    corpus = how.read(data, run, split="test")
    if reciprocal:
        corpus = with_own_labels(corpus, tagger.labels_)
        if corpus.reciprocal is None:
            note(f"{corpus.name}: no document is itself a label, so --reciprocal changes nothing")
    report = tagger.evaluate(
        corpus, ks=ks, all_labels=all_labels, A=A, B=B, edges=edges, psndcg=psndcg, bootstrap=bootstrap, run=run
    )
    if json:
        print_json(report.to_dict())
        return
    from longtail.cli.tables import show_report

    show_report(report, stdout_console())
