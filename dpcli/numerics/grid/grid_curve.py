"""Upper and lower bounds on delta(epsilon) of a composition on a grid, and on epsilon at a delta.

The accountant pld gets a `GridCurve` from grid/composed_losses.py. Its lattice (grid/lattice.py) has tilted weights w = p e^{t l - M} at
the losses l of a grid, where p is a P-mass and t > 0 the tilt, and a dispersion V, which measures how far the losses were moved. All losses
here are log dP/dQ.

The upper bound is the curve of the lattice, whose pair dominates the true one. For the lower bound, write the lattice's likelihood ratio as
U = Y Z. Y is the ratio of a pair whose curve is below the true one, and E[Z | Y] = 1 (lattice.py). With k = e^eps, the curves of the two
pairs are psi(k) = E_Q[(U - k)+] and g(k) = E_Q[(Y - k)+], and

    psi(k) - g(k) = E_Q[d(Y)],   d(y) = E[(y Z - k)+] - (y - k)+ >= 0.

How large d is:

1. Since E[Z | Y] = 1, d(k) = k E[(Z - 1)+] <= k sqrt(Var Z) / 2 <= k sqrt(e^V - 1) / 2. d falls on both sides of k.
2. At y = k e^-s, the inequality (x - 1)+ <= x^{1+r} r^r / (1+r)^{1+r} gives d <= k D(s), where D(s) is the minimum over r of
   e^{r (1+r) V / 2 - (1+r) s} r^r / (1+r)^{1+r}.
3. At y = k e^s, d = E[(k - y Z)+]. Under the law with density Z this is the question of item 2 for 1/Z, so d <= k e^s D(s).

How much of Q lies where d is large:

4. Chernoff's bound gives Pr(|log Z| > m | Y) <= 1 - p for p = 1 - e^{-(m + V/2)^2 / 2V} - e^{-(m - V/2)^2 / 2V}. So
   p Q(|log Y - eps| <= s) <= Q(|log U - eps| <= s + m), which is computed from the lattice.
5. d is at most a sum of boxes, one for each s on a ladder with steps of sigma / 4, where sigma = sqrt V.
6. Beyond the last box, at J sigma, the measure e^{(t+1) log Y} dQ, whose total is at most e^M, bounds the rest by
   e^{M - t eps} sup_{s > J sigma} e^{(t+1) s} D(s), and by less on the other side.

So g is at least psi minus about 3 V times the density of log U at eps. This is of second order in the spacing, as is the error of the upper
bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property

from dpcli.base.values import dataclass
from dpcli.numerics.arrays import Array, IndexArray, np
from dpcli.numerics.grid.lattice import RARELY, Lattice  # RARELY: probability that mass which counts as unmoved is moved
from dpcli.numerics.logspace import log_peak

# Accuracy: these decide how narrow the lower bound is. MARGIN must leave p of the docstring positive.
LARGEST_SIGMA = 1.0  # largest sigma for which there is a lower bound
LADDER, STEP, MARGIN = 56, 0.25, 2.5  # number of boxes; the step of the ladder and the margin m, in units of sigma
BISECTIONS, CLOSE = 80, 1e-13  # most steps of a bisection, and the relative width at which it ends
FIRST_DISTANCE = 1e-3  # distance below the upper bound on epsilon, in spacings, at which the search for the lower one begins
# Soundness: these far exceed the rounding of what they are added to or multiplied with.
SUM_ERROR, GAP_ERROR = 1e-12, 1e-9  # relative errors of a value and of a bound on a small term
ULP = 4e-16  # relative rounding error for each term of a sum
SLACK_RAISE = 1.01  # factor by which `GridCurve.slack` is raised
LARGEST_EXPONENT = 600.0  # largest exponent of a computed term; beyond it, the terms only make the bounds weaker
STEEP = 600.0  # terms below the reference loss whose exponent exceeds this are left out, because they are not needed


@dataclass(frozen=True, eq=False)
class GridCurve:
    """The curve of a lattice, and a lower bound on the true curve.

    outside: a bound on the tilted mass outside of the window, which may have been wrapped around. infinite_lower: a lower bound on the
    probability of an infinite loss. coarse: whether the grid is coarser than the wanted error requires.
    """

    lattice: Lattice
    outside: float
    infinite_lower: float
    coarse: bool = False

    @property
    def covered(self) -> bool:
        """Return whether the mass outside of the window is bounded."""
        return self.outside < math.inf

    @cached_property
    def slack(self) -> float:
        """A bound on the error of the lattice's curve, in units of e^{M - t eps}."""
        t, h = self.lattice.tilt, self.lattice.spacing
        # The curve is the sum of the weights times k(l) = e^{-t (l - eps)} (1 - e^{-(l - eps)}) at l > eps, which is at most `peak`. By the
        # Cauchy-Schwarz inequality, an error of the weights moves it by at most its Euclidean norm times that of k: the integral of k^2
        # over the spacing, plus its largest value.
        peak = math.exp(log_peak(t))
        norm = math.sqrt(1.0 / (2.0 * t * (2.0 * t + 1.0) * (t + 1.0)) / h + peak * peak)
        return SLACK_RAISE * self.lattice.error * norm + self.outside * peak

    @property
    def rounding(self) -> float:
        """A bound on a common relative error of all weights and sums of them."""
        common = self.lattice.log_error
        return (math.expm1(common) if common < 700.0 else math.inf) + SUM_ERROR + ULP * len(self.lattice.weights)

    @cached_property
    def _known(self) -> bool:
        """Return whether no number is NaN. A NaN would otherwise count as 0."""
        lattice = self.lattice
        return not math.isnan(float(lattice.weights.sum()) + lattice.log_scale + self.rounding + self.slack + lattice.infinite)

    @cached_property
    def boxes(self) -> tuple[Array, Array, float]:
        """The half widths and heights of boxes whose sum is at least d over k, and a bound on the rest in units of e^{M - t eps}.

        A box of half width s covers the losses within s of eps. The rest is inf, and there are no boxes, if the dispersion is too large.
        """
        t, variance = self.lattice.tilt, self.lattice.dispersion
        if variance == 0.0:
            return np.zeros(0), np.zeros(0), 0.0
        sigma = math.sqrt(variance)
        # With such a sigma, what bounds the rest (item 6) falls beyond the last box.
        if not (sigma <= LARGEST_SIGMA and (t + 1.0) * sigma <= 0.25 * LADDER * STEP):
            return np.zeros(0), np.zeros(0), math.inf
        margin = MARGIN * sigma  # m of item 4, with p = likely
        likely = 1.0 - RARELY - sum(math.exp(-((margin + sign * 0.5 * variance) ** 2) / (2.0 * variance)) for sign in (-1.0, 1.0))
        distances = STEP * sigma * np.arange(LADDER + 1.0)
        at_zero = 0.5 * math.sqrt(math.expm1(variance))  # item 1
        heights = np.array([min(_height(s, variance), at_zero) * math.exp(s) for s in distances.tolist()])  # items 2 and 3
        heights = np.minimum.accumulate(heights) * (1.0 + SUM_ERROR)
        beyond = math.exp((t + 1.0) * float(distances[-1])) * float(heights[-1]) * (1.0 + GAP_ERROR)
        return (distances[1:] + margin) * (1.0 + GAP_ERROR), -np.diff(heights) / likely, beyond

    def _sums(self, reference: float) -> _Sums:
        """Return the sums over the losses near and above `reference`."""
        lattice = self.lattice
        loss: Array = np.asarray(lattice.spacing * (lattice.start + np.arange(len(lattice.weights))) - reference, dtype=float)
        begin = int(np.searchsorted(loss, -STEEP / (lattice.tilt + 1.0)))
        weights, loss = lattice.weights[begin:], loss[begin:]
        terms = weights * np.exp(-lattice.tilt * loss)
        first: Array = np.append(np.cumsum(terms[::-1])[::-1], 0.0)
        second: Array = np.append(np.cumsum((terms * np.exp(-loss))[::-1])[::-1], 0.0)
        return _Sums(loss, lattice.spacing, first, second)

    def _upper(self, sums: _Sums, at: float) -> float:
        """Return an upper bound on delta without its infinite losses, divided by e^{M - t reference}. It is inf if an error is.

        at: epsilon minus the reference of the sums.
        """
        if not (self.slack < math.inf and self.rounding < math.inf):  # inf times a factor that underflows to 0 would be NaN
            return math.inf
        slack = self.slack * (1.0 + self.rounding) * math.exp(min(-self.lattice.tilt * at, 700.0))
        return max(sums.curve(at) + self.rounding * sums.size(at) + slack, 0.0)

    def _lower(self, sums: _Sums, at: float) -> float:
        """Return a lower bound on the quantity that `_upper` bounds. It is 0 if there is none."""
        t, lattice = self.lattice.tilt, self.lattice
        if not -LARGEST_EXPONENT <= (t + 1.0) * at <= LARGEST_EXPONENT:
            return 0.0
        widths, heights, beyond = self.boxes
        gap = beyond + lattice.excess + self.slack  # in units of e^{M - t at}; excess: tilted mass that the merged pair may lack
        if math.isfinite(gap) and len(widths):
            low, high = sums.above(at - widths), sums.above(at + widths)
            mass = (sums.second[low] - sums.second[high] + ULP * len(sums.loss) * sums.second[low]) * math.exp((t + 1.0) * at)
            error = (lattice.error * np.sqrt(high - low + 1.0) + self.outside) * np.exp((t + 1.0) * widths)
            gap += float((heights * (mass + error)).sum())
        lower = (
            sums.curve(at)
            - (self.rounding + math.expm1(min(lattice.blur, 700.0))) * sums.size(at)  # blur: log of a relative error of the masses
            - gap * (1.0 + self.rounding) * math.exp(-t * at)
        )
        return max(lower, 0.0) if math.isfinite(lower) else 0.0

    def delta(self, epsilon: float) -> tuple[float, float]:
        """Return (lower, upper) bounds on delta(epsilon), in [0, 1]."""
        if not self._known:
            return 0.0, 1.0
        lattice = self.lattice
        sums = self._sums(epsilon)
        low, high = self._lower(sums, 0.0), self._upper(sums, 0.0)
        scale = lattice.log_scale - lattice.tilt * epsilon
        lower, upper = (math.exp(min(math.log(end) + scale, 0.0)) if end > 0.0 else 0.0 for end in (low, high))
        return min(lower * (1.0 - SUM_ERROR) + self.infinite_lower, 1.0), min(upper * (1.0 + SUM_ERROR) + lattice.infinite, 1.0)

    def epsilon(self, log_delta: float) -> tuple[float, float]:
        """Return (lower, upper) bounds on the epsilon at which delta falls to e^log_delta. They are -inf and inf if the grid gives none."""
        if not self._known:
            return -math.inf, math.inf
        delta = math.exp(log_delta)
        # What is left of delta for finite losses.
        most_finite, least_finite = delta - self.infinite_lower, delta - self.lattice.infinite
        upper = self._upper_epsilon(least_finite) if least_finite > 0.0 else math.inf
        return (self._lower_epsilon(most_finite, upper) if most_finite > 0.0 else math.inf), upper

    def _reference(self, delta: float) -> float:
        """Return Chernoff's bound on epsilon at `delta`, from M of the lattice. Sums relative to it are compared with 1.

        The factor e^{M - t reference} of these sums is `delta`. So they do not underflow where they matter.
        """
        return (self.lattice.log_scale - math.log(delta)) / self.lattice.tilt

    def _upper_epsilon(self, delta: float) -> float:
        """Return the epsilon at which the upper bound falls to `delta`, or inf. delta: without the probability of infinite losses."""
        reference = self._reference(delta)
        if not math.isfinite(reference):
            return math.inf
        sums = self._sums(reference)

        def exceeds(at: float) -> bool:
            return self._upper(sums, at) > 1.0 - SUM_ERROR

        if not len(sums.loss) or exceeds(float(sums.loss[-1])):
            return math.inf
        _, at = _bisect(exceeds, float(sums.loss[0]), float(sums.loss[-1]))
        return reference + at

    def _lower_epsilon(self, delta: float, near: float) -> float:
        """Return an epsilon closely below `near` at which the lower bound exceeds `delta`, or -inf. delta: as for `_upper_epsilon`."""
        reference = self._reference(delta)
        if not math.isfinite(reference):
            return -math.inf
        sums = self._sums(reference)
        if not len(sums.loss):
            return -math.inf

        def exceeds(at: float) -> bool:
            return self._lower(sums, at) > 1.0 + SUM_ERROR

        high = min(near - reference, float(sums.loss[-1]))
        if exceeds(high):
            return reference + high
        # Far from epsilon the lower bound may be 0, so the bracket is grown from its upper end.
        distance = FIRST_DISTANCE * self.lattice.spacing
        while high - distance > float(sums.loss[0]):
            if exceeds(high - distance):
                at, _ = _bisect(exceeds, high - distance, high)
                return reference + at
            distance *= 2.0
        return -math.inf


def _bisect(exceeds: Callable[[float], bool], low: float, high: float) -> tuple[float, float]:
    """Return a narrow bracket (low, high) with `exceeds` true at low and false at high, from a wider one."""
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        if not low < middle < high or high - low <= CLOSE * abs(high):
            break
        low, high = (middle, high) if exceeds(middle) else (low, middle)
    return low, high


@dataclass(frozen=True, eq=False)
class _Sums:
    """The losses l of a lattice relative to a reference, and sums over them.

    first, second: the sums of w e^{-t l} and of w e^{-(t+1) l} over the losses at or above each loss, with a final 0.
    """

    loss: Array
    spacing: float
    first: Array
    second: Array

    def above(self, at: Array) -> IndexArray:
        """Return the index of the first loss above each of `at`."""
        indices = np.floor((at - (self.loss[0] if len(self.loss) else 0.0)) / self.spacing) + 1.0
        return np.asarray(indices.clip(0.0, float(len(self.loss))).astype(int))

    def _index(self, at: float) -> int:
        return int(np.searchsorted(self.loss, at, side="right"))

    def size(self, at: float) -> float:
        """Return the P-mass at losses above `at`, in the units of the sums."""
        return float(self.first[self._index(at)])

    def curve(self, at: float) -> float:
        """Return the hockey-stick curve at `at`, in the units of the sums. Beyond LARGEST_EXPONENT it is an upper bound."""
        index = self._index(at)
        return float(self.first[index]) - (math.exp(at) * float(self.second[index]) if at <= LARGEST_EXPONENT else 0.0)


def _height(s: float, variance: float) -> float:
    """Return an upper bound on D(s) of the module's docstring: the least value over a few r."""
    sigma = math.sqrt(variance)
    exponents = (
        r * (1.0 + r) * 0.5 * variance - (1.0 + r) * s + log_peak(r)
        for r in (max(s / variance - 0.5, 0.5 / sigma), 0.5 / sigma, 1.0 / sigma, 2.0 / sigma)
    )
    return math.exp(min(exponents))
