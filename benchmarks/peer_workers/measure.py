"""What the workers share. Runs in the venv of each peer, so it needs numpy and scipy and nothing else.

A worker is started as `python worker.py TASK.json`. The task names the folder with the matrices, the folder for what
comes out, the number of threads and the options of the system. What comes out: report.json, top.npz with the timed
prediction, and the model.
"""

import contextlib
import ctypes
import gc
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp

ONE_BY_ONE = 1000  # test documents that are predicted one at a time against the clock
UNTIMED = 100  # calls before the clock starts
ENOUGH = 60  # seconds of timed predictions, beyond which none is repeated
COMPILE = "--compile"  # behind the task: warm up and end


class Task:
    """One system on one corpus.

    matrices  folder with train_X, train_Y, test_X, test_Y (csr float32) and train.txt (XMC-repository format)
    output    folder for the report, the prediction and the model
    passes    timed predictions, at most; 0 where only training counts
    """

    def __init__(self, path):
        given = json.loads(Path(path).read_text(encoding="utf-8"))
        self.matrices, self.output = Path(given["matrices"]), Path(given["output"])
        self.threads, self.seed, self.options = given["threads"], given["seed"], given["options"]
        self.k, self.passes = given["k"], given["passes"]
        self.model = self.output / "model"

    def load(self, name):
        matrix = sp.load_npz(self.matrices / f"{name}.npz")
        return sp.csr_matrix(matrix)

    def some_rows(self, X):
        """The numbers of the documents that are predicted one at a time: the first that have a feature."""
        return np.flatnonzero(np.diff(X.indptr) > 0)[:ONE_BY_ONE].tolist()


def run(worker):
    """Trains, saves, loads back, predicts, and writes down what that took.

    `worker(task)` loads what it trains on, and has the methods
      train() -> model                     timed
      save_and_load(model) -> model        not timed
      load_test()                          not timed; after training, whose memory is not to hold test documents
      predict(model, k) -> raw             timed, up to `passes` times
      versions() -> dict, stages() -> dict, model_bytes() -> int
    and may have
      arrays(raw, k) -> ids, values        (n, k), padded with -1: what the metrics are taken from
      warm_up()                            before training: what is compiled on first use is not timed, and is
                                           compiled by another process
      compile()                            all that the other process does instead of warm_up, to compile everything
      one_by_one(model, k) -> calls        a function without arguments per document, matrix row to labels; timed
      more(model) -> dict                  other figures for the report
      settings() -> dict                   every option as it ran, where the system can say
    """
    first_to_go()
    task = Task(sys.argv[1])
    if hasattr(worker, "warm_up"):
        if COMPILE in sys.argv:
            system = worker(task)
            getattr(system, "compile", system.warm_up)()
            return
        # compiling takes memory, which stays with the process that did it; kernels are kept on disk for this one
        if subprocess.run([sys.executable, *sys.argv, COMPILE], check=False).returncode:
            sys.exit(1)  # it has said why
    report = {"imports_mb": held_mb()}
    started = time.perf_counter()
    system = worker(task)
    report["loaded_mb"] = held_mb()
    if hasattr(system, "warm_up"):
        system.warm_up()
    report |= {"setup_s": time.perf_counter() - started, "ready_mb": held_mb()}
    forget_peak()
    model, report["train_s"], report["train_cpu_s"] = timed(system.train)
    report["peak_train_mb"] = peak_mb()
    report["stages"] = system.stages()
    model = system.save_and_load(model)
    report["model_mb"] = system.model_bytes() / 1e6
    if task.passes:
        system.load_test()
        gc.collect()
        report |= predicted(system, model, task)
    report["versions"] = system.versions()
    report["settings"] = system.settings() if hasattr(system, "settings") else {}
    (task.output / "report.json").write_text(json.dumps(report), encoding="utf-8")


def predicted(system, model, task):
    """Times of the batch and of single documents; the batch's labels go to top.npz."""
    passes = []
    for _ in range(task.passes):
        raw, wall, processor = timed(lambda: system.predict(model, task.k))
        passes.append((wall, processor))
        if sum(wall for wall, _ in passes) > ENOUGH:
            break
    report = {"predict_s": [wall for wall, _ in passes], "predict_cpu_s": [processor for _, processor in passes]}
    if hasattr(system, "arrays"):
        ids, values = system.arrays(raw, task.k)
        np.savez(task.output / "top.npz", ids=ids, values=values)
    if hasattr(system, "one_by_one"):
        report |= percentiles(system.one_by_one(model, task.k))
    return report | (system.more(model) if hasattr(system, "more") else {})


def percentiles(calls):
    """Median and 99th percentile of milliseconds over single calls, each once; some are made untimed beforehand."""
    until = time.perf_counter_ns() + ENOUGH * 10**9
    for call in calls[:UNTIMED]:
        call()
        if time.perf_counter_ns() > until:
            break
    taken = []
    gc.collect()
    until = time.perf_counter_ns() + ENOUGH * 10**9
    for call in calls:
        started = time.perf_counter_ns()
        if taken and started > until:
            break
        call()
        taken.append(time.perf_counter_ns() - started)
    p50, p99 = np.percentile(np.array(taken) / 1e6, [50, 99])
    return {"one_p50_ms": float(p50), "one_p99_ms": float(p99), "one_documents": len(taken)}


def timed(work):
    """What the work gives, wall seconds, and processor seconds of all threads."""
    wall, processor = time.perf_counter(), time.process_time()
    result = work()
    return result, time.perf_counter() - wall, time.process_time() - processor


def first_to_go():
    """Where memory runs out, the system ends this process, not the one that measures."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


def held_mb():
    """Memory that the process holds now; what it has freed is given back first."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    return _status("VmRSS") or _peak_of_usage()


def forget_peak():
    """Lets `peak_mb` count from here on, where the system can (Linux)."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_mb():
    """The most memory this process has held: interpreter, libraries, matrices and all.

    Linux carries the peak of the parent into getrusage's figure when a process is started; VmHWM is the process's own.
    """
    return _status("VmHWM") or _peak_of_usage()


def _status(name):
    try:
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024 / 1e6
    except OSError:
        pass
    return None


def _peak_of_usage():
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * (1 if sys.platform == "darwin" else 1024) / 1e6


def folder_bytes(folder):
    return sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())


def from_lists(rows, k):
    """[(label, score), ...] a document as padded arrays ids int32 (n, k) and values float32 (n, k)."""
    ids = np.full((len(rows), k), -1, dtype=np.int32)
    values = np.zeros((len(rows), k), dtype=np.float32)
    for i, row in enumerate(rows):
        for j, (label, score) in enumerate(row[:k]):
            ids[i, j], values[i, j] = label, score
    return ids, values


def from_csr(matrix, k):
    """The k best stored entries of each row, by (-value, column), as padded arrays."""
    matrix = sp.csr_matrix(matrix)
    n = matrix.shape[0]
    row = np.repeat(np.arange(n), np.diff(matrix.indptr))
    order = np.lexsort((matrix.indices, -matrix.data, row))
    place = np.arange(len(row)) - matrix.indptr[row]
    kept = place < k
    ids = np.full((n, k), -1, dtype=np.int32)
    values = np.zeros((n, k), dtype=np.float32)
    ids[row[kept], place[kept]] = matrix.indices[order][kept]
    values[row[kept], place[kept]] = matrix.data[order][kept]
    return ids, values
