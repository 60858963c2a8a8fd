"""Discrete Gaussian noise on every entry of a vector of integers, by the shifts that a bound on its norms allows."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

from dpcli.base.values import dataclass
from dpcli.mechanisms.mechanism import Mechanism, PrivacyLoss
from dpcli.mechanisms.noise.discrete_gaussian import MAX_SUM, DiscreteGaussian, DiscreteGaussianLoss
from dpcli.mechanisms.stated.renyi import Zcdp
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.closed.conversion import zcdp_epsilon
from dpcli.numerics.closed.integer_shifts import TooManyShifts, largest_shifts
from dpcli.numerics.lattice_mass import alike, cells, log_masses, reach_of

if TYPE_CHECKING:
    from dpcli.mechanisms.stated.atoms import AtomicLoss

Shift = tuple[int, ...]
NEAR = 0.05  # below a whole number, a squared norm is that number: 1.41 was the root of 2
MOST_CELLS = 3e6  # that all shifts together may take
MOST_SHIFTS = 64
LARGEST = 300.0  # norm whose shifts are looked for


@dataclass(frozen=True, slots=True)
class Norms:
    """Bounds on the difference of two integer vectors: on |v|^2, on one coordinate, on the sum of their sizes, on their number."""

    squared: int
    most: int
    total: int
    dimension: int

    @classmethod
    def stated(cls, l2: float, linf: int | None, l1: int | None, dimension: int | None, group: int = 1) -> Norms:
        """Of the sum of `group` differences within what is stated, and what L2 implies of whole numbers: a squared norm that is one,
        rounded down but for NEAR, and no less than the sum of the sizes."""
        squared = math.floor(l2 * l2 + NEAR)
        most, total = min(linf or squared, math.isqrt(squared)), min(l1 or squared, squared)
        return cls(squared * group**2, most * group, total * group, min(dimension or total * group, total * group))


@dataclass(frozen=True, slots=True)
class DiscreteGaussianVector(Mechanism):
    """Noise with probability proportional to e^{-x^2/(2 sigma^2)} on every entry of a vector that moves by one of `shifts`, or less.

    Between outputs of x and x + v the loss of y is (|v|^2 + 2 v . (y - x - v)) / (2 sigma^2) under P, a whole number over 2 sigma^2, so its
    distribution is that of v . X (numerics/lattice_mass.py). One coordinate more, or a larger one, loses at least as much: noise on the
    integers is log-concave, so the best tests are thresholds, whose power grows with the shift, and domination survives products. So
    the shifts that no other one exceeds stand for all, and for several of them the largest of their pairs (numerics/largest_pair.py).
    A shift and its negative have each other's pair reversed, and by symmetry of the noise the same one.

    rho = |v|^2/(2 sigma^2): Canonne, Kamath, Steinke 2020, arXiv:2004.00010, Theorem 14. Attained where there is one shift: by it.
    """

    sigma: float
    shifts: tuple[Shift, ...]

    def approx_dp(self, delta: float) -> float:
        """The zCDP conversion, an upper bound."""
        return zcdp_epsilon(self.zcdp(), delta) if delta > 0.0 else math.inf

    def zcdp(self) -> float:
        return 0.5 * max(map(_squared, self.shifts)) / self.sigma**2 * (1.0 + 1e-15)

    def attained(self) -> bool:
        return len(self.shifts) == 1

    def witness(self, order: float) -> Mechanism:
        """The shift that loses most at this order."""
        at = np.array([order])
        return max((DiscreteGaussianVector(self.sigma, (shift,)) for shift in self.shifts), key=lambda one: float(one.rdp(at)[0]))

    def losses(self) -> tuple[PrivacyLoss]:
        return (_loss(self.sigma, self.shifts),)

    def rdp(self, orders: Array) -> Array:
        """The largest over the shifts: coordinates add up."""
        return np.asarray(np.max([_renyi(self.sigma, shift, orders) for shift in self.shifts], axis=0))


def _squared(shift: Shift) -> int:
    return sum(x * x for x in shift)


def _renyi(sigma: float, shift: Shift, orders: Array) -> Array:
    z = orders - 1.0
    total = 0.0 * z
    for x in sorted(set(shift)):
        total = total + shift.count(x) * DiscreteGaussianLoss(sigma, x).cgf(z)
    return np.asarray(total / z)


@lru_cache(maxsize=16)
def _loss(sigma: float, shifts: tuple[Shift, ...]) -> AtomicLoss:
    from dpcli.mechanisms.stated.atoms import AtomicLoss
    from dpcli.numerics.largest_pair import largest_pair

    pairs = [_pair(sigma, shift) for shift in shifts]
    unit = 0.5 / sigma**2
    if len(pairs) == 1:
        ((losses, log_p),) = pairs
        reached = log_p > -np.inf
        losses, log_p = losses[reached] * unit, log_p[reached]
        log_q = log_p - losses
    else:
        log_q, losses = largest_pair(unit, pairs)
    return AtomicLoss(tuple(log_q.tolist()), tuple(losses.tolist()))


def _pair(sigma: float, shift: Shift) -> tuple[Array, Array]:
    """Losses in units of 1 / (2 sigma^2), as many above 0 as below, and their log masses under P."""
    divisor = math.gcd(*shift)
    direction = tuple(x // divisor for x in shift)
    norm = _squared(direction)
    reach = reach_of(sigma, norm)
    log_mass = log_masses(sigma, direction, reach + divisor * norm)
    m = np.arange(-reach - divisor * norm, reach + 1.0)
    return divisor * (divisor * norm + 2 * m), log_mass[: len(m)]


def vector_of(sigma: float, norms: Norms) -> Mechanism:
    """The mechanism that dominates every shift within the norms; by rho alone where its shifts are too many, or its outcomes.

    Shifts whose combinations are distributed alike (numerics/lattice_mass.py) count once; where that leaves one, it is one integer with
    more noise: v . X over the divisor g of v = g u is a discrete Gaussian of parameter sigma |u|, which moves by g |u|^2.
    """
    bare = Zcdp(0.5 * norms.squared / sigma**2)
    try:
        shifts = largest_shifts(norms.squared, norms.most, norms.total, norms.dimension)
    except TooManyShifts:
        return bare
    different = {_distribution(sigma, shift): shift for shift in shifts}
    if len(different) == 1 and _norm_of(shifts[0])[1] * sigma**2 <= MAX_SUM**2:
        divisor, norm = _norm_of(shifts[0])
        if alike(sigma, norm, len(shifts[0])):
            return DiscreteGaussian(sigma * math.sqrt(norm) * (1.0 - 4e-16), divisor * norm)
    if len(different) > MOST_SHIFTS or sum(_cells(sigma, shift) for shift in different.values()) > MOST_CELLS:
        return bare
    return DiscreteGaussianVector(sigma, tuple(sorted(different.values())))


def _norm_of(shift: Shift) -> tuple[int, int]:
    """The common divisor g, and |u|^2 of v = g u."""
    divisor = math.gcd(*shift)
    return divisor, _squared(shift) // divisor**2


def _distribution(sigma: float, shift: Shift) -> Shift:
    """What shifts with the same distribution share."""
    divisor, norm = _norm_of(shift)
    return (divisor, norm) if alike(sigma, norm, len(shift)) else (0, *shift)


def _cells(sigma: float, shift: Shift) -> float:
    divisor, norm = _norm_of(shift)
    direction = tuple(x // divisor for x in shift)
    reach = reach_of(sigma, norm) + divisor * norm
    return cells(sigma, direction, reach) + 30.0 * reach
