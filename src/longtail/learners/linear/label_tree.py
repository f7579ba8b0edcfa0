"""Label trees: Parabel (https://doi.org/10.1145/3178876.3185998) and Bonsai (https://arxiv.org/abs/1904.08249)."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from longtail.corpus import Corpus
from longtail.graphs.cluster import Rows, compact, halve, k_means, label_vectors
from longtail.learners.linear.base import LinearLearner
from longtail.learners.linear.nodes import Documents
from longtail.learners.linear.tree import Shape
from longtail.part import option
from longtail.run import Run

#: Up to here one level of clusters is enough: leaves of some hundred labels are still quick, and rank the rare best.
SMALL_SET = 50_000


@dataclass(kw_only=True)
class LabelTree(LinearLearner):
    """Labels are clustered by their documents; each node tells its children apart; a beam search finds the labels."""

    trees: int = option(3, "trees, which differ by their random seed (Parabel, Bonsai)", low=1, high=1000)
    max_leaf: int = option(100, "labels in a leaf at the most (Parabel)", low=1, high=65_535)
    beam: int = option(10, "nodes kept at each level when scoring (Parabel, Bonsai)", low=1, high=10_000)

    @property
    def beam_width(self) -> int:  # type: ignore[override]
        return self.beam

    @abstractmethod
    def divide(
        self, vectors: Rows, members: NDArray[np.int32], n_features: int, depth: int, rng: np.random.Generator, run: Run
    ) -> list[NDArray[np.int32]] | None:
        """The children of a node with these labels, or None for a leaf."""

    def shapes(self, corpus: Corpus, documents: Documents, run: Run) -> list[Shape]:
        vectors = label_vectors(
            corpus.features, documents.label_start, documents.label_documents, documents.label_strength, run
        )
        usable = np.flatnonzero(np.bincount(*_carried(documents), minlength=corpus.n_labels)).astype(np.int32)
        with run.bar("Clustering", self.trees * max(1, len(usable))) as bar:
            builders = [_Builder() for _ in range(self.trees)]
            level = [(tree, 0, usable) for tree in range(self.trees)]  # (tree, parent's slot, labels)
            depth = 0
            while level:
                # a wide level is divided node by node in parallel, a narrow one lets each division use the threads
                one_each = len(level) > run.workers
                inner, outer = (run.on_one_thread(), run) if one_each else (run, run.on_one_thread())

                def divide(task: tuple[int, int, NDArray[np.int32]]) -> list[NDArray[np.int32]] | None:
                    tree, slot, members = task
                    rng = run.rng(f"tree/{tree}/split/{depth}/{slot}")  # noqa: B023
                    return self.divide(vectors, members, documents.n_features, depth, rng, inner)  # noqa: B023

                groups = outer.map(divide, level, cost=lambda task: len(task[2]))
                following = []
                for (tree, _, members), children in zip(level, groups, strict=True):
                    slots = builders[tree].add(depth, members, children)
                    if children is None:
                        bar.advance(len(members))
                    else:
                        following += [(tree, slot, child) for slot, child in zip(slots, children, strict=True)]
                level = following
                depth += 1
        return [builder.shape() for builder in builders]


class _Builder:
    """Collects nodes level by level."""

    def __init__(self) -> None:
        self.level_of: list[int] = []
        self.slots: list[NDArray[np.int32] | int] = []  # the labels of a leaf, or the number of children
        self.next_level = 0

    def add(self, depth: int, members: NDArray[np.int32], children: list[NDArray[np.int32]] | None) -> range:
        """Adds a node; gives the numbers of its children within their level."""
        if not self.level_of or self.level_of[-1] != depth:
            self.next_level = 0
        self.level_of.append(depth)
        if children is None:
            self.slots.append(members)
            return range(0)
        self.slots.append(len(children))
        self.next_level += len(children)
        return range(self.next_level - len(children), self.next_level)

    def shape(self) -> Shape:
        levels = np.bincount(self.level_of)
        level_start = np.concatenate([[0], np.cumsum(levels)]).astype(np.int32)
        targets, leaf = [], []
        next_child = 1
        for slots in self.slots:
            leaf.append(not isinstance(slots, int))
            if isinstance(slots, int):
                targets.append(np.arange(next_child, next_child + slots, dtype=np.int32))
                next_child += slots
            else:
                targets.append(slots)
        slot_start = np.concatenate([[0], np.cumsum([len(t) for t in targets])]).astype(np.int32)
        return Shape(level_start, slot_start, np.concatenate(targets), np.array(leaf))


def _carried(documents: Documents) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Label and strength of each pair: labels that no document carries stay out of the trees."""
    return np.repeat(
        np.arange(len(documents.label_start) - 1), np.diff(documents.label_start)
    ), documents.label_strength


def _local(vectors: Rows, members: NDArray[np.int32], n_features: int) -> tuple[Rows, int]:
    """The members' vectors with features renumbered, so that centres are no wider than needed."""
    indptr, indices, values, used = compact(*vectors, members, np.full(n_features, -1, dtype=np.int32))
    return (indptr, indices, values), len(used)


@dataclass(kw_only=True)
class Parabel(LabelTree):
    """Balanced binary trees: labels are halved by spherical 2-means until a leaf is small enough."""

    def divide(
        self, vectors: Rows, members: NDArray[np.int32], n_features: int, depth: int, rng: np.random.Generator, run: Run
    ) -> list[NDArray[np.int32]] | None:
        if len(members) <= self.max_leaf:
            return None
        rows, width = _local(vectors, members, n_features)
        first, second = rng.choice(len(members), size=2, replace=False)
        in_first = halve(*rows, first, second, 1e-4, 50, width)
        return [members[in_first], members[~in_first]]


@dataclass(kw_only=True)
class Bonsai(LabelTree):
    """Shallow trees of many, unbalanced clusters by spherical k-means: rare labels keep to their own kind."""

    branches: int = option(100, "children of an inner node, K (Bonsai's sample run)", low=2, high=65_535)
    depth: int | None = option(
        None,
        "levels of clusters above the labels; by default 1 up to 50,000 labels, else 2 "
        "(Bonsai: 1 for EUR-Lex and Wiki10-31K, 2 for larger sets)",
        low=1,
        high=20,
    )
    discount: float = option(1.0, "factor on what lies above at each step down (Bonsai's code: 0.98)", low=0, high=1)

    @property
    def discount_of_ancestors(self) -> float:  # type: ignore[override]
        return self.discount

    def divide(
        self, vectors: Rows, members: NDArray[np.int32], n_features: int, depth: int, rng: np.random.Generator, run: Run
    ) -> list[NDArray[np.int32]] | None:
        n_labels = len(vectors[0]) - 1
        levels = self.depth if self.depth is not None else 1 if n_labels <= SMALL_SET else 2
        if len(members) <= self.max_leaf or depth >= levels:
            return None
        rows, width = _local(vectors, members, n_features)
        cluster = k_means(rows, width, self.branches, rng, run)
        if cluster.max() == 0:
            return None
        return [members[cluster == c] for c in range(cluster.max() + 1)]
