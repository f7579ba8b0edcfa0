"""Reports as tables in a terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from longtail.analyse.drawing import BAND_COLOURS, plain_table
from longtail.errors import counted, printable

if TYPE_CHECKING:
    from rich.console import Console

    from longtail.evaluate import Report
    from longtail.plan import Plan

#: Figures of the first table and what each one says.
MEANINGS = {
    "P": "precision",
    "nDCG": "precision, better ranks count more",
    "PSP": "precision, rare labels count more",
    "PSnDCG": "both",
    "R": "recall",
    "RP": "precision relative to the best possible",
}


def metric_table(report: Report, values: Mapping[str, float] | None = None) -> Table:
    """Metrics down, cut-offs across, with intervals if there are any; values  other ones than the report's own."""
    table = plain_table("%", *(f"@{k}" for k in report.ks))
    table.add_column("")
    for name, meaning in MEANINGS.items():
        cells = []
        for k in report.ks:
            cell = _figure((values or report.values)[f"{name}@{k}"])
            interval = None if values else report.intervals.get(f"{name}@{k}")
            cells.append(cell if interval is None else f"{cell} ({_figure(interval[0])}-{_figure(interval[1])})")
        table.add_row(name, *cells, f"[dim]{meaning}[/dim]")
    return table


def show_unseen(report: Report, console: Console) -> None:
    """Which labels the model cannot know, before any figure."""
    from longtail.describe import shown_label

    if report.unseen is None:
        return
    console.print(report.unseen.sentence())
    if report.unseen.examples:
        shown = [shown_label(printable(each.label), printable(each.text)) for each in report.unseen.examples]
        heading = "The most frequent of them" if report.unseen.labels > len(shown) else "They are"
        console.print(f"[dim]{heading}: {escape(', '.join(shown))}[/dim]")
    console.print()


def band_table(report: Report) -> Table:
    """Recall by frequency band: how many of a band's true labels are among the first k."""
    k = report.ks[-1]
    shown = [*(f"recall@{cut}" for cut in report.ks), f"precision@{k}", f"found@{k}"]
    headings = (
        "band",
        "documents\nper label",
        "\nlabels",
        "true\npairs",
        *(name.replace("@", "\n@") for name in shown),
    )
    table = plain_table(*headings, left=1)
    for band in reversed(report.bands):
        colour = BAND_COLOURS.get(band.name, "default")
        cells = [_figure(band.figures[name]) for name in shown]
        table.add_row(f"[{colour}]{band.name}[/{colour}]", band.counts, f"{band.labels:,}", f"{band.pairs:,}", *cells)
    return table


def show_report(report: Report, console: Console) -> None:
    """Both tables, what they were counted on and what was left out."""
    from longtail.evaluate.unseen import DROPPED, MISSED

    show_unseen(report, console)
    said = {DROPPED: "Without labels never seen in training", MISSED: "With labels never seen in training as misses"}
    if report.conventions:
        console.print(f"{said[report.convention]}, {counted(report.documents, 'document')}:")
    console.print(metric_table(report))
    console.print()
    for name, values in report.conventions.items():
        if name != report.convention:
            console.print(f"{said[name]}, {counted(int(values['documents']), 'document')}:")
            console.print(metric_table(report, values))
            console.print()
    console.print(band_table(report))
    console.print()
    console.print(
        f"[dim]{report.documents:,} documents, {len(report.labels):,} labels; propensities A={report.A:g} "
        f"B={report.B:g}; PSnDCG normalised by '{report.psndcg}'[/dim]"
    )
    for note in report.notes:
        console.print(f"[dim]{escape(note)}[/dim]")


def facts_table(facts: dict[str, Any]) -> Table:
    """Names and values, long ones on several lines."""
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        table.add_row(f"[dim]{name}[/dim]", value if isinstance(value, str) else f"{value:,}")
    return table


def tail_words(share: float) -> str:
    """The tail share of a label index in words; labels that training never saw do not count."""
    return f"{share:.0%} of those in use are rare (1 to 5 documents)"


def _figure(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.2f}"


def show_plan(plan: Plan, learner: str, console: Console) -> None:
    """What training will take, stage by stage."""
    from longtail.cli.progress import duration
    from longtail.plan import shown_size

    sizes = plan.sizes
    features = f", about {sizes.features:,} features" if sizes.features else ""
    console.print(f"[bold]{escape(learner)}[/bold] on {sizes.documents:,} documents, {sizes.labels:,} labels{features}")
    table = plain_table("stage", "time", "memory")
    table.add_row("interpreter and libraries", "", shown_size(plan.base))
    for stage, peak in zip(plan.stages, plan.peaks(), strict=True):
        table.add_row(escape(stage.name), duration(stage.seconds), shown_size(peak))
    table.add_row("[bold]in all[/bold]", duration(plan.seconds), f"[bold]{shown_size(plan.peak)}[/bold]")
    console.print(table)
    if plan.memory is not None:
        verdict = f"it fits, with {plan.at_once} tasks at once" if plan.fits else "it does not fit"
        console.print(f"{shown_size(plan.memory)} are allowed: {verdict}")
