"""The pictures of README.md and docs, drawn from results; `render.py` puts them in their places."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from io import BytesIO
from itertools import product
from typing import Any, NamedTuple

from render_quality import Results

OURS, THEIRS = "#0072B2", "#606060"
#: Points between a mark and its name, the nearest first; farther ones get a line.
_AWAY = (8, 13, 20, 28, 36, 48, 60, 75, 90)
_SIDES = ((0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1))
_MARK = 5.0  # half a mark's width in points
_COLUMNS = 3

Point = Sequence[float]


class Box(NamedTuple):
    """A rectangle on the canvas."""

    left: float
    bottom: float
    right: float
    top: float

    def meets(self, other: Box) -> bool:
        return not (
            self.right <= other.left or other.right <= self.left or self.top <= other.bottom or other.top <= self.bottom
        )

    def holds(self, other: Box) -> bool:
        return (
            self.left <= other.left
            and self.bottom <= other.bottom
            and other.right <= self.right
            and other.top <= self.top
        )


def peers_picture(results: Results) -> bytes | None:
    """Training seconds against PSP@5, one panel per corpus of texts: up and to the left is better; None without any."""
    drawn = peers_figure(results)
    return None if drawn is None else png(drawn)


def peers_figure(results: Results) -> Any | None:
    corpora: dict[str, list[dict[str, Any]]] = {}
    for row in results["rows"]:
        learner = row["peer"] not in ("tagger", "command")  # from matrices, as the other systems
        shown = learner and "failed" not in row and row["part"] == 1 and not row["matched"]
        if shown and not row["corpus"].startswith("synthetic"):
            corpora.setdefault(row["corpus"], []).append(row)
    if not corpora:
        return None
    lines = -(-len(corpora) // _COLUMNS)
    columns = -(-len(corpora) // lines)
    figure, axes = panels(lines, columns, (3.4 * columns, 3.3 * lines + 0.4))
    for axis in axes[len(corpora) :]:
        axis.set_visible(False)
    for axis, (corpus, rows) in zip(axes, corpora.items(), strict=False):
        _peers_panel(axis, corpus, rows)
    figure.suptitle(
        "longtail (blue) and other systems (grey), ×3 is three trees:\nup and to the left is better", fontsize=12
    )
    figure.tight_layout()
    for axis, rows in zip(axes, corpora.values(), strict=False):
        marks = [(row["train_s"], row["metrics"]["PSP@5"]) for row in rows]
        _name_marks(axis, marks, [_short(row["system"]) for row in rows], [_colour(row) for row in rows])
    return figure


def _peers_panel(axis: Any, corpus: str, rows: list[dict[str, Any]]) -> None:
    from matplotlib.ticker import FixedLocator, FormatStrFormatter, NullLocator

    for row in rows:
        ours = row["peer"] == "longtail"
        axis.scatter(
            row["train_s"], row["metrics"]["PSP@5"], s=55, zorder=3,
            color=OURS if ours else "#B0B0B0", marker="o" if ours else "s",
        )  # fmt: skip
    axis.set_xscale("log")
    low, high = axis.get_xlim()
    axis.set_xlim(low / 1.7, high * 1.7)
    axis.margins(y=0.14)
    axis.xaxis.set_major_locator(FixedLocator([1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]))
    axis.xaxis.set_major_formatter(FormatStrFormatter("%g"))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.set_title(corpus, fontsize=10.5)
    axis.set_xlabel("training seconds, 2 cores", fontsize=9)
    axis.set_ylabel("PSP@5 (rare labels count more)", fontsize=9)
    axis.tick_params(labelsize=8)
    axis.grid(alpha=0.25)


def _short(system: str) -> str:
    """A system's name as the picture has it, as in bonsai ×3."""
    return re.sub(r" (\d+) trees?$", r" ×\1", system.removeprefix("longtail ").removesuffix(" (16-way)"))


def _colour(row: dict[str, Any]) -> str:
    return OURS if row["peer"] == "longtail" else THEIRS


def _name_marks(axis: Any, marks: list[tuple[float, float]], names: list[str], colours: list[str]) -> None:
    """Writes a name beside each mark, where it covers neither a mark nor another name."""
    points = axis.transData.transform(marks) * 72 / axis.figure.dpi
    frame = axis.get_window_extent()
    room = Box(*(side * 72 / axis.figure.dpi for side in (frame.x0, frame.y0, frame.x1, frame.y1)))
    texts = [axis.annotate(name, mark, fontsize=8.5) for name, mark in zip(names, marks, strict=True)]
    extents = [text.get_window_extent() for text in texts]
    sizes = [(each.width * 72 / axis.figure.dpi, each.height * 72 / axis.figure.dpi) for each in extents]
    for text in texts:
        text.remove()
    places = places_of_names(points, sizes, room)
    for mark, name, colour, (x, y), box in zip(marks, names, colours, points, places, strict=True):
        middle = ((box.left + box.right) / 2 - x, (box.bottom + box.top) / 2 - y)
        line = {"arrowstyle": "-", "color": colour, "linewidth": 0.6, "shrinkA": 0, "shrinkB": _MARK}
        axis.annotate(
            name, mark, xytext=middle, textcoords="offset points", fontsize=8.5, ha="center", va="center",
            color=colour, zorder=4, arrowprops=line if _line((x, y), box) else None,
        )  # fmt: skip


def places_of_names(points: Sequence[Point], sizes: Sequence[tuple[float, float]], room: Box) -> list[Box]:
    """Where names of these sizes stand beside their points, without covering points or one another.

    Names take the nearest free place in turn; of several orders the one counts whose names end up nearest. Lines from
    marks to names are left free as well, unless there is no room for that.
    """
    numbers = range(len(points))
    orders = [[*numbers[first:], *numbers[:first]][::step] for first in numbers for step in (1, -1)]
    for line in (_line, _no_line):
        found = [placed for order in orders if (placed := _placed(order, points, sizes, room, line))]
        if found:
            return min(found, key=lambda boxes: sum(map(_gap, points, boxes)))
    raise ValueError("there is no room for all names: draw the panel larger")


def _placed(
    order: list[int],
    points: Sequence[Point],
    sizes: Sequence[tuple[float, float]],
    room: Box,
    line: Callable[[Point, Box], list[Box]],
) -> list[Box] | None:
    """A place for every name in this order; a name that finds none goes first in the next attempt."""
    marks = [Box(x - _MARK, y - _MARK, x + _MARK, y + _MARK) for x, y in points]
    for _ in range(len(order) + 1):
        names: dict[int, Box] = {}
        lines: list[Box] = []
        for which in order:
            taken = [*marks, *names.values(), *lines]
            free = (
                box
                for box in _candidates(points[which], sizes[which])
                if room.holds(box)
                and not any(box.meets(other) for other in taken)
                and not any(piece.meets(name) for piece in line(points[which], box) for name in names.values())
            )
            place = next(free, None)
            if place is None:
                order = [which, *(other for other in order if other != which)]
                break
            names[which] = place
            lines += line(points[which], place)
        else:
            return [names[which] for which in range(len(points))]
    return None


def _no_line(point: Point, box: Box) -> list[Box]:
    return []


def _candidates(point: Point, size: tuple[float, float]) -> Iterable[Box]:
    (x, y), (width, height) = point, size
    for away, (right, up) in product(_AWAY, _SIDES):
        # diagonally a name begins nearly above or below its mark
        middle = x + right * (away + width / 2) * (0.75 if up else 1)
        level = y + up * (away + height / 2)
        yield Box(middle - width / 2, level - height / 2, middle + width / 2, level + height / 2)


def _gap(point: Point, box: Box) -> float:
    x, y = point
    return max(box.left - x, x - box.right, box.bottom - y, y - box.top)


def _line(point: Point, box: Box) -> list[Box]:
    """The line from a mark to a name that stands away from it, in pieces; none for a name beside its mark."""
    if _gap(point, box) <= 2 * _MARK:
        return []
    x, y = point
    middle, level = (box.left + box.right) / 2, (box.bottom + box.top) / 2
    pieces = ((x + (middle - x) * t / 12, y + (level - y) * t / 12) for t in range(2, 12))
    return [Box(left - 1, bottom - 1, left + 1, bottom + 1) for left, bottom in pieces]


def panels(lines: int, columns: int, size: tuple[float, float]) -> tuple[Any, list[Any]]:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(lines, columns, figsize=size, squeeze=False)
    return figure, list(axes.flat)


def png(figure: Any) -> bytes:
    """The same bytes every time: no date in the file."""
    from matplotlib import pyplot as plt

    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=130, metadata={"Software": None})
    plt.close(figure)
    return buffer.getvalue()
