"""Tail methods on and off: P beside PSP and by frequency band, over seeds, with the controls that keep it honest.

    python benchmarks/tail.py [--data DIR] [--rows GLOB] [--fresh]

A row is one (corpus, learner, augmentation, seed), with inverse propensity at strengths from 0 to 1 beside it.
Re-rankers that learn are measured by benchmarks/tradeoff.py, but for RankNet over Taug, merged as printed.
Finished rows stay in benchmarks/results/tail.json, so an interrupted run goes on where it stopped.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import papers
from common import RESULTS, run_rows
from longtail import Corpus, Tagger, evaluate, read
from longtail.features.tfidf import Tfidf
from longtail.rerank.propensity import InversePropensity
from longtail.run import Run
from longtail.scores import Scores

RESULT = RESULTS / "tail.json"
SEEDS = (0, 1, 2)
STRENGTHS = (0.0, 0.25, 0.5, 0.75, 1.0)
CORPORA = ("eurlex57k", "gutenberg-lcsh-titles")
LEARNERS: dict[str, dict[str, Any]] = {
    "parabel-1": {"part": "parabel", "trees": 1},
    "bonsai-1": {"part": "bonsai", "trees": 1},
    "fastxml": {"part": "fastxml"},
    "pfastrexml": {"part": "pfastrexml"},
}
BOTH = [{"part": "input-dropout"}, {"part": "input-swap"}]
#: name -> (gate of decoupled or None for the learner itself, augmenters, whether inverse propensity is measured, too)
SETTINGS: dict[str, tuple[float | None, list[dict[str, Any]], bool]] = {
    "plain": (None, [], True),
    "decoupled": (0.0, [], False),
    "taug-d": (0.0, BOTH[:1], False),
    "taug-s": (0.0, BOTH[1:], False),
    "taug": (0.0, BOTH, False),
    "taug-gate0.1": (0.1, BOTH, False),
    "taug-gate0.5": (0.5, BOTH, True),
    "taug-ranknet": (0.0, BOTH, False),
    **{f"taug-n{n}": (0.0, [{**part, "n_aug": n} for part in BOTH], False) for n in (1, 2, 8)},
}
#: Re-rankers that learn, by setting: the printed blocks over the scores of head and tail side by side.
RERANKED: dict[str, list[dict[str, Any]]] = {"taug-ranknet": papers.find("ranknet-taug-bonsai").rerank}
#: What is run, in this order: (learner, settings, seeds). FastXML takes minutes, so it is measured plain.
WANTED: tuple[tuple[str, tuple[str, ...], tuple[int, ...]], ...] = (
    ("parabel-1", ("plain", "decoupled", "taug-d", "taug-s", "taug", "taug-gate0.1", "taug-gate0.5"), SEEDS),
    ("bonsai-1", ("plain", "taug", "taug-ranknet"), SEEDS),
    ("fastxml", ("plain",), SEEDS),
    ("pfastrexml", ("plain",), SEEDS),
    ("parabel-1", ("taug-n1", "taug-n2", "taug-n8"), SEEDS[:1]),
)


def rows() -> list[dict[str, Any]]:
    return [
        {
            "row": f"{corpus}/{learner}/{setting}/{seed}",
            "corpus": corpus,
            "learner": learner,
            "setting": setting,
            "seed": seed,
        }
        for learner, settings, seeds in WANTED
        for corpus in CORPORA
        for setting in settings
        for seed in seeds
    ]


@lru_cache(maxsize=1)
def corpora(name: str, data: Path) -> tuple[Corpus, Corpus]:
    """Train and test with the same features; documents without features do not train."""
    train, test = (read(data / name / f"{part}.jsonl.gz") for part in ("train", "test"))
    features = Tfidf()
    train = replace(train, X=features.fit_transform(train.texts or []))
    test = replace(test.aligned(train.labels), X=features.transform(test.texts or []))
    return train, test


def figures(scores: Scores, test: Corpus) -> dict[str, Any]:
    report = evaluate(scores, test).to_dict()
    kept = {name: value for name, value in report.items() if name.partition("@")[0] in ("P", "nDCG", "PSP", "PSnDCG")}
    kept["bands"] = {
        band["name"]: {m: band[m] for m in ("recall@1", "recall@5", "precision@5")} for band in report["bands"]
    }
    return kept


def measure(row: dict[str, Any], data: Path) -> dict[str, Any]:
    train, test = corpora(row["corpus"], data)
    gate, augment, rerank = SETTINGS[row["setting"]]
    learner = LEARNERS[row["learner"]]
    if gate is not None:
        learner = {"part": "decoupled", "learner": learner, "gate": gate}
    tagger = Tagger(learner, augment=augment, rerank=RERANKED.get(row["setting"], []), seed=row["seed"])
    run = Run(row["seed"])
    if tagger.rerank:
        return _reranked(row, tagger, run, train, test)
    augmented = train
    for part in tagger.augment:
        augmented = part.apply(augmented, run)
    start = time.perf_counter()
    tagger.learner.fit(augmented, run=run)
    result = {**row, "train_s": round(time.perf_counter() - start, 2)}
    scores = tagger.learner.score(test, 100)
    result["figures"] = figures(scores, test)
    if rerank:
        result["curves"] = {"inverse-propensity": curve(train, scores, test)}
    return result


def _reranked(row: dict[str, Any], tagger: Tagger, run: Run, train: Corpus, test: Corpus) -> dict[str, Any]:
    """The whole pipeline, whose re-rankers learn out of fold; the row tells what they learnt."""
    start = time.perf_counter()
    tagger.fit(train, run=run)
    result = {**row, "train_s": round(time.perf_counter() - start, 2), "acted": tagger.pipeline.acted()}
    return {**result, "figures": figures(tagger.score(test, 100), test)}


def curve(train: Corpus, scores: Scores, test: Corpus) -> dict[str, Any]:
    """Inverse propensity at every strength."""
    parts = {str(strength): InversePropensity(strength=strength).for_labels(train.labels) for strength in STRENGTHS}
    return {strength: figures(part.rerank(scores, test), test) for strength, part in parts.items()}


if __name__ == "__main__":
    run_rows(__doc__ or "", RESULT, "python benchmarks/tail.py", rows(), measure)
