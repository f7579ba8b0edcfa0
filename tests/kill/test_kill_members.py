"""kill -9 in the middle of an ensemble, and the same program again: finished members are not trained twice."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

PROGRAM = """
import sys, time
from pathlib import Path
from longtail import fit as fits
from longtail.data.synthetic import synthetic
from longtail.learners.linear.label_tree import Parabel
from longtail.run import Run
from longtail.tagger import Tagger

folder, wait_at = Path(sys.argv[1]), int(sys.argv[2])
fits.KEPT_FROM = 0.0
learn, log = Parabel.learn, folder / "log"

def watched(self, corpus, fit):
    with log.open("a") as handle:
        handle.write(f"{self.max_leaf}\\n")
    if self.max_leaf == wait_at:
        time.sleep(600)
    return learn(self, corpus, fit)

Parabel.learn = watched
members = [{"part": "parabel", "trees": 1, "max_leaf": leaf} for leaf in (11, 12, 13)]
corpus = synthetic(documents=200, labels=40, words=200, texts=True, seed=3)
tagger = Tagger({"part": "ensemble", "members": members}, threads=1)
tagger.fit(corpus, run=Run(threads=1, checkpoints=folder / "unfinished"))
tagger.save(folder / "model", overwrite=True)
"""


def start(folder: Path, wait_at: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", PROGRAM, str(folder), str(wait_at)])


def trained(folder: Path) -> list[str]:
    log = folder / "log"
    return log.read_text().split() if log.exists() else []


def test_finished_members_are_not_trained_again(tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    for folder in (whole, killed):
        folder.mkdir()
    assert start(whole, 0).wait(timeout=300) == 0
    process = start(killed, 13)
    deadline = time.monotonic() + 300
    while trained(killed) != ["11", "12", "13"] and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert trained(killed) == ["11", "12", "13"]
    assert start(killed, 0).wait(timeout=300) == 0
    assert trained(killed) == ["11", "12", "13", "13"], "only the member that was under way"
    models = [{file.name: file.read_bytes() for file in (folder / "model").iterdir()} for folder in (whole, killed)]
    assert models[0] == models[1], "and the model is that of a run that was not killed"
