"""The noise that an Opacus optimizer adds, measured from its gradients and compared with the declared noise."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from dpcli.train.watch.loader import ALARM

INNER = ("optimizer", "original_optimizer", "_optimizer")  # attributes of the wrappers of accelerate, Opacus and Lightning
EQUAL = (
    1e-3  # difference, in standard deviations, below which numbers of noise count as equal: they are rounded differences of sums
)
HEAD = 16  # how many numbers of a step's noise are compared with later steps
FEWEST = 6  # fewer equal numbers could occur by chance


def layers_of(optimizer: Any) -> list[Any]:
    """Return an optimizer and the optimizers that it wraps, outermost first."""
    layers = [optimizer]
    while True:
        inner = next((vars(layers[-1])[name] for name in INNER if name in vars(layers[-1])), None)
        if inner is None or any(inner is layer for layer in layers):
            return layers
        layers.append(inner)


def steps_of(optimizer: Any) -> int:
    """Return the number of steps that an optimizer has taken, if its state counts them; 0 otherwise."""
    return max((int(state["step"]) for state in optimizer.state.values() if "step" in state), default=0)


def opacus_in(layers: list[Any]) -> Any:
    """Return the Opacus optimizer among the optimizers; None if there is none."""
    module = sys.modules.get("opacus.optimizers.optimizer")
    return None if module is None else next((layer for layer in layers if isinstance(layer, module.DPOptimizer)), None)


def contradiction(engine: Any, noise_multiplier: float, norm: float) -> str:
    """Return in words a setting of an Opacus optimizer that contradicts the file; "" if there is none."""
    if not engine.noise_multiplier >= noise_multiplier * (1.0 - 1e-12):
        return f"noise multiplier {engine.noise_multiplier:g}, where the file declares {noise_multiplier:g}"
    if engine.max_grad_norm != norm:
        return f"clipping norm {engine.max_grad_norm!r}, where the file declares {norm:g}"
    return ""


@dataclass(slots=True)
class MeasuredNoise:
    """A measurement of the noise that Opacus added to its clipped sums, for each tensor over all steps.

    Attributes:
        engine: Opacus optimizer.
        noise_multiplier: Declared noise multiplier.
        norm: Declared clipping norm.
        squares: Sum of the squared numbers of noise by tensor, in units of the declared variance.
        heads: The first numbers of each step's noise, in units of the declared standard deviation.
    """

    engine: Any
    noise_multiplier: float
    norm: float
    squares: dict[int, float] = field(default_factory=dict)
    heads: list[Tensor] = field(default_factory=list)

    def watch(self, report: Callable[[str], None]) -> Any:
        """Measure each step of the inner optimizer and report the result of `measure`. Return the handle of the hook."""

        def before(optimizer: torch.optim.Optimizer, given: Any, named: Any) -> None:
            report(self.measure(optimizer))

        return self.engine.original_optimizer.register_step_pre_hook(before)

    @torch.no_grad()
    def measure(self, optimizer: torch.optim.Optimizer) -> str:
        """Measure the noise of one more step. Return in words how it contradicts the file; "" if it does not.

        The noise may be smaller than declared, or repeat the noise of an earlier step. A correct run is accused of too little noise with
        probability at most 10^-9.
        """
        engine, scale = self.engine, 1.0
        words = contradiction(engine, self.noise_multiplier, self.norm)
        if words:
            return f"an Opacus optimizer with {words}"
        if engine.loss_reduction == "mean":
            scale = float(engine.expected_batch_size * engine.accumulated_iterations)
        stepped = [one for group in optimizer.param_groups for one in group["params"] if one.grad is not None]
        noises = []
        for parameter in stepped:
            clipped = getattr(parameter, "summed_grad", None)
            if clipped is None:
                return "a gradient without a clipped sum"
            noise = parameter.grad.double() * scale - clipped.double().view_as(parameter)
            noises.append(noise.flatten() / (self.noise_multiplier * self.norm))
        for number, noise in enumerate(noises):
            words = self._too_small(number, noise)
            if words:
                return words
        return self._repeated(noises)

    def _too_small(self, place: int, noise: Tensor) -> str:
        """Return in words that the noise of a tensor is smaller than declared or constant; "" if it is neither."""
        if len(noise) >= FEWEST and float(noise.max() - noise.min()) < EQUAL:
            return "one number as the noise of a whole tensor"
        self.squares[place] = self.squares.get(place, 0.0) + float(noise.square().sum())
        steps = len(self.heads) + 1
        numbers = steps * len(noise)
        ratio = self.squares[place] / numbers
        if ratio >= 1.0:
            return ""
        chance = -0.5 * numbers * (ratio - 1.0 - math.log(max(ratio, 1e-300)))  # Chernoff bound on the lower tail of chi-square
        least = math.log(ALARM / (steps * (steps + 1) * (place + 1) * (place + 2)))
        return f"noise of {math.sqrt(ratio):.3g} times the declared size" if chance < least else ""

    def _repeated(self, noises: list[Tensor]) -> str:
        """Return in words that an earlier step had the same noise in its first numbers; "" if none had."""
        head = torch.cat([noise[: max(1, HEAD // len(noises))].cpu() for noise in noises])[:HEAD]
        repeated = len(head) >= FEWEST and any(bool(((head - other).abs() < EQUAL).all()) for other in self.heads)
        self.heads.append(head)
        return "the noise of a step before" if repeated else ""
