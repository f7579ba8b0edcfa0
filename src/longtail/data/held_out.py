"""A corpus in two parts, to train on and to test on, and the folder that holds them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from longtail.corpus import Corpus
from longtail.errors import UsageError
from longtail.keep.files import atomic_directory

TRAIN, TEST, LABELS = "train.jsonl", "test.jsonl", "labels.jsonl"


def hold_out(corpus: Corpus, share: float, rng: np.random.Generator) -> tuple[Corpus, Corpus]:
    """(to train on, to test on): documents drawn at random, each part in the order of the corpus.

    Documents of the same text, but for case and white space, stay together: what a model has seen says nothing about
    how it does on what it has not.
    """
    if corpus.texts is None:
        raise UsageError(f"{corpus.name} holds features; only texts can be split")
    if corpus.made is not None and corpus.made.any():
        raise UsageError(f"{corpus.name} holds texts that longtail augment made; split the documents before")
    groups: dict[str, list[int]] = {}
    for row, text in enumerate(corpus.texts):
        groups.setdefault(" ".join(text.casefold().split()), []).append(row)
    members = list(groups.values())
    drawn = rng.permutation(len(members))
    sizes = np.cumsum([len(members[group]) for group in drawn])
    taken = drawn[: int(np.searchsorted(sizes, share * len(corpus))) + 1]
    test = np.sort(np.concatenate([members[group] for group in taken])) if len(taken) else np.empty(0, dtype=np.int64)
    if not 0 < len(test) < len(corpus):
        raise UsageError(f"{corpus.name}: a share of {share:g} of {len(corpus):,} documents leaves one part empty")
    return corpus.rows(np.setdiff1d(np.arange(len(corpus)), test)), corpus.rows(test)


def write_parts(folder: Path, train: Corpus, test: Corpus, *, overwrite: bool = False) -> None:
    """A folder with both parts, and the labels' texts where there are any; there whole or not at all."""
    with atomic_directory(folder, overwrite=overwrite, refusal=not_parts) as new:
        for name, part in ((TRAIN, train), (TEST, test)):
            _write(new / name, (record(part, row) for row in range(len(part))))
        labels = train.labels
        if labels.texts is not None:
            pairs = zip(labels.names, labels.texts, strict=True)
            _write(new / LABELS, ({"label": name, "text": text} for name, text in pairs if text))


def not_parts(folder: Path) -> str:
    """Why a folder that is there must not be replaced, or nothing."""
    others = sorted({path.name for path in folder.iterdir()} - {TRAIN, TEST, LABELS})
    return f"it holds {others[0]}" if others else ""


def record(corpus: Corpus, row: int) -> dict[str, Any]:
    """A document as a line of JSONL has it; soft targets as an object of weights."""
    start, stop = corpus.Y.indptr[row : row + 2]
    names = [corpus.labels.names[column] for column in corpus.Y.indices[start:stop]]
    weights = corpus.Y.data[start:stop]
    labels = names if (weights == 1).all() else dict(zip(names, weights.tolist(), strict=True))
    known = {} if corpus.ids is None else {"id": corpus.ids[row]}
    return known | {"text": corpus.texts[row] if corpus.texts is not None else "", "labels": labels}


def _write(path: Path, records: Any) -> None:
    import orjson

    with path.open("wb") as handle:
        for each in records:
            handle.write(orjson.dumps(each, option=orjson.OPT_APPEND_NEWLINE))
