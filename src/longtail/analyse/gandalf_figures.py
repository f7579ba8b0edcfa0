"""Gandalf's figures 2 and 4 as a person sees them: tables in the terminal, and a picture.

Nothing is computed here; everything drawn is in the object that `longtail analyse gandalf --json` prints.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table

from longtail.analyse.drawing import line_style, new_figure, plain_table, save_figure, two_decimals
from longtail.analyse.gandalf import BINS, KINDS

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def epochs_table(trained: Sequence[Mapping[str, Any]]) -> Table:
    """P@1 after the last epoch, and the best of any, a line per training."""
    table = plain_table("augmenter", "epochs", "steps", "train P@1", "test P@1", "best test P@1")
    for one in trained:
        last = one["points"][-1]
        best = max(point["test_P@1"] for point in one["points"])
        table.add_row(
            one["name"], str(len(one["points"])), f"{one['steps']:,}",
            *(two_decimals(value) for value in (last["train_P@1"], last["test_P@1"], best)),
        )  # fmt: skip
    return table


def cosines_table(trained: Sequence[Mapping[str, Any]]) -> Table:
    """Median cosines, a line per kind and a column per training."""
    table = plain_table("median cosine with", *(one["name"] for one in trained))
    for kind in KINDS:
        found = [one["cosines"][kind]["quartiles"] for one in trained]
        table.add_row(kind, *(two_decimals(None if each is None else each[1]) for each in found))
    return table


def gandalf_png(found: Mapping[str, Any], path: Path, *, overwrite: bool) -> None:
    """Training and test P@1 by epoch above, cosines below: of the plain network, and with LabelMix where trained."""
    trained = found["trained"]
    figure = new_figure(11.0, 7.8)
    panels = figure.subplots(2, 2).ravel()
    for axes, part in zip(panels, ("train", "test"), strict=False):
        for number, one in enumerate(trained):
            points = one["points"]
            axes.plot([p["epoch"] for p in points], [p[f"{part}_P@1"] for p in points], label=one["name"],
                      **line_style(number))  # fmt: skip
        axes.set(xlabel="epoch", ylabel=f"{part} P@1", title=f"P@1 on {part} documents by epoch")
        axes.legend(frameon=False)
    _cosines(panels[2], trained[0])
    other = next((one for one in trained if one["augment"] == "labelmix"), None)
    if other is None or other is trained[0]:
        panels[3].set_visible(False)
    else:
        _cosines(panels[3], other)
    save_figure(figure, path, overwrite)


def _cosines(axes: Axes, one: Mapping[str, Any]) -> None:
    centres = np.linspace(-1, 1, 2 * BINS + 1)[1::2]
    for number, kind in enumerate(KINDS):
        summary = one["cosines"][kind]
        if summary["count"]:
            share = np.array(summary["histogram"]) / summary["count"]
            axes.plot(centres, share, label=kind, **{**line_style(number), "marker": ""})
    axes.set(xlabel="cosine with the document", ylabel="share of documents", title=f"cosines, {one['name']}")
    axes.legend(frameon=False)
