"""Classifiers made of the labels' texts: gates and attention by hand, neighbours, and what is kept of them."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

torch = pytest.importorskip("torch")

from short_text_cases import ONE, WEIGHTED, titles  # noqa: E402

from longtail.augment.gandalf import Gandalf  # noqa: E402
from longtail.graphs.label_walk import label_graph, propagation  # noqa: E402
from longtail.learners.neural.decaf import Decaf  # noqa: E402
from longtail.learners.neural.heads import label_text_network  # noqa: E402
from longtail.learners.neural.heads.base import LabelFacts  # noqa: E402
from longtail.learners.neural.heads.label_text import LabelText  # noqa: E402
from longtail.learners.neural.heads.label_text_network import LabelTextNetwork  # noqa: E402
from longtail.learners.neural.heads.pooled_network import PooledNetwork  # noqa: E402
from longtail.sparse import unit_rows  # noqa: E402

#: Words of width 2, and texts of two labels: the first word alone, and 0.6 of the first and 0.8 of the second.
WORDS = [[1.0, -2.0], [0.0, 5.0], [9.0, 9.0]]
TEXTS = sp.csr_matrix(np.array([[1, 0, 0], [0.6, 0.8, 0]], dtype=np.float32))
SUMS = torch.tensor([[1.0, -2.0], [0.6, 2.8]])
FREE = torch.tensor([[3.0, 0.0], [-1.0, 1.0]])


class Encoder(torch.nn.Module):
    """Word vectors, the part of an encoder that heads read labels with."""

    def __init__(self, vectors: Any) -> None:
        super().__init__()
        vectors = torch.as_tensor(vectors)
        self.words = torch.nn.Embedding(*vectors.shape, sparse=True)
        with torch.no_grad():
            self.words.weight.copy_(vectors)


def bound(
    about: LabelFacts | None = None, *, words: Any = None, width: int = 2, own: Any = FREE, **options: Any
) -> LabelTextNetwork:
    """A head that knows the labels, in training, without dropout."""
    about = about or LabelFacts(TEXTS)
    torch.manual_seed(0)
    options = {"bias": -1.0, "residual": False, "start": "zero", "join": "gates", **options}
    drops: Any = {"dropout": 0.0} if options["residual"] or options["join"] == "attention" else {}
    part = LabelText(**{**drops, **options})
    network: Any = part.network(width, width, about.texts.shape[0])
    network.bind(Encoder(WORDS if words is None else words), about)
    if network.vectors is not None and own is not None:
        with torch.no_grad():
            network.vectors.weight.copy_(own)
    return network.train()


def random_labels(labels: int = 20, words: int = 9, seed: int = 0) -> LabelFacts:
    rng = np.random.default_rng(seed)

    def drawn(*shape: int) -> sp.csr_matrix:
        return sp.csr_matrix(np.where(rng.random(shape) < 0.3, rng.random(shape), 0).astype(np.float32))

    return LabelFacts(unit_rows(drawn(labels, words)), drawn(labels, labels))


def logit(share: float) -> float:
    return float(np.log(share / (1 - share)))


BOTH = np.arange(2)


class TestGates:
    def test_by_hand(self) -> None:
        network = bound()
        torch.testing.assert_close(network.label_vectors(BOTH), (SUMS + FREE) / 2)  # gates start at one half
        with torch.no_grad():
            network.gates.copy_(torch.tensor([[logit(0.25), logit(0.5)], [logit(0.8), logit(0.1)]]))
        expected = torch.tensor([[0.25 * 1 + 0.8 * 3, 0.5 * -2], [0.25 * 0.6 - 0.8 * 1, 0.5 * 2.8 + 0.1 * 1]])
        torch.testing.assert_close(network.label_vectors(BOTH), expected)

    def test_logits(self) -> None:
        network = bound()
        hidden = torch.tensor([[2.0, 1.0]])
        expected = (SUMS + FREE) / 2 @ hidden[0] - 1
        torch.testing.assert_close(network(hidden, hidden, torch.arange(2))[0], expected)
        torch.testing.assert_close(network(hidden, hidden, torch.tensor([[1, 0, 1]]))[0], expected[[1, 0, 1]])

    def test_without_free_vectors(self) -> None:
        tied = bound(free=False)
        assert tied.vectors is None and tied.gates.shape == (1, 2)
        torch.testing.assert_close(tied.label_vectors(BOTH), SUMS / 2)
        assert len(tied.rows()) == 1 and len(bound().rows()) == 2


class TestAttention:
    def test_by_hand(self) -> None:
        """Layers of norm 1 that pass the first number of each vector on: softmax of (1, 3), and of (0.6, 0)."""
        network = bound(join="attention")
        with torch.no_grad():
            for layer in network.look:
                layer.parametrizations.weight.original.copy_(torch.eye(2))
                layer.bias.zero_()
            network.choose.parametrizations.weight.original.copy_(torch.tensor([[1.0, 0, 0, 0], [0, 0, 1.0, 0]]))
            network.choose.bias.zero_()
        found = network.label_vectors(BOTH)
        first, second = np.exp(1) / (np.exp(1) + np.exp(3)), np.exp(0.6) / (np.exp(0.6) + 1)
        expected = torch.stack([first * SUMS[0] + (1 - first) * FREE[0], second * SUMS[1] + (1 - second) * FREE[1]])
        torch.testing.assert_close(found, expected.float())

    def test_shares_sum_to_one(self) -> None:
        about = random_labels()
        network = bound(about, words=torch.ones(9, 2), join="attention", graph=True, own=torch.ones(20, 2))
        texts, around = (np.asarray(matrix.sum(axis=1)).ravel() for matrix in (about.texts, about.graph @ about.texts))
        values = network.label_vectors(np.arange(20)).detach().numpy()
        low = np.minimum(np.minimum(texts, around), 1)[:, None]
        high = np.maximum(np.maximum(texts, around), 1)[:, None]
        assert (values >= low - 1e-5).all() and (values <= high + 1e-5).all(), "means of their three vectors"


class TestGraph:
    @pytest.mark.parametrize("residual", [False, True])
    def test_neighbours_are_summed(self, residual: bool) -> None:
        about = random_labels()
        assert about.graph is not None
        vectors = torch.randn(9, 4, generator=torch.Generator().manual_seed(1))
        network = bound(about, words=vectors, width=4, own=None, graph=True, residual=residual).eval()
        texts, graph = about.texts.toarray(), about.graph.toarray()
        for label in range(20):
            around = torch.zeros(4)
            for neighbour in range(20):
                own = sum(float(texts[neighbour, word]) * vectors[word] for word in range(9))
                around = around + float(graph[label, neighbour]) * own
            own = torch.from_numpy(texts[label]) @ vectors
            if residual:  # which starts as the identity: x + relu(x)
                own, around = own + own.relu(), around + around.relu()
            found = network.label_vectors(np.array([label]))[0]
            torch.testing.assert_close(found, (own + around) / 2)

    def test_words_of_neighbours_learn(self) -> None:
        texts = sp.csr_matrix(np.eye(3, dtype=np.float32))
        graph = sp.csr_matrix(np.array([[1, 0, 1], [0, 1, 0], [1, 0, 1]], dtype=np.float32))
        for options, learning in (({}, [0]), ({"graph": True}, [0, 2])):
            network = bound(LabelFacts(texts, graph), own=None, **options)
            hidden = torch.ones(1, 2)
            network(hidden, hidden, torch.tensor([0])).sum().backward()
            gradient = network._words[0].weight.grad.to_dense()
            assert gradient.abs().sum(dim=1).nonzero()[:, 0].tolist() == learning

    def test_rows_made_of_labels_do_not_change_it(self) -> None:
        """Gandalf's rows are no documents: labels of such a row do not occur together."""
        corpus = titles()
        learner = Decaf(encoder=WEIGHTED, head={"part": "label-text", "graph": True})
        learner.encoder.fit_tokeniser(corpus.texts, ONE)
        longer = Gandalf(strength=1.0).apply(corpus, ONE)
        assert len(longer) > len(corpus)
        plain, augmented = (learner._label_facts(given, ONE).graph for given in (corpus, longer))
        assert plain is not None and augmented is not None
        assert (plain != augmented).nnz == 0
        assert (plain != propagation(label_graph(corpus.Y))).nnz == 0


class TestStart:
    def test_from_zero_the_text_or_the_neighbours(self) -> None:
        about = random_labels()
        assert about.graph is not None
        vectors = np.random.default_rng(3).normal(size=(9, 4)).astype(np.float32)
        starts = {
            "zero": np.zeros((20, 4)),
            "text": about.texts @ vectors,
            "graph": about.graph @ about.texts @ vectors,
        }
        for start, expected in starts.items():
            network = bound(about, words=vectors, width=4, own=None, graph=True, start=start)
            np.testing.assert_allclose(network.vectors.weight.detach().numpy(), expected, rtol=1e-5, atol=1e-6)

    def test_wider_vectors_are_filled_up(self) -> None:
        network = bound(width=5, own=None, start="text")
        expected = torch.nn.functional.pad(SUMS, (0, 3))
        torch.testing.assert_close(network.vectors.weight.detach(), expected)
        torch.testing.assert_close(network.label_vectors(BOTH), expected)

    def test_all_labels_start_unlikely(self) -> None:
        assert (bound(bias=-7.0).bias.weight == -7).all()


class TestFolded:
    @pytest.mark.parametrize(
        "options",
        [
            {"join": "gates"},
            {"join": "attention", "graph": True, "residual": True, "gelu": True, "dropout": 0.4},
            {"join": "gates", "graph": True, "residual": True, "dropout": 0.4},
        ],
    )
    def test_the_same_logits(self, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(label_text_network, "CHUNK", 7)
        about = random_labels()
        vectors = torch.randn(9, 4, generator=torch.Generator().manual_seed(1))
        network = bound(about, words=vectors, width=4, own=torch.randn(20, 4), **options)
        hidden = torch.randn(6, 4)
        network(hidden, hidden, torch.arange(20))  # norms are found while training
        kept = network.folded().eval()
        assert network.training and isinstance(kept, PooledNetwork)
        network.eval()
        expected = network(hidden, hidden, torch.arange(20))
        torch.testing.assert_close(kept(hidden, hidden, torch.arange(20)), expected)
        lists = torch.tensor([[3, 1], [0, 19], [5, 5], [2, 3], [4, 0], [9, 8]])
        torch.testing.assert_close(kept(hidden, hidden, lists), expected.gather(1, lists))

    def test_label_texts_are_gone(self) -> None:
        network = bound()
        kept = network.folded()
        assert set(kept.state_dict()) == {"vectors.weight", "bias.weight"}
        with torch.no_grad():
            network._words[0].weight.fill_(100)
        torch.testing.assert_close(kept.vectors.weight.detach(), (SUMS + FREE) / 2)

    def test_a_copy_reads_words_of_its_own(self) -> None:
        """As averaged weights are: head and encoder are copied together."""
        encoder = Encoder(WORDS)
        head = LabelText().network(2, 2, 2)
        head.bind(encoder, LabelFacts(TEXTS))  # type: ignore[arg-type]
        both = torch.nn.ModuleList([encoder, head])
        copied: Any = copy.deepcopy(both)
        assert copied[1]._words[0] is copied[0].words and copied[0].words is not encoder.words


class TestClusters:
    def test_by_hand(self) -> None:
        """Labels 0 and 2 together: their texts and edges are added and brought to unit length."""
        texts = sp.csr_matrix(np.array([[1, 0], [0, 1], [0, 1]], dtype=np.float32))
        graph = sp.csr_matrix(np.array([[3, 4, 0], [0, 2, 0], [0, 0, 1]], dtype=np.float32))
        about = LabelFacts(texts, graph).of_clusters(np.array([0, 1, 0], dtype=np.int32))
        assert about.graph is not None
        half = np.sqrt(0.5)
        np.testing.assert_allclose(about.texts.toarray(), [[half, half], [0, 1]], rtol=1e-6)
        np.testing.assert_allclose(about.graph.toarray(), [[half, half], [0, 1]], rtol=1e-6)
        assert about.texts.dtype == about.graph.dtype == np.float32

    def test_unit_leaves_empty_rows(self) -> None:
        made = unit_rows(sp.csr_matrix(np.array([[3, 4], [0, 0]], dtype=np.float32))).toarray()
        np.testing.assert_allclose(made, [[0.6, 0.8], [0, 0]], rtol=1e-6)
