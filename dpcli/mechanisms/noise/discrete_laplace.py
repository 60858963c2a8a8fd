"""Discrete Laplace noise, also called two-sided geometric noise, on integers.

`DiscreteLaplaceSpec` has the keys, and `DiscreteLaplace` is the cost of an integer, or of a vector of integers, that moves by at most the
L1 sensitivity s. The pair has one atom for each integer from 0 to s, up to MAX_ATOMS.

A mechanism has upper bounds on its cost (mechanism.py): `approx_dp` returns epsilon at a delta and `zcdp` rho. `losses` returns the privacy
losses log dP/dQ of dominating pairs (P, Q). `attained` says whether some data are claimed to attain these pairs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from dpcli.base.fields import COUNT, POSITIVE, Key
from dpcli.base.premise import OWN_NOISE, SECRET, Premises, moves
from dpcli.base.stated import quotient  # exact for stated decimals, rounded up once
from dpcli.base.values import dataclass
from dpcli.mechanisms.mechanism import Mechanism, PrivacyLoss
from dpcli.mechanisms.neighbours import Neighbours
from dpcli.mechanisms.noise.additive import LARGEST_RATIO, NoPrivacy  # the largest sensitivity over noise
from dpcli.mechanisms.spec import CostEvidence, Spec
from dpcli.mechanisms.stated.atoms import AtomicLoss, TwoPointLoss
from dpcli.mechanisms.stated.pure_and_approx import Pure
from dpcli.numerics.roots import bracket_root

# Speed and accuracy: largest sensitivity for which the pair has an atom for each integer. Above it, a pair with fewer atoms dominates
# (`DiscreteLaplace`).
MAX_ATOMS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteLaplaceSpec(Spec):
    """Whole numbers plus two-sided geometric noise, with probability proportional to e^{-|x| / scale} on the integers.

    sensitivity is the L1 sensitivity of the integer, or vector of integers, under the file's adjacency and unit. Only a group multiplies
    it. scale is in units of the query.

    Neighbours: all three adjacencies. There is no Poisson sampling under replace-one or zero-out, because the keys do not bound one
    record's contribution.

    Bounds: the pure epsilon is sensitivity / scale. Bounds are exact for one integer that moves by at most 4096. They are upper bounds for
    larger moves and for vectors. Finite at delta = 0.

    Source: Ghosh, Roughgarden, Sundararajan 2009, arXiv:0811.2841.
    """

    example: ClassVar[Mapping[str, Any]] = {"scale": 90.0, "sensitivity": 1}
    evidence: ClassVar[CostEvidence] = CostEvidence.PRICED
    # What must hold for the cost, each with a test that violates it, and the commands that enforce it, if any.
    premises: ClassVar[Premises] = (
        SECRET,  # every draw is fresh, and nobody sees it
        moves("No change moves the whole numbers by more than sensitivity (L1).", "release"),
        OWN_NOISE,  # no two queries share noise
    )

    scale: Annotated[float, Key("scale of the noise e^{-|x|/scale}", POSITIVE)]
    # claim=True: dpcli does not enforce what the key states.
    sensitivity: Annotated[
        int, Key("stated L1 sensitivity of the integer, or vector of integers, under the file's adjacency", COUNT, claim=True)
    ]

    def resolve(self, neighbours: Neighbours) -> Mechanism:
        sensitivity = self.sensitivity * neighbours.group
        ratio = sensitivity / self.scale if self.scale > sensitivity / LARGEST_RATIO else math.inf
        return DiscreteLaplace(self.scale, sensitivity) if ratio <= LARGEST_RATIO else NoPrivacy(ratio)


@dataclass(frozen=True, slots=True)
class DiscreteLaplace(Mechanism):
    """Noise on an integer with probability proportional to e^{-|x|/scale}.

    Let s be the integer sensitivity and a = 1/scale. The loss is (2x - s) a for 0 <= x <= s, and all mass beyond is at the two ends, so
    there are s + 1 outcomes. For s = 1 this is binary randomised response with epsilon a. An integer that moves by s attains the pair, for
    s up to MAX_ATOMS. For a larger s, one move by c has epsilon c a, so s moves by 1 are dominated by s / c moves, rounded up, with noise
    of scale / c. rho is that of the two-point pair, which dominates.

    A vector with L1 sensitivity s has the same bounds.

    1. Go from one dataset to the other by s steps, each of which changes one coordinate by 1.
    2. The likelihood ratio of a step is e^a or e^-a. With r = e^-a, it is e^a with probability r/(1+r) before the step.
    3. So an event of probability y before the step has at most the probability g(y) after it, where
       g(y) = e^a min(y, r/(1+r)) + e^-a max(0, y - r/(1+r)). g increases, and belongs to the best test of that randomised response.
    4. In one coordinate, the thresholds {x >= c}, with a random choice between two of them, attain g in every step.

    Source: Ghosh, Roughgarden, Sundararajan 2009, arXiv:0811.2841.
    """

    scale: float
    sensitivity: int

    @property
    def epsilon(self) -> float:
        """The pure epsilon, sensitivity / scale."""
        return quotient(self.sensitivity, self.scale)

    def approx_dp(self, delta: float) -> float:
        """Return epsilon from the exact delta(eps) = 1 - (r^{s-x+1} + e^eps r^x)/(1 + r).

        Here r = e^-a, and x is the first outcome whose loss exceeds eps.
        """
        a, s = 1.0 / self.scale, self.sensitivity
        if delta == 0.0:
            return self.epsilon

        def excess(epsilon: float) -> float:
            x = min(math.floor(0.5 * (epsilon / a + s)) + 1, s)
            exact = 1.0 - (math.exp(-(s - x + 1) * a) + math.exp(min(epsilon - x * a, 0.0))) / (1.0 + math.exp(-a))
            return exact + 4e-16 - delta  # 4e-16 covers the rounding of `exact`

        if excess(0.0) <= 0.0:
            return 0.0
        _, upper = bracket_root(excess, 0.0, self.epsilon)
        return min(upper * (1.0 + 2e-15), self.epsilon)  # the factor covers rounding

    def zcdp(self) -> float:
        return Pure(self.epsilon).zcdp()

    def attained(self) -> bool:
        return self.sensitivity <= MAX_ATOMS

    def losses(self) -> tuple[PrivacyLoss]:
        a, s = 1.0 / self.scale, self.sensitivity
        if s == 1:
            return (TwoPointLoss(self.epsilon),)
        if s > MAX_ATOMS:
            c = math.ceil(s / MAX_ATOMS)  # s moves by 1 count as s / c moves by c
            return DiscreteLaplace(self.scale / c, math.ceil(s / c)).losses()
        log_end, log_middle = -math.log1p(math.exp(-a)), math.log(-math.expm1(-a)) - math.log1p(math.exp(-a))
        reference = [log_end, *(log_middle - x * a for x in range(1, s)), log_end - s * a]
        return (AtomicLoss(tuple(reference), tuple((2 * x - s) * a for x in range(s + 1))),)
