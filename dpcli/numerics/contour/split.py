"""A tilted loss split by size: the bulk, which never reaches epsilon, and what lies beyond, whose characteristic function decays.

Few steps at a low rate, or hardly any noise: then most of the loss's mass sits (nearly) in one point, and the characteristic function
decays late or never. But let B be the part of P's measure with a weight w(x) in [0, 1] that is 1 where the loss is small. For n steps
P^n - B^n is a positive measure, so every bound of the contour holds for it, and delta(eps) is its hockey stick plus that of B^n, which
Chernoff's bound shows to be negligible. Its transform phi^n - B^n is at most n |phi - B|, and phi - B lives where the loss is spread.

The weight is that of cutoff.py.
"""

from __future__ import annotations

import math
from typing import Protocol

from dpcli.numerics.arrays import Array, ComplexArray, np
from dpcli.numerics.contour.cutoff import log_cutoff
from dpcli.numerics.contour.rotations import log1p_complex, turned_less_one
from dpcli.numerics.logspace import log_sum
from dpcli.numerics.work import hold, spend

SHARES = (0.1, 0.25, 0.5, 0.9)  # of the height up to which the weight is small where it ought to be
LIGHT = 1e-45
BLOCK = 1 << 20
MAX_WORK = 1e6  # entries of a table of rotations beyond which it would take too long


class OnNodes(Protocol):
    """A tilted loss on nodes of a line, as `dpcli.numerics.contour.tilted.TiltedQuadrature` describes it."""

    step: float
    reach: float
    mean: float
    log_norm: float

    def nodes(self, step: float) -> Array: ...

    def line(self, step: float, heights: Array) -> tuple[ComplexArray, ComplexArray]: ...


class SplitLoss:
    """The parts of a tilted loss below and beyond `level`.

    `bulk` and `beyond` add up to the tilted distribution exactly; the level only decides how well the split serves.
    """

    def __init__(self, whole: OnNodes, level: float) -> None:
        self._whole = whole
        x, loss = whole.nodes(whole.step), whole.line(whole.step, np.zeros(0))[1].real
        self._sign = 1.0 if loss[-1] > loss[0] else -1.0
        rising, at = (loss, x) if self._sign > 0.0 else (loss[::-1], x[::-1])
        self._edge = float(at[min(int(np.searchsorted(rising, level)), len(at) - 1)])
        self._sharpness = min(max(abs(self._edge), 3.0), 10.0)
        self._height = min(whole.reach, 0.5 * math.pi / self._sharpness)
        self._step = min(whole.step, 0.08 / self._sharpness)
        self._lines: tuple[Array, Array] | None = None

    def _log_weight(self, x: Array | ComplexArray) -> ComplexArray:
        """log w."""
        return log_cutoff(self._sharpness * self._sign * (x - self._edge))

    def bulk_cgf(self, rise: Array) -> Array:
        """log E_t[w e^{rise (L - mean)}]: with rise = s - t, the bulk's own K(s) - K(t)."""
        log_density, ratio = self._whole.line(self._step, np.zeros(0))
        log_share: Array = self._log_weight(self._whole.nodes(self._step)).real
        exponent: Array = log_density.real - self._whole.log_norm + log_share
        hold(len(rise) * exponent.size)
        return log_sum(exponent + rise[:, None] * (ratio.real - self._whole.mean))

    def centred(self, step: float, count: int, log_error: float) -> tuple[ComplexArray, ComplexArray]:
        """(log B, log phi - log B) at y = 0, step, ... without e^{i y mean}; absolute errors of both expectations e^log_error."""
        fine = self._fine_step(step * (count - 1), log_error)
        if not fine * MAX_WORK > self._step * len(self._whole.nodes(self._step)) * math.sqrt(count):
            return np.full(count, np.nan, dtype=complex), np.full(count, np.nan, dtype=complex)
        log_density, ratio = self._whole.line(fine, np.zeros(0))
        weights = np.exp(log_density.real - self._whole.log_norm)
        heavy = weights > LIGHT
        log_share = self._log_weight(self._whole.nodes(fine)[heavy]).real
        weights, loss = weights[heavy] / weights.sum(), ratio.real[heavy] - self._whole.mean
        inner, outer = weights * np.exp(log_share), weights * -np.expm1(log_share)
        mass = float(inner.sum())
        if not mass > 0.0:  # nothing that is a number is left of the bulk
            return np.full(count, np.nan, dtype=complex), np.full(count, np.nan, dtype=complex)
        less = turned_less_one(inner, loss, step, count)
        beyond = turned_less_one(outer, loss, step, count) + float(outer.sum())
        return log1p_complex(less / mass) + math.log(mass), log1p_complex(beyond / (mass + less))

    def _growing(self) -> tuple[Array, Array, Array, Array]:
        """Heights, log moduli of the density, log |1 - w| and |arg r| on a few lines."""
        heights = self._height * np.array(SHARES)
        log_density, ratio = self._whole.line(self._step, heights)
        log_share = self._log_weight(self._whole.nodes(self._step) + 1j * heights[:, None])
        return heights, log_density.real - self._whole.log_norm, np.log(np.abs(np.expm1(log_share))), np.abs(ratio.imag)

    def _fine_step(self, y: float, log_error: float) -> float:
        """A step whose error e^{-2 pi b / step} (growth on the lines at +b and -b) is below e^log_error up to y; |w|, |1 - w| <= 2."""
        heights, log_density, _, turn = self._growing()
        growth = np.log(np.fmax(np.exp(log_density + y * turn).sum(axis=1), 1.0)) + math.log(2.0)
        return min(self._step, float(np.nanmax(np.append(2.0 * math.pi * heights / (growth + 1.0 - log_error), 0.0))))

    def decay(self, y: Array) -> Array:
        """Upper bounds on log |phi(v) - B(v)| for every v >= y, at increasing y, raised by 1 % for the modulus' own quadrature."""
        _, log_density, log_rest, turn = self._growing()
        terms = log_density + log_rest
        spend(0.5 * terms.size * len(y))
        rows = max(1, BLOCK // terms.size)
        found = [
            np.exp(terms - part[:, None, None] * turn).sum(axis=2).min(axis=1) for part in np.split(y, range(rows, len(y), rows))
        ]
        return np.minimum.accumulate(np.log(1.01 * np.fmin(np.concatenate(found), 1.0)))
