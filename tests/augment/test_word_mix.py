"""Word mixup, and what all mixups have in common."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
pytest.importorskip("lightning")

from mixing_cases import (  # noqa: E402
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

from longtail.augment.mixing import mixed, mixed_mask, mixed_targets  # noqa: E402
from longtail.augment.word_mix import WordMix  # noqa: E402
from longtail.errors import UsageError  # noqa: E402
from longtail.registry import build  # noqa: E402
from longtail.tagger import Tagger  # noqa: E402


# arithmetic
def test_two_numbers_by_hand():
    partner = torch.tensor([1, 0])
    assert mixed(torch.tensor([1.0, 5.0]), partner, 0.75).tolist() == [2.0, 4.0]
    # a lambda for each document
    values = torch.tensor([[[1.0], [2.0]], [[5.0], [6.0]]])
    assert mixed(values, partner, torch.tensor([0.75, 0.5])).tolist() == [[[2.0], [3.0]], [[3.0], [4.0]]]


def test_two_texts_by_hand():
    """The shorter text counts as zeros behind its end, whatever is there, and the mixture is as long as the longer."""
    network, _ = network_and_batch()
    hook = WordMix(fixed=0.75)
    batch = hook.draw(two_documents(), network, swapping(), 0)
    assert batch.targets.tolist() == [[0.75, 0.25], [0.25, 0.75]]
    values = torch.tensor([[[1.0], [2.0]], [[4.0], [99.0]]])
    assert hook.apply_at("layer 1", values) is values
    assert hook.apply_at("embedded", values).tolist() == [[[1.75], [1.5]], [[3.25], [0.5]]]
    assert batch.mask.tolist() == [[True, True], [True, True]]
    assert hook.apply_at("embedded", values).tolist() == [[[1.75], [1.5]], [[3.25], [0.5]]], "the same when run again"


def test_pairs_without_weight_have_no_say_by_hand():
    weights = torch.tensor([[1.0, 0.0], [1.0, 3.0]])
    batch = mixed_targets(two_documents(weights=weights), torch.tensor([1, 0]), 0.75)
    assert batch.weights.tolist() == [[1.0, 0.75], [1.0, 2.25]]
    assert batch.targets.tolist() == [[0.75, 1.0], [0.25, 1.0]]


@st.composite
def cases(draw):
    size, labels = draw(st.integers(1, 6)), draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    targets = rng.random((size, labels)) * rng.integers(0, 2, (size, labels))
    weights = rng.integers(0, 3, (size, labels)) * rng.random((size, labels)) if draw(st.booleans()) else None
    return targets, weights, rng.permutation(size), draw(st.one_of(st.floats(0, 1), st.just(1.0)))


@settings(max_examples=60, deadline=None)
@given(cases())
def test_targets_are_the_mixture_and_stay_between_0_and_1(case):
    targets, weights, partner, lam = case
    base = two_documents()
    given_ = replace(
        base,
        targets=torch.tensor(targets, dtype=torch.float32),
        weights=None if weights is None else torch.tensor(weights, dtype=torch.float32),
    )
    pairs = torch.from_numpy(partner)
    out = mixed_targets(given_, pairs, lam)
    assert out.targets.shape == given_.targets.shape
    assert out.targets.min() >= 0 and out.targets.max() <= 1
    if weights is None:
        sums = targets.sum(axis=1)
        np.testing.assert_allclose(out.targets.sum(dim=1), lam * sums + (1 - lam) * sums[partner], atol=1e-5)
    else:
        # the loss is linear in weight x target, and so the mixture of both losses
        pull = weights * targets
        np.testing.assert_allclose(out.weights * out.targets, lam * pull + (1 - lam) * pull[partner], atol=1e-5)
        np.testing.assert_allclose(out.weights, lam * weights + (1 - lam) * weights[partner], atol=1e-5)
    each = mixed_targets(given_, pairs, torch.full((len(targets),), lam))
    np.testing.assert_allclose(each.targets, out.targets, atol=1e-5)
    alone = mixed_targets(given_, pairs, 1.0)
    has_say = torch.ones_like(given_.targets, dtype=bool) if weights is None else given_.weights > 0
    assert torch.equal(alone.targets[has_say], given_.targets[has_say]), "lambda 1 changes no bit"


def test_masks():
    mask, partner = torch.tensor([[True, True, False], [True, False, False]]), torch.tensor([1, 0])
    assert mixed_mask(mask, partner, 0.5).tolist() == [[True, True, False]] * 2
    assert mixed_mask(mask, partner, 1.0) is mask
    assert mixed_mask(mask, partner, 0.0).tolist() == mask.flip(0).tolist()


# in the network
def test_gradients_reach_both_documents():
    network, plain = network_and_batch()
    hook = WordMix()
    batch = hook.draw(plain, network, np.random.default_rng(1), 0)
    assert (reached(hook, network, batch) == expected_reach(hook.mix_.partner.numpy())).all()


def test_lambda_0_is_the_partner():
    network, plain = network_and_batch()
    hook = WordMix(fixed=0.0)
    batch = hook.draw(plain, network, np.random.default_rng(1), 0)
    partner = hook.mix_.partner
    assert torch.equal(batch.targets, plain.targets[partner])
    torch.testing.assert_close(forward(hook, network, batch)[1], network(plain)[partner])


def test_draws_follow_from_the_generator_and_leave_the_batch():
    network, plain = network_and_batch()
    before = plain.targets.clone(), plain.mask.clone()
    one, other = WordMix(), WordMix()
    first = one.draw(plain, network, np.random.default_rng(5), 0)
    torch.rand(3)
    second = other.draw(plain, network, np.random.default_rng(5), 0)
    assert torch.equal(first.targets, second.targets) and one.mix_.lam == other.mix_.lam
    forward(one, network, first)
    assert torch.equal(plain.targets, before[0]) and torch.equal(plain.mask, before[1])


@pytest.mark.parametrize("name", ["wordmix", "hiddenmix", "tmix", "ssmix"])
def test_shortlists_are_refused(name):
    network, plain = network_and_batch()
    own = replace(plain, labels=plain.labels.expand(len(plain), -1))
    with pytest.raises(UsageError, match=rf"'{name}'.*flat learner: attentionxml.tree"):
        build(name).draw(own, network, np.random.default_rng(0), 0)


def test_modules_need_no_torch():
    """So that `longtail methods` can show their options without the extra."""
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from longtail.registry import build\n"
        "print([build(name).space for name in ('wordmix', 'hiddenmix', 'tmix', 'ssmix')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "['tokens', 'hidden', 'hidden', 'tokens']", done.stderr


# end to end
def test_lambda_1_is_training_without_mixing():
    assert equal(trained([{"part": "wordmix", "fixed": 1}]), plainly_trained())


def test_mixing_changes_what_is_learnt(monkeypatch):
    points = watched(WordMix, monkeypatch)
    assert not equal(trained(["wordmix"]), plainly_trained())
    assert len(points) >= 6 and set(points) == {"embedded"}, "not targets alone, and at every step of two epochs"


def test_end_to_end(tmp_path):
    learns(["wordmix"], tmp_path)


def test_other_spaces_are_refused():
    with pytest.raises(UsageError, match="'wordmix' works in the space 'tokens', which 'bonsai' does not open"):
        Tagger("bonsai", augment=["wordmix"])
