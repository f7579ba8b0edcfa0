"""`longtail analyse` as a person sees it: tables and plots in the terminal, and pictures.

Nothing is computed here; everything drawn is in the objects that `--json` prints.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from longtail.labels import BAND_EDGES
from longtail.report.tables import BAND_COLOURS, plain_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

#: Okabe and Ito's colours, which people with any kind of colour vision tell apart; marks differ as well.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
_MARKS = "os^DvPX"
_LINES = ("-", "--", ":")

_EIGHTHS = " ▁▂▃▄▅▆▇█"
_BANDS = ("head", "middle", "tail")
#: Panels of the pictures against n_aug and tau: heading and figures.
_PANELS = {
    "PSP@k: rare labels count more": ("PSP@1", "PSP@3", "PSP@5"),
    "P@k: all labels count the same": ("P@1", "P@3", "P@5"),
    "recall@5 of the tail": ("tail_recall@5",),
}


# norms
def norms_table(models: Sequence[Mapping[str, Any]]) -> Table:
    """One model a line: mean norm by frequency band."""
    table = plain_table("mean norm", "", *_BANDS, "tail / head", left=2)
    for model in models:
        norm = {band["name"]: band["mean_norm"] for band in model["bands"]}
        ratio = norm["tail"] / norm["head"] if norm["tail"] is not None and norm["head"] else None
        table.add_row(*_who(model), *(_number(value) for value in [*norm.values(), ratio]))
    return table


def correlation_table(models: Sequence[Mapping[str, Any]]) -> Table:
    """One model a line: how norms go with frequency and, if measured, with predictions, also within each band."""
    tops = [model["top_k"] for model in models if model["top_k"] is not None]
    headings = ["rank correlation", "", "frequency"]
    if tops:
        headings += [f"top {tops[0]['k']}", *(f"within {band}" for band in _BANDS)]
    table = plain_table(*headings, left=2)
    for model in models:
        values = [model["spearman_frequency"]]
        if model["top_k"] is not None:
            values += [model["top_k"]["spearman"], *(model["top_k"]["spearman_within"][band] for band in _BANDS)]
        table.add_row(*_who(model), *map(_number, values))
    return table


def norms_plot(models: Sequence[Mapping[str, Any]], *, width: int = 64) -> Text:
    """One plot a model on one scale: columns are labels by frequency rank (logarithmic), heights mean norms."""
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
                plot.append(_EIGHTHS[int(np.clip(filled - row * 8, 0, 8))], style=BAND_COLOURS[_band(point)])
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
    figure = _figure(11.0 if measured else 7.2, 4.4)
    axes = figure.subplots(1, 2 if measured else 1, squeeze=False)[0]
    _draw_curves(axes[0], models)
    if measured:
        _draw_shares(axes[1], models)
    _save(figure, path, overwrite)


def _draw_curves(axes: Axes, models: Sequence[Mapping[str, Any]]) -> None:
    for number, model in enumerate(models):
        curve = model["curve"]
        middle = [(point["first_rank"] * point["last_rank"]) ** 0.5 for point in curve]
        axes.plot(middle, [point["mean_norm"] for point in curve], label=_legend(model), **_style(number))
    axes.set(xscale="log", xlabel="label, most frequent first", ylabel="mean norm of the separators")
    last = max((model["curve"][-1]["last_rank"] for model in models if model["curve"]), default=1)
    axes.set_xlim(1, max(last, 2))
    axes.set_ylim(0, 1.08 * axes.get_ylim()[1])  # room for the names of the bands
    _plain_ticks(axes.xaxis)
    axes.set_title("Norm against frequency rank")
    _mark_bands(axes, models[0]["curve"])
    axes.legend(frameon=False, loc="lower left")


def _mark_bands(axes: Axes, curve: Sequence[Mapping[str, Any]]) -> None:
    """Thin lines where the middle and the tail begin, with the names of the bands between them."""
    names = [_band(point) for point in curve]
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
        axes.plot(norms, shares, label=f"{model['name']}: {_number(top['spearman'])}", **_style(number))
    axes.set(yscale="log", xlabel="norm of the separator (ten groups of labels)", ylabel="mean % of documents")
    low, high = axes.get_ylim()
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 100 * low else (1,)))
    _plain_ticks(axes.yaxis)
    axes.set_title(f"How often a label enters the top {models[0]['top_k']['k']}")
    axes.legend(frameon=False, loc="best", title="rank correlation of the two")


# taug
def taug_table(models: Sequence[Mapping[str, Any]]) -> Table:
    """One model a line, by copies and head's share."""
    figures = [figure for names in _PANELS.values() for figure in names]
    table = plain_table("model", "learner", "n_aug", "tau", *(name.replace("_", " ") for name in figures), left=2)
    for model in sorted(models, key=lambda m: (m["n_aug"], m["decoupled"], m["tau"] or 0)):
        learner = ", ".join([model["learner"], *model["rerank"]])
        tau = "-" if model["tau"] is None else f"{model['tau']:g}"
        cells = [_number(model[figure]) for figure in figures]
        table.add_row(escape(model["name"]), escape(learner), str(model["n_aug"]), tau, *cells)
    return table


def taug_plot(slices: Sequence[Mapping[str, Any]], *, half: int = 24) -> Text:
    """Bars of what each step changes, in points, against the step nearest to the plain model: better to the right."""
    plot = Text()
    shown = [figure for names in _PANELS.values() for figure in names if figure not in {"P@3", "PSP@3"}]
    for one in slices:
        against = one["against"]
        # no copies, or every label in the head
        start, *steps = one["points"] if against == "n_aug" else reversed(one["points"])
        plot.append(f"change against {against} {start[against]:g}", style="bold").append(f"  {one['fixed']}\n")
        changes = {
            (figure, step[against]): step[figure] - start[figure]
            for figure in shown
            for step in steps
            if step[figure] is not None and start[figure] is not None
        }
        most = max((abs(change) for change in changes.values()), default=0.0) or 1.0
        before = ""
        for (figure, value), change in changes.items():
            name = figure.replace("_", " ") if figure != before else ""
            before = figure
            length = round(abs(change) / most * half)
            plot.append(f"  {name:<13} {value:>6g} ", style="dim")
            plot.append(f"{('█' * length if change < 0 else ''):>{half}}", style="red").append("│", style="dim")
            plot.append("█" * length if change > 0 else "", style="green").append(f" {change:+.2f}\n")
        plot.append("\n")
    return plot


def taug_png(slices: Sequence[Mapping[str, Any]], path: Path, *, overwrite: bool) -> None:
    """A row for every slice: PSP, P and the tail's recall against the number of copies or the head's share."""
    figure = _figure(11.0, 3.6 * len(slices))
    figure.get_layout_engine().set(h_pad=0.12)  # type: ignore[union-attr, call-arg]
    rows = figure.subplots(len(slices), len(_PANELS), squeeze=False)
    for row, one in zip(rows, slices, strict=True):
        against, points = one["against"], one["points"]
        # places side by side as in the paper: 0, 1, 4, 8 or 0.01 ... 0.05, 1 are not evenly spaced
        places = range(len(points))
        for axes, (heading, figures) in zip(row, _PANELS.items(), strict=True):
            for number, name in enumerate(figures):
                values = [np.nan if point[name] is None else point[name] for point in points]
                axes.plot(places, values, label=name.replace("_", " "), **_style(number))
            axes.set_xticks(places, [f"{point[against]:g}" for point in points])
            axes.set(xlabel=_AGAINST[against], ylabel="%")
            axes.set_title(heading, fontsize=11)
            axes.margins(x=0.08, y=0.1)
            low, high = axes.get_ylim()
            missing = max(0.0, _LEAST_RANGE - (high - low))  # noise must not look like a trend
            low, high = low - missing / 2, high + missing / 2
            axes.set_ylim(low, high + 0.12 * (high - low))  # room for the legend
            if len(figures) > 1:
                axes.legend(frameon=False, ncols=3, fontsize=8, loc="upper center")
        row[0].annotate(
            one["fixed"], (0, 1), (0, 26), xycoords="axes fraction", textcoords="offset points", weight="bold"
        )
    _save(figure, path, overwrite)


#: Points of per cent that a panel spans at the least.
_LEAST_RANGE = 4.0
_AGAINST = {"n_aug": "noisy copies of each tail document (n_aug)", "tau": "share of labels in the head (tau)"}


# shared
def _band(point: Mapping[str, Any]) -> str:
    """The frequency band of a point of a curve."""
    low, high = BAND_EDGES
    return "tail" if point["documents"] <= low else "middle" if point["documents"] <= high else "head"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _who(model: Mapping[str, Any]) -> tuple[str, str]:
    return escape(model["name"]), f"[dim]{escape(model['description'])}[/dim]"


def _legend(model: Mapping[str, Any]) -> str:
    name, description = model["name"], model["description"]
    return name if name == description else f"{name} ({description})"


def _style(number: int) -> dict[str, Any]:
    return {
        "color": _COLOURS[number % len(_COLOURS)],
        "marker": _MARKS[number % len(_MARKS)],
        "linestyle": _LINES[number // len(_COLOURS) % len(_LINES)],
        "markersize": 4.5,
        "linewidth": 1.6,
    }


def _plain_ticks(axis: Axis) -> None:
    """10 and 1,000 instead of powers, and no numbers between them."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def _figure(width: float, height: float) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _save(figure: Figure, path: Path, overwrite: bool) -> None:
    """Written whole or not at all; without the software's name and version the same figures give the same bytes."""
    from longtail.keep.files import atomic_file

    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    with atomic_file(path, overwrite=overwrite) as handle:
        figure.savefig(handle, format="png", metadata={"Software": None})
