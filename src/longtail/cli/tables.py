"""Reports as tables in a terminal."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from longtail.analyse.drawing import BAND_COLOURS, plain_table

if TYPE_CHECKING:
    from rich.console import Console

    from longtail.evaluate import Report

#: Figures of the first table and what each one says.
MEANINGS = {
    "P": "precision",
    "nDCG": "precision, better ranks count more",
    "PSP": "precision, rare labels count more",
    "PSnDCG": "both",
    "R": "recall",
    "RP": "precision, of what was possible",
}


def metric_table(report: Report) -> Table:
    """Metrics down, cut-offs across, with intervals if there are any."""
    table = plain_table("%", *(f"@{k}" for k in report.ks))
    table.add_column("")
    for name, meaning in MEANINGS.items():
        cells = []
        for k in report.ks:
            cell = _figure(report.values[f"{name}@{k}"])
            interval = report.intervals.get(f"{name}@{k}")
            cells.append(cell if interval is None else f"{cell} ({_figure(interval[0])}-{_figure(interval[1])})")
        table.add_row(name, *cells, f"[dim]{meaning}[/dim]")
    return table


def band_table(report: Report) -> Table:
    """Recall by frequency band: how many of a band's true labels are among the first k."""
    k = report.ks[-1]
    shown = [*(f"recall@{cut}" for cut in report.ks), f"precision@{k}", f"found@{k}"]
    table = plain_table("band", "documents per label", "labels", "true pairs", *shown, left=1)
    for band in reversed(report.bands):
        colour = BAND_COLOURS.get(band.name, "default")
        cells = [_figure(band.figures[name]) for name in shown]
        table.add_row(f"[{colour}]{band.name}[/{colour}]", band.counts, f"{band.labels:,}", f"{band.pairs:,}", *cells)
    return table


def show_report(report: Report, console: Console) -> None:
    """Both tables, what they were counted on and what was left out."""
    console.print(metric_table(report))
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
    """Names and values, one per line."""
    table = plain_table("", "", left=2)
    table.show_header = False
    for name, value in facts.items():
        table.add_row(f"[dim]{name}[/dim]", value if isinstance(value, str) else f"{value:,}")
    return table


def tail_words(share: float) -> str:
    """The tail share of a label index in words."""
    return f"{share:.0%} of those seen in training have 1 to 5 documents"


def _figure(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.2f}"
