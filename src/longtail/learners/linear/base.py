"""What the linear learners share: options of the solver, trees of separators, scoring."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail.augment.base import LabelVectors
from longtail.capabilities import CORPUS_SPACES, Capabilities
from longtail.corpus import Corpus
from longtail.fit import Fit
from longtail.learners.base import Learner
from longtail.learners.linear.kernels import LOGISTIC, SQUARED_HINGE
from longtail.learners.linear.nodes import Documents, Solver, train_node
from longtail.learners.linear.tree import CHUNK, Shape, Tree, average, search
from longtail.part import Arrays, option, prefixed, under
from longtail.run import Run
from longtail.scores import Scores

LOSSES = {"squared-hinge": SQUARED_HINGE, "logistic": LOGISTIC}


@dataclass(kw_only=True)
class LinearLearner(Learner):
    """Separators in one or more trees; a subclass says how the trees look."""

    loss: str = option("squared-hinge", "squared-hinge (all the papers) or logistic", choices=tuple(LOSSES))
    cost: float = option(1.0, "C, weight of the loss against the norm (Parabel, Bonsai, DiSMEC)", low=1e-6)
    eps: float = option(
        0.5, "stop when no document violates the optimum by more (papers: 0.1; measured as good)", low=1e-6
    )
    max_passes: int = option(20, "passes over a node's documents at the most (Parabel, Bonsai)", low=1)
    prune: float = option(0.1, "weights no larger are dropped (Parabel, Bonsai)", low=0)

    if TYPE_CHECKING:
        n_features_: int = 0

    beam_width = 1
    discount_of_ancestors = 1.0
    all_documents = False

    @abstractmethod
    def shapes(self, corpus: Corpus, documents: Documents, run: Run) -> list[Shape]:
        """One shape a tree."""

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(needs=("X",), spaces=CORPUS_SPACES, noise=True, retunes=True)

    def learn(self, corpus: Corpus, fit: Fit) -> Self:
        run = fit.run
        corpus = replace(corpus, X=unit_rows(corpus.features))
        documents = Documents.of(corpus)
        with run.stage("cluster"):
            shapes = self.shapes(corpus, documents, run)
        with run.stage("train"):
            self.trees_ = self._train(shapes, documents, run)
        self.n_labels_, self.n_features_ = corpus.n_labels, documents.n_features
        return self

    def retune(self, corpus: Corpus, fit: Fit, vectors: LabelVectors | None = None) -> Self:
        """Separators have no encoder to keep: the second stage is a fit on the augmented, masked corpus."""
        return self.learn(corpus, fit)

    def _train(self, shapes: list[Shape], documents: Documents, run: Run) -> list[Tree]:
        """One task a node over all trees; the result does not depend on the number of threads."""
        solver = Solver(LOSSES[self.loss], self.cost, self.eps, self.max_passes, self.prune)
        below = [_members(shape) for shape in shapes]
        tasks = [(t, node) for t, shape in enumerate(shapes) for node in range(shape.nodes)]
        label_count = np.diff(documents.label_start)

        def slots(task: tuple[int, int]) -> int:
            starts = shapes[task[0]].slot_start
            return int(starts[task[1] + 1] - starts[task[1]])

        def cost(task: tuple[int, int]) -> float:
            pairs = documents.count if self.all_documents else label_count[below[task[0]][task[1]][0]].sum()
            return float(pairs) * (4 + slots(task))

        def one(task: tuple[int, int]) -> Any:
            t, node = task
            members, child = below[t][node]
            seed = run.seed_of(f"tree/{t}/node/{node}")
            return train_node(
                documents,
                members,
                child,
                slots(task),
                solver,
                seed,
                all_documents=self.all_documents,
                sure_only=not shapes[t].leaf[node],
            )

        trained = iter(run.map(one, tasks, cost=cost, title="Training"))
        return [Tree.of(shape, [next(trained) for _ in range(shape.nodes)]) for shape in shapes]

    def score(self, corpus: Corpus, k: int, *, run: Run | None = None) -> Scores:
        run = run or Run()
        X = unit_rows(corpus.features)
        n = X.shape[0]
        k = min(k, self.n_labels_)
        # with several trees a label may rank low in one and high on the mean
        depth = k if len(self.trees_) == 1 else min(max(2 * k, 50), self.n_labels_)
        indptr, indices, values = X.indptr.astype(np.int64), X.indices, X.data.astype(np.float32, copy=False)
        ids = np.full((n, k), -1, dtype=np.int32)
        scores = np.zeros((n, k), dtype=np.float32)
        loss = LOSSES[self.loss]
        trees = [list(tree.arrays().values()) for tree in self.trees_]

        def one(first: int) -> None:
            last = min(first + CHUNK, n)
            lookup = np.full(self.n_features_, -1, dtype=np.int32)
            tree_ids = np.empty((len(trees), last - first, depth), dtype=np.int32)
            tree_scores = np.empty((len(trees), last - first, depth), dtype=np.float32)
            for t, arrays in enumerate(trees):
                search(
                    indptr, indices, values, first, last, *arrays, loss, self.beam_width, self.discount_of_ancestors,
                    lookup, tree_ids[t], tree_scores[t],
                )  # fmt: skip
            average(tree_ids, tree_scores, ids[first:last], scores[first:last])

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


def unit_rows(X: sp.csr_matrix) -> sp.csr_matrix:
    """X with every row at length 1, as all the label trees' papers have it; X itself where that is so already."""
    squares = np.add.reduceat(np.append(X.data.astype(np.float64) ** 2, 0), X.indptr[:-1].astype(np.int64))
    squares[np.diff(X.indptr) == 0] = 0
    if (np.abs(squares[squares > 0] - 1) < 1e-3).all():
        return X
    scale = 1 / np.sqrt(np.where(squares > 0, squares, 1))
    values = X.data * np.repeat(scale, np.diff(X.indptr))
    return sp.csr_matrix((values.astype(np.float32), X.indices, X.indptr), shape=X.shape)


def _members(shape: Shape) -> list[tuple[NDArray[np.int32], NDArray[np.int32]]]:
    """For each node the labels below it, grouped by child, and the child each lies under."""
    below: list[tuple[NDArray[np.int32], NDArray[np.int32]]] = [None] * shape.nodes  # type: ignore[list-item]
    for node in range(shape.nodes - 1, -1, -1):
        targets = shape.slot_target[shape.slot_start[node] : shape.slot_start[node + 1]]
        groups = (
            [np.array([t], dtype=np.int32) for t in targets] if shape.leaf[node] else [below[t][0] for t in targets]
        )
        sizes = [len(g) for g in groups]
        members = np.concatenate(groups) if groups else np.empty(0, dtype=np.int32)
        below[node] = (members, np.repeat(np.arange(len(sizes), dtype=np.int32), sizes))
    return below
