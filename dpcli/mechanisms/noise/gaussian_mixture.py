"""Gaussian noise on a sum to which one record contributes a random amount.

A record draws its contribution from a public distribution: *shifts* (contributions over the standard deviation) with *weights* (their
probabilities). The pair is then a mixture of Gaussians, which costs at most as much as its largest shift alone. A group of records is the
mixture of the sum of their draws. The losses are in normal_mixture.py. `GaussianMixture` is also the pair of DP-SGD on Poisson samples
(gaussian_spec.py), where a record contributes 0 or its whole bound.

`Mixture` (numerics/mixture.py) holds the shifts and weights. Its `reach` is the largest shift, `single` says whether there is only one
positive shift, and `log_rest` is the log weight at shift 0.

If a mixture has too many shifts, or weights too small for a float, weight moves to larger shifts, never to smaller ones. The bounds then
only grow, and `_rounds_up` takes back the claim that they are attained.

A mechanism has upper bounds on its cost (mechanism.py): `approx_dp` returns epsilon at a delta, `zcdp` rho, and `rdp` Renyi divergences.
`losses` returns the privacy losses log dP/dQ of dominating pairs (P, Q). `attained` says whether some data are claimed to attain these
pairs, and `unclaimed` drops this claim.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from dpcli.base.fields import NON_NEGATIVE, POSITIVE, RATE_OR_ZERO, Key
from dpcli.base.premise import NOISE, SECRET, Premises, moves, of_mechanism
from dpcli.base.values import dataclass
from dpcli.mechanisms.mechanism import Mechanism, PrivacyLoss
from dpcli.mechanisms.neighbours import Neighbours, any_sampled
from dpcli.mechanisms.noise.additive import LARGEST_RATIO, SMALLEST_RATIO, NoPrivacy  # ratios of sensitivity over noise
from dpcli.mechanisms.noise.gaussian import Gaussian
from dpcli.mechanisms.spec import CostEvidence, Spec
from dpcli.mechanisms.stated.pure_and_approx import Free
from dpcli.numerics.arrays import Array
from dpcli.numerics.tails import single_epsilon_upper

if TYPE_CHECKING:
    from dpcli.numerics.mixture import Mixture

Weights = dict[float, float]  # positive shift -> probability; the remaining probability is that of a shift of 0

# Accuracy and speed: all of these raise shifts or weights, so that the result is an upper bound.
MAX_SHIFTS = 256  # largest number of different shifts; if there are more, shifts are rounded up
MAX_RECORDS = 64  # largest group whose draws are added up; in a larger one, every draw that is not 0 counts as the largest
EQUAL_DISTANCE = 1e-13  # relative distance within which sums count as equal, because they differ by rounding alone
SMALLEST_WEIGHT = 1e-300  # a smaller positive probability of an outcome is raised to this, so that it does not underflow
SMALLEST_SHARE = 1e-6  # least shift over the largest one, so that the inverse of m stays in range; smaller shifts are raised to it


def epsilon_of_pairs(losses: tuple[PrivacyLoss, ...], delta: float, bound: float) -> float:
    """Return the epsilon at which the largest delta(eps) of the pairs falls to `delta`, rounded up. bound: an epsilon that holds anyway."""
    if delta <= 0.0:
        return math.inf
    return min(bound, max(single_epsilon_upper(loss, math.log(delta), near=bound) for loss in losses))


@dataclass(frozen=True, slots=True)
class GaussianMixture(Mechanism):
    """Gaussian noise on a sum that moves by a random amount, under add-remove or zero-out.

    Its pairs are (sum_i p_i N(s_i, 1), N(0, 1)) and the reverse, by the theorem of normal_mixture.py. Contributions of full norm in one
    direction attain them.
    """

    stretch: ClassVar[float] = 1.0  # largest distance of a shift under P from one under Q, in units of the largest shift

    mixture: Mixture

    def approx_dp(self, delta: float) -> float:
        """Return epsilon, exact up to rounding, and rounded up."""
        return epsilon_of_pairs(self.losses(), delta, Gaussian(self.stretch * self.mixture.reach).approx_dp(delta))

    def zcdp(self) -> float:
        """Return rho of the largest contribution. Moments are convex, so that no mixture of contributions costs more."""
        return Gaussian(self.stretch * self.mixture.reach).zcdp()

    def attained(self) -> bool:
        return True

    def losses(self) -> tuple[PrivacyLoss, ...]:
        from dpcli.mechanisms.noise.normal_mixture import MixtureAddLoss, MixtureRemoveLoss

        return MixtureRemoveLoss(self.mixture), MixtureAddLoss(self.mixture)

    def renyi_loss(self) -> PrivacyLoss | None:
        """Return the remove loss for a single shift, whose divergence is the larger one; None for several shifts.

        Source: Mironov, Talwar, Zhang 2019, arXiv:1908.10530, Theorem 5.
        """
        return self.losses()[0] if self.mixture.single else None

    def rdp(self, orders: Array) -> Array:
        larger = self.renyi_loss()
        return Mechanism.rdp(self, orders) if larger is None else larger.cgf(orders - 1.0) / (orders - 1.0)


@dataclass(frozen=True, slots=True)
class GaussianMixtureReplaced(GaussianMixture):
    """Gaussian noise on a sum that moves by a random amount, under replace-one.

    Its pair is (sum_i p_i N(s_i, 1), sum_i p_i N(-s_i, 1)). Two versions of a record that move the sum in opposite directions attain it.
    """

    stretch: ClassVar[float] = 2.0

    def losses(self) -> tuple[PrivacyLoss, ...]:
        from dpcli.mechanisms.noise.normal_mixture import MixtureReplaceLoss

        return (MixtureReplaceLoss(self.mixture),)

    def renyi_loss(self) -> PrivacyLoss | None:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianMixtureSpec(Spec):
    """A sum plus Gaussian noise, where each record moves the sum by an amount that is drawn at random for it.

    With probability probabilities[i] a record contributes at most sensitivities[i] (L2). sigma is the standard deviation of the noise in
    the same units. Each record has its own draw, from the same distribution. The draw is not released, and does not depend on the record's
    content.

    Neighbours: all three adjacencies. A zeroed record costs as much as a removed one.

    Bounds: the exact pair of mixtures. For several records it is the pair of the sum of their draws. The bounds are upper bounds if the
    probabilities do not add up to exactly 1, if contributions differ by a factor of more than a million, or if a group is too large to add
    up its draws one by one. No finite epsilon at delta = 0.

    Source: Choquette-Choo et al. 2023, arXiv:2310.15526.
    """

    example: ClassVar[Mapping[str, Any]] = {"sigma": 40.0, "sensitivities": [0.0, 1.0], "probabilities": [0.5, 0.5]}
    evidence: ClassVar[CostEvidence] = CostEvidence.PRICED
    needs_delta: ClassVar[bool] = True
    # What must hold for the cost, each with a test that violates it, and the commands that enforce it, if any.
    premises: ClassVar[Premises] = (
        SECRET,  # every draw is fresh, and nobody sees it
        moves("No record contributes more (L2) than the sensitivity that it drew."),
        of_mechanism(
            "Every record's contribution is drawn independently, whatever the record contains.",
            "test_a_record_that_chooses_its_own_contribution_moves_more",
        ),
        NOISE,  # the noise has the named distribution
    )

    # claim=True: dpcli does not enforce what the key states.
    sensitivities: Annotated[
        tuple[float, ...],
        Key("bounds on one record's contribution (L2), one for each outcome of its draw", NON_NEGATIVE, claim=True),
    ]
    probabilities: Annotated[tuple[float, ...], Key("probability of each outcome; they add up to 1", RATE_OR_ZERO, claim=True)]
    sigma: Annotated[float, Key("noise standard deviation, in units of the sensitivities", POSITIVE)]

    def problems(self) -> Iterator[tuple[str, str, str]]:
        total = math.fsum(self.probabilities)
        if len(self.probabilities) != len(self.sensitivities) or not self.sensitivities:
            expected = f"one probability for each of {len(self.sensitivities)} sensitivities"
            yield "probabilities", expected, str(len(self.probabilities))
        elif abs(total - 1.0) > 1e-9:
            yield "probabilities", "numbers that add up to 1", f"{total:.12g}"

    @property
    def contribution_form(self) -> bool:
        return True

    def resolve(self, neighbours: Neighbours) -> Mechanism:
        return self.poisson(1.0, neighbours)

    def poisson(self, rate: float, neighbours: Neighbours) -> Mechanism:
        """Return the mechanism on a Poisson sample. A record that is not in the sample contributes 0, a further outcome of its draw."""
        weights_of_one = {shift: _product(rate, weight) for shift, weight in self._weights().items()}
        total = weights_of_sum(weights_of_one, neighbours.records)
        if not total:  # no draw moves the sum
            return Free()
        if max(total) > LARGEST_RATIO:
            return NoPrivacy(max(total))
        if len(total) == 1 and math.fsum(total.values()) == 1.0:  # nothing is random but the noise
            mechanism: Mechanism = Gaussian(max(total) * (2.0 if neighbours.replaces else 1.0))
        else:
            mixture = mixture_of(total)
            mechanism = GaussianMixtureReplaced(mixture) if neighbours.replaces else GaussianMixture(mixture)
        return mechanism.unclaimed() if self._rounds_up(weights_of_one, neighbours.records) else mechanism

    def _rounds_up(self, weights_of_one: Weights, records: int) -> bool:
        """Return whether the mixture may cost more than the stated draws, so that it is not attained.

        It may if a missing probability counts as the largest contribution, a small contribution or its probability is raised, sums are
        rounded up, or all draws of a large group count as the largest.
        """
        least_sensitivity = min((sensitivity for sensitivity, _ in self._possible_draws()), default=math.inf)
        lacks_probability = abs(math.fsum(self.probabilities) - 1.0) > 4e-16  # by more than rounding
        raises_shift = least_sensitivity / self.sigma < self._least_shift()
        raises_weight = records * math.log(min(weights_of_one.values())) <= math.log(SMALLEST_WEIGHT)
        merges_sums = records > MAX_RECORDS or _number_of_sums(weights_of_one, records) > MAX_SHIFTS
        return lacks_probability or raises_shift or raises_weight or merges_sums

    def _possible_draws(self) -> Iterator[tuple[float, float]]:
        """Yield each positive sensitivity with its probability, if that is positive."""
        for sensitivity, probability in zip(self.sensitivities, self.probabilities, strict=True):
            if sensitivity > 0.0 and probability > 0.0:
                yield sensitivity, probability

    def _least_shift(self) -> float:
        """Return the least positive shift of the mixture, to which smaller shifts are raised."""
        return max(SMALLEST_RATIO, SMALLEST_SHARE * max(self.sensitivities) / self.sigma)

    def _weights(self) -> Weights:
        """Return shifts in noise standard deviations with their probabilities. Missing probability counts as the largest shift.

        A shift below `_least_shift` is raised to it, which gives an upper bound.
        """
        least = self._least_shift()
        weights: Weights = {}
        for sensitivity, probability in self._possible_draws():
            shift = max(sensitivity / self.sigma, least)
            weights[shift] = weights.get(shift, 0.0) + probability
        if weights:
            weights[max(weights)] += max(1.0 - math.fsum(self.probabilities), 0.0)
            total = math.fsum(weights.values())
            weights = {shift: weight / max(total, 1.0) for shift, weight in weights.items()}
        return weights


def _product(p: float, q: float) -> float:
    """Return the product of two probabilities. A positive product that would underflow is raised to SMALLEST_WEIGHT."""
    return max(p * q, SMALLEST_WEIGHT) if p > 0.0 and q > 0.0 else 0.0


def weights_of_sum(weights_of_one: Weights, records: int) -> Weights:
    """Return the weights of the sum of `records` independent draws.

    In a group of more than MAX_RECORDS, each draw that is not 0 counts as the largest one, which gives an upper bound by the theorem of
    normal_mixture.py.
    """
    if not weights_of_one:
        return weights_of_one
    if records > MAX_RECORDS:
        from dpcli.numerics.mixture import MOST_RECORDS, binomial_mixture

        most, rate = max(weights_of_one), min(math.fsum(weights_of_one.values()), 1.0)
        if rate == 1.0 or records > MOST_RECORDS:
            return {most * records: any_sampled(rate, records)}
        mixture = binomial_mixture(most, rate, records)
        weights = [max(math.exp(log_weight), SMALLEST_WEIGHT) for log_weight in mixture.log_weights]
        return dict(zip(mixture.shifts, weights, strict=True))
    if _number_of_sums(weights_of_one, records) <= MAX_SHIFTS:
        return _every_sum(weights_of_one, records)
    total = _coarse(weights_of_one)
    for _ in range(records - 1):
        total = _coarse(_sum_of_draws(total, weights_of_one))
    return total


def _number_of_sums(weights_of_one: Weights, records: int) -> int:
    """Return the number of ways in which the draws can be distributed over the shifts, 0 included."""
    return math.comb(len(weights_of_one) + records, records)


def _every_sum(weights_of_one: Weights, records: int) -> Weights:
    """Return the weights of the sum, by how often each shift is drawn, so that rounding does not separate equal sums."""
    weight_at_zero = max(1.0 - math.fsum(weights_of_one.values()), 0.0)
    weight_of = {0.0: weight_at_zero, **weights_of_one}
    total: Weights = {}
    for drawn in combinations_with_replacement(weight_of, records):
        counts = Counter(drawn)
        arrangements = math.factorial(records) // math.prod(map(math.factorial, counts.values()))
        weight = arrangements * math.prod(weight_of[shift] ** count for shift, count in counts.items())
        shift = math.fsum(shift * count for shift, count in counts.items())
        is_possible = weight_at_zero > 0.0 or not counts[0.0]
        if shift > 0.0 and is_possible:
            total[shift] = total.get(shift, 0.0) + max(weight, SMALLEST_WEIGHT)
    return total


def _sum_of_draws(a: Weights, b: Weights) -> Weights:
    """Return the weights of the sum of two independent draws."""
    a_at_zero, b_at_zero = (max(1.0 - math.fsum(weights.values()), 0.0) for weights in (a, b))
    total: Weights = {}
    for a_shift, a_weight in a.items():
        total[a_shift] = total.get(a_shift, 0.0) + _product(a_weight, b_at_zero)
        for b_shift, b_weight in b.items():
            total[a_shift + b_shift] = total.get(a_shift + b_shift, 0.0) + _product(a_weight, b_weight)
    for b_shift, b_weight in b.items():
        total[b_shift] = total.get(b_shift, 0.0) + _product(b_weight, a_at_zero)
    return {shift: weight for shift, weight in total.items() if weight > 0.0}


def _coarse(weights: Weights) -> Weights:
    """Return at most MAX_SHIFTS shifts, rounded up. Shifts that differ by rounding are merged first, and then others if necessary."""
    if len(weights) > MAX_SHIFTS:
        merged: Weights = {}
        largest = math.inf  # the largest of the shifts that count as equal
        for shift in sorted(weights, reverse=True):
            if shift < largest * (1.0 - EQUAL_DISTANCE):
                largest = shift
            merged[largest] = merged.get(largest, 0.0) + weights[shift]
        weights = merged
    if len(weights) <= MAX_SHIFTS:
        return weights
    unit = max(weights) / MAX_SHIFTS
    coarse: Weights = {}
    for shift, weight in weights.items():
        rounded = math.ceil(shift / unit) * unit * (1.0 + 1e-15)
        coarse[rounded] = coarse.get(rounded, 0.0) + weight
    return coarse


def mixture_of(weights: Weights) -> Mixture:
    """Return the mixture with these weights. The remaining probability is at shift 0."""
    from dpcli.numerics.mixture import Mixture

    shifts, stated = zip(*sorted(weights.items()), strict=True)
    total = math.fsum(stated)
    log_rest = math.log1p(-total) if 1.0 - total > 1e-15 else -math.inf  # a smaller rest is rounding
    return Mixture(log_rest, tuple(map(math.log, stated)), shifts, stated)
