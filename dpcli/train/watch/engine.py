"""What adds the noise: the engine behind an optimizer, as far as its own numbers and its gradients tell."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from dpcli.train.watch.drawn import ALARM

INNER = ("optimizer", "original_optimizer", "_optimizer")  # of wrappers: accelerate's, Opacus', Lightning's


def layers_of(optimizer: Any) -> list[Any]:
    """An optimizer, and those that it wraps, outermost first."""
    found = [optimizer]
    while True:
        inner = next((vars(found[-1])[name] for name in INNER if name in vars(found[-1])), None)
        if inner is None or any(inner is one for one in found):
            return found
        found.append(inner)


def opacus_in(layers: list[Any]) -> Any:
    """The Opacus optimizer among them; None where there is none."""
    module = sys.modules.get("opacus.optimizers.optimizer")
    return None if module is None else next((one for one in layers if isinstance(one, module.DPOptimizer)), None)


def contradiction(engine: Any, noise_multiplier: float, norm: float) -> str:
    """What an Opacus optimizer is set to that the file does not declare, in words; "" where nothing is."""
    if not engine.noise_multiplier >= noise_multiplier * (1.0 - 1e-12):
        return f"noise multiplier {engine.noise_multiplier:g}, where the file declares {noise_multiplier:g}"
    if engine.max_grad_norm != norm:
        return f"clipping norm {engine.max_grad_norm!r}, where the file declares {norm:g}"
    return ""


@dataclass(slots=True)
class MeasuredNoise:
    """What Opacus added to its clipped sums, over what it should have: one test over all steps. squares: in units of the variance."""

    engine: Any
    std: float
    squares: float = 0.0
    numbers: int = 0
    steps: int = 0

    def watch(self, tell: Callable[[str], None]) -> Any:
        """Look at each step of the inner optimizer. Returns the hook's handle."""

        def before(optimizer: torch.optim.Optimizer, given: Any, named: Any) -> None:
            tell(self.see())

        return self.engine.original_optimizer.register_step_pre_hook(before)

    @torch.no_grad()
    def see(self) -> str:
        """One step more. Returns words where the noise is too small, as in one run of 10^9; "" where it is not."""
        engine, scale = self.engine, 1.0
        if engine.loss_reduction == "mean":
            scale = float(engine.expected_batch_size * engine.accumulated_iterations)
        for parameter in engine.params:
            if parameter.grad is None or parameter.summed_grad is None:
                return "a gradient without a clipped sum"
            noise = parameter.grad.double() * scale - parameter.summed_grad.double().view_as(parameter)
            self.squares += float(noise.square().sum()) / self.std**2
            self.numbers += noise.numel()
        self.steps += 1
        ratio = self.squares / self.numbers
        if ratio >= 1.0:
            return ""
        chance = -0.5 * self.numbers * (ratio - 1.0 - math.log(max(ratio, 1e-300)))  # Chernoff, of the lower tail of chi-square
        if chance < math.log(ALARM / (self.steps * (self.steps + 1))):
            return f"noise of {math.sqrt(ratio):.3g} times the declared size"
        return ""
