"""A loss relieved of its far upper tail, smoothly, so that tilts beyond the cliff of its CGF come within reach.

At a low rate the loss has a tail so long that E[e^{t L}] explodes at a tilt far below the one that suits delta, although the tail's own
probability is next to nothing. The part of P with the weight w(x) = exp(-e^{k (x - c)}) has no cliff, and lacks at most
E_P[e^{k (x - c)}], which is made a small share of delta and added to it. Its transform's quadratures are those of the whole loss, with
one more factor.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpcli.numerics.arrays import Array, ComplexArray, np
from dpcli.numerics.contour.tilted import TiltedQuadrature
from dpcli.numerics.quadrature import MAX_NODES, SLACK, TAIL, bernoulli, log_bernoulli, step_size
from dpcli.numerics.work import spend

if TYPE_CHECKING:
    from dpcli.numerics.contour.tilted import Analytic

EDGE = 6.5  # k (x - c) beyond which w is below e^-100 at every height in use


@dataclass(frozen=True, slots=True, eq=False)
class CappedLoss:
    """log r(X) under Q r w.

    log_base, log_ratio: log Q (standard normal, or a mixture of unit normals at or below 0) and log r, which increases.
    slope: largest exponent in the mixtures' e^{s x}. sharpness, edge: k and c.
    """

    log_base: Analytic
    log_ratio: Analytic
    slope: float
    sharpness: float
    edge: float

    def _log_weight(self, x: ComplexArray) -> ComplexArray:
        place = self.sharpness * (x - self.edge)
        return np.asarray(-np.exp(np.where(place.real > EDGE, EDGE, place) if np.iscomplexobj(x) else np.minimum(place, 700.0)))

    def _weighted(self, x: ComplexArray) -> ComplexArray:
        return np.asarray(self.log_base(x) + self._log_weight(x))

    def _placed(self, z: float) -> tuple[tuple[float, float], float]:
        """Window and node distance for the order z + 1."""
        window = (-TAIL - self.slope, min((2.0 * z + 2.0) * self.slope + TAIL, self.edge + EDGE / self.sharpness))
        return window, min(step_size(z, self.slope), 0.14 / self.sharpness)

    def cgf(self, z: Array) -> Array:
        """K of the capped loss from above, by at most SLACK relative and (z+1) times the mass that is capped; inf beyond MAX_NODES."""
        return np.array([self._cgf(float(one)) for one in z])

    def _cgf(self, z: float) -> float:
        (low, high), step = self._placed(z)
        if (high - low) / step > MAX_NODES:
            return math.inf
        spend((high - low) / step)
        x: Array = np.asarray(np.arange(math.floor(low / step), math.ceil(high / step) + 1) * step, dtype=float)
        p, ratio, weight = np.array([[z + 1.0]]), self.log_ratio(x).real, self._weighted(x).real + math.log(step)  # type: ignore[arg-type]
        if (z + 1.0) * float(np.abs(ratio).max()) < 500.0:
            return math.log1p(float((bernoulli(p, ratio) @ np.exp(weight))[0])) * (1.0 + SLACK)
        return float(np.logaddexp(0.0, np.logaddexp.reduce(log_bernoulli(p, ratio)[0] + weight))) * (1.0 + SLACK)

    def tilted(self, t: float) -> TiltedQuadrature:
        """The strip ends where the weight would grow."""
        window, step = self._placed(t)
        strip = min(0.5 * math.pi / self.slope, 0.45 * math.pi / self.sharpness)
        return TiltedQuadrature(t, self._weighted, self.log_ratio, window, strip, step)


def cap(log_base: Analytic, log_ratio: Analytic, slope: float, log_mean: float, log_mass: float) -> CappedLoss:
    """The cap that costs at most e^log_mass under P, whose log E_P[e^{k x}] at k = `sharpness_for(log_mass)` is `log_mean`."""
    k = sharpness_for(log_mass)
    return CappedLoss(log_base, log_ratio, slope, k, (log_mean - log_mass) / k)


def sharpness_for(log_mass: float) -> float:
    """k: sharper brings c nearer, down to sqrt(-2 log mass) for a normal density; blunter leaves a wider strip."""
    return 0.85 * math.sqrt(-2.0 * log_mass)
