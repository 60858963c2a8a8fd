"""The cost of a query as a pure epsilon or as rho of zCDP, and conversions between the two."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpcli.base.errors import InputError
from dpcli.release.noise.laws import scale_of, sigma_of

DOWN = 1.0 - 1e-15  # factor that makes a rounded product or root of doubles at most the exact value
LEAST, MOST = 1e-100, 1e100  # range of a cost; within it, squares and quotients neither overflow nor underflow


@dataclass(frozen=True, slots=True)
class QueryCost:
    """A cost that is stated either as a pure epsilon or as rho of zCDP. Exactly one of the two is not None."""

    epsilon: float | None = None
    rho: float | None = None

    def __post_init__(self) -> None:
        for name, value in (("epsilon", self.epsilon), ("rho", self.rho)):
            if value is not None and not LEAST <= value <= MOST:
                raise InputError(f"expected {name} of a query, or of a part of it, from {LEAST:g} to {MOST:g}, found {value:g}")

    @property
    def pure(self) -> bool:
        return self.epsilon is not None

    @property
    def pure_epsilon(self) -> float:
        """The stated epsilon, or else the largest pure epsilon whose rho is at most the stated rho.

        The rho of a pure epsilon is at most epsilon^2/2 (Bun & Steinke 2016, arXiv:1605.02065, Proposition 3.3).
        """
        return self.epsilon if self.epsilon is not None else math.sqrt(2.0 * self.as_rho) * DOWN

    @property
    def bounded_range_epsilon(self) -> float:
        """The epsilon of a mechanism of bounded range: the stated epsilon, or else the largest whose rho is at most the stated rho.

        The rho of a mechanism with bounded range epsilon is epsilon^2/8 (Cesar & Rogers 2020, arXiv:2004.07223, Lemma 3.4).
        """
        return self.epsilon if self.epsilon is not None else math.sqrt(8.0 * self.as_rho) * DOWN

    @property
    def as_rho(self) -> float:
        """The stated rho, or else an upper bound on the rho of the stated pure epsilon."""
        if self.rho is not None:
            return self.rho
        assert self.epsilon is not None
        return self.epsilon * self.epsilon / 2.0

    def laplace_scale(self, l1: int) -> float:
        """Return the scale of discrete Laplace noise on a vector of this L1 sensitivity, rounded up."""
        return scale_of(l1, self.pure_epsilon)

    def gaussian_sigma(self, squared_l2: int) -> float:
        """Return sigma, rounded up, of discrete Gaussian noise on a vector whose squared L2 sensitivity is given."""
        return sigma_of(squared_l2, self.as_rho)

    def share(self, part: float) -> QueryCost:
        """Return a share of the cost, rounded down.

        Args:
            part: The share, from 0 to 1. Shares that add up to 1 cost together at most the whole cost.
        """
        if self.epsilon is not None:
            return QueryCost(epsilon=self.epsilon * part * DOWN)
        return QueryCost(rho=self.as_rho * part * DOWN)
