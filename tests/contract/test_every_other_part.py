"""What holds for every kind of features, augmenter and re-ranker."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from longtail.augment.base import CORPUS_SPACES, Augmenter
from longtail.corpus import Corpus
from longtail.learners.base import SPACES
from longtail.registry import build, config_of, entries
from longtail.rerank.base import Reranker
from longtail.run import Run

FEATURES = [pytest.param(e.name, id=e.name) for e in entries("features") if not e.extra]
AUGMENTERS = [pytest.param(e.name, id=e.name) for e in entries("augmenter") if not e.extra]
RERANKERS = [pytest.param(e.name, id=e.name) for e in entries("re-ranker") if not e.extra]


def same(first: sp.csr_matrix, second: sp.csr_matrix) -> bool:
    return first.shape == second.shape and all(
        getattr(first, part).tobytes() == getattr(second, part).tobytes() for part in ("data", "indices", "indptr")
    )


@pytest.mark.parametrize("name", FEATURES)
def test_features(name: str, corpus: Corpus) -> None:
    made = [build(name) for _ in range(3)]
    results = [part.fit_transform(corpus.texts, run=Run(threads=t)) for t, part in enumerate(made, start=1)]
    X = results[0]
    assert isinstance(X, sp.csr_matrix) and X.dtype == np.float32 and X.shape[0] == len(corpus)
    assert np.isfinite(X.data).all() and X.has_sorted_indices and X.nnz > 0
    assert all(same(X, other) for other in results[1:]), "the same for any number of threads"
    assert same(made[0].transform(corpus.texts), X)
    again = build(config_of(made[0]))
    state = made[0].state()
    for array in state.values():
        array.flags.writeable = False
    again.restore(state)
    assert same(again.transform(corpus.texts), X)
    unknown = again.transform(["", "zzz never seen zzz", "word02"])
    assert unknown.shape == (3, X.shape[1]) and unknown[0].nnz == 0 and unknown[2].nnz > 0
    assert again.transform([]).shape == (0, X.shape[1])
    for key in state:
        with pytest.raises((ValueError, KeyError)):
            build(config_of(made[0])).restore({k: v for k, v in state.items() if k != key})


@pytest.mark.parametrize("name", AUGMENTERS)
def test_augmenters(name: str, corpus: Corpus) -> None:
    part = build(name)
    assert isinstance(part, Augmenter) and part.space in SPACES
    if part.space not in CORPUS_SPACES:
        pytest.skip("a hook inside a neural fit")
    given = corpus if part.space == "features" else Corpus(labels=corpus.labels, Y=corpus.Y, texts=corpus.texts)
    before = (given.Y.data.tobytes(), given.Y.indices.tobytes(), list(given.texts or []), corpus.X.data.tobytes())
    results = [part.apply(given, Run(seed=3, threads=t)) for t in (1, 2)]
    after = (given.Y.data.tobytes(), given.Y.indices.tobytes(), list(given.texts or []), corpus.X.data.tobytes())
    assert after == before
    assert results[0].n_labels == corpus.n_labels
    assert same(results[0].Y, results[1].Y)
    assert list(results[0].texts or []) == list(results[1].texts or [])


@pytest.mark.parametrize("name", RERANKERS)
def test_rerankers(name: str, corpus: Corpus) -> None:
    part = build(name)
    assert isinstance(part, Reranker)
    shortlist = build("parabel").fit(corpus).score(corpus, 10)
    part.fit(shortlist, corpus, run=Run())
    scores = part.rerank(shortlist)
    assert (np.sort(scores.ids, axis=1) == np.sort(shortlist.ids, axis=1)).all(), "the same labels in another order"
    assert scores.values.min() >= 0 and scores.values.max() <= 1
    assert (scores.sorted().ids == scores.ids).all()
    again = build(config_of(part))
    again.restore(part.state())
    assert again.rerank(shortlist).values.tobytes() == scores.values.tobytes()
