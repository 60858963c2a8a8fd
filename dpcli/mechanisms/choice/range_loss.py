"""Pairs that dominate choices of bounded range: of one choice, in closed form, and of several that follow one another."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpcli.numerics.arrays import Array, np
from dpcli.numerics.contour.tilted_closed import TiltedAtoms
from dpcli.numerics.contour.tilted_range import TiltedRange, sinhc_slope
from dpcli.numerics.grid.chords import ChordPair, symmetric_pair
from dpcli.numerics.grid.chosen_range import FURTHEST, ChoiceCurve, choice_curve
from dpcli.numerics.logspace import log_expm1, log_expm1_array
from dpcli.numerics.tails import Tails
from dpcli.numerics.work import shared

BLOCK = 128  # choices whose curve is computed as a whole
LEAST, MOST = 1e-3, 16.0  # ranges for which that pays, and rounding, which grows with e^epsilon, is far below what is added for it
STEPS = 4096  # of the grid to all choices together, where they are few enough
FEWEST, MANY = 32, 128  # of the grid to one choice
SERIES = 8.0  # where the series below has its digits


@dataclass(frozen=True, slots=True)
class RangeLoss:
    """The pair whose curve is the worst over all choices of one range: delta(x) = (e^{eps/2} - e^{x/2})^2 / (e^eps - 1), |x| <= eps.

    At each x some two-point pair of the family attains it (Dong, Durfee, Rogers 2020, arXiv:1909.13830), and no member attains all of it.
    Its derivatives in e^x make L of density e^{(eps + x)/2} / (2 (e^eps - 1)) under P, and Q has e^-x times as much. A pair whose curve
    is nowhere below that of a mechanism dominates it in compositions, adaptive ones too (Zhu, Dong, Wang 2022, arXiv:2106.08567, Theorem
    10).
    """

    epsilon: float

    def cgf(self, z: Array) -> Array:
        """log of sinhc((z + 1/2) eps) / sinhc(eps / 2), sinhc(a) = sinh(a) / a; exact up to rounding, which is added."""
        b = 0.5 * self.epsilon
        a = (z + 0.5) * self.epsilon
        near = np.minimum(a, SERIES)
        with np.errstate(all="ignore"):
            gap = self.epsilon * z * self.epsilon * (z + 1.0)  # a^2 - b^2
            low = np.log1p(gap * sinhc_slope(near, b) / (math.sinh(b) / b)) if b < SERIES else np.zeros_like(a)
            ends = np.log1p(np.expm1(-2.0 * z * self.epsilon) / -np.expm1(2.0 * b)) if b < 300.0 else 0.0
            high = z * self.epsilon - np.log1p(2.0 * z) + ends
        return np.asarray(np.where((a < SERIES) & (b < SERIES), low, high) * (1.0 + 1e-13))

    def tilted(self, t: float) -> TiltedRange:
        """Density proportional to e^{(t + 1/2) x} on [-eps, eps]."""
        return TiltedRange(t + 0.5, self.epsilon, float(self.cgf(np.array([t]))[0]))

    def tails(self, at: Array) -> Tails:
        """P(L > l) = e^{(eps + l)/2} (e^{(eps - l)/2} - 1) / (e^eps - 1), Q(L > l) without the first factor; the rest by symmetry."""
        inside = np.clip(at, -self.epsilon, self.epsilon)
        up, down = 0.5 * (self.epsilon + inside), 0.5 * (self.epsilon - inside)
        total = log_expm1(self.epsilon)
        above, below = log_expm1_array(down) - total, log_expm1_array(up) - total
        return Tails(*(np.minimum(log, 0.0) for log in (up + above, below, above, down + below)))


@dataclass(frozen=True, slots=True)
class ChoicesLoss:
    """The worst curve of `count` choices, each of range `epsilon` and made from the answers of those before it, as a pair of atoms.

    It dominates, whatever else runs between the choices: what has a pair of its own may as well run before them all, since a choice that
    sees more is no better for privacy (backward induction, as in numerics/grid/chosen_range.py). Where what runs between is itself known
    by the curve of all of its runs together, and each may depend on all outputs before it: interactive mechanisms that run concurrently
    are dominated by the product of the pairs of each (Vadhan, Zhang 2022, arXiv:2207.08335).
    """

    epsilon: float
    count: int

    def cgf(self, z: Array) -> Array:
        """That of the atoms."""
        return self.pair().cgf(z)

    def tilted(self, t: float) -> TiltedAtoms:
        """The atoms."""
        return self.pair().tilted(t)

    def tails(self, at: Array) -> Tails:
        """The atoms."""
        return self.pair().tails(at)

    def pair(self) -> ChordPair:
        """The atoms, remembered."""
        return _pair(self.epsilon, self.count)


def curve_of(epsilon: float, count: int) -> ChoiceCurve:
    """Bounds on the curve of so many choices, on a grid as fine as they are few."""
    return choice_curve(epsilon, count, math.ceil(max(1.0, epsilon) * min(max(STEPS // count, FEWEST), MANY)))


@shared(16)
def _pair(epsilon: float, count: int) -> ChordPair:
    found = curve_of(epsilon, count)
    return symmetric_pair(found.spacing, found.upper)


def choices(epsilon: float, count: int) -> tuple[tuple[RangeLoss | ChoicesLoss, int], ...]:
    """Pairs that together dominate `count` adaptive choices: blocks whose worst curve is computed, and the closed form elsewhere."""
    block = min(count, BLOCK, int(FURTHEST / epsilon)) if LEAST <= epsilon <= MOST else 1
    if block == 1:
        return ((RangeLoss(epsilon), count),)
    times, rest = divmod(count, block)
    parts: list[tuple[RangeLoss | ChoicesLoss, int]] = [(ChoicesLoss(epsilon, block), times)]
    if rest:
        parts.append((RangeLoss(epsilon) if rest == 1 else ChoicesLoss(epsilon, rest), 1))
    return tuple(parts)
