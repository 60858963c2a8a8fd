"""Targets of a calibration other than epsilon: rho of zCDP, the success of an attacker, and mu of Gaussian DP.

The flags --target-rho, --target-advantage, --target-tpr with --at-fpr, and --target-mu choose a `Goal` (`goal_of`). A calibration
(calibrate_file.py) sets a value in the pipeline, asks the goal for an upper bound on its quantity (`measure`), and compares it with the
target. So a value that meets the target is certified, and the search parameters here touch only how much noise is found to be needed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import ClassVar, NamedTuple, Protocol

from dpcli.accountants.base import Steps
from dpcli.accountants.directions import parts_of
from dpcli.analysis.account import headline
from dpcli.analysis.budget_verdict import total_rho, without_rounding
from dpcli.analysis.curve import ProfileCurve, profile, pure_epsilon, trade_off
from dpcli.base.errors import CannotCertify, InputError, NotRepresentable
from dpcli.base.values import dataclass
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.pipeline.resolve import resolve, steps_of
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.stated.pure_and_approx import Free
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.closed.normal import mu_of_pure

# A search over the epsilons whose bounds on the true positive rate are compared. Any epsilon gives a sound bound; the numbers are
# arbitrary.
POINTS = 33  # number of epsilons that one round of the search tries
ROUNDS = 3  # number of rounds; each searches around the best epsilon of the round before
ROUNDED_UP = 1.0 + 1e-12  # factor that is larger than the rounding errors of a closed form


class GoalBound(NamedTuple):
    """An upper bound on the quantity of a goal, inf if none is known, and the name or names of the accountants that certify it.

    The name is "profile" if several accountants contribute to the bound, and "none" if it is inf.
    """

    upper: float
    accountant: str


class Goal(Protocol):
    """A quantity that decreases as noise grows, and the largest value that it may have.

    quantity: name of the quantity in files.
    target: largest permitted value.
    wording: name of the quantity in messages, with the conditions on which it depends.
    """

    @property
    def quantity(self) -> str: ...

    @property
    def target(self) -> float: ...

    @property
    def wording(self) -> str: ...

    def measure(self, pipeline: Pipeline, group_size: int) -> GoalBound:
        """Return a bound on the quantity. Raises CannotCertify if no amount of noise would give a finite one."""
        ...


@dataclass(frozen=True, slots=True)
class RhoGoal:
    """The rho of zCDP of the whole file."""

    quantity: ClassVar[str] = "rho"
    wording: ClassVar[str] = "rho (zCDP)"

    target: float

    def measure(self, pipeline: Pipeline, group_size: int) -> GoalBound:
        result = total_rho(resolve(pipeline, group_size))
        if result.reason is not None:
            raise CannotCertify(f"no rho is known: {result.reason}")
        return GoalBound(without_rounding(result.value, self.target), "zcdp")


@dataclass(frozen=True, slots=True)
class AdvantageGoal:
    """The advantage: the largest difference of true and false positive rate of any membership test. It equals delta at epsilon 0."""

    quantity: ClassVar[str] = "advantage"
    wording: ClassVar[str] = "advantage (delta at epsilon 0)"

    target: float

    def measure(self, pipeline: Pipeline, group_size: int) -> GoalBound:
        result = headline(pipeline, epsilon=0.0, group_size=group_size)
        if result.winner is None:
            return GoalBound(result.upper, "none")
        return GoalBound(min(result.upper, 1.0), result.winner.accountant.name)


@dataclass(frozen=True, slots=True)
class PowerGoal:
    """The largest true positive rate of any membership test whose false positive rate is `level`.

    The rate is at most delta(epsilon) + level e^epsilon for every epsilon, and at most the bound from the other side of the trade-off curve
    (numerics/closed/trade_off.py). The goal measures the minimum of these bounds over a set of epsilons, which is an upper bound.
    """

    quantity: ClassVar[str] = "true_positive_rate"

    target: float
    level: float

    @property
    def wording(self) -> str:
        return f"true positive rate at a false positive rate of {self.level!r}"

    def measure(self, pipeline: Pipeline, group_size: int) -> GoalBound:
        last = -math.log(min(self.level, 1.0 - self.target))  # for larger epsilons, both bounds exceed the target
        delta_of_interest = min(1e-6, 1e-2 * self.level)  # arbitrary: bounds on deltas far below it need not be tight
        pure = pure_epsilon(pipeline, group_size)  # the curve has a corner at it, which a search may miss
        low, high = 0.0, last
        smallest = math.inf
        for _ in range(ROUNDS):
            # POINTS epsilons and the corner, so that POINTS is the last index.
            epsilons = np.sort(np.append(np.linspace(low, high, POINTS), min(pure, last)))
            curve = self._curve(pipeline, epsilons, pure, group_size, delta_of_interest)
            smallest = min(smallest, 1.0 - float(trade_off(curve, [self.level])[0]))
            # The two bounds on the true positive rate at each epsilon; e^epsilon by itself may overflow.
            steep_bounds = curve.upper + np.exp(epsilons + math.log(self.level))
            flat_bounds = 1.0 - np.exp(-epsilons) * (1.0 - curve.upper - self.level)
            best = int(np.argmin(np.minimum(steep_bounds, flat_bounds)))  # each bound has one minimum
            low = float(epsilons[max(best - 1, 0)])
            high = float(epsilons[min(best + 1, POINTS)])
        return GoalBound(min(smallest * ROUNDED_UP, 1.0), "profile")

    def _curve(self, pipeline: Pipeline, epsilons: Array, pure: float, group_size: int, delta: float) -> ProfileCurve:
        """Return the profile at these epsilons. From `pure` on, delta is 0 and no accountant is run, since its interval would be wide."""
        below_pure = epsilons[epsilons < pure]
        if not len(below_pure):
            return ProfileCurve(epsilons, np.zeros_like(epsilons), np.zeros_like(epsilons), delta)
        curve = profile(pipeline, below_pure, group_size, delta)
        zeros = np.zeros(len(epsilons) - len(below_pure))
        return replace(curve, epsilons=epsilons, upper=np.append(curve.upper, zeros), lower=np.append(curve.lower, zeros))


@dataclass(frozen=True, slots=True)
class GaussianGoal:
    """The mu of Gaussian DP: at all error rates, the file is no easier to attack than one Gaussian release with sensitivity / noise = mu.

    The values mu^2 of all parts add up (Dong, Roth, Su 2022, arXiv:1905.02383, Corollary 2). The mu of a Gaussian is sensitivity / noise.
    The mu of an epsilon-DP mechanism follows from randomised response, whose trade-off curve consists of two lines. Its mu is the mu of the
    Gaussian with equal advantage: 2 Phi(mu / 2) - 1 = tanh(epsilon / 2). The curve of this Gaussian passes through the corner of the two
    lines. Being convex and symmetric, it lies below both lines. Sampling does not lower mu, since the largest privacy losses on a sample
    equal the largest losses on all records. So sampled mechanisms are refused; the other goals do account for sampling.
    """

    quantity: ClassVar[str] = "mu"
    wording: ClassVar[str] = "mu (Gaussian DP)"

    target: float

    def measure(self, pipeline: Pipeline, group_size: int) -> GoalBound:
        steps = steps_of(resolve(pipeline, group_size))
        mu = math.sqrt(math.fsum(_squares(steps))) * (1.0 + 2e-15)  # rounded up by more than the errors of the sum and the root
        return GoalBound(without_rounding(mu, self.target), "gdp, exact")


def _squares(steps: Steps) -> Iterator[float]:
    """Yield count x mu^2 for each part of the steps. Raises CannotCertify if a part has no finite mu."""
    for step, times in steps:
        for mechanism, count in parts_of(step, times):
            mu = 0.0 if mechanism == Free() else _mu(mechanism)
            yield count * mu**2


def _mu(mechanism: Mechanism) -> float:
    """Return the mu of a Gaussian or, as `GaussianGoal` derives it, of a pure mechanism. Raises CannotCertify for any other mechanism."""
    try:
        return mechanism.gdp()
    except NotRepresentable as error:
        pure = math.inf
        with suppress(NotRepresentable):
            pure = mechanism.approx_dp(0.0)
        if math.isfinite(pure):
            return mu_of_pure(pure) if pure > 0.0 else 0.0
        raise CannotCertify(
            f"no finite mu is known for {type(mechanism).__name__}, "
            f"which is neither Gaussian noise on all records (sampling does not lower mu) nor pure: {error}"
        ) from None


def goal_of(
    *, rho: float | None, advantage: float | None, tpr: float | None, fpr: float | None, mu: float | None, epsilon: float | None
) -> Goal | None:
    """Return the goal that flags state; None if they state an epsilon or no goal.

    Raises InputError if flags state several goals, or a value that is out of range.
    """
    stated = {"epsilon": epsilon, "rho": rho, "advantage": advantage, "tpr": tpr, "mu": mu}
    given = [f"--target-{name}" for name, value in stated.items() if value is not None]
    if len(given) > 1:
        raise InputError(f"expected one target, found {' and '.join(given)}")
    if (tpr is None) != (fpr is None):
        raise InputError("expected both of --target-tpr and --at-fpr, found one")
    if rho is not None:
        return RhoGoal(_checked_target("rho", rho, math.inf))
    if advantage is not None:
        return AdvantageGoal(_checked_target("advantage", advantage, 1.0))
    if tpr is not None and fpr is not None:
        if not 0.0 < fpr < tpr:
            raise InputError(f"--at-fpr: expected a rate in (0, {tpr!r}), below that of true positives, found {fpr!r}")
        return PowerGoal(_checked_target("tpr", tpr, 1.0), fpr)
    if mu is not None:
        return GaussianGoal(_checked_target("mu", mu, math.inf))
    return None


def _checked_target(name: str, value: float, below: float) -> float:
    """Return the value. Raises InputError if it is not between 0 and `below`."""
    if not 0.0 < value < below:
        raise InputError(f"--target-{name}: expected a number in (0, {below:g}), found {value!r}")
    return value


def refuse_epsilon_flags(delta: float | None, accountants: Sequence[str]) -> None:
    """Raise InputError for flags that only --target-epsilon reads."""
    for name, is_stated in (("delta", delta is not None), ("accountant", bool(accountants))):
        if is_stated:
            raise InputError(f"--{name} applies only to --target-epsilon")
