"""What an encoder is: it reads tokens. A part holds the options, its network the weights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from longtail.augment.hooks import NONE, Hooks
from longtail.capabilities import Capabilities
from longtail.features.estimate import Words
from longtail.features.tokens import Tokens
from longtail.learners.neural.training.batches import Batch
from longtail.part import Arrays, Part, option
from longtail.run import Run


class Cost(NamedTuple):
    """What the network of an encoder takes.

    width, word_width  as of its network
    weights, trained   numbers it has, and those of them that an optimiser keeps moments of
    per_token          numbers held per token of a batch in training, gradients included
    products           multiplications per token, both ways
    per_document       numbers held per document of a batch beside those of its tokens
    kept_per_token     bytes kept per token of the corpus
    """

    width: int
    word_width: int
    weights: int
    trained: int
    per_token: int
    products: int
    kept_per_token: int = 0
    per_document: int = 0


class EncoderNetwork(nn.Module, ABC):
    """Tokens in, one vector per token out.

    width   of the vectors
    vectors  of `width` numbers each that a whole text has, one behind the other: the labels', and maybe the clusters'
    word_width   how many of the last columns hold what a token is by itself: the mean of these tells documents apart
    centred whether that mean is seen from the mean of all documents (encoders whose vectors share a direction)
    layers  that hooks may reach, numbered from 1; those up to `frozen` are not trained
    special_tokens  at either end of a text, which are no words of it
    """

    width: int
    word_width: int
    vectors: int = 1
    centred: bool = False
    layers: int = 1
    frozen: int = 0
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


@dataclass(kw_only=True)
class Encoder(Part, ABC):
    """Options of an encoder, and the tokeniser it reads with."""

    kind: ClassVar[str] = "encoder"
    max_length: int = option(256, "tokens read per document (AttentionXML: 500)", low=1, high=100_000)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(spaces=("tokens", "hidden"), per_token=True)

    @property
    def trains_words(self) -> bool:
        """Whether it has word embeddings of its own, and trains them."""
        return False

    def vocabulary(self, words: Words) -> int:
        """Words it will have vectors of."""
        return words.terms

    def cost(self, vocabulary: int) -> Cost:
        """What its network takes with that many words; an encoder that says nothing is taken for a small one."""
        return Cost(256, 256, 256 * vocabulary, 256 * vocabulary, per_token=4096, products=1 << 20)

    @abstractmethod
    def fit_tokeniser(self, texts: Sequence[str], run: Run) -> None:
        """Learns the vocabulary, or opens the one that comes with the encoder."""

    @abstractmethod
    def tokens(self, texts: Sequence[str], run: Run, *, keep: bool = False) -> Tokens:
        """The texts' tokens; with `keep` those that are slow to make are kept on disk for the next run."""

    @abstractmethod
    def network(self) -> EncoderNetwork:
        """Weights as they are before training, drawn from torch's generator."""

    def check_weights(self, arrays: Arrays) -> None:
        """Refuses stored weights of a learner that do not fit the options, before room is made for any of them."""
        with torch.device("meta"):
            expected = {name: tuple(weight.shape) for name, weight in self.network().state_dict().items()}
        for name, array in arrays.items():
            _, found, own = name.partition(".encoder.")
            if found and expected.get(own) != array.shape:
                raise ValueError(f"'{name}' is stored as {array.shape}, and must be {expected.get(own)}")

    def states(self, network: EncoderNetwork, tokens: Tokens, run: Run) -> NDArray[np.float16] | None:
        """float16 (tokens, E): what the frozen layers make of the tokens, where that is worth keeping."""
        return None
