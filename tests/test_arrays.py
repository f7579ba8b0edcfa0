"""What kernels share."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

KERNEL = """
from typing import NamedTuple
import numpy as np
from longtail.arrays import njit
class {name}(NamedTuple):
    values: np.ndarray
@njit(nogil=True, cache=True)
def total(given):
    return given.values.sum() + {added}
print(total({name}(np.arange(3.0))), sum(total.stats.cache_hits.values()))
"""


def test_a_cache_that_another_version_left_behind_is_made_anew(tmp_path: Path) -> None:
    """The class that a cached kernel takes has another name in the next version: numba's index names the old one."""
    file = tmp_path / "kernel.py"

    def run(name: str, added: int) -> str:
        file.write_text(KERNEL.format(name=name, added=added))
        return subprocess.run(
            [sys.executable, "-c", "import kernel"], cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout.strip()

    assert run("Before", 0) == "3.0 0"
    assert run("Before", 0).startswith("3.0")  # the file was written anew, and so is the cache
    assert run("Afterwards", 10) == "13.0 0"


def test_kernels_that_different_processes_compiled_do_not_stand_in_for_each_other(tmp_path: Path) -> None:
    """numba names np.sort and np.argsort alike but for a number that each process used to count from 1."""
    lines = ["import sys", "import numpy as np", "from longtail.arrays import njit"]
    lines += ["@njit(cache=True)", "def ordered(a):", "    a.sort()", "    return a"]
    lines += ["@njit(cache=True)", "def order(a):", "    return np.argsort(a)"]
    lines += ["for name in sys.argv[1:]:", "    print(globals()[name](np.arange(5, 0, -1, dtype=np.int32)).tolist())"]
    (tmp_path / "kernels.py").write_text("\n".join(lines))
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}

    def printed(*names: str) -> str:
        command = [sys.executable, str(tmp_path / "kernels.py"), *names]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    assert (printed("ordered"), printed("order")) == ("[1, 2, 3, 4, 5]\n", "[4, 3, 2, 1, 0]\n")
    assert printed("ordered", "order") == "[1, 2, 3, 4, 5]\n[4, 3, 2, 1, 0]\n"
