"""A privacy loss under an exponential tilt: its characteristic function, and how fast that decays, by quadrature.

The loss is log r(X) for a density Q r^{t+1} on the real line, log Q and log r analytic in a strip around it. Moving the line of
integration up by a, where arg r > 0, turns oscillation into decay: |E e^{i v L}| <= INT |Q r^{t+1}|(x+ia) e^{-v arg r(x+ia)} dx for
every v >= 0, which falls in v. So one integral at v = y bounds the characteristic function everywhere beyond y. Every height gives a
bound; which heights are tried decides only how sharp it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from dpcli.numerics.arrays import Array, ComplexArray, np
from dpcli.numerics.contour.rotations import log1p_complex, turned, turned_less_one
from dpcli.numerics.quadrature import nodes_of
from dpcli.numerics.work import hold, spend

if TYPE_CHECKING:
    from dpcli.numerics.contour.split import SplitLoss

    Line = Callable[[ComplexArray], tuple[ComplexArray, ComplexArray]]

SHARES = (0.001, 0.004, 0.012, 0.03, 0.06, 0.12, 0.25, 0.45, 0.7, 0.9)  # of `reach`: heights of the lines
REACH = 9.0  # standard deviations above which the Gaussian weight alone grows too much for a line to serve
FAR = 4.0  # standard deviations of the loss beyond which a line above the real one serves
HEIGHT = 1.5  # of that line, in standard deviations of the Gaussian weight
BLOCK = 1 << 20  # entries of a table held at a time
LIGHT = 1e-45  # weights below this are left out


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
        """About how many nodes there are."""
        return (self._window[1] - self._window[0]) / step

    def nodes(self, step: float) -> Array:
        """Multiples of `step` in the window."""
        hold(self._count(step))
        return nodes_of(*self._window, step)

    def split(self, level: float) -> SplitLoss:
        """The loss below and beyond `level`."""
        from dpcli.numerics.contour.split import SplitLoss, ramp_at

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
        log_density, turn = self._moduli()
        spend(0.5 * log_density.size * len(y))
        rows = max(1, BLOCK // log_density.size)
        found = np.concatenate(
            [
                np.exp(log_density - part[:, None, None] * turn).sum(axis=2).min(axis=1)
                for part in np.split(y, range(rows, len(y), rows))
            ]
        )
        return np.minimum.accumulate(np.log(np.fmin(found, 1.0)))

    def centred(self, step: float, count: int, log_error: float) -> ComplexArray:
        """log E_t e^{i y (L - mean)} at y = 0, step, 2 step, ...; absolute error of the expectation at most e^log_error."""
        near = min(count, math.floor(FAR / max(math.sqrt(self.variance) * step, 1e-12)) + 1)
        found = np.empty(count, dtype=complex)
        found[:near] = self._on_the_line(step, near, log_error)
        if near < count:
            found[near:] = self._above(step, near, count - near, log_error)
        return found

    def _on_the_line(self, step: float, count: int, log_error: float) -> ComplexArray:
        """As log1p(E expm1), which keeps the digits of a characteristic function near 1."""
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
