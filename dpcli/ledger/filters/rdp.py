"""The Renyi filter: divergences at one order, chosen when the ledger is opened, add up."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from dpcli.base.errors import InputError
from dpcli.base.premise import Premise, Premises
from dpcli.ledger.amounts import Amounts, upward, written, written_down
from dpcli.ledger.filters.filter import PREMISES, Cost, finite, floored, largest, pure_within, require_delta, steps_of
from dpcli.numerics.arrays import np
from dpcli.numerics.closed.conversion import renyi_epsilon
from dpcli.numerics.roots import minimise_scalar

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Pipeline


@dataclass(frozen=True, slots=True)
class RdpFilter:
    """Stops before the sum of the Renyi divergences at `order` exceeds its cap.

    The order must not depend on what is run: minimising over orders afterwards is no filter.
    """

    order: float
    name: str = "rdp"
    source: str = "Feldman & Zrnic 2021, arXiv:2008.11193; conversion Balle et al. 2020, arXiv:1905.09982, Theorem 21"
    currency: ClassVar[tuple[str, ...]] = ("rdp",)
    premises: ClassVar[Premises] = (
        *PREMISES,
        Premise(
            "The order was chosen before the first run.",
            "the ledger, whose opening entry states it",
            "tests/premises/test_filters.py::test_an_order_that_is_chosen_afterwards_bounds_no_divergence",
        ),
    )
    ranges: ClassVar[Mapping[str, tuple[float, float]]] = {"order": (1.0 + 1e-6, 1e6)}
    summary: ClassVar[str] = "Renyi DP at one order; for DP-SGD and mixtures of mechanisms"
    labels: ClassVar[Mapping[str, str]] = {"rdp": "Renyi divergence"}
    group_power: ClassVar[int | None] = None

    @classmethod
    def chosen(cls, epsilon: float, delta: float, order: float | None = None) -> RdpFilter:
        """The filter at `order`; where None, the order at which Gaussian-like runs get the most out of the cap."""
        require_delta(delta, "rdp")
        if order is None:
            order = float(f"{1.0 + _best(epsilon, math.log(delta)):.4g}")
        if not 1.0 + 1e-6 <= order <= 1e6:
            raise InputError(f"--order: expected a number from 1.000001 to 10^6, found {order!r}")
        return cls(order)

    def parameters(self) -> Mapping[str, float]:
        return {"order": self.order}

    def caps(self, epsilon: float, delta: float) -> Mapping[str, str]:
        cap = largest(lambda rdp: self._epsilon(rdp, delta) <= epsilon, epsilon + 1e9)
        if cap == 0.0:
            raise InputError(
                f"order {self.order:g}: expected an order whose conversion leaves something of epsilon = {epsilon:g} at delta = {delta:g}, "
                "found one that spends more on the conversion alone; a larger order may do"
            )
        return {"rdp": written_down(cap)}

    def cost(self, pipeline: Pipeline, delta: float) -> Cost:
        from dpcli.accountants.renyi_curve import renyi_curve

        steps = steps_of(pipeline)
        rdp = floored(float(renyi_curve(steps).at(np.array([self.order]))[0]), steps)
        return Cost(
            {"rdp": written(finite(rdp, f"Renyi divergence at order {self.order:g}"))}, f"Renyi divergence at order {self.order:g}"
        )

    def pure_room(self, left: float) -> float:
        """Of randomised response at the order a: log(p^a q^(1-a) + q^a p^(1-a)) / (a - 1) with p = 1/(1 + e^-epsilon), q = 1 - p."""
        above_one = self.order - 1.0

        def cost(epsilon: float) -> float:
            log_p = -math.log1p(math.exp(-epsilon))
            return (log_p + math.log1p(math.exp(-(2.0 * above_one + 1.0) * epsilon))) / above_one + epsilon

        return pure_within(cost, left)

    def epsilon(self, amounts: Amounts, delta: float) -> float:
        return self._epsilon(upward(amounts["rdp"]), delta) if amounts["rdp"] else 0.0

    def _epsilon(self, rdp: float, delta: float) -> float:
        return renyi_epsilon(self.order - 1.0, rdp, math.log(delta)) * (1.0 + 1e-14) + 1e-15


def _best(epsilon: float, log_delta: float) -> float:
    """order - 1 with the largest cap over order, which is the rho that a Gaussian could spend."""
    found: list[tuple[float, float]] = []

    def negative_rho(z: float) -> float:
        cap = epsilon + math.log1p(1.0 / z) + (log_delta + math.log1p(z)) / z
        found.append((-cap / (1.0 + z), z))
        return found[-1][0]

    minimise_scalar(negative_rho, 2.0 * max(-log_delta, 1e-3) / epsilon)
    return min(max(min(found)[1], 1e-5), 1e5)
