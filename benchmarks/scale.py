"""What training costs as labels grow: synthetic corpora of five sizes, a sixth and another shape to check on, and more.

    python benchmarks/scale.py [--rows GLOB] [--fresh]

Rows are LEARNER/CORPUS, such as parabel/400k or parabel/10m/shard-1-of-2. Each runs in a process of its own; finished
rows are kept in benchmarks/results/scale.json, so an interrupted run goes on where it stopped. The corpora are drawn
once, by another process, and kept in benchmarks/.work. docs/scale.md is filled by benchmarks/render.py.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from common import RESULTS, WORK, run_rows

RESULT = RESULTS / "scale.json"
COMMAND = "python benchmarks/scale.py"
#: Documents, labels, and words per document; 3 labels per document, 50,000 words, every label in at least 1 document.
CORPORA: dict[str, tuple[int, int, int]] = {
    "10k": (10_000, 10_000, 8),
    "30k": (30_000, 30_000, 8),
    "100k": (100_000, 100_000, 8),
    "200k": (200_000, 200_000, 8),
    "400k": (400_000, 400_000, 8),
    "1m": (1_000_000, 1_000_000, 8),
    "long": (200_000, 100_000, 24),
    "10m": (10_000_000, 10_000_000, 8),
}
LEARNERS: dict[str, dict[str, Any]] = {
    "parabel": {"part": "parabel", "trees": 1},
    "bonsai": {"part": "bonsai", "trees": 1},
}
#: Documents that prediction is timed on, at most.
PREDICTED = 20_000
FILES = ("X.data", "X.indices", "X.indptr", "Y.data", "Y.indices", "Y.indptr")


def rows() -> list[dict[str, Any]]:
    sizes = [name for name in CORPORA if name != "10m"]
    wanted = [(learner, corpus, None) for learner in LEARNERS for corpus in sizes]
    wanted += [("parabel", corpus, shard) for corpus in ("10m", "1m") for shard in (None, "1/2", "2/2")]
    wanted.remove(("parabel", "1m", None))  # stands above already
    return [
        {
            "row": f"{learner}/{corpus}" + ("" if shard is None else f"/shard-{shard.replace('/', '-of-')}"),
            "learner": learner,
            "corpus": corpus,
            "shard": shard,
        }
        for learner, corpus, shard in wanted
    ]


class Numbered(Sequence[str]):
    """Names of labels by their numbers: ten million of them as strings would take a gigabyte."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice):
            return [self[each] for each in range(*number.indices(self.count))]
        if not 0 <= number < self.count:
            raise IndexError(number)
        return f"label-{number:08d}"


def folder_of(corpus: str) -> Path:
    return WORK / f"scale-{corpus}"


def draw(corpus: str) -> None:
    """Draws a corpus and keeps its arrays."""
    from longtail.data.synthetic import synthetic

    documents, labels, words = CORPORA[corpus]
    made = synthetic(documents=documents, labels=labels, words_per_document=words)
    new = folder_of(corpus).with_suffix(".new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    for name in FILES:
        matrix, part = name.split(".")
        np.save(new / f"{name}.npy", getattr(getattr(made, matrix), part))
    new.rename(folder_of(corpus))


def opened(corpus: str) -> Any:
    from longtail.corpus import Corpus
    from longtail.labels import LabelIndex

    documents, labels, _ = CORPORA[corpus]
    parts = {name: np.load(folder_of(corpus) / f"{name}.npy") for name in FILES}
    X, Y = (
        sp.csr_matrix((parts[f"{m}.data"], parts[f"{m}.indices"], parts[f"{m}.indptr"]), shape=shape, copy=False)
        for m, shape in (("X", (documents, 50_000)), ("Y", (documents, labels)))
    )
    return Corpus(labels=LabelIndex(Numbered(labels)), X=X, Y=Y, name=corpus).counted()


def measure(row: dict[str, Any], _data: Path) -> dict[str, Any]:
    if not folder_of(row["corpus"]).exists():
        subprocess.run([sys.executable, __file__, "--draw", row["corpus"]], check=True)
    result = subprocess.run(
        [sys.executable, __file__, "--worker", json.dumps(row)], check=True, stdout=subprocess.PIPE, text=True
    )
    return {**row, **json.loads(result.stdout.splitlines()[-1])}


def work(row: dict[str, Any]) -> dict[str, Any]:
    """Trains and saves one model in this process, opens it again, and predicts."""
    from longtail.data.synthetic import synthetic
    from longtail.memory import peak
    from longtail.run import Run
    from longtail.tagger import Tagger

    config = LEARNERS[row["learner"]]
    small = synthetic(documents=2000, labels=1000, words=2000, words_per_document=8)
    Tagger(config).fit(small).score(small, 5)  # compiles, or reads what was compiled
    corpus = opened(row["corpus"])
    load, loaded = os.getloadavg()[0], peak() / 1e6
    name = row["row"].replace("/", "-")
    # as the command line does: what is finished is kept in a folder, and mapped from there
    model, kept = WORK / f"scale-model-{name}", WORK / f"scale-run-{name}"
    shutil.rmtree(kept, ignore_errors=True)
    run = Run(checkpoints=kept)
    shard = {} if row["shard"] is None else {"shard": tuple(map(int, row["shard"].split("/")))}
    with Held() as held:
        burnt, started = time.process_time(), time.perf_counter()
        tagger = Tagger(config).fit(corpus, run=run, **shard)
        trained, trained_peak = time.perf_counter() - started, peak() / 1e6
        with run.stage("save"):
            tagger.save(model, overwrite=True)
        burnt = time.process_time() - burnt
    found = {
        "documents": len(corpus),
        "labels": corpus.n_labels,
        "nonzeros": int(corpus.X.nnz),
        "pairs": int(corpus.Y.nnz),
        "threads": run.workers,
        "load_before": load,
        "seconds": {name: round(spent, 3) for name, spent in run.seconds.items()},
        "train_s": trained,
        "train_cpu_s": burnt,
        "corpus_mb": loaded,
        "peak_train_mb": trained_peak,
        "peak_mb": peak() / 1e6,
        "peak_anonymous_mb": held.most["RssAnon"] / 1e6,
        "peak_file_mb": held.most["RssFile"] / 1e6,
        "model_mb": sum(file.stat().st_size for file in model.rglob("*") if file.is_file()) / 1e6,
    }
    del tagger
    tagger = Tagger.load(model if shard == {} else next(model.iterdir()), verify=False)
    some = corpus.rows(np.arange(min(PREDICTED, len(corpus))))
    times = []
    for _ in range(3):
        started = time.perf_counter()
        tagger.score(some, 5)
        times.append(time.perf_counter() - started)
    shutil.rmtree(model)
    shutil.rmtree(kept, ignore_errors=True)
    return {**found, "predict_ms": 1000 * min(times) / len(some), "shared_mb": shared_megabytes(corpus)}


def shared_megabytes(corpus: Any) -> float:
    """What an engine sends to every other machine once: the corpus as the solver sees it."""
    from longtail.learners.linear.nodes import Documents

    documents = Documents.of(corpus)
    arrays = [*documents.rows, *documents.labels, documents.label_sure, documents.norms, documents.noise.draw]
    return sum(array.nbytes for array in arrays) / 1e6


class Held:
    """The most bytes this process holds meanwhile of its own, and of mapped files; both need not be at the same time.

    The system counts peaks of both together only, so a thread looks ten times a second.
    """

    def __init__(self) -> None:
        self.most = {"RssAnon": 0, "RssFile": 0}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Held:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while True:
            for line in Path("/proc/self/status").read_text().splitlines():
                name, _, size = line.partition(":")
                if name in self.most:
                    self.most[name] = max(self.most[name], int(size.split()[0]) * 1024)
            if self._over.wait(0.1):
                return


if __name__ == "__main__":
    if sys.argv[1:2] == ["--draw"]:
        draw(sys.argv[2])
    elif sys.argv[1:2] == ["--worker"]:
        print(json.dumps(work(json.loads(sys.argv[2]))))
    else:
        run_rows(__doc__ or "", RESULT, COMMAND, rows(), measure, reads_data=False)
