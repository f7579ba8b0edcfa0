"""Neural rows of benchmarks/tail.py: AttentionXML and LaRoBERTa with TailMix, its rivals and its ablations.

    python benchmarks/neural_tail.py [--data DIR] [--rows GLOB] [--fresh]

A row is one (corpus, learner, setting, seed), trained on one core with the same optimiser steps as its plain row, so
two rows can be measured side by side (each with its own --rows). "ensemble" averages the plain and the TailMix model of
the same seed. Settings were chosen on documents held out of training; nothing is chosen on test documents. Finished
rows stay in benchmarks/results/neural.json.
"""

from __future__ import annotations

import time
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import papers
from common import RESULTS, WORK, rows_of, run_rows
from longtail import Corpus, Tagger, read
from longtail.run import Run
from longtail.scores import Scores
from subset import chosen
from tail import figures

RESULT = RESULTS / "neural.json"
SEEDS = (0, 1, 2)
#: Training documents taken of a corpus, by `subset.chosen`, and the corpus they come from.
SUBSETS = {"eurlex57k-4k": ("eurlex57k", 4000, 0)}
#: Words read of a text, where texts are long: a row takes minutes on one core.
SHORTER = {"eurlex57k-4k": 128}
CORPORA = ("vuln-libraries", "eurlex57k-4k")
MINILM = {"part": "transformer", "model": "all-minilm-l6-v2", "frozen": 5, "max_length": 64}
LEARNERS: dict[str, dict[str, Any]] = {
    "attentionxml": {"part": "attentionxml"},
    "laroberta": {"part": "laroberta", "epochs": 4, "encoder": MINILM},
}
PUBLISHED = papers.find("attentionxml-published").learner
#: TailMix's first form here, of which these rows are; benchmarks/tailmix.py searches the others.
TAILMIX = {"part": "tailmix", "form": "in-place", "rule": "exclude"}
#: name -> (options of the learner, hooks)
SETTINGS: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
    "plain": ({}, []),
    "tailmix": ({}, [TAILMIX]),
    "tailmix-no-similarity": ({}, [{**TAILMIX, "similar": False}]),
    "tailmix-no-graph": ({}, [{**TAILMIX, "graph": False}]),
    "wordmix": ({}, [{"part": "wordmix"}]),
    "hiddenmix": ({}, [{"part": "hiddenmix"}]),
    "tmix": ({}, [{"part": "tmix"}]),
    "ssmix": ({}, [{"part": "ssmix"}]),
    # what made the base strong, taken away one by one
    "no-start": ({"start": "random"}, []),
    "no-skip": ({"encoder": {"part": "bilstm", "skip": False}}, []),
    # with one hidden layer, as on the paper's two small corpora
    "as-published": ({**PUBLISHED, "head": {**PUBLISHED["head"], "hidden": 256, "second": None}}, []),
}
ENSEMBLE = "ensemble"
LINEAR = ("one-vs-all", "bonsai", "parabel", "pfastrexml")
#: What is run, in this order: (corpus, learner, settings, seeds).
WANTED: tuple[tuple[str, str, tuple[str, ...], tuple[int, ...]], ...] = (
    *((corpus, learner, ("plain",), SEEDS[:1]) for corpus in CORPORA for learner in LINEAR),
    *((corpus, "attentionxml", ("plain", "tailmix"), SEEDS) for corpus in CORPORA),
    ("vuln-libraries", "attentionxml", ("wordmix", "hiddenmix", "ssmix"), SEEDS[:1]),
    ("vuln-libraries", "attentionxml", ("tailmix-no-similarity", "tailmix-no-graph"), SEEDS[:1]),
    ("vuln-libraries", "laroberta", ("plain", "tailmix", "tmix"), SEEDS[:1]),
    *((corpus, "attentionxml", (ENSEMBLE,), SEEDS) for corpus in CORPORA),
    ("vuln-libraries", "laroberta", (ENSEMBLE,), SEEDS[:1]),
    ("vuln-libraries", "attentionxml", ("no-start", "no-skip"), SEEDS[:1]),
    ("vuln-libraries", "attentionxml", ("as-published",), SEEDS[:1]),
)


def rows() -> list[dict[str, Any]]:
    return rows_of(WANTED)


@lru_cache(maxsize=1)
def corpora(name: str, data: Path) -> tuple[Corpus, Corpus]:
    """Train and test; only labels that a training document has are predicted and counted."""
    source, documents, seed = SUBSETS.get(name, (name, 0, 0))
    train, test = (read(data / source / f"{part}.jsonl.gz") for part in ("train", "test"))
    if documents:
        train = train.rows(chosen(len(train), documents, seed)).counted()
        train = train.columns(np.flatnonzero(train.labels.frequency))
    return train, test.aligned(train.labels).without_unseen()


def tagger_of(row: dict[str, Any]) -> Tagger:
    options, augment = SETTINGS[row["setting"]]
    learner = {**LEARNERS.get(row["learner"], {"part": row["learner"]}), **options}
    if row["corpus"] in SHORTER and row["learner"] == "attentionxml":
        # beside what the setting itself says of the encoder
        learner["encoder"] = {**learner.get("encoder", {"part": "bilstm"}), "max_length": SHORTER[row["corpus"]]}
    return Tagger(learner, augment=augment, seed=row["seed"], threads=1)


def measure(row: dict[str, Any], data: Path) -> dict[str, Any]:
    train, test = corpora(row["corpus"], data)
    if row["setting"] == ENSEMBLE:
        members = [_kept(row, setting) for setting in ("plain", "tailmix")]
        return {**row, "figures": figures(_average(members, train.n_labels), test)}
    tagger = tagger_of(row)
    run = Run(row["seed"], threads=1)
    start = time.perf_counter()
    tagger.fit(train, run=run)
    result = {**row, "train_s": round(time.perf_counter() - start, 2)}
    scores = tagger.score(test, 100, run=run)
    for hook in tagger.augment:
        if hasattr(hook, "statistics_"):
            result["statistics"] = hook.statistics_.to_dict()
    _keep(row, scores)
    result["figures"] = figures(scores, test)
    return result


def _place(row: dict[str, Any], setting: str) -> Path:
    return WORK / "scores" / f"{row['corpus']}-{row['learner']}-{setting}-{row['seed']}.npz"


def _keep(row: dict[str, Any], scores: Scores) -> None:
    place = _place(row, row["setting"])
    place.parent.mkdir(parents=True, exist_ok=True)
    np.savez(place, ids=scores.ids, values=scores.values)


def _kept(row: dict[str, Any], setting: str) -> Scores:
    place = _place(row, setting)
    if not place.exists():
        raise SystemExit(f"{row['row']}: measure its {setting} row first, with --fresh if it was measured elsewhere")
    with np.load(place, allow_pickle=False) as kept:
        return Scores(kept["ids"], kept["values"])


def _average(members: list[Scores], n_labels: int) -> Scores:
    """Mean of the members' probabilities, 0 where a member does not list a label."""
    total = sum((member.to_csr(n_labels) for member in members[1:]), members[0].to_csr(n_labels))
    return Scores.from_csr(total / len(members), 100)


if __name__ == "__main__":
    run_rows(__doc__ or "", RESULT, "python benchmarks/neural_tail.py", rows(), measure)
