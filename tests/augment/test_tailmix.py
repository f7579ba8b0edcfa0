"""TailMix: what is drawn, who is mixed in, what becomes of logits and targets, and that nothing else changes."""

from __future__ import annotations

import warnings
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

torch = pytest.importorskip("torch")
pytest.importorskip("lightning")

from mixing_cases import TINY, corpus, equal, learns, network_and_batch, plainly_trained, trained  # noqa: E402

from longtail.augment.hooks import TrainingPlan  # noqa: E402
from longtail.augment.tailmix import DOCUMENTS, FORMS, RULES, TailMix, Targets, mix  # noqa: E402
from longtail.corpus import Corpus  # noqa: E402
from longtail.errors import UsageError  # noqa: E402
from longtail.graphs.cooccurrence import cooccurrence, strongest  # noqa: E402
from longtail.labels import LabelIndex  # noqa: E402
from longtail.learners.neural.heads.label_attention import LabelAttention  # noqa: E402
from longtail.learners.neural.training.batches import Batch  # noqa: E402
from longtail.tagger import Tagger  # noqa: E402

THREE = {"part": "sampled-labels", "negatives": 3}
TREE = {"tree": "always", "branches": 4, "top": 4, "candidates": 2}


def hook_for(labels: LabelIndex, Y: sp.csr_matrix, **options: Any) -> TailMix:
    """A hook that knows its corpus; every label may be mixed unless told otherwise."""
    # with a small alpha some lambda are 1 in single precision, and those pairs are left alone
    hook = TailMix(**{"rarest": None, "alpha": 5.0, "form": "in-place", "rule": "exclude", **options})
    hook.begin(TrainingPlan(Corpus(labels=labels, Y=Y), 1, 100))
    return hook


def drawn(*pairs: tuple[int, int, float], choice: float = 0.0, rank: int = 0) -> Targets:
    """Pairs of (document, label, lambda)."""
    document, label, lam = zip(*pairs, strict=True)
    choices = np.full(len(pairs), choice, np.float32)
    return Targets(np.array(document), np.array(label), np.array(lam, np.float32), choices, rank)


class ByHand:
    """Two documents of two words, four labels; 0 and 2 look at the first word, 1 and 3 at the second.

    The words of document 0 are (1, 0) and (0, 1), those of document 1 are (2, 0) and (0, 2). Document 0 has the
    labels 0 and 1, document 1 has label 2. 0 and 1 are neighbours, and so are 2 and 3.
    """

    def __init__(self, documents: bool = False, **options: Any) -> None:
        head = LabelAttention(document=documents).network(2, 2, 4)
        with torch.no_grad():
            head.queries.weight.copy_(torch.tensor([[99.0, 0], [0, 99], [99, 0], [0, 99]]))
            head.vectors.weight.copy_(torch.tensor([[4.0, 8], [1, 1], [2, 3], [5, 7]]))
            head.bias.weight.fill_(-1)
            if documents:
                head.document.weight.copy_(torch.tensor([[2**0.5, 2**0.5], [0, 8**0.5], [2**0.5, 0], [18**0.5, 0]]))
        self.network = SimpleNamespace(head=head)
        self.hidden = torch.tensor([[[1.0, 0], [0, 1]], [[2.0, 0], [0, 2]]], requires_grad=True)
        tokens = torch.tensor([[2, 3], [4, 5]])
        targets = torch.tensor([[1.0, 1, 0, 0], [0, 0, 1, 0]])
        self.batch = Batch(np.arange(2), tokens, tokens > 0, torch.arange(4), targets)
        labels = LabelIndex(["a", "b", "c", "d"]).with_counts(np.array([3, 3, 3, 3]), 100)
        Y = sp.csr_matrix(np.array([[1, 1, 0, 0], [0, 0, 1, 1]], dtype=np.float32))
        self.hook = hook_for(labels, Y, **options)

    def mixed(self, *rounds: Targets, batch: Batch | None = None) -> tuple[Batch, Any, Any]:
        batch = batch or self.batch
        logits = self.network.head(self.hidden, batch.mask, batch.labels)
        self.hook.drawn_ = list(rounds)
        return self.hook.pairs(batch, self.network, self.hidden, logits)


def test_neighbours_are_those_of_documents() -> None:
    """Labels that only rows of another augmenter bring together are no neighbours."""
    documents = Corpus(
        labels=LabelIndex(["a", "b", "c"]), Y=sp.csr_matrix(np.eye(3, dtype=np.float32)), texts=["x"] * 3
    )
    both = sp.csr_matrix(np.array([[1, 1, 0]], dtype=np.float32))
    more = documents.counted().with_rows(texts=["y"], Y=both, ids=["made"])
    hook = TailMix()
    hook.begin(TrainingPlan(more, 1, 100))
    assert (hook.neighbours_ < 0).all()


# by hand
def test_mixing_by_hand() -> None:
    own, other = torch.tensor([[1.0, 2], [0, 4]]), torch.tensor([[3.0, 6], [8, 0]])
    assert mix(own, other, torch.tensor([0.75, 0.0])).tolist() == [[1.5, 3], [8, 0]]


@pytest.mark.parametrize(
    ("rule", "logits", "targets"),
    [
        ("literal", [[4, 0, 1, 6], [7, 1, 4, 13]], [[0.75, 0.25, 0, 0], [0, 0, 0.5, 0.5]]),
        ("max", [[4, 0, 1, 6], [7, 1, 4, 13]], [[0.75, 1, 0, 0], [0, 0, 0.5, 0.5]]),
        ("exclude", [[3, 0, 1, 6], [7, 1, 4, 13]], [[1, 1, 0, 0], [0, 0, 0.5, 0.5]]),
    ],
)
def test_logits_and_targets_by_hand(rule: str, logits: list[list[float]], targets: list[list[float]]) -> None:
    """Document 0's label 0 with 3/4 of (1, 0) and 1/4 of (0, 1): 4 * 3/4 + 8 * 1/4 - 1 = 4 instead of 3.

    Document 1's label 2 with halves of (2, 0) and (0, 2): 2 + 3 - 1 = 4 instead of 3. Where a document's own labels
    are not taken, label 0 has no neighbour left.
    """
    case = ByHand(rule=rule)
    plain = case.network.head(case.hidden, case.batch.mask, case.batch.labels)
    assert plain.round().tolist() == [[3, 0, 1, 6], [7, 1, 3, 13]]
    batch, found, extra = case.mixed(drawn((0, 0, 0.75), (1, 2, 0.5)))
    torch.testing.assert_close(found, torch.tensor(logits, dtype=torch.float32))
    assert batch.targets.tolist() == targets and extra is None
    assert case.batch.targets.tolist() == [[1, 1, 0, 0], [0, 0, 1, 0]], "the batch given stays as it is"


@pytest.mark.parametrize(("rule", "of_neighbour"), [("literal", [0.25, 0.5]), ("max", [1, 0.5])])
def test_equation_4_by_hand(rule: str, of_neighbour: list[float]) -> None:
    """The mixture stands in both places: y~ = lambda y_l + (1 - lambda) y_t holds for one vector c~.

    Document 0: c~ = (3/4, 1/4), held against label 0: 4, against label 1: 3/4 + 1/4 - 1 = 0. Document 1: c~ = (1, 1),
    held against label 2: 4, against label 3: 5 + 7 - 1 = 11 instead of 13.
    """
    case = ByHand(rule=rule, form="equation-4")
    batch, found, extra = case.mixed(drawn((0, 0, 0.75), (1, 2, 0.5)))
    torch.testing.assert_close(found, torch.tensor([[4.0, 0, 1, 6], [7, 1, 4, 11]]))
    assert extra is None
    assert batch.targets.tolist() == [[0.75, of_neighbour[0], 0, 0], [0, 0, 0.5, of_neighbour[1]]]


def cross_entropy(logit: float, target: float) -> float:
    share = 1 / (1 + np.exp(-logit))
    return float(-target * np.log(share) - (1 - target) * np.log(1 - share))


@pytest.mark.parametrize(("rule", "of_neighbour"), [("literal", 0.25), ("max", 1.0)])
def test_additive_by_hand(rule: str, of_neighbour: float) -> None:
    """The document's pairs stay as they are, and the mixtures of equation 4 have a loss beside theirs."""
    case = ByHand(rule=rule, form="additive")
    plain = case.network.head(case.hidden, case.batch.mask, case.batch.labels)
    batch, found, extra = case.mixed(drawn((0, 0, 0.75), (1, 2, 0.5)))
    assert torch.equal(found, plain) and torch.equal(batch.targets, case.batch.targets)
    examples = [(4, 0.75), (0, of_neighbour), (4, 0.5), (11, 0.5)]
    assert float(extra.detach()) == pytest.approx(sum(cross_entropy(*each) for each in examples) / 2, rel=1e-5)
    light = replace(case.batch, weights=torch.tensor([[1.0, 0, 1, 1], [1, 1, 0.5, 1]]))
    *_, extra = case.mixed(drawn((0, 0, 0.75), (1, 2, 0.5)), batch=light)
    weighted = sum(w * cross_entropy(*each) for w, each in zip((1, 0, 0.5, 1), examples, strict=True))
    assert float(extra.detach()) == pytest.approx(weighted / 2, rel=1e-5), "a pair of weight 0 has no say"


def test_an_addition_outside_the_loss_by_hand() -> None:
    """Labels 0, 1 and 2 are sampled: the mixture's part of label 3 has its say all the same."""
    case = ByHand(form="additive", rule="max")
    some = replace(case.batch, labels=torch.arange(3), targets=case.batch.targets[:, :3])
    *_, extra = case.mixed(drawn((1, 2, 0.5)), batch=some)
    assert float(extra.detach()) == pytest.approx((cross_entropy(4, 0.5) + cross_entropy(11, 0.5)) / 2, rel=1e-5)


def test_several_neighbours_by_hand() -> None:
    """Section 3.2: label 0 is mixed with its nearest neighbour and with the one after it, a lambda each.

    Document 0: label 2 looks at the same word as label 0, at distance 0; labels 1 and 3 at the other. Mixed with label
    2, the vector stays (1, 0), and logits are 3 and 1; mixed with label 1 by halves, it is (1/2, 1/2): 5 and 0.
    """
    case = ByHand(form="additive", rule="literal", partners=3)
    case.hook.neighbours_ = np.array([[1, 2], [0, -1], [0, -1], [-1, -1]], dtype=np.int32)
    rounds = [drawn((0, 0, 0.75)), drawn((0, 0, 0.5), rank=1), drawn((0, 0, 0.9), rank=2)]
    *_, extra = case.mixed(*rounds)
    examples = [(3, 0.75), (1, 0.25), (5, 0.5), (0, 0.5)]
    assert float(extra.detach()) == pytest.approx(sum(cross_entropy(*each) for each in examples) / 2, rel=1e-5)
    assert case.hook.statistics_.pairs == 2 and case.hook.statistics_.without_neighbour == 0, "no third neighbour"
    labels = LabelIndex(list("ab")).with_counts(np.array([1, 1]), 10)
    hook = hook_for(labels, sp.csr_matrix((1, 2), dtype=np.float32), form="additive", partners=3)
    made = many_documents(hook, 5, [0, 1])
    assert [one.rank for one in made] == [0, 1, 2]
    assert all((one.label == made[0].label).all() for one in made) and (made[0].lam != made[1].lam).all()


def test_any_several_neighbours_are_different_ones() -> None:
    case = ByHand(form="additive", rule="literal", partners=3, similar=False)
    case.hook.neighbours_ = np.array([[1, 2], [0, -1], [0, -1], [-1, -1]], dtype=np.int32)
    for choice in (0.0, 0.4, 0.6, 0.99):
        found = [
            partners(case.hook, case.network, None, case.batch, drawn((0, 0, 0.5), choice=choice, rank=rank))[0]
            for rank in range(3)
        ]
        assert sorted(found) == [-1, 1, 2] and found[2] == -1


@pytest.mark.parametrize("form", ["in-place", "equation-4"])
def test_targets_are_assigned_not_multiplied(form: str) -> None:
    """Algorithm 1 with M = 2: Y_l <- lambda, whatever the label was assigned as another one's neighbour before."""
    case = ByHand(rule="literal", form=form)
    batch, *_ = case.mixed(drawn((0, 0, 0.75)), drawn((0, 1, 0.6)))
    torch.testing.assert_close(batch.targets[0], torch.tensor([0.4, 0.6, 0, 0]))


@pytest.mark.parametrize(
    ("document", "mixture", "neighbour"), [("kept", 6, 2), ("mixed", 5.5, 0.5), ("left-out", 4, 0)]
)
@pytest.mark.parametrize("form", FORMS)
def test_the_part_of_the_documents_vector_by_hand(form: str, document: str, mixture: float, neighbour: float) -> None:
    """Document 0's vector is (1, 1) / sqrt(2): it adds 2 to label 0, and 2 to label 1.

    The mixture adds 4 for label 0 and 0 for label 1 (see above): all of the document's part, 3/4 and 1/4 of it, none.
    """
    case = ByHand(documents=True, rule="literal", form=form, document=document)
    _, found, extra = case.mixed(drawn((0, 0, 0.75)))
    if form == "additive":
        expected = (cross_entropy(mixture, 0.75) + cross_entropy(neighbour, 0.25)) / 2
        assert float(extra.detach()) == pytest.approx(expected, rel=1e-5)
        return
    assert float(found[0, 0].detach()) == pytest.approx(mixture, rel=1e-5)
    assert float(found[0, 1].detach()) == pytest.approx(neighbour if form == "equation-4" else 2, rel=1e-5)


def test_the_documents_vector_must_be_there() -> None:
    network, batch = network_and_batch(head={"part": "label-attention", "document": False})
    hook = hook_for(corpus().labels, corpus().Y, document="mixed")
    with pytest.raises(UsageError, match=r"tailmix.document counts only where the head has the document's vector"):
        hook.draw(batch, network, np.random.default_rng(0), 0)


def test_labels_with_one_document_are_mixed_by_default() -> None:
    """All their neighbours are labels of that document, which the rule "exclude" takes away."""
    case = ByHand()
    for rule, idle in (("max", 0), ("literal", 0), ("exclude", 1)):
        case.hook.rule = rule
        case.hook.statistics_ = type(case.hook.statistics_)(case.hook.statistics_.count)
        case.mixed(drawn((0, 0, 0.75)))
        assert case.hook.statistics_.without_neighbour == idle
    assert TailMix().rule != "exclude"


def test_a_training_that_hardly_mixed_says_so() -> None:
    case = ByHand(rule="exclude")
    case.mixed(drawn((0, 0, 0.75), (1, 2, 0.5)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        case.hook.end()  # half of them is not more than half
    case.mixed(drawn((0, 0, 0.75)))
    with pytest.warns(UserWarning, match="tailmix hardly mixed: 67% of 3 labels drawn had no neighbour"):
        case.hook.end()
    with pytest.warns(UserWarning, match="tailmix mixed nothing: it drew no label"):
        ByHand().hook.end()


def test_soft_targets_are_lowered() -> None:
    case = ByHand()
    soft = replace(case.batch, targets=torch.tensor([[0.0, 0, 0, 0], [0, 0, 0.5, 0]]))
    assert case.mixed(drawn((1, 2, 0.5)), batch=soft)[0].targets.tolist() == [[0, 0, 0, 0], [0, 0, 0.25, 0.5]]


def test_statistics_by_hand() -> None:
    case = ByHand(rule="literal")
    case.mixed(drawn((0, 0, 0.25), (1, 2, 0.5)))
    assert case.hook.statistics_.to_dict() == {
        "pairs": 2,
        "without_neighbour": 0,
        "partner_positive": 0.5,
        "lambda_below_half": 0.5,
        "mean_documents_of_label": 3,
        "tail_share": 1,
    }
    case = ByHand(rule="exclude")
    case.mixed(drawn((0, 0, 0.25), (1, 2, 0.5)))
    assert case.hook.statistics_.to_dict()["without_neighbour"] == 0.5


# what is drawn
def many_documents(hook: TailMix, documents: int, labels: list[int], seed: int = 0) -> list[Targets]:
    document = np.repeat(np.arange(documents), len(labels))
    return hook.draw_targets(document, np.tile(labels, documents), np.random.default_rng(seed))


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_labels_are_drawn_by_the_softmax_of_inverse_propensities(temperature: float) -> None:
    counts = np.array([1, 40, 3, 200, 9])
    labels = LabelIndex(list("abcde")).with_counts(counts, 1000)
    hook = hook_for(labels, sp.csr_matrix((1, 5), dtype=np.float32), temperature=temperature, most=2)
    weight = np.exp(labels.inverse_propensity() / temperature)
    n, own = 20_000, np.array([1, 2, 3, 4])
    first, second = many_documents(hook, n, own.tolist())
    assert len(first.label) == len(second.label) == n
    share = weight[own] / weight[own].sum()
    assert stats.chisquare(np.bincount(first.label, minlength=5)[own], n * share).pvalue > 1e-3
    # without replacement: the second label follows the softmax over those that are left
    for taken in own:
        rest = own[own != taken]
        then = np.bincount(second.label[first.label == taken], minlength=5)
        assert then[taken] == 0
        if then.sum() > 200:
            expected = then.sum() * weight[rest] / weight[rest].sum()
            assert stats.chisquare(then[rest], expected).pvalue > 1e-3


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), most=st.integers(1, 4), sizes=st.lists(st.integers(0, 5), min_size=1, max_size=6))
def test_at_most_so_many_labels_of_a_document(seed: int, most: int, sizes: list[int]) -> None:
    labels = LabelIndex(list("abcdefgh")).with_counts(np.arange(1, 9), 100)
    hook = hook_for(labels, sp.csr_matrix((1, 8), dtype=np.float32), most=most)
    rng = np.random.default_rng(seed)
    own = [np.sort(rng.choice(8, size, replace=False)) for size in sizes]
    document = np.repeat(np.arange(len(sizes)), sizes)
    rounds = hook.draw_targets(document, np.concatenate(own).astype(np.int64), rng)
    pairs = {(d, label) for one in rounds for d, label in zip(one.document.tolist(), one.label.tolist(), strict=True)}
    assert len(pairs) == sum(len(one.label) for one in rounds), "no label twice"
    assert all(label in own[d] for d, label in pairs)
    for d, size in enumerate(sizes):
        assert sum(document == d for document, _ in pairs) == min(most, size)
    for one in rounds:
        assert (np.diff(one.document) > 0).all(), "at most one a document in each round, rising"
        assert (one.lam >= 0.5).all() and (one.lam < 1).all() and (one.choice < 1).all()


def test_lambda() -> None:
    labels = LabelIndex(list("ab")).with_counts(np.array([1, 1]), 10)
    Y = sp.csr_matrix((1, 2), dtype=np.float32)
    lams = {
        folded: many_documents(hook_for(labels, Y, alpha=2.0, folded=folded), 5000, [0])[0].lam
        for folded in (False, True)
    }
    assert stats.kstest(lams[False], stats.beta(2, 2).cdf).pvalue > 1e-3
    np.testing.assert_allclose(lams[True], np.maximum(lams[False], 1 - lams[False]))
    assert (many_documents(hook_for(labels, Y, fixed=0.3), 50, [0, 1])[0].lam == np.float32(0.3)).all()
    assert many_documents(hook_for(labels, Y, fixed=1.0), 50, [0, 1]) == [], "a pair of itself is left alone"


def test_only_rare_labels_of_the_batch_after_the_warm_up() -> None:
    network, batch = network_and_batch(64)
    count = corpus().labels.frequency
    rarest = int(np.median(count))
    hook = hook_for(corpus().labels, corpus().Y, rarest=rarest, warm_up=0.1)
    rng = np.random.default_rng(0)
    assert hook.draw(batch, network, rng, 9) is batch and hook.drawn_ == []
    assert hook.draw(batch, network, rng, 10) is batch
    (one,) = hook.drawn_
    assert (count[one.label] <= rarest).all() and (batch.targets[one.document, one.label] > 0).all()
    has = np.flatnonzero((batch.targets.numpy()[:, count <= rarest] > 0).any(axis=1))
    assert one.document.tolist() == has.tolist(), "every document that has one"


def test_pairs_of_weight_0_are_not_drawn() -> None:
    network, batch = network_and_batch(64)
    hook = hook_for(corpus().labels, corpus().Y, most=100)
    light = replace(batch, weights=(torch.arange(12) % 2).float().expand(64, -1))
    hook.draw(light, network, np.random.default_rng(0), 0)
    labels = np.concatenate([one.label for one in hook.drawn_])
    assert len(labels) and (labels % 2 == 1).all()


def test_heads_without_contexts_are_refused() -> None:
    network, batch = network_and_batch(head="pooled")
    hook = hook_for(corpus().labels, corpus().Y)
    with pytest.raises(UsageError, match="'tailmix' needs context vectors"):
        hook.draw(batch, network, np.random.default_rng(0), 0)
    with pytest.raises(UsageError, match="'tailmix' works in the space 'context'"):
        Tagger({**TINY, "head": "pooled"}, features=None, augment=["tailmix"])


# the graph
def test_cooccurrence_by_hand() -> None:
    Y = sp.csr_matrix(
        np.array([[1, 1, 0, 0, 0], [0.5, 1, 1, 0, 0], [0, 0, 1, 0, 0], [0, 1, 1, 0, 1]], dtype=np.float32)
    )
    graph = cooccurrence(Y)
    assert graph.toarray().tolist() == [
        [0, 2, 1, 0, 0],
        [2, 0, 2, 0, 1],
        [1, 2, 0, 0, 1],
        [0, 0, 0, 0, 0],
        [0, 1, 1, 0, 0],
    ]
    assert strongest(graph, 10).tolist() == [[1, 2, -1], [0, 2, 4], [1, 0, 4], [-1, -1, -1], [1, 2, -1]]
    assert strongest(graph, 1).tolist() == [[1], [0], [1], [-1], [1]]
    assert strongest(sp.csr_matrix((3, 3), dtype=np.float32), 4).shape == (3, 0)


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(1, 12),
    labels=st.integers(1, 9),
    density=st.floats(0, 1),
    most=st.integers(1, 9),
)
def test_cooccurrence_like_a_dense_computation(seed: int, n: int, labels: int, density: float, most: int) -> None:
    rng = np.random.default_rng(seed)
    Y = (rng.random((n, labels)) < density) * rng.uniform(0.1, 1, (n, labels)).astype(np.float32)
    there = (Y > 0).astype(int)
    dense = there.T @ there
    np.fill_diagonal(dense, 0)
    graph = cooccurrence(sp.csr_matrix(Y))
    assert graph.toarray().tolist() == dense.tolist()
    for label, found in enumerate(strongest(graph, most)):
        expected = sorted(np.flatnonzero(dense[label]), key=lambda other: (-dense[label, other], other))[:most]
        assert found[found >= 0].tolist() == expected and (found[len(expected) :] == -1).all()
        assert label not in found


# who is mixed in
def context_of(network: Any, hidden: Any, mask: Any, document: int, label: int) -> Any:
    with torch.no_grad():
        return network.head.contexts(hidden, mask, torch.tensor([document]), torch.tensor([label]))[0]


def partners(hook: TailMix, network: Any, hidden: Any, batch: Batch, one: Targets) -> list[int]:
    document, label = torch.from_numpy(one.document), torch.from_numpy(one.label)
    found = hook._candidates(one, batch)
    with torch.no_grad():
        partner = hook._partner(one, found, network.head, hidden, batch.mask, document, label)
    return partner.tolist()


@pytest.mark.parametrize("shared", [True, False], ids=["shared labels", "shortlists"])
@pytest.mark.parametrize("graph", [True, False], ids=["graph", "no graph"])
@pytest.mark.parametrize("rule", ["literal", "exclude"])
def test_the_nearest_neighbour_is_taken(rule: str, graph: bool, shared: bool) -> None:
    network, batch = network_and_batch(20)
    with torch.no_grad():
        network.head.queries.weight.normal_(0, 3)
        hidden = network.encoder(batch)
    if not shared:
        batch = listed(batch)
    hook = hook_for(corpus().labels, corpus().Y, rule=rule, graph=graph, neighbours=5)
    hook.draw(batch, network, np.random.default_rng(1), 0)
    (one,) = hook.drawn_
    found = partners(hook, network, hidden, batch, one)
    together = cooccurrence(corpus().Y).toarray()
    several = 0
    for document, label, partner in zip(one.document, one.label, found, strict=True):
        row = batch.labels if batch.weights is None else batch.labels[document][batch.weights[document] > 0]
        own = set(np.flatnonzero(dense_targets(batch)[document]))
        if graph:
            order = sorted(np.flatnonzero(together[label]), key=lambda t, one=label: (-together[one, t], t))[:5]
            allowed = [int(t) for t in order if shared or t in row.tolist()]
        else:
            allowed = [t for t in row.tolist() if t != label]
        allowed = [t for t in allowed if rule != "exclude" or t not in own]
        several += len(allowed) > 1
        centre = context_of(network, hidden, batch.mask, document, label)
        distances = [float((context_of(network, hidden, batch.mask, document, t) - centre).norm()) for t in allowed]
        assert partner == (allowed[int(np.argmin(distances))] if allowed else -1)
    assert several > 3


def listed(batch: Batch) -> Batch:
    """The same documents with shortlists of different lengths: own labels and a few others, filled up as a tree's."""
    n_labels = batch.targets.shape[1]
    labels = torch.full((len(batch), 9), n_labels - 1)
    targets, weights = torch.zeros(len(batch), 9), torch.zeros(len(batch), 9)
    for number, row in enumerate(batch.targets):
        some = np.random.default_rng(number).choice(n_labels - 1, 3 + number % 4, replace=False)
        chosen = torch.tensor(sorted({*torch.nonzero(row)[:, 0].tolist(), *some.tolist()})[:9])
        labels[number, : len(chosen)], weights[number, : len(chosen)] = chosen, 1
        targets[number, : len(chosen)] = row[chosen]
    return replace(batch, labels=labels, targets=targets, weights=weights)


def dense_targets(batch: Batch) -> np.ndarray:
    """(B, 12)."""
    if batch.shared:
        return batch.targets.numpy()
    dense = np.zeros((len(batch), 12), dtype=np.float32)
    for number in range(len(batch)):
        np.maximum.at(dense[number], batch.labels[number].numpy(), batch.targets[number].numpy())
    return dense


@pytest.mark.parametrize("graph", [True, False])
def test_without_similarity_any_neighbour_is_taken_as_often(graph: bool) -> None:
    network, batch = network_and_batch(20)
    hook = hook_for(corpus().labels, corpus().Y, similar=False, graph=graph)
    document = int(torch.nonzero(batch.targets)[0, 0])
    label = int(torch.nonzero(batch.targets[document])[0, 0])
    n = 6000
    choice = np.random.default_rng(0).random(n, dtype=np.float32)
    one = Targets(np.full(n, document), np.full(n, label), np.full(n, 0.5, np.float32), choice)
    found = np.array(partners(hook, network, None, batch, one))
    others = set(np.flatnonzero(cooccurrence(corpus().Y)[label].toarray()[0])) if graph else set(range(12))
    others -= {label, *torch.nonzero(batch.targets[document])[:, 0].tolist()}
    counted = np.bincount(found, minlength=12)
    assert set(np.flatnonzero(counted)) == others and len(others) > 2
    assert stats.chisquare(counted[sorted(others)]).pvalue > 1e-3


def test_without_a_neighbour_nothing_happens() -> None:
    case = ByHand()
    case.hook.neighbours_ = np.zeros((4, 0), dtype=np.int32)
    plain = case.network.head(case.hidden, case.batch.mask, case.batch.labels)
    batch, logits, extra = case.mixed(drawn((0, 0, 0.75), (1, 2, 0.5)))
    assert torch.equal(logits, plain) and torch.equal(batch.targets, case.batch.targets) and extra is None
    assert case.hook.statistics_.to_dict()["without_neighbour"] == 1


# what changes and what does not
def test_gradients_reach_both_vectors_that_are_mixed() -> None:
    case = ByHand()
    with torch.no_grad():
        case.network.head.queries.weight.div_(99)  # no saturated attention
    _, logits, _ = case.mixed(drawn((1, 2, 0.6)))
    logits[1, 2].backward()
    rows = case.network.head.queries.weight.grad.to_dense()
    assert (rows.abs().sum(dim=1) > 0).tolist() == [False, False, True, True]
    assert (case.hidden.grad[0] == 0).all() and (case.hidden.grad[1] != 0).all()


def test_a_mixed_logit_has_no_gradient_of_the_plain_one() -> None:
    """With lambda 0 the label's own query has no part in its logit any more."""
    case = ByHand(folded=False)
    with torch.no_grad():
        case.network.head.queries.weight.div_(99)
    _, logits, _ = case.mixed(drawn((1, 2, 0.0)))
    logits[1, 2].backward()
    rows = case.network.head.queries.weight.grad.to_dense()
    assert (rows.abs().sum(dim=1) > 0).tolist() == [False, False, False, True]


@pytest.mark.parametrize("head", ["label-attention", {"part": "label-attention", "classifier": "shared", "hidden": 8}])
@pytest.mark.parametrize("shared", [True, False], ids=["shared labels", "shortlists"])
def test_pairs_that_are_not_drawn_are_left_alone(shared: bool, head: Any) -> None:
    network, batch = network_and_batch(12, head=head)
    batch = batch if shared else listed(batch)
    hook = hook_for(corpus().labels, corpus().Y, fixed=0.7)
    hook.draw(batch, network, np.random.default_rng(0), 0)
    with torch.no_grad():
        hidden = network.encoder(batch)
        plain = network.head(hidden, batch.mask, batch.labels)
        changed, logits, extra = hook.pairs(batch, network, hidden, plain)
    (one,) = hook.drawn_
    found = np.array(partners(hook, network, hidden, batch, one))
    assert (found >= 0).sum() > 3 and extra is None
    expected, targets = plain.clone(), batch.targets.clone()
    for document, label, partner in zip(one.document, one.label, found, strict=True):
        if partner < 0:
            continue
        row = (batch.labels if shared else batch.labels[document]).tolist()
        own, other = (context_of(network, hidden, batch.mask, document, each) for each in (label, partner))
        at = torch.tensor([document]), torch.tensor([label])
        with torch.no_grad():
            mixed = network.head.pair_logits((0.7 * own + 0.3 * other)[None], hidden, batch.mask, *at)
        expected[document, row.index(label)] = mixed[0]
        targets[document, row.index(label)] = 0.7
        targets[document, row.index(partner)] = 0.3
    same = torch.isclose(expected, plain, rtol=0, atol=0)
    assert torch.equal(logits[same], plain[same]) and (~same).sum() == (found >= 0).sum()
    torch.testing.assert_close(logits, expected)
    torch.testing.assert_close(changed.targets, targets)
    assert changed.weights is batch.weights


def test_neighbours_outside_the_loss_have_a_loss_of_their_own() -> None:
    """Labels 0, 1 and 2 are sampled; document 1's label 2 meets label 3, whose logit is 13 and whose target is 1/2."""
    case = ByHand()
    some = replace(case.batch, labels=torch.arange(3), targets=case.batch.targets[:, :3])
    batch, logits, extra = case.mixed(drawn((1, 2, 0.5)), batch=some)
    assert batch.targets.tolist() == [[1, 1, 0], [0, 0, 0.5]]
    torch.testing.assert_close(logits.detach()[1], torch.tensor([7.0, 1, 4]))
    loss = -(0.5 * np.log(1 / (1 + np.exp(-13))) + 0.5 * np.log(1 - 1 / (1 + np.exp(-13))))
    assert float(extra.detach()) == pytest.approx(loss / 2)  # a mean over the two documents, as the loss itself
    extra.backward()
    assert set(case.network.head.vectors.weight.grad.coalesce().indices()[0].tolist()) == {3}


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    rule=st.sampled_from(RULES),
    form=st.sampled_from(FORMS),
    document=st.sampled_from(DOCUMENTS),
    most=st.integers(1, 4),
    folded=st.booleans(),
    graph=st.booleans(),
    similar=st.booleans(),
    shared=st.booleans(),
    alpha=st.floats(0.05, 10),
)
def test_targets_stay_targets(seed: int, shared: bool, **options: Any) -> None:
    network, batch = network_and_batch(6)
    rng = np.random.default_rng(seed)
    soft = batch.targets * torch.from_numpy(rng.uniform(0.1, 1, batch.targets.shape)).float()
    batch = replace(batch, targets=soft) if shared else listed(replace(batch, targets=soft))
    hook = hook_for(corpus().labels, corpus().Y, **options)
    before = batch.targets.clone()
    hook.draw(batch, network, rng, 0)
    with torch.no_grad():
        hidden = network.encoder(batch)
        logits = network.head(hidden, batch.mask, batch.labels)
        changed, mixed, extra = hook.pairs(batch, network, hidden, logits)
    assert torch.equal(batch.targets, before)
    assert changed.targets.shape == before.shape and mixed.shape == logits.shape
    assert changed.targets.min() >= 0 and changed.targets.max() <= 1
    assert torch.isfinite(mixed).all() and (extra is None or torch.isfinite(extra))
    if options["form"] == "additive":
        assert torch.equal(mixed, logits) and torch.equal(changed.targets, before), "what there was stays"
        assert extra is not None and extra > 0
    if options["rule"] == "max":
        drawn_pairs = {(d, label) for one in hook.drawn_ for d, label in zip(one.document, one.label, strict=True)}
        for document, place in torch.nonzero(changed.targets < before).tolist():
            label = int(batch.labels[place] if shared else batch.labels[document, place])
            assert (document, label) in drawn_pairs, "only what was drawn is lowered"


def test_shortlists_that_are_filled_up_do_not_hold_the_last_label() -> None:
    """A list is filled up with the last label's number; that label takes part only where it is really listed."""
    network, batch = network_and_batch(8)
    short = listed(batch)
    assert (short.labels[:, -1] == 11).all() and (short.weights[:, -1] == 0).all()
    everything = sp.csr_matrix(np.ones((3, 12), dtype=np.float32))
    for options in ({"graph": True}, {"graph": False}, {"graph": False, "similar": False}):
        hook = hook_for(corpus().labels, everything, most=3, rule="literal", **options)
        hook.draw(short, network, np.random.default_rng(0), 0)
        for one in hook.drawn_:
            found = hook._candidates(one, short)
            for document, label, row in zip(one.document, one.label, found, strict=True):
                really = set(short.labels[document][short.weights[document] > 0].tolist()) - {label}
                assert sorted(row[row >= 0].tolist()) == sorted(really), options


# end to end
@pytest.mark.parametrize("options", [{}, TREE], ids=["flat", "tree"])
def test_lambda_1_is_training_without_mixing(options: dict[str, Any]) -> None:
    assert equal(trained([{"part": "tailmix", "rarest": None, "fixed": 1}], **options), plainly_trained(**options))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("options", [{}, TREE, {"shortlist": THREE}], ids=["flat", "tree", "sampled"])
def test_mixing_changes_what_is_learnt(options: dict[str, Any], form: str) -> None:
    mixing = [{"part": "tailmix", "rarest": None, "most": 2, "rule": "literal", "form": form}]
    once, again = trained(mixing, **options), trained(mixing, **options)
    assert equal(once, again) and not equal(once, plainly_trained(**options))
    if options is TREE:
        upper = {name for name in once if name.startswith("level0.")}
        assert upper and all(once[name].tobytes() == plainly_trained(**TREE)[name].tobytes() for name in upper), (
            "only the level of the labels is mixed"
        )


def test_an_ordinary_training_mixes_labels_with_one_document() -> None:
    """Two labels per document that no other document has: by default every draw is mixed, with the other label."""
    texts = [f"first{n} second{n} third{n}" for n in range(32)]
    Y = sp.csr_matrix(np.kron(np.eye(32, dtype=np.float32), np.ones((1, 2), dtype=np.float32)))
    single = Corpus(labels=LabelIndex([f"l{n}" for n in range(64)]), Y=Y, texts=texts).counted()

    def fitted(*augment: dict[str, Any]) -> Tagger:
        return Tagger(TINY, features=None, augment=list(augment), threads=1).fit(single)

    mixed = fitted({"part": "tailmix"})
    (hook,) = mixed.augment
    found = hook.statistics_.to_dict()
    assert 60 <= found["pairs"] <= 64 and found["mean_documents_of_label"] == 1
    assert found["without_neighbour"] == 0 and found["partner_positive"] == 1
    plain = fitted().learner.state()
    assert not equal(mixed.learner.state(), plain)
    with pytest.warns(UserWarning, match=r"tailmix hardly mixed: 100% of \d+ labels drawn had no neighbour"):
        idle = fitted({"part": "tailmix", "rule": "exclude"})
    assert equal(idle.learner.state(), plain)


@pytest.mark.parametrize("options", [{}, TREE], ids=["flat", "tree"])
def test_statistics_of_a_training(options: dict[str, Any]) -> None:
    tagger = Tagger({**TINY, **options}, features=None, augment=[{"part": "tailmix", "rarest": None}], threads=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        tagger.fit(corpus())
    (hook,) = tagger.augment
    found = hook.statistics_.to_dict()
    assert 64 <= found["pairs"] <= 2 * 64, "two epochs, one label of each document that has any"
    assert found["without_neighbour"] < 0.5 and 0 < found["partner_positive"] < 1 and found["lambda_below_half"] == 0
    assert 1 <= found["mean_documents_of_label"] <= corpus().labels.frequency.max()


def test_end_to_end(tmp_path: Any) -> None:
    learns([{"part": "tailmix", "rarest": None}], tmp_path)


def test_statistics_travel_in_checkpoints() -> None:
    hook = hook_for(LabelIndex(list("abcd")).with_counts(np.array([1, 6, 30, 2]), 30), sp.csr_matrix(np.eye(4)))
    hook.statistics_.add(drawn((0, 1, 0.25), (1, 2, 0.75)), np.array([True, False]), np.array([True, False]))
    again = hook_for(LabelIndex(list("abcd")).with_counts(np.array([1, 6, 30, 2]), 30), sp.csr_matrix(np.eye(4)))
    again.restore_state(hook.state())
    assert again.statistics_.to_dict() == hook.statistics_.to_dict()
    assert again.statistics_.bands.tolist() == [0, 1, 1] and "count" not in hook.state()
