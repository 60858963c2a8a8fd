"""What an audit says that it could have found is found as often as it says, and what is well below it is not."""

from __future__ import annotations

import re

import pytest

from dpcli.audit.audit_result import Audit
from dpcli.audit.audit_settings import AuditSettings
from dpcli.audit.bounds import ErrorRates, error_rates
from dpcli.audit.claim import Claim, stated_claim
from dpcli.audit.documents.audit import headline
from dpcli.audit.one_run import guessed_audit, one_run_audit
from dpcli.audit.power import THRESHOLDS, strongest_attack
from dpcli.audit.scores import Guessed, Threshold
from dpcli.audit.two_runs import refuted_by_rates, two_run_audit
from dpcli.mechanisms.neighbours import Adjacency
from tests.audit.attacks import canaries, claim, one_sum, runs
from tests.cases import require_each

CURVE = claim()
PAIR = stated_claim(CURVE.epsilon, CURVE.delta, Adjacency.ADD_REMOVE)
AUDITS = 60


def one_run(noise: float, against: Claim, seed: int) -> Audit:
    return one_run_audit(canaries(one_sum(noise=noise), 1000, seed), against, AuditSettings(guesses=500), "canaries")


def two_run(noise: float, against: Claim, seed: int) -> Audit:
    return two_run_audit(runs(one_sum(noise=noise), 400, seed), against, AuditSettings(threshold=None), "runs")


def factor(audit: Audit) -> float:
    return float(re.findall(r"divided by ([0-9.]+)", audit.power[0])[0])


@pytest.mark.long
def test_the_strongest_attack_on_a_right_program_refutes_no_claim_and_slightly_less_noise_does() -> None:
    """Also where records are sampled: a Gaussian sum of the same epsilon at delta costs more than they do at other deltas."""

    def check(against: Claim) -> None:
        attack = strongest_attack(against)
        assert attack is not None

        def is_refuted(factor: float) -> bool:
            shift = factor * attack.shift
            rates = [ErrorRates(attack.tail(at), 1.0 - attack.tail(at - shift)) for at in THRESHOLDS]
            return any(refuted_by_rates(rate, against) for rate in rates)

        assert not is_refuted(1.0)
        assert is_refuted(1.05)

    require_each([CURVE, claim(1.0, 5, 0.5)], check)


@pytest.mark.nightly
@pytest.mark.sampled(0, 1)
@pytest.mark.long
@pytest.mark.parametrize("against", [CURVE, PAIR], ids=["curve", "pair"])
def test_a_fault_of_the_stated_size_is_found_in_one_run(against: Claim) -> None:
    """90 % of 60 audits; fewer than 45 have a chance below 1e-4."""
    x = factor(one_run(1.0, against, 0))
    assert 1.0 < x < 20.0
    assert sum(one_run(1.0 / x, against, seed).violated for seed in range(AUDITS)) >= 45
    assert sum(one_run(1.0 / (1.0 + 0.5 * (x - 1.0)), against, seed).violated for seed in range(AUDITS)) <= 45


@pytest.mark.long
@pytest.mark.parametrize("against", [CURVE, PAIR], ids=["curve", "pair"])
def test_a_fault_of_the_stated_size_is_found_at_the_best_threshold(against: Claim) -> None:
    x = factor(two_run(1.0, against, 0))
    assert 1.0 < x < 20.0
    noise, judged = 1.0 / x, 300  # a quarter of the scores chose the threshold

    def refuted(at: float, seed: int) -> bool:
        return refuted_by_rates(error_rates(Threshold(at).counts(runs(one_sum(noise=noise), judged, seed)), 0.05), against)

    assert max(sum(refuted(noise * at, seed) for seed in range(AUDITS)) for at in THRESHOLDS[::2]) >= 45


def test_no_power_is_said_beside_the_verdict() -> None:
    """All of 20 guesses right would prove less than 3."""
    found = guessed_audit((Guessed(400, 20, 12),), stated_claim(3.0, 1e-5, Adjacency.ADD_REMOVE), AuditSettings(), "counts")
    assert not guessed_audit(
        (Guessed(400, 20, 20),), stated_claim(3.0, 1e-5, Adjacency.ADD_REMOVE), AuditSettings(), "counts"
    ).violated
    assert "no violation found at 95 %" in headline(found)
    assert "the audit could not have detected any fault: with every guess right" in headline(found)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("audit", [one_run, two_run])
def test_a_refuted_curve_is_headed_by_what_refutes_it(audit) -> None:
    """Never by two numbers that do not contradict each other."""
    said = [
        headline(found)
        for seed in range(20)
        for found in [audit(0.45 if audit is one_run else 0.75, CURVE, seed)]
        if found.violated
    ]
    by_curve = [line for line in said if "curve" in line]
    assert by_curve
    for line in by_curve:
        assert "proven" not in line
        if audit is two_run:
            rate, allowed, reached = (float(x) for x in re.findall(r"([0-9.e+-]+) %", line)[1:4])
            assert 0.0 < rate < 100.0
            assert reached > allowed
        else:
            allowed, right = re.findall(r"more than ([0-9]+) of|and ([0-9]+) were right", line)
            assert int(right[1]) > int(allowed[0])
