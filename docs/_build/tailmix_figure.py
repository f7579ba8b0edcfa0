"""Draws the idea of TailMix: docs/images/tailmix.png.

    python docs/_build/tailmix_figure.py

Left, the context vectors of one document, one point a label: the rare label, its neighbours in the graph of labels
that occur together, and the mixture with the nearest one that the document does not carry. Right, the document's
targets before and after. The points and names are made up.
"""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from longtail.keep.files import atomic_file

PICTURE = Path(__file__).parent.parent / "images" / "tailmix.png"
#: Okabe and Ito's colours, which people with any kind of colour vision tell apart.
BLUE, ORANGE, GREEN, GREY = "#0072b2", "#d55e00", "#009e73", "#999999"
LAMBDA = 0.7

#: name -> (x, y of its context vector, whether the document carries it, whether it is a neighbour of the target)
LABELS = {
    "coal mining": (0.0, 0.0, True, False),
    "state aid": (1.05, 0.62, True, True),
    "mine closure": (1.35, -0.55, False, True),
    "energy policy": (-1.15, 1.05, False, True),
    "steel": (-1.35, -0.85, False, True),
    "fishing quota": (2.5, 1.3, False, False),
    "vine growing": (-2.3, 0.25, False, False),
}
TARGET, PARTNER = "coal mining", "mine closure"


def draw() -> Figure:
    figure = Figure(figsize=(9.6, 4.4), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    vectors, targets = figure.subplots(1, 2, width_ratios=(1.55, 1))
    _vectors(vectors)
    _targets(targets)
    return figure


def _vectors(axes: Axes) -> None:
    x0, y0, _, _ = LABELS[TARGET]
    for name, (x, y, carried, neighbour) in LABELS.items():
        if neighbour:
            axes.plot([x0, x], [y0, y], color=GREY, linewidth=1, linestyle=":", zorder=1)
        colour = ORANGE if name == TARGET else BLUE if carried else GREY
        axes.scatter(x, y, s=70, color=colour if carried else "white", edgecolors=colour, linewidths=1.6, zorder=3)
        if name not in (TARGET, PARTNER):
            axes.annotate(name, (x, y), (0, 9), textcoords="offset points", ha="center", fontsize=9)
    x1, y1, _, _ = LABELS[PARTNER]
    x, y = LAMBDA * x0 + (1 - LAMBDA) * x1, LAMBDA * y0 + (1 - LAMBDA) * y1
    axes.plot([x0, x1], [y0, y1], color=GREEN, linewidth=2.2, zorder=2)
    axes.scatter(x, y, s=110, marker="*", color=GREEN, zorder=4)
    note = {"textcoords": "offset points", "fontsize": 9, "ha": "center"}
    axes.annotate(f"{TARGET}, $c_{{il}}$\nthe rarest label", (x0, y0), (-62, -5), color=ORANGE, **note)
    axes.annotate(f"{PARTNER}, $c_{{it}}$", (x1, y1), (45, -13), **note)
    nearer = LABELS["state aid"][:2]
    axes.annotate("nearer, but the document\ncarries it already", nearer, (56, -32), color=BLUE, **note)
    axes.annotate(
        r"$\lambda\, c_{il} + (1-\lambda)\, c_{it}$", (x, y), (4, -46), color=GREEN,
        arrowprops={"arrowstyle": "-", "color": GREEN, "linewidth": 0.8}, **note,
    )  # fmt: skip
    for colour, face, text in (
        (BLUE, BLUE, "label of the document"),
        (GREY, "white", "other label"),
    ):
        axes.scatter([], [], s=50, color=face, edgecolors=colour, linewidths=1.6, label=text)
    axes.plot([], [], color=GREY, linestyle=":", label=f"occurs together with {TARGET}")
    axes.legend(loc="lower left", frameon=False, fontsize=8.5)
    axes.set(xlim=(-3.1, 3.3), ylim=(-2.3, 1.95), xticks=[], yticks=[])
    axes.set_title("Context vectors of one document $i$, one per label", fontsize=11)


def _targets(axes: Axes) -> None:
    before = {TARGET: 1.0, "state aid": 1.0, PARTNER: 0.0, "energy policy": 0.0}
    after = before | {TARGET: LAMBDA, PARTNER: 1 - LAMBDA}
    for row, name in enumerate(before):
        axes.barh(row - 0.2, before[name], height=0.34, color=GREY)
        colour = GREEN if before[name] != after[name] else GREY
        axes.barh(row + 0.2, after[name], height=0.34, color=colour)
        changed = {TARGET: r"$\lambda$", PARTNER: r"$1-\lambda$"}.get(name)
        if changed:
            axes.text(after[name] + 0.03, row + 0.2, changed, va="center", fontsize=10, color=GREEN)
    axes.bar_label(axes.containers[0], ["before"], label_type="center", color="white", fontsize=8)
    axes.bar_label(axes.containers[1], ["after"], label_type="center", color="white", fontsize=8)
    axes.set_yticks(range(len(before)), list(before))
    axes.set(xlim=(0, 1.15), xticks=[0, 0.5, 1])
    axes.invert_yaxis()
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title("Its targets $y_i$", fontsize=11)


def main() -> None:
    with atomic_file(PICTURE, overwrite=True) as handle:
        # without the software's name and version the same drawing gives the same bytes
        draw().savefig(handle, format="png", metadata={"Software": None})


if __name__ == "__main__":
    main()
