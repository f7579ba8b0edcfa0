"""The network of a classifier that reads the labels' texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.parametrizations import spectral_norm

from longtail.augment.hooks import NONE, Hooks
from longtail.errors import UsageError
from longtail.learners.neural.encoders.network import EncoderNetwork
from longtail.learners.neural.heads.network import HeadNetwork
from longtail.learners.neural.heads.pooled import Pooled
from longtail.learners.neural.heads.pooled_network import PooledNetwork
from longtail.learners.neural.training.blocks import Residual, WordSums, drop, neighbour_sums

if TYPE_CHECKING:
    from longtail.learners.neural.heads.base import LabelFacts
    from longtail.learners.neural.heads.label_text import LabelText

#: Labels whose vectors are made at once when training is over.
CHUNK = 8192


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
