"""SSMix (https://arxiv.org/abs/2106.08062, Yoon et al. 2021): words that matter little give way to ones that matter.

A word's saliency is how much the loss depends on its embedding e_t: the root mean square of d loss / d e_t. In text i
the least salient span of words is overwritten by the equally long, most salient span of its partner j:

    x~ = (x_i before the span, span of x_j, x_i after it)          y~ = lambda y_i + (1 - lambda) y_j

with lambda = 1 - span / length, one for each document. The loss is the mean over documents and their mixed versions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from longtail.augment.hooks import NONE, Hook, TrainingPlan
from longtail.augment.mixing import draw_partner, mixed_targets, require_shared
from longtail.part import option

if TYPE_CHECKING:
    from torch import Tensor

    from longtail.learners.neural.training.batches import Batch
    from longtail.learners.neural.training.network import Network


@dataclass(kw_only=True)
class SSMix(Hook):
    """Adds a mixed version of each document to the batch."""

    space: ClassVar[str] = "tokens"

    share: float = option(0.1, "length of the span, as a share of the text, at least one word (paper)",
                          low=0.001, high=1)  # fmt: skip
    warm_up: float = option(
        0.3, "share of the training before mixing starts (the paper starts from a trained model; 0.3 is a choice)",
        low=0, high=1,
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        self.start_ = 0

    def begin(self, plan: TrainingPlan) -> None:
        self.start_ = round(self.warm_up * plan.steps)

    def draw(self, batch: Batch, network: Network, rng: np.random.Generator, step: int) -> Batch:
        import torch

        require_shared(self, batch)
        if step < self.start_:
            return batch
        partner = draw_partner(len(batch), rng)
        lengths = batch.mask.sum(dim=1).cpu().numpy()
        special = getattr(network.encoder, "special_tokens", 0)
        spans = choose_spans(saliency(network, batch).cpu().numpy(), lengths, partner, self.share, special)
        device = batch.tokens.device
        pairs = torch.from_numpy(partner).to(device)
        mixture = mixed_targets(batch, pairs, torch.from_numpy(spans.lam).to(batch.targets))
        return joined(batch, replace(mixture, tokens=overwritten(batch.tokens, pairs, spans)))


@dataclass(frozen=True, eq=False)
class Spans:
    """What is taken over from each document's partner; all are (B,).

    to      int64, where in the document the span begins
    source  int64, where in the partner
    length  int64, of the span; 0 where there is nothing to take or to overwrite
    lam     float64, share of the document's own words
    """

    to: NDArray[np.int64]
    source: NDArray[np.int64]
    length: NDArray[np.int64]
    lam: NDArray[np.float64]


def choose_spans(
    saliency: NDArray[np.floating],
    lengths: NDArray[np.int64],
    partner: NDArray[np.int64],
    share: float,
    special: int = 0,
) -> Spans:
    """The least salient span of each document and the most salient one, as long, of its partner.

    saliency  (B, T), with lengths (B,) tokens of each document
    special   tokens at either end that are no words: no span touches them, and they do not count as length
    """
    words = np.maximum(lengths - 2 * special, 0)
    # a hair more than the product, so that 0.1 of 30 words are 3
    length = np.minimum(np.maximum((words * share + 1e-9).astype(np.int64), 1), np.minimum(words, words[partner]))
    start = np.arange(saliency.shape[1])
    sums = np.zeros((len(saliency), saliency.shape[1] + 1))
    np.cumsum(saliency, axis=1, out=sums[:, 1:])
    end = start + length[:, None]

    def pooled(rows: NDArray[np.int64], outside: float) -> NDArray[np.float64]:
        """Mean saliency of the span from each position on, for spans that lie within the words."""
        within = np.take_along_axis(sums[rows], np.minimum(end, saliency.shape[1]), axis=1) - sums[rows, :-1]
        fits = (start >= special) & (end <= (lengths[rows] - special)[:, None])
        return np.where(fits, within / np.maximum(length, 1)[:, None], outside)

    return Spans(
        to=pooled(np.arange(len(saliency)), np.inf).argmin(axis=1),
        source=pooled(partner, -np.inf).argmax(axis=1),
        length=length,
        lam=1 - length / np.maximum(words, 1),
    )


def overwritten(tokens: Tensor, partner: Tensor, spans: Spans) -> Tensor:
    """Tokens (B, T) with the partners' spans written in."""
    import torch

    to, source, length = (
        torch.from_numpy(part).to(tokens.device)[:, None] for part in (spans.to, spans.source, spans.length)
    )
    position = torch.arange(tokens.shape[1], device=tokens.device)[None, :]
    inside = (position >= to) & (position < to + length)
    taken = (position - to + source).clamp(0, tokens.shape[1] - 1)
    return torch.where(inside, tokens[partner].gather(1, taken), tokens)


def joined(batch: Batch, more: Batch) -> Batch:
    """Both batches, over the same labels, as one."""
    import torch

    return replace(
        batch,
        rows=np.concatenate([batch.rows, more.rows]),
        tokens=torch.cat([batch.tokens, more.tokens]),
        mask=torch.cat([batch.mask, more.mask]),
        targets=torch.cat([batch.targets, more.targets]),
        weights=None if batch.weights is None or more.weights is None else torch.cat([batch.weights, more.weights]),
    )


def saliency(network: Network, batch: Batch) -> Tensor:
    """float (B, T): root mean square of the loss's gradient at each embedding, 1 for a document's most salient token.

    Costs a forward and a backward pass. Nothing of it stays behind: no gradients of weights, and neither the network's
    mode nor torch's generators change.
    """
    import torch

    training, device = network.training, batch.tokens.device
    network.eval()
    try:
        with (
            torch.random.fork_rng(devices=[device] if device.type == "cuda" else []),
            torch.backends.cudnn.flags(enabled=False),  # whose LSTMs have no backward pass without dropout
            torch.enable_grad(),
        ):
            embedded = network.encoder.embed(batch.tokens).detach().requires_grad_()
            hidden = network.encoder.encode(embedded, batch.mask, NONE)
            loss = network.loss(network.head(hidden, batch.mask, batch.labels), batch)
            (gradient,) = torch.autograd.grad(loss, embedded)
    finally:
        network.train(training)
    size = gradient.float().square().mean(dim=2).sqrt() * batch.mask
    return size / size.amax(dim=1, keepdim=True).clamp_min(1e-30)
