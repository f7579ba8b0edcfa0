"""Rows of the RankNet paper's tables 4 and 6 that benchmarks/tail.py has not: ProXML, and Taug on dense features.

    python benchmarks/tail_rivals.py [--data DIR] [--rows GLOB] [--fresh]

A row is one (corpus, learner, setting, seed), on one core. Table 6 is Taug on and off, on bags of words, on means of
word vectors (GloVe), and on both side by side: "words taug-d" is Taug with input dropout on word vectors. Settings
are those of the rows of benchmarks/papers/ranknet-taug.toml; nothing is chosen on test documents. ProXML stands
beside one-vs-all with passes enough to reach its eps; their rows also tell how many weights are left. Finished rows
stay in benchmarks/results/tail-rivals.json.
"""

from __future__ import annotations

import time
from functools import lru_cache
from pathlib import Path
from typing import Any

from common import RESULTS, rows_of, run_rows
from longtail import Corpus, Tagger, read
from longtail.run import Run
from tail import figures

RESULT = RESULTS / "tail-rivals.json"
SEEDS = (0, 1, 2)
CORPORA = ("vuln-libraries", "eurlex57k")
WORDS = {"part": "dense", "source": "words"}
FEATURES: dict[str, Any] = {
    "tfidf": "tfidf",
    "words": WORDS,
    "both": {"part": "join", "parts": ["tfidf", WORDS], "weights": [1.0, 0.25]},
}
DROPOUT, SWAP = {"part": "input-dropout", "n_aug": 4, "tau": 0.1}, {"part": "input-swap", "n_aug": 4, "tau": 0.1}
#: name -> whether head and tail are apart, and the noise
TAUG: dict[str, tuple[bool, list[dict[str, Any]]]] = {
    "plain": (False, []),
    "decoupled": (True, []),
    "taug-d": (True, [DROPOUT]),
    "taug-s": (True, [SWAP]),
    "taug-ds": (True, [DROPOUT, SWAP]),
}
LEARNERS: dict[str, dict[str, Any]] = {
    "bonsai-1": {"part": "bonsai", "trees": 1},
    "proxml": {"part": "proxml"},
    "one-vs-all": {"part": "one-vs-all", "max_passes": 200},
}
#: What is run, in this order: (corpus, learner, settings, seeds).
WANTED: tuple[tuple[str, str, tuple[str, ...], tuple[int, ...]], ...] = (
    *(("vuln-libraries", learner, ("tfidf plain",), SEEDS) for learner in ("proxml", "one-vs-all")),
    *((corpus, "bonsai-1", tuple(f"{kind} {setting}" for kind in FEATURES for setting in TAUG), SEEDS)
      for corpus in CORPORA),
    *(("eurlex57k", learner, ("tfidf plain",), SEEDS[:1]) for learner in ("one-vs-all", "proxml")),
)  # fmt: skip


def rows() -> list[dict[str, Any]]:
    return rows_of(WANTED)


@lru_cache(maxsize=1)
def corpora(name: str, data: Path) -> tuple[Corpus, Corpus]:
    """Train and test; only labels that a training document has are counted, as in benchmarks/tail.py."""
    train, test = (read(data / name / f"{part}.jsonl.gz") for part in ("train", "test"))
    return train, test.aligned(train.labels)


def tagger_of(row: dict[str, Any]) -> Tagger:
    kind, setting = row["setting"].split()
    apart, noise = TAUG[setting]
    learner = LEARNERS[row["learner"]]
    if apart:
        learner = {"part": "decoupled", "tau": 0.1, "gate": 0.0, "learner": learner}
    return Tagger(learner, features=FEATURES[kind], augment=noise, seed=row["seed"], threads=1)


def measure(row: dict[str, Any], data: Path) -> dict[str, Any]:
    train, test = corpora(row["corpus"], data)
    tagger, run = tagger_of(row), Run(row["seed"], threads=1)
    start = time.process_time()
    tagger.fit(train, run=run)
    result = {**row, "cpu_s": round(time.process_time() - start, 2)}
    if row["learner"] != "bonsai-1":
        learner: Any = tagger.learner
        result["weights_per_label"] = round(sum(len(tree.weight) for tree in learner.trees_) / train.n_labels, 1)
    return {**result, "figures": figures(tagger.score(test, 100, run=run), test)}


if __name__ == "__main__":
    run_rows(__doc__ or "", RESULT, "python benchmarks/tail_rivals.py", rows(), measure)
