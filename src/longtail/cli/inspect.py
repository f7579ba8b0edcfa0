"""longtail inspect: what a corpus or a model is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from longtail.cli import options
from longtail.cli.console import print_json, start_run, stdout_console
from longtail.cli.data import DataOptions
from longtail.errors import UsageError, printable

if TYPE_CHECKING:
    from rich.console import Console

    from longtail.corpus import Corpus
    from longtail.describe import CorpusFacts, LabelFacts, ModelFacts
    from longtail.run import Run


def inspect(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH", help="Data files or folders, or a model directory.", show_default=False),
    ],
    png: Annotated[
        Path | None,
        typer.Option(
            "--png", help="Draw label frequencies and inverse propensities into this file.", show_default=False
        ),
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(
            "--label",
            help="Show this label and its neighbours: a name, a text, or a piece of one; may be given several times.",
            show_default=False,
        ),
    ] = None,
    labels: options.LabelsFile = None,
    text_field: options.TextField = None,
    labels_field: options.LabelsField = None,
    separator: options.Separator = None,
    split: options.Split = None,
    skip_bad: options.SkipBad = False,
    encoding: options.Encoding = None,
    overwrite: options.Overwrite = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Describe a corpus (documents, labels, how long the tail is), some of its labels, or a model."""
    if png is not None and label:
        raise UsageError("--png draws the frequencies of all labels; leave out --label")
    if png is not None:
        from longtail.keep.files import check_output

        check_output(png, overwrite=overwrite)
    from longtail.describe import is_model

    path = paths[0]
    if len(paths) == 1 and is_model(path):
        if png is not None:
            raise UsageError("--png draws the label frequencies of a corpus; this is a model")
        if label:
            _inspect_model_labels(path, label, labels, json)
        else:
            _inspect_model(path, json)
        return
    run = start_run(quiet=quiet)
    how = DataOptions(labels, text_field, labels_field, separator, split, skip_bad, encoding=encoding, force=True)
    corpus = how.read(paths, run)
    if label:
        _inspect_labels(corpus, label, json, run)
    else:
        _inspect_corpus(corpus, png, overwrite, json)


def _inspect_corpus(corpus: Corpus, png: Path | None, overwrite: bool, json: bool) -> None:
    from longtail.analyse.frequency import frequency_plot, frequency_png
    from longtail.describe import describe_corpus

    facts = describe_corpus(corpus)
    if png is not None:
        frequency_png(corpus.labels, facts.inverse_propensity, png, title=Path(corpus.name).name, overwrite=overwrite)
    if json:
        print_json(facts.to_dict())
        return
    from longtail.cli.tables import facts_table

    console = stdout_console()
    console.print(facts_table(_shown(facts)))
    console.print()
    console.print(frequency_plot(corpus.labels), end="")
    if png is not None:
        console.print(f"drawn into {png}", markup=False)


def _shown(facts: CorpusFacts) -> dict[str, Any]:
    """What a person sees of a corpus; what it does not have is left out."""
    same, words, rare = facts.texts_that_are_label_texts, facts.words_per_document, facts.inverse_propensity
    shown = {
        "documents": facts.documents,
        "without labels": facts.documents_without_labels,
        "labels": facts.labels,
        "labels per document": f"{facts.labels_per_document:.2f} on average, at most {facts.most_labels:,}",
        "documents per label": f"{facts.documents_per_label:.2f} on average, at most {facts.most_documents:,}",
        "inverse propensity": None
        if rare is None
        else f"{rare.least:.1f} to {rare.most:.1f}, median {rare.quartiles[1]:.1f} (A {rare.A:g}, B {rare.B:g})",
        "label texts": facts.label_texts,
        "soft targets": facts.soft_targets,
        "texts that are label texts": f"{same:.1%}" if same else None,
        "words per document": None if words is None else f"{words:.1f} on average",
        "features": facts.features,
    }
    return {name: value for name, value in shown.items() if value}


def _inspect_labels(corpus: Corpus, names: list[str], json: bool, run: Run) -> None:
    from longtail.describe import describe_labels

    _show_labels(corpus.name, describe_labels(corpus, names, run=run), json)


def _inspect_model_labels(path: Path, names: list[str], labels: Path | None, json: bool) -> None:
    from longtail.cli.label_texts import texts_of
    from longtail.describe import describe_model_labels

    found = describe_model_labels(path, names, texts=None if labels is None else texts_of(labels))
    _show_labels(str(path), found, json, neighbours=False)


def _show_labels(name: str, found: list[LabelFacts], json: bool, *, neighbours: bool = True) -> None:
    if json:
        print_json({"name": name, "labels": [facts.to_dict() for facts in found]})
        return
    console = stdout_console()
    for number, facts in enumerate(found):
        if number:
            console.print()
        _show_label(facts, console, neighbours)


def _show_label(facts: LabelFacts, console: Console, neighbours: bool) -> None:
    from rich.markup import escape

    from longtail.analyse.drawing import plain_table
    from longtail.describe import shown_label

    documents = f"{facts.documents:,} {'' if neighbours else 'training '}document{'' if facts.documents == 1 else 's'}"
    console.print(f"[bold]{escape(printable(facts.label))}[/bold]  {documents}")
    if facts.text != facts.label:
        console.print(f"[dim]{escape(printable(facts.text))}[/dim]")
    if not neighbours:
        return
    if not facts.neighbours:
        console.print("[dim]no neighbours: it occurs alone, or in too many documents for a walk[/dim]")
        return
    table = plain_table("neighbour", "", "weight", "documents", left=2)
    top = max(1.0, *(neighbour.weight for neighbour in facts.neighbours))
    for neighbour in facts.neighbours:
        bar = f"[cyan]{_bar(neighbour.weight / top)}[/cyan]"
        name = escape(shown_label(printable(neighbour.label), printable(neighbour.text), 48))
        table.add_row(name, bar, f"{neighbour.weight:.2f}", f"{neighbour.documents:,}")
    console.print(table)


def _bar(share: float, width: int = 30) -> str:
    """A bar of that share of the width, in eighths of a character."""
    eighths = max(1, round(share * width * 8))
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def _inspect_model(path: Path, json: bool) -> None:
    from longtail.describe import describe_model

    facts = describe_model(path)
    if json:
        print_json(facts.to_dict())
    else:
        _show_model(facts, stdout_console())


def _show_model(facts: ModelFacts, console: Console) -> None:
    from rich.markup import escape

    from longtail.cli.tables import facts_table, tail_words
    from longtail.describe.model import said_by

    shown: dict[str, Any] = {name: escape(part) for name, part in facts.parts().items()}
    shown |= {f"{name}, learnt": escape(said_by(acted)) for name, acted in facts.acted.items()}
    shown |= {
        "labels": f"{facts.labels:,}, {tail_words(facts.tail_share)}",
        "trained on": f"{facts.trained_on:,} documents",
        "seed": facts.config["seed"],
        "size": f"{facts.megabytes:,.1f} MB in {len(facts.files)} files",
        "written by": f"longtail {facts.library}, model format {facts.format_version}",
    }
    console.print(facts_table(shown))
