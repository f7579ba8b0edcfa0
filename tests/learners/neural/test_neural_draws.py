"""Numbers drawn without torch: those that torch draws."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from longtail.learners.neural.training.draws import Draws  # noqa: E402

SEEDS = [0, 7, 2**32 + 5, 2**63 - 1]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("count", [1, 8, 13, 5000])
def test_bytes(seed: int, count: int) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        words = torch.empty((count + 7) // 8, dtype=torch.int64).random_(-(2**63), None)
    assert np.array_equal(Draws(seed).bytes(count), words.view(torch.uint8).numpy()[:count])


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("shape", [(2, 8), (5, 7), (300, 20), (301, 21)])
def test_normal_numbers_behind_others(seed: int, shape: tuple[int, int]) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        torch.nn.Embedding(*shape)  # draws its own
        wanted = torch.empty(shape).normal_(0, 0.3).numpy()
    draws = Draws(seed)
    draws.skip_normal(shape)
    np.testing.assert_allclose(draws.normal(shape, 0.3), wanted, rtol=1e-4, atol=1e-6)


def test_a_handful_of_normal_numbers() -> None:
    made = np.array([Draws(seed).normal((3, 2), 2.0) for seed in range(2000)])
    assert made.shape == (2000, 3, 2)
    assert abs(made.mean()) < 0.1 and abs(made.std() - 2) < 0.1
