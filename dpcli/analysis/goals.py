"""Goals that noise may be solved for besides an epsilon: an attacker's success, rho, and mu of Gaussian DP."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import ClassVar, Protocol

from dpcli.accountants.base import Steps
from dpcli.accountants.directions import parts_of
from dpcli.analysis.account import headline
from dpcli.analysis.curve import profile, trade_off
from dpcli.analysis.rho import settled, total_rho
from dpcli.base.errors import CannotCertify, InputError, NotRepresentable
from dpcli.base.values import dataclass
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.pipeline.resolve import resolve
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.stated.pure_and_approx import Free
from dpcli.numerics.arrays import np
from dpcli.numerics.closed.normal import mu_of_pure

POINTS, ROUNDS = 9, 5  # of the profile at a time, over all slopes first, then around the best one
ROUNDED = 1.0 + 1e-12


class Goal(Protocol):
    """A number that falls as noise grows, and the most that it may be.

    quantity: its name in files. target: the most. wording: the quantity in words, with what it depends on.
    """

    @property
    def quantity(self) -> str: ...

    @property
    def target(self) -> float: ...

    @property
    def wording(self) -> str: ...

    def measure(self, pipeline: Pipeline, group_size: int) -> tuple[float, str]:
        """An upper bound, inf where none is known, and who gives it. Raises CannotCertify where no noise would give one."""
        ...


@dataclass(frozen=True, slots=True)
class RhoGoal:
    """rho-zCDP of the whole file."""

    quantity: ClassVar[str] = "rho"
    wording: ClassVar[str] = "rho (zCDP)"

    target: float

    def measure(self, pipeline: Pipeline, group_size: int) -> tuple[float, str]:
        result = total_rho(resolve(pipeline, group_size))
        if result.reason is not None:
            raise CannotCertify(f"no rho is known: {result.reason}")
        return settled(result.value, self.target), "zcdp"


@dataclass(frozen=True, slots=True)
class AdvantageGoal:
    """The largest true positive rate less false positive rate of any test of membership, which is delta at epsilon 0."""

    quantity: ClassVar[str] = "advantage"
    wording: ClassVar[str] = "advantage (delta at epsilon 0)"

    target: float

    def measure(self, pipeline: Pipeline, group_size: int) -> tuple[float, str]:
        result = headline(pipeline, epsilon=0.0, group_size=group_size)
        return (result.upper, "none") if result.winner is None else (min(result.upper, 1.0), result.winner.accountant.name)


@dataclass(frozen=True, slots=True)
class PowerGoal:
    """The true positive rate of any test of membership whose false positive rate is `level`: the least of delta(e) + level e^e over e,
    and of what the other side of the trade-off curve says (numerics/closed/trade_off.py). Every set of e bounds it from above."""

    quantity: ClassVar[str] = "true_positive_rate"

    target: float
    level: float

    @property
    def wording(self) -> str:
        return f"true positive rate at a false positive rate of {self.level!r}"

    def measure(self, pipeline: Pipeline, group_size: int) -> tuple[float, str]:
        last = -math.log(min(self.level, 1.0 - self.target))  # beyond, either side of the curve says more than the target
        interest = min(1e-6, 1e-2 * self.level)
        result, low, high = math.inf, 0.0, last
        for _ in range(ROUNDS):
            at = np.linspace(low, high, POINTS)
            curve = profile(pipeline, at, group_size, interest)
            result = min(result, 1.0 - float(trade_off(curve, [self.level])[0]))
            steep = curve.upper + np.exp(at + math.log(self.level))  # e^at alone may be above all doubles
            flat = 1.0 - np.exp(-at) * (1.0 - curve.upper - self.level)
            best = int(np.argmin(np.minimum(steep, flat)))  # each has one valley
            low, high = float(at[max(best - 1, 0)]), float(at[min(best + 1, POINTS - 1)])
        return min(result * ROUNDED, 1.0), "profile"


@dataclass(frozen=True, slots=True)
class GaussianGoal:
    """mu such that the file is mu-GDP: no easier to attack than one Gaussian of sensitivity / noise = mu, at any error rates.

    mu^2 of the parts add up (Dong, Roth, Su 2022, arXiv:1905.02383, Corollary 2). A Gaussian has its own; what is epsilon-DP has the one
    whose advantage is that of randomised response, 2 Phi(mu / 2) - 1 = tanh(epsilon / 2): the two lines of its trade-off curve meet there,
    and a Gaussian's, which is convex and symmetric, lies below them once it passes below the corner. A sample has no smaller mu than all
    records, since its largest losses are theirs, and is refused: what it gains shows in the other goals.
    """

    quantity: ClassVar[str] = "mu"
    wording: ClassVar[str] = "mu (Gaussian DP)"

    target: float

    def measure(self, pipeline: Pipeline, group_size: int) -> tuple[float, str]:
        steps = tuple((charge.mechanism, charge.count) for charge in resolve(pipeline, group_size))
        return settled(math.sqrt(math.fsum(_squares(steps))) * (1.0 + 2e-15), self.target), "gdp, exact"


def _squares(steps: Steps) -> Iterator[float]:
    for mechanism, count in (part for step, times in steps for part in parts_of(step, times)):
        yield count * (0.0 if mechanism == Free() else _mu(mechanism)) ** 2


def _mu(mechanism: Mechanism) -> float:
    try:
        return mechanism.gdp()
    except NotRepresentable as error:
        pure = _pure(mechanism)
        if not math.isfinite(pure):
            raise CannotCertify(
                f"no finite mu is known for {type(mechanism).__name__}, "
                f"neither Gaussian noise on all records, whose mu sampling does not lower, nor pure: {error}"
            ) from None
        return mu_of_pure(pure) if pure > 0.0 else 0.0


def _pure(mechanism: Mechanism) -> float:
    try:
        return mechanism.approx_dp(0.0)
    except NotRepresentable:
        return math.inf


def goal_of(
    rho: float | None, advantage: float | None, tpr: float | None, fpr: float | None, mu: float | None, epsilon: float | None
) -> Goal | None:
    """The goal that flags state; None where it is epsilon, or nothing is stated. Raises InputError for several, or what cannot be."""
    stated = {"epsilon": epsilon, "rho": rho, "advantage": advantage, "tpr": tpr, "mu": mu}
    given = [f"--target-{name}" for name, value in stated.items() if value is not None]
    if len(given) > 1:
        raise InputError(f"expected one target, found {' and '.join(given)}")
    if (tpr is None) != (fpr is None):
        raise InputError("expected both of --target-tpr and --at-fpr, found one")
    if rho is not None:
        return RhoGoal(_within("rho", rho, math.inf))
    if advantage is not None:
        return AdvantageGoal(_within("advantage", advantage, 1.0))
    if tpr is not None and fpr is not None:
        if not 0.0 < fpr < tpr:
            raise InputError(f"--at-fpr: expected a rate in (0, {tpr!r}), below that of true positives, found {fpr!r}")
        return PowerGoal(_within("tpr", tpr, 1.0), fpr)
    return GaussianGoal(_within("mu", mu, math.inf)) if mu is not None else None


def _within(name: str, value: float, below: float) -> float:
    if not 0.0 < value < below:
        raise InputError(f"--target-{name}: expected a number in (0, {below:g}), found {value!r}")
    return value


def require_idle(delta: float | None, accountants: Sequence[str]) -> None:
    """Raises InputError for flags that only an epsilon reads."""
    for name, stated in (("delta", delta is not None), ("accountant", bool(accountants))):
        if stated:
            raise InputError(f"--{name} belongs to --target-epsilon: no other target has one")
