"""Convolution of lattices by the fast Fourier transform, with a bound on what its rounding did.

Every coefficient of a transform of length N errs by at most u' log2(N) times the sum of the moduli (each input reaches an output
through log2(N) roundings); a power n multiplies that by n; Parseval's identity turns errors of the spectrum into the Euclidean norm of
the error of the weights. Weights are tilted, so that this absolute error is relative to the point that is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dpcli.numerics.arrays import Array, ComplexArray, np
from dpcli.numerics.grid.lattice import Lattice
from dpcli.numerics.work import spend

UNIT = 7e-16  # six roundings of a complex product and sum
SHORT = 6000  # points of a sum that is computed as it is: about as long as its transform takes
FACTORS = 16  # that are multiplied before logarithms are taken: their product, each at least 1e-15, is still a number


def transform_size(length: int) -> int:
    """The least 2^a 3^b 5^c at or above `length`."""
    best = 1 << max(length - 1, 1).bit_length()
    for fives in (1, 5, 25):
        for threes in (1, 3, 9, 27):
            factor = fives * threes
            best = min(best, factor << max(-(-length // factor) - 1, 0).bit_length())
    return best


def norm(x: Array) -> float:
    return math.sqrt(float((x * x).sum()))


class Spectrum:
    """A product of powers of transforms of length `size`: few factors as they are, more of them in logarithms.

    relative: bound on the relative error, as a logarithm, where a modulus is raised to at least what rounding makes of 0.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._factor: ComplexArray | None = None
        self._modulus: Array = np.ones(size // 2 + 1)
        self._count = 0
        self._log: Array | None = None  # of the modulus of what is not in `_factor`
        self._angle: Array = np.zeros(size // 2 + 1)
        self._relative: Array = np.zeros(size // 2 + 1)

    def multiply(self, weights: Array, count: int) -> None:
        """Multiply by the `count`-fold convolution of `weights`, through its transform."""
        spectrum = np.fft.rfft(_folded(weights, self.size), self.size)
        slip = UNIT * math.log2(self.size) * float(weights.sum())
        modulus = np.maximum(np.abs(spectrum), slip)
        self._relative += count * (slip / modulus + UNIT)
        if count > FACTORS:
            self._add(count * np.log(modulus), np.remainder(count * np.angle(spectrum), 2.0 * math.pi))
            return
        if self._count + count > FACTORS:
            self._settle()
        power, size = _powers(spectrum, count), _powers(modulus, count)
        self._factor = power if self._factor is None else self._factor * power
        self._modulus = self._modulus * size
        self._count += count

    def _add(self, log_modulus: Array, angle: Array) -> None:
        self._log = log_modulus if self._log is None else self._log + log_modulus
        self._angle += angle

    def _settle(self) -> None:
        """Turn the factors at hand into logarithms."""
        if self._factor is not None:
            self._add(np.log(self._modulus), np.angle(self._factor))
            self._factor, self._modulus, self._count = None, np.ones(self.size // 2 + 1), 0

    def inverse(self) -> tuple[Array, float]:
        """The weights that have this spectrum, and a bound on the Euclidean norm of their error.

        With x the relative errors, prod (1 + x) - 1 <= e^r min(r, 1) for r = sum x.
        """
        product, modulus = self._factor, self._modulus
        if self._log is None and product is not None:
            grown = modulus * np.exp(self._relative)
        else:
            self._settle()
            log_modulus = np.zeros(self.size // 2 + 1) if self._log is None else self._log
            modulus = np.exp(np.maximum(log_modulus, -300.0))
            product = modulus * np.exp(1j * self._angle)
            grown = np.exp(np.maximum(log_modulus + self._relative, -300.0))
        slips = grown * np.minimum(self._relative, 1.0)
        rounding = math.sqrt(2.0 / self.size) * (norm(slips) + UNIT * math.log2(self.size) * norm(modulus))
        return np.fft.irfft(product, self.size), rounding


def _powers(x: Any, count: int) -> Any:
    power = x
    for bit in bin(count)[3:]:
        power = power * power
        if bit == "1":
            power = power * x
    return power


def convolved(parts: Sequence[tuple[Lattice, int]], first: int, size: int) -> Lattice:
    """Every lattice convolved with itself `count` times and with the others, on grid points first, ..., first + size - 1.

    Mass outside that window is wrapped around into it: the caller bounds it. All parts share tilt and spacing.
    """
    spend(float(size) * (len(parts) + 1))
    spectrum = Spectrum(size)
    for lattice, count in parts:
        spectrum.multiply(lattice.weights, count)
    weights, rounding = spectrum.inverse()
    weights[weights < rounding / math.sqrt(size)] = 0.0  # mostly what rounding made: it would rule the moments of a higher order
    offset = sum(count * lattice.start for lattice, count in parts)
    return _joined(parts, first, np.roll(weights, (offset - first) % size), 2.0 * rounding, 0.0)


def short(parts: Sequence[tuple[Lattice, int]]) -> bool:
    """Return whether `summed` is the better choice."""
    return sum(count * len(lattice.weights) for lattice, count in parts) <= SHORT


def summed(parts: Sequence[tuple[Lattice, int]]) -> Lattice:
    """`convolved` on all its points, as sums of products: no weight is rounded by more than a share of itself, so that many copies of the
    result may be taken."""
    spend(0.01 * sum(count * len(lattice.weights) for lattice, count in parts) ** 2)
    weights, rounding = np.ones(1), 0.0
    for lattice, count in parts:
        for _ in range(count):
            rounding += 2.3e-16 * min(len(weights), len(lattice.weights))
            weights = np.convolve(weights, lattice.weights)
    return _joined(parts, sum(count * lattice.start for lattice, count in parts), weights, 0.0, rounding)


def _joined(parts: Sequence[tuple[Lattice, int]], first: int, weights: Array, rounding: float, relative: float) -> Lattice:
    """The lattice of these weights, and what is known of the parts, added up."""
    log_finite = math.fsum(n * math.log1p(-one.infinite) if one.infinite < 1.0 else -math.inf for one, n in parts)
    return Lattice(
        parts[0][0].tilt,
        parts[0][0].spacing,
        first,
        weights,
        math.fsum(n * one.log_scale for one, n in parts),
        -math.expm1(log_finite),
        math.fsum(n * one.error for one, n in parts) + rounding,
        math.fsum(n * one.log_error for one, n in parts) + 1e-12 * (relative == 0.0) + relative,
        math.expm1(min(math.fsum(n * math.log1p(one.lost) for one, n in parts), 700.0)),
        math.fsum(n * one.excess for one, n in parts),
        math.fsum(n * one.blur for one, n in parts),
        math.fsum(n * one.dispersion for one, n in parts),
    )


def _folded(weights: Array, size: int) -> Array:
    """Weights wrapped around a circle of `size` points."""
    if len(weights) <= size:
        return weights
    padded = np.zeros(-(-len(weights) // size) * size)
    padded[: len(weights)] = weights
    return np.asarray(padded.reshape(-1, size).sum(axis=0))
