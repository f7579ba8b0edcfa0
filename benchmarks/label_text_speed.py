"""Time and memory of learners of short texts, each row in a process of its own on all cores.

    python benchmarks/label_text_speed.py [--data DIR] [--rows GLOB] [--fresh]

"gutenberg-lcsh-titles" is trained in full, as a user would; "synthetic-300k" has 300,000 documents of 8 words and as
many labels with texts, and is trained for 20 steps: its rows are about memory. "parabel-1-turns" trains Parabel with
one tree plain, with Gandalf and with Gandalf's label rows alone, in turns: what they add to the time. Finished rows
stay in benchmarks/results/label-text-speed.json. Give it a machine without other work.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from common import RESULTS, load_average, run_rows
from label_text import AUGMENT, BAGS, CONVOLUTIONS, RECIPE, TREES, corpora
from longtail import Corpus, Tagger
from longtail.data.synthetic import synthetic
from longtail.recipe import Recipe
from longtail.run import Run

RESULT = RESULTS / "label-text-speed.json"
STEPS = 20
TURNS = "parabel-1-turns"
#: Ways of finding labels that the 300,000 are tried with, beside the default.
OTHER_WAYS: dict[str, dict[str, Any]] = {
    "astec-modules": {"part": "astec-modules"},
    **{
        f"{learner}-clusters": {"part": learner, "shortlist": "label-clusters", "batch": 64}
        for learner in ("decaf", "eclare", *CONVOLUTIONS)
    },
}


def rows() -> list[dict[str, Any]]:
    wanted = [("gutenberg-lcsh-titles", learner) for learner in (*BAGS, *CONVOLUTIONS, RECIPE)]
    wanted += [("gutenberg-lcsh-titles", TURNS)]
    wanted += [("synthetic-300k", learner) for learner in (*BAGS, *CONVOLUTIONS, *OTHER_WAYS)]
    return [{"row": f"{corpus}/{learner}", "corpus": corpus, "learner": learner} for corpus, learner in wanted]


def measure(row: dict[str, Any], data: Path) -> dict[str, Any]:
    load = load_average()
    worker = [sys.executable, __file__, "--worker", json.dumps(row), str(data)]
    done = subprocess.run(worker, check=True, capture_output=True, text=True)
    return {**row, "load_before": load, **json.loads(done.stdout.splitlines()[-1])}


def turns(train: Corpus, count: int = 9) -> dict[str, Any]:
    """Median and least seconds of each setting; the first turn, in which kernels are compiled, does not count."""
    settings = ("plain", "gandalf", "gandalf-no-soft")
    seconds: dict[str, list[float]] = {setting: [] for setting in settings}
    for turn in range(count + 1):
        for setting in settings:
            tagger = Tagger(TREES["parabel-1"], augment=AUGMENT[setting], seed=turn)
            start = time.perf_counter()
            tagger.fit(train)
            seconds[setting].append(time.perf_counter() - start)
    median = {setting: float(np.median(each[1:])) for setting, each in seconds.items()}
    return {
        "turns": count,
        "median_s": {setting: round(each, 3) for setting, each in median.items()},
        "least_s": {setting: round(min(each[1:]), 3) for setting, each in seconds.items()},
        "times_plain": {setting: round(each / median["plain"], 3) for setting, each in median.items()},
    }


def worker(row: dict[str, Any], data: Path) -> dict[str, Any]:
    if row["learner"] == TURNS:
        return turns(corpora(row["corpus"], data)[0])
    if row["corpus"] == "synthetic-300k":
        train = synthetic(documents=300_000, labels=300_000, words_per_document=8, words=200_000, texts=True)
        test = train.rows(range(500))  # type: ignore[arg-type]
        learner: Any = {**OTHER_WAYS.get(row["learner"], {"part": row["learner"]}), "steps": STEPS}
    else:
        train, test = corpora(row["corpus"], data)
        learner = Recipe.find(RECIPE).learner if row["learner"] == RECIPE else row["learner"]
    tagger, run = Tagger(learner), Run()
    start = time.perf_counter()
    tagger.fit(train, run=run)
    trained = time.perf_counter() - start
    start = time.perf_counter()
    report = tagger.evaluate(test, run=run).to_dict()
    return {
        "train_s": round(trained, 2),
        "predict_ms": round((time.perf_counter() - start) / len(test) * 1000, 3),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "figures": {metric: report[metric] for metric in ("P@1", "P@5", "PSP@1", "PSP@5")},
    }


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        print(json.dumps(worker(json.loads(sys.argv[2]), Path(sys.argv[3]))))
    else:
        run_rows(__doc__ or "", RESULT, "python benchmarks/label_text_speed.py", rows(), measure)
