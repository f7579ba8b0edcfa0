"""InceptionXML's encoder (https://arxiv.org/abs/2109.07319): words are channels, and kernels run along the embedding.

    enhance   two simple self-attentions, X + gamma (X X^T) W X: over the words, then over the embedding's numbers
    mix       a convolution of width 1 over the words
    look      three convolutions of width 4, 8 and 16, each at every fourth place, put one beside the other
    gather    one more, of width 16 at every fourth place

InceptionXML-LF (appendix A of Gandalf's paper) weighs the three and an average by weights of each text's own and adds
them up, which leaves the last convolution a third of the channels.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.parametrizations import spectral_norm

from longtail.errors import UsageError
from longtail.learners.neural.blocks import drop
from longtail.learners.neural.encoders import EncoderNetwork
from longtail.learners.neural.hooks import Hooks
from longtail.learners.neural.titles import TitleEncoder, TitleNetwork
from longtail.part import option

#: Widths of the three convolutions, the places they skip, and the width of the last one.
KERNELS, STRIDE, LAST = (4, 8, 16), 4, 16
#: Width of the embeddings that leaves the last convolution two places: batch norms need more than one number.
NARROWEST = STRIDE * (LAST + STRIDE)
#: Weight of the convolutions' features beside the sum of word embeddings, before training.
SHARE = 0.03


@dataclass(kw_only=True)
class Inception(TitleEncoder):
    window: int = option(16, "first words of a text, which the convolutions see as channels (InceptionXML: 32)", low=1,
                         high=512)  # fmt: skip
    size: int = option(200, "width of the word embeddings (InceptionXML: 300)", low=NARROWEST, high=4096)
    channels: int = option(32, "channels of the convolutions (InceptionXML: 32)", low=1, high=512)
    enhance: bool = option(False, "self-attention over words and embedding before the convolutions (InceptionXML: yes)")
    routed: bool = option(False, "weights of each text's own for the convolutions, summed (InceptionXML-LF: yes)")
    skip: bool = option(
        True, "the weighted sum of the word embeddings beside the features: rare words keep their identity (measured)"
    )
    dropout: float = option(0.5, "dropout of the document's vector (InceptionXML)", low=0, high=0.99)

    def network(self) -> EncoderNetwork:
        return InceptionNetwork(self)

    def validate(self) -> None:
        super().validate()
        if self.size % STRIDE:
            raise UsageError(f"inception.size must be a multiple of {STRIDE}, not {self.size}")


class InceptionNetwork(TitleNetwork):
    def __init__(self, options: Inception) -> None:
        super().__init__(options)
        self.window, self.dropout, self.routed = options.window, options.dropout, options.routed
        words, channels = options.window, options.channels
        self.over_words = SelfAttention(words) if options.enhance else None
        self.over_numbers = SelfAttention(options.size) if options.enhance else None
        self.mix = nn.Conv1d(words, words, 1)
        self.mixed = nn.BatchNorm1d(words)
        self.look = nn.ModuleList(nn.Conv1d(words, channels, kernel, stride=STRIDE) for kernel in KERNELS)
        joined = channels if options.routed else channels * len(KERNELS)
        self.looked = nn.BatchNorm1d(joined)
        if options.routed:
            self.route = nn.Linear(options.size, len(KERNELS) + 1)
            self.pool = nn.Conv1d(words, channels, 1)
        self.gather = nn.Conv1d(joined, channels, LAST, stride=STRIDE)
        places = (options.size // STRIDE - LAST) // STRIDE + 1
        self.features = channels * places
        self.gathered = nn.BatchNorm1d(channels)
        self.width = self.plain = options.size if options.skip else self.features
        self.layer = nn.Linear(self.features, self.width)
        self.layered = nn.LayerNorm(self.width)  # InceptionXML has a batch norm, which a batch of one text has not
        self.share = nn.Parameter(torch.tensor(SHARE)) if options.skip else None

    def encode(self, embedded: Tensor, mask: Tensor, hooks: Hooks) -> Tensor:
        """(B, width): with `skip` the sum of the embeddings, and the features brought to their width added to it."""
        inside = embedded * mask[:, :, None]
        bag = inside.sum(dim=1)
        values = functional.pad(inside, (0, 0, 0, max(0, self.window - inside.shape[1])))[:, : self.window]
        # embeddings are small numbers, and rows of padding are 0: both are what batch norms are for
        if self.over_words is not None and self.over_numbers is not None:
            values = self.over_numbers(self.over_words(values).transpose(1, 2)).transpose(1, 2)
        values = self.mixed(functional.gelu(self.mix(values)))
        maps = [conv(_around(values, kernel)) for conv, kernel in zip(self.look, KERNELS, strict=True)]
        if self.routed:
            maps.append(functional.avg_pool1d(self.pool(values), STRIDE))
            share = self.route(bag).softmax(dim=1)
            joined = (torch.stack(maps, dim=1) * share[:, :, None, None]).sum(dim=1)
        else:
            joined = torch.cat(maps, dim=1)
        joined = drop(self.looked(functional.gelu(joined)), self.dropout, self.training)
        features = self.gathered(functional.gelu(self.gather(joined))).flatten(1)
        vector = self.layered(functional.gelu(self.layer(features)))
        vector = features + vector if self.share is None else bag + self.share * vector
        return drop(vector, self.dropout, self.training)


class SelfAttention(nn.Module):
    """X + gamma (X X^T) (W X) for X (B, rows, numbers): W, over the rows, has a bounded norm; gamma starts at 0."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.layer = spectral_norm(nn.Conv1d(rows, rows, 1, bias=False))
        self.gamma = nn.Parameter(torch.zeros(()))

    def forward(self, values: Tensor) -> Tensor:
        return values + self.gamma * (values @ values.transpose(1, 2)) @ self.layer(values)


def _around(values: Tensor, kernel: int) -> Tensor:
    """Padded as a ring, so that every kernel gives one number every fourth place."""
    side = (kernel - STRIDE) // 2
    return functional.pad(values, (side, side), mode="circular") if side else values
