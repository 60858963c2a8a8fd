"""Report noisy max: the index of the largest noisy score."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from dpcli.base.fields import POSITIVE, Key
from dpcli.base.premise import SCORES, Premises
from dpcli.base.stated import multiple
from dpcli.mechanisms.choice.exponential import ExponentialChoice
from dpcli.mechanisms.choice.noisy_maximum import noisy_maximum
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.neighbours import Neighbours
from dpcli.mechanisms.stated.stated import StatedSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportNoisyMaxSpec(StatedSpec):
    """Which of several scores is the largest after noise of the same distribution on each; neither the noisy nor the true scores are
    released.

    epsilon is that of one report: with the sensitivity of each score divided out, the scale of the noise is 2 / epsilon. With Gumbel noise
    it is the exponential mechanism (bounded range). With Laplace or exponential noise it is no worse than one number of sensitivity epsilon
    with Laplace noise of scale 1, which is sharper than pure epsilon.

    Neighbours: those of the statement, all three adjacencies; a group of k has k epsilon. Where a unit has several records, stated_for
    says whom epsilon covers.

    Bounds: upper. Finite at delta = 0.

    Source: Dwork & Roth 2014 (pure epsilon, Laplace noise); Dong, Durfee, Rogers 2020, arXiv:1909.13830 (Gumbel noise). Proof for Laplace
    and exponential noise: dpcli/mechanisms/choice/noisy_maximum.py.
    """

    example: ClassVar[Mapping[str, Any]] = {"epsilon": 0.01}
    premises: ClassVar[Premises] = SCORES

    epsilon: Annotated[float, Key("pure epsilon of one report, in nats", POSITIVE)]
    noise: Annotated[
        Literal["gumbel", "laplace", "exponential"],
        Key("noise added to each score; gumbel has the bounded-range form, which is the sharpest"),
    ] = "laplace"

    def stated(self) -> Mechanism:
        return ExponentialChoice(self.epsilon) if self.noise == "gumbel" else noisy_maximum(self.epsilon)

    def resolve(self, neighbours: Neighbours) -> Mechanism:
        """Both forms scale with the group."""
        return type(self)(epsilon=multiple(self.changes(neighbours), self.epsilon), noise=self.noise).stated()
