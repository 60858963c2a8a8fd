"""The Gaussian filter: squares of mu add up."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, ClassVar

from dpcli.base.errors import NotRepresentable
from dpcli.base.premise import Premises
from dpcli.ledger.amounts import Amounts, upward, written, written_down
from dpcli.ledger.filters.filter import PREMISES, Cost, finite, floored, largest, pure_within, require_delta, steps_of
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.numerics.closed.normal import gaussian_epsilon_upper
from dpcli.numerics.logspace import log_ndtr

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Pipeline


@dataclass(frozen=True, slots=True)
class GdpFilter:
    """Stops before the sum of mu^2 exceeds its cap: the whole is then sqrt(cap)-Gaussian DP, as if all had been fixed in advance."""

    name: str = "gdp"
    source: str = "Smith & Thakurta 2022, arXiv:2210.17520; Koskela et al. 2022, arXiv:2209.15596"
    currency: ClassVar[tuple[str, ...]] = ("mu_squared",)
    premises: ClassVar[Premises] = PREMISES
    ranges: ClassVar[Mapping[str, tuple[float, float]]] = {}
    summary: ClassVar[str] = "mu^2; tightest for Gaussian noise without sampling"
    labels: ClassVar[Mapping[str, str]] = {"mu_squared": "mu^2"}
    group_power: ClassVar[int | None] = 2

    @classmethod
    def chosen(cls, epsilon: float, delta: float) -> GdpFilter:
        """The filter for a cap; it has no parameters."""
        require_delta(delta, "gdp")
        return cls()

    def parameters(self) -> Mapping[str, float]:
        return {}

    def caps(self, epsilon: float, delta: float) -> Mapping[str, str]:
        return {"mu_squared": written_down(largest(lambda square: _epsilon(square, delta) <= epsilon, 1e9))}

    def cost(self, pipeline: Pipeline, delta: float) -> Cost:
        steps = steps_of(pipeline)
        squares = [count * mu_of(mechanism) ** 2 for mechanism, count in steps]
        total = finite(floored(math.fsum(squares) * (1.0 + 4e-15), steps), "mu")
        return Cost({"mu_squared": written(total)}, "sum of mu^2")

    def pure_room(self, left: float) -> float:
        return pure_within(lambda epsilon: mu_of_pure(epsilon) ** 2, left)

    def epsilon(self, amounts: Amounts, delta: float) -> float:
        return _epsilon(upward(amounts["mu_squared"]), delta) if amounts["mu_squared"] else 0.0


def _epsilon(square: float, delta: float) -> float:
    return gaussian_epsilon_upper(math.sqrt(square) * (1.0 + 4e-16), delta) if square > 0.0 else 0.0


def mu_of(mechanism: Mechanism) -> float:
    """mu such that the mechanism is mu-Gaussian DP: its own where it is a Gaussian, else from its pure epsilon; an upper bound.

    Raises NotRepresentable where it is neither.
    """
    try:
        return mechanism.gdp()
    except NotRepresentable:
        return mu_of_pure(_pure(mechanism))


def mu_of_pure(epsilon: float) -> float:
    """mu such that epsilon-DP is mu-GDP: Phi(-mu/2) = 1/(1 + e^epsilon), rounded up; inf beyond epsilon = 700.

    The trade-off curve of mu-GDP is convex, meets that of epsilon-DP at both ends and at its kink, and so lies below its straight lines.
    """
    log_kink = -math.log1p(math.exp(-epsilon)) - epsilon
    mu = -2.0 * NormalDist().inv_cdf(math.exp(log_kink)) if log_kink > -700.0 else math.inf
    mu = mu * (1.0 + 1e-12) + 1e-15  # the inverse is rounded
    while log_ndtr(-0.5 * mu) > log_kink * (1.0 + 1e-15):
        mu += 1e-12 * (1.0 + mu)
    return mu


def _pure(mechanism: Mechanism) -> float:
    reason = "the gdp filter adds up Gaussian noise without sampling and mechanisms with a pure epsilon, and this is neither"
    try:
        pure = mechanism.approx_dp(0.0)
    except NotRepresentable:
        raise NotRepresentable(reason) from None
    if not pure < math.inf:
        raise NotRepresentable(reason)
    return pure
