"""The cost model of docs/scale.md: it finds what rows were made from, and says where things give out."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

import render_scale as scale
import scale as runner

LABELS = {"10k": 10_000, "30k": 30_000, "100k": 100_000, "200k": 200_000, "400k": 400_000, "1m": 1_000_000}


def row(corpus: str, documents: int, labels: int, words: int) -> dict[str, Any]:
    """A row that costs what the terms say: 2 units of each."""
    size = scale.Size("parabel", documents, labels, documents * words, documents * 3)
    figures = {name: sum(2 * term(size) for term in terms.values()) for name, terms in scale.TERMS.items()}
    return {
        "row": f"parabel/{corpus}",
        "learner": "parabel",
        "corpus": corpus,
        "shard": None,
        "train_s": 1.0,
        "train_cpu_s": figures["core_s"],
        "load_before": 0.5,
        **size._asdict(),
        **figures,
    }


@pytest.fixture
def results() -> dict[str, Any]:
    rows = [row(name, labels, labels, 8) for name, labels in LABELS.items()] + [row("long", 200_000, 100_000, 24)]
    machine = {"cpu": "some", "cores": 2, "memory_gb": 16, "system": "Linux", "python": "3.11"}
    return {"rows": rows, "machine": machine, "command": "python benchmarks/scale.py"}


def test_the_check_is_met_by_rows_that_follow_the_model(results: dict[str, Any]) -> None:
    (model,) = scale.models(results)
    size = scale.Size.of(model.rows["1m"])
    for figure in scale.TERMS:
        assert model.at(figure, size) == pytest.approx(scale.measured(model.rows["1m"], figure), rel=1e-3)
    assert "1m" not in [row["corpus"] for row in model.fitted_on]
    assert scale.model_section(results).count("(+0%)") + scale.model_section(results).count("(-0%)") == len(scale.TERMS)


def test_a_tree_has_as_many_levels_as_its_labels_need() -> None:
    assert [scale.Size.far("parabel", labels).levels for labels in (100, 101, 200, 201, 10_000)] == [1, 2, 2, 3, 8]
    assert [scale.Size.far("bonsai", labels).levels for labels in (50_000, 50_001, 10**8)] == [2, 3, 3]
    assert scale.Size.far("bonsai", 1_000_000).children == 300


def test_the_largest_size_is_where_a_resource_gives_out(results: dict[str, Any]) -> None:
    (model,) = scale.models(results)
    most = model.largest(lambda size: size.labels <= 5e6)
    assert most == pytest.approx(5e6, rel=0.02)


def test_shards_share_all_but_the_corpus() -> None:
    assert scale.shards_for(10_000, 1_000, 16_000) == "1"
    assert scale.shards_for(30_000, 1_000, 16_000) == "2"
    assert scale.shards_for(60_000, 1_000, 16_000) == "8"
    assert scale.shards_for(60_000, 8_000, 16_000) == "none is enough"


def test_tables_stand_without_the_check_and_say_so(results: dict[str, Any]) -> None:
    results["rows"] = [each for each in results["rows"] if each["corpus"] != "1m"]
    assert scale.model_section(results).count("not measured") == len(scale.TERMS)
    assert "100,000,000" in scale.far_section(results)
    assert "16 GB of memory" in scale.limits_section(results)
    assert "fit to quote" not in scale.rows_section(results)


def test_what_was_measured_far_out_stands_beside_what_the_model_says(results: dict[str, Any]) -> None:
    assert "Measured with" not in scale.far_section(results)
    far = {**row("10m", 10_000_000, 10_000_000, 8), "train_cpu_s": 3600.0, "peak_mb": 5_900.0}
    said = scale.far_section({**results, "rows": [*results["rows"], far]})
    assert "Measured with 10,000,000 labels and parabel: 1 core hours and 5.9 GB, where the model says" in said


def test_ten_million_labels_are_held_against_an_hour_and_16_gigabytes(results: dict[str, Any]) -> None:
    assert "Ten million labels: not measured" in scale.rows_section(results)
    far = {**results["rows"][0], "row": "parabel/10m", "train_s": 3000.0, "seconds": {"save": 300.0}}
    assert "**PASS** (55 min, 15.0 GB)" in scale.rows_section({**results, "rows": [{**far, "peak_mb": 15_000}]})
    assert "**FAIL** (55 min, 17.0 GB)" in scale.rows_section({**results, "rows": [{**far, "peak_mb": 17_000}]})


def test_ten_million_labels_are_measured_whole_and_in_two_shards(results: dict[str, Any]) -> None:
    names = [row["row"] for row in runner.rows()]
    assert len(names) == len(set(names))
    far = [row for row in runner.rows() if row["corpus"] == "10m"]
    assert [row["row"] for row in far] == ["parabel/10m", "parabel/10m/shard-1-of-2", "parabel/10m/shard-2-of-2"]
    figures = {**results["rows"][0], "train_s": 3000.0, "seconds": {"save": 300.0}, "peak_mb": 9_000}
    rows = [{**figures, **row} for row in far]
    rows[2]["peak_mb"] = 17_000
    text = scale.rows_section({**results, "rows": rows})
    assert "whole **PASS**" in text and "shard 1/2 **PASS**" in text and "shard 2/2 **FAIL** (55 min, 17.0 GB)" in text


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not say what a process holds")
def test_memory_of_files_is_told_from_a_process_s_own(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(64 << 20))
    with runner.Held() as before:
        pass
    with runner.Held() as held:
        mapped = np.memmap(tmp_path / "file", dtype=np.uint8, mode="r")
        assert mapped.sum() == 0
        time.sleep(0.3)
    assert held.most["RssFile"] > before.most["RssFile"] + (60 << 20)
    assert held.most["RssAnon"] < before.most["RssAnon"] + (32 << 20)
