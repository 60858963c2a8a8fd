"""Claims about the worst case, by enumeration: a sensitivity is spent in one coordinate, and all records of a unit are in one part of the
data. However else the move is divided, each delta is at most that of the claimed pair.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from functools import reduce

import numpy as np
import pytest
from scipy import stats

from dpcli.accountants.exact import ExactProfile
from dpcli.analysis.account import account
from dpcli.exam.enumeration.drawing_records import Array
from dpcli.file.pipeline.model import Entry, Pipeline, Privacy
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.mechanisms.noise.discrete_laplace import MAX_ATOMS, DiscreteLaplace
from dpcli.mechanisms.noise.gaussian_spec import GaussianSpec
from dpcli.mechanisms.noise.laplace import Laplace, LaplaceSpec
from dpcli.mechanisms.sampling.schemes import Poisson
from dpcli.mechanisms.spec import Spec
from dpcli.numerics.tails import single_log_delta
from tests.cases import tiered
from tests.oracles import hockey_stick as delta

EPSILONS = (0.0, 0.1, 0.3, 0.6, 1.0, 1.7, 2.5)


def divided(whole: int, places: int) -> Iterator[tuple[int, ...]]:
    """Yield whole numbers > 0, largest first, that add up."""
    for cut in itertools.combinations_with_replacement(range(1, whole + 1), places):
        if sum(cut) == whole:
            yield cut[::-1]


def together(laws: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Return the pair of independent coordinates, each with its two laws."""
    both = [reduce(np.multiply.outer, side).ravel() for side in zip(*laws, strict=True)]
    return both[0], both[1]


def discrete_laplace(scale: float, moved: int, reach: int) -> Array:
    """Return the masses on whole numbers, with all that lies beyond at the ends."""
    x = np.arange(-reach, reach + 1)
    below = stats.dlaplace(1.0 / scale, loc=moved)
    mass = below.pmf(x)
    mass[0], mass[-1] = below.cdf(-reach), below.sf(reach - 1)
    return np.asarray(mass)


@pytest.mark.parametrize("places", [2, 3])
def test_one_coordinate_of_discrete_laplace_is_the_worst(places: int) -> None:
    seed = random.getrandbits(32)
    draw = random.Random(seed)
    for whole in range(places, 6):
        scale = draw.uniform(0.4, 4.0)
        worst = DiscreteLaplace(scale, whole).losses()[0]
        for cut in divided(whole, places):
            p, q = together([(discrete_laplace(scale, moved, 8), discrete_laplace(scale, 0, 8)) for moved in cut])
            for epsilon, one, other in ((e, *pair) for e in EPSILONS for pair in ((p, q), (q, p))):
                assert delta(one, other, epsilon) <= math.exp(single_log_delta(worst, epsilon)[1]) + 1e-12, (seed, cut, epsilon)


@pytest.mark.parametrize("places", [2, 3])
def test_one_coordinate_of_laplace_is_the_worst(places: int) -> None:
    """Cells, which only hide something, with kinks on their edges."""
    seed = random.getrandbits(32)
    draw = random.Random(seed)
    cells = 8
    edges = np.concatenate(([-np.inf], np.arange(-4, 4 * cells + 1) / cells, [np.inf]))
    for whole in range(places, 9):
        scale = draw.uniform(0.2, 3.0)
        worst = Laplace(whole / cells / scale).losses()[0]
        for cut in divided(whole, places):
            laws = [(np.diff(stats.laplace(k / cells, scale).cdf(edges)), np.diff(stats.laplace(0, scale).cdf(edges))) for k in cut]
            p, q = together(laws)
            for epsilon in EPSILONS:
                assert delta(p, q, epsilon) <= math.exp(single_log_delta(worst, epsilon)[1]) + 1e-12, (seed, cut, epsilon)


def test_few_large_moves_dominate_many_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sensitivities above MAX_ATOMS are priced so; MAX_ATOMS is made small here."""
    seed = random.getrandbits(32)
    draw = random.Random(seed)
    for _ in range(15):
        exact = DiscreteLaplace(draw.uniform(0.5, 20.0), draw.randint(5, 40))
        (fine,) = exact.losses()
        with monkeypatch.context() as patch:
            patch.setattr("dpcli.mechanisms.noise.discrete_laplace.MAX_ATOMS", draw.randint(1, exact.sensitivity - 1))
            (coarse,) = exact.losses()
        for epsilon in (0.0, *(draw.uniform(0.0, 1.05) * exact.epsilon for _ in range(5))):
            assert single_log_delta(fine, epsilon)[0] <= single_log_delta(coarse, epsilon)[1], (seed, exact, epsilon)


@pytest.mark.long
def test_a_step_more_than_are_told_apart_costs_about_as_much() -> None:
    costs = [ExactProfile(((DiscreteLaplace(10.0 * most, most), 5000),)).epsilon(1e-6).upper for most in (MAX_ATOMS, MAX_ATOMS + 1)]
    assert costs[0] <= costs[1] <= 1.001 * costs[0]


def test_a_coordinate_more_than_the_sensitivity_loses_more() -> None:
    p, q = together([(discrete_laplace(1.0, moved, 8), discrete_laplace(1.0, 0, 8)) for moved in (2, 1)])
    assert delta(p, q, 0.3) > math.exp(single_log_delta(DiscreteLaplace(1.0, 2).losses()[0], 0.3)[1])


SPECS: dict[str, Spec] = {"gaussian": GaussianSpec(noise_multiplier=1.5), "laplace": LaplaceSpec(noise_multiplier=1.5)}
QUICK = [("laplace", 2, 1.0), ("gaussian", 2, 0.3)]
SLOWER = [case for case in itertools.product(SPECS, (2, 3), (1.0, 0.3)) if case not in QUICK]
LAWS = {"gaussian": lambda at: stats.norm(at, 1.5), "laplace": lambda at: stats.laplace(at, 1.5)}


@pytest.mark.sampled(0, 2)
@pytest.mark.parametrize(("kind", "records", "rate"), [*QUICK, *tiered(SLOWER, 0, len(SLOWER))])
def test_all_records_of_a_unit_in_one_part_is_the_worst(kind: str, records: int, rate: float) -> None:
    """Each part's sum with the unit's records that a sample holds; whoever comes or goes, and however they are spread."""
    edges = np.concatenate(([-np.inf], np.arange(-8, 9 + 4 * records) / 4, [np.inf]))
    sampling = Poisson("poisson", rate=rate) if rate < 1.0 else None
    entry = Entry("it", kind, SPECS[kind], sampling=sampling, partition="region")
    for adjacency in (Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT):
        file = Pipeline(Privacy(adjacency, unit="user", max_contributions=records, delta=1e-6), (entry,))
        claims = [account(file, epsilon=epsilon).upper for epsilon in EPSILONS]
        for cut in (cut for places in range(1, records + 1) for cut in divided(records, places)):
            laws = []
            for k in cut:
                weights = stats.binom(k, rate).pmf(np.arange(k + 1))
                sampled = sum(w * np.diff(LAWS[kind](j).cdf(edges)) for j, w in enumerate(weights))
                laws.append((np.asarray(sampled), np.diff(LAWS[kind](0).cdf(edges))))
            p, q = together(laws)
            for epsilon, claim in zip(EPSILONS, claims, strict=True):
                assert max(delta(p, q, epsilon), delta(q, p, epsilon)) <= claim + 1e-12, (cut, epsilon, adjacency)
