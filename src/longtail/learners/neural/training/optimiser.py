"""Adam that leaves rows of embeddings and label vectors alone which a batch does not touch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from longtail.learners.neural.training.adam import BETAS, EPS, Numbers, Tables, adam_step


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
            if _is_dense_in_memory(parameter, values):
                tables = Tables(parameter.numpy(), state["mean"].numpy(), state["square"].numpy())
                numbers = Numbers(first, second, rate, scale, group["eps"], group["weight_decay"] * group["lr"])
                adam_step(tables, rows.numpy(), values.numpy(), numbers)
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


def _is_dense_in_memory(parameter: Tensor, values: Tensor) -> bool:
    """Whether both are matrices of 32 bit numbers in this machine's memory, as on a CPU."""
    return all(
        each.ndim == 2 and each.dtype == torch.float32 and each.device.type == "cpu" and each.is_contiguous()
        for each in (parameter, values)
    )


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
