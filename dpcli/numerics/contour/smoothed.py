"""Contours for any losses, such as losses with atoms or few steps, with a small Gaussian loss added so that the integrand decays.

A contour is the integral of integral.py over y on a line Re z = t, where t > 0 is the *tilt*. Its integrand contains the characteristic
function of the losses log dP/dQ, which does not decay if they have atoms. certified.py asks for `best_contour_pair`.

Let f(eps) be delta(eps) of the losses, and let f_s be delta(eps) of the losses together with one Gaussian mechanism whose contribution over
noise is s. The characteristic function of f_s falls at least like e^{-s^2 y^2 / 2}, whatever the losses are. As a function of x = e^eps, f
is convex, and f_s(x) = E[f(x X_s)] with log X_s ~ N(-s^2/2, s^2), so that E[X_s] = 1. Two inequalities bound f by contours of f_s:

* f <= f_s, by Jensen's inequality, or because releasing more does not lower delta.
* f >= 2 f_s - f_{r s} for r = 2 + s^2 and s <= 1/2.

Proof of the second inequality.

1. A convex f is an affine function plus a mixture of functions (x - k)+. So it suffices to prove the inequality for one such function.
2. For it, E[f(x X_u)] - f(x) is the time value T(u) of an option of volatility u. Its derivative (Black and Scholes) is
   T'(u) = c e^{-a^2 / (2 u^2)} e^{-u^2 / 8}, where a = log(x/k), and c > 0 does not depend on u. The first exponential rises with u.
3. Therefore T(rs) - T(s) >= c e^{-a^2 / (2 s^2)} (r-1) s e^{-r^2 s^2 / 8}, and T(s) <= c e^{-a^2 / (2 s^2)} s.
4. For s <= 1/2, r - 1 = 1 + s^2 >= e^{(2 + s^2)^2 s^2 / 8}. So T(rs) >= 2 T(s), which is the claim.

The gap between the two bounds is of second order. It is about 3/2 s^2 b (b + 1) f where f falls like e^{-b eps}, and about .4 s times the
mass of an atom near that atom. If all losses lie on a lattice and eps is many s away from its points, f is affine in x and there is no gap.
Both bounds are computed from one integrand.
"""

from __future__ import annotations

import math
from dataclasses import replace

from dpcli.base.values import dataclass
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.contour.integral import Contour, build, log_hockey, saddle, total_cgf, whole_factor
from dpcli.numerics.contour.tilted import Losses
from dpcli.numerics.contour.tilted_closed import TiltedNormal

# Soundness.
WIDEST = 0.5  # largest s, for which the lower bound is proved
ROUNDING = 4e-16  # relative rounding error of an angle
DEEPEST = 60.0  # s y beyond which e^{-s^2 y^2 / 2} underflows
# Accuracy and speed: the bounds hold for every s up to WIDEST and any nodes.
MAX_LOG_RATIO = 0.69  # largest log(f_{r s} / f_s) for which 2 f_s - f_{r s} is used; it is positive up to log 2
SHORT = 0.1  # the first s is at most SHORT / t, so that the gap is small compared with delta
FARTHER = 1.5  # Chernoff's bound at the tilt FARTHER t limits the aliases (integral.py) on one side, and so the node distance
FEW, MANY = 12_000.0, 1_000_000.0  # number of nodes of the first pair of contours, and the most of any pair
AIM = 4e-10  # s is chosen for an interval for epsilon of this relative width
SMALL = 0.05  # below SMALL / t, the width is relative to SMALL / t in place of epsilon
DEEP = 32.0  # the aliases, and what lies beyond the last node, may each be about e^-DEEP of delta
WIDER, TRIES = 1.4, 12  # s is multiplied by WIDER if the nodes do not suffice, in at most TRIES attempts


@dataclass(frozen=True, slots=True)
class SmallGaussian:
    """The loss of a Gaussian mechanism with contribution over noise s: L ~ N(s^2 / 2, s^2)."""

    s: float

    def cgf(self, z: Array) -> Array:
        return 0.5 * self.s * self.s * z * (z + 1.0)

    def tilted(self, t: float) -> TiltedNormal:
        variance = self.s * self.s
        return TiltedNormal(0.5 * variance * t * (t + 1.0), variance * (t + 0.5), variance)


@dataclass(frozen=True, slots=True, eq=False)
class ContourPair:
    """The contours of f_s (`narrow`) and f_{r s} (`wide`). The properties and `sums`, from which `solve` starts, are those of `narrow`."""

    narrow: Contour
    wide: Contour

    @property
    def t(self) -> float:
        return self.narrow.t

    @property
    def cumulant(self) -> float:
        return self.narrow.cumulant

    @property
    def mean(self) -> float:
        return self.narrow.mean

    def sums(self, epsilon: float) -> tuple[float, float]:
        return self.narrow.sums(epsilon)

    def log_delta(self, epsilon: float) -> tuple[float, float]:
        """Return (lower, upper) bounds on log delta(epsilon).

        With the ratio x = f_{r s} / f_s, the lower bound 2 f_s - f_{r s} is f_s (1 - (x - 1)). An error of K(t) multiplies f_s and f_{r s}
        by the same factor. `low` allows for that error, but the ratio does not need it, so it is added back there.
        """
        low, high = self.narrow.log_delta(epsilon)
        _, wide_high = self.wide.log_delta(epsilon)
        log_ratio = wide_high - (low + self.narrow.cumulant_error)
        return (low + math.log1p(-math.expm1(log_ratio)) if log_ratio < MAX_LOG_RATIO else -math.inf), high


def contour_pair(
    losses: Losses, log_delta: float, t: float, s: float, epsilon: float | None, log_lost: float = -math.inf
) -> ContourPair | None:
    """Return the pair of contours on Re z = t with this s, or None if the nodes do not suffice.

    epsilon: where the bounds are wanted; None for about the epsilon at e^log_delta. log_lost: logarithm of the mass that the losses lack.
    """
    narrow = build((*losses, (SmallGaussian(s), 1)), log_delta, t, whole_factor, log_lost, epsilon)
    if narrow is None:
        return None
    # If the characteristic function of a step is not near 1, the rounding of the angles is not proportional to the integrand. It adds up
    # to this integral of y / |z (z+1)|, which is at most 1 / (1 + t) and at most 1 / y.
    y, farthest = narrow.y, DEEPEST / s
    angle_error = ROUNDING * narrow.deviation * (2.0 + max(math.log(farthest / (1.0 + t)), 0.0)) / math.pi
    narrow = replace(narrow, error=narrow.error + angle_error)
    # A wide Gaussian loss is the narrow one with an independent one of this further variance, (r s)^2 - s^2, added. So its integrand is the
    # same but for a factor.
    more = ((2.0 + s * s) ** 2 - 1.0) * s * s
    wide = replace(
        narrow,
        cumulant=narrow.cumulant + 0.5 * more * t * (t + 1.0),
        mean=narrow.mean + more * (t + 0.5),
        modulus=narrow.modulus * np.exp(-0.5 * more * y * y),
        log_far=narrow.log_far + 0.5 * more * (narrow.far * (narrow.far + 1.0) - t * (t + 1.0)),
    )
    return ContourPair(narrow, wide)


def best_contour_pair(
    losses: Losses, log_delta: float, t: float, epsilon: float | None, nodes: float, log_lost: float = -math.inf
) -> ContourPair | None:
    """Return a pair of contours with at most about `nodes` nodes. Its s is as small as AIM requires and the nodes allow.

    The result is None if t is not positive, if K(t) is infinite, if the node distance underflows, or if no try has enough nodes.
    The arguments are those of `contour_pair`.
    """
    if not t > 0.0:
        return None
    at = np.array([t])
    cumulant = float(total_cgf(losses, at)[0])
    if not math.isfinite(cumulant):
        return None
    # An estimate of epsilon: there the integrand at y = 0 equals delta.
    near = float(saddle(np.array([cumulant]), log_delta, at)[0]) if epsilon is None else epsilon
    log_wanted = log_delta - cumulant + t * near  # log of delta relative to the factor e^{K(t) - t eps} of the integrand
    far = FARTHER * t  # `rise` is the logarithm of Chernoff's bound on delta at this tilt, relative to delta
    rise = float((total_cgf(losses, np.array([far])) - cumulant + log_hockey(np.array([far])))[0]) - (far - t) * near - log_wanted
    # The node distance at which the aliases on both sides are at most about e^-DEEP of delta.
    step = 2.0 * math.pi * min(t / (DEEP - log_delta), (far - t) / max(rise + DEEP, 1e-300))
    if not step > 0.0:  # the CGF is infinite at the farther tilt, or no double
        return None
    # The least s: with it, e^{-s^2 y^2 / 2} at the last of the nodes is e^-DEEP of delta.
    least = math.sqrt(2.0 * max(DEEP - log_wanted, DEEP)) / (nodes * step)
    # The relative gap of delta is about 3/2 s^2 t (t + 1), because delta falls like e^{-t eps}. The gap of epsilon is this divided by t.
    aimed = math.sqrt(AIM * max(near, SMALL / t) / (1.5 * (t + 1.0)))
    s = min(max(min(aimed, SHORT / t), least), WIDEST)
    for _ in range(TRIES):
        pair = contour_pair(losses, log_delta, t, s, epsilon, log_lost)
        if pair is not None or not s < WIDEST:
            return pair
        s = min(WIDER * s, WIDEST)
    return None
