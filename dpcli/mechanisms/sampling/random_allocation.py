"""Random allocation: in each pass of t steps a record takes part in one, drawn uniformly and kept secret (balls in bins).

Let Y_i = dP/dQ at step i, independent under Q; the pass has dP/dQ = (Y_1 + ... + Y_t) / t =: R. Its hockey-stick curves are, with the
record removed, E_Q[(R - e^eps)+] and, added, E_Q[(1 - e^eps R)+]: both are expectations of convex functions of R under Q, so a
variable above R in the convex order (numerics/spread.py) has curves above, and since its mean is 1 it is the ratio of a pair, which
then dominates and composes (Zhu, Dong, Wang 2022, arXiv:2106.08567, Theorem 10).

Adaptive steps: given what was released before, each step is some function of one outcome of (P, Q) or of Q, so the pass is a function of
t independent outcomes of which a hidden one is P's. Numerical accounting of this kind: Feldman & Shenfeld 2026, arXiv:2602.17284;
the scheme: Chua et al. 2024, arXiv:2412.16802; Feldman & Shenfeld 2025, arXiv:2502.08202.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from dpcli.base.errors import NotRepresentable
from dpcli.mechanisms.mechanism import Mechanism, PrivacyLoss
from dpcli.mechanisms.sampling.poisson import chord
from dpcli.mechanisms.stated.atoms import atomic_cgf
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.closed.occupancy import average_moments
from dpcli.numerics.grid.spread import Spread, folded, spread_of, total_of
from dpcli.numerics.logspace import log_expm1_array
from dpcli.numerics.roots import bracket_root
from dpcli.numerics.tails import Tails, atom_tails
from dpcli.numerics.work import shared, spend

if TYPE_CHECKING:
    from dpcli.numerics.contour.integral import Tilted

DIGITS = 11  # leading binary digits of the number of copies that are kept: each one costs a sum
MOST = 2**30  # copies
MAX_ORDER = 96  # largest integer order of the exact Renyi divergence; beyond it, the bound without amplification


class Ratio(Protocol):
    """A likelihood ratio, known by the tails of its logarithm."""

    def tails(self, at: Array) -> Tails: ...


@dataclass(frozen=True, slots=True)
class Reversed:
    """The loss of the pair (Q, P)."""

    loss: PrivacyLoss

    def tails(self, at: Array) -> Tails:
        """Which end of a cell an atom belongs to does not matter here: it is split between both."""
        return self.loss.tails(-at[::-1]).mirrored()


@dataclass(frozen=True, slots=True, eq=False)
class FiniteOutcomes:
    """A pair by its outcomes: increasing losses (the infinite ones at the ends), and log probabilities under P and under Q."""

    losses: Array
    log_p: Array
    log_q: Array

    def log_delta(self, epsilon: float) -> float:
        """log of the hockey-stick divergence at e^epsilon."""
        first = int(np.searchsorted(self.losses, epsilon, side="right"))
        spend(0.3 * (len(self.losses) - first))
        terms = self.log_p[first:] + np.log(-np.expm1(epsilon - self.losses[first:]))
        top = float(terms.max(initial=-1e300))
        total = float(np.exp(terms - top).sum())
        return top + math.log(total) + 1e-12 if total > 0.0 else -math.inf


@shared(32)
def average(step: tuple[Ratio], bins: int) -> Spread | None:
    """The sum of at most `bins` copies of Y, from above; None where Y varies too little or too much.

    The average of t copies is the average of the averages that leave one out, so by convexity it falls in the convex order as t grows:
    rounding t down is on the private side.
    """
    spare = max(bins.bit_length() - DIGITS, 0)
    return None if _one(step) is None else folded(lambda k: _doubled(step, k), min(bins >> spare << spare, MOST))


@shared(32)
def _one(step: tuple[Ratio]) -> Spread | None:
    """Y itself; None as in `average`."""
    return spread_of(step[0].tails)


@shared(256)
def _doubled(step: tuple[Ratio], k: int) -> Spread:
    """The sum of 2^k copies."""
    if k == 0:
        one = _one(step)
        assert one is not None
        return one
    half = _doubled(step, k - 1)
    return total_of(half, half).trimmed().refined()


@shared(32)
def outcomes(step: tuple[Ratio], bins: int) -> FiniteOutcomes | None:
    """The pair with the ratio R, "remove" direction; None as in `average`."""
    total = average(step, bins)
    if total is None:
        return None
    with np.errstate(divide="ignore"):
        log_q = np.log(np.concatenate(([total.zero], total.mass, [0.0])))
        losses = np.concatenate(([-np.inf], total.logs - math.log(total.mean), [np.inf]))
        log_p = np.concatenate(([-np.inf], log_q[1:-1] + losses[1:-1], [np.log(total.excess / total.mean)]))
    return FiniteOutcomes(losses, log_p, log_q)


@shared(32)
def integer_cgf(step: tuple[PrivacyLoss], bins: int) -> Array:
    """K(z) of the "remove" direction at z = 1 .. MAX_ORDER - 1: exact."""
    log_moments = log_expm1_array(step[0].cgf(np.arange(1.0, MAX_ORDER)))
    return np.asarray(np.logaddexp(0.0, average_moments(log_moments, bins)) * (1.0 + 1e-11))


@dataclass(frozen=True, slots=True)
class AllocatedRemove:
    """The pass with the record against the pass without it. inner: the loss of one step, with the record against without."""

    inner: PrivacyLoss
    bins: int

    def cgf(self, z: Array) -> Array:
        """Exact at integers, chords between them (K is convex), and never above the step's own."""
        return chord(z, np.arange(1.0, MAX_ORDER), integer_cgf((self.inner,), self.bins), self.inner.cgf(z))

    def tilted(self, t: float) -> Tilted:
        """Not here: the ratio is a sum of many, of which no characteristic function is at hand."""
        raise NotRepresentable("random allocation has no characteristic function here")

    def outcomes(self) -> FiniteOutcomes | None:
        """The dominating pair; None where it is the step's own."""
        return outcomes((self.inner,), self.bins)

    def tails(self, at: Array) -> Tails:
        """Of the dominating pair; the step's own where the lattice cannot hold it."""
        pair = self.outcomes()
        return self.inner.tails(at) if pair is None else atom_tails(at, pair.losses, pair.log_p, pair.log_q)


@dataclass(frozen=True, slots=True)
class AllocatedAdd:
    """The pass without the record against the pass with it.

    inner: the loss of one step, without the record against with it. ratio: the reverse, with against without.
    """

    inner: PrivacyLoss
    ratio: Ratio
    bins: int

    def cgf(self, z: Array) -> Array:
        """The least of three bounds on log E_Q[R^-z].

        The step's own K(z), by convexity; t K(z/t), since an arithmetic mean is at least the geometric one; and the lattice's, below.
        """
        t = float(self.bins)
        bound = np.minimum(self.inner.cgf(z), t * self.inner.cgf(z / t))
        with suppress(NotRepresentable):
            bound = np.fmin(bound, self._lattice_cgf(z))
        return np.asarray(bound)

    def _lattice_cgf(self, z: Array) -> Array:
        """R^-z is replaced below the lowest point r by its tangent, which the convex order covers.

        What that leaves out is at most E[R^-z; R < r], whose square is at most E[R^-2z] P(R < r); and P(R < r) <= E[(s - R)+] / (s - r)
        for any s > r.
        """
        pair = outcomes((self.ratio,), self.bins)
        if pair is None:
            return np.full_like(z, np.inf)
        losses, log_p, log_q = pair.losses[1:-1], pair.log_p[1:-1], pair.log_q[1:-1]
        zero, excess = float(pair.log_q[0]), float(pair.log_p[-1])
        points, mass = np.exp(losses), np.exp(log_q)
        short = points[1:] * np.cumsum(mass)[:-1] - np.cumsum(mass * points)[:-1] + math.exp(zero) * points[1:]
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            log_below = min(0.0, math.log(max(float((short / (points[1:] - points[0])).min()), 1e-300)) + 1e-9)
            t = float(self.bins)
            rest = 0.5 * (t * self.inner.cgf(2.0 * z / t) + log_below)
            tangent = zero - z * losses[0] + np.log1p(z)
            kept = atomic_cgf(z, log_p[None, :], -losses[None, :])
            log_excess = np.where(kept > 0.0, log_expm1_array(kept), -np.inf)
            extra = np.logaddexp(np.logaddexp(rest, tangent), excess + np.log1p(z))
            return np.asarray(np.logaddexp(0.0, np.logaddexp(log_excess, extra)) * (1.0 + 1e-11))

    def tilted(self, t: float) -> Tilted:
        """Not here either."""
        raise NotRepresentable("random allocation has no characteristic function here")

    def outcomes(self) -> FiniteOutcomes | None:
        """The dominating pair; None where it is the step's own."""
        pair = outcomes((self.ratio,), self.bins)
        return None if pair is None else FiniteOutcomes(-pair.losses[::-1], pair.log_q[::-1], pair.log_p[::-1])

    def tails(self, at: Array) -> Tails:
        """Of the dominating pair; the step's own where the lattice cannot hold it."""
        pair = self.outcomes()
        return self.inner.tails(at) if pair is None else atom_tails(at, pair.losses, pair.log_p, pair.log_q)


@dataclass(frozen=True, slots=True)
class RandomAllocation(Mechanism):
    """One pass: `inner` runs `bins` times, and the record takes part in one of them. Never costs more than `inner` once."""

    inner: Mechanism
    bins: int

    def approx_dp(self, delta: float) -> float:
        """From the dominating pair's curve; the step's own where that has none, or where delta is below what the lattice leaves out."""
        whole = self.inner.approx_dp(delta)
        with suppress(NotRepresentable):
            pairs = [loss.outcomes() for loss in self.directions()]
            return min(whole, max(math.inf if pair is None else _epsilon(pair, delta) for pair in pairs))
        return whole

    def delta_floor(self) -> float:
        return self.inner.delta_floor()

    def zcdp(self) -> float:
        """The step's own: amplification does not lower the whole Renyi curve."""
        return self.inner.zcdp()

    def attained(self) -> bool:
        """No: the lattice lies above the worst case."""
        return False

    def losses(self) -> tuple[PrivacyLoss, ...]:
        return self.directions()

    def directions(self) -> tuple[AllocatedRemove | AllocatedAdd, ...]:
        """The losses, which also know their outcomes."""
        sides = self.inner.losses()
        return AllocatedRemove(sides[0], self.bins), AllocatedAdd(sides[-1], Reversed(sides[-1]), self.bins)


@dataclass(frozen=True, slots=True)
class SymmetricAllocation(RandomAllocation):
    """The same where one step's pair may be exchanged, (P, Q) for (Q, P), as with Gaussian noise: one lattice serves both directions."""

    def directions(self) -> tuple[AllocatedRemove | AllocatedAdd, ...]:
        (loss,) = self.inner.losses()
        return AllocatedRemove(loss, self.bins), AllocatedAdd(loss, loss, self.bins)


@dataclass(frozen=True, slots=True)
class Departure(SymmetricAllocation):
    """The record leaves: one direction alone, a part of a replacement."""

    def directions(self) -> tuple[AllocatedRemove | AllocatedAdd, ...]:
        return SymmetricAllocation.directions(self)[:1]


@dataclass(frozen=True, slots=True)
class Arrival(SymmetricAllocation):
    """The record comes: the other direction."""

    def directions(self) -> tuple[AllocatedRemove | AllocatedAdd, ...]:
        return SymmetricAllocation.directions(self)[1:]


def _epsilon(pair: FiniteOutcomes, delta: float) -> float:
    """Epsilon of a pair at delta, rounded up; inf where delta is too small for it."""
    if delta <= 0.0 or pair.log_delta(float(pair.losses[-2])) > math.log(delta):
        return math.inf
    if pair.log_delta(0.0) <= math.log(delta):
        return 0.0
    excess = lambda epsilon: math.exp(min(pair.log_delta(epsilon) - math.log(delta), 700.0)) - 1.0  # noqa: E731
    return bracket_root(excess, 0.0, float(pair.losses[-2]))[1]
