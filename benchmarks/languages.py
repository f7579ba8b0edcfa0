"""What the analysis of languages is worth: stems, compounds, the language told per document; and what it costs.

    python benchmarks/languages.py [--data DIR] [--rows GLOB] [--fresh]

Rows train on some of the training documents of a corpus, drawn by the row's seed, and count on others of them: defaults
are chosen there, and no test document is read. Rows named detect count how often the language of a document is told
rightly, by its full text and by its title. Finished rows are kept in benchmarks/results/languages.json, so an
interrupted run goes on where it stopped.
"""

from __future__ import annotations

import gzip
import json
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from common import RESULTS, run_rows
from longtail import Tagger, read
from longtail.corpus import Corpus
from longtail.features.analyser import Analyser, plain_words
from longtail.features.languages import languages_of, told_apart
from longtail.run import Run

RESULT = RESULTS / "languages.json"
#: Training documents to fit on; a quarter of that many are counted on.
CORPORA = {"germeval-gnd": 20_000, "eurlex57k": 12_000, "gutenberg-lcsh-titles": 40_000, "vuln-libraries": 4_800}
#: The same for networks, which read titles.
TITLES = {"germeval-gnd": 12_000, "gutenberg-lcsh-titles": 12_000, "eurlex57k": 12_000}
SETTINGS: dict[str, dict[str, Any]] = {
    "none": {"language": "none"},
    "auto": {"language": "auto"},
    "auto, compounds whole": {"language": "auto", "compounds": False},
    "en": {"language": "en"},
    "de": {"language": "de"},
    "none, word pairs": {"language": "none", "ngrams": 2, "min_df": 2},
    "auto, word pairs": {"language": "auto", "ngrams": 2, "min_df": 2},
    "none, 18 hash bits": {"language": "none", "hash_bits": 18},
    "auto, 18 hash bits": {"language": "auto", "hash_bits": 18},
}
FIGURES = ("P@1", "P@5", "R@5", "nDCG@5", "PSP@1", "PSP@5")
SEEDS = (0, 1, 2)


def rows() -> list[dict[str, Any]]:
    wanted = [
        (corpus, "bonsai", setting, seed)
        for corpus in CORPORA
        for seed in SEEDS
        for setting in (SETTINGS if corpus == "germeval-gnd" else ("none", "auto", "en"))
    ]
    wanted += [
        (corpus, "decaf", setting, seed)
        for corpus in TITLES
        for seed in SEEDS
        for setting in ("none", "auto", *(() if corpus == "germeval-gnd" else ("en",)))
    ]
    wanted.append(("germeval-gnd", "none", "detect", 0))
    names = ("corpus", "learner", "setting", "seed")
    return [{"row": "/".join(map(str, row)), **dict(zip(names, row, strict=True))} for row in wanted]


@cache
def documents(name: str, field: str, data: Path) -> Corpus:
    return read(data / name / "train.jsonl.gz", labels=data / name / "labels.jsonl.gz", text_field=field)


def drawn(name: str, seed: int, data: Path, *, titles: bool = False) -> tuple[Corpus, Corpus]:
    """Documents to fit on and to count on, all of them training documents."""
    corpus = documents(name, "title" if titles and name != "gutenberg-lcsh-titles" else "text", data)
    most = (TITLES if titles else CORPORA)[name]
    order = np.random.default_rng(seed).permutation(len(corpus))[: most + most // 4]
    return corpus.rows(np.sort(order[:most])).counted(), corpus.rows(np.sort(order[most:]))


def measure(row: dict[str, Any], data: Path) -> dict[str, Any]:
    if row["setting"] == "detect":
        return {**row, "figures": detected(data / row["corpus"] / "train.jsonl.gz")}
    network = row["learner"] == "decaf"
    train, held_out = drawn(row["corpus"], row["seed"], data, titles=network)
    run, options = Run(seed=row["seed"], threads=2), SETTINGS[row["setting"]]
    if network:
        learner, features = {"part": "decaf", "encoder": {"part": "weighted-bag", **options}}, "auto"
    else:
        learner, features = {"part": "bonsai", "trees": 1}, {"part": "tfidf", **options}
    tagger = Tagger(learner, features=features, seed=row["seed"], threads=2)
    tagger.fit(train, run=run)
    report = tagger.evaluate(held_out, ks=(1, 5)).to_dict()
    seconds = {name: round(spent, 2) for name, spent in run.seconds.items()}
    return {**row, "seconds": seconds, "figures": {m: report[m] for m in FIGURES}}


def detected(path: Path) -> dict[str, Any]:
    """Shares of documents whose language is told rightly, among those of the corpus and among all that are known."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    truth = np.array([record["lang"] for record in records])
    found: dict[str, Any] = {}
    for field in ("text", "title"):
        texts = [record[field] for record in records]
        start = time.perf_counter()
        words = plain_words(texts)
        middle = time.perf_counter()
        for name, languages in (("of the corpus", ("de", "en")), ("of all", told_apart())):
            told = np.array(languages)[languages_of(words, languages)]
            found[f"{field}, {name}"] = round(100 * float((told == truth).mean()), 2)
            found[f"{field}, {name}, none told"] = round(100 * float((told == "und").mean()), 2)
        languages_of(words, ("de", "en"))
        found[f"{field}, microseconds per document to find its words"] = round(1e6 * (middle - start) / len(texts), 2)
        start = time.perf_counter()
        languages_of(words, ("de", "en"))
        found[f"{field}, microseconds per document to tell"] = round(
            1e6 * (time.perf_counter() - start) / len(texts), 3
        )
    fitted = Analyser.fitted("auto", [record["text"] for record in records])
    found["languages of the corpus"] = " ".join(fitted.languages) if fitted else ""
    found["share of de"] = round(100 * float((truth == "de").mean()), 2)
    return found


if __name__ == "__main__":
    run_rows(__doc__ or "", RESULT, "python benchmarks/languages.py", rows(), measure)
