"""One system on one corpus: its matrices, its process, its figures."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import common
from longtail.corpus import Corpus
from longtail.errors import UsageError
from longtail.evaluate import evaluate
from longtail.evaluate.report import RANKED
from longtail.labels import LabelIndex
from longtail.scores import Scores
from peers_systems import GENERATED, WORKERS, NotMeasuredError, OverBudgetError, System, say

SOURCE = common.REPOSITORY / "src" / "longtail"
K = 5  # labels predicted against the clock
PASSES = 3  # timed predictions
HUNG = 2 * 3600  # seconds after which a process of our own is given up


@dataclass(frozen=True)
class Job:
    """A system on a corpus, with all of its training documents or a part: 4 for a quarter, 2 for a half."""

    system: System
    corpus: str
    part: int = 1

    @property
    def name(self) -> str:
        share = f" (1/{self.part} of the documents)" if self.part > 1 else ""
        return f"{self.corpus}: {self.system.name}{share}"

    @property
    def output(self) -> Path:
        place = common.WORK / "systems" / self.corpus / self.system.name.replace(" ", "-")
        return place if self.part == 1 else place.with_name(f"{place.name}-part-{self.part}")


@dataclass(frozen=True)
class Conditions:
    """What is the same for all systems of a run."""

    threads: int
    seed: int
    budget: float  # seconds that a peer's process may take

    def seconds_of(self, system: System) -> float:
        return HUNG if system.ours else self.budget


def source_of(corpus: str, data: Path) -> list[Path]:
    """The files that a corpus is made of: training documents, and those to test on."""
    if corpus in GENERATED:
        return []
    train = data / corpus / "train.jsonl.gz"
    held_out = [data / corpus / f"{split}.jsonl.gz" for split in ("test", "valid")]
    found = next((file for file in held_out if file.is_file()), held_out[0])
    for file in (train, found):
        if not file.is_file():
            raise UsageError(f"{file} is missing; give the folder of the corpora by --data or LONGTAIL_DATA")
    return [train, found]


def prepared(corpus: str, data: Path, threads: int) -> Path:
    """The folder with the corpus's matrices, made in a process of its own on first use."""
    own = [SOURCE / "data"] if corpus in GENERATED else [SOURCE / "features", SOURCE / "read"]
    version = common.digest_of_files([*source_of(corpus, data), *own, WORKERS / "prepare.py"])
    folder = common.WORK / "matrices" / corpus / version
    if (folder / "about.json").is_file():
        return folder
    say(f"{corpus}: making the matrices")
    shutil.rmtree(folder.parent, ignore_errors=True)
    unfinished = folder.with_name(folder.name + ".unfinished")
    source = f"synthetic:{GENERATED[corpus]}" if corpus in GENERATED else str(data / corpus)
    command = [sys.executable, WORKERS / "prepare.py", source, unfinished, str(threads)]
    # its standard error is the user's: a bad corpus is said there
    if subprocess.run(command, check=False, stdin=subprocess.DEVNULL).returncode:
        raise NotMeasuredError(f"{corpus}: the matrices could not be made")
    unfinished.rename(folder)
    return folder


def test_corpus(matrices: Path, name: str) -> Corpus:
    """The test documents in training's columns, with training's label counts."""
    Y = sp.csr_matrix(sp.load_npz(matrices / "test_Y.npz"))
    with np.load(matrices / "labels.npz") as labels:
        names = [str(label) for label in range(Y.shape[1])]
        return Corpus(labels=LabelIndex(names, None, labels["counts"], int(labels["documents"])), Y=Y, name=name)


def figures(output: Path, test: Corpus) -> dict[str, Any]:
    """Metrics of the timed prediction; nothing where a system only trains, or counts its own."""
    if not (output / "top.npz").is_file():
        return {}
    with np.load(output / "top.npz") as top:
        scores = Scores(top["ids"].astype(np.int32), top["values"].astype(np.float32)).sorted()
    report = evaluate(scores, test).to_dict()
    tail = [band for band in report["bands"] if band["name"] == "tail"]
    return {
        "metrics": {name: value for name, value in report.items() if name.partition("@")[0] in RANKED},
        "tail_recall@5": tail[0].get("recall@5") if tail else None,
    }


def measure(job: Job, python: Path, matrices: Path, corpus_folder: Path, conditions: Conditions) -> dict[str, Any]:
    """One run of one system in a process of its own: what its worker reports, and the load around it."""
    output = job.output
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    task = output / "task.json"
    whole = job.part == 1
    options = job.system.options | ({"corpus": str(corpus_folder)} if job.system.peer in ("tagger", "command") else {})
    given = {"matrices": str(matrices if whole else matrices / f"part-{job.part}"), "output": str(output)}
    given |= {"options": options, "threads": conditions.threads, "seed": conditions.seed}
    given |= {"k": K, "passes": PASSES if whole else 0}
    task.write_text(json.dumps(given), encoding="utf-8")
    before, started = common.load_average(), time.perf_counter()
    log = output / "log.txt"
    seconds = conditions.seconds_of(job.system)
    code = run_within(seconds, [str(python), str(job.system.worker), str(task)], log, conditions.threads)
    if code is None:
        raise OverBudgetError(f"not finished within {seconds:g} s")
    if code:
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines() or ["nothing was said"]
        why = (
            "killed, most likely out of memory" if code == -signal.SIGKILL else f"ended with {code}: {lines[-1][:300]}"
        )
        raise NotMeasuredError(f"{why} (more in {_shown(log)})")
    report = json.loads((output / "report.json").read_text(encoding="utf-8"))
    report |= {"load_before": before, "load_after": common.load_average(), "total_s": time.perf_counter() - started}
    shutil.rmtree(output / "model", ignore_errors=True)
    return rounded(report)


def run_within(seconds: float, command: list[str], log: Path, threads: int) -> int | None:
    """The exit code, or None when the time was over; whatever happens, none of its processes outlives this call."""
    names = ("OMP", "OPENBLAS", "MKL", "NUMBA", "RAYON")
    environment = {**os.environ, **{f"{name}_NUM_THREADS": str(threads) for name in names}}
    with log.open("wb") as said:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=environment, start_new_session=True
        )
        try:
            return process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    if isinstance(value, list):
        return [rounded(each) for each in value]
    return round(value, 4) if isinstance(value, float) else value


def _shown(path: Path) -> str:
    return str(path.relative_to(common.REPOSITORY)) if path.is_relative_to(common.REPOSITORY) else str(path)
