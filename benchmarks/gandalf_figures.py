"""Figures 2 and 4 of Gandalf's paper on titles of ours: P@1 by epoch under augmenters, and cosines between texts.

    python benchmarks/gandalf_figures.py [--data DIR] [--rows GLOB] [--fresh]

What `longtail analyse gandalf` trains and measures, an augmenter per row, so that an interrupted run goes on where it
stopped: on some titles of a corpus, all test titles being scored. Figures of a row are those after its last epoch.
Finished rows stay in benchmarks/results/gandalf-figures.json.
"""

from __future__ import annotations

import time
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from common import RESULTS, rows_of, run_rows
from longtail import Corpus, Tagger, read
from longtail.analyse.gandalf import by_epoch, cosines
from longtail.run import Run
from subset import chosen

RESULT = RESULTS / "gandalf-figures.json"
#: Titles taken to train on, and documents measured on.
TITLES, SAMPLE, EPOCHS = 4000, 2000, 12
CORPUS = "gutenberg-lcsh-titles"
AUGMENT: dict[str, list[dict[str, Any]]] = {
    "plain": [],
    "hiddenmix": [{"part": "hiddenmix"}],
    "labelmix": [{"part": "labelmix"}],
    "gandalf": [{"part": "gandalf"}],
    "gandalf-printed": [{"part": "gandalf", "strength": 1.0}],
}
WANTED = ((f"{CORPUS}-4k", "inceptionxml-lf", tuple(AUGMENT), (0,)),)


def rows() -> list[dict[str, Any]]:
    return rows_of(WANTED)


@lru_cache(maxsize=1)
def corpora(data: Path) -> tuple[Corpus, Corpus]:
    train, test = (read(data / CORPUS / f"{part}.jsonl.gz") for part in ("train", "test"))
    train = train.rows(chosen(len(train), TITLES, 0)).counted()
    train = train.columns(np.flatnonzero(train.labels.frequency))
    return train, test.aligned(train.labels).without_unseen()


def measure(row: dict[str, Any], data: Path) -> dict[str, Any]:
    train, test = corpora(data)
    learner = {"part": row["learner"], "epochs": EPOCHS, "least_steps": 1}
    tagger = Tagger(learner, augment=AUGMENT[row["setting"]], seed=row["seed"], threads=1)
    run = Run(row["seed"], threads=1)
    start = time.process_time()
    found = by_epoch(tagger.pipeline, train, test, run, sample=SAMPLE)
    spent = round(time.process_time() - start, 1)
    near = cosines(tagger.pipeline, train, run, sample=SAMPLE)
    last = {name: value for name, value in found["points"][-1].items() if name != "epoch"}
    return {**row, **found, "cpu_s": spent, "cosines": near, "figures": last}


if __name__ == "__main__":
    run_rows(__doc__ or "", RESULT, "python benchmarks/gandalf_figures.py", rows(), measure)
