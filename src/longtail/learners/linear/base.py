"""What the linear learners share: options of the solver, trees of separators, scoring."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from longtail.arrays import Floats, Ints, Longs, SparseRows
from longtail.augment.base import LabelVectors
from longtail.capabilities import CORPUS_SPACES, Capabilities
from longtail.corpus import Corpus
from longtail.fit import Fit
from longtail.learners.base import Learner
from longtail.learners.linear.average import average, steps_for
from longtail.learners.linear.forest import Forests
from longtail.learners.linear.kernels import LOGISTIC, SQUARED_HINGE, SolverOptions
from longtail.learners.linear.nodes import Documents, Piece, Separators, Task, joined, solve_task
from longtail.learners.linear.resume import Pieces, packed, unpacked
from longtail.learners.linear.search import chunks, score_row, search, search_row, size_of
from longtail.learners.linear.shards import Lists, Part, score_shards
from longtail.learners.linear.spread import Spread
from longtail.learners.linear.tasks import batches, cost_of, room_of, tasks_of
from longtail.learners.linear.tree import Shape, Tree
from longtail.learners.linear.visit import SearchOptions, of_unit_length
from longtail.learners.linear.weights import WEIGHTS
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
    max_passes: int = option(20, "maximum number of passes over a node's documents (Parabel, Bonsai)", low=1)
    prune: float = option(0.1, "weights no larger are dropped (Parabel, Bonsai)", low=0)
    weights: str = option("int8", "number format the weights are kept in", choices=tuple(WEIGHTS))

    if TYPE_CHECKING:
        n_features_: int = 0
        shards_: Sequence[LinearLearner] = ()  # all shards of a model that is kept in several, this one among them
    else:
        shards_ = ()

    beam_width = 1
    discount_of_ancestors = 1.0
    all_documents = False
    n_trees = 1

    @abstractmethod
    def shapes(self, documents: Documents, run: Run) -> list[Shape]:
        """The shape of each tree."""

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(needs=("X",), spaces=CORPUS_SPACES, noise=True, retunes=True, spreads=True, shards=True)

    def learn(self, corpus: Corpus, fit: Fit) -> Self:
        documents = Documents.of(corpus, of_unit_length(SparseRows.of(corpus.features)))
        with fit.run.stage("cluster"):
            shapes = self.shapes(documents, fit.run)
        with fit.run.stage("train"):
            self.trees_ = self._train(shapes, documents, Pieces(fit, self, corpus))
        self.n_labels_, self.n_features_ = corpus.n_labels, documents.n_features
        return self

    def retune(self, corpus: Corpus, fit: Fit, vectors: LabelVectors | None = None) -> Self:
        """Separators have no encoder to keep: the second stage is a fit on the augmented, masked corpus."""
        return self.learn(corpus, fit)

    def solving(self, documents: Documents) -> tuple[Callable[[Any, Task], list[Piece]], Any]:
        """What solves a task, a function of a module, and the data that all tasks share."""
        return solve_task, (
            documents,
            SolverOptions(LOSSES[self.loss], self.cost, self.eps, self.max_passes, self.prune),
        )

    def _train(self, shapes: list[Shape], documents: Documents, kept: Pieces) -> list[Tree]:
        """Blocks of children of all trees' nodes; the result does not depend on the number of threads."""
        fit = kept.fit
        solve, shared = self.solving(documents)
        label_count = np.diff(documents.labels.start)
        parts = [Part.of(shape, fit.shard) for shape in shapes]
        seeds = [fit.run.seed_of(f"tree/{t}") for t in range(len(shapes))]
        tasks = [
            task
            for t, shape in enumerate(shapes)
            for task in tasks_of(t, shape, label_count, seeds[t], all_documents=self.all_documents)
            if parts[t].needs(task)
        ]

        def cost(task: Task) -> float:
            return cost_of(task, label_count, documents.count)

        def room(task: Task) -> float:
            return room_of(task, label_count, documents.rows, documents.n_features)

        def solved(batch: list[Task], run: Run) -> list[Piece]:
            found = run.map_shared(solve, shared, batch, cost=cost, title="Training")
            return [piece._replace(separators=own) for pieces in found for piece in pieces
                    for own in parts[piece.tree].kept(piece)]  # fmt: skip

        blocks: list[list[list[tuple[int, Separators]]]] = [[[] for _ in range(shape.nodes)] for shape in shapes]
        with fit.run.bar("Training", sum(map(cost, tasks))) as bar:
            inside = fit.run.within(bar)
            at_once = fit.run.engine.at_once(fit.run.workers)
            for number, batch in enumerate(batches(tasks, cost, room, at_once) if kept.kept else [tasks]):
                name = ["batch", str(number), str(len(tasks)), str(fit.shard)]
                skip = partial(bar.advance, sum(map(cost, batch)))
                for piece in kept.made(name, partial(solved, batch, inside), packed, unpacked, skip):
                    blocks[piece.tree][piece.node].append((piece.first, piece.separators))

        def of_nodes(t: int) -> Iterator[Separators]:
            for node in parts[t].nodes.tolist():
                found, blocks[t][node] = sorted(blocks[t][node], key=itemgetter(0)), []
                yield joined([kept.read(own) for _, own in found], documents.n_features)

        return [Tree.of(part.shape, of_nodes(t), self.weights, fit.run) for t, part in enumerate(parts)]

    def rows_of(self, corpus: Corpus) -> SparseRows:
        """Documents as the trees take them."""
        return of_unit_length(SparseRows.of(corpus.features))

    def score(self, corpus: Corpus, k: int, *, run: Run | None = None) -> Scores:
        run = run or Run()
        rows = self.rows_of(corpus)
        if self.shards_:
            return score_shards(self.shards_, rows, k, run)
        n, k = rows.n_rows, min(k, self.n_labels_)
        ids = np.full((n, k), -1, dtype=np.int32)
        scores = np.zeros((n, k), dtype=np.float32)

        def one(chunk: tuple[int, int]) -> None:
            first, last = chunk
            average(*self.lists(rows, first, last, k), self._steps(k), ids[first:last], scores[first:last])

        run.map(one, chunks(n, run), cost=size_of, title="Scoring")
        return Scores(ids, scores)

    def lists(self, rows: SparseRows, first: int, last: int, k: int) -> Lists:
        """What each tree finds for documents first..last: the lists that their k best labels are made from."""
        options, forests, spread = self._search_options, self._forests, Spread.over(self.n_features_)
        depth = self._steps(min(k, self.n_labels_))[-1, 0]
        ids = np.empty((len(forests), last - first, depth), dtype=np.int32)
        found = Lists(ids, np.empty(ids.shape, dtype=np.float32))
        for t in range(len(forests)):
            search(rows, first, forests[t], options, spread, found.ids[t], found.scores[t])
        return found

    def score_row(self, indices: Ints, values: Floats, k: int) -> tuple[Ints, Floats] | None:
        if self.shards_:
            return None
        k = min(k, self.n_labels_)
        steps, options, forests = self._steps(k), self._search_options, self._forests
        if len(forests.runs) == 1:
            ids, scores = score_row(forests.runs[0][1], indices, values, options, steps, k)
        else:
            lists = [search_row(run, indices, values, options, steps[-1, 0]) for _, run in forests.runs]
            ids, scores = np.empty((1, k), dtype=np.int32), np.empty((1, k), dtype=np.float32)
            average(*(np.concatenate(part) for part in zip(*lists, strict=True)), steps, ids, scores)
        found = int(np.searchsorted(ids[0] < 0, True))
        return ids[0, :found], scores[0, :found]

    @property
    def _search_options(self) -> SearchOptions:
        return SearchOptions(LOSSES[self.loss], self.beam_width, self.discount_of_ancestors)

    @property
    def _forests(self) -> Forests:
        kept: Forests | None = self.__dict__.get("forests_")
        if kept is None or not kept.holds(self.trees_):
            kept = self.forests_ = Forests(self.trees_)
        return kept

    def _steps(self, k: int) -> Longs:
        return steps_for(k, self.n_labels_, len(self.trees_))

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
        formats = {tree.weights for tree in self.trees_}
        if len(formats) > 1:
            raise ValueError(f"trees have weights of different formats: {', '.join(sorted(formats))}")
        self.weights = formats.pop() if formats else self.weights  # models of earlier versions do not say

    def convert_weights(self, weights: str) -> bool:
        self.set_params(weights=weights)
        if "trees_" in vars(self):
            self.trees_ = [tree.converted(weights) for tree in self.trees_]
        return True
