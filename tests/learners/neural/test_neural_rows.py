"""Rows of embeddings updated in one pass over memory: the same numbers as torch's operations."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from longtail.learners.neural.training import optimiser as module  # noqa: E402
from longtail.learners.neural.training.optimiser import RowAdam  # noqa: E402

ROWS, WIDTH, STEPS = 30, 7, 25


def gradients() -> list[Any]:
    """A sparse gradient a step: rows that repeat, rows that are never touched, sizes over four decades."""
    draws = torch.Generator().manual_seed(0)
    made = []
    for step in range(STEPS):
        rows = torch.randint(0, ROWS - 4, (9,), generator=draws)
        values = torch.randn(9, WIDTH, generator=draws, dtype=torch.float64) * 10.0 ** (step % 4 - 3)
        made.append((rows, values))
    return made


def after(dtype: Any, decay: float, *, strided: bool = False) -> Any:
    start = torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(1), dtype=torch.float64) / 3
    table = torch.nn.Parameter(start.to(dtype, copy=True))
    if strided:
        table = torch.nn.Parameter(start.to(dtype).T.contiguous().T)
    adam = RowAdam([table], lr=0.01, weight_decay=decay)
    for rows, values in gradients():
        table.grad = torch.sparse_coo_tensor(rows[None], values.to(dtype), (ROWS, WIDTH), check_invariants=True)
        adam.step()
    return start, table.detach(), adam.state[table]


@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_as_torchs_operations_in_double_precision(decay: float, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    updating = module.adam_step
    monkeypatch.setattr(module, "adam_step", lambda *given: calls.append(updating(*given)))
    start, exact, state = after(torch.float64, decay)
    assert not calls, "double precision takes torch's way"
    _, quick, own = after(torch.float32, decay)
    assert len(calls) == STEPS
    torch.testing.assert_close(quick.double(), exact, rtol=0, atol=1e-6)
    torch.testing.assert_close(own["mean"].double(), state["mean"], rtol=1e-5, atol=1e-7)
    torch.testing.assert_close(own["square"].double(), state["square"], rtol=1e-5, atol=1e-9)
    assert (exact - start).abs()[: ROWS - 4].max() > 0.05, "something was learnt"
    assert torch.equal(quick[ROWS - 4 :], start.float()[ROWS - 4 :]), "rows without a gradient stay bitwise"


def test_memory_in_another_order_takes_torchs_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "adam_step", lambda *given: pytest.fail("rows are not in one piece"))
    _, exact, _ = after(torch.float64, 0.1)
    _, strided, _ = after(torch.float32, 0.1, strided=True)
    torch.testing.assert_close(strided.double(), exact, rtol=0, atol=1e-6)


def test_the_same_bytes_again() -> None:
    assert torch.equal(after(torch.float32, 0.1)[1], after(torch.float32, 0.1)[1])
