"""Manifold mixup: two documents mixed at a random layer."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
pytest.importorskip("lightning")

from mixing_cases import (  # noqa: E402
    ENCODER,
    equal,
    expected_reach,
    forward,
    learns,
    network_and_batch,
    plainly_trained,
    reached,
    swapping,
    trained,
    two_documents,
    watched,
)

from longtail.augment.hidden_mix import HiddenMix  # noqa: E402
from longtail.augment.ssmix import SSMix  # noqa: E402
from longtail.errors import UsageError  # noqa: E402

SHARED = {"part": "label-attention", "classifier": "shared", "hidden": 32}
DEEP = {**ENCODER, "depth": 2, "skip": False}


def drawn_at(point, network, batch, **options):
    """A hook that has drawn, made to mix at one point."""
    hook = HiddenMix(**options)
    mixed = hook.draw(batch, network, np.random.default_rng(1), 0)
    hook.mix_ = replace(hook.mix_, point=point)
    return hook, mixed


# arithmetic
@pytest.mark.parametrize("point", ["embedded", "layer 1"])
def test_two_sequences_by_hand(point):
    network, _ = network_and_batch()
    hook = HiddenMix(fixed=0.5)
    batch = hook.draw(two_documents(), network, swapping(), 0)
    hook.mix_ = replace(hook.mix_, point=point)
    assert batch.targets.tolist() == [[0.5, 0.5], [0.5, 0.5]]
    assert batch.mask.tolist() == [[True, True], [True, False]], "below the point texts are as long as they are"
    assert hook.apply_at(point, torch.tensor([[[2.0], [4.0]], [[6.0], [99.0]]])).tolist() == [[[4.0], [2.0]]] * 2
    assert batch.mask.tolist() == [[True, True], [True, True]]


@pytest.mark.parametrize("point", ["context", "classifier"])
def test_two_vectors_a_label_by_hand(point):
    network, _ = network_and_batch()
    hook = HiddenMix(fixed=0.75)
    batch = hook.draw(two_documents(), network, swapping(), 0)
    hook.mix_ = replace(hook.mix_, point=point)
    assert hook.wants(point) and not hook.wants("layer 1")
    values = torch.tensor([[[4.0], [8.0]], [[0.0], [4.0]]])  # two documents, two labels
    assert hook.apply_at(point, values).tolist() == [[[3.0], [7.0]], [[1.0], [5.0]]]
    assert batch.mask.tolist() == [[True, True], [True, False]], "words are attended to before this"


# points
def test_points_of_networks():
    hook = HiddenMix()
    assert hook.points(network_and_batch()[0]) == ["embedded", "layer 1", "context"]
    deep, _ = network_and_batch(encoder=DEEP, head=SHARED)
    assert hook.points(deep) == ["embedded", "layer 1", "layer 2", "context", "classifier"]
    assert hook.points(network_and_batch(head="pooled")[0]) == ["embedded", "layer 1"]


def test_frozen_layers_are_left_out():
    network = SimpleNamespace(encoder=SimpleNamespace(frozen=4, layers=6, skip=False), head=SimpleNamespace(points=()))
    assert HiddenMix().points(network) == ["layer 5", "layer 6"]
    network.encoder.frozen = 6
    with pytest.raises(UsageError, match="'hiddenmix' finds no trained layer"):
        HiddenMix().points(network)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), alpha=st.floats(0.05, 20))
def test_draws(seed, alpha):
    network, plain = network_and_batch()
    hook = HiddenMix(alpha=alpha)
    batch = hook.draw(plain, network, np.random.default_rng(seed), 0)
    assert hook.mix_.point in hook.points(network) and 0 <= hook.mix_.lam <= 1
    assert batch.targets.shape == plain.targets.shape
    assert batch.targets.min() >= 0 and batch.targets.max() <= 1
    sums = plain.targets.sum(dim=1)
    expected = hook.mix_.lam * sums + (1 - hook.mix_.lam) * sums[hook.mix_.partner]
    torch.testing.assert_close(batch.targets.sum(dim=1), expected)
    assert forward(hook, network, batch)[1].shape == plain.targets.shape


def test_every_point_is_drawn():
    network, plain = network_and_batch()
    hook, seen = HiddenMix(), set()
    for seed in range(40):
        hook.draw(plain, network, np.random.default_rng(seed), 0)
        seen.add(hook.mix_.point)
    assert seen == set(hook.points(network))


# in the network
@pytest.mark.parametrize("point", ["embedded", "layer 1", "layer 2", "context", "classifier"])
def test_gradients_reach_both_documents(point):
    network, plain = network_and_batch(encoder=DEEP, head=SHARED)
    hook, batch = drawn_at(point, network, plain)
    assert (reached(hook, network, batch) == expected_reach(hook.mix_.partner.numpy())).all()


@pytest.mark.parametrize("point", ["embedded", "layer 1", "context"])
def test_lambda_0_is_the_partner(point):
    network, plain = network_and_batch()
    hook, batch = drawn_at(point, network, plain, fixed=0.0)
    if point == "context":  # attention has been paid with each text's own mask
        assert torch.equal(batch.mask, plain.mask)
    torch.testing.assert_close(forward(hook, network, batch)[1], network(plain)[hook.mix_.partner])


@pytest.mark.parametrize("head", ["label-attention", SHARED, "pooled"], ids=["own", "shared", "pooled"])
def test_padding_has_no_say(head):
    """The same logits when a longer text elsewhere in the batch makes every row longer."""
    network, plain = network_and_batch(head=head)
    wider = torch.nn.functional.pad(plain.tokens, (0, 3))
    longer = replace(plain, tokens=wider, mask=wider > 0)
    for point in HiddenMix().points(network):
        hook, batch = drawn_at(point, network, plain)
        other, padded = drawn_at(point, network, longer)
        torch.testing.assert_close(forward(hook, network, batch)[1], forward(other, network, padded)[1])


def test_behind_augmenters_that_add_documents_only():
    network, plain = network_and_batch()
    hook, more = HiddenMix(), SSMix()
    rng = np.random.default_rng(0)
    batch = more.draw(hook.draw(plain, network, rng, 0), network, rng, 0)
    with pytest.raises(UsageError, match="'hiddenmix' must stand behind augmenters that add documents"):
        for point in hook.points(network):
            hook.apply_at(point, torch.zeros(len(batch), 3, 2))
    batch = hook.draw(more.draw(plain, network, rng, 0), network, rng, 0)
    assert len(forward(hook, network, batch)[1]) == 2 * len(plain)


# end to end
@pytest.mark.parametrize("options", [{}, {"head": "pooled"}], ids=["own", "pooled"])
def test_lambda_1_is_training_without_mixing(options):
    assert equal(trained([{"part": "hiddenmix", "fixed": 1}], **options), plainly_trained(**options))


def test_lambda_1_with_a_hidden_layer_in_the_classifier():
    assert equal(trained([{"part": "hiddenmix", "fixed": 1}], head=SHARED), trained([], head=SHARED))


def test_mixing_changes_what_is_learnt(monkeypatch):
    points = watched(HiddenMix, monkeypatch)
    assert not equal(trained(["hiddenmix"]), plainly_trained())
    assert len(points) >= 6 and len(set(points)) > 1, "not targets alone, at every step, at one layer or another"


def test_end_to_end(tmp_path):
    learns(["hiddenmix"], tmp_path)
