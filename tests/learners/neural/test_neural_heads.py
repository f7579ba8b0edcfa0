"""Heads: label-wise attention is what a plain loop gives, padding has no say, and blocks of labels save the memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unittest import mock

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402

from longtail.augment.hooks import Hook, Hooks  # noqa: E402
from longtail.learners.neural.heads import label_attention as heads  # noqa: E402
from longtail.learners.neural.heads.label_attention import LabelAttention, LabelAttentionNetwork  # noqa: E402
from longtail.learners.neural.heads.pooled import Pooled  # noqa: E402

B, T, WIDTH, L = 4, 5, 6, 40
INNER, SECOND = 40, 12  # of the shared classifier, and of the layer behind it
CLASSIFIERS = ("own", "shared", "vector", "layered", "shared, two layers", "layered, two layers")
PLAIN = 4  # of the last columns, whose mean stands for the document
LENGTHS = (5, 3, 1, 4)


def head(classifier: str, n_labels: int = L, width: int = WIDTH, document: bool = False) -> LabelAttentionNetwork:
    torch.manual_seed(0)
    kind, _, layers = classifier.partition(", ")
    options: Any = {"hidden": INNER} if kind in ("shared", "layered") else {}
    options |= {"second": SECOND} if layers else {}
    network = LabelAttention(classifier=kind, document=document, **options).network(width, PLAIN, n_labels)
    assert isinstance(network, LabelAttentionNetwork)
    with torch.no_grad():  # far from where training starts, so that no term is near nothing
        for name, value in network.state_dict().items():
            value.copy_(torch.randn(value.shape) * (0.2 if name.startswith("second") else 1))
    return network


def documents(seed: int = 1) -> tuple[Any, Any]:
    hidden = torch.randn(B, T, WIDTH, generator=torch.Generator().manual_seed(seed))
    mask = torch.arange(T)[None, :] < torch.tensor(LENGTHS)[:, None]
    return hidden, mask


def naive_context(network: LabelAttentionNetwork, hidden: Any, mask: Any, document: int, label: int) -> Any:
    """c_l of one document, float64, one token after the other."""
    query = network.queries.weight.detach().numpy().astype(np.float64)[label]
    vectors = hidden.detach().numpy().astype(np.float64)[document]
    there = [t for t in range(T) if mask[document, t]]
    weights = []
    for t in there:
        score = 0.0
        for feature in range(WIDTH):
            score += vectors[t, feature] * query[feature]
        weights.append(np.exp(score))
    context = np.zeros(WIDTH)
    for t, weight in zip(there, weights, strict=True):
        context += weight / sum(weights) * vectors[t]
    return context


def naive_document(network: LabelAttentionNetwork, hidden: Any, mask: Any, document: int, label: int) -> float:
    """The unit vector of the tokens' mean, from the centre, times what the label has for it."""
    if not network.word_width:
        return 0.0
    values = hidden.detach().numpy().astype(np.float64)[document]
    mean = np.mean([values[t, -PLAIN:] for t in range(T) if mask[document, t]], axis=0)
    mean = mean - network.centre.numpy().astype(np.float64)
    return float(network.document.weight.detach().numpy().astype(np.float64)[label] @ mean / np.linalg.norm(mean))


def naive_logit(network: LabelAttentionNetwork, context: Any, label: int) -> float:
    def weight(parameter: Any) -> Any:
        return parameter.detach().numpy().astype(np.float64)

    seen = context
    if network.layered:
        seen = np.maximum(weight(network.inner.weight) @ context + weight(network.inner.bias), 0)
    if network.second is not None:
        seen = np.maximum(weight(network.second.weight) @ seen + weight(network.second.bias), 0)
    if network.own:
        return float(weight(network.vectors.weight)[label] @ seen + weight(network.bias.weight)[label, 0])
    return float(weight(network.outer.weight)[0] @ seen + weight(network.outer.bias)[0])


def naive(network: LabelAttentionNetwork, hidden: Any, mask: Any, labels: Any) -> Any:
    logits = np.empty((B, labels.shape[-1]))
    for document in range(B):
        for place in range(labels.shape[-1]):
            label = int(labels[place] if labels.ndim == 1 else labels[document, place])
            logits[document, place] = naive_logit(network, naive_context(network, hidden, mask, document, label), label)
            logits[document, place] += naive_document(network, hidden, mask, document, label)
    return logits


def label_lists(kind: str, n_labels: int = L) -> Any:
    generator = torch.Generator().manual_seed(2)
    if kind == "all":
        return torch.arange(n_labels)
    if kind == "some":
        return torch.randperm(n_labels, generator=generator)[:9]
    return torch.stack([torch.randperm(n_labels, generator=generator)[:7] for _ in range(B)])


class Wants(Hook):
    """Looks at contexts and at the classifier without changing them."""

    def __init__(self, *points: str) -> None:
        self.points = points

    def wants(self, point: str) -> bool:
        return point in self.points


@pytest.mark.parametrize("labels", ["all", "some", "listed"])
@pytest.mark.parametrize("document", [False, True])
@pytest.mark.parametrize("classifier", CLASSIFIERS)
class TestLabelAttention:
    def test_like_a_loop(self, classifier: str, document: bool, labels: str) -> None:
        network, (hidden, mask), wanted = head(classifier, document=document), documents(), label_lists(labels)
        logits = network(hidden, mask, wanted)
        assert logits.shape == (B, wanted.shape[-1])
        expected = naive(network, hidden, mask, wanted)
        np.testing.assert_allclose(logits.detach().numpy(), expected, rtol=1e-5, atol=1e-5)
        # hooks that want the contexts take another way to the same place
        for point in ("context", "classifier"):
            logits = network(hidden, mask, wanted, Hooks([Wants(point)]))
            np.testing.assert_allclose(logits.detach().numpy(), expected, rtol=1e-5, atol=1e-5)

    @pytest.mark.parametrize("hooked", [False, True])
    def test_padding_is_never_attended(self, classifier: str, document: bool, labels: str, hooked: bool) -> None:
        network, (hidden, mask), wanted = head(classifier, document=document), documents(), label_lists(labels)
        hooks = Hooks([Wants("context")] if hooked else [])
        other = torch.where(mask[:, :, None], hidden, 1e4 * torch.randn(hidden.shape))
        assert torch.equal(network(hidden, mask, wanted, hooks), network(other, mask, wanted, hooks))
        hidden.requires_grad_()
        network(hidden, mask, wanted, hooks).square().sum().backward()
        assert (hidden.grad[~mask] == 0).all()
        assert (hidden.grad[mask] != 0).any(dim=-1).all()

    def test_blocks_change_nothing(
        self, classifier: str, document: bool, labels: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # 16 is the smallest block, so a document's list must be longer
        n_labels = 50
        wanted = label_lists(labels, n_labels)
        if labels != "all":
            wanted = torch.cat([wanted, wanted.flip(-1), wanted, wanted], dim=-1)
        results = []
        for block in (1 << 26, 1):
            monkeypatch.setattr(heads, "BLOCK", block)
            network, (hidden, mask) = head(classifier, n_labels, document=document), documents()
            hidden.requires_grad_()
            with mock.patch.object(heads, "checkpoint", wraps=heads.checkpoint) as blocks:
                logits = network(hidden, mask, wanted)
            assert blocks.call_count == (0 if block > 1 else -(-wanted.shape[-1] // 16))
            (logits * torch.arange(logits.numel()).view_as(logits).cos()).sum().backward()
            gradients = [hidden.grad, *(parameter.grad.to_dense() for parameter in network.parameters())]
            with torch.no_grad():
                assert torch.equal(network(hidden, mask, wanted), logits)
            results.append([logits.detach(), *gradients])
        for one, other in zip(*results, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("document", [False, True])
@pytest.mark.parametrize("classifier", CLASSIFIERS)
def test_single_pairs(classifier: str, document: bool) -> None:
    network, (hidden, mask) = head(classifier, document=document), documents()
    pairs = [(0, 3), (0, 39), (0, 3), (2, 0), (3, 17), (3, 4)]  # document 1 has none
    at, labels = torch.tensor([p[0] for p in pairs]), torch.tensor([p[1] for p in pairs])
    contexts = network.contexts(hidden, mask, at, labels)
    expected = np.stack([naive_context(network, hidden, mask, *pair) for pair in pairs])
    np.testing.assert_allclose(contexts.detach().numpy(), expected, rtol=1e-5, atol=1e-5)
    logits = network.classify(contexts, labels).detach().numpy()
    np.testing.assert_allclose(
        logits, [naive_logit(network, c, label) for c, (_, label) in zip(expected, pairs, strict=True)], atol=1e-5
    )
    logits = network.pair_logits(contexts, hidden, mask, at, labels).detach()
    torch.testing.assert_close(logits, network(hidden, mask, torch.arange(L)).detach()[at, labels], rtol=0, atol=1e-5)
    features = network.features(hidden, mask, at, labels)
    assert features.shape[1] == network.feature_size(WIDTH) == WIDTH + PLAIN * document
    torch.testing.assert_close(network.classify(features, labels).detach(), logits, rtol=0, atol=1e-5)
    none = torch.empty(0, dtype=torch.int64)
    assert network.contexts(hidden, mask, none, none).shape == (0, WIDTH)
    assert network.classify(network.contexts(hidden, mask, none, none), none).shape == (0,)


def test_two_hidden_layers_by_hand() -> None:
    """AttentionXML's two fully connected layers: c = (1, 2) -> relu(1 - 2, 1 + 2) = (0, 3) -> relu(6 - 1) = 5 -> 10."""
    network = LabelAttention(classifier="shared", document=False, hidden=2, second=1, bias=0.0).network(2, 2, 3)
    assert isinstance(network, LabelAttentionNetwork) and network.second is not None
    with torch.no_grad():
        network.inner.weight.copy_(torch.tensor([[1.0, -1], [1, 1]]))
        network.inner.bias.zero_()
        network.second.weight.copy_(torch.tensor([[7.0, 2]]))
        network.second.bias.fill_(-1)
        network.outer.weight.fill_(2)
    logits = network(torch.tensor([[[1.0, 2]]]), torch.tensor([[True]]), torch.arange(3))
    assert logits.tolist() == [[10, 10, 10]]
    assert {id(p) for p in network.second.parameters()} <= {id(p) for p in network.classifier()}
    before = network.second.weight.clone()
    network.restart()
    assert not torch.equal(before, network.second.weight), "a second stage may draw it anew"
    options = LabelAttention(classifier="shared", document=False, hidden=2, second=1)
    assert options.weights(2, 2, 3) == sum(p.numel() for p in network.parameters())


@pytest.mark.parametrize("document", [False, True])
@pytest.mark.parametrize("classifier", CLASSIFIERS)
def test_the_share_of_the_documents_vector(classifier: str, document: bool) -> None:
    network, (hidden, mask) = head(classifier, document=document), documents()
    assert network.reads_documents == document
    at, labels = torch.tensor([0, 1, 3]), torch.tensor([5, 2, 9])
    contexts = network.contexts(hidden, mask, at, labels)
    full, half, none = (network.pair_logits(contexts, hidden, mask, at, labels, share)
                        for share in (None, torch.full((3,), 0.5), torch.zeros(3)))  # fmt: skip
    torch.testing.assert_close(none, network.classify(contexts, labels))
    torch.testing.assert_close(half, (full + none) / 2)
    assert torch.equal(full, none) != document


class Largest(TorchDispatchMode):
    """The number of elements of the largest tensor that any operation gives."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(made):
            if isinstance(tensor, torch.Tensor) and not tensor.is_sparse and tensor.untyped_storage().nbytes():
                # an expanded tensor shows more numbers than it holds
                self.elements = max(self.elements, tensor.untyped_storage().nbytes() // tensor.element_size())
        return made


@pytest.mark.parametrize("classifier", ["own", "own, hooked", "shared"])
@pytest.mark.parametrize("listed", [False, True])
def test_blocks_bound_the_memory(classifier: str, listed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """No tensor of documents x labels x width (or tokens) is ever made, neither ahead nor backwards."""
    n_labels, width, tokens = 96, 32, 20
    network = head(classifier.partition(",")[0], n_labels, width, document=True)
    hidden = torch.randn(B, tokens, width, requires_grad=True)
    mask = torch.ones(B, tokens, dtype=torch.bool)
    labels = torch.arange(n_labels)
    labels = labels.expand(B, -1) if listed else labels
    hooks = Hooks([Wants("context")] if classifier.endswith("hooked") else [])

    def largest() -> int:
        with Largest() as seen:
            network(hidden, mask, labels, hooks).sum().backward()
        network.zero_grad()
        return seen.elements

    assert largest() >= B * n_labels * width, "the measure sees what it must not see below"
    block = 16 * B * max(2 * tokens, INNER)
    monkeypatch.setattr(heads, "BLOCK", block)
    assert block < B * n_labels * tokens
    # the others are one of the weights, and what the shared classifier makes of the tokens
    assert largest() <= max(block, n_labels * width, B * tokens * INNER)


@pytest.mark.parametrize("pooling", ["mean", "first"])
def test_pooled_by_hand(pooling: str) -> None:
    torch.manual_seed(0)
    network = Pooled(pooling=pooling, bias=-2.0).network(3, 3, 4)
    hidden = torch.tensor([[[1.0, 2, 3], [3, 4, 5], [7, 7, 7]], [[1, 0, -1], [9, 9, 9], [9, 9, 9]]])
    mask = torch.tensor([[True, True, False], [True, False, False]])
    pooled = torch.tensor([[2.0, 3, 4], [1, 0, -1]] if pooling == "mean" else [[1.0, 2, 3], [1, 0, -1]])
    vectors = network.vectors.weight.detach()
    logits = network(hidden, mask, torch.tensor([2, 0]))
    torch.testing.assert_close(logits, pooled @ vectors[[2, 0]].T - 2)
    own = network(hidden, mask, torch.tensor([[2, 0, 1], [3, 3, 2]]))
    expected = torch.stack([vectors[[2, 0, 1]] @ pooled[0], vectors[[3, 3, 2]] @ pooled[1]]) - 2
    torch.testing.assert_close(own, expected)
    assert {id(p) for p in network.rows()} == {id(p) for p in network.parameters()}


@pytest.mark.parametrize("classifier", ["own", "shared"])
def test_start_from_documents(classifier: str) -> None:
    """Labels with documents point where those point; the others stay at their random start."""
    network = head(classifier, document=True)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    directions = torch.nn.functional.normalize(torch.randn(L, PLAIN, generator=torch.Generator().manual_seed(5)), dim=1)
    directions[3] = 0
    centre = torch.arange(PLAIN).float()
    network.start(directions, centre, length=2.0)
    known = torch.arange(L) != 3
    after = network.state_dict()
    tables = {"queries.weight": heads.QUERY, **({"vectors.weight": heads.VECTOR} if classifier == "own" else {})}
    for name, strength in tables.items():
        torch.testing.assert_close(after[name][known, -PLAIN:], directions[known] * strength / 2)
        torch.testing.assert_close(after[name][known, :-PLAIN], before[name][known, :-PLAIN] * heads.REST)
        assert torch.equal(after[name][3], before[name][3])
    torch.testing.assert_close(after["document.weight"][known], directions[known] * heads.DOCUMENT)
    assert torch.equal(after["document.weight"][3], before["document.weight"][3])
    assert torch.equal(after["centre"], centre)
