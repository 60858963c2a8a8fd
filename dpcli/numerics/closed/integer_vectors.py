"""Vectors of integers: those that bounds on norms allow, and whole-number combinations of discrete Gaussians.

`log_masses` is the distribution of u . X, each X_i proportional to e^{-x^2/(2 sigma^2)}. Let n = |u|^2, and let u have k coordinates, none
0, without a common divisor.

u . X is nearly a discrete Gaussian of parameter sigma sqrt(n), for this reason. Completing the square, P(u . X = m) is proportional to
c(m) e^{-m^2/(2 sigma^2 n)}, where c(m) is the sum of e^{-|x|^2/(2 sigma^2)} over the points x of a lattice: that orthogonal to u, shifted
by an amount that depends on m. By Poisson summation c(m) is a constant times 1 + sum_w cos(.) e^{-2 pi^2 sigma^2 |w|^2}. The sum runs over
the nonzero w of the dual lattice, which is Z^k projected along u, so that |w|^2 is the sum over pairs of (j_a u_b - j_b u_a)^2 / n. At
least k - 1 of these are not 0, hence |w|^2 >= (k - 1)/n.

Write each term as the square of e^{-pi^2 sigma^2 |w|^2}. One factor is at most e^{-pi^2 sigma^2 (k - 1)/n}. The other, summed over w, is at
most sigma sqrt(pi n) (sum_j e^{-pi^2 sigma^2 j^2})^k: integrate prod_i sum_j e^{-pi^2 sigma^2 (j - t u_i)^2} over t in [0, 1).
`is_discrete_gaussian` checks that the product of both bounds is below e^-60.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from dpcli.numerics.arrays import Array, np
from dpcli.numerics.work import spend

MOST_LOOKS = 2000  # vectors that are examined before the search gives up
REACH = 40.0  # standard deviations of the combination within which masses are computed; the rest weighs less than e^-790
WINDOW = 13.0  # standard deviations of one coordinate, given the sum, that are added up; the rest weighs less than e^-84
LOG_DIFFERENCE = -60.0  # logarithm of the relative difference that counts as none; it is far below rounding


class TooManyShifts(Exception):
    """Raised where more vectors would have to be looked at than MOST_LOOKS."""


def largest_shifts(squared: int, most: int, total: int, dimension: int) -> tuple[tuple[int, ...], ...]:
    """The vectors v with |v|^2 <= squared that are maximal coordinate by coordinate.

    Args:
        most: bound on one coordinate. total: on their sum. dimension: on how many there are.

    Returns:
        Vectors of positive coordinates, in decreasing order. For every vector within the bounds there is one of these that is at least
        as large in each coordinate, once its coordinates are sorted by absolute value. Raises TooManyShifts.
    """
    maximal = []
    for looked, shift in enumerate(_within(min(math.isqrt(squared), most), squared, total, dimension)):
        if looked == MOST_LOOKS:
            raise TooManyShifts
        left = squared - sum(x * x for x in shift)
        if not any(x < most and 2 * x + 1 <= left and sum(shift) < total for x in set(shift)):
            maximal.append(shift)
    return tuple(maximal)


def _within(largest: int, squared: int, total: int, places: int) -> Iterator[tuple[int, ...]]:
    """All with coordinates up to `largest`, to which no coordinate of 1 can be added."""
    if largest == 1:
        yield (1,) * min(squared, total, places)
        return
    for count in range(min(squared // (largest * largest), total // largest, places), -1, -1):
        for rest in _within(largest - 1, squared - count * largest * largest, total - count * largest, places - count):
            yield (largest,) * count + rest


def is_discrete_gaussian(sigma: float, norm: int, coordinates: int) -> bool:
    """Return whether u . X is a discrete Gaussian up to a factor 1 + e^-60 in every mass; one coordinate always is."""
    if coordinates == 1:
        return True
    turn = math.pi * sigma
    turn *= turn  # inf of an enormous sigma, where a power would raise
    log_sum = math.log(sigma * math.sqrt(math.pi * norm)) + coordinates * math.log1p(3.0 * math.exp(-turn))
    return log_sum - turn * (coordinates - 1) / norm < LOG_DIFFERENCE


def reach_of(sigma: float, norm: int) -> int:
    """Return the largest value of the combination that is looked at."""
    return math.ceil(min(REACH * sigma * math.sqrt(norm), 1e300)) + 2


def log_masses(sigma: float, direction: tuple[int, ...], reach: int) -> Array:
    """log P(u . X = m) at m = -reach .. reach, rounding aside; shape (2 reach + 1,), -inf where nothing reaches m."""
    norm = sum(u * u for u in direction)
    window = _window(sigma, direction)
    wide = reach if is_discrete_gaussian(sigma, norm, len(direction)) else reach + window * sum(direction)
    m = np.arange(-wide, wide + 1, dtype=float)
    log_share = np.zeros(len(m)) if wide == reach else _shares(sigma, direction, window, wide)
    log_mass = log_share - m * m / (2.0 * sigma * sigma * norm)
    log_mass = log_mass[wide - reach : wide + reach + 1]
    return np.asarray(log_mass - np.logaddexp.reduce(log_mass))


def lattice_cells(sigma: float, direction: tuple[int, ...], reach: int) -> float:
    norm = sum(u * u for u in direction)
    if is_discrete_gaussian(sigma, norm, len(direction)):
        return 2.0 * reach
    window = _window(sigma, direction)
    return 4.0 * (reach + window * sum(direction)) * window * len(direction)


def _window(sigma: float, direction: tuple[int, ...]) -> int:
    return math.ceil(min(WINDOW * sigma, 1e300)) + 2 * max(direction) + 2


def _shares(sigma: float, direction: tuple[int, ...], window: int, wide: int) -> Array:
    """log c(m) at m = -wide .. wide, one coordinate after the other; right but for `window` times each coordinate at the ends."""
    m = np.arange(-wide, wide + 1)
    norm = direction[0] ** 2
    log_share = np.where(m % direction[0] == 0, 0.0, -np.inf)
    offsets = np.arange(-window, window + 1)
    for u in direction[1:]:
        before, norm = norm, norm + u * u
        spend(float(len(m)) * len(offsets))
        x = np.round(u * m / norm).astype(int)[:, None] + offsets
        place = m[:, None] - u * x + wide
        inside = (place >= 0) & (place <= 2 * wide)
        rest = np.where(inside, log_share[np.clip(place, 0, 2 * wide)], -np.inf)
        log_share = np.logaddexp.reduce(rest - (x - u * m[:, None] / norm) ** 2 * (norm / (2.0 * sigma * sigma * before)), axis=1)
    return np.asarray(log_share)
