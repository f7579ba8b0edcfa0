"""One network to be trained, and what it is trained on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from longtail.corpus import Corpus
from longtail.errors import UsageError
from longtail.fit import Fit
from longtail.labels import LabelIndex

if TYPE_CHECKING:
    from longtail.learners.neural.heads.base import LabelFacts
    from longtail.learners.neural.shortlists.base import LabelChoice


#: Optimiser steps of a training whose number of epochs was left to the defaults, at least.
LEAST_STEPS = 300


@dataclass(frozen=True)
class Passes:
    """How long to train: so many passes over the documents, and more where they make too few steps."""

    epochs: int
    least_steps: int = 1

    @classmethod
    def of(cls, given: int | None, default: int, least_steps: int | None) -> Passes:
        """As many as a user asks for; small corpora are passed over more often where nobody asked for a number."""
        if given is not None:
            return cls(given, least_steps or 1)
        return cls(default, LEAST_STEPS if least_steps is None else least_steps)

    def steps(self, per_epoch: int) -> int:
        return max(self.epochs, -(-self.least_steps // per_epoch)) * per_epoch


@dataclass(frozen=True, eq=False)
class Task:
    """One network to be trained.

    fit     seeds, checkpoints and hardware, documents to check on, hooks
    choice  which labels a loss is taken over; None until a shortlist has chosen
    facts   what heads may know of the labels, for learners that tell
    passes  in place of the learner's own
    nested  whether this is one network of several: a killed run does not train it again when it was finished
    group_by  makes the label vectors that clusters of labels are made by, in place of their documents' words
    begun_with  a digest of what the network is before this training, where learner and seed do not tell
    clipped  whether gradients are held to the learner's largest norm
    """

    corpus: Corpus
    fit: Fit
    choice: LabelChoice | None = None
    title: str = "Training"
    passes: Passes | None = None
    nested: bool = False
    facts: LabelFacts | None = None
    group_by: Callable[[], Any] | None = None
    begun_with: str = ""
    clipped: bool = True


def label_texts(labels: LabelIndex) -> list[str]:
    """Each label's text, or its name where it has none."""
    return [labels.text(column) for column in range(len(labels))]


def texts_of(corpus: Corpus) -> Sequence[str]:
    if corpus.texts is None:
        raise UsageError(f"{corpus.name} has no texts, which neural learners read")
    return corpus.texts
