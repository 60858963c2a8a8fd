"""Optimizers that [train] may state: how a noisy gradient is used, which costs nothing.

AdamBC takes the noise's variance, which the file states, off the second moment: post-processing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from dpcli.base.errors import InputError
from dpcli.train.noise.step import Noise
from dpcli.train.plan.settings import Train

FLOOR = 0.1
VARIANCE = "noise_variance"


class AdamBC(torch.optim.Optimizer):
    """theta <- theta - lr m^ / sqrt(max(v^ - p^, floor p^)), after theta <- (1 - lr weight_decay) theta.

    m^, v^ and p^ are the bias-corrected moving averages of g, of g^2 and of the noise's variance: Phi where that is Phi.

    Args:
        floor: the least second moment, in variances of the noise; the paper's gamma' is floor Phi.

    Each group has the key `noise_variance`, of one number of the gradient, which is set before each step.

    Source: Tang et al. 2023, arXiv:2312.14334, Algorithm 1.
    """

    def __init__(
        self,
        params: Iterable[nn.Parameter],
        lr: float,
        floor: float = FLOOR,
        betas: tuple[float, float] = (0.9, 0.999),
        weight_decay: float = 0.0,
    ) -> None:
        known = {"lr": lr, "floor": floor, "betas": betas, "weight_decay": weight_decay}
        super().__init__(params, {**known, VARIANCE: None, "noise_moment": 0.0, "steps": 0})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            first, second = group["betas"]
            group["steps"] += 1
            group["noise_moment"] = second * group["noise_moment"] + (1.0 - second) * group[VARIANCE]
            mean, square = 1.0 - first ** group["steps"], 1.0 - second ** group["steps"]
            for parameter in (p for p in group["params"] if p.grad is not None):
                m, v = self._moments(parameter)
                m.lerp_(parameter.grad, 1.0 - first)
                v.lerp_(parameter.grad.square(), 1.0 - second)
                noise = group["noise_moment"] / square
                own = (v / square - noise).clamp_(min=group["floor"] * noise)
                parameter.mul_(1.0 - group["lr"] * group["weight_decay"])
                parameter.addcdiv_(m, own.sqrt_(), value=-group["lr"] / mean)

    def _moments(self, parameter: Tensor) -> tuple[Tensor, Tensor]:
        state: dict[str, Any] = self.state[parameter]
        if not state:
            state["mean"], state["square"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
        return state["mean"], state["square"]


def tell(optimizer: torch.optim.Optimizer, noise: Noise, scale: float) -> None:
    """The variance of the noise in the gradient of this step, where the optimizer takes it off. scale: of the gradient over the noise.

    Raises InputError where steps do not all have noise of one size, each of its own.
    """
    for group in optimizer.param_groups:
        if VARIANCE in group:
            if noise.std is None:
                raise InputError(
                    "train.optimizer: expected another than adam-bc with correlated noise, of which no two steps are alike, found adam-bc"
                )
            group[VARIANCE] = (noise.std * scale) ** 2


Parameters = Iterable[nn.Parameter]


def optimizer_of(train: Train, model: nn.Module) -> torch.optim.Optimizer:
    """Return the optimizer of the parameters that are trained."""
    return OPTIMIZERS[train.optimizer](train, [p for p in model.parameters() if p.requires_grad])


def _sgd(train: Train, parameters: Parameters) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=train.learning_rate, momentum=train.momentum, weight_decay=train.weight_decay)


def _adam(train: Train, parameters: Parameters) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, lr=train.learning_rate, weight_decay=train.weight_decay)


def _adamw(train: Train, parameters: Parameters) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=train.learning_rate, weight_decay=train.weight_decay)


def _adam_bc(train: Train, parameters: Parameters) -> torch.optim.Optimizer:
    floor = FLOOR if train.moment_floor is None else train.moment_floor
    return AdamBC(parameters, lr=train.learning_rate, floor=floor, weight_decay=train.weight_decay)


OPTIMIZERS: dict[str, Callable[[Train, Parameters], torch.optim.Optimizer]] = {
    "sgd": _sgd,
    "adam": _adam,
    "adamw": _adamw,
    "adam-bc": _adam_bc,
}
