"""How often each label occurs: the long tail, drawn in the terminal and as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from longtail.analyse.drawing import BAND_COLOURS, EIGHTHS, new_figure, save_figure
from longtail.labels import LabelIndex

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.text import Text

    from longtail.describe import PropensityFacts

#: The same colours on paper.
_PAPER = {"tail": "#2a9d5c", "middle": "#2a9db0", "head": "#2b5fb3"}


def frequency_plot(labels: LabelIndex, *, width: int = 64, height: int = 10) -> Text:
    """Columns are labels from the most to the least frequent, both scales logarithmic, bands in colours."""
    from rich.text import Text

    counts = np.sort(labels.frequency[labels.frequency > 0])[::-1]
    plot = Text()
    if not len(counts):
        return plot.append("no label has a document\n")
    # every column of the screen shows one rank, the same one twice where there are few labels
    ranks = np.geomspace(1, len(counts), num=width).round().astype(np.int64)
    shown = counts[ranks - 1]
    bands = labels.bands()
    top = np.log1p(float(counts[0]))
    eighths = np.maximum(np.rint(np.log1p(shown) / top * height * 8), 1).astype(int)
    row_of_one = int(np.ceil(np.log1p(1.0) / top * height)) - 1
    margin = max(len(f"{counts[0]:,}"), 9)
    for row in range(height - 1, -1, -1):
        mark = f"{counts[0]:,}" if row == height - 1 else "1" if row == row_of_one else ""
        plot.append(f"{mark:>{margin}} │", style="dim")
        for count, filled in zip(shown.tolist(), eighths.tolist(), strict=True):
            block = EIGHTHS[int(np.clip(filled - row * 8, 0, 8))]
            name = next(b.name for b in bands if b.low <= count and (b.high is None or count <= b.high))
            plot.append(block, style=BAND_COLOURS[name])
        plot.append("\n")
    plot.append(f"{'documents':>{margin}} └{'─' * width}\n", style="dim")
    left, right = "label 1", f"label {len(counts):,}"
    plot.append(f"{' ' * (margin + 2)}{left}{right:>{width - len(left)}}\n", style="dim")
    for band in reversed([band for band in bands if band.low > 0]):
        share = band.members.sum() / len(counts)
        plot.append(f"{' ' * (margin + 2)}█ ", style=BAND_COLOURS[band.name])
        plot.append(f"{band.name}: {band.members.sum():,} labels with {band.range} documents ({share:.0%})\n")
    return plot


def frequency_png(labels: LabelIndex, rare: PropensityFacts | None, path: Path, *, title: str, overwrite: bool) -> None:
    """The same as a picture, and how inverse propensities are distributed; written whole or not at all."""
    figure = new_figure(11.0, 4.2)
    axes, beside = figure.subplots(1, 2)
    _propensities(beside, rare)
    counts = np.sort(labels.frequency)[::-1]
    ranks = np.arange(1, len(counts) + 1)
    for band in labels.bands():
        if band.low == 0 or not band.members.any():
            continue
        inside = (counts >= band.low) & (counts <= (np.inf if band.high is None else band.high))
        legend = f"{band.name}: {inside.sum():,} labels with {band.range} documents"
        axes.fill_between(ranks[inside], 0.5, counts[inside], step="mid", alpha=0.85, label=legend,
                          color=_PAPER.get(band.name), linewidth=0)  # fmt: skip
    axes.set(xscale="log", yscale="log", xlabel="label, most frequent first", ylabel="documents")
    axes.set_ylim(bottom=0.5)
    axes.set_title(title)
    handles, names = axes.get_legend_handles_labels()
    axes.legend(handles[::-1], names[::-1], frameon=False)
    save_figure(figure, path, overwrite)


def _propensities(axes: Axes, rare: PropensityFacts | None) -> None:
    """Labels by inverse propensity (TailMix's figure 2)."""
    if rare is None:
        axes.set_visible(False)
        return
    edges = np.linspace(rare.least, max(rare.most, rare.least + 1e-3), len(rare.histogram) + 1)
    axes.stairs(rare.histogram, edges, fill=True, color=_PAPER["middle"], alpha=0.85)
    axes.set(xlabel=f"inverse propensity 1/p (A {rare.A:g}, B {rare.B:g})", ylabel="labels")
