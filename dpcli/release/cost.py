"""The cost of a query, as pure epsilon or as rho of zCDP, with conversions between them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpcli.base.errors import InputError
from dpcli.release.noise.laws import scale_of, sigma_of

DOWN = 1.0 - 1e-15  # a factor by which a product or a root of doubles is no longer above the exact one
LEAST, MOST = 1e-100, 1e100  # of a cost: its square, and what it divides, are doubles


@dataclass(frozen=True, slots=True)
class QueryCost:
    """A cost stated as pure epsilon or as rho of zCDP, never both."""

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
        """The stated epsilon, or the largest pure epsilon that costs no more than rho.

        A pure epsilon costs at most epsilon^2/2 (Bun & Steinke 2016, arXiv:1605.02065, Proposition 3.3).
        """
        return self.epsilon if self.epsilon is not None else math.sqrt(2.0 * self.as_rho) * DOWN

    @property
    def bounded_range_epsilon(self) -> float:
        """The epsilon of a mechanism of bounded range: as stated, or the largest that costs no more than rho.

        Bounded range epsilon costs epsilon^2/8 (Cesar & Rogers 2020, arXiv:2004.07223, Lemma 3.4).
        """
        return self.epsilon if self.epsilon is not None else math.sqrt(8.0 * self.as_rho) * DOWN

    @property
    def as_rho(self) -> float:
        """rho as stated, or the most that the pure epsilon costs."""
        if self.rho is not None:
            return self.rho
        assert self.epsilon is not None
        return self.epsilon * self.epsilon / 2.0

    def laplace_scale(self, l1: int) -> float:
        """Return the scale of discrete Laplace noise on a vector of this L1 sensitivity, rounded up."""
        return scale_of(l1, self.pure_epsilon)

    def gaussian_sigma(self, squared_l2: int) -> float:
        """Return sigma of discrete Gaussian noise on a vector whose L2 sensitivity has this square, rounded up."""
        return sigma_of(squared_l2, self.as_rho)

    def share(self, part: float) -> QueryCost:
        """Return a part of the cost, from 0 to 1; parts that add up to 1 cost no more together than the whole."""
        return (
            QueryCost(epsilon=self.epsilon * part * DOWN) if self.epsilon is not None else QueryCost(rho=self.as_rho * part * DOWN)
        )
