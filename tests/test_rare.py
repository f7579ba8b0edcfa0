"""Rare labels moved up when a model predicts, without training it again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from longtail.corpus import Corpus
from longtail.data.synthetic import synthetic
from longtail.errors import UsageError
from longtail.tagger import Tagger

LEARNER = {"part": "parabel", "trees": 1}


@pytest.fixture(scope="module")
def corpora() -> tuple[Corpus, Corpus]:
    whole = synthetic(documents=2000, labels=400, words=2000, words_per_document=20, signal=0.15, seed=4, texts=True)
    train, test = whole.split(0.3, np.random.default_rng(0))
    return train.counted(), test


@pytest.fixture(scope="module")
def plain(corpora: tuple[Corpus, Corpus]) -> Tagger:
    return Tagger(LEARNER).fit(corpora[0])


def test_it_moves_rare_labels_up_and_leaves_the_model_as_it_is(plain: Tagger, corpora: tuple[Corpus, Corpus]) -> None:
    test = corpora[1]
    before = plain.score(test, 5)
    reports = [plain.evaluate(test, rare=strength)["PSP@1"] for strength in (0, 0.3, 1)]
    assert reports[0] < reports[1] < reports[2]
    assert plain.evaluate(test)["PSP@1"] == reports[0]
    counts = plain.labels_.frequency
    rare = plain.favouring_rare(1.0).score(test, 5)
    assert counts[rare.ids[:, 0]].mean() < counts[before.ids[:, 0]].mean()
    after = plain.score(test, 5)
    assert (after.ids == before.ids).all() and (after.values == before.values).all()
    assert not plain.rerank and plain.rare_ is None


def test_it_is_what_a_model_trained_with_the_re_ranker_gives(plain: Tagger, corpora: tuple[Corpus, Corpus]) -> None:
    train, test = corpora
    reranker = {"part": "inverse-propensity", "strength": 0.4, "A": 0.6}
    trained = Tagger(LEARNER, rerank=[reranker]).fit(train)
    own = trained.score(test, 5)
    same = trained.favouring_rare(0.4).score(test, 5)
    assert (own.ids == same.ids).all() and (own.values == same.values).all(), "A and B are the model's own"
    off, learner = trained.favouring_rare(0).score(test, 5), plain.score(test, 5)
    assert (off.ids == learner.ids).all() and (off.values == learner.values).all()
    assert trained.rerank[0].strength == 0.4  # type: ignore[attr-defined]


def test_it_takes_the_place_of_a_learnt_re_ranker(plain: Tagger, corpora: tuple[Corpus, Corpus]) -> None:
    train, test = corpora
    learnt = Tagger(LEARNER, rerank=[{"part": "ranknet", "epochs": 1}]).fit(train)
    for strength in (0.0, 0.5):
        found, expected = (each.favouring_rare(strength).score(test, 5) for each in (learnt, plain))
        assert (found.ids == expected.ids).all()


def test_one_text_and_many_are_the_same(plain: Tagger, corpora: tuple[Corpus, Corpus]) -> None:
    texts = list(corpora[1].texts or [])[:20]
    together = plain.predict(texts, rare=0.7)
    assert [plain.predict([text], rare=0.7)[0] for text in texts] == together
    assert together != plain.predict(texts)


def test_what_cannot_be_is_refused(plain: Tagger, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="rare must lie between 0"):
        plain.predict(["a"], rare=-0.1)
    with pytest.raises(UsageError, match="rare must lie between 0"):
        plain.predict(["a"], rare=float("nan"))
    with pytest.raises(UsageError, match="save the model itself"):
        plain.favouring_rare(0.3).save(tmp_path / "model")
    with pytest.raises(UsageError, match=r"not trained|fit"):
        Tagger(LEARNER).favouring_rare(0.3)
