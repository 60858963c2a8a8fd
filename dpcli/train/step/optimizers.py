"""The optimizers that [train] may declare, including AdamBC, and the schedules of their learning rates.

step/prepare.py makes the optimizer and the schedule of a run of `dpcli train`. An optimizer only post-processes noisy gradients, so its
choice does not change the cost. A new one needs a line in OPTIMIZERS and its name in the key `optimizer` of plan/settings.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from dpcli.base.errors import InputError
from dpcli.train.engine.method import trained_parameters
from dpcli.train.noise import Noise
from dpcli.train.plan.settings import Train

VARIANCE = "noise_variance"  # key of AdamBC's groups of parameters


class AdamBC(torch.optim.Optimizer):
    """AdamW whose second moment is corrected for the noise. The variance of the noise is subtracted; it is known from the file.

    A step computes theta <- (1 - lr weight_decay) theta, and then theta <- theta - lr m^ / sqrt(max(v^ - p^, floor p^)). Here m^, v^ and p^
    are bias-corrected moving averages of the gradient g, of g^2, and of the variance of the noise.

    The key `noise_variance` of each parameter group is the variance of the noise in one number of the gradient. `set_noise_variance` sets
    it before each step.

    Source: Tang et al. 2023, arXiv:2312.14334, Algorithm 1.

    Args:
        floor: Lower bound on the corrected second moment, in units of the variance of the noise. The paper's gamma' is the product of
            `floor` and this variance. The default is a choice, which affects the trained model and not its privacy.
        betas: Decays of the moving averages of g and g^2.
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
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                m, v = self._moments(parameter)
                m.lerp_(parameter.grad, 1.0 - beta1)
                v.lerp_(parameter.grad.square(), 1.0 - beta2)
                denoised = (v / correction2 - noise).clamp_(min=group["floor"] * noise)
                parameter.mul_(1.0 - group["lr"] * group["weight_decay"])
                parameter.addcdiv_(m, denoised.sqrt_(), value=-group["lr"] / correction1)

    def _moments(self, parameter: Tensor) -> tuple[Tensor, Tensor]:
        """Return the moving averages of a parameter's gradient and of its square, which start at zero."""
        state: dict[str, Any] = self.state[parameter]
        if not state:
            state["mean"], state["square"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
        return state["mean"], state["square"]


def set_noise_variance(optimizer: torch.optim.Optimizer, noise: Noise, scale: float) -> None:
    """Set the variance of the noise in the gradient of the next step, if the optimizer is AdamBC. Do nothing for other optimizers.

    Args:
        scale: Factor by which the noise was multiplied in the gradient.

    Raises:
        InputError: The noise is correlated or differs in variance from step to step, and the optimizer is AdamBC.
    """
    for group in optimizer.param_groups:
        if VARIANCE not in group:
            continue
        if noise.std is None:
            raise InputError(
                "train.optimizer: expected sgd, adam or adamw with correlated noise, whose variance differs from step to step, "
                "found adam-bc"
            )
        group[VARIANCE] = (noise.std * scale) ** 2


OPTIMIZERS: dict[str, type[torch.optim.Optimizer]] = {
    "sgd": torch.optim.SGD,
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "adam-bc": AdamBC,
}


def optimizer_of(train: Train, model: nn.Module) -> torch.optim.Optimizer:
    """Return the optimizer that [train] declares, for the trained parameters of a model."""
    options: dict[str, Any] = {"lr": train.learning_rate, "weight_decay": train.weight_decay}
    if train.optimizer == "sgd":
        options["momentum"] = train.momentum
    if train.moment_floor is not None:
        options["floor"] = train.moment_floor
    return OPTIMIZERS[train.optimizer](trained_parameters(model).values(), **options)


def rate_schedule(train: Train, steps: int) -> Callable[[int], float]:
    """Return a function of a step's number, counted from 0, that returns the step's learning rate relative to the declared one.

    A linear or cosine schedule falls from 1 to 0, which it would reach at number `steps`. Without a schedule the rate is 1.
    """

    def rate(step: int) -> float:
        if train.schedule == "linear":
            return 1.0 - step / steps
        if train.schedule == "cosine":
            return 0.5 + 0.5 * math.cos(math.pi * step / steps)
        return 1.0

    return rate
