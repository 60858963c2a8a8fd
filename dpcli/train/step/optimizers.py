"""The optimizers that [train] may state, AdamBC among them, and their learning rates. What is done with a noisy gradient costs nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from dpcli.base.errors import InputError
from dpcli.train.noise import Noise
from dpcli.train.plan.settings import Train

VARIANCE = "noise_variance"


class AdamBC(torch.optim.Optimizer):
    """AdamW whose second moment is corrected for the noise: its variance, which the file states, is taken off.

    theta <- theta - lr m^ / sqrt(max(v^ - p^, floor p^)), after theta <- (1 - lr weight_decay) theta, with the bias-corrected moving
    averages m^ of g, v^ of g^2 and p^ of the noise's variance.

    Each group has the key `noise_variance`, of one number of the gradient, which is set before each step.

    Source: Tang et al. 2023, arXiv:2312.14334, Algorithm 1.

    Args:
        floor: The least second moment, in variances of the noise; the paper's gamma' is floor times that variance.
    """

    def __init__(
        self,
        params: Iterable[nn.Parameter],
        lr: float,
        floor: float = 0.1,
        betas: tuple[float, float] = (0.9, 0.999),
        weight_decay: float = 0.0,
    ) -> None:
        options = {"lr": lr, "floor": floor, "betas": betas, "weight_decay": weight_decay}
        super().__init__(params, {**options, VARIANCE: None, "noise_moment": 0.0, "steps": 0})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            group["steps"] += 1
            group["noise_moment"] = beta2 * group["noise_moment"] + (1.0 - beta2) * group[VARIANCE]
            correction1, correction2 = 1.0 - beta1 ** group["steps"], 1.0 - beta2 ** group["steps"]
            noise = group["noise_moment"] / correction2
            for parameter in (p for p in group["params"] if p.grad is not None):
                m, v = self._moments(parameter)
                m.lerp_(parameter.grad, 1.0 - beta1)
                v.lerp_(parameter.grad.square(), 1.0 - beta2)
                denoised = (v / correction2 - noise).clamp_(min=group["floor"] * noise)
                parameter.mul_(1.0 - group["lr"] * group["weight_decay"])
                parameter.addcdiv_(m, denoised.sqrt_(), value=-group["lr"] / correction1)

    def _moments(self, parameter: Tensor) -> tuple[Tensor, Tensor]:
        state: dict[str, Any] = self.state[parameter]
        if not state:
            state["mean"], state["square"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
        return state["mean"], state["square"]


def set_noise_variance(optimizer: torch.optim.Optimizer, noise: Noise, scale: float) -> None:
    """Tell an AdamBC the variance of the noise in the gradient of this step; other optimizers need none.

    Args:
        scale: What the noise was multiplied by on its way into the gradient.

    Raises:
        InputError: If the noise differs, or is correlated, from step to step.
    """
    for group in optimizer.param_groups:
        if VARIANCE in group:
            if noise.std is None:
                raise InputError(
                    "train.optimizer: expected another than adam-bc with correlated noise, of which no two steps are alike, found adam-bc"
                )
            group[VARIANCE] = (noise.std * scale) ** 2


OPTIMIZERS: dict[str, type[torch.optim.Optimizer]] = {
    "sgd": torch.optim.SGD,
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "adam-bc": AdamBC,
}


def optimizer_of(train: Train, model: nn.Module) -> torch.optim.Optimizer:
    """Return the optimizer that [train] states, of the parameters that are trained."""
    options: dict[str, Any] = {"lr": train.learning_rate, "weight_decay": train.weight_decay}
    if train.optimizer == "sgd":
        options["momentum"] = train.momentum
    if train.moment_floor is not None:
        options["floor"] = train.moment_floor
    return OPTIMIZERS[train.optimizer]([p for p in model.parameters() if p.requires_grad], **options)


def rate_schedule(train: Train, steps: int) -> Callable[[int], float]:
    """Return the learning rate of step 0, 1, ... over the declared one."""

    def rate(step: int) -> float:
        if train.schedule == "linear":
            return 1.0 - step / steps
        if train.schedule == "cosine":
            return 0.5 + 0.5 * math.cos(math.pi * step / steps)
        return 1.0

    return rate
