"""Networks of the encoders that read words: BiLSTM and a bag of embeddings."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from longtail.augment.hooks import Hooks
from longtail.learners.neural.encoders.network import EncoderNetwork

if TYPE_CHECKING:
    from longtail.learners.neural.encoders.words import Bag, BiLSTM


class BiLSTMNetwork(EncoderNetwork):
    def __init__(self, options: BiLSTM) -> None:
        super().__init__()
        self.words = options.embedding()
        self.dropout_words, self.dropout, self.skip = options.dropout_words, options.dropout, options.skip
        self.layers = options.depth
        sizes = [options.size] + [2 * options.hidden] * (options.depth - 1)
        self.onwards = nn.ModuleList(nn.LSTM(size, options.hidden, batch_first=True) for size in sizes)
        self.backwards = nn.ModuleList(nn.LSTM(size, options.hidden, batch_first=True) for size in sizes)
        self.initial = nn.Parameter(torch.zeros(options.depth, 2, 2, options.hidden))
        self.width = 2 * options.hidden + options.size * options.skip
        self.word_width = options.size if options.skip else self.width

    def embed(self, tokens: Tensor) -> Tensor:
        return functional.dropout(self.words(tokens), self.dropout_words, self.training)

    def encode(self, embedded: Tensor, mask: Tensor, hooks: Hooks) -> Tensor:
        # The backward direction reads each text from its own end. Turning the texts round by hand and leaving the
        # padding behind them is exact, and twice as fast as torch's packed sequences on a CPU.
        hidden = embedded
        for layer in range(self.layers):
            turned = _turned(mask)  # anew for each layer: texts that a hook mixes grow on the way
            ahead = self._run(self.onwards[layer], hidden, self.initial[layer, 0])
            back = self._run(self.backwards[layer], _reorder(hidden, turned), self.initial[layer, 1])
            hidden = torch.cat([ahead, _reorder(back, turned)], dim=2)
            hidden = functional.dropout(hidden, self.dropout, self.training)
            if self.skip and layer == self.layers - 1:
                hidden = torch.cat([hidden, embedded], dim=2)
            hidden = hooks.apply_at(f"layer {layer + 1}", hidden)
        return hidden

    @staticmethod
    def _run(lstm: nn.Module, values: Tensor, initial: Tensor) -> Tensor:
        state = initial[:, None, None, :].expand(-1, -1, len(values), -1).contiguous()
        # few CPUs have an LSTM of 16 bit numbers, and torch does not fall back
        on_cpu = values.device.type == "cpu"
        with torch.autocast("cpu", enabled=False) if on_cpu else contextlib.nullcontext():
            output: Tensor = lstm(values.to(state.dtype) if on_cpu else values, (state[0], state[1]))[0]
        return output


def _turned(mask: Tensor) -> Tensor:
    """int64 (B, T): the position each position takes its token from when every text is read from its end."""
    lengths = mask.sum(dim=1, keepdim=True)
    positions = torch.arange(mask.shape[1], device=mask.device)[None, :]
    return torch.where(positions < lengths, lengths - 1 - positions, positions)


def _reorder(values: Tensor, positions: Tensor) -> Tensor:
    return values.gather(1, positions[:, :, None].expand_as(values))


class BagNetwork(EncoderNetwork):
    def __init__(self, options: Bag) -> None:
        super().__init__()
        self.words = options.embedding()
        self.dropout, self.width, self.word_width = options.dropout, options.size, options.size

    def embed(self, tokens: Tensor) -> Tensor:
        return functional.dropout(self.words(tokens), self.dropout, self.training)

    def encode(self, embedded: Tensor, mask: Tensor, hooks: Hooks) -> Tensor:
        return hooks.apply_at("layer 1", embedded)
