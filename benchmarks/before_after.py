"""The same recipes in two versions of longtail: figures must not move, and nothing may get slower.

    git worktree add ../before COMMIT
    python benchmarks/before_after.py --before ../before [--after ../after] [--rows GLOB] [--side before|after|both]
                                      [--fresh]
    python benchmarks/before_after.py --before ../before --turns 3 --rows '*/0'      times, in turns, on a quiet machine
    python benchmarks/before_after.py --before ../before --turns 3 --clock processor    where others use the machine too
    python benchmarks/before_after.py --before ../before --turns 3 --steps 25 --rows '*/attentionxml/0'
    python benchmarks/before_after.py --page docs/before-after.md                    writes the tables

A row is one (corpus, recipe, seed); each side runs in a process of its own with that version's sources. Seconds compare
only where they were taken in turns. Corpora named -4k have 4,000 random training documents, and networks take STEPS
steps there: they take long on a CPU. --after is another checkout than this one, for recipes that have changed since.
Finished sides stay in benchmarks/results/before-after.json.
"""

from __future__ import annotations

import argparse
import copy
import fnmatch
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

RESULT = Path(__file__).resolve().parent / "results" / "before-after.json"
SEEDS = (0, 1, 2)
STEPS = 150
#: Predictions that are timed, of which the best counts.
PASSES = 3
#: What the version before calls ranknet.
RENAMED = "calibrated-propensity"
#: (corpus, documents to train on or 0 for all)
CORPORA = {
    "vuln-libraries": ("vuln-libraries", 0),
    "gutenberg-lcsh-titles": ("gutenberg-lcsh-titles", 0),
    "eurlex57k": ("eurlex57k", 0),
    "gutenberg-4k": ("gutenberg-lcsh-titles", 4000),
    "eurlex57k-4k": ("eurlex57k", 4000),
}
BONSAI: dict[str, Any] = {"part": "bonsai"}
COPIES = {"n_aug": 4, "tau": 0.1}
RECIPES: dict[str, dict[str, Any]] = {
    "bonsai": {"learner": BONSAI},
    "taug": {
        "learner": {"part": "decoupled", "tau": 0.1, "gate": 0.0, "learner": BONSAI},
        "augment": [{"part": "input-dropout", **COPIES}, {"part": "input-swap", **COPIES}],
    },
    "ranknet": {"learner": BONSAI, "rerank": [{"part": "ranknet"}]},
    "label-text": {},  # the shipped recipe of that name
    "attentionxml": {"learner": {"part": "attentionxml"}},
}


def rows() -> list[dict[str, Any]]:
    made = []
    for recipe in RECIPES:
        small = recipe == "attentionxml"
        corpora = ("vuln-libraries", *(("gutenberg-4k", "eurlex57k-4k") if small else tuple(CORPORA)[1:3]))
        made += [
            {"row": f"{corpus}/{recipe}/{seed}", "corpus": corpus, "recipe": recipe, "seed": seed}
            for corpus in corpora
            for seed in SEEDS
        ]
    return made


def worker(row: dict[str, Any], data: Path) -> dict[str, Any]:
    """Trains and tests with whatever longtail is on the path; the same code for both versions."""
    import hashlib
    import time

    import numpy as np

    from longtail import Tagger, read
    from longtail.recipe import Recipe
    from longtail.registry import entries
    from longtail.run import Run

    folder, documents = CORPORA[row["corpus"]]
    train, test = (read(data / folder / f"{part}.jsonl.gz", labels=data / folder / "labels.jsonl.gz") for part in
                   ("train", "test"))  # fmt: skip
    if documents:
        train = train.rows(np.sort(np.random.default_rng(0).permutation(len(train))[:documents])).counted()
    if row["recipe"] == "label-text":
        tagger = Recipe.find("label-text").tagger(seed=row["seed"])
    else:
        chosen = RECIPES[row["recipe"]]
        if row["recipe"] == "attentionxml" and (documents or row.get("steps")):
            chosen = {"learner": {**chosen["learner"], "steps": row.get("steps") or STEPS}}
        if row["recipe"] == "ranknet" and any(each.name == RENAMED for each in entries()):
            chosen = {**chosen, "rerank": [{"part": RENAMED}]}
        tagger = Tagger(**copy.deepcopy(chosen), seed=row["seed"])
    # kernels are compiled, or loaded, before the clock starts; fewer documents would leave `decoupled` no tail
    warm = train.rows(np.arange(min(2000, len(train))))
    first = {"learner": BONSAI} if row["recipe"] == "label-text" else chosen
    if row["recipe"] == "attentionxml":  # torch and Lightning are imported before the clock starts, too
        first = {"learner": {**chosen["learner"], "steps": 1}}
    Tagger(**copy.deepcopy(first)).fit(warm.counted()).predict(warm, 5)
    clock = time.process_time if row.get("clock") == "processor" else time.perf_counter
    start = clock()
    tagger.fit(train, run=Run(seed=row["seed"]))
    trained = clock()
    aligned = test.aligned(tagger.labels_).without_unseen()
    passes = []
    for _ in range(PASSES if "clock" in row else 1):
        before = clock()
        scores = tagger.score(aligned, 20)
        passes.append(clock() - before)
    figures = {name: value for name, value in tagger.evaluate(test).to_dict().items() if isinstance(value, float)}
    return {
        "figures": figures,
        "train_seconds": trained - start,
        "predict_ms": 1000 * min(passes) / max(1, len(aligned)),
        "digest": hashlib.sha256(scores.ids.tobytes() + scores.values.tobytes()).hexdigest()[:16],
    }


def measured(row: dict[str, Any], checkout: Path, data: Path) -> dict[str, Any]:
    environment = os.environ | {"PYTHONPATH": str(checkout / "src")}
    command = [sys.executable, __file__, "--worker", json.dumps(row), "--data", str(data)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{row['row']}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def timed(row: dict[str, Any], checkouts: dict[str, Path], data: Path, turns: int) -> dict[str, Any]:
    """Seconds of both sides by the row's clock, taken in turns."""
    found: dict[str, Any] = {side: {"train_seconds": [], "predict_ms": []} for side in checkouts}
    for turn in range(turns):
        for side in list(checkouts)[:: 1 if turn % 2 == 0 else -1]:
            one = measured(row, checkouts[side], data)
            for name, values in found[side].items():
                values.append(one[name])
    return found | {"clock": row["clock"]}


def ratio(found: dict[str, Any], name: str) -> float:
    """After to before, each by its best turn: what disturbs a turn only ever makes it slower."""
    return min(found["after"][name]) / min(found["before"][name])


METRICS = ("P@1", "P@5", "PSP@1", "PSP@5")


def page(content: dict[str, Any]) -> str:
    """The tables as Markdown."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in content["rows"]:
        if "before" in row and "after" in row:
            groups.setdefault((row["corpus"], row["recipe"]), []).append(row)
    lines = [
        "# Before and after",
        "",
        "The same recipes in version 0.1.0 and in this one: means over seeds, spread (standard deviation) in brackets.",
        f"Made by `{content['command']}`;",
        "the page by `python benchmarks/before_after.py --page docs/before-after.md`.",
        "",
        f"| corpus | recipe | seeds | {' | '.join(f'{m} before | after' for m in METRICS)} | same in every figure |",
        f"|---|---|--:|{'--:|--:|' * len(METRICS)}--:|",
    ]
    for (corpus, recipe), members in groups.items():
        cells = [_mean(members, side, metric) for metric in METRICS for side in ("before", "after")]
        same = sum(_alike(row["before"]["figures"], row["after"]["figures"]) for row in members)
        lines.append(f"| {corpus} | {recipe} | {len(members)} | {' | '.join(cells)} | {same} of {len(members)} |")
    lines += [
        "",
        f"Corpora named -4k have 4,000 training documents, and networks take {STEPS} steps there. Members of an",
        "ensemble draw from the same seeds as before; sides of `decoupled` and folds of a re-ranker have seeds of",
        "their own now, which moves `taug` and `ranknet` within what another seed would.",
        "",
        "Seconds after, as a share of those before, both taken in turns on one machine, best turn of each side",
        "(`python benchmarks/before_after.py --before ../before --turns 3 --rows '*/0'`). The clock is the wall's on a",
        "quiet machine, and the processor's (`--clock processor`, all threads together) on a core that others used.",
        "`taug` on vuln-libraries trains in a second, and its own kernels were loaded before the clock started; with",
        "that inside, once per process, it was 1.24 (and 1.16 by the wall's clock). `ranknet` is what is called",
        "`calibrated-propensity` now. `attentionxml` took 100 steps (`--steps 100`).",
        "Members of `label-text` are others now, nearest documents among them, and its network trains without torch.",
        "Recipes that do not stand here have not been timed in turns:",
        "",
        "| corpus | recipe | clock | turns | training | prediction |",
        "|---|---|---|--:|--:|--:|",
    ]
    for row in content["rows"]:
        if "timed" in row:
            turns = len(row["timed"]["after"]["train_seconds"])
            shares = " | ".join(f"{ratio(row['timed'], name):.2f}" for name in ("train_seconds", "predict_ms"))
            clock = row["timed"].get("clock", "wall")
            lines.append(f"| {row['corpus']} | {row['recipe']} | {clock} | {turns} | {shares} |")
    return "\n".join(lines) + "\n"


def _alike(before: dict[str, float], after: dict[str, float]) -> bool:
    """Whether every figure is the same: the same labels in the same order, as far as metrics can tell."""
    return all(abs(before[name] - after[name]) < 1e-9 for name in before.keys() & after.keys())


def _mean(members: list[dict[str, Any]], side: str, metric: str) -> str:
    values = [row[side]["figures"][metric] for row in members]
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.fmean(values):.2f} ({spread:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path)
    parser.add_argument("--after", type=Path, default=None, help="another checkout than this one")
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--rows", default="*")
    parser.add_argument("--side", choices=("before", "after", "both"), default="both")
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--turns", type=int, default=0, help="time both sides, one after the other, so often")
    parser.add_argument("--clock", choices=("wall", "processor"), default="wall", help="with --turns: which seconds")
    parser.add_argument("--steps", type=int, help="with --turns: steps of AttentionXML, as 25")
    parser.add_argument("--page", type=Path, default=None, help="write the tables to a page instead")
    parser.add_argument("--worker", default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker is not None:
        print(json.dumps(worker(json.loads(options.worker), options.data)))
        return
    from common import REPOSITORY, commit, data_folder, load_average, locked, machine, read_json, write_json

    if options.page is not None:
        options.page.write_text(page(read_json(RESULT)), encoding="utf-8")
        return
    data = data_folder(options.data)
    after = options.after or REPOSITORY
    for row in rows():
        if not fnmatch.fnmatch(row["row"], options.rows):
            continue
        if options.turns:
            timed_row = row | {"clock": options.clock, "steps": options.steps}
            found = timed(timed_row, {"before": options.before, "after": after}, data, options.turns)
            with locked(RESULT):
                content = read_json(RESULT)
                next(each for each in content["rows"] if each["row"] == row["row"])["timed"] = found
                write_json(RESULT, content)
            print(
                row["row"], {name: round(ratio(found, name), 3) for name in ("train_seconds", "predict_ms")}, flush=True
            )
            continue
        for side in ("before", "after") if options.side == "both" else (options.side,):
            done = {each["row"]: each for each in (read_json(RESULT) or {"rows": []})["rows"]}
            if side in done.get(row["row"], {}) and not options.fresh:
                continue
            load = load_average()
            found = measured(row, options.before if side == "before" else after, data)
            with locked(RESULT):
                done = {each["row"]: each for each in (read_json(RESULT) or {"rows": []})["rows"]}
                entry = done.setdefault(row["row"], dict(row))
                entry[side] = found | {"load_before": load}
                kept = [
                    done[name] for name in dict.fromkeys([*(each["row"] for each in rows()), *done]) if name in done
                ]
                command = "python benchmarks/before_after.py --before ../before"
                write_json(RESULT, {"command": command, "commit": commit(), "machine": machine(), "rows": kept})
            shown = " ".join(f"{m} {found['figures'][m]:.2f}" for m in ("P@1", "P@5", "PSP@1", "PSP@5"))
            print(row["row"], side, shown, f"{found['train_seconds']:.1f} s", flush=True)


if __name__ == "__main__":
    main()
