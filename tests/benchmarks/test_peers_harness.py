"""The harness beside the peers: what is kept on resuming, what is rendered, what the promises say."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from longtail.errors import UsageError

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def module(name: str) -> ModuleType:
    """A benchmark script as a module: they lie outside the package and import each other by name."""
    for folder in (str(BENCHMARKS), str(BENCHMARKS / "peer_workers")):
        if folder not in sys.path:
            sys.path.append(folder)
    return importlib.import_module(name)


common, peers, render, measure = (module(name) for name in ("common", "peers", "render", "measure"))
prepare = module("prepare")


def one_run(train_s: float = 2.0, predict_s: tuple[float, ...] = (1.0, 0.5, 0.75), **more: Any) -> dict[str, Any]:
    times = {"train_s": train_s, "train_cpu_s": 2 * train_s, "predict_s": list(predict_s), "predict_cpu_s": [1.0]}
    return times | {"peak_mb": 100.0, "model_mb": 5.0, "load_before": 0.1, "load_after": 1.0} | more


def row(system: str, *runs: dict[str, Any], run: str = "r1", fingerprint: str = "f") -> dict[str, Any]:
    metrics = {f"{name}@{k}": 50.0 + k for name in ("P", "PSP", "nDCG") for k in (1, 3, 5)}
    about = {"system": system, "run": run, "fingerprint": fingerprint, "metrics": metrics, "tail_recall@5": 9.5}
    about |= {"versions": {"omikuji": "0.5.2"}}
    content = None
    for each in runs or (one_run(),):
        content = peers.updated(content, each, 1000, about)
    assert content is not None
    return content


def results(*rows: dict[str, Any], finished: str | None = None) -> dict[str, Any]:
    content = peers.begin(None, "small", 2, 1, fresh=False, command="python benchmarks/peers.py")
    content["run"] |= {"id": "r1", "finished": finished}
    content["data"] = {"train_documents": 10, "test_documents": 5, "labels": 7, "features": 1234}
    for each in rows:
        peers.put_row(content, each)
    return content


# choosing
def test_systems_are_chosen_by_name_or_part_of_it_in_the_order_of_the_table() -> None:
    assert [s.name for s in peers.chosen(["napkinxc", "longtail parabel 1 tree"])] == [
        "longtail parabel 1 tree",
        "napkinxc plt",
    ]
    assert peers.chosen(None) == list(peers.SYSTEMS)
    with pytest.raises(UsageError, match="did you mean 'napkinxc plt'"):
        peers.chosen(["napkin plt"])


def test_every_compared_system_is_measured_and_has_a_worker() -> None:
    names = {system.name for system in peers.SYSTEMS}
    compared = {name for pair in render.TRAIN_PAIRS for name in pair}
    compared |= {render.PREDICT_PEER, *render.PREDICT_PROMISED, *render.PREDICT_SHOWN}
    assert compared <= names
    assert all(system.worker.is_file() for system in peers.SYSTEMS)
    assert {system.peer for system in peers.SYSTEMS} == {"longtail", *peers.PEERS}


# resuming
def test_a_stopped_run_goes_on_and_a_finished_one_does_not() -> None:
    old = results(row("napkinxc plt"))
    stopped = peers.begin(json.loads(json.dumps(old)), "small", 2, 1, fresh=False, command="c")
    assert stopped["run"]["id"] == "r1"
    assert peers.row_for(stopped, peers.chosen(["napkinxc"])[0], "f") is not None
    for again in (
        peers.begin(json.loads(json.dumps(old)), "small", 2, 1, fresh=True, command="c"),
        peers.begin(results(row("napkinxc plt"), finished="then"), "small", 2, 1, fresh=False, command="c"),
    ):
        assert again["run"]["id"] != "r1"
        assert again["run"]["finished"] is None
        assert [each["system"] for each in again["rows"]] == ["napkinxc plt"]  # stays until it is replaced
        assert peers.row_for(again, peers.chosen(["napkinxc"])[0], "f") is None


def test_a_row_of_other_code_or_data_is_measured_again() -> None:
    system = peers.chosen(["napkinxc"])[0]
    content = results(row("napkinxc plt"))
    assert peers.row_for(content, system, "f") is not None
    assert peers.row_for(content, system, "other") is None
    assert peers.row_for(content, peers.chosen(["pecos"])[0], "f") is None


def test_a_fingerprint_follows_threads_data_and_options() -> None:
    one, three = peers.chosen(["omikuji parabel 1 tree"])[0], peers.chosen(["omikuji parabel 3 trees"])[0]
    base = peers.fingerprint_of(one, 2, 0, "data")
    assert base == peers.fingerprint_of(one, 2, 0, "data")
    others = [
        peers.fingerprint_of(one, 1, 0, "data"),
        peers.fingerprint_of(one, 2, 1, "data"),
        peers.fingerprint_of(one, 2, 0, "other"),
        peers.fingerprint_of(three, 2, 0, "data"),
    ]
    assert len({base, *others}) == 5


def test_rows_are_replaced_in_place_and_keep_the_order_of_the_systems() -> None:
    content = results(row("napkinxc plt"), row("longtail parabel 1 tree"), row("pecos xr-linear (16-way)"))
    peers.put_row(content, row("pecos xr-linear (16-way)", one_run(9.0), run="r2"))
    assert [(each["system"], each["run"]) for each in content["rows"]] == [
        ("longtail parabel 1 tree", "r1"),
        ("pecos xr-linear (16-way)", "r2"),
        ("napkinxc plt", "r1"),
    ]


def test_the_best_of_the_runs_counts_and_the_median_stands_beside_it() -> None:
    content = row("napkinxc plt", one_run(4.0), one_run(2.0, (0.4, 0.6, 0.8), peak_mb=120.0), one_run(3.0))
    assert (content["train_s"], content["train_median_s"], content["train_cpu_s"]) == (2.0, 3.0, 4.0)
    assert content["predict_ms"] == pytest.approx(0.4)  # 0.4 s for 1,000 documents
    assert content["predict_median_ms"] == pytest.approx(0.75)
    assert content["peak_mb"] == 120.0
    assert len(content["runs"]) == 3


def test_a_run_measures_what_is_missing_and_goes_on_after_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop with workers that only pretend: one fails at first, the others are not measured twice."""
    matrices = tmp_path / "matrices"
    matrices.mkdir()
    (matrices / "about.json").write_text('{"train_documents": 3, "labels": 2}')
    sp.save_npz(matrices / "test_Y.npz", sp.csr_matrix(np.eye(2, dtype=np.float32)))
    np.savez(matrices / "labels.npz", counts=np.array([1, 1]), documents=2)
    calls: list[str] = []
    broken = {"napkinxc plt"}

    def pretended(system: Any, python: Path, matrices: Path, output: Path, threads: int, seed: int) -> dict[str, Any]:
        calls.append(system.name)
        if system.name in broken:
            raise peers.NotMeasuredError("it broke")
        output.mkdir(parents=True, exist_ok=True)
        np.savez(output / "top.npz", ids=np.array([[0, 1], [0, 1]]), values=np.array([[0.9, 0.1], [0.9, 0.1]]))
        return one_run(versions={"x": "1"})

    monkeypatch.setattr(peers, "measure", pretended)
    monkeypatch.setattr(peers, "interpreter", lambda peer, folder: Path("python"))
    monkeypatch.setattr(peers, "prepared", lambda corpus, data, threads: matrices)
    monkeypatch.setattr(common, "WORK", tmp_path / "work")
    options = argparse.Namespace(
        results=tmp_path, only=["napkinxc", "1 tree"], threads=2, repeat=2, fresh=False, command="c", data=tmp_path,
        peers=tmp_path, seed=0,
    )  # fmt: skip
    assert not peers.run_corpus("small", options)
    first = ["longtail parabel 1 tree", "longtail bonsai 1 tree", "omikuji parabel 1 tree"]
    assert calls == [*first, "napkinxc plt", *first]  # turns, and a failed system is not tried again in the same run
    content = common.read_json(tmp_path / "peers-small.json")
    assert content["run"]["failed"] == {"napkinxc plt": "it broke"}
    assert content["run"]["finished"] is None
    assert content["rows"][0]["metrics"]["P@1"] == 50.0

    calls.clear()
    broken.clear()
    assert peers.run_corpus("small", options)
    assert calls == ["napkinxc plt"] * 2
    content = common.read_json(tmp_path / "peers-small.json")
    assert content["run"]["finished"] is not None
    assert [len(each["runs"]) for each in content["rows"]] == [2, 2, 2, 2]

    calls.clear()
    options.only, options.repeat = ["napkinxc"], 1
    assert peers.run_corpus("small", options)
    assert calls == ["napkinxc plt"]
    assert len({each["run"] for each in common.read_json(tmp_path / "peers-small.json")["rows"]}) == 2


# promises and tables
def both_sides(ours: float, theirs: float) -> dict[str, Any]:
    """All systems, ours at one speed and the others at another."""
    rows = []
    for system in peers.SYSTEMS:
        speed = ours if system.peer == "longtail" else theirs
        rows.append(row(system.name, one_run(speed, (speed,))))
    return results(*rows)


def test_promises_pass_when_nothing_is_slower_and_fail_when_one_is() -> None:
    assert [line for line in render.promises(both_sides(1.0, 2.0)) if line.startswith("PASS")] == [
        "PASS: train no slower than omikuji",
        "PASS: predict no slower than PECOS, one tree against its one",
    ]
    assert sum(line.startswith("PASS") for line in render.promises(both_sides(2.0, 2.0))) == 2
    slow = both_sides(1.0, 2.0)
    peers.put_row(slow, row("longtail bonsai 3 trees", one_run(2.1, (9.0,))))
    lines = render.promises(slow)
    assert "FAIL: train no slower than omikuji" in lines
    assert "PASS: predict no slower than PECOS, one tree against its one" in lines  # a forest is not promised
    assert "training time: longtail bonsai 3 trees / omikuji bonsai 3 trees = 1.05 (processor time 1.05)" in lines
    peers.put_row(slow, row("longtail bonsai 1 tree", one_run(1.0, (9.0,))))
    assert "FAIL: predict no slower than PECOS, one tree against its one" in render.promises(slow)


def test_a_promise_without_its_rows_is_not_measured() -> None:
    lines = render.promises(results(row("longtail parabel 1 tree"), row("omikuji parabel 1 tree")))
    assert "not measured: train no slower than omikuji" in lines
    assert not any(line.startswith("PASS") for line in lines)


def test_rows_of_several_runs_are_said() -> None:
    mixed = both_sides(1.0, 2.0)
    assert not any("runs" in line for line in render.promises(mixed))
    peers.put_row(mixed, row("napkinxc plt", run="r2"))
    assert any("come from 2 runs" in line for line in render.promises(mixed))


def test_the_table_has_a_line_a_system_with_the_figures_of_its_row() -> None:
    lines = render.peers_table(results(row("longtail parabel 1 tree"), row("omikuji parabel 1 tree"))).splitlines()
    assert len(lines) == 4
    assert len({line.count("|") for line in lines}) == 1
    assert lines[2] == (
        "| **longtail parabel 1 tree** | 2.0 | 0.500 | 100 | 5.0 "
        "| 51.00/53.00/55.00 | 51.00/53.00/55.00 | 55.00 | 9.50 |"
    )


def test_a_busy_machine_is_said() -> None:
    assert "not fit to quote" not in render.peers_conditions(results(row("napkinxc plt")))
    assert "not fit to quote" in render.peers_conditions(results(row("napkinxc plt", one_run(load_before=5.0))))


def test_the_solver_s_tolerance_is_said() -> None:
    """Peers stop at other tolerances: a reader must see ours beside the times."""
    content = results(row("longtail parabel 1 tree", one_run(settings={"eps": 0.5, "max_passes": 20})))
    assert "longtail's solver: eps 0.5, at most 20 passes." in render.peers_conditions(content)


# rendering
def test_page_and_blocks_are_written_once_and_then_up_to_date(tmp_path: Path) -> None:
    common.write_json(tmp_path / "peers-small.json", both_sides(1.0, 2.0))
    docs, readme = tmp_path / "docs" / "benchmarks.md", tmp_path / "README.md"
    readme.write_text("before\n<!-- figures:peers-small -->\nold\n<!-- /figures -->\nafter\n", encoding="utf-8")
    assert render.render(tmp_path, docs, readme, check=True) == [docs, readme]
    assert not docs.exists()
    assert render.render(tmp_path, docs, readme) == [docs, readme]
    assert "### small" in docs.read_text(encoding="utf-8")
    text = readme.read_text(encoding="utf-8")
    assert text.startswith("before\n<!-- figures:peers-small -->\n| system |")
    assert text.endswith("\n<!-- /figures -->\nafter\n")
    assert "old" not in text
    assert render.render(tmp_path, docs, readme, check=True) == []


def test_blocks_that_cannot_be_filled_are_refused() -> None:
    known = render.blocks({"peers-small": both_sides(1.0, 2.0)})
    assert "per document" in known["peers-summary"]()
    with pytest.raises(UsageError, match=r"README.md: .*did you mean 'peers-small'"):
        render.filled("<!-- figures:peers-smal -->\n<!-- /figures -->", known, "README.md")
    with pytest.raises(UsageError, match="not closed"):
        render.filled("<!-- figures:peers-small -->\n", known, "README.md")
    assert render.filled("nothing marked", known, "README.md") == "nothing marked"


def test_the_results_in_the_repository_render() -> None:
    all_results = render.load_results(common.RESULTS)
    assert render.page(all_results).startswith("# Benchmarks")


# what workers share
def test_predictions_become_padded_arrays() -> None:
    ids, values = measure.from_lists([[(3, 0.5), (1, 0.25), (2, 0.125)], []], 2)
    assert ids.tolist() == [[3, 1], [-1, -1]]
    assert values.tolist() == [[0.5, 0.25], [0, 0]]
    matrix = sp.csr_matrix(np.array([[0, 0.25, 0.5, 0.25], [0, 0, 0, 0], [1, 0, 0, 0]], dtype=np.float32))
    ids, values = measure.from_csr(matrix, 2)
    assert ids.tolist() == [[2, 1], [-1, -1], [0, -1]]
    assert values.tolist() == [[0.5, 0.25], [0, 0], [1, 0]]


def test_the_text_file_gives_every_number_back(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = sp.csr_matrix(sp.random(20, 30, density=0.3, random_state=1, dtype=np.float32))
    X.data = rng.random(X.nnz, dtype=np.float32)
    Y = sp.csr_matrix((rng.random((20, 8)) < 0.3).astype(np.float32))
    prepare.write_xmc(tmp_path / "train.txt", X, Y)
    head, *lines = (tmp_path / "train.txt").read_text().splitlines()
    assert head == "20 30 8"
    for i, line in enumerate(lines):
        labels, *features = line.split(" ")
        assert [int(label) for label in labels.split(",") if label] == Y[i].indices.tolist()
        pairs = [pair.split(":") for pair in features if pair]
        assert [int(feature) for feature, _ in pairs] == X[i].indices.tolist()
        assert [np.float32(value) for _, value in pairs] == X[i].data.tolist()


def test_peak_memory_is_the_process_s_own() -> None:
    """A child of a large process must not report its parent's memory."""
    block = np.ones(40_000_000)  # 320 MB
    code = "import measure; print(measure.peak_mb())"
    answer = subprocess.run(
        [sys.executable, "-c", code], cwd=BENCHMARKS / "peer_workers", capture_output=True, text=True, check=True
    )
    assert 5 < float(answer.stdout) < 250
    assert block[0] == 1


def test_longtail_s_worker_measures_a_small_corpus(tmp_path: Path) -> None:
    """One real worker from start to end: what it reports, and that its prediction is any good."""
    rng = np.random.default_rng(0)
    n, L = 300, 40
    labels = rng.integers(0, L, size=n)
    Y = sp.csr_matrix((np.ones(n, dtype=np.float32), (np.arange(n), labels)), shape=(n, L))
    X = sp.csr_matrix(sp.hstack([Y, sp.random(n, 20, 0.2, random_state=0)]), dtype=np.float32)
    for name, matrix in {"train_X": X, "train_Y": Y, "test_X": X[:50], "test_Y": Y[:50]}.items():
        sp.save_npz(tmp_path / f"{name}.npz", sp.csr_matrix(matrix))
    system = peers.chosen(["longtail bonsai 1 tree"])[0]
    report = peers.measure(system, Path(sys.executable), tmp_path, tmp_path / "out", 1, 0)
    assert report["train_s"] > 0
    assert len(report["predict_s"]) == peers.PASSES
    assert report["model_mb"] > 0
    assert report["peak_mb"] >= report["peak_train_mb"] >= report["loaded_mb"] > 10
    assert set(report["stages"]) >= {"cluster", "train"}
    assert report["settings"]["trees"] == 1
    assert {"eps", "max_passes"} <= set(report["settings"])
    np.savez(tmp_path / "labels.npz", counts=np.bincount(labels, minlength=L), documents=n)
    found = peers.figures(tmp_path / "out", peers.test_corpus(tmp_path, "small"))
    assert found["metrics"]["P@1"] > 95
    with np.load(tmp_path / "out" / "stored.npz") as stored:
        assert stored["ids"].shape == (50, peers.STORED)


def test_a_worker_that_fails_is_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(peers.NotMeasuredError, match="longtail parabel 1 tree ended with 1: FileNotFoundError"):
        peers.measure(peers.SYSTEMS[0], Path(sys.executable), tmp_path, tmp_path / "out", 1, 0)


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
    options = argparse.Namespace(
        corpus=["eurlex57k"], threads=2, repeat=3, seed=0, only=["omikuji parabel 1 tree"], data="/somewhere"
    )
    assert peers.command_of(options) == (
        "python benchmarks/peers.py --corpus eurlex57k --threads 2 --repeat 3 --only 'omikuji parabel 1 tree'"
    )
