"""XDA: documents of rare labels written anew, filtered by the first stage, the frequent labels of the copies masked.

'Taming Prompt-based Data Augmentation for Long-tailed Extreme Multi-label Text Classification', Xu et al. 2024:

    generate   N_a copies of each document, some of its words masked and filled with its labels in mind
    filter     the copies that the first stage f0 finds new and still calls the same
    mask       labels with N_t documents or more count neither way in the copies: only rare labels get examples

The learner is then tuned on documents and copies together. f0 never sees a copy before.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from longtail.augment.base import Augmenter, Judged
from longtail.augment.generate.base import Generator
from longtail.augment.generate.kept import generated
from longtail.augment.rare_rows import documents_with, masked_weights
from longtail.augment.xda.filtering import DEPTH, best_share, consistency, divergence, scaled
from longtail.augment.xda.made import Made, empty
from longtail.capabilities import Capabilities
from longtail.corpus import Corpus
from longtail.errors import UsageError
from longtail.fit import Fit
from longtail.part import option
from longtail.plan import Sizes, Stage, kept_of
from longtail.registry import build
from longtail.run import Run
from longtail.scores import Scores


class Judge(Protocol):
    """A fitted pipeline or tagger: it gives texts labels."""

    def score(self, corpus: Corpus, k: int, *, run: Run | None = None) -> Scores: ...


@dataclass(kw_only=True)
class Xda(Augmenter):
    """New texts for rare labels, in a second stage."""

    space: ClassVar[str] = "texts"

    generator: Any = option("words", "what writes the copies: words, local or encoder-decoder")
    copies: int = option(4, "copies made of each document before any is left out (N_a; paper: 2 to 4)", low=1, high=100)
    rarest: int = option(5, "labels with at most this many documents are rare (paper: fewer than N_t, 10 to 700)",
                         low=1)  # fmt: skip
    documents: str = option("rare", "which documents are copied: those with a rare label, or all (paper)",
                            choices=("rare", "all"))  # fmt: skip
    filter: bool = option(True, "keep only the best copies; if not, all of them (paper's ablation)")
    keep: float = option(0.5, "share of the copies that is kept (released code: 0.2)", low=0.001, high=1,
                         only={"filter": True})  # fmt: skip
    per: str = option("document", "the best share of each document's copies, or of all (released code)",
                      choices=("document", "all"), only={"filter": True})  # fmt: skip
    smoothing: float = option(
        0.1, "weight of an even distribution over all labels in the diversity; near 0 it only measures what is off the "
        "labels", low=1e-12, high=0.99, only={"filter": True},
    )  # fmt: skip
    mask: bool = option(True, "frequent labels of the copies count neither way; if not, as in documents (ablation)")
    class_weights: bool = option(False, "positives of copies weigh by the rarity of their label (released code)")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.generator = build(self.generator, "generator")
        assert isinstance(self.generator, Generator)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(spaces=(self.space,), judge=True, needs=("texts",))

    # what a fit needs
    def plan_judged(self, learner: Any, sizes: Sizes, run: Run) -> list[Stage]:
        made = self._all_made(sizes)
        copies = made.documents - sizes.documents
        writing = self.generator.plan_writing(sizes, copies, run)
        # scores as lists and what is computed of them, beside the features that the judge reads
        judging = 96 * DEPTH * copies + 2 * (made.X_bytes - sizes.X_bytes) if self.filter else 0
        # the copies are counted among the documents of the second stage from then on
        return [*writing, Stage("filter", judging / 1e7, judging, -kept_of(writing))]

    def planned(self, sizes: Sizes) -> Sizes:
        """Of the second stage."""
        made = self._all_made(sizes)
        return self._with_copies(sizes, round((made.documents - sizes.documents) * (self.keep if self.filter else 1)))

    def _all_made(self, sizes: Sizes) -> Sizes:
        rare = sizes.frequency <= self.rarest
        chosen = sizes.documents if self.documents == "all" else sizes.documents_with(rare)
        return self._with_copies(sizes, self.copies * chosen)

    def _with_copies(self, sizes: Sizes, rows: int) -> Sizes:
        share = rows / max(1, sizes.documents)
        return sizes.with_documents(rows, int(share * sizes.characters), int(share * sizes.pairs))

    # what it does
    def check(self, corpus: Corpus) -> None:
        if corpus.texts is None:
            raise UsageError(f"'xda' writes texts anew, and {corpus.name} has features only")
        self.generator.check()

    def judged(self, corpus: Corpus, judge: Any, fit: Fit) -> Judged:
        made = self.made(corpus, judge, fit)
        if not len(made):
            logging.getLogger(__name__).warning("xda: %s", self.nothing_to_do(corpus))
            return Judged(corpus)
        return Judged(made.added_to(corpus))

    def nothing_to_do(self, corpus: Corpus) -> str:
        return (
            f"no document of {corpus.name} has a label with {self.rarest} documents or fewer, so none is copied; "
            "raise xda.rarest"
        )

    def made(self, corpus: Corpus, judge: Judge | None, fit: Fit) -> Made:
        """The copies that are kept, with their masks; none where no label is rare.

        judge  scores texts; needed only where copies are filtered
        """
        self.check(corpus)
        rare = ~corpus.labels.head_by_count(self.rarest)
        rows = documents_with(corpus, rare)
        if len(rows) and self.documents == "all":
            rows = documents_with(corpus, np.ones(corpus.n_labels, dtype=bool))
        if not len(rows):
            made = empty(corpus)
            self.statistics_ = made.statistics(corpus, 0)
            return made
        with fit.run.stage("generate"):
            texts = generated(self.generator, corpus, rows, self.copies, fit)
        sources = np.repeat(rows, self.copies)
        copied = replace(corpus.rows(sources), texts=texts, X=None, noise=None)
        made = Made(sources, np.tile(np.arange(1, self.copies + 1), len(rows)), copied, texts)
        if self.filter:
            if judge is None:
                raise UsageError("'xda' filters copies by a model: give one, or set xda.filter to false")
            with fit.run.stage("filter"):
                made = self._filtered(made, corpus, rows, judge, fit.run)
        made = made.with_weights(self._weights(made.corpus, rare))
        self.statistics_ = made.statistics(corpus, len(texts))
        return made

    def _filtered(self, made: Made, corpus: Corpus, rows: NDArray[np.int64], judge: Judge, run: Run) -> Made:
        depth = min(DEPTH, corpus.n_labels)
        given = replace(made.corpus, pair_weight=None, reciprocal=None)
        found = judge.score(given, depth, run=run)
        before = judge.score(corpus.rows(rows), depth, run=run).rows(np.repeat(np.arange(len(rows)), self.copies))
        diverse = divergence(found, given.Y, self.smoothing)
        consistent = consistency(found, before, np.diff(given.Y.indptr), corpus.n_labels)
        score = scaled(diverse) + scaled(consistent)
        made = replace(made, diversity=diverse, consistency=consistent, score=score)
        return made.taken(best_share(score, made.rows if self.per == "document" else None, self.keep))

    def _weights(self, copied: Corpus, rare: NDArray[np.bool_]) -> NDArray[np.float32] | None:
        weight = masked_weights(copied, rare) if self.mask else copied.pair_weight
        if not self.class_weights:
            return weight
        given = np.ones(copied.Y.nnz, np.float32) if weight is None else weight
        return (given * class_weights(copied.labels.frequency)[copied.Y.indices]).astype(np.float32)


def class_weights(frequency: NDArray[np.int64]) -> NDArray[np.float64]:
    """The released code's: (max n / (n + 1))^0.5, brought to a mean of 0.3."""
    weight = np.sqrt(frequency.max(initial=1) / (frequency + 1.0))
    return 0.3 * weight / weight.mean()
