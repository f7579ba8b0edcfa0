"""FastXML (https://doi.org/10.1145/2623330.2623651) and PfastreXML (https://doi.org/10.1145/2939672.2939756)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail.augment.base import LabelVectors
from longtail.capabilities import CORPUS_SPACES, Capabilities
from longtail.corpus import Corpus
from longtail.fit import Fit
from longtail.learners.base import Learner
from longtail.learners.linear.fastxml_forest import Forest, best_by_trees, best_by_trees_and_centres, read_only, route
from longtail.learners.linear.fastxml_kernels import grow
from longtail.learners.linear.tree import CHUNK, _require_starts
from longtail.part import Arrays, option, prefixed, under
from longtail.run import Run
from longtail.scores import Scores

#: A partition is done when a turn raises its mean nDCG by less (FastXML's code).
TOLERANCE = 1e-6


@dataclass(kw_only=True)
class FastXML(Learner):
    """Trees over documents: each node parts them so that both sides rank their labels well; leaves keep label shares.

    A score is the mean over trees of the label's share in the leaf the document reaches.
    """

    trees: int = option(50, "trees, which differ by their random seed (FastXML)", low=1, high=10_000)
    max_leaf: int = option(10, "documents in a leaf at the most, unless they cannot be parted (FastXML)", low=1)
    leaf_labels: int = option(100, "labels a leaf keeps (FastXML)", low=1)
    cost: float = option(1.0, "C, weight of a node's logistic loss against the size of its weights (FastXML)", low=1e-6)
    eps: float = option(0.01, "a separator is done when its violations fell to this share (FastXML)", low=1e-6)
    max_newton: int = option(10, "Newton steps of a separator at the most (FastXML)", low=1)
    max_passes: int = option(10, "passes over the weights within a Newton step at the most (FastXML)", low=1)

    if TYPE_CHECKING:
        n_features_: int

    def gains(self, corpus: Corpus) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """What each stored pair adds to a ranking, float32 (Y.nnz,), and the factor on each label's share (L,).

        The gain is strength / IDCG, the ideal being that of a document whose labels all count 1.
        """
        strength = _strength(corpus)
        row = np.repeat(np.arange(len(corpus)), np.diff(corpus.Y.indptr))
        counted = np.bincount(row[strength > 0], minlength=len(corpus))
        ideal = np.concatenate([[0.0], np.cumsum(_discounts(int(counted.max(initial=0))))])[counted]
        gain = strength / np.where(ideal > 0, ideal, 1.0)[row]
        return gain.astype(np.float32), np.ones(corpus.n_labels, dtype=np.float32)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(needs=("X",), spaces=CORPUS_SPACES, retunes=True)

    def retune(self, corpus: Corpus, fit: Fit, vectors: LabelVectors | None = None) -> Self:
        """Trees have no encoder to keep: the second stage is a fit on the augmented, masked corpus."""
        return self.learn(corpus, fit)

    def learn(self, corpus: Corpus, fit: Fit) -> Self:
        run = fit.run
        indptr, indices, values = _rows(corpus)
        n_features = corpus.features.shape[1]
        strength = _strength(corpus)
        gain, label_weight = self.gains(corpus)
        pairs = corpus.Y.indptr.astype(np.int64), corpus.Y.indices.astype(np.int32, copy=False), gain, strength
        discount = _discounts(corpus.n_labels).astype(np.float32)

        def one(tree: int) -> tuple[NDArray[Any], ...]:
            return grow(
                indptr, indices, values, n_features, *pairs, label_weight, discount, self.max_leaf, self.leaf_labels,
                self.cost, self.eps, self.max_newton, self.max_passes, TOLERANCE, run.seed_of(f"tree/{tree}"),
            )  # fmt: skip

        with run.stage("train"):
            self.forest_ = Forest.of(run.map(one, range(self.trees), title="Training"))
        self.n_labels_, self.n_features_ = corpus.n_labels, n_features
        return self

    def score(self, corpus: Corpus, k: int, *, run: Run | None = None) -> Scores:
        run = run or Run()
        rows = _rows(corpus)
        forest = self.forest_
        n = len(rows[0]) - 1
        k = min(k, self.n_labels_)
        ids = np.full((n, k), -1, dtype=np.int32)
        scores = np.zeros((n, k), dtype=np.float32)

        def one(first: int) -> None:
            last = min(first + CHUNK, n)
            leaf = np.empty((forest.trees, last - first), dtype=np.int32)
            lookup = np.zeros(self.n_features_, dtype=np.float32)
            route(
                *rows, first, last, forest.tree_start, forest.child, forest.bias,
                forest.weight_start, forest.feature, forest.weight, lookup, leaf,
            )  # fmt: skip
            self._best(leaf, rows, first, ids[first:last], scores[first:last])

        run.map(one, range(0, n, CHUNK), cost=lambda first: min(CHUNK, n - first), title="Scoring")
        return Scores(ids, scores)

    def _best(
        self,
        leaf: NDArray[np.int32],
        rows: tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]],
        first: int,
        ids: NDArray[np.int32],
        scores: NDArray[np.float32],
    ) -> None:
        """Fills ids and scores for the documents from `first` on, whose leaves are leaf (trees, documents)."""
        forest = self.forest_
        best_by_trees(leaf, forest.leaf_start, forest.label, forest.share, self.n_labels_, ids, scores)

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
        self,
        leaf: NDArray[np.int32],
        rows: tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]],
        first: int,
        ids: NDArray[np.int32],
        scores: NDArray[np.float32],
    ) -> None:
        if self.alpha == 1:
            super()._best(leaf, rows, first, ids, scores)
            return
        forest = self.forest_
        best_by_trees_and_centres(
            leaf, forest.leaf_start, forest.label, forest.share, *rows, first,
            self.centres_["start"], self.centres_["label"], self.centres_["value"], self.centres_["norm"],
            max(self.shortlist, ids.shape[1]), self.alpha, self.gamma, ids, scores,
        )  # fmt: skip

    def state(self) -> dict[str, NDArray[Any]]:
        return {**super().state(), **prefixed("centre", self.centres_)}

    def restore(self, arrays: Arrays) -> None:
        super().restore(arrays)
        centres = under("centre", arrays)
        wanted = {"start": np.int64, "label": np.int32, "value": np.float32, "norm": np.float32}
        if set(centres) != set(wanted):
            raise ValueError(f"centres keep {sorted(wanted)}, the file has {sorted(centres)}")
        for name, dtype in wanted.items():
            if centres[name].dtype != dtype or centres[name].ndim != 1:
                raise ValueError(f"centre.{name} must be a row of {np.dtype(dtype).name}")
        start, label, value, norm = (centres[name] for name in wanted)
        _require_starts("centre.start", start, len(label), self.n_features_)
        if len(value) != len(label) or len(norm) != self.n_labels_:
            raise ValueError("labels, values and norms of the centres differ in number")
        if len(label) and (label.min() < 0 or label.max() >= self.n_labels_):
            raise ValueError("a centre's label is out of range")
        if not (np.isfinite(value).all() and np.isfinite(norm).all()):
            raise ValueError("a centre is not finite")
        self.centres_ = {name: read_only(centres[name]) for name in wanted}

    def _own_state(self) -> tuple[str, ...]:
        return ("centre.",)


def _strength(corpus: Corpus) -> NDArray[np.float32]:
    """Target times pair weight of each stored pair; 0 marks a pair that is left out."""
    return np.maximum(corpus.weighted_targets(), np.float32(0))


def _discounts(count: int) -> NDArray[np.float64]:
    """1 / log2(rank + 1) for the ranks 1 to count."""
    return 1.0 / np.log2(np.arange(2, count + 2))


def _rows(corpus: Corpus) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
    """Features as indptr, indices, values, rising within a row: training and scoring must add in one order."""
    X = corpus.features
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X.indptr.astype(np.int64), X.indices.astype(np.int32, copy=False), X.data.astype(np.float32, copy=False)


def _centres(corpus: Corpus) -> dict[str, NDArray[Any]]:
    """mu_l, mean of the label's documents brought to unit length, by feature.

    start  int64 (D + 1,), label int32, value float32: the labels whose centre has the feature, and how much of it
    norm   float32 (L,), |mu_l|^2
    """
    X = corpus.features
    length = np.sqrt(np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64)).ravel()
    unit = sp.diags_array(_inverse(length)) @ X
    strength = sp.csr_matrix((_strength(corpus), corpus.Y.indices, corpus.Y.indptr), corpus.Y.shape)
    total = np.asarray(strength.sum(axis=0), dtype=np.float64).ravel()
    centres = sp.csr_matrix(sp.diags_array(_inverse(total)) @ strength.T @ unit)
    norm = np.asarray(centres.multiply(centres).sum(axis=1)).ravel()
    by_feature = centres.astype(np.float32).tocsc()
    by_feature.eliminate_zeros()
    by_feature.sort_indices()
    arrays: dict[str, NDArray[Any]] = {
        "start": by_feature.indptr.astype(np.int64),
        "label": by_feature.indices.astype(np.int32, copy=False),
        "value": by_feature.data,
        "norm": norm.astype(np.float32),
    }
    return {name: read_only(array) for name, array in arrays.items()}


def _inverse(sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    """1 / size, and 1 where it is 0."""
    return 1.0 / np.where(sizes > 0, sizes, 1.0)
