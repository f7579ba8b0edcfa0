"""Learners of short texts that find labels by way of clusters: DECAF, ECLARE, InceptionXML+ and InceptionXML-LF.

By default all labels are in one list and a loss is taken over the batch's own and random ones, which is quick up to
some hundred thousand labels and measured best. With `shortlist` "clusters" the learner goes the published way:
labels are clustered, a first network may learn the clusters alone (the surrogate task), and then clusters and labels
are learnt together (see `synchronised`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from longtail.augment.hooks import Hook
from longtail.corpus import Corpus
from longtail.features.tokens import Tokens
from longtail.learners.neural.batches import Children, SharedLabels
from longtail.learners.neural.clusters import label_clusters
from longtail.learners.neural.heads import Head, HeadNetwork, Pooled
from longtail.learners.neural.label_text import AboutLabels
from longtail.learners.neural.network import Network
from longtail.learners.neural.short_text import ShortText, folded
from longtail.learners.neural.synchronised import Mining, TwoHeads, score
from longtail.part import Arrays, option
from longtail.run import Run
from longtail.scores import Scores


@dataclass(kw_only=True)
class Clustered(ShortText):
    #: Whether clusters have texts, those of their labels together.
    cluster_texts: ClassVar[bool] = False

    shortlist: str = option(
        "none",
        "none: a loss over the batch's labels and random ones (measured best); clusters: over the labels of the best "
        "clusters of each document, found while training (published)",
        choices=("none", "clusters"),
    )
    cluster_size: int = option(
        8, "labels of a cluster, at the most (131,073 in 16,384 as published)", low=1, high=65_535
    )
    head_labels: int = option(500, "labels with more documents are clusters of their own", low=1)
    candidates: int = option(16, "clusters of a document whose labels are looked at", low=1, high=100_000)
    surrogate: int = option(0, "epochs on clusters alone before labels are learnt (DECAF, ECLARE: 20)", low=0)
    detached: float = option(
        0.0, "share of the training in which the labels' loss does not reach the encoder (InceptionXML+: 10 of 45)",
        low=0, high=1,
    )  # fmt: skip
    blocks: bool = option(True, "a residual block in front of either classifier (InceptionXML+)")
    joint: bool = option(True, "scores are the label's probability times its cluster's")

    def _fit_networks(self, corpus: Corpus, valid: Corpus | None, hooks: list[Hook], run: Run) -> None:
        if self.shortlist == "none":
            self.cluster_: NDArray[np.int32] | None = None
            super()._fit_networks(corpus, valid, hooks, run)
            return
        about = self._about(corpus, run)
        with run.stage("cluster"):
            self.cluster_ = label_clusters(self.encoder, corpus, about, self.cluster_size, run, self.head_labels)
        network = self._new_network(corpus.n_labels, run)
        network.head.bind(network.encoder, about)
        self._start_bias(network.head, corpus.labels)
        self._fit_two(network, self._cluster_head(network, about), corpus, valid, hooks, run, "Training")

    def _cluster_head(self, network: Network, about: AboutLabels) -> HeadNetwork:
        """Clusters are told apart by vectors of their own, or by the texts of their labels together (DECAF, ECLARE)."""
        part: Head = self.head if self.cluster_texts else Pooled()
        made = part.network(network.encoder.width, network.encoder.plain, self._n_clusters)
        assert self.cluster_ is not None
        made.bind(network.encoder, about.of_clusters(self.cluster_))
        return made

    @property
    def _n_clusters(self) -> int:
        assert self.cluster_ is not None
        return int(self.cluster_.max()) + 1

    # training
    def _fit_two(
        self,
        network: Network,
        clusters: HeadNetwork,
        corpus: Corpus,
        valid: Corpus | None,
        hooks: list[Hook],
        run: Run,
        title: str,
        epochs: int | None = None,
    ) -> None:
        """Clusters alone for the surrogate's epochs, then clusters and labels together.

        Validation looks at how labels are told apart, all of them.
        """
        assert self.cluster_ is not None
        if self.surrogate:
            above = corpus.by_group(self.cluster_)
            choice = SharedLabels(above.Y, above.pair_weight, self.negatives)
            first = Network(network.encoder, clusters)
            self._train(first, above, None, choice, [], run, f"{title} clusters", epochs=self.surrogate)
        width = network.encoder.width
        torch.manual_seed(run.seed_of(f"{title}/two heads"))
        two = Network(network.encoder, TwoHeads(clusters, network.head, width, self._dropout))
        steps = self._schedule(len(corpus), run, epochs).steps
        mining = Mining(
            Children.of(self.cluster_, self._n_clusters), self.cluster_, self.candidates, int(self.detached * steps)
        )
        # the loss is taken over the lists that mining makes; the batch brings the documents' own labels
        choice = SharedLabels(corpus.Y, corpus.pair_weight, 1)
        self._train(two, corpus, valid, choice, [*hooks, mining], run, title, epochs=epochs)
        self.network_ = folded(two)

    @property
    def _dropout(self) -> float | None:
        return float(self.encoder.dropout) if self.blocks else None

    # scoring
    def _score(self, tokens: Tokens, k: int, run: Run) -> Scores:
        if self.cluster_ is None:
            return super()._score(tokens, k, run)
        return score(self.network_, tokens, self.cluster_, self.candidates, k, joint=self.joint)

    # keeping
    def state(self) -> dict[str, NDArray[Any]]:
        return super().state() | ({} if self.cluster_ is None else {"cluster": self.cluster_})

    def restore(self, arrays: Arrays) -> None:
        rest = dict(arrays)
        cluster = rest.pop("cluster", None)
        self.cluster_ = None if cluster is None else np.array(cluster)
        if (cluster is None) != (self.shortlist == "none"):
            raise ValueError("the model has clusters where its options have none, or none where they have")
        if self.cluster_ is not None:
            found, labels = self.cluster_, np.asarray(rest["labels"])
            count = int(labels.ravel()[0]) if labels.dtype.kind == "i" else 0
            if found.dtype != np.int32 or found.shape != (count,) or found.min() < 0 or found.max() >= count:
                raise ValueError("not every label has a cluster")
        super().restore(rest)

    def _kept_head(self, encoder: Any, n_labels: int) -> HeadNetwork:
        labels = super()._kept_head(encoder, n_labels)
        if self.cluster_ is None:
            return labels
        clusters = Pooled().network(encoder.width, encoder.plain, self._n_clusters)
        return TwoHeads(clusters, labels, encoder.width, self._dropout)
