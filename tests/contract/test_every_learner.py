"""What holds for every learner and wrapper."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from longtail.corpus import Corpus
from longtail.errors import UsageError
from longtail.labels import LabelIndex
from longtail.learners.base import SPACES, Learner
from longtail.registry import build, config_of, entries
from longtail.run import Run
from longtail.scores import Scores

LEARNERS = [pytest.param(e.name, id=e.name) for kind in ("learner", "wrapper") for e in entries(kind) if not e.extra]


def learner(name: str) -> Learner:
    part = build(name)
    assert isinstance(part, Learner)
    return part


def check_scores(scores: Scores, n: int, k: int, n_labels: int) -> None:
    assert scores.ids.dtype == np.int32 and scores.values.dtype == np.float32
    assert len(scores) == n
    assert min(k, n_labels) <= scores.k <= k
    assert scores.ids.min(initial=0) >= -1 and scores.ids.max(initial=0) < n_labels
    assert np.isfinite(scores.values).all()
    assert scores.values.min(initial=0) >= 0 and scores.values.max(initial=0) <= 1
    padded = scores.ids < 0
    assert (np.diff(padded.astype(int), axis=1) >= 0).all(), "padding comes last"
    assert (scores.values[padded] == 0).all()
    for ids, values in zip(scores.ids, scores.values, strict=True):
        there = ids >= 0
        assert len(set(ids[there].tolist())) == there.sum(), "no label twice"
        assert [*zip(-values[there], ids[there], strict=True)] == sorted(zip(-values[there], ids[there], strict=True))


def same_arrays(first: dict[str, np.ndarray], second: dict[str, np.ndarray]) -> bool:
    return list(first) == list(second) and all(
        first[name].dtype == second[name].dtype
        and first[name].shape == second[name].shape
        and first[name].tobytes() == second[name].tobytes()
        for name in first
    )


def frozen(corpus: Corpus) -> list[bytes]:
    """Every byte of a corpus that a fit must leave as it is."""
    parts = [corpus.X.data, corpus.X.indices, corpus.X.indptr, corpus.Y.data, corpus.Y.indices, corpus.Y.indptr]
    parts += [corpus.labels.frequency] + ([] if corpus.pair_weight is None else [corpus.pair_weight])
    return [part.tobytes() for part in parts]


@pytest.mark.parametrize("name", LEARNERS)
def test_learns_scores_and_keeps_the_corpus(name: str, corpus: Corpus) -> None:
    before = frozen(corpus)
    fitted = learner(name)
    assert fitted.fit(corpus, run=Run(threads=1)) is fitted
    assert fitted.n_labels_ == corpus.n_labels and fitted.n_features_ == corpus.X.shape[1]
    scores = fitted.score(corpus, 5)
    assert frozen(corpus) == before
    check_scores(scores, len(corpus), 5, corpus.n_labels)
    labelled = np.flatnonzero((np.diff(corpus.Y.indptr) > 0) & (np.diff(corpus.X.indptr) > 0))
    right = np.asarray(corpus.Y[labelled, scores.ids[labelled, 0]]).ravel() > 0
    assert right.mean() > 0.9, "the corpus is easy: a learner that learns gets the first label right"
    assert len(np.unique(scores.ids[labelled, 0])) >= 5, "and not always the same one"


@pytest.mark.parametrize("name", LEARNERS)
def test_opens_known_spaces_and_needs(name: str) -> None:
    part = learner(name)
    assert set(part.spaces) <= set(SPACES)
    assert set(part.needs) <= {"X", "texts"} and part.needs


@pytest.mark.parametrize("name", LEARNERS)
def test_state_and_restore(name: str, corpus: Corpus) -> None:
    fitted = learner(name).fit(corpus)
    state = fitted.state()
    assert state and all(isinstance(array, np.ndarray) and array.dtype != object for array in state.values())
    again = build(config_of(fitted))
    for array in state.values():
        array.flags.writeable = False  # as a memory map is
    again.restore(state)
    assert same_arrays(again.state(), state)
    first, second = fitted.score(corpus, 7), again.score(corpus, 7)
    assert first.ids.tobytes() == second.ids.tobytes() and first.values.tobytes() == second.values.tobytes()


@pytest.mark.parametrize("name", LEARNERS)
def test_restore_refuses_what_does_not_fit(name: str, corpus: Corpus) -> None:
    """Arrays that are missing, cut short or out of range end in an exception, never in a crash or a wild read."""
    fitted = learner(name).fit(corpus)
    state = fitted.state()
    for key, array in state.items():
        with pytest.raises((ValueError, KeyError)):
            build(config_of(fitted)).restore({k: v for k, v in state.items() if k != key})
        if array.ndim and len(array) > 1:
            with pytest.raises((ValueError, KeyError)):
                build(config_of(fitted)).restore({**state, key: array[:-1]})
        with pytest.raises((ValueError, KeyError, TypeError)):
            build(config_of(fitted)).restore({**state, key: array.astype(np.complex128)})
    with pytest.raises((ValueError, KeyError)):
        build(config_of(fitted)).restore({})


@pytest.mark.parametrize("name", LEARNERS)
def test_same_bytes_for_any_number_of_threads(name: str, corpus: Corpus) -> None:
    results = []
    for threads in (1, 2, 3):
        fitted = learner(name).fit(corpus, run=Run(seed=7, threads=threads))
        scores = fitted.score(corpus, 5, run=Run(threads=threads))
        results.append((fitted.state(), scores))
    for state, scores in results[1:]:
        assert same_arrays(state, results[0][0])
        assert scores.ids.tobytes() == results[0][1].ids.tobytes()
        assert scores.values.tobytes() == results[0][1].values.tobytes()


@pytest.mark.parametrize("name", LEARNERS)
def test_rows_are_scored_independently(name: str, corpus: Corpus) -> None:
    fitted = learner(name).fit(corpus)
    whole = fitted.score(corpus, 4)
    rows = np.array([80, 2, 5, 41])
    part = fitted.score(corpus.rows(rows), 4)
    assert (part.ids == whole.ids[rows]).all()
    assert part.values.tobytes() == np.ascontiguousarray(whole.values[rows]).tobytes()
    assert len(fitted.score(corpus.rows(np.zeros(0, dtype=int)), 4)) == 0


@pytest.mark.parametrize("name", LEARNERS)
def test_soft_targets_have_an_effect(name: str, corpus: Corpus) -> None:
    soft = corpus.Y.copy()
    soft.data[soft.indices == 0] = 0.3
    hard = learner(name).fit(corpus)
    softly = learner(name).fit(replace(corpus, Y=soft))
    check_scores(softly.score(corpus, 5), len(corpus), 5, corpus.n_labels)
    sure, unsure = hard.score(corpus, 14), softly.score(corpus, 14)
    assert unsure.values[unsure.ids == 0].mean() < sure.values[sure.ids == 0].mean()


@pytest.mark.parametrize("name", LEARNERS)
def test_pair_weights_have_an_effect(name: str, corpus: Corpus) -> None:
    """Pairs of weight 0 are no examples at all; weight 1 everywhere is as if there were none."""
    ones = np.ones(corpus.Y.nnz, dtype=np.float32)
    plain = learner(name).fit(corpus)
    assert same_arrays(learner(name).fit(replace(corpus, pair_weight=ones)).state(), plain.state())
    light = np.where(corpus.Y.indices == 0, np.float32(0.05), ones).astype(np.float32)
    before = light.copy()
    lighter = learner(name).fit(replace(corpus, pair_weight=light))
    assert (light == before).all()
    full, faint = plain.score(corpus, 14), lighter.score(corpus, 14)
    assert faint.values[faint.ids == 0].mean() < full.values[full.ids == 0].mean()
    none = np.where(corpus.Y.indices == 1, np.float32(0), ones).astype(np.float32)
    masked = learner(name).fit(replace(corpus, pair_weight=none)).score(corpus, 5)
    check_scores(masked, len(corpus), 5, corpus.n_labels)


@pytest.mark.parametrize("name", LEARNERS)
def test_more_labels_asked_for_than_there_are(name: str, corpus: Corpus) -> None:
    fitted = learner(name).fit(corpus)
    scores = fitted.score(corpus, 1000)
    check_scores(scores, len(corpus), 1000, corpus.n_labels)
    check_scores(fitted.score(corpus, 1), len(corpus), 1, corpus.n_labels)


@pytest.mark.parametrize("name", LEARNERS)
def test_tiny_corpora(name: str) -> None:
    """One document; one label; documents without features at all. A wrapper may say that it needs more labels."""
    one = Corpus(labels=LabelIndex(["only"]), Y=sp.csr_matrix([[1.0]]), X=sp.csr_matrix([[1.0, 0.5]], dtype=np.float32))
    try:
        check_scores(learner(name).fit(one.counted()).score(one, 5), 1, 5, 1)
    except UsageError as error:
        assert name in str(error)
    X = sp.csr_matrix(np.zeros((3, 2), dtype=np.float32))
    blank = Corpus(labels=LabelIndex(["a", "b"]), Y=sp.csr_matrix([[1.0, 0], [0, 1], [1, 0]]), X=X)
    try:
        check_scores(learner(name).fit(blank.counted()).score(blank, 2), 3, 2, 2)
    except UsageError as error:
        assert name in str(error)


@pytest.mark.parametrize("name", LEARNERS)
def test_stages_are_timed(name: str, corpus: Corpus) -> None:
    run = Run()
    start = time.perf_counter()
    learner(name).fit(corpus, run=run)
    spent = time.perf_counter() - start
    assert "train" in run.seconds
    assert sum(run.seconds.values()) <= spent * 1.05 + 0.05, "stages do not overlap"
