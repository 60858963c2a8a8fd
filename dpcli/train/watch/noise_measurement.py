"""The clipped sums of an Opacus optimizer and the noise that it adds, measured from its gradients and compared with the file.

This is for `dpcli.watch`, which compares a loop that another library made private with the pipeline file that prices it. Opacus leaves in
each parameter p, just before the weights change, the clipped sum (p.summed_grad) and the noisy gradient (p.grad), and often the gradients
of all records (p.grad_sample). The noise is the noisy gradient, times a known divisor, less the sum; and the sum can be computed again from
the gradients of the records. `Watch` in watch/watch.py registers the hook that measures every step (`MeasuredNoise.watch`), and stops the
loop if a result contradicts the file. Other optimizers are not measured.

Noise that is too small is found by a test on the sum of its squares. The test bounds probabilities from above (Chernoff), so that a correct
optimizer is accused of too little noise in at most one of 10^9 runs (`ALARM` of loader.py).
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from scipy import special
from torch import Tensor

from dpcli.numerics.roots import bracket_root
from dpcli.train.watch.loader import ALARM

# Attributes in which the wrappers of accelerate, Opacus and Lightning store the optimizer that they wrap.
INNER = ("optimizer", "original_optimizer", "_optimizer")
# Largest difference of two numbers that count as equal, in standard deviations. Each number is the result of a rounded subtraction. A
# choice.
EQUAL = 1e-3
# Largest count of the numbers of a step's noise that are compared with later steps; arbitrary, limits memory and time.
MOST_COMPARED = 16
# Names of Opacus' optimizers that clip by the norm over all parameters, and the number that they add to it: the factor is
# min(1, C / (norm + OPACUS_OFFSET)).
FLAT_OPTIMIZERS, OPACUS_OFFSET = ("DPOptimizer", "DistributedDPOptimizer"), 1e-6
# Smallest distance of a sum from the sum of clipped gradients that is reported, for each record and in units of C. A choice: rounding must
# stay below it, and smaller faults are missed.
WRONG_SUM = 1e-3
DETECTION_PROBABILITY = 0.9  # probability with which a fault of the stated size is found
# Smallest count of equal numbers that is reported. Fewer could be equal by chance; for six, the probability is below 1e-16 in one
# comparison.
FEWEST_EQUAL = 6


def layers_of(optimizer: Any) -> list[Any]:
    """Return an optimizer followed by the optimizers that it wraps, from the outermost to the innermost."""
    layers = [optimizer]
    while True:
        attributes = vars(layers[-1])
        inner = next((attributes[name] for name in INNER if name in attributes), None)
        if inner is None or any(inner is layer for layer in layers):
            return layers
        layers.append(inner)


def steps_of(optimizer: Any) -> int:
    """Return the number of steps that an optimizer has taken, if its state counts them; 0 otherwise."""
    return max((int(state["step"]) for state in optimizer.state.values() if "step" in state), default=0)


def opacus_in(layers: list[Any]) -> Any:
    """Return the Opacus optimizer among the optimizers; None if there is none."""
    module = sys.modules.get("opacus.optimizers.optimizer")
    if module is None:
        return None
    return next((layer for layer in layers if isinstance(layer, module.DPOptimizer)), None)


def contradiction(opacus_optimizer: Any, noise_multiplier: float, norm: float) -> str | None:
    """Return a description of the first setting of an Opacus optimizer that contradicts the file; None if there is none.

    Args:
        opacus_optimizer: Optimizer of Opacus. More noise than declared contradicts nothing.
        noise_multiplier: Noise multiplier that the file declares.
        norm: Clipping norm that the file declares.
    """
    if not opacus_optimizer.noise_multiplier >= noise_multiplier * (1.0 - 1e-12):  # 1e-12: both may be rounded in the last digits
        return f"noise multiplier {opacus_optimizer.noise_multiplier:g}, where the file declares {noise_multiplier:g}"
    if opacus_optimizer.max_grad_norm != norm:
        return f"clipping norm {opacus_optimizer.max_grad_norm!r}, where the file declares {norm:g}"
    return None


@dataclass(slots=True)
class MeasuredNoise:
    """A measurement of the noise that Opacus adds to its clipped sums. It covers each tensor over all steps.

    Noise is measured in units of the declared standard deviation, noise_multiplier times norm. Parameters are numbered in the order of the
    optimizer.

    Attributes:
        opacus_optimizer: Opacus optimizer that adds the noise.
        squares: Sum of the squares of the noise of each parameter.
        numbers: Count of the numbers in each of these sums.
        steps: Count of the steps in which each parameter had a gradient.
        first_numbers: First numbers of the noise of each step.
        clipped_steps: Number of steps in which the clipped sum was computed again from the gradients of the records.
    """

    opacus_optimizer: Any
    noise_multiplier: float
    norm: float
    squares: dict[int, float] = field(default_factory=dict)
    numbers: Counter[int] = field(default_factory=Counter)
    steps: Counter[int] = field(default_factory=Counter)
    first_numbers: list[Tensor] = field(default_factory=list)
    clipped_steps: int = 0

    def watch(self, report: Callable[[str, str | None], None], batch_size: Callable[[], int | None]) -> Any:
        """Register a hook that measures each step and reports the results of `measure_sum` and `measure`. Return its handle.

        Args:
            report: Function of a part of the step, "clipping" or "noise", and of its result.
            batch_size: Function that returns the number of records of the step; None if it is unknown.
        """

        def measure_step(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
            report("clipping", self.measure_sum(optimizer, batch_size()))
            report("noise", self.measure(optimizer))

        return self.opacus_optimizer.original_optimizer.register_step_pre_hook(measure_step)

    @torch.no_grad()
    def measure(self, optimizer: torch.optim.Optimizer) -> str | None:
        """Measure the noise of the next step. Return a description of how it contradicts the file; None if it does not.

        A step contradicts the file if a setting of the optimizer does, or if a gradient has no clipped sum. Its noise contradicts the file
        if it is smaller than declared, equal in all numbers of a tensor, or equal to the noise of an earlier step. A parameter without a
        gradient is not measured in that step. The probability that a correct run is accused of too little noise is at most 10^-9.
        """
        opacus_optimizer = self.opacus_optimizer
        problem = contradiction(opacus_optimizer, self.noise_multiplier, self.norm)
        if problem is not None:
            return f"an Opacus optimizer with {problem}"
        divisor = 1.0  # number by which Opacus divided the noisy sums
        if opacus_optimizer.loss_reduction == "mean":
            divisor = float(opacus_optimizer.expected_batch_size * opacus_optimizer.accumulated_iterations)
        parameters = (parameter for group in optimizer.param_groups for parameter in group["params"])
        noises: dict[int, Tensor] = {}
        for position, parameter in enumerate(parameters):
            if parameter.grad is None:
                continue
            clipped = getattr(parameter, "summed_grad", None)
            if clipped is None:
                return "a gradient without a clipped sum"
            noise = parameter.grad.double() * divisor - clipped.double().view_as(parameter)
            noises[position] = noise.flatten() / (self.noise_multiplier * self.norm)
        for position, noise in noises.items():
            problem = self._small_noise(position, noise)
            if problem is not None:
                return problem
        return self._repeated_noise([*noises.values()]) if noises else None

    @property
    def detectable_factor(self) -> float:
        """Return the smallest factor x such that noise divided by x in any one tensor is found with probability DETECTION_PROBABILITY."""
        factors = [1.0]
        for position, numbers in self.numbers.items():
            log_level = _log_level(self.steps[position], position)
            # The largest mean square that the test still refuses, rounded down, so that the factor is an upper bound.
            ratio, _ = bracket_root(
                lambda r, n=numbers, level=log_level: level - _log_chance(n, r),  # type: ignore[misc]
                low=1e-300,
                high=1.0,
                rtol=1e-9,
            )
            # The quantile of the mean square: half of the sum of n squares of normal variables has the gamma distribution of shape n / 2.
            mean_square = float(special.gammaincinv(0.5 * numbers, DETECTION_PROBABILITY)) / (0.5 * numbers)
            factors.append(math.sqrt(mean_square / ratio))
        return max(factors)

    @torch.no_grad()
    def measure_sum(self, optimizer: torch.optim.Optimizer, batch_size: int | None) -> str | None:
        """Return a message if the sum of the next step is not the sum of the clipped gradients of the records; None otherwise.

        The sum is only measured if the optimizer clips by the norm over all parameters, and still has the gradients of all records.
        """
        grouped = (parameter for group in optimizer.param_groups for parameter in group["params"])
        parameters = [parameter for parameter in grouped if getattr(parameter, "summed_grad", None) is not None]
        samples: list[Any] = [getattr(parameter, "grad_sample", None) for parameter in parameters]
        is_complete = all(isinstance(sample, Tensor) and len(sample) == batch_size for sample in samples)
        if not samples or not batch_size or not is_complete or type(self.opacus_optimizer).__name__ not in FLAT_OPTIMIZERS:
            return None
        norms = torch.stack([sample.flatten(1).norm(dim=1) for sample in samples]).norm(dim=0)
        factors = (self.norm / (norms + OPACUS_OFFSET)).clamp(max=1.0)
        distance = 0.0
        for parameter, sample in zip(parameters, samples, strict=True):
            difference = parameter.summed_grad.view_as(parameter) - torch.einsum("i,i...", factors.to(sample), sample)
            distance += float(difference.double().square().sum())
        self.clipped_steps += 1
        if math.sqrt(distance) > WRONG_SUM * self.norm * batch_size:
            return f"a sum that is not the sum of gradients clipped to {self.norm:g}"
        return None

    def _small_noise(self, position: int, noise: Tensor) -> str | None:
        """Return a message if the noise of a tensor is smaller than declared or constant; None otherwise."""
        if len(noise) >= FEWEST_EQUAL and float(noise.max() - noise.min()) < EQUAL:
            return "the same noise in every number of a tensor"
        self.squares[position] = self.squares.get(position, 0.0) + float(noise.square().sum())
        self.numbers[position] += len(noise)
        self.steps[position] += 1
        steps, numbers = self.steps[position], self.numbers[position]
        ratio = self.squares[position] / numbers
        if ratio >= 1.0:
            return None
        log_chance, log_level = _log_chance(numbers, ratio), _log_level(steps, position)
        return f"noise of {math.sqrt(ratio):.3g} times the declared size" if log_chance < log_level else None

    def _repeated_noise(self, noises: list[Tensor]) -> str | None:
        """Return a message if an earlier step had the same noise in its first numbers; None otherwise."""
        count_of_each = max(1, MOST_COMPARED // len(noises))
        first_numbers = torch.cat([noise[:count_of_each].cpu() for noise in noises])[:MOST_COMPARED]
        comparable = [earlier for earlier in self.first_numbers if len(earlier) == len(first_numbers) >= FEWEST_EQUAL]
        is_repeated = any(bool(((first_numbers - earlier).abs() < EQUAL).all()) for earlier in comparable)
        self.first_numbers.append(first_numbers)
        return "the noise of an earlier step again" if is_repeated else None


def _log_chance(numbers: int, ratio: float) -> float:
    """Return the logarithm of an upper bound on the probability that the mean of `numbers` squares of normal variables is at most `ratio`.

    This is the Chernoff bound on the lower tail of chi-square. 1e-300 replaces a ratio of zero, which has no logarithm.
    """
    return -0.5 * numbers * (ratio - 1.0 - math.log(max(ratio, 1e-300)))


def _log_level(steps: int, position: int) -> float:
    """Return the logarithm of the level of a test. The levels of all steps and tensors add up to ALARM, since sum_n 1 / (n (n + 1)) = 1."""
    return math.log(ALARM / (steps * (steps + 1) * (position + 1) * (position + 2)))
