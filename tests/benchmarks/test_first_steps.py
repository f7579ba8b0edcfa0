"""What docs/start.md shows of the commands' output."""

from __future__ import annotations

import csv
import gzip
import json
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

import first_steps
import render_first_steps

EVALUATED = """Never seen in training: 1 of 2 labels
The most frequent of them: a

Without labels never seen in training, 3 documents:
%     @1
P     50
nDCG  40

With labels never seen in training as misses, 4 documents:
%     @1
P     25

band  per label
tail  1-5
"""


def results(**printed: str) -> dict[str, Any]:
    steps = {name: {"command": first_steps.STEPS[name], "printed": text} for name, text in printed.items()}
    return {"steps": steps}


def test_lines_between_those_shown_are_an_ellipsis_and_the_second_convention_is_left_out() -> None:
    assert render_first_steps.shown("evaluate", results(evaluate=EVALUATED)).split("\n") == [
        "```",
        "$ longtail evaluate model/ books/",
        "Never seen in training: 1 of 2 labels",
        "...",
        "Without labels never seen in training, 3 documents:",
        "%     @1",
        "P     50",
        "...",
        "band  per label",
        "tail  1-5",
        "```",
    ]


def test_a_prediction_is_the_line_that_was_printed_broken_after_each_label() -> None:
    line = '{"id":"0","labels":[{"label":"A","score":0.5},{"label":"Ä","score":0.25}]}'
    shown = render_first_steps.predicted(results(predict=line + "\n")).split("\n")
    assert "".join(part.strip() for part in shown[2:-1]) == line


def test_books_are_what_a_catalogue_looks_like(tmp_path: Path) -> None:
    source = tmp_path / first_steps.CORPUS
    source.mkdir()
    record = {"id": 7, "text": 'The "Whale"', "labels": ["Whaling -- Fiction", "Sea stories"]}
    with gzip.open(source / "train.jsonl.gz", "wt", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")
    first_steps.books(tmp_path, tmp_path / "books.csv")
    with (tmp_path / "books.csv").open(encoding="utf-8", newline="") as made:
        assert list(csv.DictReader(made)) == [
            {"id": "7", "title": 'The "Whale"', "subjects": "Whaling -- Fiction; Sea stories"}
        ]
