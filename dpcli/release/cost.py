"""The privacy cost of one query, as a pure epsilon or as rho of zCDP, and the noise that this cost allows.

budget_shares.py decides the cost of each query, and vectors.py asks here for the scale or sigma. Shares and conversions to an epsilon are
rounded down, and noise is rounded up, so that a query spends no more than its cost. The only exception is the conversion of an epsilon to
rho, which is rounded to the nearest double. The guarantee does not rest on these numbers: the file's cost follows from the noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpcli.base.errors import InputError
from dpcli.release.noise.laws import scale_of, sigma_of

# Factor that rounds down. Each result below is rounded at most twice, by 1.2e-16 of its value each time.
DOWN = 1.0 - 1e-15
# Range of a cost; within it, squares and quotients neither overflow nor underflow. No useful cost is outside.
LEAST_COST, MOST_COST = 1e-100, 1e100


@dataclass(frozen=True, slots=True)
class QueryCost:
    """A cost that is stated either as a pure epsilon or as rho of zCDP. The caller sets exactly one of the two.

    Raises InputError if the number is not from LEAST_COST to MOST_COST.
    """

    epsilon: float | None = None
    rho: float | None = None

    def __post_init__(self) -> None:
        for name, value in (("epsilon", self.epsilon), ("rho", self.rho)):
            if value is not None and not LEAST_COST <= value <= MOST_COST:
                raise InputError(
                    f"expected {name} of a query, or of a part of it, from {LEAST_COST:g} to {MOST_COST:g}, found {value:g}"
                )

    @property
    def pure(self) -> bool:
        """Return whether the cost is stated as a pure epsilon."""
        return self.epsilon is not None

    @property
    def pure_epsilon(self) -> float:
        """The stated epsilon, or else sqrt(2 rho), rounded down: a pure epsilon that costs at most the stated rho.

        Pure epsilon-DP implies rho-zCDP with rho = epsilon^2/2 (Bun & Steinke 2016, arXiv:1605.02065, Proposition 3.3).
        """
        return self._epsilon_of_rho(2.0)

    @property
    def bounded_range_epsilon(self) -> float:
        """The epsilon for a mechanism of bounded range: the stated epsilon, or else sqrt(8 rho), rounded down.

        Bounded range epsilon implies rho-zCDP with rho = epsilon^2/8 (Cesar & Rogers 2020, arXiv:2004.07223, Lemma 3.4).
        """
        return self._epsilon_of_rho(8.0)

    def _epsilon_of_rho(self, factor: float) -> float:
        """Return the stated epsilon, or else sqrt(factor rho), rounded down."""
        return self.epsilon if self.epsilon is not None else math.sqrt(factor * self.as_rho) * DOWN

    @property
    def as_rho(self) -> float:
        """The stated rho, or else epsilon^2/2, which bounds the rho of the stated pure epsilon from above.

        The square is rounded to the nearest double, so it differs from the exact one by a relative error of at most 1.2e-16 in either
        direction.
        """
        if self.rho is not None:
            return self.rho
        assert self.epsilon is not None
        return self.epsilon * self.epsilon / 2.0

    def laplace_scale(self, l1: int) -> float:
        """Return the scale of discrete Laplace noise, in units of the integers, on a vector of this L1 sensitivity, rounded up."""
        return scale_of(l1, self.pure_epsilon)

    def gaussian_sigma(self, squared_l2: int) -> float:
        """Return sigma of discrete Gaussian noise, in units of the integers, on a vector of this squared L2 sensitivity, rounded up."""
        return sigma_of(squared_l2, self.as_rho)

    def share(self, part: float) -> QueryCost:
        """Return a share of the cost, rounded down, stated as the whole cost is: as epsilon or as rho.

        part: the share, above 0 and at most 1. The caller ensures that the parts of one cost add up to at most 1.

        Raises InputError if the share of the cost is below LEAST_COST.
        """
        if self.epsilon is not None:
            return QueryCost(epsilon=self.epsilon * part * DOWN)
        return QueryCost(rho=self.as_rho * part * DOWN)
