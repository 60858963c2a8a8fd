"""Every noise on a Poisson sample, and losses with atoms, in the exact accountant: reference values, sums over all outcomes in fractions or
sixty digits, and lattices that this file makes from the losses' own tails.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from dpcli.accountants.base import Bound, Steps
from dpcli.accountants.directions import directions
from dpcli.accountants.exact import ExactProfile
from dpcli.base.errors import NotRepresentable
from dpcli.exam.subjects import SEED
from dpcli.mechanisms.choice.randomized_response import RandomizedResponse
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.neighbours import Adjacency, Neighbours
from dpcli.mechanisms.noise.discrete_gaussian import DiscreteGaussian
from dpcli.mechanisms.noise.discrete_laplace import DiscreteLaplace
from dpcli.mechanisms.noise.gaussian import Gaussian
from dpcli.mechanisms.noise.gaussian_spec import GaussianSpec
from dpcli.mechanisms.noise.laplace import Laplace
from dpcli.mechanisms.sampling.poisson import PoissonReplaced, PoissonSampled
from dpcli.mechanisms.stated.pure_and_approx import Pure
from dpcli.numerics.tails import single_log_delta
from dpcli.numerics.work import QUESTION, allowance
from tests.cases import by_tier, fresh_random, tiered
from tests.oracles import Array

ADD_REMOVE = Neighbours(Adjacency.ADD_REMOVE)
SPACING = 4000  # cells of a lattice of the test's own, over the spread of one step


def gaussian(noise: float, rate: float) -> Mechanism:
    return GaussianSpec(noise_multiplier=noise).poisson(rate, ADD_REMOVE)


REFERENCES: list[tuple[Steps, float, float, float]] = [
    (((PoissonSampled(Laplace(1 / 0.3), 0.01), 100_000),), 1e-8, 156.95, 5e-3),
    (((PoissonSampled(Laplace(1 / 0.3011), 6.03e-6), 5951),), 6.7e-6, 0.0046556, 5e-8),
    (((PoissonSampled(Pure(0.5), 0.01), 10_000),), 1e-5, 2.0220957, 5e-8),
    (((PoissonSampled(Pure(0.5), 1e-5), 1000),), 1e-7, 4.6017e-4, 5e-9),
    (((PoissonSampled(Laplace(0.5), 0.01), 10_000),), 1e-5, 1.86987, 5e-6),
    (((gaussian(0.05, 0.0005), 10_000),), 1e-5, 3302.2827, 5e-5),
]


def epsilon(steps: Steps, delta: float) -> Bound:
    """Return the contour accountant's bound within the work that one question may cost."""
    with allowance(QUESTION):
        return ExactProfile(steps).epsilon(delta)


@pytest.mark.parametrize(("steps", "delta", "expected", "digits"), REFERENCES)
def test_reference_values(steps: Steps, delta: float, expected: float, digits: float) -> None:
    bound = epsilon(steps, delta)
    assert bound.lower is not None
    assert expected - digits <= bound.lower <= bound.upper <= expected + digits
    assert bound.upper - bound.lower <= 2e-9 * bound.upper


def two_point(e0: float, rate: float, count: int, log_epsilon: mp.mpf, add: bool) -> mp.mpf:
    """Return delta of sampled randomised responses, by the binomial sum in sixty digits."""
    p = mp.exp(e0) / (1 + mp.exp(e0))
    q = mp.mpf(rate)
    with_it, without = (1 - q) * (1 - p) + q * p, 1 - p  # of the likelier answer
    first, second = (without, with_it) if add else (with_it, without)
    total = mp.mpf(0)
    for k in range(count + 1):
        number = mp.binomial(count, k)
        here = number * first**k * (1 - first) ** (count - k)
        other = number * second**k * (1 - second) ** (count - k)
        total += max(here - mp.exp(log_epsilon) * other, mp.mpf(0))
    return total


def test_a_delta_far_below_the_probability_of_the_largest_loss() -> None:
    """Epsilon is then next to that loss, and nothing is left for a contour to resolve."""
    for e0, count, delta in ((0.29718865004075606, 5, 1.8e-18), (1.0, 2, 1e-300), (3.0, 40, 1e-25)):
        bound = epsilon(((Pure(e0), count),), delta)
        log_probability = -count * math.log1p(math.exp(-e0))  # of the largest loss, count e0
        assert bound.lower is not None and bound.upper - bound.lower <= 1e-8 * bound.upper
        with mp.workdps(60):
            exact = count * mp.mpf(e0) + mp.log1p(-mp.mpf(delta) / mp.exp(log_probability))
            assert bound.lower <= exact <= bound.upper


@pytest.mark.parametrize("replaced", [False, True])
def test_laplace_noise_at_a_delta_far_below_the_probability_of_the_largest_loss(replaced: bool) -> None:
    """Epsilon is next to the sum of the largest losses, which needs outcomes beyond the shifted centre in every step."""
    seed = fresh_random().getrandbits(32)
    random = Random(seed)
    for _ in range(5):
        e0, q, count = 10.0 ** random.uniform(-1.5, 0.3), 10.0 ** random.uniform(-6.0, -0.1), random.randint(2, 40)
        mechanism = PoissonReplaced(Laplace(2.0 * e0), q) if replaced else PoissonSampled(Laplace(e0), q)
        log_delta = -random.uniform(230.0, 690.0)
        bound = epsilon(((mechanism, count),), math.exp(log_delta))
        assert bound.lower is not None and bound.upper - bound.lower <= 1e-8 * bound.upper, (seed, bound)
        with mp.workdps(400):
            largest = mp.mpf(2.0 * e0 if replaced else e0)  # of a step without sampling
            top = count * mp.log1p(mp.mpf(q) * mp.expm1(largest))
            probability = (mp.exp(-largest) / 2) ** count  # of the largest loss, at least
            assert bound.lower <= top, (seed, bound)
            assert bound.upper >= top + mp.log1p(-mp.exp(log_delta) / probability), (seed, bound)


@pytest.mark.parametrize("cases", by_tier(4, 15, 200))
def test_two_outcomes_by_binomial_sums(cases: int) -> None:
    """At the lower end the worse direction's delta is at least what was asked, and at the upper end at most.

    Near the largest loss delta changes a thousandfold within an ulp: the ends are those of the sum of the stated decimals.
    """
    random = Random(f"{SEED} 0 {cases}")
    for _ in range(cases):
        e0, rate = 10.0 ** random.uniform(-2.0, 0.7), random.choice([1.0, 10.0 ** random.uniform(-5.0, -0.1)])
        count, delta = random.randint(2, 300), 10.0 ** random.uniform(-20.0, -1.0)
        inner = Pure(e0)
        bound = epsilon(((inner if rate == 1.0 else PoissonSampled(inner, rate), count),), delta)
        assert bound.lower is not None
        with mp.workdps(60):
            at_low, at_high = (
                max(two_point(e0, rate, count, mp.mpf(end), add) for add in (False, True))
                for end in (bound.lower * (1.0 - 4e-16), bound.upper * (1.0 + 4e-16))
            )
        assert at_high <= mp.mpf(delta), (e0, rate, count, delta)
        assert bound.lower == 0.0 or at_low >= mp.mpf(delta), (e0, rate, count, delta)
        assert bound.upper - bound.lower <= 1e-4 * bound.upper + 1e-9, (e0, rate, count, delta)


def enumerated(pairs: list[list[tuple[Fraction, Fraction]]], epsilon: float) -> Fraction:
    """Return SUM (P - e^eps Q)+ over all outcomes of steps of finitely many outcomes each, with e^eps as the double that it is."""
    factor, total = Fraction(math.exp(epsilon)), Fraction(0)
    for outcome in itertools.product(*pairs):
        p, q = Fraction(1), Fraction(1)
        for first, second in outcome:
            p, q = p * first, q * second
        total += max(p - factor * q, Fraction(0))
    return total


@pytest.mark.parametrize("cases", by_tier(5, 20, 300))
def test_few_outcomes_by_enumeration_in_fractions(cases: int) -> None:
    """Up to six steps of different mechanisms, on a sample or not."""
    random = Random(f"{SEED} 1 {cases}")
    for _ in range(cases):
        steps: list[tuple[Mechanism, int]] = []
        for _ in range(random.randint(2, 6)):
            inner = random.choice(
                [
                    Pure(10.0 ** random.uniform(-1.0, 0.5)),
                    DiscreteLaplace(10.0 ** random.uniform(-0.3, 1.0), random.randint(1, 4)),
                    RandomizedResponse(10.0 ** random.uniform(-1.0, 0.5), random.randint(2, 6)),
                ]
            )
            sampled = random.random() < 0.7 and not isinstance(inner, RandomizedResponse)
            steps.append((PoissonSampled(inner, 10.0 ** random.uniform(-2.0, -0.1)) if sampled else inner, 1))
        delta = 10.0 ** random.uniform(-8.0, -1.0)
        bound = epsilon(tuple(steps), delta)
        assert bound.lower is not None
        values = []
        for end in (bound.lower, bound.upper):
            both = []
            for side in directions(tuple(steps)):
                pairs = []
                for loss, count in side:
                    outcomes = loss.outcomes()  # type: ignore[attr-defined]
                    q = [Fraction(x) for x in np.exp(outcomes.log_reference).tolist()]
                    p = [Fraction(x) for x in np.exp(outcomes.log_reference + outcomes.log_ratio).tolist()]
                    pairs += [list(zip(p, q, strict=True))] * count
                both.append(float(enumerated(pairs, end)))
            values.append(max(both))
        assert values[1] <= delta * (1.0 + 1e-9) + 1e-14, steps
        assert bound.lower == 0.0 or values[0] >= delta * (1.0 - 1e-9) - 1e-14, steps
        assert bound.upper - bound.lower <= 1e-3 * bound.upper + 1e-6, steps


def cells(loss: object, low: float, spacing: float, size: int) -> tuple[Array, float]:
    """Return P of the cells (l, l + spacing] from `low` on, by differences of the loss's own tails, and P beyond."""
    at = low + spacing * np.arange(size + 1.0)
    tails = loss.tails(at)  # type: ignore[attr-defined]
    above, below = np.exp(tails.p_above), np.exp(tails.p_below)
    mass = np.where(above[:-1] < 0.5, above[:-1] - above[1:], below[1:] - below[:-1])
    return np.maximum(mass, 0.0), float(above[-1])


def lattice_deltas(losses: tuple[tuple[object, int], ...], epsilon: float) -> tuple[float, float]:
    """Return (lower, upper) bounds on delta: losses rounded down, or up, to one lattice, and convolved by sums of positive products."""
    views = []
    for loss, count in losses:
        at = np.concatenate([-np.geomspace(50.0, 1e-7, 3000), [0.0], np.geomspace(1e-7, 50.0, 3000)])
        tails = loss.tails(at)  # type: ignore[attr-defined]
        low = at[max(int(np.flatnonzero(tails.p_below > -60.0)[0]) - 1, 0)]
        high = at[min(int(np.flatnonzero(tails.p_above > -60.0)[-1]) + 1, len(at) - 1)]
        views.append((loss, count, float(low), float(high)))
    spacing = max(high - low for _, _, low, high in views) / SPACING
    total, start, steps, lost = np.ones(1), 0.0, 0, 0.0
    for loss, count, low, high in views:
        base = math.floor(low / spacing) * spacing
        mass, beyond = cells(loss, base, spacing, math.ceil((high - base) / spacing) + 1)
        lost += count * (beyond + 1e-25)
        for _ in range(count):
            total = np.convolve(total, mass)
            start, steps = start + base, steps + 1
    down = start + spacing * np.arange(len(total))
    up = down + steps * spacing
    least, most = (float(total @ np.maximum(-np.expm1(np.minimum(epsilon - at, 0.0)), 0.0)) for at in (down, up))
    return least - lost - 1e-13, most + lost + 1e-13


def any_step(random: Random) -> tuple[Mechanism, int]:
    rate = 10.0 ** random.uniform(-3.0, -0.1)
    kind = random.randrange(7)
    inner: Mechanism = [
        Laplace(10.0 ** random.uniform(-1.0, 0.8)),
        Pure(10.0 ** random.uniform(-1.0, 0.6)),
        DiscreteLaplace(10.0 ** random.uniform(-0.3, 1.0), random.randint(1, 5)),
        DiscreteGaussian(10.0 ** random.uniform(-0.2, 1.0), random.randint(1, 2)),
        RandomizedResponse(10.0 ** random.uniform(-1.0, 0.5), random.randint(2, 6)),
        Laplace(10.0 ** random.uniform(-1.0, 0.3)),
        Gaussian(10.0 ** random.uniform(-0.5, 0.3)),
    ][kind]
    if kind == 6:
        return gaussian(10.0 ** random.uniform(-0.3, 0.5), rate), random.randint(1, 3)
    way = random.choice([PoissonSampled, PoissonSampled, None])
    return (inner if way is None else way(inner, rate)), random.randint(1, 4)


def against_lattices(random: Random, cases: int, draw: Callable[[Random], Steps]) -> None:
    """Check each direction of drawn steps: the interval contains what both roundings of a lattice say."""
    refused = 0
    for _ in range(cases):
        steps, delta = draw(random), 10.0 ** random.uniform(-7.0, -1.5)
        try:
            bound = epsilon(steps, delta)
        except NotRepresentable:  # an interval of more than 1 %, or too much work
            refused += 1
            continue
        assert bound.lower is not None
        sides = directions(steps)
        at_low = max(lattice_deltas(side, bound.lower)[1] for side in sides)
        at_high = max(lattice_deltas(side, bound.upper)[0] for side in sides)
        assert at_high <= delta, (steps, delta)
        assert bound.lower == 0.0 or at_low >= delta, (steps, delta)
        assert bound.upper - bound.lower <= 1e-2 * bound.upper + 1e-6, (steps, delta)
    assert refused <= max(cases // 8, 2), SEED


@pytest.mark.parametrize("cases", by_tier(4, 12, 400))
def test_mixtures_against_lattices(cases: int) -> None:
    against_lattices(Random(f"{SEED} 2 {cases}"), cases, lambda random: tuple(map(any_step, [random] * random.randint(1, 3))))


@pytest.mark.parametrize("cases", by_tier(3, 15, 200))
def test_replaced_records_against_lattices(cases: int) -> None:
    def replaced(random: Random) -> Steps:
        inner = random.choice([Laplace(10.0 ** random.uniform(-1.0, 0.6)), Pure(10.0 ** random.uniform(-1.0, 0.5))])
        return ((PoissonReplaced(inner, 10.0 ** random.uniform(-3.0, -0.1)), random.randint(1, 5)),)

    against_lattices(Random(f"{SEED} 3 {cases}"), cases, replaced)


@pytest.mark.parametrize("cases", by_tier(2, 8, 300))
def test_delta_and_epsilon_say_the_same(cases: int) -> None:
    random, refused = Random(f"{SEED} 4 {cases}"), 0
    for _ in range(cases):
        steps = tuple(any_step(random) for _ in range(2))
        delta = 10.0 ** random.uniform(-12.0, -2.0)
        try:
            bound = epsilon(steps, delta)
            with allowance(QUESTION):
                above, below = ExactProfile(steps).delta(bound.upper), ExactProfile(steps).delta(bound.lower or 0.0)
        except NotRepresentable:
            refused += 1
            continue
        if not bound.lower:
            continue
        assert above.lower is not None
        assert above.lower <= delta * (1.0 + 1e-9), (steps, delta)
        assert below.upper >= delta * (1.0 - 1e-9), (steps, delta)
    assert refused <= max(cases // 8, 2), SEED


def test_more_noise_never_costs_more() -> None:
    """Epsilon once rose with the noise, as a grid refused on one side: 1.8800, 2.0747, 1.8599 at scales of 1.99, 2 and 2.01."""
    bounds = [epsilon(((PoissonSampled(Laplace(1.0 / scale), 0.01), 10_000),), 1e-5) for scale in (1.99, 2.0, 2.01)]
    assert bounds[0].upper > bounds[1].upper > bounds[2].upper


def test_hardly_any_noise_counts_participations() -> None:
    """Three steps are compared with sums on a lattice, and the interval of one step contains what its own tails say."""
    steps = ((gaussian(0.05, 0.01), 3),)
    bound = epsilon(steps, 1e-6)
    assert bound.lower is not None
    assert bound.upper - bound.lower <= 2e-9 * bound.upper
    far = epsilon(((gaussian(0.001, 0.0005), 120_000),), 1e-5)
    assert far.lower is not None
    assert far.upper - far.lower <= 1e-9 * far.upper
    least, most = lattice_deltas(directions(steps)[0], bound.upper) if bound.upper < 50.0 else (0.0, 1.0)
    assert least <= 1e-6 <= most
    loss = directions(((gaussian(0.03, 0.2), 1),))[0][0][0]
    from dpcli.numerics.contour.little_noise import counted_losses

    for counts in counted_losses(((loss, 1),), math.log(1e-4)):
        low, high = counts.epsilon(math.log(1e-4))
        assert single_log_delta(loss, low)[1] >= math.log(1e-4) * (1.0 + 1e-12)
        assert single_log_delta(loss, high)[0] <= math.log(1e-4) * (1.0 - 1e-12)
        assert low <= high <= low * (1.0 + 1e-6)


PEER: dict[str, Any] = json.loads((Path(__file__).parents[1] / "vectors" / "mixed_noise.json").read_text())


def as_stated(noise: str, parameters: list[float], rate: float) -> Mechanism:
    if noise == "gaussian":
        return gaussian(parameters[0], rate)
    inner: Mechanism = {
        "laplace": lambda: Laplace(1.0 / parameters[0]),
        "discrete-laplace": lambda: DiscreteLaplace(parameters[0], int(parameters[1])),
        "discrete-gaussian": lambda: DiscreteGaussian(parameters[0], int(parameters[1])),
    }[noise]()
    return PoissonSampled(inner, rate) if rate < 1.0 else inner


@pytest.mark.sampled(5)
@pytest.mark.parametrize("case", PEER["cases"], ids=[str(k) for k in range(len(PEER["cases"]))])
def test_a_peer_says_no_less_and_no_more(case: dict[str, Any]) -> None:
    """Both of its estimates, on grids of 1e-4: they round losses up, or down. Its transform's rounding is not counted: the last pessimistic
    one is 1.2e-8 below what the lattice of the discrete Gaussian alone makes in closed form."""
    steps = tuple((as_stated(step["noise"], step["parameters"], step["rate"]), step["steps"]) for step in case["steps"])
    bound = epsilon(steps, case["delta"])
    assert bound.lower is not None
    assert bound.upper >= case["optimistic"] * (1.0 - 1e-9)
    assert bound.lower <= case["pessimistic"] * (1.0 + 1e-7)
    assert bound.upper - bound.lower <= 1e-5 * bound.upper


@pytest.mark.parametrize("cases", by_tier(10, 15, 30))
def test_delta_next_to_the_largest_loss_is_not_rounded_to_nothing(cases: int) -> None:
    """Sampled Laplace noise has a top atom whose place is rounded. Delta next to it is compared with the masses in fifty digits."""
    random = fresh_random()
    for _ in range(cases):
        ratio, rate = random.uniform(0.01, 5.0), random.uniform(1e-3, 0.9)
        profile = ExactProfile(((PoissonSampled(Laplace(ratio), rate), 1),))
        with mp.workdps(50):
            growth = mp.exp(mp.mpf(ratio))
            top = mp.log1p(mp.mpf(rate) * (growth - 1))
            p, q = (1 - mp.mpf(rate)) / (2 * growth) + mp.mpf(rate) / 2, 1 / (2 * growth)
        for epsilon in (*np.nextafter(float(top), [-math.inf, math.inf]).tolist(), float(top)):
            with mp.workdps(50):
                truth = p - mp.exp(mp.mpf(epsilon)) * q
            bound = profile.delta(epsilon)
            assert bound.upper >= truth and (bound.lower or 0.0) <= max(truth, 0), (ratio, rate, epsilon)


@pytest.mark.parametrize("noise", tiered((0.03, 0.02, 0.015, 0.001), 1, 3))
def test_hardly_any_noise_in_one_step_beside_another_is_answered_or_refused(noise: float) -> None:
    """The tilt of the contour rounds to 0 here."""
    little = GaussianSpec(noise_multiplier=noise).poisson(1e-5, Neighbours(Adjacency.ADD_REMOVE))
    profile = ExactProfile(((little, 1), (PoissonSampled(Laplace(1.0), 0.01), 1)))
    for ask in (lambda: profile.epsilon(1e-5), lambda: profile.delta(1.0)):
        with suppress(NotRepresentable), allowance(QUESTION):
            ask()
