"""Clipping styles: how one example's gradient is bounded before the sum. Needs no torch, as reading a file uses it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from dpcli.base.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

# Norms that single precision can measure. The square of a thousandth of 1e-8 is 1e-22: far above 1e-38, below which digits are lost, and
# above what `squares` takes for nothing. 1 / 1e-8 times any number whose square is finite is finite. The same upwards.
SMALLEST, LARGEST = 1e-8, 1e12
LARGEST_MOVE = 2.0 * math.log(LARGEST / SMALLEST)  # of log C in one step: from anywhere to either end
REST = "*"  # the group of all parameters that are in no other
SHOWN = 12  # names in a message


class Clip(Protocol):
    """A clipping style.

    Whatever the norms, the factors times the norms have a Euclidean length of at most `bound` over the groups of one example.
    """

    @property
    def bound(self) -> float:
        """Return C: the L2 bound on one example's whole clipped gradient."""

    def groups(self, names: Sequence[str]) -> list[list[str]]:
        """Return the parameters that are scaled together; every name is in exactly one group."""

    def factors(self, norms: Tensor) -> Tensor:
        """Return the factors of each example's gradient, (B, groups), from its norms (B, groups), finite and not negative."""


def positive(name: str, value: float) -> float:
    """Return the value. Raises InputError unless it is finite and above zero."""
    if not (math.isfinite(value) and value > 0.0):
        raise InputError(f"clipping: {name}: expected a finite number above 0, found {value}")
    return float(value)


def measurable(name: str, value: float) -> float:
    """Return the value. Raises InputError unless it is a norm that single precision can measure gradients against."""
    if not SMALLEST <= value <= LARGEST:
        raise InputError(
            f"clipping: {name}: expected a number from {SMALLEST:g} to {LARGEST:g}, found {value!r}: single precision measures "
            "no gradient against it; scale the loss, and the norm with it"
        )
    return float(value)


def by_module(names: Sequence[str]) -> list[list[str]]:
    """Return a group for each module: its weight and its bias together."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(name.rpartition(".")[0], []).append(name)
    return list(groups.values())


class OneGroup:
    """A style that scales all parameters together, to at most `norm`."""

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
    """Flat clipping: a longer gradient is scaled down to norm C, by min(1, C / n).

    Source: Abadi et al. 2016, arXiv:1607.00133, Algorithm 1.
    """

    norm: float

    def __post_init__(self) -> None:
        measurable("norm", self.norm)


@dataclass(frozen=True, slots=True)
class Automatic(OneGroup):
    """Automatic clipping: every gradient is scaled to nearly norm C, by C / (n + gamma); the factor may exceed 1, the norm stays below C.

    Source: Bu et al. 2022, arXiv:2206.07136, AUTO-S.
    """

    norm: float
    gamma: float = 0.01

    def __post_init__(self) -> None:
        measurable("norm", self.norm)
        measurable("gamma", self.gamma)

    def factors(self, norms: Tensor) -> Tensor:
        return self.norm / (norms + self.gamma)


@dataclass(frozen=True, slots=True)
class PerLayer:
    """Per-layer clipping: each module's gradient is scaled down to an equal share of C; the squares of the shares add up to C^2.

    Args:
        total: C.

    Source: McMahan et al. 2018, arXiv:1710.06963, Section 2.3.
    """

    total: float

    def __post_init__(self) -> None:
        measurable("norm", self.total)

    @property
    def bound(self) -> float:
        return self.total

    def groups(self, names: Sequence[str]) -> list[list[str]]:
        groups = by_module(names)
        measurable("the smallest share of norm", min(shares(self.total, [1.0] * len(groups)), default=self.total))
        return groups

    def factors(self, norms: Tensor) -> Tensor:
        return (norms.new_tensor(shares(self.total, [1.0] * norms.shape[1])) / norms).clamp(max=1.0)


@dataclass(frozen=True, slots=True)
class PerGroup:
    """Per-group clipping: each group's gradient is scaled down to C_g; the squares of the C_g add up to C^2.

    Source: McMahan et al. 2018, arXiv:1710.06963, Section 2.3: per-layer clipping, C the root of the sum of the C_g^2.

    Args:
        total: C.
        budgets: Name of a group and its C_g, relative to the others'. A group has the parameters whose names are its own or begin with it
            and a dot, less those of groups with a longer name; REST has those of no other.

    Raises:
        InputError: X of `groups`: a parameter has no group, or a group no parameter: its share of C would be left unused.
    """

    total: float
    budgets: tuple[tuple[str, float], ...]

    def __post_init__(self) -> None:
        measurable("norm", self.total)
        for name, budget in self.budgets:
            positive(f"groups.{name}", budget)
        for (name, _), limit in zip(self.budgets, shares(self.total, [budget for _, budget in self.budgets]), strict=True):
            measurable(f"groups.{name}: its share of norm", limit)

    @property
    def bound(self) -> float:
        return self.total

    def groups(self, names: Sequence[str]) -> list[list[str]]:
        groups: dict[str, list[str]] = {group: [] for group, _ in self.budgets}
        for name in names:
            group = max((group for group in groups if within(name, group)), key=len, default=REST)
            if group not in groups:
                raise InputError(
                    f"clipping: groups: expected a group for every parameter, but {name} has none: {REST} takes all others"
                )
            groups[group].append(name)
        empty = next((group for group, own in groups.items() if not own), None)
        if empty is not None:
            raise InputError(
                f"clipping: groups.{empty}: expected the beginning of a trained parameter's name, up to a dot, found that of none: "
                f"{', '.join(names[:SHOWN])}{', ...' if len(names) > SHOWN else ''}"
            )
        return list(groups.values())

    def factors(self, norms: Tensor) -> Tensor:
        limits = shares(self.total, [budget for _, budget in self.budgets])
        return (norms.new_tensor(limits) / norms).clamp(max=1.0)


def within(name: str, group: str) -> bool:
    """Return whether a parameter belongs to the module, or is the parameter, of this name."""
    return name == group or name.startswith(f"{group}.")


def shares(total: float, weights: Sequence[float]) -> list[float]:
    """Return numbers in proportion to the weights, whose squares add up to that of the total, up to rounding."""
    largest = max(weights, default=1.0)  # taken out: a sum of squares would overflow, or vanish
    length = math.hypot(*(weight / largest for weight in weights))
    return [total * (weight / largest / length) for weight in weights]


@dataclass(slots=True)
class Adaptive(OneGroup):
    """Adaptive clipping: C follows a quantile of the norms, by geometric steps on a noised count that is accounted for.

    A step releases, beside the gradients, the sum over examples of (1 if n <= C else 0) - 1/2, whose sensitivity to adding or
    removing one example is 1/2; `noised_fraction` is 1/2 plus that sum with noise, over the expected batch size.

    Source: Andrew et al. 2019, arXiv:1905.03871, Algorithm 1.

    Args:
        norm: C at the start; afterwards `norm` is the C in force.
        quantile: Share of examples to leave unclipped.
        rate: Step size of the logarithm of C.
    """

    norm: float
    quantile: float = 0.5
    rate: float = 0.2

    def __post_init__(self) -> None:
        measurable("norm", self.norm)
        positive("rate", self.rate)
        if not 0.0 <= self.quantile <= 1.0:
            raise InputError(f"clipping: quantile: expected a number in [0, 1], found {self.quantile}")

    def centred_count(self, norms: Tensor) -> float:
        """Return the unclipped examples minus half of all: of sensitivity 1/2, and private until noise is added."""
        return float((norms <= self.norm).sum()) - 0.5 * norms.shape[0]

    def update(self, noised_fraction: float) -> None:
        """Move C by a geometric step towards the quantile.

        The fraction is clamped to [-1, 2], which is post-processing: a wild draw of noise cannot throw C out of range.
        """
        if math.isnan(noised_fraction):
            raise InputError("clipping: expected a noised fraction of unclipped examples, found nan")
        fraction = min(2.0, max(-1.0, noised_fraction))
        exponent = min(LARGEST_MOVE, max(-LARGEST_MOVE, -self.rate * (fraction - self.quantile)))
        self.norm = min(LARGEST, max(SMALLEST, self.norm * math.exp(exponent)))


def gradient_noise_multiplier(noise_multiplier: float, count_noise: float) -> float:
    """Return the noise over C on the gradients with which they and the count cost what one Gaussian of `noise_multiplier` costs.

    Source: Andrew et al. 2019, arXiv:1905.03871, Theorem 1.

    Args:
        noise_multiplier: Noise multiplier of the mechanism that is accounted for.
        count_noise: Standard deviation on the centred count, in examples; its sensitivity is 1/2.

    Returns:
        (sigma^-2 - (2 sigma_b)^-2)^(-1/2), rounded up.

    Raises:
        InputError: The count alone costs as much as the whole mechanism: count_noise <= noise_multiplier / 2.
    """
    sigma, doubled = positive("noise_multiplier", noise_multiplier), 2.0 * positive("quantile_noise", count_noise)
    if doubled <= sigma:
        raise InputError(f"clipping: quantile_noise: expected more than half of noise_multiplier {sigma}, found {count_noise}")
    ratio = sigma / doubled
    return math.nextafter(sigma / math.sqrt((1.0 - ratio) * (1.0 + ratio)), math.inf) * (1.0 + 4e-16)
