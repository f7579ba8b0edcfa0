"""What augmenters that mix two documents have in common: drawing partner and share, and the arithmetic of mixing.

Every document i of a batch is mixed with a partner j of the same batch, and so are their targets:

    v~_i = lambda v_i + (1 - lambda) v_j          y~_i = lambda y_i + (1 - lambda) y_j
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from longtail.augment.hooks import Hook
from longtail.errors import UsageError
from longtail.part import option
from longtail.registry import name_of

if TYPE_CHECKING:
    from torch import Tensor

    from longtail.learners.neural.encoders.network import EncoderNetwork
    from longtail.learners.neural.training.batches import Batch
    from longtail.learners.neural.training.network import Network

#: Points whose values have one place per label, not one per token.
WITHOUT_POSITIONS = ("context", "classifier")


def layers_to_mix(encoder: EncoderNetwork) -> range:
    """Numbers of the trained layers that all of a text goes through: one with a way round it would mix only a part."""
    return range(encoder.layers if encoder.skip else encoder.frozen + 1, encoder.layers + 1)


def has_places(point: str, per_token: bool) -> bool:
    """Whether values at a point have a place for each token, which shorter texts leave empty."""
    return point == "embedded" or (per_token and point not in WITHOUT_POSITIONS)


# drawing
def draw_partner(size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """int64 (B,): the batch in another order, so that every document is a partner once; some may get themselves."""
    return rng.permutation(size)


def draw_lambda(alpha: float, rng: np.random.Generator) -> float:
    """A share from Beta(alpha, alpha): even for alpha 1, near 0 and 1 below, near 1/2 above."""
    return float(rng.beta(alpha, alpha))


# applying
def mixed(values: Tensor, partner: Tensor, lam: Tensor | float) -> Tensor:
    """lam * values + (1 - lam) * values of the partners.

    values   (B, ...)
    partner  int64 (B,)
    lam      a number, (B,), or a number for each of the values' first axes
    """
    if not isinstance(lam, int | float):
        lam = lam.reshape(lam.shape + (1,) * (values.ndim - lam.ndim))
    return lam * values + (1 - lam) * values[partner]


def mixed_mask(mask: Tensor, partner: Tensor, lam: float) -> Tensor:
    """bool (B, T): positions that either text has a token at; a text without a share brings none."""
    if lam == 1:
        return mask
    return mask[partner] if lam == 0 else mask | mask[partner]


def mixed_targets(batch: Batch, partner: Tensor, lam: Tensor | float) -> Batch:
    """The batch with targets and weights mixed; lam a number or (B,).

    This is the mixture of the two documents' losses, each with its own weights: a pair of weight 0 has no say in the
    mixed target either.
    """
    if batch.weights is None:
        return replace(batch, targets=mixed(batch.targets, partner, lam))
    weights = mixed(batch.weights, partner, lam)
    own = (lam if isinstance(lam, int | float) else lam[:, None]) * batch.weights
    return replace(batch, targets=mixed(batch.targets, partner, own / weights.clamp_min(1e-30)), weights=weights)


def require_shared(part: Hook, batch: Batch) -> None:
    """Refuses documents with a shortlist of labels each: their targets have no label in common to be mixed at."""
    if not batch.shared:
        raise UsageError(
            f"'{name_of(part)}' mixes documents, which need the same labels, but a label tree gives each its own; "
            'it works with the flat learner: attentionxml.tree = "never", or fewer labels'
        )


@dataclass(frozen=True, eq=False)
class Mix:
    """What was drawn for one step.

    point    where in the network documents are mixed
    partner  int64 (B,)
    lam      share of a document itself, the rest is its partner's
    per_token  whether the encoder's layers give a vector for each token
    mask     bool (B, T), where each document has tokens
    seen     bool (B, T), the mask that the layers see; it grows at the point, where texts become longer
    """

    point: str
    partner: Tensor
    lam: float
    per_token: bool
    mask: Tensor
    seen: Tensor


@dataclass(kw_only=True)
class Mixer(Hook, ABC):
    """Mixes vectors at one point of the network; point and lambda are drawn once per batch."""

    #: Whether a mixed text is as long as the longer of both, not as the first.
    unites: ClassVar[bool] = True

    alpha: float = option(1.0, "lambda is drawn from Beta(alpha, alpha)", low=0.01, high=1000)
    fixed: float | None = option(None, "lambda fixed at this value, none: drawn (1 is training without mixing)",
                                 low=0, high=1)  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        self.mix_: Mix | None = None

    @abstractmethod
    def points(self, network: Network) -> list[str]:
        """Points of this network to draw from."""

    def draw_lambda(self, rng: np.random.Generator) -> float:
        return draw_lambda(self.alpha, rng)

    def draw(self, batch: Batch, network: Network, rng: np.random.Generator, step: int) -> Batch:
        import torch

        require_shared(self, batch)
        points = self.points(network)
        partner = torch.from_numpy(draw_partner(len(batch), rng)).to(batch.tokens.device)
        drawn = self.draw_lambda(rng)  # in any case, so that partner and point do not depend on `fixed`
        lam = drawn if self.fixed is None else self.fixed
        seen = batch.mask.clone()
        point = points[int(rng.integers(len(points)))]
        self.mix_ = Mix(point, partner, lam, network.encoder.per_token, batch.mask, seen)
        return replace(mixed_targets(batch, partner, lam), mask=seen)

    def wants(self, point: str) -> bool:
        # with lambda 1 nothing is mixed, and the head's quicker way gives the plain run bit by bit
        return self.mix_ is not None and point == self.mix_.point and self.mix_.lam != 1

    def apply_at(self, point: str, values: Tensor) -> Tensor:
        mix = self.mix_
        if mix is None or point != mix.point:
            return values
        if len(values) != len(mix.partner):
            raise UsageError(f"'{name_of(self)}' must stand behind augmenters that add documents to a batch")
        if not has_places(point, mix.per_token):
            return mixed(values, mix.partner, mix.lam)
        if self.unites:
            # in place, as the layers above and the head hold this very tensor
            mix.seen.copy_(mixed_mask(mix.mask, mix.partner, mix.lam))
        return mixed(values.masked_fill(~mix.mask[:, :, None], 0), mix.partner, mix.lam)
