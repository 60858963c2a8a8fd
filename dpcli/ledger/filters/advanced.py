"""The filter with the constants of advanced composition: squares of epsilon add up, and deltas beside them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from dpcli.base.errors import InputError
from dpcli.base.premise import Premises
from dpcli.ledger.amounts import EXACT, Amounts, stated, upward, written, written_down
from dpcli.ledger.filters.filter import PREMISES, Cost, described, finite, floored, largest, pure_within, require_delta, steps_of

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Pipeline


@dataclass(frozen=True, slots=True)
class AdvancedFilter:
    """Stops before the sum S of epsilon^2 / 2 gives S + 2 sqrt(S log(1/slack)) above epsilon, or the deltas exceed delta - slack."""

    slack: float
    name: str = "advanced"
    source: str = "Whitehouse et al. 2023, arXiv:2203.05481"
    currency: ClassVar[tuple[str, ...]] = ("half_squares", "delta")
    premises: ClassVar[Premises] = PREMISES
    ranges: ClassVar[Mapping[str, tuple[float, float]]] = {"slack": (5e-324, 1.0 - 2.0**-53)}
    summary: ClassVar[str] = "squares of epsilon; any run, many small ones"
    labels: ClassVar[Mapping[str, str]] = {"half_squares": "epsilon^2/2"}
    group_power: ClassVar[int | None] = None

    @classmethod
    def chosen(cls, epsilon: float, delta: float, slack: float | None = None) -> AdvancedFilter:
        """The filter whose conversion takes `slack` of delta; half of it where None."""
        require_delta(delta, "advanced")
        slack = 0.5 * delta if slack is None else slack
        if not 0.0 < slack <= delta:
            raise InputError(f"--slack: expected a number in (0, delta], found {slack!r}")
        return cls(slack)

    def parameters(self) -> Mapping[str, float]:
        return {"slack": self.slack}

    def caps(self, epsilon: float, delta: float) -> Mapping[str, str]:
        half_squares = largest(lambda total: self._epsilon(total) <= epsilon, max(1.0, 2.0 * epsilon))
        return {
            "half_squares": written_down(half_squares),
            "delta": written_down(EXACT.subtract(stated(delta), stated(self.slack))),
        }

    def cost(self, pipeline: Pipeline, delta: float) -> Cost:
        epsilon, accountant = described(pipeline, delta)
        half_square = finite(floored(0.5 * epsilon * epsilon * (1.0 + 1e-15), steps_of(pipeline)), "square")
        detail = f"epsilon {epsilon:.6g} at delta = {delta!r} by {accountant}"
        return Cost({"half_squares": written(half_square), "delta": written(delta)}, detail)

    def pure_room(self, left: float) -> float:
        return pure_within(lambda epsilon: 0.5 * epsilon * epsilon, left)

    def epsilon(self, amounts: Amounts, delta: float) -> float:
        return self._epsilon(upward(amounts["half_squares"]))

    def _epsilon(self, total: float) -> float:
        return (total + 2.0 * math.sqrt(total * -math.log(self.slack))) * (1.0 + 1e-14)
