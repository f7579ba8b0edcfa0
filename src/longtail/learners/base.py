"""What a learner is: it learns from a corpus, then gives the k best labels of each document."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from longtail.arrays import Floats, Ints
from longtail.augment.base import LabelVectors
from longtail.corpus import Corpus
from longtail.errors import UsageError
from longtail.fit import Fit
from longtail.noise import written_out
from longtail.part import Part
from longtail.plan import Sizes, Stage
from longtail.registry import name_of
from longtail.run import Run
from longtail.scores import Scores


@dataclass(kw_only=True)
class Learner(Part, ABC):
    """Base of learners and wrappers; `capabilities` says what it reads and which spaces it opens to augmenters."""

    kind: ClassVar[str] = "learner"

    if TYPE_CHECKING:
        n_labels_: int = 0  # columns of the corpus it was fitted on
        n_features_: int | None = None  # columns of its X; None for a learner that reads no X of the corpus

    def fit(self, corpus: Corpus, *, valid: Corpus | None = None, run: Run | None = None) -> Self:
        """Learns from the corpus, which stays as it is."""
        return self.learn(self.readable(corpus), Fit.of(run, valid))

    @abstractmethod
    def learn(self, corpus: Corpus, fit: Fit) -> Self:
        """The same inside a fit that is under way: a pipeline's, an ensemble's."""

    def retune(self, corpus: Corpus, fit: Fit, vectors: LabelVectors | None = None) -> Self:
        """The second stage of a fit: learns once more from a corpus that an augmenter made with this learner's help.

        vectors  examples in the classifier's space beside it, for learners that open the space "classifier"
        """
        raise UsageError(f"'{name_of(self)}' has no second stage")

    @abstractmethod
    def score(self, corpus: Corpus, k: int, *, run: Run | None = None) -> Scores:
        """The k best labels of each document; columns are those of the corpus it was fitted on."""

    def score_row(self, indices: Ints, values: Floats, k: int) -> tuple[Ints, Floats] | None:
        """(labels, scores) of one document, as many as there are up to k: what `score` gives, without its overhead.

        None from a learner that has no such way: `score` then.

        indices, values  int32 and float32, contiguous: the document's row of X
        """
        return None

    def convert_weights(self, weights: str) -> bool:
        """Keeps the weights of all separators in a format of its name; whether there are any, in it or inside it."""
        return False

    def plan(self, sizes: Sizes, run: Run) -> list[Stage]:
        """The stages of `learn` on a corpus that is there already; learners that say nothing copy their features."""
        return [Stage("train", sizes.nonzeros / 1e6, 3 * sizes.X_bytes + sizes.texts_bytes, sizes.X_bytes)]

    def plan_retune(self, sizes: Sizes, run: Run) -> list[Stage]:
        """The stages of `retune`, beside what `learn` left; without an encoder to keep it is a fit anew."""
        return self.plan(sizes, run)

    def readable_sizes(self, sizes: Sizes) -> Sizes:
        """As `readable`, for sizes."""
        return sizes if not sizes.copies or self.capabilities.noise else sizes.written_out()

    def readable(self, corpus: Corpus) -> Corpus:
        """The corpus as this learner can read it: noisy copies are written out for one that does not draw them."""
        if corpus.masked and not self.capabilities.masks:
            raise UsageError(f"'{name_of(self)}' takes no pairs of weight 0, which {corpus.name} has")
        return corpus if corpus.noise is None or self.capabilities.noise else written_out(corpus)
