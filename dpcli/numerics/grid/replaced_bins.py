"""Random allocation with Gaussian noise, if a record is replaced by another one: a pair (P, Q) that dominates one pass.

Setting. A pass has t steps (*bins*). Each record takes part in one of them, which is drawn uniformly and kept secret. The record adds a
vector u_i to step i if it is in bin i, and its replacement adds v_i; |u_i|, |v_i| <= mu. The noise is standard normal. The vectors may
depend on earlier outputs. sampling/random_allocation.py asks for the pair (`replaced_pair`).

The answer is an upper bound on the hockey-stick curve h(g) = sup_S P(S) - g Q(S), where g = e^epsilon, at many epsilons. `symmetric_pair`
of hockey_stick.py makes a pair from it.

Why one coordinate suffices: the worst case is u_i = mu, v_i = -mu, on one coordinate and in every bin.

1. Let A, C and W be normal with means u, v and 0, and F = dA/dW - g dC/dW under W. The pass with all else fixed has the curve
   h(g) = E(F_1 + ... + F_t)+ / t. The other records can be fixed, because h is jointly convex.
2. For all g >= 0 and real s, E(F - s)+ is largest at u = -v, |u| = mu. As a supremum over sets S it is A(S) - g C(S) - s W(S). Forgetting
   a coordinate lowers it, so longer vectors, with more coordinates, do not: let |u| = |v| = mu. Let w = u + v, so u w = v w >= 0.
3. If s >= 0, the best S is {e^{u x - mu^2/2} > g e^{v x - mu^2/2} + s}. It contains x + w for each x in it, since the left side grows by
   e^{u w}, and the right side by no more. So C(S) does not rise if v becomes v - w = -u.
4. If s < 0, E(F - s)+ is E(s - F)+ + 1 - g - s. The best S of the former is {g e^{v x - mu^2/2} > e^{u x - mu^2/2} - s}, which contains
   x + w too. So A(S) does not rise if u becomes u - w = -v.
5. By backward induction, each step's vectors can therefore be replaced, whatever the other steps are: given all others, h(g) is
   E(m F' - s)+ with m >= 0 and an F' for another g. This holds for k such passes that run concurrently too, because their densities are
   products of such sums.

With g = e^{2 a}, F = 2 e^{a - mu^2/2} V and V = sinh(mu x - a), for a normal x. So h(g) = (2/t) e^{a - mu^2/2} E(V_1 + ... + V_t)+.

The computation. Each V, and each sum of two, is moved to the points c sinh(i d), |i| <= K, so that E(V - s)+ falls for no s:

1. An outcome moves to the two points around it, in shares that keep its mean. The share of the upper one is raised by more than its error.
2. An outcome below the lowest point moves up to it. One above the highest point moves down to it, and what this takes from the mean is
   added to the result (`excess`).
3. All terms are positive, and the masses of one step have relative errors below ERROR. So the result errs by a factor e^{t ERROR} at most.
4. The average of t copies falls in the convex order as t grows. So t is rounded down to its first binary digits.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from dpcli.numerics.arrays import Array, np
from dpcli.numerics.grid.hockey_stick import ChordPair, symmetric_pair
from dpcli.numerics.logspace import log_normal_ends
from dpcli.numerics.tails import cells_between
from dpcli.numerics.work import shared, spend  # a cache, and a limit on work

# Soundness.
LEAST_MU, MOST_MU = 1e-5, 12.0  # range of mu; e^{mu (mu + FAR)} must not overflow
RAISED = 1e-10  # raise of a share, relative to its largest terms; it exceeds the error of the share (item 1)
ERROR = 3e-11  # bound on the relative error of a mass (item 3)
# Accuracy and speed: the result is an upper bound for any of these values.
POINTS = 128  # K: there are K points on either side of 0
FAR = 13.0  # normal outcomes farther above mu are above the highest point
DEVIATIONS = 9.0  # sums of this many standard deviations are below the highest point
DIGITS, FEWEST = 12, 5  # t of n binary digits keeps the first DIGITS - n/2 of them, and at least FEWEST (item 4)
MOST_COPIES = 2**30  # the largest t; a larger one is rounded down to it (item 4)
# The epsilons at which h is computed: log h falls by about DROP from each to the next, or by FAST_DROP below LOG_FAST, down to LOG_LAST.
DROP, FAST_DROP, LOG_FAST, LOG_LAST = 0.5, 3.0, -30.0, -80.0
LONGEST_STEP, STEPS = 0.3, 100.0  # a step is at most LONGEST_STEP, or 1 / STEPS of the range if more, until log h is LOG_FAST
LEAST_FACTOR, MOST_FACTOR = 0.5, 2.0  # range of the factor between one step of epsilon and the next
LEAST_DROP = 1e-3  # a smaller fall of log h counts as this, because the next step is divided by it
LEAST_HEIGHT = 1e-300  # h is not computed as less, so that it has a logarithm
MOST_HEIGHTS, GRID = 240, 4096  # most epsilons at which h is computed, and number of points between which it is interpolated
PAIR = 0.12  # cells of work for a pair of points; they decide only which questions are refused


class _Rounded(NamedTuple):
    """A variable, such as V or a sum of copies of V, rounded to the points.

    masses: the probabilities of the points. excess: what the mean has lost by moves down to the highest point (item 2).
    """

    masses: Array
    excess: float


class _Sums:
    """Sums of `count` copies of V, for one mu and every epsilon. points: the values c sinh(i d)."""

    def __init__(self, mu: float, bins: int) -> None:
        digits = bins.bit_length()
        dropped = max(digits - max(DIGITS - digits // 2, FEWEST), 0)
        self.mu, self.count = mu, min(bins >> dropped << dropped, MOST_COPIES)
        scale = 0.5 * math.sinh(mu)  # c
        deviation = math.sqrt(0.5 * self.count * math.expm1(2.0 * mu * mu))  # standard deviation of the sum at epsilon = 0
        highest = max(math.sinh(mu * (mu + FAR)), DEVIATIONS * deviation)
        spacing = math.asinh(highest / scale) / POINTS  # d
        self.points = scale * np.sinh(spacing * np.arange(-POINTS, POINTS + 1))
        # The sum of each pair of points: the point below it, its share at the point above that, and its excess over the highest point.
        sums = self.points[:, None] + self.points
        lower = np.floor(np.arcsinh(sums / scale) / spacing).astype(np.int64) + POINTS
        lower = np.clip(lower, 0, 2 * POINTS - 1)
        self._share = np.clip((sums - self.points[lower]) / np.diff(self.points)[lower] + RAISED, 0.0, 1.0).ravel()
        self._lower, self._above = lower.ravel(), np.maximum(sums - self.points[-1], 0.0).ravel()

    def _one(self, a: float) -> _Rounded:
        """Return V = sinh(mu x - a) for a normal x, rounded to the points (items 1 and 2)."""
        x = (np.arcsinh(self.points) + a) / self.mu  # V equals the points at these x
        # V is (e^{mu x - a} - e^{a - mu x}) / 2, and e^{+-mu x} times the normal density is e^{mu^2 / 2} times that with the mean +-mu. So
        # the masses between the points for the means 0, mu and -mu give the mean of V there.
        cells, beyond_last, before_first = [], [], []
        for shift in (0.0, self.mu, -self.mu):
            above, below = log_normal_ends(x - shift)
            cells.append(np.exp(cells_between(above, below).log_mass))
            beyond_last.append(math.exp(above[-1]))
            before_first.append(math.exp(below[0]))
        mass, mass_at_mu, mass_at_minus_mu = cells
        growth = 0.5 * math.exp(0.5 * self.mu * self.mu)
        up, down = growth * math.exp(-a) * mass_at_mu, growth * math.exp(a) * mass_at_minus_mu
        low = self.points[:-1]
        # How much of a cell's mass moves to its upper point, so that the mean stays or rises.
        upper = up - down - low * mass + RAISED * (up + down + np.abs(low) * mass)
        upper = np.clip(upper / np.diff(self.points), 0.0, mass)
        result = np.zeros(len(self.points))
        result[:-1] += mass - upper
        result[1:] += upper
        result[0] += before_first[0]
        result[-1] += beyond_last[0]
        return _Rounded(result, growth * math.exp(-a) * beyond_last[1])

    def _sum(self, first: _Rounded, second: _Rounded) -> _Rounded:
        """Return the sum of two independent variables, rounded to the points again."""
        spend(PAIR * len(self._share))
        pairs = np.outer(first.masses, second.masses).ravel()
        upper, size = pairs * self._share, len(self.points)
        masses = np.bincount(self._lower, pairs - upper, size) + np.bincount(self._lower + 1, upper, size)
        excess = first.excess + second.excess + float((pairs * self._above).sum())
        return _Rounded(np.asarray(masses, dtype=np.float64), excess)

    def height(self, epsilon: float) -> float:
        """Return an upper bound on h(e^epsilon)."""
        a = 0.5 * epsilon
        total: _Rounded | None = None
        copies, count = self._one(a), self.count
        while True:
            if count % 2:
                total = copies if total is None else self._sum(total, copies)
            count //= 2
            if not count:
                break
            copies = self._sum(copies, copies)
        assert total is not None
        mean = float((total.masses * np.maximum(self.points, 0.0)).sum()) + total.excess
        return 2.0 / self.count * math.exp(a - 0.5 * self.mu * self.mu + self.count * ERROR) * mean


@shared(16)
def replaced_pair(mu: float, bins: int) -> ChordPair | None:
    """Return a pair that dominates the replacement of one record in a pass; None if mu is out of range.

    mu: the largest move of a record over the noise. bins: the number of steps of the pass.
    """
    if not LEAST_MU <= mu <= MOST_MU:
        return None
    sums = _Sums(mu, bins)
    epsilons, heights = [0.0], [min(sums.height(0.0), 1.0)]
    # 2 mu (mu + 4) is the loss log dA/dC of a step at an outcome four standard deviations above the mean of A.
    step, longest = DROP * heights[0], max(LONGEST_STEP, 2.0 * mu * (mu + 4.0) / STEPS)
    while math.log(heights[-1]) > LOG_LAST and len(heights) < MOST_HEIGHTS:
        epsilons.append(epsilons[-1] + step)
        heights.append(min(max(sums.height(epsilons[-1]), LEAST_HEIGHT), heights[-1]))
        wanted_drop, most = (FAST_DROP, math.inf) if math.log(heights[-1]) < LOG_FAST else (DROP, longest)
        drop = max(math.log(heights[-2] / heights[-1]), LEAST_DROP)
        step = min(step * min(max(wanted_drop / drop, LEAST_FACTOR), MOST_FACTOR), most)
    # h is convex in e^epsilon, so it lies below its chords.
    spacing = epsilons[-1] / GRID
    grid = np.expm1(spacing * np.arange(GRID + 1))
    return symmetric_pair(spacing, np.interp(grid, np.expm1(epsilons), heights))
