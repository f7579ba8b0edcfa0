"""The systems of the race: whose they are, with which options, on which corpora, and the venvs they live in."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import common
from longtail.errors import LongtailError, UsageError, nearest

WORKERS = common.HERE / "peer_workers"

MILLION = "synthetic-1m"
#: Corpora that are generated, and how many labels and documents they have; larger ones: scale.py.
GENERATED = {MILLION: 1_000_000}
#: Short ones first.
CORPORA = ("gutenberg-lcsh-titles", "citeulike-t", "eurlex57k", "germeval-gnd", MILLION)

#: What a peer's venv holds, and what is imported to see whether it is whole.
PEERS: dict[str, tuple[list[str], str]] = {
    "pecos": (["libpecos==1.2.8", "numpy<2", "scipy<1.14", "torch==2.13.0"], "pecos.xmc.xlinear.model"),
    "omikuji": (["omikuji==0.5.2", "numpy", "scipy"], "omikuji"),
    "napkinxc": (["napkinxc==0.7.2", "numpy", "scipy"], "napkinxc.models"),
    "libmultilabel": (["libmultilabel==0.10.0", "torch==2.13.0"], "libmultilabel.linear"),
    "annif": (["annif==1.4.3", "omikuji==0.5.2"], "annif.backend.omikuji"),
}
#: Workers that run in this interpreter: the learners, the tagger from text to names, and the command line.
OWN = ("longtail", "tagger", "command")

#: Parts of the training documents at which growth is measured, besides all of them: a quarter and a half.
PARTS = (4, 2)


@dataclass(frozen=True)
class System:
    """One row of the table: whose, and with which options.

    trees    trees it trains, for peers are compared with as many of ours
    matched  stops at the peers' tolerance instead of its own default
    only     corpora it runs on, or None for all but the generated ones
    also     generated corpora it runs on, too
    growth   whether it is measured at parts of the training documents
    """

    name: str
    peer: str
    options: dict[str, Any] = field(default_factory=dict)
    trees: int = 1
    matched: bool = False
    only: tuple[str, ...] | None = None
    also: tuple[str, ...] = ()
    growth: bool = False

    @property
    def worker(self) -> Path:
        return WORKERS / f"run_{self.peer}.py"

    @property
    def ours(self) -> bool:
        return self.peer in OWN

    def runs_on(self, corpus: str) -> bool:
        if self.only is not None:
            return corpus in self.only
        return corpus not in GENERATED or corpus in self.also


def _ours(kind: str, trees: int, *, matched: bool = False, **more: Any) -> System:
    name = f"longtail {kind} {trees} tree{'s' if trees > 1 else ''}{', eps 0.1' if matched else ''}"
    options = {"part": kind, "trees": trees} | ({"eps": 0.1} if matched else {})
    return System(name, "longtail", options, trees=trees, matched=matched, **more)


_BONSAI = {"cluster_balanced": False, "cluster_k": 100, "max_depth": 3}
_GERMEVAL = ("germeval-gnd",)
SYSTEMS = (
    _ours("parabel", 1, also=(MILLION,), growth=True),
    _ours("parabel", 3),
    _ours("bonsai", 1, also=(MILLION,), growth=True),
    _ours("bonsai", 3),
    _ours("parabel", 1, matched=True, also=(MILLION,)),
    _ours("bonsai", 1, matched=True, also=(MILLION,)),
    _ours("bonsai", 3, matched=True),
    System(
        "pecos xr-linear (16-way)",
        "pecos",
        {"nr_splits": 16, "max_leaf_size": 100, "beam_size": 10},
        also=(MILLION,),
        growth=True,
    ),
    System("omikuji parabel 1 tree", "omikuji", {"n_trees": 1}, also=(MILLION,), growth=True),
    System("omikuji parabel 3 trees", "omikuji", {"n_trees": 3}, trees=3),
    System("omikuji bonsai 3 trees", "omikuji", {"n_trees": 3, **_BONSAI}, trees=3),
    System("napkinxc plt", "napkinxc", also=(MILLION,)),
    System("libmultilabel tree", "libmultilabel", only=("gutenberg-lcsh-titles",)),
    System("longtail text to names", "tagger", trees=3, only=("gutenberg-lcsh-titles", "eurlex57k")),
    System("longtail train", "command", {"arguments": []}, only=_GERMEVAL),
    System("longtail train --augment gandalf", "command", {"arguments": ["--augment", "gandalf"]}, only=_GERMEVAL),
    System("longtail train --recipe label-text", "command", {"arguments": ["--recipe", "label-text"]}, only=_GERMEVAL),
)


class NotMeasuredError(LongtailError):
    """A system that could not be installed or did not finish; the others go on."""


class OverBudgetError(NotMeasuredError):
    """A system that took longer than it may: a result, which is not tried again in the same run."""


def chosen(only: Sequence[str] | None) -> list[System]:
    """The systems named, or whose name contains what was given, in the order of the table."""
    if not only:
        return list(SYSTEMS)
    names = {system.name for system in SYSTEMS}
    wanted: set[str] = set()
    for given in only:
        found = {given} if given in names else {name for name in names if given in name}
        if not found:
            raise UsageError(f"no system '{given}'; {nearest(given, names)}")
        wanted |= found
    return [system for system in SYSTEMS if system.name in wanted]


def interpreter(system: System, folder: Path) -> Path:
    """The Python that has the system; a peer's venv is made and filled when it is not there or not whole."""
    if system.ours:
        return Path(sys.executable)
    requirements, module = PEERS[system.peer]
    home = folder / system.peer
    python = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if _whole(python, requirements, module):
        return python
    say(f"{system.peer}: installing {' '.join(requirements)}")
    if not python.exists():
        venv.create(home, with_pip=True, clear=True)
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements]
    done = subprocess.run(install, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode or not _whole(python, requirements, module):
        said = [line for line in done.stderr.splitlines() if "ERROR" in line] or ["its modules cannot be imported"]
        raise NotMeasuredError(f"{system.peer} could not be installed: {said[-1].strip()}")
    return python


def _whole(python: Path, requirements: Sequence[str], module: str) -> bool:
    """Whether the peer can be imported there in the version that is pinned."""
    if not python.exists():
        return False
    pins = dict(requirement.split("==") for requirement in requirements if "==" in requirement)
    # torch's version carries a suffix for its build
    probe = (
        f"import {module}\nfrom importlib.metadata import version\n"
        f"assert all(version(name).partition('+')[0] == pin for name, pin in {pins!r}.items())"
    )
    return subprocess.run([python, "-I", "-c", probe], check=False, capture_output=True).returncode == 0


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
