"""Learners of short texts as a whole: what reaches the loss, what each method is good for, and what is kept."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

torch = pytest.importorskip("torch")
pytest.importorskip("lightning")

from short_text_cases import (  # noqa: E402
    ATTENDED,
    CLUSTERS,
    INCEPTION,
    LABEL_TEXT,
    LEARNERS,
    MODULES,
    ONE,
    QUICK,
    RESIDUAL,
    TEXT_CLUSTERS,
    WEIGHTED,
    precision_at_1,
    titles,
    two_words,
)

from longtail import Tagger  # noqa: E402
from longtail.errors import UsageError  # noqa: E402
from longtail.learners.neural import by_hand  # noqa: E402
from longtail.learners.neural.base import NeuralLearner  # noqa: E402
from longtail.learners.neural.eclare import Eclare  # noqa: E402
from longtail.learners.neural.heads.label_text_network import LabelTextNetwork  # noqa: E402
from longtail.learners.neural.shortlists.grouping import grouped_by_vectors  # noqa: E402
from longtail.learners.neural.shortlists.mined import TwoHeads  # noqa: E402
from longtail.learners.neural.training import module  # noqa: E402
from longtail.learners.neural.training import network as network_module  # noqa: E402
from longtail.learners.neural.training.batches import Batch  # noqa: E402
from longtail.registry import build, config_of  # noqa: E402
from longtail.scores import Scores  # noqa: E402

#: All forms of all learners.
CASES = [
    *(pytest.param(config, id=name) for name, config in LEARNERS.items()),
    pytest.param(MODULES, id="astec-modules"),
]
#: Training of networks whose labels are those of the corpus, not clusters of them.
OF_LABELS = ("Training", "Phase I", "Phase II", "Re-ranker")


def fit(config: dict[str, Any], corpus: Any, **more: Any) -> Any:
    return build({**config, **more}).fit(corpus, run=ONE)


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(one[key].tobytes() == other[key].tobytes() for key in one)


class Trainings:
    """Watches every network that is trained: titles, networks and hooks, in order, and each batch with its logits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.titles: list[str] = []
        self.networks: list[Any] = []
        self.heads: list[Any] = []
        self.batches: list[tuple[str, Any, Any, Any]] = []
        self.starts: list[dict[str, Any]] = []
        self.ends: list[dict[str, Any]] = []
        training, loss_of = NeuralLearner.train_network, network_module.loss_of
        watch = self

        def train(learner: Any, network: Any, task: Any) -> None:
            watch.titles.append(task.title)
            watch.networks.append(network)
            watch.starts.append({name: value.clone() for name, value in network.state_dict().items()})
            training(learner, network, task)
            watch.ends.append({name: value.clone() for name, value in network.state_dict().items()})

        def loss(logits: Any, batch: Any) -> Any:
            found = loss_of(logits, batch)
            watch.batches.append((watch.titles[-1], batch, logits.detach().clone(), found.detach().clone()))
            return found

        # the general way is watched; test_neural_by_hand.py holds DECAF's own to it
        monkeypatch.setattr(by_hand, "suits", lambda *given: False)
        monkeypatch.setattr(NeuralLearner, "train_network", train)
        monkeypatch.setattr(network_module, "loss_of", loss)


@pytest.mark.parametrize("config", CASES)
def test_soft_targets_reach_the_loss(config: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Every label of every document of every step, with its target and weight, and the loss of just those."""
    corpus = titles(soft=True)
    weights = np.where(np.arange(corpus.Y.nnz) % 7 == 0, 0.5, 1).astype(np.float32)
    corpus = replace(corpus, pair_weight=weights)
    weight_of = np.ones(corpus.Y.shape, dtype=np.float32)
    weight_of[corpus.Y.nonzero()] = weights
    dense = corpus.Y.toarray()
    seen = Trainings(monkeypatch)
    fit(config, corpus)
    checked = 0
    for title, batch, logits, found in seen.batches:
        if title not in OF_LABELS:
            continue
        labels = batch.labels.expand(len(batch), -1) if batch.shared else batch.labels
        own = batch.weights.numpy()
        targets, counts = dense[batch.rows[:, None], labels], weight_of[batch.rows[:, None], labels]
        there = own > 0
        assert (batch.targets.numpy()[there] == targets[there]).all()
        assert (own[there] == counts[there]).all()
        for number, row in enumerate(batch.rows):
            mine = labels[number][there[number]].tolist()
            assert len(mine) == len(set(mine)) and set(np.flatnonzero(dense[row])) <= set(mine)
        z, y, w = logits.double(), batch.targets.double(), batch.weights.double()
        expected = -(w * (y * z.sigmoid().log() + (1 - y) * (-z).sigmoid().log())).sum() / len(batch)
        assert float(found) == pytest.approx(float(expected), rel=1e-4)
        checked += bool(((batch.targets > 0) & (batch.targets < 1)).any())
    assert checked >= 4, "fractions were among them"


@pytest.mark.parametrize("augment", [[], ["gandalf"], ["labelmix"]], ids=["plain", "gandalf", "labelmix"])
@pytest.mark.parametrize("config", CASES)
def test_fitted_saved_and_loaded(config: dict[str, Any], augment: list[str], tmp_path: Path) -> None:
    corpus = titles()
    tagger = Tagger(config, augment=augment, threads=1).fit(corpus)
    scores = tagger.score(corpus, 5)
    assert (scores.ids[:, 0] >= 0).all() and np.isfinite(scores.values).all()
    tagger.save(tmp_path / "model")
    again = Tagger.load(tmp_path / "model").score(corpus, 5)
    assert again.ids.tobytes() == scores.ids.tobytes() and again.values.tobytes() == scores.values.tobytes()
    if augment:
        plain = fit(config, corpus)
        assert not same(tagger.learner.state(), plain.state()), "it does something"


@pytest.mark.parametrize("config", CASES)
def test_training_ends_where_validation_gets_worse(config: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    seen, corpus, more = Trainings(monkeypatch), titles(), {"epochs": 8}
    if config is MODULES:
        more["rerank_epochs"] = 8
    fit(config, corpus, **more)
    full = [title for title, *_ in seen.batches]
    seen.batches.clear()
    figures: list[float] = []

    def worse_and_worse(scores: Any, valid: Any, metric: str) -> float:
        figures.append(1 / (1 + len(figures)))
        return figures[-1]

    monkeypatch.setattr(module, "measure", worse_and_worse)
    build({**config, **more, "patience": 1}).fit(corpus, valid=corpus, run=ONE)
    stopped = [title for title, *_ in seen.batches]
    trained = set(full) & {"Training", "Phase II", "Re-ranker"}
    assert trained
    for title in trained:
        assert 0 < stopped.count(title) < full.count(title), title


# what each method is good for
ENOUGH = {"least_steps": 60, "epochs": 1, "batch": 8}
READS_TEXTS = ["decaf", "decaf, clusters", "eclare", "inceptionxml-lf", "inceptionxml-lf, clusters"]


@pytest.mark.parametrize("name", READS_TEXTS)
def test_label_texts_tell_which_words_belong_together(name: str) -> None:
    """One document a label, and a test document with the other word of its text: only the text can tell."""
    train, test = two_words()
    wrong, _ = two_words(shuffled=True)
    config = {**LEARNERS[name], **ENOUGH}
    if name == "inceptionxml-lf, clusters":  # whose clusters have no texts: all of them are looked at
        config |= {"shortlist": {**CLUSTERS, "candidates": 40, "joint": False}, "epochs": 2}
    assert precision_at_1(fit(config, train), test) > 0.8
    assert precision_at_1(fit(config, wrong), test) < 0.2


@pytest.mark.parametrize("name", ["astec", "inceptionxml"])
def test_without_label_texts_there_is_gandalf(name: str) -> None:
    train, test = two_words()
    wrong, _ = two_words(shuffled=True)
    config = {**LEARNERS[name], **ENOUGH, "least_steps": 100}

    def precision(corpus: Any, augment: list[str]) -> float:
        return precision_at_1(Tagger(config, augment=augment, threads=1).fit(corpus).learner, test)

    assert precision(train, []) < 0.2
    assert precision(train, ["gandalf"]) > 0.8
    assert precision(wrong, ["gandalf"]) < 0.2


def test_neighbours_texts_tell_of_a_label_without_words() -> None:
    """Labels in pairs that occur together: of the second one only the text of the first tells anything."""
    pairs = 15
    train, test = two_words(pairs)
    twice = sp.csr_matrix(sp.hstack([train.Y, train.Y]))
    texts = [*(train.labels.texts or []), *["nothing"] * pairs]
    labels = type(train.labels)([f"label {n}" for n in range(2 * pairs)], texts)
    train = replace(train, labels=labels, Y=twice).counted()
    none = sp.csr_matrix(test.Y.shape, dtype=np.float32)
    test = replace(test, labels=train.labels, Y=sp.csr_matrix(sp.hstack([none, test.Y])))

    def place(graph: bool) -> float:
        """Mean place of the second label of the pair."""
        learner = fit(LEARNERS["eclare"], train, **ENOUGH, head={**LABEL_TEXT, "graph": graph, "free": False})
        ids = learner.score(test, 2 * pairs, run=ONE).ids
        return float((ids == pairs + np.arange(pairs)[:, None]).argmax(axis=1).mean())

    assert place(graph=True) < 3
    assert place(graph=False) > 6


def test_order_matters_to_convolutions_only() -> None:
    corpus = titles()
    turned = replace(corpus, texts=[" ".join(reversed(text.split())) for text in corpus.texts or []])
    bag, convolved = (fit(LEARNERS[name], corpus) for name in ("astec", "inceptionxml"))
    one, other = (bag.score(given, 12, run=ONE).values for given in (corpus, turned))
    np.testing.assert_allclose(one, other, atol=1e-6)
    one, other = (convolved.score(given, 12, run=ONE).values for given in (corpus, turned))
    assert np.abs(one - other).max() > 1e-5


#: Options whose change changes what is learnt or scored, beside those that the tests above are about.
CHANGES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("decaf, clusters", {"shortlist": {**CLUSTERS, "blocks": False, "texts": True}}, {}),
    ("decaf, clusters", {"shortlist": {**TEXT_CLUSTERS, "blocks": True}}, {}),
    ("decaf, clusters", {"shortlist": {**TEXT_CLUSTERS, "texts": False}}, {}),
    ("decaf, clusters", {"shortlist": {**TEXT_CLUSTERS, "size": 2}}, {}),
    ("decaf, clusters", {"shortlist": {**TEXT_CLUSTERS, "candidates": 1}}, {}),
    ("decaf, clusters", {"shortlist": {**TEXT_CLUSTERS, "head_labels": 3}}, {}),
    ("inceptionxml, clusters", {"start": "random"}, {}),
    ("eclare, clusters", {"head": {**ATTENDED, "start": "zero"}}, {}),
    ("inceptionxml, clusters", {"shortlist": {**CLUSTERS, "detached": 1.0}}, {"shortlist": CLUSTERS}),
    ("inceptionxml-lf, clusters", {"first_phase": 0.0}, {}),
    ("inceptionxml-lf", {"encoder": {**INCEPTION, "routed": False}}, {}),
    ("inceptionxml-lf, clusters", {"encoder": {**INCEPTION, "routed": True, "enhance": True}}, {}),
    ("eclare, clusters", {"shortlist": {**TEXT_CLUSTERS, "anew": True}}, {}),
    ("eclare, clusters", {"shortlist": {**TEXT_CLUSTERS, "frozen": True}}, {}),
    ("inceptionxml-lf", {"head": {**RESIDUAL, "graph": True, "gelu": True}}, {}),
    ("astec", {"encoder": {**WEIGHTED, "rectified": True}}, {}),
    ("astec", {"encoder": {**WEIGHTED, "residual": True}}, {}),
    ("astec", {"encoder": {**WEIGHTED, "dropout_words": 0.3}}, {}),
]


@pytest.mark.parametrize(("name", "changed", "base"), CHANGES, ids=lambda value: str(value)[:40])
def test_options_do_something(name: str, changed: dict[str, Any], base: dict[str, Any]) -> None:
    corpus = titles()
    config = {**LEARNERS[name], **base}
    one, other = (fit({**config, **more}, corpus).score(corpus, 6, run=ONE) for more in ({}, changed))
    assert one.values.tobytes() != other.values.tobytes()


def test_joint_scores_are_products() -> None:
    corpus = titles()
    learner = fit(LEARNERS["decaf, clusters"], corpus)
    joint = learner.score(corpus, 12, run=ONE).to_csr(12).toarray()
    learner.shortlist.joint = False
    alone = learner.score(corpus, 12, run=ONE).to_csr(12).toarray()
    there = joint > 0
    assert (there == (alone > 0)).all()
    factor = np.where(there, joint / np.where(there, alone, 1), 0)
    for cluster in range(learner.shortlist.cluster_.max() + 1):
        own = factor[:, learner.shortlist.cluster_ == cluster]
        np.testing.assert_allclose(own, np.broadcast_to(own[:, :1], own.shape), rtol=1e-4)


class TestClusters:
    def test_balanced_and_kept(self) -> None:
        corpus = titles()
        learner = fit(LEARNERS["decaf, clusters"], corpus)
        sizes = np.bincount(learner.shortlist.cluster_)
        assert sizes.max() <= 3 and sizes.min() >= 1 and sizes.sum() == 12
        assert isinstance(learner.network_.head, TwoHeads)
        assert not any(isinstance(part, LabelTextNetwork) for part in learner.network_.modules()), "folded"

    @pytest.mark.parametrize("wrong", ["missing", "too many", "negative", "too large", "other type"])
    def test_clusters_that_do_not_fit_are_refused(self, wrong: str) -> None:
        corpus = titles()
        learner = fit(LEARNERS["decaf, clusters"], corpus)
        state = learner.state()
        cluster = state.pop("shortlist.cluster")
        if wrong == "too many":  # of a model whose options have none
            learner = fit(LEARNERS["decaf"], corpus)
            state = {**learner.state(), "shortlist.cluster": cluster}
        elif wrong != "missing":
            changed = cluster.astype(np.int64) if wrong == "other type" else cluster.copy()
            changed[3] = {"negative": -1, "too large": 12}.get(wrong, changed[3])
            state["shortlist.cluster"] = changed
        with pytest.raises(ValueError, match="cluster"):
            build(config_of(learner)).restore(state)

    def test_clusters_have_texts_of_their_own_for_decaf_only(self, monkeypatch: pytest.MonkeyPatch) -> None:
        seen = Trainings(monkeypatch)
        for name in ("decaf, clusters", "inceptionxml, clusters"):
            fit(LEARNERS[name], titles())
        surrogate, both, plain = seen.networks
        assert seen.titles == ["Training clusters", "Training", "Training"]
        assert isinstance(surrogate.head, LabelTextNetwork) and surrogate.head.n_labels == 4
        assert surrogate.encoder is both.encoder and surrogate.head is not both.head
        assert not isinstance(plain.head.clusters, LabelTextNetwork)
        # clusters go on with what the surrogate task taught them
        assert torch.equal(seen.starts[1]["head.clusters.bias.weight"], seen.ends[0]["head.bias.weight"])

    def test_words_stand_still_after_the_surrogate_task(self, monkeypatch: pytest.MonkeyPatch) -> None:
        seen, words = Trainings(monkeypatch), "encoder.words.weight"
        for frozen in (True, False):
            shortlist = {**TEXT_CLUSTERS, "frozen": frozen}
            learner = fit(LEARNERS["decaf, clusters"], titles(), shortlist=shortlist)
            assert not torch.equal(seen.starts[-2][words], seen.ends[-2][words]), "words learn from clusters"
            assert torch.equal(seen.starts[-1][words], seen.ends[-1][words]) == frozen
            vectors = "head.labels.vectors.weight"
            assert not torch.equal(seen.starts[-1][vectors], seen.ends[-1][vectors]), "labels learn in either case"
            assert learner.network_.encoder.words.weight.requires_grad, "whoever trains it next may train words"

    def test_clusters_are_made_anew_by_what_was_learnt(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """By the vectors that the encoder makes of documents after the surrogate task, whose classifier is gone."""
        seen, found = Trainings(monkeypatch), []
        training = NeuralLearner.train_network

        def train(learner: Any, network: Any, task: Any) -> None:
            found.append(learner.shortlist.cluster_.copy())
            training(learner, network, task)

        # the general way is watched; test_neural_by_hand.py holds DECAF's own to it
        monkeypatch.setattr(by_hand, "suits", lambda *given: False)
        monkeypatch.setattr(NeuralLearner, "train_network", train)
        corpus = titles()
        learner = fit(LEARNERS["decaf, clusters"], corpus, shortlist={**TEXT_CLUSTERS, "anew": True, "frozen": True})
        assert seen.titles == ["Training clusters", "Training"]
        assert found[0].tolist() != found[1].tolist() == learner.shortlist.cluster_.tolist()
        vectors = network_module.vectors_of(learner.network_, learner.encoder.tokens(corpus.texts, ONE))
        assert found[1].tolist() == grouped_by_vectors(vectors, corpus, None, 3, ONE).tolist()
        words = seen.ends[0]["encoder.words.weight"].numpy()
        starts = seen.starts[1]["head.labels.vectors.weight"].numpy()
        texts = learner._label_facts(corpus, ONE).texts @ words
        np.testing.assert_allclose(starts, texts, rtol=1e-4, atol=1e-6, err_msg="free vectors start from learnt words")
        first = seen.networks[0].head, seen.ends[0]["head.bias.weight"]
        assert seen.networks[1].head.clusters is not first[0]
        assert not torch.equal(seen.starts[1]["head.clusters.bias.weight"], first[1])

    @pytest.mark.parametrize("option", ["frozen", "anew"])
    def test_nothing_is_done_anew_without_a_surrogate_task(self, option: str) -> None:
        with pytest.raises(UsageError, match=f"label-clusters.{option} counts only where surrogate is at least 1"):
            build({**CLUSTERS, option: True})
        with pytest.raises(UsageError, match=f"label-clusters.{option} "):
            build({"part": "attentionxml", "encoder": {"part": "bilstm", "train_vectors": False},
                   "shortlist": {**CLUSTERS, "surrogate": 1, option: True}})  # fmt: skip


class TestAstecModules:
    def test_networks_in_order(self, monkeypatch: pytest.MonkeyPatch) -> None:
        seen = Trainings(monkeypatch)
        learner = fit(MODULES, titles())
        assert seen.titles == ["Words by clusters", "Training", "Re-ranker"]
        words, classifier, reranker = seen.networks
        assert words.head.bias.weight.shape[0] == 4 and words.encoder.block is None
        assert classifier is learner.network_ and reranker is learner.reranker_
        assert classifier.encoder.block is not None and reranker.encoder.block is not None
        given = seen.ends[0]["encoder.words.weight"]
        assert not torch.equal(given, seen.starts[0]["encoder.words.weight"]), "words learn from clusters"
        assert torch.equal(seen.starts[1]["encoder.words.weight"], given)
        assert torch.equal(seen.ends[1]["encoder.words.weight"], given), "and stand still thereafter"
        assert not torch.equal(seen.ends[2]["encoder.words.weight"], seen.starts[2]["encoder.words.weight"])
        assert not torch.equal(seen.starts[2]["encoder.words.weight"], given), "the re-ranker has words of its own"

    def test_centroids(self) -> None:
        corpus = titles()
        learner = fit(MODULES, corpus, centroids=1, many=7500)
        from longtail.learners.neural.training.network import vectors_of

        vectors = vectors_of(learner.network_, learner.encoder.tokens(corpus.texts, ONE))
        for label in range(12):
            own = np.flatnonzero(corpus.Y[:, label].toarray().ravel())
            found = learner.near_.centroids[label]
            np.testing.assert_allclose(found, vectors[own].mean(axis=0), rtol=1e-4, atol=1e-6)

    def test_the_re_ranker_has_a_say(self) -> None:
        corpus = titles()
        learner = fit(MODULES, corpus)
        both = learner.score(corpus, 4, run=ONE)
        kept, learner.reranker_ = learner.reranker_, None
        assert learner.score(corpus, 4, run=ONE).values.tobytes() != both.values.tobytes()
        learner.reranker_, learner.rerank_share = kept, 0.0
        without = fit({name: value for name, value in MODULES.items() if name != "hard"}, corpus, rerank_epochs=0)
        first, second = learner.score(corpus, 4, run=ONE), without.score(corpus, 4, run=ONE)
        np.testing.assert_allclose(first.values, second.values, rtol=1e-5)

    def test_only_labels_of_the_shortlist(self) -> None:
        corpus = titles()
        learner = fit(MODULES, corpus)
        tokens = learner.encoder.tokens(corpus.texts, ONE)
        lists, _ = learner._nearest(learner.near_.opened(ONE), learner.network_, tokens)
        scores = learner.score(corpus, 12, run=ONE)
        assert lists.shape == (len(corpus), 5)
        for own, ids in zip(lists, scores.ids, strict=True):
            assert set(ids[ids >= 0].tolist()) == set(own.tolist())
        assert scores.values[:, 0] == pytest.approx(scores.values[:, 0].clip(0, 1))

    @pytest.mark.parametrize("change", ["cut", "type", "no re-ranker"])
    def test_arrays_that_do_not_fit_are_refused(self, change: str) -> None:
        learner = fit(MODULES, titles())
        state = learner.state()
        if change == "cut":
            state["centroids"] = state["centroids"][:-1]
        elif change == "type":
            state["centroids"] = state["centroids"].astype(np.float64)
        else:
            state = {name: array for name, array in state.items() if not name.startswith("reranker.")}
        with pytest.raises(ValueError):
            build(config_of(learner)).restore(state)

    def test_nearest_documents_and_centroids_change_shortlists(self) -> None:
        corpus = titles()
        plain = {name: value for name, value in MODULES.items() if name not in ("documents", "centroids", "many")}
        learner = fit(MODULES, corpus)
        assert len(learner.near_.label) > 12 and len(learner.near_.documents) == len(corpus)
        tokens = learner.encoder.tokens(corpus.texts, ONE)

        def lists(config: dict[str, Any]) -> Any:
            made = fit(config, corpus)
            return made._nearest(made.near_.opened(ONE), made.network_, tokens)[1]

        found = [lists({**plain, **more}).tobytes() for more in ({}, {"documents": 4}, {"centroids": 2, "many": 5})]
        assert len(set(found)) == 3

    @pytest.mark.parametrize(("option", "needs"), [("documents_share", "documents"), ("many", "centroids")])
    def test_options_that_nothing_reads_are_refused(self, option: str, needs: str) -> None:
        with pytest.raises(UsageError, match=f"astec-modules.{option} counts only where {needs} is at least"):
            build({"part": "astec-modules", option: 1})


class TestInceptionXMLLF:
    def test_two_last_convolutions_are_learnt(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """One by the labels' loss, one by the clusters'; without clusters there is nothing for the second to do."""
        seen = Trainings(monkeypatch)
        learner = fit(LEARNERS["inceptionxml-lf, clusters"], titles())
        for name in ("encoder.gather.weight", "encoder.gather_clusters.weight"):
            assert not torch.equal(seen.starts[1][name], seen.ends[1][name])
        width = learner.network_.encoder.width
        tokens = learner.encoder.tokens(["topic1"], ONE)
        ids = torch.from_numpy(tokens.padded([0]))
        batch = Batch(np.array([0]), ids, ids > 0, ids, ids)
        hidden, heads = learner.network_.encoder(batch), learner.network_.head
        assert hidden.shape == (1, 2 * width)
        swapped = torch.cat([hidden[:, :width], hidden[:, :width]], dim=1)
        every = torch.arange(4)
        assert not torch.allclose(
            heads.cluster_logits(hidden, batch.mask, every), heads.cluster_logits(swapped, batch.mask, every)
        ), "clusters are told by the vector of their own"
        for shortlist in ("all-labels", {**CLUSTERS, "surrogate": 1}):
            with pytest.raises(UsageError, match=r"inception\.decoupled counts only where labels and clusters"):
                build({**LEARNERS["inceptionxml-lf, clusters"], "shortlist": shortlist})

    def test_two_phases(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """No free vectors in the first; clusters made anew from the texts for the second, which starts from them."""
        seen = Trainings(monkeypatch)
        found = []
        clustered = build(LEARNERS["inceptionxml-lf, clusters"])
        training = NeuralLearner.train_network

        def train(learner: Any, network: Any, task: Any) -> None:
            found.append(learner.shortlist.cluster_.copy())
            training(learner, network, task)

        # the general way is watched; test_neural_by_hand.py holds DECAF's own to it
        monkeypatch.setattr(by_hand, "suits", lambda *given: False)
        monkeypatch.setattr(NeuralLearner, "train_network", train)
        clustered.fit(titles(labels=12), run=ONE)
        assert seen.titles == ["Phase I", "Phase II"]
        first, second = (network.head for network in seen.networks)
        assert seen.networks[0].encoder is seen.networks[1].encoder
        assert not any("labels.vectors" in name for name in seen.starts[0])
        assert any("labels.vectors" in name for name in seen.starts[1])
        assert found[0].tolist() != found[1].tolist(), "clusters are made anew"
        assert first is not second and first.clusters is not second.clusters
        words = seen.ends[0]["encoder.words.weight"]
        assert torch.equal(seen.starts[1]["encoder.words.weight"], words), "words go on"
        learner = clustered
        texts = learner._label_facts(titles(), ONE).texts
        expected = texts @ words.numpy()
        given = seen.starts[1]["head.labels.vectors.weight"].numpy()
        width = expected.shape[1]
        np.testing.assert_allclose(given[:, :width], expected, rtol=1e-4, atol=1e-5)
        assert torch.equal(seen.starts[1]["head.labels.bias.weight"], seen.ends[0]["head.labels.bias.weight"])

    def test_one_phase(self, monkeypatch: pytest.MonkeyPatch) -> None:
        seen = Trainings(monkeypatch)
        fit(LEARNERS["inceptionxml-lf"], titles(), first_phase=0.0)
        assert seen.titles == ["Phase II"]

    def test_epochs_are_shared_out(self, monkeypatch: pytest.MonkeyPatch) -> None:
        seen = Trainings(monkeypatch)
        fit(LEARNERS["inceptionxml-lf"], titles(), first_phase=0.5, epochs=4, least_steps=1)
        steps = [sum(title == phase for title, *_ in seen.batches) for phase in ("Phase I", "Phase II")]
        assert steps == [6, 6]  # two epochs of three batches each


class TestEclare:
    def learner(self, traverse: float, graph: Any = None) -> Eclare:
        learner = fit(LEARNERS["eclare"], titles(labels=3, documents=12), traverse=traverse)
        if graph is not None:
            learner.graph_ = sp.csr_matrix(np.array(graph, dtype=np.float32))
        assert isinstance(learner, Eclare)
        return learner

    def test_scores_travel_along_the_graph(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """(0.8, 0, 0.2) along edges 0 -> 1 of 0.5 and 2 -> 2 of 1 is (0, 0.4, 0.2); a quarter of the mixture."""
        learner = self.learner(0.25, [[0, 0.5, 0], [0, 0, 0], [0, 0, 1]])
        own = Scores(np.array([[0, 2, -1]], dtype=np.int32), np.array([[0.8, 0.2, 0]], dtype=np.float32))
        monkeypatch.setattr(type(learner).__mro__[1], "_score", lambda *given: own)
        found = learner._score(None, 3, ONE)  # type: ignore[arg-type]
        assert found.ids.tolist() == [[0, 2, 1]]
        np.testing.assert_allclose(found.values, [[0.6, 0.2, 0.1]], rtol=1e-6)

    def test_scores_stay_probabilities(self) -> None:
        learner = self.learner(1.0, np.full((3, 3), 5.0))
        assert learner.score(titles(labels=3), 3, run=ONE).values.max() == 1

    def test_no_traverse_no_graph(self) -> None:
        learner = self.learner(0.0)
        assert learner.graph_ is None and not any(name.startswith("graph") for name in learner.state())

    def test_the_graph_is_kept(self) -> None:
        learner = self.learner(0.5)
        again: Any = build(config_of(learner))
        again.restore(learner.state())
        assert learner.graph_ is not None and (again.graph_ != learner.graph_).nnz == 0

    @pytest.mark.parametrize(
        "damage",
        [
            "graph_start missing", "graph_label missing", "graph_weight missing", "start falls", "start too short",
            "start not from 0", "end beyond", "label negative", "label too large", "weight negative", "weight nan",
            "weight type", "label type", "start type",
        ],
    )  # fmt: skip
    def test_a_graph_that_does_not_fit_is_refused(self, damage: str) -> None:
        learner = self.learner(0.5, [[0, 0.5, 0], [0.1, 0, 0], [0, 0, 1]])
        state = {name: array.copy() for name, array in learner.state().items()}
        start, label, weight = (f"graph_{name}" for name in ("start", "label", "weight"))
        if damage.endswith("missing"):
            del state[damage.split(maxsplit=1)[0]]
        elif damage == "start falls":
            state[start] = np.array([0, 2, 1, 3])
        elif damage == "start too short":
            state[start] = state[start][:-1]
        elif damage == "start not from 0":
            state[start][0] = -1
        elif damage == "end beyond":
            state[start][-1] = 4
        elif damage == "label negative":
            state[label][0] = -1
        elif damage == "label too large":
            state[label][0] = 3
        elif damage == "weight negative":
            state[weight][0] = -1
        elif damage == "weight nan":
            state[weight][0] = np.nan
        else:
            name = f"graph_{damage.split(maxsplit=1)[0]}"
            state[name] = state[name].astype({start: np.int32, label: np.int64, weight: np.float64}[name])
        with pytest.raises(ValueError, match="label graph"):
            build(config_of(learner)).restore(state)


def test_gandalfs_rows_are_not_counted_as_documents() -> None:
    """Clusters of their own are for labels with many documents; rows made of label texts are none."""
    corpus = titles()
    tagger = Tagger({**QUICK, "part": "decaf", "head": LABEL_TEXT, "shortlist": {**CLUSTERS, "head_labels": 3}},
                    augment=["gandalf"], threads=1)  # fmt: skip
    learner: Any = tagger.fit(corpus).learner
    alone = corpus.labels.frequency > 3
    assert np.bincount(learner.shortlist.cluster_)[learner.shortlist.cluster_[alone]].tolist() == [1] * int(alone.sum())


def test_predicting_does_not_import_what_only_training_needs(tmp_path: Path) -> None:
    corpus = titles(40)
    Tagger(LEARNERS["decaf"]).fit(corpus).save(tmp_path / "model")
    code = (
        "import sys; from longtail import Tagger; "
        f"found = Tagger.load({str(tmp_path / 'model')!r}).predict(['some title'], k=1); "
        "print(len(found), 'lightning' in sys.modules, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "False", "False"]
