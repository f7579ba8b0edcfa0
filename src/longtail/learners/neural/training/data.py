"""What one network is trained on, how its optimiser goes, and how long: nothing here needs Lightning, which takes
seconds to import and is not needed to predict."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from longtail.corpus import Corpus
from longtail.features.tokens import Tokens
from longtail.learners.neural.training.batches import KeptVectors

if TYPE_CHECKING:
    from longtail.learners.neural.shortlists.base import LabelChoice


@dataclass(eq=False)
class Checked:
    """Documents to check on: with their targets, their tokens, and what frozen layers make of these."""

    corpus: Corpus
    tokens: Tokens
    states: NDArray[np.float16] | None = None


@dataclass(eq=False)
class TrainingData:
    """What one network is trained on.

    choice  which labels each batch's loss is taken over
    states  what the frozen layers make of the tokens, hidden what an encoder that stands still does, where kept
    valid   documents to check on
    """

    tokens: Tokens
    choice: LabelChoice
    states: NDArray[np.float16] | None = None
    valid: Checked | None = None
    hidden: KeptVectors | None = None


@dataclass(frozen=True)
class Schedule:
    """How the optimiser goes: rates, steps in all and for warming up, clipping, batch size, seed."""

    rate: float
    word_rate: float
    label_rate: float
    decay: float
    steps: int
    warm_up: int
    falling: bool
    clip: float
    batch: int
    seed: int

    def factor(self, step: int) -> float:
        """Share of the learning rate at a step: rises linearly, then falls linearly to 1 % (or stays)."""
        rising = min(1.0, (step + 1) / max(1, self.warm_up))
        return rising * max(0.01, 1 - step / self.steps) if self.falling else rising


@dataclass(frozen=True)
class Course:
    """How long one network is trained, and what is kept of it on the way.

    metric        what the best epoch is best at, checked after each epoch where there are documents to check on
    patience      epochs without a better one before training stops, 0 for never
    average_from  step from which on weights are averaged, every `average_every` steps; None for never
    checkpoints   a folder for this very fit: one that was interrupted goes on from what it finds there
    """

    schedule: Schedule
    epochs: int
    metric: str = "nDCG@5"
    patience: int = 0
    average_from: int | None = None
    average_every: int = 1
    title: str = "Training"
    checkpoints: Path | None = None
