"""Mixtures of unit normal distributions on the line, given by their density ratio m to N(0, 1).

For example, Gaussian noise on a Poisson sample: the weight of shift s_j is the probability that the sampled records move the sum by s_j
standard deviations of the noise. The privacy loss of such a step is log r with r = dP/dQ = m or 1/m (noise/normal_mixture.py), and
K(z) = log E_Q[r^{z+1}] is its CGF.

`Mixture` is one mixture with any number of shifts. `Shifted` is a table of mixtures with one shift each, one mixture in each row:
m_i(x) = 1 - q_i + q_i e^{s_i x - s_i^2/2}. A composition may have a thousand different mixtures. Calls of array functions for each of them
would then cost more than the arithmetic, so a table evaluates all its rows in one call.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, Self, TypeVar

from dpcli.base.values import dataclass
from dpcli.numerics.arrays import Array, ComplexArray, IndexArray, np
from dpcli.numerics.logspace import EXACT_RECORDS, log1p_complex, log_binomial, log_expm1_array, log_normal, log_normal_ends
from dpcli.numerics.products import product
from dpcli.numerics.quadrature import MAX_NODES, TAIL, moments_on, step_below, step_size  # TAIL: deviations beyond a peak
from dpcli.numerics.roots import increasing_root
from dpcli.numerics.tails import mixed
from dpcli.numerics.work import hold, spend  # limits on memory and on work

Line = TypeVar("Line", Array, ComplexArray)
LARGE_EXPONENT = 30.0  # log m is log1p(m - 1) up to it; above, it is summed from logarithms, which cannot overflow
LEAST_CHANGE = -0.5  # m - 1 below which log m is summed from logarithms too, because the digits of w_0 are lost
# Accuracy and speed: fewer shifts give a mixture that dominates by more. A group is the records of one unit of privacy.
EXACT = EXACT_RECORDS  # largest group whose weights are all kept; a larger group's are rounded up to this many shifts
MIDDLE = 48  # number of the EXACT shifts that are near the mean, where nearly all of the weight is
DEVIATIONS = 8.0  # half-width in standard deviations of the range that counts as near the mean
MOST_RECORDS = 100_000  # larger groups are bounded by one record of their total size
# Speed and memory.
BLOCK = 1 << 17  # numbers of a table that are computed at a time, so that they stay in the processor's cache
FEWEST_IN_TABLE = 6  # fewest rows for which one table is faster than separate losses
NODE_RATIO = 1.2  # largest ratio between the node counts of rows in one block, because each row gets as many nodes as the longest
MORE_NODES = 4.0  # nodes by which a count may exceed that ratio, so that rows with few nodes share a block
# Bisection for a peak ends at this width, or after so many steps. Any place that satisfies the condition of `left_peak` is sound.
PEAK_WIDTH, HALVINGS = 0.5, 60


def log_excess(at: Array, log_rest: float) -> Array:
    """Return log(e^at - e^log_rest), which is -inf at and below log_rest."""
    return log_expm1_array(np.maximum(at - log_rest, 0.0)) + log_rest if log_rest > -math.inf else at


def unmix(at: Array, log_rest: float, weight: float) -> Array:
    """Return u with log(w_0 + w e^u) = at, where w = `weight` > 0 and w_0 = e^log_rest = 1 - w. It is -inf at and below log_rest."""
    with np.errstate(all="ignore"):
        change = np.expm1(np.clip(at, -LARGE_EXPONENT, LARGE_EXPONENT)) / weight  # e^u - 1
        near = (np.abs(at) < LARGE_EXPONENT) & (change > LEAST_CHANGE) & (change < np.inf)  # a small `at` keeps its digits here
        return np.where(near, np.log1p(np.maximum(change, LEAST_CHANGE)), log_excess(at, log_rest) - math.log(weight))


@dataclass(frozen=True, slots=True)
class Mixture:
    """The density ratio m(x) = sum_j w_j N(s_j, 1)(x) / N(0, 1)(x) on the line.

    log_rest: the logarithm of the weight w_0 of shift 0; -inf if that weight is 0.
    log_weights, shifts: the logarithms of the other weights, and the other shifts, which are positive and increasing.
    weights: the other weights themselves, if they are known. A small weight has digits that its logarithm lacks.
    """

    log_rest: float
    log_weights: tuple[float, ...]
    shifts: tuple[float, ...]
    weights: tuple[float, ...] | None = None

    @property
    def reach(self) -> float:
        """The largest shift."""
        return self.shifts[-1]

    @property
    def single(self) -> bool:
        """Return whether there is only one positive shift, for which most quantities have a closed form."""
        return len(self.shifts) == 1

    def _exponents(self, x: Any) -> Any:
        """Return log(N(s_j, 1) / N(0, 1)) at x, with one row for each positive shift."""
        shifts = np.array(self.shifts)[:, None]
        return shifts * x[None, :] - 0.5 * shifts * shifts

    def log_ratio(self, x: Line) -> Line:
        """Return log m(x), with all its digits near m = 1.

        x: real, or complex with |Im x| reach <= pi / 2, where m has no zeros.
        """
        if not self.single:
            hold(2.0 * len(self.shifts) * len(x))
        u = self._exponents(x)
        weights = np.exp(self.log_weights) if self.weights is None else np.array(self.weights)
        by_logarithms = u.real.max(axis=0) > LARGE_EXPONENT
        change = product(weights, np.expm1(np.where(by_logarithms, 0.0, u) if by_logarithms.any() else u))  # m - 1
        logarithm: Any = log1p_complex(change) if np.iscomplexobj(x) else np.log1p(np.maximum(change, LEAST_CHANGE))
        result: Line = logarithm
        by_logarithms |= change.real < LEAST_CHANGE
        if by_logarithms.any():
            result[by_logarithms] = self._log_sum(u[:, by_logarithms])
        return result

    def _log_sum(self, u: Any) -> Any:
        """Return log m from the exponents u, as a sum of terms in the logarithmic domain."""
        terms = np.array(self.log_weights)[:, None] + u
        if not np.iscomplexobj(u):
            return np.logaddexp(np.logaddexp.reduce(terms, axis=0), self.log_rest)
        top = np.maximum(terms.real.max(axis=0), self.log_rest)
        return top + np.log(np.exp(terms - top).sum(axis=0) + np.exp(self.log_rest - top))

    def moment_bound(self, z: Array, stretch: float = 1.0) -> Array:
        """Return log sum_j w_j e^{K_j(z)}, where K_j is the CGF of a Gaussian that is moved by stretch * s_j.

        The moment is convex in the pair of distributions, so this is an upper bound on the CGF of the mixture in both directions.
        """
        terms = [w + 0.5 * (stretch * s) ** 2 * z * (z + 1.0) for w, s in zip(self.log_weights, self.shifts, strict=True)]
        return np.asarray(np.logaddexp.reduce(np.array([np.full_like(z, self.log_rest), *terms]), axis=0))

    def log_mean(self, k: float) -> float:
        """Return the logarithm of the mean of e^{k x} under m N(0, 1)."""
        shifted = [w + k * s for w, s in zip(self.log_weights, self.shifts, strict=True)]
        return float(np.logaddexp.reduce([self.log_rest, *shifted])) + 0.5 * k * k

    def outcome(self, at: Array) -> Array:
        """Return x with log m(x) = at. It increases with `at`, and is -inf at and below log_rest, the infimum of log m."""
        if self.single:
            weight = math.exp(self.log_weights[0]) if self.weights is None else self.weights[0]
            return unmix(at, self.log_rest, weight) / self.reach + 0.5 * self.reach
        target = log_excess(at, self.log_rest)
        inside = target > -np.inf
        target = np.where(inside, target, 0.0)
        return np.where(inside, increasing_root(self.log_sum_and_slope, target, *self.bracket(target)), -np.inf)

    def bracket(self, log_sum: Array) -> tuple[Array, Array]:
        """Return a lower and an upper bound on the x at which the positive shifts' sum, sum_{j>0} w_j e^{s_j x - s_j^2/2}, is e^log_sum."""
        shifts, weights = np.array(self.shifts)[:, None], np.array(self.log_weights)[:, None]
        low = ((log_sum - np.logaddexp.reduce(weights)) / shifts + 0.5 * shifts).min(axis=0)  # some term is at least the mean
        return low, ((log_sum - weights) / shifts + 0.5 * shifts).min(axis=0)  # no term exceeds the sum

    def log_sum_and_slope(self, x: Array) -> tuple[Array, Array]:
        """Return the logarithm of the positive shifts' sum at x, and its derivative."""
        spend(0.2 * len(self.shifts) * len(x))
        terms = np.array(self.log_weights)[:, None] + self._exponents(x)
        top = terms.max(axis=0)
        parts = np.exp(terms - top)
        total = parts.sum(axis=0)
        return top + np.log(total), (np.array(self.shifts)[:, None] * parts).sum(axis=0) / total

    def ends(self, normal: tuple[Array, Array], x: Array, sign: float = 1.0) -> tuple[Array, Array]:
        """Return the logarithms of the mass of m N(0, 1) above and below x; for sign -1 those of its mirror image.

        normal: the logarithms of the mass of N(0, 1) above and below x.
        """
        above, below = log_normal_ends(x - sign * np.array(self.shifts)[:, None])
        log_weights = [self.log_rest, *self.log_weights]
        return mixed(log_weights, [normal[0], *above]), mixed(log_weights, [normal[1], *below])

    def left_peak(self, power: float) -> float:
        """Return s >= 0 such that at -s - d, for d > 0, N(0, 1) m^-power is at most its value at -s times e^{-d^2 / 2}.

        The condition is s >= power * (slope of log m at -s). Bisection finds such an s, because log m is convex and its slope increases.
        """
        low, high = 0.0, power * self._slope(0.0)
        for _ in range(HALVINGS):
            if high - low <= PEAK_WIDTH:
                break
            middle = 0.5 * (low + high)
            low, high = (low, middle) if middle >= power * self._slope(-middle) else (middle, high)
        return high

    def _slope(self, x: float) -> float:
        """Return the derivative of log m at x."""
        terms = [w + s * x - 0.5 * s * s for w, s in zip(self.log_weights, self.shifts, strict=True)]
        top = max(*terms, self.log_rest)
        parts = [math.exp(term - top) for term in terms]
        return math.fsum(map(operator.mul, self.shifts, parts)) / (math.fsum(parts) + math.exp(self.log_rest - top))


@functools.lru_cache(1 << 14)
def binomial_mixture(mu: float, rate: float, records: int) -> Mixture:
    """Return the mixture with shifts j mu and Binomial(records, rate) weights, rate in (0, 1).

    For more than EXACT records it is a mixture that dominates this one. A mixture with more weight at larger shifts dominates
    (normal_mixture.py, laplace_mixture.py), so the numbers of sampled records are rounded up to at most EXACT different numbers. These are
    evenly spaced within DEVIATIONS standard deviations of the mean, and in equal ratios above.
    """
    if records <= EXACT:
        weights = log_binomial(records, rate)
        shifts = tuple(mu * j for j in range(1, records + 1))
        return Mixture(weights[0], tuple(weights[1:]), shifts, (rate,) if records == 1 else None)
    counts = _sampled_counts(records, rate)
    exact = np.array(log_binomial(records, rate)[1:])
    # The weight of a count is that of all numbers above the count before it, up to itself. The logarithms may have been rounded down. They
    # are increased by more than that error, at the cost of the smallest numbers' weight.
    log_weights = np.logaddexp.reduceat(exact, [0, *counts[:-1]]) + 4e-15 * math.lgamma(records + 1)
    masses = np.exp(log_weights)
    room = np.maximum(1.0 - (masses[::-1].cumsum()[::-1] - masses), 0.0)  # what the larger counts leave of 1
    log_weights = np.minimum(log_weights, np.log(np.maximum(room, math.ulp(0.0))))
    total = math.fsum(np.exp(log_weights).tolist())
    return Mixture(math.log1p(-total) if total < 1.0 else -math.inf, tuple(log_weights.tolist()), tuple(mu * j for j in counts))


def _sampled_counts(records: int, rate: float) -> list[int]:
    """Return at most EXACT numbers of sampled records in increasing order; the last is `records`."""
    mean, deviation = records * rate, math.sqrt(records * rate * (1.0 - rate))
    low = max(math.floor(mean - DEVIATIONS * deviation), 1)
    high = min(max(math.ceil(mean + DEVIATIONS * deviation), low + MIDDLE), records)
    middle = range(low, high, math.ceil((high - low) / MIDDLE))
    beyond = np.ceil(np.geomspace(high, records, EXACT - MIDDLE)).tolist()
    return sorted({*middle, *(min(int(number), records) for number in beyond), records})


@dataclass(frozen=True, slots=True, eq=False)
class Shifted:
    """A table of pairs (P, Q) in which one distribution is a mixture with one shift, and the other is N(0, 1).

    shifts: s_i > 0, shape (rows,). weights: q_i in (0, 1), shape (rows,). Each subclass defines Q and r = P/Q.
    """

    shifts: Array
    weights: Array

    def at(self, rows: IndexArray) -> Self:
        """Return the table of the rows with these indices, which may repeat and be in any order."""
        return type(self)(self.shifts[rows], self.weights[rows])

    def _log_mixture(self, x: Array) -> Array:
        """Return log m at nodes of shape (rows, nodes), with all its digits near m = 1."""
        s, weight = self.shifts[:, None], self.weights[:, None]
        u = s * x - 0.5 * s * s
        change = weight * np.expm1(np.minimum(u, LARGE_EXPONENT))  # m - 1
        result: Array = np.log1p(np.maximum(change, LEAST_CHANGE))
        by_logarithms = (u > LARGE_EXPONENT) | (change < LEAST_CHANGE)  # as in `Mixture.log_ratio`
        if by_logarithms.any():
            row, _ = np.nonzero(by_logarithms)
            result[by_logarithms] = np.logaddexp(u[by_logarithms] + np.log(self.weights)[row], np.log1p(-self.weights)[row])
        return result

    def _log_mixture_above(self, x: Array, heights: Array) -> tuple[Array, Array]:
        """Return log |m| and arg m at x + i height, both of shape (rows, heights, nodes).

        x: shape (rows, nodes). heights: shape (rows, heights).
        """
        s, weight = self.shifts[:, None], self.weights[:, None, None]
        u = (s * x - 0.5 * s * s)[:, None, :]
        turn = (s * heights)[:, :, None]
        # The real and the imaginary part of m - 1, in which nothing cancels: e^u cos(turn) - 1 is (e^u - 1) cos(turn) - (1 - cos(turn)).
        growth, cosine, sine = np.expm1(np.minimum(u, LARGE_EXPONENT)), np.cos(turn), np.sin(turn)
        real = weight * (growth * cosine - 2.0 * np.sin(0.5 * turn) ** 2)
        imaginary = weight * (1.0 + growth) * sine
        log_modulus: Array = 0.5 * np.log1p(np.maximum(real * (2.0 + real) + imaginary * imaginary, -0.9))
        angle: Array = np.arctan2(imaginary, 1.0 + real)
        by_logarithms = np.broadcast_to(u > LARGE_EXPONENT, real.shape) | (real < LEAST_CHANGE)
        if by_logarithms.any():  # the terms q e^u and 1 - q, in units of the larger one
            row, line, node = np.nonzero(by_logarithms)
            log_shifted, log_rest = u[row, 0, node] + np.log(self.weights)[row], np.log1p(-self.weights)[row]
            top = np.maximum(log_shifted, log_rest)
            shifted, unshifted, phase = np.exp(log_shifted - top), np.exp(log_rest - top), turn[row, line, 0]
            real_part, imaginary_part = shifted * np.cos(phase) + unshifted, shifted * np.sin(phase)
            log_modulus[by_logarithms] = top + np.log(np.hypot(real_part, imaginary_part))
            angle[by_logarithms] = np.arctan2(imaginary_part, real_part)
        return log_modulus, angle

    def line(self, x: Array) -> tuple[Array, Array]:
        """Return log Q and log r at nodes of shape (rows, nodes)."""
        raise NotImplementedError

    def lines(self, x: Array, heights: Array) -> tuple[Array, Array, Array]:
        """Return log |Q|, log |r| and |arg r| at x + i height, each of shape (rows, heights, nodes)."""
        raise NotImplementedError

    def windows(self, z: Array) -> tuple[Array, Array]:
        """Return for each row the ends of an interval outside of which less than e^-40 of Q r^{z+1} lies, at the row's own z."""
        raise NotImplementedError

    def steps(self, z: Array) -> Array:
        """Return for each row a node distance at which the trapezoidal rule for Q r^{z+1} errs by less than 2 e^-40, relative."""
        steps: Array = step_size(z + 1.0, self.shifts)
        return steps

    def cgf_windows(self, z: Array) -> tuple[Array, Array]:
        """Return `windows`, widened for the integrand of the CGF, which at small z is Q (r - 1)^2."""
        low, high = self.windows(z)
        return low, np.maximum(high, 2.0 * self.shifts + TAIL)

    def cgf(self, z: Array) -> Array:
        """Return K_i(z_i) for each row's own z > 0: upper bounds about 1e-12 too large, relative, as `power_moment` returns for one loss.

        A row that would need more than MAX_NODES nodes gets the convexity bound of `Mixture.moment_bound` instead.
        """
        low, high = self.cgf_windows(z)
        step = self.steps(z)
        result = np.empty(len(z))
        count = (high - low) / step
        many = ~(count < MAX_NODES)
        if many.any():
            moment = 0.5 * self.shifts[many] ** 2 * z[many] * (z[many] + 1.0)
            result[many] = np.logaddexp(np.log1p(-self.weights[many]), np.log(self.weights[many]) + moment)
        with np.errstate(all="ignore"):  # a term that overflows makes the moment infinite: an upper bound
            for rows in row_groups(np.flatnonzero(~many), count):
                x = nodes_of_rows(low[rows], high[rows], step[rows])
                spend(float(x.size))
                result[rows] = moments_on(z[rows], *self.at(rows).line(x), step[rows])
        return result


@dataclass(frozen=True, slots=True, eq=False)
class ShiftedRemove(Shifted):
    """The pairs (m N(0, 1), N(0, 1)), in which r = m."""

    def line(self, x: Array) -> tuple[Array, Array]:
        return log_normal(x), self._log_mixture(x)

    def lines(self, x: Array, heights: Array) -> tuple[Array, Array, Array]:
        log_modulus, angle = self._log_mixture_above(x, heights)
        return log_normal(x)[:, None, :] + 0.5 * heights[:, :, None] ** 2, log_modulus, np.abs(angle)

    def windows(self, z: Array) -> tuple[Array, Array]:
        return np.full(len(z), -TAIL), (z + 1.0) * self.shifts + TAIL


@dataclass(frozen=True, slots=True, eq=False)
class ShiftedAdd(Shifted):
    """The pairs (N(0, 1), m N(0, 1)), in which r = 1/m."""

    def line(self, x: Array) -> tuple[Array, Array]:
        ratio = self._log_mixture(x)
        return log_normal(x) + ratio, -ratio

    def lines(self, x: Array, heights: Array) -> tuple[Array, Array, Array]:
        log_modulus, angle = self._log_mixture_above(x, heights)
        base = log_normal(x)[:, None, :] + 0.5 * heights[:, :, None] ** 2
        return base + log_modulus, -log_modulus, np.abs(angle)

    def windows(self, z: Array) -> tuple[Array, Array]:
        return -TAIL - self._left_peak(z), self.shifts + TAIL

    def _left_peak(self, power: Array) -> Array:
        """Return `Mixture.left_peak` of each row, at the row's own power."""
        low, high = np.zeros_like(power), power * self._slope(np.zeros_like(power))
        for _ in range(HALVINGS):
            if not (high - low > PEAK_WIDTH).any():
                break
            middle = 0.5 * (low + high)
            enough = middle >= power * self._slope(-middle)
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        return high

    def _slope(self, x: Array) -> Array:
        """Return the derivative of log m at each row's own x: the shift times the share of its term in m."""
        log_shifted = np.log(self.weights) + self.shifts * x - 0.5 * self.shifts**2
        return self.shifts / (1.0 + np.exp(np.minimum(np.log1p(-self.weights) - log_shifted, 700.0)))

    def steps(self, z: Array) -> Array:
        steps: Array = np.maximum(step_size(z + 1.0, self.shifts), step_below(z, self.shifts, np.log1p(-self.weights)))
        return steps


@dataclass(frozen=True, slots=True)
class TableRow:
    """The parameters of a loss that a table of its family can hold as a row."""

    family: type[Shifted]
    shift: float
    weight: float


def single_row(family: type[Shifted], mixture: Mixture, furthest: float) -> TableRow | None:
    """Return the row of a mixture with one shift of at most `furthest` and some weight at 0; None for any other mixture."""
    if not mixture.single or not mixture.log_rest > -math.inf or mixture.reach > furthest:
        return None
    return TableRow(family, mixture.reach, math.exp(mixture.log_weights[0]) if mixture.weights is None else mixture.weights[0])


def row_of(loss: object) -> TableRow | None:
    """Return the loss as a row of a table; None if it cannot be one."""
    method: Callable[[], TableRow | None] | None = getattr(loss, "row", None)
    return None if method is None else method()


def cgfs(rows: Shifted, z: Array) -> Array:
    """Return upper bounds on K_i(z) of every row at every z > 0, as an array of shape (rows, z)."""
    repeated = np.repeat(np.arange(len(rows.shifts)), len(z))  # each row once for each z
    return rows.at(repeated).cgf(np.tile(z, len(rows.shifts))).reshape(len(rows.shifts), len(z))


def table_of(rows: Sequence[TableRow]) -> Shifted:
    """Return the table of these rows, which are of one family."""
    return rows[0].family(np.array([row.shift for row in rows]), np.array([row.weight for row in rows]))


def row_groups(rows: IndexArray, count: Array, each: int = 1) -> list[IndexArray]:
    """Return the rows in groups with similar node counts, each small enough that its arrays hold at most about BLOCK numbers.

    count: the node count of every row of the table. each: how many numbers are held for one node of one row.
    """
    ordered = rows[np.argsort(count[rows], kind="stable")]
    groups, begin = [], 0
    while begin < len(ordered):
        end = int(np.searchsorted(count[ordered], NODE_RATIO * count[ordered[begin]] + MORE_NODES, side="right"))
        end = min(end, begin + max(1, int(BLOCK / (each * (count[ordered[end - 1]] + MORE_NODES)))))
        groups.append(ordered[begin:end])
        begin = end
    return groups


def nodes_of_rows(low: Array, high: Array, step: Array) -> Array:
    """Return for each row the multiples of `step` from `low` to at least `high`, as an array of shape (rows, nodes).

    All rows have as many nodes as the row that needs most.
    """
    first = np.floor(low / step)
    count = int((np.ceil(high / step) - first).max()) + 1
    return np.asarray((first[:, None] + np.arange(count)) * step[:, None])
