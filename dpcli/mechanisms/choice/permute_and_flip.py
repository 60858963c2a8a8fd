"""Permute-and-flip: a choice that is never worse than the exponential mechanism's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from dpcli.base.fields import POSITIVE, Key
from dpcli.base.premise import SCORES, Premises
from dpcli.base.stated import multiple
from dpcli.mechanisms.choice.noisy_maximum import noisy_maximum
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.neighbours import Neighbours
from dpcli.mechanisms.stated.stated import StatedSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class PermuteAndFlipSpec(StatedSpec):
    """One of several candidates: they are visited in random order, and each is accepted with probability exp(epsilon (score - best) / (2 *
    sensitivity)).

    sensitivity, by which one change moves each score at most, is divided out in the statement: epsilon is that of one choice. It is the
    index of the largest score after exponential noise, and no worse than one number of sensitivity epsilon with Laplace noise of scale 1.

    Neighbours: those of the statement, all three adjacencies; a group of k has k epsilon. Where a unit has several records, stated_for
    says whom epsilon covers.

    Bounds: upper, sharper than pure epsilon. Finite at delta = 0.

    Source: McKenna & Sheldon 2020, arXiv:2010.12603; exponential noise: Ding, Kifer, Sayed E., Steinke, Wang, Xiao, Zhang 2021,
    arXiv:2105.07260. Proof: dpcli/mechanisms/choice/noisy_maximum.py.
    """

    example: ClassVar[Mapping[str, Any]] = {"epsilon": 0.01}
    premises: ClassVar[Premises] = SCORES

    epsilon: Annotated[float, Key("pure epsilon of one choice, in nats", POSITIVE)]

    def stated(self) -> Mechanism:
        return noisy_maximum(self.epsilon)

    def resolve(self, neighbours: Neighbours) -> Mechanism:
        return noisy_maximum(multiple(self.changes(neighbours), self.epsilon))
