"""longtail beside omikuji, PECOS and napkinXC: the same matrices, the same threads, the same metrics, in one run.

    python benchmarks/peers.py                                      all systems on all corpora
    python benchmarks/peers.py --corpus eurlex57k --repeat 3        best of three, systems taking turns
    python benchmarks/peers.py --only longtail "omikuji parabel"    systems whose name contains one of these

Each peer lives in a venv of its own under benchmarks/.peers, made and filled on first use. Every system runs in a
process of its own. Results go to benchmarks/results/peers-CORPUS.json, a row a system, replaced as soon as a system
is measured. A run that was stopped goes on where it was when the same command is given again; `--fresh` starts over.
`python benchmarks/render.py` makes the page. What is timed and what is not: benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import time
import venv
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import common
import render
from longtail.corpus import Corpus
from longtail.errors import LongtailError, UsageError, nearest
from longtail.evaluate import evaluate
from longtail.evaluate.report import RANKED
from longtail.labels import LabelIndex
from longtail.run import available_cores
from longtail.scores import Scores

CORPORA = ("eurlex57k", "gutenberg-lcsh-titles", "citeulike-t")
WORKERS = common.HERE / "peer_workers"
SOURCE = common.REPOSITORY / "src" / "longtail"
K = 5  # labels predicted against the clock
STORED = 100  # labels kept of a second prediction, which is not timed
PASSES = 3  # timed predictions
TIMEOUT = 4 * 3600  # seconds a system may take before it counts as hung

#: What a peer's venv holds, what is imported to see whether it is whole, and the distribution whose version counts.
PEERS: dict[str, tuple[list[str], str]] = {
    "pecos": (["libpecos==1.2.8", "numpy<2", "scipy<1.14", "torch==2.13.0"], "pecos.xmc.xlinear.model"),
    "omikuji": (["omikuji==0.5.2", "numpy", "scipy"], "omikuji"),
    "napkinxc": (["napkinxc==0.7.2", "numpy", "scipy"], "napkinxc.models"),
}
#: Sources that decide longtail's figures: a row measured with others is not kept on resuming.
TIMED_SOURCES = (
    *("learners", "graphs", "engines", "keep"),
    *("corpus.py", "fit.py", "noise.py", "run.py", "scores.py", "sparse.py"),
)


@dataclass(frozen=True)
class System:
    """One row of the table: whose, and with which options."""

    name: str
    peer: str
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def worker(self) -> Path:
        return WORKERS / f"run_{self.peer}.py"


_BONSAI = {"cluster_balanced": False, "cluster_k": 100, "max_depth": 3}
SYSTEMS = (
    System("longtail parabel 1 tree", "longtail", {"part": "parabel", "trees": 1}),
    System("longtail parabel 3 trees", "longtail", {"part": "parabel", "trees": 3}),
    System("longtail bonsai 1 tree", "longtail", {"part": "bonsai", "trees": 1}),
    System("longtail bonsai 3 trees", "longtail", {"part": "bonsai", "trees": 3}),
    System("pecos xr-linear (16-way)", "pecos", {"nr_splits": 16, "max_leaf_size": 100, "beam_size": 10}),
    System("omikuji parabel 1 tree", "omikuji", {"n_trees": 1}),
    System("omikuji parabel 3 trees", "omikuji", {"n_trees": 3}),
    System("omikuji bonsai 3 trees", "omikuji", {"n_trees": 3, **_BONSAI}),
    System("napkinxc plt", "napkinxc"),
)


class NotMeasuredError(LongtailError):
    """A system that could not be installed or did not finish; the others go on."""


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


# the run and its rows
def begin(
    results: dict[str, Any] | None, corpus: str, threads: int, repeat: int, *, fresh: bool, command: str
) -> dict[str, Any]:
    """The results to go on with: those of a run that was stopped, else a new run beside the rows there are."""
    stopped = results is not None and results["run"]["finished"] is None
    if results is None or fresh or not stopped:
        run = {"id": f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(2)}", "started": _now()}
        results = {"benchmark": "peers", "corpus": corpus, "run": run, "rows": results["rows"] if results else []}
    results["run"] |= {"finished": None, "threads": threads, "repeat": repeat, "failed": {}}
    about = {"command": command, "commit": common.commit(), "machine": common.machine(), "versions": common.versions()}
    return results | about


def row_for(results: dict[str, Any], system: System, fingerprint: str) -> dict[str, Any] | None:
    """The row of this very run, if it was measured with the same code, data and options."""
    row = render.rows_of(results).get(system.name)
    same = row is not None and (row["run"], row["fingerprint"]) == (results["run"]["id"], fingerprint)
    return row if same else None


def put_row(results: dict[str, Any], row: dict[str, Any]) -> None:
    """Adds or replaces a row; rows keep the order of SYSTEMS."""
    rows = render.rows_of(results) | {row["system"]: row}
    order = {system.name: place for place, system in enumerate(SYSTEMS)}
    results["rows"] = sorted(rows.values(), key=lambda each: order.get(each["system"], len(order)))


def updated(
    row: dict[str, Any] | None, measured: dict[str, Any], documents: int, about: dict[str, Any]
) -> dict[str, Any]:
    """The row with one more run in it; the figures are the best of all runs."""
    runs = [*(row["runs"] if row else []), measured]
    per_document = 1000 / documents
    return about | {
        "runs": runs,
        "measured": _now(),
        "train_s": round(min(each["train_s"] for each in runs), 3),
        "train_median_s": round(statistics.median(each["train_s"] for each in runs), 3),
        "train_cpu_s": round(min(each["train_cpu_s"] for each in runs), 3),
        "predict_ms": round(min(min(each["predict_s"]) for each in runs) * per_document, 5),
        "predict_median_ms": round(statistics.median(s for each in runs for s in each["predict_s"]) * per_document, 5),
        "predict_cpu_ms": round(min(min(each["predict_cpu_s"]) for each in runs) * per_document, 5),
        "peak_mb": round(max(each["peak_mb"] for each in runs), 1),
        "model_mb": round(runs[-1]["model_mb"], 2),
    }


def fingerprint_of(system: System, threads: int, seed: int, matrices: str) -> str:
    """Changes with anything that could change the figures of a system."""
    own = [SOURCE / name for name in TIMED_SOURCES] if system.peer == "longtail" else []
    code = common.digest_of_files([system.worker, WORKERS / "measure.py", *own])
    settings = [system.options, PEERS.get(system.peer), threads, seed, K, PASSES]
    return common.digest(code, json.dumps(settings), matrices)


# the corpus
def prepared(corpus: str, data: Path, threads: int) -> Path:
    """The folder with the corpus's matrices, made in a process of its own on first use."""
    source = data / corpus
    files = [source / "train.jsonl.gz", source / "test.jsonl.gz"]
    for file in files:
        if not file.is_file():
            raise UsageError(f"{file} is missing; give the folder of the corpora by --data or LONGTAIL_DATA")
    code = [SOURCE / "features", SOURCE / "read", WORKERS / "prepare.py"]
    folder = common.WORK / "matrices" / corpus / common.digest_of_files([*files, *code])
    if (folder / "about.json").is_file():
        return folder
    _say(f"{corpus}: making the matrices")
    shutil.rmtree(folder.parent, ignore_errors=True)
    unfinished = folder.with_name(folder.name + ".unfinished")
    command = [sys.executable, WORKERS / "prepare.py", source, unfinished, str(threads)]
    # its standard error is the user's: a bad corpus is said there
    if subprocess.run(command, check=False, stdin=subprocess.DEVNULL).returncode:
        raise NotMeasuredError(f"{corpus}: the matrices could not be made")
    unfinished.rename(folder)
    return folder


def test_corpus(matrices: Path, name: str) -> Corpus:
    """The test documents in training's columns, with training's label counts."""
    Y = sp.csr_matrix(sp.load_npz(matrices / "test_Y.npz"))
    with np.load(matrices / "labels.npz") as labels:
        names = [str(label) for label in range(Y.shape[1])]
        return Corpus(labels=LabelIndex(names, None, labels["counts"], int(labels["documents"])), Y=Y, name=name)


def figures(output: Path, test: Corpus) -> dict[str, Any]:
    """Metrics of the timed prediction."""
    with np.load(output / "top.npz") as top:
        scores = Scores(top["ids"].astype(np.int32), top["values"].astype(np.float32)).sorted()
    report = evaluate(scores, test).to_dict()
    tail = [band for band in report["bands"] if band["name"] == "tail"]
    return {
        "metrics": {name: value for name, value in report.items() if name.partition("@")[0] in RANKED},
        "tail_recall@5": tail[0].get("recall@5") if tail else None,
    }


# the peers
def interpreter(peer: str, folder: Path) -> Path:
    """The Python that has the peer; its venv is made and filled when it is not there or not whole."""
    if peer == "longtail":
        return Path(sys.executable)
    requirements, module = PEERS[peer]
    home = folder / peer
    python = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if _whole(python, requirements, module):
        return python
    _say(f"{peer}: installing {' '.join(requirements)}")
    if not python.exists():
        venv.create(home, with_pip=True, clear=True)
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements]
    done = subprocess.run(install, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode or not _whole(python, requirements, module):
        said = [line for line in done.stderr.splitlines() if "ERROR" in line] or ["its modules cannot be imported"]
        raise NotMeasuredError(f"{peer} could not be installed: {said[-1].strip()}")
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
    return subprocess.run([python, "-c", probe], check=False, capture_output=True).returncode == 0


def measure(system: System, python: Path, matrices: Path, output: Path, threads: int, seed: int) -> dict[str, Any]:
    """One run of one system in a process of its own: what its worker reports, and the load around it."""
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    task = output / "task.json"
    given = {"matrices": str(matrices), "output": str(output), "options": system.options}
    given |= {"threads": threads, "seed": seed, "k": K, "stored": STORED, "passes": PASSES}
    task.write_text(json.dumps(given), encoding="utf-8")
    names = ("OMP", "OPENBLAS", "MKL", "NUMBA", "RAYON")
    environment = {**os.environ, **{f"{name}_NUM_THREADS": str(threads) for name in names}}
    before, started = common.load_average(), time.perf_counter()
    log = output / "log.txt"
    with log.open("wb") as said:
        try:
            done = subprocess.run(
                [python, system.worker, task],
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                env=environment,
                timeout=TIMEOUT,
            )
        except subprocess.TimeoutExpired:
            raise NotMeasuredError(f"{system.name} did not finish in {TIMEOUT} s") from None
    if done.returncode:
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines() or ["nothing was said"]
        raise NotMeasuredError(f"{system.name} ended with {done.returncode}: {lines[-1][:300]} (more in {_shown(log)})")
    report = json.loads((output / "report.json").read_text(encoding="utf-8"))
    report |= {"load_before": before, "load_after": common.load_average(), "total_s": time.perf_counter() - started}
    return _rounded(report)


def run_corpus(corpus: str, options: argparse.Namespace) -> bool:
    """All chosen systems on one corpus; whether every one of them was measured."""
    path = options.results / f"peers-{corpus}.json"
    systems = chosen(options.only)
    results = begin(
        common.read_json(path), corpus, options.threads, options.repeat, fresh=options.fresh, command=options.command
    )
    matrices = prepared(corpus, options.data, options.threads)
    results["data"] = json.loads((matrices / "about.json").read_text(encoding="utf-8"))
    test = test_corpus(matrices, corpus)
    failed: dict[str, str] = results["run"]["failed"]
    for turn in range(options.repeat):
        for number, system in enumerate(systems, 1):
            fingerprint = fingerprint_of(system, options.threads, options.seed, matrices.name)
            row = row_for(results, system, fingerprint)
            if system.name in failed or (row is not None and len(row["runs"]) > turn):
                continue
            place = f"[{number}/{len(systems)}{f', turn {turn + 1} of {options.repeat}' if options.repeat > 1 else ''}]"
            try:
                python = interpreter(system.peer, options.peers)
                _say(f"{corpus} {place} {system.name} ...")
                output = common.WORK / "systems" / corpus / system.name.replace(" ", "-")
                measured = measure(system, python, matrices, output, options.threads, options.seed)
            except NotMeasuredError as failure:
                failed[system.name] = str(failure)
                _say(str(failure))
            else:
                about = {"system": system.name, "peer": system.peer, "options": system.options}
                about |= {"run": results["run"]["id"], "fingerprint": fingerprint, "seed": options.seed}
                about |= {"versions": measured.pop("versions"), **figures(output, test)}
                row = updated(row, measured, len(test), about)
                put_row(results, row)
                _say(
                    f"    trained in {measured['train_s']:.2f} s, {row['predict_ms']:.3f} ms per document, "
                    f"{row['peak_mb']:.0f} MB, P@1 {row['metrics']['P@1']:.2f}"
                )
            common.write_json(path, results)
    if not failed:
        results["run"]["finished"] = _now()
    common.write_json(path, results)
    return not failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", nargs="+", default=list(CORPORA), help="folders below the data folder")
    parser.add_argument("--only", nargs="+", metavar="SYSTEM", help="names of systems, or parts of names")
    parser.add_argument("--threads", type=int, default=available_cores(), help="for every system; default: all cores")
    parser.add_argument("--repeat", type=int, default=1, help="training runs of each system; the best counts")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fresh", action="store_true", help="do not go on with a run that was stopped")
    parser.add_argument("--resume", dest="fresh", action="store_false", help="go on with a stopped run (the default)")
    parser.add_argument("--data", type=Path, help="folder of the corpora; default LONGTAIL_DATA or ../shared/data")
    peers = os.environ.get("LONGTAIL_PEERS") or common.HERE / ".peers"
    parser.add_argument("--peers", type=Path, default=Path(peers), help="folder of the peers' venvs (LONGTAIL_PEERS)")
    parser.add_argument("--results", type=Path, default=common.RESULTS, help="folder for the results")
    parser.add_argument("--list", action="store_true", help="show the systems and stop")
    options = parser.parse_args()
    if options.list:
        print("\n".join(system.name for system in SYSTEMS))
        return 0
    options.command = command_of(options)
    signal.signal(signal.SIGTERM, _stop)
    try:
        if options.threads < 1 or options.repeat < 1:
            raise UsageError("--threads and --repeat must be at least 1")
        chosen(options.only)
        options.data = common.data_folder(options.data).resolve()
        options.peers = options.peers.absolute()
        whole = True
        for corpus in options.corpus:
            whole &= run_corpus(corpus, options)
            results = common.read_json(options.results / f"peers-{corpus}.json")
            if results["rows"]:
                print(f"\n{corpus}\n{render.peers_table(results)}\n")
                print("\n".join(render.promises(results)), flush=True)
    except LongtailError as error:
        _say(f"peers: {error}")
        return 2
    except KeyboardInterrupt:
        _say("stopped; the same command goes on from here")
        return 130
    return 0 if whole else 1


def _stop(*_: object) -> None:
    """Being told to end is being interrupted: the process under way must not outlive this one."""
    raise KeyboardInterrupt


def command_of(options: argparse.Namespace) -> str:
    """The command as one would give it on another machine: without the places of data and venvs."""
    words = ["python", "benchmarks/peers.py", "--corpus", *options.corpus, "--threads", str(options.threads)]
    words += ["--repeat", str(options.repeat)] if options.repeat > 1 else []
    words += ["--seed", str(options.seed)] if options.seed else []
    words += ["--only", *options.only] if options.only else []
    return shlex.join(words)


def _rounded(report: dict[str, Any]) -> dict[str, Any]:
    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: plain(each) for name, each in value.items()}
        if isinstance(value, list):
            return [plain(each) for each in value]
        return round(value, 4) if isinstance(value, float) else value

    return {name: plain(value) for name, value in report.items()}


def _shown(path: Path) -> str:
    return str(path.relative_to(common.REPOSITORY)) if path.is_relative_to(common.REPOSITORY) else str(path)


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
