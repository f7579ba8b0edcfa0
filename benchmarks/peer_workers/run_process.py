"""A command against the clock: seconds and peak memory of its process.

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
    Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")  # the runner is not to end for it
    started = time.perf_counter()
    process = subprocess.Popen(task["command"], stdin=subprocess.DEVNULL, env={**os.environ, **task["environment"]})
    _, status, usage = os.wait4(process.pid, 0)
    taken = time.perf_counter() - started
    code = os.waitstatus_to_exitcode(status)
    if code:
        raise SystemExit(f"{' '.join(task['command'][:4])} ... ended with {code}")
    report = {
        "train_s": round(taken, 2),
        "train_cpu_s": round(usage.ru_utime + usage.ru_stime, 2),
        "peak_train_mb": round(usage.ru_maxrss * 1024 / 1e6, 1),
    }
    Path(task["report"]).write_text(json.dumps(report), encoding="utf-8")


if __name__ == "__main__":
    main()
