"""What a label is: its text, its documents, and its neighbours in the label graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from typing import Any

import scipy.sparse as sp

from longtail.corpus import Corpus
from longtail.errors import UsageError
from longtail.labels import LabelIndex
from longtail.run import Run


@dataclass(frozen=True)
class Neighbour:
    """A label that random walks from another one visit.

    weight     visits, as a share of those to the label itself
    documents  how many documents have the neighbour
    """

    label: str
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
    """What each label is, in the order of the names; the label graph of the corpus is walked once for all."""
    from longtail.graphs.label_walk import expected_visits

    if isinstance(names, str):
        raise UsageError(f"names is a list of labels: ['{names}'], not '{names}'")
    columns = [_column(corpus, name) for name in names]
    graph = expected_visits(corpus.Y, run=run or Run())
    return [
        LabelFacts(
            label=corpus.labels.names[column],
            text=corpus.labels.text(column),
            documents=int(corpus.labels.frequency[column]),
            neighbours=_neighbours(graph, corpus.labels, column),
        )
        for column in columns
    ]


def _neighbours(graph: sp.csr_matrix, labels: LabelIndex, column: int) -> list[Neighbour]:
    row, own = graph[column], float(graph[column, column])
    edges = sorted((-float(w) / own, int(m)) for m, w in zip(row.indices, row.data, strict=True) if m != column)
    return [Neighbour(labels.names[m], round(-weight, 4), int(labels.frequency[m])) for weight, m in edges]


def _column(corpus: Corpus, name: str) -> int:
    if name in corpus.labels.ids:
        return corpus.labels.ids[name]
    close = get_close_matches(name, corpus.labels.names, n=1, cutoff=0.5)
    raise UsageError(f"{corpus.name} has no label '{name}'" + (f"; did you mean '{close[0]}'?" if close else ""))
