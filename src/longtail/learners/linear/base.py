"""What the linear learners share: options of the solver, trees of separators, scoring."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from longtail.arrays import SparseRows
from longtail.augment.base import LabelVectors
from longtail.capabilities import CORPUS_SPACES, Capabilities
from longtail.corpus import Corpus
from longtail.fit import Fit
from longtail.learners.base import Learner
from longtail.learners.linear.kernels import LOGISTIC, SQUARED_HINGE, SolverOptions
from longtail.learners.linear.nodes import Documents, Separators, joined, solve_task
from longtail.learners.linear.resume import Pieces
from longtail.learners.linear.tasks import cost_of, tasks_of
from longtail.learners.linear.tree import CHUNK, SearchOptions, Shape, Tree, average, depths, search
from longtail.part import Arrays, option, prefixed, under
from longtail.run import Run
from longtail.scores import Scores
from longtail.sparse import unit_rows

LOSSES = {"squared-hinge": SQUARED_HINGE, "logistic": LOGISTIC}

#: Rows whose squared lengths are no further from 1 are taken as they are.
UNIT = 1e-3


@dataclass(kw_only=True)
class LinearLearner(Learner):
    """Separators in one or more trees; a subclass says how the trees look."""

    loss: str = option("squared-hinge", "squared-hinge (all the papers) or logistic", choices=tuple(LOSSES))
    cost: float = option(1.0, "C, weight of the loss against the norm (Parabel, Bonsai, DiSMEC)", low=1e-6)
    eps: float = option(
        0.5, "stop when no document violates the optimum by more (papers: 0.1; measured as good)", low=1e-6
    )
    max_passes: int = option(20, "passes over a node's documents, at most (Parabel, Bonsai)", low=1)
    prune: float = option(0.1, "weights no larger are dropped (Parabel, Bonsai)", low=0)

    if TYPE_CHECKING:
        n_features_: int = 0

    beam_width = 1
    discount_of_ancestors = 1.0
    all_documents = False
    n_trees = 1

    @abstractmethod
    def shapes(self, corpus: Corpus, documents: Documents, run: Run) -> Callable[[Sequence[int]], list[Shape]]:
        """What gives the shapes of trees by their numbers; the shape of a tree does not depend on the others."""

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(needs=("X",), spaces=CORPUS_SPACES, noise=True, retunes=True)

    def learn(self, corpus: Corpus, fit: Fit) -> Self:
        pieces = Pieces(fit, self, corpus)
        corpus = replace(corpus, X=unit_rows(corpus.features, UNIT))
        documents = Documents.of(corpus)
        shapes: Callable[[Sequence[int]], list[Shape]] | None = None

        def grow(numbers: Sequence[int]) -> list[Tree]:
            nonlocal shapes
            with fit.run.stage("cluster"):
                shapes = shapes or self.shapes(corpus, documents, fit.run)
                found = shapes(numbers)
            with fit.run.stage("train"):
                return self._train(numbers, found, documents, fit.run)

        def restored(arrays: Arrays) -> Tree:
            return Tree.from_arrays(dict(arrays), documents.n_features, corpus.n_labels)

        if pieces.kept:
            one_each = ([t] for t in range(self.n_trees))
            self.trees_ = [pieces.made(own, lambda: grow(own)[0], Tree.arrays, restored) for own in one_each]  # noqa: B023
        else:
            self.trees_ = grow(range(self.n_trees))
        self.n_labels_, self.n_features_ = corpus.n_labels, documents.n_features
        return self

    def retune(self, corpus: Corpus, fit: Fit, vectors: LabelVectors | None = None) -> Self:
        """Separators have no encoder to keep: the second stage is a fit on the augmented, masked corpus."""
        return self.learn(corpus, fit)

    def _train(self, numbers: Sequence[int], shapes: list[Shape], documents: Documents, run: Run) -> list[Tree]:
        """Blocks of children of all trees' nodes; the result does not depend on the number of threads."""
        options = SolverOptions(LOSSES[self.loss], self.cost, self.eps, self.max_passes, self.prune)
        label_count = np.diff(documents.labels.start)
        tasks = [
            task
            for t, shape in enumerate(shapes)
            for task in tasks_of(
                t, shape, label_count, run.seed_of(f"tree/{numbers[t]}"), all_documents=self.all_documents
            )
        ]
        found = run.map_shared(
            solve_task,
            (documents, options),
            tasks,
            cost=lambda task: cost_of(task, label_count, documents.count),
            title="Training",
        )
        blocks: list[list[list[Separators]]] = [[[] for _ in range(shape.nodes)] for shape in shapes]
        for pieces in found:
            for piece in pieces:
                blocks[piece.tree][piece.node].append(piece.separators)
        return [
            Tree.of(shape, [joined(own, documents.n_features) for own in blocks[t]]) for t, shape in enumerate(shapes)
        ]

    def score(self, corpus: Corpus, k: int, *, run: Run | None = None) -> Scores:
        run = run or Run()
        rows = SparseRows.of(unit_rows(corpus.features, UNIT))
        n, k = rows.n_rows, min(k, self.n_labels_)
        steps = np.array(depths(k, self.n_labels_, len(self.trees_)))
        ids = np.full((n, k), -1, dtype=np.int32)
        scores = np.zeros((n, k), dtype=np.float32)
        options = SearchOptions(LOSSES[self.loss], self.beam_width, self.discount_of_ancestors)

        def one(first: int) -> None:
            last = min(first + CHUNK, n)
            lookup = np.full(self.n_features_, -1, dtype=np.int32)
            tree_ids = np.empty((len(self.trees_), last - first, steps[-1, 0]), dtype=np.int32)
            tree_scores = np.empty(tree_ids.shape, dtype=np.float32)
            for t, tree in enumerate(self.trees_):
                search(rows, first, tree, options, lookup, tree_ids[t], tree_scores[t])
            average(tree_ids, tree_scores, steps, ids[first:last], scores[first:last])

        run.map(one, range(0, n, CHUNK), cost=lambda first: min(CHUNK, n - first), title="Scoring")
        return Scores(ids, scores)

    def state(self) -> dict[str, NDArray[Any]]:
        state: dict[str, NDArray[Any]] = {"size": np.array([self.n_features_, self.n_labels_, len(self.trees_)])}
        for t, tree in enumerate(self.trees_):
            state |= prefixed(f"tree{t}", tree.arrays())
        return state

    def restore(self, arrays: Arrays) -> None:
        size = arrays.get("size")
        if size is None or size.shape != (3,) or size.dtype != np.int64 or (size < 0).any():
            raise ValueError("'size' must hold features, labels and trees")
        n_features, n_labels, n_trees = (int(v) for v in size)
        expected = {f"tree{t}" for t in range(min(n_trees, len(arrays)))}
        if {name.partition(".")[0] for name in arrays if name != "size"} != expected or len(expected) != n_trees:
            raise ValueError(f"{n_trees} trees expected")
        self.trees_ = [Tree.from_arrays(under(f"tree{t}", arrays), n_features, n_labels) for t in range(n_trees)]
        self.n_features_, self.n_labels_ = n_features, n_labels
