"""Any mechanism on a random sample of the records: `PoissonSampled`, `PoissonReplaced` under replace-one, and `fixed_size`.

`Spec.poisson` (spec.py) uses the first two for a mechanism type without a sharper theorem of its own, and the scheme "fixed-size" the
third. The cost is computed from the representations of the mechanism without sampling, the inner mechanism. Let (P, Q) be its pair and r =
dP/dQ, whose logarithm is the loss L. At rate q, the mixture (1-q) Q + q P has the ratio 1 - q + q r to Q, which increases in r. The tails
of the sampled loss at l are therefore mixtures of the inner tails at the loss L with log(1 - q + q e^L) = l.

The *outcomes* of a loss (`Outcomes`, numerics/contour/outcomes.py) are its atoms and densities, if they have a closed form. Sampled losses
take their CGF and characteristic function from them.

A mechanism has upper bounds on its cost (mechanism.py): `approx_dp` returns epsilon at a delta, `zcdp` rho, and `rdp` Renyi divergences.
`losses` returns the privacy losses log dP/dQ of dominating pairs (P, Q). `attained` says whether some data are claimed to attain these
pairs, and `unclaimed` drops this claim. Of a loss L, `cgf` bounds K(z) = log E_P[e^{z L}] from above, and `tails` returns log tail
probabilities under P and Q. `tilted` returns the loss under P times e^{t L}, normalised. `outcomes` returns the atoms and densities of the
pair.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from dpcli.base.errors import NotRepresentable
from dpcli.base.values import dataclass
from dpcli.mechanisms.mechanism import Mechanism, PrivacyLoss
from dpcli.numerics.arrays import Array, BoolArray, np
from dpcli.numerics.logspace import log_add, log_expm1_array, log_factorials, log_sum
from dpcli.numerics.mixture import unmix  # unmix inverts L -> log(1 - q + q e^L)
from dpcli.numerics.tails import Tails, mixed
from dpcli.numerics.work import shared, spend  # a cache; spend counts work, which is limited

if TYPE_CHECKING:
    from dpcli.numerics.contour.outcomes import Outcomes
    from dpcli.numerics.contour.tilted import Tilted


MAX_ORDER = 256  # largest integer order of the expansions; above it, bounds by convexity are used (accuracy and speed)
TABLE_WORK = 0.25 * MAX_ORDER**2  # units of work of an expansion at all integer orders, with three functions for each term
NO_RHO = "sampling does not lower rho: the Renyi curve of a sampled mechanism is not bounded by any smaller rho times its order"
LARGEST_LOSS = 1e100  # stands for an infinite loss, because inner tails are computed at finite losses
NOT_TILTED = "a mechanism known by the tails of its privacy loss has no characteristic function on a sample"


@dataclass(frozen=True, slots=True)
class PoissonSampled(Mechanism):
    """`inner` on a Poisson sample of rate q in (0, 1], under add-remove or zero-out.

    Its pairs have the tails of the sampled losses. Its Renyi curve is bounded as follows, with r = dP/dQ. In the remove direction, at
    integer order a, E_Q[((1-q) + q r)^a] = sum_k C(a,k) (1-q)^{a-k} q^k E_Q[r^k] exactly, and E_Q[r^k] = e^{K(k-1)}. In the add direction,
    at any real order, Taylor's theorem at r = 1 with E_Q[r] = 1 gives E_Q[(1-q+q r)^{1-a}] <= 1 + q^2 a (a-1)/2 chi^2 (1 - q + q
    r_min)^{-(a+1)}, where chi^2 = e^{K(1)} - 1. Convexity gives the bound 1 - q + q e^{K(a-1)}, and the smaller one is used. K is convex,
    so that chords bound it between integer orders.
    """

    inner: Mechanism
    rate: float

    def approx_dp(self, delta: float) -> float:
        return amplify(self.inner, self.rate, delta)

    def delta_floor(self) -> float:
        return self.rate * self.inner.delta_floor()

    def zcdp(self) -> float:
        if self.rate == 1.0:
            return self.inner.zcdp()
        raise NotRepresentable(NO_RHO)

    def losses(self) -> tuple[PrivacyLoss, ...]:
        inner = self.inner.losses()
        if self.rate == 1.0:
            return inner
        return SampledRemoveLoss(inner[0], self.rate), SampledAddLoss(inner[-1], self.rate)

    def attained(self) -> bool:
        """Return whether the pairs are attained. They are if one record, present or absent, attains the inner pairs.

        If the record is in the sample, the release is that without sampling. If not, it is that without the record. The pair of a group of
        mechanisms is not attained, since it is rounded up on a grid.
        """
        return self.inner.attained() and (self.rate == 1.0 or not self.inner.is_composition)

    def rdp(self, orders: Array) -> Array:
        if self.rate == 1.0:
            return self.inner.rdp(orders)
        z, q = orders - 1.0, self.rate
        integers = np.arange(2.0, MAX_ORDER + 1)
        log_chi_squared, remove = _expansion(self.inner, q)
        inner = z * self.inner.rdp(orders)
        convex = np.logaddexp(0.0, math.log(q) + log_expm1_array(inner))
        least_ratio = 1.0 - q + q * math.exp(-pure_epsilon(self.inner))
        log_taylor = np.full_like(z, np.inf)  # log of the bound by Taylor's theorem, without its 1 and without chi^2
        if least_ratio > 0.0:
            log_taylor = 2.0 * math.log(q) + np.log(0.5 * orders * z) - (orders + 1.0) * math.log(least_ratio)
        add = np.minimum(np.logaddexp(0.0, log_taylor + log_chi_squared), convex)
        pure = pure_epsilon(self)
        beyond = extend_by_line(z, integers - 1.0, remove, pure, convex)
        bound = np.maximum(chord(z, integers - 1.0, remove, beyond), add) / z * (1.0 + 1e-12)  # 1e-12 covers rounding
        return np.asarray(np.minimum(bound, pure))


@dataclass(frozen=True, slots=True)
class PoissonReplaced(PoissonSampled):
    """`inner`, resolved under replace-one, on a Poisson sample under replace-one.

    Both versions of a record are in the sample, or neither is. Its pair is `SampledReplaceLoss`. Its Renyi curve is the ternary bound of
    Wang, Balle, Kasiviswanathan 2019, arXiv:1808.00087. Both need a bound on the divergences between the record's two versions, and between
    each version and its absence. The replace-one divergence is such a bound if noise is stated per contribution.
    """

    def losses(self) -> tuple[PrivacyLoss, ...]:
        inner = self.inner.losses()
        if self.rate == 1.0:
            return inner
        if len(inner) > 1:
            raise NotRepresentable("its replace-one pair is not known to be symmetric")
        return (SampledReplaceLoss(SampledRemoveLoss(inner[0], self.rate)),)

    def attained(self) -> bool:
        """Return whether the pair is attained. On a sample it is not, because its curve lies above that of every mechanism."""
        return self.rate == 1.0 and self.inner.attained()

    def rdp(self, orders: Array) -> Array:
        if self.rate == 1.0:
            return self.inner.rdp(orders)
        z, integers = orders - 1.0, np.arange(2.0, MAX_ORDER + 1)
        bound = _ternary(self.inner, self.rate)
        # e^{(a-1) D_a} is jointly convex. Without the record, both outputs have the same law; with it, inner's divergence bounds theirs.
        convex = np.logaddexp(0.0, math.log(self.rate) + log_expm1_array(z * self.inner.rdp(orders)))
        pure = pure_epsilon(self)
        beyond = extend_by_line(z, integers - 1.0, bound, pure, convex)
        divergence = np.minimum(chord(z, integers - 1.0, bound, beyond), convex) / z * (1.0 + 1e-12)
        return np.asarray(np.minimum(divergence, pure))


def fixed_size(inner: Mechanism, rate: float, records: int) -> Mechanism:
    """Return `inner`, resolved under replace-one, on a sample of `rate` times the number of records, drawn without replacement.

    A sample without the changed record has another one in its place. All three distributions of the ternary bound therefore differ by one
    replacement, and the query's replace-one sensitivity suffices (arXiv:1808.00087, Theorem 9). At least one of a group's records is drawn
    with probability at most `records * rate`.
    """
    group_rate = min(1.0, records * rate)
    if group_rate < 1.0:
        return PoissonReplaced(inner, group_rate)
    return inner if rate >= 1.0 else inner.unclaimed()  # Some sample may lack a record of the group.


def amplify(inner: Mechanism, rate: float, delta: float) -> float:
    """Return epsilon at `delta` of `inner` on a sample of rate q: log(1 + q (e^eps - 1)), where eps is that of `inner` at delta / q.

    The result is 0 from delta = q on, because the record is not in the sample with probability 1 - q. Slacks of 4e-16 to 1e-15 cover the
    rounding of a few operations, each of which adds at most 2.2e-16.

    Source: Balle, Barthe, Gaboardi 2018, arXiv:1807.01647, Theorems 8 (Poisson, add-remove) and 9 (without replacement, replace-one).
    """
    if delta >= rate:
        return 0.0
    epsilon = inner.approx_dp(min(delta / rate * (1.0 - 1e-15), 1.0))
    if epsilon > 600.0:  # e^epsilon may overflow
        return log_add(math.log1p(-rate) if rate < 1.0 else -math.inf, epsilon + math.log(rate)) + 4e-16 * epsilon
    # The smallest float is added, because the product may underflow to 0 or lose half a unit among subnormal numbers.
    return math.log1p(rate * math.expm1(epsilon)) * (1.0 + 1e-15) + math.ulp(0.0) if epsilon > 0.0 else 0.0


def pure_epsilon(mechanism: Mechanism) -> float:
    """Return the mechanism's pure epsilon; inf if it has none."""
    try:
        return mechanism.approx_dp(0.0)
    except NotRepresentable:
        return math.inf


def log_binomials(orders: Array, rate: float) -> Array:
    """Return log C(a, k) + k log q + (a-k) log(1-q), with a row for each order a and columns k = 0, 1, ...; -inf for k > a.

    orders: increasing whole numbers.
    """
    top = int(orders[-1])
    log_factorial = log_factorials(top)
    a, k = orders.astype(int)[:, None], np.arange(top + 1)[None, :]
    others = np.maximum(a - k, 0)
    log_counts = log_factorial[a] - log_factorial[k] - log_factorial[others]
    return np.where(k <= a, log_counts + k * math.log(rate) + others * math.log1p(-rate), -np.inf)


def chord(z: Array, knots: Array, values: Array, beyond: Array) -> Array:
    """Return an upper bound at z > 0 on a convex function through (0, 0): the smaller of its chords between increasing knots and `beyond`.

    values: the function at the knots, infinite from some knot on. beyond: another bound at z, which is used alone after the last finite
    value.
    """
    finite = int(np.searchsorted(np.isinf(values), True))  # number of finite values
    if finite == 0:
        return beyond
    inside = np.interp(z, np.concatenate(([0.0], knots[:finite])), np.concatenate(([0.0], values[:finite])))
    return np.where(z <= knots[finite - 1], np.minimum(inside, beyond), beyond)


def extend_by_line(z: Array, knots: Array, values: Array, slope: float, beyond: Array) -> Array:
    """Return `beyond`, and after the last knot the smaller of it and the line of slope `slope` from that knot.

    The slope is the largest loss, because log E[e^{z L}] increases no faster.
    """
    if math.isinf(slope):
        return beyond
    line = values[-1] + np.maximum(z - knots[-1], 0.0) * slope
    return np.where(z > knots[-1], np.minimum(line, beyond), beyond)


@shared(4096)
def _expansion(inner: Mechanism, rate: float) -> tuple[float, Array]:
    """Return log chi^2, and the log moments of the remove direction at the integer orders from 2 to MAX_ORDER, cached."""
    integers = np.arange(2.0, MAX_ORDER + 1)
    spend(TABLE_WORK)
    # The binomial weights add up to 1, so the sum is 1 plus the mean of E_Q[r^k] - 1, which is 0 for k = 0 and 1.
    log_moments = log_expm1_array((integers - 1.0) * inner.rdp(integers))
    terms = _times(log_binomials(integers, rate), np.concatenate(([-np.inf, -np.inf], log_moments)))
    return float(log_moments[0]), np.logaddexp(0.0, log_sum(terms))


@shared(4096)
def _ternary(inner: Mechanism, rate: float) -> Array:
    """Return the ternary bound on the log moments at the integer orders a from 2 to MAX_ORDER.

    It is log(1 + sum_{k=2}^a C(a,k) q^k m_k), where m_k = e^{(k-1) D_k} min(2, (e^eps - 1)^k) for a pure epsilon, and m_2 is at most
    4 (e^{D_2} - 1) too.
    """
    k = np.arange(2.0, MAX_ORDER + 1)
    spend(TABLE_WORK)
    moments, pure = (k - 1.0) * inner.rdp(k), pure_epsilon(inner)
    log_range = float(log_expm1_array(np.array([min(pure, 700.0)]))[0]) if pure < math.inf else math.inf
    cap = np.minimum(math.log(2.0), k * log_range)  # it is log 2 long before epsilon is 700
    log_terms = k * math.log(rate) + moments + cap
    log_m_2 = min(math.log(4.0) + float(log_expm1_array(moments[:1])[0]), float(moments[0] + cap[0]))
    log_terms[0] = 2.0 * math.log(rate) + log_m_2
    log_counts = log_binomials(k, 0.5)[:, 2:] + k[:, None] * math.log(2.0)  # log C(a, k): at rate 1/2 all weights are C(a, k) / 2^a
    return np.asarray(np.logaddexp(0.0, log_sum(_times(log_counts, log_terms))))


def _times(log_counts: Array, log_terms: Array) -> Array:
    """Return the logarithms of counts times terms, with a row for each order. A term with count 0 gives -inf even if it is infinite."""
    return np.where(log_counts == -np.inf, -np.inf, log_counts + np.where(log_counts == -np.inf, 0.0, log_terms[None, :]))


def unsampled_loss(at: Array, rate: float) -> Array:
    """Return the inner loss L with log(1 - q + q e^L) = `at`, clipped to +-LARGEST_LOSS; -LARGEST_LOSS from log(1 - q) down."""
    return np.asarray(unmix(at, math.log1p(-rate), rate).clip(-LARGEST_LOSS, LARGEST_LOSS))


def blend(rate: float, without: Array, present: Array) -> Array:
    """Return log((1-q) e^without + q e^present)."""
    return mixed([math.log1p(-rate), math.log(rate)], [without, present])


def join_tails(first: Tails, second: Tails) -> Tails:
    """Return the tails at the losses of `first` and then at the losses of `second`."""
    return Tails(*(np.concatenate(pair) for pair in zip(first, second, strict=True)))


def with_ends(tails: Tails, below: BoolArray, beyond: BoolArray) -> Tails:
    """Return the tails with exact values outside of the range of the losses.

    below: for each loss of the tails, whether it is less than every possible loss. beyond: whether no possible loss exceeds it.
    """
    p_above, q_above = (np.where(below, 0.0, np.where(beyond, -np.inf, log)) for log in (tails.p_above, tails.q_above))
    p_below, q_below = (np.where(below, -np.inf, np.where(beyond, 0.0, log)) for log in (tails.p_below, tails.q_below))
    return Tails(p_above, p_below, q_above, q_below)


class SampledLoss:
    """Base class of the three sampled losses. The CGF and the tilted loss are computed from the outcomes of the sampled pair."""

    __slots__ = ()

    def outcomes(self) -> Outcomes:
        """Return the outcomes of the pair. Raises NotRepresentable if the outcomes of the inner pair are not known."""
        raise NotRepresentable(NOT_TILTED)

    @property
    def decays(self) -> bool:
        """Tell whether the characteristic function decays."""
        return _outcomes(self).decays

    def cgf(self, z: Array) -> Array:
        return _outcomes(self).cgf(z)

    def capped(self, log_mass: float) -> Outcomes | SampledLoss:
        """Return the outcomes without a far tail of mass e^log_mass, or this object if there is no such tail.

        Numerical methods look up this method and the next one by name (numerics/contour).
        """
        outcomes = _outcomes(self)
        capped = outcomes.capped(log_mass)
        return self if capped is outcomes else capped

    def backwards(self, power: Array) -> Array:
        """Return log E_Q[e^{-power L}], which is K of the reversed pair."""
        return _outcomes(self).cgf(-power - 1.0)

    def tilted(self, t: float) -> Tilted:
        return _outcomes(self).tilted(t)


@shared(256)
def _outcomes(loss: SampledLoss) -> Outcomes:
    """Return the outcomes of the sampled pair, cached."""
    return loss.outcomes()


def outcomes_of(inner: PrivacyLoss) -> Outcomes:
    """Return the outcomes of a loss. Raises NotRepresentable if it has none."""
    method: Callable[[], Outcomes] | None = getattr(inner, "outcomes", None)
    if method is None:
        raise NotRepresentable(NOT_TILTED)
    return method()


@dataclass(frozen=True, slots=True)
class SampledRemoveLoss(SampledLoss):
    """The loss L' = log(1 - q + q e^L) of the pair ((1-q) Q + q P, Q), for the pair (P, Q) of `inner`.

    The pair dominates the removal of a record from a Poisson sample of rate q if (P, Q) dominates its removal without sampling. Proof: by
    joint convexity the rest of the sample can be fixed. Let P' and Q' be the outputs with and without the record. For every gamma >= 0,
    int (q P' - (gamma - 1 + q) Q')+ is q times the hockey-stick divergence of the inner mechanism at (gamma - 1 + q)/q, or 1 - gamma if
    that is negative.
    Source: Zhu, Dong, Wang 2022, arXiv:2106.08567, Theorem 11.

    rate: q in (0, 1).
    """

    inner: PrivacyLoss
    rate: float

    def outcomes(self) -> Outcomes:
        return outcomes_of(self.inner).removed(self.rate)

    def tails(self, at: Array) -> Tails:
        """Return the tails, as exact as the inner ones. All mass is above a loss below log(1 - q)."""
        p_above, p_below, q_above, q_below = self.inner.tails(unsampled_loss(at, self.rate))
        sampled = Tails(blend(self.rate, q_above, p_above), blend(self.rate, q_below, p_below), q_above, q_below)
        return with_ends(sampled, below=at <= math.log1p(-self.rate), beyond=np.zeros(len(at), dtype=bool))


@dataclass(frozen=True, slots=True)
class SampledAddLoss(SampledLoss):
    """The loss L' = -log(1 - q + q e^-L) of the pair (P, (1-q) P + q Q), for the pair (P, Q) of `inner`.

    The pair dominates the addition of a record (Zhu, Dong, Wang 2022, arXiv:2106.08567, Theorem 11).
    """

    inner: PrivacyLoss
    rate: float

    def outcomes(self) -> Outcomes:
        return outcomes_of(self.inner).added(self.rate)

    def tails(self, at: Array) -> Tails:
        """Return the tails, as exact as the inner ones. No mass is above a loss of -log(1 - q) or more."""
        p_above, p_below, q_above, q_below = self.inner.tails(-unsampled_loss(-at, self.rate))
        sampled = Tails(p_above, p_below, blend(self.rate, p_above, q_above), blend(self.rate, p_below, q_below))
        return with_ends(sampled, below=np.zeros(len(at), dtype=bool), beyond=at >= -math.log1p(-self.rate))


@dataclass(frozen=True, slots=True)
class SampledReplaceLoss(SampledLoss):
    """The loss for replace-one on a Poisson sample, from the inner mechanism's replace-one pair (P, Q).

    With S = (1-q) Q + q P, its values l >= 0 are those of the loss of (S, Q), and its values l < 0 are those of (Q, S). There is an atom at
    0.

    Proof.

    1. Let A and A' be the outputs with the two versions in the sample, and W the output without either. For gamma' = 1 + q (gamma - 1) >= 1
       and b = gamma'/gamma, H_gamma'((1-q) W + q A || (1-q) W + q A') = q H_gamma(A || (1-b) W + b A') (Balle, Barthe, Gaboardi 2018,
       arXiv:1807.01647, Theorem 2).
    2. If (P, Q) dominates the pairs among A, A' and W, this is at most q H_gamma(P || Q) by convexity, which equals H_gamma'(S || Q).
    3. Below 1, H_gamma(X || Y) = 1 - gamma + gamma H_1/gamma(Y || X) and the symmetry of the relation give the same result for (Q, S).
    4. The two pieces of the curve meet at gamma = 1 with slopes -S(L <= 0) and -Q(L > 0). If the former is smaller, they form one convex
       curve, which is that of a pair (Zhu, Dong, Wang 2022, arXiv:2106.08567: any convex non-increasing H with H(0) = 1 and H >= 1 - gamma
       is one). The difference of the slopes is the pair's atom at 0.
    5. The former slope is smaller for inner pairs that are their own mirror image. For these P(L > 0) = Q(L < 0), and therefore
       2 Q(L > 0) <= P(L > 0) + Q(L > 0) <= 1. So S(L > 0) + Q(L > 0) = 2 (1-q) Q(L > 0) + q (P(L > 0) + Q(L > 0)) <= 1.
    """

    half: SampledRemoveLoss

    def outcomes(self) -> Outcomes:
        self._require_symmetry()
        return outcomes_of(self.half.inner).replaced(self.half.rate)

    def _require_symmetry(self) -> None:
        """Raise NotRepresentable if the former slope of step 4 is not the smaller one."""
        middle = self.half.tails(np.zeros(1))
        above = math.exp(float(middle.p_above[0])) + math.exp(float(middle.q_above[0]))
        if above > 1.0 + 1e-9:  # 1e-9 is for the rounding of tails
            raise NotRepresentable("its replace-one pair is not symmetric enough to be sampled")

    def tails(self, at: Array) -> Tails:
        """Return the tails of (S, Q) from 0 on, and their mirror image below 0."""
        self._require_symmetry()
        split = int(np.searchsorted(at, 0.0))
        return join_tails(self.half.tails(-at[:split][::-1]).mirrored(), self.half.tails(at[split:]))
