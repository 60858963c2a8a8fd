"""Convolution of lattices by the fast Fourier transform, with a bound on what its rounding did.

Every coefficient of a transform of length N errs by at most u' log2(N) times the sum of the moduli (each input reaches an output
through log2(N) roundings); a power n multiplies that by n; Parseval's identity turns errors of the spectrum into the Euclidean norm of
the error of the weights. Weights are tilted, so that this absolute error is relative to the point that is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dpcli.numerics.arrays import Array, np
from dpcli.numerics.grid.lattice import Lattice
from dpcli.numerics.work import spend

UNIT = 7e-16  # six roundings of a complex product and sum


def transform_size(length: int) -> int:
    """The least 2^a 3^b 5^c at or above `length`."""
    best = 1 << max(length - 1, 1).bit_length()
    for fives in (1, 5, 25):
        for threes in (1, 3, 9, 27):
            factor = fives * threes
            best = min(best, factor << max(-(-length // factor) - 1, 0).bit_length())
    return best


def norm(x: Array) -> float:
    """The Euclidean norm."""
    return math.sqrt(float((x * x).sum()))


def convolved(parts: Sequence[tuple[Lattice, int]], first: int, size: int) -> Lattice:
    """Every lattice convolved with itself `count` times and with the others, on grid points first, ..., first + size - 1.

    Mass outside that window is wrapped around into it: the caller bounds it. All parts share tilt and spacing.
    """
    spend(float(size) * (len(parts) + 1))
    log_modulus: Array = np.zeros(size // 2 + 1)
    angle: Array = np.zeros(size // 2 + 1)
    relative: Array = np.zeros(size // 2 + 1)
    offset, scale, log_finite, error, log_error, shift, lost = 0, 0.0, 0.0, 0.0, 1e-12, 0.0, 0.0
    for lattice, count in parts:
        spectrum = np.fft.rfft(_folded(lattice.weights, size), size)
        slip = UNIT * math.log2(size) * float(lattice.weights.sum())
        modulus = np.maximum(np.abs(spectrum), slip)
        log_modulus += count * np.log(modulus)
        angle += np.remainder(count * np.angle(spectrum), 2.0 * math.pi)
        relative += count * (slip / modulus + UNIT)
        offset += count * lattice.start
        scale += count * lattice.log_scale
        log_finite += count * math.log1p(-lattice.infinite) if lattice.infinite < 1.0 else -math.inf
        error += count * lattice.error
        log_error += count * lattice.log_error
        shift += count * lattice.shift
        lost += count * math.log1p(lattice.lost)
    modulus = np.exp(np.maximum(log_modulus, -300.0))
    growth = np.where(relative > 30.0, relative, np.log(np.expm1(np.minimum(relative, 30.0))))
    slips = np.exp(np.maximum(log_modulus + growth, -300.0))
    weights = np.fft.irfft(modulus * np.exp(1j * angle), size)
    rounding = math.sqrt(2.0 / size) * (norm(slips) + UNIT * math.log2(size) * norm(modulus))
    weights = np.maximum(np.roll(weights, (offset - first) % size), 0.0)
    one = parts[0][0]
    return Lattice(
        one.tilt,
        one.spacing,
        first,
        weights,
        scale,
        -math.expm1(log_finite),
        error + rounding,
        log_error,
        shift,
        math.expm1(min(lost, 700.0)),
    )


def _folded(weights: Array, size: int) -> Array:
    """Weights wrapped around a circle of `size` points."""
    if len(weights) <= size:
        return weights
    padded = np.zeros(-(-len(weights) // size) * size)
    padded[: len(weights)] = weights
    return np.asarray(padded.reshape(-1, size).sum(axis=0))
