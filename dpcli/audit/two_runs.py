"""The verdict of an audit of many runs. The error rates of a membership test are compared with the privacy claim.

Some runs have the record and some do not; a test on their scores errs with a false positive and a false negative rate. audit_run.py calls
`two_run_audit` with scores, or `counted_audit` with counts of such a test. Upper bounds on both rates, which hold together at the stated
confidence, prove a lower bound on epsilon or refute the claimed trade-off curve (bounds.py, claim.py). A threshold that scores choose is
tested on other scores, or pays for the choice (THRESHOLD_CHOICES). The *power* is the smallest fault that the test would have detected
(power.py).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import asdict

from dpcli.audit.audit_result import GAUSSIAN, TRUSTED, Audit, CurveTest, MeasuredScores, ProvenBound
from dpcli.audit.audit_settings import AuditSettings
from dpcli.audit.bounds import (
    GAUSSIAN_SOURCE,
    RATES_SOURCE,
    Counts,
    ErrorRates,
    error_rates,
    rates_epsilon_lower,
    rates_gaussian_epsilon_lower,
)
from dpcli.audit.claim import Claim
from dpcli.audit.power import least_noise_factor, power_sentences, strongest_attack
from dpcli.audit.scores import MembershipTest, Scores, by_bonferroni, by_split, by_stated
from dpcli.base.rounding import down, percent, up

THRESHOLD_CHOICES = {"split": by_split, "bonferroni": by_bonferroni}
REFUTATION_MERIT = 1e6  # added to the merit of a threshold that refutes the curve, so that it exceeds every epsilon
# Assumptions that an audit of many runs states, besides TRUSTED (the program runs under audit as it normally runs).
INDEPENDENT = "every score comes from a separate run, with fresh randomness, on one of two datasets that differ in one record"
COUNTED = "the test behind the counts was fixed before the counts were taken"


def two_run_audit(scores: Scores, claim: Claim, settings: AuditSettings, subject: str) -> Audit:
    """Audit the scores of many runs with a threshold that is chosen independently of the scores that test it.

    Raises InputError if there are too few scores to choose a threshold and to test it.
    """
    significance = 1.0 - settings.confidence
    if settings.threshold is not None:
        tested = by_stated(scores, settings.threshold, significance)
    else:
        tested = THRESHOLD_CHOICES[settings.choose](scores, functools.partial(_merit, claim=claim), significance)
    measured = MeasuredScores(scores, tested.threshold, tested.rates, independent=True, confidence=settings.confidence)
    return _tested_audit(tested, claim, settings, subject, INDEPENDENT, measured)


def _merit(counts: Counts, significance: float, claim: Claim) -> float:
    """Return the merit of a threshold: the epsilon that its error rates prove, or a larger number if they refute the claimed curve."""
    rates = error_rates(counts, significance)
    gap = curve_gap(rates, claim) if claim.has_curve else 0.0
    return REFUTATION_MERIT + gap if gap > 0.0 else rates_epsilon_lower(rates, claim.delta)


def curve_gap(rates: ErrorRates, claim: Claim) -> float:
    """Return how far one error rate is below the smallest that the claimed curve allows, given the other rate.

    If the result is positive, the curve is refuted.
    """
    fpr, fnr = rates.false_positive, rates.false_negative
    return max(claim.trade_off(fpr) - fnr, claim.trade_off(fnr) - fpr)


def counted_audit(counts: Counts, claim: Claim, settings: AuditSettings, subject: str) -> Audit:
    """Audit the counts of a test that was fixed before they were taken."""
    rates = error_rates(counts, 1.0 - settings.confidence)
    tested = MembershipTest(threshold=None, counts=counts, rates=rates, chosen="test fixed beforehand")
    return _tested_audit(tested, claim, settings, subject, COUNTED, measured=None)


def _tested_audit(
    tested: MembershipTest, claim: Claim, settings: AuditSettings, subject: str, assumption: str, measured: MeasuredScores | None
) -> Audit:
    """Return the audit of the counts of a membership test."""
    counts, confidence = tested.counts, settings.confidence
    return Audit(
        kind="two-run",
        subject=subject,
        confidence=confidence,
        claim=claim,
        bounds=_rate_bounds(tested, claim, confidence),
        curve=_curve_of_rates(tested.rates, claim, confidence) if claim.has_curve else None,
        assumptions=(assumption, TRUSTED),
        power=threshold_power(counts, claim, confidence),
        measured=measured,
        counts=asdict(counts),
    )


def _rate_bounds(tested: MembershipTest, claim: Claim, confidence: float) -> tuple[ProvenBound, ...]:
    """Return the lower bounds on epsilon that the error rates prove. The second one assumes a Gaussian trade-off curve."""
    counts, delta = tested.counts, claim.delta
    evidence = (
        f"{counts.true_positives:,} of {counts.members:,} found with the record, {counts.false_positives:,} of {counts.others:,} without "
        f"({tested.chosen})"
    )
    bound = ProvenBound("two runs", rates_epsilon_lower(tested.rates, delta), delta, confidence, evidence, RATES_SOURCE)
    if delta <= 0.0:  # the epsilon of a Gaussian is infinite at delta = 0
        return (bound,)
    gaussian = rates_gaussian_epsilon_lower(tested.rates, delta)
    return bound, ProvenBound("two runs, Gaussian family", gaussian, delta, confidence, evidence, GAUSSIAN_SOURCE, assumes=GAUSSIAN)


def _curve_of_rates(rates: ErrorRates, claim: Claim, confidence: float) -> CurveTest:
    """Test the claimed curve at every point. The bounds on both rates hold together, so no further significance is spent."""
    fpr, fnr = rates.false_positive, rates.false_negative
    detail = f"false positives at most {percent(fpr)} with false negatives at most {percent(fnr)}"
    if curve_gap(rates, claim) <= 0.0:
        return CurveTest(refuted=False, confidence=confidence, detail=detail, source=RATES_SOURCE)
    if rates_epsilon_lower(rates, claim.delta) <= claim.epsilon:  # The headline does not show the excess: name a pair that does.
        excess, epsilon, delta = max(_exceeded_pairs(rates, claim))
        detail += f": epsilon >= {down(epsilon + excess)} at delta = {delta:.3g}, where epsilon <= {up(epsilon)} is claimed"
    allowed, reached = _rate_up(1.0 - claim.trade_off(fpr)), _rate_down(1.0 - fnr)
    point = (
        f"at a false positive rate of {100.0 * fpr:.3g} % the curve allows a true positive rate of at most {allowed}, and the attack "
        f"reached at least {reached}"
    )
    return CurveTest(refuted=True, confidence=confidence, detail=detail, source=RATES_SOURCE, point=point)


def _exceeded_pairs(rates: ErrorRates, claim: Claim) -> Iterator[tuple[float, float, float]]:
    """Yield (excess, epsilon, delta) for every claimed pair: how far the epsilon that the rates prove at delta exceeds the claimed one."""
    deltas = claim.curve.upper.tolist()  # upper bounds, at each of the epsilons
    for epsilon, delta in zip(claim.curve.epsilons.tolist(), deltas, strict=True):
        yield rates_epsilon_lower(rates, delta) - epsilon, epsilon, delta


def _rate_up(rate: float) -> str:
    """Return a rate in percent, rounded up to three decimals: 0.1234561 -> "12.346 %"."""
    return f"{math.ceil(1e5 * rate) / 1e3:g} %"


def _rate_down(rate: float) -> str:
    """Return a rate in percent, rounded down to three decimals: 0.1234561 -> "12.345 %"."""
    return f"{math.floor(1e5 * rate) / 1e3:g} %"


def threshold_power(counts: Counts, claim: Claim, confidence: float) -> tuple[str, ...]:
    """Return sentences about the smallest fault that the strongest attack would have detected with the same number of runs."""
    significance = 1.0 - confidence
    no_errors = Counts(counts.members, counts.others, true_positives=counts.members, false_positives=0)
    perfect = error_rates(no_errors, significance)
    attack = strongest_attack(claim)  # None if the claimed epsilon is 0

    def detects(factor: float) -> bool:
        assert attack is not None
        expected = attack.counts(factor, counts.members, counts.others)  # with 1 / factor of the noise, at each threshold
        return any(refuted_by_rates(error_rates(at_threshold, significance), claim) for at_threshold in expected)

    factor = math.inf if attack is None else least_noise_factor(detects)
    most_provable = rates_epsilon_lower(perfect, claim.delta)
    return power_sentences(
        most_provable,
        factor,
        claim,
        best_case="every run classified correctly",
        attack="the strongest possible attack at its best threshold",
    )


def refuted_by_rates(rates: ErrorRates, claim: Claim) -> bool:
    """Return whether a test with these error rates refutes the claimed pair or the claimed curve."""
    if rates_epsilon_lower(rates, claim.delta) > claim.epsilon:
        return True
    return claim.has_curve and curve_gap(rates, claim) > 0.0
