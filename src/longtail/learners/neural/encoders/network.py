"""What the network of an encoder is: tokens in, vectors out."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn

from longtail.augment.hooks import NONE, Hooks
from longtail.learners.neural.training.batches import Batch


class EncoderNetwork(nn.Module, ABC):
    """Tokens in, one vector per token out.

    width   of the vectors
    vectors  of `width` numbers each that a whole text has, one behind the other: the labels', and maybe the clusters'
    word_width   how many of the last columns hold what a token is by itself: the mean of these tells documents apart
    centred whether that mean is seen from the mean of all documents (encoders whose vectors share a direction)
    layers  that hooks may reach, numbered from 1; those up to `frozen` are not trained
    per_token  whether what a layer gives has a place for each token
    skip    whether something goes round all layers but the last
    special_tokens  at either end of a text, which are no words of it
    """

    width: int
    word_width: int
    vectors: int = 1
    centred: bool = False
    layers: int = 1
    frozen: int = 0
    per_token: bool = True
    skip: bool = False
    special_tokens: int = 0

    @abstractmethod
    def embed(self, tokens: Tensor) -> Tensor:
        """Embeddings (B, T, E) of tokens (B, T)."""

    @abstractmethod
    def encode(self, embedded: Tensor, mask: Tensor, hooks: Hooks) -> Tensor:
        """Vectors (B, T, width) from embeddings; positions outside the mask hold anything."""

    def forward(self, batch: Batch, hooks: Hooks = NONE) -> Tensor:
        embedded = self.embed(batch.tokens) if batch.states is None else batch.states
        return self.encode(hooks.apply_at("embedded", embedded), batch.mask, hooks)
