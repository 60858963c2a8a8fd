"""PMixED: a token is drawn from the average of the predictions of models on disjoint shards, each of which is close to a public model.

`EnsembleMixtureSpec` has the keys of the type "pmixed", and `EnsembleMixture` is the cost of one token. The private data are divided into
*shards*, and each shard has a model that was fine-tuned on it without noise. A record is in one shard, so that one change of the data
changes one model. Its effect on a token is limited, because predictions are projected to within `radius` of those of a public model, and
only a random subset of the models is averaged. The bounds are upper bounds, and follow from these steps.

1. Let V be the sampled models other than the one that changes, and m their number, which is Binomial(shards - 1, rate). Let A be their
   average, or the public model if m = 0. Revealing V as well only adds to the release.
2. The token is drawn from A (1 + t (x - 1)) with t = rate / (m + 1), where x are the changed model's probabilities over those of A.
3. All models lie within `radius` r of the public model, |log p/p0| <= r. So x lies in [e^-h, e^h] with h = 2r, or h = r if m = 0, and its
   mean under A is 1.
4. Every f-divergence is convex in x, and jointly convex in the versions of x before and after a change. So the worst case has all values of
   x at corners of the allowed set.

A mechanism has upper bounds on its cost (mechanism.py): `approx_dp` returns epsilon at a delta, `zcdp` rho, and `rdp` Renyi divergences.
`losses` returns the privacy losses log dP/dQ of dominating pairs (P, Q).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

from dpcli.base.errors import NotRepresentable
from dpcli.base.fields import POSITIVE, RATE, Constraint, Key
from dpcli.base.premise import DRAWN, SECRET, Premises, moves
from dpcli.base.values import dataclass
from dpcli.mechanisms.combined.group import for_group
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.neighbours import Adjacency, Neighbours
from dpcli.mechanisms.spec import CostEvidence, Spec
from dpcli.mechanisms.stated.atoms import AtomicLoss
from dpcli.mechanisms.stated.pure_and_approx import Pure
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.logspace import log_factorials
from dpcli.numerics.orders import least_rho
from dpcli.numerics.work import shared, spend  # a cache; spend counts work, which is limited

# The largest number of shards. The sum of this many probabilities, in multiples of 2^-50, fits into 64 bits (predict/pmixed/projection.py).
MAX_SHARDS = 4096
SHARDS = Constraint(
    f"a whole number from 1 to {MAX_SHARDS}", lambda x: 1 <= x <= MAX_SHARDS, (("minimum", 1), ("maximum", MAX_SHARDS))
)
CORNERS = ((1, 0), (0, -1), (1, 1), (-1, -1), (0, 1), (-1, 0))  # corners of the allowed (log x, log y), in units of h
# Soundness: slacks above the rounding, and limits up to which they cover it.
RATIO_SLACK = 1e-13  # relative slack for ratios and masses, each the result of a few operations
LOG_MASS_SLACK = 2e-15  # relative slack for the logarithm of a mass
LARGE_LOG_MASS = 64.0  # RATIO_SLACK covers the rounding of such logarithms up to this size
LARGEST_SOLVED_RADIUS = 100.0  # largest radius at which the corners are solved for in floating point
LOG_MOMENT_SLACK = 1e-13  # absolute slack for the logarithm of a moment near 1
LARGEST_RADIUS = 1e3  # largest radius; up to it, masses are precise enough, and a larger one protects nothing
LARGEST_EXPONENT = 600.0  # e^600 is finite; for larger exponents, logarithms are added
TOO_LARGE_RADIUS = "the radius is too large to protect anything or to compute with"


@dataclass(frozen=True, slots=True)
class EnsembleMixture(Mechanism):
    """A token that is drawn from the average. The pair is not claimed to be attained.

    shards: number of models. rate: probability that a model takes part. radius: r.
    replaces: whether the changed shard's model is replaced by another one. Otherwise it is added or removed.
    bounds_more_shards: whether h = 2r also for m = 0. This costs more, and is a bound for every larger number of shards too, because with
        more shards the model is closer to the average.

    Let u = 1 + t (e^h - 1) and d = 1 + t (e^-h - 1). Let w = 1 / (e^h + 1), which is the mass under A of x = e^h.

    A model that is added or removed: the likelihood ratios are u and d, with masses w and 1 - w under A.

    A model that is replaced: let x belong to the version before and y to the version after. Both versions are within r of the public model,
    so x and y are also within a factor e^{2r} of each other.

    * If m = 0, this is no further restriction. The ratio u/d has mass w d under Q, d/u has mass w u, and the rest has ratio 1.
    * If m > 0, the corners of the allowed (x, y) are (e^h, 1), (1, e^-h), (e^h, e^h), these three with x and y exchanged, and
      (e^-h, e^-h). At e^epsilon >= 1 only the first two contribute to E_A(1 + t (x-1) - e^epsilon (1 + t (y-1)))+. They are balanced to
      mean 1 by (e^-h, 1) and (1, e^h). The first alone is as large as any mixture: w (u - e^epsilon). So u has mass w under Q, 1/u has mass
      w u, and the rest has ratio 1. The Renyi divergence is maximised over the corners themselves.
    """

    shards: int
    rate: float
    radius: float
    replaces: bool
    bounds_more_shards: bool = False

    def approx_dp(self, delta: float) -> float:
        """Return epsilon: log of the maximum of (P(S) - delta) / Q(S) over sets S of the largest ratios. It is exact for the pair."""
        return max(_epsilon(loss, delta) for loss in self.losses()) * (1.0 + RATIO_SLACK)

    def zcdp(self) -> float:
        """Return rho from a search over all orders. It is at most the rho of the pure epsilon."""
        return _rho(self)

    def losses(self) -> tuple[AtomicLoss, ...]:
        return _losses(self)

    def rdp(self, orders: Array) -> Array:
        bound = np.minimum(Mechanism.rdp(self, orders), self.approx_dp(0.0))
        has_corners = self.replaces and self.shards > 1 and self.radius <= LARGEST_SOLVED_RADIUS
        return np.asarray(np.minimum(bound, self._over_corners(orders)) if has_corners else bound)

    def _over_corners(self, orders: Array) -> Array:
        """Return upper bounds on the Renyi divergences of a replacement.

        For each m, E_A[(1+t(x-1))^a (1+t(y-1))^{1-a}] is maximised over distributions on three corners with mean 1. The moment is the mean
        over m. All computations are on logarithms.
        """
        log_weight, t, h = _sampled_models(self)
        (loss_of_single_model,) = _losses(replace(self, shards=1))
        single_model = AtomicLoss.cgf(loss_of_single_model, orders - 1.0) + log_weight[0]
        spend(20.0 * self.shards * len(orders))
        up, down = _ratios(t, h)
        x, y = np.array(CORNERS).T
        # log(1 + t (x-1)), where log x is 0, h, -h: rows 0, 1 and -1, as in CORNERS
        log_factor = np.stack((0.0 * up, up, down))[:, 1:]
        best = np.full((len(orders), self.shards - 1), -np.inf)
        with np.errstate(over="ignore"):
            for corners, masses in _triangles(float(h[-1])):
                terms = []
                for corner, log_mass in zip(corners, masses, strict=True):
                    log_before, log_after = log_factor[x[corner]], log_factor[y[corner]]
                    terms.append(log_mass + orders[:, None] * log_before + (1.0 - orders[:, None]) * log_after)
                best = np.maximum(best, np.logaddexp.reduce(terms))
        moments = np.logaddexp.reduce(np.column_stack((single_model[:, None], best + log_weight[None, 1:])), axis=1)
        return np.asarray(np.maximum(moments, 0.0) / (orders - 1.0) + LOG_MOMENT_SLACK * orders / (orders - 1.0))


def _triangles(h: float) -> Iterator[tuple[tuple[int, ...], tuple[float, ...]]]:
    """Yield all sets of three corners with a weighted mean of (1, 1), and the logarithms of their weights."""
    level = np.array([0.0, math.expm1(h), math.expm1(-h)])  # x - 1 where log x is 0, h, -h
    points = np.array([(1.0, level[x], level[y]) for x, y in CORNERS])
    for corners in itertools.combinations(range(len(CORNERS)), 3):
        try:
            weights = np.linalg.solve(points[list(corners)].T, np.array([1.0, 0.0, 0.0]))
        except np.linalg.LinAlgError:  # the corners lie on one line
            continue
        if weights.min() > -1e-12:  # the mean lies in the triangle, up to rounding
            with np.errstate(divide="ignore"):
                yield corners, tuple(np.log(np.maximum(weights, 0.0)).tolist())


def _sampled_models(mixture: EnsembleMixture) -> tuple[Array, Array, Array]:
    """Return log P(m), t and h for each number m of other models. Raises NotRepresentable if the radius exceeds LARGEST_RADIUS."""
    if not mixture.radius <= LARGEST_RADIUS:
        raise NotRepresentable(TOO_LARGE_RADIUS)
    m = np.arange(float(mixture.shards))
    h = np.full(mixture.shards, 2.0)
    if not mixture.bounds_more_shards:
        h[0] = 1.0
    return _log_weights(mixture.shards - 1, mixture.rate), mixture.rate / (m + 1.0), h * mixture.radius * (1.0 + RATIO_SLACK)


def _ratios(t: Array, h: Array) -> tuple[Array, Array]:
    """Return log(1 + t (e^h - 1)) and log(1 + t (e^-h - 1)), accurate to a few units in the last place however small they are."""
    with np.errstate(divide="ignore", over="ignore"):
        log_rest, log_t = np.log1p(-t), np.log(t)
        small_up = np.log1p(t * np.expm1(np.minimum(h, LARGEST_EXPONENT)))
        up = np.where(h < LARGEST_EXPONENT, small_up, np.logaddexp(log_rest, log_t + h))
        moved = t * np.expm1(-h)
        # If a model is alone, 1 - t is 0, and nothing but t e^-h is left.
        return up, np.where(moved > -0.5, np.log1p(moved), np.logaddexp(log_rest, log_t - h))


@shared(64)
def _rho(mixture: EnsembleMixture) -> float:
    pure = mixture.approx_dp(0.0)
    spend(100.0 * mixture.shards)
    return min(Pure(pure).zcdp(), max(least_rho(loss.cgf, pure) for loss in mixture.losses()))


@shared(64)
def _losses(mixture: EnsembleMixture) -> tuple[AtomicLoss, ...]:
    """Return the losses of the pair in each direction, with the outcomes that `EnsembleMixture` describes. They are cached."""
    log_weight, t, h = _sampled_models(mixture)
    up, down = _ratios(t, h)
    log_w = -np.logaddexp(0.0, h)
    if mixture.replaces:
        below = np.where(np.arange(mixture.shards) == 0, down, 0.0)  # the ratio is u/d if m = 0, and else u
        spread = (up - below) * (1.0 + RATIO_SLACK)
        return (_loss(log_weight + log_w + below, spread, log_weight + log_w + up, -spread),)
    high, low = log_weight + log_w, log_weight - np.logaddexp(0.0, -h)
    return _loss(high, up, low, down), _loss(high + up, -up, low + down, -down)


def _loss(log_high_mass: Array, log_high_ratio: Array, log_low_mass: Array, log_low_ratio: Array) -> AtomicLoss:
    """Return the loss with these outcomes, with masses under Q. Outcomes of mass 0 are left out. Raises NotRepresentable on overflow."""
    log_mass, log_ratio = np.concatenate((log_high_mass, log_low_mass)), np.concatenate((log_high_ratio, log_low_ratio))
    with np.errstate(invalid="ignore"):
        is_raised = (log_mass < -LARGE_LOG_MASS) & (log_mass > -np.inf)
        log_mass = np.where(is_raised, log_mass * (1.0 - LOG_MASS_SLACK), log_mass)  # the same increase under P and Q
    if np.isnan(log_mass).any() or not np.isfinite(log_ratio[log_mass > -np.inf]).all():
        raise NotRepresentable(TOO_LARGE_RADIUS)
    possible = log_mass > -np.inf
    return AtomicLoss(tuple(log_mass[possible].tolist()), tuple(log_ratio[possible].tolist()))


def _log_weights(n: int, rate: float) -> Array:
    """Return upper bounds on log P(Binomial(n, rate) = m) for m = 0, ..., n.

    They are increased by the rounding error of the factorials, by the same amount under P and Q.
    """
    m = np.arange(n + 1.0)
    if rate == 1.0:
        return np.where(m == n, 0.0, -np.inf)
    log_factorial = log_factorials(n)
    rounding = 4e-16 * (n + 1.0) + 1e-15 * log_factorial[n]
    log_counts = log_factorial[n] - log_factorial - log_factorial[::-1]
    return np.asarray(log_counts + m * math.log(rate) + (n - m) * math.log1p(-rate) + rounding)


def _epsilon(loss: AtomicLoss, delta: float) -> float:
    """Return the least epsilon >= 0 at which P(S) - e^epsilon Q(S) <= delta for every set S."""
    ratio, log_q = np.array(loss.log_ratio), np.array(loss.log_reference)
    order = np.argsort(-ratio, kind="stable")
    ratio, log_q = ratio[order], log_q[order]
    if delta == 0.0:
        return max(math.ulp(0.0), float(ratio[0]))
    p, log_below = np.cumsum(np.exp(log_q + ratio)) * (1.0 + RATIO_SLACK), np.logaddexp.accumulate(log_q)
    excess = p - delta
    positive = excess > 0.0
    if not np.any(positive):
        return 0.0
    return max(0.0, float(np.max(np.log(excess[positive]) - log_below[positive])))


@dataclass(frozen=True, slots=True, kw_only=True)
class EnsembleMixtureSpec(Spec):
    """A token that is drawn from the average of the next-token probabilities of a random subset of private models.

    Each model's log-probabilities are first projected to within `radius` of those of a public model. If the subset is empty, the public
    model alone is used. The models are fine-tuned without noise on `shards` disjoint shards of the private data, with all records of a unit
    of privacy in one shard. For each token, each model is in the subset with probability `model_rate`, independently. A step is one token.
    The radius is public and does not depend on the subset. Nothing else uses the models, so there is no greedy choice and no top-k or top-p
    after the average.

    Neighbours: the key `change` says what one change does. With replace-shard, one change retrains the model of one shard. This covers a
    record or unit that is added, removed or changed, in the same way under all three adjacencies. With remove-shard, the unit of privacy is
    a shard, and a whole shard with its model is added or removed; shards counts it too. remove-shard makes a difference only under
    add-remove, because a replaced or blanked shard leaves a model in its place and costs as much as replace-shard. k units that change
    together may lie in k shards.

    Bounds: upper, from a dominating pair with finitely many outcomes. Finite at delta = 0.

    Source: the protocol is that of Flemings, Razaviyayn, Annavaram 2024, arXiv:2403.15638. The bound is for every order and not for one
    order as there, because Theorem 5.1 of that paper needs more than it assumes. The pair follows from convexity, as derived in
    dpcli/mechanisms/prediction/ensemble.py.
    """

    example: ClassVar[Mapping[str, Any]] = {"shards": 4, "model_rate": 0.5, "radius": 0.1}
    evidence: ClassVar[CostEvidence] = CostEvidence.PRICED
    # What must hold for the cost, each with a test that violates it, and the commands that enforce it, if any.
    premises: ClassVar[Premises] = (
        SECRET,  # every draw is fresh, and nobody sees it
        moves("One change retrains one model; the public model and the radius depend on no record.", "pmixed"),
        DRAWN,  # a token is drawn at random, and nothing else reads the models
    )

    # claim=True: dpcli does not enforce what the key states.
    shards: Annotated[int, Key("number of disjoint shards of the private data, each with a fine-tuned model", SHARDS, claim=True)]
    radius: Annotated[
        float, Key("largest difference of any token's log-probability from the public model's, after projection", POSITIVE)
    ]
    model_rate: Annotated[float, Key("probability that a model takes part in a token", RATE)] = 1.0
    change: Annotated[
        Literal["replace-shard", "remove-shard"],
        Key("effect of one change of the data: one shard's model is retrained, or a whole shard is added or removed", claim=True),
    ] = "replace-shard"

    @property
    def sampling_refusal(self) -> str:
        return "whose model_rate says how its models are sampled"

    def resolve(self, neighbours: Neighbours) -> Mechanism:
        # A shard that takes another's place, or is blanked, still has a model.
        replaces = self.change == "replace-shard" or neighbours.adjacency is not Adjacency.ADD_REMOVE
        group = neighbours.group
        if replaces or group == 1:
            return for_group(EnsembleMixture(self.shards, self.model_rate, self.radius, replaces=replaces), group)
        # Several shards are removed one after the other. The last one is removed from this number of shards.
        fewest = max(self.shards - group + 1, 1)
        return for_group(EnsembleMixture(fewest, self.model_rate, self.radius, replaces=False, bounds_more_shards=True), group)
