"""XML-CNN's encoder (https://doi.org/10.1145/3077136.3080834): convolutions along the words, and where they answer.

    look     convolutions over 2, 4 and 8 words, each with as many feature maps, ReLU
    pool     dynamic max-pooling: each map is cut into p chunks of the text, and the largest value of each is kept
    gather   a layer with few units, the bottleneck, ReLU

Chunks are those of the text itself, whatever it is padded to beside longer ones: chunk c of n places goes from
floor(c n / p) to ceil((c + 1) n / p), so that short texts have p chunks, too, which overlap.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from longtail.augment.hooks import Hooks
from longtail.capabilities import Capabilities
from longtail.learners.neural.encoders.base import Cost
from longtail.learners.neural.encoders.network import EncoderNetwork
from longtail.learners.neural.encoders.words import WordEncoder
from longtail.learners.neural.training.blocks import drop
from longtail.part import option

#: Words that the convolutions look at.
WIDTHS = (2, 4, 8)


@dataclass(kw_only=True)
class Convolutions(WordEncoder):
    maps: int = option(64, "feature maps per width (XML-CNN: 128; 64 is quick on a CPU)", low=1, high=4096)
    chunks: int = option(2, "parts of a text of which each map keeps its largest value (p)", low=1, high=256)
    bottleneck: int = option(256, "units of the layer behind the pooling (XML-CNN: 512)", low=1, high=8192)
    skip: bool = option(
        True, "the direction of the text's mean word vector beside the bottleneck: rare names keep their identity "
        "(measured; XML-CNN: no)",
    )  # fmt: skip
    dropout_words: float = option(0.2, "dropout of word embeddings", low=0, high=0.99)
    dropout: float = option(0.2, "dropout of the pooled maps and of the document's vector (XML-CNN: 0.5)", low=0,
                            high=0.99)  # fmt: skip

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(spaces=("tokens",))

    def network(self) -> EncoderNetwork:
        return ConvolutionsNetwork(self)

    def cost(self, vocabulary: int) -> Cost:
        pooled = len(WIDTHS) * self.maps * self.chunks
        width = self.bottleneck + self.size * self.skip
        look = sum(WIDTHS) * self.size * self.maps
        maps = len(WIDTHS) * self.maps
        words = vocabulary * self.size
        # maps before and after ReLU, those of every chunk, gradients of each; words padded for each width, and what
        # the widest looks at, which torch unfolds
        per_token = (4 + 2 * self.chunks) * maps + (WIDTHS[-1] + len(WIDTHS)) * self.size
        cost = self.layers(words, width=width, word_width=width, layers=look, per_token=per_token)
        layers = pooled * self.bottleneck
        return cost._replace(
            weights=cost.weights + layers, trained=cost.trained + layers, per_document=4 * (pooled + width)
        )


class ConvolutionsNetwork(EncoderNetwork):
    def __init__(self, options: Convolutions) -> None:
        super().__init__()
        self.words = options.embedding()
        self.dropout_words, self.dropout = options.dropout_words, options.dropout
        self.chunks, self.skip = options.chunks, options.skip
        self.look = nn.ModuleList(nn.Conv1d(options.size, options.maps, width) for width in WIDTHS)
        self.gather = nn.Linear(len(WIDTHS) * options.maps * options.chunks, options.bottleneck)
        self.width = self.word_width = options.bottleneck + options.size * options.skip

    def embed(self, tokens: Tensor) -> Tensor:
        return drop(self.words(tokens), self.dropout_words, self.training)

    def encode(self, embedded: Tensor, mask: Tensor, hooks: Hooks) -> Tensor:
        """(B, width)."""
        inside = embedded * mask[:, :, None]
        along = inside.transpose(1, 2)
        pooled = [
            # as many places as words: a convolution sees nothing but 0 beyond either end
            pooled_chunks(
                functional.relu(conv(functional.pad(along, ((width - 1) // 2, width // 2)))), mask, self.chunks
            )
            for conv, width in zip(self.look, WIDTHS, strict=True)
        ]
        vector = functional.relu(self.gather(drop(torch.cat(pooled, dim=1), self.dropout, self.training)))
        if self.skip:
            vector = torch.cat([vector, functional.normalize(inside.sum(dim=1), dim=1)], dim=1)
        return drop(vector, self.dropout, self.training)


def pooled_chunks(maps: Tensor, mask: Tensor, chunks: int) -> Tensor:
    """(B, M * chunks): the largest value of each map (B, M, T), none below 0, within each chunk of the text."""
    length = mask.sum(dim=1, keepdim=True)
    place = torch.arange(mask.shape[1], device=mask.device)[None, :]
    found = []
    for chunk in range(chunks):
        within = (place >= chunk * length // chunks) & (place < -(-(chunk + 1) * length // chunks))
        found.append((maps * within[:, None, :]).amax(dim=2))
    return torch.stack(found, dim=2).flatten(1)
