"""Our metrics against napkinXC's: largest difference and time of both, on the same random rankings.

    python benchmarks/metrics.py

napkinXC lives in a venv of its own, benchmarks/.peers/napkinxc, which is made on first use. Data goes to it and
figures come back as .npz files. Results: benchmarks/results/metrics.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from longtail.corpus import Corpus
from longtail.evaluate import evaluate
from longtail.labels import LabelIndex
from longtail.scores import Scores

HERE = Path(__file__).resolve().parent
DEPTH = 5  # the only depth napkinXC's macro metrics know
TOLERANCE = 1e-9  # percentage points

#: Runs in napkinXC's venv: rankings and truths as lists, the form that is quickest there; only its metrics are timed.
WORKER = """
import sys, time
from importlib.metadata import version
import numpy as np
from napkinxc import metrics

given, wanted = np.load(sys.argv[1]), sys.argv[2]

def lists(indptr, ids):
    return [ids[a:b].tolist() for a, b in zip(indptr[:-1], indptr[1:])]

truth = lists(given["true_indptr"], given["true_ids"])
ranking = lists(given["ranked_indptr"], given["ranked_ids"])
train = lists(given["train_indptr"], given["train_ids"])
q = metrics.Jain_et_al_inverse_propensity(train, A=0.55, B=1.5)
calls = {
    "P": lambda: metrics.precision_at_k(truth, ranking, k=5),
    "R": lambda: metrics.recall_at_k(truth, ranking, k=5),
    "nDCG": lambda: metrics.ndcg_at_k(truth, ranking, k=5),
    "PSP": lambda: metrics.psprecision_at_k(truth, ranking, q, k=5),
    "PSnDCG_mean": lambda: metrics.psndcg_at_k(truth, ranking, q, k=5),
    "PSnDCG_sum": lambda: metrics.psdcg_at_k(truth, ranking, q, k=5),
    "found": lambda: metrics.coverage_at_k(truth, ranking, k=5),
    "macro_P": lambda: metrics.macro_precision_at_k(truth, ranking, k=5),
    "macro_R": lambda: metrics.macro_recall_at_k(truth, ranking, k=5),
}
results = {"q": q, "version": np.array(version("napkinxc"))}
for name, call in calls.items():
    times = []
    for _ in range(3):
        start = time.perf_counter()
        results[name] = 100 * np.asarray(call())
        times.append(time.perf_counter() - start)
    results["seconds_" + name] = np.array(min(times))
np.savez(wanted, **results)
"""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--documents", type=int, default=20_000)
    options.add_argument("--labels", type=int, default=5_000)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--python", type=Path, help="an interpreter that has napkinxc, instead of a venv of our own")
    options.add_argument("--out", type=Path, default=HERE / "results" / "metrics.json")
    chosen = options.parse_args()
    python = chosen.python or peer_python()
    scores, corpus, train = random_problem(chosen.documents, chosen.labels, np.random.default_rng(chosen.seed))
    theirs = napkinxc(python, scores, corpus, train)
    ours, seconds = measured(scores, corpus)
    differences = {name: float(np.abs(values - theirs[name]).max()) for name, values in ours.items()}
    same_metrics = sum(float(value) for name, value in theirs.items() if name.startswith("seconds_"))
    result = {
        "command": "python benchmarks/metrics.py",
        "documents": len(corpus),
        "labels": corpus.n_labels,
        "true_pairs": corpus.Y.nnz,
        "napkinxc": str(theirs["version"]),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "max_difference": {"unit": "percentage points, q as it is", **differences},
        "seconds": {
            "napkinxc_nine_metrics": round(same_metrics, 4),
            "longtail_report_with_bands": round(seconds["report"], 4),
            "longtail_report_and_1000_resamples": round(seconds["bootstrap"], 4),
        },
        "times_faster": round(same_metrics / seconds["report"], 1),
    }
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    chosen.out.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))
    worst = max(differences, key=lambda name: differences[name])
    if differences[worst] > TOLERANCE:
        sys.exit(f"{worst} differs from napkinXC's by {differences[worst]:.3g} points")


def random_problem(n: int, L: int, rng: np.random.Generator) -> tuple[Scores, Corpus, sp.csr_matrix]:
    """Zipf-distributed labels, 1 to 8 per document; rankings of 0 to 10 labels, many of them right."""
    share = 1 / (np.arange(L) + 3.0)
    share = rng.permutation(share / share.sum())

    def targets(documents: int) -> sp.csr_matrix:
        sizes = rng.integers(1, 9, size=documents)
        rows = np.repeat(np.arange(documents), sizes)
        matrix = sp.csr_matrix((np.ones(len(rows)), (rows, rng.choice(L, size=len(rows), p=share))), (documents, L))
        matrix.data[:] = 1
        return matrix

    train, Y = targets(3 * n), targets(n)
    noise = sp.csr_matrix((rng.random(6 * n), (np.repeat(np.arange(n), 6), rng.choice(L, size=6 * n, p=share))), (n, L))
    right = Y.copy()
    right.data = rng.random(Y.nnz) * (rng.random(Y.nnz) < 0.6)
    right.eliminate_zeros()
    scores = Scores.from_csr(sp.csr_matrix(noise + right), 10)
    short = rng.random(n) < 0.1
    scores.ids[short, 2:], scores.values[short, 2:] = -1, 0
    counts = np.bincount(train.indices, minlength=L)
    labels = LabelIndex([str(label) for label in range(L)], None, counts, train.shape[0])
    return scores, Corpus(labels=labels, Y=Y), train


def measured(scores: Scores, corpus: Corpus) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """Our figures at 1 to 5 under napkinXC's names, and the best of three times, as for napkinXC."""
    ks = tuple(range(1, DEPTH + 1))
    report, mean = evaluate(scores, corpus, ks=ks), evaluate(scores, corpus, ks=ks, psndcg="mean")
    ours = {name: np.array([report[f"{name}@{k}"] for k in ks]) for name in ("P", "R", "nDCG", "PSP", "found")}
    ours["PSnDCG_sum"] = np.array([report[f"PSnDCG@{k}"] for k in ks])
    ours["PSnDCG_mean"] = np.array([mean[f"PSnDCG@{k}"] for k in ks])
    # napkinXC averages over all columns up to the last one in use; ours over the labels true in some document.
    counts = report.per_label
    for j, k in enumerate(ks):
        columns = np.flatnonzero((counts.predicted[j] > 0) | (counts.true > 0)).max() + 1
        for name in ("macro_P", "macro_R"):
            ours.setdefault(name, np.zeros(DEPTH))[j] = report[f"{name}@{k}"] * (counts.true > 0).sum() / columns
    ours["q"] = corpus.labels.inverse_propensity()
    return ours, {
        "report": min(timed(scores, corpus, ks=ks) for _ in range(3)),
        "bootstrap": min(timed(scores, corpus, ks=ks, bootstrap=1000) for _ in range(3)),
    }


def timed(scores: Scores, corpus: Corpus, **options: object) -> float:
    start = time.perf_counter()
    evaluate(scores, corpus, **options)  # type: ignore[arg-type]
    return time.perf_counter() - start


def napkinxc(python: Path, scores: Scores, corpus: Corpus, train: sp.csr_matrix) -> dict[str, np.ndarray]:
    """napkinXC's figures on the same data, by its own interpreter."""
    present = scores.ids >= 0
    with tempfile.TemporaryDirectory() as folder:
        given, wanted = Path(folder) / "given.npz", Path(folder) / "wanted.npz"
        np.savez(
            given,
            true_indptr=corpus.Y.indptr,
            true_ids=corpus.Y.indices,
            ranked_indptr=np.concatenate([[0], np.cumsum(present.sum(axis=1))]),
            ranked_ids=scores.ids[present],
            train_indptr=train.indptr,
            train_ids=train.indices,
        )
        subprocess.run([python, "-c", WORKER, given, wanted], check=True)
        with np.load(wanted) as results:
            return dict(results)


def peer_python() -> Path:
    """The interpreter of napkinXC's venv, made and filled if it is not there."""
    folder = HERE / ".peers" / "napkinxc"
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    probe = [python, "-c", "import napkinxc"]
    if not python.exists() or subprocess.run(probe, check=False, capture_output=True).returncode != 0:
        print(f"installing napkinxc into {folder}", file=sys.stderr)
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "napkinxc"], check=True)
    return python


if __name__ == "__main__":
    main()
