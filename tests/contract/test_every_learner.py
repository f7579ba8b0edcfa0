"""What holds for every learner and wrapper."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from contract_cases import LEARNERS, Case, Maker, frozen, torch_setting

from longtail.capabilities import EITHER, SPACES
from longtail.corpus import Corpus
from longtail.errors import UsageError
from longtail.labels import LabelIndex
from longtail.registry import build, config_of, entries
from longtail.run import Run
from longtail.scores import Scores


@pytest.fixture(params=[case.param() for case in LEARNERS])
def make(request: pytest.FixtureRequest) -> Maker:
    case: Case = request.param
    return Maker(case, request.getfixturevalue("tiny_transformer") if case.neural else "")


def test_every_learner_has_a_case() -> None:
    have = {part["part"] if isinstance(part, dict) else part for part in (case.make("") for case in LEARNERS)}
    assert have == {entry.name for kind in ("learner", "wrapper") for entry in entries(kind)}


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


def check_same_scores(first: Scores, second: Scores, tolerance: float) -> None:
    """The same bytes, or values within the tolerance, and labels where the tolerance leaves no doubt."""
    if not tolerance:
        assert first.ids.tobytes() == np.ascontiguousarray(second.ids).tobytes()
        assert first.values.tobytes() == np.ascontiguousarray(second.values).tobytes()
        return
    np.testing.assert_allclose(first.values, second.values, rtol=0, atol=tolerance)
    gaps = np.pad(-np.diff(second.values, axis=1), ((0, 0), (1, 0)), constant_values=1)
    sure = (gaps > 2 * tolerance) & np.roll(gaps > 2 * tolerance, -1, axis=1)
    sure[:, -1] = False  # the next one is not listed
    assert sure.mean() > 0.5 and (first.ids[sure] == second.ids[sure]).all()


def test_learns_scores_and_keeps_the_corpus(make: Maker, corpus: Corpus) -> None:
    fitted = make.fitted()
    assert fitted.n_labels_ == corpus.n_labels
    assert fitted.n_features_ == (corpus.X.shape[1] if "X" in fitted.capabilities.needs else None)
    scores = fitted.score(corpus, 5)
    before, after = make.observed().corpus
    assert before == after == frozen(corpus)
    check_scores(scores, len(corpus), 5, corpus.n_labels)
    labelled = np.flatnonzero((np.diff(corpus.Y.indptr) > 0) & (np.diff(corpus.X.indptr) > 0))
    right = np.asarray(corpus.Y[labelled, scores.ids[labelled, 0]]).ravel() > 0
    assert right.mean() > 0.9, "the corpus is easy: a learner that learns gets the first label right"
    assert len(np.unique(scores.ids[labelled, 0])) >= 5, "and not always the same one"
    if "texts" in fitted.capabilities.needs:
        assert (scores.ids[[5, 7]] >= 0).all(), "documents without words get scores, too"


def test_opens_known_spaces_and_needs(make: Maker) -> None:
    can = make().capabilities
    assert set(can.spaces) <= set(SPACES)
    assert set(can.needs) <= {"X", "texts", EITHER} and can.needs


def test_state_and_restore(make: Maker, corpus: Corpus) -> None:
    fitted = make.fitted()
    state = fitted.state()
    assert state and all(isinstance(array, np.ndarray) and array.dtype != object for array in state.values())
    again = build(config_of(fitted))
    for array in state.values():
        array.flags.writeable = False  # as a memory map is
    again.restore(state)
    assert same_arrays(again.state(), state)
    first, second = fitted.score(corpus, 7), again.score(corpus, 7)
    assert first.ids.tobytes() == second.ids.tobytes() and first.values.tobytes() == second.values.tobytes()


def test_restore_refuses_what_does_not_fit(make: Maker, corpus: Corpus) -> None:
    """Arrays that are missing, cut short or out of range end in an exception, never in a crash or a wild read."""
    fitted = make.fitted()
    state = fitted.state()
    for key, array in state.items():
        with pytest.raises((ValueError, KeyError)):
            build(config_of(fitted)).restore({k: v for k, v in state.items() if k != key})
        if array.ndim and len(array) > 1:
            with pytest.raises((ValueError, KeyError)):
                build(config_of(fitted)).restore({**state, key: array[:-1]})
        with pytest.raises((ValueError, KeyError, TypeError)):
            build(config_of(fitted)).restore({**state, key: array.astype(np.complex128)})
        if key.rpartition(".")[2] == "labels":  # a count: no room is made for what the file does not hold
            with pytest.raises(ValueError):
                build(config_of(fitted)).restore({**state, key: np.array([1 << 50])})
    with pytest.raises((ValueError, KeyError)):
        build(config_of(fitted)).restore({})


def test_same_bytes_for_any_number_of_threads(make: Maker, corpus: Corpus) -> None:
    results = []
    for threads in make.case.promises.threads:
        fitted = make().fit(corpus, run=Run(seed=7, threads=threads))
        scores = fitted.score(corpus, 5, run=Run(threads=threads))
        results.append((fitted.state(), scores))
    for state, scores in results[1:]:
        assert same_arrays(state, results[0][0])
        assert scores.ids.tobytes() == results[0][1].ids.tobytes()
        assert scores.values.tobytes() == results[0][1].values.tobytes()


def test_rows_are_scored_independently(make: Maker, corpus: Corpus) -> None:
    fitted = make.fitted()
    whole = fitted.score(corpus, 4)
    rows = np.array([80, 2, 5, 41])
    part = fitted.score(corpus.rows(rows), 4)
    check_same_scores(part, whole.rows(rows), make.case.promises.tolerance)
    assert len(fitted.score(corpus.rows(np.zeros(0, dtype=int)), 4)) == 0


def test_soft_targets_have_an_effect(make: Maker, corpus: Corpus) -> None:
    soft = corpus.Y.copy()
    soft.data[soft.indices == 0] = 0.3
    hard = make.fitted()
    softly = make.fit(replace(corpus, Y=soft))
    check_scores(softly.score(corpus, 5), len(corpus), 5, corpus.n_labels)
    sure, unsure = hard.score(corpus, 14), softly.score(corpus, 14)
    assert unsure.values[unsure.ids == 0].mean() < sure.values[sure.ids == 0].mean()


def test_pair_weights_have_an_effect(make: Maker, corpus: Corpus) -> None:
    """Pairs of weight 0 are no examples at all; weight 1 everywhere is as if there were none."""
    ones = np.ones(corpus.Y.nnz, dtype=np.float32)
    plain = make.fitted()
    assert same_arrays(make.fit(replace(corpus, pair_weight=ones)).state(), plain.state())
    light = np.select([corpus.Y.indices == 0, corpus.Y.indices == 1], [0.05, 0.0], 1.0).astype(np.float32)
    before = light.copy()
    lighter = make.fit(replace(corpus, pair_weight=light))
    assert (light == before).all()
    full, faint = plain.score(corpus, 14), lighter.score(corpus, 14)
    check_scores(faint, len(corpus), 14, corpus.n_labels)
    assert faint.values[faint.ids == 0].mean() < full.values[full.ids == 0].mean()
    assert faint.values[faint.ids == 1].sum() < full.values[full.ids == 1].sum() / 2


def test_a_masked_pair_is_no_example_at_any_level(make: Maker, corpus: Corpus) -> None:
    """Whatever its target says, a pair of weight 0 has no gradient and no solver update: the same bytes are learnt.

    It is not the same as a negative example, either.
    """
    if not make().capabilities.masks:
        with pytest.raises(UsageError, match="takes no pairs of weight 0"):
            make.fit(replace(corpus, pair_weight=np.zeros(corpus.Y.nnz, dtype=np.float32)))
        return
    chosen = np.random.default_rng(1).random(corpus.Y.nnz) < 0.2
    weight = np.where(chosen, np.float32(0), np.float32(1)).astype(np.float32)
    states = []
    for target in (1.0, 0.3):
        Y = corpus.Y.copy()
        Y.data[chosen] = target
        states.append(make.fit(replace(corpus, Y=Y, pair_weight=weight)).state())
    assert same_arrays(*states)
    absent = sp.csr_matrix(
        corpus.Y.multiply(sp.csr_matrix((weight, corpus.Y.indices, corpus.Y.indptr), corpus.Y.shape))
    )
    absent.eliminate_zeros()
    assert not same_arrays(make.fit(replace(corpus, Y=absent)).state(), states[0]), "it is no negative example"


def test_more_labels_asked_for_than_there_are(make: Maker, corpus: Corpus) -> None:
    fitted = make.fitted()
    scores = fitted.score(corpus, 1000)
    check_scores(scores, len(corpus), 1000, corpus.n_labels)
    check_scores(fitted.score(corpus, 1), len(corpus), 1, corpus.n_labels)


def test_tiny_corpora(make: Maker) -> None:
    """One document; one label; documents without features at all. A wrapper may say that it needs more labels."""
    X = sp.csr_matrix([[1.0, 0.5]], dtype=np.float32)
    one = Corpus(labels=LabelIndex(["only"]), Y=sp.csr_matrix([[1.0]]), X=X, texts=["some words"])
    try:
        check_scores(make.fit(one.counted()).score(one, 5), 1, 5, 1)
    except UsageError as error:
        assert any(name in str(error) for name in make.names)
    X = sp.csr_matrix(np.zeros((3, 2), dtype=np.float32))
    Y = sp.csr_matrix([[1.0, 0], [0, 1], [1, 0]])
    blank = Corpus(labels=LabelIndex(["a", "b"]), Y=Y, X=X, texts=["", " ", ""])
    try:
        check_scores(make.fit(blank.counted()).score(blank, 2), 3, 2, 2)
    except UsageError as error:
        assert any(name in str(error) for name in make.names)


@pytest.mark.parametrize("make", [case.param() for case in LEARNERS if case.neural], indirect=True)
def test_leaves_torch_as_it_was(make: Maker, corpus: Corpus) -> None:
    """The caller's random numbers, threads and settings are none of a learner's business."""
    before, after = make.observed().torch
    assert before == after
    before, fitted = torch_setting(make.case), make.fitted()
    build(config_of(fitted)).restore(fitted.state())
    fitted.score(corpus, 2, run=Run(threads=1))
    assert torch_setting(make.case) == before


def test_stages_are_timed(make: Maker) -> None:
    fit = make.observed()
    assert "train" in fit.stages
    assert sum(fit.stages.values()) <= fit.spent * 1.05 + 0.05, "stages do not overlap"
