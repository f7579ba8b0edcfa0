"""Where heavy work runs: threads of this process (local), or a Ray cluster (ray)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from longtail.errors import UsageError, nearest

if TYPE_CHECKING:
    from longtail.engines.base import Engine

ENGINES = ("local", "ray")


def chosen(name: str = "local", *, address: str | None = None, workers: int = 0) -> Engine:
    """The engine of that name, ready to work.

    address  of a Ray cluster; without it Ray is started on this machine
    workers  processes of a Ray that is started here, 0 for one per core
    """
    if name not in ENGINES:
        raise UsageError(f"there is no engine '{name}'; {nearest(name, ENGINES)}")
    if name == "ray":
        from longtail.engines.ray import RayEngine

        return RayEngine.connected(address, workers=workers)
    if address is not None:
        raise UsageError(f"--address is where a Ray cluster is found, and --engine is {name}: use --engine ray")
    from longtail.engines.local import LocalEngine

    return LocalEngine()
