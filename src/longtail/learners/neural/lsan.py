"""LSAN (https://aclanthology.org/D19-1044): label-specific attention, in which the labels' texts have a say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch.nn import functional

from longtail.corpus import Corpus
from longtail.errors import UsageError
from longtail.features.tokens import Tokens
from longtail.fit import Fit
from longtail.learners.neural.base import NeuralLearner
from longtail.learners.neural.encoders.base import Encoder
from longtail.learners.neural.heads.base import Head
from longtail.learners.neural.heads.label_text import LabelText
from longtail.learners.neural.heads.text_attention import TextAttentionNetwork
from longtail.learners.neural.shortlists.base import Shortlist
from longtail.learners.neural.training.batches import Batch, in_length_order, token_tensors
from longtail.learners.neural.training.network import Network
from longtail.learners.neural.training.task import Task, label_texts
from longtail.part import option


@dataclass(kw_only=True)
class LSAN(NeuralLearner):
    gives_label_texts: ClassVar[bool] = True

    head: Any = option("text-attention", "what turns those into one score per label")

    def _check_parts(self, encoder: Encoder, head: Head, shortlist: Shortlist) -> None:
        super()._check_parts(encoder, head, shortlist)
        if isinstance(head, LabelText):
            raise UsageError("'lsan' reads texts word by word, and the head 'label-text' one vector per text: "
                             "take 'text-attention'")  # fmt: skip

        if getattr(shortlist, "texts", False):
            raise UsageError("label-clusters.texts counts only with the head 'label-text'; leave it out")

    def _read_words(self, corpus: Corpus, texts: Sequence[str]) -> Sequence[str]:
        return [*texts, *label_texts(corpus.labels)]

    def _fit_networks(self, corpus: Corpus, fit: Fit) -> None:
        network = self.new_network(corpus.n_labels, fit.run)
        if isinstance(network.head, TextAttentionNetwork):
            tokens = self.encoder.tokens(label_texts(corpus.labels), fit.run)
            network.head.read_texts(*text_directions(network, tokens))
        self.network_ = self.shortlist.train(self, network, Task(corpus, fit))


@torch.no_grad()
def text_directions(network: Network, tokens: Tokens) -> tuple[torch.Tensor, float]:
    """Unit vectors (n, word_width) of texts, and the length of their tokens' vectors on average.

    A text's is the direction of its tokens' mean, from that of all texts where the encoder's vectors share a direction.
    """
    encoder, training = network.encoder, network.training
    network.eval()
    means, length = torch.zeros(len(tokens), encoder.word_width), 0.0
    for rows in in_length_order(tokens, 256):
        ids, mask = token_tensors(tokens, rows)
        values = encoder(Batch(rows, ids, mask, ids, ids))[:, :, -encoder.word_width :] * mask[:, :, None]
        means[rows] = values.sum(dim=1) / mask.sum(dim=1, keepdim=True)
        length += float(values.norm(dim=2).sum())
    network.train(training)
    if encoder.centred:
        means -= means.mean(dim=0)
    return functional.normalize(means, dim=1), max(length / len(tokens.ids), 1e-6)
