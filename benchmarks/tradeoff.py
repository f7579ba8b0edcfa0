"""Precision against rare labels: P@1 beside PSP@1 and PSP@5 of every re-ranker, by strength, over seeds.

    python benchmarks/tradeoff.py [--data DIR] [--rows GLOB] [--fresh] [--budget MINUTES]

A row is one (corpus, learner, re-rankers, seed). A learner is fitted once per seed, on all documents and without each
of four folds; its shortlists out of fold and of the test documents are kept in benchmarks/.work/shortlists, and all
re-rankers are fitted on those. Nothing is chosen on test documents. Rows say what the re-rankers did: the share and
exponent that calibrated propensity chose, the norm of RankNet's blocks and whether they were kept.

Corpora named -held-out are 85 % of the training documents to train on and 15 % to measure on: RankNet's options are
searched there (`SEARCHED`), on the learner's scores and behind calibrated propensity.

"calibration" rows compare, on test documents by training count of the label, how often listed labels are right with the
mean probability of two calibrations: by counts of the whole corpus (before), and by those that the folds have seen.
Finished rows stay in benchmarks/results/tradeoff.json, so an interrupted run goes on where it stopped.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from common import HELD_OUT, RESULTS, WORK, carved, digest, rows_of, run_rows, source_of
from longtail import Corpus, Tagger, evaluate, read
from longtail.features.tfidf import Tfidf
from longtail.fit import Fit
from longtail.learners.folds import FOLDS, out_of_fold, rows_of_folds
from longtail.registry import build
from longtail.rerank.base import Reranker
from longtail.rerank.calibrated_propensity import CalibratedPropensity
from longtail.rerank.held_out import Folds, HeldOut
from longtail.run import Run
from longtail.scores import Scores

RESULT = RESULTS / "tradeoff.json"
SEEDS = (0, 1, 2)
DEPTH = 100
CORPORA = ("eurlex57k", "gutenberg-lcsh-titles", "citeulike-t")
LEARNERS: dict[str, dict[str, Any]] = {
    "parabel": {"part": "parabel", "trees": 1},
    "bonsai": {"part": "bonsai", "trees": 1},
    "fastxml-10": {"part": "fastxml", "trees": 10},  # a fifth of its default: five forests are grown per seed
}
#: RankNet's defaults are the paper's form; this one is weighted for PSP, against the labels it has to outrank.
#: CHOSEN is the best on held-out documents.
WEIGHTED = {"part": "ranknet", "scale": "logits", "weight": "propensity", "negatives": "shortlist", "margin": 0.02,
            "learning_rate": 0.002}  # fmt: skip
CHOSEN = {**WEIGHTED, "margin": 0.3}
AFTER = "calibrated-propensity + "
CURVES: dict[str, list[Any]] = {
    "plain": [],
    **{
        f"{part} {strength:g}": [{"part": part, "strength": strength}]
        for part, strengths in (("inverse-propensity", (0.25, 0.5, 0.75, 1.0)), ("calibrated-propensity", (0, 0.5, 1)))
        for strength in strengths
    },
    "calibrated-propensity": ["calibrated-propensity"],
}
SETTINGS: dict[str, list[Any]] = {
    **CURVES,
    "ranknet": ["ranknet"],
    "ranknet chosen": [CHOSEN],
    AFTER + "ranknet": ["calibrated-propensity", "ranknet"],
    AFTER + "ranknet chosen": ["calibrated-propensity", CHOSEN],
}
#: What is searched of RankNet: the printed form and the weighted one, each with one thing changed.
CHANGES: dict[str, dict[str, Any]] = {
    "": {},
    **{f", rate {rate:g}": {"learning_rate": rate} for rate in (0.0005, 0.002, 0.01, 0.05)},
    **{f", lambda {balance:g}": {"balance": balance} for balance in (0.1, 10.0)},
    **{f", margin {margin:g}": {"margin": margin} for margin in (0.02, 0.3)},
    ", negatives of the shortlist": {"negatives": "shortlist"},
    ", weight propensity": {"weight": "propensity"},
    ", logits": {"scale": "logits"},
    ", two blocks": {"blocks": 2},
    ", bottleneck": {"form": "bottleneck"},
    ", stop mix": {"stop": "mix"},
}
SEARCHED: dict[str, list[Any]] = {
    f"{before}{name}{change}": [*start, {**config, **options}]
    for before, start in (("", []), (AFTER, ["calibrated-propensity"]))
    for name, config in (("ranknet", {"part": "ranknet", "learning_rate": 0.01}), ("ranknet weighted", WEIGHTED))
    for change, options in CHANGES.items()
    if any(config.get(option) != value for option, value in options.items()) or not options
}
#: And jointly what decides how far the blocks go, against the labels that they have to outrank.
JOINTLY: dict[str, list[Any]] = {
    f"{before}ranknet {scale}, w {weight}, margin {margin:g}, rate {rate:g}": [
        *start,
        {"part": "ranknet", "negatives": "shortlist", "weight": weight, "scale": scale, "margin": margin,
         "learning_rate": rate},
    ]
    for before, start in ((AFTER, ["calibrated-propensity"]), ("", []))
    for scale in ("logits", "scores")
    for weight in ("propensity", "none")
    for margin in (0.1, 0.3, 1.0)
    for rate in (0.0005, 0.002)
}  # fmt: skip
SEARCHED |= {name: parts for name, parts in JOINTLY.items() if parts not in SEARCHED.values()}
SEARCHED_ON = ("citeulike-t", "vuln-libraries")
CALIBRATION = "calibration"
#: Training counts of labels that calibration is looked at by, and how far down the shortlists.
BANDS = {"1": (1, 1), "2": (2, 2), "3-5": (3, 5), "6-20": (6, 20), "21+": (21, 1 << 40)}
LOOKED_AT = 10


def rows() -> list[dict[str, Any]]:
    """What answers most comes first: one seed of all corpora, then the others."""
    settings = (*SETTINGS, CALIBRATION)
    searched = (*CURVES, *SEARCHED, CALIBRATION)
    return rows_of(
        [
            *((corpus + HELD_OUT, "parabel", searched, SEEDS[:1]) for corpus in SEARCHED_ON),
            *((corpus, learner, settings, (seed,)) for seed in SEEDS for learner in LEARNERS for corpus in CORPORA),
        ]
    )


@lru_cache(maxsize=1)
def corpora(name: str, data: Path) -> tuple[Corpus, Corpus]:
    """Train and test with the same features."""
    train, test = (read(data / source_of(name) / f"{part}.jsonl.gz") for part in ("train", "test"))
    if name.endswith(HELD_OUT):
        train, test = carved(train)
    features = Tfidf()
    train = replace(train, X=features.fit_transform(train.texts or [])).counted()
    return train, replace(test.aligned(train.labels), X=features.transform(test.texts or []))


@dataclass(frozen=True)
class Shortlists:
    """What the fits of one learner give: shortlists of all training documents out of fold, and of test documents."""

    held_out: Scores
    documents: Corpus
    folds: Folds
    scores: Scores
    test: Corpus
    behind: dict[str, tuple[Scores, Scores, dict[str, Any]]] = field(default_factory=dict)


@lru_cache(maxsize=1)
def shortlists(corpus: str, learner: str, seed: int, data: Path) -> Shortlists:
    """Those of one learner, from the file that an earlier row left."""
    train, test = corpora(corpus, data)
    run = Run(seed)
    rows = rows_of_folds(FOLDS, train, run)
    path = WORK / "shortlists" / f"{corpus}-{learner}-{seed}-{digest(str(LEARNERS[learner]), str(DEPTH))}.npz"
    if not path.exists():
        tagger = Tagger(LEARNERS[learner], rerank=[{"part": "ranknet", "depth": DEPTH}], seed=seed)
        tagger.learner.fit(train, run=run)
        found, _, _ = out_of_fold(tagger.pipeline, train, train, Fit(run))
        tested = tagger.learner.score(test, DEPTH)
        path.parent.mkdir(parents=True, exist_ok=True)
        half = path.with_suffix(".half.npz")
        np.savez(half, ids=found.ids, values=found.values, test_ids=tested.ids, test_values=tested.values)
        half.replace(path)
    with np.load(path) as kept:
        held_out, tested = Scores(kept["ids"], kept["values"]), Scores(kept["test_ids"], kept["test_values"])
    return Shortlists(held_out, train.rows(np.concatenate(rows)), Folds.held_out(rows, train), tested, test)


def measure(row: dict[str, Any], data: Path) -> dict[str, Any]:
    lists = shortlists(row["corpus"], row["learner"], row["seed"], data)
    if row["setting"] == CALIBRATION:
        return {**row, "bands": calibration(lists, Run(row["seed"]))}
    start = time.perf_counter()
    held_out, scores, acted = lists.held_out, lists.scores, {}
    for number, config in enumerate((SETTINGS | SEARCHED)[row["setting"]]):
        held_out, scores, done = reranked(config, number, held_out, scores, lists, row["seed"])
        acted[config if isinstance(config, str) else config["part"]] = done
    seconds = round(time.perf_counter() - start, 2)
    return {**row, "rerank_s": seconds, "acted": acted, "figures": figures(scores, lists.test)}


def reranked(
    config: Any, number: int, held_out: Scores, scores: Scores, lists: Shortlists, seed: int
) -> tuple[Scores, Scores, dict[str, Any]]:
    """One re-ranker fitted: shortlists out of fold and of test documents behind it, and what it did.

    What stands first without options is kept for the rows that have it in common.
    """
    if number == 0 and isinstance(config, str) and config in lists.behind:
        return lists.behind[config]
    part = build(config)
    assert isinstance(part, Reranker)
    held_out = part.fit_held_out(held_out, lists.documents, lists.folds, run=Run(seed).child(f"rerank/{number}"))
    found = held_out, part.rerank(scores, lists.test), part.acted()
    if number == 0 and isinstance(config, str):
        lists.behind[config] = found
    return found


def figures(scores: Scores, test: Corpus) -> dict[str, Any]:
    report = evaluate(scores, test).to_dict()
    kept = {name: value for name, value in report.items() if name.partition("@")[0] in ("P", "PSP")}
    kept["bands"] = {band["name"]: {m: band[m] for m in ("recall@5", "precision@5")} for band in report["bands"]}
    return kept


def calibration(lists: Shortlists, run: Run) -> dict[str, Any]:
    """By training count: pairs among the first labels, the share that is right, and the mean probabilities."""
    after, before = CalibratedPropensity(), CalibratedPropensity()
    after.fit_held_out(lists.held_out, lists.documents, lists.folds, run=run)
    before.fit(lists.held_out, lists.documents, run=run)
    test = HeldOut.of(lists.scores, lists.test, Folds.none(len(lists.test), lists.documents.labels), 0.55, 1.5)
    probabilities = {"before": before.probabilities(test.scores), "after": after.probabilities(test.scores)}
    first = test.scores.ids >= 0
    first[:, LOOKED_AT:] = False
    found = {}
    for band, (low, high) in BANDS.items():
        here = first & (test.counts >= low) & (test.counts <= high)
        pairs = int(here.sum())
        means = {name: float(p[here].mean()) if pairs else 0.0 for name, p in probabilities.items()}
        found[band] = {"pairs": pairs, "right": float(test.truth[here].mean()) if pairs else 0.0, **means}
    return found


if __name__ == "__main__":
    run_rows(__doc__ or "", RESULT, "python benchmarks/tradeoff.py", rows(), measure)
