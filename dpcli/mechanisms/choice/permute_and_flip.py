"""Permute-and-flip: a choice that is never worse than the exponential mechanism's; pure epsilon."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from dpcli.fields import POSITIVE, Key
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.neighbours import Neighbours
from dpcli.mechanisms.stated.stated import StatedSpec
from dpcli.mechanisms.stated.two_point import Pure


@dataclass(frozen=True, slots=True, kw_only=True)
class PermuteAndFlipSpec(StatedSpec):
    """Visits candidates in random order and accepts each with probability exp(epsilon (score - best) / (2 * sensitivity)).

    epsilon-DP (McKenna & Sheldon 2020, arXiv:2010.12603); no bounded-range proof is known, so none is claimed.
    """

    example: ClassVar[Mapping[str, Any]] = {"epsilon": 0.01}

    epsilon: Annotated[float, Key("pure epsilon of one choice, in nats", POSITIVE)]

    def stated(self) -> Mechanism:
        return Pure(self.epsilon)

    def resolve(self, neighbours: Neighbours) -> Mechanism:
        return Pure(self.epsilon * self.changes(neighbours))
