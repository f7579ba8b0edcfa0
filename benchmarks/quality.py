"""From raw text to figures by two commands, `longtail train` and `longtail evaluate`, over corpora, recipes and seeds.

    python benchmarks/quality.py [--data DIR] [--rows GLOB] [--fresh]

Every row is one model. Finished rows are kept in benchmarks/results/quality.json, so an interrupted run goes on where
it stopped. Figures are of the test split; `render_quality.CHOICES` says how the defaults behind them were chosen.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from common import RESULTS, run_rows

RESULT = RESULTS / "quality.json"
SEEDS = (0, 1, 2)
CORPORA = {
    "eurlex57k": ("train.jsonl.gz", "test.jsonl.gz"),
    "gutenberg-lcsh-titles": ("train.jsonl.gz", "test.jsonl.gz"),
    "citeulike-t": ("train.jsonl.gz", "test.jsonl.gz"),
    "citeulike-t.svm": ("train.svm.gz", "test.svm.gz"),
}
#: Name in the results -> the recipe and its settings.
RECIPES = {
    "parabel-1": ("parabel", "--set", "learner.trees=1"),
    "parabel": ("parabel",),
    "bonsai-1": ("bonsai", "--set", "learner.trees=1"),
    "bonsai": ("bonsai",),
}
#: Rows of which the published protocol, with all labels counted, is asked as well.
ALL_LABELS = "eurlex57k"


def rows() -> list[dict[str, Any]]:
    return [
        {"row": f"{corpus}/{recipe}/{seed}", "corpus": corpus, "recipe": recipe, "seed": seed}
        for corpus in CORPORA
        for recipe in RECIPES
        for seed in (SEEDS if not corpus.endswith(".svm") else SEEDS[:1])
    ]


def longtail(*arguments: str | Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "longtail", *map(str, arguments), "--json", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def measure(row: dict[str, Any], data: Path) -> dict[str, Any]:
    """Trains and evaluates one row in a folder of its own."""
    train, test = (data / row["corpus"].removesuffix(".svm") / name for name in CORPORA[row["corpus"]])
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model"
        trained = longtail("train", train, "-o", model, "--seed", str(row["seed"]), "--recipe", *RECIPES[row["recipe"]])
        figures = longtail("evaluate", model, test)
        every = longtail("evaluate", model, test, "--all-labels") if row["corpus"] == ALL_LABELS else None
    return {**row, "train": trained, "figures": figures, "all_labels": every}


if __name__ == "__main__":
    run_rows(__doc__ or "", RESULT, "python benchmarks/quality.py", rows(), measure)
