"""LightXML's encoder (https://arxiv.org/abs/2101.03305): a text's first token, as the last layers see it.

The states of the first token behind each of the last five layers of a Transformer are put side by side. Frozen layers
are run once: what trained layers start from is kept of every token, and of the frozen layers among the last five the
first token's state beside it. Those states stand in front of the text, in places of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from longtail.augment.hooks import Hooks
from longtail.capabilities import Capabilities
from longtail.features.tokens import Tokens
from longtail.learners.neural import pretrained
from longtail.learners.neural.encoders.base import Cost, EncoderNetwork
from longtail.learners.neural.encoders.transformer import Transformer, TransformerNetwork, run_layer
from longtail.part import option
from longtail.run import Run

#: The token that stands where a state is kept; it is never read.
PLACE = 1


@dataclass(kw_only=True)
class FirstTokens(Transformer):
    last: int = option(5, "layers from the top whose first tokens are read, all where there are fewer (LightXML: 5)",
                       low=1, high=1000)  # fmt: skip
    dropout: float = option(0.5, "dropout of the first tokens' states (LightXML)", low=0, high=0.99)

    @property
    def capabilities(self) -> Capabilities:
        # what frozen layers saw of a text cannot be mixed any more
        return Capabilities(spaces=() if self.frozen else ("tokens",))

    def cost(self, vocabulary: int) -> Cost:
        cost = super().cost(vocabulary)
        width = cost.width * min(self.last, self._sizes()["num_hidden_layers"])
        return cost._replace(width=width, word_width=width, per_document=4 * width)

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


class FirstTokensNetwork(TransformerNetwork):
    places = 0

    def __init__(self, model: nn.Module, options: FirstTokens) -> None:
        super().__init__(model, options)
        self.lowest = max(1, self.layers - options.last + 1)
        self.places = kept_places(self.layers, options.last, self.frozen)
        self.width = self.word_width = self.state_width * (self.layers - self.lowest + 1)

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

    def encode(self, embedded: Tensor, mask: Tensor, hooks: Hooks) -> Tensor:
        """(B, layers x width), of a length around 1."""
        firsts = list(embedded[:, : self.places].unbind(dim=1))
        hidden, inside = embedded[:, self.places :], mask[:, self.places :]
        if self.frozen >= self.lowest:
            firsts.append(hidden[:, 0])
        for number, layer in enumerate(self.stack[self.frozen :], start=self.frozen + 1):
            hidden = run_layer(layer, hidden, inside)
            if number >= self.lowest:
                firsts.append(hidden[:, 0])
        vector = torch.cat(firsts, dim=1) / self.width**0.5
        return functional.dropout(vector, self.dropout, self.training)
