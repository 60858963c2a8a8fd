"""Certified bounds on epsilon at a delta, from bounds on delta that hold at every epsilon.

A contour (integral.py), or a pair of contours (smoothed.py), bounds log delta at any epsilon. certified.py asks `solve` for the epsilon at
which delta reaches a target. `solve` estimates it by Newton's method, and then moves away from the estimate on either side until the bounds
on delta prove an end. few_steps.py has an estimate of its own, and asks for the ends alone (`proved_end`).

The contour's t is its tilt, cumulant an upper bound on the CGF K(t) = log E_P[e^{t L}] of the loss L, and mean that of L under the tilt.
delta is about e^{K(t) - t eps} times the trapezoidal sum that `sums` returns.
"""

from __future__ import annotations

import math
from typing import Protocol

# Accuracy and speed: every end is proved by itself, whatever these are.
NEWTON_STEPS = 60  # most steps of Newton's method; more than ten are needed only where delta is not smooth
CONVERGED = 1e-8  # length of the last step, times t; log delta then errs by about its square, which is below the rounding
LONGEST_MOVE = 2.0  # longest step of Newton's method, in units of 1 / t
# The steps have reached the rounding below the first of these, or below the second if they no longer get smaller; relative to epsilon.
ULPS, SHORT_MOVE = 1e-15, 1e-9
DOUBLINGS = 40  # most points at which an end of an interval for epsilon is tried, each twice as far away as the one before
FIRST_MARGIN, LEAST_MARGIN = 1.01, 1e-15  # first margin of an end: relative to the error of log delta, plus relative to epsilon


class Curve(Protocol):
    """The quantities of a contour that `solve` needs.

    sums: returns the trapezoidal sum, relative to e^{K(t) - t eps}, and its derivative with respect to epsilon.
    log_delta: returns certified (lower, upper) bounds on log delta.
    """

    @property
    def t(self) -> float: ...
    @property
    def cumulant(self) -> float: ...
    @property
    def mean(self) -> float: ...
    def sums(self, epsilon: float) -> tuple[float, float]: ...
    def log_delta(self, epsilon: float) -> tuple[float, float]: ...


def solve(contour: Curve, log_delta: float) -> tuple[float, float]:
    """Return (lower, upper) bounds on the epsilon at which delta(eps) = e^log_delta. They may be negative if delta is large.

    A bound that cannot be proved is infinite. Ends at which the bounds on delta are on the right side of the target are bounds because
    delta falls with epsilon.
    """
    epsilon, slope = _newton(contour, log_delta)
    low, high = contour.log_delta(epsilon)
    if not slope > 0.0:
        return -math.inf, math.inf

    def first_margin(gap: float) -> float:
        """Return about the distance in epsilon over which log delta changes by `gap`."""
        return LEAST_MARGIN * abs(epsilon) + FIRST_MARGIN * min(max(gap, 0.0), 1.0) / slope

    lower = proved_end(contour, log_delta, epsilon, -first_margin(log_delta - low))
    return lower, proved_end(contour, log_delta, epsilon, first_margin(high - log_delta))


def _newton(contour: Curve, log_delta: float) -> tuple[float, float]:
    """Return (epsilon, -d log delta / d epsilon) where the trapezoidal sum reaches the target. The results are estimates.

    The search starts from the epsilon whose saddle point is t, where K(t) - t eps - log(t (t + 1)) has the derivative 0, or from Chernoff's
    bound if that is smaller. The slope is NaN if it is 0, or if the sum was positive at no epsilon that was tried.
    """
    t = contour.t
    longest = LONGEST_MOVE / t
    chernoff = (contour.cumulant - log_delta + t * math.log(t) - (t + 1.0) * math.log1p(t)) / t
    epsilon = min(contour.mean - 1.0 / t - 1.0 / (1.0 + t), chernoff)
    slope, last = math.nan, math.inf  # last: the move before
    # If delta is not smooth, a step may lead beyond a point that is known to lie on the other side. A bisection step then replaces it.
    below, above = -math.inf, math.inf
    for _ in range(NEWTON_STEPS):
        total, change = contour.sums(epsilon)
        if not total > 0.0:  # rounding exceeds delta here
            above = min(above, epsilon)
            epsilon = 0.5 * (below + above) if math.isfinite(below) else epsilon - longest
            continue
        slope = t - change / total
        if slope == 0.0:
            return epsilon, math.nan
        excess = contour.cumulant - t * epsilon + math.log(total) - log_delta
        if excess > 0.0:
            below = max(below, epsilon)
        else:
            above = min(above, epsilon)
        move = min(max(excess / slope, -longest), longest)
        if not abs(move) > ULPS * abs(epsilon) or (abs(move) < SHORT_MOVE * abs(epsilon) and abs(move) >= abs(last)):
            break
        if not below < epsilon + move < above and math.isfinite(above - below):
            move = 0.5 * (below + above) - epsilon
        epsilon += move
        if t * abs(move) < CONVERGED:
            break
        last = move
    return epsilon, slope


class Certificate(Protocol):
    """Bounds on log delta that hold at every epsilon."""

    def log_delta(self, epsilon: float) -> tuple[float, float]: ...


def proved_end(contour: Certificate, log_delta: float, epsilon: float, margin: float) -> float:
    """Return the first of epsilon + margin, + 2 margin, + 4 margin, ... that the certificate proves to be a bound.

    It is an upper bound for a positive margin and a lower one for a negative margin. If none of DOUBLINGS points is proved, or if the
    margin is not finite, it is infinite, with the sign of the margin.
    """
    for _ in range(DOUBLINGS):
        if not math.isfinite(margin):
            break
        low, high = contour.log_delta(epsilon + margin)
        if (high <= log_delta) if margin > 0.0 else (low >= log_delta):
            return epsilon + margin
        margin *= 2.0
    return math.copysign(math.inf, margin)
