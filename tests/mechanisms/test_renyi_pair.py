"""Entries of which only a Renyi curve is known, next to others with a pair: the pair that is made from the curve (`RenyiPairLoss`) covers
the Gaussian and every random release that have this curve, and costs little more than they do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random

import numpy as np
import pytest

from dpcli.accountants.directions import directions
from dpcli.accountants.exact import ExactProfile
from dpcli.accountants.pld import PldProfile
from dpcli.accountants.rdp import ACCOUNTANT as RDP
from dpcli.analysis.account import account
from dpcli.base.errors import NotRepresentable
from dpcli.exam.subjects import SEED
from dpcli.mechanisms.noise.gaussian import Gaussian
from dpcli.mechanisms.noise.laplace import Laplace
from dpcli.mechanisms.stated.pure_and_approx import Pure, approx
from dpcli.mechanisms.stated.renyi import Renyi, RenyiPairLoss, Zcdp
from dpcli.numerics.arrays import Array
from dpcli.numerics.closed.normal import gaussian_delta
from dpcli.numerics.tails import single_epsilon, single_log_delta
from tests.oracles import hockey_stick, renyi
from tests.strategies import entry, pipeline

DELTAS = (1e-2, 1e-6, 1e-12, 1e-40)
ORDERS = (1.2, 2.0, 5.0, 20.0)


@pytest.mark.parametrize("rho", [1e-8, 1e-3, 0.3, 5.0])
def test_the_pair_of_rho_is_between_a_gaussian_and_the_conversion(rho: float) -> None:
    """A Gaussian of mu = sqrt(2 rho) has just these divergences; one order's conversion is what the pair is made of."""
    loss = RenyiPairLoss(((Zcdp(rho), 1),))
    for delta in DELTAS:
        epsilon, converted = single_epsilon(loss, math.log(delta))[1], Zcdp(rho).approx_dp(delta)
        assert gaussian_delta(math.sqrt(2.0 * rho), epsilon)[0] <= delta
        assert epsilon <= converted * (1.0 + 3e-4) + 1e-12
        if delta <= 1e-6:
            assert epsilon >= converted * (1.0 - 1e-3)
    assert single_log_delta(loss, 0.0)[1] >= math.log(gaussian_delta(math.sqrt(2.0 * rho), 0.0)[0])


@pytest.mark.parametrize("rho", [1e-3, 0.05, 0.5])
def test_beside_noise_it_covers_the_gaussian_that_it_may_be(rho: float) -> None:
    for rest in ((Laplace(0.5), 6), (Gaussian(1.0), 1), (Pure(0.4), 5)):
        true = PldProfile((rest, (Gaussian(math.sqrt(2.0 * rho)), 1))).epsilon(1e-6).lower
        found = PldProfile((rest, (Zcdp(0.4 * rho), 1), (Zcdp(0.3 * rho), 2))).epsilon(1e-6).upper
        summed = RDP.compose((rest, (Zcdp(rho), 1))).epsilon(1e-6).upper
        assert true is not None and true <= found <= true * 1.25
        assert found <= summed * 1.01 and (rho > 0.01 or rest[0] != Gaussian(1.0) or found < 0.95 * summed)


def two(random: Random) -> tuple[Array, Array]:
    """Draw two laws on three outcomes."""
    p, q = (np.array([random.uniform(0.05, 1.0) for _ in range(3)]) for _ in range(2))
    return p / p.sum(), q / q.sum()


def test_whatever_has_the_stated_curve_is_covered() -> None:
    """Random releases of that curve, chosen by the outcome of randomised response, or before it."""
    random = Random(SEED)
    response = np.array([math.exp(0.7), 1.0]) / (1.0 + math.exp(0.7))
    for _ in range(5):
        members = [two(random) for _ in range(2)]
        values = tuple(max(max(renyi(p, q, order), renyi(q, p, order)) for p, q in members) for order in ORDERS)
        profile = PldProfile(((Renyi(ORDERS, values), 2), (Pure(0.7), 1)))
        (p, q), (r, s) = members
        seen = [
            np.concatenate((a * np.kron(x, x), b * np.kron(y, y))) for a, b, x, y in ((*response, p, r), (*response[::-1], q, s))
        ]
        for epsilon in (0.05, 0.6, 1.5):
            upper = profile.delta(epsilon).upper
            for one, other in (seen, seen[::-1]):
                assert hockey_stick(one, other, epsilon) <= upper * (1.0 + 1e-9), SEED


@pytest.mark.parametrize("order", [1.5, 3.7, 64.0])
def test_a_single_order_is_used_to_its_last_digit(order: float) -> None:
    loss = RenyiPairLoss(((Renyi((order,), (0.2,)), 1),))
    log_delta = max(-20.0, -100.0 * (order - 1.0))
    exact = 0.2 + math.log1p(-1.0 / order) - (log_delta + math.log(order)) / (order - 1.0)
    assert single_epsilon(loss, log_delta)[1] == pytest.approx(exact, rel=2e-4)


def test_what_has_neither_still_says_why() -> None:
    with pytest.raises(NotRepresentable, match="no dominating pair"):
        directions(((Zcdp(0.1), 1),))
    assert directions(((approx(0.1, 1e-9), 1), (Zcdp(0.1), 1)))
    with pytest.raises(NotRepresentable, match="infinite losses"):
        ExactProfile(((Gaussian(1.0), 1), (Zcdp(0.1), 1))).epsilon(1e-6)


@dataclass(frozen=True, slots=True)
class Claiming(Zcdp):
    """A rho that claims to be attained, and has no pair."""

    def attained(self) -> bool:
        return True


def test_a_bound_never_stands_for_what_claims_to_be_attained() -> None:
    """Its lower end would be one on a pair that no data attain."""
    with pytest.raises(NotRepresentable):
        directions(((Gaussian(1.0), 1), (Claiming(0.1), 1)))


def test_one_stated_rho_does_not_cost_a_file_its_grid() -> None:
    """DP-SGD beside rho = 0.01: 2.4964, where the sum of both Renyi curves has 2.6747 and the Gaussian of that rho 2.4548."""
    trained = entry("gaussian", steps=14040, rate=256 / 60000, noise_multiplier=1.1)
    found = account(pipeline(trained, entry("zcdp", "stated", rho=0.01)), ["pld", "rdp"], delta=1e-5)
    uppers = {row.accountant.name: row.upper for row in found.rows}
    assert 2.40 < uppers["pld"] < 2.51 < 2.67 < uppers["rdp"]
    assert found.lower == pytest.approx(2.4548129, rel=1e-7)


@pytest.mark.parametrize("rho", [0.0, 5e-324, 1e-310, 1e-170])
def test_a_curve_that_underflows_is_as_good_as_none_and_no_division_by_nothing(rho: float) -> None:
    for mechanism in (Zcdp(rho), Pure(math.sqrt(2.0 * rho))):
        for epsilon in (0.0, 1e-9, 1.0):
            lower, upper = single_log_delta(RenyiPairLoss(((mechanism, 3),)), epsilon)
            assert lower <= upper and upper < -100.0
