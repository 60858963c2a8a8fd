"""The published protocol of PMixED, for comparison: its radius, derived from a claimed epsilon, and its projection. No DP guarantee.

This is the mode "paper" of [pmixed] (`Paper` in model_ensemble.py), and none of its numbers is a cost. The protocol has no guarantee
because the published proof needs a bound at every order, and a bound at one order implies no bound at the others. For each token, the
protocol draws some of the models of the shards, and mixes each with a public model. The share of the model is the largest at which the
Renyi divergences of one order, in both directions, are within the *radius*, which is *beta* times the order. A *query* is the draw of one
token. The claimed epsilon leaves a Renyi divergence to each query (`Published.target`). Beta is the largest at which the published bound
for one query, with amplification by sampling, is at most this divergence.

Source: Flemings, Razaviyayn, Annavaram 2024, arXiv:2403.15638, Section 4, Algorithm 1, Theorems 4.1, 4.2 and 5.1; the conversion is Theorem
21 of Balle et al. 2020, arXiv:1905.09982.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from dpcli.base.errors import CannotCertify, InputError
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.logspace import log_factorials
from dpcli.numerics.roots import bracket_root, expand_until

FIRST_BETA, LARGEST_BETA = 1e-6, 1e300  # end of the first bracket of the search for beta, which is doubled until it is large enough
LARGEST_EXPONENT = 700.0  # largest twice the radius for the formula of order 3; e^709 is the largest power of e in float64
LARGEST_LOG1P = 30.0  # For larger terms the sum is far from 1, and its logarithm is accurate without log1p.


@dataclass(frozen=True, slots=True)
class Published:
    """The parameters of the protocol.

    Attributes:
        order: Renyi order, a whole number >= 2.
        rate: Probability with which each model is drawn.
        queries: Number of tokens that are drawn in all.
        epsilon, delta: Guarantee that is claimed for all queries together.
    """

    order: int
    rate: float
    queries: int
    epsilon: float
    delta: float

    @property
    def target(self) -> float:
        """Return the Renyi divergence that the protocol allots to one query. Raises CannotCertify if it is not above 0."""
        total = renyi_epsilon(self.epsilon, self.delta, self.order)
        if total <= 0.0:
            raise CannotCertify(
                f"at order {self.order} the conversion alone exceeds epsilon = {self.epsilon:g} at delta = {self.delta!r}"
            )
        return total / self.queries

    def radius(self, drawn: int) -> float:
        """Return the radius, which is beta times the order, for `drawn` participating models."""
        return largest_beta(self.target, self.order, self.rate, drawn) * self.order


def renyi_epsilon(epsilon: float, delta: float, order: float) -> float:
    """Return the Renyi divergence that implies (epsilon, delta) at one order, by inverting the conversion."""
    return epsilon - math.log1p(-1.0 / order) + (math.log(delta) + math.log(order)) / (order - 1.0)


def largest_beta(target: float, order: int, rate: float, drawn: int) -> float:
    """Return the largest beta at which the published bound on one query is at most `target`.

    Raises InputError unless the order is a whole number >= 2. Arguments as in `query_divergence`.
    """
    if order < 2 or int(order) != order:
        raise InputError(f"expected a whole order >= 2, found {order!r}")
    # Double the end of the bracket until the bound reaches the target.
    high = expand_until(lambda beta: query_divergence(beta, order, rate, drawn) >= target, FIRST_BETA, 2.0, LARGEST_BETA)
    lower_end, _ = bracket_root(lambda beta: target - query_divergence(beta, order, rate, drawn), 0.0, high)
    return lower_end  # at this end, the bound is at most the target


def query_divergence(beta: float, order: int, rate: float, drawn: int) -> float:
    """Return the published bound on the Renyi divergence of one query, with amplification by sampling if rate < 1.

    `drawn` models are drawn, each with probability `rate`. They are projected to the radius beta times the order.
    """
    if rate == 1.0:
        return unsampled_divergence(beta, order, drawn)
    log_factorial = log_factorials(order)
    terms = [(order - 1) * math.log1p(-rate) + math.log1p((order - 1) * rate)]  # the terms k = 0 and k = 1 together
    for k in range(2, order + 1):
        log_binomial = float(log_factorial[order] - log_factorial[k] - log_factorial[order - k])
        terms.append(
            log_binomial + (order - k) * math.log1p(-rate) + k * math.log(rate) + (k - 1) * unsampled_divergence(beta, k, drawn)
        )
    return _log1p_sum(terms) / (order - 1)


def unsampled_divergence(beta: float, order: int, drawn: int) -> float:
    """Return the published bound without amplification by sampling, for n = `drawn` models at the order k.

    It is log((n - 1 + e^{4 beta k (k-1)}) / n) / (k - 1) for n > 1 models, and beta k for one.
    """
    if drawn <= 1:
        return beta * order
    exponent = 4.0 * beta * order * (order - 1)
    if exponent < LARGEST_LOG1P:
        return math.log1p(math.expm1(exponent) / drawn) / (order - 1)
    return (exponent + math.log1p((drawn - 1) * math.exp(-exponent)) - math.log(drawn)) / (order - 1)


def _log1p_sum(terms: list[float]) -> float:
    """Return log of the sum of the exponentials of the terms. It is accurate even if the sum is near 1."""
    most = max(terms)
    if most < LARGEST_LOG1P:  # The sum minus 1 is the sum of e^t - 1 over the n terms t, plus n - 1, and loses no digits.
        return math.log1p(math.fsum(map(math.expm1, terms)) + (len(terms) - 1))
    return most + math.log(math.fsum(math.exp(term - most) for term in terms))


@dataclass(frozen=True, slots=True)
class RenyiBall:
    """The distributions whose Renyi divergences of `order` from and to a public one are at most `radius`.

    Attributes:
        public: Probabilities of the public model, (vocabulary,).
        inverse: 1 / public; 0 where public is 0, so that the divergences leave out a token to which the public model gives probability 0.
        has_full_support: Whether no public probability is 0.
    """

    public: Array
    inverse: Array
    order: float
    radius: float
    has_full_support: bool

    def share(self, private: Array) -> float:
        """Return the largest share of a model, from 0 to 1, at which its mixture with the public one is within the ball.

        The result is 0 if the second moment of the model's numbers is not finite, as for numbers that are not probabilities.
        """
        ratios = np.multiply(private, self.inverse)
        scratch = np.empty_like(ratios)
        second_moment = float(np.dot(private, ratios))
        if not math.isfinite(second_moment):
            return 0.0
        if self.order == 3.0 and 2.0 * self.radius < LARGEST_EXPONENT:  # order 3, the default of [pmixed], has a faster formula
            forward = self._cubic_share(private, ratios, scratch, second_moment)
        else:
            forward = self._largest_share(ratios, scratch, self.order, most=1.0)
        # The share of the forward direction is kept if the divergence in the reverse direction is within the radius there too.
        reverse_power = 1.0 - self.order
        if self._divergence(ratios, scratch, reverse_power, forward) <= self.radius:
            return forward
        return self._largest_share(ratios, scratch, reverse_power, forward)

    def mixed(self, private: Array) -> Array:
        """Return the mixture of the model and the public one, with the largest share of the model; a failed model has no share."""
        with np.errstate(all="ignore"):  # A warning would reveal something about the private data.
            share = self.share(private)
        return self.public if share == 0.0 else share * private + (1.0 - share) * self.public

    def _cubic_share(self, private: Array, ratios: Array, scratch: Array, second_moment: float) -> float:
        """Return the largest share at order 3 within the radius in the forward direction.

        The divergence is log(1 + 3 share^2 v + share^3 w) / 2, where v and w are the moments 2 and 3 of x - 1 under the public model.
        """
        np.multiply(private, ratios, out=scratch)
        third_moment, level = float(np.dot(scratch, ratios)), math.expm1(2.0 * self.radius)
        v, w = second_moment - 1.0, third_moment - 3.0 * second_moment + 2.0
        return _largest(lambda share: share * share * (3.0 * v + share * w) - level, 1.0)

    def _largest_share(self, ratios: Array, scratch: Array, power: float, most: float) -> float:
        """Return the largest share up to `most` within the radius in one direction. Arguments as in `_divergence`."""
        return _largest(lambda share: self._divergence(ratios, scratch, power, share) - self.radius, most)

    def _divergence(self, ratios: Array, scratch: Array, power: float, share: float) -> float:
        """Return the divergence of a mixture from the public model, or the reverse: log E (1 + share (x - 1))^power / (order - 1).

        Args:
            ratios: Ratios x of the model's probabilities to the public ones, over which E is the public average.
            scratch: Array of that shape, which is overwritten, so that no evaluation has to allocate one.
            power: order for the divergence from the public model, 1 - order for the reverse.
            share: Share of the model in the mixture.
        """
        np.multiply(ratios, share, out=scratch)
        np.add(scratch, 1.0 - share, out=scratch)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            if power == -2.0:  # This is the reverse direction at order 3. A division is faster than a power.
                np.multiply(scratch, scratch, out=scratch)
                np.divide(self.public, scratch, out=scratch)
            else:
                np.power(scratch, power, out=scratch)
                np.multiply(self.public, scratch, out=scratch)
        total = float(scratch.sum() if self.has_full_support else scratch.sum(where=self.public > 0.0))
        return math.log(total) / (self.order - 1.0) if total > 0.0 else -math.inf


def renyi_ball(public: Array, order: float, radius: float) -> RenyiBall:
    """Return the ball around a public model's probabilities. Raises InputError for an order at most 1 or a radius below 0."""
    if not order > 1.0 or not radius >= 0.0:
        raise InputError(f"expected an order > 1 and a radius >= 0, found {order!r} and {radius!r}")
    with np.errstate(divide="ignore", over="ignore"):
        return RenyiBall(public, np.where(public > 0.0, 1.0 / public, 0.0), order, radius, bool((public > 0.0).all()))


def _largest(excess: Callable[[float], float], most: float) -> float:
    """Return the largest share up to `most` at which an increasing excess is at most 0, up to rounding; 0 if there is none."""
    if excess(most) <= 0.0:
        return most
    if excess(0.0) >= 0.0:
        return 0.0
    lower_end, _ = bracket_root(lambda share: -excess(share), 0.0, most)
    return lower_end
