"""What kernels share."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from longtail.arrays import Growing

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


def test_a_growing_array_is_all_its_pieces() -> None:
    growing = Growing()
    pieces = [np.arange(2 * n, dtype=np.uint32).reshape(n, 2) for n in (0, 3, 0, 70_000, 1)]
    for piece in pieces:
        growing.add(piece)
    found = growing.array()
    assert found.dtype == np.uint32 and np.array_equal(found, np.concatenate(pieces))
    growing = Growing()
    growing.add(np.arange(6)[::2])
    assert growing.array().tolist() == [0, 2, 4]
    empty = Growing()
    empty.add(np.empty((0, 2), dtype=np.float32))
    assert empty.array().shape == (0, 2)
    with pytest.raises(ValueError, match="no piece"):
        Growing().array()


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not say what a process holds")
def test_a_growing_array_is_never_held_twice() -> None:
    code = (
        "import numpy as np\n"
        "from longtail.arrays import Growing\n"
        "from longtail.memory import peak\n"
        "growing, piece = Growing(), np.ones(1 << 20, dtype=np.uint8)\n"
        "before = peak()\n"
        "for _ in range(256):\n"
        "    growing.add(piece)\n"
        "assert growing.array().all()\n"
        "print(peak() - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 340 << 20
