"""Which labels LongtailClassifier predicts: micro-averaged F1 of a chosen threshold, fixed ones, and the k best.

    python benchmarks/decision_rule.py [--data DIR] [--rows GLOB] [--fresh]

A row is one (corpus, learner, setting, seed): 12,000 training documents, of which a fifth is held out and asked; the
threshold is chosen within the others. Test documents take no part. Finished rows stay in results/decision-rule.json.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from common import RESULTS, rows_of, run_rows
from longtail import LongtailClassifier, read

RESULT = RESULTS / "decision-rule.json"
CORPORA = ("vuln-libraries", "gutenberg-lcsh-titles", "eurlex57k", "germeval-gnd")
LEARNERS = ("bonsai", "one-vs-all")
DOCUMENTS, SHARE = 12_000, 0.2
THRESHOLDS = (0.1, 0.2, 0.5)
BEST = (1, 2, 3, 5)


def measure(row: dict[str, Any], data: Path) -> dict[str, Any]:
    rng = np.random.default_rng(row["seed"])
    corpus = read(data / row["corpus"] / "train.jsonl.gz")
    corpus = corpus.rows(np.sort(rng.permutation(len(corpus))[:DOCUMENTS]))
    train, asked = corpus.split(SHARE, rng)
    classifier = LongtailClassifier(row["learner"], seed=row["seed"], threads=1).fit(train.texts, train.Y.astype(bool))
    truth = asked.Y.astype(bool)
    figures = {"chosen": classifier.score(asked.texts, truth), "threshold": classifier.threshold_}
    for threshold in THRESHOLDS:
        figures[f"{threshold}"] = classifier.set_params(threshold=threshold).score(asked.texts, truth)
    for k in BEST:
        figures[f"best {k}"] = classifier.set_params(threshold=0.0, k=k).score(asked.texts, truth)
    return {**row, "figures": {name: float(value) for name, value in figures.items()}}


if __name__ == "__main__":
    wanted = [(corpus, learner, ("plain",), (0, 1, 2)) for corpus in CORPORA for learner in LEARNERS
              if learner == "bonsai" or corpus in CORPORA[:2]]  # fmt: skip
    run_rows(__doc__, RESULT, "python benchmarks/decision_rule.py", rows_of(wanted), measure)
