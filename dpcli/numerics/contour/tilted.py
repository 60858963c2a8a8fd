"""A privacy loss under an exponential tilt: its characteristic function, and how fast that decays, by quadrature.

The loss is log r(X) for a density Q r^{t+1} on the real line, log Q and log r analytic in a strip around it. Moving the line of
integration up by a, where arg r > 0, turns oscillation into decay: |E e^{i v L}| <= INT |Q r^{t+1}|(x+ia) e^{-v arg r(x+ia)} dx for
every v >= 0, which falls in v. So one integral at v = y bounds the characteristic function everywhere beyond y. Every height gives a
bound; which heights are tried decides only how sharp it is.

A loss split by size (`SplitLoss`): few steps at a low rate, or hardly any noise, put most of the loss's mass (nearly) in one point, and the
characteristic function decays late or never. But let B be the part of P's measure with a weight w(x) in [0, 1] that is 1 where the loss is
small. For n steps P^n - B^n is a positive measure, so every bound of the contour holds for it, and delta(eps) is its hockey stick plus that
of B^n, which Chernoff's bound shows to be negligible. Its transform phi^n - B^n is at most n |phi - B|, and phi - B lives where the loss is
spread.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from dpcli.base.values import dataclass
from dpcli.numerics.arrays import Array, ComplexArray, np
from dpcli.numerics.contour.stretched import log_cutoff
from dpcli.numerics.logspace import log1p_complex, log_sum
from dpcli.numerics.products import faded_less_one, turned, turned_less_one
from dpcli.numerics.quadrature import nodes_of
from dpcli.numerics.work import hold, spend

if TYPE_CHECKING:
    Line = Callable[[ComplexArray], tuple[ComplexArray, ComplexArray]]

SHARES = (0.001, 0.004, 0.012, 0.03, 0.06, 0.12, 0.25, 0.45, 0.7, 0.9)  # of `reach`: heights of the lines
REACH = 9.0  # standard deviations above which the Gaussian weight alone grows too much for a line to serve
FAR = 4.0  # standard deviations of the loss beyond which a line above the real one serves
HEIGHT = 1.5  # of that line, in standard deviations of the Gaussian weight
BLOCK = 1 << 20  # entries of a table held at a time
LIGHT = 1e-45  # weights below this are left out
LEAST = -700.0  # logarithm of what is nothing
RAMP_SHARES = (0.1, 0.25, 0.5, 0.9)  # of the height up to which the weight is small where it ought to be
LIGHT_SHARE = 1e-6  # share of the error that is allowed, of weights that are left out


class Tilted(Protocol):
    """A privacy loss under the measure e^{t L - K(t)} dP."""

    @property
    def cumulant(self) -> float:
        """K(t) itself, not a bound on it, to what `_cumulant` allows for."""
        ...

    @property
    def sharp(self) -> bool:
        """Tell whether the loss's `cgf` is K(t) too, at most SLACK relative above it, and not just a bound."""
        ...

    @property
    def mean(self) -> float:
        """E_t[L]."""
        ...

    @property
    def variance(self) -> float:
        """Var_t(L)."""
        ...

    def centred(self, step: float, count: int, log_error: float) -> ComplexArray:
        """log E_t[e^{i y (L - mean)}] (complex) at y = 0, step, ..., (count-1) step; absolute error of the expectation e^log_error."""
        ...

    def decay(self, y: Array) -> Array:
        """Upper bounds on log |E_t[e^{i v L}]| for every v >= y, at increasing y > 0; 0 where nothing is known."""
        ...


class Loss(Protocol):
    """A privacy loss that can be tilted."""

    def cgf(self, z: Array) -> Array:
        """K at real z > 0, from above."""
        ...

    def tilted(self, t: float) -> Tilted:
        """The loss under the tilt t > 0."""
        ...


Losses = Sequence[tuple[Loss, int]]


def uncut(loss: Loss) -> bool:
    """Return whether a loss may count as one without a far tail: where its moments the other way round are known."""
    return getattr(loss, "mirrored", False) or hasattr(loss, "backwards")


class TiltedQuadrature:
    """A tilted loss on nodes of a Gaussian-weighted line.

    Args:
        t: the tilt, > 0.
        pair: log Q and log r as complex functions; arg r has one sign above the real line.
        window: interval beyond which less than e^-40 of the tilted mass lies.
        strip: height up to which both are analytic and |r| is at most its value below.
        step: node distance at which positive integrals of this density are exact to e^-40.
        sharp: whether the loss's CGF at t is known to SLACK, too.
    """

    def __init__(self, t: float, pair: Line, window: tuple[float, float], strip: float, step: float, sharp: bool) -> None:
        self._t, self._pair, self.sharp = t, pair, sharp
        self._window, self._strip, self.step, self.reach = window, strip, step, min(strip, REACH)
        self._lines: tuple[Array, Array] | None = None
        log_density, ratio = self.line(step, np.zeros(0))
        density, loss = log_density.real, ratio.real
        top = float(density.max())
        weights = np.exp(density - top)
        total = float(weights.sum())
        self.log_norm = self.cumulant = top + math.log(total)
        self._weights, self._loss = weights / total, loss
        self.mean = float(self._weights @ loss)
        self.variance = float(self._weights @ (loss - self.mean) ** 2)

    def line(self, step: float, heights: Array) -> tuple[ComplexArray, ComplexArray]:
        """log of the unnormalised density and log r at the nodes of the lines Im x = height, a row each; on the real line for none."""
        hold(self._count(step) * max(len(heights), 1.0))
        x: ComplexArray = self.nodes(step)  # type: ignore[assignment]
        shape = (len(heights), len(x)) if len(heights) else (len(x),)
        if len(heights):
            x = (x + 1j * heights[:, None]).ravel()
        base, ratio = self._pair(x)
        return (base + ((self._t + 1.0) * ratio + math.log(step))).reshape(shape), ratio.reshape(shape)

    def _count(self, step: float) -> float:
        return (self._window[1] - self._window[0]) / step

    def nodes(self, step: float) -> Array:
        hold(self._count(step))
        return nodes_of(*self._window, step)

    def split(self, level: float) -> SplitLoss:
        return SplitLoss(self, ramp_at(self, level))

    def _moduli(self) -> tuple[Array, Array]:
        """log |Q r^{t+1}| over the norm and |arg r|, for the lines at SHARES of the reach; built when first asked for."""
        if self._lines is None:
            log_density, ratio = self.line(self.step, self.reach * np.array(SHARES))
            self._lines = log_density.real - self.log_norm, np.abs(ratio.imag)
        return self._lines

    def decay(self, y: Array) -> Array:
        """Upper bounds on log |E_t e^{i v L}| for every v >= y, at increasing y, each the best over the lines.

        What bounds beyond an earlier y bounds here too, hence the running minimum.
        """
        return np.minimum.accumulate(np.log(np.fmin(_least_modulus(*self._moduli(), y), 1.0)))

    def centred(self, step: float, count: int, log_error: float) -> ComplexArray:
        """log E_t e^{i y (L - mean)} at y = 0, step, 2 step, ...; absolute error of the expectation at most e^log_error."""
        near = min(count, math.floor(FAR / max(math.sqrt(self.variance) * step, 1e-12)) + 1)
        each = np.empty(count, dtype=complex)
        each[:near] = self._on_the_line(step, near, log_error)
        if near < count:
            each[near:] = self._above(step, near, count - near, log_error)
        return each

    def _on_the_line(self, step: float, count: int, log_error: float) -> ComplexArray:
        """Return the logarithms as log1p(E expm1), which keeps the digits of a characteristic function near 1."""
        fine = self._fine_step(step * (count - 1), log_error)
        if fine >= self.step:
            weights, loss = self._weights, self._loss
        else:
            log_density, ratio = self.line(fine, np.zeros(0))
            weights, loss = np.exp(log_density.real - self.log_norm), ratio.real
            weights = weights / weights.sum()
        heavy = weights > LIGHT
        return log1p_complex(turned_less_one(weights[heavy], loss[heavy] - self.mean, step, count))

    def _fine_step(self, y: float, log_error: float) -> float:
        """A step whose error e^{-2 pi b / step} (growth on the lines at +b and -b) is below e^log_error up to y."""
        log_density, turn = self._moduli()
        # Downwards the integrand grows by e^{+y turn}: the larger side.
        growth = np.log(np.fmax(np.exp(log_density + y * turn).sum(axis=1), 1.0))
        steps = 2.0 * math.pi * self.reach * np.array(SHARES) / (growth + 1.0 - log_error)
        return max(float(np.nanmax(steps)), 1e-9 * self.step)

    def _above(self, step: float, first: int, count: int, log_error: float) -> ComplexArray:
        """On a line above the real one, where the integrand has decayed before it turns often: one node distance serves every y.

        The error is e^{-2 pi a / distance} times the integral of the modulus on the lines at 0 (which is 1) and 2a. The line stays
        low: the Gaussian weight grows by e^{a^2/2}, which must not drown what is left in rounding.
        """
        a = min(0.5 * self._strip, HEIGHT)
        top = max(0.0, float(np.logaddexp.reduce(self.line(self.step, np.array([2.0 * a]))[0][0].real - self.log_norm)))
        log_density, ratio = self.line(min(self.step, 2.0 * math.pi * a / (top + 1.0 - log_error)), np.array([a]))
        log_density, ratio = log_density[0] - self.log_norm, ratio[0]
        if float(ratio.imag.sum()) < 0.0:  # arg r < 0 above the line: go below it, by symmetry
            log_density, ratio = log_density.conj(), ratio.conj()
        heavy = log_density.real - first * step * ratio.imag > math.log(LIGHT)
        total = turned(log_density[heavy], ratio[heavy] - self.mean, step, first, count)
        ends = self.decay(step * np.array([first, first + count - 1], dtype=float))
        # What is computed must obey its own bound; else the contour is refused.
        if not np.all(np.abs(total[[0, -1]]) <= 1.001 * np.exp(ends) + 1e-9):
            return np.full(count, np.nan, dtype=complex)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(total))


def _least_modulus(log_terms: Array, turn: Array, y: Array) -> Array:
    """The least over the lines of SUM e^{log_terms - y turn}, at each y; both arrays have a row for each line."""
    spend(0.5 * log_terms.size * len(y))
    rows = max(1, BLOCK // log_terms.size)
    blocks = np.split(y, range(rows, len(y), rows))
    return np.concatenate([np.exp(log_terms - part[:, None, None] * turn).sum(axis=2).min(axis=1) for part in blocks])


@dataclass(frozen=True, slots=True)
class Ramp:
    """A weight on the nodes' line: log w, the height up to which it is small where it ought to be, and a node distance that suits it."""

    log_weight: Callable[[Array | ComplexArray], ComplexArray]
    height: float
    step: float


def ramp_at(tilted: TiltedQuadrature, level: float) -> Ramp:
    """The weight that turns from 1 to 0 where the loss passes `level`, on a line whose nodes are outcomes."""
    x, loss = tilted.nodes(tilted.step), tilted.line(tilted.step, np.zeros(0))[1].real
    sign = 1.0 if loss[-1] > loss[0] else -1.0
    rising, at = (loss, x) if sign > 0.0 else (loss[::-1], x[::-1])
    edge = float(at[min(int(np.searchsorted(rising, level)), len(at) - 1)])
    k = min(max(abs(edge), 3.0), 10.0)
    return Ramp(lambda x: log_cutoff(k * sign * (x - edge)), min(tilted.reach, 0.5 * math.pi / k), min(tilted.step, 0.08 / k))


class SplitLoss:
    """The parts of a tilted loss where a weight is 1 and where it is 0.

    `bulk` and `beyond` add up to the tilted distribution exactly; the ramp only decides how well the split serves.
    """

    def __init__(self, tilted: TiltedQuadrature, ramp: Ramp) -> None:
        self._uncut, self._ramp, self._step = tilted, ramp, ramp.step

    def bulk_cgf(self, rise: Array) -> Array:
        """log E_t[w e^{rise (L - mean)}]: with rise = s - t, the bulk's own K(s) - K(t)."""
        log_density, ratio = self._uncut.line(self._step, np.zeros(0))
        log_share: Array = self._ramp.log_weight(self._uncut.nodes(self._step)).real
        exponent: Array = log_density.real - self._uncut.log_norm + log_share
        hold(len(rise) * exponent.size)
        return log_sum(exponent + rise[:, None] * (ratio.real - self._uncut.mean))

    def centred(self, step: float, count: int, log_error: float, log_error_beyond: float) -> tuple[ComplexArray, ComplexArray]:
        """(log phi, log B - log phi) at y = 0, step, ... without e^{i y mean}; absolute errors e^log_error of phi, e^log_error_beyond of
        phi - B.

        On a line above the real one, where arg r > 0: there no turn grows with y, so one node distance serves every y. The error of
        either sum is at most e^{-2 pi a / distance} times the integrals of its modulus on the lines at 0 and 2a.
        """
        a = 0.5 * RAMP_SHARES[-1] * self._ramp.height
        fine = self._fine_step(a, log_error, log_error_beyond)
        log_density, ratio = (each[0] for each in self._uncut.line(fine, np.array([a])))
        log_share = self._ramp.log_weight(np.asarray(self._uncut.nodes(fine) + 1j * a, dtype=np.complex128))
        if float(ratio.imag.sum()) < 0.0:  # arg r < 0 above the line: go below it, by symmetry
            log_density, ratio, log_share = log_density.conj(), ratio.conj(), log_share.conj()
        weights = np.exp(log_density - self._uncut.log_norm)
        parts = np.stack([weights * np.exp(log_share), weights * -np.expm1(log_share)])
        least = math.log(LIGHT_SHARE) + np.array([log_error, log_error_beyond])
        heavy = (np.abs(parts) > np.exp(least)[:, None]).any(axis=0)
        parts, loss = parts[:, heavy], ratio[heavy] - self._uncut.mean
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
        heights = self._ramp.height * np.array(RAMP_SHARES)
        log_density, ratio = self._uncut.line(self._step, heights)
        log_share = self._ramp.log_weight(self._uncut.nodes(self._step) + 1j * heights[:, None])
        return heights, log_density.real - self._uncut.log_norm, np.log(np.abs(np.expm1(log_share))), np.abs(ratio.imag)

    def _fine_step(self, a: float, log_error: float, log_error_beyond: float) -> float:
        """The node distance on the line at a; |e^{i y L} - 1| <= 2 there."""
        _, log_density, log_rest, _ = self._growing()
        log_share = self._ramp.log_weight(np.asarray(self._uncut.nodes(self._step) + 2j * a, dtype=np.complex128)).real
        bulk = np.logaddexp(0.0, np.logaddexp.reduce(log_density[-1] + log_share)) + math.log(2.0)
        rest = np.logaddexp.reduce(log_density[-1] + log_rest[-1]) + math.log(2.0)
        return min(self._step, 2.0 * math.pi * a / max(float(bulk) - log_error, float(rest) - log_error_beyond, 1.0))

    def decay(self, y: Array) -> Array:
        """Upper bounds on log |phi(v) - B(v)| for every v >= y, at increasing y, raised by 1 % for the modulus' own quadrature."""
        _, log_density, log_rest, turn = self._growing()
        return np.minimum.accumulate(np.log(1.01 * np.fmin(_least_modulus(log_density + log_rest, turn, y), 1.0)))
