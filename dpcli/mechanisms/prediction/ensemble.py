"""Predictions of models on disjoint shards, each mixed towards a public model and averaged; one token is drawn from the average (PMixED).

With V the sampled models other than the one that changes, m of them, and A their average (the public model if m = 0), the token
comes from A (1 + t (x - 1)), t = rate / (m + 1), x the changed model's probabilities over A's. All models lie within `radius` of the
public one, |log p/p0| <= r, so x lies in [e^-h, e^h], h = 2r (r if m = 0), and has mean 1 under A. Every f-divergence is convex in
x, and jointly in the versions of x before and after a change: the worst case sits in the corners of what x may be. Showing V as well
only adds to what is released: m is Binomial(shards - 1, rate).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from dpcli.base.errors import NotRepresentable
from dpcli.base.fields import POSITIVE, RATE, Constraint, Key
from dpcli.base.premise import DRAWN, SECRET, Premises, moves
from dpcli.base.values import dataclass
from dpcli.mechanisms.combined.group import grouped
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.neighbours import Adjacency, Neighbours
from dpcli.mechanisms.spec import Spec
from dpcli.mechanisms.stated.atoms import AtomicLoss
from dpcli.mechanisms.stated.pure_and_approx import Pure
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.logspace import log_factorials
from dpcli.numerics.orders import least_rho
from dpcli.numerics.work import shared, spend

MAX_SHARDS = 4096  # largest number of shards, so that a sum of their multiples of 2^-50 fits into 64 bits
SHARDS = Constraint(
    f"a whole number from 1 to {MAX_SHARDS}", lambda x: 1 <= x <= MAX_SHARDS, (("minimum", 1), ("maximum", MAX_SHARDS))
)
CORNERS = ((1, 0), (0, -1), (1, 1), (-1, -1), (0, 1), (-1, 0))  # (log x, log y) over h
ROUNDED = 1e-13  # relative slack for ratios and masses, each the result of a few operations
LOST = 2e-15  # relative slack for the logarithm of a mass
FEW = 64.0  # size of such a logarithm up to which ROUNDED covers its rounding
WIDEST = 100.0  # largest radius at which the corners are solved for in floating point
ABSOLUTE = 1e-13  # absolute slack for the logarithm of a moment near 1
BEYOND = 1e3  # largest radius; up to it, masses are precise enough, and a larger one protects nothing
BEYOND_WORDS = "the radius protects nothing: it is beyond what is computed with"
FAR = 600.0  # e^FAR is finite


@dataclass(frozen=True, slots=True)
class EnsembleMixture(Mechanism):
    """A token drawn from the average.

    replaces: whether the changed shard's model becomes another one; else it comes or goes.
    apart: a model that is alone counts as if it were not, which is dearer: a bound for every larger number of shards too, as more of them
    only draw it nearer to the average.

    With u = 1 + t (e^h - 1), d = 1 + t (e^-h - 1) and w = 1 / (e^h + 1), the mass under A of x = e^h: a model that comes or goes has
    likelihood ratios u and d, with masses w and 1 - w under A.

    One that is replaced: x before and y after also lie within 2r of each other, since both are within r of the public model. If m =
    0 that says nothing new: ratio u/d has mass w d under Q, d/u has mass w u, the rest is 1. If m > 0 the corners of what (x, y) may
    be are (e^h, 1), (1, e^-h), (e^h, e^h), those with x and y exchanged, and (e^-h, e^-h). At e^epsilon >= 1 only the first two add to
    E_A(1 + t (x-1) - e^epsilon (1 + t (y-1)))+, balanced by (e^-h, 1) and (1, e^h) to mean 1, and the first alone is as good as any
    mixture: w (u - e^epsilon). So u has mass w under Q, 1/u has mass w u, the rest is 1. A Renyi divergence is taken over the corners
    themselves.

    Not claimed to be attained.
    """

    shards: int
    rate: float
    radius: float
    replaces: bool
    apart: bool = False

    def approx_dp(self, delta: float) -> float:
        """log max (P(S) - delta) / Q(S) over the sets S of the largest ratios, which is exact for the pair."""
        return max(_epsilon(loss, delta) for loss in self.losses()) * (1.0 + ROUNDED)

    def zcdp(self) -> float:
        """Return rho from a search that covers every order; at most that of pure epsilon."""
        return _rho(self)

    def losses(self) -> tuple[AtomicLoss, ...]:
        return _losses(self.shards, self.rate, self.radius, self.replaces, self.apart)

    def rdp(self, orders: Array) -> Array:
        bound = np.minimum(Mechanism.rdp(self, orders), self.approx_dp(0.0))
        cornered = self.replaces and self.shards > 1 and self.radius <= WIDEST
        return np.asarray(np.minimum(bound, self._over_corners(orders)) if cornered else bound)

    def _over_corners(self, orders: Array) -> Array:
        """E_m of the largest E_A[(1+t(x-1))^a (1+t(y-1))^{1-a}] over three corners with mean 1, for each order: all in logarithms."""
        log_weight, t, h = _sampled(self.shards, self.rate, self.radius)
        single_model = AtomicLoss.cgf(_losses(1, self.rate, self.radius, True)[0], orders - 1.0) + log_weight[0]
        spend(20.0 * self.shards * len(orders))
        up, down = _ratios(t, h)
        x, y = np.array(CORNERS).T
        step = np.stack((0.0 * up, up, down))[:, 1:]  # log(1 + t (x-1)), where log x is 0, h, -h
        best = np.full((len(orders), self.shards - 1), -np.inf)
        with np.errstate(over="ignore"):
            for corners, masses in _triangles(float(h[-1])):
                parts = [
                    log_mass + orders[:, None] * step[x[corner]] + (1.0 - orders[:, None]) * step[y[corner]]
                    for corner, log_mass in zip(corners, masses, strict=True)
                ]
                best = np.maximum(best, np.logaddexp.reduce(parts))
        moments = np.logaddexp.reduce(np.column_stack((single_model[:, None], best + log_weight[None, 1:])), axis=1)
        return np.asarray(np.maximum(moments, 0.0) / (orders - 1.0) + ABSOLUTE * orders / (orders - 1.0))


def _triangles(h: float) -> Iterator[tuple[tuple[int, ...], tuple[float, ...]]]:
    """Yield every three corners with a weighted mean of (1, 1), and the logarithms of their weights."""
    level = np.array([0.0, math.expm1(h), math.expm1(-h)])  # x - 1 where log x is 0, h, -h
    points = np.array([(1.0, level[x], level[y]) for x, y in CORNERS])
    for corners in itertools.combinations(range(len(CORNERS)), 3):
        try:
            weights = np.linalg.solve(points[list(corners)].T, np.array([1.0, 0.0, 0.0]))
        except np.linalg.LinAlgError:
            continue
        if weights.min() > -1e-12:
            with np.errstate(divide="ignore"):
                yield corners, tuple(np.log(np.maximum(weights, 0.0)).tolist())


def _sampled(shards: int, rate: float, radius: float, apart: bool = False) -> tuple[Array, Array, Array]:
    """Return log P(m), t and h for each number m of other models."""
    m = np.arange(float(shards))
    if not radius <= BEYOND:
        raise NotRepresentable(BEYOND_WORDS)
    return _log_weights(shards - 1, rate), rate / (m + 1.0), np.where((m == 0.0) & (not apart), 1.0, 2.0) * radius * (1.0 + ROUNDED)


def _ratios(t: Array, h: Array) -> tuple[Array, Array]:
    """Return log(1 + t (e^h - 1)) and log(1 + t (e^-h - 1)), accurate to a few units in the last place however small they are."""
    with np.errstate(divide="ignore", over="ignore"):
        rest, own = np.log1p(-t), np.log(t)
        up = np.where(h < FAR, np.log1p(t * np.expm1(np.minimum(h, FAR))), np.logaddexp(rest, own + h))
        moved = t * np.expm1(-h)
        # If a model is alone, 1 - t is 0, and nothing but t e^-h is left.
        return up, np.where(moved > -0.5, np.log1p(moved), np.logaddexp(rest, own - h))


@shared(64)
def _rho(mixture: EnsembleMixture) -> float:
    pure = mixture.approx_dp(0.0)
    spend(100.0 * mixture.shards)
    return min(Pure(pure).zcdp(), max(least_rho(loss.cgf, pure) for loss in mixture.losses()))


@shared(64)
def _losses(shards: int, rate: float, radius: float, replaces: bool, apart: bool = False) -> tuple[AtomicLoss, ...]:
    log_weight, t, h = _sampled(shards, rate, radius, apart)
    up, down = _ratios(t, h)
    log_w = -np.logaddexp(0.0, h)
    if replaces:
        below = np.where(np.arange(shards) == 0, down, 0.0)
        spread = (up - below) * (1.0 + ROUNDED)
        return (_loss(log_weight + log_w + below, spread, log_weight + log_w + up, -spread),)
    high, low = log_weight + log_w, log_weight - np.logaddexp(0.0, -h)
    return _loss(high, up, low, down), _loss(high + up, -up, low + down, -down)


def _loss(log_high: Array, high: Array, log_low: Array, low: Array) -> AtomicLoss:
    """Outcomes of the masses and ratios given, all in logarithms; only those of no mass at all are left out."""
    mass, ratio = np.concatenate((log_high, log_low)), np.concatenate((high, low))
    with np.errstate(invalid="ignore"):
        mass = np.where((mass < -FEW) & (mass > -np.inf), mass * (1.0 - LOST), mass)  # by the same under P and Q
    if np.isnan(mass).any() or not np.isfinite(ratio[mass > -np.inf]).all():
        raise NotRepresentable(BEYOND_WORDS)
    possible = mass > -np.inf
    return AtomicLoss(tuple(mass[possible].tolist()), tuple(ratio[possible].tolist()))


def _log_weights(n: int, rate: float) -> Array:
    """log P(Binomial(n, rate) = m), m = 0 .. n, from above by what their factorials lose: by the same under P and Q."""
    m = np.arange(n + 1.0)
    if rate == 1.0:
        return np.where(m == n, 0.0, -np.inf)
    counts = log_factorials(n)
    lost = 4e-16 * (n + 1.0) + 1e-15 * counts[n]
    return np.asarray(counts[n] - counts - counts[::-1] + m * math.log(rate) + (n - m) * math.log1p(-rate) + lost)


def _epsilon(loss: AtomicLoss, delta: float) -> float:
    """The least epsilon >= 0 at which P(S) - e^epsilon Q(S) <= delta for every set S."""
    ratio, log_q = np.array(loss.log_ratio), np.array(loss.log_reference)
    order = np.argsort(-ratio, kind="stable")
    ratio, log_q = ratio[order], log_q[order]
    if delta == 0.0:
        return max(math.ulp(0.0), float(ratio[0]))
    p, log_below = np.cumsum(np.exp(log_q + ratio)) * (1.0 + ROUNDED), np.logaddexp.accumulate(log_q)
    left = p - delta
    if not np.any(left > 0.0):
        return 0.0
    return max(0.0, float(np.max(np.log(left[left > 0.0]) - log_below[left > 0.0])))


@dataclass(frozen=True, slots=True, kw_only=True)
class EnsembleMixtureSpec(Spec):
    """A token, drawn from the average over a random subset of models of their next-token probabilities, each first projected so that
    its logarithms are within `radius` of those of a public model; the public model alone if the subset is empty.

    The models are fine-tuned without noise on `shards` disjoint shards of the private data, all records of a unit of privacy in one
    shard; each is in the subset with probability `model_rate`, independently and afresh for each token. A step is one token. The radius is
    public and the same whatever the subset. Nothing else reads the models: no greedy choice, no top-k or top-p after the average.

    Neighbours: change says what one change does: it retrains the model of one shard (replace-shard, which a record or unit does that
    comes, goes or changes; all three adjacencies alike), or a whole shard with its model comes or goes (remove-shard: the unit of privacy
    is a shard; under add-remove alone: a shard that is replaced or blanked leaves a model in its place, and costs what replace-shard
    does; shards then counts the one that comes or goes). k units that change together may lie in as many shards.

    Bounds: upper, by a dominating pair of finitely many outcomes. Finite at delta = 0.

    Source: the protocol is that of Flemings, Razaviyayn, Annavaram 2024, arXiv:2403.15638, with a bound on every order in place of one
    (its Theorem 5.1 needs more than it assumes); the pair: convexity, as derived in this module.
    """

    example: ClassVar[Mapping[str, Any]] = {"shards": 4, "model_rate": 0.5, "radius": 0.1}
    evidence: ClassVar[int] = 2
    premises: ClassVar[Premises] = (
        SECRET,
        moves("One change retrains one model; the public model and the radius depend on no record.", "pmixed"),
        DRAWN,
    )

    shards: Annotated[int, Key("disjoint shards of the private data, and models fine-tuned on them", SHARDS, claim=True)]
    radius: Annotated[
        float,
        Key("most by which a model's log-probability of any token may differ from the public model's, after projection", POSITIVE),
    ]
    model_rate: Annotated[float, Key("probability with which each model takes part in a token", RATE)] = 1.0
    change: Annotated[
        Literal["replace-shard", "remove-shard"],
        Key("what one change of the data does: it retrains one shard's model, or a whole shard comes or goes", claim=True),
    ] = "replace-shard"

    @property
    def unsampled(self) -> str:
        return "whose model_rate says how its models are sampled"

    def resolve(self, neighbours: Neighbours) -> Mechanism:
        # A shard that takes another's place, or is blanked, still has a model.
        replaces = self.change == "replace-shard" or neighbours.adjacency is not Adjacency.ADD_REMOVE
        group = neighbours.group
        if replaces or group == 1:
            return grouped(EnsembleMixture(self.shards, self.model_rate, self.radius, replaces), group)
        # Several shards go one after the other, the last of them from so many.
        fewest = max(self.shards - group + 1, 1)
        return grouped(EnsembleMixture(fewest, self.model_rate, self.radius, False, apart=True), group)
