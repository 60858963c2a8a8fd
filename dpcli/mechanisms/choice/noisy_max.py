"""Choices by comparing noisy numbers: report noisy max and permute-and-flip, which choose the largest noisy score, and above threshold.

The three classes at the end have the keys of the types. `noisy_maximum` is the cost of the first two, by the theorem below. With Gumbel
noise, a noisy maximum is the exponential mechanism instead. Above threshold (the sparse vector technique) is charged its pure epsilon.

Theorem. Add to every score independent noise with density f and distribution function F, in units in which f <= 1 - F. Exp(1) and Lap(1)
have this property. Let one change move the difference of any two scores by at most epsilon. Then the index of the largest noisy score is
dominated by the pair (Lap(epsilon), Lap(0)) of unit scale, which is sharper than epsilon-DP.

Proof.

1. Let S be a set of candidates, X the largest noisy score in S, and Y the largest noisy score outside of S. Let F_i and f_i belong to score
   i in S.
2. The density of X is sum_i f_i prod_{j != i} F_j <= sum_i (1 - F_i) prod_{j != i} F_j. The right-hand side is the probability that exactly
   one of the scores is larger, which is at most P(X > x).
3. Averaged over Y, this shows that the density of Z = X - Y is at most P(Z > z). The same argument for Y shows that it is at most P(Z < z).
4. S is chosen with probability P(Z > 0) before the change, and with at least P(Z > epsilon) after it.
5. P(Z > z) falls at a rate of at most min(P(Z > z), P(Z < z)). For Laplace noise this rate is exact. So P(Z > epsilon) is at least
   P(l > epsilon), where l is Laplace noise, shifted so that P(l > 0) = P(Z > 0).
6. This holds for every S, so the trade-off curve lies above that of the Laplace pair.

With Exp(1), two candidates attain each single point of that curve: if the first one leads by t >= 0, the other is chosen with probability
e^-t / 2, which is P(l > t). So the bound is tight for one choice. No two candidates attain the whole curve, so several choices have the
costs of certain leads as a lower bound (`TwoNoisyScores`). With Lap(1), that probability is e^-t (1/2 + t/4), and the curve is approached
where it is small.

The method `losses` of a mechanism (mechanism.py) returns the privacy losses log dP/dQ of dominating pairs (P, Q). `attained` says whether
some data are claimed to attain these pairs, and `unclaimed` drops this claim. `witness` returns a mechanism that the keys allow, whose cost
is a lower bound.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from dpcli.base.fields import COUNT, OPEN_UNIT, POSITIVE, Key
from dpcli.base.premise import SCORES, SECRET, Premises, moves, of_mechanism
from dpcli.base.values import dataclass
from dpcli.mechanisms.choice.exponential import MOST_WITNESS, ExponentialChoice
from dpcli.mechanisms.combined.labelled import LeastOf
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.noise.additive import LARGEST_RATIO, SMALLEST_RATIO  # limits of sensitivity over noise
from dpcli.mechanisms.noise.laplace import Laplace
from dpcli.mechanisms.stated.atoms import AtomicLoss, atomic_cgf
from dpcli.mechanisms.stated.pure_and_approx import Pure
from dpcli.mechanisms.stated.stated_spec import EpsilonSpec
from dpcli.numerics.arrays import Array, np

LEAST_WITNESS = 1e-3  # least epsilon for which the losses of two candidates keep their digits
# The search for the costliest lead tries LEADS leads, up to FARTHEST_LEAD from half a move. Each gives a lower bound (accuracy).
FARTHEST_LEAD, LEADS = 30.0, 601


def noisy_maximum(epsilon: float, *, laplace: bool = False) -> Mechanism:
    """Return the mechanism with the theorem's bound and the bound from pure epsilon, of which accountants use the smaller one.

    Sums of pure bounds have closed forms. If both bounds hardly differ, these are sharper than a grid.

    laplace: whether the noise is Lap(1), and not Exp(1).
    """
    if not SMALLEST_RATIO < epsilon <= LARGEST_RATIO:
        return Pure(epsilon)
    return NoisyMaximum((Laplace(epsilon).unclaimed(), Pure(epsilon)), epsilon, laplace=laplace)


@dataclass(frozen=True, slots=True)
class NoisyMaximum(LeastOf):
    """A noisy maximum with its bounds. The keys do not determine the candidates and the scores."""

    epsilon: float
    laplace: bool

    def unclaimed(self) -> Mechanism:
        return LeastOf(self.mechanisms)

    def witness(self, order: float) -> Mechanism | None:
        """Return a choice between two candidates, at the lead with the largest moment.

        The keys allow any scores. If there are several records, all of them may move the scores in the same way.
        """
        if not LEAST_WITNESS <= self.epsilon <= MOST_WITNESS:
            return None
        leads = np.linspace(-FARTHEST_LEAD, FARTHEST_LEAD, LEADS) + 0.5 * self.epsilon
        # Rows are leads, and columns the candidate that is chosen; P is before the change, and Q after it.
        log_p, log_q = (np.stack(_log_chances(at, laplace=self.laplace), axis=1) for at in (leads, leads - self.epsilon))
        moments = atomic_cgf(np.full(len(leads), order - 1.0), log_q, log_p - log_q)
        return TwoNoisyScores(self.epsilon, float(leads[np.argmax(moments)]), laplace=self.laplace)


@dataclass(frozen=True, slots=True)
class TwoNoisyScores(Mechanism):
    """A choice between two candidates by noisy scores. The first one leads by `lead`, and after a change by epsilon less.

    In the other direction, other scores have this pair. One direction suffices for a lower bound.
    """

    epsilon: float
    lead: float
    laplace: bool

    def attained(self) -> bool:
        return True

    def losses(self) -> tuple[AtomicLoss]:
        before, after = (_log_chances(np.array([at]), laplace=self.laplace) for at in (self.lead, self.lead - self.epsilon))
        log_p, log_q = ([float(log_chance[0]) for log_chance in chances] for chances in (before, after))
        return (AtomicLoss(tuple(log_q), tuple(p - q for p, q in zip(log_p, log_q, strict=True))),)


def _log_chances(leads: Array, *, laplace: bool) -> tuple[Array, Array]:
    """Return the log probabilities that the first of two candidates is chosen, and that the other one is. leads: by how much it leads."""
    distance = np.abs(leads)
    less = -distance + (np.log(0.5 + 0.25 * distance) if laplace else -math.log(2.0))  # log chance of the candidate that is behind
    more = np.log1p(-np.exp(less))
    return np.where(leads < 0.0, less, more), np.where(leads < 0.0, more, less)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportNoisyMaxSpec(EpsilonSpec):
    """The index of the score that is largest after noise with the same distribution on each. No true or noisy score is released.

    epsilon is that of one report. The scale of the noise is 2 / epsilon times the sensitivity of a score. With Gumbel noise the choice is
    that of the exponential mechanism (bounded range). With Laplace or exponential noise it costs no more than one number of sensitivity
    epsilon with Laplace noise of scale 1, which is less than the pure epsilon implies. Gaussian noise is not offered: its cost
    grows with the number of candidates. State such noisy scores as a gaussian entry, as if all of them were released.

    Neighbours: all three adjacencies; the statement is for the file's adjacency. A group of k units costs k epsilon. If a unit has several
    records, stated_for says whether epsilon is for one record or for the unit.

    Bounds: upper. `account` shows a lower bound, which choices between two candidates attain. Finite at delta = 0.

    Source: Dwork & Roth 2014 (pure epsilon, Laplace noise); Dong, Durfee, Rogers 2020, arXiv:1909.13830 (Gumbel noise). Proof for Laplace
    and exponential noise: dpcli/mechanisms/choice/noisy_max.py.
    """

    example: ClassVar[Mapping[str, Any]] = {"epsilon": 0.01}
    # What must hold for the cost of a choice by scores. Each premise has a test that violates it.
    premises: ClassVar[Premises] = SCORES

    epsilon: Annotated[float, Key("pure epsilon of one report, in nats", POSITIVE)]
    noise: Annotated[
        Literal["gumbel", "laplace", "exponential"],
        Key("distribution of the noise on each score; gumbel gives the smallest cost, by its bounded range"),
    ] = "laplace"

    def priced(self, epsilon: float) -> Mechanism:
        return ExponentialChoice(epsilon) if self.noise == "gumbel" else noisy_maximum(epsilon, laplace=self.noise == "laplace")


@dataclass(frozen=True, slots=True, kw_only=True)
class PermuteAndFlipSpec(EpsilonSpec):
    """A choice of one of several candidates. They are visited in random order, and each is accepted with probability exp(epsilon (score -
    best) / (2 * sensitivity)).

    epsilon is that of one choice. The sensitivity is the most by which one change moves a score. It is contained in epsilon and is no key.
    The result has the law of the index of the largest score after exponential noise. It costs no more than one number of sensitivity
    epsilon with Laplace noise of scale 1.

    Neighbours: all three adjacencies; the statement is for the file's adjacency. A group of k units costs k epsilon. If a unit has several
    records, stated_for says whether epsilon is for one record or for the unit.

    Bounds: upper, sharper than pure epsilon, and tight for one choice. `account` shows a lower bound, which choices between two candidates
    attain. Finite at delta = 0.

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
    """The queries of a stream that exceed a threshold, until `answers` queries have exceeded it. The noisy values are not released.

    The whole run is epsilon-DP, whatever the number of queries. The noise is Lap(sensitivity / eps1) on the threshold, which is drawn once,
    and Lap(2 answers sensitivity / eps2) on each query. Here eps1 = threshold_share * epsilon and eps2 = epsilon - eps1.

    Neighbours: all three adjacencies; the statement is for the file's adjacency. A group of k units costs k epsilon. If a unit has several
    records, stated_for says whether epsilon is for one record or for the unit.

    Bounds: upper, from the pure epsilon alone. Finite at delta = 0.

    Source: Lyu, Su, Li 2017, arXiv:1603.01699, standard form.
    """

    example: ClassVar[Mapping[str, Any]] = {"epsilon": 0.01, "answers": 2}
    premises: ClassVar[Premises] = (
        SECRET,  # every draw is fresh, and nobody sees it
        moves("No change moves a query by more than the sensitivity for which epsilon is stated.", "release"),
        of_mechanism(
            "The run ends after the stated number of answers above the threshold.",
            "test_answers_without_an_end_above_the_threshold_cost_more",
            "release",
        ),
    )

    epsilon: Annotated[float, Key("pure epsilon of one whole run, in nats", POSITIVE)]
    answers: Annotated[int, Key("number of queries above the threshold after which the run ends", COUNT)] = 1
    threshold_share: Annotated[float, Key("share of epsilon for the noise on the threshold", OPEN_UNIT)] = 0.5

    def priced(self, epsilon: float) -> Mechanism:
        return Pure(epsilon)
