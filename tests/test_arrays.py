"""What kernels share."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from longtail.arrays import Growing, marks_for, nth_smallest, sort_distinct

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


@pytest.mark.parametrize("highest", [1, 63, 64, 65, 1000, 100_000])
@pytest.mark.parametrize("share", [0.0, 0.001, 0.1, 1.0])
def test_distinct_numbers_are_sorted_and_the_marks_left_clean(highest, share):
    rng = np.random.default_rng(highest)
    numbers = rng.permutation(highest)[: int(highest * share)].astype(np.int32)
    expected, marks = np.sort(numbers), marks_for(highest)
    sort_distinct(numbers, marks)
    np.testing.assert_array_equal(numbers, expected)
    assert not marks.any()


@pytest.mark.parametrize("size", [1, 10, 1024, 5000])
@pytest.mark.parametrize("kind", ["spread", "equal", "one far out", "two values", "tiny span"])
def test_nth_smallest_is_that_of_the_sorted_values(size, kind):
    rng = np.random.default_rng(size)
    values = {
        "spread": rng.normal(size=size),
        "equal": np.full(size, 0.3),
        "one far out": np.append(rng.normal(size=size - 1), 1e30),
        "two values": rng.integers(0, 2, size).astype(float),
        "tiny span": rng.integers(0, 3, size) * 1e-44,
    }[kind].astype(np.float32)
    for n in {0, size // 3, size // 2, size - 1}:
        assert nth_smallest(values, n) == np.sort(values)[n]
