"""Private selection: a mechanism runs a random number of times and only the best output is released (hyperparameter tuning).

With f the probability generating function of the number K of trials, the best of K outputs has at y the density
Q(y) E[f'(X)], X uniform between Q(< y) and Q(<= y). u^a v^{1-a} is jointly convex, so, with K = 0 showing nothing,

    e^{(a-1) D'_a} <= f(0) + e^{(a-1) D_a} sup f'(q)^a f'(q')^{1-a},

the supremum over the probabilities (q, q') that one event can have under one run on neighbouring data (Papernot & Steinke 2022,
arXiv:2110.03620, Lemma 7).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Annotated, Any, ClassVar, Literal, Protocol

from dpcli.base.errors import NotRepresentable
from dpcli.base.fields import Constraint, Key
from dpcli.base.premise import SECRET, Premises, moves, of_mechanism
from dpcli.base.values import dataclass
from dpcli.mechanisms.choice.selection_profile import SelectionLoss, TrialCounts, own_run, rough_run
from dpcli.mechanisms.mechanism import Mechanism, PrivacyLoss
from dpcli.mechanisms.neighbours import Neighbours
from dpcli.mechanisms.sampling.poisson import finite_loss
from dpcli.mechanisms.spec import Spec
from dpcli.mechanisms.stated.pure_and_approx import Pure
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.closed.conversion import balle, balle_delta
from dpcli.numerics.grid.hockey_stick import FURTHEST
from dpcli.numerics.logspace import log_expm1_array
from dpcli.numerics.orders import SHORT, least_over_orders
from dpcli.numerics.roots import bracket_root
from dpcli.numerics.work import shared

MEAN = Constraint("a number in (0, 10^18]", lambda x: 0 < x <= 10**18, (("exclusiveMinimum", 0), ("maximum", 10**18)))
GAMMA = Constraint("a number in [1e-300, 1)", lambda x: 1e-300 <= x < 1, (("minimum", 1e-300), ("exclusiveMaximum", 1)))
ETA = Constraint("a number in (-1, 10^6]", lambda x: -1 < x <= 10**6, (("exclusiveMinimum", -1), ("maximum", 10**6)))
LOG_LEAST = -700.0  # logarithm of the smallest gamma that a stated mean may ask for
ROUNDED = 1e-12  # relative, by which a mean may be computed as too large
LADDER = 7  # larger orders, each twice as far above 1, that may bound a smaller one


class Trials(TrialCounts, Protocol):
    """A distribution of the number of trials."""

    def pure(self, epsilon: float) -> float: ...

    def rdp(self, inner: Mechanism, orders: Array) -> Array:
        """Renyi divergence of the selection; an upper bound."""
        ...


@dataclass(frozen=True, slots=True)
class NegativeBinomial:
    """K >= 1, truncated negative binomial: f'(x) = E[K] (gamma / (1 - (1-gamma) x))^{eta+1}; eta = 1 geometric, 0 logarithmic."""

    eta: float
    gamma: float

    @property
    def mean(self) -> float:
        """E[K] from above: Papernot & Steinke 2022, Definition 1. An exponent loses as many digits as it is large."""
        log_gamma, odds = math.log(self.gamma), (1.0 - self.gamma) / self.gamma
        exponent = self.eta * log_gamma
        if abs(exponent) < 1e-9:
            return odds / -log_gamma * (1.0 - 0.5 * exponent) * (1.0 + 4e-15)
        return self.eta * odds / -math.expm1(exponent) * (1.0 + 2e-15 + 4e-16 * max(exponent, 0.0))

    def pure(self, epsilon: float) -> float:
        """epsilon + (1+eta) log((e^eps + gamma) / (1 + gamma e^eps)): below (2+eta) eps of the paper's Corollary 3, its limit.

        The largest ratio of f'(q) to f'(q') is at 1-q = 1/(1+e^eps), 1-q' = e^eps/(1+e^eps), the corner of what pure DP allows. The
        logarithm is log(1 + (1-gamma)(1-e^-eps) / (e^-eps + gamma)): all terms positive, so that a small epsilon keeps its digits.
        """
        more = (1.0 - self.gamma) * -math.expm1(-epsilon) / (math.exp(-epsilon) + self.gamma)
        return (epsilon + (1.0 + self.eta) * math.log1p(more)) * (1.0 + 1e-14)

    def log_growth(self, epsilons: Array, deltas: Array) -> float:
        """The least over the epsilons of (1+eta) log of the largest (gamma + (1-gamma) v) / (gamma + (1-gamma) u).

        u = 1-q, v = 1-q' <= min(1, e^eps u + delta). Below where that is 1 the quotient is monotone in u, beyond it falls: it is largest
        at u = 0 or at u = (1-delta) e^-eps.
        """
        none = np.log1p((1.0 - self.gamma) / self.gamma * deltas)
        all_but = -np.log(self.gamma + (1.0 - self.gamma) * (1.0 - deltas) * np.exp(-epsilons))
        return (1.0 + self.eta) * float(np.maximum(none, all_but).min())

    def rdp(self, inner: Mechanism, orders: Array) -> Array:
        """Papernot & Steinke 2022, Theorem 2: D_a + (1+eta) c + log E[K] / (a-1), c the least over b of (1-1/b) D_b + log(1/gamma)/b."""
        return _rdp(inner, orders) + (1.0 + self.eta) * _second_order(inner, self.gamma) + math.log(self.mean) / (orders - 1.0)


@dataclass(frozen=True, slots=True)
class PoissonTrials:
    """K ~ Poisson(mean), K = 0 included: f'(x) = mean e^{mean (x-1)}."""

    mean: float

    def pure(self, epsilon: float) -> float:
        """epsilon + mean tanh(eps/2): log f'(q) - log f'(q') = mean (q - q'), and pure DP allows q - q' up to tanh(eps/2)."""
        return (epsilon + self.mean * math.tanh(0.5 * epsilon)) * (1.0 + 1e-15)

    def log_growth(self, epsilons: Array, deltas: Array) -> float:
        """mean (q - q'), at most the total variation distance, which is delta at 0."""
        return self.mean * float(deltas[0])

    def rdp(self, inner: Mechanism, orders: Array) -> Array:
        """Papernot & Steinke 2022, Theorem 6, with K = 0 counted: if a run is (log(a/(a-1)), d)-DP, a q - (a-1) q' <= 1 + (a-1) d.

        log(e^-m + m e^x) = log(1 + (e^-m - 1 + m) + m (e^x - 1)): all terms positive, so that a small mean keeps its digits.
        """
        deltas = np.array([_delta(inner, float(order)) for order in orders])
        x = (orders - 1.0) * (_rdp(inner, orders) + self.mean * deltas)
        none = 0.5 * self.mean**2 if self.mean < 1e-3 else math.expm1(-self.mean) + self.mean
        growth = math.log(self.mean) + log_expm1_array(x)
        with np.errstate(over="ignore"):
            near = np.log1p(none + np.exp(np.minimum(growth, 700.0)))
        log_moment = np.where(growth < 700.0, near, np.logaddexp(math.log1p(none), growth))
        return np.asarray(log_moment / (orders - 1.0) * (1.0 + 1e-12))


@shared(16)
def _known(inner: Mechanism) -> dict[float, float]:
    """Return the known values of one run's Renyi curve: searches over two orders come back to the same ones."""
    return {}


def _rdp(inner: Mechanism, orders: Array) -> Array:
    """The Renyi curve of one run, remembered."""
    known = _known(inner)
    missing_orders = np.array([order for order in orders.tolist() if order not in known])
    if len(missing_orders):
        known.update(zip(missing_orders.tolist(), inner.rdp(missing_orders).tolist(), strict=True))
    return np.array([known[order] for order in orders.tolist()])


@shared(64)
def _second_order(inner: Mechanism, gamma: float) -> float:
    """The least found of (1 - 1/b) D_b + log(1/gamma) / b over b > 1: any b is sound; a pure epsilon is its limit at infinity."""
    value = least_over_orders(lambda x: x / (1.0 + x) * _rdp(inner, 1.0 + x) - math.log(gamma) / (1.0 + x), SHORT)[1]
    return min(value, finite_loss(inner))


@shared(4096)
def _delta(inner: Mechanism, order: float) -> float:
    """A delta at which one run is (log(a/(a-1)), delta)-DP, from its Renyi curve; 0 if its pure epsilon is no larger."""
    epsilon = math.log1p(1.0 / (order - 1.0)) * (1.0 - 1e-14)
    if finite_loss(inner) <= epsilon:
        return 0.0
    return math.exp(min(least_over_orders(lambda x: balle_delta(1.0 + x, _rdp(inner, 1.0 + x), epsilon), SHORT)[1], 0.0))


@dataclass(frozen=True, slots=True)
class RepeatAndSelect(Mechanism):
    """`inner` runs a secret number of times, drawn from `trials`, and the best output alone is released."""

    inner: Mechanism
    trials: Trials

    def pure(self) -> float:
        epsilon = finite_loss(self.inner)
        return self.trials.pure(epsilon) if epsilon < math.inf else math.inf

    def approx_dp(self, delta: float) -> float:
        """The smallest of the pure epsilon, the conversion of the Renyi curve, and what the privacy profile of one run gives."""
        pure = self.pure()
        if delta <= 0.0:
            return pure
        best = Pure(pure).approx_dp(delta) if pure < math.inf else math.inf
        with suppress(NotRepresentable):
            best = min(best, least_over_orders(lambda x: balle(1.0 + x, _rdp(self, 1.0 + x), math.log(delta)), SHORT)[1])
        with suppress(NotRepresentable):
            best = min(best, SelectionLoss(rough_run(self.inner), self.trials, self, pure).epsilon(math.log(delta)))
        if math.isinf(best):
            raise NotRepresentable("selection needs a run whose delta falls far enough, or whose pure or Renyi guarantee is known")
        return best

    def zcdp(self) -> float:
        pure = self.pure()
        if math.isinf(pure):
            raise NotRepresentable("the selection among random trials has no rho: its Renyi curve is not 0 at order 1")
        return Pure(pure).zcdp()

    def losses(self) -> tuple[PrivacyLoss, ...]:
        pure = self.pure()
        if FURTHEST < pure < math.inf:
            return Pure(pure).losses()
        return (SelectionLoss(own_run(self.inner), self.trials, self, pure),)

    def rdp(self, orders: Array) -> Array:
        """The least of the theorem's at this order and at LADDER larger ones (D_a increases with a), and the pure epsilon's."""
        pure = self.pure()
        bound = np.full_like(orders, np.inf) if math.isinf(pure) else Pure(pure).rdp(orders)
        for rung in range(LADDER):
            bound = np.fmin(bound, self.trials.rdp(self.inner, 1.0 + (orders - 1.0) * 2.0**rung))
        return np.asarray(bound)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialsTable:
    """The number of trials: mean and, for the truncated negative binomial, eta; gamma, its halting rate, may be stated instead."""

    distribution: Annotated[
        Literal["poisson", "geometric", "logarithmic", "truncated-negative-binomial"], Key("distribution of the number of trials")
    ]
    mean: Annotated[float | None, Key("expected number of trials", MEAN)] = None
    gamma: Annotated[float | None, Key("halting probability, instead of mean; not for poisson", GAMMA)] = None
    eta: Annotated[float | None, Key("shape of the truncated negative binomial: 1 is geometric, 0 logarithmic", ETA)] = None

    def problems(self) -> Iterator[tuple[str, str, str]]:
        """Yield what is inconsistent among the keys, as (key, expected, found)."""
        stated = [name for name in ("mean", "gamma") if getattr(self, name) is not None]
        if len(stated) != 1:
            yield "trials", "either mean or gamma", " and ".join(stated) or "neither"
        if self.distribution == "poisson" and self.gamma is not None:
            yield "trials", "mean, for poisson", "gamma"
        if self.distribution != "poisson" and self.mean is not None and self.mean <= 1.0:
            yield "trials", "a mean > 1, since there is always one trial", repr(self.mean)
        if (self.distribution == "truncated-negative-binomial") != (self.eta is not None):
            expected = "eta, the shape" if self.eta is None else "no eta, which this distribution does not have"
            yield "trials", expected, "nothing" if self.eta is None else repr(self.eta)
        elif self.distribution != "poisson" and self.mean is not None and not self.mean <= (most := _largest_mean(self.eta)):
            yield "trials", f"a mean that some gamma in [1e-300, 1) has, up to {most:.6g} for this eta", repr(self.mean)

    def distributed(self) -> Trials:
        return _DISTRIBUTIONS[self.distribution](self)


def _largest_mean(eta: float | None) -> float:
    """A mean that is reached for certain: as eta falls to -1, the mean hardly grows however small gamma is."""
    return NegativeBinomial(0.0 if eta is None else eta, math.exp(LOG_LEAST)).mean * (1.0 - 2.0 * ROUNDED)


def _negative_binomial(eta: float | None, table: TrialsTable) -> Trials:
    """gamma, or the one of that mean, rounded down: more trials, never fewer."""
    shape = 0.0 if eta is None else eta
    if table.gamma is not None:
        return NegativeBinomial(shape, table.gamma)
    mean = (table.mean or 1.0) * (1.0 + ROUNDED)
    log_gamma = bracket_root(lambda x: NegativeBinomial(shape, math.exp(x)).mean - mean, LOG_LEAST, -1e-12, rtol=1e-12)[0]
    return NegativeBinomial(shape, math.exp(log_gamma))


_DISTRIBUTIONS: dict[str, Callable[[TrialsTable], Trials]] = {
    "poisson": lambda table: PoissonTrials(table.mean or 1.0),
    "geometric": lambda table: _negative_binomial(1.0, table),
    "logarithmic": lambda table: _negative_binomial(0.0, table),
    "truncated-negative-binomial": lambda table: _negative_binomial(table.eta, table),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatAndSelectSpec(Spec):
    """Tuning: another entry of the file runs a random number of times, and the best result alone leaves; it is charged here.

    The number of trials is drawn afresh and stays secret, and nothing of the other trials is released. Each trial may draw its
    hyperparameters at random, but from a distribution that does not depend on the data. Which result is better is fixed beforehand, and
    looks at nothing private but what the trial's entry prices: a score on private data is one more release of each trial. With Poisson
    trials there may be none, and then nothing is released.

    Neighbours: those of the entry that runs.

    Bounds: upper, on pure epsilon if a run has one, on its privacy profile and Renyi divergences; no lower bound is claimed.
    delta = 0 is answered if a run is pure.

    Source: Papernot & Steinke 2022, arXiv:2110.03620, Theorems 2 and 6; Koskela, Redberg, Wang 2024, arXiv:2402.06701 (privacy profiles).
    """

    example: ClassVar[Mapping[str, Any]] = {"mechanism": "part", "trials": {"distribution": "geometric", "mean": 2}}
    evidence: ClassVar[int] = 2
    selects: ClassVar[bool] = True
    premises: ClassVar[Premises] = (
        SECRET,
        moves("A trial costs what its entry states."),
        of_mechanism(
            "How many trials there were, and what the others gave, stays secret.",
            "test_a_published_number_of_trials_costs_more",
            "sweep",
        ),
        of_mechanism(
            "The order of results is fixed beforehand, and the score by which they are compared is priced with the trial.",
            "test_an_order_that_is_chosen_by_the_data_costs_more",
            "sweep",
        ),
    )

    mechanism: Annotated[str, Key("name of the entry that one trial runs, with its own steps and sampling")]
    trials: Annotated[
        TrialsTable, Key("{ distribution = poisson | geometric | logarithmic | truncated-negative-binomial, mean or gamma, eta }")
    ]

    def problems(self) -> Iterator[tuple[str, str, str]]:
        yield from self.trials.problems()

    @property
    def whole_runs(self) -> bool:
        return True

    def part_path(self, position: int) -> tuple[str | int, ...]:
        return ("mechanism",)

    def bind(self, lookup: Callable[[str], tuple[Spec, int]]) -> Spec:
        return Tuned(*lookup(self.mechanism), self.trials.distributed())


@dataclass(frozen=True, slots=True)
class Tuned(Spec):
    """A tuning entry whose run has been looked up."""

    run: Spec
    count: int
    trials: Trials

    def resolve(self, neighbours: Neighbours) -> Mechanism:
        from dpcli.mechanisms.combined.composed import Composed

        mechanism = self.run.resolve(neighbours)
        return RepeatAndSelect(mechanism if self.count == 1 else Composed(((mechanism, self.count),)), self.trials)
