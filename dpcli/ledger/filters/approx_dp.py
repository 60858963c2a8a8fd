"""The filters whose currency is (epsilon, delta): basic composition, and the constants of advanced composition."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from dpcli.base.errors import InputError
from dpcli.ledger.amounts import EXACT, Amounts, stated, upward, written, written_down
from dpcli.ledger.filters.filter import Cost, Filter, described, finite, floored, largest, pure_within, steps_of

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Pipeline


@dataclass(frozen=True, slots=True)
class ApproxFilter(Filter):
    """A filter that stops before the sum of epsilons or the sum of deltas exceeds its cap."""

    name: ClassVar[str] = "approx-dp"
    source: ClassVar[str] = "Rogers et al. 2016, arXiv:1605.08294, for basic composition"
    currency: ClassVar[tuple[str, ...]] = ("epsilon", "delta")
    summary: ClassVar[str] = "epsilons and deltas add up; any run, few of them"
    needs_delta: ClassVar[bool] = False
    group_power: ClassVar[int | None] = 1

    def caps(self, epsilon: float, delta: float) -> Mapping[str, str]:
        return {"epsilon": written_down(stated(epsilon)), "delta": written_down(stated(delta))}

    def cost(self, pipeline: Pipeline, delta: float) -> Cost:
        epsilon, accountant = described(pipeline, delta)
        return Cost({"epsilon": written(epsilon), "delta": written(delta)}, f"epsilon at delta = {delta!r} by {accountant}")

    def pure_room(self, left: float) -> float:
        return left  # what somebody states is what is charged

    def epsilon(self, amounts: Amounts, delta: float) -> float:
        return upward(amounts["epsilon"])


@dataclass(frozen=True, slots=True)
class AdvancedFilter(Filter):
    """A filter that stops before the deltas exceed delta - slack, or S + 2 sqrt(S log(1/slack)) > epsilon, S the sum of epsilon^2 / 2."""

    slack: float
    name: ClassVar[str] = "advanced"
    source: ClassVar[str] = "Whitehouse et al. 2023, arXiv:2203.05481"
    currency: ClassVar[tuple[str, ...]] = ("half_squares", "delta")
    ranges: ClassVar[Mapping[str, tuple[float, float]]] = {"slack": (5e-324, 1.0 - 2.0**-53)}
    summary: ClassVar[str] = "squares of epsilon; any run, many small ones"
    labels: ClassVar[Mapping[str, str]] = {"half_squares": "epsilon^2/2"}

    @classmethod
    def chosen(cls, epsilon: float, delta: float, slack: float | None = None) -> AdvancedFilter:
        """Return the filter whose conversion takes `slack` of delta; half of it where None."""
        cls.refuse_delta(delta)
        slack = 0.5 * delta if slack is None else slack
        if not 0.0 < slack <= delta:
            raise InputError(f"--slack: expected a number in (0, delta], found {slack!r}")
        return cls(slack)

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
