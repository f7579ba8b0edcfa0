"""TF-IDF side by side with scikit-learn: the same texts, the same numbers, the time of both in one run.

    python benchmarks/tfidf.py ../shared/data/eurlex57k --also ../shared/data/germeval-gnd
    python benchmarks/tfidf.py ... --only-stems --before ../before       stems beside plain TF-IDF of another checkout

Both vectorisers take turns, each `--repeats` times, and the best time of each counts: on a busy machine the others say
more about the neighbours. Processor seconds are given beside wall seconds for the same reason.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from longtail.features.tfidf import Tfidf
from longtail.run import Run

RESULTS = Path(__file__).parent / "results" / "tfidf.json"
SHORT = "Commission Regulation fixing the import duties in the cereals sector and the rules on their application"
COLD = """
import time
from longtail.features.tfidf import Tfidf
start = time.process_time()
Tfidf(min_df=1, max_df=1.0).fit_transform(["a first text", "a second text"])
print(time.process_time() - start)
"""


def read(path: Path) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line)["text"] for line in lines]


def both(folder: Path) -> tuple[list[str], list[str]]:
    """Training documents, and those to transform."""
    second = next(name for name in ("test", "valid") if (folder / f"{name}.jsonl.gz").exists())
    return read(folder / "train.jsonl.gz"), read(folder / f"{second}.jsonl.gz")


def timed(work: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    wall, processor = time.perf_counter(), time.process_time()
    result = work()
    return result, {"wall": time.perf_counter() - wall, "processor": time.process_time() - processor}


def best(times: list[dict[str, float]]) -> dict[str, float]:
    return {name: round(min(each[name] for each in times), 3) for name in times[0]}


def compare(train: list[str], test: list[str], n: int, threads: int, repeats: int) -> dict[str, Any]:
    run = Run(threads=threads)
    seconds: dict[str, list[dict[str, float]]] = {
        f"{who} {what}": [] for who in ("longtail", "scikit-learn") for what in ("fit_transform", "transform")
    }
    for _ in range(repeats):
        ours = Tfidf(ngrams=n, min_df=2, language="none")
        theirs = TfidfVectorizer(sublinear_tf=True, min_df=2, max_df=0.5, ngram_range=(1, n), dtype=np.float32)
        X, spent = timed(lambda ours=ours: ours.fit_transform(train, run=run))
        seconds["longtail fit_transform"].append(spent)
        Z, spent = timed(lambda theirs=theirs: theirs.fit_transform(train))
        seconds["scikit-learn fit_transform"].append(spent)
        X_test, spent = timed(lambda ours=ours: ours.transform(test, run=run))
        seconds["longtail transform"].append(spent)
        Z_test, spent = timed(lambda theirs=theirs: theirs.transform(test))
        seconds["scikit-learn transform"].append(spent)
    columns = [theirs.vocabulary_[term] for term in ours.terms_]
    assert len(columns) == len(theirs.vocabulary_)
    least = {name: best(times) for name, times in seconds.items()}
    return {
        "ngrams": n,
        "documents": {"fit_transform": len(train), "transform": len(test)},
        "features": X.shape[1],
        "entries": X.nnz,
        "seconds": least,
        "times_faster": {
            f"{what}, {clock}": round(least[f"scikit-learn {what}"][clock] / least[f"longtail {what}"][clock], 2)
            for what in ("fit_transform", "transform")
            for clock in ("wall", "processor")
        },
        "largest_difference": {
            "fit_transform": float(abs(X - Z[:, columns]).max()),
            "transform": float(abs(X_test - Z_test[:, columns]).max()),
        },
    }


def languages(folder: Path, before: Path | None, threads: int, repeats: int) -> dict[str, Any]:
    """How much longer stems take than words as they stand, by processor time; all take turns."""
    train, test = both(folder)
    seconds: dict[str, list[dict[str, float]]] = {}
    for _ in range(repeats):
        if before is not None:
            for what, spent in earlier(before, folder, threads).items():
                seconds.setdefault(f"before {what}", []).append(spent)
        for language in ("none", "auto"):
            for what, spent in once(Tfidf(language=language), train, test, threads).items():
                seconds.setdefault(f"{language} {what}", []).append(spent)
    least = {name: best(times) for name, times in seconds.items()}
    return {
        "seconds": least,
        **{
            name: {
                what: round(least[f"auto {what}"]["processor"] / least[f"{beside} {what}"]["processor"], 2)
                for what in ("fit_transform", "transform")
            }
            for name, beside in (("times_as_long", "none"), ("times_as_long_as_before", "before"))
            if f"{beside} transform" in least
        },
    }


def once(features: Tfidf, train: list[str], test: list[str], threads: int) -> dict[str, dict[str, float]]:
    run = Run(threads=threads)
    return {
        "fit_transform": timed(lambda: features.fit_transform(train, run=run))[1],
        "transform": timed(lambda: features.transform(test, run=run))[1],
    }


def earlier(checkout: Path, folder: Path, threads: int) -> dict[str, dict[str, float]]:
    """The seconds of plain TF-IDF in another checkout, whose process this file is run by."""
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    command = [sys.executable, __file__, str(folder), "--once", "--threads", str(threads)]
    answer = subprocess.run(command, env=environment, capture_output=True, check=True)
    found: dict[str, dict[str, float]] = json.loads(answer.stdout)
    return found


def latency(features: Tfidf) -> dict[str, float]:
    """Microseconds for one short text."""
    features.transform([SHORT])
    times = []
    for _ in range(5000):
        start = time.perf_counter()
        features.transform([SHORT])
        times.append(time.perf_counter() - start)
    return {"best": round(min(times) * 1e6, 1), "median": round(float(np.median(times)) * 1e6, 1)}


def cold_compiling() -> float:
    """Processor seconds of the first fit with nothing compiled yet."""
    with tempfile.TemporaryDirectory() as directory:
        environment = {**os.environ, "NUMBA_CACHE_DIR": directory}
        answer = subprocess.run([sys.executable, "-c", COLD], env=environment, capture_output=True, check=True)
    return round(float(answer.stdout), 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="folder with train.jsonl.gz and test.jsonl.gz or valid.jsonl.gz")
    parser.add_argument("--only-stems", action="store_true", help="time stems alone; other figures stay as they are")
    parser.add_argument("--also", type=Path, nargs="*", default=[], help="more corpora for the time that stems take")
    parser.add_argument("--before", type=Path, help="a checkout of an earlier version: stems beside its TF-IDF")
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--ngrams", type=int, nargs="+", default=[1])
    parser.add_argument("-o", "--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.once:
        Tfidf(min_df=1, max_df=1.0).fit_transform(["a first text", "a second text"])  # compiled before timing
        print(json.dumps(once(Tfidf(), *both(options.data), options.threads)))
        return
    for language in ("none", "auto"):  # compiled before timing
        Tfidf(ngrams=2, min_df=1, max_df=1.0, language=language).fit_transform(["a first text", "der zweite Text"])
    command = shlex.join(["python", "benchmarks/tfidf.py", *sys.argv[1:]])
    stems = {
        "command": command,
        "corpora": {
            folder.name: languages(folder, options.before, options.threads, options.repeats)
            for folder in (options.data, *options.also)
        },
    }
    if options.only_stems:
        written(json.loads(options.output.read_text(encoding="utf-8")) | {"languages": stems}, options.output)
        return
    train, test = both(options.data)
    report = {
        "command": command,
        "corpus": options.data.name,
        "threads": options.threads,
        "repeats": options.repeats,
        "versions": {"python": platform.python_version()}
        | {name: version(name) for name in ("longtail", "numpy", "scipy", "numba", "scikit-learn")},
        "cores": os.cpu_count(),
        "load_average_before": round(os.getloadavg()[0], 2),
        "comparisons": [compare(train, test, n, options.threads, options.repeats) for n in options.ngrams],
        "languages": stems,
        "single_text_microseconds": latency(Tfidf().fit(train, run=Run(threads=options.threads))),
        "cold_first_fit_processor_seconds": cold_compiling(),
    }
    written(report, options.output)


def written(report: dict[str, Any], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
