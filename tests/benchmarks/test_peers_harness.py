"""The race beside the peers: what is chosen, and what is kept on resuming."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from peers_made import (
    CONDITIONS,
    GERMEVAL,
    GUTENBERG,
    common,
    one_run,
    peers,
    peers_measure,
    peers_rows,
    results,
    row,
    system_of,
    systems,
)

from longtail.errors import UsageError


# choosing
def test_systems_are_chosen_by_name_or_part_of_it_in_the_order_of_the_table() -> None:
    assert [s.name for s in systems.chosen(["napkinxc", "longtail parabel 3 trees"])] == [
        "longtail parabel 3 trees",
        "napkinxc plt",
    ]
    assert systems.chosen(None) == list(systems.SYSTEMS)
    with pytest.raises(UsageError, match="did you mean 'napkinxc plt'"):
        systems.chosen(["napkin plt"])


def test_every_system_has_a_worker_and_every_peer_a_system() -> None:
    assert all(system.worker.is_file() for system in systems.SYSTEMS)
    # Annif has a race of its own, from texts: benchmarks/annif.py
    assert {system.peer for system in systems.SYSTEMS} == {*systems.OWN, *systems.PEERS} - {"annif"}
    assert len({system.name for system in systems.SYSTEMS}) == len(systems.SYSTEMS)


def test_a_million_labels_are_for_one_tree_and_growth_follows_the_whole() -> None:
    jobs = peers_rows.jobs(systems.CORPORA, systems.SYSTEMS)
    assert {job.system.trees for job in jobs if job.corpus == systems.MILLION} == {1}
    assert {job.part for job in jobs if job.corpus == systems.MILLION} == {1}, "growth there: scale.py"
    here = [job.part for job in jobs if job.corpus == GUTENBERG]
    assert here == sorted(here, key=[1, 4, 2].index)
    assert {job.system.peer for job in jobs if job.part > 1} == {"longtail", "pecos", "omikuji"}
    assert {job.corpus for job in jobs if job.system.peer == "command"} == {GERMEVAL}
    assert all(system.runs_on("a corpus of one's own") == (system.only is None) for system in systems.SYSTEMS)


# resuming
def test_a_run_goes_on_until_it_is_finished() -> None:
    old = results(row("napkinxc plt"))
    job = peers_measure.Job(system_of("napkinxc plt"), "small")
    unfinished = peers_rows.begin(json.loads(json.dumps(old)), 2, 1, fresh=False, command="c")
    assert unfinished["run"]["id"] == "r1"
    assert unfinished["run"]["commands"] == ["python benchmarks/peers.py", "c"], "the page names both"
    assert peers_rows.row_for(unfinished, job, "f") is not None
    for again in (
        peers_rows.begin(json.loads(json.dumps(old)), 2, 1, fresh=True, command="c"),
        peers_rows.begin(results(row("napkinxc plt"), finished="then"), 2, 1, fresh=False, command="c"),
    ):
        assert again["run"]["id"] != "r1"
        assert again["run"]["commands"] == ["c"]
        assert again["run"]["finished"] is None
        assert [each["system"] for each in again["rows"]] == ["napkinxc plt"]  # stays until it is replaced
        assert peers_rows.row_for(again, job, "f") is None


def test_a_run_is_finished_when_every_system_has_its_row_on_each_of_its_corpora() -> None:
    jobs = peers_rows.jobs(systems.CORPORA, systems.SYSTEMS)
    whole = results(*(row(job.system.name, corpus=job.corpus, part=job.part) for job in jobs))
    assert peers_rows.finished(whole)
    last = whole["rows"].pop()
    assert not peers_rows.finished(whole)
    peers_rows.put_row(whole, peers_rows.failed(last, "broken", over_budget=False))
    assert not peers_rows.finished(whole)
    peers_rows.put_row(whole, peers_rows.failed(last, "too long", over_budget=True))
    assert peers_rows.finished(whole)
    whole["rows"][0]["run"] = "another"
    assert not peers_rows.finished(whole)


def test_a_row_of_other_code_or_data_is_measured_again_and_so_is_one_that_failed() -> None:
    content = results(row("napkinxc plt"))
    job = peers_measure.Job(system_of("napkinxc plt"), "small")
    assert peers_rows.row_for(content, job, "f") is not None
    assert peers_rows.row_for(content, job, "other") is None
    assert peers_rows.row_for(content, peers_measure.Job(job.system, "small", 2), "f") is None
    assert peers_rows.row_for(content, peers_measure.Job(system_of("libmultilabel tree"), "small"), "f") is None
    for over_budget in (False, True):
        described = peers_rows.about(content, job, "f", 0)
        peers_rows.put_row(content, peers_rows.failed(described, "why", over_budget=over_budget))
        assert (peers_rows.row_for(content, job, "f") is not None) == over_budget


def test_a_fingerprint_follows_threads_data_and_options() -> None:
    one, three = system_of("omikuji parabel 1 tree"), system_of("omikuji parabel 3 trees")
    base = peers_rows.fingerprint_of(one, CONDITIONS, "data")
    assert base == peers_rows.fingerprint_of(one, CONDITIONS, "data")
    others = [
        peers_rows.fingerprint_of(one, peers_measure.Conditions(2, 0, 600.0), "data"),
        peers_rows.fingerprint_of(one, peers_measure.Conditions(1, 1, 600.0), "data"),
        peers_rows.fingerprint_of(one, CONDITIONS, "other"),
        peers_rows.fingerprint_of(three, CONDITIONS, "data"),
    ]
    assert len({base, *others}) == 5


def test_rows_are_replaced_in_place_and_keep_the_order_of_corpora_and_systems() -> None:
    content = results(
        row("napkinxc plt", corpus=GERMEVAL),
        row("pecos xr-linear (16-way)", corpus=GUTENBERG, part=4),
        row("pecos xr-linear (16-way)", corpus=GUTENBERG),
        row("longtail parabel 1 tree", corpus=GUTENBERG),
    )
    peers_rows.put_row(content, row("pecos xr-linear (16-way)", one_run(9.0), run="r2", corpus=GUTENBERG))
    assert [(*peers_rows.key_of(each), each["run"]) for each in content["rows"]] == [
        (GUTENBERG, "longtail parabel 1 tree", 1, "r1"),
        (GUTENBERG, "pecos xr-linear (16-way)", 1, "r2"),
        (GUTENBERG, "pecos xr-linear (16-way)", 4, "r1"),
        (GERMEVAL, "napkinxc plt", 1, "r1"),
    ]


def test_metrics_are_the_means_of_the_runs() -> None:
    runs = [one_run(metrics={"P@1": value, "PSP@5": 2 * value}) for value in (50.0, 51.0, 55.0)]
    content = row("napkinxc plt", *runs)
    assert content["metrics"] == {"P@1": 52.0, "PSP@5": 104.0}
    assert content["P@1 of runs"] == [50.0, 51.0, 55.0]


def test_the_best_of_the_runs_counts_and_the_most_memory() -> None:
    content = row("napkinxc plt", one_run(4.0), one_run(2.0, (0.4, 0.6, 0.8), peak_train_mb=120.0), one_run(3.0))
    assert (content["train_s"], content["train_median_s"], content["train_cpu_s"]) == (2.0, 3.0, 4.0)
    assert content["predict_ms"] == pytest.approx(0.4)  # 0.4 s for 1,000 documents
    assert content["predict_median_ms"] == pytest.approx(0.75)
    assert (content["interpreter_mb"], content["data_mb"], content["beyond_mb"]) == (40.0, 20.0, 60.0)
    assert content["peak_mb"] == 120.0
    assert len(content["runs"]) == 3


def test_repeats_end_with_their_number_or_their_time() -> None:
    short, long = row("napkinxc plt"), row("napkinxc plt", one_run(total_s=400.0))
    assert not peers_rows.enough(None, 0)
    assert peers_rows.enough(short, 0)
    assert not peers_rows.enough(short, 1)
    assert peers_rows.enough(long, 1)


def test_a_run_measures_what_is_missing_and_goes_on_after_a_failure(
    tmp_path: Path, small_matrices: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop with workers that only pretend: one fails at first, the others are not measured twice."""
    calls: list[str] = []
    seeds: list[int] = []
    broken = {"napkinxc plt": systems.NotMeasuredError("it broke")}

    def pretended(job: Any, *rest: Any) -> dict[str, Any]:
        calls.append(f"{job.system.name} {job.part}")
        seeds.append(rest[-1].seed)
        if job.system.name in broken:
            raise broken[job.system.name]
        job.output.mkdir(parents=True, exist_ok=True)
        if job.part == 1:
            ids, values = np.tile([0, 1], (50, 1)), np.tile([0.9, 0.1], (50, 1))
            np.savez(job.output / "top.npz", ids=ids, values=values)
        return one_run(versions={"x": "1"})

    monkeypatch.setattr(peers, "measure", pretended)
    monkeypatch.setattr(peers, "interpreter", lambda system, folder: Path("python"))
    monkeypatch.setattr(peers, "prepared", lambda corpus, data, threads: small_matrices)
    monkeypatch.setattr(common, "WORK", tmp_path / "work")
    options = argparse.Namespace(
        results=tmp_path, only=["napkinxc", "omikuji parabel"], corpus=["small"], threads=2, repeat=2, fresh=False,
        command="c", data=tmp_path, peers=tmp_path, seed=0, budget=60.0,
    )  # fmt: skip
    assert not peers.race(options)
    one, three = "omikuji parabel 1 tree", "omikuji parabel 3 trees"
    parts = [f"{one} 4", f"{one} 2"]
    # in turns, with seeds of their own; a failed system is not tried again by the same command; parts are once enough
    assert calls == [f"{one} 1", f"{three} 1", "napkinxc plt 1", *parts, f"{one} 1", f"{three} 1"]
    assert seeds == [0] * 5 + [1] * 2
    content = common.read_json(tmp_path / "peers.json")
    assert [each.get("failed") for each in content["rows"]] == [None, None, None, None, "it broke"]
    assert content["run"]["finished"] is None
    assert 0 < content["rows"][0]["metrics"]["P@1"] < 20

    calls.clear()
    broken.clear()
    assert peers.race(options)
    assert calls == ["napkinxc plt 1"] * 2
    content = common.read_json(tmp_path / "peers.json")
    assert [len(each["runs"]) for each in content["rows"]] == [
        2 if each["part"] == 1 else 1 for each in content["rows"]
    ]
    assert len({each["run"] for each in content["rows"]}) == 1

    calls.clear()
    options.fresh = True
    broken[one] = systems.OverBudgetError("not finished within 60 s")
    assert peers.race(options), "being over the time is a result"
    assert calls == [f"{one} 1", f"{three} 1", "napkinxc plt 1", f"{three} 1", "napkinxc plt 1"], "no parts of it"
    options.fresh = False
    calls.clear()
    assert peers.race(options)
    assert calls == [], "nor is it tried again in the same run"


# surroundings
def test_the_data_folder_is_the_one_given_then_the_environment_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGTAIL_DATA", str(tmp_path))
    assert common.data_folder() == tmp_path
    (tmp_path / "own").mkdir()
    assert common.data_folder(tmp_path / "own") == tmp_path / "own"
    with pytest.raises(UsageError, match="--data or LONGTAIL_DATA"):
        common.data_folder(tmp_path / "absent")


def test_writing_replaces_the_file_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "results" / "x.json"
    assert common.read_json(path) is None
    common.write_json(path, {"a": 1})
    with pytest.raises(ValueError, match="Out of range"):
        common.write_json(path, {"a": float("nan")})
    assert common.read_json(path) == {"a": 1}
    assert os.listdir(path.parent) == ["x.json"]  # noqa: PTH208
    path.write_text("{")
    with pytest.raises(UsageError, match="remove it to start over"):
        common.read_json(path)


def test_the_command_is_one_for_any_machine() -> None:
    given = {"corpus": ["eurlex57k"], "threads": 2, "repeat": 3, "seed": 0, "budget": peers.BUDGET}
    options = argparse.Namespace(**given, only=["omikuji parabel 1 tree"], data="/somewhere")
    assert peers.command_of(options) == (
        "python benchmarks/peers.py --corpus eurlex57k --threads 2 --repeat 3 --only 'omikuji parabel 1 tree'"
    )
    options = argparse.Namespace(
        **{**given, "corpus": list(systems.CORPORA), "repeat": 1}, only=None, data="/somewhere"
    )
    assert peers.command_of(options) == "python benchmarks/peers.py --threads 2"
