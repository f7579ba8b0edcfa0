"""longtail beside omikuji, PECOS, napkinXC and LibMultiLabel: the same matrices, threads and metrics, in one run.

    python benchmarks/peers.py                                      all systems on all corpora, short corpora first
    python benchmarks/peers.py --corpus eurlex57k --repeat 3        best of three, systems taking turns
    python benchmarks/peers.py --only longtail "omikuji parabel"    systems whose name contains one of these

Each peer lives in a venv of its own under benchmarks/.peers, made and filled on first use. Every system runs in a
process of its own. Results go to benchmarks/results/peers.json, a row per corpus and system, replaced as soon as it is
measured. A run is finished when every system has its row on each of its corpora; until then every command, whatever
it names, goes on with the same run, and rows that it has are kept. `--fresh` starts over. At the end stand the
targets, PASS or FAIL. `python benchmarks/render.py` makes the page. What is timed and what is not: README.md here.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import sys
from dataclasses import replace
from pathlib import Path

import common
import peers_rows as rows
import render_peers
from longtail.errors import LongtailError, UsageError
from longtail.run import available_cores
from peers_checks import checks, summary
from peers_measure import Conditions, Job, figures, measure, prepared, test_corpus
from peers_systems import CORPORA, GENERATED, SYSTEMS, NotMeasuredError, OverBudgetError, chosen, interpreter, say

BUDGET = 1800  # seconds that a peer's process may take


def run_corpus(results: rows.Results, jobs: list[Job], path: Path, options: argparse.Namespace) -> bool:
    """All jobs on one corpus; whether every one of them was measured, or took longer than it may."""
    corpus = jobs[0].corpus
    matrices = prepared(corpus, options.data, options.threads)
    results["data"][corpus] = json.loads((matrices / "about.json").read_text(encoding="utf-8"))
    test = test_corpus(matrices, corpus)
    conditions = Conditions(options.threads, options.seed, options.budget)
    unmeasured: dict[str, bool] = {}
    for turn in range(options.repeat):
        # every turn has a seed of its own: trees of different seeds differ by up to half a point of P@1
        now = replace(conditions, seed=conditions.seed + turn)
        for number, job in enumerate(jobs, 1):
            fingerprint = rows.fingerprint_of(job.system, conditions, matrices.name)
            row = rows.row_for(results, job, fingerprint)
            if job.name in unmeasured or rows.enough(row, turn) or (turn and job.part > 1):
                continue
            described = rows.about(results, job, fingerprint, options.seed)
            try:
                _refuse_after_failure(results, job)
                python = interpreter(job.system, options.peers)
                turns = f", turn {turn + 1} of {options.repeat}" if options.repeat > 1 else ""
                say(f"[{number}/{len(jobs)}{turns}] {job.name} ...")
                measured = measure(job, python, matrices, options.data / corpus, now)
            except NotMeasuredError as failure:
                unmeasured[job.name] = isinstance(failure, OverBudgetError)
                row = rows.failed(described, str(failure), over_budget=unmeasured[job.name])
                say(f"    {failure}")
            else:
                described |= {"versions": measured.pop("versions")}
                measured |= {} if "metrics" in measured else figures(job.output, test)
                row = rows.updated(row, measured, len(test), described)
                say(f"    trained in {measured['train_s']:.2f} s, {row['peak_mb']:.0f} MB at most")
            rows.put_row(results, row)
            common.write_json(path, results)
    return all(unmeasured.values())


def _refuse_after_failure(results: rows.Results, job: Job) -> None:
    """A part is not tried with a system that took too long or fell over on the whole."""
    whole = next((r for r in results["rows"] if rows.key_of(r) == (job.corpus, job.system.name, 1)), None)
    if job.part > 1 and whole is not None and "failed" in whole and whole["run"] == results["run"]["id"]:
        raise OverBudgetError("not tried")


def race(options: argparse.Namespace) -> bool:
    """The whole command; whether everything it named was measured."""
    path = options.results / "peers.json"
    systems = chosen(options.only)
    results = rows.begin(
        common.read_json(path), options.threads, options.repeat, fresh=options.fresh, command=options.command
    )
    whole = True
    for corpus in options.corpus:
        jobs = rows.jobs([corpus], systems)
        if not jobs:
            continue
        whole &= run_corpus(results, jobs, path, options)
        print(f"\n{corpus}\n{render_peers.peers_table(results, corpus)}")
        print(render_peers.growth_table(results, corpus) or "", flush=True)
    if rows.finished(results):
        results["run"]["finished"] = rows.now()
        common.write_json(path, results)
    found = checks(results)
    print("\n".join(["", *(check.line for check in found), "", summary(found)]), flush=True)
    return whole


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = f"{', '.join(GENERATED)}, or folders below the data folder"
    parser.add_argument("--corpus", nargs="+", default=list(CORPORA), help=names)
    parser.add_argument("--only", nargs="+", metavar="SYSTEM", help="names of systems, or parts of names")
    parser.add_argument("--threads", type=int, default=available_cores(), help="for every system; default: all cores")
    repeat = f"runs of each system, until they took {rows.ENOUGH} s together; the best counts"
    parser.add_argument("--repeat", type=int, default=1, help=repeat)
    parser.add_argument("--budget", type=float, default=BUDGET, help=f"seconds that a peer may take ({BUDGET})")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fresh", action="store_true", help="do not go on with a run that is not finished")
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
        if options.threads < 1 or options.repeat < 1 or options.budget <= 0:
            raise UsageError("--threads and --repeat must be at least 1, --budget above 0")
        options.data = common.data_folder(options.data).resolve()
        options.peers = options.peers.absolute()
        return 0 if race(options) else 1
    except LongtailError as error:
        say(f"peers: {error}")
        return 2
    except KeyboardInterrupt:
        say("stopped; the same command goes on from here")
        return 130


def _stop(*_: object) -> None:
    """Being told to end is being interrupted: the process under way must not outlive this one."""
    raise KeyboardInterrupt


def command_of(options: argparse.Namespace) -> str:
    """The command as one would give it on another machine: without the places of data and venvs."""
    words = ["python", "benchmarks/peers.py"]
    words += ["--corpus", *options.corpus] if options.corpus != list(CORPORA) else []
    words += ["--threads", str(options.threads)]
    words += ["--repeat", str(options.repeat)] if options.repeat > 1 else []
    words += ["--budget", f"{options.budget:g}"] if options.budget != BUDGET else []
    words += ["--seed", str(options.seed)] if options.seed else []
    words += ["--only", *options.only] if options.only else []
    return shlex.join(words)


if __name__ == "__main__":
    sys.exit(main())
