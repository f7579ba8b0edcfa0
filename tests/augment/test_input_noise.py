"""Noisy copies: by hand, as properties, and drawn on the fly against written out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail.augment.input_noise import InputDropout, InputSwap
from longtail.augment.taug import Taug
from longtail.corpus import Corpus
from longtail.data.synthetic import synthetic
from longtail.labels import LabelIndex
from longtail.learners.decoupled import Decoupled
from longtail.learners.linear.label_tree import Bonsai, Parabel
from longtail.noise import FeatureNoise, written_out
from longtail.run import Run
from longtail.tagger import Tagger


def corpus_of(X, Y) -> Corpus:
    Y = sp.csr_matrix(np.asarray(Y, dtype=np.float32))
    labels = LabelIndex([f"l{j}" for j in range(Y.shape[1])])
    return Corpus(labels=labels, Y=Y, X=sp.csr_matrix(np.asarray(X, dtype=np.float32))).counted()


@pytest.fixture(scope="module")
def corpora():
    whole = synthetic(documents=1500, labels=250, words=1500, words_per_document=25, seed=9)
    train, test = whole.split(0.25, np.random.default_rng(0))
    return train.counted(), test


def test_a_swap_of_two_features_by_hand():
    # two features, one swap: the only pair there is changes places, whatever is drawn
    corpus = corpus_of([[3.0, 0, 4.0]], [[1]])
    noisy = written_out(InputSwap(n_aug=2, tau=0).apply(corpus, Run()))
    np.testing.assert_allclose(noisy.X.toarray(), [[3, 0, 4], [4, 0, 3], [4, 0, 3]], rtol=1e-6)
    assert noisy.Y.toarray().tolist() == [[1], [1], [1]]


def test_dropout_keeps_length_and_is_never_empty_by_hand():
    # rho as low as it goes leaves one feature of the two, which is brought to the original's length 5
    corpus = corpus_of([[3.0, 0, 4.0]], [[1]])
    copies = written_out(InputDropout(n_aug=50, tau=0, rho=0.01).apply(corpus, Run())).X.toarray()[1:]
    assert {tuple(np.round(row, 4)) for row in copies} == {(5.0, 0.0, 0.0), (0.0, 0.0, 5.0)}


def test_only_tail_documents_get_copies():
    # label 0 is the head (3 documents); with tau 0.4 floor(0.4 * 3) = 1 label is head
    corpus = corpus_of(np.eye(4), [[1, 0, 0], [1, 0, 0], [1, 1, 0], [0, 0, 1]])
    noise = InputDropout(tau=0.4).apply(corpus, Run()).noise
    assert noise.draw.tolist() == [-1, -1, 2, 3]
    row, copy = noise.arrays().row, noise.arrays().copy
    assert row.tolist() == [0, 1, 2, 3] + [2, 3] * 4
    assert copy.tolist() == [0] * 4 + [1, 1, 2, 2, 3, 3, 4, 4]


def test_together_they_make_one_set_of_copies():
    corpus = corpus_of(np.eye(4), np.eye(4))
    both = InputSwap(share=0.2).apply(InputDropout(rho=0.7).apply(corpus, Run()), Run()).noise
    assert (both.copies, both.keep, both.swaps) == (4, 0.7, 0.2)


@settings(max_examples=40, deadline=None)
@given(st.floats(0.05, 1), st.floats(0, 2), st.integers(0, 1000))
def test_copies_have_the_originals_features_and_length(keep, swaps, seed):
    X = sp.random(20, 40, density=0.3, random_state=seed, dtype=np.float32).tocsr()
    Y = sp.csr_matrix(np.ones((20, 1), dtype=np.float32))
    noise = FeatureNoise(3, keep, swaps, seed, np.arange(20, dtype=np.int32))
    out = written_out(Corpus(labels=LabelIndex(["a"]), Y=Y, X=X, noise=noise))
    row = noise.arrays().row
    for i, original in enumerate(row):
        assert set(out.X[i].indices) <= set(X[original].indices)
        np.testing.assert_allclose(sp.linalg.norm(out.X[i]), sp.linalg.norm(X[original]), rtol=1e-4)
        assert bool(out.X[i].nnz) == bool(X[original].nnz)


def test_the_share_of_kept_features_is_rho():
    X = sp.csr_matrix(np.ones((200, 100), dtype=np.float32))
    noise = FeatureNoise(2, 0.8, 0.0, 4, np.arange(200, dtype=np.int32))
    Y = sp.csr_matrix(np.ones((200, 1), dtype=np.float32))
    out = written_out(Corpus(labels=LabelIndex(["a"]), Y=Y, X=X, noise=noise)).X
    assert out[200:].nnz / (400 * 100) == pytest.approx(0.8, abs=0.01)
    assert out[200].indices.tolist() != out[400].indices.tolist()  # the two copies of document 0 differ


def test_draws_do_not_depend_on_which_rows_are_taken():
    corpus = synthetic(documents=60, labels=20, words=200, seed=2)
    noisy = InputDropout(tau=0).apply(corpus, Run(5))
    whole, part = written_out(noisy), written_out(noisy.rows(np.array([7, 31])))
    assert (part.X[2:4] != whole.X[[60 + 7, 60 + 31]]).nnz == 0


@pytest.mark.parametrize("learner", [Parabel(trees=1, max_leaf=30), Bonsai(trees=1, branches=8)])
def test_drawn_on_the_fly_equals_written_out(corpora, learner):
    """The same optimum up to the solver's tolerance: on a tight one, the same separators."""
    train, test = corpora
    learner.set_params(eps=0.001, max_passes=400, prune=0.0, weights="float32")
    noisy = InputSwap().apply(InputDropout().apply(train, Run(1)), Run(1))
    drawn = learner.fit(noisy, run=Run(1)).score(test, 5)
    # trees are built from the original documents, so the written-out rows must not move them
    rows = written_out(noisy)
    copies = np.arange(len(rows)) >= len(train)
    written = _fit_with_trees_of(learner, train, rows).score(test, 5)
    assert copies.any()
    np.testing.assert_allclose(drawn.values, written.values, atol=5e-3)
    plain = learner.fit(train, run=Run(1)).score(test, 5)
    assert np.abs(plain.values - drawn.values).max() > 0.05


def _fit_with_trees_of(learner, original, rows):
    from longtail.learners.linear.nodes import Documents

    fresh = type(learner)(**learner.get_params())
    shapes = fresh.shapes(Documents.of(original), Run(1))
    fresh.shapes = lambda *_: shapes
    return fresh.fit(rows, run=Run(1))


def test_the_head_of_decoupled_gets_no_copies(corpora):
    train, _ = corpora
    one = {"part": "parabel", "trees": 1}
    noisy = InputDropout().apply(train, Run())
    plain, with_copies = Decoupled(learner=one).fit(train), Decoupled(learner=one).fit(noisy)
    same = [
        a.trees_[0].weight.tobytes() == b.trees_[0].weight.tobytes()
        for a, b in zip(plain.members_, with_copies.members_, strict=True)
    ]
    assert same == [True, False]


def test_copies_lengthen_the_tails_weights(corpora):
    """What the paper's figures show: more copies, longer weight vectors of tail labels."""
    train, _ = corpora
    norms = []
    for n_aug in (0, 2, 8):
        noisy = InputDropout(n_aug=n_aug).apply(train, Run())
        tree = Decoupled(learner={"part": "parabel", "trees": 1}).fit(noisy).members_[1].trees_[0]
        norms.append(np.sqrt((tree.weight.astype(np.float64) ** 2).sum()))
    assert norms[0] < norms[1] < norms[2]


@pytest.mark.parametrize("part", ["input-dropout", "input-swap"])
def test_in_an_ordinary_run_each_noise_makes_a_model_of_its_own(corpora, part):
    """Neither that of the documents alone nor that of copies without noise."""
    train, _ = corpora

    def weights(*augment):
        return Tagger({"part": "parabel", "trees": 1}, augment=list(augment)).fit(train).learner.trees_[0].weight

    noisy = weights(part)
    assert noisy.tobytes() == weights(part).tobytes()
    for other in (weights(), weights({"part": "input-dropout", "rho": 1.0})):
        assert noisy.tobytes() != other.tobytes()


def test_taug_stands_for_its_parts(corpora):
    train, test = corpora
    tagger = Tagger({"part": "parabel", "trees": 1}, augment=["taug"])
    assert isinstance(tagger.learner, Decoupled)
    assert [type(part) for part in tagger.augment] == [InputDropout, InputSwap]
    by_hand = Tagger(
        {"part": "decoupled", "learner": {"part": "parabel", "trees": 1}}, augment=["input-dropout", "input-swap"]
    )
    a, b = (t.fit(train).score(test, 5) for t in (tagger, by_hand))
    assert a.values.tobytes() == b.values.tobytes()
    assert Taug(share=0.0).augmenters()[-1].__class__ is InputDropout


def test_learners_that_cannot_draw_get_rows(corpora):
    train, _ = corpora
    seen = {}

    class Reads(Parabel):
        @property
        def capabilities(self):
            return replace(super().capabilities, noise=False)

        def learn(self, corpus, fit):
            seen["rows"], seen["noise"] = len(corpus), corpus.noise
            return super().learn(corpus, fit)

    Tagger(Reads(trees=1), augment=["input-dropout"]).fit(replace(train))
    assert seen["noise"] is None
    assert seen["rows"] > len(train)
