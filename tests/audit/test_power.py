"""How often an audit fails a program: at most as often as promised where its claim is true, nearly always where a bug is planted."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from dpcli.audit import power
from dpcli.audit.audit_settings import AuditSettings
from dpcli.audit.bounds import error_rates, guesses_epsilon_lower
from dpcli.audit.claim import Claim
from dpcli.audit.one_run import one_run_audit
from dpcli.audit.scores import Scores, Threshold, _midpoints
from dpcli.audit.two_runs import curve_gap, two_run_audit
from tests.audit import attacks
from tests.audit.attacks import Attack, canaries, one_sum, runs

AUDITS = 200
MOST = 20  # of 200 at 5 %: more have a chance of 0.1 %
ONE_SUM = attacks.claim()
DP_SGD = attacks.claim(attacks.SIGMA, attacks.STEPS, attacks.RATE)


@pytest.fixture(autouse=True)
def _what_it_could_have_found_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes longer than the verdict, which does not depend on it."""
    monkeypatch.setattr(power, "strongest_attack", lambda claim: None)


def one_run(scores: Scores, claim: Claim, **settings: object) -> bool:
    return one_run_audit(scores, claim, AuditSettings(**settings), "canaries").violated  # type: ignore[arg-type]


def two_run(scores: Scores, claim: Claim, **settings: object) -> bool:
    return two_run_audit(scores, claim, AuditSettings(**settings), "runs").violated  # type: ignore[arg-type]


@pytest.mark.nightly
@pytest.mark.sampled(0, 1)
@pytest.mark.long
@pytest.mark.parametrize(
    ("attack", "claim", "settings"),
    [
        (one_sum(), ONE_SUM, {}),
        (one_sum(), ONE_SUM, {"guesses": 300}),
        (attacks.dp_sgd(), DP_SGD, {"one_sided": True}),
    ],
    ids=["several numbers of guesses", "one number of guesses", "one side"],
)
def test_false_alarms_of_one_run(attack: Attack, claim: Claim, settings: dict[str, object]) -> None:
    failures = sum(one_run(canaries(attack, 600, seed), claim, **settings) for seed in range(AUDITS))
    assert failures <= MOST


@pytest.mark.nightly
@pytest.mark.sampled(0, 1)
@pytest.mark.long
@pytest.mark.parametrize(
    ("attack", "claim", "settings"),
    [
        (one_sum(), ONE_SUM, {}),
        (one_sum(), ONE_SUM, {"choose": "bonferroni"}),
        (one_sum(), ONE_SUM, {"threshold": 0.5}),
        (attacks.dp_sgd(), DP_SGD, {}),
    ],
    ids=["split", "bonferroni", "stated", "dp-sgd"],
)
def test_false_alarms_of_two_runs(attack: Attack, claim: Claim, settings: dict[str, object]) -> None:
    failures = sum(two_run(runs(attack, 400, seed), claim, **settings) for seed in range(AUDITS))
    assert failures <= MOST


@pytest.mark.nightly
def test_threshold_chosen_on_the_scores_it_is_judged_on_alarms_more_often() -> None:
    """Why the split is there: the best of all thresholds, uncorrected, refutes true claims that no split refuted above."""
    failures = 0
    for seed in range(AUDITS):
        scores = runs(one_sum(), 400, seed)
        failures += any(curve_gap(error_rates(Threshold(at).counts(scores), 0.05), ONE_SUM) > 0.0 for at in _midpoints(scores))
    assert failures >= 6
    assert sum(two_run(runs(one_sum(), 400, seed), ONE_SUM) for seed in range(AUDITS)) < failures / 2


@pytest.mark.long
def test_false_alarms_of_randomised_response_are_as_many_as_stated() -> None:
    """Where the theorem is tight: m canaries that randomised response of epsilon 1 gives away; the exact chance of a false alarm."""
    for m in (100, 1000):
        rate = math.e / (1.0 + math.e)
        least = min(v for v in range(m // 2, m + 1) if guesses_epsilon_lower(m, m, v, 0.0, 0.05) > 1.0)
        chance = math.fsum(math.comb(m, k) * Fraction(rate) ** k * Fraction(1.0 - rate) ** (m - k) for k in range(least, m + 1))
        assert 0.03 < chance <= 0.05


PLANTED: dict[str, tuple[Attack, Claim]] = {
    "no noise": (one_sum(noise=0.0), ONE_SUM),
    "noise/2": (one_sum(noise=0.5), ONE_SUM),
    "noise/2 in DP-SGD": (attacks.dp_sgd(0.5 * attacks.SIGMA), DP_SGD),
    "no clip": (one_sum(size=10.0), ONE_SUM),
    "clip per batch": (attacks.clipped_batch, ONE_SUM),
    "noise/batch size": (one_sum(noise=1.0 / attacks.BATCH), ONE_SUM),
    "fixed seed": (attacks.fixed_seed, ONE_SUM),
    "noise drawn once": (attacks.noise_once, DP_SGD),
    "empty batch skipped": (attacks.empty_skipped, DP_SGD),
    "NaN passed through": (attacks.nan_passed, attacks.claim(2.0, 1, attacks.RATE)),
    "shuffle declared as Poisson": (attacks.shuffled, attacks.claim(0.4, 100, 0.01)),
}


@pytest.mark.sampled(1, 1)
@pytest.mark.parametrize("bug", PLANTED)
def test_power_of_two_runs(bug: str) -> None:
    """1,000 runs in each world catch every planted bug in each of 20 audits; two are allowed for other random numbers."""
    attack, claim = PLANTED[bug]
    caught = sum(two_run(runs(attack, 1000, seed), claim) for seed in range(20))
    assert caught >= 18


@pytest.mark.sampled(0, 1)
@pytest.mark.parametrize("bug", ["no noise", "noise/2", "no clip", "fixed seed", "empty batch skipped", "NaN passed through"])
def test_power_of_two_runs_over_all_thresholds(bug: str) -> None:
    attack, claim = PLANTED[bug]
    assert sum(two_run(runs(attack, 1000, seed), claim, choose="bonferroni") for seed in range(20)) >= 18


@pytest.mark.sampled(0, 1)
@pytest.mark.parametrize(
    ("attack", "claim"),
    [(one_sum(noise=0.5), ONE_SUM), (one_sum(noise=0.0), ONE_SUM), (one_sum(size=10.0), ONE_SUM), (attacks.clipped_batch, ONE_SUM)],
    ids=["noise/2", "no noise", "no clip", "clip per batch"],
)
def test_power_of_one_run(attack: Attack, claim: Claim) -> None:
    """4,000 canaries in a single run."""
    caught = sum(one_run(canaries(attack, 4000, seed), claim) for seed in range(10))
    assert caught >= 9
