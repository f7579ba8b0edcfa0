"""Gandalf (https://openreview.net/forum?id=05ff9BRSMzE): label texts as documents, annotated by the label graph.

A label's text Z_j is a document of that label (self-annotation) and, less surely, of labels that are correlated with it
(soft annotations). With G the label correlation graph of `longtail.graphs.label_walk`, the row of label j is

    x = Z_j          y_j = 1          y_m = strength * min(1, G_jm / G_jj)   where G_jm / G_jj > 0.1, else 0

The published rows are those of strength 1. There is a row for each label that a document has, or for every label. The
paper calls the graph normalised, and normalises rows once more: `scaled` takes D_r^-1/2 G D_c^-1/2 in place of G, and
`divisor` divides a row by its largest value in place of its diagonal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from longtail.augment.base import Augmenter
from longtail.corpus import Corpus
from longtail.errors import UsageError
from longtail.graphs.label_walk import DIVISORS, KINDS, label_graph, propagation, soft_annotations
from longtail.part import option
from longtail.plan import Sizes, Stage
from longtail.registry import name_of
from longtail.run import Run


@dataclass(kw_only=True)
class GraphAugmenter(Augmenter):
    """Base of augmenters that annotate label texts by the label correlation graph."""

    soft: bool = option(True, "annotate with correlated labels, too (false: the paper's ablation)")
    strength: float = option(0.3, "factor on soft annotations (measured; paper: 1)", low=0, high=1)
    threshold: float = option(0.1, "soft annotations must be above this, before the factor (paper)", low=0, high=1)
    graph: str = option("expected", "visits that make the graph: expected ones, or those of a drawn walk (ECLARE)",
                        choices=KINDS)  # fmt: skip
    scaled: bool = option(
        False,
        "visits over the roots of the sums of their rows and columns, ECLARE's normalised graph (paper: yes)",
    )
    divisor: str = option("diagonal", "what a row of the graph is divided by: its diagonal (listing) or largest value",
                          choices=DIVISORS)  # fmt: skip
    hops: int = option(400, "hops per walk (ECLARE)", low=1, high=1_000_000)
    restart: float = option(0.8, "probability that a walk starts anew before a hop (ECLARE)", low=0.01, high=1)
    neighbours: int = option(10, "labels kept per walk, the most visited (ECLARE)", low=1, high=10_000)
    head: int = option(500, "labels with more documents are not walked over (ECLARE)", low=1)

    def annotations(self, Y: sp.csr_matrix, seed: int, run: Run) -> sp.csr_matrix:
        """csr float32 (L, L): the soft annotations of each label's text, times `strength`; Y csr (n, L) of documents"""
        if not self.soft or self.strength == 0:
            return sp.csr_matrix(sp.coo_array((Y.shape[1], Y.shape[1]), dtype=np.float32))
        graph = label_graph(
            Y,
            self.graph,
            hops=self.hops,
            restart=self.restart,
            most=self.neighbours,
            head=self.head,
            seed=seed,
            run=run,
        )
        if self.scaled:
            graph = propagation(graph)
        found = soft_annotations(graph, self.threshold, self.divisor)
        found.data *= np.float32(self.strength)
        return found

    def graph_stage(self, sizes: Sizes) -> Stage:
        """Walks over all labels: visited ones and their neighbours."""
        edges = sizes.labels * self.neighbours
        return Stage("label graph", sizes.pairs / 1e5 + edges / 1e6, 48 * edges + 60 * sizes.pairs)

    def texts_of(self, corpus: Corpus) -> Sequence[str]:
        if corpus.texts is None:
            raise UsageError(f"'{name_of(self)}' puts label texts beside documents, and {corpus.name} has no texts")
        return corpus.texts


@dataclass(kw_only=True)
class Gandalf(GraphAugmenter):
    """Adds the labels' texts as documents."""

    space: ClassVar[str] = "texts"

    all_labels: bool = option(False, "rows for labels without documents, too (paper: all labels)")

    def plan(self, sizes: Sizes, run: Run) -> list[Stage]:
        made = self.planned(sizes)
        added = made.texts_bytes - sizes.texts_bytes + 150 * (made.documents - sizes.documents)
        return [self.graph_stage(sizes), Stage("augment", sizes.labels / 1e5, 2 * added, added)]

    def planned(self, sizes: Sizes) -> Sizes:
        pairs = sizes.labels * (1 + (self.neighbours // 3 if self.soft else 0))
        return sizes.with_documents(sizes.labels, sizes.label_characters, pairs, sizes.label_sample)

    def apply(self, corpus: Corpus, run: Run) -> Corpus:
        """The corpus with the labels' rows behind its documents; counts stay those of the original."""
        self.texts_of(corpus)
        Y, names = corpus.documents_only().positives(), corpus.labels.names
        with run.stage("label graph"):
            soft = self.annotations(Y, run.seed_of("label graph"), run)
        points = np.arange(len(names)) if self.all_labels else np.unique(Y.indices)
        own = sp.csr_matrix(
            (np.ones(len(points), np.float32), points, np.arange(len(points) + 1)), (len(points), len(names))
        )
        return corpus.with_rows(
            texts=[corpus.labels.text(label) for label in points],
            Y=own + soft[points],
            ids=[f"gandalf/{names[label]}" for label in points],
        )
