"""SSMix: the least salient span overwritten by the partner's most salient one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
pytest.importorskip("lightning")

from mixing_cases import corpus, equal, learns, network_and_batch, plainly_trained, trained  # noqa: E402

from longtail.augment.hooks import NONE, TrainingPlan  # noqa: E402
from longtail.augment.ssmix import SSMix, choose_spans, overwritten, saliency  # noqa: E402
from longtail.learners.neural.training.network import loss_of  # noqa: E402


# arithmetic
def test_two_texts_by_hand():
    values = np.array([[5, 1, 2, 5, 5, 5], [1, 1, 1, 6, 9, 0]], dtype=float)
    tokens = torch.tensor([[11, 12, 13, 14, 15, 16], [21, 22, 23, 24, 25, 0]])
    lengths, partner = np.array([6, 5]), np.array([1, 0])
    spans = choose_spans(values, lengths, partner, share=0.4)
    assert spans.length.tolist() == [2, 2]
    assert spans.to.tolist() == [1, 0], "1 + 2 and 1 + 1 are least"
    assert spans.source.tolist() == [3, 3], "6 + 9 and 5 + 5 are most"
    assert spans.lam.tolist() == pytest.approx([1 - 2 / 6, 1 - 2 / 5])
    mixed = overwritten(tokens, torch.from_numpy(partner), spans)
    assert mixed.tolist() == [[11, 24, 25, 14, 15, 16], [14, 15, 23, 24, 25, 0]]


def test_special_tokens_by_hand():
    """The same texts, where the first and the last token are no words."""
    values = np.array([[0, 5, 1, 5, 0, 0], [9, 1, 6, 2, 1, 9]], dtype=float)
    spans = choose_spans(values, np.array([5, 6]), np.array([1, 0]), share=0.1, special=1)
    assert (spans.length.tolist(), spans.to.tolist(), spans.source.tolist()) == ([1, 1], [2, 1], [2, 1])
    assert spans.lam.tolist() == pytest.approx([1 - 1 / 3, 1 - 1 / 4])


def test_spans_are_no_longer_than_the_partner():
    values = np.ones((2, 30))
    spans = choose_spans(values, np.array([30, 2]), np.array([1, 0]), share=0.1)
    assert spans.length.tolist() == [2, 1]
    assert choose_spans(values, np.array([30, 30]), np.array([1, 0]), share=0.1).length.tolist() == [3, 3]
    # texts of special tokens only have nothing to give, and nothing to be overwritten
    spans = choose_spans(values, np.array([30, 2]), np.array([1, 0]), share=0.1, special=1)
    assert spans.length.tolist() == [0, 0] and spans.lam.tolist() == [1, 1]


@st.composite
def texts(draw):
    size, longest, special = draw(st.integers(1, 5)), draw(st.integers(1, 15)), draw(st.integers(0, 1))
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    lengths = rng.integers(1, longest + 1, size)
    tokens = np.arange(1, size * longest + 1).reshape(size, longest) * (np.arange(longest) < lengths[:, None])
    return tokens, lengths, rng.random((size, longest)), rng.permutation(size), draw(st.floats(0.001, 1)), special


@settings(max_examples=150, deadline=None)
@given(texts())
def test_spans_against_a_plain_search(case):
    tokens, lengths, values, partner, share, special = case
    spans = choose_spans(values, lengths, partner, share, special)
    mixed = overwritten(torch.from_numpy(tokens), torch.from_numpy(partner), spans).numpy()
    assert mixed.shape == tokens.shape and ((mixed > 0) == (tokens > 0)).all(), "as long as the first text"
    for i, j in enumerate(partner):
        words, others = lengths[i] - 2 * special, lengths[j] - 2 * special
        span = max(0, min(max(int(words * share + 1e-9), 1), words, others))
        assert spans.length[i] == span
        if span == 0:
            assert spans.lam[i] == 1 and (mixed[i] == tokens[i]).all()
            continue
        assert spans.lam[i] == pytest.approx(1 - span / words) and 0 <= spans.lam[i] < 1
        own = {s: values[i, s : s + span].mean() for s in range(special, lengths[i] - special - span + 1)}
        theirs = {s: values[j, s : s + span].mean() for s in range(special, lengths[j] - special - span + 1)}
        to, source = spans.to[i], spans.source[i]
        assert own[to] == pytest.approx(min(own.values())) and theirs[source] == pytest.approx(max(theirs.values()))
        assert (mixed[i, to : to + span] == tokens[j, source : source + span]).all()
        assert (np.delete(mixed[i], range(to, to + span)) == np.delete(tokens[i], range(to, to + span))).all()


# saliency
def test_saliency_is_the_size_of_the_gradient():
    """Against finite differences in the embedding of each word."""
    network, batch = network_and_batch(size=3)
    network.double()
    batch = replace(batch, targets=batch.targets.double())
    found = saliency(network, batch)

    def loss(moved):
        embedded = network.encoder.embed(batch.tokens) + moved
        return loss_of(
            network.head(network.encoder.encode(embedded, batch.mask, NONE), batch.mask, batch.labels), batch
        )

    with torch.no_grad():
        shape = (*batch.tokens.shape, network.encoder.words.embedding_dim)
        slopes = torch.zeros(shape, dtype=torch.double)
        for place in np.ndindex(*shape):
            step = torch.zeros(shape, dtype=torch.double)
            step[place] = 1e-5
            slopes[place] = (loss(step) - loss(-step)) / 2e-5
    expected = (slopes**2).mean(dim=2).sqrt() * batch.mask
    expected = expected / expected.max(dim=1, keepdim=True).values
    torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-5)
    assert (found.max(dim=1).values == 1).all() and (found[~batch.mask] == 0).all()


def test_saliency_leaves_nothing_behind():
    network, batch = network_and_batch()
    network.train()
    state, weights = torch.get_rng_state(), {name: w.clone() for name, w in network.state_dict().items()}
    with torch.no_grad():
        first = saliency(network, batch)
    assert torch.equal(torch.get_rng_state(), state)
    assert network.training and all(part.training for part in network.modules())
    assert all(weight.grad is None for weight in network.parameters())
    assert all(torch.equal(weight, weights[name]) for name, weight in network.state_dict().items())
    assert torch.equal(saliency(network, batch), first), "nothing is dropped"


# in the network
def test_batches_hold_documents_and_mixtures():
    network, plain = network_and_batch()
    plain = replace(plain, weights=torch.ones_like(plain.targets))
    hook = SSMix(share=0.3)
    batch = hook.draw(plain, network, np.random.default_rng(2), 0)
    partner = np.random.default_rng(2).permutation(len(plain))
    B = len(plain)
    assert len(batch) == 2 * B and batch.rows.tolist() == [*plain.rows, *plain.rows]
    for name in ("tokens", "mask", "targets", "weights"):
        assert torch.equal(getattr(batch, name)[:B], getattr(plain, name)), name
    assert torch.equal(batch.mask[B:], plain.mask) and torch.equal(batch.weights[B:], plain.weights)
    lengths = plain.mask.sum(dim=1)
    lam = 1 - torch.minimum((lengths * 0.3).long().clamp_min(1), lengths[partner]) / lengths
    expected = lam[:, None] * plain.targets + (1 - lam)[:, None] * plain.targets[partner]
    torch.testing.assert_close(batch.targets[B:], expected)
    changed = (batch.tokens[B:] != plain.tokens).any(dim=1)
    assert changed[partner != np.arange(B)].any()
    # the loss is the mean of what both halves give by themselves
    halves = [replace(batch, tokens=batch.tokens[h], mask=batch.mask[h], targets=batch.targets[h],
                      weights=batch.weights[h]) for h in (slice(0, B), slice(B, None))]  # fmt: skip
    single = [loss_of(network(half), half) for half in halves]
    torch.testing.assert_close(loss_of(network(batch), batch), (single[0] + single[1]) / 2)


def test_gradients_reach_the_words_of_both_documents():
    network, plain = network_and_batch()
    batch = SSMix(share=0.5).draw(plain, network, np.random.default_rng(1), 0)
    partner = np.random.default_rng(1).permutation(len(plain))
    B = len(plain)
    for i in np.flatnonzero(partner != np.arange(B)):
        network.zero_grad()
        network(batch)[B + i].sum().backward()
        touched = set(network.encoder.words.weight.grad.coalesce().indices()[0].tolist())
        mixture = set(batch.tokens[B + i].tolist()) - {0}
        assert mixture <= touched
        assert mixture & set(plain.tokens[i].tolist()) and mixture & set(plain.tokens[partner[i]].tolist())


def test_special_tokens_of_the_encoder_stay():
    network, plain = network_and_batch()
    network.encoder.special_tokens = 1
    batch = SSMix(share=1.0).draw(plain, network, np.random.default_rng(2), 0)
    B, last = len(plain), plain.mask.sum(dim=1) - 1
    rows = torch.arange(B)
    assert torch.equal(batch.tokens[B:, 0], plain.tokens[:, 0])
    assert torch.equal(batch.tokens[B + rows, last], plain.tokens[rows, last])
    assert not torch.equal(batch.tokens[B:], plain.tokens)


def test_plain_batches_until_warm():
    network, plain = network_and_batch()
    hook = SSMix(warm_up=0.3)
    hook.begin(TrainingPlan(corpus(), layers=1, steps=10))
    rng = np.random.default_rng(0)
    sizes = [len(hook.draw(plain, network, rng, step)) // len(plain) for step in range(10)]
    assert sizes == [1] * 3 + [2] * 7


# end to end
def test_never_warm_is_training_without_mixing():
    assert equal(trained([{"part": "ssmix", "warm_up": 1}]), plainly_trained())


def test_mixing_changes_what_is_learnt(monkeypatch):
    changed = []

    def watched(tokens, partner, spans):
        made = overwritten(tokens, partner, spans)
        changed.append(int((made != tokens).any(dim=1).sum()))
        return made

    monkeypatch.setattr("longtail.augment.ssmix.overwritten", watched)
    assert not equal(trained(["ssmix"]), plainly_trained())
    assert len(changed) >= 4 and min(changed) > 0, "words change, not targets alone, in every step after the warm-up"


def test_end_to_end(tmp_path):
    learns(["ssmix"], tmp_path)
