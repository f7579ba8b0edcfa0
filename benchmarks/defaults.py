"""What `longtail train` does by default, one choice at a time: word pairs, stems, Gandalf, trees, losses, members.

    python benchmarks/defaults.py [--data DIR] [--rows GLOB] [--fresh]

A row is one (corpus, setting, seed). Settings named after a change to `gandalf` change one thing in the recipe gandalf,
settings named after a change to `label-text` one thing in the recipe label-text. A row trains on some training
documents, drawn by its seed, and counts on others: no test document is read. Finished rows stay in
benchmarks/results/defaults.json, so that an interrupted run goes on where it stopped.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import indexing
from common import RESULTS, rows_of, run_rows
from longtail import Tagger, read
from longtail.corpus import Corpus
from longtail.recipe import Recipe
from longtail.run import Run

RESULT = RESULTS / "defaults.json"
CORPORA = ("vuln-libraries", "gutenberg-lcsh-titles", "citeulike-t", "eurlex57k", "germeval-gnd")
#: Documents to train on, and to count on, at most.
DOCUMENTS, HELD_OUT = 6_000, 2_000
SEEDS = (0, 1, 2)
Options = dict[str, Any]


def tree(**changes: Any) -> Callable[[Options], None]:
    return lambda options: options["learner"].update(changes)


def words(**changes: Any) -> Callable[[Options], None]:
    return lambda options: options.update(features={"part": "tfidf", "language": "auto", **changes})


def without(member: str) -> Callable[[Options], None]:
    """Takes a learner out of an ensemble, wherever it stands in it."""

    def change(options: Options) -> None:
        _take_out(options["learner"], member)

    return change


def _take_out(ensemble: Options, member: str) -> None:
    kept = [number for number, each in enumerate(ensemble["members"]) if each["part"] != member]
    if len(kept) < len(ensemble["members"]):
        for name in ("members", "weights"):
            ensemble[name] = ensemble[name] and [ensemble[name][number] for number in kept]
    for each in ensemble["members"]:
        if "members" in each.get("learner", {}):
            _take_out(each["learner"], member)


def weights(*values: float) -> Callable[[Options], None]:
    return lambda options: options["learner"].update(weights=list(values))


def alone(options: Options) -> None:
    options["learner"]["members"] = [
        {"part": "decaf"} if each["part"] == "decaf" else each for each in options["learner"]["members"]
    ]


#: Setting -> the recipe it starts from, and what it changes there.
SETTINGS: dict[str, tuple[str, Callable[[Options], None]]] = {
    "gandalf": ("gandalf", lambda options: None),
    "gandalf, word pairs": ("gandalf", words(ngrams=2, min_df=2)),
    "gandalf, words of two documents": ("gandalf", words(min_df=2)),
    "gandalf, no stems": ("gandalf", words(language="none")),
    "gandalf, without Gandalf": ("gandalf", lambda options: options.update(augment=[])),
    "gandalf, one tree": ("gandalf", tree(trees=1)),
    "gandalf, logistic loss": ("gandalf", tree(loss="logistic")),
    "gandalf, eps 0.1": ("gandalf", tree(eps=0.1)),
    "label-trees": ("label-trees", lambda options: None),
    "label-text": ("label-text", lambda options: None),
    "label-text, without the network": ("label-text", without("decaf")),
    "label-text, without nearest documents": ("label-text", without("nearest-documents")),
    "label-text, the network as it is alone": ("label-text", alone),
    "label-text, weights 1 and 1": ("label-text", weights(1.0, 1.0)),
}


@lru_cache(maxsize=1)
def documents(name: str, data: Path) -> Corpus:
    labels = data / name / "labels.jsonl.gz"
    return read(data / name / "train.jsonl.gz", labels=labels if labels.exists() else None)


def drawn(name: str, seed: int, data: Path) -> tuple[Corpus, Corpus]:
    """Documents to train on and others to count on; labels that only the latter have come last."""
    corpus = documents(name, data)
    order = np.random.default_rng(seed).permutation(len(corpus))
    held_out = min(HELD_OUT, len(corpus) // 5)
    train = corpus.rows(np.sort(order[held_out : held_out + DOCUMENTS])).counted()
    return train, corpus.rows(np.sort(order[:held_out]))


def tagger_of(setting: str, seed: int) -> Tagger:
    recipe, change = SETTINGS[setting]
    plain = Recipe.find(recipe).tagger().config()
    options = {name: copy.deepcopy(plain[name]) for name in ("learner", "features", "augment", "rerank")}
    change(options)
    return Tagger(**options, seed=seed)


def measure(row: dict[str, Any], data: Path) -> dict[str, Any]:
    train, held_out = drawn(row["corpus"], row["seed"], data)
    start = time.perf_counter()
    tagger = tagger_of(row["setting"], row["seed"]).fit(train, run=Run(seed=row["seed"]))
    seconds = time.perf_counter() - start
    scores = tagger.score(held_out.aligned(tagger.labels_), indexing.DEPTH)
    figures = indexing.figures(scores, held_out.aligned(tagger.labels_, keep_unknown=True))
    return {**row, "train_documents": len(train), "seconds": round(seconds, 1), "figures": figures}


if __name__ == "__main__":
    wanted = [(corpus, "default", tuple(SETTINGS), (seed,)) for seed in SEEDS for corpus in CORPORA]
    run_rows(__doc__ or "", RESULT, "python benchmarks/defaults.py", rows_of(wanted), measure)
