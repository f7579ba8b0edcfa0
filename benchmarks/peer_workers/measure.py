"""What the workers share. Runs in the venv of each peer, so it needs numpy and scipy and nothing else.

A worker is started as `python worker.py TASK.json`. The task names the folder with the matrices, the folder for what
comes out, the number of threads and the options of the system. What comes out: report.json, top.npz with the timed
prediction, stored.npz with a deeper one that nobody times, and the model.
"""

import gc
import json
import resource
import sys
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp


class Task:
    """One system on one corpus.

    matrices  folder with train_X, train_Y, test_X, test_Y (csr float32) and train.txt (XMC-repository format)
    output    folder for the report, the predictions and the model
    """

    def __init__(self, path):
        given = json.loads(Path(path).read_text(encoding="utf-8"))
        self.matrices, self.output = Path(given["matrices"]), Path(given["output"])
        self.threads, self.seed, self.options = given["threads"], given["seed"], given["options"]
        self.k, self.stored, self.passes = given["k"], given["stored"], given["passes"]
        self.model = self.output / "model"

    def load(self, name):
        matrix = sp.load_npz(self.matrices / f"{name}.npz")
        return sp.csr_matrix(matrix)


def run(worker):
    """Trains, saves, loads back, predicts, and writes down what that took.

    `worker(task)` loads matrices and warms up, and has the methods
      train() -> model                     timed
      save_and_load(model) -> model        not timed
      predict(model, k) -> raw             timed, `passes` times
      arrays(raw, k) -> ids, values        (n, k), padded with -1
      versions() -> dict, stages() -> dict, model_bytes() -> int
      settings() -> dict                   every option as it ran, where the system can say
    """
    task = Task(sys.argv[1])
    started = time.perf_counter()
    system = worker(task)
    gc.collect()
    report = {"setup_s": time.perf_counter() - started, "loaded_mb": peak_mb()}
    model, report["train_s"], report["train_cpu_s"] = timed(system.train)
    report["stages"] = system.stages()
    report["peak_train_mb"] = peak_mb()
    model = system.save_and_load(model)
    gc.collect()
    report["model_mb"] = system.model_bytes() / 1e6
    passes = []
    for _ in range(task.passes):
        raw, wall, processor = timed(lambda: system.predict(model, task.k))
        passes.append((wall, processor))
    report["predict_s"] = [wall for wall, _ in passes]
    report["predict_cpu_s"] = [processor for _, processor in passes]
    report["peak_mb"] = peak_mb()
    report["versions"] = system.versions()
    report["settings"] = system.settings() if hasattr(system, "settings") else {}
    ids, values = system.arrays(raw, task.k)
    np.savez(task.output / "top.npz", ids=ids, values=values)
    if task.stored:
        ids, values = system.arrays(system.predict(model, task.stored), task.stored)
        np.savez_compressed(task.output / "stored.npz", ids=ids, values=values)
    (task.output / "report.json").write_text(json.dumps(report), encoding="utf-8")


def timed(work):
    """What the work gives, wall seconds, and processor seconds of all threads."""
    wall, processor = time.perf_counter(), time.process_time()
    result = work()
    return result, time.perf_counter() - wall, time.process_time() - processor


def peak_mb():
    """The most memory this process has held so far: interpreter, libraries, matrices and all.

    Linux carries the peak of the parent into getrusage's figure when a process is started; VmHWM is the process's own.
    """
    try:
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024 / 1e6
    except OSError:
        pass
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
