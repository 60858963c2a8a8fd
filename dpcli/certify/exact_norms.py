"""Exact squared sensitivities of matrix mechanisms, from the decimals that the file states.

A matrix mechanism (DP-FTRL, mechanisms/noise/correlated.py) multiplies the stream of the steps' sums by a matrix, the *encoder*, and adds
noise. A record *participates* in some of the steps, so its effect on the encoded stream is a sum of the encoder's columns at these steps.
part_conversions.py asks `squared_norm` for the largest squared length of that sum. A certificate states it as a fraction, whereas the
accountants have a double near its root. The worst patterns of participation are those of dpcli.numerics.closed.participation, which has
their theorems: for a Toeplitz encoder, the densest pattern from the first step on. Coefficients are whole numbers over one denominator, so
that sums and squares are exact; if they would be too long, they are rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

from dpcli.base.values import dataclass
from dpcli.mechanisms.noise.correlated import BandedSpec, BufferedToeplitzSpec, CorrelatedSpec, ToeplitzSpec, TreeSpec
from dpcli.mechanisms.spec import Spec
from dpcli.numerics.closed.participation import tree_squares

# Limits on time, memory and the length of a certificate. Beyond them a number is rounded up, or there is none.
MOST_STEPS = 2_000_000  # largest number of steps; the encoder's rows are added up one by one, in about two seconds
MOST_BITS = 10**9  # most bits of all coefficients of a column, which take 125 megabytes
LONGEST = 13_000  # most bits of a squared denominator; with the noise, a certificate can state READABLE bits
READABLE = 14_280  # bits of a whole number of 4,300 digits, beyond which Python reads no text
FINE = 512  # bits after the binary point of a coefficient whose exact fraction would be longer; it is then rounded up


@dataclass(frozen=True, slots=True)
class SquaredNorm:
    """The squared L2 sensitivity of an encoded stream to one added or removed record, in units of the squared bound C^2.

    rounded: whether the value is rounded up, by less than a relative 2^-400, because the exact fraction would be too long.
    """

    value: Fraction
    rounded: bool = False


@dataclass(frozen=True, slots=True)
class WholeColumn:
    """The first column of a Toeplitz encoder, as whole numbers over one denominator. `rounded` is as in SquaredNorm."""

    numerators: list[int]
    denominator: int
    rounded: bool = False


def squared_norm(spec: Spec) -> SquaredNorm | None:
    """Return the squared sensitivity of a matrix mechanism at noise_multiplier 1.

    None for another mechanism, if it would take too long to compute, or if a buffered encoder's scales add up to more than 1 as decimals.
    For a tree with more than 100 participations it is the upper bound level by level that the accountants use too.
    """
    return _squared_norm(replace(spec, noise_multiplier=1.0)) if isinstance(spec, CorrelatedSpec) else None


@lru_cache(16)
def _squared_norm(spec: CorrelatedSpec) -> SquaredNorm | None:
    norm = NORMS.get(type(spec))
    return None if norm is None else norm(spec)


def _tree_norm(spec: TreeSpec) -> SquaredNorm:
    return SquaredNorm(Fraction(tree_squares(spec.sizes, spec.min_separation, spec.max_participations)))


def _banded_norm(spec: BandedSpec) -> SquaredNorm:
    """Return the largest number of participations: the columns have length 1, and those of one record share no row."""
    return SquaredNorm(Fraction(min(spec.max_participations, -(-spec.iterations // spec.min_separation))))


def _toeplitz_norm(spec: ToeplitzSpec) -> SquaredNorm | None:
    steps = spec.iterations
    if spec.coefficients is None:
        return _densest_norm(spec, _square_root_column(min(spec.bands or 1, steps)))
    return _densest_norm(spec, _stated_column(spec.coefficients[:steps]))


def _buffered_norm(spec: BufferedToeplitzSpec) -> SquaredNorm | None:
    decays, scales = ([Fraction(repr(value)) for value in values] for values in (spec.buf_decay, spec.output_scale))
    if sum(scales) > 1:  # the decimals may exceed 1 where the doubles do not; the coefficients might then increase
        return None
    return _densest_norm(spec, _geometric_column(decays, scales, spec.iterations))


def _stated_column(coefficients: tuple[float, ...]) -> WholeColumn:
    """Return the column of the stated coefficients, read as decimals."""
    exact = [Fraction(repr(value)) for value in coefficients]
    denominator = math.lcm(*(value.denominator for value in exact))
    return WholeColumn([value.numerator * (denominator // value.denominator) for value in exact], denominator)


def _square_root_column(count: int) -> WholeColumn | None:
    """Return binom(2k, k) / 4^k for k = 0, ..., count - 1, rounded up if exact numbers are too long; None if even these are.

    Each coefficient is the one before times (2k-1) / 2k.
    """
    bits = 2 * (count - 1)  # 4^(count-1) is a multiple of every denominator
    rounded = 2 * bits > LONGEST or count * bits > MOST_BITS
    if rounded and count * FINE > MOST_BITS:
        return None
    numerators = [1 << (FINE if rounded else bits)]
    for k in range(1, count):
        numerators.append(-(-numerators[-1] * (2 * k - 1) // (2 * k)))
    return WholeColumn(numerators, numerators[0], rounded)


def _geometric_column(decays: list[Fraction], scales: list[Fraction], count: int) -> WholeColumn | None:
    """Return 1 and then SUM_i scale_i decay_i^(k-1) for k = 1, ..., count - 1.

    They are rounded up if exact numbers are too long. None if even these are.
    """
    base = math.lcm(*(decay.denominator for decay in decays))
    buffers = max(len(decays), 1)
    denominator = math.lcm(*(scale.denominator for scale in scales))
    length = denominator.bit_length() + max(count - 2, 0) * base.bit_length()
    rounded = 2 * length > LONGEST or buffers * count * length > MOST_BITS
    if rounded and buffers * count * FINE > MOST_BITS:
        return None
    denominator = 1 << FINE if rounded else denominator * base ** max(count - 2, 0)
    terms = [math.ceil(scale * denominator) for scale in scales]
    numerators = [denominator]
    for _ in range(1, count):
        numerators.append(sum(terms))
        terms = [-(-term * decay.numerator // decay.denominator) for term, decay in zip(terms, decays, strict=True)]
    return WholeColumn(numerators, denominator, rounded)


def _densest_norm(spec: CorrelatedSpec, column: WholeColumn | None) -> SquaredNorm | None:
    """Return the squared norm of the sum of columns 0, b, 2b, ..., one for each participation; None if it would take too long.

    Entry t of the sum is SUM_l column[t - l b], so it is entry t - b, plus column[t], less the term of the last participation.
    """
    steps = spec.iterations
    if column is None or steps > MOST_STEPS or steps * column.denominator.bit_length() > MOST_BITS:
        return None
    numerators, length = column.numerators, len(column.numerators)

    def coefficient(t: int) -> int:
        return numerators[t] if 0 <= t < length else 0

    b = min(spec.min_separation, steps)
    entries = [0] * b  # the latest entry of each remainder of t by b
    total = 0
    for t in range(steps):
        entry = entries[t % b] + coefficient(t) - coefficient(t - spec.max_participations * b)
        entries[t % b] = entry
        total += entry * entry
    return SquaredNorm(Fraction(total, column.denominator**2), column.rounded)


NORMS: Mapping[type[CorrelatedSpec], Callable[[Any], SquaredNorm | None]] = {
    TreeSpec: _tree_norm,
    BandedSpec: _banded_norm,
    ToeplitzSpec: _toeplitz_norm,
    BufferedToeplitzSpec: _buffered_norm,
}
