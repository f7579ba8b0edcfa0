"""A small corpus, network and batch to mix in, shared by the tests of the four mixups."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from longtail.augment.hooks import Hook, Hooks
from longtail.corpus import Corpus
from longtail.data.synthetic import synthetic
from longtail.learners.neural.base import NeuralLearner
from longtail.learners.neural.shortlists.base import SharedLabels
from longtail.learners.neural.training.batches import Batch, Batches
from longtail.learners.neural.training.network import Network
from longtail.registry import build
from longtail.run import Run
from longtail.tagger import Tagger

ENCODER = {"part": "bilstm", "size": 8, "hidden": 4, "min_df": 1}
TINY = {"part": "attentionxml", "epochs": 2, "least_steps": 1, "batch": 16, "encoder": ENCODER}


@cache
def corpus() -> Corpus:
    sizes = {"documents": 64, "labels": 12, "words": 80, "words_per_document": 12}
    return synthetic(**sizes, signal=0.8, zipf=0.3, texts=True, seed=3)


def trained(augment: list[Any], **options: Any) -> dict[str, np.ndarray]:
    """The state of a tiny learner trained with some augmenters."""
    tagger = Tagger({**TINY, **options}, features=None, augment=augment, threads=1).fit(corpus())
    return tagger.learner.state()


def learns(augment: list[Any], folder: Path) -> None:
    """Trained long enough, kept and opened again, a model finds most documents' labels (by chance: a third)."""
    longer = {**TINY, "least_steps": 160, "rate": 0.02, "valid_share": 0}
    tagger = Tagger(longer, features=None, augment=augment, threads=1).fit(corpus())
    assert tagger.evaluate(corpus()).to_dict()["P@1"] > 60
    tagger.save(folder / "model")
    texts = corpus().texts[:5]
    assert Tagger.load(folder / "model", threads=1).predict(texts) == tagger.predict(texts)


_PLAIN: dict[str, dict[str, np.ndarray]] = {}


def plainly_trained(**options: Any) -> dict[str, np.ndarray]:
    key = repr(sorted(options.items()))
    if key not in _PLAIN:
        _PLAIN[key] = trained([], **options)
    return _PLAIN[key]


def equal(first: Mapping[str, np.ndarray], second: Mapping[str, np.ndarray]) -> bool:
    return list(first) == list(second) and all(first[name].tobytes() == second[name].tobytes() for name in first)


def watched(mixer: type[Hook], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Filled with the points at which trainings mix, step by step: those at which values really change."""
    points: list[str] = []
    given = mixer.apply_at

    def apply_at(self: Hook, point: str, values: torch.Tensor) -> torch.Tensor:
        made = given(self, point, values)
        if not torch.equal(made, values):
            points.append(point)
        return made

    monkeypatch.setattr(mixer, "apply_at", apply_at)
    return points


def network_and_batch(size: int = 5, **options: Any) -> tuple[Network, Batch]:
    """A network that drops nothing, and a batch of texts of different lengths."""
    learner = build({**TINY, **options}, "learner")
    assert isinstance(learner, NeuralLearner)
    given, run = corpus(), Run()
    learner.encoder.fit_tokeniser(given.texts, run)
    network = learner.new_network(given.n_labels, run).eval()
    batches = Batches(learner.encoder.tokens(given.texts, run), SharedLabels(given.Y, None, 0), size, seed=0)
    return network, batches.batch(np.arange(size), np.random.default_rng(0))


def swapping() -> np.random.Generator:
    """A generator that makes each of two documents the other's partner."""
    for seed in range(100):
        if np.random.default_rng(seed).permutation(2)[0] == 1:
            return np.random.default_rng(seed)
    raise AssertionError


def two_documents(**others: Any) -> Batch:
    """Lengths 2 and 1, and a label each."""
    tokens = torch.tensor([[2, 3], [4, 0]])
    targets = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    return Batch(np.arange(2), tokens, tokens > 0, torch.arange(2), targets, **others)


def forward(hook: Hook, network: Network, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    """Embeddings (B, T, E) as a leaf, and the logits (B, S) that are made from them."""
    hooks = Hooks([hook])
    embedded = network.encoder.embed(batch.tokens).detach().requires_grad_()
    hidden = network.encoder.encode(hooks.apply_at("embedded", embedded), batch.mask, hooks)
    return embedded, network.head(hidden, batch.mask, batch.labels, hooks)


def reached(hook: Hook, network: Network, batch: Batch) -> np.ndarray:
    """bool (B, B): whether the gradient of document i's logits reaches document j's words."""
    embedded, logits = forward(hook, network, batch)
    rows = [torch.autograd.grad(logit.sum(), embedded, retain_graph=True)[0] for logit in logits]
    return np.array([[bool((words != 0).any()) for words in row] for row in rows])


def expected_reach(partner: np.ndarray) -> np.ndarray:
    return np.eye(len(partner), dtype=bool) | np.eye(len(partner), dtype=bool)[partner]
