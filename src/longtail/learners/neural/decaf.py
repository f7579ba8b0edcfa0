"""DECAF (https://arxiv.org/abs/2108.00368): a label's separator is made of its text and of a vector of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from numpy.typing import NDArray

from longtail.blas import blas_threads
from longtail.corpus import Corpus
from longtail.features.tokens import Tokens
from longtail.fit import Fit
from longtail.learners.neural.bags import SummedWords
from longtail.learners.neural.memory import goes_by_hand
from longtail.learners.neural.short_text import ShortTextLearner
from longtail.learners.neural.shortlists.shared import AllLabels, SampledLabels
from longtail.learners.neural.training.task import Task
from longtail.part import Arrays, option, under
from longtail.run import Run
from longtail.scores import Scores

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from longtail.learners.neural.training.network import Network


@dataclass(kw_only=True)
class Decaf(ShortTextLearner):
    head: Any = option("label-text", "what turns that into one score per label")
    word_rate: float = option(0.015, "learning rate of word vectors (measured)", low=0, high=10)
    label_rate: float = option(0.01, "learning rate of free label vectors (measured)", low=0, high=10)

    has_hand_written_steps: ClassVar[bool] = True

    @property
    def libraries_alone(self) -> int:
        return 0 if goes_by_hand(self) else self.libraries

    @property
    def sums_words(self) -> bool:
        """Whether what is kept sums up words and has a separator per label: scored without torch then."""
        encoder, plain = self.encoder, isinstance(self.shortlist, AllLabels | SampledLabels)
        folded = getattr(self.head, "text_and_own", False)
        return plain and folded and getattr(encoder, "sums_only", False)

    def _train(self, corpus: Corpus, fit: Fit) -> None:
        from longtail.learners.neural import by_hand

        if by_hand.suits(self, fit):
            self._keep(by_hand.train(self, Task(corpus, fit, facts=self._label_facts(corpus, fit.run))))
        else:
            super()._train(corpus, fit)

    # what is kept: arrays, and a network of torch's once somebody asks for it
    def _keep(self, found: SummedWords) -> None:
        self._summed = found
        self._network: Network | None = None

    @property
    def network_(self) -> Network:
        if self._network is None:
            self._network = self._restored_network(len(self._summed.bias), self._summed.arrays())
        return self._network

    @network_.setter
    def network_(self, network: Network) -> None:
        self._network = network

    def _weights(self) -> dict[str, NDArray[Any]]:
        return super()._weights() if self._network is not None else dict(self._summed.arrays())

    def restore(self, arrays: Arrays) -> None:
        if not self.sums_words:
            super().restore(arrays)
            return
        self._restore_common(arrays)
        size = self.encoder.tokeniser_.size
        self._keep(SummedWords.restored(under("network", arrays), size, self.encoder.size, self.n_labels_))

    # scoring
    def _threads(self, run: Run) -> AbstractContextManager[None]:
        return blas_threads(run.workers) if self.sums_words else super()._threads(run)

    def _score(self, tokens: Tokens, k: int, run: Run) -> Scores:
        if not self.sums_words:
            return super()._score(tokens, k, run)
        return SummedWords.of(self._weights()).best(tokens, k)
