"""What an encoder is: it reads tokens. A part holds the options, its network the weights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from longtail.capabilities import Capabilities
from longtail.features.estimate import Words
from longtail.features.tokens import Tokens
from longtail.part import Arrays, Part, option
from longtail.run import Run

if TYPE_CHECKING:
    from longtail.learners.neural.encoders.network import EncoderNetwork


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

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of its network's weights, by name."""
        import torch

        with torch.device("meta"):
            return {name: tuple(weight.shape) for name, weight in self.network().state_dict().items()}

    def check_weights(self, arrays: Arrays) -> None:
        """Refuses stored weights of a learner that do not fit the options, before room is made for any of them."""
        expected = self.shapes()
        for name, array in arrays.items():
            _, found, own = name.partition(".encoder.")
            if found and expected.get(own) != array.shape:
                raise ValueError(f"'{name}' is stored as {array.shape}, and must be {expected.get(own)}")

    def states(self, network: EncoderNetwork, tokens: Tokens, run: Run) -> NDArray[np.float16] | None:
        """float16 (tokens, E): what the frozen layers make of the tokens, where that is worth keeping."""
        return None
