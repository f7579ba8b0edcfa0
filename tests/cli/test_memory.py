"""--dry-run and --memory: plans, refusals, and processes under a real limit, which end or are refused and never die."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cli_helpers import Command, outside

from longtail.data.synthetic import synthetic

MB = 1_000_000
#: One tree with hardly any passes holds what others do.
QUICK = ["--set", "learner.trees=1", "--set", "learner.max_passes=2"]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """12,000 documents of 80 words with 3,000 labels: memory shows beside the interpreter's."""
    corpus = synthetic(documents=12_000, labels=3_000, words=400_000, words_per_document=80, texts=True)
    assert corpus.texts is not None
    path = tmp_path_factory.mktemp("larger") / "train.jsonl"
    with path.open("w", encoding="utf-8") as handle:
        for row, text in enumerate(corpus.texts):
            labels = corpus.Y.indices[corpus.Y.indptr[row] : corpus.Y.indptr[row + 1]]
            handle.write(json.dumps({"text": text, "labels": [corpus.labels.names[j] for j in labels]}) + "\n")
    return path


def limited(size: int, *arguments: object) -> subprocess.CompletedProcess[str]:
    """The command line in a process whose address space is limited."""
    limit = partial(resource.setrlimit, resource.RLIMIT_AS, (size, size))
    line = [sys.executable, "-m", "longtail", *map(str, arguments)]
    return subprocess.run(line, capture_output=True, text=True, timeout=600, preexec_fn=limit)


def check_finished_or_refused(done: subprocess.CompletedProcess[str], model: Path) -> bool:
    """Whether it finished; if not, it was refused: exit code 2, one line, nothing written."""
    if done.returncode == 0:
        assert (model / "manifest.json").exists()
        return True
    assert done.returncode == 2, (done.returncode, done.stderr[-2000:])
    lines = [line for line in done.stderr.splitlines() if line.startswith("longtail: ")]
    assert "Traceback" not in done.stderr and "memory" in lines[-1], done.stderr[-2000:]
    assert not model.exists()
    return False


def test_a_dry_run_shows_the_plan_and_writes_nothing(command: Command, data: Path, tmp_path: Path) -> None:
    found = command("train", data / "train.jsonl", "-o", tmp_path / "m", "--dry-run", "--learner", "bonsai",
                    "--rerank", "ranknet")  # fmt: skip
    assert found.code == 0 and not list(tmp_path.iterdir())
    for stage in ("interpreter and libraries", "read", "features", "cluster", "train", "re-rank folds", "save"):
        assert stage in found.out
    assert "60 documents, 4 labels" in found.out and "it fits" in found.out
    assert command("train", data / "train.jsonl", "--dry-run").code == 0  # needs no output


def test_a_dry_run_as_json(command: Command, data: Path) -> None:
    found = command("train", data / "train.jsonl", "--dry-run", "--json", "--memory", "4GB", "--threads", "2",
                    "--recipe", "bonsai")  # fmt: skip
    plan = json.loads(found.out)
    assert plan["documents"] == 60 and plan["labels"] == 4 and plan["memory"] == 4 * 10**9
    assert plan["fits"] and plan["at_once"] == 2
    assert plan["peak_bytes"] == max(stage["peak_bytes"] for stage in plan["stages"]) >= plan["base_bytes"]


def test_without_an_output_there_must_be_a_dry_run(command: Command, data: Path) -> None:
    assert "--output is needed" in command("train", data / "train.jsonl").line


def test_a_size_that_is_none(command: Command, data: Path, tmp_path: Path) -> None:
    assert "'4 apples' is no size" in command("train", data / "train.jsonl", "-o", tmp_path / "m", "--memory",
                                              "4 apples").line  # fmt: skip


def test_too_little_memory_is_refused_with_the_knob(command: Command, data: Path, tmp_path: Path) -> None:
    said = command("train", data / "train.jsonl", "-o", tmp_path / "m", "--memory", "100MB").line
    assert "100 MB are allowed: give --memory 0." in said
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_too_large_is_not_even_read(command: Command, tmp_path: Path) -> None:
    large = tmp_path / "large.jsonl"
    with large.open("wb") as handle:
        handle.truncate(10 << 30)  # no line of it is JSON, which nobody finds out
    assert "reading it takes about" in command("train", large, "-o", tmp_path / "m", "--memory", "2GB").line


def test_the_summary_has_the_plan_beside_the_peak(command: Command, data: Path, tmp_path: Path) -> None:
    summary = json.loads(command("train", data / "train.jsonl", "-o", tmp_path / "m", "--json").out)
    assert summary["planned_memory_mb"] > 0 and summary["peak_memory_mb"] > 0
    shown = command("train", data / "train.jsonl", "-o", tmp_path / "n").out
    assert "MB expected" in shown


@pytest.mark.parametrize(
    "options", [[*QUICK, "--learner", "bonsai"], ["--learner", "nearest-documents"]], ids=lambda options: options[-1]
)
def test_the_peak_stays_within_the_plan(file: Path, tmp_path: Path, options: list[str]) -> None:
    train: Any = ["train", file, "-o", tmp_path / "m", "--threads", 2, "--json", *options]
    summary = json.loads(outside(*train, "--overwrite").stdout)
    if summary["peak_memory_mb"] > 1.25 * summary["planned_memory_mb"]:  # kernels may have been compiled just now
        summary = json.loads(outside(*train, "--overwrite").stdout)
    assert summary["peak_memory_mb"] <= 1.25 * summary["planned_memory_mb"]
    assert summary["planned_memory_mb"] <= 2 * summary["peak_memory_mb"]


@pytest.mark.parametrize("size", [450 * MB, 700 * MB, 1000 * MB, 2000 * MB])
def test_under_a_real_limit(file: Path, tmp_path: Path, size: int) -> None:
    done = limited(size, "train", file, "-o", tmp_path / "m", "--threads", 2, *QUICK)
    finished = check_finished_or_refused(done, tmp_path / "m")
    assert finished or size < 2000 * MB, done.stderr


def _corpora() -> Path:
    return Path(os.environ.get("LONGTAIL_DATA") or Path(__file__).parents[3] / "shared" / "data")


@pytest.mark.slow
@pytest.mark.skipif(not _corpora().is_dir(), reason="needs the benchmark corpora")
@pytest.mark.parametrize("size", [1000 * MB, 2000 * MB, 4000 * MB])
@pytest.mark.parametrize("corpus", ["vuln-libraries", "gutenberg-lcsh-titles", "germeval-gnd"])
def test_real_corpora_under_a_real_limit(corpus: str, size: int, tmp_path: Path) -> None:
    """Finished or refused, and refused only where the plan is larger than what the limit leaves."""
    data = _corpora() / corpus / "train.jsonl.gz"
    done = limited(size, "train", data, "-o", tmp_path / "m", "--threads", 2, "--set", "learner.trees=1")
    finished = check_finished_or_refused(done, tmp_path / "m")
    assert finished or corpus == "germeval-gnd", done.stderr


@pytest.mark.parametrize("size", [600 * MB, 1200 * MB])
def test_networks_under_a_limit_that_their_libraries_exceed(data: Path, tmp_path: Path, size: int) -> None:
    pytest.importorskip("lightning")
    done = limited(size, "train", data / "train.jsonl", "-o", tmp_path / "m", "--learner", "astec", "--threads", 1,
                   "--set", "learner.steps=2")  # fmt: skip
    assert not check_finished_or_refused(done, tmp_path / "m")
