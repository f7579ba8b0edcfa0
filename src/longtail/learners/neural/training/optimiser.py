"""Adam that leaves rows of embeddings and label vectors alone which a batch does not touch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.optim import Optimizer

from longtail.arrays import Floats, Longs, njit

#: How far Adam's moments stay at a step, and what keeps it from dividing by 0.
BETAS, EPS = (0.9, 0.999), 1e-8


class RowAdam(Optimizer):
    """AdamW for dense gradients; for sparse ones the same arithmetic on the rows that have a gradient.

    Sparse gradients come from embeddings of words and labels: a step costs as much as the batch has rows, not as much
    as there are words or labels. Moments of a row stand still while it is not touched.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = BETAS,
        eps: float = EPS,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, group)
        return loss

    def _update(self, parameter: Tensor, group: dict[str, Any]) -> None:
        state = self.state[parameter]
        if not state:
            state["step"] = torch.zeros(())
            state["mean"] = torch.zeros_like(parameter)
            state["square"] = torch.zeros_like(parameter)
        state["step"] += 1
        step = int(state["step"].item())
        first, second = group["betas"]
        rate = group["lr"] / (1 - first**step)
        scale = (1 - second**step) ** 0.5
        gradient = parameter.grad
        assert gradient is not None
        if gradient.is_sparse:
            gradient = gradient.coalesce()
            rows, values = gradient.indices()[0], gradient.values()
            if _plain(parameter, values):
                tables = Tables(parameter.numpy(), state["mean"].numpy(), state["square"].numpy())
                numbers = Numbers(first, second, rate, scale, group["eps"], group["weight_decay"] * group["lr"])
                _update_rows(tables, rows.numpy(), values.numpy(), numbers)
                return
            mean = state["mean"][rows].lerp_(values, 1 - first)
            square = state["square"][rows].mul_(second).addcmul_(values, values, value=1 - second)
            state["mean"][rows], state["square"][rows] = mean, square
            change = mean / (square.sqrt().div_(scale).add_(group["eps"]))
            if group["weight_decay"]:
                change.add_(parameter[rows], alpha=group["weight_decay"] * group["lr"] / rate)
            parameter.index_add_(0, rows, change, alpha=-rate)
            return
        if group["weight_decay"]:
            parameter.mul_(1 - group["lr"] * group["weight_decay"])
        state["mean"].lerp_(gradient, 1 - first)
        state["square"].mul_(second).addcmul_(gradient, gradient, value=1 - second)
        parameter.addcdiv_(state["mean"], (state["square"].sqrt() / scale).add_(group["eps"]), value=-rate)


def _plain(parameter: Tensor, values: Tensor) -> bool:
    """Whether both are matrices of 32 bit numbers in this machine's memory, as on a CPU."""
    return all(
        each.ndim == 2 and each.dtype == torch.float32 and each.device.type == "cpu" and each.is_contiguous()
        for each in (parameter, values)
    )


def update_rows(weights: Tensor, moments: tuple[Tensor, Tensor], gradient: tuple[Tensor, Tensor], at: Pace) -> None:
    """A step of RowAdam on rows (R,) with gradients (R, width), each row once, on a CPU."""
    rows, values = gradient
    tables = Tables(weights.numpy(), moments[0].numpy(), moments[1].numpy())
    first, second = BETAS
    rate, scale = at.lr / (1 - first**at.step), (1 - second**at.step) ** 0.5
    _update_rows(tables, rows.numpy(), values.numpy(), Numbers(first, second, rate, scale, EPS, at.decay * at.lr))


class Pace(NamedTuple):
    """Which step it is, from 1, its learning rate, and the weight decay."""

    step: int
    lr: float
    decay: float = 0.0


class Tables(NamedTuple):
    """A parameter with a row per word or label, and Adam's moments of it."""

    weights: Floats
    mean: Floats
    square: Floats


class Numbers(NamedTuple):
    """The numbers of one step of Adam: how far either moment stays, the rate and scale of this step, eps, decay."""

    first: float
    second: float
    rate: float
    scale: float
    eps: float
    decay: float


@njit(nogil=True, cache=True, fastmath=True, error_model="numpy")
def _update_rows(tables: Tables, rows: Longs, gradient: Floats, numbers: Numbers) -> None:
    """One step of Adam on some rows, in one pass over memory: torch's operations take eight.

    numpy's way with a division by 0, which is a number and no error, lets it divide several numbers at once.
    """
    weights, means, squares = tables.weights, tables.mean, tables.square
    keep, add = np.float32(numbers.first), np.float32(1 - numbers.first)
    keep_square, add_square = np.float32(numbers.second), np.float32(1 - numbers.second)
    step, by = np.float32(numbers.rate), np.float32(1 / numbers.scale)
    floor, shrink = np.float32(numbers.eps), np.float32(numbers.decay)
    for i in range(len(rows)):
        w, m, v, g = weights[rows[i]], means[rows[i]], squares[rows[i]], gradient[i]
        for j in range(len(g)):
            m[j] = keep * m[j] + add * g[j]
            v[j] = keep_square * v[j] + add_square * g[j] * g[j]
            w[j] -= step * m[j] / (np.sqrt(v[j]) * by + floor) + shrink * w[j]


def clip_norm(parameters: Iterable[Tensor], limit: float) -> None:
    """Scales all gradients, sparse ones included, so that their norm together is at most `limit`."""
    gradients = []
    for parameter in parameters:
        if parameter.grad is not None:
            if parameter.grad.is_sparse:
                parameter.grad = parameter.grad.coalesce()  # once: the optimiser needs them so, too
            gradients.append(parameter.grad)
    values = [g.values() if g.is_sparse else g for g in gradients]
    if not values:
        return
    norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(v) for v in values]))
    scale = limit / (norm + 1e-6)
    if scale < 1:
        for gradient in gradients:
            gradient.mul_(scale)
