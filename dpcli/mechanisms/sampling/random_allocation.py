"""Random allocation (balls in bins): in each pass of t steps, a record takes part in one step, which is drawn uniformly and kept secret.

The scheme "balls-in-bins" (schemes.py) calls `cost_of_pass`, and charges the mechanism that it returns, with its count, for each pass. An
attacker does not know the record's step, so a pass costs less than one step without sampling: this is its amplification. (P, Q) is a pair
of distributions that dominates one step.

Let Y_i = dP/dQ at step i. The Y_i are independent under Q, and the pass has dP/dQ = (Y_1 + ... + Y_t) / t =: R. Its hockey-stick curves are
E_Q[(R - e^eps)+] if the record is removed, and E_Q[(1 - e^eps R)+] if it is added. Both are expectations of convex functions of R under Q.
A variable above R in the convex order (numerics/grid/spread.py) therefore has curves above those of R. Its mean is 1, so that it is the
ratio of a pair. This pair dominates the pass and composes (Zhu, Dong, Wang 2022, arXiv:2106.08567, Theorem 10).

Steps may be adaptive. Given the earlier releases, each step is a function of one outcome of P or Q. The pass is then a function of t
independent outcomes, one of which, at a secret place, is from P.

Sources: Feldman & Shenfeld 2026, arXiv:2602.17284, for numerical accounting of this kind; Chua et al. 2024, arXiv:2412.16802, and Feldman &
Shenfeld 2025, arXiv:2502.08202, for the sampling scheme.

A mechanism has upper bounds on its cost (mechanism.py): `approx_dp` returns epsilon at a delta and `zcdp` rho. `losses` returns the privacy
losses log dP/dQ of dominating pairs (P, Q). `attained` says whether some data are claimed to attain these pairs. Of a loss L, `cgf` bounds
K(z) = log E_P[e^{z L}] from above, and `tails` returns log tail probabilities under P and Q. `outcomes` returns the finitely many outcomes
of the pair.
"""

from __future__ import annotations

import math
from contextlib import suppress
from typing import TYPE_CHECKING

from dpcli.base.errors import InputError, NotRepresentable
from dpcli.base.values import dataclass
from dpcli.mechanisms.combined.composed import Composed
from dpcli.mechanisms.mechanism import Mechanism, PrivacyLoss
from dpcli.mechanisms.neighbours import Adjacency, Neighbours
from dpcli.mechanisms.noise.gaussian import Gaussian
from dpcli.mechanisms.sampling.poisson import chord
from dpcli.mechanisms.spec import Spec
from dpcli.mechanisms.stated.atoms import atomic_cgf
from dpcli.mechanisms.stated.pure_and_approx import Free
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.grid.replaced_bins import replaced_pair
from dpcli.numerics.grid.spread import Spread, average_moments, spread_of, sum_of_copies, total_of
from dpcli.numerics.logspace import log_expm1_array
from dpcli.numerics.roots import bracket_root
from dpcli.numerics.tails import HasTails, Tails, atom_tails
from dpcli.numerics.work import shared, spend  # a cache; spend counts work, which is limited

if TYPE_CHECKING:
    from dpcli.numerics.contour.tilted import Tilted


# Accuracy and speed: the number of steps may be rounded down (`sum_of_ratios`), and the bound without amplification holds at every order.
KEPT_DIGITS = 11  # leading binary digits of the number of copies that are kept; each further one may cost a convolution
MOST_COPIES = 2**30  # largest number of copies that are added up
MAX_ORDER = 96  # largest integer order of the exact Renyi divergence; above it, the bound without amplification is used
UNPROVEN = (
    "amplification by balls in bins is proven for Gaussian noise with noise_multiplier, and otherwise for one record per unit under "
    'add-remove only; scheme = "cyclic" counts each pass as one unsampled run'
)


def cost_of_pass(spec: Spec, steps: int, participations: int, neighbours: Neighbours) -> tuple[Mechanism, int]:
    """Return the cost of one pass of t = `steps` steps, in k = `participations` of which each record takes part, as (mechanism, count).

    For k > 1, split the steps at random into k blocks of floor(t/k) or floor(t/k) + 1 steps, and draw one step from each block. This is a
    uniform choice of k steps. The hockey-stick divergence is jointly convex, so that the worst split bounds the mixture. Given the split,
    the pass is a function of k independent passes (after Feldman & Shenfeld 2025, arXiv:2502.08202).

    The Renyi divergence of k of t steps at integer orders, computed over multisets of subsets, is a little less than that of the blocks,
    but its conversion to epsilon costs more than this. At delta 1e-5 it gives 1.636 for 2 of 100 steps with noise 1, and this bound 1.230;
    for 2 of 20 steps 3.082 and 2.833, for 4 of 20 steps with noise 2, 2.035 and 1.896, for 4 of 8 steps with noise 1, 7.897 and 7.784.

    Raises InputError if no amplification is proven.
    """
    short_size, long_blocks = divmod(steps, participations)
    parts = []
    for size, blocks in ((short_size, participations - long_blocks), (short_size + 1, long_blocks)):
        if blocks:
            mechanism, count = _pass_with_one(spec, size, neighbours)
            parts.append((mechanism, count * blocks))
    return parts[0] if len(parts) == 1 else (Composed(tuple(parts)), 1)


@dataclass(frozen=True, slots=True)
class RandomAllocation(Mechanism):
    """A pass: `inner` runs `bins` times, and the record takes part in one run. A pass never costs more than one run of `inner`."""

    inner: Mechanism
    bins: int

    def approx_dp(self, delta: float) -> float:
        """Return epsilon from the dominating pair, or that of one step if it is smaller or there is no such pair."""
        epsilon_of_step = self.inner.approx_dp(delta)
        with suppress(NotRepresentable):
            pairs = [loss.outcomes() for loss in self.losses()]
            return min(epsilon_of_step, max(math.inf if pair is None else _epsilon(pair, delta) for pair in pairs))
        return epsilon_of_step

    def delta_floor(self) -> float:
        return self.inner.delta_floor()

    def zcdp(self) -> float:
        """Return the rho of one step, because amplification does not lower the Renyi curve at all orders."""
        return self.inner.zcdp()

    def attained(self) -> bool:
        """Return False: the pair on a lattice of likelihood ratios (numerics/grid/spread.py) costs more than the worst case."""
        return False

    def losses(self) -> tuple[Allocated, ...]:
        sides = self.inner.losses()
        return AllocatedRemove(sides[0], self.bins), AllocatedAdd(sides[-1], Reversed(sides[-1]), self.bins)


@dataclass(frozen=True, slots=True)
class SymmetricAllocation(RandomAllocation):
    """Allocation of steps with a symmetric pair, such as Gaussian noise.

    (P, Q) is equivalent to (Q, P), so that one lattice serves both directions.
    """

    def losses(self) -> tuple[Allocated, ...]:
        (loss,) = self.inner.losses()
        return AllocatedRemove(loss, self.bins), AllocatedAdd(loss, loss, self.bins)


@dataclass(frozen=True, slots=True)
class ReplacedAllocation(RandomAllocation):
    """A pass with Gaussian noise in which a record is replaced (grid/replaced_bins.py). inner: the step that it takes part in."""

    inner: Gaussian

    def losses(self) -> tuple[Allocated, ...]:
        return (AllocatedReplace(self.inner.losses()[0], 0.5 * self.inner.mu, self.bins),)


def _pass_with_one(spec: Spec, bins: int, neighbours: Neighbours) -> tuple[Mechanism, int]:
    """Return the cost of a pass of `bins` steps in which each record takes part once, as (mechanism, count)."""
    mu = _gaussian_mu(spec, neighbours)
    if mu == 0.0:
        return Free(), 1
    if mu is None and (neighbours.records > 1 or neighbours.adjacency is not Adjacency.ADD_REMOVE):
        return _without_privacy(spec.resolve(neighbours)), 1
    if bins == 1:
        return spec.resolve(neighbours), 1
    if mu is None:
        return RandomAllocation(spec.resolve(neighbours), bins), 1
    return _gaussian_pass(mu, bins, neighbours)


def _without_privacy(step: Mechanism) -> Mechanism:
    """Return the step if it gives no privacy, so that no amplification is claimed. Raises InputError otherwise."""
    with suppress(NotRepresentable):
        if math.isinf(step.approx_dp(1.0 - 1e-9)):  # at nearly every delta
            return step
    raise InputError(UNPROVEN)


def _gaussian_mu(spec: Spec, neighbours: Neighbours) -> float | None:
    """Return mu, one record's contribution over the noise, if the step is a Gaussian mechanism that states it; None otherwise."""
    with suppress(NotRepresentable):
        if spec.contribution_form:
            return spec.resolve(Neighbours(Adjacency.ADD_REMOVE)).gdp()
        if neighbours.adjacency is Adjacency.ADD_REMOVE and neighbours.records == 1:
            return spec.resolve(neighbours).gdp()
    return None


def _gaussian_pass(mu: float, bins: int, neighbours: Neighbours) -> tuple[Mechanism, int]:
    """Return the cost of a pass for k records, each in a bin that is drawn independently.

    Noise of variance s^2 is the sum of k independent parts of variance s^2 / k. With one part per record, the pass is a function of k
    independent passes with one record each, at mu sqrt(k). With one bin this is exact: k (mu sqrt k)^2 = (k mu)^2.
    """
    records = neighbours.records
    mu *= math.sqrt(records)
    if neighbours.replaces:
        return ReplacedAllocation(Gaussian(2.0 * mu), bins), records
    return SymmetricAllocation(Gaussian(mu), bins), records


@dataclass(frozen=True, slots=True)
class Reversed:
    """The privacy loss of the pair (Q, P), where `loss` is that of (P, Q)."""

    loss: PrivacyLoss

    def tails(self, at: Array) -> Tails:
        """Return the tails. An atom may count at either end of a lattice cell, because its mass is split between both."""
        return self.loss.tails(-at[::-1]).mirrored()


@dataclass(frozen=True, slots=True, eq=False)
class FiniteOutcomes:
    """A pair (P, Q) with finitely many outcomes.

    losses: increasing losses; the first and the last are infinite.
    log_p, log_q: log probabilities of the outcomes.
    """

    losses: Array
    log_p: Array
    log_q: Array

    def log_delta(self, epsilon: float) -> float:
        """Return log of the hockey-stick divergence at e^epsilon, rounded up."""
        start = int(np.searchsorted(self.losses, epsilon, side="right"))  # the first outcome whose loss exceeds epsilon
        spend(0.3 * (len(self.losses) - start))
        terms = self.log_p[start:] + np.log(-np.expm1(epsilon - self.losses[start:]))
        top = float(terms.max(initial=-1e300))  # finite if there are no terms
        total = float(np.exp(terms - top).sum())
        return top + math.log(total) + 1e-12 if total > 0.0 else -math.inf


# The functions below are cached. step: the loss of one step, of which Y is the likelihood ratio.


@shared(32)
def sum_of_ratios(step: HasTails, bins: int) -> Spread | None:
    """Return the sum of at most `bins` copies of Y, rounded up in the convex order; None if Y varies too little or too much.

    A `Spread` is a distribution on a lattice of likelihood ratios. The average of t copies is the mean of the averages that leave one copy
    out. By convexity it decreases in the convex order as t grows. Rounding t down therefore never lowers the cost.
    """
    dropped_digits = max(bins.bit_length() - KEPT_DIGITS, 0)
    copies = min(bins >> dropped_digits << dropped_digits, MOST_COPIES)
    return None if _spread_of_ratio(step) is None else sum_of_copies(lambda k: _sum_of_two_to_the(step, k), copies)


@shared(32)
def _spread_of_ratio(step: HasTails) -> Spread | None:
    """Return the distribution of Y; None if Y varies too little or too much."""
    return spread_of(step.tails)


@shared(256)
def _sum_of_two_to_the(step: HasTails, k: int) -> Spread:
    """Return the distribution of the sum of 2^k copies of Y."""
    if k == 0:
        spread = _spread_of_ratio(step)
        assert spread is not None
        return spread
    half = _sum_of_two_to_the(step, k - 1)
    return total_of(half, half).trimmed().refined()


@shared(32)
def pair_of_pass(step: HasTails, bins: int) -> FiniteOutcomes | None:
    """Return the pair with the ratio R, in the "remove" direction; None if Y varies too little or too much."""
    total = sum_of_ratios(step, bins)
    if total is None:
        return None
    with np.errstate(divide="ignore"):
        log_q = np.log(np.concatenate(([total.zero], total.mass, [0.0])))
        # The sum over its own mean stands for R: a ratio of likelihoods has mean 1 under Q, and the sum may have fewer than `bins` copies.
        losses = np.concatenate(([-np.inf], total.logs - math.log(total.mean), [np.inf]))
        log_p = np.concatenate(([-np.inf], log_q[1:-1] + losses[1:-1], [np.log(total.excess / total.mean)]))
    return FiniteOutcomes(losses, log_p, log_q)


@shared(32)
def integer_cgf(step: PrivacyLoss, bins: int) -> Array:
    """Return K(z) of the "remove" direction at z = 1, ..., MAX_ORDER - 1, exact up to rounding."""
    log_moments = log_expm1_array(step.cgf(np.arange(1.0, MAX_ORDER)))
    return np.asarray(np.logaddexp(0.0, average_moments(log_moments, bins)) * (1.0 + 1e-11))


class Allocated:
    """Base class of a pass in one direction.

    inner: the loss of one step in that direction.
    """

    __slots__ = ()

    inner: PrivacyLoss

    def cgf(self, z: Array) -> Array:
        """Return the CGF, as `PrivacyLoss` has it."""
        raise NotImplementedError

    def outcomes(self) -> FiniteOutcomes | None:
        """Return the dominating pair; None if the lattice cannot hold it, so that the pair of one step is used."""
        raise NotImplementedError

    def tilted(self, t: float) -> Tilted:
        """Raise NotRepresentable. The ratio is a sum of many terms, so the characteristic function of its logarithm is not known."""
        raise NotRepresentable("the characteristic function of random allocation is not known")

    def tails(self, at: Array) -> Tails:
        """Return the tails of the dominating pair; if the lattice cannot hold it, the tails of one step."""
        pair = self.outcomes()
        return self.inner.tails(at) if pair is None else atom_tails(at, pair.losses, pair.log_p, pair.log_q)


@dataclass(frozen=True, slots=True)
class AllocatedRemove(Allocated):
    """The "remove" direction: the pass with the record against the pass without it.

    inner: the loss of one step in the same direction.
    """

    inner: PrivacyLoss
    bins: int

    def cgf(self, z: Array) -> Array:
        """Return the CGF: exact at integers, by chords between them as K is convex, and never above that of one step."""
        return chord(z, np.arange(1.0, MAX_ORDER), integer_cgf(self.inner, self.bins), self.inner.cgf(z))

    def outcomes(self) -> FiniteOutcomes | None:
        return pair_of_pass(self.inner, self.bins)


@dataclass(frozen=True, slots=True)
class AllocatedAdd(Allocated):
    """The "add" direction: the pass without the record against the pass with it.

    inner: the loss of one step in the same direction.
    ratio: the loss of one step in the "remove" direction.
    """

    inner: PrivacyLoss
    ratio: HasTails
    bins: int

    def cgf(self, z: Array) -> Array:
        """Return the smallest of three bounds on log E_Q[R^-z].

        The first is K(z) of one step, by convexity. The second is t K(z/t), since the arithmetic mean is at least the geometric mean. The
        third is computed from the lattice.
        """
        t = float(self.bins)
        bound = np.minimum(self.inner.cgf(z), t * self.inner.cgf(z / t))
        with suppress(NotRepresentable):
            bound = np.fmin(bound, self._lattice_cgf(z))
        return np.asarray(bound)

    def _lattice_cgf(self, z: Array) -> Array:
        """Return bounds from the lattice. Below its lowest point r, R^-z is replaced by its tangent, to which the convex order applies.

        The difference is at most E[R^-z; R < r], whose square is at most E[R^-2z] P(R < r). For any s > r,
        P(R < r) <= E[(s - R)+] / (s - r).
        """
        pair = pair_of_pass(self.ratio, self.bins)
        if pair is None:
            return np.full_like(z, np.inf)
        losses, log_p, log_q = pair.losses[1:-1], pair.log_p[1:-1], pair.log_q[1:-1]
        log_zero, log_excess_mean = float(pair.log_q[0]), float(pair.log_p[-1])  # Q-mass of R = 0, and P-mass of R = inf
        points, mass = np.exp(losses), np.exp(log_q)
        # E[(s - R)+] at every point s but the lowest
        shortfalls = points[1:] * np.cumsum(mass)[:-1] - np.cumsum(mass * points)[:-1] + math.exp(log_zero) * points[1:]
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            below = float((shortfalls / (points[1:] - points[0])).min())  # a bound on P(R < r)
            log_below = min(0.0, math.log(max(below, 1e-300)) + 1e-9)  # 1e-9 is for rounding
            t = float(self.bins)
            log_difference = 0.5 * (t * self.inner.cgf(2.0 * z / t) + log_below)
            tangent = log_zero - z * losses[0] + np.log1p(z)  # at R = 0 the tangent of R^-z at r is r^-z (1 + z)
            base_cgf = atomic_cgf(z, log_p[None, :], -losses[None, :])
            log_excess = np.where(base_cgf > 0.0, log_expm1_array(base_cgf), -np.inf)
            extra = np.logaddexp(np.logaddexp(log_difference, tangent), log_excess_mean + np.log1p(z))
            return np.asarray(np.logaddexp(0.0, np.logaddexp(log_excess, extra)) * (1.0 + 1e-11))

    def outcomes(self) -> FiniteOutcomes | None:
        pair = pair_of_pass(self.ratio, self.bins)
        return None if pair is None else FiniteOutcomes(-pair.losses[::-1], pair.log_q[::-1], pair.log_p[::-1])


@dataclass(frozen=True, slots=True)
class AllocatedReplace(Allocated):
    """A pass with Gaussian noise, in which a record that moves a step by mu, or less, is replaced by another one.

    inner: the loss of a step that both take part in.
    """

    inner: PrivacyLoss
    mu: float
    bins: int

    def cgf(self, z: Array) -> Array:
        """Return the smaller CGF of one step, and of one removed and one added record, each with half of the noise's variance."""
        (loss,) = Gaussian(math.sqrt(2.0) * self.mu).losses()
        removed, added = AllocatedRemove(loss, self.bins), AllocatedAdd(loss, loss, self.bins)
        return np.minimum(self.inner.cgf(z), removed.cgf(z) + added.cgf(z))

    def outcomes(self) -> FiniteOutcomes | None:
        pair = replaced_pair(self.mu, self.bins)
        if pair is None:
            return None
        losses = np.concatenate(([-np.inf], pair.losses, [np.inf]))
        log_p = np.concatenate(([-np.inf], pair.log_p, [pair.log_infinite]))
        log_q = np.concatenate(([pair.log_infinite], pair.log_q, [-np.inf]))
        return FiniteOutcomes(losses, log_p, log_q)


def _epsilon(pair: FiniteOutcomes, delta: float) -> float:
    """Return epsilon of a pair at delta, rounded up; inf if delta is at most 0, or below the curve at the largest finite loss."""
    largest = float(pair.losses[-2])  # the largest finite loss
    if delta <= 0.0 or pair.log_delta(largest) > math.log(delta):
        return math.inf
    if pair.log_delta(0.0) <= math.log(delta):
        return 0.0

    def excess(epsilon: float) -> float:
        return math.exp(min(pair.log_delta(epsilon) - math.log(delta), 700.0)) - 1.0  # cut off before it overflows

    _, upper = bracket_root(excess, 0.0, largest)
    return upper
