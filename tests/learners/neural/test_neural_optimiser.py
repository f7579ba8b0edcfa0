"""RowAdam: torch's AdamW on dense gradients, torch's SparseAdam on sparse ones; clipping takes both."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from longtail.learners.neural.training.optimiser import RowAdam, clip_norm  # noqa: E402

ROWS, WIDTH, STEPS = 12, 5, 20


def draws(seed: int = 0) -> Any:
    return torch.Generator().manual_seed(seed)


def sparse(rows: Any, values: Any) -> Any:
    return torch.sparse_coo_tensor(rows[None], values, (ROWS, WIDTH), check_invariants=True)


@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_dense_is_adamw(decay: float) -> None:
    generator = draws()
    start = [torch.randn(shape, generator=generator) for shape in ((4, 3), (7,), ())]
    one, two = ([torch.nn.Parameter(value.clone()) for value in start] for _ in range(2))
    ours = RowAdam([{"params": one[:2]}, {"params": one[2:], "lr": 0.05}], lr=0.1, weight_decay=decay)
    theirs = torch.optim.AdamW([{"params": two[:2]}, {"params": two[2:], "lr": 0.05}], lr=0.1, weight_decay=decay)
    for step in range(STEPS):
        for a, b in zip(one, two, strict=True):
            a.grad = torch.randn(a.shape, generator=generator) * 10 ** (step % 4 - 2)
            b.grad = a.grad.clone()
        ours.step()
        theirs.step()
        for a, b in zip(one, two, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6)


def test_sparse_is_sparse_adam() -> None:
    generator = draws()
    start = torch.randn(ROWS, WIDTH, generator=generator)
    one, two = (torch.nn.Parameter(start.clone()) for _ in range(2))
    # SparseAdam adds eps before the correction of the second moment, AdamW behind it: small, it is the same
    ours, theirs = RowAdam([one], lr=0.1, eps=1e-15), torch.optim.SparseAdam([two], lr=0.1, eps=1e-15)
    touched = torch.zeros(ROWS, dtype=torch.bool)
    for _ in range(STEPS):
        rows = torch.randint(0, ROWS - 3, (6,), generator=generator)  # repeats, and never the last three
        touched[rows] = True
        before = one.detach().clone()
        one.grad = sparse(rows, torch.randn(6, WIDTH, generator=generator))
        two.grad = one.grad.clone()
        ours.step()
        theirs.step()
        torch.testing.assert_close(one, two, rtol=1e-6, atol=1e-6)
        still = torch.ones(ROWS, dtype=torch.bool)
        still[rows] = False
        assert torch.equal(one[still], before[still]), "rows without a gradient stay bitwise"
        assert not (one[rows] == before[rows]).all(dim=1).any()
    assert torch.equal(one[~touched], start[~touched]) and (~touched).any()


def test_sparse_with_every_row_is_dense() -> None:
    """The same arithmetic, weight decay included."""
    generator = draws()
    start = torch.randn(ROWS, WIDTH, generator=generator)
    one, two = (torch.nn.Parameter(start.clone()) for _ in range(2))
    ours, theirs = (RowAdam([p], lr=0.1, weight_decay=0.2) for p in (one, two))
    for _ in range(STEPS):
        two.grad = torch.randn(ROWS, WIDTH, generator=generator)
        one.grad = sparse(torch.arange(ROWS), two.grad.clone())
        ours.step()
        theirs.step()
        torch.testing.assert_close(one, two, rtol=1e-6, atol=1e-6)


def test_goes_on_from_kept_state() -> None:
    """What a checkpoint holds is all there is: the next step is bitwise the same."""
    start = torch.randn(ROWS, WIDTH, generator=draws())

    def steps(parameter: Any, optimiser: Any, first: int, last: int) -> None:
        for step in range(first, last):
            generator = draws(step)
            rows = torch.randint(0, ROWS, (4,), generator=generator)
            parameter.grad = sparse(rows, torch.randn(4, WIDTH, generator=generator))
            optimiser.step()

    whole = torch.nn.Parameter(start.clone())
    steps(whole, RowAdam([whole], lr=0.1), 0, 8)
    first = torch.nn.Parameter(start.clone())
    optimiser = RowAdam([first], lr=0.1)
    steps(first, optimiser, 0, 5)
    second = torch.nn.Parameter(first.detach().clone())
    restored = RowAdam([second], lr=0.7)
    restored.load_state_dict(optimiser.state_dict())
    steps(second, restored, 5, 8)
    assert torch.equal(whole, second)


def test_no_gradient_no_step() -> None:
    parameter = torch.nn.Parameter(torch.ones(3))
    assert RowAdam([parameter]).step(lambda: 4.0) == 4.0
    assert torch.equal(parameter, torch.ones(3))


@pytest.mark.parametrize("limit", [0.5, 1e6])
def test_clip_like_torch(limit: float) -> None:
    generator = draws()
    one, two = ([torch.nn.Parameter(torch.zeros(shape)) for shape in ((4, 3), (7,), (2, 2))] for _ in range(2))
    for a, b in zip(one[:2], two[:2], strict=True):
        a.grad = torch.randn(a.shape, generator=generator)
        b.grad = a.grad.clone()
    clip_norm(one, limit)
    torch.nn.utils.clip_grad_norm_(two, limit)
    for a, b in zip(one[:2], two[:2], strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-6, atol=1e-7)
    assert one[2].grad is None
    clip_norm([one[2]], limit)  # nothing to clip


def test_clip_takes_sparse_gradients() -> None:
    generator = draws()
    rows, values = torch.tensor([2, 5, 2]), torch.randn(3, WIDTH, generator=generator)  # row 2 stands twice
    dense, table = torch.nn.Parameter(torch.zeros(4)), torch.nn.Parameter(torch.zeros(ROWS, WIDTH))
    reference = [torch.nn.Parameter(torch.zeros(4)), torch.nn.Parameter(torch.zeros(ROWS, WIDTH))]
    dense.grad = torch.randn(4, generator=generator)
    table.grad = sparse(rows, values)
    reference[0].grad, reference[1].grad = dense.grad.clone(), table.grad.to_dense()
    clip_norm([dense, table], 0.5)
    torch.nn.utils.clip_grad_norm_(reference, 0.5)
    assert table.grad.is_sparse
    torch.testing.assert_close(dense.grad, reference[0].grad, rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(table.grad.to_dense(), reference[1].grad, rtol=1e-6, atol=1e-7)
