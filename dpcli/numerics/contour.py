"""delta(epsilon) of a sum of privacy losses as a contour integral of its CGF, with a certificate on both sides.

For t > 0 in the domain of K, Fourier inversion of the hockey-stick function gives

    delta(eps) = 1/(2 pi) INT exp(K(z) - z eps) / (z (z+1)) dy,   z = t + i y.

Every sum below comes with what it can have missed:

* Step. The trapezoidal sum over all multiples of h is delta(eps) + SUM_{m != 0} e^{-2 pi m t/h} delta(eps - 2 pi m/h) (Poisson
  summation), every term of which is positive: the sum is an upper bound. The terms m > 0 add up to at most 1/(e^{2 pi t/h} - 1);
  the term -m is at most exp(K(s) - s eps - 2 pi m (s-t)/h) s^s/(1+s)^{s+1} for any s > t (Chernoff's bound of delta).
* Cut. Beyond y = Y the integrand is at most e^{K(t) - t eps} e^{decay(Y)} / y^2, where decay(Y) bounds the logarithm of the tilted
  characteristic function for every y >= Y.
* Rounding, and the errors of the losses' own quadratures, relative to the sum of the moduli.

Saddle-point accountant: Alghamdi et al. 2022, arXiv:2208.09595; analytical Fourier accountant: Zhu, Dong, Wang 2022, arXiv:2106.08567.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from dpcli.numerics.quadrature import SLACK
from dpcli.numerics.roots import bracket_root, minimise_unimodal
from dpcli.registry import lazy

if TYPE_CHECKING:
    import numpy as np

    from dpcli.numerics.roots import Array
    from dpcli.numerics.tilted import ComplexArray
else:
    np = lazy("numpy")

MAX_NODES = 20000
NEGLIGIBLE = -32.0  # logarithm of what may be cut off or aliased, relative to the answer


class Tilted(Protocol):
    """A privacy loss under the measure e^{t L - K(t)} dP."""

    @property
    def mean(self) -> float:
        """E_t[L]."""
        ...

    @property
    def variance(self) -> float:
        """Var_t(L)."""
        ...

    def centred(self, y: Array, log_error: float) -> ComplexArray:
        """log E_t[e^{i y (L - mean)}] (complex) at increasing y >= 0; absolute error of the expectation at most e^log_error."""
        ...

    def decay(self, y: float) -> float:
        """An upper bound on log |E_t[e^{i v L}]| for every v >= y; 0 where nothing is known."""
        ...


class Loss(Protocol):
    """A privacy loss that can be tilted."""

    def cgf(self, z: Array) -> Array:
        """K at real z > 0, from above, at most SLACK relative."""
        ...

    def tilted(self, t: float) -> Tilted:
        """The loss under the tilt t > 0."""
        ...


Losses = Sequence[tuple[Loss, int]]


def total_cgf(losses: Losses, z: Array) -> Array:
    """Upper bound on the composition's K at real z > 0."""
    total = np.zeros_like(z)
    for loss, count in losses:
        total = total + count * loss.cgf(z)
    return total


@dataclass(frozen=True, slots=True, eq=False)
class Contour:
    """The integrand on the line Re z = t, without the factor that depends on epsilon.

    cumulant: K(t), from above by at most cumulant_error. mean: of the composed loss under the tilt.
    log_factor: K(t+iy) - K(t) - i y mean - log(z (z+1)) at y = 0, h, 2h, ...
    log_tail: of the integral beyond the last node, relative to e^{K - t eps}.
    far: tilts s > t; log_far: log of s^s / (1+s)^{s+1} e^{K(s) - K(t)} there.
    """

    t: float
    step: float
    cumulant: float
    cumulant_error: float
    mean: float
    log_factor: ComplexArray
    log_tail: float
    far: Array
    log_far: Array
    rounding: float

    def log_delta(self, epsilon: float) -> tuple[float, float]:
        """(lower, upper) bounds on log delta(epsilon)."""
        y = self.step * np.arange(len(self.log_factor))
        terms = np.exp(self.log_factor + 1j * y * (self.mean - epsilon))
        scale = self.step / (2.0 * math.pi)
        total = (2.0 * float(terms.real.sum()) - float(terms[0].real)) * scale
        error = self.rounding * 2.0 * float(np.abs(terms).sum()) * scale + math.exp(self.log_tail)
        base = self.cumulant - self.t * epsilon
        upper = base + math.log(total + error) if total + error > 0.0 else math.inf
        if total - error <= 0.0:
            return -math.inf, upper
        low = base - self.cumulant_error + math.log(total - error)
        gap = self._log_alias(epsilon) - low
        return (low + math.log1p(-math.exp(gap)) if gap < -1e-9 else -math.inf), upper

    def _log_alias(self, epsilon: float) -> float:
        """Logarithm of the terms m != 0 of the sum over aliases, from above."""
        turns = 2.0 * math.pi * self.t / self.step
        shift = 2.0 * math.pi * (self.far - self.t) / self.step
        left = self.cumulant - self.far * epsilon + self.log_far - shift - np.log1p(-np.exp(-shift))
        return float(np.logaddexp(-turns - math.log1p(-math.exp(-turns)), left.min()))


def build(losses: Losses, log_delta: float) -> Contour | None:
    """A contour that suits log delta(eps) near `log_delta` < 0; None where the integrand does not decay within MAX_NODES nodes."""
    t = minimise_unimodal(lambda z: (total_cgf(losses, z) - log_delta - np.log(z) - np.log1p(z)) / z)[0]
    far = t * np.geomspace(1.02, 4.0, 24)
    cumulants = total_cgf(losses, np.append(t, far))
    cumulant, rise = float(cumulants[0]), cumulants[1:] - cumulants[0]
    if not math.isfinite(cumulant):
        return None
    tilted = [(loss.tilted(t), count) for loss, count in losses]
    counts = float(sum(n for _, n in tilted))
    variance = math.fsum(n * part.variance for part, n in tilted)
    width = 1.0 / math.sqrt(variance + 1.0 / t**2 + 1.0 / (1.0 + t) ** 2)
    centre = (cumulant - log_delta - math.log(t) - math.log1p(t)) / t  # epsilon by Chernoff's bound
    gaps = (rise - (far - t) * centre - NEGLIGIBLE) / (far - t)
    step = min(width / 3.0, 2.0 * math.pi * t / (2.0 - NEGLIGIBLE - log_delta), 2.0 * math.pi / max(float(np.nanmin(gaps)), 1e-300))
    found = _end(tilted, counts, width, step, NEGLIGIBLE + math.log(width / (t * (1.0 + t))))
    if found is None:
        return None
    end, log_tail = found
    y: Array = step * np.arange(math.ceil(end / step) + 1, dtype=float)
    log_factor: ComplexArray = -np.log(t + 1j * y) - np.log(t + 1.0 + 1j * y)
    for part, n in tilted:
        log_factor = log_factor + n * part.centred(y, NEGLIGIBLE - math.log(counts))
    return Contour(
        t=t, step=step, cumulant=cumulant, cumulant_error=2.5 * SLACK * cumulant,
        mean=math.fsum(n * part.mean for part, n in tilted), log_factor=log_factor, log_tail=log_tail,
        far=far, log_far=rise + far * np.log(far) - (far + 1.0) * np.log1p(far),
        rounding=2e-14 + 2e-15 * math.sqrt(counts),
    )  # fmt: skip


def _end(
    tilted: Sequence[tuple[Tilted, int]], counts: float, width: float, step: float, target: float
) -> tuple[float, float] | None:
    """(Y, log of what lies beyond): the integral of e^{decay(Y)} / y^2 over both sides, and a step's worth of its first term."""
    end = width
    while end / step <= MAX_NODES:
        end *= 1.3
        decay = math.fsum(n * part.decay(end) for part, n in tilted) + 1e-13 * counts
        log_tail = decay - math.log(math.pi * end) + math.log1p(step / end)
        if log_tail <= target:
            return end, log_tail
    return None


def solve(contour: Contour, log_delta: float) -> tuple[float, float]:
    """(lower, upper) bounds on the epsilon at which delta(eps) = e^log_delta; they may be negative where delta is large."""
    centre = (contour.cumulant - log_delta - math.log(contour.t) - math.log1p(contour.t)) / contour.t
    return _crossing(contour, log_delta, centre, 0), _crossing(contour, log_delta, centre, 1)


def _crossing(contour: Contour, log_delta: float, centre: float, side: int) -> float:
    """Where one of delta's bounds crosses; the end of the bracket that is outside."""

    def excess(epsilon: float) -> float:
        return contour.log_delta(epsilon)[side] - log_delta

    reach = 1.0 / contour.t
    low, high = centre - reach, centre + 0.01 * reach
    for _ in range(60):
        if excess(low) > 0.0:
            break
        low, reach = low - reach, 2.0 * reach
    else:
        return -math.inf if side == 0 else low
    reach = 0.1 / contour.t
    while excess(high) > 0.0:
        high, reach = high + reach, 2.0 * reach
        if reach > 1e3 / contour.t:
            return math.inf
    return bracket_root(excess, low, high, rtol=1e-14)[side]
