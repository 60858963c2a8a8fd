"""The privacy filters, one for each currency: (epsilon, delta), squares of epsilon, rho of zCDP, the Renyi divergence, and mu^2 of GDP.

A *filter* is a theorem that bounds the total loss of runs even if a run was chosen from the outputs of earlier ones. A ledger in adaptive
mode has one of these filters, which its terms name (dpcli/ledger/terms.py). `Filter` (filter.py) describes the attributes and methods: in
short, `caps` converts the ledger's (epsilon, delta) into caps in the currency, rounded down, `cost` a run into a cost, rounded up, and
`epsilon` a sum of costs into an epsilon. `odometer` bounds what is spent at a moment that may be chosen from outputs (odometer.py).

Factors such as 1 + 1e-14 make up for the rounding of floating-point operations, each of which errs by about 1e-16 of its result. They
are a matter of soundness: without them a cost or an epsilon might not be an upper bound.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from dpcli.base.errors import InputError, NotRepresentable
from dpcli.base.premise import Premise, Premises
from dpcli.ledger.amounts import EXACT, Amounts, cap_text, cost_text, decimal_of, float_above
from dpcli.ledger.filters.filter import (
    PREMISES,
    Cost,
    Filter,
    at_least_smallest,
    epsilon_of_run,
    largest_within,
    pure_within,
    require_finite,
    steps_of,
)
from dpcli.ledger.filters.odometer import loss_at_any_moment, loss_at_one_order
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.numerics.arrays import np
from dpcli.numerics.closed.conversion import renyi_epsilon, zcdp_epsilon
from dpcli.numerics.closed.normal import gaussian_epsilon_upper, mu_of_pure
from dpcli.numerics.roots import minimise_scalar

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Pipeline

# The end of the search for a cap, far above every cap in use. It affects only accuracy: a cap that is too small is still safe.
HIGHEST_CAP = 1e9


@dataclass(frozen=True, slots=True)
class ApproxFilter(Filter):
    """A filter that stops before the sum of epsilons or the sum of deltas exceeds its cap."""

    name: ClassVar[str] = "approx-dp"
    source: ClassVar[str] = "Rogers et al. 2016, arXiv:1605.08294, for basic composition"
    currency: ClassVar[tuple[str, ...]] = ("epsilon", "delta")
    summary: ClassVar[str] = "epsilons and deltas add up; any run, few of them"
    needs_delta: ClassVar[bool] = False
    group_power: ClassVar[int | None] = 1

    def caps(self, epsilon: float, delta: float) -> Mapping[str, str]:
        return {"epsilon": cap_text(decimal_of(epsilon)), "delta": cap_text(decimal_of(delta))}

    def cost(self, pipeline: Pipeline, delta: float) -> Cost:
        epsilon, accountant = epsilon_of_run(pipeline, delta)
        return Cost({"epsilon": cost_text(epsilon), "delta": cost_text(delta)}, f"epsilon at delta = {delta!r} by {accountant}")

    def pure_room(self, left: float) -> float:
        return left  # a pure epsilon is charged as it is stated

    def epsilon(self, amounts: Amounts, delta: float) -> float:
        return float_above(amounts["epsilon"])

    def odometer(self, amounts: Amounts, delta: float) -> float:
        return float_above(amounts["epsilon"])


@dataclass(frozen=True, slots=True)
class AdvancedFilter(Filter):
    """A filter that adds up S, the sum of epsilon^2 / 2 over all runs, and the deltas of the runs.

    It stops before S + 2 sqrt(S log(1/slack)) exceeds epsilon, or the sum of the deltas exceeds delta - slack.
    """

    slack: float
    name: ClassVar[str] = "advanced"
    source: ClassVar[str] = "Whitehouse et al. 2023, arXiv:2203.05481"
    currency: ClassVar[tuple[str, ...]] = ("half_squares", "delta")
    ranges: ClassVar[Mapping[str, tuple[float, float]]] = {"slack": (5e-324, 1.0 - 2.0**-53)}  # the doubles in (0, 1)
    summary: ClassVar[str] = "squares of epsilon; any run, many small ones"
    labels: ClassVar[Mapping[str, str]] = {"half_squares": "epsilon^2/2"}

    @classmethod
    def for_cap(cls, epsilon: float, delta: float, slack: float | None = None) -> AdvancedFilter:
        """Return the filter whose conversion uses up `slack` of delta; half of delta if None.

        Raises InputError if the slack is not in (0, delta].
        """
        cls.refuse_delta(delta)
        slack = 0.5 * delta if slack is None else slack
        if not 0.0 < slack <= delta:
            raise InputError(f"--slack: expected a number in (0, delta], found {slack!r}")
        return cls(slack)

    def caps(self, epsilon: float, delta: float) -> Mapping[str, str]:
        # The epsilon S + 2 sqrt(S log(1/slack)) of a sum S is at least S. So the cap on S is at most epsilon, below the end of the search.
        half_squares = largest_within(lambda total: self._epsilon(total) <= epsilon, max(1.0, 2.0 * epsilon))
        return {
            "half_squares": cap_text(half_squares),
            "delta": cap_text(EXACT.subtract(decimal_of(delta), decimal_of(self.slack))),
        }

    def cost(self, pipeline: Pipeline, delta: float) -> Cost:
        epsilon, accountant = epsilon_of_run(pipeline, delta)
        half_square = require_finite(at_least_smallest(0.5 * epsilon * epsilon * (1.0 + 1e-15), steps_of(pipeline)), "square")
        detail = f"epsilon {epsilon:.6g} at delta = {delta!r} by {accountant}"
        return Cost({"half_squares": cost_text(half_square), "delta": cost_text(delta)}, detail)

    def pure_room(self, left: float) -> float:
        return pure_within(lambda epsilon: 0.5 * epsilon * epsilon, left)

    def epsilon(self, amounts: Amounts, delta: float) -> float:
        return self._epsilon(float_above(amounts["half_squares"]))

    def odometer(self, amounts: Amounts, delta: float) -> float:
        return loss_at_any_moment(float_above(amounts["half_squares"]), self.slack)

    def _epsilon(self, total: float) -> float:
        """Return an upper bound on the epsilon, at the delta `slack`, of runs whose half squares sum to `total`."""
        return (total + 2.0 * math.sqrt(total * -math.log(self.slack))) * (1.0 + 1e-14)


@dataclass(frozen=True, slots=True)
class ZcdpFilter(Filter):
    """A filter that stops before the sum of rho exceeds its cap. All runs together are then cap-zCDP.

    At each order a, rho-zCDP bounds the Renyi divergence by a rho. The Renyi filter at order a adds up these bounds.
    """

    name: ClassVar[str] = "zcdp"
    source: ClassVar[str] = "Feldman & Zrnic 2021, arXiv:2008.11193, at every order; Whitehouse et al. 2023, arXiv:2203.05481"
    currency: ClassVar[tuple[str, ...]] = ("rho",)
    summary: ClassVar[str] = "rho; for Gaussian and pure mechanisms without sampling"
    group_power: ClassVar[int | None] = 2

    def caps(self, epsilon: float, delta: float) -> Mapping[str, str]:
        return {"rho": cap_text(largest_within(lambda rho: self._epsilon(rho, delta) <= epsilon, HIGHEST_CAP))}

    def cost(self, pipeline: Pipeline, delta: float) -> Cost:
        from dpcli.accountants.zcdp import ZcdpProfile

        steps = steps_of(pipeline)
        rho = require_finite(at_least_smallest(ZcdpProfile(steps).rho(), steps), "rho")
        return Cost({"rho": cost_text(rho)}, "sum of rho")

    def pure_room(self, left: float) -> float:
        # The rho of a pure epsilon, as in dpcli.mechanisms.stated.pure_and_approx.
        return pure_within(lambda epsilon: epsilon * math.tanh(0.5 * epsilon), left)

    def epsilon(self, amounts: Amounts, delta: float) -> float:
        # Without a cost the epsilon is 0, although the conversion may give more.
        return self._epsilon(float_above(amounts["rho"]), delta) if amounts["rho"] else 0.0

    def odometer(self, amounts: Amounts, delta: float) -> float:
        return loss_at_any_moment(float_above(amounts["rho"]), delta)

    def _epsilon(self, rho: float, delta: float) -> float:
        return zcdp_epsilon(rho, delta) * (1.0 + 1e-13)


@dataclass(frozen=True, slots=True)
class RdpFilter(Filter):
    """A filter that stops before the sum of the Renyi divergences at `order` exceeds its cap.

    The order must not depend on the runs. If the order with the smallest epsilon is chosen after the runs, the theorem does not hold.
    """

    order: float
    name: ClassVar[str] = "rdp"
    source: ClassVar[str] = "Feldman & Zrnic 2021, arXiv:2008.11193; conversion Balle et al. 2020, arXiv:1905.09982, Theorem 21"
    currency: ClassVar[tuple[str, ...]] = ("rdp",)
    premises: ClassVar[Premises] = (
        *PREMISES,
        Premise(
            "The order was chosen before the first run.",
            "the ledger, whose opening entry states it",
            "tests/premises/test_filters.py::test_an_order_that_is_chosen_afterwards_bounds_no_divergence",
        ),
    )
    ranges: ClassVar[Mapping[str, tuple[float, float]]] = {"order": (1.0 + 1e-6, 1e6)}
    summary: ClassVar[str] = "Renyi DP at one order; for DP-SGD and mixtures of mechanisms"
    labels: ClassVar[Mapping[str, str]] = {"rdp": "Renyi divergence"}

    @classmethod
    def for_cap(cls, epsilon: float, delta: float, order: float | None = None) -> RdpFilter:
        """Return the filter at `order`; if None, at the order with the largest cap for runs with Gaussian noise."""
        cls.refuse_delta(delta)
        if order is None:
            best = 1.0 + _best_order_minus_one(epsilon, math.log(delta))
            order = float(f"{best:.4g}")  # a short number to state and compare; the ledger is sound at every order
        lowest, highest = cls.ranges["order"]
        if not lowest <= order <= highest:
            raise InputError(f"--order: expected a number from 1.000001 to 10^6, found {order!r}")
        return cls(order)

    def caps(self, epsilon: float, delta: float) -> Mapping[str, str]:
        cap = largest_within(lambda rdp: self._epsilon(rdp, delta) <= epsilon, epsilon + HIGHEST_CAP)
        if cap == 0.0:
            raise InputError(
                f"order {self.order:g}: expected an order whose conversion leaves a part of epsilon = {epsilon:g} at delta = {delta:g}, "
                "but the conversion at this order uses up all of it; try a larger order"
            )
        return {"rdp": cap_text(cap)}

    def cost(self, pipeline: Pipeline, delta: float) -> Cost:
        from dpcli.accountants.renyi_curve import renyi_curve

        steps = steps_of(pipeline)
        rdp = at_least_smallest(float(renyi_curve(steps).at(np.array([self.order]))[0]), steps)
        quantity = f"Renyi divergence at order {self.order:g}"
        return Cost({"rdp": cost_text(require_finite(rdp, quantity))}, quantity)

    def pure_room(self, left: float) -> float:
        """Return the pure epsilon at which the Renyi divergence of randomised response at the order a is `left`.

        Of all mechanisms with this pure epsilon, randomised response has the largest divergence. With p = 1/(1 + e^-epsilon) and q = 1 - p
        it is log(p^a q^(1-a) + q^a p^(1-a)) / (a - 1).
        """
        above_one = self.order - 1.0

        def cost(epsilon: float) -> float:
            log_p = -math.log1p(math.exp(-epsilon))
            return (log_p + math.log1p(math.exp(-(2.0 * above_one + 1.0) * epsilon))) / above_one + epsilon

        return pure_within(cost, left)

    def epsilon(self, amounts: Amounts, delta: float) -> float:
        return self._epsilon(float_above(amounts["rdp"]), delta) if amounts["rdp"] else 0.0

    def odometer(self, amounts: Amounts, delta: float) -> float:
        return loss_at_one_order(self.order - 1.0, float_above(amounts["rdp"]), delta)

    def _epsilon(self, rdp: float, delta: float) -> float:
        # The terms of the conversion may cancel: a factor alone would not make up for their rounding.
        return renyi_epsilon(self.order - 1.0, rdp, math.log(delta)) * (1.0 + 1e-14) + 1e-15


def _best_order_minus_one(epsilon: float, log_delta: float) -> float:
    """Return order - 1 for the order at which cap / order is largest, in [1e-5, 1e5].

    This quotient is the rho that Gaussian mechanisms could spend, because their Renyi divergence at an order is the order times rho. The
    cap is the divergence at which the conversion to (epsilon, delta) gives epsilon (Balle et al. 2020, Theorem 21). The result need not be
    exact, and its limits are arbitrary within `RdpFilter.ranges`: the ledger is sound at every order.
    """
    tried: list[tuple[float, float]] = []

    def negative_rho(z: float) -> float:
        """Return minus the quotient at the order 1 + z, since the search is for a minimum."""
        cap = epsilon + math.log1p(1.0 / z) + (log_delta + math.log1p(z)) / z
        value = -cap / (1.0 + z)
        tried.append((value, z))
        return value

    # The start is where (epsilon + log_delta / z) / z is largest, which is the quotient for large z without its small terms.
    minimise_scalar(negative_rho, start=2.0 * max(-log_delta, 1e-3) / epsilon)
    _, best = min(tried)
    return min(max(best, 1e-5), 1e5)


@dataclass(frozen=True, slots=True)
class GdpFilter(Filter):
    """A filter that stops before the sum of mu^2 exceeds its cap.

    All runs together are then sqrt(cap)-Gaussian DP, as if they had been fixed in advance.
    """

    name: ClassVar[str] = "gdp"
    source: ClassVar[str] = "Smith & Thakurta 2022, arXiv:2210.17520; Koskela et al. 2022, arXiv:2209.15596"
    currency: ClassVar[tuple[str, ...]] = ("mu_squared",)
    summary: ClassVar[str] = "mu^2; tightest for Gaussian noise without sampling"
    labels: ClassVar[Mapping[str, str]] = {"mu_squared": "mu^2"}
    group_power: ClassVar[int | None] = 2

    def caps(self, epsilon: float, delta: float) -> Mapping[str, str]:
        return {"mu_squared": cap_text(largest_within(lambda square: _gaussian_epsilon(square, delta) <= epsilon, HIGHEST_CAP))}

    def cost(self, pipeline: Pipeline, delta: float) -> Cost:
        steps = steps_of(pipeline)
        squares = [count * mu_of(mechanism) ** 2 for mechanism, count in steps]  # mu^2 adds up in a composition
        total = require_finite(at_least_smallest(math.fsum(squares) * (1.0 + 4e-15), steps), "mu")
        return Cost({"mu_squared": cost_text(total)}, "sum of mu^2")

    def pure_room(self, left: float) -> float:
        return pure_within(lambda epsilon: mu_of_pure(epsilon) ** 2, left)

    def epsilon(self, amounts: Amounts, delta: float) -> float:
        return _gaussian_epsilon(float_above(amounts["mu_squared"]), delta) if amounts["mu_squared"] else 0.0

    def odometer(self, amounts: Amounts, delta: float) -> float:
        return loss_at_any_moment(0.5 * float_above(amounts["mu_squared"]), delta)


def _gaussian_epsilon(square: float, delta: float) -> float:
    """Return an upper bound on the epsilon at `delta` of mu-Gaussian DP, from mu^2."""
    return gaussian_epsilon_upper(math.sqrt(square) * (1.0 + 4e-16), delta) if square > 0.0 else 0.0


def mu_of(mechanism: Mechanism) -> float:
    """Return an upper bound on the mu for which a mechanism is mu-Gaussian DP.

    The mu of a mechanism with Gaussian noise and without sampling is known. For another mechanism, mu follows from its pure epsilon.

    Raises NotRepresentable if the mechanism has neither a mu nor a finite pure epsilon.
    """
    try:
        return mechanism.gdp()
    except NotRepresentable:
        return mu_of_pure(_pure_epsilon(mechanism))


def _pure_epsilon(mechanism: Mechanism) -> float:
    """Return the pure epsilon of a mechanism. Raises NotRepresentable if it has none that is finite."""
    reason = (
        "the gdp filter adds up Gaussian noise without sampling and mechanisms with a pure epsilon, and this mechanism is neither"
    )
    try:
        pure = mechanism.approx_dp(0.0)
    except NotRepresentable:
        raise NotRepresentable(reason) from None
    if not pure < math.inf:
        raise NotRepresentable(reason)
    return pure
