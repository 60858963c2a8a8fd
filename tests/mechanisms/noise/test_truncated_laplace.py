"""Laplace noise that ends at a bound, on numbers and on integers: delta against quadrature and enumeration, several steps against
convolution, and the delta of the bound that Geng et al. 2018 state.
"""

from __future__ import annotations

import itertools
import math
import random
from functools import reduce
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from scipy import integrate

from dpcli.accountants.exact import ACCOUNTANT as EXACT
from dpcli.accountants.pld import ACCOUNTANT as PLD
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.neighbours import Adjacency, Neighbours
from dpcli.mechanisms.noise.additive import NoPrivacy
from dpcli.mechanisms.noise.discrete_laplace import MAX_ATOMS
from dpcli.mechanisms.noise.laplace import Laplace
from dpcli.mechanisms.noise.truncated_discrete_laplace import TruncatedDiscreteLaplaceSpec, truncated_discrete_laplace
from dpcli.mechanisms.noise.truncated_laplace import CutLaplace, TruncatedLaplaceSpec, truncated_laplace
from dpcli.mechanisms.stated.pure_and_approx import MayFail, Pure
from dpcli.numerics.tails import single_log_delta
from tests.cases import fresh_random
from tests.oracles import Array, hockey_stick

ONE = Neighbours(Adjacency.ADD_REMOVE)


def density(x: float, bound: float) -> float:
    return math.exp(-abs(x)) / (-2.0 * math.expm1(-bound)) if abs(x) <= bound else 0.0


def delta_by_quadrature(moved: float, bound: float, epsilon: float) -> float:
    def excess(x: float) -> float:
        return max(0.0, density(x - moved, bound) - math.exp(epsilon) * density(x, bound))

    kinks = {-bound, bound, moved - bound, moved + bound, 0.0, moved, 0.5 * (moved + epsilon)}
    inside = sorted(x for x in kinks if moved - bound <= x <= moved + bound)
    return math.fsum(integrate.quad(excess, low, high, epsabs=1e-14)[0] for low, high in pairwise(inside))


def drawn(draw: random.Random) -> tuple[float, float]:
    """Draw a move and a bound, in scales: the bound is above the move, or below it."""
    moved = math.exp(draw.uniform(-3.0, 2.0))
    return moved, moved * draw.uniform(0.51, 1.0) if draw.random() < 0.5 else moved + math.exp(draw.uniform(-4.0, 2.5))


def test_delta_is_that_of_the_densities() -> None:
    seed = random.getrandbits(32)
    draw = random.Random(seed)
    for _ in range(8):
        moved, bound = drawn(draw)
        mechanism = truncated_laplace(moved, bound)
        for epsilon in (0.0, 0.3 * moved, 0.9 * moved, 1.5 * moved):
            case = (seed, moved, bound, epsilon)
            delta = delta_by_quadrature(moved, bound, epsilon)
            lower, upper = map(math.exp, single_log_delta(mechanism.losses()[0], epsilon))
            assert lower - 1e-11 <= delta <= upper + 1e-11 and upper - lower <= 1e-12, case
            above = delta * (1.0 + 1e-9) + 1e-11
            assert mechanism.approx_dp(above) <= epsilon * (1.0 + 1e-12) + 1e-12, case
            if delta > mechanism.delta_floor() + 1e-5 and epsilon > 0.0:
                assert mechanism.approx_dp(delta) == pytest.approx(epsilon, rel=1e-4), case


def rest_of(mechanism: Mechanism) -> CutLaplace:
    assert isinstance(mechanism, MayFail) and isinstance(mechanism.rest, CutLaplace)
    return mechanism.rest


def moment(x: float, moved: float, bound: float, order: float, largest: float) -> float:
    return density(x - moved, bound) * math.exp(order * (abs(x) - abs(x - moved) - largest))


def test_the_curve_of_what_does_not_fail() -> None:
    """The CGF by quadrature; rho is the mean loss, and bounds the curve."""
    seed = random.getrandbits(32)
    draw = random.Random(seed)
    z = np.array([1e-6, 0.3, 2.0, 20.0])
    for _ in range(8):
        moved, bound = drawn(draw)
        rest = rest_of(truncated_laplace(moved, bound))
        edges = sorted({moved - bound, min(max(moved - bound, 0.0), bound), min(moved, bound), bound})
        kept = sum(integrate.quad(density, low - moved, high - moved, args=(bound,))[0] for low, high in pairwise(edges))
        cgf = rest.losses()[0].cgf(z)
        for order, k in zip(z.tolist(), cgf.tolist(), strict=True):
            case = (moved, bound, order, rest.epsilon)
            total = sum(integrate.quad(moment, low, high, args=case, epsabs=0.0)[0] for low, high in pairwise(edges))
            assert k == pytest.approx(math.log(total / kept) + order * rest.epsilon, rel=1e-6, abs=1e-9), (
                seed,
                moved,
                bound,
                order,
            )
        assert (cgf <= rest.zcdp() * z * (z + 1.0) * (1.0 + 1e-12)).all(), (seed, moved, bound)
        assert cgf[0] >= 1e-6 * rest.zcdp() * (1.0 - 2e-3), (seed, moved, bound)
    assert CutLaplace(0.7, 1.0).zcdp() == pytest.approx(Laplace(0.7).zcdp())
    assert CutLaplace(0.7, 1.0).approx_dp(1e-3) == pytest.approx(Laplace(0.7).approx_dp(1e-3))
    assert CutLaplace(0.7, 1.0).losses()[0].cgf(z) == pytest.approx(Laplace(0.7).losses()[0].cgf(z), rel=1e-9)


CELLS = 3000


def rounded_losses(moved: float, bound: float, up: int) -> tuple[Array, float]:
    """Return the masses of losses on a lattice from -moved to moved, rounded down (up = 0) or up (1), and the mass of no finite loss."""
    loss = np.linspace(-moved, moved, CELLS + 1)
    log_ends = math.log(-2.0 * math.expm1(-bound))
    masses = np.zeros(CELLS + 1)
    place = 0.5 * (loss + moved)  # x where 2 x - moved is the loss
    masses[up : up + CELLS] += np.diff(np.exp(place - moved - log_ends))  # the density of x - moved on (0, moved)
    masses[-1] += -math.expm1(moved - bound) * math.exp(-log_ends)
    masses[0] += (math.exp(-moved) - math.exp(-bound)) * math.exp(-log_ends)
    return masses, 1.0 - float(masses.sum())


@pytest.mark.parametrize("steps", [2, 3])
def test_several_steps_are_the_convolution_of_their_losses(steps: int) -> None:
    seed = random.getrandbits(32)
    draw = random.Random(seed)
    moved, bound = draw.uniform(0.3, 2.0), draw.uniform(2.5, 6.0)
    mechanism = truncated_laplace(moved, bound)
    for share in (0.0, 0.4, 0.8):
        epsilon, deltas = share * steps * moved, []
        for up in (0, 1):
            masses, lost = rounded_losses(moved, bound, up)
            total = np.linspace(-steps * moved, steps * moved, steps * CELLS + 1)
            composed = reduce(np.convolve, [masses] * steps)
            finite = float((composed * np.clip(-np.expm1(epsilon - total), 0.0, None)).sum())
            deltas.append(finite + 1.0 - (1.0 - lost) ** steps)
        for accountant in (EXACT, PLD):
            got = accountant.profile(((mechanism, steps),)).delta(epsilon)
            case = (seed, moved, bound, epsilon, accountant.name, got, deltas)
            assert got.lower is not None and got.lower <= deltas[1] + 1e-12 and got.upper >= deltas[0] - 1e-12, case
            assert got.upper <= deltas[1] * 1.01, case


def test_a_stated_delta_is_that_of_its_bound() -> None:
    """Geng et al. 2018, arXiv:1810.00877: A = (D / eps) log(1 + (e^eps - 1) / (2 delta))."""
    spec = TruncatedLaplaceSpec(scale=3.0, sensitivity=1.5, delta=1e-7)
    mechanism = spec.resolve(ONE)
    assert mechanism.delta_floor() == pytest.approx(1e-7, rel=1e-12) == spec.delta_spent
    assert mechanism.approx_dp(1.001e-7) == pytest.approx(0.5, rel=1e-6) and mechanism.approx_dp(0.999e-7) == math.inf
    bound = 3.0 * math.log(1.0 + math.expm1(0.5) / 2e-7)
    same = TruncatedLaplaceSpec(scale=3.0, sensitivity=1.5, bound=bound).resolve(ONE)
    assert same.delta_floor() == pytest.approx(1e-7, rel=1e-12)
    pair = TruncatedLaplaceSpec(scale=3.0, sensitivity=3.0, bound=bound).resolve(ONE)
    assert spec.resolve(Neighbours(Adjacency.ADD_REMOVE, group=2)).delta_floor() == pytest.approx(pair.delta_floor(), rel=1e-12)


def test_the_delta_of_a_whole_bound_has_no_larger_bound() -> None:
    """Whoever states the delta of the bound that they draw with pays for this bound, and not for the next one."""
    seed = fresh_random().getrandbits(32)
    draw = random.Random(seed)
    for _ in range(300):
        scale, moved = 10.0 ** draw.uniform(-0.3, 4), draw.randint(1, 4)
        bound = draw.randint(moved, moved + int(30 * scale))
        with mpmath.workdps(60):
            r = mpmath.exp(-1 / mpmath.mpf(scale))
            delta = float((r**-moved - 1) * r ** (bound + 1) / (1 + r - 2 * r ** (bound + 1)))
        spec = TruncatedDiscreteLaplaceSpec(scale=scale, sensitivity=moved, delta=delta)
        drawn = TruncatedDiscreteLaplaceSpec(scale=scale, sensitivity=moved, bound=bound)
        if 0.0 < delta < 0.5:
            floors = spec.resolve(ONE).delta_floor(), drawn.resolve(ONE).delta_floor()
            assert floors[0] >= floors[1] and floors[0] == pytest.approx(floors[1], rel=1e-8), (seed, scale, moved, bound)


def test_more_moved_or_less_noise_costs_more_at_every_epsilon() -> None:
    """The settings lie near the place where the bound equals the move, and at extremes."""
    seed = random.getrandbits(32)
    draw = random.Random(seed)
    for moved in (1e-9, draw.uniform(0.1, 5.0), 800.0):
        for bound in (moved * 0.6, moved * (1.0 - 1e-12), moved, moved * (1.0 + 1e-9), 3.0 * moved, moved + 900.0):
            less, more = truncated_laplace(moved, bound), truncated_laplace(moved * (1.0 + 1e-6), bound)
            if isinstance(more, NoPrivacy):  # the mass of what may be anywhere rounds to 0
                continue
            for share in (0.0, 0.5, 1.2):
                ends = [single_log_delta(mechanism.losses()[0], share * moved) for mechanism in (less, more)]
                assert ends[0][0] <= ends[1][1] and ends[0][1] <= 1e-12, (seed, moved, bound, share, ends)
    for moved, bound in ((2.0, 1.0), (3.0, 1.0), (1e200, 1e201)):
        assert isinstance(truncated_laplace(moved, bound), NoPrivacy)


def test_discrete_noise_is_enumerated() -> None:
    """The pair, and the least bound with a stated delta."""
    seed = random.getrandbits(32)
    draw = random.Random(seed)
    for _ in range(60):
        scale, moved, bound = 10.0 ** draw.uniform(-1.0, 2.0), draw.randint(1, 12), draw.randint(1, 40)
        mechanism = truncated_discrete_laplace(scale, moved, bound)
        p, q = discrete_laws(scale, moved, bound)
        case = (seed, scale, moved, bound)
        if isinstance(mechanism, NoPrivacy):
            assert np.minimum(p, q).sum() < 1e-13, case
            continue
        for share in (0.0, 0.3, 0.9, 1.2):
            lower, upper = map(math.exp, single_log_delta(mechanism.losses()[0], share * moved / scale))
            assert lower - 1e-11 <= hockey_stick(p, q, share * moved / scale) <= upper * (1.0 + 1e-11), (*case, share)
        delta = 10.0 ** draw.uniform(-12.0, -0.4)
        spec = TruncatedDiscreteLaplaceSpec(scale=scale, sensitivity=moved, delta=delta)
        floor = spec.resolve(ONE).delta_floor()
        least = next(b for b in itertools.count(moved) if outside(*discrete_laws(scale, moved, b)) <= delta * (1.0 + 1e-12))
        assert floor == pytest.approx(outside(*discrete_laws(scale, moved, least)), rel=1e-9) == spec.delta_spent, (*case, delta)
    same = truncated_discrete_laplace(2.0, MAX_ATOMS + 1, 10**6)
    assert isinstance(same, MayFail) and same.rest == Pure((MAX_ATOMS + 1) / 2.0) and not same.attained()


def test_noise_of_a_huge_scale_is_uniform() -> None:
    """A move then shows with the share of the outcomes that it makes possible, whose digits do not cancel."""
    seed = random.getrandbits(32)
    draw = random.Random(seed)
    for _ in range(60):
        moved, bound, small = draw.randint(2, 40), draw.randint(2, 40), 10.0 ** draw.uniform(-130.0, -16.0)
        case = (seed, moved, bound, small)
        if moved < 2 * bound:
            shows = truncated_laplace(moved * small, bound * small).delta_floor()
            assert moved / (2 * bound) * (1.0 - 1e-15) <= shows <= moved / (2 * bound) * (1.0 + 1e-11), case
        if moved <= 2 * bound:
            shows, uniform = truncated_discrete_laplace(1.0 / small, moved, bound).delta_floor(), moved / (2 * bound + 1)
            assert uniform * (1.0 - 1e-15) <= shows <= uniform * (1.0 + 1e-11), case


def discrete_laws(scale: float, moved: int, bound: int) -> tuple[Array, Array]:
    x = np.arange(-bound, moved + bound + 1)
    sizes = [np.where(np.abs(y) <= bound, np.exp(-np.abs(y) / scale), 0.0) for y in (x - moved, x)]
    return sizes[0] / sizes[0].sum(), sizes[1] / sizes[1].sum()


def outside(p: Array, q: Array) -> float:
    """Return the probability under p of outcomes that only p can have released."""
    return float(p[q == 0.0].sum())


def test_keys_state_the_bound_or_its_delta() -> None:
    cases: tuple[tuple[dict[str, float], str], ...] = (
        ({}, "neither"),
        ({"bound": 3.0, "delta": 1e-6}, "both"),
        ({"delta": 0.5}, "0.5"),
    )
    for keys, found in cases:
        assert [problem[2] for problem in TruncatedLaplaceSpec(scale=1.0, sensitivity=1.0, **keys).problems()] == [found]
