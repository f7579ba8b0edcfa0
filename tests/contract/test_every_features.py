"""What holds for all features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from contract_cases import D, small_corpus, without_torch

from longtail.corpus import Corpus
from longtail.errors import UsageError
from longtail.features.base import Features
from longtail.registry import build, config_of, entries
from longtail.run import Run
from longtail.tagger import Tagger


@dataclass(frozen=True, eq=False)
class Case:
    """Features with their options.

    make     gives the configuration; takes a folder with vectors and the folder of a tiny Transformer
    by_id    documents are known by their ids, so that bare texts are refused
    neural   computed with torch: other neighbours in a batch mean sums in another order
    """

    part: str
    make: Callable[[Path, str], dict[str, Any]]
    by_id: bool = False
    neural: bool = False

    def built(self, folder: Path, transformer: str) -> Features:
        part = build({"part": self.part, **self.make(folder, transformer)}, "features")
        assert isinstance(part, Features)
        return part


def words(folder: Path, transformer: str) -> dict[str, Any]:
    return {"source": "words", "vectors": str(folder / "words.txt"), "removed": 1}


def file(folder: Path, transformer: str) -> dict[str, Any]:
    return {"source": "file", "file": str(folder / "vectors.npz")}


CASES = {
    "tfidf": Case("tfidf", lambda folder, transformer: {}),
    "tfidf, hashed pairs": Case("tfidf", lambda folder, transformer: {"ngrams": 2, "hash_bits": 8}),
    "dense, words": Case("dense", words),
    "dense, file": Case("dense", file, by_id=True),
    "dense, encoder": Case("dense", lambda folder, transformer: {"model": transformer}, neural=True),
    "join": Case("join", lambda f, t: {"parts": ["tfidf", {"part": "dense", **words(f, t)}], "weights": [2.0, 1.0]}),
    "join, file": Case("join", lambda f, t: {"parts": [{"part": "dense", **file(f, t)}, "tfidf"]}, by_id=True),
}
PARAMS = [pytest.param(c, id=name, marks=[without_torch] if c.neural else []) for name, c in CASES.items()]


@pytest.fixture
def corpus() -> Corpus:
    """Documents with ids; document 5 and 7 have no words."""
    found = small_corpus()
    return replace(found, X=None, ids=[f"document {row}" for row in range(len(found))])


@pytest.fixture
def folder(tmp_path: Path, corpus: Corpus) -> Path:
    """Vectors of the words and of the documents."""
    rng = np.random.default_rng(0)
    lines = [f"word{j:02d} {' '.join(map(str, rng.normal(size=6).round(3)))}" for j in range(D)]
    (tmp_path / "words.txt").write_text("\n".join(lines), encoding="utf-8")
    vectors = rng.normal(size=(len(corpus), 5)).astype(np.float32)
    np.savez(tmp_path / "vectors.npz", ids=np.array(corpus.ids), vectors=vectors)
    return tmp_path


def same(first: sp.csr_matrix, second: sp.csr_matrix) -> bool:
    return first.shape == second.shape and all(
        getattr(first, part).tobytes() == getattr(second, part).tobytes() for part in ("data", "indices", "indptr")
    )


def test_all_features_have_a_case() -> None:
    assert {case.part for case in CASES.values()} == {entry.name for entry in entries("features")}


@pytest.mark.parametrize("case", PARAMS)
def test_rows(case: Case, corpus: Corpus, folder: Path, tiny_transformer: str) -> None:
    made = [case.built(folder, tiny_transformer) for _ in range(3)]
    threads = (2, 2, 2) if case.neural else (1, 2, 3)
    results = [part.fit_corpus(corpus, Run(threads=t)) for t, part in zip(threads, made, strict=True)]
    X = results[0]
    assert isinstance(X, sp.csr_matrix) and X.dtype == np.float32 and X.shape == (len(corpus), made[0].n_features_)
    assert np.isfinite(X.data).all() and X.has_sorted_indices and X.nnz > 0
    assert all(same(X, other) for other in results[1:]), "the same for any number of threads"
    assert same(made[0].of_corpus(corpus, Run(threads=2)), X)
    alone = sp.vstack([made[0].of_corpus(corpus.rows(np.array([row])), Run()) for row in (0, 5, 9)])
    np.testing.assert_allclose(alone.toarray(), X[[0, 5, 9]].toarray(), atol=1e-5 if case.neural else 0)
    assert made[0].of_corpus(corpus.rows(np.arange(0)), Run()).shape == (0, X.shape[1])


@pytest.mark.parametrize("case", PARAMS)
def test_texts(case: Case, corpus: Corpus, folder: Path, tiny_transformer: str) -> None:
    part = case.built(folder, tiny_transformer)
    if case.by_id:
        with pytest.raises(UsageError, match="ids, not bare texts"):
            part.fit_transform(corpus.texts or [])
        return
    X = part.fit_transform(corpus.texts or [], run=Run(threads=1))
    assert same(part.transform(corpus.texts or [], run=Run(threads=1)), X)
    unknown = part.transform(["", "zzz never seen zzz", "word02"])
    assert unknown.shape == (3, X.shape[1]) and unknown[0].nnz == 0 and unknown[2].nnz > 0
    with pytest.raises(UsageError, match="has no texts"):
        part.of_corpus(replace(corpus, texts=None), Run())


@pytest.mark.parametrize("case", PARAMS)
def test_what_is_kept(case: Case, corpus: Corpus, folder: Path, tiny_transformer: str) -> None:
    part = case.built(folder, tiny_transformer)
    X = part.fit_corpus(corpus, Run(threads=1))
    state = part.state()
    for array in state.values():
        array.flags.writeable = False
    again = build(config_of(part))
    assert isinstance(again, Features)
    again.restore(state)
    assert same(again.of_corpus(corpus, Run(threads=1)), X)
    for key in state:
        with pytest.raises((ValueError, KeyError)):
            build(config_of(part)).restore({k: v for k, v in state.items() if k != key})
        with pytest.raises(ValueError):
            build(config_of(part)).restore({**state, key: np.zeros((1, 1, 1))})


@pytest.mark.parametrize("case", PARAMS)
def test_through_a_tagger(case: Case, corpus: Corpus, folder: Path, tiny_transformer: str, tmp_path: Path) -> None:
    tagger = Tagger("bonsai", features=case.built(folder, tiny_transformer), threads=1).fit(corpus)
    scores = tagger.score(corpus, 3)
    tagger.save(tmp_path / "model")
    loaded = Tagger.load(tmp_path / "model", threads=1)
    assert loaded.n_features_ == tagger.n_features_
    assert loaded.score(corpus, 3).values.tobytes() == scores.values.tobytes()
