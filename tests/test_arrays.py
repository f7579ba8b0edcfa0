"""What kernels share."""

from __future__ import annotations

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
