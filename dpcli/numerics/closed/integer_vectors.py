"""Integer vectors for discrete Gaussian noise: the extreme changes that norm bounds allow, and distributions of integer combinations.

`largest_shifts` lists the extreme integer vectors within bounds on their norms. `log_masses` computes the distribution of u . X, where the
coordinates X_i are independent and P(X_i = x) is proportional to e^{-x^2/(2 sigma^2)}. Let u be an integer vector with k coordinates, none
of which is 0, and without a common divisor. Let n = |u|^2. The privacy loss of discrete Gaussian noise (noise/discrete_gaussian.py) is an
affine function of u . X, where u is the change that a record causes, and sigma the noise.

If sigma is large enough, u . X is nearly a discrete Gaussian of parameter sigma sqrt(n). The proof has five steps.

1. Completing the square shows that P(u . X = m) is proportional to c(m) e^{-m^2/(2 sigma^2 n)}. Here c(m) is the sum of
   e^{-|x|^2/(2 sigma^2)} over the lattice orthogonal to u, shifted by an amount that depends on m.
2. By Poisson summation c(m) is a constant times 1 + sum_w cos(.) e^{-2 pi^2 sigma^2 |w|^2}. The sum runs over the nonzero w of the dual
   lattice, which is the projection of Z^k along u.
3. For the projection w of an integer vector j, |w|^2 is the sum over pairs of coordinates of (j_a u_b - j_b u_a)^2 / n. At least k - 1 of
   these terms are not 0, hence |w|^2 >= (k - 1)/n.
4. Write each term of step 2 as the square of e^{-pi^2 sigma^2 |w|^2}. One of the two equal factors is at most
   e^{-pi^2 sigma^2 (k - 1)/n}.
5. The other factor, summed over w, is at most sigma sqrt(pi n) (sum_j e^{-pi^2 sigma^2 j^2})^k. To see this, integrate
   prod_i sum_j e^{-pi^2 sigma^2 (j - t u_i)^2} over t in [0, 1).

`is_discrete_gaussian` checks that the product of the bounds of steps 4 and 5 is below e^-60.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from dpcli.numerics.arrays import Array, np
from dpcli.numerics.work import spend  # counts work, and refuses a question that takes too much

# Soundness.
REACH = 40.0  # masses are computed up to this many standard deviations of u . X; less than e^-790 of the mass is beyond
WINDOW = 13.0  # a coordinate is summed up to this many standard deviations from its mean given u . X; less than e^-84 is beyond
LOG_DIFFERENCE = -60.0  # logarithm of the relative difference that counts as equality; it is far below rounding
LARGEST_COUNT = 1e300  # larger numbers of integers are reduced to this, so that they can be rounded up; the work limit then refuses
# Speed: the search for extreme vectors gives up after this many candidates, and the caller uses a bound by the norm alone.
MOST_EXAMINED = 2000


class TooManyShifts(Exception):
    """Raised if the search would have to examine more than MOST_EXAMINED vectors."""


def largest_shifts(squared: int, most: int, total: int, dimension: int) -> tuple[tuple[int, ...], ...]:
    """Return the integer vectors within the bounds in which no coordinate can be increased.

    Args:
        squared: largest squared L2 norm.
        most: largest absolute value of a coordinate.
        total: largest L1 norm.
        dimension: largest number of coordinates.

    Returns:
        Vectors of positive coordinates in decreasing order. Sort the absolute values of any vector within the bounds in decreasing order:
        then some returned vector is at least as large in each coordinate.

    Raises:
        TooManyShifts: There are more than MOST_EXAMINED candidates.
    """
    maximal = []
    for examined, shift in enumerate(_candidates(min(math.isqrt(squared), most), squared, total, dimension)):
        if examined == MOST_EXAMINED:
            raise TooManyShifts
        # No coordinate x can become x + 1, which would add 2 x + 1 to the squared norm.
        squared_left = squared - sum(x * x for x in shift)
        if not any(x < most and 2 * x + 1 <= squared_left and sum(shift) < total for x in set(shift)):
            maximal.append(shift)
    return tuple(maximal)


def _candidates(largest: int, squared: int, total: int, dimension: int) -> Iterator[tuple[int, ...]]:
    """Yield all decreasing vectors with coordinates up to `largest` within the bounds to which no further coordinate of 1 can be added.

    squared, total, dimension: largest squared L2 norm, L1 norm and number of coordinates.
    """
    if largest == 1:
        yield (1,) * min(squared, total, dimension)
        return
    for count in range(min(squared // (largest * largest), total // largest, dimension), -1, -1):
        for smaller in _candidates(largest - 1, squared - count * largest * largest, total - count * largest, dimension - count):
            yield (largest,) * count + smaller


def is_discrete_gaussian(sigma: float, norm: int, coordinates: int) -> bool:
    """Return whether every mass of u . X is that of a discrete Gaussian up to a factor 1 + e^-60, which holds if u has one coordinate.

    norm: the squared norm |u|^2. coordinates: the number of coordinates of u.
    """
    if coordinates == 1:
        return True
    exponent = math.pi * sigma
    exponent *= exponent  # pi^2 sigma^2; inf for an enormous sigma, for which `**` would raise OverflowError
    # The logarithms of the bounds of steps 5 and 4. The sum over j is at most 1 + 3 e^{-exponent} if the exponent is at least 1.
    log_sum = math.log(sigma * math.sqrt(math.pi * norm)) + coordinates * math.log1p(3.0 * math.exp(-exponent))
    return exponent >= 1.0 and log_sum - exponent * (coordinates - 1) / norm < LOG_DIFFERENCE


def reach_of(sigma: float, norm: int) -> int:
    """Return the largest value of u . X whose mass is computed. norm: the squared norm |u|^2."""
    return math.ceil(min(REACH * sigma * math.sqrt(norm), LARGEST_COUNT)) + 2


def log_masses(sigma: float, direction: tuple[int, ...], reach: int) -> Array:
    """Return log P(u . X = m) at m = -reach, ..., reach, as an array of shape (2 reach + 1,). It is -inf at impossible values of m."""
    norm = sum(u * u for u in direction)
    window = _window(sigma, direction)
    # The lattice sums are wrong near the ends of their array, so they are computed farther out.
    wide = reach if is_discrete_gaussian(sigma, norm, len(direction)) else reach + window * sum(direction)
    m = np.arange(-wide, wide + 1, dtype=float)
    log_factor = np.zeros(len(m)) if wide == reach else _log_lattice_sums(sigma, direction, window, wide)  # log c(m)
    log_mass = log_factor - m * m / (2.0 * sigma * sigma * norm)
    log_mass = log_mass[wide - reach : wide + reach + 1]
    return np.asarray(log_mass - np.logaddexp.reduce(log_mass))


def lattice_cells(sigma: float, direction: tuple[int, ...], reach: int) -> float:
    """Return about the work of `log_masses`, in cells (numerics/work.py)."""
    norm = sum(u * u for u in direction)
    if is_discrete_gaussian(sigma, norm, len(direction)):
        return 2.0 * reach
    window = _window(sigma, direction)
    return 4.0 * (reach + window * sum(direction)) * window * len(direction)


def _window(sigma: float, direction: tuple[int, ...]) -> int:
    """Return how far from its rounded mean, given the sum so far, a coordinate is summed."""
    return math.ceil(min(WINDOW * sigma, LARGEST_COUNT)) + 2 * max(direction) + 2


def _log_lattice_sums(sigma: float, direction: tuple[int, ...], window: int, wide: int) -> Array:
    """Return log c(m) of the module's proof at m = -wide, ..., wide, up to a constant.

    The coordinates of u are added one after the other. At either end of the array, `window` times the sum of the later coordinates' sizes
    entries are wrong, because their terms lie outside of the array. The caller cuts these entries off.

    For a new coordinate u, with the value x of its X, u x + m' = m for the sum m' of the coordinates before it, of squared norm n'. With
    n = n' + u^2, completing the square gives x^2 + m'^2 / n' = m^2 / n + (x - u m / n)^2 n / n'. The first term is that of step 1.
    """
    m = np.arange(-wide, wide + 1)
    norm = direction[0] ** 2
    log_sums = np.where(m % direction[0] == 0, 0.0, -np.inf)
    offsets = np.arange(-window, window + 1)
    for u in direction[1:]:
        norm_before, norm = norm, norm + u * u
        spend(float(len(m)) * len(offsets))
        x = np.round(u * m / norm).astype(int)[:, None] + offsets
        index_before = m[:, None] - u * x + wide  # the index of m'
        is_inside = (index_before >= 0) & (index_before <= 2 * wide)
        log_sums_before = np.where(is_inside, log_sums[np.clip(index_before, 0, 2 * wide)], -np.inf)
        exponents = (x - u * m[:, None] / norm) ** 2 * (norm / (2.0 * sigma * sigma * norm_before))
        log_sums = np.logaddexp.reduce(log_sums_before - exponents, axis=1)
    return np.asarray(log_sums)
