"""Decoupled, Ensemble and Pipeline."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from longtail import Tagger
from longtail.corpus import Corpus
from longtail.data.synthetic import synthetic
from longtail.errors import UsageError
from longtail.labels import LabelIndex
from longtail.learners.decoupled import Decoupled, _with_tail_or_not
from longtail.learners.ensemble import Ensemble
from longtail.learners.linear.label_tree import Parabel
from longtail.learners.pipeline import Pipeline
from longtail.registry import build, config_of
from longtail.run import Run

ONE = {"part": "parabel", "trees": 1}


@pytest.fixture(scope="module")
def corpora():
    whole = synthetic(documents=1200, labels=200, words=1500, words_per_document=30, seed=5)
    train, test = whole.split(0.2, np.random.default_rng(0))
    return train.counted(), test


def test_each_side_of_decoupled_is_a_model_of_its_own_labels_and_documents(corpora):
    train, test = corpora
    learner = Decoupled(learner=ONE, tau=0.1, gate=0.0).fit(train)
    head = train.labels.head_by_share(0.1)
    assert head.sum() == 20
    columns = np.flatnonzero(~head)
    tail = train.columns(columns)
    alone = Parabel(trees=1).fit(tail.rows(np.flatnonzero(np.diff(tail.Y.indptr))), run=Run().child("tail"))
    scores, own = learner.score(test, 30), alone.score(test, 200)
    for i in range(0, len(test), 40):
        merged = {label: v for label, v in zip(scores.ids[i], scores.values[i], strict=True) if not head[label]}
        expected = {columns[label]: v for label, v in zip(own.ids[i], own.values[i], strict=True) if label >= 0}
        assert merged == pytest.approx({label: expected[label] for label in merged})


def test_decoupled_scores_stay_sorted_and_reach_both_sides(corpora):
    train, test = corpora
    scores = Decoupled(learner=ONE, tau=0.1).fit(train).score(test, 10)
    assert (np.diff(scores.values, axis=1) <= 0).all()
    head = train.labels.head_by_share(0.1)
    assert head[scores.ids].any()
    assert (~head)[scores.ids].any()


def test_the_gate_lowers_tail_scores_of_documents_without_tail_labels(corpora):
    train, test = corpora
    head = train.labels.head_by_share(0.1)
    has_tail = np.asarray(test.Y[:, np.flatnonzero(~head)].sum(axis=1)).ravel() > 0
    printed, gated = (Decoupled(learner=ONE, gate=g).fit(train).score(test, 200) for g in (0.0, 1.0))

    def best_tail(scores):
        return np.where(~head[scores.ids] & (scores.ids >= 0), scores.values, 0).max(axis=1)

    kept = best_tail(gated) / np.maximum(best_tail(printed), 1e-9)
    assert kept.max() <= 1 + 1e-6
    assert kept[has_tail].mean() > kept[~has_tail].mean() + 0.2
    heads = [
        {label: v for label, v in zip(s.ids[0], s.values[0], strict=True) if label >= 0 and head[label]}
        for s in (printed, gated)
    ]
    assert heads[0] == pytest.approx(heads[1])  # the head is left alone


def test_decoupled_by_count_and_impossible_splits(corpora):
    train, _ = corpora
    learner = Decoupled(learner=ONE, head_above=20).fit(train)
    assert learner.columns_[0].tolist() == np.flatnonzero(train.labels.frequency > 20).tolist()
    with pytest.raises(UsageError, match="the head has no labels"):
        Decoupled(learner=ONE, head_above=10**6).fit(train)
    with pytest.raises(UsageError, match="the tail has no labels with documents"):
        unseen = np.flatnonzero(train.labels.frequency == 0)
        assert len(unseen), "labels that no document has are no tail to learn"
        Decoupled(learner=ONE, head_above=0).fit(train)
    with pytest.raises(UsageError, match="unknown learner"):
        Decoupled(learner="parabell")


@pytest.mark.parametrize(("scale", "power"), [("max", 1), ("root", 0.5)])
def test_ensemble_by_hand(corpora, scale, power):
    train, test = corpora
    learner = Ensemble(members=[ONE, {"part": "one-vs-all"}], weights=[3, 1], scale=scale).fit(train)
    scores = learner.score(test, 3)
    a, b = (member.score(test, 200) for member in learner.members)
    for i in range(0, len(test), 60):
        total = {}
        for member, weight in ((a, 0.75), (b, 0.25)):
            for label, value in zip(member.ids[i][:100], member.values[i][:100], strict=True):
                total[label] = total.get(label, 0) + weight * (value / member.values[i, 0]) ** power
        best = sorted(total.items(), key=lambda item: (-item[1], item[0]))[:3]
        np.testing.assert_allclose(scores.values[i], [value for _, value in best], rtol=1e-5)


def test_members_of_one_kind_draw_different_seeds(corpora):
    train, _ = corpora
    first, second = Ensemble(members=[ONE, ONE]).fit(train).members
    assert first.trees_[0].slot_target.tolist() != second.trees_[0].slot_target.tolist()


@pytest.mark.parametrize(
    "options",
    [
        {"members": []},
        {"weights": [1.0]},
        {"weights": [0.0, 0.0]},
        {"weights": [-1.0, 2.0]},
        {"scale": "maximum"},
        {"members": ["bonsay"]},
    ],
)
def test_ensembles_that_make_no_sense_are_refused(options):
    with pytest.raises(UsageError):
        build({"part": "ensemble", **options})


def test_nested_wrappers_survive_their_own_config():
    config = {"part": "ensemble", "members": [{"part": "decoupled", "learner": ONE}, ONE]}
    part = build(config)
    assert config_of(build(config_of(part))) == config_of(part)
    assert part.members[0].learner.trees == 1


GANDALF = {"part": "pipeline", "learner": ONE, "augment": ["gandalf"], "features": "tfidf"}


@pytest.fixture
def titles():
    """One document a label, with one word of its text; the other word is in the label's text only."""
    labels = 30
    index = LabelIndex([f"label {n}" for n in range(labels)], [f"first{n} second{n}" for n in range(labels)])
    Y = sp.csr_matrix(np.eye(labels, dtype=np.float32))
    return Corpus(labels=index, Y=Y, texts=[f"first{n} noise{n % 4}" for n in range(labels)]).counted()


def first_labels(scores):
    return scores.ids[:, 0].tolist()


def test_a_pipeline_makes_features_after_texts_are_rewritten(titles):
    """As a tagger does it: words of label texts are in the vocabulary, and their rows are learnt from."""
    learner = build(GANDALF).fit(titles, run=Run(3))
    other = replace(titles, texts=[f"second{n}" for n in range(30)])
    assert first_labels(learner.score(other, 3)) == list(range(30))
    whole = Tagger(ONE, augment=["gandalf"], seed=3).fit(titles)
    mine, theirs = learner.score(other, 5), whole.score(other, 5)
    assert mine.ids.tobytes() == theirs.ids.tobytes() and mine.values.tobytes() == theirs.values.tobytes()
    plain = build({**GANDALF, "augment": []}).fit(titles, run=Run(3))
    assert first_labels(plain.score(other, 3)) != list(range(30))


def test_a_pipeline_with_features_needs_texts_and_heeds_no_others(titles):
    learner = build(GANDALF)
    assert learner.capabilities.needs == ("texts",)
    given = replace(titles, X=sp.csr_matrix(np.ones((30, 7), dtype=np.float32)))
    learner.fit(given, run=Run())
    assert learner.n_features_ is None and learner.n_labels_ == 30
    assert first_labels(learner.score(given, 1)) == first_labels(learner.score(titles, 1)) == list(range(30))
    without = Corpus(labels=titles.labels, Y=titles.Y, X=given.X, name="rows")
    with pytest.raises(UsageError, match="rows has no texts"):
        build(GANDALF).fit(without)
    with pytest.raises(UsageError, match="rows has 7 features, the model has"):
        learner.score(without, 1)


def test_a_pipeline_keeps_its_features(titles):
    learner = build(GANDALF).fit(titles, run=Run())
    state = learner.state()
    assert {name.partition(".")[0] for name in state} == {"pipeline", "learner", "features"}
    again = build(config_of(learner))
    again.restore(state)
    assert again.score(titles, 4).values.tobytes() == learner.score(titles, 4).values.tobytes()
    assert again.n_features_ is None and again.n_labels_ == 30
    for part in ("learner", "features", "pipeline"):
        with pytest.raises((ValueError, KeyError)):
            build(config_of(learner)).restore({n: a for n, a in state.items() if not n.startswith(part)})
    with pytest.raises(ValueError, match="there is no part 'other'"):
        build(config_of(learner)).restore({**state, "other": np.zeros(1)})


def test_a_label_tree_and_a_pipeline_side_by_side(titles):
    """What features are for: members of an ensemble that need not see the same rows."""
    config = {"part": "ensemble", "members": [ONE, GANDALF]}
    tagger = Tagger(config).fit(titles)
    plain, augmented = tagger.learner.members
    assert augmented.features.n_features_ > tagger.n_features_
    assert config_of(build(config_of(tagger.learner))) == config_of(tagger.learner)
    assert plain.n_features_ == tagger.n_features_


def test_augmenters_of_texts_need_features_made_after_them():
    with pytest.raises(UsageError, match="'gandalf' rewrites texts, and 'parabel' reads features that are made before"):
        Pipeline(learner=ONE, augment=["gandalf"], features=None)
    with pytest.raises(UsageError, match="unknown features"):
        Pipeline(learner=ONE, augment=[], features="tfidff")


def test_words_and_word_pairs_side_by_side_each_with_a_reranker_of_its_own(titles):
    """Pipelines nest: members of an ensemble with features, augmenters and re-rankers of their own."""
    pairs = {"part": "pipeline", "learner": ONE, "features": {"part": "tfidf", "ngrams": 2}, "augment": ["gandalf"]}
    rare = {"part": "pipeline", "learner": ONE, "rerank": [{"part": "inverse-propensity"}, "ranknet"]}
    outer = Tagger({"part": "ensemble", "members": [pairs, rare]}, augment=["gandalf"]).fit(titles)
    first, second = outer.learner.members
    assert outer.n_features_ is None, "nobody reads features of the outer pipeline: none are made"
    assert first.width_ > second.width_ and second.rerank[0].q_ is not None
    again = build(config_of(outer.learner))
    again.restore(outer.learner.state())
    assert again.score(titles, 4).values.tobytes() == outer.learner.score(titles, 4).values.tobytes()


def test_decoupled_sides_and_folds_of_a_nested_pipeline_see_documents_only(titles):
    apart = {"part": "decoupled", "learner": ONE, "tau": 0.3}
    nested = {"part": "pipeline", "learner": apart, "rerank": ["calibrated-propensity"]}
    tagger = Tagger(nested, augment=["gandalf"]).fit(titles)
    assert tagger.score(titles, 3).k == 3
    assert tagger.learner.rerank[0].counts_.tolist() == [1.0] * 30


@pytest.mark.parametrize("config", [{"part": "ensemble", "members": []}, {"part": "decoupled"}, {"part": "pipeline"}])
def test_members_must_be_learners(config):
    wrong = build("gandalf")
    given = {"members": [wrong, wrong]} if config["part"] == "ensemble" else {"learner": wrong}
    with pytest.raises(UsageError, match="'gandalf' is not a learner"):
        build({**config, **given})


def test_a_document_whose_tail_labels_are_all_masked_tells_the_gate_nothing(corpora):
    train, _ = corpora
    tail = np.flatnonzero(~train.labels.head_by_share(0.1))
    hidden = np.isin(np.arange(len(train)), np.arange(0, len(train), 3))
    row = np.repeat(np.arange(len(train)), np.diff(train.Y.indptr))
    of_tail = np.isin(train.Y.indices, tail)
    weight = np.where(hidden[row] & of_tail, 0, 1).astype(np.float32)
    gated = _with_tail_or_not(replace(train, pair_weight=weight), tail)
    unknown = hidden & (np.bincount(row[of_tail], minlength=len(train)) > 0)
    assert unknown.any()
    assert gated.pair_weight is not None
    masked = np.repeat(np.arange(len(train)), np.diff(gated.Y.indptr))[gated.pair_weight == 0]
    assert masked.tolist() == np.flatnonzero(unknown).tolist()
    known = _with_tail_or_not(train, tail)
    np.testing.assert_array_equal(known.Y.toarray()[:, 0] > 0, np.bincount(row[of_tail], minlength=len(train)) > 0)


def test_a_pipeline_inside_has_the_second_stage_of_its_learner():
    corpus = synthetic(documents=200, labels=40, words=200, texts=True, seed=4).counted()
    retune = {"part": "retune", "mask": True, "rarest": 20}
    inner = {"part": "pipeline", "learner": ONE, "augment": ["gandalf"]}

    def scores(learner, augment):
        return Tagger(learner, augment=augment).fit(corpus).score(corpus, 10)

    once, twice = scores(inner, []), scores(inner, [retune])
    assert (once.values != twice.values).any()
    together = scores({"part": "ensemble", "members": [inner, ONE]}, [retune])
    assert (together.ids >= 0).any()


def test_a_reranker_inside_that_learnt_of_the_first_stage_has_no_second():
    """What it learnt would not hold any more; one that follows from label counts alone stays as it is."""
    corpus = synthetic(documents=200, labels=40, words=200, texts=True, seed=4).counted()
    inner = {"part": "pipeline", "learner": ONE}
    retune = {"part": "retune", "mask": True, "rarest": 20}
    with pytest.raises(UsageError, match="'retune'"):
        Tagger({**inner, "rerank": ["ranknet"]}, augment=[retune])
    once, twice = (
        Tagger({**inner, "rerank": ["inverse-propensity"]}, augment=augment).fit(corpus) for augment in ([], [retune])
    )
    first, second = once.learner.rerank[0].state(), twice.learner.rerank[0].state()
    assert first and all(first[name].tobytes() == second[name].tobytes() for name in first)
    assert (once.score(corpus, 10).values != twice.score(corpus, 10).values).any()


@pytest.mark.parametrize("features", ["auto", None])
@pytest.mark.parametrize("others", [[], [ONE]])
def test_a_pipeline_inside_takes_features_that_come_with_the_data(corpora, features, others):
    train, test = (replace(corpus, texts=None) for corpus in corpora)
    inner = {"part": "pipeline", "learner": ONE, "features": features}
    tagger = Tagger({"part": "ensemble", "members": [inner, *others]}).fit(train)
    plain = Tagger({"part": "ensemble", "members": [ONE, *others]}).fit(train)
    assert tagger.learner.members[0].features_ is None
    found, expected = tagger.score(test, 5), plain.score(test, 5)
    assert (found.ids[:, 0] == expected.ids[:, 0]).mean() > 0.9  # seeds of a pipeline are its own
    with pytest.raises(UsageError, match="features"):
        tagger.predict(["a text"])
    again = build(config_of(tagger.learner))
    again.restore(tagger.learner.state())
    assert again.score(test, 5).values.tobytes() == tagger.learner.score(test, 5).values.tobytes()


def test_a_pipeline_inside_makes_features_of_texts_all_the_same(titles):
    inner = build({"part": "pipeline", "learner": ONE})
    assert inner.capabilities.needs == ("texts or X",)
    tagger = Tagger({"part": "ensemble", "members": [inner]}).fit(titles)
    assert first_labels(tagger.score(titles, 1)) == list(range(30))
    assert tagger.n_features_ is None and inner.capabilities.needs == ("texts",)
    network = {"part": "ensemble", "members": [ONE, "attentionxml"]}
    assert build({"part": "pipeline", "learner": network}).capabilities.needs == ("texts or X", "texts")


@pytest.mark.parametrize(
    "wrapped",
    [
        {"part": "ensemble", "members": ["attentionxml"]},
        {"part": "decoupled", "learner": "attentionxml"},
        {"part": "pipeline", "learner": "attentionxml"},
    ],
)
def test_vectors_of_a_classifier_are_refused_at_once_where_there_is_not_one_classifier(wrapped):
    pytest.importorskip("torch")
    Tagger("attentionxml", augment=[{"part": "retune", "vectors": 2}])
    with pytest.raises(UsageError, match="space 'classifier'"):
        Tagger(wrapped, augment=[{"part": "retune", "vectors": 2}])


def test_a_core_installation_says_which_extra_brings_what_fits(monkeypatch):
    monkeypatch.setattr("longtail.learners.parts.entries", lambda kind: [])
    with pytest.raises(UsageError, match=r"no learner that is installed does; pip install 'longtail\[neural\]'"):
        Tagger("bonsai", augment=["tailmix"])
