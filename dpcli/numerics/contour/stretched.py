"""A line whose nodes crowd where a loss grows exponentially: there they are evenly spaced in the loss, elsewhere in the outcome.

x(v) = bend + log(log(1 + e^v)) / slope: about bend + v / slope far to the left, and e^{slope (x - bend)} = v far to the right. It is
analytic and invertible for |Im v| < pi. A characteristic function at y needs nodes no further apart than about 1 / (y dL/dx): with
L = q e^{slope x} that is one node distance in v, where evenly spaced outcomes would all have to be as close as at the far end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpcli.numerics.arrays import ComplexArray, np
from dpcli.numerics.contour.rotations import log1p_complex

FAR = 34.0  # |v| beyond which the line is its own asymptote, to the last digit


@dataclass(frozen=True, slots=True)
class Stretched:
    """The line v -> x(v). slope: of the exponent of the loss; bend: where the nodes begin to crowd."""

    slope: float
    bend: float

    def back(self, x: float) -> float:
        """The real v of an outcome."""
        power = self.slope * (x - self.bend)
        if power < -FAR:
            return power
        grown = math.exp(power)
        return grown if grown > FAR else math.log(math.expm1(grown))

    def at(self, v: ComplexArray) -> tuple[ComplexArray, ComplexArray]:
        """x(v) and log x'(v)."""
        left, right = v.real < -FAR, v.real > FAR
        inside = np.where(left | right, 0.0, v)
        soft = np.log1p(np.exp(inside)) if not np.iscomplexobj(v) else log1p_complex(np.exp(inside))
        soft = np.where(right, v, soft)
        log_soft = np.where(left, v, np.log(np.where(left, 1.0, soft)))
        log_share = np.where(right, 0.0, v - np.where(left | right, 0.0, soft))  # log of e^v / (1 + e^v)
        log_rise = np.where(left, 0.0, np.where(right, 0.0, log_share) - np.where(left, 0.0, log_soft)) - math.log(self.slope)
        return np.asarray(self.bend + log_soft / self.slope), np.asarray(log_rise)

    def rise(self, x: float) -> float:
        """x'(v) at the real v of an outcome."""
        return math.exp(float(self.at(np.array([self.back(x)]))[1][0]))
