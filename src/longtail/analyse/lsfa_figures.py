"""LSFA's figures as a person sees them: tables in the terminal, and pictures.

Nothing is computed here; everything drawn is in the object that `longtail analyse lsfa --json` prints.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.markup import escape
from rich.table import Table

from longtail.analyse.drawing import line_style, new_figure, plain_table, plain_ticks, save_figure, two_decimals
from longtail.analyse.lsfa import FIGURES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ABLATED = {
    "A": "LSFA",
    "B": "without contrastive loss",
    "C": "nor augmentation",
    "D": "nor attention per label",
}
_SHOWN = ("P@5", "nDCG@5", "PSP@5")
_AGAINST = {"threshold": "documents of a head label (N_t)", "times": "features per tail label (N_a)"}


def lsfa_table(models: Sequence[Mapping[str, Any]]) -> Table:
    """One line per model, by letter of the ablation."""
    table = plain_table("model", "", "", "N_t", "N_a", *FIGURES, "spread", "cosine", left=3)
    for model in sorted(models, key=lambda each: each["letter"] or "Z"):
        found = model["checks"] or {}
        table.add_row(
            escape(model["name"]),
            model["letter"],
            escape(model["description"]),
            *("-" if model[name] is None else str(model[name]) for name in ("threshold", "times")),
            *(two_decimals(model[name]) for name in FIGURES),
            *(two_decimals(found.get(name)) for name in ("spread", "cosine")),
        )
    return table


def bins_table(models: Sequence[Mapping[str, Any]]) -> Table:
    """macro P@5 by bins of labels, a line per model."""
    bins = models[0]["bins"]
    headings = [f"{row['most']}-{row['least']}" for row in bins]
    table = plain_table("macro P@5", *headings)
    for model in models:
        table.add_row(escape(model["name"]), *(two_decimals(row["macro_P@5"]) for row in model["bins"]))
    return table


def lsfa_png(found: Mapping[str, Any], path: Path, *, overwrite: bool) -> None:
    """All panels that there are numbers for, two in a row, and the plane's four in a row of their own each two."""
    draw: list[Callable[[Axes], None]] = []
    if found["distribution"] is not None:
        draw.append(lambda axes: _distribution(axes, found["distribution"]))
    draw.append(lambda axes: _bins(axes, found["models"]))
    if found["ablation"]:
        draw.append(lambda axes: _ablation(axes, found["ablation"]))
    draw += [lambda axes, one=one: _curve(axes, one) for one in found["curves"]]  # type: ignore[misc]
    for one in found["planes"]:
        for kind in ("real", "generated"):
            draw.append(lambda axes, one=one, kind=kind: _plane(axes, one, kind))  # type: ignore[misc]
    rows = -(-len(draw) // 2)
    figure = new_figure(11.0, 3.9 * rows)
    panels = figure.subplots(rows, 2, squeeze=False).ravel()
    for axes, one in zip(panels, draw, strict=False):
        one(axes)
    for axes in panels[len(draw) :]:
        axes.set_visible(False)
    save_figure(figure, path, overwrite)


def _distribution(axes: Axes, found: Mapping[str, Any]) -> None:
    ranks = [point["rank"] for point in found["points"]]
    names = {"sample_level": "sample level", "pair_level": "pair level (LSFA)", "original": "original"}
    for number, (key, name) in enumerate(names.items()):
        style = {**line_style(number), "marker": ""}
        axes.plot(ranks, [point[key] for point in found["points"]], label=name, **style)
    axes.set(xscale="log", yscale="log", xlabel="label, most frequent first", ylabel="examples")
    plain_ticks(axes.xaxis)
    plain_ticks(axes.yaxis)
    axes.set_title(f"Labels and their examples (N_t {found['N_t']}, N_a {found['N_a']})", fontsize=11)
    axes.legend(frameon=False, fontsize=8)


def _bins(axes: Axes, models: Sequence[Mapping[str, Any]]) -> None:
    width = 0.8 / len(models)
    for number, model in enumerate(models):
        values = [np.nan if row["macro_P@5"] is None else row["macro_P@5"] for row in model["bins"]]
        places = np.arange(len(values)) + (number - (len(models) - 1) / 2) * width
        axes.bar(places, values, width, label=model["name"], color=line_style(number)["color"])
    bins = models[0]["bins"]
    axes.set_xticks(range(len(bins)), [f"{row['most']}-{row['least']}" for row in bins], fontsize=7, rotation=30)
    axes.set(xlabel=f"documents of {bins[0]['labels']} labels, most frequent first", ylabel="macro P@5, %")
    axes.set_title("By frequency of labels", fontsize=11)
    axes.legend(frameon=False, fontsize=8)


def _ablation(axes: Axes, rows: Sequence[Mapping[str, Any]]) -> None:
    width = 0.8 / len(rows)
    for number, row in enumerate(rows):
        values = [np.nan if row[name] is None else row[name] for name in _SHOWN]
        places = np.arange(len(_SHOWN)) + (number - (len(rows) - 1) / 2) * width
        label = f"{row['letter']}  {_ABLATED[row['letter']]}"
        axes.bar(places, values, width, label=label, color=line_style(number)["color"])
    known = [row[name] for row in rows for name in _SHOWN if row[name] is not None]
    low, high = min(known, default=0.0), max(known, default=1.0)
    axes.set_ylim(max(0.0, low - 0.3 * (high - low + 1)), high + 0.3 * (high - low + 1))
    axes.set_xticks(range(len(_SHOWN)), _SHOWN)
    axes.set(ylabel="%")
    axes.set_title("Ablation", fontsize=11)
    axes.legend(frameon=False, fontsize=8, ncols=2)


def _curve(axes: Axes, one: Mapping[str, Any]) -> None:
    against = one["against"]
    places = range(len(one["points"]))
    for number, name in enumerate(_SHOWN):
        values = [np.nan if point[name] is None else point[name] for point in one["points"]]
        axes.plot(places, values, label=name, **line_style(number))
    axes.set_xticks(places, [f"{point[against]:,}" for point in one["points"]])
    axes.set(xlabel=_AGAINST[against], ylabel="%")
    axes.set_title(one["description"], fontsize=11)
    axes.legend(frameon=False, fontsize=8, ncols=3)


def _plane(axes: Axes, one: Mapping[str, Any], kind: str) -> None:
    """Real features as full dots; made-up ones pale, over the real ones."""
    for place, label in enumerate(one["labels"]):
        for shown, alpha in (("real", 0.9), ("generated", 0.3)):
            if shown == "generated" and kind == "real":
                continue
            points = [point for point in one[shown] if point["label"] == place]
            name = f"{label['label']} ({label['documents']})"[:40] if shown == "real" else None
            axes.scatter([p["x"] for p in points], [p["y"] for p in points], s=14, alpha=alpha, linewidths=0,
                         color=line_style(place)["color"], label=name)  # fmt: skip
    axes.set_xticks([])
    axes.set_yticks([])
    loss = "with" if one["contrastive"] else "without"
    axes.set_title(f"{'Features' if kind == 'real' else 'With made-up ones'}, {loss} contrastive loss", fontsize=11)
    axes.legend(frameon=False, fontsize=7)
