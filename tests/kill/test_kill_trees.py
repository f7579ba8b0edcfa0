"""kill -9 in the middle of a label tree, and the same program again: the same bytes, and no finished batch twice."""

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
from longtail.engines.local import LocalEngine
from longtail.learners.linear import tasks
from longtail.run import Run
from longtail.tagger import Tagger

folder, wait_at = Path(sys.argv[1]), int(sys.argv[2])
fits.KEPT_FROM, tasks.COST_PER_BATCH = 0.0, 20_000
map_shared, log = LocalEngine.map_shared, folder / "log"

def watched(self, *given, **options):
    with log.open("a") as handle:
        handle.write("batch\\n")
    if len(log.read_text().split()) == wait_at:
        time.sleep(600)
    return map_shared(self, *given, **options)

LocalEngine.map_shared = watched
corpus = synthetic(documents=300, labels=60, words=200, texts=True, seed=3)
tagger = Tagger(
    {"part": "ensemble", "members": [{"part": "bonsai", "trees": 2, "branches": 5}, {"part": "parabel", "trees": 2}]},
    rerank=["ranknet"], threads=2,
)
tagger.fit(corpus, run=Run(threads=2, checkpoints=folder / "unfinished"))
tagger.save(folder / "model", overwrite=True)
"""


def start(folder: Path, wait_at: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", PROGRAM, str(folder), str(wait_at)])


def batches(folder: Path) -> int:
    log = folder / "log"
    return len(log.read_text().split()) if log.exists() else 0


def test_a_killed_training_goes_on_with_the_next_batch(tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    for folder in (whole, killed):
        folder.mkdir()
    assert start(whole, 0).wait(timeout=300) == 0
    total = batches(whole)
    assert total >= 10
    # in the first member, in the second one, and in a fold of the re-ranker
    for wait_at in (2, total // 2, total):
        process = start(killed, wait_at)
        deadline = time.monotonic() + 300
        while batches(killed) < wait_at and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert batches(killed) == wait_at
        # the batch that was under way begins anew
        (killed / "log").write_text("batch\n" * (wait_at - 1))
    assert start(killed, 0).wait(timeout=300) == 0
    assert batches(killed) == total
    files = sorted(path.name for path in (whole / "model").iterdir())
    assert files == sorted(path.name for path in (killed / "model").iterdir())
    assert all((whole / "model" / name).read_bytes() == (killed / "model" / name).read_bytes() for name in files)
