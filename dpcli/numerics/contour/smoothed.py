"""Losses with a Gaussian one that costs next to nothing, so that every characteristic function decays: atoms, few steps, whatever else.

Let f(eps) be delta(eps) of the losses, and f_s that of the losses and one Gaussian mechanism of contribution over noise s. Its
characteristic function falls like e^{-s^2 y^2 / 2}, whatever the losses are. As a function of x = e^eps, f is convex, and f_s(x) =
E[f(x X_s)] with log X_s ~ N(-s^2/2, s^2), so that E[X_s] = 1.

* f <= f_s: Jensen's inequality (or: more is released).
* f >= 2 f_s - f_{r s} for r = 2 + s^2 and s <= 1/2. Proof. A convex f is an affine function plus a mixture of functions (x - k)+, so one of
  these will do; for it E[f(x X_u)] - f(x) is the time value T(u) of an option of volatility u, whose derivative (Black and Scholes) is
  T'(u) = c e^{-a^2 / (2 u^2)} e^{-u^2 / 8}, a = log(x/k), and c > 0 does not depend on u. The first factor rises. So T(rs) - T(s) >=
  c e^{-a^2 / (2 s^2)} (r-1) s e^{-r^2 s^2 / 8}, and T(s) <= c e^{-a^2 / (2 s^2)} s. As r - 1 = 1 + s^2 >= e^{(2 + s^2)^2 s^2 / 8} where
  s <= 1/2, T(rs) >= 2 T(s), which is the claim.

The gap is of second order: about 3/2 s^2 b (b + 1) f, where f falls like e^{-b eps}; near an atom of the sum, .4 s times its mass. Far from
all atoms of a lattice, in units of s, f is affine in x and there is none. Both ends are contours of one and the same integrand.
"""

from __future__ import annotations

import math
from dataclasses import replace

from dpcli.base.values import dataclass
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.contour.integral import Contour, build, log_hockey, saddle, total_cgf, undivided
from dpcli.numerics.contour.tilted import Losses
from dpcli.numerics.contour.tilted_closed import TiltedNormal

WIDEST, SHORT = 0.5, 0.1  # s; and s t, where the gap is to be small beside delta
FEW, MANY = 12_000.0, 1_000_000.0  # nodes of a first look, and of the last one at most
AIM = 4e-10  # relative width of the interval that is aimed at
SMALL = 0.05  # epsilon, in units of 1 / t, below which no closer interval is aimed at
DEEP = 32.0  # logarithm of what may be cut off, from below
DEEPEST = 60.0  # s y beyond which e^{-s^2 y^2 / 2} is no number
WIDER, TRIES = 1.4, 12  # where the nodes do not suffice
ROUNDING = 4e-16  # of an angle


@dataclass(frozen=True, slots=True)
class SmallGaussian:
    """L ~ N(s^2 / 2, s^2)."""

    s: float

    def cgf(self, z: Array) -> Array:
        return 0.5 * self.s * self.s * z * (z + 1.0)

    def tilted(self, t: float) -> TiltedNormal:
        variance = self.s * self.s
        return TiltedNormal(0.5 * variance * t * (t + 1.0), variance * (t + 0.5), variance)


@dataclass(frozen=True, slots=True, eq=False)
class Smoothed:
    """The contours of f_s and f_{r s}."""

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
        """(lower, upper) bounds on log delta(epsilon); what K(t) may be off by is a factor of both terms of the lower one."""
        low, high = self.narrow.log_delta(epsilon)
        above = self.wide.log_delta(epsilon)[1] - (low + self.narrow.cumulant_error)
        return (low + math.log1p(-math.expm1(above)) if above < 0.69 else -math.inf), high


def smoothed(
    losses: Losses, log_delta: float, t: float, s: float, epsilon: float | None, log_lost: float = -math.inf
) -> Smoothed | None:
    """The pair of contours on Re z = t, as `build` has one; None where the nodes do not suffice."""
    narrow = build((*losses, (SmallGaussian(s), 1)), log_delta, t, undivided, log_lost, epsilon)
    if narrow is None:
        return None
    # of a step whose characteristic function is not near 1 the angles' rounding is not in proportion to the integrand: y / |z (z+1)|,
    # which is at most 1 / (1 + t) and 1 / y, adds up to this
    y, farthest = narrow.y, DEEPEST / s
    turned = ROUNDING * narrow.deviation * (2.0 + max(math.log(farthest / (1.0 + t)), 0.0)) / math.pi
    narrow = replace(narrow, error=narrow.error + turned)
    more = ((2.0 + s * s) ** 2 - 1.0) * s * s
    wide = replace(
        narrow,
        cumulant=narrow.cumulant + 0.5 * more * t * (t + 1.0),
        mean=narrow.mean + more * (t + 0.5),
        modulus=narrow.modulus * np.exp(-0.5 * more * y * y),
        log_far=narrow.log_far + 0.5 * more * (narrow.far * (narrow.far + 1.0) - t * (t + 1.0)),
    )
    return Smoothed(narrow, wide)


def best_smoothed(
    losses: Losses, log_delta: float, t: float, epsilon: float | None, nodes: float, log_lost: float = -math.inf
) -> Smoothed | None:
    """The pair with the least s that AIM asks for and the number of nodes allows."""
    if not t > 0.0:
        return None
    at = np.array([t])
    cumulant = float(total_cgf(losses, at)[0])
    if not math.isfinite(cumulant):
        return None
    near = float(saddle(np.array([cumulant]), log_delta, at)[0]) if epsilon is None else epsilon
    log_wanted = log_delta - cumulant + t * near
    far = 1.5 * t
    rise = float((total_cgf(losses, np.array([far])) - cumulant + log_hockey(np.array([far])))[0]) - (far - t) * near - log_wanted
    step = 2.0 * math.pi * min(t / (DEEP - log_delta), (far - t) / max(rise + DEEP, 1e-300))
    least = math.sqrt(2.0 * max(DEEP - log_wanted, DEEP)) / (nodes * step)
    s = min(max(min(math.sqrt(AIM * max(near, SMALL / t) / (1.5 * (t + 1.0))), SHORT / t), least), WIDEST)
    for _ in range(TRIES):
        pair = smoothed(losses, log_delta, t, s, epsilon, log_lost)
        if pair is not None or not s < WIDEST:
            return pair
        s = min(WIDER * s, WIDEST)
    return None
