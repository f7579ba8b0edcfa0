"""The curves over Taug's two scales as a person sees them: tables and bars in the terminal, and pictures.

Nothing is computed here; everything drawn is in the objects that `longtail analyse taug --json` prints.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from longtail.analyse.drawing import line_style, new_figure, plain_table, save_figure, two_decimals

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Panels of the pictures against n_aug and tau: heading and figures.
_PANELS = {
    "PSP@k: rare labels count more": ("PSP@1", "PSP@3", "PSP@5"),
    "P@k: all labels count the same": ("P@1", "P@3", "P@5"),
    "recall@5 of the tail": ("tail_recall@5",),
}
#: Points of per cent that a panel spans at least.
_LEAST_RANGE = 4.0
_AGAINST = {"n_aug": "noisy copies of each tail document (n_aug)", "tau": "share of labels in the head (tau)"}


def taug_table(models: Sequence[Mapping[str, Any]]) -> Table:
    """One line per model, by copies and head's share."""
    figures = [figure for names in _PANELS.values() for figure in names]
    table = plain_table("model", "learner", "n_aug", "tau", *(name.replace("_", " ") for name in figures), left=2)
    for model in sorted(models, key=lambda m: (m["n_aug"], m["decoupled"], m["tau"] or 0)):
        learner = ", ".join([model["learner"], *model["rerank"]])
        tau = "-" if model["tau"] is None else f"{model['tau']:g}"
        cells = [two_decimals(model[figure]) for figure in figures]
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
    figure = new_figure(11.0, 3.6 * len(slices))
    figure.get_layout_engine().set(h_pad=0.12)  # type: ignore[union-attr, call-arg]
    rows = figure.subplots(len(slices), len(_PANELS), squeeze=False)
    for row, one in zip(rows, slices, strict=True):
        for axes, heading in zip(row, _PANELS, strict=True):
            _draw_panel(axes, heading, one)
        row[0].annotate(
            one["fixed"], (0, 1), (0, 26), xycoords="axes fraction", textcoords="offset points", weight="bold"
        )
    save_figure(figure, path, overwrite)


def _draw_panel(axes: Axes, heading: str, one: Mapping[str, Any]) -> None:
    """The curves of one slice for the figures of one panel."""
    against, points, figures = one["against"], one["points"], _PANELS[heading]
    # places side by side as in the paper: 0, 1, 4, 8 or 0.01 ... 0.05, 1 are not evenly spaced
    places = range(len(points))
    for number, name in enumerate(figures):
        values = [np.nan if point[name] is None else point[name] for point in points]
        axes.plot(places, values, label=name.replace("_", " "), **line_style(number))
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
