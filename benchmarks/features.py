"""What features are worth: TF-IDF, means of word vectors, a frozen encoder, and these side by side.

    python benchmarks/features.py [--data DIR] [--rows GLOB] [--fresh]

Rows named held-out train on four fifths of the training documents and count on the fifth: choices are made there. Rows
named test train on all of them. Finished rows are kept in benchmarks/results/features.json, so an interrupted run goes
on where it stopped. The encoder goes over each document once, on one thread, and what it gives is kept as vectors by
document id, the form that dense.file reads.
"""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from common import RESULTS, WORK, run_rows
from longtail import Tagger, read
from longtail.corpus import Corpus
from longtail.features.pretrained import MeanPooled, encoder_folder
from longtail.keep.files import atomic_file
from longtail.run import Run
from subset import chosen

RESULT = RESULTS / "features.json"
#: Documents taken of the training and the test part.
CORPORA: dict[str, tuple[str, int, int]] = {
    "vuln-libraries-3k": ("vuln-libraries", 3000, 1000),
    "eurlex57k-4k": ("eurlex57k", 4000, 1000),
}
#: Word pieces the encoder reads; half of its 256, for the sake of time.
MAX_LENGTH = 128
#: Documents the encoder goes over between two points where an interrupted run goes on.
CHUNK = 250
WORDS = {"part": "dense", "source": "words", "removed": 0}
ENCODER = {"part": "dense", "source": "file", "removed": 0}
SETTINGS: dict[str, Any] = {
    "tfidf": "tfidf",
    "words": WORDS,
    "words, 1 removed": {**WORDS, "removed": 1},
    "words, 3 removed": {**WORDS, "removed": 3},
    "encoder": ENCODER,
    "encoder, 1 removed": {**ENCODER, "removed": 1},
    "tfidf + words": {"part": "join", "parts": ["tfidf", {**WORDS, "removed": 1}]},
    "tfidf + words / 4": {"part": "join", "parts": ["tfidf", {**WORDS, "removed": 1}], "weights": [1.0, 0.25]},
    "tfidf + encoder": {"part": "join", "parts": ["tfidf", ENCODER]},
    "tfidf + encoder / 2": {"part": "join", "parts": ["tfidf", ENCODER], "weights": [1.0, 0.5]},
    "tfidf + encoder, 1 removed / 2": {
        "part": "join",
        "parts": ["tfidf", {**ENCODER, "removed": 1}],
        "weights": [1.0, 0.5],
    },
    "tfidf + encoder / 4": {"part": "join", "parts": ["tfidf", ENCODER], "weights": [1.0, 0.25]},
}
FIGURES = ("P@1", "P@5", "PSP@1", "PSP@5")
#: Settings that are also measured on test documents: the best of each kind on held-out ones, and what they are beside.
TEST = ("tfidf", "words, 1 removed", "encoder, 1 removed", "tfidf + words / 4", "tfidf + encoder / 2")


def rows() -> list[dict[str, Any]]:
    wanted = [(corpus, "held-out", "bonsai", setting, 0) for setting in SETTINGS for corpus in CORPORA]
    wanted += [
        (corpus, "test", learner, setting, seed)
        for learner, seeds in (("bonsai", (0, 1, 2)), ("one-vs-all", (0,)))
        for seed in seeds
        for setting in TEST
        for corpus in CORPORA
    ]
    names = ("corpus", "on", "learner", "setting", "seed")
    return [{"row": "/".join(map(str, row)), **dict(zip(names, row, strict=True))} for row in wanted]


@cache
def documents(name: str, part: str, data: Path) -> Corpus:
    folder, *most = CORPORA[name]
    corpus = read(data / folder / f"{part}.jsonl.gz")
    return corpus.rows(chosen(len(corpus), most[part == "test"], 0))


@cache
def encoded(name: str, part: str, data: Path) -> str:
    """The folder of the encoder's vectors, where those of a part of a corpus are made if they are not there."""
    folder = WORK / "features" / f"{name}-{MAX_LENGTH}"
    folder.mkdir(parents=True, exist_ok=True)
    encoder = MeanPooled(encoder_folder("all-minilm-l6-v2", download=False), MAX_LENGTH)
    corpus = documents(name, part, data)
    for start in range(0, len(corpus), CHUNK):
        path = folder / f"{part}-{start}.npz"
        if not path.exists():
            some = corpus.rows(np.arange(start, min(start + CHUNK, len(corpus))))
            vectors = encoder.vectors(some.texts or [], 16, Run(threads=1))
            with atomic_file(path) as handle:
                np.savez(handle, ids=np.array(some.ids, dtype=str), vectors=vectors)
    return str(folder)


def with_file(features: Any, file: str) -> Any:
    """The configuration with the encoder's vectors filled in."""
    if isinstance(features, list):
        return [with_file(part, file) for part in features]
    if not isinstance(features, dict):
        return features
    filled = {name: with_file(value, file) if name == "parts" else value for name, value in features.items()}
    return {**filled, "file": file} if features.get("source") == "file" else filled


def measure(row: dict[str, Any], data: Path) -> dict[str, Any]:
    train = documents(row["corpus"], "train", data)
    if row["on"] == "test":
        test = documents(row["corpus"], "test", data)
    else:
        train, test = train.split(0.2, np.random.default_rng(0))
    features = SETTINGS[row["setting"]]
    if "encoder" in row["setting"]:
        features = with_file(features, encoded(row["corpus"], "train", data))
        if row["on"] == "test":
            encoded(row["corpus"], "test", data)
    tagger = Tagger(row["learner"], features=features, seed=row["seed"], threads=1)
    start = time.perf_counter()
    tagger.fit(train.counted())
    seconds = round(time.perf_counter() - start, 1)
    report = tagger.evaluate(test, ks=(1, 5)).to_dict()
    return {**row, "seconds": seconds, "figures": {name: report[name] for name in FIGURES}}


if __name__ == "__main__":
    run_rows(__doc__ or "", RESULT, "python benchmarks/features.py", rows(), measure)
