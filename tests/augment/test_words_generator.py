"""Words of documents that share a label: texts keep more of their labels' words than where labels have no say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from longtail.augment.generate.kept import generated
from longtail.augment.generate.words import Words, WordWriter, joined, words_of
from longtail.augment.xda.made import word_overlap
from longtail.corpus import Corpus
from longtail.fit import Fit
from longtail.labels import LabelIndex
from longtail.run import Run


def topics(documents: int = 120, labels: int = 12, seed: int = 0) -> Corpus:
    """Each label has ten words of its own; half of a document's words are those of its label."""
    rng = np.random.default_rng(seed)
    label = np.arange(documents) % labels
    texts = []
    for own in label:
        words = [f"t{own}_{n}" if rng.random() < 0.5 else f"c{n}" for n in rng.integers(0, 10, 20)]
        texts.append(" ".join(words))
    Y = sp.csr_matrix((np.ones(documents, np.float32), (np.arange(documents), label)), shape=(documents, labels))
    return Corpus(labels=LabelIndex([f"l{j}" for j in range(labels)]), Y=Y, texts=texts).counted()


def own_words(text: str, label: int) -> float:
    words = text.split()
    return sum(word.startswith(f"t{label}_") for word in words) / len(words)


def written(corpus: Corpus, **options: object) -> list[str]:
    return generated(Words(**options), corpus, np.arange(len(corpus)), 1, Fit(Run(seed=2)))  # type: ignore[arg-type]


def test_texts_keep_their_labels_words_more_often_than_without_labels() -> None:
    corpus = topics()
    label = corpus.Y.indices

    def kept(labels: bool) -> float:
        texts = written(corpus, share=0.5, labels=labels)
        return float(np.mean([own_words(text, own) for text, own in zip(texts, label, strict=True)]))

    with_labels, without = kept(True), kept(False)
    before = np.mean([own_words(text, own) for text, own in zip(corpus.texts or [], label, strict=True)])
    assert with_labels > 0.85 * before and without < 0.7 * before


def test_neither_copies_nor_noise() -> None:
    corpus = topics()
    overlaps = [word_overlap(a, b) for a, b in zip(corpus.texts or [], written(corpus, share=0.3), strict=True)]
    assert 0.6 < np.mean(overlaps) < 0.95
    assert written(corpus, share=0.0) == list(corpus.texts or []), "nothing masked, nothing changed"


def test_the_same_seed_gives_the_same_texts_and_copies_differ() -> None:
    corpus = topics(24)
    fits = [Fit(Run(seed=seed, threads=threads)) for seed, threads in ((1, 1), (1, 2), (2, 1))]
    one, same, other = (generated(Words(), corpus, np.arange(24), 3, fit) for fit in fits)
    assert one == same != other
    assert len({*one[:3]}) > 1 and all(len(text.split()) == 20 for text in one)


def test_a_word_comes_from_a_document_with_the_label_after_the_same_word() -> None:
    texts = ["alpha beta gamma", "alpha delta gamma", "alpha omega gamma"]
    Y = sp.csr_matrix(np.array([[1, 0], [1, 0], [0, 1]], dtype=np.float32))
    writer = WordWriter(Corpus(labels=LabelIndex(["a", "b"]), Y=Y, texts=texts).counted(), 1.0, labels=True)
    found = {writer.write(np.array([0]), seed)[0].split()[1] for seed in range(40)}
    assert "delta" in found and "omega" not in found, "documents of other labels have no say"


def test_odd_texts() -> None:
    texts = ["", "  two\nwords ", "half \ud800 surrogate", "one"]
    Y = sp.csr_matrix(np.eye(4, dtype=np.float32))
    corpus = Corpus(labels=LabelIndex(list("abcd")), Y=Y, texts=texts).counted()
    found = written(corpus, share=1.0)
    assert len(found) == 4 and found[0] == "" and len(found[1].split()) == 2
    words, stream, start = words_of(texts)
    assert joined(words, stream, start) == ["", "two words", "half ? surrogate", "one"]


def test_rows_made_by_others_and_masked_pairs_are_no_documents_of_a_label() -> None:
    corpus = topics(24)
    more = corpus.with_rows(texts=["zzz zzz zzz"] * 24, Y=corpus.Y, ids=[])
    texts = generated(Words(share=1.0), more, np.arange(24), 1, Fit(Run(seed=2)))
    assert not any("zzz" in text for text in texts)
    weight = np.zeros(corpus.Y.nnz, np.float32)
    assert written(replace(corpus, pair_weight=weight), share=1.0) == list(corpus.texts or []), "nobody shares a label"


@pytest.mark.parametrize("documents", [1, 2])
def test_tiny_corpora(documents: int) -> None:
    corpus = topics(documents, 1)
    assert len(written(corpus, share=1.0)) == documents
