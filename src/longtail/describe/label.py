"""What a label is: its text, its documents, and its neighbours in the label graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import scipy.sparse as sp

from longtail.corpus import Corpus
from longtail.describe.find import find_label
from longtail.errors import UsageError
from longtail.keep.model import load_model
from longtail.keep.shard_folders import shard_folders
from longtail.labels import LabelIndex
from longtail.run import Run


@dataclass(frozen=True)
class Neighbour:
    """A label that random walks from another one visit.

    text       its text, or its name if it has none
    weight     visits, as a share of those to the label itself
    documents  how many documents have the neighbour
    """

    label: str
    text: str
    weight: float
    documents: int


@dataclass(frozen=True)
class LabelFacts:
    """A label, its text (its name if it has none), its number of documents, and its neighbours, nearest first."""

    label: str
    text: str
    documents: int
    neighbours: list[Neighbour]

    def to_dict(self) -> dict[str, Any]:
        """An entry of the list that `longtail inspect DATA --label NAME --json` prints."""
        return asdict(self)


def describe_labels(corpus: Corpus, names: Sequence[str], *, run: Run | None = None) -> list[LabelFacts]:
    """What each label is, in the order of the names; the label graph of the corpus is walked once for all.

    names  names or texts of labels, or pieces of them that only one label has
    """
    from longtail.graphs.label_walk import expected_visits

    columns = _columns(corpus.labels, names, corpus.name)
    graph = expected_visits(corpus.Y, run=run or Run())
    return [_facts(corpus.labels, column, _neighbours(graph, corpus.labels, column)) for column in columns]


def describe_model_labels(
    path: str | Path, names: Sequence[str], *, texts: Mapping[str, str] | None = None
) -> list[LabelFacts]:
    """What a model knows of each label: text and training documents, but no neighbours.

    texts  of labels by name, for a model that was trained without
    """
    labels = load_model((shard_folders(path) or [Path(path)])[0]).labels
    if texts is not None:
        labels = labels.with_texts(texts)
    return [_facts(labels, column, []) for column in _columns(labels, names, str(path))]


def _columns(labels: LabelIndex, names: Sequence[str], where: str) -> list[int]:
    if isinstance(names, str):
        raise UsageError(f"names is a list of labels: ['{names}'], not '{names}'")
    return [find_label(labels, name, where) for name in names]


def _facts(labels: LabelIndex, column: int, neighbours: list[Neighbour]) -> LabelFacts:
    return LabelFacts(labels.names[column], labels.title(column), int(labels.frequency[column]), neighbours)


def _neighbours(graph: sp.csr_matrix, labels: LabelIndex, column: int) -> list[Neighbour]:
    row, own = graph[column], float(graph[column, column])
    edges = sorted((-float(w) / own, int(m)) for m, w in zip(row.indices, row.data, strict=True) if m != column)
    return [
        Neighbour(labels.names[m], labels.title(m), round(-weight, 4), int(labels.frequency[m])) for weight, m in edges
    ]
