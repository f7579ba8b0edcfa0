"""AttentionXML (https://arxiv.org/abs/1811.01727): BiLSTM, one attention per label, and a label tree for many labels.

Up to `flat` labels one network attends to all of them. Beyond, labels are clustered into a shallow tree, and one
network per level tells apart the children of the C best nodes of the level above: a document meets some hundred labels,
never all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail.corpus import Corpus
from longtail.errors import UsageError
from longtail.features.tfidf import Tfidf
from longtail.features.tokens import Tokens
from longtail.fit import Fit
from longtail.learners.linear.label_tree import Parabel
from longtail.learners.linear.nodes import Documents
from longtail.learners.linear.tree import Shape
from longtail.learners.neural.base import NeuralLearner
from longtail.learners.neural.encoders.base import Encoder
from longtail.learners.neural.heads.base import Head
from longtail.learners.neural.memory import grouped, network_stages, token_stage
from longtail.learners.neural.shortlists.base import Children, LabelChoice, OwnLabels, Shortlist, true_first
from longtail.learners.neural.shortlists.label_clusters import LabelClusters
from longtail.learners.neural.training.network import Candidates, best_labels
from longtail.learners.neural.training.task import Task, texts_of
from longtail.learners.neural.training.weights import weights_of
from longtail.part import Arrays, option, prefixed, under
from longtail.plan import Sizes, Stage, holding, peak_of
from longtail.run import Run
from longtail.scores import Scores

#: Documents that go down the tree together when scoring: their lists of candidates are held at once.
CHUNK = 1024
#: What options of the tree need.
WITH_TREE = {"tree": ("auto", "always")}


@dataclass(kw_only=True)
class AttentionXML(NeuralLearner):
    shortlist: Any = option(
        "sampled-labels", "which labels a loss is taken over, on the tree's first level where there is one: "
        "sampled-labels, all-labels",
    )  # fmt: skip
    tree: str = option(
        "auto", "label tree: auto (above `flat` labels), always, never", choices=("auto", "always", "never")
    )
    flat: int = option(20_000, "labels up to which one network attends to all", low=1, only={"tree": "auto"})
    branches: int = option(8, "maximum labels per cluster, clusters per node (K)", low=2, high=1024, only=WITH_TREE)
    top: int = option(2048, "maximum number of nodes of the first level (AttentionXML: 2^11)", low=2, only=WITH_TREE)
    candidates: int = option(
        160, "nodes per level whose children are looked at (C)", low=1, high=100_000, only=WITH_TREE
    )

    def _check_parts(self, encoder: Encoder, head: Head, shortlist: Shortlist) -> None:
        super()._check_parts(encoder, head, shortlist)
        if isinstance(shortlist, LabelClusters) and self.tree != "never":
            raise UsageError(
                "'attentionxml' has a label tree in place of 'label-clusters'; set attentionxml.tree to never"
            )

    def _has_tree(self, n_labels: int) -> bool:
        return self.tree == "always" or (self.tree == "auto" and n_labels > self.flat)

    def plan(self, sizes: Sizes, run: Run) -> list[Stage]:
        """With a tree: features and label vectors to grow it by, and a network per level, which all are kept."""
        if not self._has_tree(sizes.labels):
            return super().plan(sizes, run)
        tfidf = Tfidf()
        made = tfidf.planned(sizes)
        grow = holding("features", made.X_bytes, [*tfidf.plan(sizes, run)[:1], *Parabel(trees=1).plan(made, run)[:1]])
        stages = [token_stage(self, sizes), Stage("tree", sum(s.seconds for s in grow), peak_of(grow))]
        nodes = [sizes.labels]
        while nodes[0] > self.top:
            nodes.insert(0, -(-nodes[0] // self.branches))
        for level, count in enumerate(nodes):
            listed = self.branches * self.candidates if level else 0
            stages += network_stages(self, grouped(sizes, count), f"level {level + 1}", listed)
        return stages

    def _fit_networks(self, corpus: Corpus, fit: Fit) -> None:
        self.parents_: list[NDArray[np.int32]] = []
        if not self._has_tree(corpus.n_labels):
            super()._fit_networks(corpus, fit)
            self.networks_ = [self.network_]
            return
        self.parents_ = self._grow(corpus, fit.run)
        self.networks_ = []
        for level in range(len(self.parents_) + 1):
            self._fit_level(level, self._on_level(corpus, level), fit.child(f"level/{level}"))
        self.network_ = self.networks_[-1]

    def _fit_level(self, level: int, corpus: Corpus, fit: Fit) -> None:
        """One network, which starts from the layers of the level above; its attention starts anew."""
        lowest = len(self.parents_)
        network = self.new_network(corpus.n_labels, fit.run)
        # augmenters are for labels, and labels are on the last level
        fit = fit if level == lowest else fit.with_hooks(())
        title = f"Training level {level + 1} of {lowest + 1}"
        if level == 0:
            fit = fit.with_valid(fit.valid and self._on_level(fit.valid, 0))
            choice: LabelChoice = self.shortlist.choice(corpus)
        else:
            fit = fit.with_valid(None)
            network.encoder.load_state_dict(self.networks_[-1].encoder.state_dict())
            choice = self._listed(level, corpus, self.encoder.tokens(texts_of(corpus), fit.run, keep=True))
        self.train_network(network, Task(corpus, fit, choice, title=title, nested=True))
        self.networks_.append(network)

    def _listed(self, level: int, corpus: Corpus, tokens: Tokens) -> LabelChoice:
        """The children of each document's best nodes on the level above, its true ones among them."""
        children = Children.of(self.parents_[level - 1], self._sizes()[level - 1])
        found = self._descend(tokens, level - 1, self.candidates)
        parents = true_first(found, self._on_level_above(corpus, level), self.candidates)
        return OwnLabels(corpus.Y, corpus.pair_weight, parents, children)

    def retune_choice(self, corpus: Corpus, tokens: Tokens, run: Run) -> LabelChoice:
        if not self.parents_:
            return super().retune_choice(corpus, tokens, run)
        return self._listed(len(self.parents_), corpus, tokens)

    # the tree
    def _grow(self, corpus: Corpus, run: Run) -> list[NDArray[np.int32]]:
        """The parent of each node, level by level from the second down to the labels; -1 for labels nobody carries."""
        try:
            features = Tfidf().fit_transform(texts_of(corpus), run=run)
        except UsageError:  # no word tells any two documents apart, and so none tells labels apart
            features = sp.csr_matrix(sp.coo_array((len(corpus), 1), dtype=np.float32))
        whole = replace(corpus, X=features, noise=None)
        (shape,) = Parabel(trees=1, max_leaf=self.branches).shapes(Documents.of(whole), run)
        leaf = _leaves(shape, corpus.n_labels)
        parents, nodes = [leaf], int(leaf.max()) + 1
        while nodes > self.top:
            # leaves are numbered from left to right, so neighbours by number are neighbours in the tree
            parents.insert(0, (np.arange(nodes) // self.branches).astype(np.int32))
            nodes = -(-nodes // self.branches)
        return parents

    def _sizes(self) -> list[int]:
        """Nodes of each level that has children."""
        return [int(parent.max()) + 1 for parent in self.parents_]

    def _on_level(self, corpus: Corpus, level: int) -> Corpus:
        """The documents with the nodes of a level as their labels: a node holds where one of its labels does."""
        for parent in reversed(self.parents_[level:]):
            corpus = corpus.by_group(parent)
        return corpus

    def _on_level_above(self, corpus: Corpus, level: int) -> sp.csr_matrix:
        return corpus.by_group(self.parents_[level - 1]).positives()

    def _descend(self, tokens: Tokens, level: int, k: int) -> Scores:
        """The k best nodes of a level: probabilities are products along the way."""
        ids, values = [], []
        for start in range(0, len(tokens), CHUNK):
            part = tokens.rows(np.arange(start, min(start + CHUNK, len(tokens))))
            found = self._best(part, level, k).top(k)  # lists of candidates may be shorter than k
            ids.append(found.ids)
            values.append(found.values)
        return Scores(np.concatenate(ids), np.concatenate(values))

    def _best(self, tokens: Tokens, level: int, k: int) -> Scores:
        sizes = [*self._sizes(), self.n_labels_ if level == len(self.parents_) else 0]
        found = best_labels(self.networks_[0], tokens, sizes[0], k if level == 0 else self.candidates)
        for depth in range(1, level + 1):
            parent = self.parents_[depth - 1]
            lists, whose = Children.of(parent, sizes[depth - 1]).expanded(found.ids)
            there = lists < len(parent)
            prior = np.where(there, np.take_along_axis(found.values, whose, 1), np.float32(0))
            shown = Candidates(np.minimum(lists, len(parent) - 1).astype(np.int32), prior)
            wanted = k if depth == level else self.candidates
            found = best_labels(self.networks_[depth], tokens, len(parent), wanted, shown=shown)
        return found

    def _score(self, tokens: Tokens, k: int, run: Run) -> Scores:
        if not self.parents_:
            return super()._score(tokens, k, run)
        return self._descend(tokens, len(self.parents_), k)

    # keeping
    def state(self) -> dict[str, NDArray[Any]]:
        if not self.parents_:
            return super().state()
        state = {name: array for name, array in super().state().items() if not name.startswith("network.")}
        for level, parent in enumerate(self.parents_):
            state[f"parent{level}"] = parent
        for level, network in enumerate(self.networks_):
            state |= prefixed(f"level{level}", weights_of(network))
        return state

    def restore(self, arrays: Arrays) -> None:
        self.parents_ = []
        if "parent0" not in arrays:
            super().restore(arrays)
            self.networks_ = [self.network_]
            return
        self._restore_common(arrays)
        while f"parent{len(self.parents_)}" in arrays:
            parent = np.asarray(arrays[f"parent{len(self.parents_)}"])
            if parent.dtype != np.int32 or parent.ndim != 1 or not len(parent) or parent.min() < -1 or parent.max() < 0:
                raise ValueError("a level of the label tree is not what it should be")
            self.parents_.append(parent)
        widths = [*(len(parent) for parent in self.parents_)]
        sizes = self._sizes()
        if widths[-1] != self.n_labels_ or any(
            above != below for above, below in zip(widths[:-1], sizes[1:], strict=True)
        ):
            raise ValueError("the levels of the label tree do not fit one another")
        names = {"labels", *(f"parent{level}" for level in range(len(sizes)))}
        extra = {name.partition(".")[0] for name in arrays} - names - {"encoder"}
        if extra != {f"level{level}" for level in range(len(sizes) + 1)}:
            raise ValueError(f"a tree of {len(sizes) + 1} levels needs as many networks")
        self.networks_ = [
            self._restored_network(size, under(f"level{level}", arrays))
            for level, size in enumerate([sizes[0], *widths])
        ]
        self.network_ = self.networks_[-1]


def _leaves(shape: Shape, n_labels: int) -> NDArray[np.int32]:
    """int32 (L,): the leaf of each label, leaves numbered from left to right; -1 for labels that are in no leaf."""
    left = np.zeros(shape.nodes)
    size = np.ones(shape.nodes)
    slots = np.diff(shape.slot_start)
    for low, high in zip(shape.level_start[:-1], shape.level_start[1:], strict=True):
        inner = np.flatnonzero(~shape.leaf[low:high]) + low
        for child in range(int(slots[inner].max(initial=0))):
            having = inner[slots[inner] > child]
            target = shape.slot_target[shape.slot_start[having] + child]
            left[target] = left[having] + size[having] * child / slots[having]
            size[target] = size[having] / slots[having]
    ends = np.flatnonzero(shape.leaf)
    number = np.empty(shape.nodes, dtype=np.int32)
    number[ends[np.argsort(left[ends], kind="stable")]] = np.arange(len(ends))
    found = np.full(n_labels, -1, dtype=np.int32)
    node = np.repeat(np.arange(shape.nodes), slots)
    in_leaf = shape.leaf[node]
    found[shape.slot_target[in_leaf]] = number[node[in_leaf]]
    return found
