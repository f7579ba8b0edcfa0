"""Prediction reads its input as it goes: memory does not grow with it, and the output is whole or not there."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest
from cli_helpers import Command, documents, write_jsonl

from longtail.cli import predict as verb

LINUX = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks Linux for the memory held")

#: The command line, and then on stderr the most memory that the process has held, in kB.
MEASURED = """
import sys
from longtail.cli import run
code = run(sys.argv[1:])
with open("/proc/self/status") as lines:
    print(next(line.split()[1] for line in lines if line.startswith("VmHWM")), file=sys.stderr)
sys.exit(code)
"""


def peak_kilobytes(model: Path, source: Path, *, piped: bool = False) -> int:
    target = source.with_suffix(".out")
    call = [sys.executable, "-c", MEASURED, "predict", str(model), "-" if piped else str(source), "-o", str(target)]
    with source.open("rb") as handle:
        done = subprocess.run(
            [*call, "--threads", "1", "--overwrite"], stdin=handle, capture_output=True, check=True, text=True
        )
    return int(done.stderr.split()[-1])


@LINUX
@pytest.mark.parametrize("kind", ["jsonl", "jsonl.gz", "csv", "txt", "stdin"])
def test_memory_does_not_grow_with_the_input(model: Path, tmp_path: Path, kind: str) -> None:
    record = documents(1)[0]
    text = " ".join([record["text"]] * 12)
    once = {
        "jsonl": json.dumps({"text": text, "labels": ["music"]}),
        "jsonl.gz": json.dumps({"text": text}),
        "csv": f"{text},music",
        "txt": text,
        "stdin": text,
    }[kind]
    peaks = []
    for times in (1, 8):
        path = tmp_path / f"{times}.{'txt' if kind == 'stdin' else kind}"
        content = ("text,labels\n" if kind == "csv" else "") + f"{once}\n" * (6_000 * times)
        path.write_bytes(gzip.compress(content.encode(), 1) if kind.endswith("gz") else content.encode())
        peaks.append(peak_kilobytes(model, path, piped=kind == "stdin"))
        assert path.with_suffix(".out").read_bytes().count(b"\n") == 6_000 * times
    # the texts alone are 44 MB more in the longer input; what a batch leaves behind differs by some MB between runs
    assert peaks[1] < peaks[0] + 22 * 1024


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_the_same_lines_whatever_the_batch(
    model: Path, data: Path, command: Command, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    whole = command("predict", model, data / "test.jsonl", "-q")
    monkeypatch.setattr(sys.modules[verb.__module__], "BATCH", size)
    assert command("predict", model, data / "test.jsonl", "-q") == whole
    assert len(whole.out.splitlines()) == 20


def test_no_file_where_a_late_line_is_bad(
    model: Path, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[verb.__module__], "BATCH", 2)
    path = write_jsonl(tmp_path / "d.jsonl", documents(9))
    with path.open("a") as handle:
        handle.write("{")
    result = command("predict", model, path, "-o", tmp_path / "out.jsonl")
    assert result.code == 2
    assert result.line.startswith(f"{path}:10: not JSON")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["d.jsonl"]
    # on standard output the lines before it have been written by then
    straight = command("predict", model, path)
    assert straight.code == 2
    assert straight.err.startswith(f"longtail: {path}:10: not JSON")
    assert len(straight.out.splitlines()) == 8


def test_what_was_skipped_is_said_once(
    model: Path, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[verb.__module__], "BATCH", 2)
    path = write_jsonl(tmp_path / "d.jsonl", [*documents(5), {"no": "text"}, *documents(4, seed=2)])
    result = command("predict", model, path, "--skip-bad")
    assert result.code == 0
    assert result.err.count("\n") == 1
    assert "1 bad line skipped, the first: " in result.err
    assert len(result.out.splitlines()) == 9
