"""Bounds on delta(epsilon) of a few steps with finitely many outcomes each, by exact sums of rounded losses.

For a few steps of discrete noise on a rare sample, at a tiny delta, no contour gives a narrow interval: one outcome far out decides, and
the characteristic function of atoms does not decay. But the sum itself is short, and all of its terms are positive.

1. Without infinite losses, delta(eps) = E_P[(1 - e^{eps - L})+] for the sum L of the steps' losses. It increases with L. So losses rounded
   up to multiples of a spacing s give an upper bound, and losses rounded down give a lower bound. Both are at most (number of steps) s away
   in epsilon.
2. Outcomes of tiny probability are left out. Their probability under P, added up over the steps, is added to the upper bound. The lower
   bound needs no such term.
3. The steps are divided into two halves. The distribution of each half is a sum of products of probabilities. With the masses a_i and b_j
   of the halves at the losses i s and j s,

       delta(eps) = SUM_i a_i (SUM_{j > eps/s - i} b_j - e^{eps - i s} SUM_{j > eps/s - i} b_j e^{-j s}),

   where the inner sums are cumulative sums, computed once.
4. Rounding. A mass is a sum of at most N products, and errs by a factor of at most 1 + (N + 10 n) u + (error of the given logarithms). A
   cumulative sum of M terms errs by at most M u. The difference above is taken of two numbers that are at most the first one, and its
   exponents are at most 2 LARGEST, so it errs by at most 2 (M + 300) u times the first sum. u = 2^-52 is twice the unit roundoff.
5. Underflow. Masses are multiplied by e^{c/n} in each step, with c = -log delta, so that what matters for delta is about 1. A product
   that underflows errs by at most 2^-1022. It is then multiplied by masses of at most n - 1 steps, which are at most e^{c (n - 1) / n}, and
   by exponentials of at most 2 LARGEST.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from dpcli.numerics.arrays import Array, np
from dpcli.numerics.contour.outcomes import Outcomes
from dpcli.numerics.contour.tilted import Losses
from dpcli.numerics.work import hold, spend

MOST_STEPS = 6  # with more steps there are too many products, and contours are narrow
MOST_PRODUCTS = 1e7  # most products of masses
MOST_CELLS = 4e5  # most cells of a half
PRODUCT = 0.15  # work of a product, in cells; it takes about eight nanoseconds
RELATIVE_ERROR = 1e-4  # the spacing moves epsilon by at most this share, up or down
LEFT_OUT = -30.0  # logarithm of the probability of the outcomes that are left out, relative to delta
LEAST = -640.0  # logarithm of the least delta, so that no scaled mass of one step underflows
LARGEST = 50.0  # largest modulus of a sum of losses, so that no e^loss is far from 1
ULP = 2.0**-52  # twice the unit roundoff
GIVEN = 1e-14  # relative error of the given logarithms
LOG_TINY = -1022.0 * math.log(2.0)  # logarithm of the smallest normal number
LOG_MISSING = -782.0  # logarithm of the mass that `Outcomes` may lack
UNSCALED = 1e-12  # rounding of the logarithm from which the scale is taken off
HALVINGS = 24  # halvings of the interval for epsilon, after which it is narrower than the spacing in most cases

Atoms = tuple[Array, Array]  # log P and log P/Q of a step's outcomes


def few_atoms(losses: Losses, log_delta: float, epsilon: float) -> FewAtoms | None:
    """Return bounds for these losses that are narrow near `epsilon` and e^log_delta.

    It is None if there are too few or too many steps, if they have too many outcomes or are not discrete, or if a delta or a loss is out
    of range.
    """
    count = sum(n for _, n in losses)
    if not 2 <= count <= MOST_STEPS or not LEAST <= log_delta < 0.0 or not 0.0 < epsilon < math.inf:
        return None
    steps: list[Atoms] = []
    log_lost = LOG_MISSING + math.log(count)
    for loss, n in losses:
        outcomes = loss.outcomes() if hasattr(loss, "outcomes") else None
        if not isinstance(outcomes, Outcomes) or outcomes.pieces:
            return None
        log_p = outcomes.log_reference + outcomes.log_ratio
        order = np.argsort(log_p, kind="stable")
        masses = np.logaddexp.accumulate(log_p[order])
        first = int(np.searchsorted(masses, log_delta + LEFT_OUT - math.log(count)))
        if first:
            log_lost = float(np.logaddexp(log_lost, math.log(n) + masses[first - 1] + GIVEN * len(masses)))
        kept = order[first:]
        steps += [(log_p[kept], outcomes.log_ratio[kept])] * n
    bounds = FewAtoms(steps, log_delta, log_lost, RELATIVE_ERROR * epsilon / count)
    return bounds if bounds.affordable else None


class Halves:
    """The two halves of the composition, with losses rounded up or down to multiples of the spacing.

    products: the number of products and cumulative sums that were added up, each of which may underflow.
    error: a bound on the relative error of the masses.
    """

    def __init__(self, steps: list[Atoms], spacing: float, log_scale: float, upward: bool) -> None:
        self._spacing, self.products = spacing, 0.0
        middle = len(steps) // 2
        self._first, self._start = self._sum(steps[:middle], log_scale, upward)
        masses, self._least = self._sum(steps[middle:], log_scale, upward)
        spend(4.0 * (len(masses) + len(self._first)))
        self._losses = spacing * (self._start + np.arange(len(self._first)))
        weighted = masses * np.exp(-spacing * (self._least + np.arange(len(masses))))
        self._above = np.append(np.cumsum(masses[::-1])[::-1], 0.0)
        self._weighted = np.append(np.cumsum(weighted[::-1])[::-1], 0.0)
        given = sum(GIVEN * (float((np.abs(log_p) + np.abs(ratio)).max()) + log_scale) for log_p, ratio in steps)
        self.error = given + (self.products + 10.0 * len(steps)) * ULP
        self._rounding = 2.0 * (len(masses) + len(self._first) + 300.0) * ULP
        self.products += 2.0 * (len(masses) + len(self._first))  # of the cumulative sums

    def _sum(self, steps: list[Atoms], log_scale: float, upward: bool) -> tuple[Array, int]:
        """Return the masses of the sum of the steps' losses by cell, and the index of the first cell. Adds its products to `products`.

        Cell k is the loss k * spacing. Every mass has a factor e^log_scale for each step.
        """
        total, start = np.ones(1), 0
        for log_p, ratio in steps:
            slack = GIVEN * np.abs(ratio)
            places = np.ceil((ratio + slack) / self._spacing) if upward else np.floor((ratio - slack) / self._spacing)
            cells = places.astype(np.int64)
            least = int(cells.min())
            step = np.bincount(cells - least, weights=np.exp(log_p + log_scale))
            filled, added = np.flatnonzero(total), np.flatnonzero(step)
            spend(PRODUCT * len(filled) * len(added))
            self.products += len(filled) * len(added)
            result = np.zeros(len(total) + len(step) - 1)
            hold(float(len(result)))
            if len(filled) < len(added):  # the loop runs over the shorter list
                for cell in filled.tolist():
                    result[added + cell] += total[cell] * step[added]
            else:
                for cell in added.tolist():
                    result[filled + cell] += step[cell] * total[filled]
            total, start = result, start + least
        return total, start

    def deltas(self, epsilon: float) -> tuple[float, float]:
        """Return the sum of item 3, and a bound on its absolute rounding error without the error of the masses."""
        spend(float(len(self._first)))
        from_cell = math.floor(epsilon / self._spacing) + 1 - (self._start + np.arange(len(self._first))) - self._least
        at = np.clip(from_cell, 0, len(self._above) - 1)
        above = self._above[at]
        terms = above - np.exp(epsilon - self._losses) * self._weighted[at]
        return float(self._first @ np.maximum(terms, 0.0)), float(self._first @ above) * self._rounding


class FewAtoms:
    """Bounds on delta of a few steps.

    steps: outcomes of each step. log_lost: logarithm of the probability of outcomes that were left out. spacing: distance between rounded
    losses.
    """

    def __init__(self, steps: list[Atoms], log_delta: float, log_lost: float, spacing: float) -> None:
        self._steps, self._log_delta, self._log_lost, self._spacing = steps, log_delta, log_lost, spacing
        self._largest = sum(float(ratio.max()) for _, ratio in steps)
        self._least = sum(float(ratio.min()) for _, ratio in steps)
        self._halves: dict[bool, Halves] = {}

    @property
    def affordable(self) -> bool:
        """Return whether the sums are short enough, and no number overflows."""
        if not -LARGEST <= self._least <= self._largest <= LARGEST:
            return False
        middle, products = len(self._steps) // 2, 0.0
        for half in (self._steps[:middle], self._steps[middle:]):
            cells, outcomes = 1.0, 1.0
            for _, ratio in half:
                different = len(np.unique(np.floor(ratio / self._spacing)))
                products += outcomes * different
                cells += (float(ratio.max()) - float(ratio.min())) / self._spacing + 2.0
                outcomes = min(outcomes * different, cells)
            if cells > MOST_CELLS:
                return False
        return products <= MOST_PRODUCTS

    def log_delta(self, epsilon: float) -> tuple[float, float]:
        """Return (lower, upper) bounds on log delta(epsilon)."""
        return self._bound(epsilon, False), self._bound(epsilon, True)

    def epsilon(self, log_delta: float) -> tuple[float, float]:
        """Return (lower, upper) bounds on the epsilon >= 0 at which delta is e^log_delta."""
        lower, _ = self._change(lambda at: self._bound(at, False) < log_delta)
        _, upper = self._change(lambda at: self._bound(at, True) <= log_delta)
        return lower, upper

    def _change(self, is_above: Callable[[float], bool]) -> tuple[float, float]:
        """Return an interval in which `is_above` changes from false to true, by halving.

        `is_above` is true at the upper end, which is inf if it is true nowhere. It is false at the lower end, unless that is 0.
        """
        low, high = 0.0, max(self._largest, 0.0) + (len(self._steps) + 1.0) * self._spacing  # all rounded losses are below `high`
        if is_above(0.0):
            return 0.0, 0.0
        if not is_above(high):
            return 0.0, math.inf
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            low, high = (low, middle) if is_above(middle) else (middle, high)
        return low, high

    def _bound(self, epsilon: float, upward: bool) -> float:
        """Return the upper or the lower bound on log delta(epsilon)."""
        count = len(self._steps)
        log_scale = -self._log_delta / count
        if upward not in self._halves:
            self._halves[upward] = Halves(self._steps, self._spacing, log_scale, upward)
        halves = self._halves[upward]
        total, error = halves.deltas(epsilon)
        log_underflow = math.log(halves.products + len(self._steps)) + LOG_TINY + (count - 1) * log_scale + 2.0 * LARGEST
        underflow = math.exp(min(log_underflow, 700.0))
        if upward:
            most = (total + error + underflow) * (1.0 + 2.0 * halves.error)
            if not most > 0.0:
                return self._log_lost
            return float(np.logaddexp(math.log(most) + self._log_delta, self._log_lost)) + UNSCALED
        least = (total - error - underflow) * (1.0 - 2.0 * halves.error)
        return math.log(least) + self._log_delta - UNSCALED if least > 0.0 else -math.inf
