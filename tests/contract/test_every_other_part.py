"""What holds for every augmenter and re-ranker."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from contract_cases import ATTENTION, small_corpus, without_torch

from longtail.augment.base import Augmenter
from longtail.capabilities import CORPUS_SPACES, SPACES
from longtail.corpus import Corpus
from longtail.errors import UsageError
from longtail.registry import build, config_of, entries, find
from longtail.rerank.base import Reranker
from longtail.run import Run
from longtail.tagger import Tagger


def named(kind: str) -> list[Any]:
    return [pytest.param(e.name, id=e.name, marks=[without_torch] if e.extra else []) for e in entries(kind)]


AUGMENTERS, RERANKERS = named("augmenter"), named("re-ranker")


def same(first: sp.csr_matrix, second: sp.csr_matrix) -> bool:
    return first.shape == second.shape and all(
        getattr(first, part).tobytes() == getattr(second, part).tobytes() for part in ("data", "indices", "indptr")
    )


@pytest.mark.parametrize("name", AUGMENTERS)
def test_augmenters(name: str, corpus: Corpus) -> None:
    part = build(name)
    assert isinstance(part, Augmenter)
    space = part.capabilities.space
    assert space in SPACES and space == find(name).space
    if space not in CORPUS_SPACES:
        check_hook(name, corpus)
        return
    given = corpus if space == "features" else Corpus(labels=corpus.labels, Y=corpus.Y, texts=corpus.texts)
    before = (given.Y.data.tobytes(), given.Y.indices.tobytes(), list(given.texts or []), corpus.X.data.tobytes())
    results = [part.apply(given, Run(seed=3, threads=t)) for t in (1, 2)]
    after = (given.Y.data.tobytes(), given.Y.indices.tobytes(), list(given.texts or []), corpus.X.data.tobytes())
    assert after == before
    assert results[0].n_labels == corpus.n_labels
    assert same(results[0].Y, results[1].Y)
    assert list(results[0].texts or []) == list(results[1].texts or [])


@cache
def plainly_trained() -> dict[str, np.ndarray]:
    return trained([], small_corpus()).learner.state()


def trained(augment: list[Any], corpus: Corpus) -> Tagger:
    return Tagger({**ATTENTION, "least_steps": 12}, features=None, augment=augment, threads=1).fit(corpus)


def check_hook(name: str, corpus: Corpus) -> None:
    """An augmenter inside a neural fit: it changes what is learnt, always in the same way, and is gone thereafter."""
    assert build(name).apply(corpus, Run()) is corpus
    with pytest.raises(UsageError, match=f"'{name}' works in the space .* 'parabel' does not open"):
        Tagger("parabel", augment=[name])
    given = replace(corpus, X=None)
    before = (given.Y.data.tobytes(), given.Y.indices.tobytes(), list(given.texts or []))
    first, second = (trained([name], given) for _ in range(2))
    assert (given.Y.data.tobytes(), given.Y.indices.tobytes(), list(given.texts or [])) == before
    state, plain = first.learner.state(), plainly_trained()
    assert list(state) == list(plain), "a model that was trained with it holds what any other holds"
    assert all(state[key].tobytes() == array.tobytes() for key, array in second.learner.state().items())
    assert any(state[key].tobytes() != plain[key].tobytes() for key in state), "it does something"
    assert all(np.isfinite(array).all() for array in state.values() if array.dtype == np.float32)
    again = build(config_of(first.learner))
    again.restore(state)
    assert again.score(given, 3).values.tobytes() == first.learner.score(given, 3).values.tobytes()


@pytest.mark.parametrize("name", RERANKERS)
def test_rerankers(name: str, corpus: Corpus) -> None:
    part = build(name)
    assert isinstance(part, Reranker)
    shortlist = build("parabel").fit(corpus).score(corpus, 10)
    part.fit(shortlist, corpus, run=Run())
    scores = part.rerank(shortlist, corpus)
    assert (np.sort(scores.ids, axis=1) == np.sort(shortlist.ids, axis=1)).all(), "the same labels in another order"
    assert scores.values.min() >= 0 and scores.values.max() <= 1
    assert (scores.sorted().ids == scores.ids).all()
    again = build(config_of(part))
    again.restore(part.state())
    assert again.rerank(shortlist, corpus).values.tobytes() == scores.values.tobytes()
