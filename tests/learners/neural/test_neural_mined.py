"""Clusters and labels learnt together: which labels a document's loss is taken over, and with which targets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from short_text_cases import LEARNERS, ONE, titles  # noqa: E402

from longtail.learners.neural.encoders.network import EncoderNetwork  # noqa: E402
from longtail.learners.neural.encoders.short import WeightedBag  # noqa: E402
from longtail.learners.neural.heads.pooled import Pooled  # noqa: E402
from longtail.learners.neural.shortlists.base import Children, ListedLabels, SharedLabels  # noqa: E402
from longtail.learners.neural.shortlists.mined import Mining, TwoHeads, score  # noqa: E402
from longtail.learners.neural.training.batches import Batch, Batches  # noqa: E402
from longtail.learners.neural.training.network import Network, loss_of  # noqa: E402
from longtail.registry import build  # noqa: E402

LABELS, WIDTH, DOCUMENTS = 12, 4, 10
#: Four clusters of 4, 3, 3 and 2 labels.
CLUSTER = np.array([0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3], dtype=np.int32)
CHILDREN = Children.of(CLUSTER, 4)


class Fixed(torch.nn.Module):
    """An encoder that gives the documents of a batch the vectors it was told."""

    width = plain = WIDTH

    def __init__(self, vectors: Any) -> None:
        super().__init__()
        self.vectors = torch.nn.Parameter(vectors)

    def forward(self, batch: Any, hooks: Any = None) -> Any:
        return self.vectors[torch.from_numpy(batch.rows)]


def two_heads(seed: int = 0, dropout: float | None = None) -> Any:
    torch.manual_seed(seed)
    return Network(
        Fixed(torch.randn(DOCUMENTS, WIDTH)),  # type: ignore[arg-type]
        TwoHeads(Pooled().network(WIDTH, WIDTH, 4), Pooled().network(WIDTH, WIDTH, LABELS), WIDTH, dropout),
    ).train()


def targets(seed: int, most: int = 6) -> tuple[sp.csr_matrix, Any]:
    """Documents of up to `most` labels (document 0 has none), soft targets, and weights of which some are 0."""
    rng = np.random.default_rng(seed)
    Y = np.zeros((DOCUMENTS, LABELS), dtype=np.float32)
    for row in range(1, DOCUMENTS):
        own = rng.choice(LABELS, rng.integers(1, most + 1), replace=False)
        Y[row, own] = rng.choice(np.array([0.25, 0.5, 1.0], dtype=np.float32), len(own))
    made = sp.csr_matrix(Y)
    return made, rng.choice(np.array([0.0, 0.5, 1.0], dtype=np.float32), made.nnz)


def batch_of(Y: sp.csr_matrix, weights: Any = None, rows: Any = None, negatives: int = 1, seed: int = 0) -> Batch:
    rows = np.arange(Y.shape[0]) if rows is None else np.asarray(rows)
    labels, values, given_weights = SharedLabels(Y, weights, negatives).choose(rows, np.random.default_rng(seed))
    ids = torch.ones(len(rows), 1, dtype=torch.int64)
    mask = torch.ones(len(rows), 1, dtype=torch.bool)
    weighted = None if given_weights is None else torch.from_numpy(given_weights)
    return Batch(rows, ids, mask, torch.from_numpy(labels), torch.from_numpy(values), weighted)


def drawn(batch: Batch, candidates: int, *, network: Any = None, step: int = 0, until: int = 0) -> tuple[Batch, Mining]:
    mining = Mining(CHILDREN, CLUSTER, candidates, until)
    network = network or two_heads()
    batch = mining.draw(batch, network, np.random.default_rng(0), step)
    return mining.encoded(batch, network, network.encode(batch)), mining


class TestLists:
    @settings(max_examples=40, deadline=None)
    @given(
        seed=st.integers(0, 100),
        candidates=st.integers(1, 5),
        weighted=st.booleans(),
        negatives=st.sampled_from([1, 5]),
    )
    def test_every_positive_with_its_target(self, seed: int, candidates: int, weighted: bool, negatives: int) -> None:
        """However many clusters a document's labels are in, and whatever the network thinks of them."""
        Y, weights = targets(seed)
        rows = np.random.default_rng(seed).permutation(DOCUMENTS)[:7]
        batch = batch_of(Y, weights if weighted else None, rows, negatives, seed)
        made, _ = drawn(batch, candidates, network=two_heads(seed))
        dense = Y.toarray()
        weight_of = np.ones((DOCUMENTS, LABELS), dtype=np.float32)
        if weighted:
            weight_of[Y.nonzero()] = weights
        assert made.labels.shape == made.targets.shape == made.weights.shape  # type: ignore[union-attr]
        for number, row in enumerate(rows):
            labels, values, own = (t[number].numpy() for t in (made.labels, made.targets, made.weights))  # type: ignore[index]
            assert len(set(labels[own > 0])) == (own > 0).sum(), "no label has a say twice"
            for label, value, weight in zip(labels, values, own, strict=True):
                if weight > 0:
                    assert value == dense[row, label] and weight == weight_of[row, label]
            positive = np.flatnonzero((dense[row] > 0) & (weight_of[row] > 0))
            assert set(positive) <= set(labels[own > 0]), "no positive is lost"
            assert values[own > 0].sum() == pytest.approx(dense[row, positive].sum()), "and none counts twice"
            assert {int(c) for c in CLUSTER[positive]} <= {int(c) for c in CLUSTER[labels[own > 0]]}

    def test_by_hand(self) -> None:
        """Cluster 1 is the document's own, cluster 3 is what the network takes for it; lists are of whole clusters."""
        Y = sp.csr_matrix(np.array([[0, 0, 0, 0, 0, 0.5, 0, 0, 0, 0, 0, 0]], dtype=np.float32))
        network = two_heads()
        with torch.no_grad():
            network.encoder.vectors[0] = torch.tensor([1.0, 0, 0, 0])
            network.head.clusters.vectors.weight.zero_()
            network.head.clusters.vectors.weight[:, 0] = torch.tensor([1.0, -5.0, 2.0, 3.0])
        made, mining = drawn(batch_of(Y), 2, network=network)
        assert made.labels.tolist() == [[4, 5, 6, 10, 11]]
        assert made.targets.tolist() == [[0, 0.5, 0, 0, 0]]
        assert made.weights is not None and made.weights.tolist() == [[1] * 5]
        assert mining._true_clusters(batch_of(Y))[0].tolist() == [[0, 0.5, 0, 0]]

    def test_own_clusters_come_first_however_sure_the_network_is_of_others(self) -> None:
        """Probabilities of 1 and 0 to the last digit: one more for the true ones would be a draw."""
        Y = sp.csr_matrix(np.array([[0] * 11 + [1]], dtype=np.float32))
        network = two_heads()
        with torch.no_grad():
            network.encoder.vectors[0] = torch.tensor([1.0, 0, 0, 0])
            network.head.clusters.vectors.weight.zero_()
            network.head.clusters.vectors.weight[:, 0] = torch.tensor([90.0, 90.0, 90.0, -90.0])
        made, _ = drawn(batch_of(Y), 1, network=network)
        assert made.labels.tolist() == [[10, 11]] and made.targets.tolist() == [[0, 1]]

    def test_lists_of_other_lengths_are_filled_up_without_a_say(self) -> None:
        Y = sp.csr_matrix(np.array([[1] + [0] * 11, [0] * 11 + [1]], dtype=np.float32))
        made, _ = drawn(batch_of(Y), 1)
        assert made.labels.tolist() == [[0, 1, 2, 3], [10, 11, 11, 11]]
        assert made.weights is not None and made.weights.tolist() == [[1, 1, 1, 1], [1, 1, 0, 0]]
        assert made.targets.tolist() == [[1, 0, 0, 0], [0, 1, 0, 0]]

    def test_nothing_of_the_network_is_left_changed(self) -> None:
        network = two_heads(dropout=0.5)
        before = {name: value.clone() for name, value in network.state_dict().items()}
        drawn(batch_of(targets(0)[0]), 2, network=network)
        assert network.training and all(torch.equal(before[n], v) for n, v in network.state_dict().items())


class TestClusterTargets:
    @settings(max_examples=30, deadline=None)
    @given(seed=st.integers(0, 100), weighted=st.booleans())
    def test_the_strongest_of_a_clusters_labels(self, seed: int, weighted: bool) -> None:
        Y, weights = targets(seed)
        batch = batch_of(Y, weights if weighted else None)
        found, own = Mining(CHILDREN, CLUSTER, 2, 0)._true_clusters(batch)
        dense, masked = Y.toarray(), np.zeros((DOCUMENTS, LABELS), dtype=bool)
        if weighted:
            masked[Y.nonzero()] = weights == 0
            dense[masked] = 0
        by_cluster = [np.flatnonzero(cluster == CLUSTER) for cluster in range(4)]
        expected = np.stack([dense[:, labels].max(axis=1) for labels in by_cluster], axis=1)
        np.testing.assert_array_equal(found.numpy(), expected)
        if not weighted:
            assert own is None
            return
        none = np.stack([masked[:, labels].any(axis=1) for labels in by_cluster], axis=1) & (expected == 0)
        assert own is not None
        np.testing.assert_array_equal(own.numpy(), ~none)

    def test_a_cluster_of_masked_pairs_alone_is_no_example(self) -> None:
        """Neither its loss nor its gradient knows whether the masked pair is there, and what its target is."""

        def gradients(target: float, weight: float) -> list[Any]:
            Y = np.zeros((1, LABELS), dtype=np.float32)
            Y[0, [1, 5]] = 1.0, target  # of clusters 0 and 1
            network = two_heads()
            batch = batch_of(sp.csr_matrix(Y), np.array([1, weight], dtype=np.float32))
            mining = Mining(CHILDREN, CLUSTER, 4, 0)
            mining.encoded(batch, network, network.encode(batch))
            mining.loss_.backward()
            return [p.grad.to_dense() for p in (network.encoder.vectors, network.head.clusters.vectors.weight)]

        masked, again, positive = gradients(1.0, 0.0), gradients(0.3, 0.0), gradients(1.0, 1.0)
        assert all(torch.equal(one, other) for one, other in zip(masked, again, strict=True))
        assert not masked[1][1].any() and masked[1][0].any() and positive[1][1].any()

    def test_their_loss_is_added(self) -> None:
        network, batch = two_heads(), batch_of(targets(1)[0])
        made, mining = drawn(batch, 2, network=network)
        hidden = network.encoder(made)
        logits = network.head(hidden, made.mask, made.labels)
        same, unchanged, extra = mining.pairs(made, network, hidden, logits)
        assert same is made and unchanged is logits
        z = network.head.clusters(hidden, made.mask, torch.arange(4))
        y, _ = mining._true_clusters(batch)
        by_hand = -(y * z.sigmoid().log() + (1 - y) * (1 - z.sigmoid()).log()).sum() / DOCUMENTS
        torch.testing.assert_close(extra, by_hand)


class TestDetached:
    def gradients(self, step: int, until: int) -> tuple[Any, Any]:
        """What reaches the encoder of the labels' loss, and of the clusters'."""
        network = two_heads()
        batch = batch_of(targets(1)[0])
        made, mining = drawn(batch, 2, network=network, step=step, until=until)
        hidden = network.encoder(made)
        mining.encoded(batch, network, hidden)
        logits = network.head(hidden, made.mask, made.labels)
        _, _, extra = mining.pairs(made, network, hidden, logits)
        wanted = [network.encoder.vectors, network.head.labels.vectors.weight]
        labels = torch.autograd.grad(loss_of(logits, made), wanted, retain_graph=True, allow_unused=True)
        assert labels[1] is not None, "label vectors always learn"
        return labels[0], torch.autograd.grad(extra, wanted[0])[0]

    def test_the_labels_loss_does_not_reach_the_encoder_in_the_first_part(self) -> None:
        labels, clusters = self.gradients(step=4, until=5)
        assert labels is None and clusters.abs().sum() > 0

    def test_and_does_thereafter(self) -> None:
        labels, clusters = self.gradients(step=5, until=5)
        assert labels.abs().sum() > 0 and clusters.abs().sum() > 0


class TestTwoHeads:
    def test_two_vectors_of_one_encoder(self) -> None:
        """The first numbers are the labels', the last the clusters'."""
        heads, mask = two_heads().head, torch.ones(1, 1, dtype=torch.bool)
        hidden = torch.randn(1, 2 * WIDTH)
        torch.testing.assert_close(
            heads(hidden, mask, torch.arange(LABELS)), heads.labels(hidden[:, :WIDTH], mask, torch.arange(LABELS))
        )
        torch.testing.assert_close(
            heads.cluster_logits(hidden, mask, torch.arange(4)),
            heads.clusters(hidden[:, WIDTH:], mask, torch.arange(4)),
        )

    def test_blocks_of_their_own(self) -> None:
        heads = two_heads(dropout=0.0).head
        assert heads.cluster_block is not heads.label_block
        hidden, mask = torch.tensor([[1.0, -1.0, 2.0, 0.0]]), torch.ones(1, 1, dtype=torch.bool)
        twice = torch.tensor([[2.0, -1.0, 4.0, 0.0]])  # x + relu(x), as blocks start
        torch.testing.assert_close(
            heads(hidden, mask, torch.arange(LABELS)), heads.labels(twice, mask, torch.arange(LABELS))
        )

    def test_rows_of_both(self) -> None:
        assert [rows.shape[0] for rows in two_heads().head.rows()] == [4, 4, LABELS, LABELS]


class TestScore:
    def made(self) -> tuple[Any, Any, Any]:
        corpus = titles(documents=9)
        encoder = WeightedBag(size=WIDTH, dropout=0.0)
        encoder.fit_tokeniser(corpus.texts or [], ONE)
        torch.manual_seed(1)
        network = encoder.network()
        heads = TwoHeads(Pooled().network(WIDTH, WIDTH, 4), Pooled().network(WIDTH, WIDTH, LABELS), WIDTH, None)
        with torch.no_grad():
            for part in (heads.clusters, heads.labels):
                part.vectors.weight.mul_(9)
        return Network(network, heads).eval(), encoder.tokens(corpus.texts or [], ONE), corpus

    @pytest.mark.parametrize("joint", [True, False])
    @pytest.mark.parametrize("chunk", [2, 2048])
    def test_by_hand(self, joint: bool, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("longtail.learners.neural.shortlists.mined.CHUNK", chunk)
        network, tokens, _ = self.made()
        found = score(network, tokens, CLUSTER, 2, LABELS, joint=joint)
        assert found.k == LABELS
        for row in range(9):
            with torch.inference_mode():
                ids = torch.from_numpy(tokens.padded([row]))
                batch = Batch(np.array([0]), ids, ids > 0, ids, ids)
                hidden = network.encoder(batch)
                clusters = network.head.cluster_logits(hidden, batch.mask, torch.arange(4)).sigmoid()[0]
                labels = network.head(hidden, batch.mask, torch.arange(LABELS)).sigmoid()[0]
            best = clusters.topk(2).indices.tolist()
            expected = {
                label: float(labels[label] * (clusters[CLUSTER[label]] if joint else 1))
                for label in range(LABELS)
                if CLUSTER[label] in best
            }
            there = found.ids[row] >= 0
            assert set(found.ids[row][there].tolist()) == set(expected)
            values = [expected[label] for label in found.ids[row][there].tolist()]
            np.testing.assert_allclose(found.values[row][there], values, rtol=1e-5)
            assert (np.diff(found.values[row]) <= 0).all()


class TestListedLabels:
    @settings(max_examples=50, deadline=None)
    @given(seed=st.integers(0, 200), random=st.integers(0, 6), weighted=st.booleans(), width=st.integers(1, 6))
    def test_positives_the_list_and_random_ones(self, seed: int, random: int, weighted: bool, width: int) -> None:
        Y, weights = targets(seed)
        rng = np.random.default_rng(seed)
        lists = np.array([rng.permutation(LABELS)[:width] for _ in range(DOCUMENTS)], dtype=np.int32)
        lists[rng.random(lists.shape) < 0.3] = -1
        rows = rng.permutation(DOCUMENTS)[:6]
        choice = ListedLabels(Y, weights if weighted else None, lists, random)
        labels, values, given_weights = choice.choose(rows, np.random.default_rng(7))
        assert given_weights is not None and labels.dtype == np.int64 and values.dtype == np.float32
        drawn_ones = np.random.default_rng(7).integers(0, LABELS, (len(rows), random))
        dense = Y.toarray()
        weight_of = np.ones((DOCUMENTS, LABELS), dtype=np.float32)
        if weighted:
            weight_of[Y.nonzero()] = weights
        for number, row in enumerate(rows):
            listed = {int(label) for label in lists[row] if label >= 0}
            wanted = sorted(listed | set(np.flatnonzero(dense[row])) | set(drawn_ones[number]))
            own = labels[number, : len(wanted)]
            assert own.tolist() == wanted, "its own, those of the list and random ones, none twice"
            assert values[number, : len(wanted)].tolist() == dense[row, own].tolist()
            assert given_weights[number, : len(wanted)].tolist() == weight_of[row, own].tolist()
            rest = slice(len(wanted), None)
            assert (given_weights[number, rest] == 0).all() and (values[number, rest] == 0).all()
        assert labels.min() >= 0 and labels.max() < LABELS

    def test_random_ones_are_drawn_anew(self) -> None:
        Y, _ = targets(0)
        choice = ListedLabels(Y, None, np.full((DOCUMENTS, 1), -1, dtype=np.int32), 3)
        tokens: Any = titles(DOCUMENTS)
        encoder = WeightedBag(size=2)
        encoder.fit_tokeniser(tokens.texts, ONE)
        batches = Batches(encoder.tokens(tokens.texts, ONE), choice, 5, seed=0)
        first, second = ({tuple(b.rows.tolist()): b.labels.tolist() for b in batches} for _ in range(2))
        assert list(first.values()) != list(second.values())

    def test_no_labels_at_all(self) -> None:
        empty = sp.csr_matrix(sp.coo_array((2, 5), dtype=np.float32))
        lists = np.full((2, 1), -1, dtype=np.int32)
        labels, values, weights = ListedLabels(empty, None, lists, 0).choose(np.arange(2), np.random.default_rng(0))
        assert labels.shape == values.shape == (2, 1) and weights is not None and (weights == 0).all()


def test_a_step_encodes_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clusters choose labels by what the encoder found for the step itself."""
    calls: list[str] = []
    encoding, losing = EncoderNetwork.forward, Network.loss

    def forward(network: Any, *given: Any) -> Any:
        calls.append("encoder")
        return encoding(network, *given)

    def loss(network: Any, *given: Any) -> Any:
        calls.append("loss")
        return losing(network, *given)

    monkeypatch.setattr(EncoderNetwork, "forward", forward)
    monkeypatch.setattr(Network, "loss", loss)
    config = {**LEARNERS["inceptionxml, clusters"], "head": "pooled"}  # whose label vectors start at random
    build(config).fit(titles(), run=ONE)  # type: ignore[attr-defined]
    assert calls == ["encoder", "loss"] * 6
