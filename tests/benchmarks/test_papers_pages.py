"""docs/papers: the pages are what the script makes of results and published figures, and every command exists."""

from __future__ import annotations

import fnmatch
import re
import shlex
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import typer.main

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

import papers
import render
import render_papers
from common import RESULTS
from longtail.cli import app
from longtail.registry import entries

DOCS = Path(__file__).resolve().parents[2] / "docs"
SOURCES = render_papers.sources()
ITEMS = [
    pytest.param(item, id=f"{name}, {item['item']}") for name, source in SOURCES.items() for item in source["items"]
]
CLI: Any = typer.main.get_command(app)


def test_the_pages_are_what_the_script_makes() -> None:
    made = render_papers.pages(render.load_results(RESULTS))
    assert {file.name for file in (DOCS / "papers").glob("*.md")} == set(made)
    for name, text in made.items():
        page = (DOCS / "papers" / name).read_text(encoding="utf-8")
        assert page == render.wrapped(text), "run: python benchmarks/render.py"


def test_five_papers_and_all_of_their_tables() -> None:
    counted = {
        name: (
            sum(i["item"].startswith("Table") for i in s["items"]),
            sum(i["item"].startswith("Fig") for i in s["items"]),
        )
        for name, s in SOURCES.items()
    }
    assert counted == {
        "gandalf-labelmix": (4, 5), "lsfa": (5, 6), "ranknet-taug": (6, 5), "tailmix": (4, 2), "xda": (3, 2),
    }  # fmt: skip


@pytest.mark.parametrize("item", ITEMS)
def test_an_item_has_a_command_and_a_row_as_well(item: dict[str, Any]) -> None:
    assert item.get("commands") or item.get("command")
    rows = item.get("rows", [])
    assert len({row["row"] for row in rows}) == len(rows)
    for row in rows:
        assert render_papers.command_of(row, item)
        for name, values in row.items():
            if name not in render_papers.NO_CORPUS:
                assert len(values) == len(item["figures"])
                assert all(value == "-" or 0 < value < 100 for value in values)
    for low, high in item.get("gains", []):
        assert {low, high} <= {row["row"] for row in rows}


def commands() -> list[str]:
    """All commands of the pages, in blocks and in cells."""
    found = []
    for file in sorted((DOCS / "papers").glob("*.md")):
        text = file.read_text(encoding="utf-8")
        for block in re.findall(r"```\n(.*?)```", text, re.DOTALL):
            found += block.strip().splitlines()
        found += re.findall(r"`((?:longtail|python) [^`]+)`", text)
    return list(dict.fromkeys(line for line in found if not line.startswith("longtail evaluate --json")))


def check_longtail(words: list[str]) -> None:
    command = CLI
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
    assert not hasattr(command, "commands"), f"{words} is no command"
    known = {option for parameter in command.params for option in parameter.opts}
    given = [word for word in words if word.startswith("-")]
    assert set(given) <= known, set(given) - known
    for option, value in pairwise(words):
        if option == "--recipe":
            file, _, row = value.partition("#")
            assert (papers.FILES[0].parents[2] / file).is_file() and row in papers.rows()
        if option == "--learner":
            assert value in {entry.name for entry in entries("learner")}
    if command.name == "methods":
        assert words[0] in {entry.name for entry in entries()}


def test_every_command_exists() -> None:
    assert len(commands()) > 60
    for line in commands():
        program, *words = shlex.split(line)
        if program == "longtail":
            check_longtail(words)
            continue
        assert (DOCS.parent / words[0]).is_file(), line
        if "--rows" in words:
            runner = line.partition(" --rows")[0]
            wanted = words[words.index("--rows") + 1]
            assert any(fnmatch.fnmatch(row, wanted) for row in render_papers.runner_rows(runner)), line


# what the script makes of figures
TRAIN = "longtail train DATA -o MODEL"
ITEM: dict[str, Any] = {
    "item": "Table 9", "title": "made up", "figures": ["P@1", "PSP@1", "PSP@5"], "result": "made", "corpora": ["ours"],
    "command": TRAIN, "gains": [["plain", "better"]], "why": "Because.",
    "rows": [
        {"row": "plain", "ours": "tree/plain", "command": TRAIN, "theirs": [50.0, 20.0, 30.0]},
        {"row": "better", "ours": "tree/better", "command": TRAIN, "theirs": [49.0, "-", 33.5]},
    ],
}  # fmt: skip


def results(better: float) -> dict[str, Any]:
    rows = [
        {"corpus": "ours", "learner": "tree", "setting": name, "seed": seed,
         "figures": {"P@1": 60.0, "PSP@1": 10.0, "PSP@5": value + seed}}
        for name, value in (("plain", 40.0), ("better", better)) for seed in (0, 1)
    ]  # fmt: skip
    return {"made": {"command": "-", "machine": {}, "rows": rows}}


def test_a_table_by_hand() -> None:
    lines = render_papers.table(ITEM, results(42.0)).splitlines()
    assert lines[0] == "Figures: P@1 · PSP@1/5."
    assert lines[4] == ("| plain | 50.00 · 20.00/30.00 | 60.00 · 10.00/40.50 (2) | `longtail train DATA -o MODEL` |")
    assert "| better | 49.00 · -/33.50 | 60.00 · 10.00/42.50 (2) |" in lines[5]
    assert "not measured" in render_papers.table(ITEM, {})
    more = {**ITEM, "figures": [*ITEM["figures"], "nDCG@5"], "rows": [{**ITEM["rows"][0], "theirs": [50.0] * 4}]}
    assert "| 60.00 · 10.00/40.50 · - (2) |" in render_papers.table(more, results(42.0)), "a figure that no row keeps"


@pytest.mark.parametrize(
    ("better", "word"), [(42.0, "Reproduced."), (40.1, "Did not reproduce."), (30.0, "Did not reproduce.")]
)
def test_a_verdict_by_hand(better: float, word: str) -> None:
    found, said = render_papers.verdict(ITEM, results(better))
    assert found == word
    assert said == f"Change of PSP@5. plain → better: published +3.50 (theirs); ours {better - 40:+.2f} (ours)."
    assert render_papers.verdict(ITEM, {})[0] == "Not measured."


def test_a_row_whose_blocks_were_dropped_reproduces_nothing() -> None:
    found = results(42.0)
    for kept, word in ((True, "Reproduced."), (False, "Did not reproduce.")):
        for row in found["made"]["rows"]:
            if row["setting"] == "better":
                row["acted"] = {"ranknet": {"blocks kept": kept, "norm": float(kept)}}
        assert render_papers.verdict(ITEM, found)[0] == word


def test_what_is_not_known_is_not_called_reproduced() -> None:
    """One seed needs half a point, and a pair that nobody measured leaves a table reproduced in part at best."""
    found = results(40.4)
    assert render_papers.verdict(ITEM, found)[0] == "Reproduced."
    found["made"]["rows"] = [row for row in found["made"]["rows"] if row["seed"] == 0]
    assert render_papers.verdict(ITEM, found)[0] == "Did not reproduce."
    more = {"row": "best", "command": TRAIN, "theirs": [50.0, 20.0, 40.0]}
    wider = {**ITEM, "gains": [["plain", "better"], ["plain", "best"]], "rows": [*ITEM["rows"], more]}
    assert render_papers.verdict(wider, results(42.0))[0] == "Reproduced in part."
