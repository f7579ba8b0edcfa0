"""The same recipes in two versions of longtail: figures must not move, and nothing may get slower.

    git worktree add ../before COMMIT
    python benchmarks/before_after.py --before ../before [--rows GLOB] [--side before|after|both] [--fresh]

A row is one (corpus, recipe, seed); each side runs in a process of its own with that version's sources, one after the
other, so that with both sides in one go the seconds compare. `same` tells whether the predictions of all test documents
are the same to the last bit. Corpora named -4k have 4,000 random training documents (networks take long on a CPU).
Finished sides stay in benchmarks/results/before-after.json.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

RESULT = Path(__file__).resolve().parent / "results" / "before-after.json"
SEEDS = (0, 1, 2)
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
    from longtail.run import Run

    folder, documents = CORPORA[row["corpus"]]
    train, test = (read(data / folder / f"{part}.jsonl.gz", labels=data / folder / "labels.jsonl.gz") for part in
                   ("train", "test"))  # fmt: skip
    if documents:
        train = train.rows(np.sort(np.random.default_rng(0).permutation(len(train))[:documents])).counted()
    if row["recipe"] == "label-text":
        tagger = Recipe.find("label-text").tagger(seed=row["seed"])
    else:
        tagger = Tagger(**RECIPES[row["recipe"]], seed=row["seed"])
    warm = train.rows(np.arange(min(50, len(train))))  # kernels are compiled before the clock starts
    Tagger("bonsai").fit(warm.counted()).predict(warm, 5)
    start = time.perf_counter()
    tagger.fit(train, run=Run(seed=row["seed"]))
    trained = time.perf_counter()
    aligned = test.aligned(tagger.labels_).without_unseen()
    scores = tagger.score(aligned, 20)
    predicted = time.perf_counter()
    figures = {name: value for name, value in tagger.evaluate(test).to_dict().items() if isinstance(value, float)}
    return {
        "figures": figures,
        "train_seconds": trained - start,
        "predict_ms": 1000 * (predicted - trained) / max(1, len(aligned)),
        "digest": hashlib.sha256(scores.ids.tobytes() + scores.values.tobytes()).hexdigest()[:16],
    }


def measured(row: dict[str, Any], checkout: Path, data: Path) -> dict[str, Any]:
    environment = os.environ | {"PYTHONPATH": str(checkout / "src")}
    command = [sys.executable, __file__, "--worker", json.dumps(row), "--data", str(data)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{row['row']}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path)
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--rows", default="*")
    parser.add_argument("--side", choices=("before", "after", "both"), default="both")
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--worker", default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker is not None:
        print(json.dumps(worker(json.loads(options.worker), options.data)))
        return
    from common import REPOSITORY, commit, data_folder, load_average, locked, machine, read_json, write_json

    data = data_folder(options.data)
    for row in rows():
        if not fnmatch.fnmatch(row["row"], options.rows):
            continue
        for side in ("before", "after") if options.side == "both" else (options.side,):
            done = {each["row"]: each for each in (read_json(RESULT) or {"rows": []})["rows"]}
            if side in done.get(row["row"], {}) and not options.fresh:
                continue
            load = load_average()
            found = measured(row, options.before if side == "before" else REPOSITORY, data)
            with locked(RESULT):
                done = {each["row"]: each for each in (read_json(RESULT) or {"rows": []})["rows"]}
                entry = done.setdefault(row["row"], dict(row))
                entry[side] = found | {"load_before": load}
                if "before" in entry and "after" in entry:
                    entry["same"] = entry["before"]["digest"] == entry["after"]["digest"]
                kept = [
                    done[name] for name in dict.fromkeys([*(each["row"] for each in rows()), *done]) if name in done
                ]
                command = "python benchmarks/before_after.py --before ../before"
                write_json(RESULT, {"command": command, "commit": commit(), "machine": machine(), "rows": kept})
            shown = " ".join(f"{m} {found['figures'][m]:.2f}" for m in ("P@1", "P@5", "PSP@1", "PSP@5"))
            print(row["row"], side, shown, f"{found['train_seconds']:.1f} s", flush=True)


if __name__ == "__main__":
    main()
