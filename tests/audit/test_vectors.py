"""Lower bounds against the values of another library and of an independent computation (tests/vectors/audit.json)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special

from dpcli.audit.bounds import (
    Counts,
    error_rates,
    guesses_epsilon_lower,
    guesses_gaussian_epsilon_lower,
    p_value,
    rates_epsilon_lower,
    rates_gaussian_epsilon_lower,
    rates_mu_lower,
)
from dpcli.audit.scores import Scores, by_bonferroni, by_split, guess
from dpcli.base.errors import InputError
from tests.cases import require_each
from tests.command import ROOT

VECTORS = json.loads((ROOT / "tests" / "vectors" / "audit.json").read_text())
LEVEL = 0.05


def cases(family: str) -> Callable[[Callable[[dict[str, Any]], None]], Callable[[], None]]:
    """Makes one test of all cases of a family."""
    listed: list[dict[str, Any]] = VECTORS[family]

    def of_all(test: Callable[[dict[str, Any]], None]) -> Callable[[], None]:
        def every() -> None:
            require_each(listed, test, lambda case: str(case.get("name", listed.index(case))))

        every.__doc__ = test.__doc__
        return every

    return of_all


def test_every_family_is_tested() -> None:
    assert set(VECTORS) == {"about", "one_run_steinke_2023", "one_run_p_values", "clopper_pearson_two_run", "score_level"}


@cases("one_run_steinke_2023")
def test_one_run(case: dict[str, Any]) -> None:
    counts = case["m"], case["r"], case["v"]
    found = guesses_epsilon_lower(*counts, case["delta"], case["significance"])
    assert found == pytest.approx(case["eps_lb_independent"], abs=1e-4)
    assert found <= case["eps_lb_independent"] + 1e-12
    assert p_value(*counts, 1.0, case["delta"]) == pytest.approx(case["p_value_at_eps1"], rel=1e-9)
    if case["closed_form"] is not None:
        assert found == pytest.approx(case["closed_form"], abs=1e-9)


@cases("one_run_steinke_2023")
def test_one_run_gaussian_family(case: dict[str, Any]) -> None:
    counts, wanted = (case["m"], case["r"], case["v"]), case["eps_lb_gdp_fdp_mahloujifar"]
    if case["delta"] == 0.0:
        with pytest.raises(InputError, match="delta > 0"):
            guesses_gaussian_epsilon_lower(*counts, 0.0, case["significance"])
    elif wanted is not None:
        assert guesses_gaussian_epsilon_lower(*counts, case["delta"], case["significance"]) == pytest.approx(wanted, abs=1e-4)
    else:
        assert guesses_gaussian_epsilon_lower(*counts, case["delta"], case["significance"]) == 0.0


@cases("one_run_p_values")
def test_one_run_p_values(case: dict[str, Any]) -> None:
    found = p_value(case["m"], case["r"], case["v"], case["eps"], case["delta"])
    assert found == pytest.approx(case["p_independent"], rel=1e-9)
    assert found >= case["p_independent"]


@cases("clopper_pearson_two_run")
def test_two_run(case: dict[str, Any]) -> None:
    rates = error_rates(Counts(case["n_in"], case["n_out"], case["tp"], case["fp"]), case["significance"])
    assert rates.false_negative == pytest.approx(case["fnr_ub"], rel=1e-9)
    assert rates.false_positive == pytest.approx(case["fpr_ub"], rel=1e-9)
    assert rates_epsilon_lower(rates, case["delta"]) == pytest.approx(case["eps_lb_two_sided"], abs=1e-4)
    assert rates_mu_lower(rates) == pytest.approx(case["mu_lb_gdp"], abs=1e-6)
    if case["delta"] == 0.0:
        with pytest.raises(InputError, match="delta > 0"):
            rates_gaussian_epsilon_lower(rates, 0.0)
    else:
        assert rates_gaussian_epsilon_lower(rates, case["delta"]) == pytest.approx(case["eps_lb_gdp_nasr2023"], abs=1e-4)


def scores_of(case: dict[str, Any]) -> Scores:
    n = case["n"]
    base = special.ndtri((np.arange(n) + 0.5) / n)
    return Scores(np.repeat([True, False], n), np.concatenate([base + case["mu"], base]))


def hull(scores: Scores) -> list[float]:
    """The thresholds at the corners of the lower convex hull of (missed, rejected), found by trying every pair."""
    levels = [*np.unique(scores.values).tolist(), np.inf]
    points = [(int((scores.inside < t).sum()), int((scores.outside < t).sum())) for t in levels]
    kept: list[int] = []
    for i, (x, y) in enumerate(points):
        while len(kept) > 1 and _turn(points[kept[-2]], points[kept[-1]], (x, y)) >= 0:
            kept.pop()
        kept.append(i)
    return [levels[i] for i in kept]


def _turn(a: tuple[int, int], b: tuple[int, int], c: tuple[int, int]) -> int:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def at_least(scores: Scores, threshold: float) -> Counts:
    inside, outside = scores.inside >= threshold, scores.outside >= threshold
    return Counts(len(inside), len(outside), int(inside.sum()), int(outside.sum()))


def one_way(counts: Counts, delta: float, level: float) -> float:
    """The vectors look at true positives against false positives only."""
    rates = error_rates(counts, level)
    gain = 1.0 - rates.false_negative - delta
    return max(0.0, float(np.log(gain / rates.false_positive))) if gain > 0.0 else 0.0


@cases("score_level")
def test_scores_at_a_stated_threshold(case: dict[str, Any]) -> None:
    scores, delta = scores_of(case), case["delta"]
    counts = at_least(scores, 1.0)
    assert one_way(counts, delta, LEVEL) == pytest.approx(case["cp_explicit_t1"], abs=1e-4)
    said = counts.true_positives + counts.false_positives
    found = guesses_epsilon_lower(2 * case["n"], said, counts.true_positives, delta, LEVEL)
    assert found == pytest.approx(case["one_run_explicit_t1"], abs=1e-4)


@pytest.mark.long
@cases("score_level")
def test_scores_at_the_best_threshold(case: dict[str, Any]) -> None:
    """The vectors correct for as many thresholds as the data's hull has corners; ours for as many as there could be, so never above."""
    scores, delta = scores_of(case), case["delta"]
    tests = [at_least(scores, t) for t in hull(scores)]
    level = LEVEL / len(tests)
    assert max(one_way(counts, delta, level) for counts in tests) == pytest.approx(case["cp_bonferroni"], abs=1e-4)
    guesses = [(c.true_positives + c.false_positives, c.true_positives) for c in tests]
    found = max(guesses_epsilon_lower(2 * case["n"], r, v, delta, level) for r, v in guesses if r)
    assert found == pytest.approx(case["one_run_bonferroni"], abs=1e-4)
    family = max(guesses_gaussian_epsilon_lower(2 * case["n"], r, v, delta, level) for r, v in guesses if r)
    assert family == pytest.approx(case["one_run_fdp_bonferroni"], abs=1e-3)
    ours = by_bonferroni(scores, lambda counts, level: rates_epsilon_lower(error_rates(counts, level), delta), LEVEL)
    assert rates_epsilon_lower(ours.rates, delta) <= case["cp_bonferroni"]


@cases("score_level")
def test_gaussian_family_over_all_thresholds(case: dict[str, Any]) -> None:
    scores, delta = scores_of(case), case["delta"]
    tests = [at_least(scores, t) for t in hull(scores)]
    rates = [error_rates(counts, LEVEL / len(tests)) for counts in tests]
    usable = [r for r in rates if max(r.false_positive, r.false_negative) < 1.0 - delta]
    assert max(rates_gaussian_epsilon_lower(r, delta) for r in usable) == pytest.approx(case["from_gdp"], abs=1e-3)


@cases("score_level")
def test_no_bound_exceeds_the_truth(case: dict[str, Any]) -> None:
    """These scores are a Gaussian's own quantiles."""
    scores, delta = scores_of(case), case["delta"]
    truth = case["true_eps_gdp"] or np.inf
    for choose in (by_split, by_bonferroni):
        tested = choose(scores, lambda counts, level: rates_epsilon_lower(error_rates(counts, level), delta), LEVEL)
        assert 0.5 < rates_epsilon_lower(tested.rates, delta) < truth
        assert rates_gaussian_epsilon_lower(tested.rates, delta) < truth
    made = guess(scores, 200, one_sided=False)
    assert 0.5 < guesses_epsilon_lower(made.canaries, made.guesses, made.correct, delta, LEVEL) < truth
