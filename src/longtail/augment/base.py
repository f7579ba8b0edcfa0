"""What an augmenter is: it changes training data in the one space it declares, and is gone by prediction time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from longtail.corpus import Corpus
from longtail.learners.base import Learner
from longtail.part import Part
from longtail.run import Run

#: Spaces whose augmenters rewrite the corpus before the learner sees it; the others are hooks inside a neural fit.
CORPUS_SPACES = ("texts", "features")


@dataclass(kw_only=True)
class Augmenter(Part):
    """Base of augmenters.

    space  the one space it works in, one of `longtail.learners.base.SPACES`

    In the space "texts" it runs before features are made, so that words it brings in enter the vocabulary; in
    "features" it runs on corpus.X. In the other spaces it is handed to the learner, which calls it inside its fit.
    """

    kind: ClassVar[str] = "augmenter"
    space: ClassVar[str] = "texts"
    #: Whether texts of a batch may be longer after it: others of its space come behind.
    lengthens: ClassVar[bool] = False

    def parts(self, learner: Learner) -> tuple[Learner, list[Augmenter]] | None:
        """For an augmenter that stands for a combination: the learner it makes of the one given, and its augmenters."""
        return None

    def apply(self, corpus: Corpus, run: Run) -> Corpus:
        """A new corpus with rows, targets or features added or changed; the one given stays as it is.

        Label counts stay those of the original training data. Randomness comes from `run.rng`. Augmenters that are
        hooks inside a fit leave the corpus as it is.
        """
        return corpus
