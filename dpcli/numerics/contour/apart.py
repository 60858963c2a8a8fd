"""Hardly any noise: a step in which the record takes part is told from one in which it does not, and the loss is that of their number.

On a Poisson sample of rate q, with mu = contribution over noise, x ~ N(B mu, 1) under P, where B is 1 with probability q. Let
u = mu x - mu^2 / 2. Where u >= a if B = 1, and u <= -a if B = 0 (under replace-one that of -x as well), the loss is within
((1-q)/q + q/(1-q)) e^{-a} of c_1 + u if B = 1, and within 2 q/(1-q) e^{-a} of c_0 if B = 0: the rest is log(1 + v) <= v, once for each
factor of the ratio. Under add-remove c_0 = log(1-q), c_1 = log q; under replace-one both are less by log(1-q). So the loss of all steps is
within `slack` (which depends on K) of S' = (n - K) c_0 + K c_1 + N(K mu^2 / 2, K mu^2), K ~ Binomial(n, q), but with a probability of at
most `missed` = 2 n Phi((a - mu^2/2) / mu). As E[(1 - e^{eps - S})+] rises in S and lies between 0 and 1,

    E[(1 - e^{eps - S' + slack})+] - missed <= delta(eps) <= E[(1 - e^{eps - S' - slack})+] + missed.

Given K, S' is normal: for X ~ N(d, s^2), E[(1 - e^{-X})+] = Phi(d / s) - e^{s^2 / 2 - d} Phi(d / s - s). Several kinds of steps add up:
their K are independent.
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

LEFT = (-23.0, -21.0, -20.0, -19.0, -18.0, -16.0)  # logarithms of what may be missed, relative to delta: less of it is more slack
LIGHT = -42.0  # logarithm of the counts that are left out, relative to delta: they are missed, too
MOST = 200_000  # combinations of counts
FURTHEST = 2e5  # of the counts of one kind
LEAST = 12.0  # contribution over noise, from which on steps may lie apart far enough
ROUNDING = 4e-16


class ApartSteps(NamedTuple):
    """Steps of one kind. without, present: c_0 and c_1."""

    mu: float
    rate: float
    without: float
    present: float


class CountedLoss(NamedTuple):
    """log P(K = k), mean and variance of S' given K = k, for all combinations that matter; the bounds on what S' is off by."""

    log_weights: Array
    means: Array
    variances: Array
    slack: Array
    missed: float

    def log_delta(self, epsilon: float) -> tuple[float, float]:
        """(lower, upper) bounds on log delta(epsilon)."""
        low, error = self._delta(epsilon, -self.slack)
        high, other = self._delta(epsilon, self.slack)
        low, high = low - error - self.missed, high + other + self.missed
        return (math.log(low) if low > 0.0 else -math.inf), math.log(high)

    def _delta(self, epsilon: float, slack: Array) -> tuple[float, float]:
        """delta' of S' + slack, and a bound on its rounding."""
        spend(4.0 * len(self.means))
        gap, s = self.means - epsilon + slack, np.sqrt(self.variances)
        with np.errstate(all="ignore"):
            place = gap / s
            above, rest = log_ndtr_array(place), log_ndtr_array(place - s) - gap + 0.5 * self.variances
            value = np.where(s > 0.0, np.exp(above) - np.exp(rest), -np.expm1(-np.maximum(gap, 0.0)))
            sizes = np.abs(gap) + np.abs(self.means) + abs(epsilon) + self.variances
            errors = np.where(s > 0.0, np.exp(rest) * sizes + np.exp(above) * (8.0 + np.abs(above) + place * place), 1.0)
        weights = np.exp(self.log_weights)
        return float(weights @ np.maximum(value, 0.0)), ROUNDING * float(weights @ (errors + len(weights) * 1e-3 + 16.0 * value))

    def epsilon(self, log_delta: float) -> tuple[float, float]:
        """(lower, upper) bounds on the epsilon >= 0 of e^log_delta."""
        top = float((self.means + 40.0 * np.sqrt(self.variances)).max() + self.slack.max()) + 1.0
        ends = []
        for side in (0, 1):
            excess = partial(self._excess, log_delta, side)
            ends.append(bracket_root(excess, 0.0, top, rtol=1e-13)[side] if excess(0.0) > 0.0 else 0.0)
        return ends[0], ends[1]

    def _excess(self, log_delta: float, side: int, epsilon: float) -> float:
        return self.log_delta(epsilon)[side] - log_delta


def counted(parts: Sequence[tuple[ApartSteps, int]], log_delta: float, left: float) -> CountedLoss | None:
    """The sum over the numbers of participations; None where the steps do not lie apart, or the numbers are too many.

    left: logarithm of what may be missed, relative to e^log_delta.
    """
    log_share = log_delta + left - math.log(2.0 * math.fsum(n for _, n in parts))
    reach = math.sqrt(-2.0 * log_share)
    reach = math.sqrt(
        -2.0 * (log_share + math.log(math.sqrt(2.0 * math.pi) * (reach - 1.0)))
    )  # Phi(-x) <= phi(x) / x, and x > reach - 1
    weights, means, variances, slack = np.zeros(1), np.zeros(1), np.zeros(1), np.zeros(1)
    for part, n in parts:
        mu, q = part.mu, part.rate
        a = 0.5 * mu * mu - reach * mu
        if not 0.0 < q < 1.0 or a < 1.0:
            return None
        k = _counts(n, q, log_delta + LIGHT)
        if k is None or len(k[0]) * len(weights) > MOST:
            return None
        hold(4.0 * len(k[0]) * len(weights))
        number, log_weight = k
        weights = (weights[:, None] + log_weight).ravel()
        means = (means[:, None] + n * part.without + number * (part.present - part.without + 0.5 * mu * mu)).ravel()
        variances = (variances[:, None] + number * (mu * mu)).ravel()
        odds = q / (1.0 - q)
        slack = (slack[:, None] + math.exp(-a) * (2.0 * n * odds + number * (1.0 / odds + 2.0 * odds))).ravel()
    missed = (math.exp(log_delta + left) + len(parts) * math.exp(log_delta + LIGHT)) * 1.01
    return CountedLoss(weights, means, variances, slack, missed)


def _counts(n: int, q: float, log_least: float) -> tuple[Array, Array] | None:
    """The numbers k from 0 on with log P(K = k), until less than e^log_least is left beyond; None for more than FURTHEST."""
    spread = math.sqrt(-2.0 * log_least * n * q) - log_least  # Bernstein's bound, generously
    top = min(n, math.ceil(n * q + 2.0 * spread))
    if top > FURTHEST:
        return None
    k = np.arange(1.0, top + 1.0)
    rises = np.log((n - k + 1.0) / k) + (math.log(q) - math.log1p(-q))
    return np.arange(top + 1.0), n * math.log1p(-q) + np.concatenate(([0.0], np.cumsum(rises)))


def counts_apart(losses: Sequence[tuple[object, int]], log_delta: float) -> Iterator[CountedLoss]:
    """`counted`, for less and less slack, of losses that each say their kind; nothing where one does not."""
    kinds: list[tuple[ApartSteps, int]] = []
    for loss, n in losses:
        kind = getattr(loss, "apart", None)
        part: ApartSteps | None = kind() if kind is not None else None
        if part is None or part.mu < LEAST:
            return
        kinds.append((part, n))
    for left in LEFT:
        counts = counted(kinds, log_delta, left)
        if counts is not None:
            yield counts
