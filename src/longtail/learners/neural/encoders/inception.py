"""InceptionXML's encoder (https://arxiv.org/abs/2109.07319): words are channels, and kernels run along the embedding.

    enhance   two simple self-attentions, X + gamma (X Y^T) W X: over the words, where Y = X, then over the embedding's
              numbers, where Y is what the words were before the first, as published, or X again
    mix       a convolution of width 1 over the words
    look      three convolutions of width 4, 8 and 16, each at every fourth place, put one beside the other
    gather    one more, of width 16 at every fourth place

InceptionXML-LF (appendix A of Gandalf's paper) weighs the three and an average by weights of each text's own and adds
them up, which leaves the last convolution a third of the channels; and has that one twice, for labels and for clusters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.parametrizations import spectral_norm

from longtail.augment.hooks import Hooks
from longtail.errors import UsageError
from longtail.learners.neural.encoders.base import Cost
from longtail.learners.neural.encoders.network import EncoderNetwork
from longtail.learners.neural.encoders.short import ShortTextEncoder
from longtail.learners.neural.encoders.short_networks import ShortTextNetwork
from longtail.learners.neural.training.blocks import drop
from longtail.part import option

#: Widths of the three convolutions, the places they skip, and the width of the last one.
KERNELS, STRIDE, LAST = (4, 8, 16), 4, 16
#: Width of the embeddings that leaves the last convolution two places: batch norms need more than one number.
NARROWEST = STRIDE * (LAST + STRIDE)
#: Weight of the convolutions' features beside the sum of word embeddings, before training.
SHARE = 0.03


@dataclass(kw_only=True)
class Inception(ShortTextEncoder):
    window: int = option(16, "first words of a text, which the convolutions see as channels (InceptionXML: 32)", low=1,
                         high=512)  # fmt: skip
    size: int = option(200, "width of the word embeddings (InceptionXML: 300)", low=NARROWEST, high=4096)
    channels: int = option(32, "channels of the convolutions (InceptionXML: 32)", low=1, high=512)
    enhance: bool = option(False, "self-attention over words and embedding before the convolutions (InceptionXML: yes)")
    partner: str = option(
        "itself", "what the second self-attention is compared with: its own input, or the embeddings (InceptionXML)",
        choices=("itself", "embeddings"), only={"enhance": True},
    )  # fmt: skip
    routed: bool = option(False, "weights of each text's own for the convolutions, summed (InceptionXML-LF: yes)")
    decoupled: bool = option(
        False, "a last convolution for clusters beside that for labels, with the shortlist label-clusters "
        "(InceptionXML-LF: yes)",
    )  # fmt: skip
    skip: bool = option(
        True, "the weighted sum of the word embeddings beside the features: rare words keep their identity (measured)"
    )
    dropout: float = option(0.5, "dropout of the document's vector (InceptionXML)", low=0, high=0.99)

    def network(self) -> EncoderNetwork:
        return InceptionNetwork(self)

    def cost(self, vocabulary: int) -> Cost:
        words, places = self.window, (self.size // STRIDE - LAST) // STRIDE + 1
        maps = self.channels * (1 if self.routed else len(KERNELS))
        features = self.channels * places
        width = self.size if self.skip else features
        last = maps * self.channels * LAST * (1 + self.decoupled)
        layers = words * words + words * self.channels * sum(KERNELS) + last + features * width
        per_text = 8 * (words * self.size + maps * (self.size // STRIDE) + features * (1 + self.decoupled))
        cost = self.layers(vocabulary * self.size, width=width, word_width=width, layers=layers, per_token=0)
        return cost._replace(per_document=per_text)

    def validate(self) -> None:
        super().validate()
        if self.size % STRIDE:
            raise UsageError(f"inception.size must be a multiple of {STRIDE}, not {self.size}")


class InceptionNetwork(ShortTextNetwork):
    """Layers that hooks may reach: what the three convolutions find, what the last one does, the text's vector."""

    layers = 3

    def __init__(self, options: Inception) -> None:
        super().__init__(options)
        self.window, self.dropout, self.routed = options.window, options.dropout, options.routed
        self.skip = options.skip
        words, channels = options.window, options.channels
        self.over_words = SelfAttention(words) if options.enhance else None
        self.over_numbers = SelfAttention(options.size) if options.enhance else None
        self.partner = options.partner
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
        self.gather_clusters = nn.Conv1d(joined, channels, LAST, stride=STRIDE) if options.decoupled else None
        self.gathered_clusters = nn.BatchNorm1d(channels) if options.decoupled else None
        self.vectors = 1 + options.decoupled
        self.width = self.word_width = options.size if options.skip else self.features
        self.layer = nn.Linear(self.features, self.width)
        self.layered = nn.LayerNorm(self.width)  # InceptionXML has a batch norm, which a batch of one text has not
        self.share = nn.Parameter(torch.tensor(SHARE)) if options.skip else None

    def encode(self, embedded: Tensor, mask: Tensor, hooks: Hooks) -> Tensor:
        """(B, width): with `skip` the sum of the embeddings, and the features brought to their width added to it.

        With `decoupled` (B, 2 width): the labels' vector, and the clusters' behind it.
        """
        inside = embedded * mask[:, :, None]
        bag = inside.sum(dim=1)
        values = functional.pad(inside, (0, 0, 0, max(0, self.window - inside.shape[1])))[:, : self.window]
        # embeddings are small numbers, and rows of padding are 0: both are what batch norms are for
        if self.over_words is not None and self.over_numbers is not None:
            partner = values.transpose(1, 2) if self.partner == "embeddings" else None
            values = self.over_numbers(self.over_words(values).transpose(1, 2), partner).transpose(1, 2)
        values = self.mixed(functional.gelu(self.mix(values)))
        maps = self._looked(values)
        if self.routed:
            pooled = functional.avg_pool1d(values, STRIDE).transpose(1, 2)
            maps.append(functional.linear(pooled, self.pool.weight[:, :, 0], self.pool.bias))
            share = self.route(bag).softmax(dim=1)
            joined = (torch.stack(maps, dim=1) * share[:, :, None, None]).sum(dim=1)
        else:
            joined = torch.cat(maps, dim=2)
        joined = drop(_normed(self.looked, functional.gelu(joined)), self.dropout, self.training)
        joined = hooks.apply_at("layer 1", joined)
        found = self._vector(self.gather, self.gathered, joined, bag, hooks)
        if self.gather_clusters is not None and self.gathered_clusters is not None:
            more = self._vector(self.gather_clusters, self.gathered_clusters, joined, bag, hooks)
            found = torch.cat([found, more], dim=1)
        return found

    def _vector(self, conv: nn.Conv1d, norm: nn.BatchNorm1d, joined: Tensor, bag: Tensor, hooks: Hooks) -> Tensor:
        """(B, width) of what the three convolutions found (B, places, channels), by way of a last one."""
        features = _normed(norm, functional.gelu(self._gathered(conv, joined))).transpose(1, 2).flatten(1)
        features = hooks.apply_at("layer 2", features)
        vector = self.layered(functional.gelu(self.layer(features)))
        vector = features + vector if self.share is None else bag + self.share * vector
        return hooks.apply_at("layer 3", drop(vector, self.dropout, self.training))

    def _looked(self, values: Tensor) -> list[Tensor]:
        """What the three convolutions make of (B, words, numbers), a ring: each (B, places, channels)."""
        maps = []
        blocks: dict[int, Tensor] = {}
        conv: Any
        for conv, kernel in zip(self.look, KERNELS, strict=True):
            before, shift = divmod((kernel - STRIDE) // 2, STRIDE)
            if shift not in blocks:
                turned = values.roll(shift, dims=2) if shift else values
                blocks[shift] = turned.reshape(*values.shape[:2], -1, STRIDE).transpose(1, 2).flatten(2)
            parts = _products(blocks[shift], conv, (1, 3, 2, 0))
            maps.append(sum((part.roll(before - step, dims=1) for step, part in enumerate(parts)), conv.bias))
        return maps

    @staticmethod
    def _gathered(conv: Any, joined: Tensor) -> Tensor:
        """What a last convolution makes of (B, places, channels): (B, fewer places, channels)."""
        count = joined.shape[1] // STRIDE
        parts = _products(joined[:, : count * STRIDE].reshape(len(joined), count, -1), conv, (3, 1, 2, 0))
        places = count - len(parts) + 1
        found: Tensor = sum((part[:, step : step + places] for step, part in enumerate(parts)), conv.bias)
        return found


def _products(blocks: Tensor, conv: nn.Conv1d, order: tuple[int, ...]) -> tuple[Tensor, ...]:
    """Blocks (B, places, STRIDE * channels) with each stride of a kernel: as many tensors (B, places, channels out).

    order  of a block's numbers: those of channels (1) in front of those within the stride (3), or behind

    A convolution is the sum of these, each a place further on. So nothing need be unfolded, and backward passes are
    plain products, too: about two thirds of the time of torch's own convolutions.
    """
    out, channels, _ = conv.weight.shape
    weight = conv.weight.reshape(out, channels, -1, STRIDE).permute(*order).reshape(STRIDE * channels, -1)
    found = blocks @ weight
    return found.view(*found.shape[:2], -1, out).unbind(2)


class SelfAttention(nn.Module):
    """X + gamma (X Y^T) (W X) for X (B, rows, numbers): W, over the rows, has a bounded norm; gamma starts at 0.

    Y, the partner, is X itself where none is given.
    """

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.layer = spectral_norm(nn.Conv1d(rows, rows, 1, bias=False))
        self.gamma = nn.Parameter(torch.zeros(()))

    def forward(self, values: Tensor, partner: Tensor | None = None) -> Tensor:
        other = values if partner is None else partner
        return values + self.gamma * (values @ other.transpose(1, 2)) @ self.layer(values)


def _normed(norm: nn.BatchNorm1d, values: Tensor) -> Tensor:
    """A batch norm of (B, places, channels)."""
    return norm(values.flatten(0, 1)).view_as(values)
