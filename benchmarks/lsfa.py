"""Rows of LSFA, its ablation, controls and rivals on test documents, and the search for settings on held-out ones.

    python benchmarks/papers.py lsfa [--data DIR] [--rows GLOB] [--fresh]

A row is one (corpus, learner, setting, seed), on one core, with the learners' defaults but for `QUICK`. Rows of one
seed that have the first stage in common train it once: it is kept under benchmarks/.work/lsfa, and "seconds" then tells
of the later stages alone. Corpora named -held-out are 85 % of the training documents to train on and 15 % to measure
on: settings are chosen there, never on test documents. Finished rows stay in benchmarks/results/lsfa.json.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import neural_tail
import papers
from common import HELD_OUT, RESULTS, WORK, carved, rows_of, run_rows, source_of
from longtail import Corpus, Tagger
from longtail.fit import Fit
from longtail.run import Run
from tail import figures

RESULT = RESULTS / "lsfa.json"
SEEDS = (0, 1, 2)
CORPORA = neural_tail.CORPORA
#: What is set of networks, so that a training takes three quarters of a minute of one core: words without an LSTM.
#: Passes and labels per step are AttentionXML's defaults on corpora of this size. On held-out documents P@1 was 85.6
#: (seed 0; 84.3 with seed 1), one-vs-all 87.1; with 200 labels per step it was 85.4 after eight passes, with 800 85.8
#: after five (59 s), with dropout of 0.5 or 0.1 84.2 and 85.3.
QUICK: dict[str, Any] = {"encoder": {"part": "bag"}, "epochs": 6}
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
    "only-retuned": "lsfa-only-retuned",
    "only-copies": "lsfa-only-copies",
    "printed": "lsfa-printed",
    "code": "lsfa-code",
}
#: Learners that LSFA is compared with, as they are.
RIVALS = ("httn", "lsan", "xml-cnn")
LINEAR = "one-vs-all"
#: Around what settings are searched, one factor at a time, on held-out documents.
LOSS: dict[str, Any] = {"weight": 0.01, "start": 0.5, "temperature": 0.07}
#: Settings searched: what differs of lsfa, and of its contrastive loss (None for none).
SEARCHED: dict[str, tuple[dict[str, Any], dict[str, Any] | None]] = {
    "base": ({}, {}),
    "no-contrastive": ({}, None),
    "copies": ({"generator": "copies"}, {}),
    "only-copies": ({"generator": "copies"}, None),
    "retuned": ({"generator": "none"}, {}),
    "only-retuned": ({"generator": "none"}, None),
    "covariance": ({"generator": "covariance"}, {}),
    # where there is more time
    "alpha-0.1": ({}, {"weight": 0.1}),
    "start-0": ({}, {"start": 0.0}),
    **{f"na-{count}": ({"times": count}, {}) for count in (2, 50)},
    **{f"nt-{count}": ({"threshold": count}, {}) for count in (4, 8, 50)},
    "tau-0.2": ({}, {"temperature": 0.2}),
    **{f"gamma-{weight:g}": ({"weight": weight}, {}) for weight in (0.3, 3.0)},
}
FIRST = tuple(SEARCHED)[:7]
CONTROLS = ("retuned", "copies", "noise", "covariance")
ALONE = ("only-retuned", "only-copies")
#: What is run, in this order: (corpus, learner, settings, seeds).
WANTED: tuple[tuple[str, str, tuple[str, ...], tuple[int, ...]], ...] = (
    ("vuln-libraries" + HELD_OUT, LINEAR, ("plain",), SEEDS[:1]),
    ("vuln-libraries" + HELD_OUT, "attentionxml", ("plain", *FIRST), SEEDS[:2]),
    ("vuln-libraries", "attentionxml", ("plain", "lsfa", *CONTROLS, "no-contrastive", *ALONE, "pooled"), SEEDS),
    *(("vuln-libraries", learner, ("plain",), SEEDS) for learner in RIVALS),
    ("vuln-libraries", LINEAR, ("plain",), SEEDS[:1]),
    ("eurlex57k-4k", LINEAR, ("plain",), SEEDS[:1]),
    ("eurlex57k-4k", "attentionxml", ("plain", "lsfa", *CONTROLS, "no-contrastive", *ALONE), SEEDS),
    ("eurlex57k-4k", "attentionxml", ("pooled",), SEEDS[:1]),
    *(("eurlex57k-4k", learner, ("plain",), SEEDS[:1]) for learner in RIVALS),
    *((corpus, "attentionxml", ("printed", "code"), SEEDS[:1]) for corpus in CORPORA),
    ("vuln-libraries" + HELD_OUT, "attentionxml", ("plain", *SEARCHED), SEEDS),
)


def rows() -> list[dict[str, Any]]:
    return rows_of(WANTED)


@lru_cache(maxsize=1)
def corpora(name: str, data: Path) -> tuple[Corpus, Corpus]:
    """What to train on and what to measure on; only labels that a training document has are counted."""
    train, test = neural_tail.corpora(source_of(name), data)
    return carved(train) if name.endswith(HELD_OUT) else (train, test)


def tagger_of(row: dict[str, Any]) -> Tagger:
    name, corpus = row["setting"], row["corpus"]
    if row["learner"] == LINEAR:
        return Tagger(LINEAR, seed=row["seed"], threads=1)
    if corpus.endswith(HELD_OUT) and name != "plain":
        options, loss = SEARCHED[name]
        contrastive = None if loss is None else {"part": "contrastive", **LOSS, **loss}
        learner: dict[str, Any] = dict(papers.find("lsfa").learner)
        augment = [{"part": "lsfa", "contrastive": contrastive, **options}]
    else:
        recipe = papers.find(row["learner"] if row["learner"] in RIVALS else SETTINGS[name])
        learner, augment = dict(recipe.learner), list(recipe.augment)
    learner |= QUICK if row["learner"] != "xml-cnn" else {**QUICK, "encoder": learner["encoder"]}
    if source_of(corpus) in neural_tail.SHORTER:
        # beside what the setting itself says of the encoder
        learner["encoder"] = {**learner["encoder"], "max_length": neural_tail.SHORTER[source_of(corpus)]}
    return Tagger(learner, augment=augment, seed=row["seed"], threads=1)


@dataclass
class Timed(Run):
    """A run that counts the processor's seconds of each stage: other work on the same cores does not enter."""

    processor: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        start, counted = time.process_time(), sum(self.processor.values())
        with super().stage(name):
            yield
        own = time.process_time() - start - (sum(self.processor.values()) - counted)
        self.processor[name] = self.processor.get(name, 0.0) + own


def measure(row: dict[str, Any], data: Path) -> dict[str, Any]:
    train, test = corpora(row["corpus"], data)
    tagger = tagger_of(row)
    kept = WORK / "lsfa" / f"{row['corpus']}-{row['seed']}"
    run = Timed(row["seed"], threads=1, checkpoints=kept)
    start = time.process_time()
    if tagger.augment or row["learner"] == LINEAR:
        tagger.fit(train, run=run)
        learnt = time.process_time()
        scores = tagger.score(test, 100, run=run)
    else:  # the first stage of others, which `fit` would not keep
        Fit(run).train(tagger.learner, train)
        learnt = time.process_time()
        scores = tagger.learner.score(test, 100, run=run)
    result = {**row, "train_s": round(learnt - start, 2)}
    result["seconds"] = {name: round(taken, 2) for name, taken in run.processor.items()}
    for part in tagger.augment:
        result["checks"] = {name: round(value, 4) for name, value in getattr(part, "checks_", {}).items()}
    result["figures"] = figures(scores, test)
    return result


def main() -> None:
    run_rows(__doc__ or "", RESULT, "python benchmarks/papers.py lsfa", rows(), measure)
