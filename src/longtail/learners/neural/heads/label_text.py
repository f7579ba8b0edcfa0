"""A classifier that reads the labels' texts: DECAF's, ECLARE's and InceptionXML-LF's.

A label's vector is made of up to three,

    text   R1(z_l),  z_l the TF-IDF weighted sum of the word vectors of its text, shared with the documents'
    graph  R2(sum over m of G_lm z_m),  G the label correlation graph: what its neighbours are called
    free   u_l, a vector of its own

joined by gates, sigmoid(a) u_l + sigmoid(b) R1(z_l) (DECAF, https://arxiv.org/abs/2108.00368), or by attention over the
three (ECLARE, https://arxiv.org/abs/2108.00261). None of it depends on the document, so when training is over label
vectors are made once and for all, and what is kept is a plain linear classifier.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.parametrizations import spectral_norm

from longtail.augment.hooks import NONE, Hooks
from longtail.capabilities import Capabilities
from longtail.errors import UsageError
from longtail.learners.neural.encoders.base import EncoderNetwork
from longtail.learners.neural.heads.base import Head, HeadNetwork, LabelFacts, Seen
from longtail.learners.neural.heads.pooled import Pooled, PooledNetwork
from longtail.learners.neural.training.blocks import Residual, WordSums, drop, neighbour_sums
from longtail.part import option

#: Labels whose vectors are made at once when training is over.
CHUNK = 8192


@dataclass(kw_only=True)
class LabelText(Head):
    graph: bool = option(False, "neighbours' texts beside the label's own (ECLARE, InceptionXML-LF: yes)")
    free: bool = option(True, "a vector of the label's own beside what its text says (DECAF, ECLARE)")
    start: str = option(
        "zero", "free vectors start at zero (measured), from the text (DECAF), or from the neighbours' texts (ECLARE)",
        choices=("zero", "text", "graph"), only={"free": True},
    )  # fmt: skip
    join: str = option("gates", "gates (DECAF) or attention (ECLARE) over the label's vectors",
                       choices=("gates", "attention"))  # fmt: skip
    residual: bool = option(False, "a residual block behind each text (DECAF, ECLARE, InceptionXML-LF: yes)")
    gelu: bool = option(
        False, "GELU and learnt factors in the residual block (InceptionXML-LF)", only={"residual": True}
    )
    dropout: float = option(0.2, "dropout in residual blocks and attention (ECLARE: 0.2)", low=0, high=0.99)
    bias: float = option(-8.0, "logit of every label before training: few labels hold (measured)", low=-30, high=30)

    def validate(self) -> None:
        super().validate()
        if self.start == "graph" and not self.graph:
            raise UsageError('label-text.start = "graph" needs label-text.graph = true')
        if self.dropout != 0.2 and not self.residual and self.join == "gates":
            raise UsageError("label-text.dropout counts only where residual is true or join is attention; leave it out")

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(needs=("label texts",), spaces=("labels",))

    @property
    def text_and_own(self) -> bool:
        """Whether a label's vector is its text's and its own, joined by gates, and nothing else."""
        return self.free and self.join == "gates" and not self.graph and not self.residual

    def weights(self, width: int, word_width: int, n_labels: int) -> int:
        blocks = (1 + self.graph) * width * width * self.residual
        return n_labels * (width * self.free + 1) + blocks + 4 * width * width

    def busy(self, seen: Seen) -> int:
        """Label vectors are made of up to three, each with its gradient, for the labels of the batch."""
        made = (1 + self.graph + self.free) * 6 * seen.width
        labels = min(seen.labels * seen.documents, 20_000) if seen.listed else seen.labels
        return labels * made + super().busy(seen)

    def network(self, width: int, word_width: int, n_labels: int) -> HeadNetwork:
        return LabelTextNetwork(self, width, n_labels)

    def folded_network(self, width: int, word_width: int, n_labels: int) -> HeadNetwork:
        return Pooled().network(width, word_width, n_labels)


class LabelTextNetwork(HeadNetwork):
    def __init__(self, options: LabelText, width: int, n_labels: int) -> None:
        super().__init__()
        self.options, self.width, self.n_labels = options, width, n_labels
        self.bias = nn.Embedding(n_labels, 1, sparse=True)
        nn.init.constant_(self.bias.weight, options.bias)
        self.vectors = nn.Embedding(n_labels, width, sparse=True) if options.free else None
        self.parts = 1 + options.graph + options.free
        gelu, residual = options.gelu, options.residual
        blocks = [
            Residual(width, options.dropout, before=True, gelu=gelu, scaled=gelu) for _ in range(1 + options.graph)
        ]
        self.blocks = nn.ModuleList(blocks if residual else [nn.Identity() for _ in blocks])
        if options.join == "gates":
            self.gates = nn.Parameter(torch.zeros(self.parts, width))
        else:
            self.look = nn.ModuleList(spectral_norm(nn.Linear(width, width)) for _ in range(self.parts))
            self.choose = spectral_norm(nn.Linear(self.parts * width, self.parts))
        self._words: list[nn.Embedding] = []  # the encoder's, not this module's own

    def bind(self, encoder: EncoderNetwork, facts: LabelFacts) -> None:
        """Reads the labels' texts with the encoder's word vectors; free vectors start from them."""
        words: nn.Embedding = encoder.words  # type: ignore[assignment]
        if words.embedding_dim > self.width:
            raise UsageError(
                f"label texts have vectors of {words.embedding_dim} numbers, documents of {self.width} only: "
                "more channels, or skip = true, make the encoder as wide"
            )
        self._words = [words]
        self.texts = WordSums(facts.texts)
        if self.options.graph:
            assert facts.graph is not None
            self.around = neighbour_sums(facts.graph, facts.texts)
        if self.vectors is not None:
            nn.init.zeros_(self.vectors.weight)
            if self.options.start != "zero":
                self._start_from_texts(words)

    @torch.no_grad()
    def _start_from_texts(self, words: nn.Embedding) -> None:
        sums = self.around if self.options.start == "graph" else self.texts
        vectors: Any = self.vectors
        for rows in _chunks(self.n_labels):
            vectors.weight[torch.from_numpy(rows)] = self._as_wide(sums(rows, words))

    def rows(self) -> list[Tensor]:
        return [self.bias.weight, *([] if self.vectors is None else [self.vectors.weight])]

    def classifier(self) -> list[Tensor]:
        return [] if self.vectors is None else [self.vectors.weight, self.bias.weight]

    def restart(self) -> None:
        raise AssertionError("a second stage is that of the folded head, whose label vectors are made")

    def label_vectors(self, labels: NDArray[np.int64]) -> Tensor:
        """(S, width) of labels (S,)."""
        words = self._words[0]
        made = [self.blocks[0](self._as_wide(self.texts(labels, words)))]
        if self.options.graph:
            made.append(self.blocks[1](self._as_wide(self.around(labels, words))))
        if self.vectors is not None:
            made.append(self.vectors(torch.from_numpy(labels).to(words.weight.device)))
        if self.options.join == "gates":
            total = made[0] * self.gates[0].sigmoid()
            for part, gate in zip(made[1:], self.gates[1:], strict=True):
                total = total + part * gate.sigmoid()
            return total
        looked = [
            layer(functional.relu(drop(part, self.options.dropout, self.training)))
            for part, layer in zip(made, self.look, strict=True)
        ]
        share = self.choose(torch.cat(looked, dim=1)).softmax(dim=1)
        return (torch.stack(made, dim=1) * share[:, :, None]).sum(dim=1)

    def separators(self, labels: Tensor) -> Tensor:
        return self.label_vectors(labels.cpu().numpy())

    def _as_wide(self, vectors: Tensor) -> Tensor:
        """Vectors of words as wide as the document's, filled up with 0 where that is wider."""
        return functional.pad(vectors, (0, self.width - vectors.shape[1]))

    def forward(self, hidden: Tensor, mask: Tensor, labels: Tensor, hooks: Hooks = NONE) -> Tensor:
        if labels.ndim == 1:
            return hidden @ self.label_vectors(labels.cpu().numpy()).T + self.bias(labels)[:, 0]
        found, places = torch.unique(labels, return_inverse=True)
        vectors = self.label_vectors(found.cpu().numpy())
        own = functional.embedding(places, vectors)
        return (own @ hidden[:, :, None])[..., 0] + functional.embedding(places, self.bias(found))[..., 0]

    @torch.no_grad()
    def folded(self) -> HeadNetwork:
        made = PooledNetwork(Pooled(), self.width, self.n_labels)
        training = self.training
        self.eval()
        for rows in _chunks(self.n_labels):
            made.vectors.weight[torch.from_numpy(rows)] = self.label_vectors(rows)
        self.train(training)
        made.bias.weight.copy_(self.bias.weight)
        return made


def _chunks(n_labels: int) -> list[NDArray[np.int64]]:
    return np.array_split(np.arange(n_labels), -(-n_labels // CHUNK))
