"""Certified intervals for a composition in one direction: several contours in turn, until one is narrow enough.

Every contour's interval holds by its own certificate, so their intersection does. In turn: the integrand as it is; with the far
upper tail of each loss taken off; without the bulk of the losses that never reaches epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from dpcli.numerics.arrays import np
from dpcli.numerics.contour.integral import Contour, Losses, Method, beyond, build, log_hockey, solve, tilt_for, total_cgf, whole

NARROW = 2e-9  # relative width at which no other contour is tried
SHARE = -26.0  # logarithm of what may be capped, relative to delta


class Attempt(NamedTuple):
    """What `build` is asked for."""

    losses: Losses
    t: float
    factor: Method
    log_lost: float = -math.inf

    def contour(self, log_delta: float, epsilon: float | None = None) -> Contour | None:
        """The contour for log delta(epsilon) near `log_delta`, at any epsilon where none is given."""
        return build(self.losses, log_delta, self.t, self.factor, self.log_lost, epsilon)


def attempts(losses: Losses, log_delta: float) -> Iterator[Attempt]:
    """Ways to a contour that suits log delta(eps) near `log_delta`, most often enough first."""
    t = tilt_for(losses, log_delta)
    yield Attempt(losses, t, whole)
    capped = capped_losses(losses, log_delta + SHARE)
    if capped is not None:
        yield Attempt(capped, tilt_for(capped, log_delta), whole, log_delta + SHARE)
    yield Attempt(losses, t, beyond)


def capped_losses(losses: Losses, log_mass: float) -> Losses | None:
    """The losses with tails of e^log_mass in all taken off; None where none of them has a tail to take off."""
    counts = sum(n for _, n in losses)
    share = log_mass - math.log(counts)
    methods = [(loss, getattr(loss, "capped", None), n) for loss, n in losses]
    if not any(method for _, method, _ in methods):
        return None
    return tuple((loss if method is None else method(share), n) for loss, method, n in methods)


def epsilon_between(losses: Losses, log_delta: float) -> tuple[float, float, float] | None:
    """(lower, upper, tilt): bounds on the epsilon >= 0 of e^log_delta; None where no contour serves."""
    low, high, tilt = 0.0, math.inf, math.nan
    with np.errstate(all="ignore"):  # an overflow ends as inf or NaN in a certificate, which is then of no use
        for attempt in attempts(losses, log_delta):
            for again in (False, True):
                # The second time it is known where to look; beside the saddle point more nodes may be needed.
                if again and not low < high < math.inf:
                    continue
                contour = attempt.contour(log_delta, high if again else None)
                if contour is None:
                    break
                ends = solve(contour, log_delta)
                low = max(low, ends[0])
                if ends[1] < high:
                    high, tilt = max(ends[1], 0.0), contour.t
                if high - low <= NARROW * high < math.inf:
                    return min(low, high), high, tilt
    return (min(low, high), high, tilt) if math.isfinite(high) else None


def log_delta_between(losses: Losses, epsilon: float, near: float) -> tuple[float, float]:
    """Bounds on log delta(epsilon), by contours that suit log delta near `near`; (-inf, inf) where none serves."""
    low, high = -math.inf, math.inf
    with np.errstate(all="ignore"):
        for attempt in attempts(losses, near):
            for at in (epsilon, None):  # beside the saddle point the integrand may not decay soon enough
                contour = attempt.contour(near, at)
                if contour is not None:
                    ends = contour.log_delta(epsilon)
                    low, high = max(low, ends[0]), min(high, ends[1])
                if high - low <= 1e-9:
                    return low, high
    return low, high


def covers(losses: Losses, epsilon: float, t: float, log_delta: float) -> bool:
    """Whether delta(epsilon) is at most e^log_delta in this direction too: one value, on a contour at the tilt of another.

    Or by Chernoff's bound, where there is no contour: a direction that is far from the worse one needs none.
    """
    with np.errstate(all="ignore"):
        found = build(losses, log_delta, t) if math.isfinite(t) else None
        if found is not None and found.log_delta(epsilon)[1] <= log_delta:
            return True
        z = np.geomspace(0.1, 100.0, 10) * (t if math.isfinite(t) else 1.0 / max(epsilon, 1e-6))
        return float(np.nanmin(total_cgf(losses, z) - z * epsilon + log_hockey(z))) <= log_delta
