"""The zCDP filter: rhos add up."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from dpcli.base.premise import Premises
from dpcli.ledger.amounts import Amounts, upward, written, written_down
from dpcli.ledger.filters.filter import PREMISES, Cost, finite, floored, largest, pure_within, require_delta, steps_of
from dpcli.numerics.closed.conversion import zcdp_epsilon

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Pipeline


@dataclass(frozen=True, slots=True)
class ZcdpFilter:
    """Stops before the sum of rho exceeds its cap: the whole is then cap-zCDP.

    At each order a, rho-zCDP bounds the Renyi divergence by a rho, and the Renyi filter at that order adds these up.
    """

    name: str = "zcdp"
    source: str = "Feldman & Zrnic 2021, arXiv:2008.11193, at every order; Whitehouse et al. 2023, arXiv:2203.05481"
    currency: ClassVar[tuple[str, ...]] = ("rho",)
    premises: ClassVar[Premises] = PREMISES
    ranges: ClassVar[Mapping[str, tuple[float, float]]] = {}
    summary: ClassVar[str] = "rho; for Gaussian and pure mechanisms without sampling"
    labels: ClassVar[Mapping[str, str]] = {}
    group_power: ClassVar[int | None] = 2

    @classmethod
    def chosen(cls, epsilon: float, delta: float) -> ZcdpFilter:
        """The filter for a cap; it has no parameters."""
        require_delta(delta, "zcdp")
        return cls()

    def parameters(self) -> Mapping[str, float]:
        return {}

    def caps(self, epsilon: float, delta: float) -> Mapping[str, str]:
        return {"rho": written_down(largest(lambda rho: self._epsilon(rho, delta) <= epsilon, 1e9))}

    def cost(self, pipeline: Pipeline, delta: float) -> Cost:
        from dpcli.accountants.zcdp import ZcdpProfile

        steps = steps_of(pipeline)
        rho = finite(floored(ZcdpProfile(steps).rho(), steps), "rho")
        return Cost({"rho": written(rho)}, "sum of rho")

    def pure_room(self, left: float) -> float:
        return pure_within(lambda epsilon: epsilon * math.tanh(0.5 * epsilon), left)

    def epsilon(self, amounts: Amounts, delta: float) -> float:
        return self._epsilon(upward(amounts["rho"]), delta) if amounts["rho"] else 0.0

    def _epsilon(self, rho: float, delta: float) -> float:
        return zcdp_epsilon(rho, delta) * (1.0 + 1e-13)
