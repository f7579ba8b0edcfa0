"""A real Ray cluster of two nodes on this machine: local's results, byte for byte, whatever dies on the way."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from longtail import shards
from longtail.data.synthetic import synthetic
from longtail.errors import ModelError, UsageError
from longtail.learners.linear.label_tree import Bonsai
from longtail.run import Run
from longtail.tagger import Tagger

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'longtail[ray]'")

from ray.cluster_utils import Cluster  # noqa: E402
from ray_tasks import Numbers, dies_once, doubled_in_place, fails, shifted  # noqa: E402

from longtail.engines.ray import RayEngine, batched  # noqa: E402

#: A node that is gone refuses five calls within five seconds; one that is only slow, as on a machine that has other
#: work, has a minute for each.
CHECKS = {"health_check_initial_delay_ms": 1000, "health_check_period_ms": 1000, "health_check_timeout_ms": 60_000}
NODE = {"num_cpus": 1, "object_store_memory": 100_000_000, "include_dashboard": False}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two nodes of one processor each; this process drives from the first."""
    kept = {name: os.environ.get(name) for name in ("RAY_USAGE_STATS_ENABLED", "PYTHONPATH")}
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    # workers import this package and the tasks of these tests as this process does
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    made = Cluster(initialize_head=True, head_node_args={**NODE, "_system_config": CHECKS})
    made.add_node(num_cpus=1, object_store_memory=NODE["object_store_memory"])
    try:
        yield made
    finally:
        ray.shutdown()
        made.shutdown()
        for name, value in kept.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


@pytest.fixture(scope="module")
def engine(cluster: Cluster) -> RayEngine:
    return RayEngine.connected(cluster.address)


def numbers(folder: Path) -> Numbers:
    return Numbers(np.arange(100_000, dtype=np.float32), np.zeros(0, dtype=np.int32), str(folder))


class Noted:
    """A progress that adds up, and does something when a bar of some title opens."""

    def __init__(self, title: str = "", when_open: Callable[[], None] = lambda: None) -> None:
        self.title, self.when_open = title, when_open
        self.total, self.done = 0.0, 0.0

    def bar(self, title: str, total: float | None) -> Any:
        self.total += total or 0
        if title == self.title:
            self.when_open()
        return self

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exception: object) -> None:
        return None

    def advance(self, amount: float = 1) -> None:
        self.done += amount


def state_of(learner: Bonsai) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in learner.state().items()}


def bonsai() -> Bonsai:
    return Bonsai(trees=2, branches=8, max_leaf=20)


@pytest.fixture(scope="module")
def corpus() -> Any:
    return synthetic(documents=12_000, labels=2400, words=4000, words_per_document=8)


# batches
def test_batches_are_even_costliest_first_and_hold_every_task_once() -> None:
    costs = [1.0] * 50 + [30.0, 0.0]
    batches = batched(costs, 8)
    assert sorted(task for batch in batches for task in batch) == list(range(52))
    assert batches[0] == [50]
    assert all(sum(costs[t] for t in batch) <= 10 for batch in batches[1:])
    assert 6 <= len(batches) <= 9
    assert batched([0.0, 0.0], 8) == [[0, 1]]


# tasks
def test_results_come_in_task_order_from_both_nodes_and_belong_to_us(engine: RayEngine, tmp_path: Path) -> None:
    shown = Noted()
    run = Run(engine=engine, progress=shown)
    found = run.map_shared(shifted, numbers(tmp_path), range(200), cost=lambda task: 1 + task % 7, title="Shifting")
    assert [task for task, _, _ in found] == list(range(200))
    assert all(np.array_equal(values, np.arange(task, task + 3)) for task, values, _ in found)
    assert all(values.flags.writeable for _, values, _ in found)
    assert os.getpid() not in {process for _, _, process in found}
    assert shown.done == shown.total == sum(1 + task % 7 for task in range(200))
    assert run.map_shared(shifted, numbers(tmp_path), []) == []


def test_shared_data_is_put_once(engine: RayEngine, tmp_path: Path) -> None:
    shared = numbers(tmp_path)
    first = engine._shared(shared)
    assert engine._shared(shared) is first
    assert engine._shared(numbers(tmp_path)) is not first
    pair = engine._shared((shared, 1.5))
    assert engine._shared((shared, 1.5)) is pair
    assert engine._shared((shared, 2.5)) is not pair


def test_arrays_of_a_task_belong_to_the_worker(engine: RayEngine, tmp_path: Path) -> None:
    """Large ones, too, which go by the object store; ours stay as they are."""
    tasks = [np.ones(size, dtype=np.float32) for size in (3, 500_000)]
    found = Run(engine=engine).map_shared(doubled_in_place, numbers(tmp_path), tasks)
    assert [array.sum() for array in found] == [6, 1_000_000]
    assert [array.sum() for array in tasks] == [3, 500_000]


def test_a_killed_process_costs_a_retry(engine: RayEngine, tmp_path: Path) -> None:
    assert Run(engine=engine).map_shared(dies_once, numbers(tmp_path), range(3)) == [0, 1, 4]


def test_what_a_task_raises_is_raised_as_it_is(engine: RayEngine, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^task 3 is bad$"):
        Run(engine=engine).map_shared(fails, numbers(tmp_path), range(5))


# models
def test_a_model_is_predicted_and_evaluated_by_other_processes(
    engine: RayEngine, cluster: Cluster, tmp_path: Path
) -> None:
    texts = synthetic(documents=5000, labels=600, words=2000, words_per_document=8, texts=True)
    tagger = Tagger(bonsai()).fit(texts, run=Run(engine=engine))
    with pytest.raises(UsageError, match="save this tagger and load it"):
        tagger.score(texts, 3, run=Run(engine=engine))
    tagger.save(tmp_path / "model")
    opened = Tagger.load(tmp_path / "model")
    here, there = opened.score(texts, 3), opened.score(texts, 3, run=Run(engine=engine))
    assert np.array_equal(here.ids, there.ids)
    assert np.array_equal(here.values, there.values)
    assert opened.evaluate(texts, run=Run(engine=engine)).to_dict() == opened.evaluate(texts).to_dict()

    (tmp_path / "texts.txt").write_text("\n".join(texts.texts[:50]))
    line = [sys.executable, "-m", "longtail", "predict", tmp_path / "model", tmp_path / "texts.txt", "-q", "-k", "2"]
    outside = subprocess.run(
        [*map(str, line), "--engine", "ray", "--address", cluster.address], capture_output=True, text=True
    )
    assert outside.returncode == 0, outside.stderr
    wanted = opened.predict(texts.texts[:50], 2)
    found = [json.loads(each)["labels"] for each in outside.stdout.splitlines()]
    assert [[label["label"] for label in labels] for labels in found] == [[found.label for found in w] for w in wanted]


def test_shards_are_searched_by_processes_that_open_one_each(engine: RayEngine, corpus: Any, tmp_path: Path) -> None:
    for number in (1, 2):
        Tagger(bonsai(), rerank=["inverse-propensity"]).fit(corpus, shard=(number, 2)).save(tmp_path / "model")
    opened = Tagger.load(tmp_path / "model")
    here, there = opened.score(corpus, 3), opened.score(corpus, 3, run=Run(engine=engine))
    assert np.array_equal(here.ids, there.ids)
    assert np.array_equal(here.values, there.values)
    (tmp_path / "model").rename(tmp_path / "elsewhere")
    with pytest.raises(ModelError, match="every machine must see the model under this path"):
        rows = shards._Documents(str(tmp_path / "model"), ["w1"], None)
        Run(engine=engine).map_shared(shards._score_rows, shards._Asked(Tagger.load, 3), [rows])


def test_training_goes_on_when_processes_and_a_node_die(cluster: Cluster, engine: RayEngine, corpus: Any) -> None:
    """Last, for it leaves one node behind. A process of the first is killed at work, then the other as a whole."""
    here = bonsai().fit(corpus, run=Run(threads=1))
    head, other = cluster.head_node, next(iter(cluster.worker_nodes))
    killed = []

    def kill() -> None:
        for node in (head, other):
            while not (working := _working(node)):
                time.sleep(0.0005)
            if node is head:
                os.kill(working[0], signal.SIGKILL)
            else:
                cluster.remove_node(node, allow_graceful=False)
            killed.append(node)

    killer = threading.Thread(target=kill, daemon=True)
    there = bonsai().fit(corpus, run=Run(engine=engine, progress=Noted("Training", killer.start)))
    killer.join(60)
    assert killed == [head, other]
    assert len(cluster.list_all_nodes()) == 1
    assert state_of(there) == state_of(here)


def _working(node: Any) -> list[int]:
    """The processes in which tasks of this node are under way; its raylet started them, beside some that it needs."""
    raylet = node.all_processes["raylet"][0].process.pid
    found = []
    for child in Path(f"/proc/{raylet}/task/{raylet}/children").read_text().split():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it ended meanwhile
            found += [int(child)] if b"ray::_work" in Path(f"/proc/{child}/cmdline").read_bytes() else []
    return found


# refusals
def test_what_cannot_be_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "data.jsonl").write_text('{"text": "a b", "labels": ["x"]}\n')

    def refused(*options: str) -> str:
        line = [sys.executable, "-m", "longtail", "train", tmp_path / "data.jsonl", "-o", tmp_path / "model", *options]
        result = subprocess.run([*map(str, line)], capture_output=True, text=True)
        assert result.returncode == 2
        assert result.stderr.count("\n") == 1, result.stderr
        return result.stderr

    assert "--address is where a Ray cluster is found" in refused("--address", "localhost:1")
    assert "trains label trees, and 'nearest-documents' has none" in refused(
        "--engine", "ray", "--learner", "nearest-documents"
    )
    assert "takes HOST:PORT or auto" in refused("--engine", "ray", "--address", "ray://somewhere")
    assert "no Ray cluster at 127.0.0.1:1:" in refused("--engine", "ray", "--address", "127.0.0.1:1")
