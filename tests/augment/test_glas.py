"""GLaS: the regulariser by hand, its gradient, what it holds, and that it acts in an ordinary run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
pytest.importorskip("lightning")

from mixing_cases import TINY, corpus, equal, learns, network_and_batch, plainly_trained, trained  # noqa: E402

from longtail.augment.glas import Glas, conditional_frequencies, regulariser  # noqa: E402
from longtail.augment.hooks import TrainingPlan  # noqa: E402
from longtail.errors import UsageError  # noqa: E402
from longtail.tagger import Tagger  # noqa: E402

TREE = {"tree": "always", "branches": 4, "top": 4, "candidates": 2}
#: Labels 0 and 1 hold together in one document; 0 holds in three, 1 in one, 2 in two, 3 in none.
Y = sp.csr_matrix(np.array([[1, 0.5, 0, 0], [1, 0, 0, 0], [1, 0, 1, 0], [0, 0, 1, 0]], dtype=np.float32))


def begun(**options: Any) -> Glas:
    hook = Glas(**options)
    hook.begin(TrainingPlan(corpus(), 1, 100))
    return hook


def test_conditional_frequencies_by_hand() -> None:
    """P(0 | 1) = 1, P(1 | 0) = 1/3: their mean is 2/3. P(0 | 2) = 1/2, P(2 | 0) = 1/3: 5/12."""
    expected = [[1, 2 / 3, 5 / 12, 0], [2 / 3, 1, 0, 0], [5 / 12, 0, 1, 0], [0, 0, 0, 1]]
    np.testing.assert_allclose(conditional_frequencies(Y).toarray(), expected, rtol=1e-6)


def test_the_regulariser_by_hand() -> None:
    """Vectors (3, 4) and (0, 2): cosine 4/5 where 1/2 is wanted, so R = 2 (3/10)^2 / 4 = 0.045.

    Products as they are: 25, 8, 8, 4 where 1, 1/2, 1/2, 1 are wanted: (24^2 + 2 * 7.5^2 + 3^2) / 4 = 174.375.
    """
    vectors, wanted = torch.tensor([[3.0, 4], [0, 2]]), torch.tensor([[1, 0.5], [0.5, 1]])
    assert float(regulariser(vectors, wanted)) == pytest.approx(0.045, rel=1e-5)
    assert float(regulariser(vectors, wanted, cosine=False)) == pytest.approx(174.375)


def test_its_gradient() -> None:
    vectors = torch.randn(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    wanted = torch.from_numpy(conditional_frequencies(Y).toarray()).double()
    for cosine in (True, False):
        assert torch.autograd.gradcheck(lambda v, cosine=cosine: regulariser(v, wanted, cosine=cosine), (vectors,))
    # by the formula: dR/dV = 4 / K^2 (V V^T - G) V
    (grad,) = torch.autograd.grad(regulariser(vectors, wanted, cosine=False), vectors)
    torch.testing.assert_close(grad, 4 / 16 * (vectors @ vectors.T - wanted) @ vectors)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10_000), documents=st.integers(1, 20), labels=st.integers(1, 9), density=st.floats(0, 1))
def test_frequencies_like_a_dense_computation(seed: int, documents: int, labels: int, density: float) -> None:
    there = (np.random.default_rng(seed).random((documents, labels)) < density).astype(np.float32)
    A = there.T @ there
    Z = np.maximum(np.diag(A), 1)
    expected = (A / Z[None, :] + A / Z[:, None]) / 2
    np.fill_diagonal(expected, 1)
    found = conditional_frequencies(sp.csr_matrix(there)).toarray()
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert (found == found.T).all() and found.min() >= 0 and found.max() <= 1 + 1e-6


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), K=st.integers(2, 8))
def test_vectors_that_are_as_similar_as_wanted_cost_nothing(seed: int, K: int) -> None:
    made = torch.nn.functional.normalize(torch.randn(K, 5, generator=torch.Generator().manual_seed(seed)), dim=1)
    scale = torch.rand(K, 1, generator=torch.Generator().manual_seed(seed)) + 0.5
    assert float(regulariser(scale * made, made @ made.T)) == pytest.approx(0, abs=1e-10)
    assert float(regulariser(made, 1 - made @ made.T)) > 0


def test_it_is_taken_over_the_labels_of_the_batchs_documents() -> None:
    network, batch = network_and_batch(6)
    hook = begun(weight=3.0)
    hook.draw(batch, network, np.random.default_rng(0), 0)
    labels = torch.nonzero((batch.targets > 0).any(dim=0))[:, 0]
    assert 2 <= len(labels) < 12
    expected = regulariser(
        network.head.separators(labels),
        torch.from_numpy(conditional_frequencies(corpus().Y).toarray())[labels][:, labels],
    )
    logits = torch.zeros_like(batch.targets)
    same, unchanged, extra = hook.pairs(batch, network, None, logits)
    assert same is batch and unchanged is logits
    torch.testing.assert_close(extra, 3 * expected)
    extra.backward()
    moved = network.head.vectors.weight.grad.to_dense().abs().sum(dim=1) > 0
    assert torch.nonzero(moved)[:, 0].tolist() == labels.tolist()
    # labels of pairs of weight 0 take no part, nor do shortlists' other labels
    light = replace(batch, weights=torch.zeros_like(batch.targets))
    assert hook.pairs(light, network, None, logits)[2] is None
    own = torch.arange(12).expand(6, -1)
    torch.testing.assert_close(hook.pairs(replace(batch, labels=own), network, None, logits)[2], 3 * expected)
    few = begun(most=2)
    few.draw(batch, network, np.random.default_rng(0), 0)
    assert few.pairs(batch, network, None, logits)[2] is not None and few.steps_ == 1


HEADS: dict[str, Any] = {
    "own": "label-attention",
    "layered": {"part": "label-attention", "classifier": "layered", "hidden": 8},
    "shared, with documents": {"part": "label-attention", "classifier": "shared", "hidden": 8},
    "pooled": "pooled",
    "unit-vector": {"part": "unit-vector", "size": 6},
}


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
@pytest.mark.parametrize("options", [{}, TREE], ids=["flat", "tree"])
def test_it_acts_in_an_ordinary_run(head: Any, options: dict[str, Any]) -> None:
    """Label vectors end nearer to what is wanted than without it."""

    def far(state: dict[str, np.ndarray]) -> float:
        prefix = "level1" if options else "network"
        rows = [state[f"{prefix}.head.{name}.weight"] for name in ("vectors", "document")
                if f"{prefix}.head.{name}.weight" in state]  # fmt: skip
        wanted = torch.from_numpy(conditional_frequencies(corpus().Y).toarray())
        return float(regulariser(torch.from_numpy(np.concatenate(rows, axis=1)), wanted))

    given_ = {**options, "head": head, "least_steps": 40, "label_rate": 0.05}
    held = trained([{"part": "glas", "weight": 1000.0}], **given_)
    assert not equal(held, plainly_trained(**given_))
    assert far(held) < 0.95 * far(plainly_trained(**given_))


def test_weight_0_is_training_without_it() -> None:
    assert equal(trained([{"part": "glas", "weight": 0}]), plainly_trained())


def test_it_reports_what_it_did() -> None:
    tagger = Tagger({**TINY, "least_steps": 40}, augment=[{"part": "glas", "weight": 100.0}], threads=1).fit(corpus())
    (hook,) = tagger.augment
    assert hook.steps_ == 40 and 0 < hook.last_ < hook.first_
    again = begun()
    again.restore_state(hook.state())
    assert (again.steps_, again.last_) == (40, hook.last_)
    with pytest.warns(UserWarning, match="glas never acted: no batch had two labels"):
        begun().end()


def test_a_head_without_label_vectors_is_refused() -> None:
    head = {"part": "label-attention", "classifier": "shared", "document": False}
    with pytest.raises(UsageError, match="'glas' works in the space 'labels'"):
        Tagger({**TINY, "head": head}, augment=["glas"])


def test_end_to_end(tmp_path: Any) -> None:
    learns(["glas"], tmp_path)
