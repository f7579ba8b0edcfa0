"""Short texts with label texts: Gandalf and LabelMix on label trees and on five neural learners.

    python benchmarks/label_text.py [--data DIR] [--rows GLOB] [--fresh]

A row is one (corpus, learner, setting, seed), trained on one core, so two rows can be measured side by side (each with
its own --rows). Gandalf adds a row per label: "gandalf" passes over all rows as often as the plain row passes over its
documents (equal epochs), "gandalf-steps" takes as many optimiser steps as the plain row. LabelMix is drawn on the fly
and takes both as many epochs and as many steps. Settings were chosen on documents held out of training; nothing is
chosen on test documents. Figures are given once more without test documents whose text is a label's text. "printed"
augments as the paper has it: full soft annotations of the normalised graph, and rows for all labels. A corpus called
-4k has 4,000 training documents, and the whole test split. Finished rows stay in benchmarks/results/label-text.json.
"""

from __future__ import annotations

import math
import time
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import papers
from common import RESULTS, rows_of, run_rows
from longtail import Corpus, Tagger, read
from longtail.recipe import Recipe
from longtail.rerank.propensity import InversePropensity
from longtail.run import Run
from longtail.scores import Scores
from tail import figures

RESULT = RESULTS / "label-text.json"
SEEDS = (0, 1, 2)
#: Corpus and the field its texts are taken from.
CORPORA = {"gutenberg-lcsh-titles": ("gutenberg-lcsh-titles", "text"), "eurlex57k-titles": ("eurlex57k", "title")}
SMALL, FEW = "-4k", 4_000
NO_SOFT = {"soft": False}
PRINTED = {"strength": 1.0, "scaled": True}
AUGMENT: dict[str, list[dict[str, Any]]] = {
    "plain": [],
    "labelmix": [{"part": "labelmix"}],
    "labelmix-no-soft": [{"part": "labelmix", **NO_SOFT}],
    "gandalf": [{"part": "gandalf"}],
    "gandalf-no-soft": [{"part": "gandalf", **NO_SOFT}],
    "gandalf-1": [{"part": "gandalf", "strength": 1.0}],
    "gandalf-printed": [{"part": "gandalf", **PRINTED, "all_labels": True}],
    "labelmix-printed": [{"part": "labelmix", **PRINTED}],
    "gandalf-walk": [{"part": "gandalf", "graph": "walk"}],
    "gandalf-steps": [{"part": "gandalf"}],
}
TREES = {
    "parabel-1": {"part": "parabel", "trees": 1},
    "parabel-3": {"part": "parabel", "trees": 3},
    "bonsai-3": {"part": "bonsai", "trees": 3},
}
#: The pipelines as published, at the same epochs: rows of benchmarks/papers.
PUBLISHED = {
    "astec": "astec-published",
    "inceptionxml": "inceptionxml-published",
    "inceptionxml-plus": "inceptionxml-plus",
    "decaf": "decaf-published",
    "eclare": "eclare-published",
    "inceptionxml-lf": "inceptionxml-lf-published",
}
#: What each of them was before it had all of its published parts.
BEFORE = {
    "astec": ("learner.documents=0", "learner.centroids=1"),
    "inceptionxml": ("learner.encoder.partner=itself",),
    "inceptionxml-plus": ("learner.encoder.partner=itself",),
    "decaf": ("learner.shortlist.anew=false",),
    "eclare": ("learner.shortlist.anew=false", "learner.shortlist.frozen=false"),
    "inceptionxml-lf": ("learner.encoder.decoupled=false", "learner.encoder.partner=itself"),
}
RECIPE = "label-text"
#: Strengths of inverse propensity on top of the recipe.
STRENGTHS = (0.0, 0.1, 0.2, 0.3, 0.5)
TREE_SETTINGS = ("gandalf", "gandalf-no-soft", "labelmix", "labelmix-no-soft", "gandalf-1", "gandalf-walk",
                 "gandalf-printed", "labelmix-printed")  # fmt: skip
FULL = ("plain", "gandalf", "labelmix", "gandalf-no-soft", "gandalf-steps")
GUTENBERG, EURLEX = CORPORA
GUTENBERG_4K = f"{GUTENBERG}{SMALL}"
PIPELINES = ("published", "published-gandalf", "published-labelmix")
AS_PRINTED = ("gandalf-printed", "labelmix-printed", "gandalf-1", "labelmix-no-soft")
BAGS, CONVOLUTIONS = ("astec", "decaf", "eclare"), ("inceptionxml", "inceptionxml-lf")
#: What is run, in this order: (corpus, learner, settings, seeds).
WANTED: tuple[tuple[str, str, tuple[str, ...], tuple[int, ...]], ...] = (
    *((corpus, "parabel-1", ("plain", *TREE_SETTINGS), SEEDS) for corpus in CORPORA),
    *((corpus, trees, ("plain", "gandalf"), SEEDS) for trees in ("parabel-3", "bonsai-3") for corpus in CORPORA),
    (GUTENBERG, "decaf", ("plain",), SEEDS[:1]),
    (GUTENBERG, RECIPE, ("plain",), SEEDS),
    *((GUTENBERG, learner, ("plain", "gandalf"), SEEDS) for learner in ("astec", "inceptionxml")),
    *((GUTENBERG, learner, FULL, SEEDS[:1]) for learner in BAGS),
    *((GUTENBERG, learner, FULL[:3], SEEDS[:1]) for learner in CONVOLUTIONS),
    *((EURLEX, learner, FULL[:3], SEEDS[:1]) for learner in BAGS),
    (EURLEX, RECIPE, ("plain",), SEEDS),
    *((EURLEX, learner, FULL[:2], SEEDS[:1]) for learner in CONVOLUTIONS),
    (EURLEX, "astec", FULL[:2], SEEDS),
    (GUTENBERG, "decaf", ("plain",), SEEDS),
    *((GUTENBERG, learner, FULL, SEEDS[:1]) for learner in CONVOLUTIONS),
    *((GUTENBERG, learner, ("published-before",), SEEDS[:1]) for learner in PUBLISHED),
    *((EURLEX, learner, FULL, SEEDS[:1]) for learner in (*BAGS, *CONVOLUTIONS)),
    *((corpus, "astec", FULL, SEEDS) for corpus in CORPORA),
    (EURLEX, "inceptionxml", FULL[:2], SEEDS),
    *((corpus, "inceptionxml", FULL, SEEDS) for corpus in CORPORA),
    # networks as printed, then published pipelines with the printed augmenters, the quickest first
    *((GUTENBERG, learner, AS_PRINTED[:1], SEEDS[:1]) for learner in (*BAGS, *CONVOLUTIONS)),
    *((GUTENBERG, learner, AS_PRINTED, SEEDS[:1]) for learner in (*BAGS, *CONVOLUTIONS)),
    *((GUTENBERG_4K, learner, PIPELINES, SEEDS[:1]) for learner in ("decaf", "astec", "eclare")),
    *((GUTENBERG_4K, learner, PIPELINES, SEEDS[:1]) for learner in PUBLISHED),
    (GUTENBERG_4K, "inceptionxml", ("published-gandalf-no-soft", "published-labelmix-no-soft"), SEEDS[:1]),
    *((GUTENBERG, learner, AS_PRINTED[:2], SEEDS) for learner in BAGS),
)


def rows() -> list[dict[str, Any]]:
    return rows_of(WANTED)


@lru_cache(maxsize=1)
def corpora(name: str, data: Path) -> tuple[Corpus, Corpus]:
    """Train and test; only labels that a training document has are predicted and counted."""
    folder, field = CORPORA[name.removesuffix(SMALL)]
    texts = data / folder / "labels.jsonl.gz"
    train, test = (
        read(data / folder / f"{part}.jsonl.gz", text_field=field, labels=texts) for part in ("train", "test")
    )
    if name.endswith(SMALL):
        train = train.rows(np.sort(np.random.default_rng(0).permutation(len(train))[:FEW])).counted()
    return train, test.aligned(train.labels).without_unseen()


def folded(text: str) -> str:
    return " ".join(text.casefold().split())


def apart(test: Corpus) -> np.ndarray[Any, Any]:
    """Rows of test documents whose text is no label's text."""
    labels = {folded(test.labels.text(label)) for label in range(test.n_labels)}
    return np.array([row for row, text in enumerate(test.texts or []) if folded(text) not in labels])


def published(learner: str, more: str) -> Recipe:
    """A published pipeline, as the paper's row with an augmenter has it, or as it was before."""
    if more == "-before":
        return papers.find(PUBLISHED[learner]).override(settings=list(BEFORE[learner]))
    return papers.find(f"{PUBLISHED[learner]}{more}")


def tagger_of(row: dict[str, Any], documents: int) -> Tagger:
    if row["learner"] == RECIPE:
        return Recipe.find(RECIPE).tagger(seed=row["seed"], threads=1)
    if row["setting"].startswith("published"):
        return published(row["learner"], row["setting"].removeprefix("published")).tagger(seed=row["seed"], threads=1)
    learner = TREES.get(row["learner"], {"part": row["learner"]})
    tagger = Tagger(learner, augment=AUGMENT[row["setting"]], seed=row["seed"], threads=1)
    if row["setting"].endswith("-steps"):
        own: Any = tagger.learner
        own.steps = own.passes.epochs * math.ceil(documents / own.batch)
    return tagger


def measure(row: dict[str, Any], data: Path) -> dict[str, Any]:
    train, test = corpora(row["corpus"], data)
    tagger = tagger_of(row, len(train))
    run = Run(row["seed"], threads=1)
    start = time.perf_counter()
    cpu = time.process_time()
    tagger.fit(train, run=run)
    result = {**row, "train_s": round(time.perf_counter() - start, 2), "cpu_s": round(time.process_time() - cpu, 2)}
    start = time.process_time()
    scores = tagger.score(test, 100, run=run)
    result["predict_ms"] = round((time.process_time() - start) / len(test) * 1000, 3)
    result["figures"] = figures(scores, test)
    kept = apart(test)
    result["label_texts_in_test"] = len(test) - len(kept)
    result["without_label_texts"] = figures(Scores(scores.ids[kept], scores.values[kept]), test.rows(kept))
    if row["learner"] == RECIPE:
        scores = tagger.learner.score(test, 100, run=run)
        result["inverse-propensity"] = {
            str(strength): figures(InversePropensity(strength=strength).fit(scores, train).rerank(scores, test), test)
            for strength in STRENGTHS
        }
    return result


if __name__ == "__main__":
    run_rows(__doc__ or "", RESULT, "python benchmarks/label_text.py", rows(), measure)
