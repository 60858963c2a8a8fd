"""Convolution of lattices by the fast Fourier transform, with a bound on the rounding error.

A lattice (grid/lattice.py) is a privacy loss on the multiples of a spacing. Its weights are *tilted*: P-masses times e^{t l}, with t > 0
chosen so that the losses l near epsilon become the likely ones. Independent losses add up, so their weights are convolved.
composed_losses.py and large_losses.py compose many steps in this way.

1. Every coefficient of a transform of length N has an error of at most u' log2(N) times the sum of the moduli, because each input reaches
   an output through log2(N) roundings.
2. The n-th power of the transform multiplies the relative error by n.
3. Parseval's identity turns the errors of the spectrum into the Euclidean norm of the error of the weights.

This error is absolute. As the weights are tilted, it is small relative to those at the losses that matter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dpcli.numerics.arrays import Array, ComplexArray, np
from dpcli.numerics.grid.lattice import Lattice
from dpcli.numerics.work import spend

UNIT = 7e-16  # u' (soundness): a complex product and sum is rounded six times, by half an ulp (1.1e-16) each
SHORT = 6000  # largest number of points for which the sums are computed directly (speed); beyond, a transform is faster
FACTORS = 16  # most factors that are multiplied directly (speed); each is at least about UNIT, so their product does not underflow
LEAST_LOG = -300.0  # smaller logarithms of a modulus are raised to this (floating point), so that exponentials do not underflow
TERM = 2.3e-16  # relative error that each term adds to a sum of products (soundness): a product and a sum, half an ulp each
COMMON = 1e-12  # allowance for a relative error that all weights from a transform share (soundness)
DIRECT = 0.01  # cells of work (numerics/work.py) that a product in `convolve_directly` counts as


def transform_size(length: int) -> int:
    """Return the least number 2^a 3^b 5^c that is at least `length`, with b <= 3 and c <= 2."""
    best = 1 << max(length - 1, 1).bit_length()
    for fives in (1, 5, 25):
        for threes in (1, 3, 9, 27):
            factor = fives * threes
            best = min(best, factor << max(-(-length // factor) - 1, 0).bit_length())
    return best


def norm(x: Array) -> float:
    """Return the Euclidean norm."""
    return math.sqrt(float((x * x).sum()))


class Spectrum:
    """A product of powers of transforms of length `size`. A few factors are multiplied directly, more of them by their logarithms.

    Every modulus is raised to at least the rounding error of its transform, so that it has a relative error. `_relative` bounds the sum of
    the relative errors of the factors.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._factor: ComplexArray | None = None  # the product of the factors that are multiplied directly
        self._modulus: Array = np.ones(size // 2 + 1)  # a bound on its modulus
        self._count = 0  # the number of these factors
        self._log: Array | None = None  # log modulus of the factors that are not in `_factor`
        self._angle: Array = np.zeros(size // 2 + 1)  # their angle
        self._relative: Array = np.zeros(size // 2 + 1)

    def multiply(self, weights: Array, count: int) -> None:
        """Multiply by the `count`-fold convolution of `weights`, through its transform."""
        spectrum = np.fft.rfft(_wrap(weights, self.size), self.size)
        slip = UNIT * math.log2(self.size) * float(weights.sum())
        modulus = np.maximum(np.abs(spectrum), slip)
        self._relative += count * (slip / modulus + UNIT)
        if count > FACTORS:
            self._add(count * np.log(modulus), np.remainder(count * np.angle(spectrum), 2.0 * math.pi))
            return
        if self._count + count > FACTORS:
            self._settle()
        power = _power(spectrum, count)
        self._factor = power if self._factor is None else self._factor * power
        self._modulus = self._modulus * _power(modulus, count)
        self._count += count

    def _add(self, log_modulus: Array, angle: Array) -> None:
        """Multiply by a factor given by its log modulus and angle."""
        self._log = log_modulus if self._log is None else self._log + log_modulus
        self._angle += angle

    def _settle(self) -> None:
        """Replace the factors that were multiplied directly by their logarithms."""
        if self._factor is not None:
            self._add(np.log(self._modulus), np.angle(self._factor))
            self._factor, self._modulus, self._count = None, np.ones(self.size // 2 + 1), 0

    def inverse(self) -> tuple[Array, float]:
        """Return the weights that have this spectrum, and a bound on the Euclidean norm of their error.

        Let x be the relative errors of the factors, and r their sum. Then prod (1 + x) - 1 <= e^r min(r, 1).
        """
        product, modulus = self._factor, self._modulus
        if self._log is None and product is not None:
            grown = modulus * np.exp(self._relative)
        else:
            self._settle()
            log_modulus = np.zeros(self.size // 2 + 1) if self._log is None else self._log
            modulus = np.exp(np.maximum(log_modulus, LEAST_LOG))
            product = modulus * np.exp(1j * self._angle)
            grown = np.exp(np.maximum(log_modulus + self._relative, LEAST_LOG))
        errors = grown * np.minimum(self._relative, 1.0)
        # Parseval's identity, for a spectrum of which only the half with frequencies >= 0 is stored; and the rounding of the inverse.
        rounding = math.sqrt(2.0 / self.size) * (norm(errors) + UNIT * math.log2(self.size) * norm(modulus))
        return np.fft.irfft(product, self.size), rounding


def _power(x: Any, count: int) -> Any:
    """Return x^count for count >= 1, by repeated squaring."""
    power = x
    for bit in bin(count)[3:]:  # the binary digits after the first one
        power = power * power
        if bit == "1":
            power = power * x
    return power


def convolve(parts: Sequence[tuple[Lattice, int]], first: int, size: int) -> Lattice:
    """Return the convolution of all lattices, each `count` times, on the grid points first, ..., first + size - 1.

    All parts have the same tilt and spacing. Mass outside of the window is wrapped around into it. The caller must bound this mass.
    """
    spend(float(size) * (len(parts) + 1))
    spectrum = Spectrum(size)
    for lattice, count in parts:
        spectrum.multiply(lattice.weights, count)
    weights, rounding = spectrum.inverse()
    # What is below the root mean square of the error is mostly rounding, which would dominate moments of a higher order.
    weights[weights < rounding / math.sqrt(size)] = 0.0
    offset = sum(count * lattice.start for lattice, count in parts)
    # Twice the rounding, because dropping the small weights moves them by as much again.
    return _lattice_of(parts, first, np.roll(weights, (offset - first) % size), rounding=2.0 * rounding, log_error=COMMON)


def are_short(parts: Sequence[tuple[Lattice, int]]) -> bool:
    """Return whether the parts are so short that `convolve_directly` is faster than `convolve`."""
    return sum(count * len(lattice.weights) for lattice, count in parts) <= SHORT


def convolve_directly(parts: Sequence[tuple[Lattice, int]]) -> Lattice:
    """Return the convolution of all lattices on all of its points, computed as sums of products.

    Every weight has a small relative error, so that many copies of the result may be convolved in turn.
    """
    spend(DIRECT * sum(count * len(lattice.weights) for lattice, count in parts) ** 2)
    weights, relative_error = np.ones(1), 0.0
    for lattice, count in parts:
        for _ in range(count):
            relative_error += TERM * min(len(weights), len(lattice.weights))
            weights = np.convolve(weights, lattice.weights)
    first = sum(count * lattice.start for lattice, count in parts)
    return _lattice_of(parts, first, weights, rounding=0.0, log_error=relative_error)


def _lattice_of(parts: Sequence[tuple[Lattice, int]], first: int, weights: Array, rounding: float, log_error: float) -> Lattice:
    """Return the lattice with these weights. Its fields that are logarithms or bounds on errors add up over all copies of the parts.

    rounding, log_error: bounds on the error of this convolution, which are added to these sums (`Lattice.error`, `Lattice.log_error`).
    """
    # The sum of the losses is finite if all of them are. Its weights add up to 1, and to the product of 1 + lost with the lost mass.
    log_finite = math.fsum(n * math.log1p(-one.infinite) if one.infinite < 1.0 else -math.inf for one, n in parts)
    log_with_lost = math.fsum(n * math.log1p(one.lost) for one, n in parts)
    return Lattice(
        tilt=parts[0][0].tilt,
        spacing=parts[0][0].spacing,
        start=first,
        weights=weights,
        log_scale=math.fsum(n * one.log_scale for one, n in parts),
        infinite=-math.expm1(log_finite),
        error=math.fsum(n * one.error for one, n in parts) + rounding,
        log_error=math.fsum(n * one.log_error for one, n in parts) + log_error,
        lost=math.expm1(log_with_lost) if log_with_lost < 700.0 else math.inf,  # e^700 is nearly the largest float
        excess=math.fsum(n * one.excess for one, n in parts),
        blur=math.fsum(n * one.blur for one, n in parts),
        dispersion=math.fsum(n * one.dispersion for one, n in parts),
    )


def _wrap(weights: Array, size: int) -> Array:
    """Return the weights wrapped around a circle of `size` points."""
    if len(weights) <= size:
        return weights
    padded = np.zeros(-(-len(weights) // size) * size)
    padded[: len(weights)] = weights
    return np.asarray(padded.reshape(-1, size).sum(axis=0))
