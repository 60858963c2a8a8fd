"""Staircase noise in a package outside dpcli, as an example of a plugin that adds a mechanism type."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from dpcli.base.fields import POSITIVE, Key
from dpcli.base.plugin import Plugin
from dpcli.base.premise import AUTHOR, SECRET, Premise, Premises
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.stated.atoms import AtomicLoss
from dpcli.mechanisms.stated.pure_and_approx import Pure
from dpcli.mechanisms.stated.stated_spec import StatedSpec


@dataclass(frozen=True, slots=True)
class Staircase(Mechanism):
    """Noise whose density falls by e^-epsilon from step to step, each as wide as the sensitivity, at a share gamma of the step.

    A shift by the sensitivity meets three losses: epsilon, -epsilon and, between the first two edges on either side of the middle, 0 where
    gamma is not a half.

    Source: Geng and Viswanath 2014, arXiv:1212.1186, Theorem 4.
    """

    epsilon: float
    gamma: float

    def approx_dp(self, delta: float) -> float:
        return Pure(self.epsilon).approx_dp(delta)

    def zcdp(self) -> float:
        return Pure(self.epsilon).zcdp()

    def losses(self) -> tuple[AtomicLoss]:
        """Of the two-point pair, which dominates every pair that is epsilon-DP."""
        log_kept = -math.log1p(math.exp(-self.epsilon))
        return (AtomicLoss((log_kept, log_kept - self.epsilon), (-self.epsilon, self.epsilon)),)


@dataclass(frozen=True, slots=True, kw_only=True)
class StaircaseSpec(StatedSpec):
    """A real number with staircase noise, which is epsilon-DP for one change that moves it by at most the sensitivity.

    Neighbours: those of the file. Several changes cost as much as so many steps.

    Bounds: upper. Finite at delta = 0.

    Source: Geng and Viswanath 2014, arXiv:1212.1186.
    """

    example: ClassVar[Mapping[str, Any]] = {"epsilon": 0.5}
    premises: ClassVar[Premises] = (
        SECRET,
        Premise("The number moves by no more than was divided out.", AUTHOR, "test_staircase.py::test_it"),
    )

    epsilon: Annotated[float, Key("pure epsilon of one release, in nats", POSITIVE)]
    gamma: Annotated[float, Key("share of a step before the density falls", POSITIVE)] = 0.5

    def stated(self) -> Mechanism:
        return Staircase(self.epsilon, self.gamma)


PLUGIN = Plugin(mechanisms={"staircase": "staircase:StaircaseSpec"}, references={"staircase": "staircase_exam:REFERENCES"})
