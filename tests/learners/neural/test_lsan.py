"""LSAN: two attentions and their mix, what labels' texts are good for, and context vectors for augmenters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("lightning")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from resuming import check_resumes  # noqa: E402
from short_text_cases import ONE, precision_at_1, titles  # noqa: E402

from longtail import Tagger  # noqa: E402
from longtail.errors import UsageError  # noqa: E402
from longtail.learners.neural.heads.text_attention import TextAttention, TextAttentionNetwork  # noqa: E402
from longtail.learners.neural.lsan import text_directions  # noqa: E402
from longtail.learners.neural.training.batches import Batch, token_tensors  # noqa: E402
from longtail.registry import build  # noqa: E402

QUICK: dict[str, Any] = {
    "part": "lsan", "encoder": {"part": "bilstm", "size": 12, "hidden": 4},
    "head": {"part": "text-attention", "inner": 6},
    "epochs": 1, "least_steps": 12, "batch": 16, "warm_up": 2,
}  # fmt: skip


CLASSIFIERS = ["own", "shared", "vector", "layered"]


def head_of(width: int, labels: int, seed: int = 0, **options: Any) -> TextAttentionNetwork:
    torch.manual_seed(seed)
    made = TextAttention(inner=2, document=False, **options).network(width, width, labels)
    assert isinstance(made, TextAttentionNetwork)
    return made.eval()


def sigmoid(value: float) -> float:
    return float(1 / (1 + np.exp(-value)))


@pytest.mark.parametrize("scores", ["softmax", "plain"])
def test_the_mix_by_hand(scores: str) -> None:
    """One document of two words, one label."""
    head = head_of(2, 1, text_scores=scores)
    q, e, W = np.array([1.0, -2.0]), np.array([0.5, 1.5]), np.array([[1.0, 0.5], [0.0, 2.0]])
    u, u0, w, w0 = np.array([1.0, -1.0]), 0.3, np.array([0.2, 0.4]), -0.1
    with torch.no_grad():
        head.queries.weight.copy_(torch.tensor(np.concatenate([q, e])[None]))
        head.look.weight.copy_(torch.tensor(W))
        head.of_text.weight.copy_(torch.tensor(u[None]))
        head.of_text.bias.fill_(u0)
        head.of_self.weight.copy_(torch.tensor(w[None]))
        head.of_self.bias.fill_(w0)
    h = np.array([[1.0, 0.0], [0.5, -1.0]])
    looked = np.array([q @ np.tanh(W @ word) for word in h])
    alpha = np.exp(looked) / np.exp(looked).sum()
    similar = np.array([e @ word for word in h])  # 0.5 and -1.25
    beta = np.exp(similar) / np.exp(similar).sum() if scores == "softmax" else similar
    own, named = alpha @ h, beta @ h
    a, b = sigmoid(u @ named + u0), sigmoid(w @ own + w0)
    wanted = (a * named + b * own) / (a + b)
    mask = torch.tensor([[True, True, False]])
    hidden = torch.tensor(np.concatenate([h, [[9.0, 9.0]]])[None], dtype=torch.float32)
    found = head.contexts(hidden, mask, torch.tensor([0]), torch.tensor([0]))
    np.testing.assert_allclose(found.detach().numpy()[0], wanted, rtol=1e-5)
    logit = head(hidden, mask, torch.tensor([0]))
    by_hand = wanted @ head.vectors.weight[0].detach().numpy() + float(head.bias.weight[0, 0].detach())
    assert float(logit[0, 0].detach()) == pytest.approx(by_hand, rel=1e-5)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 99), st.lists(st.integers(1, 6), min_size=1, max_size=4), st.sampled_from(CLASSIFIERS))
def test_contexts_of_pairs_are_those_of_the_forward_pass(seed: int, lengths: list[int], classifier: str) -> None:
    """For every pair, and whatever stands behind the end of a text."""
    head = head_of(4, 5, seed, classifier=classifier)
    hidden = torch.randn(len(lengths), 6, 4, generator=torch.Generator().manual_seed(seed))
    mask = torch.arange(6)[None, :] < torch.tensor(lengths)[:, None]
    with torch.no_grad():
        logits = head(hidden, mask, torch.arange(5))
        documents, labels = (each.flatten() for each in torch.meshgrid(
            torch.arange(len(lengths)), torch.arange(5), indexing="ij"))  # fmt: skip
        contexts = head.contexts(hidden, mask, documents, labels)
        torch.testing.assert_close(head.pair_logits(contexts, hidden, mask, documents, labels), logits.flatten())
        # between the means of the words: weights are not negative, and add up to 1
        low = torch.where(mask[:, :, None], hidden, torch.inf).amin(dim=1)[documents]
        high = torch.where(mask[:, :, None], hidden, -torch.inf).amax(dim=1)[documents]
        assert ((contexts >= low - 1e-5) & (contexts <= high + 1e-5)).all()


def test_a_mix_that_never_takes_the_text_is_self_attention() -> None:
    head = head_of(4, 3)
    hidden, mask = torch.randn(2, 5, 4), torch.ones(2, 5, dtype=torch.bool)
    with torch.no_grad():
        head.of_text.bias.fill_(-1e4)
        before = head(hidden, mask, torch.arange(3))
        head.read_texts(torch.nn.functional.normalize(torch.randn(3, 4), dim=1), 1.0)
        assert torch.equal(head(hidden, mask, torch.arange(3)), before)
        head.of_text.bias.fill_(0.0)
        assert not torch.equal(head(hidden, mask, torch.arange(3)), before)


def test_texts_that_are_not_trained_stay() -> None:
    corpus = titles()
    for trained in (False, True):
        learner: Any = build({**QUICK, "head": {"part": "text-attention", "inner": 6, "train_texts": trained}})
        learner.fit(corpus, run=ONE)
        fresh = learner.new_network(corpus.n_labels, ONE)
        tokens = learner.encoder.tokens([corpus.labels.text(n) for n in range(corpus.n_labels)], ONE)
        fresh.head.read_texts(*text_directions(fresh, tokens))
        kept = [network.head.queries.weight[:, 6:] for network in (learner.network_, fresh)]
        assert torch.equal(*kept) != trained


def test_a_label_looks_at_the_words_of_its_text_before_any_training() -> None:
    corpus = titles()
    learner: Any = build({**QUICK, "encoder": {"part": "bag", "size": 40}, "rate": 0.0, "word_rate": 0.0,
                          "label_rate": 0.0})  # fmt: skip
    learner.fit(corpus, run=ONE)
    head, encoder = learner.network_.head, learner.network_.encoder
    with torch.no_grad():
        head.of_self.bias.fill_(-1e4)
        ids, mask = token_tensors(learner.encoder.tokens(["topic3 noise1 topic5"], ONE), np.arange(1))
        hidden = encoder(Batch(np.arange(1), ids, mask, ids, ids))
        for label, place in ((3, 0), (5, 2)):
            shares = head.shares(head.queries(torch.tensor([label])), hidden, mask)
            assert int(shares[0, 0].argmax()) == place and float(shares[0, 0, place]) > 0.6


def test_learns_and_is_kept(tmp_path: Path) -> None:
    corpus = titles()
    tagger = Tagger({**QUICK, "least_steps": 100}, threads=1).fit(corpus)
    assert precision_at_1(tagger.learner, corpus) > 0.9
    tagger.save(tmp_path / "model")
    first, again = tagger.score(corpus, 5), Tagger.load(tmp_path / "model").score(corpus, 5)
    assert first.ids.tobytes() == again.ids.tobytes() and first.values.tobytes() == again.values.tobytes()


@pytest.mark.parametrize(
    "augment", [{"part": "tailmix", "rarest": None}, {"part": "retune", "vectors": 2, "rarest": 9}]
)
def test_augmenters_of_context_vectors_fit(augment: dict[str, Any]) -> None:
    corpus = titles()
    plain = Tagger(QUICK, threads=1).fit(corpus).score(corpus, 5)
    other = Tagger(QUICK, augment=[augment], threads=1).fit(corpus).score(corpus, 5)
    assert plain.values.tobytes() != other.values.tobytes()


@pytest.mark.parametrize("classifier", CLASSIFIERS)
def test_label_specific_features_are_augmented(classifier: str) -> None:
    corpus = titles()
    config = {**QUICK, "head": {"part": "text-attention", "inner": 6, "classifier": classifier}, "retune_epochs": 2}
    lsfa = {"part": "lsfa", "threshold": int(np.median(corpus.labels.frequency)), "epochs": 3, "hidden": 8, "latent": 2,
            "contrastive": {"part": "contrastive", "start": 0.0}}  # fmt: skip
    plain = Tagger(config, threads=1).fit(corpus).learner
    tagger = Tagger(config, augment=[lsfa], threads=1).fit(corpus)
    assert tagger.learner.feature_size == 20 + 12, "contexts, and the document's vector beside them"
    assert tagger.augment[0].prototypes_.any()
    assert plain.score(corpus, 5, run=ONE).values.tobytes() != tagger.score(corpus, 5).values.tobytes()


def test_goes_on_where_it_was_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_resumes(QUICK, titles(), tmp_path, monkeypatch)


def test_learners_that_do_not_read_label_texts_refuse_its_head() -> None:
    with pytest.raises(UsageError, match="not read the labels' texts, which 'text-attention' needs"):
        build({"part": "attentionxml", "head": "text-attention"})
