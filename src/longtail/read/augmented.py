"""Lines that `longtail augment` wrote: documents made from others, with labels that count neither way.

    {"id": "17+1", "augmented_from": "17", "text": ..., "labels": ["a", "b"], "masked": ["b"]}

`augmented_from` marks such a line. It is trained on, but never counted: a label is as rare as its real documents are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from longtail.corpus import Corpus
from longtail.read.flaws import RecordError
from longtail.sparse import rows_of_pairs

SOURCE, MASKED = "augmented_from", "masked"


def source_of(record: Mapping[str, Any]) -> str | None:
    """The id of the document that a record was made from; None for a document."""
    source = record.get(SOURCE)
    if source is None or type(source) is str:
        return source or None
    if type(source) is int:
        return str(source)
    raise RecordError(f"field '{SOURCE}' must be the id of a document")


def masked_labels(record: Mapping[str, Any], targets: Mapping[str, float]) -> list[str]:
    """Labels of a record that count neither way; each must be one of its labels."""
    masked = record.get(MASKED)
    if masked is None:
        return []
    if type(masked) is not list or not all(type(label) in (str, int) for label in masked):
        raise RecordError(f"field '{MASKED}' must be a list of labels")
    for label in map(str, masked):
        if label not in targets:
            raise RecordError(f"label '{label[:60]}' is masked, but it is not among the labels of the line")
    return [str(label) for label in masked]


def with_marks(corpus: Corpus, sources: Mapping[int, str], masked: Mapping[int, list[str]]) -> Corpus:
    """The corpus with its made rows marked and their masked pairs at weight 0; by row number."""
    if not sources:
        return corpus
    made = np.zeros(len(corpus), dtype=bool)
    made[list(sources)] = True
    weight = None
    if any(masked.values()):
        row, column = rows_of_pairs(corpus.Y), corpus.Y.indices
        pairs = [own * corpus.n_labels + corpus.labels.ids[name] for own, names in masked.items() for name in names]
        weight = (~np.isin(row * corpus.n_labels + column, pairs)).astype(np.float32)
    return replace(corpus, made=made, pair_weight=weight, origin=np.full(len(corpus), -1, dtype=np.int32))


def with_origins(corpus: Corpus, sources: Mapping[int, str]) -> Corpus:
    """The corpus with every made row beside the document of that id, where there is one.

    Where every row is made, they are the documents there are.
    """
    if corpus.made is None:
        return corpus
    if corpus.made.all():
        return replace(corpus, made=None, origin=None)
    origin = np.arange(len(corpus), dtype=np.int32)
    row_of: dict[str, int] = {}
    for row in corpus.documents:
        row_of.setdefault(corpus.ids[row] if corpus.ids is not None else str(row), int(row))
    for row, source in sources.items():
        origin[row] = row_of.get(source, -1)
    return replace(corpus, origin=origin)
