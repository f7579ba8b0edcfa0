"""Short texts as weighted sums of word vectors: TF-IDF weights, residual blocks, and sums for the labels' texts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

torch = pytest.importorskip("torch")

from longtail.features.tokens import FIRST_WORD  # noqa: E402
from longtail.learners.neural.encoders.short import WeightedBag  # noqa: E402
from longtail.learners.neural.training.batches import Batch, token_tensors  # noqa: E402
from longtail.learners.neural.training.blocks import NeighbourSums, Residual, WordSums, drop, neighbour_sums  # noqa: E402
from longtail.run import Run  # noqa: E402

RUN = Run(threads=1)
TEXTS = ["apple pear", "apple plum", "apple"]
#: Of 3 texts apple is in all, the others in one: log(4/4) + 1 and log(4/2) + 1.
COMMON, RARE = 1.0, 1 + np.log(2)


def bag(**options: Any) -> WeightedBag:
    made = WeightedBag(**{"size": 2, "dropout": 0.0, **options})
    made.fit_tokeniser(TEXTS, RUN)
    return made


def batch_of(encoder: WeightedBag, texts: list[str]) -> Batch:
    tokens = encoder.tokens(texts, RUN)
    ids, mask = token_tensors(tokens, np.arange(len(texts)))
    return Batch(np.arange(len(texts)), ids, mask, ids, ids)


def network_of(encoder: WeightedBag, rows: dict[str, list[float]]) -> Any:
    """A network whose word vectors are given."""
    network = encoder.network().eval()
    names = encoder.tokeniser_.words()
    with torch.no_grad():
        for word, vector in rows.items():
            network.words.weight[names.index(word) + FIRST_WORD] = torch.tensor(vector)
    return network


VECTORS = {"apple": [1.0, -1.0], "pear": [0.0, 2.0], "plum": [3.0, 0.0]}


class TestWeights:
    def test_by_hand(self) -> None:
        encoder = bag()
        words = list(encoder.tokeniser_.words())
        found = encoder.weights(encoder.tokens(["apple pear", "pear pear apple", "plum unknown", ""], RUN)).toarray()
        column = [FIRST_WORD + words.index(word) for word in ("apple", "pear", "plum")]
        one, two = np.hypot(COMMON, RARE), np.hypot(COMMON, 2 * RARE)
        expected = [[COMMON / one, RARE / one, 0], [COMMON / two, 2 * RARE / two, 0], [0, 0, 1], [0, 0, 0]]
        np.testing.assert_allclose(found[:, column], expected, rtol=1e-6)
        assert found.dtype == np.float32 and found[:, :FIRST_WORD].sum() == 0, "unknown words weigh nothing"

    def test_mean_of_the_words_is_one(self) -> None:
        encoder = bag()
        assert encoder.idf_[FIRST_WORD:].mean() == pytest.approx(1)
        assert (encoder.idf_[:FIRST_WORD] == 0).all()


class TestWeightedBag:
    def test_by_hand(self) -> None:
        encoder = bag()
        length = np.hypot(COMMON, RARE)
        apple, pear = COMMON / length, RARE / length
        found = network_of(encoder, VECTORS)(batch_of(encoder, ["apple pear", "apple", "unknown"]))
        expected = [[apple, -apple + 2 * pear], [1.0, -1.0], [0.0, 0.0]]
        torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float32))

    def test_rectified(self) -> None:
        encoder = bag(rectified=True)
        found = network_of(encoder, VECTORS)(batch_of(encoder, ["apple"]))
        torch.testing.assert_close(found, torch.tensor([[1.0, 0.0]]))

    def test_documents_and_label_texts_are_summed_alike(self) -> None:
        """A text of different words has the same vector as a document and as a label's."""
        encoder = bag(size=7)
        network = encoder.network().eval()
        weights = encoder.weights(encoder.tokens(TEXTS, RUN))
        as_label = WordSums(weights)(np.arange(3), network.words)
        torch.testing.assert_close(network(batch_of(encoder, TEXTS)), as_label)

    def test_word_vectors_start_alike_however_rare(self) -> None:
        """Rarity is a weight here, and must not count twice."""
        encoder = WeightedBag(size=200)
        encoder.fit_tokeniser([f"every word{n}" for n in range(50)], RUN)
        every = FIRST_WORD + encoder.tokeniser_.words().index("every")
        lengths = encoder.network().words.weight.detach().norm(dim=1)
        assert encoder.idf_[every] < 0.5
        assert lengths[every] == pytest.approx(1, abs=0.2) and lengths[FIRST_WORD:].mean() == pytest.approx(1, abs=0.05)
        assert (lengths[:FIRST_WORD] == 0).all()

    def test_dropout_only_while_training(self) -> None:
        encoder = bag(size=50, dropout=0.5, dropout_words=0.5)
        network, batch = encoder.network().eval(), batch_of(encoder, TEXTS)
        assert torch.equal(network(batch), network(batch)) and (network(batch) != 0).all()
        network.train()
        assert (network(batch) == 0).float().mean() > 0.3

    def test_weights_are_kept_apart_from_the_network(self) -> None:
        encoder = bag()
        with torch.no_grad():
            encoder.network().idf.fill_(7)
        assert encoder.idf_.max() < 7


#: A quarter turn, whose norm is 1 so that the spectral norm leaves it as it is.
TURN = torch.tensor([[0.0, -1.0], [1.0, 0.0]])


def block(weight: Any = TURN, **options: Any) -> Residual:
    made = Residual(2, 0.0, **options).train()  # the norm is found while training
    with torch.no_grad():
        made.layer.parametrizations.weight.original.copy_(weight)
    return made


class TestDrop:
    @pytest.mark.parametrize("share", [0.2, 0.5, 0.99])
    def test_what_is_left(self, share: float) -> None:
        torch.manual_seed(1)
        found = drop(torch.ones(999, 101), share, True)
        assert (found == 0).float().mean().item() == pytest.approx(share, abs=0.01)
        assert found.mean().item() == pytest.approx(1, abs=0.05)
        assert len(found.unique()) == 2
        columns = (found == 0).float().mean(dim=0)  # no place is spared, nor doomed
        assert columns.min() > share - 0.1 and columns.max() < share + 0.1

    def test_gradients_go_where_values_went(self) -> None:
        values = torch.randn(7, 5, requires_grad=True)
        found = drop(values, 0.5, True)
        found.sum().backward()
        torch.testing.assert_close(values.grad * values, found)

    def test_nothing_is_dropped_outside_of_training(self) -> None:
        values = torch.randn(3, 4)
        assert drop(values, 0.5, False) is values and drop(values, 0.0, True) is values

    def test_as_the_seed_says(self) -> None:
        def drawn(seed: int) -> Any:
            torch.manual_seed(seed)
            return drop(torch.ones(50), 0.5, True)

        assert torch.equal(drawn(1), drawn(1)) and not torch.equal(drawn(1), drawn(2))


class TestResidual:
    X = torch.tensor([[1.0, -2.0]])

    def test_after(self) -> None:
        """W x = (2, 1), all of it positive."""
        torch.testing.assert_close(block()(self.X), torch.tensor([[3.0, -1.0]]))

    def test_before(self) -> None:
        """relu(x) = (1, 0), turned (0, 1)."""
        torch.testing.assert_close(block(before=True)(self.X), torch.tensor([[1.0, -1.0]]))

    def test_gelu_and_factors(self) -> None:
        made = block(before=True, gelu=True, scaled=True)
        positive, negative = 0.8413447, -0.0455003  # x times the normal distribution's share below x
        torch.testing.assert_close(made(self.X), torch.tensor([[1.0 - negative, -2.0 + positive]]))
        with torch.no_grad():
            made.factors.copy_(torch.tensor([0.5, 2.0]))
        torch.testing.assert_close(made(self.X), torch.tensor([[2.0 - negative / 2, -4.0 + positive / 2]]))

    def test_starts_as_the_identity_beside_x(self) -> None:
        torch.testing.assert_close(Residual(2, 0.0).eval()(self.X), torch.tensor([[2.0, -2.0]]))

    def test_its_norm_is_bounded(self) -> None:
        torch.testing.assert_close(block(10 * torch.eye(2))(self.X), block(torch.eye(2))(self.X))

    @pytest.mark.parametrize("before", [False, True])
    def test_dropout_leaves_x(self, before: bool) -> None:
        torch.manual_seed(0)
        made = Residual(1000, 0.5, before=before).train()
        beside = made(torch.ones(1, 1000)) - 1
        assert sorted(set(beside.detach().round(decimals=4).flatten().tolist())) == [0.0, 2.0]


class TestWordSums:
    def made(self) -> tuple[sp.csr_matrix, Any]:
        rng = np.random.default_rng(1)
        matrix = np.where(rng.random((9, 6)) < 0.4, rng.random((9, 6)), 0).astype(np.float32)
        matrix[4] = 0
        torch.manual_seed(0)
        return sp.csr_matrix(matrix), torch.nn.Embedding(6, 3, sparse=True)

    @pytest.mark.parametrize("rows", [[0, 1, 2, 3, 4, 5, 6, 7, 8], [7, 2, 2, 4], [4], []])
    def test_against_the_dense_product(self, rows: list[int]) -> None:
        matrix, words = self.made()
        chosen = np.array(rows, dtype=np.int64)
        found = WordSums(matrix)(chosen, words)
        dense = torch.from_numpy(matrix.toarray())[chosen] @ words.weight
        assert found.shape == (len(rows), 3)
        torch.testing.assert_close(found, dense)
        if not len(matrix[chosen].indices):
            return
        direction = torch.randn(found.shape, generator=torch.Generator().manual_seed(2))
        expected = torch.autograd.grad((dense * direction).sum(), words.weight)[0]
        (found * direction).sum().backward()
        gradient = words.weight.grad
        assert gradient.is_sparse
        torch.testing.assert_close(gradient.to_dense(), expected)

    def test_a_word_has_one_row_of_gradient(self) -> None:
        words = torch.nn.Embedding(5, 2, sparse=True)
        matrix = sp.csr_matrix(np.array([[1, 1, 0, 0, 0], [1, 0, 1, 0, 0], [1, 0, 0, 0, 0]], dtype=np.float32))
        WordSums(matrix)(np.arange(3), words).sum().backward()
        assert sorted(words.weight.grad._indices()[0].tolist()) == [0, 1, 2]
        assert words.weight.grad.to_dense()[:, 0].tolist() == [3, 1, 1, 0, 0]

    def test_it_is_data_and_not_kept(self) -> None:
        assert not WordSums(self.made()[0]).state_dict()


class TestNeighbourSums:
    def made(self) -> tuple[sp.csr_matrix, sp.csr_matrix, Any]:
        rng = np.random.default_rng(3)
        graph = sp.random(9, 9, density=0.5, format="csr", dtype=np.float32, random_state=rng)
        texts = sp.random(9, 40, density=0.3, format="csr", dtype=np.float32, random_state=rng)
        torch.manual_seed(0)
        return sp.csr_matrix(graph), sp.csr_matrix(texts), torch.nn.Embedding(40, 3, sparse=True)

    def test_as_the_sums_of_the_product(self) -> None:
        graph, texts, words = self.made()
        rows = np.array([7, 2, 2, 4])
        at_once = WordSums(sp.csr_matrix(graph @ texts))(rows, words)
        in_two = NeighbourSums(graph, WordSums(texts))(rows, words)
        torch.testing.assert_close(in_two, at_once)
        direction = torch.randn(at_once.shape)
        gradients = []
        for found in (at_once, in_two):
            words.weight.grad = None
            (found * direction).sum().backward()
            gradients.append(words.weight.grad.to_dense())
        torch.testing.assert_close(gradients[0], gradients[1])

    def test_the_shorter_way_is_taken(self) -> None:
        graph, texts, _ = self.made()
        dense = sp.csr_matrix(np.ones((60, 60), dtype=np.float32))
        wide = sp.csr_matrix(np.eye(60, dtype=np.float32))
        assert type(neighbour_sums(graph, texts)) is WordSums
        assert type(neighbour_sums(sp.csr_matrix(dense), wide)) is WordSums  # a product no longer than its factors
        far = sp.csr_matrix(np.kron(np.eye(3), np.ones((20, 20))).astype(np.float32))
        many = sp.random(60, 4000, density=0.01, format="csr", dtype=np.float32, random_state=np.random.default_rng(4))
        assert type(neighbour_sums(far, sp.csr_matrix(many))) is NeighbourSums
