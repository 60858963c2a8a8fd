"""Shuffled reports: the claimed costs against histograms of the reports of few users, enumerated over all inputs, an independent sum over
the number of clones (other users' reports, drawn from the same two laws), and published numbers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from random import Random

import numpy as np
import pytest
from scipy import stats

from dpcli.accountants.base import Steps
from dpcli.base.errors import InputError
from dpcli.base.lazy import load
from dpcli.base.registry import ACCOUNTANTS
from dpcli.mechanisms.choice.shuffled_reports import ReportCount, Shuffled, ShuffledReportsSpec
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.neighbours import Adjacency, Neighbours
from dpcli.numerics.grid.clones import clone_pair
from dpcli.numerics.tails import log_deltas, single_log_delta
from tests.cases import fresh_random
from tests.oracles import Array

REPLACED = Neighbours(Adjacency.REPLACE_ONE)


def any_randomizer(users: int, epsilon: float) -> Shuffled:
    return ShuffledReportsSpec(users=users, local_epsilon=epsilon).stated()


def response(users: int, epsilon: float, categories: int = 2) -> Shuffled:
    spec = ShuffledReportsSpec(users=users, local_epsilon=epsilon, randomizer="randomized-response", categories=categories)
    return spec.stated()


def histograms(reports: list[Array]) -> dict[tuple[int, ...], float]:
    """Return the law of the histogram of independent reports, which is all that a shuffler shows."""
    outcomes = len(reports[0])
    law = {(0,) * outcomes: 1.0}
    for report in reports:
        longer: dict[tuple[int, ...], float] = {}
        for histogram, chance in law.items():
            for answer in range(outcomes):
                more = (*histogram[:answer], histogram[answer] + 1, *histogram[answer + 1 :])
                longer[more] = longer.get(more, 0.0) + chance * float(report[answer])
        law = longer
    return law


def true_delta(randomizer: Array, users: int, epsilon: float) -> float:
    """Return the largest delta over all inputs of all users. randomizer: the law of the report for each input, in rows."""
    inputs, worst = range(len(randomizer)), 0.0
    for others in itertools.combinations_with_replacement(inputs, users - 1):
        rest = [randomizer[other] for other in others]
        laws = [histograms([randomizer[own], *rest]) for own in inputs]
        for p, q in itertools.permutations(laws, 2):
            worst = max(worst, math.fsum(max(chance - math.exp(epsilon) * q[seen], 0.0) for seen, chance in p.items()))
    return worst


def k_ary(categories: int, epsilon: float) -> Array:
    weights = np.where(np.eye(categories) > 0.0, math.exp(epsilon), 1.0)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def drawn_randomizer(random: Random, epsilon: float) -> Array:
    """Draw a randomizer whose probabilities differ by at most e^epsilon between inputs, most of them by just that."""
    inputs, outcomes = random.randint(2, 3), random.randint(2, 4)
    half = 0.5 * epsilon  # weights within e^half of each other give probabilities within e^epsilon
    base = np.array([math.exp(random.uniform(-3.0, 0.0)) for _ in range(outcomes)])
    weights = base * np.exp(
        [[random.choice([0.0, half, half, random.uniform(0.0, half)]) for _ in range(outcomes)] for _ in range(inputs)]
    )
    laws = weights / weights.sum(axis=1, keepdims=True)
    spread = float(np.log(laws.max(axis=0) / laws.min(axis=0)).max())
    if spread < epsilon:  # exaggerated as long as the laws stay private
        for factor in (2.0, 1.5, 1.25, 1.1):
            wider = base * (weights / base) ** factor
            wider = wider / wider.sum(axis=1, keepdims=True)
            if float(np.log(wider.max(axis=0) / wider.min(axis=0)).max()) <= epsilon:
                return np.asarray(wider)
    return np.asarray(laws)


def upper_delta(mechanism: Mechanism, epsilon: float) -> float:
    return max(math.exp(float(log_deltas(loss, np.array([epsilon]))[0])) for loss in mechanism.losses())


@pytest.mark.parametrize(("users", "categories"), [(1, 3), (2, 2), (2, 4), (3, 3), (4, 3), (5, 2), (6, 2), (5, 3)])
def test_enumerated_responses_cost_no_more_and_no_less_than_is_claimed(users: int, categories: int) -> None:
    seed = fresh_random().randrange(10**9)
    random = Random(seed)
    e0 = random.uniform(0.1, 3.0)
    for epsilon in (0.0, random.uniform(0.0, e0), random.uniform(0.0, 0.5 * e0)):
        truth = true_delta(k_ary(categories, e0), users, epsilon)
        at = f"seed {seed}: local epsilon {e0!r}, epsilon {epsilon!r}, delta {truth!r}"
        assert truth <= upper_delta(response(users, e0, categories), epsilon) + 1e-12, at
        assert (
            upper_delta(response(users, e0, categories), epsilon)
            <= upper_delta(any_randomizer(users, e0), epsilon) * (1 + 1e-5) + 1e-12
        )
        for loss in ReportCount(users, e0, categories).losses():
            assert math.exp(single_log_delta(loss, epsilon)[0]) <= truth + 1e-12, at


def test_two_categories_of_two_users_are_exact_at_the_largest_loss() -> None:
    """Both reports are equal, and one of them was likelier by e^epsilon: the pair with one clone, and the one without."""
    e0 = math.log(3.0)
    kept = 0.75
    clone = 2.0 * (1.0 - kept)  # the probability that the other user's report is one
    for epsilon in (0.0, 0.3, 1.0):
        gain = kept - math.exp(epsilon) * (1.0 - kept)  # of a loss of e0
        expected = (1.0 - clone) * gain + clone * (0.5 * gain)
        assert upper_delta(response(2, e0), epsilon) == pytest.approx(expected, rel=2e-3)
        assert upper_delta(response(2, e0), epsilon) >= expected


@pytest.mark.parametrize("users", [2, 3, 4])
def test_random_randomizers_cost_no_more_than_is_claimed(users: int) -> None:
    seed = fresh_random().randrange(10**9)
    random = Random(seed)
    for _ in range(20):
        e0 = random.uniform(0.2, 3.0)
        randomizer = drawn_randomizer(random, e0)
        assert float(np.log(randomizer.max(axis=0) / randomizer.min(axis=0)).max()) <= e0 + 1e-12
        epsilon = random.uniform(0.0, e0)
        truth = true_delta(randomizer, users, epsilon)
        assert truth <= upper_delta(any_randomizer(users, e0), epsilon) + 1e-12, f"seed {seed}: {randomizer!r} at {epsilon!r}"


def summed_delta(users: int, e0: float, rate: float, epsilon: float) -> float:
    """Return the delta of the pair of clones, as a sum over all numbers of clones by scipy's binomial tails."""
    clones = np.arange(users)
    weights = stats.binom.pmf(clones, users - 1, rate)
    q, reports = math.exp(e0) / (math.exp(e0) + 1.0), clones + 1.0
    share = (q - math.exp(epsilon) * (1.0 - q)) / (
        (1.0 + math.exp(epsilon)) * (2.0 * q - 1.0)
    )  # of ones, at which the loss is epsilon
    least = np.floor(reports * (1.0 - share)) + 1.0  # zeros
    own, other = stats.binom.sf(least - 2.0, clones, 0.5), stats.binom.sf(least - 1.0, clones, 0.5)
    gains = (q - math.exp(epsilon) * (1.0 - q)) * own + (1.0 - q - math.exp(epsilon) * q) * other
    return float((weights * gains.clip(min=0.0)).sum())


@pytest.mark.parametrize(
    "users", [3, 30, pytest.param(1000, marks=pytest.mark.long), pytest.param(20_000, marks=pytest.mark.nightly)]
)
def test_the_pair_is_that_of_an_independent_sum(users: int) -> None:
    seed = fresh_random().randrange(10**9)
    random = Random(seed)
    e0 = random.uniform(0.05, 4.0)
    rate = random.choice([math.exp(-e0), 2.0 / (math.exp(e0) + 1.0)])
    pair = clone_pair(users, e0, rate)
    deviation = 2.0 * math.tanh(0.5 * e0) / math.sqrt(max(users * rate, 1.0))
    for multiple in (0.0, 1.0, 4.0):
        epsilon = min(multiple * deviation, 0.9 * e0)
        exact = summed_delta(users, e0, rate, epsilon)
        upper, looser = (math.exp(float(log_deltas(pair, np.array([at]))[0])) for at in (epsilon, epsilon * 1.0005))
        at = f"seed {seed}: local epsilon {e0!r}, rate {rate!r}, epsilon {epsilon!r}, exact {exact!r}, upper {upper!r}"
        assert exact * (1.0 - 1e-9) <= upper, at
        assert looser <= exact * (1.0 + 1e-3), at


@pytest.mark.parametrize("users", [2, 200])
def test_any_randomizer_has_only_the_clones_that_are_proved(users: int) -> None:
    """c = e^-e, although no randomiser of few users is known that costs more than 2 / (e^e + 1): its proof for all of them has an error."""
    e0 = fresh_random().uniform(0.5, 3.0)
    epsilon = 0.3 * e0 / math.sqrt(users)
    for mechanism, rate in ((any_randomizer(users, e0), math.exp(-e0)), (response(users, e0), 2.0 / (math.exp(e0) + 1.0))):
        assert upper_delta(mechanism, epsilon) == pytest.approx(summed_delta(users, e0, rate, epsilon), rel=3e-3), e0


@pytest.mark.parametrize("rounds", [1, 2])
def test_a_report_that_tells_nearly_everything_costs_its_local_epsilon(rounds: int) -> None:
    """With hardly a clone, delta is about 1 - e^(epsilon - r e) at r equal reports, to all digits of its own."""
    random = Random(seed := fresh_random().randrange(10**9))
    for make in (any_randomizer, response):
        users, e0, delta = random.randint(1, 8), random.uniform(25.0, 290.0), 10.0 ** random.uniform(-9.0, -3.0)
        for accountant in ("exact", "pld", "rdp"):
            upper = epsilon_of(((make(users, e0), rounds),), delta, accountant)[1]
            least = rounds * e0 + math.log1p(-delta - 1e-9 * users * rounds)  # cancelled or false with less than this chance
            assert upper >= least - 1e-13 * rounds * e0, (seed, users, e0, delta, accountant)


def epsilon_of(steps: Steps, delta: float, accountant: str = "pld") -> tuple[float, float]:
    bound = load(ACCOUNTANTS[accountant]).compose(steps).epsilon(delta)
    return bound.lower or 0.0, bound.upper


# What the program of arXiv:2012.12803 prints for its example.
PUBLISHED = [(100_000, 4.0, 1e-6, 0.1675385583317841, 0.172790550755978)]


@pytest.mark.long
@pytest.mark.parametrize(("users", "e0", "delta", "low", "high"), PUBLISHED)
def test_published_numbers_for_any_randomizer(users: int, e0: float, delta: float, low: float, high: float) -> None:
    assert low <= any_randomizer(users, e0).approx_dp(delta) <= high


@pytest.mark.parametrize("users", [pytest.param(10**6, marks=pytest.mark.long), pytest.param(10**10, marks=pytest.mark.long)])
def test_many_users_hide_by_the_normal_law(users: int) -> None:
    """The loss of many reports is nearly Gaussian, with the variance of the share of zeros among the clones."""
    e0 = fresh_random().uniform(0.1, 2.0)
    deviation = 2.0 * math.tanh(0.5 * e0) / math.sqrt(users * 2.0 / (math.exp(e0) + 1.0))
    for multiple in (1.0, 2.0, 3.0):
        expected = stats.norm.sf(multiple - 0.5 * deviation) - math.exp(multiple * deviation) * stats.norm.sf(
            multiple + 0.5 * deviation
        )
        assert upper_delta(response(users, e0), multiple * deviation) == pytest.approx(expected, rel=5e-3), e0


def test_several_rounds_by_three_accountants() -> None:
    seed = fresh_random().randrange(10**9)
    random = Random(seed)
    mechanism = response(random.randint(50, 500), random.uniform(0.2, 2.0))
    steps = ((mechanism, random.randint(2, 40)),)
    delta = 10.0 ** random.uniform(-12.0, -4.0)
    (low, pld), (_, rdp) = epsilon_of(steps, delta), epsilon_of(steps, delta, "rdp")
    assert low <= pld <= rdp <= steps[0][1] * mechanism.epsilon, seed
    witness = mechanism.witness(2.0)
    assert witness is not None
    assert epsilon_of(((witness, steps[0][1]),), delta)[0] <= pld, seed


def test_more_honest_users_never_cost_more() -> None:
    e0 = fresh_random().uniform(0.5, 3.0)
    costs = [response(users, e0).approx_dp(1e-6) for users in (1, 2, 10, 50, 200)]
    assert costs == sorted(costs, reverse=True), e0
    assert costs[0] == pytest.approx(e0, rel=1e-5)


def test_rho_is_no_more_than_that_of_one_report() -> None:
    for users, e0 in [(1, 1.0), (2, 1.0), (300, 0.5), (300, 6.0), (50, 400.0)]:
        mechanism = response(users, e0)
        z: Array = np.geomspace(1e-3, 1e4, 200)
        rho = mechanism.zcdp()
        assert (mechanism.rdp(1.0 + z) <= rho * (1.0 + z) * (1.0 + 1e-9)).all(), (users, e0)
        assert rho <= e0 * math.tanh(0.5 * e0) * (1.0 + 1e-12), (users, e0)
    assert response(300, 0.5).zcdp() < 0.01 * 0.5 * math.tanh(0.25)


def refusals() -> Iterator[tuple[ShuffledReportsSpec, Neighbours, str]]:
    spec = ShuffledReportsSpec(users=10, local_epsilon=1.0)
    yield spec, Neighbours(Adjacency.ADD_REMOVE), "hides what a user reports, not whether"
    yield spec, Neighbours(Adjacency.REPLACE_ONE, contributions=2), "a unit contributes at most 2 records"


@pytest.mark.parametrize(("spec", "neighbours", "reason"), list(refusals()))
def test_what_is_not_hidden_is_refused(spec: ShuffledReportsSpec, neighbours: Neighbours, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        spec.resolve(neighbours)


def test_categories_belong_to_randomised_response() -> None:
    assert [key for key, _, _ in ShuffledReportsSpec(users=3, local_epsilon=1.0, categories=3).problems()] == ["categories"]
    assert ShuffledReportsSpec(users=3, local_epsilon=1.0).resolve(REPLACED).witness(2.0) == ReportCount(3, 1.0, 2)
    assert ShuffledReportsSpec(users=3, local_epsilon=1.0).resolve(Neighbours(Adjacency.ZERO_OUT)).witness(2.0) is None
