"""`longtail train` as a user gives it: seconds and peak memory of the process, reading, compiling and saving included.

This process imports nothing large: the peak of a process starts with that of the process it was forked from.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path


def main():
    task = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    options, model = task["options"], Path(task["output"]) / "model"
    words = ["train", options["corpus"], "-o", str(model), *options["arguments"], "--seed", str(task["seed"])]
    command = [sys.executable, "-m", "longtail", *words, "--threads", str(task["threads"]), "--quiet"]
    Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")  # the runner is not to end for it
    started = time.perf_counter()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    taken = time.perf_counter() - started
    code = os.waitstatus_to_exitcode(status)
    if code:
        raise SystemExit(f"longtail {' '.join(words[:1])} ended with {code}")
    report = {
        "train_s": taken,
        "train_cpu_s": usage.ru_utime + usage.ru_stime,
        "peak_train_mb": usage.ru_maxrss * 1024 / 1e6,
        "model_mb": sum(file.stat().st_size for file in model.rglob("*") if file.is_file()) / 1e6,
        "versions": {},
    }
    (Path(task["output"]) / "report.json").write_text(json.dumps(report), encoding="utf-8")


if __name__ == "__main__":
    main()
