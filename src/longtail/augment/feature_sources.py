"""What features of rare labels are drawn from, without any network: the controls that a PVAE has to beat."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from longtail.augment.label_features import LabelFeatures


@dataclass(frozen=True, eq=False)
class Copies:
    """Real features of the label, drawn again."""

    features: LabelFeatures

    def draw(self, labels: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.float32]:
        within = (rng.random(len(labels)) * self.features.counts[labels]).astype(np.int64)
        return self.features.some(self.features.start[labels] + within)


@dataclass(frozen=True, eq=False)
class Around:
    """Gaussian draws around the label's prototype.

    factor  float32 (width, width): its product with standard normal numbers is what is added, or (width,) to have each
            number vary by itself
    """

    prototypes: NDArray[np.float32]
    factor: NDArray[np.float32]

    @classmethod
    def noise(cls, features: LabelFeatures, head: NDArray[np.int64]) -> Around:
        """As much in every direction as head labels' features vary on average."""
        spread = np.sqrt(features.variance(head).mean())
        return cls(features.prototypes, np.full(features.width, spread, dtype=np.float32))

    @classmethod
    def covariance(cls, features: LabelFeatures, head: NDArray[np.int64]) -> Around:
        """With the covariance that features of head labels have around their prototypes, pooled over head labels."""
        values, vectors = np.linalg.eigh(features.covariance(head))
        factor = (vectors * np.sqrt(np.maximum(values, 0))).T.astype(np.float32)
        # in the order that a file gives it back in, for products depend on it in their last bits
        return cls(features.prototypes, np.ascontiguousarray(factor))

    def draw(self, labels: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.float32]:
        drawn = rng.standard_normal((len(labels), len(self.factor)), dtype=np.float32)
        return self.prototypes[labels] + (drawn @ self.factor if self.factor.ndim == 2 else drawn * self.factor)
