"""The exponential mechanism, whose loss lies in a range of length epsilon: its closed-form pair against 40 digits, and choices among other
steps, where every choice may depend on all outputs before it, against enumerated trees.
"""

from __future__ import annotations

import math
from random import Random

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from dpcli.accountants.directions import directions
from dpcli.accountants.exact import ExactProfile
from dpcli.accountants.pld import PldProfile
from dpcli.accountants.rdp import ACCOUNTANT as RDP
from dpcli.analysis.account import account
from dpcli.exam.subjects import SEED
from dpcli.mechanisms.choice.exponential import BLOCK, BoundedRange, ChoicesLoss, RangeLoss, choices, curve_of
from dpcli.mechanisms.noise.gaussian import Gaussian
from dpcli.mechanisms.stated.pure_and_approx import Pure
from tests.cases import of_each
from tests.choice_trees import height, tree
from tests.strategies import entry, pipeline


@pytest.mark.parametrize("epsilon", [1e-6, 0.3, 1.0, 15.9, 16.1, 60.0])
def test_the_closed_form_pair(epsilon: float) -> None:
    """CGF, tails and the tilted law against 40 digits."""
    loss, z, x = RangeLoss(epsilon), np.array([1e-9, 1e-3, 0.7, 30.0]), np.array([-0.99, -0.2, 0.0, 0.6, 0.999]) * epsilon
    with mp.workdps(40):
        e = mp.mpf(epsilon)
        for order, found in zip(z.tolist(), loss.cgf(z), strict=True):
            exact = mp.log(mp.sinh((order + mp.mpf(0.5)) * e) / ((2 * mp.mpf(order) + 1) * mp.sinh(e / 2)))
            assert 0.0 <= float(found / exact - 1) <= 3e-13
        tails = loss.tails(x)
        for k, at in enumerate(x.tolist()):
            q = mp.expm1((e - at) / 2) / mp.expm1(e)
            p = q * mp.exp((e + at) / 2)
            for found, exact in zip((part[k] for part in tails), (p, 1 - p, q, 1 - q), strict=True):
                assert abs(float(found - mp.log(exact))) <= 4e-15 * (4.0 + abs(found))
        tilted, c = loss.tilted(0.7), mp.mpf(0.7) + mp.mpf(0.5)
        mean = e / mp.tanh(c * e) - 1 / c
        y = mp.mpf(2.0 / math.sqrt(tilted.variance))
        turned = mp.sinh((c + 1j * y) * e) / (c + 1j * y) * c / mp.sinh(c * e) * mp.exp(-1j * y * mean)
        variance = 1 / c**2 - (e / mp.sinh(c * e)) ** 2
        assert abs(tilted.mean / float(mean) - 1.0) < 1e-11 and abs(tilted.variance / float(variance) - 1.0) < 1e-11
        assert abs(complex(turned) - np.exp(tilted.centred(float(y), 2, -30.0)[1])) < 1e-12
        assert tilted.decay(np.array([float(y)]))[0] >= float(mp.log(abs(turned)))


@of_each("epsilon", [1e-12, 1e-6, 1e-2, 0.7, 30.0, 800.0, 1e4, 1e7])
def test_the_renyi_bound_of_a_bounded_range_holds_at_every_order(epsilon: float) -> None:
    """The worst t is found in high precision, for orders from hardly above 1 up to those where only the largest loss counts."""
    z = 2.0 ** np.arange(-40.0, 61.0, 5.0)
    z = (1.0 + z) - 1.0  # what an order says of it
    z = z[z > 0.0]
    found = BoundedRange(epsilon).rdp(1.0 + z)
    with mp.workdps(60):
        for above_one, value in zip(z, found, strict=True):
            exact = worst_order(mp.mpf(epsilon), mp.mpf(float(above_one)))
            assert exact <= value
            assert value <= exact * (1 + 1e-9 + 3e-15 * epsilon) or value == epsilon


def worst_order(epsilon: mp.mpf, z: mp.mpf) -> mp.mpf:
    """Return the maximum over t of log(p e^(z t) + (1 - p) e^(z (t - eps))) / z."""

    def moment(t: mp.mpf) -> mp.mpf:
        p = (mp.exp(epsilon) - mp.exp(t)) / mp.expm1(epsilon)
        return mp.log(p * mp.exp(z * t) + (1 - p) * mp.exp(z * (t - epsilon)))

    at = mp.log(z * (mp.exp(epsilon) - mp.exp(-z * epsilon)) / ((z + 1) * -mp.expm1(-z * epsilon)))
    return moment(min(max(at, mp.mpf(0)), epsilon)) / z


def after(random: Random, epsilon: float, rest: float, depth: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw the laws of `depth` choices, whose scores depend on the outputs before, with a randomised response first, between or last."""
    p, q = np.array([1.0, math.exp(-rest)]) / (1.0 + math.exp(-rest)), np.array([math.exp(-rest), 1.0]) / (1.0 + math.exp(-rest))
    before = random.randint(0, depth)
    first = tree(random, epsilon, before, 2) if before else (np.ones(1), np.ones(1))
    laws: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for a, b in zip(*first, strict=True):
        for c, d in zip(p, q, strict=True):
            last = tree(random, epsilon, depth - before, 2) if depth > before else (np.ones(1), np.ones(1))
            laws[0].append(a * c * last[0])
            laws[1].append(b * d * last[1])
    return np.concatenate(laws[0]), np.concatenate(laws[1])


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
def test_choices_among_other_steps_are_covered(epsilon: float) -> None:
    random = Random(f"{SEED}/{epsilon}")
    steps = ((BoundedRange(epsilon), 4), (Pure(0.5), 1))
    profile = PldProfile(steps)
    for x in (0.1, 0.5 * epsilon, 1.5 * epsilon):
        upper = profile.delta(x).upper
        for _ in range(40):
            p, q = after(random, epsilon, 0.5, 4)
            assert float(np.maximum(p - math.exp(x) * q, 0.0).sum()) <= upper * (1.0 + 1e-12), (SEED, epsilon, x)


@pytest.mark.parametrize(("epsilon", "count", "sigma"), [(0.3, 20, 1.0), (1.0, 8, 0.8)])
def test_with_noise_it_is_the_mean_over_the_noise(epsilon: float, count: int, sigma: float) -> None:
    """All noise first, then the worst choices: between the curve's own bounds, and no more than a grid above."""
    curve, mu = curve_of(epsilon, count), 1.0 / sigma
    profiles = [kind(((BoundedRange(epsilon), count), (Gaussian(mu), 1))) for kind in (ExactProfile, PldProfile)]
    noise = stats.norm(0.5 * mu * mu, mu)
    losses = noise.ppf((np.arange(20000) + 0.5) / 20000)

    def whole(x: float, side: int) -> float:
        return height(curve, x)[side] if x >= 0.0 else -math.expm1(x) + math.exp(x) * height(curve, -x)[side]

    for x in (1.0, 4.0):
        low, high = (float(np.mean([whole(x - loss, side) for loss in losses])) for side in (0, 1))
        for profile in profiles:
            assert low * (1.0 - 1e-3) <= profile.delta(x).upper <= high * (1.0 + 5e-3)


def test_a_hundred_choices() -> None:
    """Epsilon is 34.75 at the worst fixed parameter, at least 34.86 for choices made one after another, and 36.36 by the Renyi curve."""
    found = account(pipeline(entry("exponential", steps=100, epsilon=1.0)), ["exact", "pld", "rdp"], delta=1e-6)
    uppers = {row.accountant.name: row.upper for row in found.rows}
    assert 34.86 < uppers["exact"] < 34.88 and 34.86 < uppers["pld"] < 34.88 and 36.3 < uppers["rdp"] < 36.4


@of_each("count", [1, 2, BLOCK, BLOCK + 1, 3 * BLOCK + 5])
@of_each("epsilon", [1e-4, 0.5, 5.0, 20.0])
def test_blocks_are_all_choices(epsilon: float, count: int) -> None:
    """None is left out, and no block is too long for its grid."""
    parts = choices(epsilon, count)
    assert sum(n * (loss.count if isinstance(loss, ChoicesLoss) else 1) for loss, n in parts) == count
    assert all(loss.count * loss.epsilon <= 300.0 for loss, _ in parts if isinstance(loss, ChoicesLoss))
    assert directions(((BoundedRange(epsilon), count),)) == (parts,)


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 2.0])
def test_more_choices_and_larger_ranges_cost_more(epsilon: float) -> None:
    def spent(size: float, count: int) -> float:
        return ExactProfile(((BoundedRange(size), count),)).epsilon(1e-4).upper

    found = [spent(epsilon, count) for count in (1, 2, 3, 7, 20)]
    assert found == sorted(found) and found[-1] <= 20.0 * epsilon
    assert spent(1.01 * epsilon, 7) > found[3]


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 9.5, 15.9])
def test_the_grid_is_no_looser_than_the_renyi_curve(epsilon: float) -> None:
    """Wherever the worst curve is computed, it beats a conversion."""
    steps = ((BoundedRange(epsilon), 15), (Gaussian(0.8), 1))
    assert PldProfile(steps).epsilon(1e-6).upper < RDP.compose(steps).epsilon(1e-6).upper
