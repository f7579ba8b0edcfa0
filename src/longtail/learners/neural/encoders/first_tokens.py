"""LightXML's encoder (https://arxiv.org/abs/2101.03305): a text's first token, as the last layers see it.

The states of the first token behind each of the last five layers of a Transformer are put side by side. Beside them,
unless that is switched off, stands the sum of a trained vector per word piece: first tokens blur names, and many labels
go by one. Frozen layers are run once: what trained layers start from is kept of every token, and of the frozen layers
among the last five the first token's state beside it. Those stand in front of the text, in places of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from longtail.augment.hooks import NONE, Hooks
from longtail.capabilities import Capabilities
from longtail.features.tokens import PAD, Tokens
from longtail.learners.neural import pretrained
from longtail.learners.neural.encoders.base import Cost
from longtail.learners.neural.encoders.network import EncoderNetwork
from longtail.learners.neural.encoders.transformer import Transformer, TransformerNetwork, run_layer
from longtail.learners.neural.training.batches import Batch
from longtail.part import option
from longtail.run import Run

#: The token that stands where a state is kept; it is never read.
PLACE = 1


@dataclass(kw_only=True)
class FirstTokens(Transformer):
    last: int = option(5, "layers from the top whose first tokens are read, all where there are fewer (LightXML: 5)",
                       low=1, high=1000)  # fmt: skip
    words: int = option(
        512, "width of a trained vector per word piece; their sum, in which rare ones weigh more, stands beside the "
        "first tokens, so that names keep their identity (measured; LightXML: 0, none)", low=0, high=8192,
    )  # fmt: skip
    scale: float = option(
        10.0, "length of the first tokens' states: those of two texts differ by about a tenth of it (measured; "
        "LightXML: as large as they are, about 1)", low=0.001, high=1000,
    )  # fmt: skip
    dropout: float = option(0.2, "dropout of the text's vector (measured; LightXML: 0.5)", low=0, high=0.99)

    @property
    def capabilities(self) -> Capabilities:
        # what frozen layers saw of a text cannot be mixed any more, and mixed tokens have no vectors of their own
        return Capabilities(spaces=() if self.frozen or self.words else ("tokens",))

    @property
    def trains_words(self) -> bool:
        return self.words > 0

    def cost(self, vocabulary: int) -> Cost:
        cost = super().cost(vocabulary)
        width = cost.width * min(self.last, self._sizes()["num_hidden_layers"]) + self.words
        words = vocabulary * self.words
        return cost._replace(
            width=width,
            word_width=width,
            weights=cost.weights + words + vocabulary,
            trained=cost.trained + words,
            per_token=cost.per_token + 4 * self.words,
            per_document=4 * width,
        )

    def fit_tokeniser(self, texts: Sequence[str], run: Run) -> None:
        super().fit_tokeniser(texts, run)
        if self.words:
            self.rarity_ = rarity(Transformer.tokens(self, texts, run, keep=True), self.pieces)

    @property
    def pieces(self) -> int:
        """Numbers that tokens may have: word pieces, and PAD."""
        return pretrained.size_of(self.options_, "vocab_size") + 1

    def places(self) -> int:
        """States that are kept in front of a text: of frozen layers among the last ones, but the highest of them."""
        layers = pretrained.size_of(self.options_, "num_hidden_layers")
        return kept_places(layers, self.last, self.frozen)

    def tokens(self, texts: Sequence[str], run: Run, *, keep: bool = False) -> Tokens:
        found, places = super().tokens(texts, run, keep=keep), self.places()
        if not places:
            return found
        ids = np.insert(found.ids, np.repeat(found.indptr[:-1], places), PLACE)
        return Tokens(ids, found.indptr + places * np.arange(len(found.indptr)))

    def _network_of(self, model: nn.Module) -> EncoderNetwork:
        return FirstTokensNetwork(model, self)


def kept_places(layers: int, last: int, frozen: int) -> int:
    return max(0, frozen - max(1, layers - last + 1))


def rarity(tokens: Tokens, size: int) -> NDArray[np.float32]:
    """float32 (size,): inverse document frequency of each token, 0 for one that all texts have."""
    found = sp.csr_matrix((np.ones(len(tokens.ids), np.int32), tokens.ids.copy(), tokens.indptr.copy()),
                          shape=(len(tokens), size))  # fmt: skip
    found.sum_duplicates()
    return np.log((1 + len(tokens)) / (1 + np.bincount(found.indices, minlength=size))).astype(np.float32)


class FirstTokensNetwork(TransformerNetwork):
    places = 0

    def __init__(self, model: nn.Module, options: FirstTokens) -> None:
        super().__init__(model, options)
        self.lowest = max(1, self.layers - options.last + 1)
        self.places = kept_places(self.layers, options.last, self.frozen)
        firsts = self.state_width * (self.layers - self.lowest + 1)
        self.width = self.word_width = firsts + options.words
        self.scale = options.scale / firsts**0.5
        self.words: nn.Embedding | None = None
        if options.words:
            self.words = nn.Embedding(options.pieces, options.words, padding_idx=PAD, sparse=True)
            nn.init.normal_(self.words.weight, 0, options.words**-0.5)
            known = getattr(options, "rarity_", None)  # in a model that is restored it comes with the weights
            self.register_buffer("rarity", torch.zeros(options.pieces) if known is None else torch.from_numpy(known))

    def low(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """(B, places + T, width): states of the first token, then what the frozen layers make of the text."""
        if not self.places:
            return super().low(tokens, mask)
        kept, inside = [], mask[:, self.places :]
        with torch.no_grad():
            hidden = self._embeddings(tokens[:, self.places :])
            for number, layer in enumerate(self.stack[: self.frozen], start=1):
                hidden = run_layer(layer, hidden, inside)
                if self.lowest <= number < self.frozen:
                    kept.append(hidden[:, 0])
        return torch.cat([torch.stack(kept, dim=1), hidden], dim=1)

    def forward(self, batch: Batch, hooks: Hooks = NONE) -> Tensor:
        found = super().forward(batch, hooks)
        if self.words is not None:
            found = torch.cat([found, self.summed(batch.tokens[:, self.places :])], dim=1)
        return functional.dropout(found, self.dropout, self.training)

    def encode(self, embedded: Tensor, mask: Tensor, hooks: Hooks) -> Tensor:
        """(B, layers x width), of a length around `scale`: the first tokens alone."""
        firsts = list(embedded[:, : self.places].unbind(dim=1))
        hidden, inside = embedded[:, self.places :], mask[:, self.places :]
        if self.frozen >= self.lowest:
            firsts.append(hidden[:, 0])
        for number, layer in enumerate(self.stack[self.frozen :], start=self.frozen + 1):
            hidden = run_layer(layer, hidden, inside)
            if number >= self.lowest:
                firsts.append(hidden[:, 0])
        return torch.cat(firsts, dim=1) * self.scale

    def summed(self, tokens: Tensor) -> Tensor:
        """(B, words): the sum of the tokens' vectors, of a length around 1 before training.

        A token weighs as much as it is rare, times the root of how often the text has it: TF-IDF.
        """
        assert self.words is not None
        rare: Tensor = self.rarity[tokens] * (tokens != PAD)  # type: ignore[index]
        often = (tokens[:, :, None] == tokens[:, None, :]).sum(dim=2)
        weights = rare / often.sqrt() / rare.square().sum(dim=1, keepdim=True).sqrt().clamp_min(1e-6)
        found: Tensor = functional.embedding_bag(
            tokens, self.words.weight, mode="sum", sparse=True, per_sample_weights=weights, padding_idx=PAD
        )
        return found
