"""Bounds on delta for Gaussian steps on Poisson samples with very little noise, which certified.py tries before any contour.

With so little noise, an outcome almost always shows whether the record took part in the step. The loss of a composition then depends, up to
a normal term and a small error, only on the number K of steps in which the record took part.

1. On a Poisson sample of rate q, with mu = contribution over noise, x ~ N(B mu, 1) under P, where B is 1 with probability q. Let
   u = mu x - mu^2 / 2.
2. If a record is removed, let c_0 = log(1-q) and c_1 = log q. Under replace-one, log(1-q) is subtracted from both.
3. Suppose u >= a if B = 1, and u <= -a if B = 0. Under replace-one, suppose u <= -a also for -x. Then the loss is within
   ((1-q)/q + q/(1-q)) e^{-a} of c_1 + u if B = 1, and within 2 q/(1-q) e^{-a} of c_0 if B = 0. The difference has the form
   log(1 + v) <= v, once for each factor of the ratio.
4. So the loss S of all n steps is within `slack`, which depends on K, of S' = (n - K) c_0 + K c_1 + N(K mu^2 / 2, K mu^2), where
   K ~ Binomial(n, q). The probability that this fails is at most `missed` = 2 n Phi((a - mu^2/2) / mu).
5. E[(1 - e^{eps - S})+] increases with S and lies between 0 and 1. Therefore

    E[(1 - e^{eps - S' + slack})+] - missed <= delta(eps) <= E[(1 - e^{eps - S' - slack})+] + missed.

6. Given K, S' is normal. For X ~ N(d, s^2), E[(1 - e^{-X})+] = Phi(d / s) - e^{s^2 / 2 - d} Phi(d / s - s).

If there are several kinds of steps, their numbers K are independent and their losses add up.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

from dpcli.numerics.arrays import Array, np
from dpcli.numerics.logspace import log_ndtr_array
from dpcli.numerics.roots import bracket_root
from dpcli.numerics.work import hold, spend

# Soundness.
ROUNDING = 4e-16  # relative rounding error of one operation
ADDITION = 1e-3  # rounding error that each count adds to a sum over counts, in units of ROUNDING
MISSED_RAISE = 1.01  # factor of `missed`, which exceeds the rounding of its terms
# Accuracy: the bounds count what is left out.
# Values of log(missed / delta) that are tried; a smaller one needs more slack.
LOG_MISSED = (-23.0, -21.0, -20.0, -19.0, -18.0, -16.0)
LOG_LIGHT = -42.0  # log of the probability of the largest counts, relative to delta, that is left out and added to `missed`
LEAST_MU = 12.0  # the method is tried from this mu on
FARTHEST_DEVIATION = 40.0  # epsilon is searched up to this many standard deviations of S', given K, above its mean
# Speed and memory; `spend` and `hold` (numerics/work.py) limit both.
MOST_COMBINATIONS = 200_000  # most combinations of counts
LARGEST_COUNT = 2e5  # largest K of a kind


class StepKind(NamedTuple):
    """A kind of steps on Poisson samples.

    mu: contribution over noise. rate: sampling rate. without, present: c_0 and c_1 of the module's docstring, the loss without u of a step
    in which the record did not, or did, take part.
    """

    mu: float
    rate: float
    without: float
    present: float


class CountedLoss(NamedTuple):
    """The approximate loss S' for all combinations of counts that matter, and the bounds on its error.

    log_weights: log P(K = k). means, variances: moments of S' given K = k. slack, missed: as in the module's docstring.
    """

    log_weights: Array
    means: Array
    variances: Array
    slack: Array
    missed: float

    def log_delta(self, epsilon: float) -> tuple[float, float]:
        """Return (lower, upper) bounds on log delta(epsilon). The lower bound is -inf if `missed` and the rounding exceed delta."""
        low, low_error = self._delta(epsilon, -self.slack)
        high, high_error = self._delta(epsilon, self.slack)
        low, high = low - low_error - self.missed, high + high_error + self.missed
        return (math.log(low) if low > 0.0 else -math.inf), math.log(high)

    def _delta(self, epsilon: float, slack: Array) -> tuple[float, float]:
        """Return delta(epsilon) of the loss S' + slack, and a bound on its absolute rounding error."""
        spend(4.0 * len(self.means))
        gap, s = self.means - epsilon + slack, np.sqrt(self.variances)
        with np.errstate(all="ignore"):
            score = gap / s
            # The two terms of item 6. A count of 0 has no variance, and then S' is a constant.
            log_p, log_q = log_ndtr_array(score), log_ndtr_array(score - s) - gap + 0.5 * self.variances
            value = np.where(s > 0.0, np.exp(log_p) - np.exp(log_q), -np.expm1(-np.maximum(gap, 0.0)))
            # In units of ROUNDING: the terms times the sizes of their exponents.
            sizes = np.abs(gap) + np.abs(self.means) + abs(epsilon) + self.variances
            errors = np.where(s > 0.0, np.exp(log_q) * sizes + np.exp(log_p) * (8.0 + np.abs(log_p) + score * score), 1.0)
        weights = np.exp(self.log_weights)
        rounding = ROUNDING * float(weights @ (errors + len(weights) * ADDITION + 16.0 * value))
        return float(weights @ np.maximum(value, 0.0)), rounding

    def epsilon(self, log_delta: float) -> tuple[float, float]:
        """Return (lower, upper) bounds on the epsilon >= 0 at which delta is e^log_delta."""
        top = float((self.means + FARTHEST_DEVIATION * np.sqrt(self.variances)).max() + self.slack.max()) + 1.0
        ends = []
        for side in (0, 1):  # lower bounds on delta give the lower end (0), and upper ones the upper end (1)
            excess = partial(self._excess, log_delta, side)
            ends.append(bracket_root(excess, 0.0, top, rtol=1e-13)[side] if excess(0.0) > 0.0 else 0.0)
        return ends[0], ends[1]

    def _excess(self, log_delta: float, side: int, epsilon: float) -> float:
        """Return by how much the lower (side 0) or upper (side 1) bound on log delta exceeds `log_delta`."""
        return self.log_delta(epsilon)[side] - log_delta


def counted_loss(parts: Sequence[tuple[StepKind, int]], log_delta: float, log_missed: float) -> CountedLoss | None:
    """Return the loss of the composition by numbers of participations.

    It is None if the noise is not small enough, or if there are too many combinations of counts. log_missed: logarithm of the allowed
    `missed`, relative to e^log_delta.
    """
    # `reach` is the x with Phi(-x) = missed / (2 n), so that a = mu^2 / 2 - x mu in item 4.
    log_share = log_delta + log_missed - math.log(2.0 * math.fsum(n for _, n in parts))
    reach = math.sqrt(-2.0 * log_share)
    # The bound Phi(-x) <= phi(x) / x holds, and x > reach - 1.
    reach = math.sqrt(-2.0 * (log_share + math.log(math.sqrt(2.0 * math.pi) * (reach - 1.0))))
    log_weights, means, variances, slack = np.zeros(1), np.zeros(1), np.zeros(1), np.zeros(1)
    for kind, n in parts:
        mu, q = kind.mu, kind.rate
        a = 0.5 * mu * mu - reach * mu
        if not 0.0 < q < 1.0 or a < 1.0:  # the slack would be large
            return None
        counts = _counts(n, q, log_delta + LOG_LIGHT)
        if counts is None:
            return None
        k, log_weight = counts
        if len(k) * len(log_weights) > MOST_COMBINATIONS:
            return None
        hold(4.0 * len(k) * len(log_weights))
        log_weights = (log_weights[:, None] + log_weight).ravel()
        means = (means[:, None] + n * kind.without + k * (kind.present - kind.without + 0.5 * mu * mu)).ravel()
        variances = (variances[:, None] + k * (mu * mu)).ravel()
        odds = q / (1.0 - q)
        slack = (slack[:, None] + math.exp(-a) * (2.0 * n * odds + k * (1.0 / odds + 2.0 * odds))).ravel()
    missed = (math.exp(log_delta + log_missed) + len(parts) * math.exp(log_delta + LOG_LIGHT)) * MISSED_RAISE
    return CountedLoss(log_weights, means, variances, slack, missed)


def _counts(n: int, q: float, log_least: float) -> tuple[Array, Array] | None:
    """Return the counts k from 0 on and log P(K = k). The probability of larger counts is below e^log_least. None beyond LARGEST_COUNT."""
    spread = math.sqrt(-2.0 * log_least * n * q) - log_least  # K > n q + spread is rarer than e^log_least, by Bernstein's bound
    top = min(n, math.ceil(n * q + 2.0 * spread))
    if top > LARGEST_COUNT:
        return None
    k = np.arange(1.0, top + 1.0)
    log_ratios = np.log((n - k + 1.0) / k) + (math.log(q) - math.log1p(-q))  # log P(K = k) / P(K = k - 1)
    return np.arange(top + 1.0), n * math.log1p(-q) + np.concatenate(([0.0], np.cumsum(log_ratios)))


def counted_losses(losses: Sequence[tuple[object, int]], log_delta: float) -> Iterator[CountedLoss]:
    """Yield the results of `counted_loss` for every value in LOG_MISSED, so with less and less slack and larger `missed`.

    Nothing is yielded unless every loss has a method `step_kind` that returns its kind, with a mu of at least LEAST_MU.
    """
    kinds: list[tuple[StepKind, int]] = []
    for loss, n in losses:
        method = getattr(loss, "step_kind", None)
        kind: StepKind | None = method() if method is not None else None
        if kind is None or kind.mu < LEAST_MU:
            return
        kinds.append((kind, n))
    for log_missed in LOG_MISSED:
        counted = counted_loss(kinds, log_delta, log_missed)
        if counted is not None:
            yield counted
