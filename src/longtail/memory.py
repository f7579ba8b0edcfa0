"""How much memory there is: free on the machine, left by control groups and by limits of the process."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

#: Share of what is free that a run takes if nobody says otherwise.
SHARE = 0.8
#: What a thread's stack and its part of the allocator reserve of a limited address space.
PER_THREAD = 72 << 20


def free_memory(root: Path = Path("/"), threads: int = 1) -> int | None:
    """Bytes this process may come to hold, those it holds already included; None where the system does not say."""
    found = [_unused(root), *_control_groups(root), _address_space(threads)]
    known = [size for size in found if size is not None]
    return min(known) if known else None


def default_memory(threads: int = 1) -> int | None:
    """What a run may hold if nobody says otherwise: 80 % of what is free."""
    found = free_memory(threads=threads)
    return None if found is None else int(SHARE * found)


def give_back() -> None:
    """Hands memory that is free again back to the system, where the C library keeps it for later."""
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def resident() -> int:
    """Bytes of memory this process holds now."""
    held = _status("VmRSS")
    return peak() if held is None else held


def peak() -> int:
    """The most memory this process has held, or 0 where the system does not say."""
    # getrusage's figure carries over from the process that started this one
    held = _status("VmHWM")
    if held is not None:
        return held
    try:
        import resource
    except ImportError:
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def _status(name: str) -> int | None:
    return _field(Path("/proc/self/status"), name)


def _field(path: Path, name: str) -> int | None:
    """A number of kilobytes in a file of /proc, as bytes."""
    try:
        for line in path.read_text().splitlines():
            key, _, value = line.partition(":")
            if key == name:
                return int(value.split()[0]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None


def _unused(root: Path) -> int | None:
    """What the machine could still give, and what this process has of it already."""
    free = _field(root / "proc/meminfo", "MemAvailable")
    if free is None and hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None if free is None else free + resident()


def _control_groups(root: Path) -> list[int]:
    """What the process's control groups, of either version, and those around them leave."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    left = []
    for line in lines:
        _, _, rest = line.partition(":")
        kinds, _, group = rest.partition(":")
        if kinds == "":
            left += _left(root / "sys/fs/cgroup", group, "memory.max", "memory.current", "inactive_file")
        elif "memory" in kinds.split(","):
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            left += _left(root / "sys/fs/cgroup/memory", group, *names)
    return left


def _left(mount: Path, group: str, limit: str, usage: str, cache: str) -> list[int]:
    """What a group and each one around it leave; in a container the group's own folder may be the mount itself."""
    steps = [step for step in group.split("/") if step and step != ".."]
    folders = [mount.joinpath(*steps[:depth]) for depth in range(len(steps), -1, -1)]
    found = []
    for folder in folders:
        most, used = _number(folder / limit), _number(folder / usage)
        if most is None or used is None or most >= 1 << 60:
            continue
        # pages of files are given back when somebody else needs them
        found.append(max(0, most - used + min(_cached(folder / "memory.stat", cache), used)) + resident())
    return found


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # not there, or "max"
        return None


def _cached(path: Path, name: str) -> int:
    try:
        return next(int(line.split()[1]) for line in path.read_text().splitlines() if line.split()[0] == name)
    except (OSError, ValueError, IndexError, StopIteration):
        return 0


def exhausted() -> bool:
    """Whether a limit of the address space was all but reached: what libraries then raise may be anything."""
    limit, mapped = _address_limit(), _status("VmPeak")
    return limit is not None and mapped is not None and mapped > 0.9 * limit


def _address_limit() -> int | None:
    try:
        import resource
    except ImportError:
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if limit == resource.RLIM_INFINITY else limit


def _address_space(threads: int) -> int | None:
    """What a limit of the address space (ulimit -v) leaves: much of what is mapped is never held."""
    limit, mapped, held = _address_limit(), _status("VmSize"), _status("VmRSS")
    if limit is None or mapped is None or held is None:
        return None
    return max(1, limit - (mapped - held) - PER_THREAD * threads)
