"""The numbers behind Gandalf's figures 2 and 4: how near texts lie to one another, and what augmenters change by epoch.

Figure 2 asks what an encoder makes of a document beside others: documents drawn at random, documents that share a
label, the texts of its own frequent and rare labels, and the document with the text of one of its labels appended, as
LabelMix has it. Figure 4 trains one network several times, plainly and with augmenters, and measures P@1 on training
and test documents after every epoch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail.augment.hooks import Hook, TrainingPlan
from longtail.corpus import Corpus
from longtail.errors import UsageError
from longtail.fit import Fit
from longtail.part import Part
from longtail.registry import name_of
from longtail.run import Run
from longtail.sparse import rows_of_pairs

if TYPE_CHECKING:
    from longtail.features.tokens import Tokens
    from longtail.learners.neural.training.data import TrainingData
    from longtail.learners.neural.training.network import Network
    from longtail.learners.pipeline import Pipeline

#: What a document is compared with, in the order of the legend.
KINDS = ("random documents", "co-documents", "head labels", "tail labels", "LabelMix documents")
#: Columns of the histogram of cosines, from -1 to 1.
BINS = 50


def check(pipeline: Pipeline) -> None:
    """Refuses learners that have no one vector per document."""
    encoder: Part | None = getattr(pipeline.learner, "encoder", None)
    if encoder is None or encoder.capabilities.per_token or not hasattr(encoder, "tokens"):
        raise UsageError(
            f"'{name_of(pipeline.learner)}' has no network that makes one vector per document; "
            "astec, decaf, eclare, inceptionxml and inceptionxml-lf have"
        )


# figure 4
@dataclass(kw_only=True)
class Epochs(Hook):
    """Measures P@1 after every epoch of a training, and changes nothing in it."""

    space: ClassVar[str] = "classifier"

    learner: Any
    train: Corpus
    test: Corpus
    points: list[dict[str, Any]] = field(default_factory=list)

    def begin(self, plan: TrainingPlan) -> None:
        self.network_: Network | None = None
        self.steps_ = plan.steps
        self.tokens_: list[Tokens] = [
            self.learner.encoder.tokens(list(corpus.texts or []), plan.run) for corpus in (self.train, self.test)
        ]

    def epoch(self, network: Network, data: TrainingData) -> None:
        if self.network_ is not None:
            self._measure()
        self.network_ = network

    def end(self) -> None:
        self._measure()

    def _measure(self) -> None:
        from longtail.learners.neural.training.network import Network, best_labels

        assert self.network_ is not None
        kept = Network(self.network_.encoder, self.network_.head.folded())
        found = {}
        for name, corpus, tokens in zip(("train", "test"), (self.train, self.test), self.tokens_, strict=True):
            best = best_labels(kept, tokens, corpus.n_labels, 1).ids[:, 0]
            right = np.asarray(corpus.Y[np.arange(len(corpus)), best]).ravel() > 0
            found[f"{name}_P@1"] = round(100 * float(right.mean()), 4)
        self.points.append({"epoch": len(self.points) + 1, **found})


def by_epoch(pipeline: Pipeline, train: Corpus, test: Corpus, run: Run, *, sample: int) -> dict[str, Any]:
    """Trains the pipeline, and gives P@1 by epoch on as many training and test documents as `sample`."""
    check(pipeline)
    rng = run.rng("measured")
    shown = [corpus.rows(drawn(corpus, sample, rng)) for corpus in (train, test)]
    watching = Epochs(learner=pipeline.learner, train=shown[0], test=shown[1])
    pipeline.learn(train, Fit(run, hooks=(watching,)))
    return {"steps": watching.steps_, "points": watching.points}


def drawn(corpus: Corpus, sample: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Rows of documents that have a label, no more than asked for, rising."""
    labelled = np.flatnonzero(np.diff(corpus.positives().indptr) > 0)
    return np.sort(rng.permutation(labelled)[:sample])


# figure 2
def cosines(pipeline: Pipeline, corpus: Corpus, run: Run, *, sample: int) -> dict[str, Any]:
    """Distributions of the cosine between documents and what they are compared with, by kind."""
    check(pipeline)
    rng = run.rng("cosines")
    documents = drawn(corpus, sample, rng)
    pairs = partners(corpus, documents, rng)
    texts = list(corpus.texts or [])
    labels = corpus.labels
    compared = {
        kind: [texts[other] if kind in KINDS[:2] else labels.text(other) for other in chosen]
        for kind, (_, chosen) in pairs.items()
    }
    documents_of = {kind: rows for kind, (rows, _) in pairs.items()}
    joined = [f"{texts[row]} {text}" for row, text in zip(documents_of[KINDS[4]], compared[KINDS[4]], strict=True)]
    compared[KINDS[4]] = joined
    own = _directions(pipeline, [texts[row] for row in documents], run)
    place = {int(row): number for number, row in enumerate(documents)}
    found = {}
    for kind in KINDS:
        rows = [place[int(row)] for row in documents_of[kind]]
        found[kind] = summary((own[rows] * _directions(pipeline, compared[kind], run)).sum(axis=1))
    return found


def partners(
    corpus: Corpus, documents: NDArray[np.int64], rng: np.random.Generator
) -> Mapping[str, tuple[list[int], list[int]]]:
    """Of each kind: documents, and the document or label each is compared with; those without one are left out."""
    Y = corpus.positives()
    by_label = sp.csc_matrix(Y)
    bands = {band.name: band.members for band in corpus.labels.bands()}
    found: dict[str, tuple[list[int], list[int]]] = {kind: ([], []) for kind in KINDS}

    def add(kind: str, row: int, chosen: NDArray[np.integer[Any]]) -> None:
        if len(chosen):
            found[kind][0].append(row)
            found[kind][1].append(int(rng.choice(chosen)))

    everyone = np.unique(rows_of_pairs(Y))
    for row in documents.tolist():
        own = Y.indices[Y.indptr[row] : Y.indptr[row + 1]]
        add(KINDS[0], row, everyone[everyone != row])
        label = int(rng.choice(own))
        sharing = by_label.indices[by_label.indptr[label] : by_label.indptr[label + 1]]
        add(KINDS[1], row, sharing[sharing != row])
        add(KINDS[2], row, own[bands["head"][own]])
        add(KINDS[3], row, own[bands["tail"][own]])
        add(KINDS[4], row, own)
    return found


def summary(values: NDArray[np.float32]) -> dict[str, Any]:
    """Number, mean, quartiles and histogram of cosines; None where there are none."""
    if not len(values):
        return {"count": 0, "mean": None, "quartiles": None, "histogram": [0] * BINS}
    counts, _ = np.histogram(np.clip(values, -1, 1), bins=BINS, range=(-1, 1))
    quartiles = [round(float(each), 4) for each in np.quantile(values, [0.25, 0.5, 0.75])]
    return {
        "count": len(values), "mean": round(float(values.mean()), 4), "quartiles": quartiles,
        "histogram": counts.tolist(),
    }  # fmt: skip


def _directions(pipeline: Pipeline, texts: Sequence[str], run: Run) -> NDArray[np.float32]:
    """float32 (n, width): what the encoder makes of each text, of unit length."""
    from longtail.learners.neural.training.network import vectors_of

    learner: Any = pipeline.learner
    if not len(texts):
        return np.zeros((0, learner.network_.encoder.width), dtype=np.float32)
    made = vectors_of(learner.network_, learner.encoder.tokens(texts, run))
    length = np.linalg.norm(made, axis=1, keepdims=True)
    directions: NDArray[np.float32] = made / np.maximum(length, 1e-9)
    return directions
