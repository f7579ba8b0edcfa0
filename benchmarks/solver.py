"""What bounds the training of label trees: where processor time goes, and how far the solver is from the machine.

    python benchmarks/solver.py [--data DIR] [--rows GLOB] [--fresh]

A row is CORPUS/LEARNER, one tree on one thread, over the matrices of the race (benchmarks/peers.py), in processor
seconds, the best of two (a million labels: of one). What the solver takes of them is counted in a training of its own,
where kernels that call it are plain Python. A pass of the solver over a problem reads every non-zero of its documents
twice, for the sums and for the changes, each with a row of weights as wide as the problem has lanes: 4 operations per
non-zero and lane where a visit changes something, 2 where it does not. `one_pass` is counted with 4. How many passes'
worth of it the whole training takes, and how fast a pass is beside a product of matrices on the same core, is what is
left to gain.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from common import RESULTS, load_average, run_rows
from longtail.corpus import Corpus
from longtail.labels import LabelIndex
from longtail.learners.linear import blocks, nodes
from longtail.registry import build
from longtail.run import Run
from peers_measure import prepared
from peers_systems import CORPORA, GENERATED

RESULT = RESULTS / "solver.json"
LEARNERS = ("parabel", "bonsai")
#: Side of the square matrices whose product tells what a core can do.
SIDE = 1500


def rows() -> list[dict[str, Any]]:
    return [{"row": f"{c}/{learner}", "corpus": c, "learner": learner} for c in CORPORA for learner in LEARNERS]


class Counted:
    """Calls of the solver with what they read and took."""

    def __init__(self, solve: Any) -> None:
        self.solve, self.seconds, self.operations, self.problems = solve, 0.0, 0.0, 0

    def __call__(self, documents: Any, problem: Any, *rest: Any) -> Any:
        started = time.process_time()
        used = self.solve(documents, problem, *rest)
        self.seconds += time.process_time() - started
        start = documents.rows.start
        length = start[problem.document + 1] - start[problem.document]
        self.operations += 4.0 * float(length.sum()) * len(rest[-1])
        self.problems += 1
        return used


class ProcessorTime(Run):
    """A run whose stages are told in processor seconds."""

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        started = time.process_time()
        yield
        self.seconds[name] = time.process_time() - started


def trained(learner: str, corpus: Corpus, **options: Any) -> tuple[dict[str, float], float]:
    """One tree on one thread: seconds of the stages, seconds in all."""
    run, started = ProcessorTime(seed=0, threads=1), time.process_time()
    build({"part": learner, "trees": 1, **options}, "learner").fit(corpus, run=run)
    return dict(run.seconds), time.process_time() - started


def counted(learner: str, corpus: Corpus, **options: Any) -> Counted:
    """The same training, and what the solver did."""
    found = Counted(nodes.solve)
    kernels = [(nodes, "node_separators"), (blocks, "_block"), (blocks, "_put_together")]
    before = [(module, name, getattr(module, name)) for module, name in kernels]
    try:
        nodes.solve = blocks.solve = found  # type: ignore[assignment]
        for module, name, kernel in before:
            setattr(module, name, kernel.py_func)
        trained(learner, corpus, **options)
    finally:
        nodes.solve = blocks.solve = found.solve
        for module, name, kernel in before:
            setattr(module, name, kernel)
    return found


def matrix_product() -> float:
    """Thousand million operations per second of a float32 matrix product; BLAS must have one thread."""
    a = np.random.default_rng(0).random((SIDE, SIDE), dtype=np.float32)
    times = []
    for _ in range(5):
        started = time.process_time()
        a @ a
        times.append(time.process_time() - started)
    return 2 * SIDE**3 / min(times) / 1e9


def measure(row: dict[str, Any], data: Path) -> dict[str, Any]:
    matrices = prepared(row["corpus"], data.resolve(), 1)
    X, Y = (sp.csr_matrix(sp.load_npz(matrices / f"train_{name}.npz")) for name in "XY")
    corpus = Corpus(labels=LabelIndex([str(label) for label in range(Y.shape[1])]), Y=Y, X=X).counted()
    few = corpus.rows(np.arange(min(20_000, len(corpus))))
    trained(row["learner"], few), counted(row["learner"], few)  # compiles
    turns = range(1 if row["corpus"] in GENERATED else 2)
    stages, seconds = min((trained(row["learner"], corpus) for _ in turns), key=lambda each: each[1])
    solver = min((counted(row["learner"], corpus) for _ in turns), key=lambda each: each.seconds)
    one = min((counted(row["learner"], corpus, max_passes=1) for _ in turns), key=lambda each: each.seconds)
    return {
        **row,
        "seconds": seconds,
        "cluster_s": stages["cluster"],
        "solve_s": solver.seconds,
        "problems": solver.problems,
        "one_pass_s": one.seconds,
        "one_pass_gflop": one.operations / 1e9,
        "matrix_product_gflops": matrix_product(),
        "load": load_average(),
    }


if __name__ == "__main__":
    run_rows(__doc__ or "", RESULT, "OMP_NUM_THREADS=1 python benchmarks/solver.py", rows(), measure)
