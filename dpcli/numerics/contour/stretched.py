"""A change of variables for quadrature that places more nodes where a loss grows exponentially with the outcome.

The loss is L = log r with r = dP/dQ, as a function of an outcome x on the real line, such as that of a sampled Gaussian. cut.py and
cut_rows.py compute integrals and characteristic functions of such losses by sums over equally spaced nodes v, and ask this file for x(v).

The outcome is x(v) = bend + log(log(1 + e^v)) / slope. Far to the left x is about bend + v / slope, so the nodes are evenly spaced in the
outcome. Far to the right e^{slope (x - bend)} = v, so they are evenly spaced in the loss. The map is analytic and invertible for
|Im v| < pi.

A characteristic function at frequency y needs nodes no farther apart than about 1 / (y dL/dx). If L grows like e^{slope x}, this is a
constant distance in v. Evenly spaced outcomes would all have to be as close together as the outcomes at the far end.

A ratio r = (1 - q) (1 + e^w) can be described by w = log(r / (1 - q) - 1) in place of x. In w, one line of nodes serves the losses of many
sampling rates q and shifts (`RowLine`).

The factor exp(-e^{k (x - c)}), the *cutoff*, cuts off one end of the line. It is an entire function, lies between 0 and 1 on the real line,
and is double-exponentially small beyond c. Before c, it is 1 - O(e^{k (x - c)}).
"""

from __future__ import annotations

import math

from dpcli.base.values import dataclass
from dpcli.numerics.arrays import Array, ComplexArray, np
from dpcli.numerics.logspace import log1p_complex
from dpcli.numerics.quadrature import nodes_of

# Soundness: beyond these, exact formulas would overflow or lose digits, and the error of what replaces them is too small to count.
FAR = 34.0  # |v| beyond which the line equals its asymptote to the last digit
FAR_ROW = 30.0  # w beyond which log(1 + e^w) is computed as w + e^-w
EDGE = 6.5  # k (x - c) beyond which the modulus of the cutoff is below e^-100 at every imaginary part in use


@dataclass(frozen=True, slots=True)
class Stretched:
    """The map v -> x(v). slope: rate at which the loss grows exponentially. bend: outcome beyond which the nodes get denser."""

    slope: float
    bend: float

    def back(self, x: float) -> float:
        """Return the v with x(v) = x, at which log(1 + e^v) = e^{slope (x - bend)}."""
        power = self.slope * (x - self.bend)
        if power < -FAR:
            return power
        grown = math.exp(power)
        return grown if grown > FAR else math.log(math.expm1(grown))

    def at(self, v: ComplexArray) -> tuple[ComplexArray, ComplexArray]:
        """Return x(v) and log x'(v).

        With log(1 + e^v) as `soft`, x' is e^v / (1 + e^v) / (soft slope). Far to the left, soft is e^v, and x' is 1 / slope. Far to the
        right, soft is v, and x' is 1 / (v slope). There 0 replaces v in the exponential, which could underflow or overflow.
        """
        left, right = v.real < -FAR, v.real > FAR
        inside = np.where(left | right, 0.0, v)
        soft = np.log1p(np.exp(inside)) if not np.iscomplexobj(v) else log1p_complex(np.exp(inside))
        soft = np.where(right, v, soft)
        log_soft = np.where(left, v, np.log(np.where(left, 1.0, soft)))
        log_share = np.where(right, 0.0, v - np.where(left | right, 0.0, soft))  # log of e^v / (1 + e^v)
        return np.asarray(self.bend + log_soft / self.slope), np.asarray(log_share - log_soft - math.log(self.slope))

    def rise(self, x: float) -> float:
        """Return dx/dv at the outcome x."""
        return math.exp(float(self.at(np.array([self.back(x)]))[1][0]))


def log_cutoff(place: Array | ComplexArray) -> ComplexArray:
    """Return the logarithm of the cutoff at k (x - c) = `place`.

    Off the real line `place` is limited to EDGE, where the modulus of the cutoff is already below e^-100. On it, e^place would overflow
    beyond about 709.
    """
    return np.asarray(-np.exp(np.where(place.real > EDGE, EDGE, place) if np.iscomplexobj(place) else np.minimum(place, 700.0)))


@dataclass(frozen=True, slots=True)
class RowLine:
    """A line of nodes for many rows, each of which is one loss: w(v) at the multiples of `step` from `low` to `high`.

    strip: the integrands are used for |Im v| < strip. sharpness, edge: k and c of the cutoff, as a function of w.
    """

    line: Stretched
    low: float
    high: float
    step: float
    strip: float
    sharpness: float
    edge: float

    def at(self, step: float, height: float) -> tuple[ComplexArray, ComplexArray, ComplexArray]:
        """Return w, log(1 + e^w), and the logarithm of the quadrature weight, at nodes `step` apart on the line Im v = height.

        The quadrature weight is the cutoff times the length in w that belongs to a node.
        """
        v: ComplexArray = np.asarray(nodes_of(self.low, self.high, step) + 1j * height, dtype=np.complex128)
        w, log_rise = self.line.at(v)
        return w, softplus(w), log_rise + log_cutoff(self.sharpness * (w - self.edge)) + math.log(step)


def softplus(w: ComplexArray) -> ComplexArray:
    """Return log(1 + e^w)."""
    far = w.real > FAR_ROW
    near = log1p_complex(np.exp(np.where(far, 0.0, w)))
    return np.asarray(np.where(far, w + np.exp(-np.where(far, w, FAR_ROW)), near))
