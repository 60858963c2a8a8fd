"""Rounding of thousands of different sampled Gaussians to fewer ones, which lose slightly more or slightly less privacy.

Among sampled Gaussians with the same number of records, the one with the larger contribution and the larger sampling rate loses more, in
both directions and at every epsilon. The proof: let each of k records be sampled at rate q, and let mu be a contribution divided by the
noise. The sum moves by j mu with the probability of Bin(k, q) at j. This shift increases stochastically with q and with mu.

Add-remove: P is this mixture of N(j mu, 1), and Q is N(0, 1). The ratio P/Q is a sum of increasing exponentials. So the hockey-stick
divergence H_g(P, Q) is attained on a set {x > t}, and H_g(Q, P) on a set {x < t}. As q or mu grows, P(x > t) grows and Q does not change.

Replace-one: Q is the mirror image of P. The ratio P/Q increases again, and Q(x > t) falls as q or mu grows.

An order that holds for every part also holds for the composition (Zhu, Dong, Wang 2022, arXiv:2106.08567, Theorem 10).
"""

from __future__ import annotations

from dataclasses import replace

from dpcli.accountants.base import Steps
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.noise.gaussian_spec import SampledGaussian, SampledGaussianReplaced
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.work import shared

FEW = 500  # most different sampled Gaussians after the rounding
LOG_RATIOS = tuple(2.0**-k for k in range(16, 0, -1))  # logarithms of the ratio between neighbouring rounded values, finest first
KINDS: tuple[type[Mechanism], ...] = (SampledGaussian, SampledGaussianReplaced)


@shared(4)
def rounded_steps(steps: Steps, most: int, few: int = FEW) -> tuple[Steps, Steps] | None:
    """Return steps that dominate the given ones, one for one, and steps that the given ones dominate.

    Contributions and rates are rounded up or down to powers of the smallest ratio that leaves at most `few` different sampled Gaussians.
    They never exceed the largest original value, or fall below the smallest.

    Returns None if there are at most `most` different mechanisms or at most `few` different sampled Gaussians, or if no ratio suffices.
    """
    different = {mechanism for mechanism, _ in steps}
    sampled = sorted((m for m in different if type(m) in KINDS), key=repr)
    if len(different) <= most or len(sampled) <= few:
        return None
    columns = np.array([(KINDS.index(type(m)), m.records, m.mu, m.rate) for m in sampled])  # type: ignore[attr-defined]
    for log_ratio in LOG_RATIOS:
        above, below = _round(columns, log_ratio, np.ceil), _round(columns, log_ratio, np.floor)
        if max(len(np.unique(rows, axis=0)) for rows in (above, below)) <= few:
            return _replace(steps, sampled, above), _replace(steps, sampled, below)
    return None


def _round(columns: Array, log_ratio: float, way: np.ufunc) -> Array:
    """Return the rows with contributions and rates rounded to powers of e^log_ratio.

    way: np.ceil or np.floor. No value is rounded to the other side of the original, not even by a floating-point error.
    """
    result = columns.copy()
    for k in (2, 3):
        values = columns[:, k]
        powers = np.exp(log_ratio * way(np.log(values) / log_ratio))
        limit = np.maximum if way is np.ceil else np.minimum
        result[:, k] = limit(np.clip(powers, values.min(), values.max()), values)
    return result


def _replace(steps: Steps, sampled: list[Mechanism], rows: Array) -> Steps:
    """Return the steps with the mechanisms of `rows` in place of `sampled`. Equal rows become the same mechanism."""
    by_row: dict[tuple[float, ...], Mechanism] = {}
    replacements: dict[Mechanism, Mechanism] = {}
    for mechanism, row in zip(sampled, rows.tolist(), strict=True):
        key = tuple(row)
        if key not in by_row:
            by_row[key] = replace(mechanism, mu=key[2], rate=key[3])  # type: ignore[type-var]
        replacements[mechanism] = by_row[key]
    return tuple((replacements.get(mechanism, mechanism), count) for mechanism, count in steps)
