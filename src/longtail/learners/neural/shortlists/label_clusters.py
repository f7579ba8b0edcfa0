"""Labels by way of clusters, the published pipelines of DECAF, ECLARE, InceptionXML+, InceptionXML-LF and LightXML.

Labels are clustered, a first network may learn the clusters alone (the surrogate task), and then clusters and labels
are learnt together (see `mined`): a document is shown the labels of its best clusters. After the surrogate task
clusters may be made anew, by the vectors of documents that it taught, and word vectors may stand still.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from longtail.capabilities import Capabilities
from longtail.corpus import Corpus
from longtail.errors import UsageError
from longtail.features.tokens import Tokens
from longtail.learners.neural.heads.base import Head
from longtail.learners.neural.heads.network import HeadNetwork
from longtail.learners.neural.heads.pooled import Pooled
from longtail.learners.neural.shortlists.base import (
    Children,
    LabelChoice,
    OwnLabels,
    SharedLabels,
    Shortlist,
    true_first,
)
from longtail.learners.neural.shortlists.grouping import (
    grouped,
    grouped_by_vectors,
    grouped_by_words,
    grouped_labels,
)
from longtail.learners.neural.shortlists.mined import Mining, TwoHeads, best_clusters, score
from longtail.learners.neural.training.network import Network, vectors_of
from longtail.learners.neural.training.task import Passes, texts_of
from longtail.part import Arrays, option
from longtail.plan import Sizes
from longtail.scores import Scores

if TYPE_CHECKING:
    from longtail.learners.neural.base import NeuralLearner
    from longtail.learners.neural.encoders.base import Encoder
    from longtail.learners.neural.encoders.network import EncoderNetwork
    from longtail.learners.neural.training.task import Task


@dataclass(kw_only=True)
class LabelClusters(Shortlist):
    """A loss over the labels of each document's best clusters, which are learnt beside them."""

    size: int = option(8, "maximum number of labels per cluster (131,073 in 16,384 as published)", low=1, high=65_535)
    head_labels: int = option(500, "labels with more documents are clusters of their own", low=1)
    candidates: int = option(16, "clusters per document whose labels are looked at", low=1, high=100_000)
    texts: bool = option(
        False, "clusters are told apart by the texts of their labels together, not by vectors (DECAF, ECLARE: yes)"
    )
    surrogate: int = option(0, "epochs on clusters alone before labels are learnt (DECAF, ECLARE: 20)", low=0)
    negatives: int = option(2000, "random clusters beside a batch's own in the surrogate task, 0 for all", low=0)
    frozen: bool = option(
        False, "word vectors stand still after the surrogate task (ECLARE, DECAF-lite: yes; DECAF: no)"
    )
    anew: bool = option(
        False, "after the surrogate task clusters are made anew, by what the encoder makes of the labels' documents "
        "(DECAF, ECLARE: yes)",
    )  # fmt: skip
    detached: float = option(
        0.0, "share of the training in which the labels' loss does not reach the encoder (InceptionXML+: 10 of 45)",
        low=0, high=1,
    )  # fmt: skip
    blocks: bool = option(True, "a residual block in front of either classifier (InceptionXML+)")
    joint: bool = option(True, "scores are the label's probability times its cluster's")

    def validate(self) -> None:
        super().validate()
        for name, default in (("negatives", 2000), ("frozen", False), ("anew", False)):
            if getattr(self, name) != default and not self.surrogate:
                raise UsageError(f"label-clusters.{name} counts only where surrogate is at least 1; leave it out")

    def check_encoder(self, encoder: Encoder) -> None:
        if self.frozen and not encoder.trains_words:
            raise UsageError("label-clusters.frozen counts only with encoders that train word vectors; leave it out")
        if self.anew and encoder.capabilities.per_token:
            raise UsageError("label-clusters.anew needs an encoder that gives one vector per document; leave it out")

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(needs=("label texts",) if self.texts else ())

    def shown(self, sizes: Sizes, batch: int) -> tuple[int, bool]:
        return min(sizes.labels, self.candidates * self.size), True

    def weights(self, width: int, sizes: Sizes) -> int:
        return (sizes.labels // self.size + 1) * (width + 1) + 2 * width * width

    # training
    def choice(self, corpus: Corpus) -> LabelChoice:
        # the loss is taken over the lists that mining makes; the batch brings the documents' own labels
        return SharedLabels(corpus.Y, corpus.pair_weight, 1)

    def train(self, learner: NeuralLearner, network: Network, task: Task) -> Network:
        """Clusters alone for the surrogate's epochs, then clusters and labels together.

        Validation looks at how labels are told apart, all of them.
        """
        corpus, fit = task.corpus, task.fit
        with fit.run.stage("cluster"):
            self.cluster_ = self._clusters_of(learner, task)
        torch.manual_seed(fit.run.seed_of(f"{task.title}/clusters"))  # whatever was trained, or recalled, before
        clusters = self._cluster_head(learner, network, task)
        if self.surrogate:
            self._surrogate(learner, Network(network.encoder, clusters), task)
        if self.anew:
            with fit.run.stage("cluster"):
                self.cluster_ = self._clusters_anew(learner, network, task)
            torch.manual_seed(fit.run.seed_of(f"{task.title}/clusters anew"))
            clusters = self._cluster_head(learner, network, task)
            if task.facts is not None:  # free vectors that start from texts start from what words have become
                network.head.bind(network.encoder, task.facts)
        torch.manual_seed(fit.run.seed_of(f"{task.title}/two heads"))
        two = Network(network.encoder, TwoHeads(clusters, network.head, network.encoder.width, self._dropout(learner)))
        detached = int(self.detached * learner.schedule_of(task).steps)
        mining = Mining(Children.of(self.cluster_, self._count), self.cluster_, self.candidates, detached)
        mined = replace(task, choice=self.choice(corpus), fit=fit.with_hooks([*fit.hooks, mining]))
        with _standing_still(network.encoder.words) if self.frozen else nullcontext():
            learner.train_network(two, mined)
        return two.folded()

    def _surrogate(self, learner: NeuralLearner, network: Network, task: Task) -> None:
        """Trains encoder and classifier of clusters."""
        above = task.corpus.by_group(self.cluster_)
        alone = replace(
            task,
            corpus=above,
            fit=task.fit.child("clusters").with_valid(None).with_hooks(()),
            choice=SharedLabels(above.Y, above.pair_weight, self.negatives),
            title=f"{task.title} clusters",
            passes=Passes.of(self.surrogate, 0, learner.least_steps),
            nested=True,
        )
        learner.train_network(network, alone)

    def _clusters_anew(self, learner: NeuralLearner, network: Network, task: Task) -> NDArray[np.int32]:
        """By what the encoder makes of the labels' documents, smoothed along the graph if any."""
        corpus, run = task.corpus, task.fit.run
        vectors = vectors_of(network, learner.encoder.tokens(texts_of(corpus), run))
        return grouped_by_vectors(vectors, corpus, task.facts, self.size, run, self.head_labels)

    def _clusters_of(self, learner: NeuralLearner, task: Task) -> NDArray[np.int32]:
        corpus, run = task.corpus, task.fit.run
        if task.group_by is not None:
            return grouped(task.group_by(), corpus.labels.frequency > self.head_labels, self.size, run)
        if task.facts is None:
            return grouped_by_words(corpus, self.size, run, self.head_labels)
        return grouped_labels(learner.encoder, corpus, task.facts, self.size, run, self.head_labels)

    def _cluster_head(self, learner: NeuralLearner, network: Network, task: Task) -> HeadNetwork:
        part: Head = learner.head if self.texts else Pooled()
        made = part.network(network.encoder.width, network.encoder.word_width, self._count)
        if task.facts is not None:
            made.bind(network.encoder, task.facts.of_clusters(self.cluster_))
        return made

    @property
    def _count(self) -> int:
        return int(self.cluster_.max()) + 1

    def _dropout(self, learner: NeuralLearner) -> float | None:
        return float(learner.encoder.dropout) if self.blocks else None

    def retune_choice(self, network: Network, corpus: Corpus, tokens: Tokens) -> LabelChoice:
        found = best_clusters(network, tokens, self._count, self.candidates)
        parents = true_first(found, corpus.by_group(self.cluster_).positives(), self.candidates)
        return OwnLabels(corpus.Y, corpus.pair_weight, parents, Children.of(self.cluster_, self._count))

    # scoring
    def best(self, network: Network, tokens: Tokens, n_labels: int, k: int) -> Scores:
        return score(network, tokens, self.cluster_, self.candidates, k, joint=self.joint)

    # keeping
    def kept_head(self, learner: NeuralLearner, encoder: EncoderNetwork, n_labels: int) -> HeadNetwork:
        labels = super().kept_head(learner, encoder, n_labels)
        clusters = Pooled().network(encoder.width, encoder.word_width, self._count)
        return TwoHeads(clusters, labels, encoder.width, self._dropout(learner))

    def state(self) -> dict[str, NDArray[Any]]:
        return {"cluster": self.cluster_}

    def restore_for(self, n_labels: int, arrays: Arrays) -> None:
        if set(arrays) != {"cluster"}:
            raise ValueError("a model with clusters keeps the cluster of each label, and nothing else")
        found = np.array(arrays["cluster"])
        if found.dtype != np.int32 or found.shape != (n_labels,):
            raise ValueError("not every label has a cluster")
        if found.min() < 0 or found.max() >= n_labels:
            raise ValueError("not every label has a cluster")
        self.cluster_ = found


@contextmanager
def _standing_still(module: Any) -> Iterator[None]:
    """Within, weights of a module are not trained."""
    before = [weight.requires_grad for weight in module.parameters()]
    module.requires_grad_(False)
    try:
        yield
    finally:
        for weight, trained in zip(module.parameters(), before, strict=True):
            weight.requires_grad_(trained)
