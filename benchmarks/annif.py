"""`longtail train` by default and without a network, beside Annif's Bonsai and omikuji's, from texts to label names.

    python benchmarks/annif.py [--data DIR] [--rows GLOB] [--fresh]

All are trained on the same documents, one after the other, and tested on the same. Annif and omikuji live in a venv of
their own, benchmarks/.peers/annif. Annif's Bonsai is that of its wiki (cluster_balanced=False, cluster_k=100,
max_depth=3) with its Snowball analyser; training is timed as a user waits for it, from the start of `annif train` or
`longtail train` to its end. omikuji has no command for texts: scikit-learn's TF-IDF and the training are timed, but
neither its start nor the file that it reads. Finished rows stay in benchmarks/results/annif.json; --fresh measures all
of them in one run.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import common
import indexing
from longtail import Corpus, Tagger, read
from longtail.run import available_cores
from longtail.scores import Scores
from peers_systems import WORKERS, System, interpreter

RESULT = common.RESULTS / "annif.json"
PEERS = common.HERE / ".peers"
#: Corpus -> the split to test on, and the language of the stems. Short ones first.
CORPORA = {
    "vuln-libraries": ("test", "english"),
    "gutenberg-lcsh-titles": ("test", "english"),
    "germeval-gnd": ("valid", "german"),
}
ANNIF, OMIKUJI, DEFAULT = "annif bonsai, snowball", "omikuji bonsai", "longtail train"
#: Without a network: what a user takes who would rather wait for seconds.
TREES = "longtail train --recipe label-trees"
PROJECT = """[bonsai]
name=Bonsai
language={short}
backend=omikuji
analyzer=snowball({language})
vocab=labels
limit={k}
cluster_balanced=False
cluster_k=100
max_depth=3
"""


def rows() -> list[dict[str, Any]]:
    return [
        {"row": f"{corpus}/{system}", "corpus": corpus, "system": system}
        for corpus in CORPORA
        for system in (DEFAULT, TREES, ANNIF, OMIKUJI)
    ]


@lru_cache(maxsize=1)
def corpora(name: str, data: Path) -> tuple[Corpus, Corpus]:
    """Train and test; labels that only test documents have stand behind those of training."""
    texts = data / name / "labels.jsonl.gz"
    train = read(data / name / "train.jsonl.gz", labels=texts).counted()
    test = read(data / name / f"{CORPORA[name][0]}.jsonl.gz", labels=texts)
    return train, test.aligned(train.labels, keep_unknown=True)


def folder_of(name: str, data: Path) -> Path:
    """A folder with the documents and labels as Annif reads them; a label's URI ends in the number of its column."""
    folder = common.WORK / "annif" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    train, test = corpora(name, data)
    labels = train.labels
    uris = [f"<http://label/{column}>" for column in range(len(labels))]
    vocabulary = [f"{uri}\t{_line(labels.text(column)) or uri}" for column, uri in enumerate(uris)]
    (folder / "vocabulary.tsv").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
    Y = train.positives()
    with (folder / "train.tsv").open("w", encoding="utf-8") as out:
        for row, text in enumerate(train.texts or []):
            out.write(f"{_line(text)}\t{' '.join(uris[c] for c in Y.indices[Y.indptr[row] : Y.indptr[row + 1]])}\n")
    with (folder / "test.txt").open("w", encoding="utf-8") as out:
        out.writelines(f"{_line(text)}\n" for text in test.texts or [])
    return folder


def _line(text: str) -> str:
    return " ".join(text.split())


def measure(row: dict[str, Any], data: Path) -> dict[str, Any]:
    train, test = corpora(row["corpus"], data)
    folder = folder_of(row["corpus"], data)
    how = {ANNIF: annif, OMIKUJI: omikuji, DEFAULT: longtail, TREES: partial(longtail, recipe="label-trees")}[
        row["system"]
    ]
    scores, report = how(row["corpus"], folder, data, test)
    shutil.rmtree(folder)
    return {**row, "train_documents": len(train), "test_documents": len(test), **report,
            "figures": indexing.figures(scores, test)}  # fmt: skip


def annif(name: str, folder: Path, data: Path, test: Corpus) -> tuple[Scores, dict[str, Any]]:
    python = interpreter(System("annif", "annif"), PEERS)
    command, language = str(python.with_name("annif")), CORPORA[name][1]
    (folder / "projects.cfg").write_text(
        PROJECT.format(language=language, short=language[:2], k=indexing.DEPTH), encoding="utf-8"
    )
    environment = {
        "ANNIF_PROJECTS": str(folder / "projects.cfg"),
        "ANNIF_DATADIR": str(folder / "annif-data"),
        "NLTK_DATA": str(folder / "nltk"),
    }
    worker, train = [str(python), str(WORKERS / "run_annif.py")], str(folder / "train.tsv")
    _run([*worker, "punkt", train, language, str(folder / "nltk")], environment)
    vocabulary = str(folder / "vocabulary.tsv")
    _run([command, "load-vocab", "labels", vocabulary, "--language", language[:2]], environment)
    report = timed([command, "train", "bonsai", train, "--jobs", str(available_cores())], environment, folder)
    top = folder / "top.npz"
    _run([*worker, "suggest", "bonsai", str(folder / "test.txt"), str(top), str(indexing.DEPTH)], environment)
    return _scores(top), report


def omikuji(name: str, folder: Path, data: Path, test: Corpus) -> tuple[Scores, dict[str, Any]]:
    python = interpreter(System("annif", "annif"), PEERS)
    top, report = folder / "top.npz", folder / "report.json"
    files = [folder / "train.tsv", folder / "test.txt", top, report]
    words = [*files, available_cores(), indexing.DEPTH]
    _run([str(python), str(WORKERS / "run_omikuji_texts.py"), *map(str, words)], {})
    return _scores(top), dict(json.loads(report.read_text(encoding="utf-8")))


def longtail(
    name: str, folder: Path, data: Path, test: Corpus, *, recipe: str | None = None
) -> tuple[Scores, dict[str, Any]]:
    source, model = data / name, folder / "model"
    words = ["train", str(source / "train.jsonl.gz"), "-o", str(model), "--labels", str(source / "labels.jsonl.gz")]
    words += [] if recipe is None else ["--recipe", recipe]
    report = timed([sys.executable, "-m", "longtail", *words, "--quiet"], {}, folder)
    tagger = Tagger.load(model)
    return tagger.score(test.aligned(tagger.labels_), indexing.DEPTH), report


def timed(command: list[str], environment: dict[str, str], folder: Path) -> dict[str, Any]:
    """Seconds and peak memory of a command, as its own process."""
    task, report = folder / "task.json", folder / "report.json"
    task.write_text(json.dumps({"command": command, "environment": environment, "report": str(report)}))
    _run([sys.executable, str(WORKERS / "run_process.py"), str(task)], {})
    return dict(json.loads(report.read_text(encoding="utf-8")))


def _run(command: list[str], environment: dict[str, str]) -> None:
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command[:4])} ...\n{done.stderr[-2000:]}")


def _scores(path: Path) -> Scores:
    found = np.load(path)
    return Scores(found["ids"], found["values"]).sorted()


if __name__ == "__main__":
    common.run_rows(__doc__ or "", RESULT, "python benchmarks/annif.py --fresh", rows(), measure)
