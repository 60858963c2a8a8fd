"""Distributions of the number of trials of a private selection, and the cost of a selection with each of them.

A selection (repeat_and_select.py) runs one mechanism a random number of times K, and releases only the best output. `TrialsTable` has the
keys that state the distribution of K in a pipeline file. A `Trials` is one such distribution: it gives the pure epsilon and the Renyi
divergences of the selection, from those of one run, and the numbers that selection_profile.py needs (`TrialCounts`). One run is `inner`.

Let f be the probability generating function of K, and Q the law of one output. The density of the best of K outputs at y is
Q(y) E[f'(X)], where X is uniform between Q(< y) and Q(<= y). Since u^a v^{1-a} is jointly convex, and K = 0 releases nothing,

    e^{(a-1) D'_a} <= f(0) + e^{(a-1) D_a} sup f'(q)^a f'(q')^{1-a}

for the Renyi divergences D_a of one run and D'_a of the selection. The supremum runs over the pairs (q, q') of probabilities that one event
can have under one run on neighbouring data (Papernot & Steinke 2022, arXiv:2110.03620, Lemma 7). The proof for a binomial number is in the
docstring of `BinomialTrials.rdp`.

Every bound is multiplied by 1 + slack, with a slack above the accumulated rounding of its formula: a few units of 2.2e-16 per operation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Annotated, Literal, Protocol

from dpcli.base.fields import AT_LEAST_TWO, Constraint, Key
from dpcli.base.values import dataclass
from dpcli.mechanisms.choice.selection_profile import TrialCounts
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.sampling.poisson import pure_epsilon
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.closed.conversion import balle_delta
from dpcli.numerics.logspace import log_expm1_array
from dpcli.numerics.orders import SHORT, least_over_orders
from dpcli.numerics.roots import bracket_root
from dpcli.numerics.work import shared  # a cache

MEAN = Constraint("a number in (0, 10^18]", lambda x: 0 < x <= 10**18, (("exclusiveMinimum", 0), ("maximum", 10**18)))
GAMMA = Constraint("a number in [1e-300, 1)", lambda x: 1e-300 <= x < 1, (("minimum", 1e-300), ("exclusiveMaximum", 1)))
ETA = Constraint("a number in (-1, 10^6]", lambda x: -1 < x <= 10**6, (("exclusiveMinimum", -1), ("maximum", 10**6)))
LARGEST_SHARE = 0.999  # largest mean of a binomial distribution, as a share of its largest number; at 1 the formulas take log 0
LOG_SMALLEST_GAMMA = -700.0  # logarithm of the smallest gamma that a stated mean may ask for; (1 - gamma) / gamma is finite there
# Soundness: relative slacks that cover rounding; a unit in the last place is 2.2e-16.
MEAN_SLACK = 1e-12  # a computed mean may be too large by this relative error
SERIES_SLACK = 4e-15  # raises the mean near eta = 0: the series drops terms below 2e-19, and about ten operations round
MEAN_FORMULA_SLACK = 2e-15  # raises the mean at other eta, which takes about eight operations
EXPONENT_SLACK = 4e-16  # raises it too, times its exponent, whose absolute error is a relative error of the result
PURE_SLACK = 1e-14  # raises a pure epsilon, which takes about twenty operations
BINOMIAL_SLACK = 1e-13  # raises the pure epsilon and the moment's exponent, which take about twenty operations
TANH_SLACK = 1e-15  # raises a pure epsilon by tanh, which takes four operations
MOMENT_SLACK = 1e-12  # raises a Renyi divergence, which takes several logarithms and exponentials


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialsTable:
    """The distribution of the number of trials. Either its mean or gamma, its halting probability, is stated.

    The binomial distribution has the largest number of trials as well, and the truncated negative binomial distribution the shape eta.
    """

    distribution: Annotated[
        Literal["poisson", "binomial", "geometric", "logarithmic", "truncated-negative-binomial"],
        Key("distribution of the number of trials"),
    ]
    mean: Annotated[float | None, Key("expected number of trials", MEAN)] = None
    gamma: Annotated[float | None, Key("halting probability, instead of mean; not for poisson or binomial", GAMMA)] = None
    most: Annotated[int | None, Key("largest number of trials, for binomial", AT_LEAST_TWO)] = None
    eta: Annotated[float | None, Key("shape of the truncated negative binomial: 1 is geometric, 0 logarithmic", ETA)] = None

    def problems(self) -> Iterator[tuple[str, str, str]]:
        """Yield each inconsistency of the keys, as (key, expected, found)."""
        stated = [name for name in ("mean", "gamma") if getattr(self, name) is not None]
        if len(stated) != 1:
            yield "trials", "either mean or gamma", " and ".join(stated) or "neither"
        may_be_none = self.distribution in {"poisson", "binomial"}
        if may_be_none and self.gamma is not None:
            yield "trials", f"mean, for {self.distribution}", "gamma"
        if (self.distribution == "binomial") != (self.most is not None):
            expected = "most, the largest number of trials" if self.most is None else "no most, which only binomial has"
            yield "trials", expected, "nothing" if self.most is None else repr(self.most)
        elif self.most is not None and self.mean is not None and not self.mean <= LARGEST_SHARE * self.most:
            yield "trials", f"a mean of at most {LARGEST_SHARE} times most, so that the number of trials is random", repr(self.mean)
        if not may_be_none and self.mean is not None and self.mean <= 1.0:
            yield "trials", "a mean > 1, since there is always one trial", repr(self.mean)
        if (self.distribution == "truncated-negative-binomial") != (self.eta is not None):
            expected = "eta, the shape" if self.eta is None else "no eta, which this distribution does not have"
            yield "trials", expected, "nothing" if self.eta is None else repr(self.eta)
        elif not may_be_none and self.mean is not None:
            largest_mean = _largest_mean(self.eta)
            if not self.mean <= largest_mean:
                yield "trials", f"a mean that some gamma in [1e-300, 1) has, up to {largest_mean:.6g} for this eta", repr(self.mean)

    def distributed(self) -> Trials:
        """Return the distribution that the keys state."""
        return _DISTRIBUTIONS[self.distribution](self)


class Trials(TrialCounts, Protocol):
    """A distribution of the number of trials."""

    def pure(self, epsilon: float) -> float:
        """Return the pure epsilon of the selection if one run has pure epsilon `epsilon`; an upper bound."""
        ...

    def rdp(self, inner: Mechanism, orders: Array) -> Array:
        """Return upper bounds on the Renyi divergences of the selection."""
        ...


@dataclass(frozen=True, slots=True)
class NegativeBinomial:
    """The truncated negative binomial distribution on K >= 1; it is geometric at eta = 1 and logarithmic at eta = 0.

    f'(x) = E[K] (gamma / (1 - (1-gamma) x))^{eta+1}.
    """

    eta: float
    gamma: float

    @property
    def mean(self) -> float:
        """Return an upper bound on E[K] (Papernot & Steinke 2022, Definition 1). It is less tight if eta log gamma is large."""
        log_gamma, odds = math.log(self.gamma), self._odds
        exponent = self.eta * log_gamma
        if abs(exponent) < 1e-9:  # the first terms of a series, because the formula below is 0 / 0 at eta = 0
            return odds / -log_gamma * (1.0 - 0.5 * exponent) * (1.0 + SERIES_SLACK)
        slack = MEAN_FORMULA_SLACK + EXPONENT_SLACK * max(exponent, 0.0)
        return self.eta * odds / -math.expm1(exponent) * (1.0 + slack)

    def pure(self, epsilon: float) -> float:
        """Return the pure epsilon of the selection: epsilon + (1+eta) log((e^eps + gamma) / (1 + gamma e^eps)).

        It is below (2+eta) eps, the bound of the paper's Corollary 3, and tends to that bound as gamma falls. The largest ratio of f'(q)
        to f'(q') is at the corner of what pure DP allows, 1-q = 1/(1+e^eps) and 1-q' = e^eps/(1+e^eps). The logarithm is computed as
        log(1 + (1-gamma)(1-e^-eps) / (e^-eps + gamma)), whose terms are all positive, so that a small epsilon keeps its digits.
        """
        growth = (1.0 - self.gamma) * -math.expm1(-epsilon) / (math.exp(-epsilon) + self.gamma)
        return (epsilon + (1.0 + self.eta) * math.log1p(growth)) * (1.0 + PURE_SLACK)

    def depth(self, w: Array) -> Array:
        return np.asarray((1.0 + self.eta) * np.log1p(self._odds * w))

    def depth_slope(self, w: Array) -> Array:
        return (1.0 + self.eta) * self._odds / (1.0 + self._odds * w)

    def at_depth(self, depth: Array) -> Array:
        with np.errstate(over="ignore"):
            return np.asarray(np.expm1(depth / (1.0 + self.eta)) / self._odds)

    def next_ratio(self, k: Array) -> Array:
        return (1.0 - self.gamma) * (1.0 + (self.eta - 1.0) / (k + 1.0))

    @property
    def _odds(self) -> float:
        """The odds of another trial, (1-gamma) / gamma."""
        return (1.0 - self.gamma) / self.gamma

    def rdp(self, inner: Mechanism, orders: Array) -> Array:
        """Return D_a + (1+eta) c + log E[K] / (a-1), where c is the minimum over b > 1 of (1-1/b) D_b + log(1/gamma)/b.

        Source: Papernot & Steinke 2022, Theorem 2.
        """
        return (
            cached_rdp(inner, orders)
            + (1.0 + self.eta) * _cost_at_best_order(inner, self.gamma)
            + math.log(self.mean) / (orders - 1.0)
        )


@dataclass(frozen=True, slots=True)
class PoissonTrials:
    """The Poisson distribution, K = 0 included: f'(x) = mean e^{mean (x-1)}."""

    mean: float

    def pure(self, epsilon: float) -> float:
        """Return the pure epsilon of the selection: epsilon + mean tanh(eps/2).

        log f'(q) - log f'(q') = mean (q - q'), and pure DP allows q - q' up to tanh(eps/2).
        """
        return (epsilon + self.mean * math.tanh(0.5 * epsilon)) * (1.0 + TANH_SLACK)

    def depth(self, w: Array) -> Array:
        return self.mean * w

    def depth_slope(self, w: Array) -> Array:
        return np.full_like(w, self.mean)

    def at_depth(self, depth: Array) -> Array:
        return depth / self.mean

    def next_ratio(self, k: Array) -> Array:
        return self.mean / (k + 1.0)

    def rdp(self, inner: Mechanism, orders: Array) -> Array:
        """Return the bound of Papernot & Steinke 2022, Theorem 6, with K = 0 included.

        If a run is (log(a/(a-1)), d)-DP, then a q - (a-1) q' <= 1 + (a-1) d.
        """
        deltas = np.array([_delta_of_run(inner, math.log1p(1.0 / (order - 1.0))) for order in orders.tolist()])
        # e^-mean - 1 + mean is positive, and at most mean^2 / 2, which is used where the sum would lose digits.
        no_run = 0.5 * self.mean**2 if self.mean < 1e-3 else math.expm1(-self.mean) + self.mean
        return _with_no_run((orders - 1.0) * (cached_rdp(inner, orders) + self.mean * deltas), self.mean, no_run, orders)


@dataclass(frozen=True, slots=True)
class BinomialTrials:
    """The binomial distribution, K = 0 included: f'(x) = mean (1 - p + p x)^{most - 1} with p = mean / most."""

    most: int
    mean: float

    def pure(self, epsilon: float) -> float:
        """Return the pure epsilon of the selection: epsilon + (most-1) log((1 - p + p c) / (1 - p + p (1-c))) with c = 1/(1+e^-eps).

        (1 - p + p q) / (1 - p + p q') is a ratio of linear functions, and so largest at a corner of what pure DP allows: at q = c and
        q' = 1 - c. Their difference is tanh(eps/2), and all other terms are positive.
        """
        growth = (
            self._share * math.tanh(0.5 * epsilon) / (self._rest + self._share * math.exp(-epsilon) / (1.0 + math.exp(-epsilon)))
        )
        return (epsilon + (self.most - 1.0) * math.log1p(growth)) * (1.0 + BINOMIAL_SLACK)

    def depth(self, w: Array) -> Array:
        return np.asarray((1.0 - self.most) * np.log1p(-self._share * w))

    def depth_slope(self, w: Array) -> Array:
        return (self.most - 1.0) * self._share / (1.0 - self._share * w)

    def at_depth(self, depth: Array) -> Array:
        return np.asarray(-np.expm1(depth / (1.0 - self.most)) / self._share)

    def next_ratio(self, k: Array) -> Array:
        return self._share / self._rest * ((self.most + 1.0) / (k + 1.0) - 1.0)

    @property
    def _share(self) -> float:
        """p, the probability of each of the trials."""
        return self.mean / self.most

    @property
    def _rest(self) -> float:
        return (self.most - self.mean) / self.most  # 1 - p

    def rdp(self, inner: Mechanism, orders: Array) -> Array:
        """Return the smaller of the bound for `most` runs, of which the selection is a function, and the one below.

        Let w = 1 - q and z = 1 - q' be the chances of an event, and let a run be (log k, d)-DP, so that z <= k w + d and z <= 1. Then

            log(f'(q)^a f'(q')^{1-a} / mean) = (most-1) (a log(1 - p w) - (a-1) log(1 - p z))

        increases with z. At z = k w + d its derivative in w has the sign of (a-1) k - a (1 - p d) + p k w, which changes once, from minus
        to plus. At z = 1 it falls with w. So it is largest at w = 0, or where k w + d = 1:

            (most-1) max(-(a-1) log(1 - p d), a log(1 - p (1-d) / k) - (a-1) log(1-p)).

        k is chosen such that the second one is 0 if d = 0: p / k = 1 - (1-p)^{1-1/a}. Then it is a log(1 + d (p/k) / (1 - p/k)). As most
        grows, this becomes the bound for a Poisson number.
        """
        p, z, log_rest = self._share, orders - 1.0, math.log1p(-self._share)
        reduced = -np.expm1(log_rest * z / orders)  # p / k
        deltas = np.array([_delta_of_run(inner, math.log(max(p / share, 1.0))) for share in reduced.tolist()])
        first, second = -z * np.log1p(-p * deltas), orders * (np.log1p(deltas * reduced / (1.0 - reduced)))
        exponent = (self.most - 1.0) * np.maximum(first, second) * (1.0 + BINOMIAL_SLACK)
        # (1-p)^most - 1 + mean is positive, and at most mean^2 / 2.
        no_run = 0.5 * self.mean**2 if self.mean < 1e-3 else math.expm1(self.most * log_rest) + self.mean
        divergence = cached_rdp(inner, orders)
        return np.minimum(_with_no_run(z * divergence + exponent, self.mean, no_run, orders), self.most * divergence)


def _with_no_run(exponent: Array, mean: float, no_run: float, orders: Array) -> Array:
    """Return log(P(K = 0) + mean e^exponent) / (orders - 1).

    no_run: P(K = 0) - 1 + mean. The sum is computed as 1 + no_run + mean (e^exponent - 1), whose terms are all positive, so that a small
        mean keeps its digits.
    """
    log_growth = math.log(mean) + log_expm1_array(exponent)  # above 700, where e^log_growth may overflow, logarithms are added
    with np.errstate(over="ignore"):
        moderate = np.log1p(no_run + np.exp(np.minimum(log_growth, 700.0)))
    log_moment = np.where(log_growth < 700.0, moderate, np.logaddexp(math.log1p(no_run), log_growth))
    return np.asarray(log_moment / (orders - 1.0) * (1.0 + MOMENT_SLACK))


@shared(16)
def _divergence_cache(mechanism: Mechanism) -> dict[float, float]:
    """Return the cache of a mechanism's Renyi divergences by order, because nested searches evaluate the same orders again."""
    return {}


def cached_rdp(mechanism: Mechanism, orders: Array) -> Array:
    """Return the Renyi divergences of a mechanism, from the cache if they are known."""
    cache = _divergence_cache(mechanism)
    missing_orders = np.array([order for order in orders.tolist() if order not in cache])
    if len(missing_orders):
        cache.update(zip(missing_orders.tolist(), mechanism.rdp(missing_orders).tolist(), strict=True))
    return np.array([cache[order] for order in orders.tolist()])


@shared(64)
def _cost_at_best_order(inner: Mechanism, gamma: float) -> float:
    """Return c of `NegativeBinomial.rdp`, the smallest value of (1 - 1/b) D_b + log(1/gamma) / b that a search over b > 1 finds.

    Every b gives a sound bound, so the search need not find the minimum. The limit at infinity is the pure epsilon.
    """
    _, value = least_over_orders(lambda z: z / (1.0 + z) * cached_rdp(inner, 1.0 + z) - math.log(gamma) / (1.0 + z), grain=SHORT)
    return min(value, pure_epsilon(inner))


@shared(4096)
def _delta_of_run(inner: Mechanism, epsilon: float) -> float:
    """Return a delta at which one run is (epsilon, delta)-DP, from its Renyi curve; 0 if its pure epsilon is no larger."""
    epsilon *= 1.0 - 1e-14  # the callers compute epsilon as a logarithm, which may be rounded up
    if pure_epsilon(inner) <= epsilon:
        return 0.0
    _, log_delta = least_over_orders(lambda z: balle_delta(1.0 + z, cached_rdp(inner, 1.0 + z), epsilon), grain=SHORT)
    return math.exp(min(log_delta, 0.0))


def _largest_mean(eta: float | None) -> float:
    """Return the largest mean that gamma certainly reaches. As eta falls to -1, the mean hardly grows even if gamma becomes tiny."""
    return NegativeBinomial(0.0 if eta is None else eta, math.exp(LOG_SMALLEST_GAMMA)).mean * (1.0 - 2.0 * MEAN_SLACK)


def _negative_binomial(eta: float | None, table: TrialsTable) -> Trials:
    """Return the distribution with the stated gamma or the stated mean. For a mean, gamma is rounded down, which means more trials."""
    shape = 0.0 if eta is None else eta
    if table.gamma is not None:
        return NegativeBinomial(shape, table.gamma)
    mean = (table.mean or 1.0) * (1.0 + MEAN_SLACK)

    def excess(log_gamma: float) -> float:
        return NegativeBinomial(shape, math.exp(log_gamma)).mean - mean

    log_gamma, _ = bracket_root(excess, LOG_SMALLEST_GAMMA, -1e-12, rtol=1e-12)  # up to a gamma just below 1
    return NegativeBinomial(shape, math.exp(log_gamma))


# The values after `or` are for the type checker alone: `problems` refuses tables without these keys.
_DISTRIBUTIONS: dict[str, Callable[[TrialsTable], Trials]] = {
    "poisson": lambda table: PoissonTrials(table.mean or 1.0),
    "binomial": lambda table: BinomialTrials(table.most or 2, table.mean or 1.0),
    "geometric": lambda table: _negative_binomial(1.0, table),
    "logarithmic": lambda table: _negative_binomial(0.0, table),
    "truncated-negative-binomial": lambda table: _negative_binomial(table.eta, table),
}
