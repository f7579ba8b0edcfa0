"""What is going on: lines where there is no terminal, and how long the whole command will take."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from cli_helpers import documents, write_jsonl

from longtail.cli import progress
from longtail.cli.ahead import Ahead, Done
from longtail.cli.progress import Bars, Lines, duration
from longtail.plan import Plan, Sizes, Stage
from longtail.read import read_in_batches
from longtail.run import Run


def plan(**seconds: float) -> Plan:
    """A plan of stages; "__" stands for what is between an owner and a stage, "_" for a space."""
    names = {name.replace("__", ": ").replace("_", " "): spent for name, spent in seconds.items()}
    stages = tuple(Stage(name, spent, 0) for name, spent in names.items())
    return Plan(Sizes(1, 1, 1), stages, 0, 1)


class TestAhead:
    def test_as_planned(self) -> None:
        ahead = Ahead.of(plan(read=10, features=20, cluster=10, train=50, save=10), 10.0)
        assert (ahead.share(0, []), ahead.left(0, [])) == pytest.approx((0.1, 90))
        ahead.begin("", "features", 0)
        ahead.end("", "features", 20)
        ahead.begin("", "cluster", 20)
        ahead.end("", "cluster", 30)
        ahead.begin("", "train", 30)
        bar = Done("Training", 100.0, 30.0, done=50.0)
        assert ahead.share(55, [bar]) == pytest.approx(0.65)
        assert ahead.left(55, [bar]) == pytest.approx(25 + 10)
        ahead.end("", "train", 80)
        ahead.begin("", "save", 80)
        ahead.end("", "save", 90)
        assert (ahead.share(90, []), ahead.left(90, [])) == pytest.approx((1.0, 0.0))

    def test_what_was_seen_corrects_the_rest(self) -> None:
        ahead = Ahead.of(plan(read=10, features=40, train=50), 10.0)
        ahead.begin("", "features", 0)
        ahead.end("", "features", 120)  # three times as long as planned
        slow = ahead.left(120, [])
        assert 80 < slow < 150, "the plan has a say as well"
        ahead.begin("", "train", 120)
        half = Done("Training", 10.0, 120.0, done=5.0)
        assert ahead.left(220, [half]) == pytest.approx(100), "a bar that has come far enough tells best"

    def test_what_an_earlier_run_did_says_nothing_about_the_rate(self) -> None:
        ahead = Ahead.of(plan(read=0, train=100), 0.0)
        ahead.begin("", "train", 0)
        bar = Done("Training", 100.0, 0.0, done=60.0, before=50.0)
        assert ahead.share(20, [bar]) == pytest.approx(0.6)
        assert ahead.left(20, [bar]) == pytest.approx(80)

    def test_members_that_were_finished_before_are_passed_over(self) -> None:
        parts = {"1_bonsai__cluster": 10.0, "1_bonsai__train": 30.0, "2_decaf__tokens": 10.0, "2_decaf__train": 50.0}
        ahead = Ahead.of(plan(read=0, **parts), 0.0)
        ahead.begin("2 decaf", "features", 3)
        assert ahead.share(3, []) == pytest.approx(0.4)
        assert ahead.left(3, []) == pytest.approx(60)

    def test_stages_that_nobody_planned_change_nothing(self) -> None:
        ahead = Ahead.of(plan(read=0, cluster=10, train=20), 0.0)
        ahead.begin("fold 0", "train", 0)
        ahead.end("fold 0", "train", 50)
        assert ahead.left(50, []) == pytest.approx(30)
        ahead.begin("", "train", 50)
        ahead.begin("", "features", 51)
        ahead.end("", "features", 52)
        assert ahead.current is not None and ahead.current.stage == "train"

    def test_networks_of_several_levels_go_by_the_clock(self) -> None:
        levels = {"level_1_network": 1.0, "level_1_train": 40.0, "level_2_network": 1.0, "level_2_train": 58.0}
        ahead = Ahead.of(plan(read=0, **levels), 0.0)
        ahead.begin("", "train", 0)
        first = Done("Training level 1 of 2", 100, 0.0, done=100)
        assert ahead.left(40, [first]) == pytest.approx(60), "one level is done, not all of them"

    def test_never_goes_back(self) -> None:
        ahead = Ahead.of(plan(read=0, train=100), 0.0)
        ahead.begin("", "train", 0)
        assert ahead.share(1, [Done("Training", 10, 0.0, done=5)]) == 0.5
        assert ahead.share(2, [Done("Training", 10, 2.0)]) == 0.5


def test_durations() -> None:
    assert [duration(seconds) for seconds in (0.2, 59, 100, 7200)] == ["1 s", "59 s", "2 min", "2.0 h"]


class Said(Lines):
    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def say(self, message: str) -> None:
        self.said.append(message)


class TestLines:
    @pytest.fixture
    def lines(self, monkeypatch: pytest.MonkeyPatch) -> Said:
        monkeypatch.setattr(progress, "LINE_SECONDS", 0.05)
        return Said()

    def test_one_now_and_then_even_if_nothing_moves(self, lines: Said) -> None:
        run = Run(progress=lines, watch=lines)
        with run.stage("train"):
            time.sleep(0.3)
        said = len(lines.said)
        assert 2 <= said <= 7 and lines.said[0].startswith("Train, 1 s so far")
        time.sleep(0.15)
        assert len(lines.said) == said, "nothing is under way"

    @pytest.mark.parametrize(
        ("total", "wanted"),
        [(40, r"Training 25 %, 10 of 40, [\d.]+ per second, \d+ s left"),
         (40.5, r"Training 25 %, [\d.]+ % per (second|minute), \d+ s left"),
         (40_000_000, r"Training 0 %, 10 of 40\.0M, .*")],
    )  # fmt: skip
    def test_say_what_is_done_and_left(self, lines: Said, total: Any, wanted: str) -> None:
        run = Run(progress=lines, watch=lines)
        with run.bar("training", total) as bar:
            bar.advance(10)
            time.sleep(0.2)
        assert re.fullmatch(wanted, lines.said[0]), lines.said[0]

    @pytest.mark.parametrize("total", [40, 40.5])
    def test_say_no_rate_before_anything_is_done(self, lines: Said, total: float) -> None:
        run = Run(progress=lines, watch=lines)
        with run.bar("scoring", total):
            time.sleep(0.2)
        assert lines.said[0] == "Scoring 0 %, 1 s so far"

    def test_a_file_that_is_read_to_its_end_has_no_bytes_to_count_and_nothing_left(
        self, lines: Said, tmp_path: Path
    ) -> None:
        """The last documents are still predicted then."""
        path = tmp_path / "new.txt"
        path.write_text("some text\n" * 10)
        run = Run(progress=lines, watch=lines)
        batches, _ = read_in_batches(path, 100, run=run, title="Predicting")
        for _ in batches:
            time.sleep(0.2)
        assert lines.said[0] == "Predicting 100 %, 1 s so far"

    @pytest.mark.parametrize("watched", [True, False])
    def test_somebody_who_watches_is_told_once_that_kernels_are_compiled(
        self, lines: Said, monkeypatch: pytest.MonkeyPatch, *, watched: bool
    ) -> None:
        import numba

        assert Bars.watched and not Lines.watched
        monkeypatch.setattr("longtail.cli.compiling.SECONDS", 0.0)
        monkeypatch.setattr(Said, "watched", watched)
        run = Run(progress=lines, watch=lines)
        with run.stage("features"):
            for kernel in (numba.njit(lambda x: x + 1), numba.njit(lambda x: x - 1)):
                kernel(1)
        said = "compiling for this computer, which happens once and may take half a minute"
        assert [each for each in lines.said if "compiling" in each] == [said] * watched

    def test_say_how_far_the_whole_command_is(self, lines: Said) -> None:
        lines.follow(plan(read=1, features=1, train=8), 1.0)
        run = Run(progress=lines, watch=lines)
        with run.stage("features"):
            pass
        with run.stage("train"), run.bar("Training", 4) as bar:
            bar.advance(2)
            time.sleep(0.1)
        assert "; whole command 60 %, about " in lines.said[0]

    def test_resumed_is_said_once_work_goes_on(self, lines: Said, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(progress, "LINE_SECONDS", 1000)
        lines.follow(plan(read=0, train=100), 0.0)
        run = Run(progress=lines, watch=lines)
        with run.stage("train"), run.bar("Training", 100) as bar:
            with run.earlier():
                bar.advance(11)
                bar.advance(7)
            assert lines.said == []
            bar.advance(1)
            bar.advance(1)
        assert lines.said == ["resumed at 18 %"]

    def test_threads_end(self, lines: Said) -> None:
        before = threading.active_count()
        run = Run(progress=lines, watch=lines)
        for _ in range(20):
            with run.bar("Training", 3) as bar:
                bar.advance()
        deadline = time.monotonic() + 5
        while threading.active_count() > before and time.monotonic() < deadline:
            time.sleep(0.01)
        assert threading.active_count() <= before


PROGRAM = """
import sys, time
from longtail.cli import main, progress
from longtail.learners.linear import base
progress.LINE_SECONDS = 0.1
solve = base.solve_task
def slow(shared, task):
    time.sleep(0.2)
    return solve(shared, task)
base.solve_task = slow
main(sys.argv[1:])
"""


def test_a_training_without_a_terminal(tmp_path: Path) -> None:
    data = write_jsonl(tmp_path / "train.jsonl", documents(80))

    def train(*options: str) -> subprocess.CompletedProcess[str]:
        small = ["--learner", "parabel", "--set", "learner.max_leaf=1", "--threads", "1", "--overwrite"]
        command = [sys.executable, "-c", PROGRAM, "train", str(data), "-o", str(tmp_path / "m"), *small, *options]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)

    lines = train().stderr.splitlines()
    assert any(
        re.fullmatch(r"longtail: Training \d+ %, [\d.]+ % per (second|minute)(, \d+ s left)?; "
                     r"whole command \d+ %, about \d+ s left", line) for line in lines
    ), lines  # fmt: skip
    assert train("--quiet").stderr == ""
