"""Several features side by side."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_dense import saved, two_topics, word_file

from longtail.errors import UsageError
from longtail.features.join import Join
from longtail.features.tfidf import Tfidf
from longtail.registry import build, config_of
from longtail.run import Run
from longtail.tagger import Tagger

TEXTS = ["red green", "green blue", "red", "yellow", ""]


def test_by_hand(tmp_path: Path) -> None:
    source = word_file(tmp_path, {"red": [2, 0], "yellow": [0, -5]})
    dense = {"part": "dense", "source": "words", "vectors": source, "removed": 0, "unit": False}
    join = Join(parts=["tfidf", dense], weights=[3.0, 4.0])
    X = join.fit_transform(TEXTS).toarray()
    own = Tfidf().fit_transform(TEXTS).toarray()
    assert X.shape == (5, own.shape[1] + 2)
    np.testing.assert_allclose(X[:, :-2], 0.6 * own, atol=1e-6)
    np.testing.assert_allclose(X[:, -2:], [[0.8, 0], [0, 0], [0.8, 0], [0, -0.8], [0, 0]], atol=1e-6)


def test_the_same_weight_for_all_by_default() -> None:
    X = Join(parts=["tfidf", {"part": "tfidf", "ngrams": 2}]).fit_transform(TEXTS).toarray()
    own = Tfidf().fit_transform(TEXTS).toarray()
    np.testing.assert_allclose(X[:, : own.shape[1]], 0.5**0.5 * own, atol=1e-6)


@given(
    weights=st.lists(st.floats(0.01, 100), min_size=2, max_size=3),
    texts=st.lists(st.text("ab c", max_size=12), min_size=1, max_size=6),
)
@settings(deadline=None, max_examples=40)
def test_length_of_rows(weights: list[float], texts: list[str]) -> None:
    """Each part's rows have the length its weight says, or none; all of them together length 1."""
    texts = [*texts, "ab abc", "cab"]
    join = Join(parts=[{"part": "tfidf", "ngrams": n + 1, "max_df": 1.0} for n in range(len(weights))], weights=weights)
    X = join.fit_transform(texts).toarray()
    edges = np.cumsum([0, *(part.n_features_ for part in join.parts)])
    expected = np.array(weights) / np.linalg.norm(weights)
    for weight, start, end in zip(expected, edges[:-1], edges[1:], strict=True):
        lengths = np.linalg.norm(X[:, start:end], axis=1)
        assert np.all((lengths == 0) | np.isclose(lengths, weight, rtol=1e-4))
    assert X.shape[1] == edges[-1]
    assert (join.transform(texts).toarray() == X).all()


def test_options() -> None:
    for wrong in ([], "tfidf"):
        with pytest.raises(UsageError, match="a list of features"):
            Join(parts=wrong)
    with pytest.raises(UsageError, match="unknown features 'bonsai'"):
        Join(parts=["tfidf", "bonsai"])
    for weights in ([1.0], [1.0, 0.0], [1.0, -1.0]):
        with pytest.raises(UsageError, match="one number above 0 per part"):
            Join(parts=["tfidf", "tfidf"], weights=weights)


@pytest.mark.parametrize("learner", ["one-vs-all", "bonsai", "parabel"])
def test_through_a_tagger(learner: str, tmp_path: Path) -> None:
    """Neither part alone knows all: half of the labels are told by words, half by vectors."""
    corpus, vectors = two_topics(240)
    label = corpus.Y.indices
    corpus.texts = [text if one < 3 else "common words" for text, one in zip(corpus.texts, label, strict=True)]
    vectors[label < 3] = vectors.mean(axis=0)
    dense = {"part": "dense", "source": "file", "file": saved(tmp_path / "v.npz", list(corpus.ids), vectors)}
    train, test = corpus.split(0.25, np.random.default_rng(0))
    figures = {}
    for name, features in (("tfidf", "tfidf"), ("dense", dense), ("join", {"part": "join", "parts": ["tfidf", dense]})):
        tagger = Tagger(learner, features=features).fit(train)
        figures[name] = tagger.evaluate(test, ks=(1,)).values["P@1"]
    assert figures["join"] > 95 and figures["join"] > 10 + max(figures["tfidf"], figures["dense"])
    tagger.save(tmp_path / "model")
    loaded = Tagger.load(tmp_path / "model")
    assert loaded.score(test, 3).values.tobytes() == tagger.score(test, 3).values.tobytes()


def test_nested_state(tmp_path: Path) -> None:
    corpus, vectors = two_topics(20)
    dense = {"part": "dense", "source": "file", "file": saved(tmp_path / "v.npz", list(corpus.ids), vectors)}
    join = Join(parts=["tfidf", {"part": "join", "parts": [dense, {"part": "tfidf", "ngrams": 2}]}])
    X = join.fit_corpus(corpus, Run())
    state = join.state()
    again = build(config_of(join))
    again.restore(state)
    assert (again.of_corpus(corpus, Run()) != X).nnz == 0
    with pytest.raises(ValueError, match="join has 2 parts"):
        build(config_of(join)).restore({**state, "2.idf": state["0.idf"]})
    for name in state:
        with pytest.raises((ValueError, KeyError)):
            build(config_of(join)).restore({key: array for key, array in state.items() if key != name})
