"""What benchmark scripts share: where the data lies, what machine this is, how results are written."""

from __future__ import annotations

import argparse
import fcntl
import fnmatch
import hashlib
import json
import os
import platform
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from longtail.corpus import Corpus
from longtail.data.held_out import hold_out
from longtail.errors import UsageError
from longtail.run import available_cores

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent
RESULTS = HERE / "results"
WORK = HERE / ".work"
PACKAGES = ("longtail", "numpy", "scipy", "numba")
#: Corpora of this ending are training documents alone, some of them held out to choose settings on.
HELD_OUT, SHARE = "-held-out", 0.15


def data_folder(given: str | Path | None = None) -> Path:
    """The folder that holds the corpora: as given, else LONGTAIL_DATA, else ../shared/data beside the repository."""
    if given is None:
        given = os.environ.get("LONGTAIL_DATA") or REPOSITORY.parent / "shared" / "data"
    folder = Path(given)
    if not folder.is_dir():
        raise UsageError(f"no corpora in {folder}; give their folder by --data or LONGTAIL_DATA")
    return folder


def source_of(corpus: str) -> str:
    return corpus.removesuffix(HELD_OUT)


def carved(train: Corpus, share: float = SHARE, seed: int = 0) -> tuple[Corpus, Corpus]:
    """Training documents in two: to train on, and held out; only labels that the former have are counted."""
    rest, held = hold_out(train, share, np.random.default_rng(seed))
    rest = rest.counted()
    rest = rest.columns(np.flatnonzero(rest.labels.frequency))
    return rest, held.aligned(rest.labels).without_unseen()


def machine() -> dict[str, Any]:
    """What the figures were measured on; no name of the machine or its owner."""
    return {
        "cores": available_cores(),
        "cpu": cpu_model(),
        "memory_gb": memory_gb(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or "unknown"


def memory_gb() -> float | None:
    if not hasattr(os, "sysconf") or "SC_PHYS_PAGES" not in os.sysconf_names:
        return None
    return round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1)


def load_average() -> float | None:
    """Processes that wanted a core over the last minute; above 0 before a run, the machine had other work."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def versions(packages: Iterable[str] = PACKAGES) -> dict[str, str]:
    found = {}
    for name in packages:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def commit() -> str:
    """The commit the sources are at, with + when they were changed since."""
    try:
        described = ["git", "describe", "--always", "--abbrev=10", "--dirty=+", "--exclude=*"]
        return subprocess.run(described, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def digest(*parts: str | bytes) -> str:
    """A short hash of texts and bytes, each delimited by its length."""
    state = hashlib.sha256()
    for part in parts:
        content = part.encode() if isinstance(part, str) else part
        state.update(f"{len(content)}:".encode())
        state.update(content)
    return state.hexdigest()[:16]


def digest_of_files(paths: Sequence[Path]) -> str:
    """A short hash of the names and contents of files; folders stand for the Python files below them."""
    files = [file for path in paths for file in (sorted(path.rglob("*.py")) if path.is_dir() else [path])]
    return digest(*(part for file in files for part in (file.name, file.read_bytes())))


def read_json(path: Path) -> Any:
    """The content of a results file, or None when there is none yet."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise UsageError(f"{path} is not a results file: {error}; remove it to start over") from None


def write_json(path: Path, content: Any) -> None:
    """Replaces the file in one step, so that a run stopped half-way leaves the results it had."""
    write_text(path, json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def write_text(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with new.open("w", encoding="utf-8", newline="\n") as handle:
            handle.write(content)
            handle.flush()
            os.fsync(handle.fileno())
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keeps other benchmark processes from writing the same results file meanwhile."""
    WORK.mkdir(parents=True, exist_ok=True)
    with (WORK / f"{path.name}.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@contextmanager
def claimed(result: Path, name: str) -> Iterator[bool]:
    """Whether this process is the one that measures a row: several may go through the same rows side by side."""
    WORK.mkdir(exist_ok=True)
    claim = WORK / f"{result.stem}-{hashlib.sha256(name.encode()).hexdigest()[:16]}.claim"
    with claim.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        yield True
    claim.unlink(missing_ok=True)


def _finished(result: Path) -> dict[str, Any]:
    return {row["row"]: row for row in read_json(result)["rows"]} if result.exists() else {}


def rows_of(wanted: Iterable[tuple[str, str, Sequence[str], Sequence[int]]]) -> list[dict[str, Any]]:
    """Rows of (corpus, learner, settings, seeds), each setting with each seed; what is wanted twice comes once."""
    made = {
        f"{corpus}/{learner}/{setting}/{seed}": {"corpus": corpus, "learner": learner, "setting": setting, "seed": seed}
        for corpus, learner, settings, seeds in wanted
        for setting in settings
        for seed in seeds
    }
    return [{"row": name, **row} for name, row in made.items()]


def run_rows(
    description: str,
    result: Path,
    command: str,
    rows: Sequence[dict[str, Any]],
    measure: Callable[[dict[str, Any], Path], dict[str, Any]],
    *,
    reads_data: bool = True,
) -> None:
    """The command line of a runner: measures the rows that are not finished yet and keeps each as soon as it is.

    A row has a name under "row"; `measure` gives it back with what it found, metrics under "figures".
    reads_data  False for a benchmark that draws its own corpora, and gets no folder
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--rows", default="*", help="only rows whose name matches, such as 'eurlex57k/*'")
    parser.add_argument("--fresh", action="store_true", help="measure rows again that are finished")
    parser.add_argument("--budget", type=float, default=None, help="minutes after which no further row is begun")
    options = parser.parse_args()
    begun = time.monotonic()
    data = data_folder(options.data) if reads_data else Path()
    done = _finished(result)
    for row in rows:
        name = row["row"]
        if not fnmatch.fnmatch(name, options.rows) or (name in done and not options.fresh):
            continue
        if options.budget is not None and time.monotonic() - begun > 60 * options.budget:
            print(f"the budget of {options.budget:g} minutes is spent; the same command goes on from here")
            return
        with claimed(result, name) as mine:
            if not mine or (not options.fresh and name in _finished(result)):
                continue
            measured = measure(row, data)
            with locked(result):
                # another run may have finished other rows in the meantime
                done = _finished(result) | {name: measured}
                # in the order of the rows, and behind them what only that other run knows of
                order = [each["row"] for each in rows if each["row"] in done]
                kept = [done[each] for each in dict.fromkeys([*order, *done])]
                write_json(result, {"command": command, "machine": machine(), "rows": kept})
        figures = done[name].get("figures", {})
        shown = " ".join(f"{m} {figures[m]:.2f}" for m in ("P@1", "P@5", "PSP@1", "PSP@5") if m in figures)
        print(name, shown, flush=True)
