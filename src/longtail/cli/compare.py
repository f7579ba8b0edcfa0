"""longtail compare: the labels that several taggers give the same documents, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from longtail.cli import options
from longtail.cli.console import note, print_json, start_run, stdout_console
from longtail.cli.data import DataOptions
from longtail.cli.evaluate import Reciprocal
from longtail.cli.label_texts import opened
from longtail.errors import UsageError, printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from longtail.evaluate.comparison import Comparison, Example, PredictedLabel, TrueLabel

LONGEST_TEXT = 300  # characters of a document that are shown


def compare(
    models: options.Models,
    data: Annotated[
        Path | None, typer.Option("--data", help="Documents, best with labels: some of them are shown.")
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Option("--text", help="A document given here instead of --data; may be repeated.", show_default=False),
    ] = None,
    examples: Annotated[
        int,
        typer.Option("--examples", min=1, help="Documents of --data to show, those on which models differ first."),
    ] = 5,
    k: Annotated[int, typer.Option("-k", min=1, help="How many labels per model.")] = 5,
    propensity: options.Propensity = "default",
    reciprocal: Reciprocal = False,
    rare: options.Rare = None,
    labels: options.LabelsFile = None,
    text_field: options.TextField = None,
    labels_field: options.LabelsField = None,
    separator: options.Separator = None,
    split: options.Split = None,
    skip_bad: options.SkipBad = False,
    encoding: options.Encoding = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Which documents are drawn.")] = 0,
    threads: options.Threads = 0,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Show the labels that several taggers give the same documents, side by side, right and rare ones marked.

    Documents are drawn from those where one model is right and another is not;
    if there are too few, from those to which the models give different labels.
    """
    if (data is None) == (not text):
        raise UsageError("give documents by --data FILE or --text TEXT, one of the two")
    from longtail.evaluate import compare as compare_models
    from longtail.labels import propensity_parameters
    from longtail.read import read_texts

    A, B = propensity_parameters(propensity)
    run = start_run(seed=seed, threads=threads, quiet=quiet)
    taggers = opened(models, threads, labels=labels, rare=rare)
    if data is None:
        corpus = read_texts(text or [])
    else:
        how = DataOptions(labels, text_field, labels_field, separator, split, skip_bad, encoding=encoding)
        corpus = how.read(data, run, split="test", need_labels=False)
    pairs = list(zip(names_of(models), taggers, strict=True))
    found = compare_models(pairs, corpus, k, A=A, B=B, reciprocal=reciprocal, run=run)
    if reciprocal and found.corpus.reciprocal is None:
        note(f"{corpus.name}: no document is itself a label, so --reciprocal changes nothing")
    rows = list(range(len(corpus))) if data is None else found.draw(examples, run.rng("compare"))
    if json:
        shown = found.to_dict(rows)
        for model, path in zip(shown["models"], models, strict=True):
            model["model"] = str(path)
        print_json({"data": None if data is None else str(data), **shown})
    else:
        _show(found, rows, stdout_console(), drawn=data is not None)


def names_of(models: Sequence[Path]) -> list[str]:
    """The name of each model's directory, or its whole path if others have the same name."""
    names = [path.resolve().name for path in models]
    return [name if names.count(name) == 1 else str(path) for name, path in zip(names, models, strict=True)]


# on the terminal
def _show(found: Comparison, rows: list[int], console: Console, *, drawn: bool) -> None:
    headings = [printable(name) for name in found.names]
    shown = [found.example(row) for row in rows]
    widths = _widths(shown, headings, console.width)
    for example in shown:
        _show_document(example, console)
        console.print(_predictions(example, headings, widths))
        console.print()
    summary = found.to_dict(rows)
    if found.labelled:
        console.print(_figures(summary["models"]))
        console.print()
    if drawn and len(headings) > 1:
        other = summary["right_labels_differ"]
        hits = "" if other is None else f", and find different true labels in {other:,}"
        differ, documents = summary["labels_differ"], summary["documents"]
        console.print(f"[dim]the models give different labels to {differ:,} of {documents:,} documents{hits}[/dim]")
    console.print(f"[dim]{'✓ right, ' if found.labelled else ''}(n) rare: n training documents[/dim]")


def _widths(shown: list[Example], headings: list[str], width: int) -> list[int]:
    """One width per model, the same for every document, so that columns stand below each other."""
    room = max(12, (width - 2 * (len(headings) - 1)) // len(headings))
    widths = []
    for number, heading in enumerate(headings):
        labels = [label for example in shown for label in example.predictions[number][1]]
        widths.append(min(room, max([len(heading), *(_cell(label).cell_len for label in labels)])))
    return widths


def _show_document(example: Example, console: Console) -> None:
    from rich.text import Text

    line = Text(f"{printable(example.id)}  ", style="dim")
    if example.text is not None:
        words = printable(" ".join(example.text.split()))
        cut = words if len(words) <= LONGEST_TEXT else f"{words[: LONGEST_TEXT - 3]}..."
        line.append(f"“{cut}”", style="not dim italic")
    console.print(line)
    if example.labels is not None:
        true = Text(", ").join(_shown(label) for label in example.labels) if example.labels else Text("none")
        console.print(Text("true: ", style="dim").append_text(true))


def _predictions(example: Example, headings: list[str], widths: list[int]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for heading, width in zip(headings, widths, strict=True):
        table.add_column(Text(heading), width=width, overflow="fold")
    columns = [[_cell(label) for label in labels] for _, labels in example.predictions]
    for place in range(max(len(column) for column in columns)):
        table.add_row(*(column[place] if place < len(column) else "" for column in columns))
    return table


def _figures(models: list[dict[str, Any]]) -> Table:
    """What is right among the labels shown, and the figures over all documents, one line per model."""
    from rich.markup import escape

    from longtail.analyse.drawing import plain_table, two_decimals
    from longtail.evaluate.comparison import FIGURES

    table = plain_table("", "right of those shown", *FIGURES, "documents")
    for model in models:
        figures = [two_decimals(model[name]) for name in FIGURES]
        counted = "-" if model["documents"] is None else f"{model['documents']:,}"
        table.add_row(escape(printable(model["name"])), f"{model['right']} of {model['shown']}", *figures, counted)
    return table


def _cell(label: PredictedLabel) -> Text:
    """A predicted label: green and ticked if it is right, with its training count if it is rare."""
    from rich.text import Text

    cell = Text("✓ " if label.right else "· " if label.right is not None else "")
    cell.append_text(_shown(label))
    cell.stylize("green" if label.right else "")
    return cell


def _shown(label: PredictedLabel | TrueLabel) -> Text:
    """A label with its text, and its training count if it is rare."""
    from rich.text import Text

    from longtail.describe import shown_label
    from longtail.labels import BAND_EDGES

    shown = Text(shown_label(printable(label.label), printable(label.text)))
    if label.training_documents <= BAND_EDGES[0]:
        shown.append(f" ({label.training_documents})", style="bold")
    return shown
