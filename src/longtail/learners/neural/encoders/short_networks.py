"""Networks of the encoders of short texts: what they have in common, and Astec's weighted bag of words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from longtail.augment.hooks import NONE, Hooks
from longtail.learners.neural.encoders.network import EncoderNetwork
from longtail.learners.neural.training.batches import Batch
from longtail.learners.neural.training.blocks import Residual, drop

if TYPE_CHECKING:
    from longtail.learners.neural.encoders.short import ShortTextEncoder, WeightedBag


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
