"""The corpus and the learners that the contract is run over, and what torch cannot promise."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from longtail.corpus import Corpus
from longtail.labels import LabelIndex
from longtail.learners.base import Learner
from longtail.registry import Entry, build, config_of, entries
from longtail.run import Run

Config = dict[str, Any]
N, L, D = 90, 14, 40


def small_corpus(seed: int = 0) -> Corpus:
    """90 documents, 14 labels of falling frequency, two features a label plus noise.

    Document 3 has no labels, document 5 no features, document 7 neither; label 13 has no document.
    """
    rng = np.random.default_rng(seed)
    share = 1.0 / np.arange(1, L)
    Y = np.zeros((N, L), dtype=np.float32)
    for row in range(N):
        Y[row, rng.choice(L - 1, size=rng.integers(1, 4), replace=False, p=share / share.sum())] = 1
    X = np.zeros((N, D), dtype=np.float32)
    for row in range(N):
        for label in np.flatnonzero(Y[row]):
            X[row, [2 * label, 2 * label + 1]] = rng.uniform(0.6, 1.0, size=2)
        X[row, rng.integers(2 * L, D, size=3)] = rng.uniform(0.05, 0.3, size=3)
    Y[[3, 7]] = 0
    X[[5, 7]] = 0
    lengths = np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-9)
    texts = [" ".join(f"word{j:02d}" for j in np.flatnonzero(x)) for x in X]
    labels = LabelIndex([f"label {j}" for j in range(L)], [f"word{2 * j:02d} word{2 * j + 1:02d}" for j in range(L)])
    return Corpus(labels=labels, Y=sp.csr_matrix(Y), X=sp.csr_matrix(X / lengths), texts=texts).counted()


HAS_TORCH = all(find_spec(name) for name in ("torch", "lightning", "transformers"))
without_torch = pytest.mark.skipif(not HAS_TORCH, reason="needs the extra 'neural'")


class Promises:
    """What a learner promises.

    threads    numbers of threads that give the same bytes
    tolerance  between the scores of a document among others and the same document alone
    """

    threads: tuple[int, ...] = (1, 2, 3)
    tolerance: float = 0.0


class TorchPromises(Promises):
    """What learners that compute with torch promise instead: THE EXCEPTIONS, and there are no others.

    threads    torch splits sums among its threads, so only the same number of threads gives the same bytes
    tolerance  documents are scored in batches of like length; other neighbours mean other padding, other shapes and
               sums in another order. Labels whose scores lie closer than this may change places.
    """

    threads = (2, 2)
    tolerance = 1e-5


@dataclass(frozen=True, eq=False)
class Case:
    """A learner with its options; `make` takes the folder of a tiny Transformer."""

    name: str
    make: Callable[[str], Config | str]
    promises: Promises = field(default_factory=Promises)

    @property
    def neural(self) -> bool:
        return isinstance(self.promises, TorchPromises)

    def param(self) -> Any:
        return pytest.param(self, id=self.name, marks=[without_torch] if self.neural else [])


BILSTM = {"part": "bilstm", "size": 32, "hidden": 8}
QUICK = {"epochs": 1, "least_steps": 30, "batch": 16, "warm_up": 4}
ATTENTION = {"part": "attentionxml", "encoder": BILSTM, **QUICK}
TEXT_ATTENTION = {"part": "text-attention", "inner": 16}
LSAN = {**ATTENTION, "part": "lsan", "head": TEXT_ATTENTION}
UNIT_VECTOR = {"part": "unit-vector", "size": 24}
HTTN = {**ATTENTION, "part": "httn", "head": UNIT_VECTOR, "rarest": 6, "draws": 3}
CONVOLUTIONS = {"part": "convolutions", "size": 16, "maps": 8, "bottleneck": 16, "dropout": 0.0}
XML_CNN = {"part": "xml-cnn", "encoder": CONVOLUTIONS, **QUICK}
TREE = {**ATTENTION, "least_steps": 18, "tree": "always", "branches": 2, "top": 4, "candidates": 3}
FEWER = {**ATTENTION, "least_steps": 18}
#: Every label is mixed, for the corpus is so small that some of its rare labels have no neighbour.
TAILMIX = {"part": "tailmix", "rarest": None}


def laroberta(folder: str) -> Config:
    encoder = {"part": "transformer", "model": folder, "dropout": 0.0}
    return {"part": "laroberta", "encoder": encoder, **QUICK, "least_steps": 60, "rate": 0.005, "label_rate": 0.05}


def lightxml(folder: str) -> Config:
    encoder = {"part": "first-tokens", "model": folder, "dropout": 0.0, "words": 16, "scale": 1.0}
    rates = {"rate": 0.01, "label_rate": 0.05, "average": 0.8, "average_every": 2}
    return {"part": "lightxml", "encoder": encoder, **QUICK, "least_steps": 150, **rates}


#: Learners of short texts: small, without the dropout that many documents would need, and their own rates.
WEIGHTED = {"part": "weighted-bag", "size": 32, "dropout": 0.0}
INCEPTION = {"part": "inception", "size": 80, "channels": 4, "window": 8, "dropout": 0.0}
TITLES = {
    "epochs": 1, "least_steps": 30, "batch": 16, "warm_up": 4, "shortlist": "all-labels",
    "rate": 0.01, "word_rate": 0.05, "label_rate": 0.05, "encoder": WEIGHTED,
}  # fmt: skip
LABEL_TEXT = {"part": "label-text", "bias": -4.0}
RESIDUAL = {**LABEL_TEXT, "dropout": 0.0, "residual": True}
CLUSTERS = {"part": "label-clusters", "size": 3, "candidates": 4}
ATTENDED = {**RESIDUAL, "graph": True, "join": "attention"}


def _neural(name: str, make: Callable[[str], Config]) -> Case:
    return Case(name, make, TorchPromises())


NEURAL = [
    _neural("attentionxml", lambda folder: ATTENTION),
    _neural("attentionxml, tree", lambda folder: TREE),
    _neural("attentionxml, as published", lambda folder: {
        **ATTENTION, "least_steps": 60, "start": "random", "shortlist": "all-labels",
        "rate": 0.02, "word_rate": 0.1, "label_rate": 0.1,
        "head": {"part": "label-attention", "classifier": "shared", "document": False, "hidden": 32, "bias": -2.0},
        "encoder": {**BILSTM, "skip": False, "hidden": 16, "dropout": 0.0, "dropout_words": 0.0},
    }),
    _neural("laroberta", laroberta),
    _neural("lightxml", lightxml),
    _neural("lightxml, groups", lambda folder: {
        **lightxml(folder), "groups": "always", "group_size": 3, "candidates": 4, "bottleneck": 24,
    }),
    _neural("lsan", lambda folder: LSAN),
    _neural("lsan, as published", lambda folder: {
        **LSAN, "least_steps": 60, "start": "random", "shortlist": "all-labels", "rate": 0.02, "word_rate": 0.1,
        "label_rate": 0.1, "encoder": {**BILSTM, "skip": False, "hidden": 16, "dropout": 0.0, "dropout_words": 0.0},
        "head": {**TEXT_ATTENTION, "text_scores": "plain", "train_texts": False, "classifier": "shared", "hidden": 32,
                 "document": False, "bias": -2.0},
    }),
    _neural("httn", lambda folder: {**HTTN, "least_steps": 60, "rate": 0.01, "label_rate": 0.05}),
    _neural("xml-cnn", lambda folder: {**XML_CNN, "least_steps": 60, "rate": 0.01, "label_rate": 0.05}),
    _neural("astec", lambda folder: {**TITLES, "part": "astec"}),
    _neural("astec-modules", lambda folder: {
        **TITLES, "part": "astec-modules", "least_steps": 20, "cluster_size": 3, "nearest": 10, "random": 4,
        "rerank_epochs": 1, "hard": 6, "surrogate": 1, "encoder": {**WEIGHTED, "rectified": True},
    }),
    _neural("decaf", lambda folder: {**TITLES, "part": "decaf", "head": LABEL_TEXT}),
    _neural("decaf, clusters", lambda folder: {
        **TITLES, "part": "decaf", "head": {**RESIDUAL, "start": "text"},
        "shortlist": {**CLUSTERS, "surrogate": 1, "negatives": 0, "blocks": False, "texts": True},
    }),
    _neural("eclare", lambda folder: {**TITLES, "part": "eclare", "head": {**LABEL_TEXT, "graph": True}}),
    _neural("eclare, clusters", lambda folder: {
        **TITLES, "part": "eclare", "shortlist": {**CLUSTERS, "texts": True}, "traverse": 0.2,
        "head": {**ATTENDED, "start": "graph"},
    }),
    _neural("inceptionxml", lambda folder: {**TITLES, "part": "inceptionxml", "encoder": INCEPTION}),
    _neural("inceptionxml, clusters", lambda folder: {
        **TITLES, "part": "inceptionxml", "shortlist": {**CLUSTERS, "detached": 0.2},
        "encoder": {**INCEPTION, "enhance": True},
    }),
    _neural("inceptionxml-lf", lambda folder: {
        **TITLES, "part": "inceptionxml-lf",
        "encoder": {**INCEPTION, "routed": True}, "head": {**LABEL_TEXT, "graph": True},
    }),
    _neural("inceptionxml-lf, clusters", lambda folder: {
        **TITLES, "part": "inceptionxml-lf", "shortlist": CLUSTERS, "epochs": 2, "least_steps": 15, "first_phase": 0.5,
        "encoder": {**INCEPTION, "routed": True}, "head": {**ATTENDED, "gelu": True, "start": "text"},
    }),
    _neural("pipeline, neural", lambda folder: {"part": "pipeline", "learner": ATTENTION, "augment": [TAILMIX]}),
    _neural("ensemble, linear and neural", lambda folder: {"part": "ensemble", "members": ["parabel", FEWER]}),
    _neural("decoupled, neural", lambda folder: {"part": "decoupled", "learner": FEWER, "gate": 0.0}),
]  # fmt: skip


def _linear(entry: Entry) -> Case:
    return Case(entry.name, lambda folder: entry.name)


#: A pipeline that reads what it is given, and one with everything of its own.
PIPELINES = [
    Case("pipeline", lambda folder: {"part": "pipeline", "features": None}),
    Case("pipeline, all of its own", lambda folder: {
        "part": "pipeline", "features": "tfidf", "augment": ["gandalf"], "rerank": ["inverse-propensity"],
    }),
]  # fmt: skip
LEARNERS = [
    *(_linear(e) for kind in ("learner", "wrapper") for e in entries(kind) if not e.extra and e.name != "pipeline"),
    *PIPELINES,
    *NEURAL,
]


@dataclass(frozen=True, eq=False)
class Maker:
    """Makes the learner of a case."""

    case: Case
    folder: str

    def __call__(self) -> Learner:
        part = build(self.case.make(self.folder))
        assert isinstance(part, Learner)
        return part

    @property
    def names(self) -> list[str]:
        """Names of the learner and of the parts inside it."""

        def inside(value: Any) -> list[str]:
            if isinstance(value, dict):
                own = [value["part"]] if "part" in value else []
                return own + [name for inner in value.values() for name in inside(inner)]
            return [name for inner in value for name in inside(inner)] if isinstance(value, list) else []

        return inside(config_of(self()))

    def fit(self, corpus: Corpus) -> Learner:
        return self().fit(corpus, run=Run(threads=1 if self.case.neural else 0))

    def fitted(self) -> Learner:
        """Fitted on the small corpus, once per session, for all tests that only look at it."""
        return self.observed().learner

    def observed(self) -> Observed:
        """That fit, and what it left behind."""
        return _observed(self.case, self.folder)


@dataclass(frozen=True, eq=False)
class Observed:
    """A fit: bytes of the corpus and settings of torch before and after it, seconds of its stages and in all."""

    learner: Learner
    corpus: tuple[list[bytes], list[bytes]]
    torch: tuple[object, object]
    stages: dict[str, float]
    spent: float


@cache
def _observed(case: Case, folder: str) -> Observed:
    corpus, learner, run = small_corpus(), Maker(case, folder)(), Run(threads=1 if case.neural else 0)
    before, setting, start = frozen(corpus), torch_setting(case), time.perf_counter()
    assert learner.fit(corpus, run=run) is learner
    spent = time.perf_counter() - start
    return Observed(learner, (before, frozen(corpus)), (setting, torch_setting(case)), run.seconds, spent)


def torch_setting(case: Case) -> object:
    """What is the caller's own business: random numbers, threads and the like."""
    if not case.neural:
        return None
    import torch

    return torch.get_rng_state().tolist(), torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()


def frozen(corpus: Corpus) -> list[bytes]:
    """Every byte of a corpus that a fit must leave as it is."""
    assert corpus.X is not None
    parts = [corpus.X.data, corpus.X.indices, corpus.X.indptr, corpus.Y.data, corpus.Y.indices, corpus.Y.indptr]
    parts += [corpus.labels.frequency] + ([] if corpus.pair_weight is None else [corpus.pair_weight])
    return [part.tobytes() for part in parts] + [text.encode() for text in corpus.texts or ()]
