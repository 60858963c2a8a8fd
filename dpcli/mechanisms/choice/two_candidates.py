"""The choice between two candidates by the exponential mechanism: what each member of its family is."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.stated.atoms import AtomicLoss


@dataclass(frozen=True, slots=True)
class TwoCandidates(Mechanism):
    """The loss is t or t - epsilon, 0 < t < epsilon (Dong, Durfee, Rogers 2020, arXiv:1909.13830).

    Attained: by scores of which one rises and the other falls by all of the sensitivity, from a lead that gives the first candidate
    probability (1 - e^{t - epsilon}) / (1 - e^{-epsilon}). Between D' and D other scores have this pair: of the two directions one is
    enough for a lower bound.
    """

    epsilon: float
    t: float

    def attained(self) -> bool:
        return True

    def losses(self) -> tuple[AtomicLoss]:
        whole = math.log(-math.expm1(-self.epsilon))
        high = math.log(-math.expm1(self.t - self.epsilon)) - whole - self.t
        return (AtomicLoss((high, math.log(-math.expm1(-self.t)) - whole), (self.t, self.t - self.epsilon)),)
