"""Noisy descent of which only the last model is released: formulas and tables of the papers, brute force over all shifts of the proof,
exact laws of the last model that stay below the bound, limits, and refusals of false premises.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpcli.base.errors import InputError
from dpcli.base.lazy import load
from dpcli.base.registry import ACCOUNTANTS
from dpcli.exam.enumeration.additive_noise import descent
from dpcli.mechanisms.combined.composed import Composed
from dpcli.mechanisms.mechanism import Dominated
from dpcli.mechanisms.neighbours import Adjacency, Neighbours
from dpcli.mechanisms.noise.gaussian import Gaussian
from dpcli.mechanisms.noise.last_iterate import LastIterateSpec
from dpcli.numerics.closed.normal import gaussian_epsilon_upper
from dpcli.numerics.closed.shifted_interpolation import hidden_steps, last_iterate_norm

ZEROED, REPLACED = (Neighbours(adjacency) for adjacency in (Adjacency.ZERO_OUT, Adjacency.REPLACE_ONE))
STEP: dict[str, Any] = {"noise_multiplier": 1.0, "learning_rate": 1.0, "smoothness": 1.0}
SET: dict[str, Any] = {"diameter": 1.0, "lipschitz": 1.0, "divisor": 1}


def mu(neighbours: Neighbours = ZEROED, **keys: Any) -> float:
    return LastIterateSpec(**{**STEP, **keys}).resolve(neighbours).gdp()


def test_the_regression_of_the_paper_has_its_parameters() -> None:
    """The formula of Bok, Su, Altschuler 2024 for cyclic batches, in their program: 40 batches, 50 to 200 passes, mu = 2/3 for one step.

    Noise 1/100 on a mean of 1,500 gradients of norm 5 or less: noise multiplier 3 under replace-one; eta 0.05, lambda 0.002 and 0.004.
    """
    for regulariser, c in ((0.002, 0.9999), (0.004, 0.9998)):
        for passes in (50, 100, 200):
            spread = (1 - c**2) / (1 - c**40) ** 2 * (1 - c ** (40 * (passes - 1))) / (1 + c ** (40 * (passes - 1)))
            expected = 2 / 3 * math.sqrt(1 + c**78 * spread)
            keys = {"learning_rate": 0.05, "smoothness": 20.0, "strong_convexity": regulariser, "batches": 40}
            result = mu(REPLACED, **{**keys, "noise_multiplier": 3.0, "iterations": 40 * passes})
            assert result == pytest.approx(expected, rel=1e-9), (regulariser, passes)
            assert result < 2 / 3 * math.sqrt(passes) / 2.5


# What the authors' programs print, at commit a771c163 of github.com/jinhobok/shifted_interpolation_dp, which say that these are Tables 7 to
# 12 of the paper: `plot_table_ngd_fdp.py` (full batches) and `plot_table_ncgd_fdp.py` (batches in turn).
FULL_BATCHES = {  # by t, for c = 0.92, 0.96, 0.98, 0.99 and 0.995, with L / (n sigma) = 0.1
    10: (0.308, 0.314, 0.316, 0.316, 0.316),
    100: (0.490, 0.688, 0.871, 0.961, 0.990),
    1000: (0.490, 0.700, 0.995, 1.411, 1.984),
}
IN_TURN = {  # by the number of passes, for l = 10, 20 and 40, and c = 0.98, 0.99 and 0.995 each, with L / (b sigma) = 0.2
    5: (0.229, 0.233, 0.235, 0.211, 0.215, 0.217, 0.202, 0.205, 0.208),
    50: (0.270, 0.334, 0.410, 0.216, 0.237, 0.275, 0.203, 0.208, 0.219),
    500: (0.270, 0.336, 0.439, 0.216, 0.237, 0.276, 0.203, 0.208, 0.219),
}
# By L / n or L / b, for three learning rates, with a set of diameter 1. The bounds here may be smaller.
PROJECTED = {0.25: (0.280, 0.395, 0.559), 0.5: (0.395, 0.559, 0.791), 1.0: (0.559, 0.791, 1.118)}  # sigma 8; 0.2, 0.1, 0.05
PROJECTED_IN_TURN = {
    0.25: (0.382, 0.534, 0.750),
    0.5: (0.553, 0.764, 1.067),
    1.0: (0.816, 1.106, 1.528),
}  # l = 20, sigma 3; 0.04, ...


def test_the_tables_of_the_paper_are_reproduced() -> None:
    """mu has the three printed decimals. With a bounded set it is at most the printed number, and not far below it."""
    for steps, row in FULL_BATCHES.items():
        for printed, loss in zip(row, (0.08, 0.04, 0.02, 0.01, 0.005), strict=True):
            assert abs(mu(noise_multiplier=10.0, strong_convexity=loss, iterations=steps) - printed) < 5.01e-4, (steps, loss)
    for passes, row in IN_TURN.items():
        for printed, (batches, loss) in zip(row, product((10, 20, 40), (0.02, 0.01, 0.005)), strict=True):
            keys = {"strong_convexity": loss, "batches": batches, "iterations": batches * passes}
            assert abs(mu(noise_multiplier=5.0, **keys) - printed) < 5.01e-4, (passes, batches, loss)
    for table, batches, sigma, largest in ((PROJECTED, 1, 8.0, 0.2), (PROJECTED_IN_TURN, 20, 3.0, 0.04)):
        for length, row in table.items():
            for printed, rate in zip(row, (largest, largest / 2, largest / 4), strict=True):
                keys = {"learning_rate": rate, **SET, "lipschitz": length, "batches": batches, "iterations": 10**5 * batches}
                assert 0.7 * printed < mu(noise_multiplier=sigma / length, **keys) < printed + 5e-4, (batches, length, rate)


def test_the_first_figure_of_the_paper_has_its_epsilons() -> None:
    """c = 0.95 and mu = 1/10 for one step: epsilon at delta 1e-5 levels off near that of mu = sqrt(39) / 10."""
    found = []
    for steps in (10, 20, 40, 80, 160):
        expected = 0.1 * math.sqrt((1 - 0.95**steps) / (1 + 0.95**steps) * 1.95 / 0.05)
        found.append(mu(noise_multiplier=10.0, strong_convexity=0.05, iterations=steps))
        assert found[-1] == pytest.approx(expected, rel=1e-9), steps
    epsilon = gaussian_epsilon_upper(found[-1], 1e-5)
    at = epsilon / found[-1] + np.array([-0.5, 0.5]) * found[-1]
    assert stats.norm.sf(at[0]) - math.exp(epsilon) * stats.norm.sf(at[1]) == pytest.approx(1e-5, rel=1e-6)
    assert found[-1] < math.sqrt(39) / 10 < 1.001 * found[-1]


def test_a_bounded_set_costs_no_more_than_in_the_papers() -> None:
    """Full batches of convex losses: mu^2 <= 3 s D + s^2 ceil(D / s), with s = 1 (Bok, Su, Altschuler 2024), and at best about 4 D."""
    for diameter in (0.5, 1.0, 3.7, 25.0, 1e4):
        square = last_iterate_norm(0.0, 1, 10**6, diameter) ** 2
        assert square <= (3.0 * diameter + math.ceil(diameter)) * (1.0 + 1e-6), diameter
        best = min((diameter + n) ** 2 / n for n in {1, math.ceil(diameter), max(int(diameter), 1)})
        assert square == pytest.approx(best, rel=1e-6), diameter


def least_shifts(c: float, batches: int, steps: int, place: int, diameter: float) -> float:
    """Return the least sum of squared shifts, by the concave curve over all steps, for every tau and a record at any place of a pass."""
    least = math.inf
    for tau in range(steps if diameter < math.inf else 1):
        points = [(0.0, 0.0)]
        for later in range(steps - tau):
            used = (steps - later - place) % batches == 0
            points.append((points[-1][0] + c ** (2 * later), points[-1][1] + c**later * used))
        points[-1] = (points[-1][0], points[-1][1] + (c ** (steps - tau) * diameter if tau else 0.0))
        curve: list[tuple[float, float]] = []
        for x, y in points:
            while len(curve) > 1 and (curve[-1][1] - curve[-2][1]) * (x - curve[-2][0]) <= (y - curve[-2][1]) * (
                curve[-1][0] - curve[-2][0]
            ):
                curve.pop()
            curve.append((x, y))
        least = min(least, sum((y1 - y0) ** 2 / (x1 - x0) for (x0, y0), (x1, y1) in pairwise(curve)))
    return math.sqrt(least)


def test_no_other_shifts_are_better() -> None:
    """A record at another place, or a pass that ends early, needs no other shifts either."""
    seed = np.random.SeedSequence().entropy
    rng = np.random.default_rng(seed)
    for _ in range(40):
        batches, steps = int(rng.integers(1, 6)), int(rng.integers(1, 20))
        c = float(rng.choice([1.0, 0.999, 0.9, 0.5, 0.01, rng.uniform()]))
        diameter = float(rng.choice([0.01, 1.0, 5.0, math.inf, rng.exponential(5.0)]))
        case = (seed, batches, steps, c, diameter)
        result = last_iterate_norm(1.0 - c, batches, steps, diameter)
        worst = max(least_shifts(c, batches, steps, place, diameter) for place in range(1, min(batches, steps) + 1))
        assert result >= worst * (1.0 - 1e-9), case
        if steps % batches == 0:
            assert result == pytest.approx(worst, rel=1e-9), case
        assert 1.0 <= result <= math.sqrt(-(-steps // batches)) * (1.0 + 1e-11), case


def test_quadratic_losses_have_exact_laws_below_the_bound() -> None:
    """Constant gradients and a quadratic regulariser give a Gaussian. Full batches attain the bound; others reach a third of it."""
    for c, steps in ((1.0, 7), (0.9, 30), (0.3, 5)):
        factors = c ** np.arange(float(steps))
        for batches in (1, 2, 3):
            truth = factors[::batches].sum() / np.linalg.norm(factors)
            bound = mu(strong_convexity=1.0 - c, iterations=steps, batches=batches)
            assert truth * (1.0 - 1e-12) <= bound <= truth * (1.0 + 1e-11 if batches == 1 else 3.0), (c, steps, batches)


@pytest.mark.long
def test_a_projected_walk_is_below_the_bound() -> None:
    """Constant gradients on [0, 1]: total variation of the last model, for a record that is zeroed, below that of the bound."""
    ratios = []
    for steps, sigma in ((2, 1.0), (9, 1.0), (9, 0.3), (40, 3.0)):
        law = descent(lambda records: float(len(records)), steps, 1.0, sigma, 1.0, 200)
        truth = 0.5 * float(np.abs(law(("x",)) - law(())).sum())
        bound = mu(noise_multiplier=sigma, iterations=steps, **SET)
        ratios.append(truth / (2.0 * stats.norm.cdf(bound / 2.0) - 1.0))
    assert all(0.3 < ratio <= 1.0 for ratio in ratios), ratios


DRAWN: dict[str, Any] = {**STEP, "drawn": "poisson", "inclusion": 0.01, "strong_convexity": 0.01}


def epsilons(neighbours: Neighbours, accountant: str = "exact", **keys: Any) -> list[float]:
    """Return epsilon at delta 1e-6 of all sampled steps, and of the last ones after a Gaussian."""
    mechanism = LastIterateSpec(**{**DRAWN, **keys}).resolve(neighbours)
    profiles = [load(ACCOUNTANTS[accountant]).compose(((way, 1),)) for way in mechanism.dominating()]
    return [profile.epsilon(1e-6).upper for profile in profiles]


@pytest.mark.long
def test_drawn_batches_forget_too() -> None:
    """A hundred times the steps cost less than a hundredth more. A few steps cost what they cost."""
    for neighbours in (ZEROED, REPLACED):
        short, long = (min(epsilons(neighbours, iterations=steps)) for steps in (1_000, 100_000))
        assert short <= long <= 1.01 * short
        assert 10.0 * long < epsilons(neighbours, iterations=100_000)[0]
    assert len(epsilons(ZEROED, iterations=100)) == len(epsilons(ZEROED, iterations=1)) == 1
    assert min(epsilons(ZEROED, iterations=10**5)) == pytest.approx(1.8994, abs=1e-3)
    (whole, forgetful) = epsilons(ZEROED, iterations=10**4, strong_convexity=0.0, **{**SET, "diameter": 10.0})
    assert forgetful < whole / 1.5
    fixed = LastIterateSpec(**{**DRAWN, "drawn": "fixed-size", "iterations": 10**5, "noise_multiplier": 4.0})
    assert [isinstance(way, Composed) for way in fixed.resolve(REPLACED).dominating()] == [True, True]
    with pytest.raises(InputError, match="batches of fixed size need adjacency = replace-one, found zero-out"):
        fixed.resolve(ZEROED)


@pytest.mark.nightly
def test_no_drawn_descent_on_constant_gradients_exceeds_the_claim() -> None:
    """The last model is a mixture of Gaussians, one for each choice of the steps whose batch has the record."""
    seed = np.random.SeedSequence().entropy
    rng = np.random.default_rng(seed)
    for _ in range(6):
        steps, curvature, rate, sigma = (
            int(rng.integers(2, 7)),
            rng.uniform(0.3, 0.99),
            rng.uniform(0.05, 0.7),
            rng.uniform(0.6, 3.0),
        )
        keys = {
            **STEP,
            "noise_multiplier": sigma,
            "strong_convexity": curvature,
            "iterations": steps,
            "drawn": "poisson",
            "inclusion": rate,
        }
        factors = (1.0 - curvature) ** np.arange(float(steps))
        spread = sigma * float(np.linalg.norm(factors))
        at = np.linspace(-14.0 * spread - steps, 14.0 * spread + steps, 8001)
        chosen = np.array(list(product((0.0, 1.0), repeat=steps)))
        chances = (rate**chosen * (1.0 - rate) ** (1.0 - chosen)).prod(axis=1)
        for neighbours, other in ((ZEROED, 0.0), (REPLACED, -1.0)):
            p, q = (chances @ stats.norm.pdf(at, move * (chosen @ factors)[:, None], spread) for move in (1.0, other))
            mechanism = LastIterateSpec(**keys).resolve(neighbours)
            for epsilon in (0.0, 1.0):
                truth = max(np.maximum(a - math.exp(epsilon) * b, 0.0).sum() for a, b in ((p, q), (q, p))) * (at[1] - at[0])
                claim = load(ACCOUNTANTS["exact"]).compose(((mechanism, 1),)).delta(epsilon).upper
                assert truth <= claim * (1.0 + 1e-6) + 1e-9, (seed, keys, neighbours, epsilon)


def test_drawing_every_record_costs_no_less_than_full_batches() -> None:
    for steps in (1, 5, 200):
        exact = gaussian_epsilon_upper(mu(strong_convexity=0.1, iterations=steps, noise_multiplier=5.0), 1e-6)
        found = min(epsilons(ZEROED, inclusion=1.0, strong_convexity=0.1, iterations=steps, noise_multiplier=5.0))
        assert exact * (1.0 - 1e-9) <= found <= (1.0 + 1e-9 if steps == 1 else 3.0) * exact, steps


def test_what_is_split_off_is_the_distance_by_the_noise() -> None:
    """mu of the Gaussian: the largest distance before the last n steps, c^n times as far, over the noise of those steps."""
    n, share, shift = hidden_steps(0.1, 500, math.inf, 3, 0.02, 0.6, opposite=False) or (0, 0.0, 0.0)
    apart = 0.9**n * 3.0 * (1.0 - 0.9 ** (500 - n)) / 0.1
    noise = math.sqrt(share * sum(0.81**j for j in range(n)))
    assert shift == pytest.approx(apart * 0.2 / noise, rel=1e-9)


def test_limits() -> None:
    """One step is a plain Gaussian; little convexity is none; a set that is wide enough is none; many models cost no less."""
    for keys in ({}, {"strong_convexity": 1.0}, SET, {"batches": 3, "strong_convexity": 0.5}):
        assert mu(iterations=1, **keys) == pytest.approx(1.0, rel=1e-11)
    assert mu(iterations=50) == pytest.approx(math.sqrt(50.0))
    assert mu(iterations=50, strong_convexity=1e-12) == pytest.approx(math.sqrt(50.0))
    assert mu(iterations=50, batches=5) == mu(iterations=50, batches=5, strong_convexity=1e-300)
    assert mu(iterations=50, **{**SET, "diameter": 1e300}) == mu(iterations=50)
    assert mu(iterations=10**18, strong_convexity=1e-3) == pytest.approx(math.sqrt(1.999 / 0.001))
    assert mu(iterations=10**18, **SET) == mu(iterations=10**6, **SET) == pytest.approx(2.0)
    assert mu(iterations=10**18, batches=10**17, **SET) == pytest.approx(1.0)
    # A longer step than 1 / smoothness: the largest curvature decides.
    assert mu(iterations=9, learning_rate=1.5, strong_convexity=1.0) == pytest.approx(math.sqrt((1 - 0.5**9) / (1 + 0.5**9) * 3.0))
    assert mu(iterations=9, learning_rate=2.0, strong_convexity=1.0) == pytest.approx(3.0)


def test_noise_too_small_for_its_square_or_for_a_float_protects_nothing() -> None:
    for noise in (1e-110, 1e-200, 5e-324):
        for keys in ({}, {"batches": 3}, {"drawn": "poisson", "inclusion": 0.1}, {"drawn": "fixed-size", "inclusion": 0.1}):
            for c in (1.0, 0.5, 0.0):
                spec = LastIterateSpec(
                    **{**STEP, **keys, "strong_convexity": 1.0 - c, "noise_multiplier": noise, "iterations": 5000}
                )
                assert spec.resolve(REPLACED).approx_dp(0.05) == math.inf, (noise, keys, c)


def test_cost_grows_with_what_is_worse() -> None:
    keys = {**SET, "iterations": 40, "batches": 4, "strong_convexity": 0.05, "learning_rate": 0.5}
    least = mu(**keys)
    for worse in (
        {"iterations": 44, "strong_convexity": 0.01},
        {"batches": 3},
        {"strong_convexity": 0.01},
        {"diameter": 2.0},
        {"lipschitz": 0.5},
        {"divisor": 2},
        {"noise_multiplier": 0.9},
        {"learning_rate": 0.25},
    ):
        assert mu(**{**keys, **worse}) > least, worse
    assert mu(REPLACED, **keys) == pytest.approx(2.0 * mu(**{**keys, "diameter": 0.5}))
    assert mu(replace(ZEROED, contributions=3, group=2), **keys) == pytest.approx(6.0 * least)


def test_only_full_batches_without_a_set_attain_the_bound() -> None:
    for keys, attained in (
        ({"strong_convexity": 0.1}, True),
        ({}, True),
        ({"learning_rate": 1.95, "strong_convexity": 0.1}, False),  # the largest curvature decides
        ({"batches": 2}, False),
        (SET, False),
    ):
        mechanism = LastIterateSpec(iterations=8, **{**STEP, **keys}).resolve(ZEROED)
        assert isinstance(mechanism, Gaussian if attained else Dominated), keys


def test_false_premises_are_refused() -> None:
    for keys, key, actual in (
        ({"learning_rate": 2.1}, "learning_rate", "2.1"),
        ({"strong_convexity": 1.5}, "strong_convexity", "1.5"),
        ({"diameter": 1.0, "lipschitz": 1.0}, "divisor", "none"),
        ({"divisor": 3}, "divisor", "3"),
        ({"drawn": "poisson"}, "inclusion", "none"),
        ({"inclusion": 0.1}, "inclusion", "0.1"),
        ({"drawn": "poisson", "inclusion": 0.1, "batches": 2}, "batches", "2"),
    ):
        assert [(k, a) for k, _, a in LastIterateSpec(iterations=2, **{**STEP, **keys}).problems()] == [(key, actual)]
