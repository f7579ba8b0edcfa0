"""Seeds, stages, progress, and work spread over threads."""

from __future__ import annotations

import threading
import time
from functools import partial

import numpy as np
import pytest

from longtail.engines.local import thread_map
from longtail.run import Run, available_cores


class Recorded:
    """A progress that notes what was announced and how far it came."""

    def __init__(self) -> None:
        self.bars: list[tuple[str, float | None]] = []
        self.done = 0.0
        self.open = 0
        self._lock = threading.Lock()

    def bar(self, title: str, total: float | None) -> Recorded:
        self.bars.append((title, total))
        return self

    def __enter__(self) -> Recorded:
        self.open += 1
        return self

    def __exit__(self, *exception: object) -> None:
        self.open -= 1

    def advance(self, amount: float = 1) -> None:
        with self._lock:
            self.done += amount


# seeds
def test_streams_differ_by_name_and_by_seed_and_repeat() -> None:
    def first(seed: int, name: str) -> int:
        return int(Run(seed=seed).rng(name).integers(1 << 60))

    assert first(0, "a") == first(0, "a")
    assert len({first(seed, name) for seed in (0, 1, 11) for name in ("a", "b", "1/a")}) == 9


def test_streams_do_not_depend_on_the_order_they_are_asked_for() -> None:
    one, other = Run(seed=3), Run(seed=3)
    draws = {name: one.rng(name).random() for name in ("a", "b", "c")}
    assert {name: other.rng(name).random() for name in ("c", "a", "b")} == draws


def test_seed_is_the_same_on_every_machine() -> None:
    """The number comes from `printf 0/bootstrap | sha256sum`, whose first 8 bytes these are."""
    assert Run(seed=0).seed_of("bootstrap") == int.from_bytes(bytes.fromhex("35f5a96c97fcab2e"), "little") >> 1
    assert all(0 <= Run(seed=s).seed_of("x") < 1 << 63 for s in range(200))


# stages and threads
def test_stages_add_up_and_count_failures_too() -> None:
    run = Run()
    for _ in range(2):
        with run.stage("read"):
            time.sleep(0.01)
    with pytest.raises(KeyError), run.stage("save"):
        time.sleep(0.01)
        raise KeyError
    assert run.seconds.keys() == {"read", "save"}
    assert run.seconds["read"] >= 0.02
    assert run.seconds["save"] >= 0.01


def test_zero_threads_means_all_cores() -> None:
    assert Run().workers == available_cores() >= 1
    assert Run(threads=3).workers == 3


def test_silence_is_the_default() -> None:
    with Run().bar("title", None) as bar:
        bar.advance()
        bar.advance(3)


# work on threads
@pytest.mark.parametrize("workers", [1, 2, 5])
def test_results_come_in_task_order(workers: int) -> None:
    def late_if_first(task: int) -> int:
        time.sleep(0.002 * (5 - task % 5))
        return task * task

    assert thread_map(late_if_first, range(20), workers=workers) == [t * t for t in range(20)]
    assert thread_map(late_if_first, [], workers=workers) == []
    assert thread_map(late_if_first, [7], workers=workers) == [49]


def test_tasks_run_side_by_side() -> None:
    """Each task waits for the other, so one thread alone would never end."""
    meeting = threading.Barrier(2, timeout=10)
    assert sorted(Run(threads=2).map(lambda task: (meeting.wait(), task)[1], ["a", "b"])) == ["a", "b"]


def test_one_worker_stays_on_the_calling_thread() -> None:
    here = threading.get_ident()
    assert set(thread_map(lambda _: threading.get_ident(), range(5), workers=1)) == {here}


def test_the_costliest_tasks_start_first() -> None:
    started: list[int] = []

    def one(task: int) -> int:
        started.append(task)
        return -task

    assert thread_map(one, [3, 10, 1, 7, 10], workers=1, cost=float) == [-3, -10, -1, -7, -10]
    assert started == [10, 10, 7, 3, 1]


def test_the_costliest_tasks_start_first_on_threads() -> None:
    """The two costly tasks wait for each other: a cheap one that took a thread before them would be seen."""
    meeting = threading.Barrier(2, timeout=10)
    met = threading.Event()

    def one(task: int) -> bool:
        if task == 10:
            meeting.wait()
            met.set()
        return met.is_set()

    assert all(thread_map(one, [1, 10, 2, 3, 10], workers=2, cost=float))


def test_equal_costs_start_in_task_order() -> None:
    started: list[int] = []
    thread_map(started.append, range(6), workers=1)
    assert started == list(range(6))


@pytest.mark.parametrize("workers", [1, 2])
def test_the_first_failure_is_raised_and_the_rest_never_starts(workers: int) -> None:
    """The second task fails while the first, the longest, is still under way: nothing may start after that."""
    started: list[int] = []
    failed = threading.Event()

    def one(task: int) -> None:
        started.append(task)
        if task == 0 and workers > 1:
            assert failed.wait(10)
            time.sleep(0.1)  # time enough for the other thread to take up all that is left
        if task == 1:
            failed.set()
            raise ValueError("task 1 is bad")
        if task > 1:
            raise KeyError(task)

    with pytest.raises(ValueError, match="task 1 is bad"):
        thread_map(one, range(50), workers=workers)
    assert sorted(started) == [0, 1]


def test_the_earlier_failure_is_raised_not_the_costlier() -> None:
    failed = threading.Event()

    def one(task: int) -> None:
        if task == 0:
            assert failed.wait(10)
            time.sleep(0.05)
            raise KeyError("later")
        failed.set()
        raise ValueError("earlier")

    with pytest.raises(ValueError, match="earlier"):
        thread_map(one, [0, 1], workers=2)


@pytest.mark.parametrize("workers", [1, 2])
def test_progress_adds_up_to_what_was_announced(workers: int) -> None:
    shown = Recorded()
    run = Run(threads=workers, progress=shown)
    run.map(lambda task: task, [1, 2, 3.5], cost=lambda task: 2 * task, title="Working")
    assert shown.bars == [("Working", 13.0)]
    assert shown.done == 13.0
    assert shown.open == 0


def test_progress_counts_tasks_without_costs_and_nothing_without_a_title() -> None:
    shown = Recorded()
    run = Run(threads=2, progress=shown)
    run.map(str, range(7), title="Counting")
    assert (shown.bars, shown.done) == ([("Counting", 7.0)], 7.0)
    run.map(str, range(7))
    assert len(shown.bars) == 1


def test_the_bar_is_closed_when_a_task_fails() -> None:
    shown = Recorded()

    def fail(task: int) -> None:
        raise ValueError(task)

    with pytest.raises(ValueError):
        Run(threads=2, progress=shown).map(fail, range(4), title="Failing")
    assert (shown.open, shown.done) == (0, 0)


def test_drawing_by_task_gives_the_same_whatever_the_threads() -> None:
    def draw(run: Run) -> list[float]:
        return run.map(lambda task: float(run.rng(f"task/{task}").random()), range(30))

    assert draw(Run(seed=5, threads=1)) == draw(Run(seed=5, threads=4))
    assert not np.allclose(draw(Run(seed=5)), draw(Run(seed=6)))


def test_a_stage_within_a_stage_counts_once() -> None:
    run = Run()
    start = time.perf_counter()
    with run.stage("train"):
        time.sleep(0.01)
        with run.child("inner").stage("cluster"):
            time.sleep(0.03)
    assert sum(run.seconds.values()) <= time.perf_counter() - start
    assert run.seconds["cluster"] >= 0.03
    assert 0.01 <= run.seconds["train"] < 0.03


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_a_crew_does_all_tasks(workers: int) -> None:
    done: list[int] = []
    with Run(threads=workers).crew() as crew:
        for count in (0, 1, 2, 20):
            done.clear()
            crew.do([partial(done.append, number) for number in range(count)])
            assert sorted(done) == list(range(count))


@pytest.mark.parametrize("workers", [1, 3])
def test_a_crew_raises_what_a_task_raises(workers: int) -> None:
    def fail() -> None:
        raise ValueError("this one")

    with Run(threads=workers).crew() as crew:
        with pytest.raises(ValueError, match="this one"):
            crew.do([fail] * 4)
        done: list[int] = []
        crew.do([partial(done.append, 1)])
        assert done == [1], "and goes on"
