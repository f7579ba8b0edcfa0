"""How strongly label texts are annotated with correlated labels: strengths of Gandalf and LabelMix per kind of learner.

    python benchmarks/label_strength.py [--data DIR] [--rows GLOB] [--fresh]

A row is one (corpus, learner, setting, seed), trained on one core: 85 % of the training titles to learn from, the
others to ask; titles with the same first five words stay together. A corpus called -16k has 16,000 of the former, all
of the latter. Each seed draws other titles. Test documents take no part.

A learner stands for its kind: a label tree (parabel, one tree), a network with a free vector per label (astec), and one
that reads label texts (decaf). Figures are those of labels that a title to learn from has; "unseen" is the recall@5 of
the others, which only rows for all labels can find. Finished rows stay in benchmarks/results/label-strength.json.
"""

from __future__ import annotations

import time
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from common import RESULTS, rows_of, run_rows
from label_text import CORPORA, TREES, folded
from longtail import Corpus, Tagger, read
from longtail.run import Run
from longtail.scores import Scores
from tail import figures

RESULT = RESULTS / "label-strength.json"
SEEDS = (0, 1, 2)
HELD_OUT, SAME_WORDS = 0.15, 5
STRENGTHS = (0.0, 0.1, 0.3, 0.6, 1.0)
#: Kinds of learners, and who stands for each.
KINDS = {"label trees": "parabel-1", "free label vectors": "astec", "label texts": "decaf"}
GRAPHS: dict[str, dict[str, Any]] = {
    "scaled": {"scaled": True},
    "largest": {"divisor": "largest"},
    "scaled-largest": {"scaled": True, "divisor": "largest"},
}
AUGMENT: dict[str, list[dict[str, Any]]] = {
    "plain": [],
    **{f"gandalf-{s:g}": [{"part": "gandalf", "strength": s}] for s in STRENGTHS},
    **{f"labelmix-{s:g}": [{"part": "labelmix", "strength": s}] for s in STRENGTHS},
    **{f"gandalf-1-{name}": [{"part": "gandalf", "strength": 1.0, **graph}] for name, graph in GRAPHS.items()},
    "gandalf-0.3-scaled": [{"part": "gandalf", "strength": 0.3, "scaled": True}],
    "gandalf-0.3-all": [{"part": "gandalf", "strength": 0.3, "all_labels": True}],
    "gandalf-printed": [{"part": "gandalf", "strength": 1.0, "scaled": True, "all_labels": True}],
}
GANDALF = ("plain", *(f"gandalf-{s:g}" for s in STRENGTHS))
LABELMIX = tuple(f"labelmix-{s:g}" for s in STRENGTHS)
FORMS = (*(f"gandalf-1-{name}" for name in GRAPHS), "gandalf-0.3-scaled", "gandalf-0.3-all", "gandalf-printed")
GUTENBERG, EURLEX = CORPORA
SMALL, FEW = "-16k", 16_000
SOME = f"{GUTENBERG}{SMALL}"
TREE, FREE, TEXTS = KINDS.values()
#: What is run, in this order: (corpus, learner, settings, seeds).
WANTED: tuple[tuple[str, str, tuple[str, ...], tuple[int, ...]], ...] = (
    (SOME, TREE, GANDALF, SEEDS),
    *((SOME, learner, GANDALF, (seed,)) for seed in SEEDS[:2] for learner in (FREE, TEXTS)),
    (GUTENBERG, TREE, (*GANDALF, *LABELMIX, *FORMS), SEEDS),
    *((SOME, learner, GANDALF, SEEDS[2:]) for learner in (FREE, TEXTS)),
    *((SOME, learner, (*FORMS, *LABELMIX), SEEDS[:1]) for learner in (FREE, TEXTS)),
    (EURLEX, TREE, GANDALF, SEEDS),
)


def rows() -> list[dict[str, Any]]:
    return rows_of(WANTED)


@lru_cache(maxsize=1)
def whole(name: str, data: Path) -> Corpus:
    folder, field = CORPORA[name]
    return read(data / folder / "train.jsonl.gz", text_field=field, labels=data / folder / "labels.jsonl.gz")


def divided(corpus: Corpus, seed: int) -> tuple[Corpus, Corpus]:
    """Titles to learn from and titles to ask, all of the same labels."""
    groups: dict[str, list[int]] = {}
    for row, text in enumerate(corpus.texts or []):
        groups.setdefault(" ".join(folded(text).split()[:SAME_WORDS]), []).append(row)
    members = list(groups.values())
    drawn = np.random.default_rng(seed).permutation(len(members))
    sizes = np.cumsum([len(members[group]) for group in drawn])
    taken = drawn[: int(np.searchsorted(sizes, HELD_OUT * len(corpus))) + 1]
    asked = np.sort(np.concatenate([members[group] for group in taken]))
    return corpus.rows(np.setdiff1d(np.arange(len(corpus)), asked)).counted(), corpus.rows(asked)


def measure(row: dict[str, Any], data: Path) -> dict[str, Any]:
    few = row["corpus"] == SOME
    train, asked = divided(whole(GUTENBERG if few else row["corpus"], data), row["seed"])
    if few:
        drawn = np.random.default_rng(row["seed"]).permutation(len(train))[:FEW]
        train = train.rows(np.sort(drawn)).counted()
    learner = TREES.get(row["learner"], {"part": row["learner"]})
    tagger = Tagger(learner, augment=AUGMENT[row["setting"]], seed=row["seed"], threads=1)
    run, cpu = Run(row["seed"], threads=1), time.process_time()
    tagger.fit(train, run=run)
    seconds = round(time.process_time() - cpu, 2)
    asked = asked.aligned(train.labels)
    scores = tagger.score(asked, 100, run=run)
    return {
        **row,
        "cpu_s": seconds,
        "figures": figures(scores, asked.without_unseen()),
        "unseen": unseen_recall(scores, asked),
    }


def unseen_recall(scores: Scores, asked: Corpus, k: int = 5) -> float:
    """Per cent of the pairs whose label no title to learn from has that are among the k best."""
    never = asked.labels.frequency == 0
    pairs = asked.Y.tocoo()
    own = never[pairs.col]
    found = (scores.ids[pairs.row[own], :k] == pairs.col[own, None]).any(axis=1)
    return float(100 * found.mean()) if len(found) else 0.0


if __name__ == "__main__":
    run_rows(__doc__ or "", RESULT, "python benchmarks/label_strength.py", rows(), measure)
