"""What bounds the training of label trees: where processor time goes, and how far the solver is from the machine.

    python benchmarks/solver.py [--data DIR] [--rows GLOB] [--fresh]

A row is CORPUS/LEARNER, one tree on one thread, over the matrices of the race (benchmarks/peers.py). A pass of the
solver over a problem reads every non-zero of its documents twice, for the sums and for the changes, each with a row of
weights as wide as the problem has lanes: 4 operations per non-zero and lane where a visit changes something, 2 where it
does not. `one_pass` is counted with 4. How many passes' worth of it the whole training takes, and how fast a pass is
beside a product of matrices on the same core, is what is left to gain.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from common import RESULTS, run_rows
from longtail.corpus import Corpus
from longtail.labels import LabelIndex
from longtail.learners.linear import nodes
from longtail.registry import build
from longtail.run import Run
from peers_measure import prepared

RESULT = RESULTS / "solver.json"
CORPORA = ("gutenberg-lcsh-titles", "citeulike-t", "eurlex57k", "germeval-gnd")
LEARNERS = ("parabel", "bonsai")
#: Side of the square matrices whose product tells what a core can do.
SIDE = 1500


def rows() -> list[dict[str, Any]]:
    return [{"row": f"{c}/{learner}", "corpus": c, "learner": learner} for c in CORPORA for learner in LEARNERS]


class Counted:
    """Calls of the solver with what they read and took."""

    def __init__(self, solve: Any) -> None:
        self.solve, self.seconds, self.operations, self.problems = solve, 0.0, 0.0, 0

    def __call__(self, documents: Any, norms: Any, problem: Any, *rest: Any) -> Any:
        started = time.perf_counter()
        used = self.solve(documents, norms, problem, *rest)
        self.seconds += time.perf_counter() - started
        length = documents.start[problem.document + 1] - documents.start[problem.document]
        self.operations += 4.0 * float(length.sum()) * len(rest[-1])
        self.problems += 1
        return used


def trained(learner: str, corpus: Corpus, **options: Any) -> tuple[Counted, dict[str, float], float]:
    """One tree on one thread: what the solver did, seconds of the stages, seconds in all."""
    counted = Counted(nodes.solve)
    nodes.solve = counted  # type: ignore[assignment]
    try:
        run, started = Run(seed=0, threads=1), time.perf_counter()
        build({"part": learner, "trees": 1, **options}, "learner").fit(corpus, run=run)
        return counted, dict(run.seconds), time.perf_counter() - started
    finally:
        nodes.solve = counted.solve


def matrix_product() -> float:
    """Thousand million operations per second of a float32 matrix product; BLAS must have one thread."""
    a = np.random.default_rng(0).random((SIDE, SIDE), dtype=np.float32)
    times = []
    for _ in range(5):
        started = time.perf_counter()
        a @ a
        times.append(time.perf_counter() - started)
    return 2 * SIDE**3 / min(times) / 1e9


def measure(row: dict[str, Any], data: Path) -> dict[str, Any]:
    matrices = prepared(row["corpus"], data.resolve(), 1)
    X, Y = (sp.csr_matrix(sp.load_npz(matrices / f"train_{name}.npz")) for name in "XY")
    corpus = Corpus(labels=LabelIndex([str(label) for label in range(Y.shape[1])]), Y=Y, X=X).counted()
    trained(row["learner"], corpus.rows(np.arange(min(2000, len(corpus)))))  # compiles
    best = min((trained(row["learner"], corpus) for _ in range(2)), key=lambda each: each[2])
    one = min((trained(row["learner"], corpus, max_passes=1)[0] for _ in range(2)), key=lambda each: each.seconds)
    solver, stages, seconds = best
    return {
        **row,
        "seconds": seconds,
        "cluster_s": stages["cluster"],
        "solve_s": solver.seconds,
        "problems": solver.problems,
        "one_pass_s": one.seconds,
        "one_pass_gflop": one.operations / 1e9,
        "matrix_product_gflops": matrix_product(),
    }


if __name__ == "__main__":
    run_rows(__doc__ or "", RESULT, "OMP_NUM_THREADS=1 python benchmarks/solver.py", rows(), measure)
