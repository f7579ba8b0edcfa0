"""Re-tuning: the second stage of a fit without anything generated, which what generates must beat.

Long-tail methods that work in two stages (LSFA, XDA) train a learner, make new examples of rare labels with its help,
and tune its classifier again. Part of what they win comes from tuning again, part from seeing rare labels more often,
part from masking frequent ones. This part is those controls, each by an option:

    rows = "none"        the same documents once more
    rows = "duplicates"  documents that have a rare label, `copies` times more
    vectors              real context vectors of rare labels, drawn `vectors` times per label (oversampling)
    mask                 frequent labels of the copies are neither positive nor negative examples (XDA's mask)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from longtail.augment.base import Augmenter, Judged, LabelVectors
from longtail.augment.rare_rows import documents_with, masked_weights
from longtail.capabilities import Capabilities
from longtail.corpus import Corpus
from longtail.errors import UsageError
from longtail.fit import Fit
from longtail.part import option
from longtail.plan import Sizes
from longtail.registry import name_of


@dataclass(kw_only=True)
class Retune(Augmenter):
    """Tunes the classifier again on the real documents, some of them more often than before."""

    space: ClassVar[str] = "texts"

    rows: str = option("duplicates", "rows added: none, or duplicates of documents with a rare label",
                       choices=("none", "duplicates"))  # fmt: skip
    copies: int = option(2, "times each such document is repeated", low=1, high=100, only={"rows": "duplicates"})
    rarest: int = option(5, "labels with at most this many documents are rare (N_t)", low=1)
    mask: bool = option(False, "frequent labels of the duplicates count neither way (XDA)", only={"rows": "duplicates"})
    vectors: int = option(
        0, "context vectors drawn per rare label from its own documents, for networks that open them", low=0, high=1000
    )

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(spaces=("classifier" if self.vectors else self.space,), judge=True)

    def planned(self, sizes: Sizes) -> Sizes:
        """Of the second stage."""
        rows = self.copies * sizes.documents_with(sizes.frequency <= self.rarest) if self.rows == "duplicates" else 0
        share = rows / max(1, sizes.documents)
        return sizes.with_documents(rows, int(share * sizes.characters), int(share * sizes.pairs))

    def judged(self, corpus: Corpus, judge: Any, fit: Fit) -> Judged:
        rare = ~corpus.labels.head_by_count(self.rarest)
        return Judged(self._with_duplicates(corpus, rare), self._oversampled(corpus, rare, judge, fit))

    def _with_duplicates(self, corpus: Corpus, rare: Any) -> Corpus:
        if self.rows == "none":
            return corpus
        chosen = documents_with(corpus, rare)
        copied = corpus.rows(np.tile(chosen, self.copies))
        weight = masked_weights(copied, rare) if self.mask else copied.pair_weight
        return corpus.with_rows(
            texts=[] if copied.texts is None else copied.texts,
            X=copied.X,
            Y=copied.Y,
            ids=copied.ids or [],
            pair_weight=weight,
            reciprocal=copied.reciprocal,
            origin=copied.origins() if corpus.origin is not None else np.tile(chosen, self.copies).astype(np.int32),
        )

    def _oversampled(self, corpus: Corpus, rare: Any, judge: Any, fit: Fit) -> LabelVectors | None:
        if not self.vectors:
            return None
        learner = judge.learner
        if not hasattr(learner, "contexts"):
            raise UsageError(f"'{name_of(self)}' draws context vectors, which '{name_of(learner)}' does not give")
        Y = corpus.documents_only().positives().tocsc()
        labels = np.flatnonzero(rare & (np.diff(Y.indptr) > 0))
        label = np.repeat(labels, self.vectors)
        within = fit.run.rng("retune").random(len(label))
        place = Y.indptr[label] + (within * np.diff(Y.indptr)[label]).astype(np.int64)
        document = corpus.documents[Y.indices[place]]
        return LabelVectors(label.astype(np.int64), learner.contexts(corpus, document, label, run=fit.run))
