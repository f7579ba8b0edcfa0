"""What the race must show, and the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from peers_made import (
    GERMEVAL,
    GUTENBERG,
    common,
    one_run,
    peers_checks,
    peers_measure,
    peers_rows,
    render,
    render_peers,
    render_solver,
    results,
    row,
    system_of,
    systems,
)

from longtail.errors import UsageError


# targets
def race(ours: dict[str, Any] | None = None, corpus: str = GUTENBERG, **p1: float) -> dict[str, Any]:
    """All systems on one corpus alike, but for longtail's learners."""
    rows = []
    for system in systems.SYSTEMS:
        if system.runs_on(corpus):
            mine = (ours or {}) if system.peer == "longtail" else {}
            rows.append(row(system.name, one_run(**mine), corpus=corpus, p1=p1.get(system.peer, 51.0)))
    return results(*rows)


def verdicts(content: dict[str, Any], start: str) -> list[tuple[str, float | None]]:
    found = [check for check in peers_checks.checks(content) if check.target.startswith(start)]
    return [(check.verdict, None if check.value is None else round(check.value, 3)) for check in found]


def test_training_is_compared_with_the_fastest_peer() -> None:
    faster = {"train_s": 0.5}
    assert verdicts(race(faster), "training, one tree") == [("PASS", 4.0), ("PASS", 4.0)]
    assert verdicts(race({"train_s": 0.8}), "training, one tree") == [("FAIL", 2.5), ("FAIL", 2.5)]
    content = race(faster)
    peers_rows.put_row(content, row("napkinxc plt", one_run(1.0), corpus=GUTENBERG))
    assert verdicts(content, "training, one tree") == [("FAIL", 2.0), ("FAIL", 2.0)]


def test_only_systems_of_ours_that_keep_up_in_precision_count() -> None:
    assert verdicts(race({"train_s": 0.5}, longtail=50.85), "training, one tree") == [("PASS", 4.0)] * 2
    assert verdicts(race({"train_s": 0.5}, longtail=50.75), "training, one tree") == [("FAIL", 0.0)] * 2
    content = race({"train_s": 0.5}, longtail=50.0)
    peers_rows.put_row(content, row("longtail bonsai 1 tree", one_run(0.8), corpus=GUTENBERG))
    assert verdicts(content, "training, one tree, defaults") == [("FAIL", 2.5)], "the slower one keeps up"
    assert verdicts(race({"model_mb": 2.0}, longtail=50.95), "model on disk") == [("PASS", 2.5)]
    assert verdicts(race({"model_mb": 2.0}, longtail=50.85), "model on disk") == [("FAIL", 0.0)]


def test_prediction_single_rows_and_memory() -> None:
    ours = {"predict_s": (0.25,), "one_p50_ms": 0.05, "peak_train_mb": 90.0}
    content = race(ours)
    assert verdicts(content, "batch prediction") == [("PASS", 2.0), ("PASS", 2.0)]
    assert verdicts(content, "one matrix row") == [("PASS", 5.0), ("PASS", 5.0)]
    assert verdicts(content, "training memory") == [("PASS", 1.333)]
    assert verdicts(content, "one text to names") == [("FAIL", 0.25)]
    content = race({"predict_s": (0.3,), "one_p50_ms": 0.1, "peak_train_mb": 101.0})
    assert verdicts(content, "batch prediction") == [("FAIL", 1.667), ("PASS", 1.667)], "three trees: no slower"
    assert verdicts(content, "one matrix row") == [("FAIL", 2.5), ("FAIL", 2.5)]
    assert verdicts(content, "training memory") == [("FAIL", 0.976)]


def test_limits_on_commands_and_on_a_million_labels() -> None:
    content = race({"train_s": 0.5}, GERMEVAL)
    large = row("longtail train --recipe label-text", one_run(peak_train_mb=3100.0), corpus=GERMEVAL)
    peers_rows.put_row(content, large)
    assert verdicts(content, "longtail train") == [("PASS", 100.0), ("PASS", 100.0), ("FAIL", 3100.0)]
    assert verdicts(content, "training, bonsai, 3 trees") == [("PASS", 4.0)] * 2
    million = race({"train_s": 120.0, "predict_s": (0.05,)}, systems.MILLION)
    assert verdicts(million, "longtail bonsai 1 tree") == [("PASS", 100.0), ("PASS", 120.0), ("PASS", 0.05)]
    assert verdicts(million, "longtail parabel 1 tree") == [("PASS", 100.0), ("FAIL", 120.0), ("PASS", 0.05)]


def test_rows_of_another_run_and_failed_ones_are_not_compared() -> None:
    content = race({"train_s": 0.5})
    for each in content["rows"]:
        if each["peer"] not in systems.OWN:
            each["run"] = "r0"
    assert verdicts(content, "training, one tree") == [("not measured", None)] * 2
    assert "Not all rows come from one run" in render_peers.conditions(content)
    content = race({"train_s": 0.5})
    for name in ("napkinxc plt", "omikuji parabel 1 tree", "libmultilabel tree", "pecos xr-linear (16-way)"):
        job = peers_measure.Job(system_of(name), GUTENBERG)
        described = peers_rows.about(content, job, "f", 0)
        peers_rows.put_row(content, peers_rows.failed(described, "not finished within 9 s", over_budget=True))
    assert verdicts(content, "batch prediction") == [("not measured", None)] * 2
    assert "| napkinxc plt | not finished within 9 s |" in render_peers.peers_table(content, GUTENBERG)


def test_a_check_says_what_was_compared() -> None:
    line = next(check.line for check in peers_checks.checks(race({"train_s": 0.5})))
    assert line == (
        "PASS 4: gutenberg-lcsh-titles: training, one tree, defaults, at least 3 times faster "
        "(longtail parabel 1 tree 0.5, pecos xr-linear (16-way) 2; P@1 51.00, 51.00; processor time 4)"
    )


def test_a_check_says_which_of_ours_was_faster_and_not_as_precise() -> None:
    content = race({"train_s": 0.5})
    faster = next(each for each in content["rows"] if each["system"] == "longtail parabel 1 tree")
    faster["metrics"] = {**faster["metrics"], "P@1": 50.5}
    faster["train_s"] = 0.4
    check = peers_checks.checks(content)[0]
    assert check.value == pytest.approx(4)
    assert check.how.endswith("; longtail parabel 1 tree 0.4, with P@1 50.50")


def test_what_bounds_training_names_the_targets_that_were_missed() -> None:
    profile = {"row": "small/parabel", "corpus": "small", "learner": "parabel", "seconds": 2.0, "cluster_s": 0.5,
               "solve_s": 1.0, "problems": 3, "one_pass_s": 0.2, "one_pass_gflop": 1.0,
               "matrix_product_gflops": 100.0}  # fmt: skip
    rows = {"command": "c", "rows": [profile]}
    line = "| small | parabel | 2.00 | 25% | 50% | 25% | 0.20 | 5.0 | 5.0 | 5% |"
    passed = render_solver.solver_section(rows, race({"train_s": 0.5}))
    assert line in passed and "missed" not in passed and "other work" not in passed
    missed = render_solver.solver_section({**rows, "rows": [{**profile, "load": 9.0}]}, race({"train_s": 1.0}))
    assert "- gutenberg-lcsh-titles, one tree, defaults: 2, must be at least 3 times faster (seconds: " in missed
    assert "The machine had much other work during small/parabel" in missed


# tables
def test_the_table_has_a_line_per_system_with_the_figures_of_its_row() -> None:
    content = results(row("longtail parabel 1 tree"), row("omikuji parabel 1 tree"), row("longtail train"))
    lines = render_peers.peers_table(content, "small").splitlines()
    assert len(lines) == 4
    assert len({line.count("|") for line in lines}) == 1
    assert lines[2] == (
        "| **longtail parabel 1 tree** | 2.0 | 0.500 | 0.250, 0.500 | 40 + 20 + 40 = 100 | 5.0 "
        "| 51.00/53.00/55.00 | 51.00/53.00/55.00 |"
    )


def test_growth_is_shown_where_parts_were_measured() -> None:
    whole = row("omikuji parabel 1 tree")
    assert render_peers.growth_table(results(whole), "small") is None
    content = results(whole, row("omikuji parabel 1 tree", one_run(0.5), part=4))
    table = render_peers.growth_table(content, "small")
    assert table is not None
    assert table.splitlines()[-1] == "| omikuji parabel 1 tree | 0.5, 40 |  | 2.0, 40 |"


def test_a_busy_machine_is_said() -> None:
    assert "not fit to quote" not in render_peers.conditions(results(row("napkinxc plt")))
    assert "not fit to quote" in render_peers.conditions(results(row("napkinxc plt", one_run(load_before=5.0))))


def test_the_solver_s_tolerance_is_said() -> None:
    """Peers stop at other tolerances: a reader must see ours beside the times."""
    content = results(
        row("longtail parabel 1 tree", one_run(settings={"eps": 0.5, "max_passes": 20, "weights": "int8"})),
        row("longtail parabel 1 tree, eps 0.1", one_run(settings={"eps": 0.1, "max_passes": 20})),
    )
    said = render_peers.conditions(content)
    assert "longtail's default solver: eps 0.5, at most 20 passes." in said
    assert "eps 0.1" not in said
    assert "longtail's weights are kept as int8." in said


# rendering
def test_page_and_blocks_are_written_once_and_then_up_to_date(tmp_path: Path) -> None:
    content = race()
    for each in content["rows"]:
        if each["peer"] == "tagger":
            each |= {"first_open_ms": 12.0, "open_ms": 3.0}
    common.write_json(tmp_path / "peers.json", content)
    docs, readme = tmp_path / "docs" / "benchmarks.md", tmp_path / "README.md"
    readme.write_text(f"before\n<!-- figures:peers-{GUTENBERG} -->\nold\n<!-- /figures -->\nafter\n", encoding="utf-8")
    assert render.render(tmp_path, docs, readme, check=True) == [docs, readme]
    assert not docs.exists()
    assert render.render(tmp_path, docs, readme) == [docs, readme]
    page = docs.read_text(encoding="utf-8")
    assert f"### {GUTENBERG}" in page
    assert "| training, one tree, defaults | at least 3 times faster | 1 FAIL |" in page
    text = readme.read_text(encoding="utf-8")
    assert text.startswith(f"before\n<!-- figures:peers-{GUTENBERG} -->\n| system |")
    assert text.endswith("\n<!-- /figures -->\nafter\n")
    assert "old" not in text
    assert render.render(tmp_path, docs, readme, check=True) == []


def test_blocks_that_cannot_be_filled_are_refused() -> None:
    known = render.blocks({"peers": race()})
    assert "per document" in known["peers-summary"]()
    assert "at least 3 times faster" in known["peers-targets"]()
    with pytest.raises(UsageError, match=r"README.md: .*did you mean 'peers-targets'"):
        render.filled("<!-- figures:peers-target -->\n<!-- /figures -->", known, "README.md")
    with pytest.raises(UsageError, match="not closed"):
        render.filled("<!-- figures:peers-targets -->\n", known, "README.md")
    assert render.filled("nothing marked", known, "README.md") == "nothing marked"


def test_the_results_in_the_repository_render() -> None:
    all_results = render.load_results(common.RESULTS)
    assert render.page(all_results).startswith("# Benchmarks")


def test_a_picture_needs_a_corpus_of_texts() -> None:
    assert "peers.png" in render.pictures({"peers": race()})
    assert "peers.png" not in render.pictures({"peers": race(corpus=systems.MILLION)})
