"""Small corpora and options that tests of short-text learners share."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from longtail.corpus import Corpus
from longtail.labels import LabelIndex
from longtail.run import Run

#: One thread, so that torch adds up in one order.
ONE = Run(threads=1)
WEIGHTED = {"part": "weighted-bag", "size": 24, "dropout": 0.0}
INCEPTION = {"part": "inception", "size": 80, "channels": 3, "window": 6, "dropout": 0.0}
LABEL_TEXT = {"part": "label-text", "bias": -3.0}
#: Of heads with residual blocks or attention, which drop numbers.
RESIDUAL = {**LABEL_TEXT, "dropout": 0.0, "residual": True}
ATTENDED = {**RESIDUAL, "graph": True, "join": "attention"}
CLUSTERS = {"part": "label-clusters", "size": 3, "candidates": 3}
#: DECAF's and ECLARE's.
TEXT_CLUSTERS = {**CLUSTERS, "surrogate": 1, "negatives": 0, "blocks": False, "texts": True}
QUICK: dict[str, Any] = {
    "encoder": WEIGHTED, "epochs": 1, "least_steps": 6, "batch": 16, "warm_up": 2, "shortlist": "all-labels",
    "rate": 0.01, "word_rate": 0.05, "label_rate": 0.05,
}  # fmt: skip
#: Every learner, small, in the form that is its default and in the published one.
LEARNERS: dict[str, dict[str, Any]] = {
    "astec": {**QUICK, "part": "astec"},
    "decaf": {**QUICK, "part": "decaf", "head": LABEL_TEXT},
    "decaf, clusters": {
        **QUICK, "part": "decaf", "shortlist": TEXT_CLUSTERS, "head": {**RESIDUAL, "start": "text"},
    },
    "eclare": {**QUICK, "part": "eclare", "head": {**LABEL_TEXT, "graph": True}},
    "eclare, clusters": {
        **QUICK, "part": "eclare", "shortlist": {**TEXT_CLUSTERS, "frozen": True, "anew": True}, "traverse": 0.5,
        "head": {**ATTENDED, "start": "graph"},
    },
    "inceptionxml": {**QUICK, "part": "inceptionxml", "encoder": INCEPTION},
    "inceptionxml, clusters": {
        **QUICK, "part": "inceptionxml", "shortlist": {**CLUSTERS, "detached": 0.3},
        "encoder": {**INCEPTION, "enhance": True},
    },
    "inceptionxml-lf": {
        **QUICK, "part": "inceptionxml-lf", "encoder": {**INCEPTION, "routed": True},
        "head": {**LABEL_TEXT, "graph": True},
    },
    "inceptionxml-lf, clusters": {
        **QUICK, "part": "inceptionxml-lf", "shortlist": CLUSTERS, "epochs": 2, "least_steps": 4, "first_phase": 0.5,
        "encoder": {**INCEPTION, "routed": True, "decoupled": True, "enhance": True, "partner": "embeddings"},
        "head": {**ATTENDED, "gelu": True, "start": "text"},
    },
}  # fmt: skip
MODULES = {
    **QUICK, "part": "astec-modules", "encoder": {**WEIGHTED, "rectified": True}, "cluster_size": 3,
    "surrogate": 1, "nearest": 5, "random": 3, "rerank_epochs": 1, "hard": 4, "documents": 4, "centroids": 2, "many": 5,
}  # fmt: skip


def titles(documents: int = 40, labels: int = 12, seed: int = 0, soft: bool = False) -> Corpus:
    """Titles of a word for each of one to three labels and a word of noise; labels are called by their word.

    With `soft` targets are fractions.
    """
    rng = np.random.default_rng(seed)
    Y = np.zeros((documents, labels), dtype=np.float32)
    texts = []
    for row in range(documents):
        own = rng.choice(labels, size=rng.integers(1, 4), replace=False)
        own[0] = row % labels
        Y[row, own] = rng.choice([0.25, 0.5, 1.0], len(own)) if soft else 1
        texts.append(" ".join([*(f"topic{label}" for label in own), f"noise{rng.integers(9)}"]))
    index = LabelIndex([f"label {n}" for n in range(labels)], [f"topic{n} called{n}" for n in range(labels)])
    return Corpus(labels=index, Y=sp.csr_matrix(Y), texts=texts, name="titles").counted()


def two_words(labels: int = 20, *, shuffled: bool = False) -> tuple[Corpus, Corpus]:
    """One training document a label, with one word of its text; the test document has only the other one.

    Nothing but the label's text says that the two words belong together.
    """
    other = np.roll(np.arange(labels), 7) if shuffled else np.arange(labels)
    index = LabelIndex([f"label {n}" for n in range(labels)], [f"first{n} second{n}" for n in other])
    Y = sp.csr_matrix(np.eye(labels, dtype=np.float32))
    train = Corpus(labels=index, Y=Y, texts=[f"first{n} noise{n % 5}" for n in range(labels)]).counted()
    test = Corpus(labels=train.labels, Y=Y, texts=[f"second{n} noise{(n + 2) % 5}" for n in range(labels)])
    return train, test


def precision_at_1(learner: Any, corpus: Corpus) -> float:
    found = learner.score(corpus, 1, run=ONE).ids[:, 0]
    return float(np.asarray(corpus.Y[np.arange(len(corpus)), found] > 0).mean())
