"""InceptionXML's encoder: sizes, rings, mixtures of convolutions, and what padding may not do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from short_text_cases import ONE  # noqa: E402
from torch.nn import functional  # noqa: E402

from longtail.augment.hooks import NONE  # noqa: E402
from longtail.errors import UsageError  # noqa: E402
from longtail.learners.neural.encoders.inception import KERNELS, STRIDE, Inception, SelfAttention  # noqa: E402
from longtail.learners.neural.training.batches import Batch, token_tensors  # noqa: E402

TEXTS = ["red green blue white", "red", "", "grey black green white red blue black", "never seen"]
WORDS = TEXTS[:4]
#: The forms: as here, as published (InceptionXML), and with weights of each text's own (InceptionXML-LF).
FORMS: dict[str, dict[str, Any]] = {
    "here": {"skip": True},
    "published": {"skip": False, "enhance": True},
    "routed": {"skip": True, "routed": True},
    "routed, published": {"skip": False, "enhance": True, "routed": True},
}


def inception(**options: Any) -> Inception:
    made = Inception(**{"size": 80, "channels": 3, "window": 6, "dropout": 0.0, "enhance": False, **options})
    made.fit_tokeniser(WORDS, ONE)
    return made


def drawn(encoder: Inception, seed: int = 0) -> Any:
    """A network with weights, and batch norms as they are after some training."""
    torch.manual_seed(seed)
    network = encoder.network()
    with torch.no_grad():
        for part in network.modules():
            if isinstance(part, SelfAttention):
                part.gamma.fill_(0.3)
            if isinstance(part, torch.nn.BatchNorm1d):
                part.running_mean.normal_()
                part.running_var.uniform_(0.5, 2)
    return network.eval()


def batch_of(encoder: Inception, texts: list[str]) -> Batch:
    ids, mask = token_tensors(encoder.tokens(texts, ONE), np.arange(len(texts)))
    return Batch(np.arange(len(texts)), ids, mask, ids, ids)


class TestSizes:
    def test_as_published(self) -> None:
        """300 numbers, every fourth place twice, 32 channels: 15 places and 480 features."""
        network = inception(size=300, channels=32, window=32, skip=False).network().eval()
        assert network.features == network.width == network.word_width == 480
        assert network.gather.in_channels == 96
        assert inception(size=300, channels=32, routed=True).network().gather.in_channels == 32

    @pytest.mark.parametrize("form", FORMS)
    @pytest.mark.parametrize("size", [80, 84, 200])
    def test_one_vector_a_text(self, form: str, size: int) -> None:
        encoder = inception(size=size, **FORMS[form])
        network = drawn(encoder)
        found = network(batch_of(encoder, TEXTS))
        places = (size // 4 - 16) // 4 + 1
        assert network.features == 3 * places
        assert found.shape == (len(TEXTS), size if FORMS[form]["skip"] else 3 * places)
        assert torch.isfinite(found).all()

    @pytest.mark.parametrize(("size", "message"), [(82, "multiple of 4"), (76, "at least 80")])
    def test_sizes_that_do_not_work(self, size: int, message: str) -> None:
        with pytest.raises(UsageError, match=rf"inception\.size must be .*{message}"):
            Inception(size=size)

    @pytest.mark.parametrize("form", FORMS)
    def test_a_batch_of_one_text_can_be_trained(self, form: str) -> None:
        """The last batch of an epoch may be that small; batch norms need more than one number a channel."""
        encoder = inception(**FORMS[form])
        network = encoder.network().train()
        network(batch_of(encoder, ["red"])).sum().backward()


class TestWindow:
    LONG = "red green blue white grey black red"

    def test_words_behind_the_window_count_in_the_sum(self) -> None:
        """Titles are longer than the convolutions look: a regulation's subject comes behind its number."""
        encoder = inception(window=3)
        network = drawn(encoder)
        short, long = network(batch_of(encoder, ["red green blue", self.LONG]))
        assert not torch.allclose(short, long, atol=1e-3)
        assert encoder.tokens([self.LONG], ONE).lengths.tolist() == [7]

    def test_convolutions_see_the_window_only(self) -> None:
        encoder = inception(window=3, skip=False)
        network = drawn(encoder)
        first, second = network(batch_of(encoder, ["red green grey white", "red green grey blue"]))
        torch.testing.assert_close(first, second)


def around(values: Any, kernel: int) -> Any:
    """Padded as a ring, so that every kernel gives one number every fourth place."""
    side = (kernel - STRIDE) // 2
    return functional.pad(values, (side, side), mode="circular") if side else values


class TestConvolutions:
    @pytest.mark.parametrize("size", [80, 84, 200])
    def test_as_torchs(self, size: int) -> None:
        """Values and gradients of the three convolutions of a ring, and of the last one."""
        network = drawn(inception(size=size))
        values = torch.randn(3, 6, size, requires_grad=True)
        ours = network._looked(values)
        theirs = [conv(around(values, kernel)) for conv, kernel in zip(network.look, KERNELS, strict=True)]
        self.same(ours, theirs, [values, *network.look.parameters()])
        joined = torch.randn(3, size // STRIDE, 9, requires_grad=True)
        self.same(
            [network._gathered(network.gather, joined)],
            [network.gather(joined.transpose(1, 2))],
            [joined, *network.gather.parameters()],
        )

    @staticmethod
    def same(ours: list[Any], theirs: list[Any], parameters: list[Any]) -> None:
        gradients: list[Any] = [[], []]
        for number, (mine, torchs) in enumerate(zip(ours, theirs, strict=True)):
            torch.testing.assert_close(mine.transpose(1, 2), torchs, rtol=1e-4, atol=1e-5)
            direction = torch.randn(torchs.shape, generator=torch.Generator().manual_seed(number))
            gradients[0].append((mine.transpose(1, 2) * direction).sum())
            gradients[1].append((torchs * direction).sum())
        one, other = (torch.autograd.grad(sum(each), parameters) for each in gradients)
        for mine, torchs in zip(one, other, strict=True):
            torch.testing.assert_close(mine, torchs, rtol=1e-4, atol=1e-4)

    @pytest.mark.parametrize("kernel", range(len(KERNELS)))
    def test_a_ring_has_no_end(self, kernel: int) -> None:
        network = drawn(inception())
        values = torch.randn(1, 6, 80)
        turned = network._looked(values.roll(STRIDE, dims=2))[kernel]
        torch.testing.assert_close(turned, network._looked(values)[kernel].roll(1, dims=1))


class TestSelfAttention:
    def test_starts_as_the_identity(self) -> None:
        values = torch.randn(2, 3, 5)
        assert torch.equal(SelfAttention(3)(values), values)

    def test_by_hand(self) -> None:
        """X X^T = diag(1, 4), so that X + gamma (X X^T) X = diag(1 + gamma, 2 + 8 gamma)."""
        made = SelfAttention(2).train()
        with torch.no_grad():
            made.layer.parametrizations.weight.original.copy_(torch.eye(2)[:, :, None])
            made.gamma.fill_(0.5)
        found = made(torch.tensor([[[1.0, 0.0], [0.0, 2.0]]]))
        torch.testing.assert_close(found, torch.tensor([[[1.5, 0.0], [0.0, 6.0]]]))

    def test_both_ways_are_learnt(self) -> None:
        encoder = inception(enhance=True)
        network = encoder.network().train()
        network(batch_of(encoder, WORDS)).square().sum().backward()
        assert network.over_words.gamma.grad != 0 and network.over_numbers.gamma.grad != 0
        assert network.over_words.layer.parametrizations.weight.original.shape == (6, 6, 1)
        assert network.over_numbers.layer.parametrizations.weight.original.shape == (80, 80, 1)


def inputs_of(part: Any, call: Any) -> Any:
    """What a layer is given in a forward pass."""
    seen: list[Any] = []
    with part.register_forward_pre_hook(lambda module, given: seen.append(given[0].detach().clone())):
        call()
    return seen[-1]


class TestRouted:
    def test_the_mixture(self) -> None:
        """The three convolutions and the average, weighted by each text's own weights, which sum to 1."""
        encoder = inception(routed=True)
        network, batch = drawn(encoder), batch_of(encoder, WORDS)
        found = inputs_of(network.looked, lambda: network(batch))
        inside = network.embed(batch.tokens) * batch.mask[:, :, None]
        bag = inside.sum(dim=1)
        share = network.route(bag).softmax(dim=1)
        assert share.shape == (len(WORDS), 4)
        torch.testing.assert_close(share.sum(dim=1), torch.ones(len(WORDS)))
        assert (share[0] - share[3]).abs().max() > 1e-4, "texts have weights of their own"
        values = network.mixed(functional.gelu(network.mix(functional.pad(inside, (0, 0, 0, 6 - inside.shape[1])))))
        maps = [conv(around(values, kernel)) for conv, kernel in zip(network.look, KERNELS, strict=True)]
        maps.append(network.pool(values).unfold(2, 4, 4).mean(dim=3))
        expected = sum(share[:, number, None, None] * each for number, each in enumerate(maps))
        torch.testing.assert_close(found, functional.gelu(expected).transpose(1, 2).flatten(0, 1))

    def test_not_routed_puts_them_one_beside_the_other(self) -> None:
        encoder = inception()
        network, batch = drawn(encoder), batch_of(encoder, WORDS)
        found = inputs_of(network.looked, lambda: network(batch))
        assert found.shape == (len(WORDS) * 20, 9)


@pytest.mark.parametrize("form", FORMS)
class TestPadding:
    def test_other_texts_of_the_batch_do_not_matter(self, form: str) -> None:
        encoder = inception(**FORMS[form])
        network = drawn(encoder)
        together = network(batch_of(encoder, TEXTS))
        for number, text in enumerate(TEXTS):
            torch.testing.assert_close(network(batch_of(encoder, [text]))[0], together[number], rtol=0, atol=1e-6)

    def test_what_stands_outside_the_mask_does_not_matter(self, form: str) -> None:
        encoder = inception(**FORMS[form])
        network, batch = drawn(encoder), batch_of(encoder, TEXTS)
        embedded = network.embed(batch.tokens)
        rubbish = torch.where(batch.mask[:, :, None], embedded, torch.full_like(embedded, 9.0))
        expected = network.encode(embedded, batch.mask, NONE)
        assert torch.equal(network.encode(rubbish, batch.mask, NONE), expected)


class TestSkip:
    def test_without_its_share_the_vector_is_the_weighted_sum(self) -> None:
        encoder = inception()
        network, batch = drawn(encoder), batch_of(encoder, TEXTS)
        bag = (network.embed(batch.tokens) * batch.mask[:, :, None]).sum(dim=1)
        assert 0 < (network(batch) - bag).abs().max() < 0.5, "features are a small share in the beginning"
        with torch.no_grad():
            network.share.zero_()
        torch.testing.assert_close(network(batch), bag)

    @pytest.mark.parametrize("form", FORMS)
    def test_order_matters(self, form: str) -> None:
        encoder = inception(**FORMS[form])
        network = drawn(encoder)
        if network.share is not None:
            with torch.no_grad():
                network.share.fill_(1)
        one, other = network(batch_of(encoder, ["red green blue", "blue red green"]))
        assert (one - other).abs().max() > 1e-4


class TestPartner:
    def test_by_hand(self) -> None:
        """X + gamma (X Y^T) (W X) with W = 1: X = diag(1, 2), Y = ones, so X Y^T = ((1, 1), (2, 2))."""
        made = SelfAttention(2).train()
        with torch.no_grad():
            made.layer.parametrizations.weight.original.copy_(torch.eye(2)[:, :, None])
            made.gamma.fill_(0.5)
        found = made(torch.tensor([[[1.0, 0.0], [0.0, 2.0]]]), torch.ones(1, 2, 2))
        torch.testing.assert_close(found, torch.tensor([[[1.5, 1.0], [1.0, 4.0]]]))

    def test_the_second_is_given_the_embeddings(self) -> None:
        """As published, the second attention looks at what the words were before the first."""
        encoder = inception(enhance=True, partner="embeddings")
        network, batch = drawn(encoder), batch_of(encoder, WORDS)
        inside = network.embed(batch.tokens) * batch.mask[:, :, None]
        words = functional.pad(inside, (0, 0, 0, max(0, 6 - inside.shape[1])))[:, :6]
        first = network.over_words(words)
        expected = network.over_numbers(first.transpose(1, 2), words.transpose(1, 2)).transpose(1, 2)
        torch.testing.assert_close(inputs_of(network.mix, lambda: network(batch)), expected)
        itself = network.over_numbers(first.transpose(1, 2)).transpose(1, 2)
        assert (itself - expected).abs().max() > 1e-6


class TestDecoupled:
    def made(self, **options: Any) -> tuple[Any, Any]:
        encoder = inception(decoupled=True, routed=True, **options)
        return drawn(encoder), batch_of(encoder, WORDS)

    @pytest.mark.parametrize("skip", [True, False])
    def test_two_vectors_by_two_convolutions(self, skip: bool) -> None:
        """The first is that of an encoder with the one convolution, the second that of one with the other."""
        network, batch = self.made(skip=skip)
        found = network(batch)
        assert found.shape == (len(WORDS), 2 * network.width) and network.vectors == 2
        alone = drawn(inception(routed=True, skip=skip))
        weights = {name: value for name, value in network.state_dict().items() if "_clusters" not in name}
        alone.load_state_dict(weights)
        torch.testing.assert_close(found[:, : network.width], alone(batch))
        for name, value in network.state_dict().items():
            if "_clusters" in name:
                weights[name.replace("_clusters", "")] = value
        alone.load_state_dict(weights)
        torch.testing.assert_close(found[:, network.width :], alone(batch))
        assert (found[:, : network.width] - found[:, network.width :]).abs().max() > 1e-4

    def test_each_learns_from_its_own_vector(self) -> None:
        network, batch = self.made(skip=False)
        network.train()(batch)[:, : network.width].sum().backward()
        assert network.gather.weight.grad.abs().sum() > 0 and network.gather_clusters.weight.grad.abs().sum() == 0
        assert network.mix.weight.grad.abs().sum() > 0, "what stands before both learns from either"
        network.zero_grad()
        network(batch)[:, network.width :].sum().backward()
        assert network.gather.weight.grad.abs().sum() == 0 and network.gather_clusters.weight.grad.abs().sum() > 0
