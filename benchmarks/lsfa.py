"""Rows of LSFA: its ablation and its controls on test documents, and the search for settings on held-out ones.

    python benchmarks/papers.py lsfa [--data DIR] [--rows GLOB] [--fresh]

A row is one (corpus, learner, setting, seed), on one core. Rows of one seed that have the first stage in common train
it once: it is kept under benchmarks/.work/lsfa, and "seconds" then tells of the later stages alone. Corpora named
-held-out are 85 % of the training documents to train on and 15 % to measure on: settings are chosen there, never on
test documents. Finished rows stay in benchmarks/results/lsfa.json.
"""

from __future__ import annotations

import time
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import neural_tail
import papers
from common import RESULTS, WORK, rows_of, run_rows
from longtail import Corpus, Tagger
from longtail.data.held_out import hold_out
from longtail.fit import Fit
from longtail.run import Run
from tail import figures

RESULT = RESULTS / "lsfa.json"
SEEDS = (0, 1, 2)
CORPORA = neural_tail.CORPORA
HELD_OUT, SHARE = "-held-out", 0.15
#: Settings of the tables: rows of benchmarks/papers/*.toml.
SETTINGS = {
    "plain": "attentionxml",
    "lsfa": "lsfa",
    "no-contrastive": "lsfa-no-contrastive",
    "pooled": "lsfa-pooled",
    "retuned": "lsfa-retuned",
    "copies": "lsfa-copies",
    "noise": "lsfa-noise",
    "covariance": "lsfa-covariance",
    "printed": "lsfa-printed",
    "code": "lsfa-code",
}
#: Settings searched on held-out documents: what differs from the defaults of lsfa, and of its contrastive loss.
SEARCHED: dict[str, tuple[dict[str, Any], dict[str, Any] | None]] = {
    "default": ({}, {}),
    "retuned": ({"generator": "none"}, {}),
    "copies": ({"generator": "copies"}, {}),
    "covariance": ({"generator": "covariance"}, {}),
    **{f"nt-{count}": ({"threshold": count}, {}) for count in (3, 6, 10, 20, 50)},
    **{f"na-{count}": ({"times": count}, {}) for count in (2, 5, 20, 50)},
    **{f"gamma-{weight:g}": ({"weight": weight}, {}) for weight in (0.1, 0.3, 3.0)},
    "no-contrastive": ({}, None),
    **{f"tau-{value:g}": ({}, {"temperature": value}) for value in (0.1, 0.2, 0.5)},
    **{f"alpha-{value:g}": ({}, {"weight": value}) for value in (0.01, 0.03, 0.3, 1.0)},
    "start-0": ({}, {"start": 0.0}),
}
CONTROLS = ("retuned", "copies", "noise", "covariance")
#: What is run, in this order: (corpus, learner, settings, seeds).
WANTED: tuple[tuple[str, str, tuple[str, ...], tuple[int, ...]], ...] = (
    *((corpus + HELD_OUT, "attentionxml", ("plain", *SEARCHED), SEEDS[:1]) for corpus in CORPORA),
    *((corpus, "attentionxml", ("plain", "lsfa", *CONTROLS), SEEDS) for corpus in CORPORA),
    ("vuln-libraries", "attentionxml", ("no-contrastive", "pooled"), SEEDS),
    ("eurlex57k-4k", "attentionxml", ("no-contrastive", "pooled"), SEEDS[:1]),
    *((corpus, "attentionxml", ("printed", "code"), SEEDS[:1]) for corpus in CORPORA),
)


def rows() -> list[dict[str, Any]]:
    return rows_of(WANTED)


def source_of(corpus: str) -> str:
    return corpus.removesuffix(HELD_OUT)


@lru_cache(maxsize=1)
def corpora(name: str, data: Path) -> tuple[Corpus, Corpus]:
    """What to train on and what to measure on; only labels that a training document has are counted."""
    train, test = neural_tail.corpora(source_of(name), data)
    if not name.endswith(HELD_OUT):
        return train, test
    rest, held = hold_out(train, SHARE, np.random.default_rng(0))
    rest = rest.counted()
    rest = rest.columns(np.flatnonzero(rest.labels.frequency))
    return rest, held.aligned(rest.labels).without_unseen()


def tagger_of(row: dict[str, Any]) -> Tagger:
    name, corpus = row["setting"], row["corpus"]
    if corpus.endswith(HELD_OUT) and name != "plain":
        options, loss = SEARCHED[name]
        contrastive = None if loss is None else {"part": "contrastive", **loss}
        learner: dict[str, Any] = dict(papers.find("lsfa").learner)
        augment = [{"part": "lsfa", "contrastive": contrastive, **options}]
    else:
        recipe = papers.find(SETTINGS[name])
        learner, augment = dict(recipe.learner), list(recipe.augment)
    if source_of(corpus) in neural_tail.SHORTER:
        # beside what the setting itself says of the encoder
        learner["encoder"] = {**learner["encoder"], "max_length": neural_tail.SHORTER[source_of(corpus)]}
    return Tagger(learner, augment=augment, seed=row["seed"], threads=1)


def measure(row: dict[str, Any], data: Path) -> dict[str, Any]:
    train, test = corpora(row["corpus"], data)
    tagger = tagger_of(row)
    kept = WORK / "lsfa" / f"{row['corpus']}-{row['seed']}"
    run = Run(row["seed"], threads=1, checkpoints=kept)
    start = time.perf_counter()
    if tagger.augment:
        tagger.fit(train, run=run)
        scores = tagger.score(test, 100, run=run)
    else:  # the first stage of others, which `fit` would not keep
        Fit(run).train(tagger.learner, train)
        scores = tagger.learner.score(test, 100, run=run)
    result = {**row, "train_s": round(time.perf_counter() - start, 2)}
    result["seconds"] = {name: round(taken, 2) for name, taken in run.seconds.items()}
    for part in tagger.augment:
        result["checks"] = {name: round(value, 4) for name, value in getattr(part, "checks_", {}).items()}
    result["figures"] = figures(scores, test)
    return result


def main() -> None:
    run_rows(__doc__ or "", RESULT, "python benchmarks/papers.py lsfa", rows(), measure)
