"""A line whose nodes crowd where a loss grows exponentially: there they are evenly spaced in the loss, elsewhere in the outcome.

x(v) = bend + log(log(1 + e^v)) / slope: about bend + v / slope far to the left, and e^{slope (x - bend)} = v far to the right. It is
analytic and invertible for |Im v| < pi. A characteristic function at y needs nodes no further apart than about 1 / (y dL/dx): with L = q
e^{slope x} that is one node distance in v, where evenly spaced outcomes would all have to be as close as at the far end.

In w = log(r / (1 - q) - 1), where r = (1 - q) (1 + e^w), one line serves losses of many rates and shifts (`RowLine`).

The weight w(x) = exp(-e^{k (x - c)}) takes off one end of the line. It is entire, between 0 and 1 on the real line, double-exponentially
small beyond c, and 1 - w = O(e^{k (x - c)}) before.
"""

from __future__ import annotations

import math

from dpcli.base.values import dataclass
from dpcli.numerics.arrays import Array, ComplexArray, np
from dpcli.numerics.logspace import log1p_complex
from dpcli.numerics.quadrature import nodes_of

FAR = 34.0  # |v| beyond which the line is its own asymptote, to the last digit
EDGE = 6.5  # k (x - c) beyond which w is below e^-100 at every height in use
FAR_ROW = 30.0  # w beyond which 1 + e^w is taken apart


@dataclass(frozen=True, slots=True)
class Stretched:
    """The line v -> x(v). slope: of the exponent of the loss; bend: where the nodes begin to crowd."""

    slope: float
    bend: float

    def back(self, x: float) -> float:
        power = self.slope * (x - self.bend)
        if power < -FAR:
            return power
        grown = math.exp(power)
        return grown if grown > FAR else math.log(math.expm1(grown))

    def at(self, v: ComplexArray) -> tuple[ComplexArray, ComplexArray]:
        """Return x(v) and log x'(v)."""
        left, right = v.real < -FAR, v.real > FAR
        inside = np.where(left | right, 0.0, v)
        soft = np.log1p(np.exp(inside)) if not np.iscomplexobj(v) else log1p_complex(np.exp(inside))
        soft = np.where(right, v, soft)
        log_soft = np.where(left, v, np.log(np.where(left, 1.0, soft)))
        log_share = np.where(right, 0.0, v - np.where(left | right, 0.0, soft))  # log of e^v / (1 + e^v)
        log_rise = np.where(left, 0.0, np.where(right, 0.0, log_share) - np.where(left, 0.0, log_soft)) - math.log(self.slope)
        return np.asarray(self.bend + log_soft / self.slope), np.asarray(log_rise)

    def rise(self, x: float) -> float:
        return math.exp(float(self.at(np.array([self.back(x)]))[1][0]))


def log_cutoff(place: Array | ComplexArray) -> ComplexArray:
    """log w where k (x - c) = `place`; off the real line held where its modulus is below e^-100."""
    return np.asarray(-np.exp(np.where(place.real > EDGE, EDGE, place) if np.iscomplexobj(place) else np.minimum(place, 700.0)))


@dataclass(frozen=True, slots=True)
class RowLine:
    """The nodes: w(v) on multiples of `step` from `low` to `high`, in the strip |Im v| < `strip`; sharpness, edge: k and c."""

    line: Stretched
    low: float
    high: float
    step: float
    strip: float
    sharpness: float
    edge: float

    def at(self, step: float, height: float) -> tuple[ComplexArray, ComplexArray, ComplexArray]:
        """Return (w, s, log of (1 - b) dw) at nodes `step` apart on the line Im v = height."""
        v: ComplexArray = np.asarray(nodes_of(self.low, self.high, step) + 1j * height, dtype=np.complex128)
        w, log_rise = self.line.at(v)
        return w, softplus(w), log_rise + log_cutoff(self.sharpness * (w - self.edge)) + math.log(step)


def softplus(w: ComplexArray) -> ComplexArray:
    far = w.real > FAR_ROW
    near = log1p_complex(np.exp(np.where(far, 0.0, w)))
    return np.asarray(np.where(far, w + np.exp(-np.where(far, w, FAR_ROW)), near))
