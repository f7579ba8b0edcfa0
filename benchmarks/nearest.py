"""Nearest neighbours: exact search by blocked products beside hnswlib, usearch and faiss, on vectors of labels.

    python benchmarks/nearest.py                            all rows
    python benchmarks/nearest.py --rows 'gutenberg-128/*'   some of them

Vectors are those of short texts with a long tail: TF-IDF of titles, label vectors as sums of their documents, both
projected by a truncated SVD (fixed seed); 31,350 real labels, and 300,000 drawn by longtail's generator. Queries are
2,000 test documents, neighbours the 100 best by cosine. Every row is a process of its own. The libraries are put into
benchmarks/.peers/nearest on first use, in pinned versions. A row is kept as soon as it is measured; a run that was
stopped goes on when the same command is given again, `--fresh` starts over.

Recall is the share of the 100 found whose similarity reaches that of the true hundredth: of equal vectors any will do.
Processor seconds stand beside wall seconds, which on a busy machine say more about the neighbours.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import common
from longtail.errors import UsageError

RESULT = common.RESULTS / "nearest.json"
LIBRARIES = common.HERE / ".peers" / "nearest"
PINS = {"hnswlib": "0.8.0", "usearch": "2.26.6", "numkong": "7.8.6", "faiss-cpu": "1.15.1"}
COMMAND = "python benchmarks/nearest.py"
K = 100
QUERIES = 2000
LINKS, BUILD_BEAM = 16, 200  # M and efConstruction of every graph
BEAMS = (100, 200, 400)  # efSearch
PROBES = (16, 32, 64, 128)  # lists an inverted file looks into

Vectors = NDArray[np.float32]
Setting = tuple[dict[str, int], Callable[[Vectors], NDArray[np.integer]]]


# vectors
def vectors(name: str, data: Path) -> Path:
    """The .npz file with the vectors of the labels and of the queries of a set such as gutenberg-128."""
    path = common.WORK / "nearest" / f"{name}.npz"
    if path.exists():
        return path
    import scipy.sparse as sp
    from sklearn.decomposition import TruncatedSVD

    corpus, _, width = name.partition("-")
    X, Y, Q = gutenberg(data) if corpus == "gutenberg" else synthetic()
    components = TruncatedSVD(int(width), n_iter=2, random_state=0).fit(X).components_.T.astype(np.float32)
    sums = sp.csr_matrix(Y.T @ X)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".unfinished.npz")
    np.savez(unfinished, labels=unit(sums @ components), queries=unit(Q @ components))
    unfinished.replace(path)
    return path


def gutenberg(data: Path) -> tuple[Any, Any, Any]:
    from longtail.features.tfidf import Tfidf
    from longtail.read import read

    folder = data / "gutenberg-lcsh-titles"
    train, test = read(folder / "train.jsonl.gz"), read(folder / "test.jsonl.gz")
    features = Tfidf(min_df=2)
    X = features.fit_transform(list(train.texts or []))
    return X, train.Y, features.transform(list(test.texts or [])[:QUERIES])


def synthetic() -> tuple[Any, Any, Any]:
    from longtail.data.synthetic import synthetic as drawn

    corpus = drawn(documents=600_000, labels=300_000, words=200_000, words_per_document=8, labels_per_document=2.5)
    train = len(corpus) - QUERIES
    return corpus.features[:train], corpus.Y[:train], corpus.features[train:]


def unit(given: Vectors) -> Vectors:
    return (given / np.maximum(np.linalg.norm(given, axis=1, keepdims=True), 1e-12)).astype(np.float32)


# methods: each builds an index and gives the settings it can be searched with
def numpy_exact(labels: Vectors, threads: int) -> Iterator[Setting]:
    def search(queries: Vectors) -> NDArray[np.integer]:
        found = []
        for start in range(0, len(queries), 256):
            products = queries[start : start + 256] @ labels.T
            best = np.argpartition(products, -K, axis=1)[:, -K:]
            order = np.argsort(-np.take_along_axis(products, best, 1), axis=1, kind="stable")
            found.append(np.take_along_axis(best, order, 1))
        return np.concatenate(found)

    yield {}, search


def longtail_exact(labels: Vectors, threads: int) -> Iterator[Setting]:
    from longtail.graphs.nearest import Nearest

    index = Nearest.of(labels, exact_up_to=len(labels), threads=threads)
    yield {}, lambda queries: index.search(queries, K)[0]


def longtail_lists(labels: Vectors, threads: int) -> Iterator[Setting]:
    from longtail.graphs.nearest import Nearest

    index = Nearest.of(labels, exact_up_to=0, threads=threads)
    for probes in PROBES:
        index.probes = probes
        yield {"probes": probes}, lambda queries: index.search(queries, K)[0]


def hnswlib_graph(labels: Vectors, threads: int) -> Iterator[Setting]:
    import hnswlib

    index = hnswlib.Index("ip", labels.shape[1])
    index.init_index(len(labels), M=LINKS, ef_construction=BUILD_BEAM, random_seed=1)
    index.add_items(labels, num_threads=threads)

    def search(queries: Vectors, beam: int) -> NDArray[np.integer]:
        index.set_ef(beam)
        return index.knn_query(queries, K, num_threads=threads)[0]

    for beam in BEAMS:
        yield {"beam": beam}, lambda queries, beam=beam: search(queries, beam)


def usearch_graph(labels: Vectors, threads: int, precision: str = "f32") -> Iterator[Setting]:
    from usearch.index import Index

    index = Index(
        ndim=labels.shape[1], metric="ip", dtype=precision, connectivity=LINKS, expansion_add=BUILD_BEAM, multi=False
    )
    index.add(np.arange(len(labels)), labels, threads=threads)

    def search(queries: Vectors, beam: int) -> NDArray[np.integer]:
        index.expansion_search = beam
        return index.search(queries, K, threads=threads).keys

    for beam in BEAMS:
        yield {"beam": beam}, lambda queries, beam=beam: search(queries, beam)


def usearch_graph_i8(labels: Vectors, threads: int) -> Iterator[Setting]:
    return usearch_graph(labels, threads, "i8")


def faiss_flat(labels: Vectors, threads: int) -> Iterator[Setting]:
    import faiss

    faiss.omp_set_num_threads(threads)
    index = faiss.IndexFlatIP(labels.shape[1])
    index.add(labels)
    yield {}, lambda queries: index.search(queries, K)[1]


def faiss_graph(labels: Vectors, threads: int) -> Iterator[Setting]:
    import faiss

    faiss.omp_set_num_threads(threads)
    index = faiss.IndexHNSWFlat(labels.shape[1], LINKS, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = BUILD_BEAM
    index.add(labels)

    def search(queries: Vectors, beam: int) -> NDArray[np.integer]:
        index.hnsw.efSearch = beam
        return index.search(queries, K)[1]

    for beam in BEAMS:
        yield {"beam": beam}, lambda queries, beam=beam: search(queries, beam)


def faiss_lists(labels: Vectors, threads: int) -> Iterator[Setting]:
    """An inverted file of 2 sqrt(n) lists, ten rounds of k-means over 64 vectors a list."""
    import faiss

    faiss.omp_set_num_threads(threads)
    lists = int(2 * len(labels) ** 0.5)
    centres = faiss.IndexFlatIP(labels.shape[1])
    index = faiss.IndexIVFFlat(centres, labels.shape[1], lists, faiss.METRIC_INNER_PRODUCT)
    index.cp.niter, index.cp.max_points_per_centroid, index.cp.spherical, index.cp.seed = 10, 64, True, 1
    index.train(labels)
    index.add(labels)

    def search(queries: Vectors, probes: int) -> NDArray[np.integer]:
        index.nprobe = probes
        return index.search(queries, K)[1]

    for probes in PROBES:
        yield {"probes": probes}, lambda queries, probes=probes: search(queries, probes)


METHODS: dict[str, Callable[[Vectors, int], Iterator[Setting]]] = {
    "numpy exact": numpy_exact,
    "longtail exact": longtail_exact,
    "faiss exact": faiss_flat,
    "faiss lists": faiss_lists,
    "faiss graph": faiss_graph,
    "hnswlib graph": hnswlib_graph,
    "usearch graph": usearch_graph,
    "usearch graph i8": usearch_graph_i8,
    "longtail lists": longtail_lists,
}
SETS = ("gutenberg-128", "gutenberg-300", "synthetic-128", "synthetic-300")
ROWS = [
    {"row": f"{name}/{method}/{threads} thread{'s' * (threads > 1)}", "set": name, "method": method, "threads": threads}
    for name in SETS
    for method in METHODS
    for threads in (1, 2)
]


# one row, in a process of its own
def work(name: str, method: str, threads: int, file: Path) -> dict[str, Any]:
    """Builds, searches with each setting, and on the small sets builds again to see whether the same comes out."""
    with np.load(file) as kept:
        labels, queries = kept["labels"], kept["queries"]
    warm = np.eye(64, labels.shape[1], dtype=np.float32)
    if method.startswith("longtail"):
        next(METHODS["longtail exact"](warm, threads))[1](warm)  # compiled before timing
    before = peak_mb()
    wall, processor = time.perf_counter(), time.process_time()
    settings = iter(METHODS[method](labels, threads))
    first = next(settings)
    row: dict[str, Any] = {
        "build_s": time.perf_counter() - wall,
        "build_cpu_s": time.process_time() - processor,
        "searches": [],
    }
    row["index_mb"] = peak_mb() - before
    hundredth = np.sort(exact_values(labels, queries), axis=1)[:, 0]
    found: NDArray[np.integer] = np.zeros(0)
    for given, search in chain([first], settings):
        search(queries[:64])
        wall, processor = time.perf_counter(), time.process_time()
        found = search(queries)
        spent, burnt = time.perf_counter() - wall, time.process_time() - processor
        processor = time.process_time()
        for place in range(50):
            search(queries[place : place + 1])
        one = (time.process_time() - processor) / 50
        row["searches"].append(
            {
                **given,
                "ms": spent / len(queries) * 1000,
                "cpu_ms": burnt / len(queries) * 1000,
                "single_cpu_ms": one * 1000,
                "recall": recall(labels, queries, found, hundredth),
            }
        )
    if name.startswith("gutenberg"):
        for _, search in METHODS[method](labels, threads):
            again = search(queries)
        row["same_again"] = bool((again == found).all())
    return row


def exact_values(labels: Vectors, queries: Vectors) -> Vectors:
    """Similarities of the K nearest, float32 (m, K)."""
    parts = [queries[start : start + 256] @ labels.T for start in range(0, len(queries), 256)]
    return np.concatenate([-np.partition(-part, K - 1, axis=1)[:, :K] for part in parts])


def recall(labels: Vectors, queries: Vectors, found: NDArray[np.integer], hundredth: Vectors) -> float:
    right = 0
    for query, given, least in zip(queries, found.astype(np.int64), hundredth, strict=True):
        ids = np.unique(given[(given >= 0) & (given < len(labels))])
        right += int((labels[ids] @ query >= least - 1e-5).sum())
    return right / (len(queries) * K)


def peak_mb() -> float:
    """The most memory the process has held so far, in megabytes."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024 / 1e6
    return 0.0


# all rows
def installed() -> None:
    """The libraries, in the versions pinned, in a folder of their own; numpy is the project's."""
    missing = [
        f"{name}=={pin}"
        for name, pin in PINS.items()
        if not any(LIBRARIES.glob(f"{name.replace('-', '_')}-{pin}.dist-info"))
    ]
    if not missing:
        return
    print(f"installing {' '.join(missing)}", file=sys.stderr)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--upgrade"]
    done = subprocess.run([*pip, "--target", LIBRARIES, *missing], check=False, capture_output=True, text=True)
    if done.returncode:
        raise UsageError(f"could not install {' '.join(missing)}: {done.stderr.strip().splitlines()[-1]}")


def installed_mb() -> dict[str, float]:
    """Megabytes of each library on disk, with the shared libraries it brings along."""
    sizes = {}
    for name in PINS:
        record = next(LIBRARIES.glob(f"{name.replace('-', '_')}-*.dist-info/RECORD"))
        files = [LIBRARIES / line.split(",")[0] for line in record.read_text(encoding="utf-8").splitlines()]
        sizes[name] = round(sum(file.stat().st_size for file in files if file.is_file()) / 1e6, 1)
    return sizes


def measured(row: dict[str, Any], file: Path) -> dict[str, Any]:
    threads = {f"{name}_NUM_THREADS": str(row["threads"]) for name in ("OMP", "OPENBLAS", "MKL", "NUMBA")}
    environment = {**os.environ, **threads, "PYTHONPATH": str(LIBRARIES)}
    given = [row["set"], row["method"], str(row["threads"]), str(file)]
    before = common.load_average()
    command = [sys.executable, __file__, "--worker", *given]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise UsageError(f"{row['row']}: {done.stderr.strip().splitlines()[-1]}")
    figures = json.loads(done.stdout.splitlines()[-1])
    return {**row, **_rounded(figures), "load_before": before, "commit": common.commit()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--rows", default="*", help="only rows whose name matches, such as 'gutenberg-128/*'")
    parser.add_argument("--fresh", action="store_true", help="measure rows again that are finished")
    parser.add_argument("--worker", nargs=4, metavar=("SET", "METHOD", "THREADS", "FILE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        name, method, threads, file = options.worker
        print(json.dumps(work(name, method, int(threads), Path(file))))
        return
    data = common.data_folder(options.data)
    installed()
    for row in ROWS:
        done = _kept()
        if not fnmatch.fnmatch(row["row"], options.rows) or (row["row"] in done and not options.fresh):
            continue
        try:
            figures = measured(row, vectors(row["set"], data))
        except UsageError as failure:
            print(failure, file=sys.stderr, flush=True)
            continue
        with common.locked(RESULT):
            done = _kept() | {row["row"]: figures}
            rows = [done[each["row"]] for each in ROWS if each["row"] in done]
            about = {"command": COMMAND, "machine": common.machine(), "versions": common.versions() | PINS}
            common.write_json(RESULT, about | {"installed_mb": installed_mb(), "rows": rows})
        last = figures["searches"][-1]
        shown = f"build {figures['build_cpu_s']:.1f} s, {last['cpu_ms']:.3f} ms, recall {last['recall']:.4f}"
        print(f"{row['row']}: {shown} (processor time)")
        sys.stdout.flush()


def _kept() -> dict[str, dict[str, Any]]:
    content = common.read_json(RESULT)
    return {row["row"]: row for row in content["rows"]} if content else {}


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return round(value, 4) if isinstance(value, float) else value


if __name__ == "__main__":
    main()
