"""Nodes in w = log(r / (1 - q) - 1), where r = (1 - q) (1 + e^w): one line of them serves losses of many rates and shifts."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpcli.numerics.arrays import ComplexArray, np
from dpcli.numerics.contour.cutoff import log_cutoff
from dpcli.numerics.contour.rotations import log1p_complex
from dpcli.numerics.contour.stretched import Stretched
from dpcli.numerics.quadrature import nodes_of

FAR = 30.0  # w beyond which 1 + e^w is taken apart


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
        """(w, s, log of (1 - b) dw) at nodes `step` apart on the line Im v = height."""
        v: ComplexArray = np.asarray(nodes_of(self.low, self.high, step) + 1j * height, dtype=np.complex128)
        w, log_rise = self.line.at(v)
        return w, softplus(w), log_rise + log_cutoff(self.sharpness * (w - self.edge)) + math.log(step)


def softplus(w: ComplexArray) -> ComplexArray:
    """log(1 + e^w)."""
    far = w.real > FAR
    near = log1p_complex(np.exp(np.where(far, 0.0, w)))
    return np.asarray(np.where(far, w + np.exp(-np.where(far, w, FAR)), near))
