"""Upper bounds, in the convex order, on sums of independent copies of a likelihood ratio.

sampling/random_allocation.py needs them. There one of t steps is drawn in secret, so the likelihood ratio of all steps is an average
(Y_1 + ... + Y_t) / t of independent ratios Y_i = e^L, where L = log dP/dQ is the loss of one step. delta(epsilon) is the mean of a convex
function of this average. So a variable above it in the convex order gives an upper bound on delta, at every epsilon.

A variable Y' is above Y in the convex order if E f(Y') >= E f(Y) for every convex f. Sums of independent variables keep this order (Shaked
& Shanthikumar 2007, Stochastic Orders, Theorem 3.A.12). Three changes of a variable give one that is above it:

* An outcome moves to the two lattice points around it, in shares that keep its mean.
* An outcome below the lowest lattice point moves to 0 and to that point, in shares that keep its mean.
* An outcome above the highest lattice point moves to that point and to infinity. In the limit, infinity gets a mean but no mass.

The lattice points are e^{ih} for integers i. A sum of e^{ih} and e^{jh} falls between two neighbouring points. Their distance from j, and
the shares of both, depend only on j - i.

`average_moments` gives the exact moments of the average instead, for Renyi divergences at integer orders.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from dpcli.base.values import dataclass
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.logspace import log_factorials, log_sum
from dpcli.numerics.tails import LOG_HALF, Tails
from dpcli.numerics.work import spend

# Soundness.
FINEST = 2.0**-36  # smallest spacing; on a finer lattice the rounding of logarithms would matter
WIDEST = 600.0  # largest absolute logarithm; e^x overflows at about 710
NEARLY_ALL = 1e-9  # if the log tail beyond a point exceeds the log mass at infinity by less, no finite loss is counted there
# Accuracy and speed: the result is above the sum for any of these values.
POINTS = 4096  # a lattice is refined as long as it has at most half as many points; the error falls with the square of the number
TRIM = math.exp(-80.0)  # mass at the lower end, and share of the mean at the upper end, that each trimming may move
BEYOND = 1e100  # `_range` counts a loss this large as infinite
RANGES = (1e-12, WIDEST, 1200)  # `_range` tries this many distances from 0, in geometric steps between these two
LEAST_RANGE = 1e-9  # nats; a loss that varies less is not put on a lattice
# A term may begin at most this many points below the sum. Lower ones move up to the sum's first point and to 0.
LONG_TOTAL = 4 * POINTS
# Work of a distance between two points of a sum, and of each pair at it, in cells (numerics/work.py).
DISTANCE_WORK, PAIR_WORK = 45.0, 0.022


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """A non-negative variable with outcomes on a lattice, at 0 and at infinity.

    mass: probabilities of the points e^{(first + k) spacing} for k = 0, 1, .... zero: probability of 0.
    excess: mean of the part at infinity, which has no probability. mean: mean of the whole variable, which includes the excess.
    """

    spacing: float
    first: int
    mass: Array
    zero: float
    excess: float
    mean: float

    @property
    def logs(self) -> Array:
        """The logarithms of the lattice points."""
        return np.asarray(self.spacing * (self.first + np.arange(len(self.mass))))

    def trimmed(self) -> Spread:
        """Return the variable without the outermost points, whose mass (below) or share of the mean (above) is at most TRIM.

        Points below move to the lowest point that is kept and to 0, and points above to the highest one and to infinity. The mean stays.
        """
        values = np.exp(self.logs)
        low = int(np.searchsorted(np.cumsum(self.mass), TRIM))
        high = len(values) - int(np.searchsorted(np.cumsum((self.mass * values)[::-1]), TRIM * self.mean))
        if not low < high - 1:
            return self
        mass = self.mass[low:high].copy()
        raised = float((self.mass[:low] * values[:low]).sum() / values[low])  # the mass that moves up to the lowest point
        mass[0] += raised
        mass[-1] += float(self.mass[high:].sum())
        excess = float((self.mass[high:] * (values[high:] - values[high - 1])).sum())
        zero = max(float(self.mass[:low].sum()) - raised, 0.0)
        return replace(self, first=self.first + low, mass=mass, zero=self.zero + zero, excess=self.excess + excess)

    def refined(self) -> Spread:
        """Return the variable on the finest lattice with at most POINTS points that contains this one."""
        result = self
        while len(result.mass) <= POINTS // 2 and result.spacing > FINEST:
            mass = np.zeros(2 * len(result.mass) - 1)
            mass[::2] = result.mass
            result = replace(result, spacing=0.5 * result.spacing, first=2 * result.first, mass=mass)
        return result

    def coarsened(self, spacing: float) -> Spread:
        """Return the variable on a coarser lattice. `spacing` is a power of 2 times its own; odd points move to their neighbours."""
        result = self
        while result.spacing < spacing:
            mass = np.append(np.zeros(result.first % 2), result.mass)  # zeros, so that the first and the last point are even
            mass = np.append(mass, np.zeros(1 - len(mass) % 2))
            share_up = math.expm1(result.spacing) / math.expm1(2.0 * result.spacing)  # to the upper neighbour, which keeps the mean
            even = mass[::2].copy()
            even[1:] += share_up * mass[1::2]
            even[:-1] += (1.0 - share_up) * mass[1::2]
            result = replace(result, spacing=2.0 * result.spacing, first=result.first // 2, mass=even)
        return result


def spread_of(tails: Callable[[Array], Tails]) -> Spread | None:
    """Return a variable above e^L under Q in the convex order, for a loss L with these tails. Its mean is 1.

    It is None if a tail is NaN, if L varies by at most LEAST_RANGE, or if its range reaches beyond WIDEST.
    """
    ends = _range(tails)
    if ends is None:
        return None
    lowest, highest = ends
    if highest - lowest <= LEAST_RANGE or max(abs(lowest), abs(highest)) > WIDEST:
        return None
    spacing = 2.0 ** math.ceil(math.log2((highest - lowest) / POINTS))  # a power of 2, so that lattices contain each other
    first, last = math.floor(lowest / spacing), math.ceil(highest / spacing)
    logs: Array = spacing * np.arange(first, last + 1, dtype=float)
    tails_at = tails(logs)
    p, q = _cells(tails_at.p_above, tails_at.p_below), _cells(tails_at.q_above, tails_at.q_below)
    values = np.exp(logs)
    # The P-mass of a cell is the mean of e^L under Q there. This Q-mass at its upper end keeps it.
    at_upper_end = np.clip((p / values[:-1] - q) / math.expm1(spacing), 0.0, q)
    mass = np.append(q - at_upper_end, 0.0)
    mass[1:] += at_upper_end
    below_p, below_q, above_p, above_q = (
        math.exp(float(x)) for x in (tails_at.p_below[0], tails_at.q_below[0], tails_at.p_above[-1], tails_at.q_above[-1])
    )
    mass[0] += min(below_p / values[0], below_q)
    mass[-1] += above_q
    zero, excess = max(below_q - below_p / float(values[0]), 0.0), max(above_p - above_q * float(values[-1]), 0.0)
    return Spread(spacing, first, mass, zero, excess, mean=1.0).trimmed().refined()


def _range(tails: Callable[[Array], Tails]) -> tuple[float, float] | None:
    """Return a loss below which Q has at most the mass TRIM, and a loss above which P has; None if the tails are unknown.

    The mass of an infinite loss, which remains however large the loss is, is not counted.
    """
    distances: Array = np.append(np.geomspace(*RANGES), BEYOND)
    with np.errstate(all="ignore"):
        above, below = tails(distances).p_above, tails(-distances[::-1]).q_below[::-1]
    if np.isnan(above).any() or np.isnan(below).any():
        return None

    def first_rare(log_tails: Array) -> float:
        """Return the least distance from 0 beyond which the mass is at most TRIM, without that of an infinite loss."""
        log_infinite = float(log_tails[-1])
        is_rare = log_tails <= max(math.log(TRIM), log_infinite + NEARLY_ALL)
        return float(distances[int(np.argmax(is_rare))])

    return -first_rare(below), first_rare(above)


def _cells(above: Array, below: Array) -> Array:
    """Return the masses between neighbouring points, from the smaller of both tails, which has more digits."""
    from_below, from_above = np.diff(np.exp(below)), -np.diff(np.exp(above))
    return np.asarray(np.maximum(np.where(below[1:] < LOG_HALF, from_below, from_above), 0.0))


def sum_of_copies(doubled: Callable[[int], Spread], count: int) -> Spread:
    """Return the sum of `count` >= 1 independent copies. doubled: returns the sum of 2^k copies at k."""
    total = None
    for k in range(count.bit_length()):
        if count >> k & 1:
            total = doubled(k) if total is None else total_of(total, doubled(k)).trimmed().refined()
    return doubled(0) if total is None else total


def total_of(a: Spread, b: Spread) -> Spread:
    """Return the sum of two independent variables, on the coarser of their lattices."""
    spacing, copies = max(a.spacing, b.spacing), a is b
    a, b = a.coarsened(spacing), b.coarsened(spacing)
    lowest = _log_sum(a.first, b.first, spacing)
    highest = _log_sum(a.first + len(a.mass), b.first + len(b.mass), spacing)
    first = min(a.first, b.first)
    if lowest - first > LONG_TOTAL:  # otherwise outcomes of one variable where the other is 0 would need too many points
        first = lowest
    mass = np.zeros(highest + 2 - first)
    _add_pairs(
        mass, first, spacing, a, b, nearest=0, copies=copies
    )  # with the pairs of equal points, which the other call leaves out
    if not copies:
        _add_pairs(mass, first, spacing, b, a, nearest=1)
    zero = a.zero * b.zero + _add_alone(mass, first, spacing, a, b.zero) + _add_alone(mass, first, spacing, b, a.zero)
    mass /= float(mass.sum()) + zero  # without this, the rounding error of the total mass would double with each sum
    return Spread(spacing, first, mass, zero, excess=a.excess + b.excess, mean=a.mean + b.mean)


def _log_sum(i: int, j: int, spacing: float) -> int:
    """Return an index at or below log(e^{ih} + e^{jh}) / spacing. One is subtracted for rounding."""
    return max(i, j) + math.floor(math.log1p(math.exp(-spacing * abs(i - j))) / spacing) - 1


def _add_alone(out: Array, first: int, spacing: float, one: Spread, weight: float) -> float:
    """Add one variable with this weight to `out`, and return the mass at 0 that this causes.

    Points below the first point of `out` move to that point and to 0.
    """
    skipped = min(max(first - one.first, 0), len(one.mass))
    kept = one.mass[skipped:]
    out[one.first + skipped - first :][: len(kept)] += weight * kept
    below = weight * one.mass[:skipped]
    raised = float((below * np.exp(spacing * (one.first - first + np.arange(skipped)))).sum())
    out[0] += raised
    return max(float(below.sum()) - raised, 0.0)


def _add_pairs(out: Array, first: int, spacing: float, small: Spread, large: Spread, nearest: int, copies: bool = False) -> None:
    """Add to `out` the sums of all pairs in which the point of `large` is at least `nearest` steps above the point of `small`.

    copies: whether both are the same variable. Then the mirrored pairs, which have the same masses, are added too.
    """
    closest, furthest = large.first - small.first - len(small.mass) + 1, large.first + len(large.mass) - 1 - small.first
    distances = np.arange(max(nearest, closest), max(furthest, nearest - 1) + 1)
    spend(len(distances) * (DISTANCE_WORK + PAIR_WORK * len(small.mass)))
    gain = np.log1p(np.exp(-spacing * distances))  # by which the log of a sum exceeds that of its larger term
    steps = np.floor(gain / spacing).astype(int)
    # shares: of the upper one of two neighbouring points.
    shares = np.clip(np.expm1(gain - spacing * steps) / math.expm1(spacing), 0.0, 1.0)
    for distance, step, share in zip(distances.tolist(), steps.tolist(), shares.tolist(), strict=True):
        begin = max(small.first, large.first - distance)
        end = min(small.first + len(small.mass), large.first + len(large.mass) - distance)
        if begin >= end:
            continue
        pairs = small.mass[begin - small.first : end - small.first] * large.mass[begin + distance - large.first :][: end - begin]
        if copies and distance > 0:
            pairs += pairs
        at = begin + distance + step - first
        out[at + 1 : at + 1 + len(pairs)] += share * pairs
        out[at : at + len(pairs)] += (1.0 - share) * pairs


def average_moments(log_moments: Array, count: int) -> Array:
    """Return log(E[A^a] - 1) for a = 2, 3, ..., m, where A is the average of `count` independent copies of Y >= 0 with E[Y] = 1.

    log_moments: log(E[Y^c] - 1) for c = 2, 3, ..., m, of shape (m - 1,), as the result.

    Let t be the count, and f(x) = E[e^{xY}] = sum_c E[Y^c] x^c / c!.

    1. t A is a sum of independent copies, so E[A^a] is t^-a a! times the coefficient of x^a in f(x)^t.
    2. Write f = e^x + g. Then f^t = e^{tx} + sum_{j>0} C(t, j) g(x)^j e^{(t-j) x}. The term e^{tx} gives the 1 that is subtracted, and the
       others are added as logarithms, because no coefficient of g is negative.

    Feldman & Shenfeld 2025, arXiv:2502.08202, and Liew & Takahashi 2022, arXiv:2206.09569, give the value as a sum over integer partitions.
    """
    top = len(log_moments) + 1
    powers = np.arange(top + 1.0)
    log_factorial = log_factorials(top)
    log_g = np.concatenate(([-np.inf, -np.inf], log_moments - log_factorial[2:] - powers[2:] * math.log(count)))
    log_power = np.concatenate(([0.0], np.full(top, -np.inf)))
    total, log_choose = np.full(top + 1, -np.inf), 0.0
    for j in range(1, min(count, top // 2) + 1):
        log_power = _product(log_power, log_g)  # g^j
        log_choose += float(np.log((count - j + 1) / j))
        with np.errstate(divide="ignore", invalid="ignore"):
            # e^{(t-j) x} with x / t in place of x, as in `log_g`, which accounts for the factor t^-a
            log_exponential = np.where(powers == 0.0, 0.0, powers * np.log((count - j) / count)) - log_factorial
        total = np.logaddexp(total, log_choose + _product(log_power, log_exponential))
    return np.asarray((total + log_factorial)[2:])


def _product(a: Array, b: Array) -> Array:
    """Return the logarithms of the coefficients of the product of two power series, from the logarithms of their coefficients."""
    index = np.arange(len(a))
    shift = index[:, None] - index[None, :]
    return log_sum(np.where(shift >= 0, a[None, :] + b[np.maximum(shift, 0)], -np.inf))
