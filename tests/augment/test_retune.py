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
