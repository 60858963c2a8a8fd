"""Permute-and-flip and reports of a noisy maximum.

Both are priced as Laplace noise, by a proof; here their laws for two to five candidates are enumerated and stay below the Laplace pair,
which two candidates attain at each point.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcli.accountants.pld import PldProfile
from dpcli.accountants.rdp import ACCOUNTANT as RDP
from dpcli.exam.enumeration.choice_releases import noisy_max, permute_and_flip
from dpcli.exam.enumeration.drawing_records import Array, Release
from dpcli.mechanisms.choice.noisy_max import PermuteAndFlipSpec, ReportNoisyMaxSpec, TwoNoisyScores
from dpcli.mechanisms.neighbours import Adjacency, Neighbours
from dpcli.mechanisms.noise.additive import LARGEST_RATIO
from dpcli.mechanisms.noise.laplace import Laplace
from dpcli.mechanisms.stated.pure_and_approx import Pure
from tests.oracles import hockey_stick, renyi

SHARES: Array = np.linspace(0.0, 0.99, 12)


def delta(pure: float, epsilon: float) -> float:
    """Return delta of Laplace noise: 1 - e^{(eps - e0)/2}."""
    return max(-math.expm1(0.5 * (epsilon - pure)), 0.0)


def law(release: Callable[..., Release], pure: float, scores: Array, *kind: str) -> Array:
    return release(pure, *kind, lambda records: scores)(())


def beyond(p: Array, q: Array, pure: float) -> float:
    """Return how far the divergence of two laws lies above the claim, at its worst."""
    at = [float(share) * pure for share in SHARES]
    return max(max(hockey_stick(p, q, x), hockey_stick(q, p, x)) - delta(pure, x) for x in at)


MOVES = st.lists(st.tuples(st.floats(0.0, 9.0), st.sampled_from([-1.0, -0.4, 0.0, 1.0])), min_size=2, max_size=5)


@pytest.mark.long
@given(st.floats(-3.0, 2.0).map(lambda x: 10.0**x), MOVES)
@settings(max_examples=150)
def test_permute_and_flip_is_below_the_laplace_pair(pure: float, moves: list[tuple[float, float]]) -> None:
    """Scores in units of sensitivity over epsilon, moved by up to the sensitivity, up or down."""
    before = np.array([score / pure for score, _ in moves])
    after = before + np.array([move for _, move in moves])
    assert beyond(law(permute_and_flip, pure, before), law(permute_and_flip, pure, after), pure) <= 1e-12


@pytest.mark.parametrize("noise", ["exponential", "laplace"])
@given(st.floats(0.05, 4.0), MOVES)
@settings(max_examples=25)
def test_noisy_maxima_are_below_the_laplace_pair(noise: str, pure: float, moves: list[tuple[float, float]]) -> None:
    before = np.array([score / pure for score, _ in moves])
    after = before + np.array([move for _, move in moves])
    found = beyond(law(noisy_max, pure, before, noise), law(noisy_max, pure, after, noise), pure)
    assert found <= 2e-3  # of the cells that the winner's noise is cut into


@pytest.mark.parametrize("pure", [0.1, 1.0, 3.0])
def test_two_candidates_attain_each_point_of_it(pure: float) -> None:
    """A claim that is smaller by a hundredth would be false."""
    worst = np.zeros(len(SHARES))
    for gap in np.linspace(-1.5 * pure, 0.5 * pure, 401).tolist():
        before = np.array([2.0 * gap / pure, 0.0])
        p, q = (law(permute_and_flip, pure, scores) for scores in (before, before + np.array([1.0, -1.0])))
        worst = np.maximum(worst, [max(hockey_stick(p, q, x), hockey_stick(q, p, x)) for x in (SHARES * pure).tolist()])
    exact = np.array([delta(pure, float(x)) for x in SHARES * pure])
    assert (worst <= exact + 1e-12).all()
    assert (worst >= 0.99 * exact).all()


@pytest.mark.parametrize(("noise", "error"), [("exponential", 1e-12), ("laplace", 2e-3)])
def test_a_lead_is_chosen_with_the_probability_of_the_lower_bound(noise: str, error: float) -> None:
    """Two candidates at several leads, by the pair and enumerated; the error is that of the cells of the winner's noise."""
    for pure, lead in ((0.5, -1.0), (0.5, 0.2), (2.0, 3.0)):
        (loss,) = TwoNoisyScores(pure, lead, laplace=noise == "laplace").losses()
        before = np.array([2.0 * lead / pure, 0.0])
        for log_chances, scores in (
            (np.add(loss.log_reference, loss.log_ratio), before),
            (loss.log_reference, before - np.array([1.0, -1.0])),
        ):
            enumerated = law(permute_and_flip, pure, scores) if error < 1e-3 else law(noisy_max, pure, scores, noise)
            assert np.exp(log_chances) == pytest.approx(enumerated, abs=error), (pure, lead)


@pytest.mark.parametrize("pure", [0.2, 1.0])
def test_choices_one_after_another(pure: float) -> None:
    """Products of enumerated choices lie below the composition, in delta and in Renyi divergence."""
    mechanism = PermuteAndFlipSpec(epsilon=pure).resolve(Neighbours(Adjacency.ADD_REMOVE))
    before, after = np.array([0.3 / pure, 0.0, 0.0]), np.array([0.3 / pure - 1.0, 1.0, -1.0])
    p, q = law(permute_and_flip, pure, before), law(permute_and_flip, pure, after)
    both = [np.multiply.outer(np.multiply.outer(x, x), x).ravel() for x in (p, q)]
    for epsilon in (0.1 * pure, pure, 2.0 * pure):
        found = PldProfile(((mechanism, 3),)).delta(epsilon).upper
        assert found >= max(hockey_stick(both[0], both[1], epsilon), hockey_stick(both[1], both[0], epsilon))
        assert found < PldProfile(((Pure(pure), 3),)).delta(epsilon).upper
    for order in (1.5, 2.0, 8.0):
        assert float(mechanism.rdp(np.array([order]))[0]) >= renyi(p, q, order)


@pytest.mark.parametrize("kind", ["permute-and-flip", "laplace", "exponential"])
def test_it_costs_what_laplace_noise_costs(kind: str) -> None:
    neighbours = Neighbours(Adjacency.ADD_REMOVE, group=2)
    one = PermuteAndFlipSpec(epsilon=0.5) if kind == "permute-and-flip" else ReportNoisyMaxSpec(epsilon=0.5, noise=kind)  # type: ignore[arg-type]
    found = one.resolve(neighbours)
    assert found.approx_dp(0.0) == 1.0
    assert found.approx_dp(1e-3) == Laplace(1.0).approx_dp(1e-3) < Pure(1.0).approx_dp(1e-3)
    assert found.zcdp() == Laplace(1.0).zcdp() < Pure(1.0).zcdp()
    assert not found.attained()
    assert RDP.compose(((found, 100),)).epsilon(1e-6).upper < 0.93 * RDP.compose(((Pure(1.0), 100),)).epsilon(1e-6).upper


@pytest.mark.parametrize("epsilon", [1e-200, 2.0 * LARGEST_RATIO])
def test_extremes_are_pure(epsilon: float) -> None:
    assert PermuteAndFlipSpec(epsilon=epsilon).stated() == Pure(epsilon)
