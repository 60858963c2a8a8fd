"""Huge stated epsilons: the report never says less for a larger statement, where formulas overflow.

And the Renyi curve of a choice of bounded range at all orders and sizes, against its worst parameter t in 60 digits.
"""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

from dpcli.analysis.account import account
from dpcli.base.lazy import load
from dpcli.base.registry import MECHANISMS
from dpcli.file.pipeline.model import Entry, Pipeline, Privacy
from dpcli.mechanisms.choice.exponential import BoundedRange
from dpcli.mechanisms.neighbours import Adjacency
from tests.cases import of_each

STATING = [name for name in MECHANISMS if "epsilon" in load(MECHANISMS[name]).example]


def bound(name: str, epsilon: float) -> float:
    cls = load(MECHANISMS[name])
    entry = Entry("one", name, cls(**{**cls.example, "epsilon": epsilon}), 1)
    return account(Pipeline(Privacy(Adjacency.ZERO_OUT, unit="example", delta=1e-6), (entry,))).upper


@pytest.mark.sampled(2, 3)
@pytest.mark.parametrize("name", STATING)
def test_no_epsilon_falls_as_what_is_stated_grows(name: str) -> None:
    found = [bound(name, 10.0**power) for power in (0, 5, 300)]
    assert found == sorted(found) and found[0] > 0.5


@of_each("epsilon", [1e-12, 1e-6, 1e-2, 0.7, 30.0, 800.0, 1e4, 1e7])
def test_the_renyi_bound_of_a_bounded_range_holds_at_every_order(epsilon: float) -> None:
    """Against the worst t in high precision, down to orders that are hardly above 1 and up to those where the loss itself remains."""
    z = 2.0 ** np.arange(-40.0, 61.0, 5.0)
    z = (1.0 + z) - 1.0  # what an order says of it
    z = z[z > 0.0]
    found = BoundedRange(epsilon).rdp(1.0 + z)
    with mp.workdps(60):
        for above_one, value in zip(z, found, strict=True):
            exact = worst(mp.mpf(epsilon), mp.mpf(float(above_one)))
            assert exact <= value
            assert value <= exact * (1 + 1e-9 + 3e-15 * epsilon) or value == epsilon


def worst(epsilon: mp.mpf, z: mp.mpf) -> mp.mpf:
    """max over t of log(p e^(z t) + (1 - p) e^(z (t - eps))) / z."""

    def moment(t: mp.mpf) -> mp.mpf:
        p = (mp.exp(epsilon) - mp.exp(t)) / mp.expm1(epsilon)
        return mp.log(p * mp.exp(z * t) + (1 - p) * mp.exp(z * (t - epsilon)))

    at = mp.log(z * (mp.exp(epsilon) - mp.exp(-z * epsilon)) / ((z + 1) * -mp.expm1(-z * epsilon)))
    return moment(min(max(at, mp.mpf(0)), epsilon)) / z
