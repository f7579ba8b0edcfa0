"""InceptionXML-LF (Gandalf's paper, appendix A): InceptionXML whose labels have texts and neighbours, in two phases.

I   a label's vector is made of its text and its neighbours' texts; words learn from documents and labels alike
II  a vector of its own is added, which starts from the label's text; clusters, if any, are made anew from the texts
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, ClassVar

import scipy.sparse as sp
import torch

from longtail.augment.hooks import Hook
from longtail.corpus import Corpus
from longtail.errors import UsageError
from longtail.learners.neural.batches import SharedLabels
from longtail.learners.neural.clustered import Clustered
from longtail.learners.neural.clusters import grouped, label_clusters
from longtail.learners.neural.encoders import Encoder
from longtail.learners.neural.heads import Head
from longtail.learners.neural.label_text import AboutLabels, LabelText, LabelTextNetwork
from longtail.learners.neural.network import Network
from longtail.learners.neural.short_text import folded
from longtail.part import option
from longtail.run import Run


@dataclass(kw_only=True)
class InceptionXMLLF(Clustered):
    cluster_texts: ClassVar[bool] = False

    encoder: Any = option({"part": "inception", "routed": True}, "what turns a text into one vector")
    head: Any = option({"part": "label-text", "graph": True}, "what turns that into one score a label")
    word_rate: float = option(0.015, "learning rate of word vectors (measured)", low=0, high=10)
    label_rate: float = option(0.01, "learning rate of free label vectors (measured)", low=0, high=10)
    first_phase: float = option(
        0.0, "share of the epochs without free label vectors, 0 for one phase (paper: not given; two phases)",
        low=0, high=0.9,
    )  # fmt: skip

    def _check_parts(self, encoder: Encoder, head: Head) -> None:
        super()._check_parts(encoder, head)
        if self.first_phase and not isinstance(head, LabelText):
            raise UsageError("inceptionxml-lf.first_phase needs the head 'label-text'")

    def _fit_networks(self, corpus: Corpus, valid: Corpus | None, hooks: list[Hook], run: Run) -> None:
        self.cluster_ = None
        about = self._about(corpus, run)
        network = self._new_network(corpus.n_labels, run)
        first = round(self.first_phase * self.epochs)
        if first:
            part: LabelText = copy.copy(self.head)
            part.free = False
            tied = Network(network.encoder, part.network(network.encoder.width, network.encoder.plain, corpus.n_labels))
            self._phase(tied, corpus, None, hooks, run, "Phase I", first, about, again=False)
            self._take(network, tied)
        self._phase(network, corpus, valid, hooks, run, "Phase II", self.epochs - first, about, again=bool(first))

    def _phase(
        self,
        network: Network,
        corpus: Corpus,
        valid: Corpus | None,
        hooks: list[Hook],
        run: Run,
        title: str,
        epochs: int,
        about: AboutLabels,
        *,
        again: bool,
    ) -> None:
        network.head.bind(network.encoder, about)
        if not again:
            self._start_bias(network.head, corpus.labels)
        if self.shortlist == "none":
            choice = SharedLabels(corpus.Y, corpus.pair_weight, self.negatives)
            self._train(network, corpus, valid, choice, hooks, run, title, epochs=epochs)
            self.network_ = folded(network)
            return
        with run.stage("cluster"):
            if again:
                words: Any = network.encoder.words
                texts = sp.csr_matrix(about.texts @ words.weight.detach().numpy())
                alone = corpus.labels.frequency > self.head_labels
                self.cluster_ = grouped(texts, alone, self.cluster_size, run)
            else:
                self.cluster_ = label_clusters(self.encoder, corpus, about, self.cluster_size, run, self.head_labels)
        self._fit_two(network, self._cluster_head(network, about), corpus, valid, hooks, run, title, epochs=epochs)

    @staticmethod
    def _take(network: Network, tied: Network) -> None:
        """Residual blocks of the first phase go on in the second; the encoder is the same."""
        to, source = network.head, tied.head
        assert isinstance(to, LabelTextNetwork) and isinstance(source, LabelTextNetwork)
        with torch.no_grad():
            to.blocks.load_state_dict(source.blocks.state_dict())
            to.bias.weight.copy_(source.bias.weight)
