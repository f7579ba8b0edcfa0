"""Encoders of short texts, which give one vector per document: Astec's weighted bag of words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail.capabilities import Capabilities
from longtail.features.tokens import Tokens
from longtail.learners.neural.encoders.words import WordEncoder
from longtail.part import Arrays, option

if TYPE_CHECKING:
    from longtail.learners.neural.encoders.network import EncoderNetwork


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

    def word_lengths(self) -> NDArray[np.float32]:
        """One length for all, for rarity is a weight of its own here."""
        return (self.idf_ > 0).astype(np.float32)

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

    def shapes(self) -> dict[str, tuple[int, ...]]:
        if self.residual:
            return super().shapes()
        return {"words.weight": (self.tokeniser_.size, self.size), "idf": (self.tokeniser_.size,)}

    def network(self) -> EncoderNetwork:
        from longtail.learners.neural.encoders.short_networks import WeightedBagNetwork

        return WeightedBagNetwork(self)
