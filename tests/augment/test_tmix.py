"""TMix: two documents mixed at an upper layer."""

from __future__ import annotations

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

from longtail.augment.tmix import TMix  # noqa: E402
from longtail.errors import UsageError  # noqa: E402
from longtail.registry import build, config_of  # noqa: E402


def layers_of(hook, depth, frozen=0):
    return hook.points(SimpleNamespace(encoder=SimpleNamespace(frozen=frozen, layers=depth, skip=False)))


# arithmetic
def test_two_sequences_by_hand():
    """The first text's mask stays: what the partner has behind the first text's end is mixed in, and never seen."""
    network, _ = network_and_batch()
    hook = TMix(fixed=0.75)
    batch = hook.draw(two_documents(), network, swapping(), 0)
    assert batch.targets.tolist() == [[0.75, 0.25], [0.25, 0.75]]
    values = torch.tensor([[[1.0], [2.0]], [[4.0], [99.0]]])
    assert hook.apply_at("embedded", values) is values
    assert hook.apply_at("layer 1", values).tolist() == [[[1.75], [1.5]], [[3.25], [0.5]]]
    assert batch.mask.tolist() == [[True, True], [True, False]]


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), alpha=st.floats(0.05, 20))
def test_draws(seed, alpha):
    """A mixture is mostly its first text."""
    network, plain = network_and_batch()
    hook = TMix(alpha=alpha)
    batch = hook.draw(plain, network, np.random.default_rng(seed), 0)
    lam, partner = hook.mix_.lam, hook.mix_.partner
    assert 0.5 <= lam <= 1
    assert batch.targets.shape == plain.targets.shape
    assert batch.targets.min() >= 0 and batch.targets.max() <= 1
    sums = plain.targets.sum(dim=1)
    torch.testing.assert_close(batch.targets.sum(dim=1), lam * sums + (1 - lam) * sums[partner])


# layers
def test_layers_are_scaled_to_the_depth():
    assert layers_of(TMix(), 12) == ["layer 7", "layer 9", "layer 12"]
    assert layers_of(TMix(), 6) == ["layer 4", "layer 5", "layer 6"]
    assert layers_of(TMix(), 24) == ["layer 14", "layer 18", "layer 24"]
    assert layers_of(TMix(), 2) == ["layer 2"]
    assert layers_of(TMix(), 1) == ["layer 1"]


@given(depth=st.integers(1, 48), frozen=st.integers(0, 47))
def test_layers_are_trained_ones_of_the_upper_half(depth, frozen):
    if frozen >= depth:
        with pytest.raises(UsageError, match="no trained layer"):
            layers_of(TMix(), depth, frozen)
        return
    numbers = [int(point.removeprefix("layer ")) for point in layers_of(TMix(), depth, frozen)]
    assert numbers == sorted(set(numbers)) and numbers[-1] == depth
    assert all(number > frozen and number > depth / 2 for number in numbers)


def test_layers_as_given():
    hook = TMix(layers=[2, 5])
    assert layers_of(hook, 6) == ["layer 2", "layer 5"]
    assert config_of(build(config_of(hook))) == config_of(hook)
    for wrong in ([7], [0], [1.5], [], [3, 7]):
        with pytest.raises(UsageError, match=r"tmix\.layers must be layers to mix at \(1 to 6 here\), not"):
            layers_of(TMix(layers=wrong), 6)
    with pytest.raises(UsageError, match=r"\(3 to 6 here\)"):
        layers_of(hook, 6, frozen=2)


def test_layers_that_words_go_round_are_left_out():
    """With `skip` embeddings reach the head beside the layers: mixed half-way, they would stay as they are."""
    network, _ = network_and_batch(encoder={**ENCODER, "depth": 3})
    assert TMix().points(network) == ["layer 3"]
    network, _ = network_and_batch(encoder={**ENCODER, "depth": 3, "skip": False})
    assert TMix().points(network) == ["layer 2", "layer 3"]


# in the network
@pytest.mark.parametrize("layer", [1, 2])
def test_gradients_reach_both_documents(layer):
    network, plain = network_and_batch(encoder={**ENCODER, "depth": 2, "skip": False})
    hook = TMix(layers=[layer])
    batch = hook.draw(plain, network, np.random.default_rng(1), 0)
    assert (reached(hook, network, batch) == expected_reach(hook.mix_.partner.numpy())).all()


def test_texts_are_apart_below_the_layer():
    """At the top of the encoder the mixture is that of what each text gives by itself."""
    network, plain = network_and_batch(head="pooled")
    hook = TMix(fixed=0.75)
    batch = hook.draw(plain, network, np.random.default_rng(1), 0)
    hidden = network.encoder(plain) * plain.mask[:, :, None]
    mixture = 0.75 * hidden + 0.25 * hidden[hook.mix_.partner]
    logits = network.head(mixture, plain.mask, plain.labels)
    torch.testing.assert_close(forward(hook, network, batch)[1], logits)


# end to end
def test_lambda_1_is_training_without_mixing():
    assert equal(trained([{"part": "tmix", "fixed": 1}]), plainly_trained())


def test_mixing_changes_what_is_learnt(monkeypatch):
    points = watched(TMix, monkeypatch)
    assert not equal(trained(["tmix"]), plainly_trained())
    assert len(points) >= 6 and set(points) == {"layer 1"}, "not targets alone, and at every step of two epochs"


def test_wrong_layers_are_refused():
    with pytest.raises(UsageError, match=r"tmix\.layers"):
        trained([{"part": "tmix", "layers": [2]}])


def test_end_to_end(tmp_path):
    learns(["tmix"], tmp_path)
