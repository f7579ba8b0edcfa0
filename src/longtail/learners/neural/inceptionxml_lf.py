"""InceptionXML-LF (Gandalf's paper, appendix A): InceptionXML whose labels have texts and neighbours, in two phases.

I   a label's vector is made of its text and its neighbours' texts; words learn from documents and labels alike
II  a vector of its own is added, which starts from the label's text; clusters, if any, are made anew from the texts
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

import scipy.sparse as sp
import torch

from longtail.corpus import Corpus
from longtail.errors import UsageError
from longtail.fit import Fit
from longtail.learners.neural.encoders.base import Encoder
from longtail.learners.neural.heads.base import Head
from longtail.learners.neural.heads.label_text import LabelText
from longtail.learners.neural.heads.label_text_network import LabelTextNetwork
from longtail.learners.neural.short_text import ShortTextLearner
from longtail.learners.neural.shortlists.base import Shortlist
from longtail.learners.neural.training.network import Network
from longtail.learners.neural.training.task import Task
from longtail.part import option


@dataclass(kw_only=True)
class InceptionXMLLF(ShortTextLearner):
    encoder: Any = option({"part": "inception", "routed": True}, "what turns a text into one vector")
    head: Any = option({"part": "label-text", "graph": True}, "what turns that into one score per label")
    word_rate: float = option(0.015, "learning rate of word vectors (measured)", low=0, high=10)
    label_rate: float = option(0.01, "learning rate of free label vectors (measured)", low=0, high=10)
    first_phase: float = option(
        0.0, "share of the epochs without free label vectors, at least one, 0 for one phase (paper: not given; two "
        "phases)", low=0, high=0.9, only={"steps": None},
    )  # fmt: skip

    def _check_parts(self, encoder: Encoder, head: Head, shortlist: Shortlist) -> None:
        super()._check_parts(encoder, head, shortlist)
        if self.first_phase and not (isinstance(head, LabelText) and head.free):
            raise UsageError("inceptionxml-lf.first_phase needs the head 'label-text' with free = true")
        if self.first_phase and self.passes.epochs < 2:
            raise UsageError("inceptionxml-lf.first_phase needs two epochs, one for each phase")

    def _fit_networks(self, corpus: Corpus, fit: Fit) -> None:
        facts = self._label_facts(corpus, fit.run)
        network = self.new_network(corpus.n_labels, fit.run)
        if not self.first_phase:
            self._bind(network, facts, corpus)
            self.network_ = self.shortlist.train(self, network, Task(corpus, fit, title="Phase II", facts=facts))
            return
        # each phase has at least one epoch
        passes = self.passes
        first = min(max(1, round(self.first_phase * passes.epochs)), passes.epochs - 1)
        part: LabelText = copy.copy(self.head)
        part.free, part.start = False, "zero"
        tied = Network(
            network.encoder, part.network(network.encoder.width, network.encoder.word_width, corpus.n_labels)
        )
        self._bind(tied, facts, corpus)
        alone = fit.child("phase 1").with_valid(None)
        begin = replace(passes, epochs=first)
        self.shortlist.train(self, tied, Task(corpus, alone, title="Phase I", passes=begin, nested=True, facts=facts))
        network.head.bind(network.encoder, facts)
        self._take(network, tied)

        def texts() -> sp.csr_matrix:
            words: Any = network.encoder.words
            return sp.csr_matrix(facts.texts @ words.weight.detach().numpy())

        rest = replace(passes, epochs=passes.epochs - first)
        last = Task(corpus, fit, title="Phase II", passes=rest, facts=facts, group_by=texts)
        self.network_ = self.shortlist.train(self, network, last)

    @staticmethod
    def _take(network: Network, tied: Network) -> None:
        """Residual blocks of the first phase go on in the second; the encoder is the same."""
        to, source = network.head, tied.head
        assert isinstance(to, LabelTextNetwork) and isinstance(source, LabelTextNetwork)
        with torch.no_grad():
            to.blocks.load_state_dict(source.blocks.state_dict())
            to.bias.weight.copy_(source.bias.weight)
