"""A privacy loss under an exponential tilt: its characteristic function, and how fast that decays, by quadrature.

The loss is log r(X) for a density Q r^{t+1} on the real line, log Q and log r analytic in a strip around it. Moving the line of
integration up by a, where arg r > 0, turns oscillation into decay: |E e^{i v L}| <= INT |Q r^{t+1}|(x+ia) e^{-v arg r(x+ia)} dx for
every v >= 0, which falls in v. So one integral at v = y bounds the characteristic function everywhere beyond y.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from dpcli.registry import lazy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dpcli.numerics.roots import Array

    ComplexArray = NDArray[np.complex128]
    Analytic = Callable[[ComplexArray], ComplexArray]
else:
    np = lazy("numpy")

SHIFTS = (1e-4, 1e-3, 0.01, 0.03, 0.1, 0.25, 0.5, 0.75, 1.0)  # shares of the strip
FAR = 4.0  # standard deviations of the loss beyond which a line above the real one serves
HEIGHT = 1.5  # of that line, in standard deviations of the Gaussian weight
BLOCK = 1 << 20


class TiltedQuadrature:
    """A tilted loss on nodes of a Gaussian-weighted line.

    Args:
        t: the tilt, > 0.
        log_base, log_ratio: log Q and log r as complex functions; arg r has one sign above the real line.
        window: interval beyond which less than e^-40 of the tilted mass lies.
        strip: height up to which both are analytic and |r| is at most its value below.
        step: node distance at which positive integrals of this density are exact to e^-40.
    """

    def __init__(
        self, t: float, log_base: Analytic, log_ratio: Analytic, window: tuple[float, float], strip: float, step: float
    ) -> None:
        self._t, self._log_base, self._log_ratio = t, log_base, log_ratio
        self._window, self._strip, self._step = window, strip, step
        log_density, ratio = self._line(step, 0.0)
        self._log_norm = float(np.logaddexp.reduce(log_density.real))
        weights = np.exp(log_density.real - self._log_norm)
        self.mean = float((weights * ratio.real).sum())
        self.variance = float((weights * (ratio.real - self.mean) ** 2).sum())
        self._lines = [(a * strip, *self._moduli(a * strip)) for a in SHIFTS]

    def _line(self, step: float, height: float) -> tuple[ComplexArray, ComplexArray]:
        """log of the unnormalised density and log r at the nodes of the line Im x = height (complex)."""
        low, high = self._window
        x = np.asarray(np.arange(math.floor(low / step), math.ceil(high / step) + 1) * step + 1j * height, dtype=np.complex128)
        ratio = self._log_ratio(x)
        return self._log_base(x) + (self._t + 1.0) * ratio + math.log(step), ratio

    def _moduli(self, height: float) -> tuple[Array, Array]:
        log_density, ratio = self._line(self._step, height)
        return log_density.real - self._log_norm, np.abs(ratio.imag)

    def decay(self, y: float) -> float:
        """Upper bound on log |E_t e^{i v L}| for every v >= y, the least over a few heights."""
        return min([0.0, *(float(np.logaddexp.reduce(density - y * turn)) for _, density, turn in self._lines)])

    def centred(self, y: Array, log_error: float) -> ComplexArray:
        """log E_t e^{i y (L - mean)} at increasing y >= 0, absolute error of the expectation at most e^log_error."""
        near = int(np.searchsorted(y, FAR / math.sqrt(self.variance), side="right"))
        found = np.empty(len(y), dtype=complex)
        found[:near] = self._on_the_line(y[:near], log_error) if near else 0.0
        if near < len(y):
            found[near:] = self._above(y[near:], log_error)
        return found

    def _on_the_line(self, y: Array, log_error: float) -> ComplexArray:
        """As log1p(E expm1), which keeps the digits of a characteristic function near 1."""
        log_density, ratio = self._line(min(self._step, self._fine_step(float(y[-1]), log_error)), 0.0)
        weights = np.exp(log_density.real - np.logaddexp.reduce(log_density.real))
        heavy = weights > 1e-45
        weights, loss = weights[heavy], (ratio.real - self.mean)[heavy]
        total = np.empty(len(y), dtype=complex)
        block = max(1, BLOCK // len(loss))
        for i in range(0, len(y), block):
            turn = np.outer(y[i : i + block], loss)
            total[i : i + block] = (-2.0 * np.sin(0.5 * turn) ** 2) @ weights + 1j * ((np.sin(turn) - turn) @ weights)
        return np.asarray(np.log1p(total))

    def _fine_step(self, y: float, log_error: float) -> float:
        """Largest step whose error e^{-2 pi b / step} (growth on the lines at +b and -b) is below e^log_error up to y."""
        steps = []
        for b, density, turn in self._lines:
            growth = max(float(np.logaddexp.reduce(density + y * turn)), 0.0)  # downwards e^{+y turn}: the larger side
            steps.append(2.0 * math.pi * b / (growth + 1.0 - log_error))
        return max(steps)

    def _above(self, y: Array, log_error: float) -> ComplexArray:
        """On a line above the real one, where the integrand has decayed before it turns often: one step serves every y.

        The error is e^{-2 pi a / step} times the integral of the modulus on the lines at 0 (which is 1) and 2a. The line stays low:
        the Gaussian weight grows by e^{a^2/2}, which must not drown what is left in rounding.
        """
        a = min(0.5 * self._strip, HEIGHT)
        top = max(0.0, float(np.logaddexp.reduce(self._moduli(2.0 * a)[0])))
        log_density, ratio = self._line(min(self._step, 2.0 * math.pi * a / (top + 1.0 - log_error)), a)
        log_density = log_density - self._log_norm
        if float((ratio.imag).sum()) < 0.0:  # arg r < 0 above the line: go below it, by symmetry
            log_density, ratio = log_density.conj(), ratio.conj()
        total = np.empty(len(y), dtype=complex)
        block = max(1, BLOCK // len(ratio))
        for i in range(0, len(y), block):
            total[i : i + block] = np.exp(log_density + 1j * np.outer(y[i : i + block], ratio - self.mean)).sum(axis=1)
        for end in (0, -1):  # what is computed must obey its own bound; else the contour is refused
            if not abs(total[end]) <= 1.001 * math.exp(self.decay(float(y[end]))) + 1e-9:
                return np.full(len(y), np.nan, dtype=complex)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(total))
