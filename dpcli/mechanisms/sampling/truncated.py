"""Poisson samples of bounded size: a sample with more than B records is cut to B of them, chosen uniformly.

The scheme "poisson" (schemes.py) calls `on_cut_sample` if a file states max_batch_size, and charges the mechanism that it returns for each
step. A cut makes other records matter: if a changing record is used, it may take the place of another one.

k records change, R is the Poisson sample of the n others, and q is the rate. Two couplings of the cut sample with and without the changing
records give upper bounds on the cost, and accountants use the cheaper one. `displacement_bound` charges twice the contribution with the
probability of a cut. `weight_bound` charges one contribution with a larger probability, and is for one record. No delta is spent, unlike in
Chua et al. 2024, arXiv:2411.04205, who add the probability of a cut to delta. Probabilities of a cut are rounded up.

A mechanism has upper bounds on its cost (mechanism.py): `approx_dp` returns epsilon at a delta, `zcdp` rho, and `rdp` Renyi divergences.
`losses` returns the privacy losses log dP/dQ of dominating pairs (P, Q). `unclaimed` drops the claim that some data attain these pairs.
Below its `delta_floor`, epsilon may be infinite. A `Labelled` is one of two mechanisms, chosen at random. A `LeastOf` costs as little as
the cheapest of several.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

from dpcli.base.errors import InputError, NotRepresentable
from dpcli.base.values import dataclass
from dpcli.mechanisms.combined.labelled import Labelled, LabelledLoss, LeastOf, log_mean
from dpcli.mechanisms.mechanism import Mechanism, PrivacyLoss
from dpcli.mechanisms.neighbours import Adjacency, Neighbours, any_sampled
from dpcli.mechanisms.noise.gaussian_mixture import GaussianMixture, mixture_of
from dpcli.mechanisms.noise.gaussian_spec import sampled_gaussian
from dpcli.mechanisms.sampling.poisson import NO_RHO, PoissonReplaced, PoissonSampled
from dpcli.mechanisms.spec import Spec
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.closed.discrete_tails import log_binomial_tail, log_binomial_term
from dpcli.numerics.tails import single_epsilon_upper

# Speed: largest number of other records for which tau is computed for every smaller number too. With more, there is no `weight_bound`
# unless B is at least their mean number in a sample.
FEW_OTHERS = 64
# Accuracy: largest bound B for which E_B (step 5 of `displacement_bound`) has a shift of its own for a drawn record that is cut. Above it,
# such a record has at most 1/33 of the rate, and is counted with the larger shift.
SMALL_BOUND = 32
LEAST_CHANCE = 1e-300  # least tau and alpha to compute with; smaller ones may have underflowed


def on_cut_sample(spec: Spec, rate: Fraction, neighbours: Neighbours, dataset_size: int, most: int) -> Mechanism:
    """Return `spec` on a Poisson sample of rate q in (0, 1], of which at most B = `most` records, chosen uniformly, are used.

    The number n of other records is at most dataset_size, or dataset_size - k if both datasets have that many records.

    Raises InputError if units own several records and the statement does not cover the records of others.
    """
    sampled = spec.poisson(float(rate), neighbours)
    if neighbours.contributions > 1 and not spec.bounds_one_record:
        raise InputError(
            'max_batch_size with units that own several records needs noise_multiplier or stated_for = "record": records of other '
            "units are cut in place of those of one, and a bound per unit does not cover several units at once"
        )
    records = neighbours.records
    others = dataset_size if neighbours.adjacency is Adjacency.ADD_REMOVE else max(dataset_size - records, 0)
    if others + records <= most:
        return sampled
    displaced = displacement_bound(sampled, spec, rate, neighbours, others, most)
    weighted = weight_bound(spec, rate, neighbours, others, most)
    return displaced if weighted is None else LeastOf((displaced, weighted))


def displacement_bound(sampled: Mechanism, spec: Spec, rate: Fraction, neighbours: Neighbours, others: int, most: int) -> Mechanism:
    """Return a mechanism that dominates `spec` on a cut sample, in which a used changing record may displace another record.

    sampled: `spec` on an uncut sample.

    By joint convexity, |R| may be assumed known.

    1. If |R| + k <= B, nothing is cut, and the step is a Poisson sample.
    2. Otherwise, some of the changing records are used with probability at most p = 1 - (1-q)^k. If none of them is used, the used records
       are a uniform subset of R of size min(B, |R|), as without the changing records. If i of them are used, the others are a smaller
       uniform subset of R. If both subsets follow one random order of R, the smaller one lacks at most i records of the larger one. So the
       step with the i records differs from the step without them by at most i additions and i removals.
    3. Under add-remove, the pair is therefore (W, (1-p) W + p A), where A and W are within 2k changes. Under zero-out and replace-one it is
       ((1-p) W + p A, (1-p) W + p A'), where any two of A, A' and W are within 2k changes, or within k replacements. Under add-remove, a
       Gaussian moves by at most 2i contributions if i or more of the k records are drawn. This is Poisson sampling of k records with twice
       the contribution.
    4. For one record and |R| = m >= B, the record is used with probability q s, s = B/(m+1), because m + 1 drawn records share B places.
       Divergences of such pairs at probability s q are convex in s and vanish at s = 0. So the step costs at most 1-s times the case
       without a cut, plus s times the case above at probability q, which costs more.
    5. For one record and a Gaussian under add-remove, the step is at most E_m = (1-q) N(0) + (q - q_m) N(mu) + q_m N(2 mu) against N(0),
       with q_m = q B/(m+1), because the divergence grows with each shift (noise/normal_mixture.py). E_m is a mixture of the case without a
       cut, with weight 1-s, and of E_B, with weight s = (B+1)/(m+1).

    Every case costs at least as much as the one without a cut, so an upper bound on the probability of a cut is enough. No data need attain
    it.
    """
    if_cut, log_share = _step_if_cut(spec, rate, neighbours, most)
    log_cut = max(_log_cut(others, rate, most, neighbours.records) + log_share, -745.0)  # e^-745 is about the smallest float
    return Labelled(sampled, if_cut, log_cut) if log_cut < 0.0 else if_cut.unclaimed()


def weight_bound(spec: Spec, rate: Fraction, neighbours: Neighbours, others: int, most: int) -> Mechanism | None:
    """Return a mechanism that dominates `spec` on a cut sample of one record x among up to `others`, compared with uncut samples.

    Return None for several records, if the mean of |R| exceeds `most` and there are more than FEW_OTHERS others, and if tau or alpha is
    too small or too large to compute with.

    A cut sample that contains x also contains a uniformly random set of B - 1 others, as does an uncut sample with |R| = B - 1. For a set S
    of at most B - 1 others, let w be the probability that S is used together with x, divided by the probability that R = S. For
    |S| < B - 1, w is q. For |S| = B - 1, it is

        q + tau / alpha,  alpha = P(|R| = B - 1),  tau = q E[B / (|R| + 1); |R| >= B].

    If |R| = m >= B, a set of B others is used 1 - q B/(m+1) times as often if x is in the data as if it is not. For a weight w, let

        F(w) = int ((1-q) Q + w P - gamma Q)+        add-remove, (P, Q) the outputs with x and without
        F(w) = int ((1-q) W + w P - gamma ((1-q) W + w Q))+        P, Q the outputs with either version of x, W without.

    1. int (p - gamma q)+ is subadditive. So the divergence of the step is at most the mean of F(w) over the sets that are used without x.
    2. For |R| = m >= B, the weight w = q - q B/(m+1) may be used. The reason is that (1 - q B/(m+1) - gamma)+, or
       (1 - q B/(m+1)) (1 - gamma)+, is at most F of this weight, by Jensen's inequality.
    3. F is convex in w. So is its bound, which is 1 - q + w times that of the pair of the mechanism on a sample of rate w / (1 - q + w).
    4. The mean of w is q. Because of the convexity, a distribution of w with more spread costs more.
    5. For y >= 0, the spread is bounded by E (w - q - y)+ = (tau - alpha y)+. Since q B/(m+1) <= q B/(B+1), it is also bounded by
       E (q - w - y)+ <= (tau - tau y (B+1)/(q B))+.
    6. The ratio tau / alpha grows with n, because all ratios of P(|R| = m), m >= B, to P(|R| = B - 1) do. tau grows with n as long as
       B >= n q, because each P(|R| = m) does.
    7. So take the largest tau, and let alpha be tau over the ratio at the largest n. Then three weights cover every n:

        w = q + tau / alpha with probability alpha,  q / (B+1) with probability tau (B+1)/(q B),  q otherwise.

    The weight is revealed. Under add-remove, the three weights have different probabilities under P and Q. Otherwise they have the same
    probabilities.
    """
    q = float(rate)
    if neighbours.records != 1:
        return None
    tau, ratio = _largest_tau(others, rate, most), _tau_over_alpha(others, rate, most)
    if tau is None or not (tau > LEAST_CHANCE and 0.0 < ratio < math.inf):
        return None
    # The probabilities of the largest and of the smallest weight. A smaller alpha gives w more spread, and errs on the private side.
    probability_of_least = tau * (most + 1) / (q * most)
    alpha = min(tau / ratio, 1.0 - probability_of_least)
    if alpha <= LEAST_CHANCE:
        return None
    weights = ((1.0 - alpha - probability_of_least, q), (alpha, q + tau / alpha), (probability_of_least, q / (most + 1)))
    parts = []
    for probability, weight in weights:
        if probability <= 0.0:
            continue
        log_q, log_p = math.log(probability), math.log(probability) + math.log1p(weight - q)  # under P, times 1 - q + w
        mechanism = spec.poisson(weight / (1.0 - q + weight), neighbours)
        parts.append(CutSamplePart(mechanism, log_p, log_q if neighbours.adjacency is Adjacency.ADD_REMOVE else log_p))
    return CutSample(tuple(parts))


class CutSamplePart(NamedTuple):
    """A mechanism that is chosen with a probability. log_p, log_q: the logarithm of this probability under P and Q."""

    mechanism: Mechanism
    log_p: float
    log_q: float


@dataclass(frozen=True, slots=True)
class CutSample(Mechanism):
    """A mechanism that is chosen at random from several and revealed. Its pair is not claimed to be attained."""

    parts: tuple[CutSamplePart, ...]

    def approx_dp(self, delta: float) -> float:
        """Return epsilon from the tails of the pairs; at delta = 0, the largest loss."""
        if delta <= 0.0:
            return max(mechanism.approx_dp(0.0) + abs(log_p - log_q) for mechanism, log_p, log_q in self.parts)
        return max(single_epsilon_upper(loss, math.log(delta), near=1.0) for loss in self.losses())

    def delta_floor(self) -> float:
        return math.fsum(math.exp(max(log_p, log_q)) * mechanism.delta_floor() for mechanism, log_p, log_q in self.parts)

    def zcdp(self) -> float:
        raise NotRepresentable(NO_RHO)

    def losses(self) -> tuple[PrivacyLoss, ...]:
        losses_of_parts = [part.mechanism.losses() for part in self.parts]
        removals, additions = tuple(losses[0] for losses in losses_of_parts), tuple(losses[-1] for losses in losses_of_parts)
        log_p, log_q = tuple(part.log_p for part in self.parts), tuple(part.log_q for part in self.parts)
        if log_p == log_q and removals == additions:
            return (LabelledLoss(log_p, removals),)
        return LabelledLoss(log_p, removals, log_q), LabelledLoss(log_q, additions, log_p)

    def rdp(self, orders: Array) -> Array:
        """Return the Renyi divergences: e^{(a-1) D_a} is the weighted mean of those of the parts, each times the factor of its choice."""
        z = orders - 1.0
        curves = np.array([z * part.mechanism.rdp(orders) for part in self.parts])
        log_p, log_q = np.array([[part.log_p] for part in self.parts]), np.array([[part.log_q] for part in self.parts])
        removal = log_mean(log_p, curves + z * (log_p - log_q))
        addition = log_mean(log_q, curves + z * (log_q - log_p))
        return np.asarray(np.maximum(removal, addition) / z * (1.0 + 1e-13))


def _tau(others: int, rate: Fraction, most: int) -> float:
    """Return an upper bound on tau = B / (n+1) P(Binomial(n+1, q) > B), where n = `others` and B = `most`."""
    return most / (others + 1) * math.exp(log_binomial_tail(others + 1, rate, most + 1)) * (1.0 + 1e-15)


def _largest_tau(others: int, rate: Fraction, most: int) -> float | None:
    """Return the largest tau over all numbers of other records up to `others`; None if it is not known."""
    if most >= others * rate:
        return _tau(others, rate, most)
    if others > FEW_OTHERS:
        return None
    return max(_tau(n, rate, most) for n in range(most, others + 1))


def _tau_over_alpha(others: int, rate: Fraction, most: int) -> float:
    """Return an upper bound on tau / alpha; inf at rate 1, or if alpha is below e^-700."""
    if rate == 1:
        return math.inf
    log_alpha = log_binomial_term(others, rate, most - 1)
    return _tau(others, rate, most) / math.exp(log_alpha) * (1.0 + 1e-15) if log_alpha > -700.0 else math.inf


def _log_cut(others: int, rate: Fraction, most: int, records: int) -> float:
    """Return an upper bound on log P(|R| > B - k), or for one record on log E[(B+1)/(|R|+1); |R| >= B], for up to `others` others.

    P(|R| > B - k) grows with n. P(|R| = m), m >= B, grows up to n = m/q. So if B >= n q at the largest n, the expectation is largest there;
    it is P(Binomial(n+1, q) > B) (B+1)/((n+1) q).
    """
    log_cut = log_binomial_tail(others, rate, max(most - records + 1, 0))
    if records > 1 or most < others * rate:
        return log_cut
    size = (others + 1) * rate
    return min(log_cut, log_binomial_tail(others + 1, rate, most + 1) + math.log((most + 1) / size) + 1e-15)


def _step_if_cut(spec: Spec, rate: Fraction, neighbours: Neighbours, most: int) -> tuple[Mechanism, float]:
    """Return the mechanism that dominates a step whose sample is cut, and the log of the share of such steps that need be charged."""
    records, q = neighbours.records, float(rate)
    any_drawn = any_sampled(q, records)
    # Step 4: s = B/(m+1) is B/(B+1) times the (B+1)/(m+1) that `_log_cut` averages. Step 5 needs all of the latter.
    log_share = math.log(most / (most + 1)) + 1e-15 if records == 1 else 0.0
    if neighbours.replaces:
        return PoissonReplaced(spec.resolve(neighbours), any_drawn), log_share
    inner = spec.resolve(replace(neighbours, group=2 * neighbours.group))
    if neighbours.adjacency is not Adjacency.ADD_REMOVE:
        return PoissonReplaced(inner, any_drawn), log_share
    try:
        shift = inner.gdp()
    except NotRepresentable:
        return PoissonSampled(inner, any_drawn), log_share
    if shift <= 0.0:  # nothing moves, with or without a cut
        return inner, 0.0
    if records > 1 and spec.contribution_form:
        return sampled_gaussian(shift / records, q, records), 0.0
    if records > 1:
        return sampled_gaussian(shift, any_drawn, 1), 0.0
    if most > SMALL_BOUND:  # a single shift has closed forms, and costs hardly more
        return sampled_gaussian(shift, q, 1), log_share
    # E_B: a drawn record that is cut moves the sum by one contribution, half of `shift`, and a used one by two.
    used_rate = q * most / (most + 1)
    return GaussianMixture(mixture_of({0.5 * shift: q / (most + 1), shift: used_rate})), 0.0
