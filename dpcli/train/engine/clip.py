"""Clipping styles, which bound the gradient of one example before the sum.

plan/clipping.py makes the style that a file declares, and sums.py applies its factors. C is the L2 bound on the clipped gradient of one
example; the noise of a step is a multiple of C, so the guarantee of training needs that `factors` never lets an example exceed C. A *group*
is a set of parameters that one factor scales. A style may divide C among groups, as long as the squares of their bounds add up to at most
C^2. The adaptive style moves C by a noisy count, which is released and charged as well. This module does not import torch, because it is
used when a file is read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from dpcli.base.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

# Limits of the clipping norm C. Within them, single precision can compare gradients with C. A part of a gradient with a norm below C / 1000
# changes a norm of C by less than a millionth of it. For C = 1e-8 the squares of larger parts exceed 1e-22, which is about
# NEGLIGIBLE_SQUARE in `pieces`, and single precision loses digits only below 1e-38. If the square of a number is finite, so is the number
# divided by C. The upper limit has the same reasons.
SMALLEST, LARGEST = 1e-8, 1e12
LARGEST_MOVE = 2.0 * math.log(LARGEST / SMALLEST)  # largest change of log C in one step: enough to reach either limit
OTHERS = "*"  # name of the group of all parameters that belong to no other group
MOST_SHOWN = 12  # largest number of parameter names in a message; arbitrary


class Clip(Protocol):
    """A clipping style.

    The clipped gradient of an example has a norm of at most `bound`: for any norms n_g of its groups and their factors f_g, the sum of the
    (f_g n_g)^2 is at most bound^2.
    """

    @property
    def bound(self) -> float:
        """Return C, the L2 bound on the whole clipped gradient of one example."""

    def groups(self, names: Sequence[str]) -> list[list[str]]:
        """Return groups of parameters that are scaled together. Every name is in exactly one group."""

    def factors(self, norms: Tensor) -> Tensor:
        """Return the clipping factors (B, groups), given norms (B, groups) that are finite and not negative."""


def require_positive(name: str, value: float) -> float:
    """Return the value. Raises InputError unless the value is finite and above zero."""
    if not (math.isfinite(value) and value > 0.0):
        raise InputError(f"clipping: {name}: expected a finite number above 0, found {value}")
    return float(value)


def require_measurable(name: str, value: float) -> float:
    """Return the value. Raises InputError unless single precision can compare gradients with a norm of this value."""
    if not SMALLEST <= value <= LARGEST:
        raise InputError(
            f"clipping: {name}: expected a number from {SMALLEST:g} to {LARGEST:g}, found {value!r}: single precision cannot compare "
            "gradients with it; scale the loss, and the norm with the loss"
        )
    return float(value)


def by_module(names: Sequence[str]) -> list[list[str]]:
    """Return one group of parameters for each module: "a.weight", "a.bias", "b.weight" gives [["a.weight", "a.bias"], ["b.weight"]]."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(name.rpartition(".")[0], []).append(name)
    return list(groups.values())


class OneGroup:
    """A style that scales all parameters by one factor, to a norm of at most `norm`."""

    __slots__ = ()

    norm: float

    @property
    def bound(self) -> float:
        return self.norm

    def groups(self, names: Sequence[str]) -> list[list[str]]:
        return [list(names)]

    def factors(self, norms: Tensor) -> Tensor:
        return (self.norm / norms).clamp(max=1.0)


@dataclass(frozen=True, slots=True)
class Flat(OneGroup):
    """Flat clipping. A gradient with a norm n above C is scaled down to C: the factor is min(1, C / n).

    Source: Abadi et al. 2016, arXiv:1607.00133, Algorithm 1.
    """

    norm: float

    def __post_init__(self) -> None:
        require_measurable("norm", self.norm)


@dataclass(frozen=True, slots=True)
class Automatic(OneGroup):
    """Automatic clipping. A gradient with norm n is scaled to nearly C, by the factor C / (n + gamma).

    The factor may exceed 1, but the scaled norm is at most C.

    Args:
        norm: C.
        gamma: gamma. It has the limits of a clipping norm.

    Source: Bu et al. 2022, arXiv:2206.07136, AUTO-S.
    """

    norm: float
    gamma: float = 0.01

    def __post_init__(self) -> None:
        require_measurable("norm", self.norm)
        require_measurable("gamma", self.gamma)

    def factors(self, norms: Tensor) -> Tensor:
        return self.norm / (norms + self.gamma)


@dataclass(frozen=True, slots=True)
class PerLayer:
    """Per-layer clipping. The gradient of each module is clipped to an equal share of C. The squares of the shares add up to C^2.

    Args:
        total: C.

    Source: McMahan et al. 2018, arXiv:1710.06963, Section 2.3.
    """

    total: float

    def __post_init__(self) -> None:
        require_measurable("norm", self.total)

    @property
    def bound(self) -> float:
        return self.total

    def groups(self, names: Sequence[str]) -> list[list[str]]:
        groups = by_module(names)
        require_measurable("the smallest share of norm", min(shares(self.total, [1.0] * len(groups)), default=self.total))
        return groups

    def factors(self, norms: Tensor) -> Tensor:
        return (norms.new_tensor(shares(self.total, [1.0] * norms.shape[1])) / norms).clamp(max=1.0)


@dataclass(frozen=True, slots=True)
class PerGroup:
    """Per-group clipping. The gradient of each group g is clipped to a bound C_g. The squares of these bounds add up to C^2.

    Source: McMahan et al. 2018, arXiv:1710.06963, Section 2.3: per-layer clipping, where C is the root of the sum of the C_g^2.

    Args:
        total: C.
        budgets: Name of each group with its C_g, up to a common factor. A group has the parameters whose name is the group's name, or
            begins with it and a dot. A parameter that fits several groups belongs to the group with the longest name. The group OTHERS
            has all other parameters.

    Raises:
        InputError: A share of C is outside of the limits. `groups` raises it if a parameter has no group, or if a group has no parameter.
            The share of C of an empty group would be unused.
    """

    total: float
    budgets: tuple[tuple[str, float], ...]

    def __post_init__(self) -> None:
        require_measurable("norm", self.total)
        for name, budget in self.budgets:
            require_positive(f"groups.{name}", budget)
        for (name, _), limit in zip(self.budgets, self.limits, strict=True):
            require_measurable(f"groups.{name}: its share of norm", limit)

    @property
    def bound(self) -> float:
        return self.total

    @property
    def limits(self) -> list[float]:
        """Return C_g of each group."""
        return shares(self.total, [budget for _, budget in self.budgets])

    def groups(self, names: Sequence[str]) -> list[list[str]]:
        groups: dict[str, list[str]] = {group: [] for group, _ in self.budgets}
        for name in names:
            group = max((group for group in groups if within(name, group)), key=len, default=OTHERS)
            if group not in groups:
                raise InputError(
                    f"clipping: groups: expected a group for every parameter, but {name} has none; "
                    f"a group {OTHERS} takes all other parameters"
                )
            groups[group].append(name)
        empty = next((group for group, members in groups.items() if not members), None)
        if empty is not None:
            raise InputError(
                f"clipping: groups.{empty}: expected the beginning of a trained parameter's name, up to a dot, "
                f"found no parameter with this name among {', '.join(names[:MOST_SHOWN])}{', ...' if len(names) > MOST_SHOWN else ''}"
            )
        return list(groups.values())

    def factors(self, norms: Tensor) -> Tensor:
        return (norms.new_tensor(self.limits) / norms).clamp(max=1.0)


def within(name: str, group: str) -> bool:
    """Return whether a group has the name of the parameter, or of a module that contains it. "head.bias" is within "head", not "he"."""
    return name == group or name.startswith(f"{group}.")


def shares(total: float, weights: Sequence[float]) -> list[float]:
    """Return numbers that are proportional to the weights, and whose squares add up to the square of the total, up to rounding.

    A total of 10 with weights 3 and 4 gives 6 and 8.
    """
    largest = max(weights, default=1.0)  # divided out, so that no square overflows or underflows
    length = math.hypot(*(weight / largest for weight in weights))
    return [total * (weight / largest / length) for weight in weights]


@dataclass(slots=True)
class Adaptive(OneGroup):
    """Adaptive clipping. C follows a quantile of the norms by geometric steps, which a noisy count controls.

    In addition to the gradients, a step releases the sum over the examples of (1 if n <= C else 0) - 1/2, with noise. The accountant
    includes this release. The sensitivity of the sum to adding or removing one example is 1/2. The `noised_fraction` is 1/2 plus the noisy
    sum divided by the expected batch size.

    Source: Andrew et al. 2019, arXiv:1905.03871, Algorithm 1.

    Args:
        norm: Initial C. The attribute holds the current C.
        quantile: Target share of examples that are not clipped.
        rate: Step size of the logarithm of C.
    """

    norm: float
    quantile: float = 0.5
    rate: float = 0.2

    def __post_init__(self) -> None:
        require_measurable("norm", self.norm)
        require_positive("rate", self.rate)
        if not 0.0 <= self.quantile <= 1.0:
            raise InputError(f"clipping: quantile: expected a number in [0, 1], found {self.quantile}")

    def centred_count(self, norms: Tensor) -> float:
        """Return the number of unclipped examples minus half the number of all examples.

        The sensitivity is 1/2. The result is private until noise is added.
        """
        return float((norms <= self.norm).sum()) - 0.5 * norms.shape[0]

    def update(self, noised_fraction: float) -> None:
        """Move C by a geometric step towards the quantile.

        The fraction is first clamped to [-1, 2], so that an extreme draw of noise cannot move C far. This is post-processing.

        Raises InputError if the fraction is NaN.
        """
        if math.isnan(noised_fraction):
            raise InputError("clipping: expected a noised fraction of unclipped examples, found nan")
        fraction = min(2.0, max(-1.0, noised_fraction))
        exponent = min(LARGEST_MOVE, max(-LARGEST_MOVE, -self.rate * (fraction - self.quantile)))
        self.norm = min(LARGEST, max(SMALLEST, self.norm * math.exp(exponent)))


def gradient_noise_multiplier(noise_multiplier: float, count_noise: float) -> float:
    """Return the noise multiplier of the gradients under adaptive clipping.

    With the returned multiplier, the gradients and the noisy count together cost as much as one Gaussian mechanism with `noise_multiplier`.

    Source: Andrew et al. 2019, arXiv:1905.03871, Theorem 1.

    Args:
        noise_multiplier: Noise multiplier sigma of the mechanism that the accountant prices.
        count_noise: Standard deviation sigma_b of the noise on the centred count, in examples. The sensitivity of the count is 1/2.

    Returns:
        (sigma^-2 - (2 sigma_b)^-2)^(-1/2), rounded up.

    Raises:
        InputError: The count alone costs at least as much as the whole mechanism, because count_noise <= noise_multiplier / 2.
    """
    sigma = require_positive("noise_multiplier", noise_multiplier)
    ratio = sigma / (2.0 * require_positive("quantile_noise", count_noise))
    if ratio >= 1.0:
        raise InputError(f"clipping: quantile_noise: expected more than half of noise_multiplier {sigma}, found {count_noise}")
    # The result is rounded up, because too little noise would make the guarantee false: 4e-16 is about two machine epsilons.
    return math.nextafter(sigma / math.sqrt((1.0 - ratio) * (1.0 + ratio)), math.inf) * (1.0 + 4e-16)
