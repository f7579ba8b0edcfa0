"""Label trees: Parabel (https://doi.org/10.1145/3178876.3185998) and Bonsai (https://arxiv.org/abs/1904.08249)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from longtail.arrays import Ints, SparseRows, with_own_columns
from longtail.cluster.balanced import halves
from longtail.cluster.kmeans import k_means
from longtail.cluster.label_vectors import label_vectors
from longtail.learners.linear.base import LinearLearner
from longtail.learners.linear.memory import tree_stages
from longtail.learners.linear.nodes import Documents
from longtail.learners.linear.tree import Shape
from longtail.part import option
from longtail.plan import Sizes, Stage
from longtail.run import Bar, Run
from longtail.sparse import starts_of

#: Up to here one level of clusters is enough: leaves of some hundred labels are still quick, and rank the rare best.
SMALL_SET = 50_000


Parts = list[Ints] | None


class LabelSpace(NamedTuple):
    """One unit vector per label, of this many features."""

    vectors: SparseRows
    n_features: int

    @property
    def n_labels(self) -> int:
        return self.vectors.n_rows


@dataclass(kw_only=True)
class LabelTree(LinearLearner):
    """Labels are clustered by their documents; each node tells its children apart; a beam search finds the labels."""

    leaner: ClassVar[Mapping[str, Any]] = {"trees": 1}

    trees: int = option(3, "trees, which differ by their random seed (Parabel, Bonsai)", low=1, high=1000)
    max_leaf: int = option(100, "maximum number of labels per leaf (Parabel)", low=1, high=65_535)
    beam: int = option(10, "nodes kept per level when scoring (Parabel, Bonsai)", low=1, high=10_000)

    @property
    def beam_width(self) -> int:  # type: ignore[override]
        return self.beam

    @property
    def n_trees(self) -> int:  # type: ignore[override]
        return self.trees

    def is_leaf(self, size: int, depth: int, n_labels: int) -> bool:
        """Whether a node with so many of the labels is not divided any more."""
        return size <= self.max_leaf

    @abstractmethod
    def divide(self, vectors: LabelSpace, members: Ints, rng: np.random.Generator, run: Run) -> Parts:
        """The children of a node with these labels, or None if they cannot be told apart."""

    def shapes(self, documents: Documents, run: Run) -> list[Shape]:
        n_features = documents.n_features
        vectors = LabelSpace(label_vectors(documents.rows, n_features, documents.labels, run), n_features)
        carried = documents.carried_labels()
        with run.bar("Clustering", self.trees * max(1, len(carried))) as bar:
            return self._divided(range(self.trees), vectors, carried, bar, run)

    def _divided(self, numbers: Sequence[int], vectors: LabelSpace, carried: Ints, bar: Bar, run: Run) -> list[Shape]:
        """The trees of these numbers, divided together level by level."""
        builders = {tree: _Builder() for tree in numbers}
        level = [(tree, 0, carried) for tree in numbers]  # (tree, number within the level, labels)
        depth = 0
        while level:
            large = [task for task in level if not self.is_leaf(len(task[2]), depth, vectors.n_labels)]
            inner, outer = run.shared_by(len(large))

            def divide(task: tuple[int, int, Ints]) -> Parts:
                tree, place, members = task
                rng = run.rng(f"tree/{tree}/split/{depth}/{place}")  # noqa: B023
                return self.divide(vectors, members, rng, inner)  # noqa: B023

            groups = outer.map(divide, large, cost=lambda task: len(task[2]))
            parts = {task[:2]: children for task, children in zip(large, groups, strict=True)}
            following = []
            for tree, number, members in level:
                children = parts.get((tree, number))
                places = builders[tree].add(depth, members, children)
                if children is None:
                    bar.advance(len(members))
                else:
                    following += [(tree, place, child) for place, child in zip(places, children, strict=True)]
            level = following
            depth += 1
        return [builders[tree].shape() for tree in numbers]


class _Builder:
    """Collects nodes level by level."""

    def __init__(self) -> None:
        self.level_of: list[int] = []
        self.slots: list[Ints | int] = []  # the labels of a leaf, or the number of children
        self.next_level = 0

    def add(self, depth: int, members: Ints, children: list[Ints] | None) -> range:
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
        level_start = starts_of(levels).astype(np.int32)
        targets, leaf = [], []
        next_child = 1
        for slots in self.slots:
            leaf.append(not isinstance(slots, int))
            if isinstance(slots, int):
                targets.append(np.arange(next_child, next_child + slots, dtype=np.int32))
                next_child += slots
            else:
                targets.append(slots)
        slot_start = starts_of([len(t) for t in targets]).astype(np.int32)
        return Shape(level_start, slot_start, np.concatenate(targets), np.array(leaf))


@dataclass(kw_only=True)
class Parabel(LabelTree):
    """Balanced binary trees: labels are halved by spherical 2-means until a leaf is small enough."""

    def plan(self, sizes: Sizes, run: Run) -> list[Stage]:
        return tree_stages(sizes, run, trees=self.trees, centres=2, leaf=min(self.max_leaf, sizes.labels))

    def divide(self, vectors: LabelSpace, members: Ints, rng: np.random.Generator, run: Run) -> Parts:
        return halves(*vectors, members, rng, run)


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

    def plan(self, sizes: Sizes, run: Run) -> list[Stage]:
        leaf = max(self.max_leaf, 10 * sizes.labels // self.branches ** self._levels(sizes.labels))
        return tree_stages(sizes, run, trees=self.trees, centres=self.branches, leaf=min(leaf, sizes.labels))

    def _levels(self, n_labels: int) -> int:
        """Levels of clusters above the labels."""
        return self.depth if self.depth is not None else 1 if n_labels <= SMALL_SET else 2

    @property
    def discount_of_ancestors(self) -> float:  # type: ignore[override]
        return self.discount

    def is_leaf(self, size: int, depth: int, n_labels: int) -> bool:
        return super().is_leaf(size, depth, n_labels) or depth >= self._levels(n_labels)

    def divide(self, vectors: LabelSpace, members: Ints, rng: np.random.Generator, run: Run) -> Parts:
        rows, width = vectors
        if len(members) < vectors.n_labels:  # features are renumbered, so that centres are no wider than needed
            rows, used = with_own_columns(rows, members, np.full(width, -1, dtype=np.int32))
            width = len(used)
        cluster = k_means(rows, width, self.branches, rng, run)
        if cluster.max() == 0:
            return None
        return [members[cluster == c] for c in range(cluster.max() + 1)]
