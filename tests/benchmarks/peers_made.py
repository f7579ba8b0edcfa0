"""Rows and results of the race as tests make them, and its modules: they lie outside the package."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def module(name: str) -> ModuleType:
    """A benchmark script as a module: they lie outside the package and import each other by name."""
    for folder in (str(BENCHMARKS), str(BENCHMARKS / "peer_workers")):
        if folder not in sys.path:
            sys.path.append(folder)
    return importlib.import_module(name)


common, peers, render, measure = (module(name) for name in ("common", "peers", "render", "measure"))
peers_rows, peers_checks, peers_measure = (module(f"peers_{name}") for name in ("rows", "checks", "measure"))
systems, prepare = (module(name) for name in ("peers_systems", "prepare"))
render_peers, render_solver = (module(f"render_{name}") for name in ("peers", "solver"))

CONDITIONS = peers_measure.Conditions(threads=1, seed=0, budget=600.0)
GUTENBERG, GERMEVAL = "gutenberg-lcsh-titles", "germeval-gnd"


def one_run(train_s: float = 2.0, predict_s: tuple[float, ...] = (1.0, 0.5, 0.75), **more: Any) -> dict[str, Any]:
    times = {"train_s": train_s, "train_cpu_s": 2 * train_s, "predict_s": list(predict_s), "predict_cpu_s": [1.0]}
    memory = {"imports_mb": 30.0, "loaded_mb": 50.0, "ready_mb": 60.0, "peak_train_mb": 100.0}
    single = {"one_p50_ms": 0.25, "one_p99_ms": 0.5, "total_s": 5.0}
    return times | memory | single | {"model_mb": 5.0, "load_before": 0.1, "load_after": 1.0} | more


def system_of(name: str) -> Any:
    return next(system for system in systems.SYSTEMS if system.name == name)


def row(
    name: str, *runs: dict[str, Any], run: str = "r1", corpus: str = "small", part: int = 1, p1: float = 51.0
) -> dict[str, Any]:
    metrics = {f"{metric}@{k}": p1 - 1 + k for metric in ("P", "PSP", "nDCG") for k in (1, 3, 5)}
    job = peers_measure.Job(system_of(name), corpus, part)
    described = peers_rows.about({"run": {"id": run}}, job, "f", 0)
    described |= {"versions": {"omikuji": "0.5.2"}, "metrics": metrics, "tail_recall@5": 9.5}
    content = None
    for each in runs or (one_run(),):
        content = peers_rows.updated(content, each, 1000, described)
    assert content is not None
    return content


def results(*rows: dict[str, Any], finished: str | None = None) -> dict[str, Any]:
    content = peers_rows.begin(None, 2, 1, fresh=False, command="python benchmarks/peers.py")
    content["run"] |= {"id": "r1", "finished": finished}
    data = {"train_documents": 10, "test_documents": 5, "labels": 7, "features": 1234}
    content["data"] = dict.fromkeys(["small", *systems.CORPORA], data)
    for each in rows:
        peers_rows.put_row(content, each)
    return content
