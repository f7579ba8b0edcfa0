"""Noise on words."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail.augment.word_noise import WordDropout, WordSwap
from longtail.corpus import Corpus
from longtail.data.synthetic import synthetic
from longtail.errors import UsageError
from longtail.labels import LabelIndex
from longtail.run import Run
from longtail.tagger import Tagger


def corpus_of(*texts: str) -> Corpus:
    Y = sp.csr_matrix(np.ones((len(texts), 1), dtype=np.float32))
    return Corpus(labels=LabelIndex(["a"]), Y=Y, texts=list(texts)).counted()


def test_two_words_change_places():
    out = WordSwap(n_aug=2, tau=0).apply(corpus_of("one two"), Run())
    assert list(out.texts) == ["one two", "two one", "two one"]
    assert out.Y.toarray().tolist() == [[1], [1], [1]]


def test_dropout_leaves_one_word_at_least_and_empty_texts_empty():
    out = WordDropout(n_aug=30, tau=0, rho=0.01).apply(corpus_of("one two", ""), Run())
    assert set(out.texts[2::2]) <= {"one", "two"}
    assert set(out.texts[3::2]) == {""}


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from(["aa", "bb", "cc", "dd"]), max_size=12), st.integers(0, 99))
def test_copies_have_the_words_of_the_original(words, seed):
    rng = np.random.default_rng(seed)
    dropped, swapped = WordDropout().noisy(words, rng), WordSwap().noisy(words, rng)
    assert sorted(swapped) == sorted(words)
    remaining = iter(words)
    assert all(word in remaining for word in dropped)  # in order
    assert bool(dropped) == bool(words)


def test_only_tail_documents_and_only_texts():
    Y = sp.csr_matrix(np.array([[1, 0], [1, 0], [0, 1]], dtype=np.float32))
    corpus = Corpus(labels=LabelIndex(["head", "tail"]), Y=Y, texts=["a b", "c d", "e f"]).counted()
    assert len(WordSwap(n_aug=3, tau=0.5).apply(corpus, Run())) == 3 + 3
    with pytest.raises(UsageError, match="needs texts"):
        WordSwap().apply(synthetic(documents=20, labels=5, words=50), Run())


@pytest.mark.parametrize("part", ["word-dropout", "word-swap"])
def test_end_to_end_copies_change_the_model(part):
    """Pairs of words that follow one another are features, so that their order counts."""
    corpus = synthetic(documents=300, labels=40, words=300, texts=True, seed=1)

    def fitted(*augment):
        features = {"part": "tfidf", "ngrams": 2}
        return Tagger({"part": "parabel", "trees": 1}, features=features, augment=list(augment)).fit(corpus)

    noisy = fitted(part)
    for other in (fitted(), fitted({"part": "word-dropout", "rho": 1.0})):  # copies as they are
        assert noisy.learner.trees_[0].weight.tobytes() != other.learner.trees_[0].weight.tobytes()
    assert noisy.labels_.frequency.tolist() == corpus.labels.frequency.tolist()


@pytest.mark.parametrize("augmenter", ["word-dropout", "labelmix"])
def test_rerankers_do_not_learn_from_learners_that_saw_copies_of_their_documents(augmenter, monkeypatch):
    from longtail.learners.linear.label_tree import Parabel

    corpus = synthetic(documents=60, labels=8, words=50, words_per_document=6, texts=True)
    seen, scored = [], []
    learn, score = Parabel.learn, Parabel.score

    def spying_learn(self, given, fit):
        seen.append(set(given.origins().tolist()))
        return learn(self, given, fit)

    def spying_score(self, given, k, **others):
        scored.append(set(given.ids))
        return score(self, given, k, **others)

    monkeypatch.setattr(Parabel, "learn", spying_learn)
    monkeypatch.setattr(Parabel, "score", spying_score)
    from dataclasses import replace

    numbered = replace(corpus, ids=[str(row) for row in range(len(corpus))])
    Tagger("parabel", augment=[augmenter], rerank=["ranknet"]).fit(numbered, run=Run())
    assert len(seen) == 5 and seen[0] >= set(range(60))
    for trained, held_out in zip(seen[1:], scored, strict=True):
        assert not trained & {int(name) for name in held_out}
