"""The verdict of an audit of one run. Guesses about the canaries of the run are compared with the privacy claim.

A fair coin decided for each *canary* whether it was in the run, and the attack guesses the coins from its scores: the highest in and,
unless the guesses are one-sided, the lowest out. A canary is a record or, as a stronger test, a gradient that is added to the clipped sums
(gradient_scores.py). audit_run.py calls `one_run_audit` with scores, or `guessed_audit` with counts of right guesses. The *claim* is an
(epsilon, delta) pair, with a trade-off curve if a pipeline file makes it.

More right guesses than the claim allows refute it (bounds.py). Every test gets a share of the *significance*, which is 1 - confidence, so
that all together refute a true claim with at most this probability: a further test needs a smaller share for each. What was fixed before
the scores were known (COINS, BEFOREHAND) is an assumption that the verdict prints, with the *power*: the smallest fault that the audit
would have detected (power.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from dpcli.audit.audit_result import GAUSSIAN, TRUSTED, Audit, CurveTest, MeasuredScores, ProvenBound
from dpcli.audit.audit_settings import AuditSettings
from dpcli.audit.bounds import (
    CURVE_SOURCE,
    GUESSES_SOURCE,
    curve_excess,
    guesses_epsilon_lower,
    guesses_gaussian_epsilon_lower,
)
from dpcli.audit.claim import Claim
from dpcli.audit.gradient_scores import ObservedRun, SampledSteps, split_significance
from dpcli.audit.noise_statistics import noise_power
from dpcli.audit.power import (
    GuessingRule,
    best_guessing_rule,
    least_count,
    least_noise_factor,
    power_sentences,
    simulated_noise_factor,
    strongest_attack,
)
from dpcli.audit.scores import Guessed, Scores, guess, guess_counts, require_fair
from dpcli.base.errors import InputError

# Assumptions that an audit of one run states, besides TRUSTED (the program runs under audit as it normally runs).
COINS = (
    "a separate fair coin decided for each canary whether it was in the run, and the scores were computed without knowing the coins"
)
BEFOREHAND = "the number of guesses, the sides and the confidence were fixed before the scores were known"
AFTER_CLIPPING = (
    "the canaries are gradients that were added to the clipped sums, so the model and the loss were not audited, and the clipping only by "
    "single records of the run; a replay audits them"
)


def one_run_audit(
    scores: Scores, claim: Claim, settings: AuditSettings, subject: str, observed: ObservedRun | None = None
) -> Audit:
    """Audit one run by guessing, from the scores of its canaries, which of them were in it: high scores in, low scores out.

    Args:
        subject: The program or file that is audited.
        observed: None if the canaries are records. If they are gradients, the steps that sampled them, and the results of the checks that
            the run made of its noise, batches and clipping.

    Raises InputError if the coins were not fair, there are more guesses than canaries, or the number of canaries or the confidence differs
    from that of the run.
    """
    if observed is not None and observed.checks:
        return _observed_audit(scores, claim, settings, subject, observed)
    gradients = None if observed is None else observed.steps
    if settings.canaries is not None and settings.canaries != len(scores):
        raise InputError(f"{subject}: expected {settings.canaries} canaries as stated, found {len(scores)} scores")
    require_fair(scores)
    if gradients and settings.guesses is None:
        settings = _with_best_rule(settings, claim, len(scores), gradients)
    counts = guess_counts(len(scores)) if settings.guesses is None else (settings.guesses,)
    results = tuple(guess(scores, count, settings.one_sided) for count in counts)
    measured = MeasuredScores(scores, independent=False, confidence=settings.confidence)
    return guessed_audit(results, claim, settings, subject, measured, gradients)


def _observed_audit(scores: Scores, claim: Claim, settings: AuditSettings, subject: str, observed: ObservedRun) -> Audit:
    """Audit a run with gradient canaries by guesses and by the checks of the run. Each gets half of the significance."""
    if settings.confidence != observed.confidence:
        raise InputError(
            f"{subject}: expected confidence {observed.confidence!r}, as audit.confidence was when the run was made, found "
            f"{settings.confidence!r}"
        )
    by_guesses = replace(settings, confidence=1.0 - split_significance(settings.confidence))
    without_checks = replace(observed, checks=())  # so that this call audits the scores alone
    audit = one_run_audit(scores, claim, by_guesses, subject, without_checks)
    power = (noise_power(observed.checks), *audit.power)
    return replace(audit, confidence=settings.confidence, checks=observed.checks, power=power)


def guessed_audit(
    results: tuple[Guessed, ...],
    claim: Claim,
    settings: AuditSettings,
    subject: str,
    measured: MeasuredScores | None = None,
    gradients: tuple[SampledSteps, ...] | None = None,
) -> Audit:
    """Return the audit of one run, given how many guesses were right.

    Every test gets an equal share of the significance. For each number of guesses there is a test of epsilon, and also one of the curve if
    the claim has a curve.

    Args:
        results: Numbers of right guesses, one for each number of guesses that is tried.
        measured: Scores of the canaries, for charts; None if only counts are known.
        gradients: None if the canaries are records. If they are gradients, the steps that sampled them; empty if these cannot be simulated.
    """
    test_count = len(results) * _tests_per_count(claim)
    test = GuessTest(claim, (1.0 - settings.confidence) / test_count)
    best = max(results, key=test.epsilon_lower)
    assumptions = [COINS, BEFOREHAND, TRUSTED]
    if gradients is not None:
        assumptions.append(AFTER_CLIPPING)
    notes = []
    if test_count > 1:
        share = f"each may refute a true claim with probability {test.significance:.3g}"
        notes.append(f"{test_count} tests share the significance; {share}")
    return Audit(
        kind="one-run",
        subject=subject,
        confidence=settings.confidence,
        claim=claim,
        bounds=_guess_bounds(best, test),
        curve=_curve_of_guesses(results, test) if claim.has_curve else None,
        assumptions=tuple(assumptions),
        notes=tuple(notes),
        power=_power(results, test, settings, gradients or ()),
        measured=measured,
        counts={"canaries": best.canaries, "guesses": best.guesses, "correct": best.correct, "tests": test_count},
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


def _with_best_rule(settings: AuditSettings, claim: Claim, canaries: int, steps: tuple[SampledSteps, ...]) -> AuditSettings:
    """Return the settings with the guessing rule that finds the smallest fault in simulated audits. It uses no score."""
    test = GuessTest(claim, (1.0 - settings.confidence) / _tests_per_count(claim))
    rule = best_guessing_rule(steps, canaries, lambda guesses, right: test.refuted_by(Guessed(canaries, guesses, right)))
    return replace(settings, guesses=rule.guesses, one_sided=rule.one_sided)


def _tests_per_count(claim: Claim) -> int:
    """Return the number of tests for each number of guesses: of epsilon, and of the curve if the claim has one."""
    return 2 if claim.has_curve else 1


def _guess_evidence(guessed: Guessed) -> str:
    """Return the counts of guesses in words: "70 of 100 guesses right, about the 50 highest and 50 lowest scores of 400 canaries"."""
    about = f"{guessed.sides} of {guessed.canaries:,} canaries" if guessed.sides else f"{guessed.canaries:,} canaries"
    return f"{guessed.correct:,} of {guessed.guesses:,} guesses right, about {about}"


def _guess_bounds(best: Guessed, test: GuessTest) -> tuple[ProvenBound, ...]:
    """Return the lower bounds on epsilon that the guesses prove. The second one assumes a Gaussian trade-off curve."""
    delta, confidence, evidence = test.claim.delta, 1.0 - test.significance, _guess_evidence(best)
    bound = ProvenBound("one run", test.epsilon_lower(best), delta, confidence, evidence, GUESSES_SOURCE)
    if delta <= 0.0:
        return (bound,)
    gaussian = guesses_gaussian_epsilon_lower(best.canaries, best.guesses, best.correct, delta, test.significance)
    return bound, ProvenBound("one run, Gaussian family", gaussian, delta, confidence, evidence, CURVE_SOURCE, assumes=GAUSSIAN)


def _curve_of_guesses(results: tuple[Guessed, ...], test: GuessTest) -> CurveTest:
    """Test the claimed trade-off curve by the guesses with the largest excess."""
    best = max(results, key=test.curve_excess)
    refuted = test.curve_excess(best) > 0.0
    comparison = "more" if refuted else "no more"
    detail = f"{_guess_evidence(best)}: {comparison} than the claimed trade-off curve allows"
    point = _allowed_guesses(best, test) if refuted else None
    return CurveTest(refuted, confidence=1.0 - test.significance, detail=detail, source=CURVE_SOURCE, point=point)


def _allowed_guesses(guessed: Guessed, test: GuessTest) -> str:
    """Return a sentence about the number of right guesses that the claimed curve allows."""

    def exceeds_curve(right: int) -> bool:
        return right > 0 and test.curve_excess(replace(guessed, correct=right)) > 0.0

    allowed = least_count(guessed.correct - 1, exceeds_curve) - 1  # one below the smallest number that refutes the curve
    return (
        f"under the curve, more than {allowed:,} of {guessed.guesses:,} guesses about {guessed.canaries:,} canaries are right with "
        f"probability at most {100.0 * test.significance:.3g} %, and {guessed.correct:,} were right"
    )


def _most_provable(results: tuple[Guessed, ...], test: GuessTest) -> float:
    """Return the epsilon that would have been proven if every guess had been right."""
    return max(test.epsilon_lower(replace(guessed, correct=guessed.guesses)) for guessed in results)


def _power(
    results: tuple[Guessed, ...], test: GuessTest, settings: AuditSettings, steps: tuple[SampledSteps, ...]
) -> tuple[str, ...]:
    """Return sentences about the smallest fault that an audit with the same numbers of guesses detects.

    The attack is the strongest one, or that on gradient canaries if the steps that sample them are known.
    """
    if steps:
        return _simulated_power(results, test, settings, steps)
    attack = strongest_attack(test.claim)

    def detects(factor: float) -> bool:
        assert attack is not None
        for guessed in results:
            right = attack.right_guesses(factor, guessed.canaries, guessed.guesses, settings.one_sided)
            if test.refuted_by(replace(guessed, correct=right)):
                return True
        return False

    factor = math.inf if attack is None else least_noise_factor(detects)
    return power_sentences(_most_provable(results, test), factor, test.claim, best_case="every guess right")


def planned_guessing_power(
    canaries: int, claim: Claim, settings: AuditSettings, steps: tuple[SampledSteps, ...] = ()
) -> tuple[str, ...]:
    """Return sentences about the smallest fault that an audit will detect with this number of canaries.

    Args:
        steps: Steps that will sample the canaries if these are gradients; empty for records, and if the steps cannot be simulated.
    """
    if settings.canary == "gradient":
        settings = replace(settings, confidence=1.0 - split_significance(settings.confidence))
    if steps and settings.guesses is None:
        settings = _with_best_rule(settings, claim, canaries, steps)
    guess_numbers = guess_counts(canaries) if settings.guesses is None else (settings.guesses,)
    results = tuple(Guessed(canaries, guesses, correct=0) for guesses in guess_numbers)  # the power does not depend on `correct`
    test = GuessTest(claim, (1.0 - settings.confidence) / (len(results) * _tests_per_count(claim)))
    return _power(results, test, settings, steps)


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
        best_case="every guess right",
        attack="these canaries",
        remark="the noise factor was found by simulated audits",
    )
