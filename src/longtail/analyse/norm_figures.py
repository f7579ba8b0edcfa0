"""Norms as a person sees them: tables and plots in the terminal, and pictures.

Nothing is computed here; everything drawn is in the objects that `longtail analyse norms --json` prints.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from longtail.analyse.drawing import (
    BAND_COLOURS,
    EIGHTHS,
    band_of,
    line_style,
    new_figure,
    plain_table,
    plain_ticks,
    save_figure,
    two_decimals,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BANDS = ("head", "middle", "tail")


def norms_table(models: Sequence[Mapping[str, Any]]) -> Table:
    """One line per model: mean norm by frequency band."""
    table = plain_table("mean norm", "", *_BANDS, "tail / head", left=2)
    for model in models:
        norm = {band["name"]: band["mean_norm"] for band in model["bands"]}
        ratio = norm["tail"] / norm["head"] if norm["tail"] is not None and norm["head"] else None
        table.add_row(*_who(model), *(two_decimals(value) for value in [*norm.values(), ratio]))
    return table


def correlation_table(models: Sequence[Mapping[str, Any]]) -> Table:
    """One line per model: how norms go with frequency and, if measured, with predictions, also within each band."""
    tops = [model["top_k"] for model in models if model["top_k"] is not None]
    headings = ["rank correlation", "", "frequency"]
    if tops:
        headings += [f"top {tops[0]['k']}", *(f"within {band}" for band in _BANDS)]
    table = plain_table(*headings, left=2)
    for model in models:
        values = [model["spearman_frequency"]]
        if model["top_k"] is not None:
            values += [model["top_k"]["spearman"], *(model["top_k"]["spearman_within"][band] for band in _BANDS)]
        table.add_row(*_who(model), *map(two_decimals, values))
    return table


def norms_plot(models: Sequence[Mapping[str, Any]], *, width: int = 64) -> Text:
    """One plot per model, all on one scale: columns are labels by frequency rank (logarithmic), heights mean norms."""
    plot = Text()
    top = max((point["mean_norm"] for model in models for point in model["curve"]), default=0.0)
    if top <= 0:
        return plot.append("no label has a norm above 0\n")
    height = 10 if len(models) == 1 else 6
    margin = max(len(f"{top:.2f}"), 4)
    for model in models:
        curve = model["curve"]
        plot.append(f"{' ' * (margin + 2)}{model['name']}", style="bold").append(f"  {model['description']}\n")
        if not curve:
            plot.append(f"{' ' * (margin + 2)}no label has a norm\n\n")
            continue
        ranks = np.geomspace(1, curve[-1]["last_rank"], num=width)
        first = np.array([point["first_rank"] for point in curve])
        shown = [curve[i] for i in np.clip(np.searchsorted(first, ranks, side="right") - 1, 0, None)]
        eighths = [max(round(point["mean_norm"] / top * height * 8), 1) for point in shown]
        for row in range(height - 1, -1, -1):
            mark = f"{top:.2f}" if row == height - 1 else f"{0:.2f}" if row == 0 else ""
            plot.append(f"{mark:>{margin}} │", style="dim")
            for point, filled in zip(shown, eighths, strict=True):
                plot.append(EIGHTHS[int(np.clip(filled - row * 8, 0, 8))], style=BAND_COLOURS[band_of(point)])
            plot.append("\n")
        plot.append(f"{'norm':>{margin}} └{'─' * width}\n", style="dim")
        right = f"label {curve[-1]['last_rank']:,}"
        plot.append(f"{' ' * (margin + 2)}label 1{right:>{width - 7}}\n\n", style="dim")
    plot.append(" " * (margin + 2))
    for band in models[0]["bands"]:
        plot.append("█ ", style=BAND_COLOURS[band["name"]]).append(f"{band['name']}: {band['counts']} documents  ")
    return plot.append("\n")


def norms_png(models: Sequence[Mapping[str, Any]], path: Path, *, overwrite: bool) -> None:
    """Norm against rank, and beside it the share of documents that predict a label against its norm, if measured."""
    measured = any(model["top_k"] for model in models)
    figure = new_figure(11.0 if measured else 7.2, 4.4)
    axes = figure.subplots(1, 2 if measured else 1, squeeze=False)[0]
    _draw_curves(axes[0], models)
    if measured:
        _draw_shares(axes[1], models)
    save_figure(figure, path, overwrite)


def _draw_curves(axes: Axes, models: Sequence[Mapping[str, Any]]) -> None:
    for number, model in enumerate(models):
        curve = model["curve"]
        middle = [(point["first_rank"] * point["last_rank"]) ** 0.5 for point in curve]
        axes.plot(middle, [point["mean_norm"] for point in curve], label=_legend(model), **line_style(number))
    axes.set(xscale="log", xlabel="label, most frequent first", ylabel="mean norm of the separators")
    last = max((model["curve"][-1]["last_rank"] for model in models if model["curve"]), default=1)
    axes.set_xlim(1, max(last, 2))
    axes.set_ylim(0, 1.08 * axes.get_ylim()[1])  # room for the names of the bands
    plain_ticks(axes.xaxis)
    axes.set_title("Norm against frequency rank")
    _mark_bands(axes, models[0]["curve"])
    axes.legend(frameon=False, loc="lower left")


def _mark_bands(axes: Axes, curve: Sequence[Mapping[str, Any]]) -> None:
    """Thin lines where the middle and the tail begin, with the names of the bands between them."""
    names = [band_of(point) for point in curve]
    for number, (point, name) in enumerate(zip(curve, names, strict=True)):
        if number == 0 or name != names[number - 1]:
            if number:
                axes.axvline(point["first_rank"], color="0.75", linewidth=0.8, zorder=0)
            axes.annotate(name, (point["first_rank"], 1), (3, -11), xycoords=("data", "axes fraction"),
                          textcoords="offset points", color="0.45", fontsize=8)  # fmt: skip


def _draw_shares(axes: Axes, models: Sequence[Mapping[str, Any]]) -> None:
    from matplotlib.ticker import LogLocator

    for number, model in enumerate(models):
        top = model["top_k"]
        points = [group for group in top["bins"] if group["share"] > 0]  # a logarithmic scale has no 0
        norms, shares = [group["mean_norm"] for group in points], [100 * group["share"] for group in points]
        axes.plot(norms, shares, label=f"{model['name']}: {two_decimals(top['spearman'])}", **line_style(number))
    axes.set(yscale="log", xlabel="norm of the separator (ten groups of labels)", ylabel="mean % of documents")
    low, high = axes.get_ylim()
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 100 * low else (1,)))
    plain_ticks(axes.yaxis)
    axes.set_title(f"How often a label enters the top {models[0]['top_k']['k']}")
    axes.legend(frameon=False, loc="best", title="rank correlation of the two")


def _who(model: Mapping[str, Any]) -> tuple[str, str]:
    return escape(model["name"]), f"[dim]{escape(model['description'])}[/dim]"


def _legend(model: Mapping[str, Any]) -> str:
    name, description = model["name"], model["description"]
    return name if name == description else f"{name} ({description})"
