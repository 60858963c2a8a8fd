"""What the filters of a ledger rest on, broken: runs that nobody charged, runs that grow, an order that is chosen afterwards."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pytest

from dpcli.file.pipeline.model import Pipeline
from dpcli.file.pipeline.read import parse
from dpcli.ledger import amounts
from dpcli.ledger.filters.filter import Filter, filter_for_cap
from dpcli.ledger.plugin import FILTERS

EPSILON, DELTA, EACH = 1.0, 1e-6, 0.05
HEAD = 'format = 1\n[privacy]\nunit = "user"\nadjacency = "add-remove"\nmax_contributions = 1\n[[mechanism]]\nname = "run"\n'


def pipeline(kind: str, key: str, value: float) -> Pipeline:
    return parse(f'{HEAD}type = "{kind}"\n{key} = {value!r}\n'.encode(), "test.toml")


def charged(rule: Filter) -> int:
    """How many runs of randomised response at EACH the filter lets through."""
    cost, caps = (
        amounts.read(found) for found in (rule.cost(pipeline("pure-dp", "epsilon", EACH), 0.0).amounts, rule.caps(EPSILON, DELTA))
    )
    return int(min(caps[name] // value for name, value in cost.items() if value > Decimal(0)))


def losses_of(runs: int) -> list[tuple[float, float]]:
    """Each loss of so many runs and its probability: of k answers that point one way the loss is (2 k - runs) EACH."""
    true = 1.0 / (1.0 + math.exp(-EACH))
    return [((2 * k - runs) * EACH, math.comb(runs, k) * true**k * (1.0 - true) ** (runs - k)) for k in range(runs + 1)]


def profile(runs: int) -> float:
    """The delta at EPSILON of so many runs."""
    return sum(p * max(0.0, 1.0 - math.exp(EPSILON - loss)) for loss, p in losses_of(runs))


def above_odometer(rule: Filter, runs: int, paid: int) -> float:
    """The probability that the loss of so many runs is above what the odometer says of those that were charged."""
    cost = amounts.read(rule.cost(pipeline("pure-dp", "epsilon", EACH), 0.0).amounts)
    said = rule.odometer({name: value * paid for name, value in cost.items()}, DELTA)
    return sum(p for loss, p in losses_of(runs) if loss > said + 1e-9)


@pytest.mark.parametrize("name", FILTERS)
def test_what_is_not_charged_exceeds_the_cap(name: str) -> None:
    """Ten runs for each that is charged: the cap and the odometer are exceeded."""
    rule = filter_for_cap(name, EPSILON, DELTA, {})
    runs = charged(rule)
    assert profile(runs) <= DELTA < profile(10 * runs)
    assert above_odometer(rule, runs, runs) <= DELTA < above_odometer(rule, 10 * runs, runs)


@pytest.mark.parametrize("name", FILTERS)
def test_a_run_that_grows_by_its_own_output_exceeds_the_cap(name: str) -> None:
    """A run that is charged at what it began with, and asks on, as often again, as long as the answers point one way."""
    true = 1.0 / (1.0 + math.exp(-EACH))
    runs, losses = charged(filter_for_cap(name, EPSILON, DELTA, {})), {0: 1.0}  # answers that point one way less those that do not
    for asked in range(20 * runs):
        going = {lead: chance for lead, chance in losses.items() if lead > 0 or asked < runs}
        losses = {lead: chance for lead, chance in losses.items() if lead not in going}
        for lead, chance in going.items():
            for step, share in ((1, true), (-1, 1.0 - true)):
                losses[lead + step] = losses.get(lead + step, 0.0) + chance * share
    found = sum(chance * max(0.0, 1.0 - math.exp(EPSILON - lead * EACH)) for lead, chance in losses.items())
    assert profile(runs) <= DELTA < found


def test_an_order_that_is_chosen_afterwards_bounds_no_divergence() -> None:
    """A coin decides between noise that just fits at a low order and an answer that just fits at a high one: whoever may choose the order
    afterwards calls each within epsilon, and both together are beyond the cap of either order."""
    fitting = type(filter_for_cap("rdp", EPSILON, DELTA, {}))
    caps = {order: float(fitting(order).caps(EPSILON, DELTA)["rdp"]) for order in (20.0, 200.0)}
    (low, least), (high, most) = caps.items()

    def noise(order: float) -> float:
        return order * least / low  # Gaussian: in proportion to the order

    def answer(order: float) -> float:
        """Randomised response at epsilon = most, which is above its divergence at every order."""
        return float(np.logaddexp(order * most, (1.0 - order) * most) - np.logaddexp(0.0, most)) / (order - 1.0)

    def either(order: float) -> float:
        return float(np.logaddexp(*((order - 1.0) * found(order) for found in (noise, answer))) - np.log(2.0)) / (order - 1.0)

    assert noise(low) <= caps[low] and answer(high) <= caps[high]
    assert all(either(order) > 1.5 * cap for order, cap in caps.items())
    sigma = np.sqrt(low / (2.0 * least)).item()
    for order in caps:
        cost = fitting(order).cost(pipeline("gaussian", "noise_multiplier", sigma), DELTA)
        assert float(cost.amounts["rdp"]) == pytest.approx(noise(order))
