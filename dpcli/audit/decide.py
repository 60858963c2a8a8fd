"""The verdict of an audit. Scores or counts are tested at the chosen significance, and the result is compared with the privacy claim."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from dpcli.audit import power
from dpcli.audit.audit_settings import AuditSettings
from dpcli.audit.bounds import (
    CURVE_SOURCE,
    GAUSSIAN_SOURCE,
    GUESSES_SOURCE,
    RATES_SOURCE,
    Counts,
    ErrorRates,
    curve_excess,
    error_rates,
    guesses_epsilon_lower,
    guesses_gaussian_epsilon_lower,
    rates_epsilon_lower,
    rates_gaussian_epsilon_lower,
)
from dpcli.audit.claim import Claim
from dpcli.audit.gradient_scores import SampledSteps
from dpcli.audit.power import GuessingRule, best_guessing_rule, least_count, power_sentences, simulated_noise_factor
from dpcli.audit.scores import Guessed, JudgedTest, Scores, by_bonferroni, by_split, by_stated, check_fair, guess, guess_counts
from dpcli.base.errors import InputError
from dpcli.base.rounding import down, percent, up

if TYPE_CHECKING:
    from dpcli.audit.scores import Threshold


AuditKind = Literal["one-run", "two-run", "replay"]


@dataclass(frozen=True, slots=True)
class ProvenBound:
    """A lower bound on epsilon (in nats) at `delta`.

    Attributes:
        method: Name of the test.
        epsilon: The bound.
        delta: Delta at which the bound holds.
        confidence: Confidence of this bound alone.
        evidence: Description of the counts.
        source: Publication of the method.
        assumes: Assumption beyond fair coins or independent runs. A bound with such an assumption does not decide the audit.
    """

    method: str
    epsilon: float
    delta: float
    confidence: float
    evidence: str
    source: str
    assumes: str = ""


@dataclass(frozen=True, slots=True)
class CurveTest:
    """A test of the claimed trade-off curve at every point.

    Attributes:
        refuted: The measurement contradicts the curve.
        confidence: Confidence of the test.
        detail: Description of the tested counts or rates.
        source: Publication of the method.
        point: Description of the rate that the curve allows and of the measured rate; empty if the curve is not refuted.
    """

    refuted: bool
    confidence: float
    detail: str
    source: str
    point: str = ""


@dataclass(frozen=True, slots=True)
class ReplayCheck:
    """A property of a program that a replay confirmed or refuted.

    Attributes:
        name: Name of the check.
        passed: The property holds.
        message: The result, in a sentence.
        value: The measured number, if there is one.
        statistical: The check can fail a correct program, with the probability that the audit states.
        power: Description of the smallest fault that the check detects with probability 90 %; empty for an exact check.
    """

    name: str
    passed: bool
    message: str
    value: float | None = None
    statistical: bool = False
    power: str = ""


@dataclass(frozen=True, slots=True)
class MeasuredScores:
    """Scores for the picture of an audit.

    Attributes:
        scores: The scores.
        threshold: Threshold that was tested on the scores, if any.
        rates: Bounds on the error rates of the threshold.
        independent: Each score comes from a run of its own. The canaries of a single run share its noise.
        confidence: Confidence of the bounds.
    """

    scores: Scores
    threshold: Threshold | None = None
    rates: ErrorRates | None = None
    independent: bool = True
    confidence: float = 0.95


@dataclass(frozen=True, slots=True)
class Audit:
    """An audit and its outcome.

    Attributes:
        kind: Kind of audit.
        subject: The program or file that was audited.
        confidence: Probability that a program with a true claim passes.
        claim: The privacy claim; None for a replay, which tests steps and not epsilon.
        bounds: Lower bounds on epsilon. The first one without assumptions decides.
        curve: Test of the claimed trade-off curve, if the claim has one.
        checks: Checks of a replay.
        assumptions: Conditions that the confidence depends on.
        notes: Further sentences about the result.
        power: Sentences about the smallest fault that the audit could have found. The first is printed with "no violation found".
        measured: Scores for the picture.
        counts: Numbers of the result, by name.
    """

    kind: AuditKind
    subject: str
    confidence: float
    claim: Claim | None = None
    bounds: tuple[ProvenBound, ...] = ()
    curve: CurveTest | None = None
    checks: tuple[ReplayCheck, ...] = ()
    assumptions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    power: tuple[str, ...] = ()
    measured: MeasuredScores | None = None
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def deciding(self) -> ProvenBound | None:
        """The bound that is compared with the claim."""
        return next((bound for bound in self.bounds if not bound.assumes), None)

    @property
    def violated(self) -> bool:
        """True if the claim is refuted, which means that a bound exceeds it, its curve is contradicted, or a check failed."""
        bound = self.deciding
        if bound is not None and self.claim is not None and bound.epsilon > self.claim.epsilon:
            return True
        if self.curve is not None and self.curve.refuted:
            return True
        return not all(check.passed for check in self.checks)


THRESHOLD_CHOICES = {"split": by_split, "bonferroni": by_bonferroni}
REFUTATION_MERIT = 1e6  # added to the merit of a threshold that refutes the curve, so that it exceeds every epsilon
# Assumptions that a statement of an audit lists.
GAUSSIAN = "the trade-off curve of the program is the curve of a Gaussian mechanism"
COINS = (
    "a separate fair coin decided for each canary whether it was in the run, and the scores were computed without knowing the coins"
)
BEFOREHAND = "the number of guesses, the sides and the confidence were fixed before the scores were known"
INDEPENDENT = "every score comes from a separate run, with fresh randomness, on one of two datasets that differ in one record"
COUNTED = "the test behind the counts was fixed before the counts were taken"
AFTER_CLIPPING = (
    "the canaries are gradients that were added to the clipped sums, so the model, the loss and the clipping were not audited; a replay "
    "audits them"
)
TRUSTED = (
    "the scores come from the program as it normally runs; an audit cannot detect a program that behaves differently under audit"
)


@dataclass(frozen=True, slots=True)
class GuessTest:
    """A test of a claim by guesses about canaries. It fails a true claim with a probability of at most `significance`."""

    claim: Claim
    significance: float

    def epsilon_lower(self, guessed: Guessed) -> float:
        """Return the lower bound on epsilon that the guesses prove at the claim's delta."""
        return guesses_epsilon_lower(guessed.canaries, guessed.guesses, guessed.correct, self.claim.delta, self.significance)

    def curve_excess(self, guessed: Guessed) -> float:
        """Return the excess of the guesses over what the claimed trade-off curve allows; a positive excess refutes it."""
        return curve_excess(guessed.canaries, guessed.guesses, guessed.correct, self.claim.trade_off, self.significance)

    def refuted_by(self, guessed: Guessed) -> bool:
        """Return whether the guesses refute the claimed pair or the claimed curve."""
        if self.epsilon_lower(guessed) > self.claim.epsilon:
            return True
        return self.claim.has_curve and self.curve_excess(guessed) > 0.0

    def needed(self, guessed: Guessed) -> int:
        """Return the smallest number of right guesses, among as many guesses, that refutes the claim."""
        return least_count(guessed.guesses, lambda right: self.refuted_by(replace(guessed, correct=right)))


def one_run_audit(
    scores: Scores, claim: Claim, settings: AuditSettings, subject: str, gradients: tuple[SampledSteps, ...] | None = None
) -> Audit:
    """Audit one run by guessing, from their scores, which canaries were in it. The highest and lowest scores are guessed.

    Args:
        scores: Scores of the canaries.
        claim: The privacy claim.
        settings: Settings of the audit.
        subject: The program or file that is audited.
        gradients: None if the canaries are records. If they are gradients, the steps that sampled them; empty if the audit cannot
            simulate these steps.

    Raises:
        InputError: The coins were not fair, there are more guesses than canaries, or the number of canaries differs from the setting.
    """
    if settings.canaries is not None and settings.canaries != len(scores):
        raise InputError(f"{subject}: expected {settings.canaries} canaries as stated, found {len(scores)} scores")
    check_fair(scores)
    if gradients and settings.guesses is None:
        settings = _with_best_rule(settings, claim, len(scores), gradients)
    numbers = guess_counts(len(scores)) if settings.guesses is None else (settings.guesses,)
    results = tuple(guess(scores, number, settings.one_sided) for number in numbers)
    measured = MeasuredScores(scores, independent=False, confidence=settings.confidence)
    return guessed_audit(results, claim, settings, subject, measured, gradients)


def _with_best_rule(settings: AuditSettings, claim: Claim, canaries: int, steps: tuple[SampledSteps, ...]) -> AuditSettings:
    """Return the settings with the guessing rule that finds the smallest fault in simulated audits. It uses no score."""
    test = GuessTest(claim, (1.0 - settings.confidence) / (2 if claim.has_curve else 1))
    rule = best_guessing_rule(steps, canaries, lambda guesses, right: test.refuted_by(Guessed(canaries, guesses, right)))
    return replace(settings, guesses=rule.guesses, one_sided=rule.one_sided)


def guessed_audit(
    results: tuple[Guessed, ...],
    claim: Claim,
    settings: AuditSettings,
    subject: str,
    measured: MeasuredScores | None = None,
    gradients: tuple[SampledSteps, ...] | None = None,
) -> Audit:
    """Return the audit for a number of right guesses.

    Every test gets an equal share of the significance: one test of epsilon for each number of guesses, and one of the curve if the claim
    has one.
    """
    tests = len(results) * (2 if claim.has_curve else 1)
    test = GuessTest(claim, (1.0 - settings.confidence) / tests)
    best = max(results, key=test.epsilon_lower)
    assumptions = [COINS, BEFOREHAND, TRUSTED]
    if gradients is not None:
        assumptions.append(AFTER_CLIPPING)
    if gradients:
        stated_power = _simulated_power(results, test, settings, gradients)
    else:
        stated_power = _guessing_power(results, test, settings)
    return Audit(
        kind="one-run",
        subject=subject,
        confidence=settings.confidence,
        claim=claim,
        bounds=_guess_bounds(best, test),
        curve=_curve_of_guesses(results, test) if claim.has_curve else None,
        assumptions=tuple(assumptions),
        notes=(f"{tests} tests share the significance; each may refute a true claim with probability {test.significance:.3g}",)
        if tests > 1
        else (),
        power=stated_power,
        measured=measured,
        counts={"canaries": best.canaries, "guesses": best.guesses, "correct": best.correct, "tests": tests},
    )


def _guess_evidence(guessed: Guessed) -> str:
    about = f"{guessed.sides} of {guessed.canaries:,} canaries" if guessed.sides else f"{guessed.canaries:,} canaries"
    return f"{guessed.correct:,} of {guessed.guesses:,} guesses right, about {about}"


def _guess_bounds(best: Guessed, test: GuessTest) -> tuple[ProvenBound, ...]:
    """Return the lower bounds on epsilon that the guesses prove. The second one assumes a Gaussian trade-off curve."""
    delta, confidence, evidence = test.claim.delta, 1.0 - test.significance, _guess_evidence(best)
    bound = ProvenBound("one run", test.epsilon_lower(best), delta, confidence, evidence, GUESSES_SOURCE)
    if delta <= 0.0:
        return (bound,)
    gaussian = guesses_gaussian_epsilon_lower(best.canaries, best.guesses, best.correct, delta, test.significance)
    return bound, ProvenBound("one run, Gaussian family", gaussian, delta, confidence, evidence, CURVE_SOURCE, GAUSSIAN)


def _curve_of_guesses(results: tuple[Guessed, ...], test: GuessTest) -> CurveTest:
    """Test the claimed trade-off curve by the guesses with the largest excess."""
    best = max(results, key=test.curve_excess)
    refuted = test.curve_excess(best) > 0.0
    detail = f"{_guess_evidence(best)}: {'more' if refuted else 'no more'} than the claimed trade-off curve allows"
    return CurveTest(refuted, 1.0 - test.significance, detail, CURVE_SOURCE, _allowed_guesses(best, test) if refuted else "")


def _allowed_guesses(guessed: Guessed, test: GuessTest) -> str:
    """Return a sentence about the number of right guesses that the claimed curve allows."""
    least = least_count(guessed.correct - 1, lambda right: right > 0 and test.curve_excess(replace(guessed, correct=right)) > 0.0)
    return (
        f"under the curve, more than {least - 1:,} of {guessed.guesses:,} guesses about {guessed.canaries:,} canaries are right with "
        f"probability at most {100.0 * test.significance:.3g} %, and {guessed.correct:,} were right"
    )


def _most_provable(results: tuple[Guessed, ...], test: GuessTest) -> float:
    """Return the epsilon that would have been proven if every guess had been right."""
    return max(test.epsilon_lower(replace(guessed, correct=guessed.guesses)) for guessed in results)


def _guessing_power(results: tuple[Guessed, ...], test: GuessTest, settings: AuditSettings) -> tuple[str, ...]:
    """Return sentences about the smallest fault that the strongest attack would have detected with the same number of guesses."""
    attack = power.strongest_attack(test.claim)

    def detects(factor: float) -> bool:
        assert attack is not None
        return any(
            test.refuted_by(
                replace(guessed, correct=attack.right_guesses(factor, guessed.canaries, guessed.guesses, settings.one_sided))
            )
            for guessed in results
        )

    factor = math.inf if attack is None else power.least_noise_factor(detects)
    return power_sentences(_most_provable(results, test), factor, test.claim, "every guess right")


def _simulated_power(
    results: tuple[Guessed, ...], test: GuessTest, settings: AuditSettings, steps: tuple[SampledSteps, ...]
) -> tuple[str, ...]:
    """Return sentences about the smallest fault that the same test finds in simulated audits with less noise."""
    rules = [GuessingRule(guessed.guesses, settings.one_sided, test.needed(guessed)) for guessed in results]
    factor = simulated_noise_factor(steps, results[0].canaries, rules)
    return power_sentences(
        _most_provable(results, test),
        factor,
        test.claim,
        "every guess right",
        "these canaries",
        "the noise factor was found by simulated audits",
    )


def two_run_audit(scores: Scores, claim: Claim, settings: AuditSettings, subject: str) -> Audit:
    """Audit the scores of many runs with a threshold that is chosen independently of the scores that test it.

    Raises:
        InputError: There are too few scores to choose a threshold and to test it.
    """
    significance = 1.0 - settings.confidence
    if settings.threshold is not None:
        tested = by_stated(scores, settings.threshold, significance)
    else:
        tested = THRESHOLD_CHOICES[settings.choose](scores, functools.partial(_merit, claim=claim), significance)
    measured = MeasuredScores(scores, tested.threshold, tested.rates, True, settings.confidence)
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
    tested = JudgedTest(None, counts, rates, "test fixed beforehand")
    return _tested_audit(tested, claim, settings, subject, COUNTED, None)


def _tested_audit(
    tested: JudgedTest, claim: Claim, settings: AuditSettings, subject: str, assumption: str, measured: MeasuredScores | None
) -> Audit:
    """Return the audit for the counts of a membership test."""
    counts, confidence = tested.counts, settings.confidence
    return Audit(
        kind="two-run",
        subject=subject,
        confidence=confidence,
        claim=claim,
        bounds=_rate_bounds(tested, claim, confidence),
        curve=_curve_of_rates(tested.rates, claim, confidence) if claim.has_curve else None,
        assumptions=(assumption, TRUSTED),
        power=_threshold_power(counts, claim, confidence),
        measured=measured,
        counts={
            "members": counts.members,
            "others": counts.others,
            "true_positives": counts.true_positives,
            "false_positives": counts.false_positives,
        },
    )


def _rate_bounds(tested: JudgedTest, claim: Claim, confidence: float) -> tuple[ProvenBound, ...]:
    """Return the lower bounds on epsilon that the error rates prove. The second one assumes a Gaussian trade-off curve."""
    counts, delta = tested.counts, claim.delta
    evidence = (
        f"{counts.true_positives:,} of {counts.members:,} found with the record, {counts.false_positives:,} of {counts.others:,} without "
        f"({tested.chosen})"
    )
    bound = ProvenBound("two runs", rates_epsilon_lower(tested.rates, delta), delta, confidence, evidence, RATES_SOURCE)
    if delta <= 0.0:
        return (bound,)
    gaussian = rates_gaussian_epsilon_lower(tested.rates, delta)
    return bound, ProvenBound("two runs, Gaussian family", gaussian, delta, confidence, evidence, GAUSSIAN_SOURCE, GAUSSIAN)


def _curve_of_rates(rates: ErrorRates, claim: Claim, confidence: float) -> CurveTest:
    """Test the claimed curve at every point. The bounds on both rates hold together, so no further significance is spent."""
    fpr, fnr = rates.false_positive, rates.false_negative
    detail = f"false positives at most {percent(fpr)} with false negatives at most {percent(fnr)}"
    if curve_gap(rates, claim) <= 0.0:
        return CurveTest(False, confidence, detail, RATES_SOURCE)
    if rates_epsilon_lower(rates, claim.delta) <= claim.epsilon:
        worst = max(_exceeded_pairs(rates, claim))
        detail += (
            f": epsilon >= {down(worst.epsilon + worst.excess)} at delta = {worst.delta:.3g}, where epsilon <= {up(worst.epsilon)} is "
            "claimed"
        )
    point = (
        f"at a false positive rate of {100.0 * fpr:.3g} % the curve allows a true positive rate of at most "
        f"{_rate_up(1.0 - claim.trade_off(fpr))}, and the attack reached at least {_rate_down(1.0 - fnr)}"
    )
    return CurveTest(True, confidence, detail, RATES_SOURCE, point)


class ExceededPair(NamedTuple):
    """A claimed (epsilon, delta) pair, and the excess of the epsilon that is proven at this delta over the claimed epsilon."""

    excess: float
    epsilon: float
    delta: float


def _exceeded_pairs(rates: ErrorRates, claim: Claim) -> Iterator[ExceededPair]:
    for epsilon, delta in zip(claim.curve.epsilons.tolist(), claim.curve.upper.tolist(), strict=True):
        yield ExceededPair(rates_epsilon_lower(rates, delta) - epsilon, epsilon, delta)


def _rate_up(rate: float) -> str:
    return f"{math.ceil(1e5 * rate) / 1e3:g} %"


def _rate_down(rate: float) -> str:
    return f"{math.floor(1e5 * rate) / 1e3:g} %"


def _threshold_power(counts: Counts, claim: Claim, confidence: float) -> tuple[str, ...]:
    """Return sentences about the smallest fault that the strongest attack would have detected with the same number of runs."""
    significance = 1.0 - confidence
    perfect = error_rates(Counts(counts.members, counts.others, counts.members, 0), significance)
    attack = power.strongest_attack(claim)

    def detects(factor: float) -> bool:
        assert attack is not None
        rates = (error_rates(at, significance) for at in attack.counts(factor, counts.members, counts.others))
        return any(refuted_by_rates(bounds, claim) for bounds in rates)

    factor = math.inf if attack is None else power.least_noise_factor(detects)
    most_provable = rates_epsilon_lower(perfect, claim.delta)
    return power_sentences(
        most_provable, factor, claim, "every run classified correctly", "the strongest possible attack at its best threshold"
    )


def refuted_by_rates(rates: ErrorRates, claim: Claim) -> bool:
    """Check whether a test with these error rates refutes the claimed pair or the claimed curve."""
    if rates_epsilon_lower(rates, claim.delta) > claim.epsilon:
        return True
    return claim.has_curve and curve_gap(rates, claim) > 0.0
