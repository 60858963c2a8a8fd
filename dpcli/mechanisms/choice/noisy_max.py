"""Choices by comparing noisy numbers: report noisy max, permute-and-flip (the index of the largest noisy score), above threshold.

Theorem. Add to every score independent noise of one law, with density f and distribution function F, in such units that f <= 1 - F: so have
Exp(1) and Lap(1). Let one change move the difference of any two scores by at most epsilon. Then the index of the largest noisy score is
dominated by the pair (Lap(epsilon), Lap(0)) of unit scale, which is sharper than epsilon-DP.

Proof. Let S be a set of candidates, X the largest noisy score in S and Y that outside of S. With F_i and f_i those of score i in S, the
density of X is sum_i f_i prod_{j != i} F_j <= sum_i (1 - F_i) prod_{j != i} F_j, the probability that exactly one of them is larger, so at
most P(X > x). Averaged over Y, the density of Z = X - Y is at most P(Z > z); the same of Y makes it at most P(Z < z). S is chosen with
probability P(Z > 0), and after the change with P(Z > epsilon) at least. P(Z > z) falls at no more than the rate min(P(Z > z), P(Z < z)),
which is that of Laplace noise exactly: so P(Z > epsilon) is at least P(l > epsilon) where l is Laplace noise, shifted such that P(l > 0) =
P(Z > 0). What holds of every S is that the trade-off curve lies above that of the Laplace pair.

Two candidates attain each point of that curve with Exp(1), no two of them all of it: so no lower bound is claimed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from dpcli.base.fields import COUNT, OPEN_UNIT, POSITIVE, Key
from dpcli.base.premise import SCORES, SECRET, Premises, moves, of_mechanism
from dpcli.base.values import dataclass
from dpcli.mechanisms.choice.exponential import ExponentialChoice
from dpcli.mechanisms.combined.labelled import LeastOf
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.noise.additive import LARGEST_RATIO, SMALLEST_RATIO
from dpcli.mechanisms.noise.laplace import Laplace
from dpcli.mechanisms.stated.pure_and_approx import Pure
from dpcli.mechanisms.stated.stated_spec import EpsilonSpec


def noisy_maximum(epsilon: float) -> Mechanism:
    """The theorem's bound; and the pure one, whose sums have closed forms that are sharper than a grid if the two hardly differ."""
    if not SMALLEST_RATIO < epsilon <= LARGEST_RATIO:
        return Pure(epsilon)
    return LeastOf((Laplace(epsilon).unclaimed(), Pure(epsilon)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportNoisyMaxSpec(EpsilonSpec):
    """The index of the score that is the largest after noise of the same distribution on each; neither the noisy nor the true scores are
    released.

    epsilon is that of one report: with the sensitivity of each score divided out, the scale of the noise is 2 / epsilon. With Gumbel noise
    it is the exponential mechanism (bounded range). With Laplace or exponential noise it is no worse than one number of sensitivity epsilon
    with Laplace noise of scale 1, which is sharper than pure epsilon.

    Neighbours: those of the statement, all three adjacencies; a group of k has k epsilon. If a unit has several records, stated_for
    says whom epsilon covers.

    Bounds: upper. Finite at delta = 0.

    Source: Dwork & Roth 2014 (pure epsilon, Laplace noise); Dong, Durfee, Rogers 2020, arXiv:1909.13830 (Gumbel noise). Proof for Laplace
    and exponential noise: dpcli/mechanisms/choice/noisy_max.py.
    """

    example: ClassVar[Mapping[str, Any]] = {"epsilon": 0.01}
    premises: ClassVar[Premises] = SCORES

    epsilon: Annotated[float, Key("pure epsilon of one report, in nats", POSITIVE)]
    noise: Annotated[
        Literal["gumbel", "laplace", "exponential"],
        Key("noise added to each score; gumbel has the bounded-range form, which is the sharpest"),
    ] = "laplace"

    def priced(self, epsilon: float) -> Mechanism:
        return ExponentialChoice(epsilon) if self.noise == "gumbel" else noisy_maximum(epsilon)


@dataclass(frozen=True, slots=True, kw_only=True)
class PermuteAndFlipSpec(EpsilonSpec):
    """A choice of one of several candidates: they are visited in random order, and each is accepted with probability exp(epsilon (score -
    best) / (2 * sensitivity)).

    sensitivity, by which one change moves each score at most, is divided out in the statement: epsilon is that of one choice. It is the
    index of the largest score after exponential noise, and no worse than one number of sensitivity epsilon with Laplace noise of scale 1.

    Neighbours: those of the statement, all three adjacencies; a group of k has k epsilon. If a unit has several records, stated_for
    says whom epsilon covers.

    Bounds: upper, sharper than pure epsilon. Finite at delta = 0.

    Source: McKenna & Sheldon 2020, arXiv:2010.12603; exponential noise: Ding, Kifer, Sayed E., Steinke, Wang, Xiao, Zhang 2021,
    arXiv:2105.07260. Proof: dpcli/mechanisms/choice/noisy_max.py.
    """

    example: ClassVar[Mapping[str, Any]] = {"epsilon": 0.01}
    premises: ClassVar[Premises] = SCORES

    epsilon: Annotated[float, Key("pure epsilon of one choice, in nats", POSITIVE)]

    def priced(self, epsilon: float) -> Mechanism:
        return noisy_maximum(epsilon)


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseVectorSpec(EpsilonSpec):
    """The queries of a stream that exceed a threshold, until `answers` of them have; the noisy values themselves are not released.

    The whole run, however many queries there are, is epsilon-DP with noise Lap(sensitivity / eps1) on the threshold and Lap(2 answers
    sensitivity / eps2) on each query, eps1 = threshold_share * epsilon, eps2 = epsilon - eps1. Noise on the threshold is drawn once.

    Neighbours: those of the statement, all three adjacencies; a group of k has k epsilon. If a unit has several records, stated_for
    says whom epsilon covers.

    Bounds: upper, from pure epsilon alone. Finite at delta = 0.

    Source: Lyu, Su, Li 2017, arXiv:1603.01699, standard form.
    """

    example: ClassVar[Mapping[str, Any]] = {"epsilon": 0.01, "answers": 2}
    premises: ClassVar[Premises] = (
        SECRET,
        moves("No change moves a query by more than the sensitivity that was divided out.", "release"),
        of_mechanism(
            "After so many answers above the threshold nothing more is asked.",
            "test_answers_without_an_end_above_the_threshold_cost_more",
            "release",
        ),
    )

    epsilon: Annotated[float, Key("pure epsilon of one whole run, in nats", POSITIVE)]
    answers: Annotated[int, Key("how many times above the threshold end the run", COUNT)] = 1
    threshold_share: Annotated[float, Key("share of epsilon spent on the threshold's noise", OPEN_UNIT)] = 0.5

    def priced(self, epsilon: float) -> Mechanism:
        return Pure(epsilon)
