"""What tables, plots and pictures share: colours, marks, and how a picture is written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from longtail.labels import BAND_EDGES

if TYPE_CHECKING:
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

#: Colours of the frequency bands, rare first, wherever bands are drawn.
BAND_COLOURS = {"unseen": "bright_black", "tail": "green", "middle": "cyan", "head": "blue"}
#: Blocks that fill a character cell from none to eight eighths of its height.
EIGHTHS = " ▁▂▃▄▅▆▇█"

#: Okabe and Ito's colours, which people with any kind of colour vision tell apart; marks differ as well.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
_MARKS = "os^DvPX"
_LINES = ("-", "--", ":")


def plain_table(*headings: str, left: int = 1) -> Table:
    """A table without lines; the first `left` columns are flush left, the others right."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for place, heading in enumerate(headings):
        table.add_column(heading, justify="left" if place < left else "right", no_wrap=True)
    return table


def band_of(point: Mapping[str, Any]) -> str:
    """The frequency band of a point of a curve."""
    low, high = BAND_EDGES
    return "tail" if point["documents"] <= low else "middle" if point["documents"] <= high else "head"


def two_decimals(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def line_style(number: int) -> dict[str, Any]:
    return {
        "color": _COLOURS[number % len(_COLOURS)],
        "marker": _MARKS[number % len(_MARKS)],
        "linestyle": _LINES[number // len(_COLOURS) % len(_LINES)],
        "markersize": 4.5,
        "linewidth": 1.6,
    }


def plain_ticks(axis: Axis) -> None:
    """10 and 1,000 instead of powers, and no numbers between them."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def new_figure(width: float, height: float) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save_figure(figure: Figure, path: Path, overwrite: bool) -> None:
    """Written whole or not at all; without the software's name and version the same figures give the same bytes."""
    from longtail.keep.files import atomic_file

    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    with atomic_file(path, overwrite=overwrite) as handle:
        figure.savefig(handle, format="png", metadata={"Software": None})
