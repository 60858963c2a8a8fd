"""Dominating pairs of any mechanism on a sample, from the tails of its own pair.

With r = dP/dQ, whose logarithm is the loss L, the mixture (1-q) Q + q P has the ratio 1 - q + q r to Q: increasing in r. So the tails of
the sampled loss are mixtures of the inner tails, taken where 1 - q + q e^L is what is asked for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpcli.base.errors import NotRepresentable
from dpcli.mechanisms.mechanism import PrivacyLoss
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.mixture import unmixed
from dpcli.numerics.tails import Tails, mixed

if TYPE_CHECKING:
    from dpcli.numerics.contour.integral import Tilted

FURTHEST = 1e100  # stands for an infinite loss where inner tails are asked for at finite ones
NOT_TILTED = "a general mechanism on a sample is known by the tails of its privacy loss, not by their characteristic function"


def unsampled(at: Array, rate: float) -> Array:
    """L with log(1 - q + q e^L) = `at`, increasing; -FURTHEST at and below log(1 - q)."""
    return np.asarray(unmixed(at, math.log1p(-rate), rate).clip(-FURTHEST, FURTHEST))


def blend(rate: float, without: Array, present: Array) -> Array:
    """log((1-q) e^without + q e^present)."""
    return mixed([math.log1p(-rate), math.log(rate)], [without, present])


def joined(first: Tails, second: Tails) -> Tails:
    """Tails at two consecutive stretches."""
    return Tails(*(np.concatenate(pair) for pair in zip(first, second, strict=True)))


@dataclass(frozen=True, slots=True)
class SampledRemoveLoss:
    """((1-q) Q + q P, Q) for the pair (P, Q) of `inner`: L' = log(1 - q + q e^L).

    It dominates where (P, Q) dominates the removal of what is in the sample with probability q, Poisson sampling. Proof: by joint
    convexity the rest of the sample is fixed; P', Q' being the outputs with and without, int (q P' - (gamma - 1 + q) Q')+ is q times
    the hockey-stick of the inner mechanism at (gamma - 1 + q)/q, or 1 - gamma where that is negative, for every gamma >= 0.
    Source: Zhu, Dong, Wang 2022, arXiv:2106.08567, Theorem 11.

    rate: q in (0, 1).
    """

    inner: PrivacyLoss
    rate: float

    def cgf(self, z: Array) -> Array:
        """Not known; the mechanism's Renyi curve is bounded in other ways."""
        raise NotRepresentable(NOT_TILTED)

    def tilted(self, t: float) -> Tilted:
        """Not known."""
        raise NotRepresentable(NOT_TILTED)

    def tails(self, at: Array) -> Tails:
        """P' = (1-q) Q + q P beyond L; all of it where `at` is below log(1 - q). As exact as the inner tails."""
        p_above, p_below, q_above, q_below = self.inner.tails(unsampled(at, self.rate))
        some = at > math.log1p(-self.rate)
        return Tails(
            np.where(some, blend(self.rate, q_above, p_above), 0.0),
            np.where(some, blend(self.rate, q_below, p_below), -np.inf),
            np.where(some, q_above, 0.0),
            np.where(some, q_below, -np.inf),
        )


@dataclass(frozen=True, slots=True)
class SampledAddLoss:
    """(P, (1-q) P + q Q) for the pair (P, Q) of `inner`: L' = -log(1 - q + q e^-L). The other direction of the same theorem."""

    inner: PrivacyLoss
    rate: float

    def cgf(self, z: Array) -> Array:
        """Not known; the mechanism's Renyi curve is bounded in other ways."""
        raise NotRepresentable(NOT_TILTED)

    def tilted(self, t: float) -> Tilted:
        """Not known."""
        raise NotRepresentable(NOT_TILTED)

    def tails(self, at: Array) -> Tails:
        """Q' = (1-q) P + q Q beyond L; nothing where `at` is -log(1 - q) or more. As exact as the inner tails."""
        p_above, p_below, q_above, q_below = self.inner.tails(-unsampled(-at, self.rate))
        some = at < -math.log1p(-self.rate)
        return Tails(
            np.where(some, p_above, -np.inf),
            np.where(some, p_below, 0.0),
            np.where(some, blend(self.rate, p_above, q_above), -np.inf),
            np.where(some, blend(self.rate, p_below, q_below), 0.0),
        )


@dataclass(frozen=True, slots=True)
class SampledReplaceLoss:
    """Replace-one on a sample, from the inner mechanism's replace-one pair (P, Q): for l >= 0 the loss of (S, Q), S = (1-q) Q + q P, for
    l < 0 that of (Q, S), and an atom at 0.

    Proof. Let A, A' be the outputs with the two versions in the sample and W that without either. For gamma' = 1 + q (gamma - 1) >= 1,
    H_gamma'((1-q) W + q A || (1-q) W + q A') = q H_gamma(A || (1-b) W + b A'), b = gamma'/gamma (Balle, Barthe, Gaboardi 2018,
    arXiv:1807.01647, Theorem 2), at most q H_gamma(P || Q) by convexity if (P, Q) dominates the pairs among A, A', W: that is
    H_gamma'(S || Q). Below 1, H_gamma(X || Y) = 1 - gamma + gamma H_1/gamma(Y || X) and the symmetry of the relation give the same of
    (Q, S). The two pieces meet at gamma = 1 with slopes -S(L <= 0) and -Q(L > 0). Where the former is the smaller they are one convex
    curve, hence that of a pair (Zhu, Dong, Wang 2022, arXiv:2106.08567: any convex non-increasing H with H(0) = 1 and H >= 1 - gamma
    is one), with the difference of the slopes as its atom at 0. It is the smaller for inner pairs that are their own mirror image:
    there P(L > 0) = Q(L < 0), hence S(L > 0) + Q(L > 0) = 2 (1-q) Q(L > 0) + q (P(L > 0) + Q(L > 0)) <= 1, as 2 Q(L > 0)
    <= P(L > 0) + Q(L > 0) <= 1.
    """

    half: SampledRemoveLoss

    def cgf(self, z: Array) -> Array:
        """Not known; the mechanism's Renyi curve is bounded in other ways."""
        raise NotRepresentable(NOT_TILTED)

    def tilted(self, t: float) -> Tilted:
        """Not known."""
        raise NotRepresentable(NOT_TILTED)

    def tails(self, at: Array) -> Tails:
        """The tails of (S, Q) and, below 0, their mirror image."""
        middle = self.half.tails(np.zeros(1))
        if math.exp(float(middle.p_above[0])) + math.exp(float(middle.q_above[0])) > 1.0 + 1e-9:
            raise NotRepresentable("its replace-one pair is not symmetric enough to be sampled")
        split = int(np.searchsorted(at, 0.0))
        return joined(self.half.tails(-at[:split][::-1]).mirrored(), self.half.tails(at[split:]))
