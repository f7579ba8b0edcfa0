"""LabelMix: documents joined with the text of one of their labels, as rows and on the fly."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from longtail.augment.hooks import TrainingPlan
from longtail.augment.labelmix import LabelMix, LabelMixTokens, joined_tokens
from longtail.corpus import Corpus
from longtail.data.synthetic import synthetic
from longtail.errors import UsageError
from longtail.features.tokens import Tokens
from longtail.labels import LabelIndex
from longtail.registry import build, config_of, name_of
from longtail.run import Run
from longtail.tagger import Tagger

ONE_TREE = {"part": "parabel", "trees": 1}
ALWAYS = {"probability": 1.0}


def by_hand(**others: Any) -> Corpus:
    """Labels a and b share a document, c is alone, d has none; the last document has no label."""
    Y = sp.csr_matrix(np.array([[1, 0.5, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]], dtype=np.float32))
    labels = LabelIndex(["a", "b", "c", "d"], ["text a", "", "text c", "text d"])
    return Corpus(labels=labels, Y=Y, texts=["one", "two", "three"], **others).counted()


# rows
def test_rows_by_hand() -> None:
    """Of two labels as rare as each other, a is drawn two times out of three; one hop meets both equally often."""
    out = LabelMix(**ALWAYS, hops=1, strength=0.4).apply(by_hand(), Run())
    joined = list(out.texts or [])[3:]
    targets = {"one text a": [1, 0.9, 0, 0], "one b": [1, 0.5, 0, 0]}
    assert len(joined) == 2 and joined[0] in targets and joined[1] == "two text c"
    np.testing.assert_allclose(out.Y.toarray()[3:], [targets[joined[0]], [0, 0, 1, 0]], rtol=1e-6)
    drawn = [list(LabelMix(**ALWAYS).apply(by_hand(), Run(seed=s)).texts or [])[3] for s in range(300)]
    assert 160 < drawn.count("one text a") < 240, "y r: targets weigh, too"
    assert out.labels.documents == 3 and len(LabelMix(probability=0.0).apply(by_hand(), Run())) == 3


def test_without_soft_annotations_targets_stay() -> None:
    for options in ({"soft": False}, {"strength": 0.0}):
        out = LabelMix(**ALWAYS, **options).apply(by_hand(), Run())  # type: ignore[arg-type]
        assert out.Y.toarray()[3:].tolist() == [[1, 0.5, 0, 0], [0, 0, 1, 0]]


def test_everything_a_corpus_carries() -> None:
    reciprocal = sp.csr_matrix(np.eye(3, 4, dtype=bool))
    weight = np.array([1, 0, 0.5], dtype=np.float32)
    out = LabelMix(**ALWAYS, strength=1.0).apply(
        by_hand(ids=["x", "y", "z"], pair_weight=weight, reciprocal=reciprocal), Run()
    )
    assert list(out.texts or [])[3:] == ["one text a", "two text c"], "a pair of weight 0 is not drawn"
    assert list(out.ids or [])[3:] == ["labelmix/x", "labelmix/y"]
    assert out.pair_weight is not None and out.pair_weight.tolist() == [1, 0, 0.5, 1, 0, 0.5]
    assert out.reciprocal is not None and out.reciprocal.toarray()[3:].tolist() == np.eye(2, 4, dtype=bool).tolist()


def test_new_pairs_weigh_1() -> None:
    Y = sp.csr_matrix(np.array([[1, 0], [1, 1]], dtype=np.float32))
    corpus = Corpus(labels=LabelIndex(["a", "b"]), Y=Y, texts=["one", "two"])
    given = replace(corpus, pair_weight=np.array([0.5, 0.25, 0.75], dtype=np.float32)).counted()
    out = LabelMix(**ALWAYS, strength=0.5).apply(given, Run())
    assert out.Y[2].nnz == 2 and out.pair_weight is not None
    assert out.pair_weight.tolist()[3:] == [0.5, 1, 0.25, 0.75]


@pytest.mark.parametrize("power", [-0.55, 0.0, 1.0])
def test_labels_are_drawn_by_their_weights(power: float) -> None:
    count, n = np.array([1, 50, 7]), 20_000
    document, label = np.repeat(np.arange(n), 3), np.tile(np.arange(3), n)
    target = np.tile([1, 1, 0.5], n)
    rng = np.random.default_rng(0)
    row, drawn = LabelMix(power=power).draw_labels(document, label, target, count, rng)
    assert (np.diff(row) > 0).all() and abs(len(row) / n - 0.4) < 0.02
    weight = np.array([1, 1, 0.5]) * count**power
    assert stats.chisquare(np.bincount(drawn, minlength=3), len(row) * weight / weight.sum()).pvalue > 1e-3


def test_end_to_end_rows_change_the_model() -> None:
    corpus = synthetic(documents=300, labels=40, words=300, texts=True, seed=1)
    plain, more = (Tagger(ONE_TREE, augment=a).fit(corpus) for a in ([], ["labelmix"]))
    assert more.learner.trees_[0].weight.sum() != plain.learner.trees_[0].weight.sum()
    assert more.labels_.frequency.tolist() == corpus.labels.frequency.tolist()
    with pytest.raises(UsageError, match="'labelmix' puts label texts"):
        LabelMix().apply(replace(corpus, texts=None), Run())


# on the fly
torch = pytest.importorskip("torch")
pytest.importorskip("lightning")

from mixing_cases import TINY, equal, learns, plainly_trained, trained  # noqa: E402

from longtail.learners.neural.training.batches import Batch  # noqa: E402

#: Words 10, 11 belong to label 0, 12 to label 1, 13, 14, 15 to label 2, 16 to label 3.
TEXTS = Tokens(np.arange(10, 17, dtype=np.int32), np.array([0, 2, 3, 6, 7]))
PLAIN = SimpleNamespace(encoder=SimpleNamespace(special_tokens=0))


def hook_for(length: int = 6, texts: Tokens | None = TEXTS, **options: Any) -> LabelMixTokens:
    """A hook of a corpus in which labels 0 and 2 share a document; one hop meets both equally often. Row 3 is made."""
    made = np.array([False, False, False, True])
    Y = sp.csr_matrix(np.array([[1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 1], [0, 1, 0, 1]], dtype=np.float32))
    labels = LabelIndex(list("abcd")).with_counts(np.array([1, 1, 1, 1]), 3)
    hook = LabelMixTokens(**{"probability": 1.0, "hops": 1, "strength": 0.5, **options})
    hook.begin(TrainingPlan(Corpus(labels=labels, Y=Y, made=made), 1, 100, texts, length))
    return hook


def batch_of(labels: list[Any], targets: list[list[float]], weights: Any = None) -> Batch:
    """Documents of two words and one."""
    tokens = torch.tensor([[2, 3], [4, 0]])
    weights = None if weights is None else torch.tensor(weights)
    return Batch(np.arange(2), tokens, tokens > 0, torch.tensor(labels), torch.tensor(targets), weights)


def test_tokens_and_shared_labels_by_hand() -> None:
    batch = batch_of([0, 1], [[1.0, 0.0], [0.0, 1.0]], [[0.5, 1.0], [1.0, 1.0]])
    out = hook_for().draw(batch, PLAIN, np.random.default_rng(0), 0)  # type: ignore[arg-type]
    assert out.tokens.tolist() == [[2, 3, 10, 11], [4, 12, 0, 0]]
    assert out.mask.tolist() == [[True] * 4, [True, True, False, False]]
    assert out.labels.tolist() == [0, 1, 2], "label 2 comes in softly"
    assert out.targets.tolist() == [[1, 0, 0.5], [0, 1, 0]]
    assert out.weights is not None and out.weights.tolist() == [[0.5, 1, 1], [1, 1, 1]]
    assert batch.tokens.shape == (2, 2) and batch.targets.tolist() == [[1, 0], [0, 1]], "the one given stays"


def test_own_lists_by_hand() -> None:
    """Label 2 is in the first document's list; the second list is filled up with label 3, which counts for nothing."""
    batch = batch_of([[0, 2], [1, 3]], [[1.0, 0.0], [1.0, 0.0]], [[1.0, 1.0], [1.0, 0.0]])
    out = hook_for().draw(batch, PLAIN, np.random.default_rng(0), 0)  # type: ignore[arg-type]
    assert out.labels.tolist() == [[0, 2], [1, 3]] and out.targets.tolist() == [[1, 0.5], [1, 0]]
    without = batch_of([[0, 3], [1, 2]], [[1.0, 0.0], [1.0, 0.0]])
    out = hook_for().draw(without, PLAIN, np.random.default_rng(0), 0)  # type: ignore[arg-type]
    assert out.targets.tolist() == [[1, 0], [1, 0]]
    filled = batch_of([[0, 2], [1, 2]], [[1.0, 0.0], [1.0, 0.0]], [[1.0, 0.0], [1.0, 1.0]])
    out = hook_for().draw(filled, PLAIN, np.random.default_rng(0), 0)  # type: ignore[arg-type]
    assert out.targets.tolist() == [[1, 0], [1, 0]], "a pair that fills a list up is in no list"


def test_what_is_left_alone() -> None:
    batch = batch_of([0, 1], [[1.0, 0.0], [0.0, 1.0]])
    rng = np.random.default_rng(0)
    assert hook_for(texts=None).draw(batch, PLAIN, rng, 0) is batch  # type: ignore[arg-type]
    assert hook_for(probability=0.0).draw(batch, PLAIN, rng, 0) is batch  # type: ignore[arg-type]
    light = replace(batch, weights=torch.tensor([[0.0, 1.0], [1.0, 1.0]]))
    assert hook_for().draw(light, PLAIN, rng, 0).tokens.tolist() == [[2, 3], [4, 12]]  # type: ignore[arg-type]
    behind = replace(batch, rows=np.array([3, 0]))
    assert hook_for().draw(behind, PLAIN, rng, 0).tokens.tolist() == [[2, 3], [4, 12]]  # type: ignore[arg-type]
    frozen = replace(batch, states=torch.zeros(2, 2, 1))
    with pytest.raises(UsageError, match="'labelmix-tokens' changes the words"):
        hook_for().draw(frozen, PLAIN, rng, 0)  # type: ignore[arg-type]


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 9999), size=st.integers(1, 6), length=st.integers(4, 9), special=st.integers(0, 1))
def test_joined_tokens_like_lists(seed: int, size: int, length: int, special: int) -> None:
    rng = np.random.default_rng(seed)
    documents = [rng.integers(20, 99, rng.integers(2, 5)).tolist() for _ in range(size)]
    texts = [rng.integers(100, 199, rng.integers(1 + 2 * special, 7)).tolist() for _ in range(3)]
    row = np.flatnonzero(rng.random(size) < 0.6)
    label = rng.integers(0, 3, len(row))
    lengths = np.array([len(d) for d in documents])
    tokens = np.zeros((size, lengths.max()), dtype=np.int64)
    for number, document in enumerate(documents):
        tokens[number, : len(document)] = document
    starts = np.concatenate([[0], np.cumsum([len(t) for t in texts])])
    label_tokens = Tokens(np.concatenate(texts).astype(np.int32), starts.astype(np.int64))
    joined, mask = joined_tokens(tokens, lengths, row, label, label_tokens, length, special)
    expected = [list(d) for d in documents]
    for d, j in zip(row.tolist(), label.tolist(), strict=True):
        own, words = documents[d], texts[j][special : len(texts[j]) - special]
        cut = len(own) - special
        expected[d] = own[:cut] + words[: max(length - len(own), 0)] + own[cut:]
    assert [line[there].tolist() for line, there in zip(joined, mask, strict=True)] == expected
    assert not joined[~mask].any() and max(map(len, expected)) == joined.shape[1]


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 9999))
def test_targets_only_grow_and_labels_stay_sorted(seed: int) -> None:
    rng = np.random.default_rng(seed)
    labels = np.flatnonzero(rng.random(4) < 0.6)
    if not len(labels):
        return
    targets = ((rng.random((2, len(labels))) < 0.6) * rng.uniform(0.1, 1, (2, len(labels)))).astype(np.float32)
    batch = batch_of(labels.tolist(), targets.tolist())
    out = hook_for(probability=0.7).draw(batch, PLAIN, rng, 0)  # type: ignore[arg-type]
    found = out.labels.numpy()
    assert (np.diff(found) > 0).all() and set(labels) <= set(found)
    old, new = out.targets.numpy()[:, np.searchsorted(found, labels)], out.targets.numpy()
    assert (old >= targets - 1e-6).all() and new.max() <= 1 and new.min() >= 0


def test_networks_that_read_texts_get_the_tokens() -> None:
    tagger = Tagger(TINY, features=None, augment=[{"part": "labelmix", "probability": 0.7, "strength": 0.6}])
    (part,) = tagger.augment
    assert isinstance(part, LabelMixTokens) and (part.probability, part.strength) == (0.7, 0.6)
    again = Tagger(**tagger.config())
    assert config_of(again.augment[0]) == config_of(part)
    both: Any = {"part": "ensemble", "members": ["parabel", TINY]}
    for learner in ("parabel", both):
        assert isinstance(Tagger(learner, augment=["labelmix"]).augment[0], LabelMix)
    assert build("labelmix").expanded(build("parabel")) is None  # type: ignore[attr-defined, arg-type]


def test_end_to_end_on_the_fly(tmp_path: Any) -> None:
    first, second = (trained(["labelmix"]) for _ in range(2))
    assert equal(first, second) and not equal(first, plainly_trained())
    assert equal(trained([{"part": "labelmix", "probability": 0.0}]), plainly_trained())
    learns(["labelmix"], tmp_path)


def test_it_comes_before_what_mixes_texts_in_whatever_order_they_are_named():
    tagger = Tagger("attentionxml", augment=["wordmix", "labelmix"])
    assert [name_of(hook) for hook in tagger.pipeline._hooks(())] == ["labelmix-tokens", "wordmix"]


def test_nothing_changes_where_nothing_of_the_labels_text_is_read() -> None:
    """The first document fills what the encoder reads; the second has room for one word."""
    batch = batch_of([0, 1, 2], [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    out = hook_for(length=2).draw(batch, PLAIN, np.random.default_rng(0), 0)  # type: ignore[arg-type]
    assert out.tokens.tolist() == [[2, 3], [4, 13]]
    assert out.targets.tolist() == [[1.0, 0.0, 0.0], [0.5, 0.0, 1.0]], "only the second has soft targets"
    full = hook_for(length=1).draw(batch, PLAIN, np.random.default_rng(0), 0)  # type: ignore[arg-type]
    assert full is batch
