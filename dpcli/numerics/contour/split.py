"""A tilted loss split by size: the bulk, which never reaches epsilon, and what lies beyond, whose characteristic function decays.

Few steps at a low rate, or hardly any noise: then most of the loss's mass sits (nearly) in one point, and the characteristic function
decays late or never. But let B be the part of P's measure with a weight w(x) in [0, 1] that is 1 where the loss is small. For n steps
P^n - B^n is a positive measure, so every bound of the contour holds for it, and delta(eps) is its hockey stick plus that of B^n, which
Chernoff's bound shows to be negligible. Its transform phi^n - B^n is at most n |phi - B|, and phi - B lives where the loss is spread.

The weight is that of cutoff.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from dpcli.numerics.arrays import Array, ComplexArray, np
from dpcli.numerics.contour.cutoff import log_cutoff
from dpcli.numerics.contour.rotations import faded_less_one, log1p_complex
from dpcli.numerics.logspace import log_sum
from dpcli.numerics.work import hold, spend

LEAST = -700.0  # logarithm of what is nothing
SHARES = (0.1, 0.25, 0.5, 0.9)  # of the height up to which the weight is small where it ought to be
LIGHT = 1e-6  # share of the error that is allowed, of weights that are left out
BLOCK = 1 << 20


class OnNodes(Protocol):
    """A tilted loss on nodes of a line, as `dpcli.numerics.contour.tilted.TiltedQuadrature` describes it."""

    step: float
    reach: float
    mean: float
    log_norm: float

    def nodes(self, step: float) -> Array: ...

    def line(self, step: float, heights: Array) -> tuple[ComplexArray, ComplexArray]: ...


@dataclass(frozen=True, slots=True)
class Ramp:
    """A weight on the nodes' line: log w, the height up to which it is small where it ought to be, and a node distance that suits it."""

    log_weight: Callable[[Array | ComplexArray], ComplexArray]
    height: float
    step: float


def ramp_at(whole: OnNodes, level: float) -> Ramp:
    """The weight that turns from 1 to 0 where the loss passes `level`, on a line whose nodes are outcomes."""
    x, loss = whole.nodes(whole.step), whole.line(whole.step, np.zeros(0))[1].real
    sign = 1.0 if loss[-1] > loss[0] else -1.0
    rising, at = (loss, x) if sign > 0.0 else (loss[::-1], x[::-1])
    edge = float(at[min(int(np.searchsorted(rising, level)), len(at) - 1)])
    k = min(max(abs(edge), 3.0), 10.0)
    return Ramp(lambda x: log_cutoff(k * sign * (x - edge)), min(whole.reach, 0.5 * math.pi / k), min(whole.step, 0.08 / k))


class SplitLoss:
    """The parts of a tilted loss where a weight is 1 and where it is 0.

    `bulk` and `beyond` add up to the tilted distribution exactly; the ramp only decides how well the split serves.
    """

    def __init__(self, whole: OnNodes, ramp: Ramp) -> None:
        self._whole, self._ramp, self._step = whole, ramp, ramp.step

    def bulk_cgf(self, rise: Array) -> Array:
        """log E_t[w e^{rise (L - mean)}]: with rise = s - t, the bulk's own K(s) - K(t)."""
        log_density, ratio = self._whole.line(self._step, np.zeros(0))
        log_share: Array = self._ramp.log_weight(self._whole.nodes(self._step)).real
        exponent: Array = log_density.real - self._whole.log_norm + log_share
        hold(len(rise) * exponent.size)
        return log_sum(exponent + rise[:, None] * (ratio.real - self._whole.mean))

    def centred(self, step: float, count: int, log_error: float, log_error_beyond: float) -> tuple[ComplexArray, ComplexArray]:
        """(log phi, log B - log phi) at y = 0, step, ... without e^{i y mean}; absolute errors e^log_error of phi, e^log_error_beyond of
        phi - B.

        On a line above the real one, where arg r > 0: there no turn grows with y, so one node distance serves every y. The error of
        either sum is at most e^{-2 pi a / distance} times the integrals of its modulus on the lines at 0 and 2a.
        """
        a = 0.5 * SHARES[-1] * self._ramp.height
        fine = self._fine_step(a, log_error, log_error_beyond)
        log_density, ratio = (found[0] for found in self._whole.line(fine, np.array([a])))
        log_share = self._ramp.log_weight(np.asarray(self._whole.nodes(fine) + 1j * a, dtype=np.complex128))
        if float(ratio.imag.sum()) < 0.0:  # arg r < 0 above the line: go below it, by symmetry
            log_density, ratio, log_share = log_density.conj(), ratio.conj(), log_share.conj()
        weights = np.exp(log_density - self._whole.log_norm)
        parts = np.stack([weights * np.exp(log_share), weights * -np.expm1(log_share)])
        least = math.log(LIGHT) + np.array([log_error, log_error_beyond])
        heavy = (np.abs(parts) > np.exp(least)[:, None]).any(axis=0)
        parts, loss = parts[:, heavy], ratio[heavy] - self._whole.mean
        rest = float(parts[1].sum().real)
        less, beyond = faded_less_one(parts, loss, step, count)
        change = less + beyond  # phi - 1: with no mass to lose, its rounding is relative to it
        log_whole, log_bulk = log1p_complex(change), log1p_complex(less - rest)
        for logarithm in (log_whole, log_bulk):
            logarithm.real = np.maximum(logarithm.real, LEAST)  # infinite numbers times a count would not be complex ones
        share = (beyond + rest) / (1.0 + change)
        near = np.abs(share) < 0.5
        return log_whole, np.where(near, log1p_complex(np.where(near, -share, 0.0)), log_bulk - log_whole)

    def _growing(self) -> tuple[Array, Array, Array, Array]:
        """Heights, log moduli of the density, log |1 - w| and |arg r| on a few lines."""
        heights = self._ramp.height * np.array(SHARES)
        log_density, ratio = self._whole.line(self._step, heights)
        log_share = self._ramp.log_weight(self._whole.nodes(self._step) + 1j * heights[:, None])
        return heights, log_density.real - self._whole.log_norm, np.log(np.abs(np.expm1(log_share))), np.abs(ratio.imag)

    def _fine_step(self, a: float, log_error: float, log_error_beyond: float) -> float:
        """The node distance on the line at a; |e^{i y L} - 1| <= 2 there."""
        _, log_density, log_rest, _ = self._growing()
        log_share = self._ramp.log_weight(np.asarray(self._whole.nodes(self._step) + 2j * a, dtype=np.complex128)).real
        bulk = np.logaddexp(0.0, np.logaddexp.reduce(log_density[-1] + log_share)) + math.log(2.0)
        rest = np.logaddexp.reduce(log_density[-1] + log_rest[-1]) + math.log(2.0)
        return min(self._step, 2.0 * math.pi * a / max(float(bulk) - log_error, float(rest) - log_error_beyond, 1.0))

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
