"""kill -9 while texts are generated, and the same command again: one batch is lost at most, the file is the same."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

sys.path.append(str(Path(__file__).resolve().parents[1]))

from tiny_seq2seq import save_tiny_seq2seq

WORDS = [f"w{n}" for n in range(30)]
#: The command line, with a note of every batch that is generated, and a long rest before one of them.
PROGRAM = """
import sys, time
from pathlib import Path
from longtail.augment.generate.networks import SpanWriter
from longtail.cli import run
write, log, wait_at = SpanWriter.write, Path(sys.argv[1]), int(sys.argv[2])

def watched(self, rows, seed):
    count = len(log.read_text().split()) if log.exists() else 0
    if count == wait_at:
        time.sleep(600)
    with log.open("a") as handle:
        handle.write(f"{rows[0]}\\n")
    return write(self, rows, seed)

SpanWriter.write = watched
sys.exit(run(sys.argv[3:]))
"""


def start(log: Path, wait_at: int, *arguments: object, cache: str) -> subprocess.Popen[bytes]:
    line = [sys.executable, "-c", PROGRAM, str(log), str(wait_at), *map(str, arguments)]
    return subprocess.Popen(line, env={**os.environ, "LONGTAIL_CACHE": cache, "HF_HUB_OFFLINE": "1"})


@pytest.mark.parametrize("cached", [True, False])
def test_a_killed_generation_goes_on(cached: bool, tmp_path: Path) -> None:
    records = [
        {"id": f"d{n}", "text": " ".join(WORDS[n % 20 : n % 20 + 9]), "labels": [f"l{n % 20}"]} for n in range(60)
    ]
    data = tmp_path / "train.jsonl"
    data.write_text("".join(json.dumps(record) + "\n" for record in records))
    folder = save_tiny_seq2seq(tmp_path / "bart", WORDS, "bart")
    asked = ["augment", "xda", data, "--set", "xda.filter=false", "--set", "xda.copies=1", "--threads", 1, "-q",
             "--set", "xda.generator=encoder-decoder", "--set", f"encoder-decoder.model={folder}",
             "--set", "encoder-decoder.steps=2"]  # fmt: skip
    whole, killed = tmp_path / "whole.jsonl", tmp_path / "killed.jsonl"
    caches = [str(tmp_path / name) if cached else "" for name in ("one", "other")]
    assert start(tmp_path / "log", -1, *asked, "-o", whole, cache=caches[0]).wait(timeout=120) == 0
    assert (tmp_path / "log").read_text().split() == ["0", "16", "32", "48"]
    log = tmp_path / "killed.log"
    process = start(log, 2, *asked, "-o", killed, cache=caches[1])
    deadline = time.monotonic() + 120
    while (not log.exists() or len(log.read_text().split()) < 2) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.3)  # the second batch is being written, or is there
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not killed.exists()
    before = len(log.read_text().split())
    assert start(log, -1, *asked, "-o", killed, cache=caches[1]).wait(timeout=120) == 0
    again = log.read_text().split()[before:]
    assert again in (["32", "48"], ["16", "32", "48"]), "finished batches are not generated again"
    assert killed.read_bytes() == whole.read_bytes()
    assert not list(tmp_path.glob(".*.unfinished"))
