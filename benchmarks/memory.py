"""Memory that plans expect beside what fits hold: results/memory.json.

    python benchmarks/memory.py
    python benchmarks/memory.py --rows 'gutenberg-lcsh-titles/*'

Each row is a process of its own, which reads, plans, trains and saves, and then one that predicts. A row's baseline is
the same learner's peak on a corpus of 64 made-up documents: interpreter, libraries and compiled kernels. Networks see a
part of the corpus and take a few steps only: what they hold does not grow with more of them.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from common import RESULTS, run_rows
from longtail.run import Run

RESULT = RESULTS / "memory.json"
#: Documents that networks are trained on, at most, and their optimiser steps.
NETWORK_DOCUMENTS, STEPS = 3_000, 8
CORPORA = ("vuln-libraries", "gutenberg-lcsh-titles", "eurlex57k", "germeval-gnd")
LINEAR = ("bonsai", "parabel", "nearest-documents")
#: Learners that take hours on the larger corpora.
SMALL_ONLY = ("one-vs-all", "fastxml", "pfastrexml", "calibrated-propensity", "ranknet", "taug")
NETWORKS = (
    "attentionxml", "laroberta", "lightxml", "lsan", "xml-cnn", "httn", "astec", "astec-modules", "inceptionxml",
    "decaf", "eclare", "inceptionxml-lf",
)  # fmt: skip
#: Rows with a part beside a learner, or several learners.
PIPELINES: dict[str, dict[str, Any]] = {
    "calibrated-propensity": {"learner": {"part": "bonsai", "trees": 1}, "rerank": ["calibrated-propensity"]},
    "ranknet": {"learner": {"part": "bonsai", "trees": 1}, "rerank": ["ranknet"]},
    "taug": {"learner": {"part": "bonsai", "trees": 1}, "augment": ["taug"]},
    "gandalf": {"learner": "bonsai", "augment": ["gandalf"]},
    "ensemble": {"learner": {"part": "ensemble", "members": ["bonsai", "parabel"]}},
    "label-text": {
        "learner": {
            "part": "ensemble",
            "members": [
                {"part": "pipeline", "augment": ["gandalf"], "features": "tfidf", "learner": "bonsai"},
                {"part": "decaf", "steps": STEPS},
            ],
        }
    },
}
NEURAL = (*NETWORKS, "label-text")


def rows() -> list[dict[str, Any]]:
    wanted = [(corpus, learner) for corpus in CORPORA for learner in (*LINEAR, "gandalf", "ensemble", *NEURAL)]
    wanted += [(corpus, learner) for corpus in CORPORA[:2] for learner in SMALL_ONLY]
    return [{"row": f"{corpus}/{learner}", "corpus": corpus, "learner": learner} for corpus, learner in wanted]


def options_of(learner: str) -> dict[str, Any]:
    """What makes the row's tagger."""
    if learner in NETWORKS:
        return {"learner": {"part": learner, "steps": STEPS}}
    return PIPELINES.get(learner, {"learner": learner})


def measure(row: dict[str, Any], data: Path) -> dict[str, Any]:
    neural = row["learner"] in NEURAL
    base = baseline(row["learner"])  # first, for it compiles what is not compiled yet
    found = _worker({
        "learner": row["learner"],
        "data": str(data / row["corpus"]),
        "documents": NETWORK_DOCUMENTS if neural else None,
    })  # fmt: skip
    return {**row, "baseline": base, **found}


@cache
def baseline(learner: str) -> int:
    """The peak without data; kernels that are not compiled yet are compiled by the first of two processes."""
    return min(int(_worker({"learner": learner, "data": None})["peak"]) for _ in range(2))


def _worker(task: dict[str, Any]) -> dict[str, Any]:
    """What a process of its own found; its last line is the answer."""
    command = [sys.executable, str(Path(__file__).resolve()), "--worker", json.dumps(task)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{task}: {done.stderr.strip().splitlines()[-1:]}")
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


# inside the process
@dataclass
class Watched(Run):
    """A run that notes the most memory held within each stage."""

    peaks: dict[str, int] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        self.note("before")
        with super().stage(name):
            yield
        self.note(name)

    def note(self, name: str) -> None:
        from longtail.memory import peak

        self.peaks[name] = max(self.peaks.get(name, 0), peak())
        Path("/proc/self/clear_refs").write_text("5")  # the peak is counted anew from here


def work(task: dict[str, Any]) -> dict[str, Any]:
    import numpy as np

    from longtail import Tagger, read

    run = Watched(threads=2)
    tagger = Tagger(**options_of(task["learner"]))
    with run.stage("read"):
        corpus = _made_up() if task["data"] is None else read(f"{task['data']}/train.jsonl.gz")
        if task.get("documents"):
            chosen = np.arange(0, len(corpus), max(1, len(corpus) // task["documents"]))
            corpus = corpus.rows(chosen[: task["documents"]]).counted()
    plan = tagger.plan(corpus, run=run)
    run.note("plan")
    tagger.fit(corpus, run=run)
    run.peaks.pop("before", None)
    run.note("fit")
    with tempfile.TemporaryDirectory() as folder, run.stage("save"):
        tagger.save(f"{folder}/model")
    run.peaks.pop("before", None)
    shown = plan.to_dict()
    return {
        "documents": len(corpus),
        "labels": corpus.n_labels,
        "estimate": plan.peak,
        "peak": max(run.peaks.values()),
        "base": plan.base,
        "features": [plan.sizes.features, tagger.n_features_],
        "stages": {stage["stage"]: stage["peak_bytes"] for stage in shown["stages"]},
        "measured": run.peaks,
        "seconds": {name: round(seconds, 2) for name, seconds in run.seconds.items()},
        "planned_seconds": shown["seconds"],
    }


def _made_up() -> Any:
    import numpy as np
    import scipy.sparse as sp

    from longtail import Corpus, LabelIndex

    rng = np.random.default_rng(0)
    texts = [" ".join(f"word{number}" for number in rng.integers(0, 100, 12)) for _ in range(64)]
    Y = sp.csr_matrix((np.ones(64, np.float32), rng.integers(0, 20, 64), np.arange(65)), (64, 20))
    return Corpus(labels=LabelIndex([f"label {number}" for number in range(20)]), Y=Y, texts=texts).counted()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        print(json.dumps(work(json.loads(sys.argv[2]))))
    else:
        run_rows(__doc__, RESULT, "python benchmarks/memory.py", rows(), measure)
