"""What learners of short texts have in common: one vector per document, many labels, and labels that have texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from longtail.corpus import Corpus
from longtail.errors import UsageError
from longtail.fit import Fit
from longtail.labels import LabelIndex
from longtail.learners.neural.base import NeuralLearner
from longtail.learners.neural.encoders.base import Encoder
from longtail.learners.neural.encoders.short import ShortTextEncoder
from longtail.learners.neural.heads.base import Head, LabelFacts
from longtail.learners.neural.heads.label_text import LabelText
from longtail.learners.neural.shortlists.base import Shortlist
from longtail.learners.neural.training.task import Task, label_texts
from longtail.part import option
from longtail.registry import name_of
from longtail.run import Run

if TYPE_CHECKING:
    from longtail.learners.neural.heads.network import HeadNetwork
    from longtail.learners.neural.training.network import Network


@dataclass(kw_only=True)
class ShortTextLearner(NeuralLearner):
    """Large batches, high rates for word and label vectors, and many random labels beside the batch's own."""

    gives_label_texts: ClassVar[bool] = True

    encoder: Any = option("weighted-bag", "what turns a text into one vector")
    head: Any = option({"part": "pooled", "bias": -8.0, "strength": 3.0}, "what turns that into one score per label")
    epochs: int | None = option(
        None, "passes over the documents; none: 6, more on small corpora, see least_steps (measured)",
        low=1, high=100_000, only={"steps": None},
    )  # fmt: skip
    batch: int = option(256, "documents per step (measured)", low=1, high=65_536)
    rate: float = option(0.002, "learning rate of layers (measured)", low=0, high=10)
    word_rate: float = option(0.02, "learning rate of word vectors (measured)", low=0, high=10)
    label_rate: float = option(0.02, "learning rate of label vectors (measured)", low=0, high=10)
    start: str = option("documents", "label vectors start from the label's documents (measured), or at random",
                        choices=("documents", "random"))  # fmt: skip
    shortlist: Any = option(
        {"part": "sampled-labels", "negatives": 2000},
        "which labels a loss is taken over: sampled-labels (measured best), all-labels, label-clusters (published)",
    )
    prior: float = option(
        1.0,
        "how far labels start from log odds of their frequency instead of one bias for all (measured)",
        low=0,
        high=4,
    )

    def _start_bias(self, head: HeadNetwork, labels: LabelIndex) -> None:
        bias: Any = getattr(head, "bias", None)
        if bias is not None:
            numbers = bias.weight.detach().numpy()  # the same memory
            numbers += self.prior_odds(labels)[:, None]

    def prior_odds(self, labels: LabelIndex) -> NDArray[np.float32]:
        """float32 (L,), added to each label's bias: frequent labels start higher, rare ones lower; the mean stays."""
        share = (labels.frequency + 0.5) / (labels.documents + 1)
        odds = np.log(share / (1 - share))
        return np.float32(self.prior) * (odds - odds.mean()).astype(np.float32)

    def _check_parts(self, encoder: Encoder, head: Head, shortlist: Shortlist) -> None:
        if not isinstance(encoder, ShortTextEncoder):
            raise UsageError(
                f"'{name_of(self)}' needs an encoder of short texts, weighted-bag or inception, "
                f"not '{name_of(encoder)}'"
            )
        super()._check_parts(encoder, head, shortlist)
        if getattr(shortlist, "texts", False) and "label texts" not in head.capabilities.needs:
            raise UsageError("label-clusters.texts counts only with the head 'label-text'; leave it out")
        if getattr(encoder, "decoupled", False) and getattr(shortlist, "surrogate", 1):
            raise UsageError(
                f"{name_of(encoder)}.decoupled counts only where labels and clusters are learnt together: with the "
                "shortlist 'label-clusters' and its surrogate = 0; leave it out"
            )

    def _read_words(self, corpus: Corpus, texts: Sequence[str]) -> Sequence[str]:
        return [*texts, *label_texts(corpus.labels)]

    def _fit_networks(self, corpus: Corpus, fit: Fit) -> None:
        facts = self._label_facts(corpus, fit.run)
        network = self.new_network(corpus.n_labels, fit.run)
        self._bind(network, facts, corpus)
        self.network_ = self.shortlist.train(self, network, Task(corpus, fit, facts=facts))

    def _bind(self, network: Network, facts: LabelFacts, corpus: Corpus) -> None:
        network.head.bind(network.encoder, facts)
        self._start_bias(network.head, corpus.labels)

    def _label_facts(self, corpus: Corpus, run: Run) -> LabelFacts:
        """Texts of the labels, and the graph of those that occur together in documents, not in rows made of them."""
        facts = LabelFacts(self._text_weights(corpus.labels, run))
        if isinstance(self.head, LabelText) and self.head.graph:
            from longtail.graphs.label_walk import label_graph, propagation

            facts.graph = propagation(label_graph(corpus.documents_only().positives(), run=run))
        return facts

    def _text_weights(self, labels: LabelIndex, run: Run) -> Any:
        return self.encoder.weights(self.encoder.tokens(label_texts(labels), run))
