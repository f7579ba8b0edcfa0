"""LSFA on 20,000 labels and 100,000 documents: all phases, in a process of its own that holds less than 4 GB."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytest.importorskip("torch")
pytest.importorskip("lightning")

#: Few steps: what is held does not grow with more. The contrastive loss acts from the first on.
PROGRAM = """
import json, resource
from longtail import Tagger
from longtail.data.synthetic import synthetic
from longtail.run import Run

corpus = synthetic(documents=100_000, labels=20_000, words_per_document=20, texts=True)
learner = {"part": "attentionxml", "steps": 40, "retune_epochs": 1, "batch": 128}
augment = {"part": "lsfa", "contrastive": {"part": "contrastive", "start": 0.0}, "epochs": 2}
tagger, run = Tagger(learner, augment=[augment], threads=1), Run(threads=1)
planned = tagger.plan(corpus).peak
tagger.fit(corpus, run=run)
part = tagger.augment[0]
print(json.dumps({
    "peak": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    "planned": planned,
    "seconds": {name: round(taken, 1) for name, taken in run.seconds.items()},
    "pairs": part.contrastive.pairs_,
    "prototypes": list(part.prototypes_.shape),
    "checks": part.checks_,
}))
"""


@pytest.mark.slow
def test_twenty_thousand_labels() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    print(json.dumps(found))  # shown by pytest -s
    assert found["peak"] < 4_000_000_000, found
    assert found["pairs"] > 0 and found["prototypes"][0] == 20_000
    assert {"train", "features", "pvae", "retune"} <= {*found["seconds"]}, found
