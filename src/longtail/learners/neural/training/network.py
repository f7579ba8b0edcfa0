"""Encoder and head as one network, and the loss it is trained with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from longtail.augment.hooks import NONE, Hooks
from longtail.features.tokens import Tokens
from longtail.learners.neural.training.batches import Batch, in_length_order, state_tensor, token_tensors
from longtail.scores import Scores

if TYPE_CHECKING:
    from longtail.learners.neural.encoders.network import EncoderNetwork
    from longtail.learners.neural.heads.network import HeadNetwork


class Network(nn.Module):
    def __init__(self, encoder: EncoderNetwork, head: HeadNetwork) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head
        #: Whether only the classifier is trained: nothing is dropped then, and the encoder has no gradients.
        self.encoder_stands_still = False

    def train(self, mode: bool = True) -> Network:
        super().train(mode and not self.encoder_stands_still)
        return self

    def encode(self, batch: Batch, hooks: Hooks = NONE) -> Tensor:
        """What the encoder makes of the batch (B, T, width) or (B, width), or made of it before."""
        if batch.hidden is not None:
            return batch.hidden
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.encoder_stands_still):
            found: Tensor = self.encoder(batch, hooks)
        return found

    def forward(self, batch: Batch, hooks: Hooks = NONE) -> Tensor:
        """Logits (B, S) of the batch's labels."""
        return self.head(self.encode(batch, hooks), batch.mask, batch.labels, hooks)

    def folded(self) -> Network:
        """The network as it is kept: what only training needs is gone."""
        return Network(self.encoder, self.head.folded()).eval()

    def loss(self, logits: Tensor, batch: Batch) -> Tensor:
        return loss_of(logits, batch)

    def groups(self, rate: float, word_rate: float, label_rate: float, decay: float) -> list[dict[str, object]]:
        """Trained parameters by learning rate: layers, word vectors, label vectors."""
        rows = {id(p): label_rate for p in self.head.rows()}
        rows |= {id(module.weight): word_rate for name, module in self.encoder.named_children() if name == "words"}
        made: dict[float | None, list[nn.Parameter]] = {}
        for parameter in self.parameters():
            if parameter.requires_grad:
                made.setdefault(rows.get(id(parameter)), []).append(parameter)
        return [
            {"params": found, "lr": rate if own is None else own, "weight_decay": decay if own is None else 0.0}
            for own, found in made.items()
        ]

    @torch.no_grad()
    def start(self, tokens: Tokens, Y: sp.csr_matrix, states: NDArray[np.float16] | None = None) -> None:
        """Starts label vectors from the documents that carry the label: what the network knows before training.

        A document's vector is the direction of its tokens' mean, a label's that of its documents' sum.
        """
        training, word_width = self.training, self.encoder.word_width
        self.eval()
        means = torch.zeros(len(tokens), word_width)
        length = torch.zeros(())
        for rows in in_length_order(tokens, 64):
            ids, mask = token_tensors(tokens, rows)
            batch = Batch(rows, ids, mask, ids, ids, None, state_tensor(states, tokens, rows))
            values = self.encoder(batch)
            if values.ndim == 2:
                means[rows] = values[:, :word_width]  # of a second vector clusters are told
                continue
            values = values[:, :, -word_width:] * mask[:, :, None]
            means[rows] = values.sum(dim=1) / mask.sum(dim=1, keepdim=True)
            length += values.norm(dim=2).sum()
        centre = means.mean(dim=0) if self.encoder.centred else torch.zeros(word_width)
        vectors = functional.normalize(means - centre, dim=1).numpy()
        directions = functional.normalize(torch.from_numpy((Y.T @ vectors).astype(np.float32)), dim=1)
        self.head.start(directions, centre, max(float(length) / len(tokens.ids), 1e-6))
        self.train(training)

    @torch.no_grad()
    def prototypes(self, tokens: Tokens, Y: sp.csr_matrix, states: NDArray[np.float16] | None = None) -> Tensor:
        """(L, width): the mean context vector of each label over its documents, without dropout; 0 for none."""
        head: Any = self.head
        training, device = self.training, next(self.parameters()).device
        self.eval()
        sums = torch.zeros((Y.shape[1], self.encoder.width), device=device)
        for rows in in_length_order(tokens, 64):
            ids, mask = token_tensors(tokens, rows)
            own = Y[rows].tocoo()
            document, label = (torch.from_numpy(each.astype(np.int64)).to(device) for each in own.coords)
            batch = to_device(Batch(rows, ids, mask, ids, ids, None, state_tensor(states, tokens, rows)), device)
            contexts = head.contexts(self.encode(batch), batch.mask, document, label)
            sums.index_add_(0, label, contexts.float())
        self.train(training)
        counts = torch.from_numpy(np.bincount(Y.indices, minlength=Y.shape[1])).to(device)
        return sums / counts.clamp_min(1)[:, None]


def vectors_of(network: Network, tokens: Tokens) -> NDArray[np.float32]:
    """float32 (n, width): what the encoder makes of each document, for encoders that give one vector per document.

    A residual block at the encoder's end is left out: it belongs to the classifier.
    """
    encoder: Any = network.encoder
    made = np.empty((len(tokens), encoder.width), dtype=np.float32)
    training, block = network.training, getattr(encoder, "block", None)
    network.eval()
    encoder.block = None
    with torch.inference_mode():
        for rows in in_length_order(tokens, 256):
            ids, mask = token_tensors(tokens, rows)
            made[rows] = encoder(Batch(rows, ids, mask, ids, ids)).numpy()
    encoder.block = block
    network.train(training)
    return made


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
    """Documents of a batch, their labels (S,) or (B, S), and logits (B, S), over all documents."""
    device = next(network.parameters()).device
    everything = torch.arange(n_labels)
    with torch.inference_mode():
        for rows in in_length_order(tokens, size):
            labels = everything if candidates is None else torch.from_numpy(candidates[rows].astype(np.int64))
            ids, mask = token_tensors(tokens, rows)
            kept = state_tensor(states, tokens, rows)
            batch = Batch(rows, ids, mask, labels, torch.empty(0), None, kept)
            logits = network(to_device(batch, device))
            yield rows, labels, logits.float().cpu()


def to_device(batch: Batch, device: torch.device) -> Batch:
    if device.type == "cpu":
        return batch
    tensors = {name: value.to(device) for name, value in vars(batch).items() if isinstance(value, Tensor)}
    return replace(batch, **tensors)  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class Candidates:
    """Labels a document is scored for: (n, S), or None for all; prior (n, S), if given, multiplies probabilities."""

    labels: NDArray[np.int32] | None = None
    prior: NDArray[np.float32] | None = None


def best_labels(
    network: Network,
    tokens: Tokens,
    n_labels: int,
    k: int,
    *,
    states: NDArray[np.float16] | None = None,
    shown: Candidates | None = None,
    size: int = 64,
) -> Scores:
    """The k best labels of each document, of all or of those it is shown."""
    shown = shown or Candidates()
    candidates, prior = shown.labels, shown.prior
    width = n_labels if candidates is None else candidates.shape[1]
    k = min(k, width)
    ids = np.full((len(tokens), k), -1, dtype=np.int32)
    values = np.zeros((len(tokens), k), dtype=np.float32)
    training = network.training
    network.eval()
    try:
        for rows, labels, logits in score_batches(
            network, tokens, n_labels, states=states, candidates=candidates, size=size
        ):
            ranked = logits if prior is None else logits.sigmoid() * torch.from_numpy(prior[rows])
            best, place = ranked.topk(k, dim=1)
            best = best.sigmoid() if prior is None else best  # of the k best only: labels are many
            chosen = labels[place] if labels.ndim == 1 else labels.gather(1, place)
            listed = torch.ones_like(best, dtype=torch.bool) if prior is None else best > 0
            ids[rows] = torch.where(listed, chosen, -1).numpy()
            values[rows] = best.clamp_min(1e-30).numpy()
    finally:
        network.train(training)
    return Scores(ids, values).sorted()
