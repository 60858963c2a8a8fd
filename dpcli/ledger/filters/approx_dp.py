"""The basic filter: epsilons and deltas add up, whatever is run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from dpcli.base.premise import Premises
from dpcli.ledger.amounts import Amounts, stated, upward, written, written_down
from dpcli.ledger.filters.filter import PREMISES, Cost, described

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Pipeline


@dataclass(frozen=True, slots=True)
class ApproxFilter:
    """Stops before the sum of epsilons or the sum of deltas exceeds its cap."""

    name: str = "approx-dp"
    source: str = "Rogers et al. 2016, arXiv:1605.08294, for basic composition"
    currency: ClassVar[tuple[str, ...]] = ("epsilon", "delta")
    premises: ClassVar[Premises] = PREMISES
    ranges: ClassVar[Mapping[str, tuple[float, float]]] = {}
    summary: ClassVar[str] = "epsilons and deltas add up; any run, few of them"
    labels: ClassVar[Mapping[str, str]] = {}
    group_power: ClassVar[int | None] = 1

    @classmethod
    def chosen(cls, epsilon: float, delta: float) -> ApproxFilter:
        """The filter for a cap; it has no parameters."""
        return cls()

    def parameters(self) -> Mapping[str, float]:
        return {}

    def caps(self, epsilon: float, delta: float) -> Mapping[str, str]:
        return {"epsilon": written_down(stated(epsilon)), "delta": written_down(stated(delta))}

    def cost(self, pipeline: Pipeline, delta: float) -> Cost:
        epsilon, accountant = described(pipeline, delta)
        return Cost({"epsilon": written(epsilon), "delta": written(delta)}, f"epsilon at delta = {delta!r} by {accountant}")

    def pure_room(self, left: float) -> float:
        return left  # what somebody states is what is charged

    def epsilon(self, amounts: Amounts, delta: float) -> float:
        return upward(amounts["epsilon"])
