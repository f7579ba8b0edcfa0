"""What a corpus is: how many documents and labels it has, and how long its tail is."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from longtail.corpus import Corpus
from longtail.labels import Band, LabelIndex


@dataclass(frozen=True)
class BandFacts:
    """The labels of a frequency band.

    counts  documents per label, as in 1-5
    labels  how many labels lie in the band
    pairs   (document, label) pairs of these labels
    """

    name: str
    counts: str
    labels: int
    pairs: int


#: Columns of the histogram of inverse propensities.
COLUMNS = 20


@dataclass(frozen=True)
class PropensityFacts:
    """Inverse propensities of the labels that occur (TailMix's figure 2).

    A, B       of the propensity model
    least, quartiles, most, mean  of the values
    histogram  labels in COLUMNS equal steps from the least to the most
    """

    A: float
    B: float
    least: float
    quartiles: list[float]
    most: float
    mean: float
    histogram: list[int]

    @classmethod
    def of(cls, labels: LabelIndex, A: float = 0.55, B: float = 1.5) -> PropensityFacts | None:
        """None where no label has a document."""
        values = labels.inverse_propensity(A, B)[labels.frequency > 0]
        if not len(values):
            return None
        least, most = float(values.min()), float(values.max())
        counts, _ = np.histogram(values, bins=COLUMNS, range=(least, most))
        quartiles = [round(float(value), 4) for value in np.quantile(values, [0.25, 0.5, 0.75])]
        mean = round(float(values.mean()), 4)
        return cls(A, B, round(least, 4), quartiles, round(most, 4), mean, counts.tolist())


@dataclass(frozen=True)
class CorpusFacts:
    """Numbers that tell what a corpus is; None where it has no texts or no features.

    labels_per_document         mean over documents
    documents_per_label         mean over the labels that occur
    most_labels                 labels of the document that has most
    most_documents              documents of the most frequent label
    tail_share                  labels with 1 to 5 documents among those that occur, 0 to 1
    label_texts                 labels that have a text
    soft_targets                pairs with a target below 1
    words_per_document          mean over documents, words being what white space separates
    texts_that_are_label_texts  share of documents whose text is a label's: methods that train on both may leak
    features                    columns of X
    bands                       labels by frequency, rare first
    inverse_propensity          how much more each label counts in PSP than in P; None without labels that occur
    """

    name: str
    documents: int
    documents_without_labels: int
    labels: int
    labels_per_document: float
    most_labels: int
    documents_per_label: float
    most_documents: int
    tail_share: float
    label_texts: int
    soft_targets: int
    words_per_document: float | None
    texts_that_are_label_texts: float | None
    features: int | None
    bands: list[BandFacts]
    inverse_propensity: PropensityFacts | None

    def to_dict(self) -> dict[str, Any]:
        """The object `longtail inspect DATA --json` prints."""
        return asdict(self)


def describe_corpus(corpus: Corpus) -> CorpusFacts:
    """What the corpus is; frequencies are the counts that its labels carry, as `read` gives them."""
    sizes = np.diff(corpus.Y.indptr)
    labels = corpus.labels
    occurring = max(int((labels.frequency > 0).sum()), 1)
    texts = corpus.texts
    words = None if texts is None else sum(len(text.split()) for text in texts) / max(len(texts), 1)
    return CorpusFacts(
        name=corpus.name,
        documents=len(corpus),
        documents_without_labels=int((sizes == 0).sum()),
        labels=corpus.n_labels,
        labels_per_document=round(float(sizes.sum()) / max(len(corpus), 1), 4),
        most_labels=int(sizes.max(initial=0)),
        documents_per_label=round(corpus.Y.nnz / occurring, 4),
        most_documents=int(labels.frequency.max(initial=0)),
        tail_share=round(labels.tail_share, 4),
        label_texts=0 if labels.texts is None else sum(bool(text) for text in labels.texts),
        soft_targets=int((corpus.Y.data < 1).sum()),
        words_per_document=None if words is None else round(words, 2),
        texts_that_are_label_texts=None if texts is None else _share_of_label_texts(corpus),
        features=None if corpus.X is None else int(corpus.X.shape[1]),
        bands=[_band(corpus, band) for band in labels.bands()],
        inverse_propensity=PropensityFacts.of(labels),
    )


def _band(corpus: Corpus, band: Band) -> BandFacts:
    pairs = int(corpus.labels.frequency[band.members].sum())
    return BandFacts(name=band.name, counts=band.range, labels=int(band.members.sum()), pairs=pairs)


def _share_of_label_texts(corpus: Corpus) -> float:
    """Documents whose text is a label's, whatever the case and the spaces."""

    def folded(text: str) -> str:
        return " ".join(text.casefold().split())

    known = {
        folded(said)
        for column in range(corpus.n_labels)
        for said in (corpus.labels.text(column), corpus.labels.title(column))
    } - {""}
    same = sum(folded(text) in known for text in corpus.texts or [])
    return round(same / max(len(corpus), 1), 6)
