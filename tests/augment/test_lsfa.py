"""LSFA: what it stores, what it draws, whose weights it moves, what it keeps, and what it refuses."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

torch = pytest.importorskip("torch")
pytest.importorskip("lightning")

from test_retune import attention, network_corpus  # noqa: E402

from longtail.augment.base import LabelVectors  # noqa: E402
from longtail.augment.label_features import LabelFeatures  # noqa: E402
from longtail.augment.lsfa import Lsfa  # noqa: E402
from longtail.corpus import Corpus  # noqa: E402
from longtail.errors import ModelError, UsageError  # noqa: E402
from longtail.fit import Fit  # noqa: E402
from longtail.labels import LabelIndex  # noqa: E402
from longtail.learners.neural.second_stage import positive_loss  # noqa: E402
from longtail.registry import build  # noqa: E402
from longtail.run import Run  # noqa: E402
from longtail.tagger import Tagger  # noqa: E402

ONE = Run(threads=1)
#: Quick, and with head and tail on the small corpus.
QUICK: dict[str, Any] = {"part": "lsfa", "threshold": 8, "epochs": 3, "hidden": 16, "latent": 4}
GENERATORS = ("pvae", "covariance", "noise", "copies", "none")


def lsfa(**options: Any) -> dict[str, Any]:
    pvae = options.get("generator", "pvae") == "pvae"
    base = QUICK if pvae else {"part": "lsfa", **({} if options["generator"] == "none" else {"threshold": 8})}
    return {**base, "contrastive": None, **options}


def fitted(*augment: dict[str, Any], corpus: Corpus | None = None, **options: Any) -> Tagger:
    given = network_corpus() if corpus is None else corpus
    return Tagger(attention(**options), augment=list(augment), threads=1).fit(given)


def test_equation_19_by_hand() -> None:
    """Logits 0 and ln 3: probabilities 1/2 and 3/4."""
    found = positive_loss(torch.tensor([0.0, math.log(3)]))
    assert float(found) == pytest.approx(-math.log(0.5) - math.log(0.75), abs=1e-6)
    assert float(found) == pytest.approx(0.980829, abs=1e-6)


# --- features


@pytest.mark.parametrize("document", [True, False])
def test_features_are_those_of_positive_pairs_in_label_order(document: bool) -> None:
    corpus = network_corpus()
    learner = fitted(head={"part": "label-attention", "document": document}).learner
    features = LabelFeatures.collected(corpus, learner, ONE)
    assert isinstance(features.values, np.memmap) and features.values.dtype == np.float16
    assert len(features.values) == corpus.Y.nnz, "nothing sized documents x labels"
    assert features.counts.tolist() == corpus.labels.frequency.tolist()
    by_label = corpus.Y.tocsc()
    labels = np.repeat(np.arange(12), np.diff(by_label.indptr))
    contexts = learner.contexts(corpus, by_label.indices.astype(np.int64), labels, run=ONE)
    assert features.width == contexts.shape[1] + (learner.network_.head.word_width if document else 0)
    np.testing.assert_allclose(features.values[:, : contexts.shape[1]], contexts, atol=2e-3)


@pytest.mark.parametrize("classifier", ["own", "shared", "vector", "layered"])
@pytest.mark.parametrize("document", [True, False])
def test_a_feature_is_all_that_makes_the_score(classifier: str, document: bool) -> None:
    corpus = network_corpus()
    head = {"part": "label-attention", "document": document, "classifier": classifier}
    learner = fitted(head=head).learner
    documents, labels = np.array([7, 3, 7, 60]), np.array([0, 5, 1, 0])
    into = np.empty((4, learner.feature_size), dtype=np.float32)
    learner.label_features(corpus, documents, labels, into, run=ONE)
    with torch.no_grad():
        logits = learner.network_.head.classify(torch.from_numpy(into), torch.from_numpy(labels))
    scores = learner.score(corpus, 12, run=ONE).to_csr(12).toarray()[documents, labels]
    np.testing.assert_allclose(torch.sigmoid(logits).numpy(), scores, atol=1e-5)


# --- what it does


@pytest.mark.parametrize("generator", GENERATORS)
def test_first_stage_and_encoder_stand_still(generator: str) -> None:
    plain, tuned = fitted().learner.state(), fitted(lsfa(generator=generator)).learner.state()
    moved = {name for name in plain if plain[name].tobytes() != tuned[name].tobytes()}
    assert moved and all(name.startswith("network.head.") and "queries" not in name for name in moved)


def test_examples_of_a_label_move_its_weights_alone() -> None:
    corpus = network_corpus()

    def tuned(vectors: LabelVectors | None) -> dict[str, np.ndarray]:
        learner: Any = build(attention()).fit(corpus, run=ONE)
        learner.retune(corpus, Fit(ONE), vectors)
        return learner.state()

    rng = np.random.default_rng(0)
    width = build(attention()).fit(corpus, run=ONE).feature_size
    given = LabelVectors(np.full(40, 9), rng.normal(0, 2, (40, width)).astype(np.float32))
    before, after = tuned(None), tuned(given)
    for name in before:
        rows = np.flatnonzero((before[name] != after[name]).reshape(len(before[name]), -1).any(axis=1))
        tuned_too = name in {f"network.head.{own}.weight" for own in ("vectors", "bias", "document")}
        assert rows.tolist() == ([9] if tuned_too else []), name


@pytest.mark.parametrize("generator", ["pvae", "covariance", "noise", "copies"])
def test_it_acts(generator: str) -> None:
    """What a no-op would not do: rare labels score higher than after tuning alone."""
    corpus = network_corpus()
    rare = np.flatnonzero((corpus.labels.frequency < 8) & (corpus.labels.frequency > 0))
    assert len(rare)

    def mean_of_rare(options: dict[str, Any]) -> float:
        scores = fitted(options).score(corpus, 12).to_csr(12).toarray()
        return float(scores[:, rare].mean())

    assert mean_of_rare(lsfa(generator=generator, times=50)) > mean_of_rare(lsfa(generator="none"))


def test_the_contrastive_loss_is_part_of_it() -> None:
    with_loss = {**QUICK, "contrastive": {"part": "contrastive", "start": 0.0}}
    tagger = fitted(with_loss)
    assert tagger.augment[0].contrastive.pairs_ > 0
    assert tagger.learner.state()["network.head.queries.weight"].tobytes() != (
        fitted(lsfa()).learner.state()["network.head.queries.weight"].tobytes()
    )
    with pytest.raises(UsageError, match="'wordmix' is no loss on context vectors: take 'contrastive'"):
        Lsfa(contrastive="wordmix")


@pytest.mark.parametrize(
    "options", [{"draws": "once"}, {"passes": "in-turns"}, {"weight": 5.0}, {"times": 40}, {"boundary": "up-to"}]
)
def test_ways_of_drawing_differ(options: dict[str, Any]) -> None:
    longer = {"retune_epochs": 3}
    seven = {"generator": "covariance", "threshold": 7}  # which one label has
    base = fitted(lsfa(**seven), **longer).learner.state()
    other = fitted(lsfa(**seven, **options), **longer).learner.state()
    assert any(base[name].tobytes() != other[name].tobytes() for name in base)


@pytest.mark.parametrize("head", [{"classifier": "shared"}, {"classifier": "layered"}, {"document": False}])
def test_other_classifiers(head: dict[str, Any]) -> None:
    tagger = fitted(lsfa(), head={"part": "label-attention", **head})
    assert np.isfinite(tagger.score(network_corpus(), 5).values).all()


def test_in_a_tree_of_labels() -> None:
    tree = {"tree": "always", "branches": 2, "top": 4, "candidates": 3}
    tagger = fitted(lsfa(), **tree)
    assert tagger.augment[0].prototypes_.shape[0] == 12


@pytest.mark.parametrize("learner", ["laroberta", "lsan"])
def test_other_learners_with_features(learner: str) -> None:
    tagger = Tagger({**attention(), "part": learner}, augment=[QUICK], threads=1).fit(network_corpus())
    part = tagger.augment[0]
    assert part.prototypes_.shape == (12, tagger.learner.feature_size) and part.contrastive.pairs_ > 0


# --- head and tail


def test_head_and_tail() -> None:
    counts = np.array([0, 1, 4, 5, 6])
    head, tail = Lsfa(threshold=5).parted(counts)
    assert tail.tolist() == [False, True, True, False, False] and head.tolist() == [False, False, False, True, True]
    head, tail = Lsfa(threshold=5, boundary="up-to").parted(counts)
    assert tail.tolist() == [False, True, True, True, False] and head.tolist() == [False, False, False, False, True]


def test_a_threshold_of_its_own() -> None:
    assert Lsfa().threshold_of(np.full(100, 200)) == 50, "the paper's on EUR-Lex"
    assert Lsfa().threshold_of(np.arange(100, 0, -1)) == 50
    assert Lsfa().threshold_of(np.r_[np.arange(30, 0, -1), np.ones(270)]) == 16, "the 15 most frequent of 300"
    assert Lsfa().threshold_of(np.r_[9, np.ones(50)]) == 2


def corpus_of(counts: list[int]) -> Corpus:
    rows = np.repeat(np.arange(sum(counts)), 1)
    columns = np.repeat(np.arange(len(counts)), counts)
    Y = sp.csr_matrix((np.ones(len(rows), np.float32), (rows, columns)), shape=(len(rows), len(counts)))
    texts = [f"word{label} other{row % 5}" for row, label in zip(rows, columns, strict=True)]
    return Corpus(labels=LabelIndex([f"l{j}" for j in range(len(counts))]), Y=Y, texts=texts).counted()


def test_no_head_and_no_tail_are_said_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    from longtail.learners.neural.base import NeuralLearner

    def learn(*_: Any) -> None:
        raise AssertionError("nothing is trained")

    monkeypatch.setattr(NeuralLearner, "learn", learn)
    with pytest.raises(
        UsageError, match=r"lsfa learns from labels with at least 50 documents, and .* has none \(the m"
    ):
        fitted({**QUICK, "threshold": 50}, corpus=corpus_of([9, 3, 2]))
    with pytest.raises(UsageError, match=r"every label of .* has at least 2: raise lsfa.threshold or leave lsfa out"):
        fitted({**QUICK, "threshold": 2}, corpus=corpus_of([9, 3, 2]))
    with pytest.raises(UsageError, match=r"has more than 1: raise lsfa\.threshold"):
        fitted({**QUICK, "threshold": 1, "boundary": "up-to"}, corpus=corpus_of([9, 3, 2]))


def test_without_head_labels_real_ones_can_still_be_drawn_again() -> None:
    assert fitted(lsfa(generator="copies", threshold=50), corpus=corpus_of([9, 3, 2])).augment[0].prototypes_.any()


def test_labels_with_a_single_document() -> None:
    """The prototype is the document's feature, and what is drawn lies around it; one without documents has none."""
    corpus = replace(corpus_of([20, 12, 1, 1]), texts=None)
    texts = [*corpus_of([20, 12, 1, 1]).texts]  # type: ignore[misc]
    Y = sp.hstack([corpus.Y, sp.csr_matrix((34, 1), dtype=np.float32)]).tocsr()
    names = LabelIndex([f"l{j}" for j in range(5)])
    given = Corpus(labels=names, Y=sp.csr_matrix(Y), texts=texts).counted()
    tagger = fitted(lsfa(threshold=2), corpus=given)
    part = tagger.augment[0]
    own = np.empty((1, tagger.learner.feature_size), np.float32)
    tagger.learner.label_features(given, np.array([32]), np.array([2]), own, run=ONE)
    np.testing.assert_allclose(part.prototypes_[2], own[0], atol=2e-3)
    assert not part.prototypes_[4].any()
    assert 4 not in part._vectors(given, ONE).labels and 2 in part._vectors(given, ONE).labels


def test_learners_without_features_are_refused() -> None:
    for learner in ("parabel", "astec", attention(head="pooled")):
        with pytest.raises(
            UsageError, match=r"'lsfa' works in the space 'classifier', which '.*' does not open; learn"
        ):
            Tagger(learner, augment=["lsfa"])
    with pytest.raises(UsageError, match="in-turns needs two passes or more: raise retune_epochs"):
        fitted(lsfa(passes="in-turns"), retune_epochs=1)


# --- keeping


@pytest.mark.parametrize("generator", GENERATORS)
def test_a_model_keeps_prototypes_and_generator(generator: str, tmp_path: Path) -> None:
    tagger = fitted(lsfa(generator=generator))
    tagger.save(tmp_path / "model")
    again = Tagger.load(tmp_path / "model")
    assert (tmp_path / "model" / "augment-0.safetensors").exists()
    corpus = network_corpus()
    assert again.score(corpus, 5).values.tobytes() == tagger.score(corpus, 5).values.tobytes()
    one, two = tagger.augment[0], again.augment[0]
    assert one.state().keys() == two.state().keys()
    assert all(one.state()[name].tobytes() == two.state()[name].tobytes() for name in one.state())
    if generator in ("pvae", "covariance", "noise"):
        drawn = [part.source_.draw(np.arange(12), np.random.default_rng(0)).tobytes() for part in (one, two)]
        assert drawn[0] == drawn[1]
        assert {"spread", "cosine"} <= set(two.checks_)


def test_what_is_kept_is_checked(tmp_path: Path) -> None:
    part = fitted(lsfa()).augment[0]
    for name, damaged in {
        "prototypes": part.prototypes_[:, :3],
        "checks.spread": np.zeros(2),
        "pvae.scales": np.zeros((4, 2), np.float32),
        "pvae.widths": np.ones(3, np.float32),
    }.items():
        fresh = build(lsfa())
        with pytest.raises(ValueError, match=r"must|PVAE|scales|prototypes"):
            fresh.restore({**part.state(), name: damaged})
    tagger = fitted(lsfa())
    part = tagger.augment[0]
    part.prototypes_, part.source_.widths = part.prototypes_[:5], part.source_.widths[:5]
    tagger.save(tmp_path / "model")
    with pytest.raises(ModelError, match="'lsfa' has 5 labels, the learner has 12"):
        Tagger.load(tmp_path / "model")


def test_folds_of_a_reranker_leave_what_is_kept_alone() -> None:
    plain = fitted(lsfa()).augment[0].state()
    ranked = Tagger(attention(), augment=[lsfa()], rerank=["ranknet"], threads=1).fit(network_corpus())
    assert all(ranked.augment[0].state()[name].tobytes() == plain[name].tobytes() for name in plain)


def test_a_plan_has_its_stages() -> None:
    plan = Tagger(attention(), augment=["lsfa"]).plan(network_corpus())
    names = [stage.name for stage in plan.stages]
    assert [name for name in names if name.startswith("lsfa")] == ["lsfa: features", "lsfa: pvae", "lsfa: draw"]
    assert plan.peak > Tagger(attention()).plan(network_corpus()).peak - 1
