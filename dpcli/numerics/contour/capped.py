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
from dpcli.numerics.contour.cutoff import EDGE, log_cutoff
from dpcli.numerics.contour.tilted import TiltedQuadrature
from dpcli.numerics.quadrature import MAX_NODES, TAIL, moment_on, nodes_of, step_size

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpcli.numerics.contour.tilted import Line


@dataclass(frozen=True, slots=True, eq=False)
class CappedLoss:
    """log r(X) under Q r w.

    pair: log Q (standard normal, or a mixture of unit normals at or below 0) and log r, which increases.
    slope: largest exponent in the mixtures' e^{s x}. sharpness, edge: k and c.
    """

    pair: Line
    slope: float
    sharpness: float
    edge: float

    def _weighted(self, x: ComplexArray) -> tuple[ComplexArray, ComplexArray]:
        """log Q w and log r."""
        base, ratio = self.pair(x)
        return base + log_cutoff(self.sharpness * (x - self.edge)), ratio

    def _placed(self, z: float) -> tuple[tuple[float, float], float]:
        """Window and node distance for the order z + 1."""
        window = (-TAIL - self.slope, min((2.0 * z + 2.0) * self.slope + TAIL, self.edge + EDGE / self.sharpness))
        return window, min(step_size(z, self.slope), 0.14 / self.sharpness)

    def cgf(self, z: Array) -> Array:
        """K of the capped loss from above, by at most SLACK relative and (z+1) times the mass that is capped; inf beyond MAX_NODES."""
        return np.array([self._cgf(float(one)) for one in z])

    def _cgf(self, z: float) -> float:
        (low, high), step = self._placed(z)
        if not high - low <= MAX_NODES * step:
            return math.inf
        base, ratio = self._weighted(nodes_of(low, high, step))  # type: ignore[arg-type]
        return float(moment_on(np.array([z]), base.real, ratio.real, step)[0])

    def tilted(self, t: float) -> TiltedQuadrature:
        """The strip ends where the weight would grow."""
        window, step = self._placed(t)
        strip = min(0.5 * math.pi / self.slope, 0.45 * math.pi / self.sharpness)
        return TiltedQuadrature(t, self._weighted, window, strip, step, sharp=True)


def cap(pair: Line, slope: float, log_mean: Callable[[float], float], log_mass: float) -> CappedLoss:
    """The cap that costs at most e^log_mass under P. log_mean: log E_P[e^{k x}] at k.

    k: sharper brings c nearer, down to sqrt(-2 log mass) for a normal density; blunter leaves a wider strip.
    """
    k = 0.85 * math.sqrt(-2.0 * log_mass)
    return CappedLoss(pair, slope, k, (log_mean(k) - log_mass) / k)
