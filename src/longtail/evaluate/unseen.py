"""Test labels that training never saw: how many there are, and what they do to the figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np

from longtail.corpus import Corpus
from longtail.errors import InputError
from longtail.evaluate.metrics import most_left_out, true_pairs
from longtail.evaluate.report import Options, Report, Settings, evaluate
from longtail.labels import LabelIndex
from longtail.scores import Scores

#: Labels that are named.
EXAMPLES = 5
#: What becomes of labels that training never saw: they are left out of the truth, or count as misses.
DROPPED, MISSED = "unseen_dropped", "unseen_missed"


@dataclass(frozen=True)
class UnseenLabel:
    """A label of test documents that no training document has; its text is its name if it has none."""

    label: str
    text: str
    documents: int


@dataclass(frozen=True)
class Unseen:
    """What of the truth a model cannot know.

    labels, of_labels        different labels of the test documents without a training document, and all of them
    pairs, of_pairs          the same for label assignments, that is, pairs of a document and a label
    documents, of_documents  documents that have such a label, and those that have any
    documents_without_other  documents that have no other label
    examples                 the most frequent of these labels
    """

    labels: int
    of_labels: int
    pairs: int
    of_pairs: int
    documents: int
    of_documents: int
    documents_without_other: int
    examples: Sequence[UnseenLabel]

    @classmethod
    def of(cls, corpus: Corpus) -> Unseen:
        """Of test documents with a column for every label, whose labels carry the training counts."""
        true, labels = true_pairs(corpus), corpus.labels
        count = np.bincount(true.indices, minlength=corpus.n_labels)
        unseen = labels.frequency == 0
        strange = np.diff(true[:, np.flatnonzero(unseen)].indptr)
        every = np.diff(true.indptr)
        most = np.flatnonzero(unseen & (count > 0))
        most = most[np.argsort(-count[most], kind="stable")][:EXAMPLES]
        return cls(
            labels=int((unseen & (count > 0)).sum()),
            of_labels=int((count > 0).sum()),
            pairs=int(count[unseen].sum()),
            of_pairs=int(count.sum()),
            documents=int((strange > 0).sum()),
            of_documents=int((every > 0).sum()),
            documents_without_other=int(((strange > 0) & (strange == every)).sum()),
            examples=[UnseenLabel(labels.names[c], labels.title(c), int(count[c])) for c in most.tolist()],
        )

    def sentence(self) -> str:
        """How many there are, for a person."""
        if not self.pairs:
            return f"All {self.of_labels:,} test labels were seen in training."
        few = self.documents_without_other
        alone = f", {few:,} of which {'has' if few == 1 else 'have'} no other label" if few else ""
        return (
            f"Never seen in training: {self.labels:,} of {self.of_labels:,} test labels, {self.pairs:,} of "
            f"{self.of_pairs:,} label assignments, in {self.documents:,} of {self.of_documents:,} documents{alone}."
        )


def evaluate_on(
    scores: Scores, corpus: Corpus, labels: LabelIndex, all_labels: bool = False, **options: Unpack[Options]
) -> Report:
    """Every metric of a model's scores on a corpus in columns of its own, by both conventions where they differ.

    labels      of the model, whose columns the scores are in
    all_labels  whether the report proper counts labels that training never saw as misses, or leaves them out
    """
    everything = corpus.aligned(labels, keep_unknown=True)
    # files with numbered columns list labels that no training document has
    known = corpus.aligned(labels).without_unseen()
    unseen = Unseen.of(everything)
    report = evaluate(scores, everything if all_labels else known, **options)
    report = replace(report, unseen=unseen, convention=MISSED if all_labels else DROPPED)
    if not unseen.pairs:
        return report
    plain: Any = {**options, "bootstrap": 0}
    try:
        other = evaluate(scores, known if all_labels else everything, **plain)
    except InputError:  # no document has a label that training saw
        return report
    dropped, missed = (other, report) if all_labels else (report, other)
    return replace(report, conventions={DROPPED: _figures(dropped), MISSED: _figures(missed)})


def depth_for(corpus: Corpus, labels: LabelIndex, **options: Unpack[Options]) -> int:
    """How many labels of each document to score: pairs that count neither way are taken out before the cut at k."""
    return max(Settings(**options).ks) + most_left_out(corpus.aligned(labels, keep_unknown=True))


def _figures(report: Report) -> dict[str, float]:
    return {"documents": report.documents, **report.values}
