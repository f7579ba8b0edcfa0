"""Encoder and head as one network, and the loss it is trained with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from longtail.features.tokens import Tokens
from longtail.learners.neural.batches import Batch, in_length_order, state_tensor, token_tensors
from longtail.learners.neural.encoders import EncoderNetwork
from longtail.learners.neural.heads import HeadNetwork
from longtail.learners.neural.hooks import NONE, Hooks

#: Numbers that scoring may hold at once: documents x tokens x labels of a batch stay below.
SCORING = 1 << 25


class Network(nn.Module):
    def __init__(self, encoder: EncoderNetwork, head: HeadNetwork) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head

    def forward(self, batch: Batch, hooks: Hooks = NONE) -> Tensor:
        """Logits (B, S) of the batch's labels."""
        return self.head(self.encoder(batch, hooks), batch.mask, batch.labels, hooks)

    def groups(self, rate: float, row_rate: float, decay: float) -> list[dict[str, object]]:
        """Parameters by learning rate: rows of words and labels, which few batches touch, learn faster."""
        rows = {id(p): p for p in self.head.rows()}
        words = getattr(self.encoder, "words", None)
        if words is not None:
            rows[id(words.weight)] = words.weight
        trained = [p for p in self.parameters() if p.requires_grad]
        return [
            {"params": [p for p in trained if id(p) not in rows], "lr": rate, "weight_decay": decay},
            {"params": [p for p in trained if id(p) in rows], "lr": row_rate, "weight_decay": 0.0},
        ]


def loss_of(logits: Tensor, batch: Batch) -> Tensor:
    """Binary cross entropy, summed over labels and averaged over documents; targets may be soft."""
    return functional.binary_cross_entropy_with_logits(
        logits, batch.targets, weight=batch.weights, reduction="sum"
    ) / len(batch)


def score_batches(
    network: Network,
    tokens: Tokens,
    n_labels: int,
    *,
    states: NDArray[np.float16] | None = None,
    candidates: NDArray[np.int32] | None = None,
    size: int = 64,
) -> Iterator[tuple[NDArray[np.int64], Tensor, Tensor]]:
    """Documents of a batch, their labels (S,) or (B, S), and probabilities (B, S), over all documents."""
    device = next(network.parameters()).device
    everything = torch.arange(n_labels)
    with torch.inference_mode():
        for rows in in_length_order(tokens, size):
            labels = everything if candidates is None else torch.from_numpy(candidates[rows].astype(np.int64))
            ids, mask = token_tensors(tokens, rows)
            kept = state_tensor(states, tokens, rows)
            batch = Batch(rows, ids, mask, labels, torch.empty(0), None, kept)
            logits = network(to_device(batch, device))
            yield rows, labels, logits.float().sigmoid().cpu()


def to_device(batch: Batch, device: torch.device) -> Batch:
    if device.type == "cpu":
        return batch
    tensors = {name: value.to(device) for name, value in vars(batch).items() if isinstance(value, Tensor)}
    return replace(batch, **tensors)  # type: ignore[arg-type]
