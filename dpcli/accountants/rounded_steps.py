"""Rounding of thousands of different sampled Gaussians to fewer ones, which lose slightly more or slightly less privacy.

A file with a noise for each step can have thousands of different steps, which take accountants too long. `account` and the plot of epsilons
ask about the rounded steps instead: those that lose more give the upper bound, and those that lose less the lower one.

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
from dpcli.numerics.work import shared  # a cache

# Accuracy and speed: any rounding gives an upper and a lower bound.
MOST_SAMPLED = 500  # most different sampled Gaussians after the rounding
LOG_RATIOS = tuple(2.0**-k for k in range(16, 0, -1))  # logarithms of the ratio between neighbouring rounded values, finest first
KINDS: tuple[type[Mechanism], ...] = (SampledGaussian, SampledGaussianReplaced)


@shared(4)
def rounded_steps(steps: Steps, most_different: int, most_sampled: int = MOST_SAMPLED) -> tuple[Steps, Steps] | None:
    """Return (steps that dominate the given ones, steps that the given ones dominate), each with one step for each given one.

    Contributions and rates are rounded up or down to powers of the smallest ratio that leaves at most `most_sampled` different sampled
    Gaussians. They never exceed the largest original value, or fall below the smallest.

    Returns None if there is nothing to round, because at most `most_different` mechanisms or at most `most_sampled` sampled Gaussians
    differ, and if no ratio suffices. The caller then asks about the steps as they are.
    """
    different = {mechanism for mechanism, _ in steps}
    sampled = sorted((m for m in different if type(m) in KINDS), key=repr)  # a fixed order, which a set lacks
    if len(different) <= most_different or len(sampled) <= most_sampled:
        return None
    # The proof compares mechanisms of one kind and one number of records, so these two stay as they are.
    rows = np.array([(KINDS.index(type(m)), m.records, m.mu, m.rate) for m in sampled])  # type: ignore[attr-defined]
    for log_ratio in LOG_RATIOS:
        above, below = _round(rows, log_ratio, np.ceil), _round(rows, log_ratio, np.floor)
        if max(len(np.unique(rounded, axis=0)) for rounded in (above, below)) <= most_sampled:
            return _replace(steps, sampled, above), _replace(steps, sampled, below)
    return None


def _round(rows: Array, log_ratio: float, rounding: np.ufunc) -> Array:
    """Return rows of (kind, records, contribution, rate) with contributions and rates rounded to powers of e^log_ratio.

    rounding: np.ceil or np.floor. No value is rounded to the other side of the original, not even by a floating-point error.
    """
    values = rows[:, 2:]
    powers = np.exp(log_ratio * rounding(np.log(values) / log_ratio))
    limit = np.maximum if rounding is np.ceil else np.minimum
    return np.hstack((rows[:, :2], limit(np.clip(powers, values.min(axis=0), values.max(axis=0)), values)))


def _replace(steps: Steps, sampled: list[Mechanism], rows: Array) -> Steps:
    """Return the steps with the contribution and rate of each row of `rows` given to the mechanism at its place in `sampled`."""
    replacements: dict[Mechanism, Mechanism] = {
        mechanism: replace(mechanism, mu=mu, rate=rate)  # type: ignore[type-var]
        for mechanism, (_, _, mu, rate) in zip(sampled, rows.tolist(), strict=True)
    }
    return tuple((replacements.get(mechanism, mechanism), count) for mechanism, count in steps)
