"""The picture of longtail beside other systems: every name can be read."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from matplotlib.text import Text
from peers_made import common, module, one_run, results, row, systems

pictures = module("render_pictures")
RESULTS = common.RESULTS


def test_names_cover_neither_marks_nor_one_another() -> None:
    rng = np.random.default_rng(0)
    for _ in range(4):
        points = (rng.normal(size=(10, 2)) * 18 + 120).tolist()
        sizes = [(float(width), 10.0) for width in rng.integers(30, 80, size=10)]
        room = pictures.Box(0, 0, 260, 240)
        boxes = pictures.places_of_names(points, sizes, room)
        assert not any(one.meets(other) for one, other in combinations(boxes, 2))
        assert all(room.holds(box) for box in boxes)
        for x, y in points:
            assert not any(box.meets(pictures.Box(x - 4, y - 4, x + 4, y + 4)) for box in boxes)


def test_a_name_stays_beside_its_mark_where_there_is_room() -> None:
    (box,) = pictures.places_of_names([(50.0, 50.0)], [(20.0, 10.0)], pictures.Box(0, 0, 100, 100))
    assert (box.left + box.right) / 2 == 50 and 50 < box.bottom < 60


def test_too_small_a_panel_is_refused() -> None:
    with pytest.raises(ValueError, match="no room"):
        pictures.places_of_names([(5.0, 5.0)], [(20.0, 10.0)], pictures.Box(0, 0, 10, 10))


def test_names_of_marks_in_one_place_are_told_apart() -> None:
    check(results(*(row(system.name, one_run(), corpus="small") for system in systems.SYSTEMS)))


@pytest.mark.skipif(not (RESULTS / "peers.json").exists(), reason="benchmarks/peers.py has not run")
def test_names_in_the_measured_picture_do_not_overlap() -> None:
    check(common.read_json(RESULTS / "peers.json"))


def check(content: dict[str, Any]) -> None:
    figure = pictures.peers_figure(content)
    figure.canvas.draw()
    for axis in figure.axes:
        boxes = [Text.get_window_extent(text) for text in axis.texts]  # without the lines to the marks
        assert len(boxes) == len(axis.collections)
        assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))


def test_the_picture_shows_learners_alone() -> None:
    others = [row(name, one_run()) for name in ("longtail text to names", "longtail train")]
    figure = pictures.peers_figure(results(row("omikuji parabel 1 tree"), *others))
    assert [text.get_text() for axis in figure.axes for text in axis.texts] == ["omikuji parabel ×1"]
