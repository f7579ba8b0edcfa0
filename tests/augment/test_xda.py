"""XDA as a part: what is copied, kept and masked, and that masked labels learn nothing from the copies."""

from __future__ import annotations

import logging
import zlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from longtail.augment.retune import Retune
from longtail.augment.xda.filtering import best_share, scaled
from longtail.augment.xda.made import Made
from longtail.augment.xda.part import Xda, class_weights
from longtail.corpus import Corpus
from longtail.errors import UsageError
from longtail.fit import Fit
from longtail.labels import LabelIndex
from longtail.learners.linear.one_vs_all import OneVsAll
from longtail.recipe import Recipe
from longtail.registry import build, config_of
from longtail.run import Run
from longtail.scores import Scores
from longtail.tagger import Tagger


def small(documents: int = 80, labels: int = 12) -> Corpus:
    """Label 0 is frequent, the others have few documents each; two words per label."""
    rng = np.random.default_rng(3)
    Y = np.zeros((documents, labels), dtype=np.float32)
    Y[:, 0] = rng.random(documents) < 0.7
    Y[np.arange(documents), 1 + np.arange(documents) % (labels - 1)] = 1
    texts = [
        " ".join(f"w{label}{sign}" for label in np.flatnonzero(y) for sign in "ab") + f" n{rng.integers(9)} x y z"
        for y in Y
    ]
    names = [f"l{j}" for j in range(labels)]
    ids = [f"d{n}" for n in range(documents)]
    return Corpus(labels=LabelIndex(names), Y=sp.csr_matrix(Y), texts=texts, ids=ids).counted()


class Even:
    """A judge that gives every text the first k labels."""

    def score(self, corpus: Corpus, k: int, *, run: Run | None = None) -> Scores:
        assert corpus.X is None and corpus.texts is not None
        ids = np.tile(np.arange(k, dtype=np.int32), (len(corpus), 1))
        return Scores(ids, np.tile(np.linspace(1, 0.1, k, dtype=np.float32), (len(corpus), 1)))


def judged(corpus: Corpus, **options: Any) -> Corpus:
    return Xda(rarest=10, **options).judged(corpus, Even(), Fit(Run(seed=1))).corpus


def test_copies_behind_the_documents_with_the_frequent_label_masked() -> None:
    corpus = small()
    out = judged(corpus, copies=4, keep=0.5)
    assert len(out) == 80 + 2 * 80 and out.documents.tolist() == list(range(80))
    assert out.origins()[80:].tolist() == np.repeat(np.arange(80), 2).tolist()
    assert out.pair_weight is not None and (out.pair_weight[: corpus.Y.nnz] == 1).all()
    added = out.rows(np.arange(80, 240))
    assert added.pair_weight is not None
    assert ((added.pair_weight == 0) == (added.Y.indices == 0)).all(), "label 0 counts neither way, all others do"
    assert (added.Y != corpus.rows(np.repeat(np.arange(80), 2)).Y).nnz == 0
    assert out.labels.frequency.tolist() == corpus.labels.frequency.tolist()
    assert any(text not in (corpus.texts or []) for text in added.texts or [])


class ByText:
    """A judge that finds every text different, by what it is."""

    def score(self, corpus: Corpus, k: int, *, run: Run | None = None) -> Scores:
        drawn = [np.random.default_rng(zlib.crc32(text.encode())) for text in corpus.texts or []]
        values = np.stack([rng.random(corpus.n_labels) ** 4 for rng in drawn]).astype(np.float32)
        return Scores.from_csr(sp.csr_matrix(values), k)


def test_copies_are_kept_by_diversity_and_consistency_together() -> None:
    """Both are scaled over all copies and added; each by itself would keep others."""
    corpus = small()

    def made(**options: Any) -> Made:
        return Xda(rarest=10, copies=4, **options).made(corpus, ByText(), Fit(Run(seed=1)))

    every, best = made(keep=1.0), made(keep=0.5)
    assert every.diversity is not None and every.consistency is not None and every.score is not None
    assert every.diversity.std() > 0.1 and every.consistency.std() > 0.1
    np.testing.assert_allclose(every.score, scaled(every.diversity) + scaled(every.consistency))

    def kept(score: np.ndarray) -> list[str]:
        return [text for text, keep in zip(every.texts, best_share(score, every.rows, 0.5), strict=True) if keep]

    assert best.texts == kept(every.score)
    assert best.texts != kept(every.diversity) and best.texts != kept(every.consistency)


def test_options_of_the_paper_and_its_ablations() -> None:
    corpus = small()
    assert judged(corpus, mask=False).pair_weight is None
    assert len(judged(corpus, filter=False, copies=3)) == 80 + 3 * 80
    assert len(judged(corpus, copies=2, keep=0.25, per="all")) == 80 + 40
    lone = replace(corpus, Y=sp.csr_matrix(corpus.Y.toarray() * (np.arange(80) < 60)[:, None])).counted()
    weighted = judged(corpus, class_weights=True)
    assert weighted.pair_weight is not None
    found = weighted.pair_weight[corpus.Y.nnz :]
    expected = class_weights(corpus.labels.frequency)[weighted.Y.indices[corpus.Y.nnz :]]
    np.testing.assert_allclose(found[found > 0], expected[found > 0], rtol=1e-6)
    assert class_weights(corpus.labels.frequency).mean() == pytest.approx(0.3)
    only_frequent = replace(lone, Y=sp.csr_matrix(lone.Y.toarray() * (np.arange(12) == 0))).counted()
    joined = Corpus(
        labels=corpus.labels,
        Y=sp.csr_matrix(sp.vstack([corpus.Y, only_frequent.Y])),
        texts=list(corpus.texts or []) * 2,
    ).counted()
    rare, every = judged(joined, copies=1, filter=False), judged(joined, copies=1, filter=False, documents="all")
    assert len(rare) == 160 + 80 and len(every) == 160 + 80 + int(only_frequent.Y.nnz)


def test_a_corpus_without_rare_labels_stays_as_it_is_with_a_line(caplog: pytest.LogCaptureFixture) -> None:
    corpus = small(60, 2)
    with caplog.at_level(logging.WARNING):
        assert judged(corpus) is corpus
    assert "has a label with 10 documents or fewer, so none is copied; raise xda.rarest" in caplog.text


def test_bad_combinations_are_refused_before_any_work() -> None:
    features = Corpus(labels=LabelIndex(["a"]), Y=sp.csr_matrix(np.ones((3, 1))), X=sp.csr_matrix(np.eye(3)))
    with pytest.raises(UsageError, match="'xda' writes texts anew, and corpus has features only"):
        Tagger("parabel", augment=["xda"]).fit(features)
    with pytest.raises(UsageError, match="'xda' rewrites texts, and 'parabel' reads features that are made before"):
        Tagger("parabel", features=None, augment=["xda"])
    with pytest.raises(UsageError, match=r"xda\.keep counts only where filter is true"):
        Xda(filter=False, keep=0.1)
    with pytest.raises(UsageError, match="unknown generator 'word'; did you mean 'words'"):
        Xda(generator="word")
    assert config_of(build(config_of(Xda(generator={"part": "words", "share": 0.3}))))["generator"]["share"] == 0.3


def test_with_nothing_masked_it_is_duplicates() -> None:
    """A generator that changes nothing leaves the control: the same rows, labels and weights as retune's."""
    corpus = small()
    idle = {"part": "words", "share": 0.0}
    for mask in (True, False):
        made = judged(corpus, copies=2, filter=False, mask=mask, generator=idle)
        control = Retune(rarest=10, copies=2, mask=mask).judged(corpus, None, Fit()).corpus
        assert len(made) == len(control) and (made.pair_weight is None) == (control.pair_weight is None) == (not mask)

        def rows(given: Corpus) -> list[Any]:
            weights = given.positives().toarray()
            texts = given.texts or []
            return sorted((text, *weight) for text, weight in zip(texts, weights.tolist(), strict=True))

        assert rows(made) == rows(control)


def test_settings_choose_a_generator_and_its_options() -> None:
    recipe = Recipe().override(augment=["xda"], settings=["xda.generator=words", "words.share=0.4", "xda.copies=3"])
    (part,) = recipe.augment
    assert part["copies"] == 3 and part["generator"] == {"part": "words", "share": 0.4, "labels": True}
    with pytest.raises(UsageError, match="name one of its options"):
        Recipe().override(augment=["xda"], settings=["xda.generator=bonsai"])


def test_statistics_tell_how_far_copies_are_from_their_sources() -> None:
    part = Xda(rarest=10, copies=2, keep=0.5)
    part.judged(small(), Even(), Fit())
    found = part.statistics_
    assert found["documents"] == 80 and found["generated"] == 160 and found["kept"] == 80
    assert 0.5 < found["word_overlap"] < 1 and 0 < found["masked_pairs"] < found["pairs"]


def test_the_plan_knows_its_stages() -> None:
    corpus = small()
    tagger = Tagger("parabel", augment=[{"part": "xda", "rarest": 10}])
    stages = tagger.plan(corpus, run=Run(threads=1)).stages
    names = [stage.name for stage in stages]
    assert names.index("xda: generate") < names.index("xda: filter") < names.index("second stage: documents")
    more = Tagger("parabel", augment=[{"part": "xda", "rarest": 10, "copies": 40}]).plan(corpus, run=Run(threads=1))
    by_name = {stage.name: stage for stage in more.stages}
    assert all(by_name[name].peak > stages[names.index(name)].peak for name in ("xda: generate", "xda: filter"))


# --- what learners make of it


def test_head_positives_of_copies_move_no_separator_and_head_negatives_do() -> None:
    """One-vs-all solves each label by itself: with masked copies the frequent label's separator is that of a corpus
    in which these rows do not exist, but for the rows in which it is a negative."""
    corpus = small()
    out = judged(corpus, copies=2, keep=0.5)
    from longtail.features.tfidf import Tfidf

    X = Tfidf(min_df=1).fit_corpus(out, Run())
    out = replace(out, X=X)
    has_head = np.zeros(len(out), dtype=bool)
    has_head[out.Y.tocsc().indices[: out.Y.tocsc().indptr[1]]] = True
    copies = np.arange(len(out)) >= len(corpus)
    without = out.rows(np.flatnonzero(~(copies & has_head)))

    def of_head(given: Corpus) -> np.ndarray:
        learner = OneVsAll(eps=1e-6, max_passes=2000, prune=0.0)
        learner.fit(given.columns(np.array([0])), run=Run())
        return learner.score(out.columns(np.array([0])), 1).values

    np.testing.assert_allclose(of_head(out), of_head(without), atol=1e-4)
    negatives = out.rows(np.flatnonzero(~copies))
    assert np.abs(of_head(out) - of_head(negatives)).max() > 1e-3, "copies without the label are still negatives"


def test_gradient_of_head_positives_of_copies_is_zero_and_of_negatives_unchanged() -> None:
    torch = pytest.importorskip("torch")
    from longtail.learners.neural.shortlists.base import SharedLabels

    corpus = small()
    out, plain = judged(corpus, copies=1, filter=False), judged(corpus, copies=1, filter=False, mask=False)
    rows = np.arange(80, 160)

    def gradient(given: Corpus) -> np.ndarray:
        _, targets, weights = SharedLabels(given.Y, given.pair_weight, 0).choose(rows, np.random.default_rng(0))
        logits = torch.randn(targets.shape, generator=torch.Generator().manual_seed(0), requires_grad=True)
        torch.nn.functional.binary_cross_entropy_with_logits(
            logits, torch.from_numpy(targets), None if weights is None else torch.from_numpy(weights), reduction="sum"
        ).backward()
        assert logits.grad is not None
        return logits.grad.numpy()

    masked, given = gradient(out), gradient(plain)
    positive = corpus.Y.toarray()[:, 0] > 0
    assert (masked[positive, 0] == 0).all() and (given[positive, 0] < 0).all()
    assert (masked[~positive, 0] == given[~positive, 0]).all() and (given[~positive, 0] > 0).all()
    assert (masked[:, 1:] == given[:, 1:]).all(), "rare labels learn from the copies as from documents"


def attention() -> dict[str, Any]:
    encoder = {"part": "bag", "size": 16, "dropout": 0.0}
    return {"part": "attentionxml", "encoder": encoder, "least_steps": 20, "epochs": 1, "batch": 16}


@pytest.mark.parametrize("learner", ["bonsai", "parabel", "one-vs-all", "fastxml", "neural"])
def test_end_to_end(learner: str, tmp_path: Any) -> None:
    """The second stage changes what is learnt, and the model is one like any other."""
    if learner == "neural":
        pytest.importorskip("torch")
    corpus = small()
    config: Any = attention() if learner == "neural" else learner
    part = {"part": "xda", "rarest": 10, "copies": 2}
    plain = Tagger(config, threads=1).fit(corpus)
    tagger = Tagger(config, augment=[part], threads=1).fit(corpus)
    # a second stage without copies changes a network, too
    alone = Tagger(config, augment=[{"part": "retune", "rows": "none"}], threads=1).fit(corpus)
    for other in (plain, alone):
        assert tagger.score(corpus, 5).values.tobytes() != other.score(corpus, 5).values.tobytes()
    tagger.save(tmp_path / "model")
    again = Tagger.load(tmp_path / "model")
    assert again.score(corpus, 5).values.tobytes() == tagger.score(corpus, 5).values.tobytes()
    if learner == "neural":
        before, after = plain.learner.state(), tagger.learner.state()
        moved = {name for name in before if before[name].tobytes() != after[name].tobytes()}
        assert moved and all(name.startswith("network.head.") for name in moved), "the encoder stays"


def test_the_first_stage_sees_no_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    from longtail.learners.linear.label_tree import Parabel

    seen: list[tuple[int, bool]] = []
    learn = Parabel.learn

    def watched(self: Any, corpus: Corpus, fit: Fit) -> Any:
        seen.append((len(corpus), corpus.masked))
        return learn(self, corpus, fit)

    monkeypatch.setattr(Parabel, "learn", watched)
    Tagger({"part": "parabel", "trees": 1}, augment=[{"part": "xda", "rarest": 10, "copies": 2}]).fit(small())
    assert seen == [(80, False), (160, True)]


def test_features_are_made_though_the_corpus_brings_some() -> None:
    """Copies have no features of their own, so those of all documents are made from their texts."""
    corpus = small()
    given = replace(corpus, X=sp.csr_matrix(np.ones((80, 2), dtype=np.float32)))
    tagger = Tagger("parabel", augment=[{"part": "xda", "rarest": 10}]).fit(given)
    assert tagger.pipeline.features_ is not None
