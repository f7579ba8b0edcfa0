"""Rows of XDA: ablations and controls on test documents, the search for settings on held-out ones, texts to look at.

    python benchmarks/papers.py xda [--data DIR] [--rows GLOB] [--fresh]
    python benchmarks/papers.py xda --texts [--data DIR]     twenty generated texts of vuln-libraries, as a table

A row is one (corpus, learner, setting, seed), on one core. Rows of one seed that have the first stage in common train
it once: it is kept under benchmarks/.work/xda. LightXML's first stage is that of seed 0 in all rows; the seed is that
of generator and second stage, and frozen layers read each text once (benchmarks/frozen_states.py). Recipes, which have
no second stage, are trained once, on documents and on the copies that bonsai judged. Corpora named -held-out are 80 %
of the training documents to train on and 20 % to measure on, drawn by the seed: settings are chosen there, never on
test documents. Finished rows stay in benchmarks/results/xda.json.
"""

from __future__ import annotations

import argparse
import sys
import time
import tomllib
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import neural_tail
import papers
from common import HELD_OUT, RESULTS, WORK, carved, data_folder, rows_of, run_rows, source_of
from frozen_states import keep_states
from longtail import Corpus, Tagger
from longtail.augment.xda.part import Xda
from longtail.fit import Fit
from longtail.recipe import Recipe
from longtail.registry import build, name_of
from longtail.run import Run
from tail import figures

RESULT = RESULTS / "xda.json"
SEEDS = (0, 1, 2)
CORPORA = neural_tail.CORPORA
SHARE = 0.2  # of the training documents, held out
#: What is changed in LightXML, one at a time.
CHANGED = ("first", "scale", "64", "random", "all")
LEARNERS: dict[str, dict[str, Any]] = {
    "bonsai": {"part": "bonsai"},
    "one-vs-all": {"part": "one-vs-all"},
    "lightxml": papers.find("lightxml-frozen").learner,
    **{f"lightxml-frozen-{what}": papers.find(f"lightxml-frozen-{what}").learner for what in CHANGED},
}
#: Recipes that are trained on XDA's masked corpus.
RECIPES = ("label-trees", "label-text")
#: Settings of the tables: rows of benchmarks/papers/xda.toml; "plain" is the learner alone.
TABLE = ("xda", "xda-no-filter", "xda-no-mask", "xda-no-labels")
CONTROLS = ("xda-retuned", "xda-duplicates", "xda-duplicates-masked")
#: The rows xda-local and xda-no-prompt with four minutes for the generator in place of twenty, and as many copies as
#: the filter leaves: beside xda-no-filter.
BRIEF: dict[str, Any] = {"part": "local", "minutes": 4}
NETWORKS: dict[str, dict[str, Any]] = {
    "xda-local-brief": {"filter": False, "copies": 2, "generator": BRIEF},
    "xda-no-prompt-brief": {"filter": False, "copies": 2, "generator": {**BRIEF, "prompt": False}},
}
#: Settings searched on held-out documents: what differs from the defaults of xda, or what stands in its place.
SEARCHED: dict[str, dict[str, Any]] = {
    **{f"nt-{count}": {"rarest": count} for count in (10, 20, 50)},
    **{f"keep-{share:g}": {"keep": share} for share in (0.25, 0.75)},
    **{f"copies-{count}": {"copies": count} for count in (8, 16)},
    **{
        f"duplicates-masked-{count}": {"part": "retune", "rows": "duplicates", "copies": count, "mask": True}
        for count in (4, 8)
    },
    **{f"smoothing-{value:g}": {"smoothing": value} for value in (1e-12, 0.5)},
    **{f"share-{share:g}": {"generator": {"part": "words", "share": share}} for share in (0.3, 0.5)},
    "per-all": {"per": "all"},
    "all-documents": {"documents": "all"},
    "class-weights": {"class_weights": True},
}
#: The best settings on held-out documents of both corpora, measured on test documents as well.
FINALISTS = ("copies-8",)
#: What is run, in this order: (corpus, learner, settings, seeds).
WANTED: tuple[tuple[str, str, tuple[str, ...], tuple[int, ...]], ...] = (
    *((corpus + HELD_OUT, "bonsai", ("plain", *TABLE, *CONTROLS, *SEARCHED), SEEDS) for corpus in CORPORA),
    *((corpus + HELD_OUT, learner, ("plain",), SEEDS[:1]) for corpus in CORPORA[:1] for learner in LEARNERS),
    *((corpus, "one-vs-all", ("plain",), SEEDS[:1]) for corpus in CORPORA),
    *((corpus, "bonsai", ("plain", *TABLE, *CONTROLS, *FINALISTS), SEEDS) for corpus in CORPORA),
    (CORPORA[0], "lightxml", ("plain", *TABLE, *CONTROLS), SEEDS),
    (CORPORA[1], "lightxml", ("plain", "xda", "xda-no-mask", *CONTROLS), SEEDS),
    *((corpus, recipe, ("plain", "xda"), SEEDS) for corpus in CORPORA for recipe in RECIPES),
    ("vuln-libraries", "bonsai", tuple(NETWORKS), SEEDS[:1]),
    ("vuln-libraries", "bonsai", ("xda-local-brief",), SEEDS),
)


def rows() -> list[dict[str, Any]]:
    return rows_of(WANTED)


@lru_cache(maxsize=len(SEEDS))
def corpora(name: str, seed: int, data: Path) -> tuple[Corpus, Corpus]:
    """What to train on and what to measure on; only labels that a training document has are counted."""
    train, test = neural_tail.corpora(source_of(name), data)
    return carved(train, SHARE, seed) if name.endswith(HELD_OUT) else (train, test)


def tagger_of(row: dict[str, Any]) -> Tagger:
    setting = row["setting"]
    if row["learner"] in RECIPES:
        recipe = Recipe.find(row["learner"])
        return Tagger(recipe.learner, augment=recipe.augment, seed=row["seed"], threads=1)
    if setting == "plain":
        augment: list[Any] = []
    elif setting in SEARCHED | NETWORKS:
        augment = [{"part": "xda", **(SEARCHED | NETWORKS)[setting]}]
    else:
        augment = list(papers.find(setting).augment)
    return Tagger(LEARNERS[row["learner"]], augment=augment, seed=row["seed"], threads=1)


def measure(row: dict[str, Any], data: Path) -> dict[str, Any]:
    train, test = corpora(row["corpus"], row["seed"], data)
    if row["learner"].startswith("lightxml"):
        keep_states()
        return measure_stages(row, train, test)
    tagger = tagger_of(row)
    run = Run(row["seed"], threads=1, checkpoints=WORK / "xda" / f"{row['corpus']}-{row['learner']}-{row['seed']}")
    start = time.perf_counter()
    if row["learner"] in RECIPES and row["setting"] != "plain":
        train = masked_corpus(train, run)
    tagger.fit(train, run=run)
    result = {**row, "train_s": round(time.perf_counter() - start, 2)}
    result["seconds"] = {name: round(taken, 2) for name, taken in run.seconds.items()}
    for part in tagger.augment:
        result["statistics"] = getattr(part, "statistics_", None)
    result["figures"] = figures(tagger.score(test, 100, run=run), test)
    return result


def measure_stages(row: dict[str, Any], train: Corpus, test: Corpus) -> dict[str, Any]:
    """A network's row: the first stage, of seed 0, from where it is kept, and the second with the row's seed."""
    tagger = tagger_of(row)
    folder = WORK / "xda" / f"{row['corpus']}-{row['learner']}"
    run, first = Run(row["seed"], threads=1), Run(0, threads=1, checkpoints=folder)
    begun = time.perf_counter()
    learner = Fit(first).train(tagger.pipeline.learner, train)
    result = {**row, "first_s": round(time.perf_counter() - begun, 2)}
    for part in tagger.augment:
        fit = Fit(replace(run, checkpoints=folder))
        made = part.judged(train, learner, fit.child(name_of(part)))
        with run.stage("retune"):
            learner.retune(replace(made.corpus, labels=train.labels), Fit(run).child("second stage/0").apart())
        result["statistics"] = getattr(part, "statistics_", None)
    result["train_s"] = round(time.perf_counter() - begun, 2)
    result["seconds"] = {name: round(taken, 2) for name, taken in (first.seconds | run.seconds).items()}
    result["figures"] = figures(learner.score(test, 100, run=run), test)
    return result


def masked_corpus(corpus: Corpus, run: Run) -> Corpus:
    """Documents, and the copies that bonsai judged behind them, frequent labels masked."""
    part = build("xda")
    assert isinstance(part, Xda)
    judge = Tagger("bonsai", seed=run.seed, threads=1).fit(corpus)
    return part.made(corpus, judge, Fit(run)).added_to(corpus)


def published() -> dict[str, dict[str, Any]]:
    """Figures of the paper's table 2 as printed, by method: {"title": ..., corpus: figures}."""
    file = next(file for file in papers.FILES if file.stem == "xda")
    found: dict[str, dict[str, Any]] = tomllib.loads(file.read_text(encoding="utf-8"))["published"]
    return found


def texts(data: Path, count: int = 20) -> str:
    """Generated texts, drawn by seed: the label, and which words of the source became which."""
    corpus, _ = corpora("vuln-libraries", 0, data)
    part = build("xda")
    assert isinstance(part, Xda)
    made = part.made(corpus, Tagger("bonsai", threads=1).fit(corpus), Fit(Run(threads=1)))
    lines = ["| rare labels | words before → after | in common |", "|---|---|--:|"]
    assert corpus.texts is not None
    for at in np.sort(np.random.default_rng(0).permutation(len(made))[:count]):
        source, text = corpus.texts[made.rows[at]].split(), made.texts[at].split()
        changed = [f"{a} → {b}" for a, b in zip(source, text, strict=True) if a != b]
        pairs = slice(made.corpus.Y.indptr[at], made.corpus.Y.indptr[at + 1])
        own = made.corpus.Y.indices[pairs]
        rare = own if made.pair_weight is None else own[made.pair_weight[pairs] > 0]
        names = ", ".join(made.corpus.labels.title(label) for label in rare)
        lines.append(f"| {names} | {', '.join(changed[:6])} | {1 - len(changed) / max(1, len(source)):.0%} |")
    return "\n".join(lines)


def main() -> None:
    if "--texts" in sys.argv:
        parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--texts", action="store_true")
        parser.add_argument("--data", type=Path)
        print(texts(data_folder(parser.parse_args().data)))
        return
    run_rows(__doc__ or "", RESULT, "python benchmarks/papers.py xda", rows(), measure)
