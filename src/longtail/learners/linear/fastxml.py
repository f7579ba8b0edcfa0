"""FastXML (https://doi.org/10.1145/2623330.2623651) and PfastreXML (https://doi.org/10.1145/2939672.2939756)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail.arrays import SparseRows
from longtail.augment.base import LabelVectors
from longtail.capabilities import CORPUS_SPACES, Capabilities
from longtail.corpus import Corpus
from longtail.fit import Fit
from longtail.learners.base import Learner
from longtail.learners.linear.fastxml_forest import (
    Centres,
    Forest,
    TailOptions,
    best_by_trees,
    best_by_trees_and_centres,
    read_only,
    route,
)
from longtail.learners.linear.fastxml_kernels import GrowthOptions, LabelPairs, grow
from longtail.learners.linear.fastxml_solver import L1Options
from longtail.learners.linear.memory import forest_stages
from longtail.learners.linear.resume import Pieces
from longtail.learners.linear.search import chunks, size_of
from longtail.learners.linear.tree import require_starts
from longtail.part import Arrays, option, prefixed, under
from longtail.plan import Sizes, Stage
from longtail.run import Bar, Run
from longtail.scores import Scores
from longtail.sparse import rows_of_pairs

#: A partition is done when a turn raises its mean nDCG by less (FastXML's code).
TOLERANCE = 1e-6

#: Trees that are kept together by a run that may be killed, at least.
GROUP = 10


@dataclass(kw_only=True)
class FastXML(Learner):
    """Trees over documents: each node parts them so that both sides rank their labels well; leaves keep label shares.

    A score is the mean over trees of the label's share in the leaf the document reaches.
    """

    trees: int = option(50, "trees, which differ by their random seed (FastXML)", low=1, high=10_000)
    max_leaf: int = option(10, "maximum number of documents per leaf, unless they cannot be separated (FastXML)", low=1)
    leaf_labels: int = option(100, "labels that a leaf keeps (FastXML)", low=1)
    cost: float = option(1.0, "C, weight of a node's logistic loss against the size of its weights (FastXML)", low=1e-6)
    eps: float = option(0.01, "a separator is done when its violations fell to this share (FastXML)", low=1e-6)
    max_newton: int = option(10, "maximum number of Newton steps per separator (FastXML)", low=1)
    max_passes: int = option(10, "maximum number of passes over the weights per Newton step (FastXML)", low=1)

    leaner: ClassVar[Mapping[str, Any]] = {"trees": 10}

    if TYPE_CHECKING:
        n_features_: int

    def plan(self, sizes: Sizes, run: Run) -> list[Stage]:
        """Trees are grown by tasks that each hold the documents once more, and joined when all are done."""
        return forest_stages(sizes, run, trees=self.trees, leaf_labels=self.leaf_labels)

    def gains(self, corpus: Corpus) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """What each stored pair adds to a ranking, float32 (Y.nnz,), and the factor on each label's share (L,).

        The gain is strength / IDCG, the ideal being that of a document whose labels all count 1.
        """
        strength = _strength(corpus)
        row = rows_of_pairs(corpus.Y)
        counted = np.bincount(row[strength > 0], minlength=len(corpus))
        ideal = np.append(0.0, np.cumsum(_discounts(int(counted.max(initial=0)))))[counted]
        gain = strength / np.where(ideal > 0, ideal, 1.0)[row]
        return gain.astype(np.float32), np.ones(corpus.n_labels, dtype=np.float32)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(needs=("X",), spaces=CORPUS_SPACES, retunes=True)

    def retune(self, corpus: Corpus, fit: Fit, vectors: LabelVectors | None = None) -> Self:
        """Trees have no encoder to keep: the second stage is a fit on the augmented, masked corpus."""
        return self.learn(corpus, fit)

    def learn(self, corpus: Corpus, fit: Fit) -> Self:
        rows, n_features = _rows(corpus), corpus.features.shape[1]
        pairs = self._pairs(corpus)
        separator = L1Options(self.eps, self.max_newton, self.max_passes)
        options = GrowthOptions(self.max_leaf, self.leaf_labels, TOLERANCE, self.cost, separator)
        pieces = Pieces(fit, self, corpus)

        def one(tree: int) -> Forest:
            return grow(rows, n_features, pairs, options, fit.run.seed_of(f"tree/{tree}"))

        def restored(kept: Arrays) -> Forest:
            return Forest.from_arrays(dict(kept), n_features, corpus.n_labels)

        def group(trees: Sequence[int], bar: Bar) -> Forest:
            def make() -> Forest:
                return Forest.joined(fit.run.within(bar).map(one, trees, title="Training"))

            return pieces.made(trees, make, Forest.arrays, restored, lambda: bar.advance(len(trees)))

        size = max(GROUP, fit.run.workers) if pieces.kept else self.trees
        with fit.run.stage("train"), fit.run.bar("Training", self.trees) as bar:
            groups = (range(low, min(low + size, self.trees)) for low in range(0, self.trees, size))
            self.forest_ = Forest.joined([group(trees, bar) for trees in groups])
        self.n_labels_, self.n_features_ = corpus.n_labels, n_features
        return self

    def _pairs(self, corpus: Corpus) -> LabelPairs:
        gain, label_weight = self.gains(corpus)
        pairs = SparseRows.of(corpus.Y)
        discount = _discounts(corpus.n_labels).astype(np.float32)
        return LabelPairs(pairs._replace(values=gain), pairs._replace(values=_strength(corpus)), label_weight, discount)

    def score(self, corpus: Corpus, k: int, *, run: Run | None = None) -> Scores:
        run = run or Run()
        rows = _rows(corpus)
        n, k = rows.n_rows, min(k, self.n_labels_)
        ids = np.full((n, k), -1, dtype=np.int32)
        scores = np.zeros((n, k), dtype=np.float32)

        def one(chunk: tuple[int, int]) -> None:
            first, last = chunk
            own = rows._replace(start=rows.start[first : last + 1])
            leaf = np.empty((self.forest_.trees, last - first), dtype=np.int32)
            route(own, self.forest_, np.zeros(self.n_features_, dtype=np.float32), leaf)
            self._best(leaf, own, ids[first:last], scores[first:last])

        run.map(one, chunks(n, run), cost=size_of, title="Scoring")
        return Scores(ids, scores)

    def _best(
        self, leaf: NDArray[np.int32], rows: SparseRows, ids: NDArray[np.int32], scores: NDArray[np.float32]
    ) -> None:
        """Fills ids and scores of documents whose leaves are leaf (trees, documents)."""
        best_by_trees(leaf, self.forest_, self.n_labels_, ids, scores)

    def state(self) -> dict[str, NDArray[Any]]:
        size = np.array([self.n_features_, self.n_labels_], dtype=np.int64)
        return {"size": size, **prefixed("forest", self.forest_.arrays())}

    def restore(self, arrays: Arrays) -> None:
        size = arrays.get("size")
        if size is None or size.shape != (2,) or size.dtype != np.int64 or (size < 0).any():
            raise ValueError("'size' must hold features and labels")
        n_features, n_labels = (int(v) for v in size)
        unknown = [name for name in arrays if name != "size" and not name.startswith(("forest.", *self._own_state()))]
        if unknown:
            raise ValueError(f"unknown arrays {unknown[:3]}")
        self.forest_ = Forest.from_arrays(under("forest", arrays), n_features, n_labels)
        self.n_features_, self.n_labels_ = n_features, n_labels

    def _own_state(self) -> tuple[str, ...]:
        """Prefixes of further arrays a subclass keeps."""
        return ()


@dataclass(kw_only=True)
class PfastreXML(FastXML):
    """FastXML for rare labels: gains and shares are weighted by inverse propensity, and labels whose documents look
    like the one at hand are moved up.

    A score is tree^alpha * tail^(1 - alpha): tree is the mean share times q over the largest q, tail is
    2 / (1 + exp(gamma |x - mu|^2)) with mu the mean of the label's documents. The two constant factors bring scores
    to [0, 1] and leave their order alone.
    """

    A: float = option(0.55, "A of the propensity model (Jain et al. 2016)", low=0, high=10)
    B: float = option(1.5, "B of the propensity model (Jain et al. 2016)", low=0)
    alpha: float = option(0.8, "weight of the trees against the tail term; 1 leaves it out (PfastreXML)", low=0, high=1)
    gamma: float = option(30.0, "how fast the tail term falls with the distance to the centre (PfastreXML)", low=0)
    shortlist: int = option(1000, "labels re-ranked, those best by the trees (PfastreXML)", low=1)

    def gains(self, corpus: Corpus) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """strength * q_l, without a normaliser for the document; shares are multiplied by q_l / max q."""
        q = corpus.labels.inverse_propensity(self.A, self.B)
        strength = _strength(corpus)
        return (strength * q[corpus.Y.indices]).astype(np.float32), (q / q.max(initial=1.0)).astype(np.float32)

    def learn(self, corpus: Corpus, fit: Fit) -> Self:
        super().learn(corpus, fit)
        with fit.run.stage("centres"):
            self.centres_ = _centres(corpus)
        return self

    def _best(
        self, leaf: NDArray[np.int32], rows: SparseRows, ids: NDArray[np.int32], scores: NDArray[np.float32]
    ) -> None:
        if self.alpha == 1:
            super()._best(leaf, rows, ids, scores)
            return
        options = TailOptions(self.shortlist, self.alpha, self.gamma)
        best_by_trees_and_centres(leaf, self.forest_, rows, self.centres_, options, ids, scores)

    def state(self) -> dict[str, NDArray[Any]]:
        return {**super().state(), **prefixed("centre", self.centres_._asdict())}

    def restore(self, arrays: Arrays) -> None:
        super().restore(arrays)
        kept = under("centre", arrays)
        wanted = {"start": np.int64, "label": np.int32, "value": np.float32, "norm": np.float32}
        if set(kept) != set(wanted):
            raise ValueError(f"centres keep {sorted(wanted)}, the file has {sorted(kept)}")
        for name, dtype in wanted.items():
            if kept[name].dtype != dtype or kept[name].ndim != 1:
                raise ValueError(f"centre.{name} must be a row of {np.dtype(dtype).name}")
        centres = Centres(**{name: read_only(kept[name]) for name in wanted})
        require_starts("centre.start", centres.start, len(centres.label), self.n_features_)
        if len(centres.value) != len(centres.label) or len(centres.norm) != self.n_labels_:
            raise ValueError("labels, values and norms of the centres differ in number")
        if len(centres.label) and (centres.label.min() < 0 or centres.label.max() >= self.n_labels_):
            raise ValueError("a centre's label is out of range")
        if not (np.isfinite(centres.value).all() and np.isfinite(centres.norm).all()):
            raise ValueError("a centre is not finite")
        self.centres_ = centres

    def _own_state(self) -> tuple[str, ...]:
        return ("centre.",)


def _strength(corpus: Corpus) -> NDArray[np.float32]:
    """Target times pair weight of each stored pair; 0 marks a pair that is left out."""
    return np.maximum(corpus.weighted_targets(), np.float32(0))


def _discounts(count: int) -> NDArray[np.float64]:
    """1 / log2(rank + 1) for the ranks 1 to count."""
    return 1.0 / np.log2(np.arange(2, count + 2))


def _rows(corpus: Corpus) -> SparseRows:
    """Features, rising within a row: training and scoring must add in one order."""
    X = corpus.features
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return SparseRows.of(X)


def _centres(corpus: Corpus) -> Centres:
    """mu_l, mean of the label's documents brought to unit length."""
    X = corpus.features
    length = np.sqrt(np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64)).ravel()
    unit = sp.diags_array(_inverse(length)) @ X  # in double precision, for the sums that follow
    strength = sp.csr_matrix((_strength(corpus), corpus.Y.indices, corpus.Y.indptr), corpus.Y.shape)
    total = np.asarray(strength.sum(axis=0), dtype=np.float64).ravel()
    centres = sp.csr_matrix(sp.diags_array(_inverse(total)) @ strength.T @ unit)
    norm = np.asarray(centres.multiply(centres).sum(axis=1)).ravel()
    by_feature = centres.astype(np.float32).tocsc()
    by_feature.eliminate_zeros()
    by_feature.sort_indices()
    made = Centres(
        by_feature.indptr.astype(np.int64),
        by_feature.indices.astype(np.int32, copy=False),
        by_feature.data,
        norm.astype(np.float32),
    )
    return Centres(*(read_only(array) for array in made))


def _inverse(sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    """1 / size, and 1 where it is 0."""
    return 1.0 / np.where(sizes > 0, sizes, 1.0)
