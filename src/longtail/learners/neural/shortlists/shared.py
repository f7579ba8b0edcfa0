"""Labels that all documents of a batch share: all there are, or the batch's own and random ones."""

from __future__ import annotations

from dataclasses import dataclass

from longtail.corpus import Corpus
from longtail.learners.neural.shortlists.base import LabelChoice, SharedLabels, Shortlist
from longtail.part import option
from longtail.plan import Sizes


@dataclass(kw_only=True)
class AllLabels(Shortlist):
    """A loss over all labels."""

    def shown(self, sizes: Sizes, batch: int) -> tuple[int, bool]:
        return sizes.labels, False

    def choice(self, corpus: Corpus) -> LabelChoice:
        return SharedLabels(corpus.Y, corpus.pair_weight, 0)


@dataclass(kw_only=True)
class SampledLabels(Shortlist):
    """A loss over the labels of a batch's documents, and random others beside them."""

    negatives: int = option(400, "random labels beside the batch's own (measured: as good as all)", low=1)

    def shown(self, sizes: Sizes, batch: int) -> tuple[int, bool]:
        own = batch * sizes.pairs // max(1, sizes.documents)
        return min(sizes.labels, self.negatives + own), False

    def choice(self, corpus: Corpus) -> LabelChoice:
        return SharedLabels(corpus.Y, corpus.pair_weight, self.negatives)
