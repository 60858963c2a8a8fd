"""Laplace noise on a Poisson sample, for several records of one unit or group, each of which is sampled on its own.

Let Q be the output without the records and P_j that with those of a subset j of them, drawn with probability w_j: the pair is
(SUM w_j P_j, Q). Theorem: it is dominated by the one of a single number to which every record adds its whole bound.

Proof. Let Y have the law of one coordinate's noise, and l_n(Y) be the ratio of the densities of noise moved by n bounds and of noise. For a
convex function f, E_Q[f(SUM w_j dP_j/dQ)] has a sum of random variables. Sums of given marginals are the largest in the convex order where
all rise together, and such a sum rises in the convex order with each marginal (Kaas, Dhaene, Goovaerts 2000, Upper and lower bounds for
sums of random variables). The marginal of dP_j/dQ is at most that of l_n(Y), n records being in the subset, since moving by n bounds
in one coordinate is the worst case (laplace.py) and l_n rises with n. Each l_n rises in Y, as the density of the noise is log-concave, so
that SUM w_j l_n(Y) is that largest sum. Hockey-sticks of both directions are such E_Q[f].
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dpcli.base.errors import NotRepresentable
from dpcli.base.values import dataclass
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.sampling.poisson import NO_RHO, SampledLoss
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.logspace import log_binomial
from dpcli.numerics.mixture import unmixed
from dpcli.numerics.tails import Tails, mixed, single_epsilon
from dpcli.numerics.work import shared

if TYPE_CHECKING:
    from dpcli.numerics.contour.outcomes import LossPiece, Outcomes

LOG_TWO = math.log(2.0)
LARGEST = 700.0  # e^x is a floating-point number up to there
MAX_RECORDS = 64  # larger groups are bounded by one record of their total size


@dataclass(frozen=True, slots=True)
class LaplaceGroupLoss(SampledLoss):
    """(SUM_j w_j Lap(j e0, 1), Lap(0, 1)), w_j = Binomial(records, rate): ratio m(y) = SUM_j w_j e^{|y| - |y - j e0|}, which rises in y.

    Between y = i e0 and (i+1) e0 it is SUM_{j<=i} w_j e^{j e0} + e^{2y} SUM_{j>i} w_j e^{-j e0}, and constant below 0 and above k e0.
    """

    epsilon: float
    rate: float
    records: int

    def log_knots(self) -> Array:
        """log m at y = 0, e0, ..., k e0, with all its digits where it is near 0; shape (records + 1,)."""
        return _knots(self)[0]

    def shares(self) -> Array:
        """The share of m at y = i e0 that rises from there on as e^{2y}, i = 0, ..., k - 1; shape (records,)."""
        return _knots(self)[1]

    def outcomes(self) -> Outcomes:
        from dpcli.numerics.contour.outcomes import Outcomes

        knots = self.log_knots()
        reference = np.array([-LOG_TWO, -LOG_TWO - self.records * self.epsilon])
        return Outcomes(reference, knots[[0, -1]], self.pieces(1.0))

    def pieces(self, sign: float) -> tuple[LossPiece, ...]:
        """Between the knots, in g = 2 (y - i e0)."""
        from dpcli.numerics.contour.outcomes import LossPiece

        knots, shares, width = self.log_knots().tolist(), self.shares().tolist(), 2.0 * self.epsilon
        return tuple(
            LossPiece(0.0, width, -2.0 * LOG_TWO - i * self.epsilon, -0.5, share, sign, knots[i]) for i, share in enumerate(shares)
        )

    def tails(self, at: Array) -> Tails:
        knots, e0 = self.log_knots(), self.epsilon
        i = np.clip(np.searchsorted(knots, at, side="right") - 1, 0, self.records - 1)
        y = np.empty(len(at))
        for one in np.unique(i).tolist():
            rows, share = i == one, float(self.shares()[one])
            rest = math.log1p(-share) if share < 1.0 else -math.inf
            y[rows] = one * e0 + 0.5 * np.clip(unmixed(at[rows] - knots[one], rest, share), 0.0, 2.0 * e0)
        ends = [_laplace_tails(y - j * e0) for j in range(self.records + 1)]
        weights = log_binomial(self.records, self.rate)
        p_above, p_below = (mixed(weights, [end[side] for end in ends]) for side in (0, 1))
        low, high = at < knots[0], at >= knots[-1]
        columns = zip((p_above, p_below, *ends[0]), (0.0, -np.inf, 0.0, -np.inf), (-np.inf, 0.0, -np.inf, 0.0), strict=True)
        return Tails(*(np.where(low, below, np.where(high, above, inside)) for inside, below, above in columns))


@dataclass(frozen=True, slots=True)
class LaplaceGroupAddLoss(SampledLoss):
    """The pair the other way round: minus the loss, from the reference to the mixture."""

    other: LaplaceGroupLoss

    def outcomes(self) -> Outcomes:
        from dpcli.numerics.contour.outcomes import Outcomes

        removal = self.other.outcomes()
        return Outcomes(removal.log_reference + removal.log_ratio, -removal.log_ratio, self.other.pieces(-1.0))

    def tails(self, at: Array) -> Tails:
        return self.other.tails(-at[::-1]).mirrored()


def _laplace_tails(x: Array) -> tuple[Array, Array]:
    """log P(Y > x), log P(Y <= x) of standard Laplace noise."""
    small = -np.abs(x) - LOG_TWO
    large = np.log1p(-np.exp(small))
    return np.where(x > 0.0, small, large), np.where(x > 0.0, large, small)


@shared(256)
def _knots(loss: LaplaceGroupLoss) -> tuple[Array, Array]:
    weights, k, e0 = np.array(log_binomial(loss.records, loss.rate)), loss.records, loss.epsilon
    i, j = np.arange(k + 1.0)[:, None], np.arange(k + 1.0)[None, :]
    rise = e0 * np.where(j <= i, j, 2.0 * i - j)  # log of the ratio of Lap(j e0) at y = i e0
    near = np.log1p((np.exp(weights) * np.expm1(np.minimum(rise, LARGEST))).sum(axis=1))
    far = np.logaddexp.reduce(weights + rise, axis=1)
    knots = np.where(rise.max(axis=1) < 1.0, near, far)
    later = np.where(j > i, weights + rise, -np.inf)[:k]
    return knots, np.minimum(np.exp(np.logaddexp.reduce(later, axis=1) - knots[:k]), 1.0)


@dataclass(frozen=True, slots=True)
class SampledLaplaceGroup(Mechanism):
    """Laplace noise on a Poisson sample, add-remove or zero-out, for a group of 2 to MAX_RECORDS records of contribution `epsilon` each.

    Attained: by one number to which each of the records adds its whole bound.
    """

    epsilon: float
    rate: float
    records: int

    def approx_dp(self, delta: float) -> float:
        remove, add = self.losses()
        if delta <= 0.0:
            knots = remove.log_knots()
            return max(float(knots[-1]), -float(knots[0])) * (1.0 + 1e-13)
        return max(single_epsilon(loss, math.log(delta))[1] for loss in (remove, add))

    def zcdp(self) -> float:
        raise NotRepresentable(NO_RHO)

    def attained(self) -> bool:
        return True

    def losses(self) -> tuple[LaplaceGroupLoss, LaplaceGroupAddLoss]:
        loss = LaplaceGroupLoss(self.epsilon, self.rate, self.records)
        return loss, LaplaceGroupAddLoss(loss)
