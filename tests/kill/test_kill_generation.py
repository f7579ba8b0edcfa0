"""kill -9 while texts are generated, and the same command again: one batch is lost at most, the file is the same."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

sys.path.append(str(Path(__file__).resolve().parents[1]))

from longtail.augment.generate.networks import SpanWriter
from longtail.cli import run
from tiny_seq2seq import save_tiny_seq2seq

WORDS = [f"w{n}" for n in range(30)]
#: A process that writes texts as the command line does, and takes a long rest before its third batch.
PROGRAM = """
import sys
from pathlib import Path
from typing import Any
sys.path.insert(0, sys.argv[1])
from test_kill_generation import generate
generate(Path(sys.argv[2]), sys.argv[3:], wait_at=2)
"""


def generate(log: Path, arguments: list[str], wait_at: int = -1) -> int:
    """The exit code of the command line, with a note of every batch that is generated."""
    write = SpanWriter.write

    def watched(self: SpanWriter, rows: Any, seed: int) -> Any:
        count = len(log.read_text().split()) if log.exists() else 0
        if count == wait_at:
            time.sleep(600)
        with log.open("a") as handle:
            handle.write(f"{rows[0]}\n")
        return write(self, rows, seed)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SpanWriter, "write", watched)
        return run(arguments)


@pytest.mark.parametrize("cached", [True, False])
def test_a_killed_generation_goes_on(cached: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = [
        {"id": f"d{n}", "text": " ".join(WORDS[n % 20 : n % 20 + 9]), "labels": [f"l{n % 20}"]} for n in range(60)
    ]
    data = tmp_path / "train.jsonl"
    data.write_text("".join(json.dumps(record) + "\n" for record in records))
    folder = save_tiny_seq2seq(tmp_path / "bart", WORDS, "bart")
    asked = ["augment", "xda", str(data), "--set", "xda.filter=false", "--set", "xda.copies=1", "--threads", "1", "-q",
             "--set", "xda.generator=encoder-decoder", "--set", f"encoder-decoder.model={folder}",
             "--set", "encoder-decoder.steps=2", "-o"]  # fmt: skip
    whole, killed = tmp_path / "whole.jsonl", tmp_path / "killed.jsonl"
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("LONGTAIL_CACHE", str(tmp_path / "one") if cached else "")
    assert generate(tmp_path / "log", [*asked, str(whole)]) == 0
    assert (tmp_path / "log").read_text().split() == ["0", "16", "32", "48"]
    monkeypatch.setenv("LONGTAIL_CACHE", str(tmp_path / "other") if cached else "")
    log = tmp_path / "killed.log"
    line = [sys.executable, "-c", PROGRAM, str(Path(__file__).parent), str(log), *asked, str(killed)]
    process = subprocess.Popen(line)
    deadline = time.monotonic() + 120
    while (not log.exists() or len(log.read_text().split()) < 2) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.3)  # the second batch is being written, or is there
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not killed.exists()
    before = len(log.read_text().split())
    assert generate(log, [*asked, str(killed)]) == 0
    again = log.read_text().split()[before:]
    assert again in (["32", "48"], ["16", "32", "48"]), "finished batches are not generated again"
    assert killed.read_bytes() == whole.read_bytes()
    assert not list(tmp_path.glob(".*.unfinished"))
