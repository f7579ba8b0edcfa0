"""GLaS: its weight on documents held out of training, and the best one on test documents.

    python benchmarks/glas.py [--data DIR] [--rows GLOB] [--fresh] [--budget MINUTES]

A row is one (corpus, learner, setting, seed), trained on one core. Networks read words without an LSTM, as those of
benchmarks/tailmix.py; the weight that is best on held-out documents by the mean of PSP@3 and PSP@5 is measured on test
documents beside the plain network, with three seeds. Plain rows that benchmarks/tailmix.py has measured are taken over.
Finished rows stay in benchmarks/results/glas.json.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import tailmix
from common import HELD_OUT, RESULTS, read_json, rows_of, run_rows, source_of
from longtail import Tagger
from longtail.run import Run
from tail import figures
from tailmix import BAG, LEARNERS, PLAIN, SEEDS, corpora

RESULT = RESULTS / "glas.json"
NETWORKS: dict[str, dict[str, Any]] = {
    "vuln-libraries": LEARNERS["vuln-libraries", "bag"],
    "eurlex57k-4k": {"part": "attentionxml", "encoder": {**BAG, "max_length": 128}},
}
WEIGHTS = {f"weight {weight:g}": weight for weight in (1.0, 10.0, 100.0, 1000.0)}


def best(corpus: str, done: dict[str, Any]) -> tuple[str, ...]:
    """The best weight on held-out documents, once all are measured."""
    found = {name: done.get(f"{corpus}{HELD_OUT}/bag/{name}/0") for name in WEIGHTS}
    if not all(found.values()):
        return ()
    worth = {name: row["figures"]["PSP@3"] + row["figures"]["PSP@5"] for name, row in found.items() if row}
    return (max(worth, key=lambda name: worth[name]),)


def rows() -> list[dict[str, Any]]:
    done = {row["row"]: row for row in (read_json(RESULT) or {"rows": []})["rows"]}
    wanted: list[tuple[str, str, tuple[str, ...], tuple[int, ...]]] = []
    for corpus in NETWORKS:
        wanted.append((corpus + HELD_OUT, "bag", (PLAIN, *WEIGHTS), SEEDS[:1]))
        if best(corpus, done):
            wanted.append((corpus, "bag", (PLAIN, *best(corpus, done)), SEEDS))
    return rows_of(wanted)


def tagger_of(row: dict[str, Any]) -> Tagger:
    augment = [] if row["setting"] == PLAIN else [{"part": "glas", "weight": WEIGHTS[row["setting"]]}]
    return Tagger(NETWORKS[source_of(row["corpus"])], augment=augment, seed=row["seed"], threads=1)


def measure(row: dict[str, Any], data: Path) -> dict[str, Any]:
    for known in (read_json(tailmix.RESULT) or {"rows": []})["rows"]:
        if row["setting"] == PLAIN and known["row"] == row["row"]:
            return dict(known)
    train, test = corpora(row["corpus"], data)
    tagger, run = tagger_of(row), Run(row["seed"], threads=1)
    start = time.process_time()
    tagger.fit(train, run=run)
    result = {**row, "train_s": round(time.process_time() - start, 2)}
    for hook in tagger.augment:
        result["statistics"] = hook.state()
    return {**result, "figures": figures(tagger.score(test, 100, run=run), test)}


if __name__ == "__main__":
    run_rows(__doc__ or "", RESULT, "python benchmarks/glas.py", rows(), measure)
