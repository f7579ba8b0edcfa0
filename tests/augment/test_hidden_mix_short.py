"""Manifold mixup in networks for short texts: what their layers are, and that documents are mixed there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("lightning")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from mixing_cases import corpus, equal, forward, swapping, two_documents  # noqa: E402

from longtail.augment.hidden_mix import HiddenMix  # noqa: E402
from longtail.augment.hooks import Hooks  # noqa: E402
from longtail.learners.neural.encoders.inception import InceptionNetwork  # noqa: E402
from longtail.learners.neural.shortlists.base import SharedLabels  # noqa: E402
from longtail.learners.neural.training.batches import Batch, Batches  # noqa: E402
from longtail.learners.neural.training.network import Network  # noqa: E402
from longtail.registry import build  # noqa: E402
from longtail.run import Run  # noqa: E402
from longtail.tagger import Tagger  # noqa: E402

BAG = {"part": "weighted-bag", "size": 6, "min_df": 1}
INCEPTION = {"part": "inception", "size": 80, "channels": 3, "window": 6, "dropout": 0.0, "min_df": 1}
ENCODERS = {
    "bag": BAG,
    "bag with a block": {**BAG, "residual": True},
    "inception": INCEPTION,
    "inception as published": {**INCEPTION, "skip": False},
    "routed": {**INCEPTION, "skip": False, "routed": True},
}
LEARNER: dict[str, Any] = {
    "part": "astec", "encoder": BAG, "epochs": 1, "least_steps": 8, "batch": 16, "shortlist": "all-labels",
}  # fmt: skip


def network_and_batch(encoder: dict[str, Any]) -> tuple[Network, Batch]:
    learner: Any = build({**LEARNER, "encoder": encoder}, "learner")
    learner.encoder.fit_tokeniser(corpus().texts, Run())
    network = learner.new_network(corpus().n_labels, Run()).eval()
    tokens = learner.encoder.tokens(corpus().texts, Run())
    choice = SharedLabels(corpus().Y, corpus().pair_weight, 0)
    return network, next(iter(Batches(tokens, choice, 8, seed=1)))


def drawn_at(point: str, network: Network, batch: Batch, **options: Any) -> tuple[HiddenMix, Batch]:
    hook = HiddenMix(**options)
    mixed = hook.draw(batch, network, np.random.default_rng(1), 0)
    assert hook.mix_ is not None
    hook.mix_ = replace(hook.mix_, point=point)
    return hook, mixed


def test_points_of_each_encoder() -> None:
    """Where words go round the convolutions, mixing these alone would mix a part of a text only."""
    found = {name: HiddenMix().points(network_and_batch(encoder)[0]) for name, encoder in ENCODERS.items()}
    assert found == {
        "bag": ["embedded", "layer 1"],
        "bag with a block": ["embedded", "layer 1", "layer 2"],
        "inception": ["embedded", "layer 3"],
        "inception as published": ["embedded", "layer 1", "layer 2", "layer 3"],
        "routed": ["embedded", "layer 1", "layer 2", "layer 3"],
    }


def test_two_vectors_by_hand() -> None:
    """One vector per document: nothing is masked, and texts stay as long as they are."""
    network, _ = network_and_batch(BAG)
    hook = HiddenMix(fixed=0.75)
    batch = hook.draw(two_documents(), network, swapping(), 0)
    assert hook.mix_ is not None
    hook.mix_ = replace(hook.mix_, point="layer 1")
    assert batch.targets.tolist() == [[0.75, 0.25], [0.25, 0.75]]
    assert hook.apply_at("layer 1", torch.tensor([[4.0, 0.0], [0.0, 8.0]])).tolist() == [[3.0, 2.0], [1.0, 6.0]]
    assert batch.mask.tolist() == [[True, True], [True, False]]


def test_a_bag_is_mixed_before_its_block() -> None:
    network: Any
    network, plain = network_and_batch({**BAG, "residual": True})
    hook, batch = drawn_at("layer 1", network, plain, fixed=0.25)
    block, network.encoder.block = network.encoder.block, None
    sums = network.encode(plain)
    network.encoder.block = block
    assert hook.mix_ is not None
    expected = block(0.25 * sums + 0.75 * sums[hook.mix_.partner])
    torch.testing.assert_close(network.encode(batch, Hooks([hook])), expected)


@pytest.mark.parametrize("name", list(ENCODERS))
def test_lambda_0_is_the_partner(name: str) -> None:
    network, plain = network_and_batch(ENCODERS[name])
    for point in HiddenMix().points(network):
        hook, batch = drawn_at(point, network, plain, fixed=0.0)
        assert hook.mix_ is not None
        torch.testing.assert_close(forward(hook, network, batch)[1], network(plain)[hook.mix_.partner])


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), name=st.sampled_from(list(ENCODERS)))
def test_behind_the_last_layer_logits_are_mixed(seed: int, name: str) -> None:
    """The head of astec is a product with label vectors: a mixture of vectors has the mixture of both logits."""
    network, plain = network_and_batch(ENCODERS[name])
    hook = HiddenMix()
    batch = hook.draw(plain, network, np.random.default_rng(seed), 0)
    assert hook.mix_ is not None
    hook.mix_ = replace(hook.mix_, point=f"layer {network.encoder.layers}")
    logits, lam = network(plain), hook.mix_.lam
    expected = lam * logits + (1 - lam) * logits[hook.mix_.partner]
    torch.testing.assert_close(forward(hook, network, batch)[1], expected, rtol=1e-4, atol=1e-4)


def test_layers_of_an_inception_are_what_it_reaches() -> None:
    seen: list[str] = []

    class Watching(Hooks):
        def apply_at(self, point: str, values: Any) -> Any:
            seen.append(point)
            return values

    network, plain = network_and_batch(INCEPTION)
    network.encode(plain, Watching())
    assert seen == ["embedded", *(f"layer {n}" for n in range(1, InceptionNetwork.layers + 1))]


# end to end
def learnt(augment: list[Any], encoder: dict[str, Any]) -> dict[str, np.ndarray]:
    tagger = Tagger({**LEARNER, "encoder": encoder}, features=None, augment=augment, threads=1).fit(corpus())
    return tagger.learner.state()


@pytest.mark.parametrize("name", ["bag", "inception as published"])
def test_an_ordinary_training_mixes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Documents are mixed at every step, at layers too; with lambda 1 the training is the plain one."""
    applied: list[str] = []
    given = HiddenMix.apply_at

    def watched(self: HiddenMix, point: str, values: Any) -> Any:
        made = given(self, point, values)
        if not torch.equal(made, values):
            applied.append(point)
        return made

    monkeypatch.setattr(HiddenMix, "apply_at", watched)
    encoder = ENCODERS[name]
    plain = learnt([], encoder)
    assert not equal(learnt(["hiddenmix"], encoder), plain)
    assert len(applied) == 8 and {"embedded", "layer 1"} <= set(applied)
    applied.clear()
    if name == "bag":
        assert equal(learnt([{"part": "hiddenmix", "fixed": 1}], encoder), plain) and not applied


@pytest.mark.parametrize("learner", ["astec", "inceptionxml", "decaf", "eclare", "inceptionxml-lf"])
def test_every_short_text_learner_takes_it(learner: str) -> None:
    assert "hidden" in Tagger(learner, augment=["hiddenmix"]).learner.capabilities.spaces
