"""Laws of the bounds, and what each refuses."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from dpcli.audit.bounds import (
    Counts,
    ErrorRates,
    binomial_tail,
    curve_excess,
    error_rates,
    guesses_epsilon_lower,
    p_value,
    rate_lower,
    rate_upper,
    rates_epsilon_lower,
)
from dpcli.audit.scores import Scores, Threshold, by_bonferroni, by_split, guess, guess_counts, require_fair
from dpcli.base.errors import InputError
from tests.cases import require_each


def binomial(trials: int, rate: float, count: int) -> float:
    return math.comb(trials, count) * rate**count * (1.0 - rate) ** (trials - count)


@given(trials=st.integers(1, 60), rate=st.floats(0.01, 0.99), least=st.integers(-2, 62))
def test_tail_is_the_sum(trials: int, rate: float, least: int) -> None:
    exact = math.fsum(binomial(trials, rate, k) for k in range(max(least, 0), trials + 1))
    assert float(binomial_tail(trials, rate, np.array([float(least)]))[0]) == pytest.approx(exact, rel=1e-9, abs=1e-14)


@given(trials=st.integers(1, 60), data=st.data(), level=st.floats(0.001, 0.4))
def test_clopper_pearson_is_exact(trials: int, data: st.DataObject, level: float) -> None:
    """At the bound, so few successes have exactly the probability `level`."""
    count = data.draw(st.integers(0, trials - 1))
    rate = float(rate_upper(count, trials, level))
    assert math.fsum(binomial(trials, rate, k) for k in range(count + 1)) == pytest.approx(level, rel=1e-6)
    assert float(rate_upper(trials, trials, level)) == 1.0
    assert float(rate_lower(trials - count, trials, level)) == pytest.approx(1.0 - rate, abs=1e-12)


def p_value_by_sums(m: int, r: int, v: int, epsilon: float, delta: float) -> float:
    """The definition, term by term."""
    rate = math.exp(epsilon) / (1.0 + math.exp(epsilon))
    at_least = [math.fsum(binomial(r, rate, k) for k in range(max(i, 0), r + 1)) for i in range(v + 1)]
    alpha = max(((at_least[v - i] - at_least[v]) / i for i in range(1, v + 1)), default=0.0)
    return min(1.0, at_least[v] + 2.0 * m * delta * alpha)


@given(m=st.integers(1, 60), data=st.data(), epsilon=st.floats(0.0, 4.0), delta=st.sampled_from([0.0, 1e-6, 1e-3, 0.01]))
def test_p_value_is_its_definition(m: int, data: st.DataObject, epsilon: float, delta: float) -> None:
    r = data.draw(st.integers(0, m))
    v = data.draw(st.integers(0, r))
    assert p_value(m, r, v, epsilon, delta) == pytest.approx(p_value_by_sums(m, r, v, epsilon, delta), rel=1e-8)


@given(m=st.integers(1, 3000), data=st.data(), delta=st.sampled_from([0.0, 1e-6, 1e-4]))
def test_one_run_bound_is_refuted_itself(m: int, data: st.DataObject, delta: float) -> None:
    r = data.draw(st.integers(0, m))
    v = data.draw(st.integers(r // 2, r))
    lower = guesses_epsilon_lower(m, r, v, delta, 0.05)
    assert lower == 0.0 or p_value(m, r, v, lower, delta) <= 0.05
    assert guesses_epsilon_lower(m, r, max(v - 1, 0), delta, 0.05) <= lower + 1e-9
    assert guesses_epsilon_lower(m, r, v, delta, 0.01) <= lower + 1e-9


@given(st.integers(1, 200), st.data())
def test_two_run_bound_holds_at_every_delta(n: int, data: st.DataObject) -> None:
    counts = Counts(n, n, data.draw(st.integers(0, n)), data.draw(st.integers(0, n)))
    rates = error_rates(counts, 0.05)
    found = [rates_epsilon_lower(rates, delta) for delta in (0.0, 1e-6, 1e-3, 0.1, 0.5)]
    assert found == sorted(found, reverse=True)
    for delta, epsilon in zip((0.0, 1e-6, 1e-3, 0.1, 0.5), found, strict=True):
        gaps = (
            1.0 - rates.false_negative - math.exp(epsilon) * rates.false_positive - delta,
            1.0 - rates.false_positive - math.exp(epsilon) * rates.false_negative - delta,
        )
        assert epsilon == 0.0 or max(gaps) >= 0.0


def test_two_run_is_the_same_in_both_directions() -> None:
    assert rates_epsilon_lower(ErrorRates(0.01, 0.3), 1e-5) == rates_epsilon_lower(ErrorRates(0.3, 0.01), 1e-5)


def test_curve_of_no_information_is_refuted_by_right_guesses_alone() -> None:
    def blind(alpha: float) -> float:
        return 1.0 - alpha

    assert curve_excess(1000, 200, 150, blind, 0.05) > 0.0
    assert curve_excess(1000, 200, 105, blind, 0.05) <= 0.0


def test_impossible_counts_are_refused() -> None:
    def check(counts: tuple[int, int, int]) -> None:
        with pytest.raises(InputError, match="correct <= guesses <= canaries"):
            p_value(*counts, 1.0, 0.0)
        with pytest.raises(InputError, match="correct <= guesses <= canaries"):
            curve_excess(*counts, lambda alpha: 1.0 - alpha, 0.05)

    require_each([(10, 11, 5), (10, 5, 6), (0, 0, 0), (10, -1, 0), (10, 5, -1)], check)


def test_impossible_counts_of_runs_are_refused() -> None:
    def check(counts: tuple[int, int, int, int]) -> None:
        with pytest.raises(InputError, match="expected"):
            Counts(*counts)

    require_each([(10, 10, 11, 0), (10, 10, 0, 11), (0, 10, 0, 0), (10, 0, 0, 0), (10, 10, -1, 0)], check)


def test_ties_do_not_tell_who_is_a_member() -> None:
    """Equal scores, members first in the file: about half of the guesses are right."""
    scores = Scores(np.repeat([True, False], 1000), np.zeros(2000))
    assert 400 < guess(scores, 1000, one_sided=False).correct < 600
    assert 400 < guess(scores, 1000, one_sided=True).correct < 600


def test_guesses_are_about_the_ends() -> None:
    scores = Scores(np.array([False] * 50 + [True] * 50), np.arange(100.0))
    assert guess(scores, 100, one_sided=False).correct == 100
    assert guess(scores, 50, one_sided=True).correct == 50
    assert guess(scores, 60, one_sided=True).correct == 50
    with pytest.raises(InputError, match="from 1 to 100 guesses"):
        guess(scores, 101, one_sided=False)


@given(st.integers(1, 10**6))
def test_guess_counts_are_fixed_by_the_number_of_canaries(canaries: int) -> None:
    found = guess_counts(canaries)
    assert found[0] >= 1
    assert found[-1] == canaries
    assert len(found) <= 7


def test_split_judges_other_scores_than_it_chose_on() -> None:
    scores = Scores(np.repeat([True, False], 400), np.concatenate([np.arange(400) + 0.5, np.arange(400.0)]))
    first, rest = scores.split()
    assert len(first) + len(rest) == len(scores)
    assert {*first.values.tolist()} & {*rest.values.tolist()} == set()
    assert len(first.inside) == 100


def test_split_finds_the_side_on_which_members_are() -> None:
    rng = np.random.default_rng(1)
    values = np.concatenate([rng.normal(size=500) - 5.0, rng.normal(size=500)])
    tested = by_split(
        Scores(np.repeat([True, False], 500), values),
        lambda counts, level: rates_epsilon_lower(error_rates(counts, level), 0.0),
        0.05,
    )
    assert tested.threshold is not None
    assert not tested.threshold.above
    assert rates_epsilon_lower(tested.rates, 0.0) > 3.0


def test_a_score_at_the_threshold_is_called_other() -> None:
    scores = Scores(np.array([True, True, False, False]), np.array([1.0, 2.0, 1.0, 0.0]))
    assert Threshold(1.0).counts(scores) == Counts(2, 2, 1, 0)


def test_few_scores_are_refused() -> None:
    with pytest.raises(InputError, match="at least 20 members"):
        by_split(Scores(np.repeat([True, False], 19), np.arange(38.0)), lambda counts, level: 0.0, 0.05)


def proves(counts: Counts, level: float) -> float:
    return rates_epsilon_lower(error_rates(counts, level), 1e-5)


def leaking(chance: float, score: float, runs: int, rng: np.random.Generator) -> Scores:
    """Scores that say nothing of who is a member, but with this chance, where they say all."""
    values = rng.normal(size=2 * runs)
    values[:runs][rng.random(runs) < chance] = score
    return Scores(np.repeat([True, False], runs), values)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("score", [10.0, -10.0, np.nan, np.inf, -np.inf])
def test_what_leaks_seldom_and_then_all_is_found(score: float) -> None:
    """In 3 of 100 runs; also where it is no number that tells. At the quarter's own size 1 of 100 audits found it."""
    seed = np.random.SeedSequence().entropy
    rng = np.random.default_rng(seed)
    found = [
        proves(tested.counts, 0.05) > 0.5 for tested in (by_split(leaking(0.03, score, 2000, rng), proves, 0.05) for _ in range(8))
    ]
    assert sum(found) >= 6, (found, seed)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("choose", [by_split, by_bonferroni])
def test_a_private_program_is_accused_at_most_as_often_as_the_significance(choose: Callable[..., Any]) -> None:
    """Randomised response at epsilon = 1 in the sign of the score, and scores that are no number on both sides alike."""
    seed = np.random.SeedSequence().entropy
    rng, accused, audits, significance = np.random.default_rng(seed), 0, 120, 0.05
    for _ in range(audits):
        members = np.repeat([True, False], 400)
        kept = rng.random(800) < 1.0 / (1.0 + np.exp(-1.0))
        values = np.where(members == kept, 1.0, -1.0) * rng.exponential(size=800)
        values[rng.random(800) < 0.02] = np.nan
        tested = choose(
            Scores(members, values),
            lambda counts, level: rates_epsilon_lower(error_rates(counts, level), 0.0),
            significance,
        )
        accused += rates_epsilon_lower(tested.rates, 0.0) > 1.0
    assert accused <= binom.ppf(1.0 - 1e-6, audits, significance), (accused, seed)


def test_unfair_coins_are_refused() -> None:
    with pytest.raises(InputError, match="fair coin"):
        require_fair(Scores(np.arange(1000) < 900, np.zeros(1000)))
    require_fair(Scores(np.arange(1000) < 530, np.zeros(1000)))
