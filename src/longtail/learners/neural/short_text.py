"""What learners of short texts have in common: one vector a document, many labels, and labels that have texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from longtail.augment.hooks import Hook
from longtail.corpus import Corpus
from longtail.errors import UsageError
from longtail.labels import LabelIndex
from longtail.learners.neural.base import NeuralLearner, label_texts
from longtail.learners.neural.batches import SharedLabels
from longtail.learners.neural.encoders import Encoder
from longtail.learners.neural.heads import Head, HeadNetwork
from longtail.learners.neural.label_text import AboutLabels, LabelText
from longtail.learners.neural.network import Network
from longtail.learners.neural.titles import TitleEncoder
from longtail.part import option
from longtail.registry import name_of
from longtail.run import Run


@dataclass(kw_only=True)
class ShortText(NeuralLearner):
    """Large batches, high rates for word and label vectors, and many random labels beside the batch's own."""

    tells_texts: ClassVar[bool] = True

    encoder: Any = option("weighted-bag", "what turns a text into one vector")
    head: Any = option({"part": "pooled", "bias": -8.0, "strength": 3.0}, "what turns that into one score a label")
    epochs: int = option(6, "passes over the documents (measured)", low=1, high=100_000)
    batch: int = option(256, "documents a step (measured)", low=1, high=65_536)
    rate: float = option(0.002, "learning rate of layers (measured)", low=0, high=10)
    word_rate: float = option(0.02, "learning rate of word vectors (measured)", low=0, high=10)
    label_rate: float = option(0.02, "learning rate of label vectors (measured)", low=0, high=10)
    start: str = option("documents", "label vectors start from the label's documents (measured), or at random",
                        choices=("documents", "random"))  # fmt: skip
    negatives: int = option(
        2000, "random labels beside the batch's own that a loss is taken over, 0 for all (measured)", low=0
    )

    prior: float = option(
        1.0,
        "how far labels start from log odds of their frequency instead of one bias for all (measured)",
        low=0,
        high=4,
    )

    @torch.no_grad()
    def _start_bias(self, head: HeadNetwork, labels: LabelIndex) -> None:
        """Frequent labels start higher, rare ones lower; the mean stays."""
        bias: Any = getattr(head, "bias", None)
        if bias is not None:
            share = (labels.frequency + 0.5) / (labels.documents + 1)
            odds = np.log(share / (1 - share))
            bias.weight += self.prior * torch.from_numpy((odds - odds.mean()).astype(np.float32))[:, None]

    def _check_parts(self, encoder: Encoder, head: Head) -> None:
        if not isinstance(encoder, TitleEncoder):
            raise UsageError(
                f"'{name_of(self)}' needs an encoder of short texts, weighted-bag or inception, "
                f"not '{name_of(encoder)}'"
            )
        super()._check_parts(encoder, head)

    def _read_words(self, corpus: Corpus, texts: Sequence[str]) -> Sequence[str]:
        return [*texts, *label_texts(corpus.labels)]

    def _fit_networks(self, corpus: Corpus, valid: Corpus | None, hooks: list[Hook], run: Run) -> None:
        choice = SharedLabels(corpus.Y, corpus.pair_weight, self.negatives)
        network = self._new_network(corpus.n_labels, run)
        network.head.bind(network.encoder, self._about(corpus, run))
        self._start_bias(network.head, corpus.labels)
        self._train(network, corpus, valid, choice, hooks, run, "Training")
        self.network_ = folded(network)

    def _about(self, corpus: Corpus, run: Run) -> AboutLabels:
        """Texts of the labels, and the graph of those that occur together in documents, not in rows made of them."""
        about = AboutLabels(self._text_weights(corpus.labels, run))
        if isinstance(self.head, LabelText) and self.head.graph:
            from longtail.graphs.label_walk import label_graph, propagation

            about.graph = propagation(label_graph(corpus.documents_only().positives(), run=run))
        return about

    def _text_weights(self, labels: LabelIndex, run: Run) -> Any:
        return self.encoder.weights(self.encoder.tokens(label_texts(labels), run))


def folded(network: Network) -> Network:
    """The network as it is kept: what only training needs is gone."""
    return Network(network.encoder, network.head.folded()).eval()
