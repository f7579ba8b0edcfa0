"""Retune: the second stage of a fit, and the controls that what generates examples must beat."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail.augment.retune import Retune
from longtail.corpus import Corpus
from longtail.errors import UsageError
from longtail.fit import Fit
from longtail.labels import LabelIndex
from longtail.learners.linear.label_tree import Parabel
from longtail.learners.linear.one_vs_all import OneVsAll
from longtail.learners.pipeline import Pipeline
from longtail.run import Run
from longtail.tagger import Tagger

ONE = {"part": "parabel", "trees": 1}


def by_hand(**others: object) -> Corpus:
    """Label a has three documents, b one, c one; document 2 has a and c."""
    Y = sp.csr_matrix(np.array([[1, 0, 0], [1, 1, 0], [1, 0, 1], [1, 0, 0]], dtype=np.float32))
    given = {"texts": ["one", "two", "three", "four"], "ids": ["w", "x", "y", "z"], **others}
    return Corpus(labels=LabelIndex(["a", "b", "c"]), Y=Y, **given).counted()  # type: ignore[arg-type]


def judged(part: Retune, corpus: Corpus) -> Corpus:
    return part.judged(corpus, None, Fit()).corpus


def test_duplicates_by_hand() -> None:
    out = judged(Retune(rarest=1, copies=2), by_hand())
    assert list(out.texts or []) == ["one", "two", "three", "four", "two", "three", "two", "three"]
    assert list(out.ids or []) == ["w", "x", "y", "z", "x", "y", "x", "y"]
    assert out.Y.toarray()[4:].tolist() == [[1, 1, 0], [1, 0, 1]] * 2
    assert out.pair_weight is None and out.origins().tolist() == [0, 1, 2, 3, 1, 2, 1, 2]
    assert out.documents.tolist() == [0, 1, 2, 3], "copies are no documents"


def test_masks_by_hand() -> None:
    out = judged(Retune(rarest=1, copies=1, mask=True), by_hand())
    assert out.pair_weight is not None
    assert out.pair_weight.tolist() == [1] * 6 + [0, 1, 0, 1], "the frequent label of a copy counts neither way"
    weight = np.array([1, 1, 0.5, 1, 0.25, 1], dtype=np.float32)
    out = judged(Retune(rarest=1, copies=1, mask=True), by_hand(pair_weight=weight))
    assert out.pair_weight.tolist() == [*weight.tolist(), 0, 0.5, 0, 0.25], "weights that were there stay"


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 9999), rarest=st.integers(1, 4), copies=st.integers(1, 3))
def test_every_copy_has_a_rare_label_and_every_rare_label_its_copies(seed: int, rarest: int, copies: int) -> None:
    rng = np.random.default_rng(seed)
    Y = sp.csr_matrix((rng.random((12, 6)) < 0.2).astype(np.float32))
    X = sp.csr_matrix(rng.random((12, 5), dtype=np.float32))
    corpus = Corpus(labels=LabelIndex([str(j) for j in range(6)]), Y=Y, X=X).counted()
    out = judged(Retune(rarest=rarest, copies=copies), corpus)
    assert out.X is not None and out.X.shape[0] == len(out), "corpora without texts keep their features"
    rare = corpus.labels.frequency <= rarest
    added = out.Y[12:].toarray()
    assert (added[:, rare].sum(axis=1) > 0).all()
    assert (added[:, rare].sum(axis=0) == copies * corpus.Y.toarray()[:, rare].sum(axis=0)).all()


def test_none_is_the_same_corpus_and_idle_options_are_refused() -> None:
    corpus = by_hand()
    assert judged(Retune(rows="none"), corpus) is corpus
    with pytest.raises(UsageError, match=r"retune\.mask counts only where rows is duplicates"):
        Retune(rows="none", mask=True)
    with pytest.raises(UsageError, match=r"retune\.copies counts only where rows is duplicates"):
        Retune(rows="none", copies=3)


def test_a_pipeline_fits_hands_over_and_tunes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first stage sees documents as given; the judge is that fit; the second sees copies and masks."""
    seen: list[tuple[str, int, bool]] = []
    learn, retune, judge = Parabel.learn, Parabel.retune, Retune.judged

    def watched_learn(self, corpus, fit):  # type: ignore[no-untyped-def]
        seen.append(("learn", len(corpus), corpus.masked))
        return learn(self, corpus, fit)

    def watched_retune(self, corpus, fit, vectors=None):  # type: ignore[no-untyped-def]
        seen.append(("retune", len(corpus), corpus.masked))
        return retune(self, corpus, fit, vectors)

    def watched_judge(self, corpus, judge_, fit):  # type: ignore[no-untyped-def]
        texts = replace(corpus, X=None).rows(np.arange(2))
        assert judge_.score(texts, 1).k == 1, "the judge scores texts: it makes their features"
        return judge(self, corpus, judge_, fit)

    monkeypatch.setattr(Parabel, "learn", watched_learn)
    monkeypatch.setattr(Parabel, "retune", watched_retune)
    monkeypatch.setattr(Retune, "judged", watched_judge)
    part = {"part": "retune", "rarest": 1, "copies": 2, "mask": True}
    tagger = Tagger(ONE, augment=[part]).fit(by_hand())
    assert seen == [("learn", 4, False), ("retune", 8, True), ("learn", 8, True)]
    assert tagger.labels_.frequency.tolist() == [4, 1, 1], "counts are those of the documents"


def test_it_acts_and_masking_acts() -> None:
    """What a no-op would not do: copies of rare documents change the separators, and masked head labels do so, too."""
    rng = np.random.default_rng(0)
    Y = sp.csr_matrix((rng.random((60, 8)) < np.linspace(0.6, 0.05, 8)).astype(np.float32))
    X = sp.csr_matrix(rng.random((60, 12), dtype=np.float32))
    corpus = Corpus(labels=LabelIndex([str(j) for j in range(8)]), Y=Y, X=X).counted()

    def separators(*augment: dict[str, object]) -> bytes:
        pipeline = Pipeline(learner="one-vs-all", features=None, augment=list(augment)).fit(corpus, run=Run())
        assert isinstance(pipeline.learner, OneVsAll)
        return pipeline.learner.trees_[0].weight.tobytes()

    none = separators({"part": "retune", "rows": "none"})
    duplicates = separators({"part": "retune", "rarest": 5})
    masked = separators({"part": "retune", "rarest": 5, "mask": True})
    assert duplicates not in (none, masked)


def test_learners_without_a_second_stage_are_refused() -> None:
    from dataclasses import dataclass

    from longtail.capabilities import Capabilities

    @dataclass(kw_only=True)
    class Once(Parabel):
        @property
        def capabilities(self) -> Capabilities:
            return replace(super().capabilities, retunes=False)

    with pytest.raises(UsageError, match="'retune' needs a second stage, which 'Once' does not have; learners that do"):
        Tagger(Once(), augment=["retune"])
    with pytest.raises(UsageError, match="works in the space 'classifier', which 'parabel' does not open"):
        Tagger(ONE, augment=[{"part": "retune", "vectors": 3}])
    inside = {"part": "pipeline", "learner": ONE, "features": "tfidf"}
    Tagger({**inside, "rerank": ["inverse-propensity"]}, augment=["retune"])
    with pytest.raises(UsageError, match="needs a second stage, which 'pipeline' does not have"):
        Tagger({**inside, "rerank": ["ranknet"]}, augment=["retune"])  # it would have learnt of the first stage


def test_folds_of_a_reranker_go_through_both_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    from longtail.data.synthetic import synthetic

    corpus = synthetic(documents=80, labels=10, words=100, texts=True, seed=1)
    rows: list[int] = []
    retune = Parabel.retune

    def watched(self, given, fit, vectors=None):  # type: ignore[no-untyped-def]
        rows.append(len(given.documents))
        return retune(self, given, fit, vectors)

    monkeypatch.setattr(Parabel, "retune", watched)
    Tagger(ONE, augment=[{"part": "retune", "rarest": 20}], rerank=["ranknet"]).fit(corpus)
    assert rows == [80, 60, 60, 60, 60]


# --- networks


def network_corpus() -> Corpus:
    rng = np.random.default_rng(3)
    share = 1 / np.arange(1, 13)
    Y = np.zeros((80, 12), dtype=np.float32)
    for row in range(80):
        Y[row, rng.choice(12, size=rng.integers(1, 3), replace=False, p=share / share.sum())] = 1
    texts = [" ".join(f"w{label}" for label in np.flatnonzero(y)) + f" n{rng.integers(9)}" for y in Y]
    return Corpus(labels=LabelIndex([f"l{j}" for j in range(12)]), Y=sp.csr_matrix(Y), texts=texts).counted()


def attention(**options: object) -> dict[str, object]:
    encoder = {"part": "bag", "size": 16, "dropout": 0.0}
    return {"part": "attentionxml", "encoder": encoder, "least_steps": 20, "epochs": 1, "batch": 16, **options}


def test_context_vectors_are_what_the_classifier_sees() -> None:
    """With classifier vectors and document term known, logits follow from the contexts alone."""
    torch = pytest.importorskip("torch")
    head = {"part": "label-attention", "document": False}
    corpus = network_corpus()
    tagger = Tagger(attention(head=head), threads=1).fit(corpus)
    network = tagger.learner.network_
    documents, labels = np.array([7, 3, 7, 60]), np.array([0, 5, 1, 0])
    found = tagger.learner.contexts(corpus, documents, labels, run=Run(threads=1))
    vectors, bias = network.head.vectors.weight.detach().numpy(), network.head.bias.weight.detach().numpy()[:, 0]
    logits = (found * vectors[labels]).sum(axis=1) + bias[labels]
    scores = tagger.score(corpus, 12).to_csr(12).toarray()[documents, labels]
    np.testing.assert_allclose(torch.sigmoid(torch.from_numpy(logits)).numpy(), scores, atol=1e-5)


@pytest.mark.parametrize("options", [{"rows": "none"}, {"rows": "duplicates", "mask": True}, {"vectors": 4}])
def test_in_a_network_only_the_classifier_moves(options: dict[str, object]) -> None:
    pytest.importorskip("torch")
    corpus = network_corpus()
    plain = Tagger(attention(), threads=1).fit(corpus).learner.state()
    tuned = Tagger(attention(), augment=[{"part": "retune", **options}], threads=1).fit(corpus).learner.state()
    moved = {name for name in plain if plain[name].tobytes() != tuned[name].tobytes()}
    assert moved and all(name.startswith("network.head.") and "queries" not in name for name in moved)


def test_oversampled_vectors_raise_rare_labels() -> None:
    pytest.importorskip("torch")
    corpus = network_corpus()
    rare = np.flatnonzero((corpus.labels.frequency <= 5) & (corpus.labels.frequency > 0))
    assert len(rare)

    def mean_of_rare(options: dict[str, object]) -> float:
        tagger = Tagger(attention(), augment=[{"part": "retune", "rows": "none", **options}], threads=1).fit(corpus)
        return float(tagger.score(corpus, 12).to_csr(12).toarray()[:, rare].mean())

    assert mean_of_rare({"vectors": 50}) > mean_of_rare({})
