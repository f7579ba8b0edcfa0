"""Encoders of short texts, which give one vector per document: Astec's weighted bag of words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from longtail.augment.hooks import NONE, Hooks
from longtail.capabilities import Capabilities
from longtail.features.tokens import Tokens
from longtail.learners.neural.encoders.base import EncoderNetwork
from longtail.learners.neural.encoders.words import WordEncoder
from longtail.learners.neural.training.batches import Batch
from longtail.learners.neural.training.blocks import Residual, drop
from longtail.part import Arrays, option


class ShortTextNetwork(EncoderNetwork):
    """Tokens in, one vector per document (B, width) out. Words count as much as they are rare (TF-IDF)."""

    per_token = False

    def __init__(self, options: ShortTextEncoder) -> None:
        super().__init__()
        self.words = options.embedding()
        self.dropout_words = options.dropout_words
        self.register_buffer("idf", torch.tensor(options.idf_))

    def embed(self, tokens: Tensor) -> Tensor:
        """Word vectors times TF-IDF weights (B, T, E), whose squares sum to 1 over a text of different words."""
        weights = self.idf[tokens]  # type: ignore[index]
        weights = weights / weights.norm(dim=1, keepdim=True).clamp_min(1e-9)
        embedded: Tensor = self.words(tokens) * weights[:, :, None]
        return drop(embedded, self.dropout_words, self.training)


@dataclass(kw_only=True)
class ShortTextEncoder(WordEncoder):
    """Options of an encoder of short texts."""

    max_length: int = option(128, "words read per text", low=1, high=100_000)
    size: int = option(200, "width of the word embeddings, of which given vectors fill the first", low=1, high=4096)
    dropout_words: float = option(0.0, "dropout of word embeddings", low=0, high=0.99)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(spaces=("tokens", "hidden"))

    def fit_tokeniser(self, texts: Any, run: Any) -> None:
        super().fit_tokeniser(texts, run)
        self.idf_: NDArray[np.float32] = self.rarity_

    def weights(self, tokens: Tokens) -> sp.csr_matrix:
        """csr float32 (n, V): TF-IDF weights of texts, rows of unit length."""
        document = np.repeat(np.arange(len(tokens)), tokens.lengths)
        made: sp.csr_matrix = sp.csr_matrix(
            (self.idf_[tokens.ids], (document, tokens.ids)), shape=(len(tokens), self.tokeniser_.size)
        )
        length = np.sqrt(np.asarray(made.multiply(made).sum(axis=1)).ravel())
        scaled = sp.csr_matrix(sp.diags_array(1 / np.maximum(length, 1e-9)) @ made)
        scaled.eliminate_zeros()
        return scaled

    def embedding(self) -> nn.Embedding:
        """Word vectors of one length, for rarity is a weight of its own here."""
        if hasattr(self, "rarity_"):
            self.rarity_ = (self.idf_ > 0).astype(np.float32)
        return super().embedding()

    def state(self) -> dict[str, NDArray[Any]]:
        return super().state() | {"idf": self.idf_}

    def restore(self, arrays: Arrays) -> None:
        rest = dict(arrays)
        idf = rest.pop("idf", None)
        super().restore(rest)
        if idf is None or idf.shape != (self.tokeniser_.size,) or idf.dtype != np.float32:
            raise ValueError("words need one weight each")
        self.idf_ = np.array(idf)


@dataclass(kw_only=True)
class WeightedBag(ShortTextEncoder):
    """Astec's encoder (https://arxiv.org/abs/2111.06685): a weighted sum of word embeddings, and a residual block."""

    dropout: float = option(0.5, "dropout of the document's vector (Astec)", low=0, high=0.99)
    rectified: bool = option(False, "negative numbers of the sum become 0 (Astec: yes)")
    residual: bool = option(False, "a residual block behind the sum (Astec: yes)")

    @property
    def sums_only(self) -> bool:
        """Whether a document is the sum of its words, which are trained, and nothing but dropout changes it."""
        return self.train_vectors and not (self.rectified or self.residual or self.dropout_words)

    def network(self) -> EncoderNetwork:
        return WeightedBagNetwork(self)


class WeightedBagNetwork(ShortTextNetwork):
    def __init__(self, options: WeightedBag) -> None:
        super().__init__(options)
        self.dropout, self.rectified, self.sums_only = options.dropout, options.rectified, options.sums_only
        self.block = Residual(options.size, options.dropout) if options.residual else None
        self.width = self.word_width = options.size
        self.layers = 1 if self.block is None else 2

    def forward(self, batch: Batch, hooks: Hooks = NONE) -> Tensor:
        """Without a vector per token where nobody asks for those: long texts share most of their words."""
        if batch.states is not None or hooks.wants("embedded") or (self.training and self.dropout_words):
            return super().forward(batch, hooks)
        present = batch.mask.nonzero(as_tuple=True)
        found, places = torch.unique(batch.tokens[present], return_inverse=True)
        weights = self.idf[batch.tokens] * batch.mask  # type: ignore[index]
        weights = weights / weights.norm(dim=1, keepdim=True).clamp_min(1e-9)
        lengths = batch.mask.sum(dim=1)
        sums = functional.embedding_bag(
            places, self.words(found), lengths.cumsum(0) - lengths, mode="sum", per_sample_weights=weights[present]
        )
        return self._finished(sums, hooks)

    def encode(self, embedded: Tensor, mask: Tensor, hooks: Hooks) -> Tensor:
        return self._finished((embedded * mask[:, :, None]).sum(dim=1), hooks)

    def _finished(self, vector: Tensor, hooks: Hooks) -> Tensor:
        """The sum is layer 1, and the residual block, where there is one, layer 2."""
        if self.rectified:
            vector = functional.relu(vector)
        vector = hooks.apply_at("layer 1", drop(vector, self.dropout, self.training))
        return vector if self.block is None else hooks.apply_at("layer 2", self.block(vector))
