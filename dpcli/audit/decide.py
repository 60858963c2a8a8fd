"""From scores or counts and a claim to an audit: which test is made, at which significance, and what it proves."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import replace

from dpcli.audit import f_dp, one_run, power, two_run
from dpcli.audit.claim import Claim
from dpcli.audit.gradient_power import Guessing, best_guessing, least_found, needed
from dpcli.audit.gradient_scores import SampledSteps
from dpcli.audit.result import Audit, CurveTest, MeasuredScores, ProvenBound
from dpcli.audit.scores import Guessed, Scores, Tested, by_bonferroni, by_split, by_stated, check_fair, guess, guess_counts
from dpcli.audit.settings import AuditSettings
from dpcli.audit.two_run import Counts, ErrorRates
from dpcli.base.errors import InputError
from dpcli.base.rounding import down, percent, up

CHOICES = {"split": by_split, "bonferroni": by_bonferroni}
REFUTED = 1e6  # more than any epsilon
GAUSSIAN = "the trade-off curve of the program is a Gaussian's"
COINS = "each canary was in the run by the toss of its own fair coin, and the score did not know which way it fell"
BEFOREHAND = "the number of guesses, the sides and the confidence were fixed before the scores were seen"
INDEPENDENT = "every score comes from a run of its own, with fresh randomness, on one of two datasets that differ in one record"
COUNTED = "the test behind the counts was fixed before they were taken"
AFTER_CLIPPING = (
    "the canaries are gradients that were put into the sums: the model, the loss and the clipping were not put to the test; a replay "
    "does that"
)
TRUSTED = (
    "the scores are what the program under test really gave: an audit cannot see a program that behaves otherwise when audited"
)


def one_run_audit(
    scores: Scores, claim: Claim, settings: AuditSettings, subject: str, gradients: tuple[SampledSteps, ...] | None = None
) -> Audit:
    """Guess about the highest and lowest scores of one run's canaries.

    gradients: None for canaries that are records; else the steps that sampled them, none where the audit cannot simulate these.

    Raises:
        InputError: coins that were not fair, more guesses than canaries, or another number of canaries than was stated.
    """
    if settings.canaries is not None and settings.canaries != len(scores):
        raise InputError(f"{subject}: expected {settings.canaries} canaries as stated, found {len(scores)} scores")
    check_fair(scores)
    settings = _with_guesses(settings, claim, len(scores), gradients) if gradients else settings
    numbers = (settings.guesses,) if settings.guesses is not None else guess_counts(len(scores))
    made = tuple(guess(scores, number, settings.one_sided) for number in numbers)
    measured = MeasuredScores(scores, independent=False, confidence=settings.confidence)
    return guessed_audit(made, claim, settings, subject, measured, gradients)


def guessed_audit(
    made: tuple[Guessed, ...],
    claim: Claim,
    settings: AuditSettings,
    subject: str,
    measured: MeasuredScores | None = None,
    gradients: tuple[SampledSteps, ...] | None = None,
) -> Audit:
    """Judge guesses. Several numbers of guesses, and the pair beside the curve, share the significance equally."""
    tests = len(made) * (2 if claim.whole else 1)
    each = (1.0 - settings.confidence) / tests
    best = max(made, key=lambda one: one_run.epsilon_lower(one.canaries, one.guesses, one.correct, claim.delta, each))
    lower = one_run.epsilon_lower(best.canaries, best.guesses, best.correct, claim.delta, each)
    bounds = [
        ProvenBound("one run", lower, claim.delta, 1.0 - each, _guesses(best), one_run.SOURCE),
        *_gaussian_guesses(best, claim, each),
    ]
    return Audit(
        kind="one-run",
        subject=subject,
        confidence=settings.confidence,
        claim=claim,
        bounds=tuple(bounds),
        curve=_curve_of_guesses(made, claim, each) if claim.whole else None,
        assumptions=(COINS, BEFOREHAND, TRUSTED, *(() if gradients is None else (AFTER_CLIPPING,))),
        notes=_shared(tests, each),
        power=_gradient_power(made, claim, settings, each, gradients)
        if gradients
        else _guessing_power(made, claim, settings, each),
        measured=measured,
        counts={"canaries": best.canaries, "guesses": best.guesses, "correct": best.correct, "tests": tests},
    )


def _guesses(one: Guessed) -> str:
    about = f"{one.sides} of {one.canaries:,} canaries" if one.sides else f"{one.canaries:,} canaries"
    return f"{one.correct:,} of {one.guesses:,} guesses right, about {about}"


def _gaussian_guesses(best: Guessed, claim: Claim, each: float) -> tuple[ProvenBound, ...]:
    if claim.delta <= 0.0:
        return ()
    lower = f_dp.gaussian_epsilon_lower(best.canaries, best.guesses, best.correct, claim.delta, each)
    return (ProvenBound("one run, Gaussian family", lower, claim.delta, 1.0 - each, _guesses(best), f_dp.SOURCE, GAUSSIAN),)


def _curve_of_guesses(made: tuple[Guessed, ...], claim: Claim, each: float) -> CurveTest:
    left = [(f_dp.excess(one.canaries, one.guesses, one.correct, claim.trade_off, each), one) for one in made]
    most, best = max(left, key=lambda pair: pair[0])
    words = f"{_guesses(best)}: {'more' if most > 0.0 else 'no more'} than the claimed trade-off curve allows"
    return CurveTest(most > 0.0, 1.0 - each, words, f_dp.SOURCE, _most_right(best, claim, each) if most > 0.0 else "")


def _most_right(one: Guessed, claim: Claim, each: float) -> str:
    """How many right guesses the claimed curve allows."""
    low, high = 0, one.correct  # `high` is refuted
    while high > low + 1:
        middle = (low + high) // 2
        refuted = f_dp.excess(one.canaries, one.guesses, middle, claim.trade_off, each) > 0.0
        low, high = (low, middle) if refuted else (middle, high)
    return (
        f"of {one.guesses:,} guesses about {one.canaries:,} canaries it allows more than {low:,} to be right with a chance of at most "
        f"{100.0 * each:.3g} %, and {one.correct:,} were"
    )


def _guessing_power(made: tuple[Guessed, ...], claim: Claim, settings: AuditSettings, each: float) -> tuple[str, ...]:
    """By the numbers of guesses that were made, had they been right, or been about the best scores."""
    most = max(one_run.epsilon_lower(one.canaries, one.guesses, one.guesses, claim.delta, each) for one in made)
    attack = power.strongest(claim)

    def detects(factor: float) -> bool:
        assert attack is not None
        return any(
            _refutes(one, power.guessed_right(attack, factor, one.canaries, one.guesses, settings.one_sided), claim, each)
            for one in made
        )

    factor = math.inf if attack is None else power.least_factor(detects)
    return power.words(most, factor, claim, "every guess been right")


def _gradient_power(
    made: tuple[Guessed, ...], claim: Claim, settings: AuditSettings, each: float, steps: tuple[SampledSteps, ...]
) -> tuple[str, ...]:
    """By audits of the same canaries and the same test, simulated with less noise."""
    most = max(one_run.epsilon_lower(one.canaries, one.guesses, one.guesses, claim.delta, each) for one in made)
    ways = [
        Guessing(one.guesses, settings.one_sided, needed(one.guesses, lambda right, one=one: _refutes(one, right, claim, each)))  # type: ignore[misc]
        for one in made
    ]
    factor = least_found(steps, made[0].canaries, ways)
    return power.words(most, factor, claim, "every guess been right", "these canaries", "by simulated audits of them")


def _refutes(one: Guessed, right: int, claim: Claim, each: float) -> bool:
    return one_run.epsilon_lower(one.canaries, one.guesses, right, claim.delta, each) > claim.epsilon or (
        claim.whole and f_dp.excess(one.canaries, one.guesses, right, claim.trade_off, each) > 0.0
    )


def _with_guesses(settings: AuditSettings, claim: Claim, canaries: int, steps: tuple[SampledSteps, ...]) -> AuditSettings:
    """Where none are stated, those that find the smallest fault in simulated audits; no score is seen."""
    if settings.guesses is not None:
        return settings
    each = (1.0 - settings.confidence) / (2 if claim.whole else 1)
    guesses, one_sided = best_guessing(
        steps, canaries, lambda count, right: _refutes(Guessed(canaries, count, right), right, claim, each)
    )
    return replace(settings, guesses=guesses, one_sided=one_sided)


def _shared(tests: int, each: float) -> tuple[str, ...]:
    return (f"{tests} tests share the significance: each may err with probability {each:.3g}",) if tests > 1 else ()


def two_run_audit(scores: Scores, claim: Claim, settings: AuditSettings, subject: str) -> Audit:
    """Choose a threshold without looking at what it is judged on, and bound both of its error rates. Raises InputError as `by_split`."""
    significance = 1.0 - settings.confidence
    if settings.threshold is not None:
        tested = by_stated(scores, settings.threshold, significance)
    else:
        tested = CHOICES[settings.choose](scores, functools.partial(_merit, claim=claim), significance)
    measured = MeasuredScores(scores, tested.threshold, tested.rates, True, settings.confidence)
    return _tested_audit(tested, claim, settings, subject, INDEPENDENT, measured)


def _merit(counts: Counts, significance: float, claim: Claim) -> float:
    """First of all that its error rates are below the claim's curve; where they are not, the epsilon that it proves."""
    rates = two_run.error_rates(counts, significance)
    below = _below(rates, claim) if claim.whole else 0.0
    return REFUTED + below if below > 0.0 else two_run.epsilon_lower(rates, claim.delta)


def _below(rates: ErrorRates, claim: Claim) -> float:
    """By how much one of the rates is below what the curve allows beside the other; above 0: refuted."""
    fpr, fnr = rates.false_positive, rates.false_negative
    return max(claim.trade_off(fpr) - fnr, claim.trade_off(fnr) - fpr)


def counted_audit(counts: Counts, claim: Claim, settings: AuditSettings, subject: str) -> Audit:
    """Judge the counts of a test that was fixed beforehand."""
    rates = two_run.error_rates(counts, 1.0 - settings.confidence)
    tested = Tested(None, counts, rates, "test fixed beforehand")
    return _tested_audit(tested, claim, settings, subject, COUNTED, None)


def _tested_audit(
    tested: Tested, claim: Claim, settings: AuditSettings, subject: str, assumption: str, measured: MeasuredScores | None
) -> Audit:
    counts, rates, each = tested.counts, tested.rates, settings.confidence
    said = (
        f"{counts.true_positives:,} of {counts.members:,} found with the record, {counts.false_positives:,} of {counts.others:,} without "
        f"({tested.chosen})"
    )
    lower = two_run.epsilon_lower(rates, claim.delta)
    bounds = [ProvenBound("two runs", lower, claim.delta, each, said, two_run.SOURCE)]
    if claim.delta > 0.0:
        gaussian = two_run.gaussian_epsilon_lower(rates, claim.delta)
        bounds.append(
            ProvenBound("two runs, Gaussian family", gaussian, claim.delta, each, said, two_run.GAUSSIAN_SOURCE, GAUSSIAN)
        )
    return Audit(
        kind="two-run",
        subject=subject,
        confidence=each,
        claim=claim,
        bounds=tuple(bounds),
        curve=_curve_of_rates(tested, claim, each) if claim.whole else None,
        assumptions=(assumption, TRUSTED),
        power=_telling_power(counts, claim, each),
        measured=measured,
        counts={
            "members": counts.members,
            "others": counts.others,
            "true_positives": counts.true_positives,
            "false_positives": counts.false_positives,
        },
    )


def _curve_of_rates(tested: Tested, claim: Claim, confidence: float) -> CurveTest:
    """The same event that bounds both rates tests every pair of the curve at once."""
    fpr, fnr = tested.rates.false_positive, tested.rates.false_negative
    words = f"false positives at most {percent(fpr)} with false negatives at most {percent(fnr)}"
    below = _below(tested.rates, claim)
    if below > 0.0 and two_run.epsilon_lower(tested.rates, claim.delta) <= claim.epsilon:
        gap, epsilon, delta = max(_gaps(tested.rates, claim))
        words += f": epsilon >= {down(epsilon + gap)} at delta = {delta:.3g}, where the claim says epsilon <= {up(epsilon)}"
    fpr, fnr = tested.rates.false_positive, tested.rates.false_negative
    point = (
        f"at a false positive rate of {100.0 * fpr:.3g} % it allows a true positive rate of at most "
        f"{_rate_up(1.0 - claim.trade_off(fpr))}, and the attack reached at least {_rate_down(1.0 - fnr)}"
    )
    return CurveTest(below > 0.0, confidence, words, two_run.SOURCE, point if below > 0.0 else "")


def _rate_up(rate: float) -> str:
    return f"{math.ceil(1e5 * rate) / 1e3:g} %"


def _rate_down(rate: float) -> str:
    return f"{math.floor(1e5 * rate) / 1e3:g} %"


def _telling_power(counts: Counts, claim: Claim, confidence: float) -> tuple[str, ...]:
    """By as many runs as were judged, at the best threshold."""
    best = two_run.error_rates(Counts(counts.members, counts.others, counts.members, 0), 1.0 - confidence)
    most, attack = two_run.epsilon_lower(best, claim.delta), power.strongest(claim)

    def detects(factor: float) -> bool:
        assert attack is not None
        for right, wrong in power.error_counts(attack, factor, counts.members, counts.others):
            rates = two_run.error_rates(Counts(counts.members, counts.others, right, wrong), 1.0 - confidence)
            if two_run.epsilon_lower(rates, claim.delta) > claim.epsilon or (claim.whole and _below(rates, claim) > 0.0):
                return True
        return False

    factor = math.inf if attack is None else power.least_factor(detects)
    return power.words(most, factor, claim, "every run been told right", "the strongest attack there is, at its best threshold")


def _gaps(rates: ErrorRates, claim: Claim) -> Iterator[tuple[float, float, float]]:
    """(by how much a claimed epsilon is exceeded, that epsilon, its delta) for every pair of the curve."""
    for epsilon, delta in zip(claim.curve.epsilons.tolist(), claim.curve.upper.tolist(), strict=True):
        yield two_run.epsilon_lower(rates, delta) - epsilon, epsilon, delta
