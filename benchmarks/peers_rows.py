"""The results of the race: one run, a row per corpus, system and part of the training documents."""

from __future__ import annotations

import json
import secrets
import statistics
from datetime import UTC, datetime
from typing import Any

import common
from peers_measure import PASSES, SOURCE, Conditions, Job, K
from peers_systems import CORPORA, GENERATED, PARTS, PEERS, SYSTEMS, WORKERS, System

Row = dict[str, Any]
Results = dict[str, Any]

#: Sources that decide longtail's figures: a row measured with others is not kept on resuming.
TIMED_SOURCES = (
    *("learners", "cluster", "graphs", "engines", "keep"),
    *("corpus.py", "fit.py", "labels.py", "noise.py", "run.py", "scores.py", "sparse.py"),
)
#: Seconds after which the runs of a row are enough, however many repeats were asked for: long rows vary little.
ENOUGH = 300


def begin(results: Results | None, threads: int, repeat: int, *, fresh: bool, command: str) -> Results:
    """The results to go on with: those of a run that is not finished, else a new run beside the rows there are."""
    if results is None or fresh or results["run"]["finished"] is not None:
        run = {"id": f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(2)}", "started": now()}
        old = results or {"data": {}, "rows": []}
        results = {"benchmark": "peers", "run": run, "data": old["data"], "rows": old["rows"]}
    # a run may go on with other commands: the page names them all
    commands = list(dict.fromkeys([*results["run"].get("commands", []), command]))
    results["run"] |= {"finished": None, "threads": threads, "repeat": repeat, "commands": commands}
    return results | {"commit": common.commit(), "machine": common.machine()}


def key_of(row: Row) -> tuple[str, str, int]:
    return row["corpus"], row["system"], row["part"]


def row_for(results: Results, job: Job, fingerprint: str) -> Row | None:
    """The row of this very run, if it was measured with the same code, data and options.

    A system that failed is tried again; one that was over its time is not.
    """
    key = (job.corpus, job.system.name, job.part)
    row = next((each for each in results["rows"] if key_of(each) == key), None)
    if row is None or (row["run"], row["fingerprint"]) != (results["run"]["id"], fingerprint):
        return None
    return None if "failed" in row and not row["over_budget"] else row


def put_row(results: Results, row: Row) -> None:
    """Adds or replaces a row; rows keep the order of CORPORA and SYSTEMS."""
    rows = {key_of(each): each for each in results["rows"]} | {key_of(row): row}
    corpora = {name: place for place, name in enumerate(CORPORA)}
    systems = {system.name: place for place, system in enumerate(SYSTEMS)}

    def place(each: Row) -> tuple[int, str, int, int]:
        corpus = corpora.get(each["corpus"], len(corpora))
        return corpus, each["corpus"], systems.get(each["system"], len(systems)), each["part"]

    results["rows"] = sorted(rows.values(), key=place)


def about(results: Results, job: Job, fingerprint: str, seed: int) -> Row:
    """What a row says about itself, whatever comes out."""
    system = job.system
    described = {"corpus": job.corpus, "system": system.name, "part": job.part, "peer": system.peer}
    described |= {"options": system.options, "trees": system.trees, "matched": system.matched, "seed": seed}
    return described | {"run": results["run"]["id"], "fingerprint": fingerprint, "commit": common.commit()}


def updated(row: Row | None, measured: Row, documents: int, described: Row) -> Row:
    """The row with one more run in it: the best times of all runs, the most memory, the mean of metrics."""
    runs = [*(row["runs"] if row and "failed" not in row else []), measured]
    made = described | {
        "runs": runs,
        "measured": now(),
        "train_s": round(min(each["train_s"] for each in runs), 3),
        "train_median_s": round(statistics.median(each["train_s"] for each in runs), 3),
        "train_cpu_s": round(min(each["train_cpu_s"] for each in runs), 3),
        "peak_mb": round(max(each["peak_train_mb"] for each in runs), 1),
        "model_mb": round(measured["model_mb"], 2),
    }
    if "ready_mb" in measured:
        made |= {
            # what is compiled on first use is the interpreter's share as much as what is imported
            "interpreter_mb": round(measured["imports_mb"] + measured["ready_mb"] - measured["loaded_mb"], 1),
            "data_mb": round(measured["loaded_mb"] - measured["imports_mb"], 1),
            "beyond_mb": round(max(each["peak_train_mb"] - each["ready_mb"] for each in runs), 1),
        }
    if "predict_s" in measured:
        times, per_document = [s for each in runs for s in each["predict_s"]], 1000 / documents
        made |= {
            "predict_ms": round(min(times) * per_document, 5),
            "predict_median_ms": round(statistics.median(times) * per_document, 5),
            "predict_cpu_ms": round(min(s for each in runs for s in each["predict_cpu_s"]) * per_document, 5),
        }
    counted = [each["metrics"] for each in runs if "metrics" in each]
    if counted:
        made["metrics"] = {name: round(statistics.fmean(each[name] for each in counted), 4) for name in counted[0]}
        made["P@1 of runs"] = [each["P@1"] for each in counted]
    if "tail_recall@5" in measured:
        made["tail_recall@5"] = measured["tail_recall@5"]
    for name in ("one_p50_ms", "one_p99_ms", "first_open_ms", "open_ms"):
        if name in measured:
            made[name] = round(min(each[name] for each in runs), 5)
    return made


def failed(described: Row, reason: str, *, over_budget: bool) -> Row:
    return described | {"failed": reason, "over_budget": over_budget, "measured": now()}


def enough(row: Row | None, turn: int) -> bool:
    """Whether a row needs no further run in this turn."""
    if row is None:
        return False
    return "failed" in row or len(row["runs"]) > turn or sum(each["total_s"] for each in row["runs"]) > ENOUGH


def finished(results: Results) -> bool:
    """Whether every system has its row of this run on each of its corpora."""
    there = {key_of(row) for row in results["rows"] if row["run"] == results["run"]["id"] and not _broken(row)}
    return {(job.corpus, job.system.name, job.part) for job in jobs(CORPORA, SYSTEMS)} <= there


def _broken(row: Row) -> bool:
    return "failed" in row and not row["over_budget"]


def jobs(corpora: tuple[str, ...] | list[str], systems: tuple[System, ...] | list[System]) -> list[Job]:
    """What is measured, in order: the whole of a corpus, then its parts."""
    made = []
    for corpus in corpora:
        here = [system for system in systems if system.runs_on(corpus)]
        made += [Job(system, corpus) for system in here]
        growing = [system for system in here if system.growth and corpus not in GENERATED]
        made += [Job(system, corpus, part) for part in PARTS for system in growing]
    return made


def fingerprint_of(system: System, conditions: Conditions, matrices: str) -> str:
    """Changes with anything that could change the figures of a system."""
    own = [SOURCE] if system.peer in ("tagger", "command") else []
    own += [SOURCE / name for name in TIMED_SOURCES] if system.peer == "longtail" else []
    code = common.digest_of_files([system.worker, WORKERS / "measure.py", *own])
    settings = [system.options, PEERS.get(system.peer), conditions.threads, conditions.seed, K, PASSES]
    return common.digest(code, json.dumps([*settings, common.machine()]), matrices)


def now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
