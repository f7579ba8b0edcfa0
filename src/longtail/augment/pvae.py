"""Prototype-based variational autoencoder (LSFA): how features of a label lie around its prototype.

    encoder  mean, log-variance of z from [v; p]          decoder  mean of v from [z; p]

Learnt from labels with many documents, it draws features of labels with few: p is the label's prototype, z is drawn
from N(0, I), or from a Gaussian fitted to what the encoder gives (`prior`).
It sees v - p in units of its spread over head labels (`residual`), or v itself as the paper has it. There is no ReLU on
mean and log-variance, with which no posterior could come near the prior.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from longtail.augment.label_features import FeatureRows, LabelFeatures
from longtail.features.pretrained import torch_threads
from longtail.part import Arrays, under
from longtail.run import Run

#: Pairs per step, and steps of an epoch at most: more pairs are drawn from, a part in each epoch.
BATCH, MOST_STEPS = 256, 100
#: Epochs without a better one before training stops (LSFA's code: 10).
PATIENCE = 5
#: Weight of the divergence in the released code.
RELEASED = 0.005
#: Standard deviations from their centre that prototypes are seen at, at most: a label unlike all others stays near.
FURTHEST = 5.0
#: Noise on the prototypes that the PVAE learns with, in their standard deviations.
UNCERTAIN = 0.3
#: What draws are widened or narrowed by, at most, so that they vary as what was learnt from.
WIDEST = 3.0
#: Features drawn in one go, and numbers that it is asked by how far and how much a label's draws vary.
CHUNK, DRAWN = 1 << 14, 16
#: Labels, and draws of each, that tell how much single numbers vary.
ASKED, OFTEN = 64, 128
#: How far the few numbers are believed about single numbers of single labels: 0 not at all, 1 fully.
BELIEVED = 0.5


@dataclass(frozen=True)
class Shape:
    """What a PVAE is like; see the options of `lsfa`."""

    hidden: int = 256
    latent: int = 64
    objective: str = "evidence"
    residual: bool = True
    noise: bool = True
    prior: str = "fitted"
    epochs: int = 12
    rate: float = 2e-3


class Network(nn.Module):
    def __init__(self, width: int, shape: Shape) -> None:
        super().__init__()
        self.inner = nn.Linear(2 * width, shape.hidden)
        self.mean = nn.Linear(shape.hidden, shape.latent)
        self.log_variance = nn.Linear(shape.hidden, shape.latent)
        self.outer = nn.Linear(shape.latent + width, shape.hidden)
        self.decoded = nn.Linear(shape.hidden, width)
        self.log_scale = nn.Parameter(torch.zeros(width))

    def encode(self, values: Tensor, prototypes: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log-variance (B, latent) of z."""
        inner = functional.leaky_relu(self.inner(torch.cat([values, prototypes], dim=1)))
        return self.mean(inner), self.log_variance(inner).clamp(-10, 10)

    def decode(self, drawn: Tensor, prototypes: Tensor) -> Tensor:
        """Mean (B, width) of the values."""
        return self.decoded(functional.leaky_relu(self.outer(torch.cat([drawn, prototypes], dim=1))))


def divergence(mean: Tensor, log_variance: Tensor) -> Tensor:
    """(B,): Kullback-Leibler divergence of N(mean, variance) from N(0, I)."""
    return 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(dim=1)


def negative_evidence(values: Tensor, decoded: Tensor, log_scale: Tensor, mean: Tensor, log_variance: Tensor) -> Tensor:
    """(B,): equation 16, with a Gaussian likelihood whose spread exp(log_scale) (width,) is learnt."""
    off = ((values - decoded) / log_scale.exp()).square()
    return divergence(mean, log_variance) + (0.5 * off + log_scale + 0.5 * np.log(2 * np.pi)).sum(dim=1)


def released_loss(values: Tensor, decoded: Tensor, mean: Tensor, log_variance: Tensor) -> Tensor:
    """(B,): the released code's, mean squared error + 0.005 divergence."""
    return (values - decoded).square().mean(dim=1) + RELEASED * divergence(mean, log_variance)


class Pvae:
    """A fitted PVAE with the prototypes it draws around.

    prototypes  float32 (L, width)
    scales      float32 (4, width): centre and spread of prototypes, centre and spread of what is modelled
    within      float32 (width,): standard deviation within labels of what was learnt from
    widths      float32 (L,): that of each label, in units of it
    latent      float32 (1 + latent, latent): where z is drawn around, and what standard normal numbers are mixed by
    """

    def __init__(self, shape: Shape, prototypes: NDArray[np.float32], scales: NDArray[np.float32]) -> None:
        self.shape, self.prototypes, self.scales = shape, prototypes, scales
        self.within = np.ones(prototypes.shape[1], dtype=np.float32)
        self.widths = np.ones(len(prototypes), dtype=np.float32)
        self.latent = np.concatenate([np.zeros((1, shape.latent)), np.eye(shape.latent)]).astype(np.float32)
        self.network = Network(prototypes.shape[1], shape).eval()

    # fitting
    @classmethod
    def fitted(cls, shape: Shape, features: LabelFeatures, head: NDArray[np.int64], run: Run) -> Pvae:
        """Learns from the features of head labels, until those held out are no better explained."""
        with torch.random.fork_rng(devices=[]), torch_threads(run.workers):
            torch.manual_seed(run.seed_of("pvae"))
            made = cls(shape, features.prototypes, _scales(shape, features, head))
            made._fit(features, head, run)
        return made

    def _fit(self, features: LabelFeatures, head: NDArray[np.int64], run: Run) -> None:
        rng = run.rng("pvae")
        train, valid = features.held_out(head, rng)
        optimiser = torch.optim.Adam(self.network.parameters(), lr=self.shape.rate, fused=True)
        best, kept, since = np.inf, copy.deepcopy(self.network.state_dict()), 0
        with run.bar("PVAE", self.shape.epochs) as bar:
            for epoch in range(self.shape.epochs):
                if since >= PATIENCE:
                    bar.advance(self.shape.epochs - epoch)
                    break
                self.network.train()
                order = rng.permutation(len(train[0]))[: BATCH * MOST_STEPS]
                for places in np.array_split(order, -(-len(order) // BATCH)):
                    optimiser.zero_grad(set_to_none=True)
                    loss: Any = self._losses(features, train[0][places], train[1][places]).mean()
                    loss.backward()
                    optimiser.step()
                found = self._validated(features, valid)
                since += 1
                if found < best:
                    best, kept, since = found, copy.deepcopy(self.network.state_dict()), 0
                bar.advance(1)
        self.network.load_state_dict(kept)
        self.network.eval()
        if self.shape.prior == "fitted":
            self.latent = self._fitted_prior(features, train)
            learnt = np.unique(train[1])
            self.within = np.sqrt(np.maximum(features.variance(learnt), 1e-12)).astype(np.float32)
            self.widths = features.widths(learnt)

    def _fitted_prior(self, features: LabelFeatures, train: FeatureRows) -> NDArray[np.float32]:
        """Mean and covariance of z over what was learnt from: with outliers among them it is wider than N(0, I)."""
        total, products = np.zeros(self.shape.latent), np.zeros((self.shape.latent, self.shape.latent))
        for start in range(0, len(train[0]), CHUNK):
            rows, whose = (each[start : start + CHUNK] for each in train)
            with torch.no_grad():
                mean, log_variance = self.network.encode(self._values(features, rows, whose), self._given(whose))
            found = mean.numpy().astype(np.float64)
            total += found.sum(axis=0)
            products += found.T @ found + np.diag(log_variance.exp().sum(dim=0).numpy().astype(np.float64))
        centre = total / len(train[0])
        values, vectors = np.linalg.eigh(products / len(train[0]) - np.outer(centre, centre))
        factor = (vectors * np.sqrt(np.maximum(values, 0))).T
        return np.ascontiguousarray(np.concatenate([centre[None], factor]).astype(np.float32))

    def _validated(self, features: LabelFeatures, valid: FeatureRows) -> float:
        self.network.eval()
        total = 0.0
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)  # the same noise at every check, so that weights alone make the difference
            for start in range(0, len(valid[0]), CHUNK):
                rows, whose = (each[start : start + CHUNK] for each in valid)
                total += float(self._losses(features, rows, whose).sum())
        return total / max(1, len(valid[0]))

    def _losses(self, features: LabelFeatures, rows: NDArray[np.int64], whose: NDArray[np.int64]) -> Tensor:
        """(B,): of some features, given whose they are."""
        values, given = self._values(features, rows, whose), self._given(whose)
        if self.network.training:  # labels to come have other prototypes, and less certain ones
            given = given + UNCERTAIN * torch.randn_like(given)
        mean, log_variance = self.network.encode(values, given)
        decoded = self.network.decode(mean + torch.randn_like(mean) * (0.5 * log_variance).exp(), given)
        if self.shape.objective == "released":
            return released_loss(values, decoded, mean, log_variance)
        return negative_evidence(values, decoded, self.network.log_scale, mean, log_variance)

    def _values(self, features: LabelFeatures, rows: NDArray[np.int64], whose: NDArray[np.int64]) -> Tensor:
        off = features.some(rows) - (self.prototypes[whose] if self.shape.residual else 0)
        return torch.from_numpy((off - self.scales[2]) / self.scales[3])

    def _given(self, labels: NDArray[np.int64]) -> Tensor:
        given = (self.prototypes[labels] - self.scales[0]) / self.scales[1]
        return torch.from_numpy(given.clip(-FURTHEST, FURTHEST))

    # drawing
    def draw(self, labels: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.float32]:
        """float32 (m, width): equation 18, and with `noise` what the likelihood varies by around it.

        With a fitted prior draws lie around the prototype and vary as what was learnt from, more or less by label
        (`widths`).
        """
        made = np.empty((len(labels), self.prototypes.shape[1]), dtype=np.float32)
        for start in range(0, len(labels), CHUNK):
            own = labels[start : start + CHUNK]
            off = self._off(own, rng.standard_normal((len(own), self.shape.latent), dtype=np.float32))
            if self.noisy:
                off += self.noise * rng.standard_normal(off.shape, dtype=np.float32)
            if self.shape.prior == "fitted":
                centre, of_label, of_number = self.corrections
                off = (off - centre[own]) * of_label[own] * (self.widths[own, None] * of_number)
            made[start : start + len(own)] = self.prototypes[own] + off
        return made

    @property
    def noisy(self) -> bool:
        return self.shape.noise and self.shape.objective == "evidence"

    @property
    def noise(self) -> NDArray[np.float32]:
        """(width,): standard deviation of the likelihood."""
        found: NDArray[np.float32] = np.exp(self.network.log_scale.detach().numpy()) * self.scales[3]
        return found

    def _off(self, labels: NDArray[np.int64], normal: NDArray[np.float32]) -> NDArray[np.float32]:
        """(m, width): how far off their prototypes features are decoded from standard normal numbers (m, latent)."""
        drawn = normal if self.shape.prior == "standard" else self.latent[0] + normal @ self.latent[1:]
        with torch.no_grad():
            values = self.network.decode(torch.from_numpy(drawn), self._given(labels)).numpy()
        found: NDArray[np.float32] = values * self.scales[3] + self.scales[2]
        return found if self.shape.residual else found - self.prototypes[labels]

    @cached_property
    def corrections(self) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
        """float32 (L, width): what is decoded for a label on average; (L, width), (width,): what draws are widened by.

        Around prototypes that it has not seen, the decoder is off by more than it is for what it learnt from, and
        varies more or less. Both are found from the same few numbers for all labels. These tell only so much about a
        single number of a single label: how much it varies is taken to lie half-way between what they say and what
        the label's numbers vary by on average. What is left is corrected per number, by many draws of some labels: a
        few directions of z may be all that matters.
        """
        # at right angles and as long as z is: for a linear decoder and as many of them as z has numbers this is exact
        size = self.shape.latent
        angles = np.linalg.qr(np.random.default_rng(0).standard_normal((size, min(DRAWN, size))))[0]
        few = (angles.T * np.sqrt(size)).astype(np.float32)
        centre, square = np.zeros_like(self.prototypes), np.zeros_like(self.prototypes)
        for start in range(0, len(self.prototypes), CHUNK):
            own = np.arange(start, min(start + CHUNK, len(self.prototypes)))
            for normal in (*few, *-few):
                off = self._off(own, np.repeat(normal[None], len(own), axis=0))
                centre[own] += off / (2 * len(few))
                square[own] += np.square(off) / (2 * len(few))
        noise = np.square(self.noise) if self.noisy else np.zeros_like(self.within)
        variance = np.maximum((np.maximum(square - np.square(centre), 0) + noise) / np.square(self.within), 1e-12)
        average = variance.mean(axis=1, keepdims=True)
        of_label = _widened(average * (variance / average) ** BELIEVED)
        return centre, of_label, self._of_number(of_label, noise)

    def _of_number(self, of_label: NDArray[np.float32], noise: NDArray[np.float32]) -> NDArray[np.float32]:
        """(width,): what numbers are widened by beside labels, from many draws of some labels."""
        known, rng, total = np.flatnonzero(self.prototypes.any(axis=1)), np.random.default_rng(1), np.zeros_like(noise)
        asked = known[np.unique(np.linspace(0, len(known) - 1, ASKED).astype(np.int64))] if len(known) else known
        for label in asked:
            normal = rng.standard_normal((OFTEN, self.shape.latent), dtype=np.float32)
            total += (self._off(np.full(OFTEN, label), normal).var(axis=0) + noise) * np.square(of_label[label])
        return _widened(np.maximum(total / (max(1, len(asked)) * np.square(self.within)), 1e-12))

    # keeping
    def state(self) -> dict[str, NDArray[Any]]:
        """But for the prototypes."""
        weights = {f"network.{name}": weight.numpy() for name, weight in self.network.state_dict().items()}
        return {"scales": self.scales, "within": self.within, "widths": self.widths, "latent": self.latent, **weights}

    @classmethod
    def restored(cls, shape: Shape, prototypes: NDArray[np.float32], arrays: Arrays) -> Pvae:
        scales = np.asarray(arrays["scales"])
        if scales.shape != (4, prototypes.shape[1]) or scales.dtype != np.float32 or scales[[1, 3]].min() <= 0:
            raise ValueError("the scales of the PVAE are not what they should be")
        within = np.asarray(arrays["within"])
        if within.shape != scales[0].shape or within.dtype != np.float32 or within.min() <= 0:
            raise ValueError("what features vary by within labels is not what it should be for a PVAE")
        widths = np.asarray(arrays.get("widths", np.ones(len(prototypes), dtype=np.float32)))  # older models have none
        if widths.shape != (len(prototypes),) or widths.dtype != np.float32 or widths.min() <= 0:
            raise ValueError("what features of each label vary by is not what it should be for a PVAE")
        latent = np.asarray(arrays["latent"])
        if latent.shape != (1 + shape.latent, shape.latent) or latent.dtype != np.float32:
            raise ValueError("what z of the PVAE is drawn by is not what it should be")
        kept = under("network", arrays)
        with torch.random.fork_rng(devices=[]):
            made = cls(shape, prototypes, scales)
        made.latent, made.within, made.widths = latent, within, widths
        own = made.network.state_dict()
        if set(own) != set(kept) or len(arrays) != len(kept) + 3 + ("widths" in arrays):
            raise ValueError("weights of the PVAE are missing or too many")
        for name, weight in own.items():
            if kept[name].shape != tuple(weight.shape) or kept[name].dtype != np.float32:
                raise ValueError(f"'{name}' of the PVAE does not fit its options")
        made.network.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in kept.items()})
        made.network.eval()
        return made


def _widened(variance: NDArray[Any]) -> NDArray[np.float32]:
    """What makes draws of these variances, in units of what they should be, as wide as they should be."""
    return np.clip(variance**-0.5, 1 / WIDEST, WIDEST).astype(np.float32)


def _scales(shape: Shape, features: LabelFeatures, head: NDArray[np.int64]) -> NDArray[np.float32]:
    """float32 (4, width): centres and spreads of all prototypes, and of what head labels' features are seen as."""
    every = features.prototypes[features.counts > 0].astype(np.float64)
    own = features.prototypes[head].astype(np.float64)
    within = features.variance(head)
    if shape.residual:
        centre, variance = np.zeros(features.width), within
    else:
        centre, variance = own.mean(axis=0), within + own.var(axis=0)
    found = np.stack([every.mean(axis=0), every.std(axis=0), centre, np.sqrt(variance)])
    found[[1, 3]] = np.maximum(found[[1, 3]], 1e-4)  # numbers that never vary
    return found.astype(np.float32)
