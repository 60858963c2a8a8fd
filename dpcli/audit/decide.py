"""From scores or counts and a claim to an audit: which test is made, at which significance, and what it proves."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from dpcli.audit import power
from dpcli.audit.audit_settings import AuditSettings
from dpcli.audit.bounds import (
    CURVE_SOURCE,
    GAUSSIAN_SOURCE,
    GUESSES_SOURCE,
    RATES_SOURCE,
    Counts,
    ErrorRates,
    error_rates,
    excess,
    guesses_epsilon_lower,
    guesses_gaussian_epsilon_lower,
    rates_epsilon_lower,
    rates_gaussian_epsilon_lower,
)
from dpcli.audit.claim import Claim
from dpcli.audit.gradient_scores import SampledSteps
from dpcli.audit.power import Guessing, best_guessing, least_found, needed
from dpcli.audit.scores import Guessed, Scores, Tested, by_bonferroni, by_split, by_stated, check_fair, guess, guess_counts
from dpcli.base.errors import InputError
from dpcli.base.rounding import down, percent, up

if TYPE_CHECKING:
    from dpcli.audit.bounds import ErrorRates
    from dpcli.audit.scores import Scores, Threshold


AuditKind = Literal["one-run", "two-run", "replay"]


@dataclass(frozen=True, slots=True)
class ProvenBound:
    """A lower bound on epsilon (nats) at `delta`.

    confidence: of this bound by itself. evidence: the counts, in words. assumes: what it needs beyond fair coins or independent runs;
    a bound that assumes something decides nothing.
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
    """A test of the claimed trade-off curve at every point, at `confidence`; detail: by what, in words.

    point: what the claim allows there and what was found, in words; for the headline where it is refuted.
    """

    refuted: bool
    confidence: float
    detail: str
    source: str
    point: str = ""


@dataclass(frozen=True, slots=True)
class ReplayCheck:
    """A property that a replay showed or refuted.

    value: what was measured, where that is a number. statistical: whether it may fail a correct program, as seldom as the audit says.
    power: the least fault that it would have found with 90 %, in words; empty for an exact check.
    """

    name: str
    passed: bool
    message: str
    value: float | None = None
    statistical: bool = False
    power: str = ""


@dataclass(frozen=True, slots=True)
class MeasuredScores:
    """The content of the picture: all scores of the judged part, the test that was made of them, and bounds on its errors."""

    scores: Scores
    threshold: Threshold | None = None
    rates: ErrorRates | None = None
    independent: bool = True
    confidence: float = 0.95


@dataclass(frozen=True, slots=True)
class Audit:
    """An audit and its outcome.

    kind: of it. claim: None for a replay, which tests steps and no epsilon. bounds: the first decides, the others assume more.
    confidence: chance that a program whose claim is true is passed. assumptions: what makes that so.
    power: what it could have found, shortly and in full: beside every "no violation found".
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
        """The bound that is held against the claim."""
        return next((bound for bound in self.bounds if not bound.assumes), None)

    @property
    def violated(self) -> bool:
        """Tell whether something was proven against the claim: a bound above it, its curve refuted, or a check failed."""
        bound = self.deciding
        above = bound is not None and self.claim is not None and bound.epsilon > self.claim.epsilon
        return above or (self.curve is not None and self.curve.refuted) or any(not check.passed for check in self.checks)


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
    tests = len(made) * (2 if claim.has_curve else 1)
    each = (1.0 - settings.confidence) / tests
    best = max(made, key=lambda one: guesses_epsilon_lower(one.canaries, one.guesses, one.correct, claim.delta, each))
    lower = guesses_epsilon_lower(best.canaries, best.guesses, best.correct, claim.delta, each)
    bounds = [
        ProvenBound("one run", lower, claim.delta, 1.0 - each, _guesses(best), GUESSES_SOURCE),
        *_gaussian_guesses(best, claim, each),
    ]
    return Audit(
        kind="one-run",
        subject=subject,
        confidence=settings.confidence,
        claim=claim,
        bounds=tuple(bounds),
        curve=_curve_of_guesses(made, claim, each) if claim.has_curve else None,
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
    lower = guesses_gaussian_epsilon_lower(best.canaries, best.guesses, best.correct, claim.delta, each)
    return (ProvenBound("one run, Gaussian family", lower, claim.delta, 1.0 - each, _guesses(best), CURVE_SOURCE, GAUSSIAN),)


def _curve_of_guesses(made: tuple[Guessed, ...], claim: Claim, each: float) -> CurveTest:
    left = [(excess(one.canaries, one.guesses, one.correct, claim.trade_off, each), one) for one in made]
    most, best = max(left, key=lambda pair: pair[0])
    words = f"{_guesses(best)}: {'more' if most > 0.0 else 'no more'} than the claimed trade-off curve allows"
    return CurveTest(most > 0.0, 1.0 - each, words, CURVE_SOURCE, _most_right(best, claim, each) if most > 0.0 else "")


def _most_right(one: Guessed, claim: Claim, each: float) -> str:
    """Say how many right guesses the claimed curve allows."""
    least = needed(
        one.correct - 1, lambda right: right > 0 and excess(one.canaries, one.guesses, right, claim.trade_off, each) > 0.0
    )
    return (
        f"of {one.guesses:,} guesses about {one.canaries:,} canaries it allows more than {least - 1:,} to be right with a chance of at "
        f"most {100.0 * each:.3g} %, and {one.correct:,} were"
    )


def _guessing_power(made: tuple[Guessed, ...], claim: Claim, settings: AuditSettings, each: float) -> tuple[str, ...]:
    """By the numbers of guesses that were made, had they been right, or been about the best scores."""
    most = max(guesses_epsilon_lower(one.canaries, one.guesses, one.guesses, claim.delta, each) for one in made)
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
    most = max(guesses_epsilon_lower(one.canaries, one.guesses, one.guesses, claim.delta, each) for one in made)
    ways = [
        Guessing(one.guesses, settings.one_sided, needed(one.guesses, lambda right, one=one: _refutes(one, right, claim, each)))  # type: ignore[misc]
        for one in made
    ]
    factor = least_found(steps, made[0].canaries, ways)
    return power.words(most, factor, claim, "every guess been right", "these canaries", "by simulated audits of them")


def _refutes(one: Guessed, right: int, claim: Claim, each: float) -> bool:
    return guesses_epsilon_lower(one.canaries, one.guesses, right, claim.delta, each) > claim.epsilon or (
        claim.has_curve and excess(one.canaries, one.guesses, right, claim.trade_off, each) > 0.0
    )


def _with_guesses(settings: AuditSettings, claim: Claim, canaries: int, steps: tuple[SampledSteps, ...]) -> AuditSettings:
    """Choose guesses where none are stated: those that find the smallest fault in simulated audits; no score is seen."""
    if settings.guesses is not None:
        return settings
    each = (1.0 - settings.confidence) / (2 if claim.has_curve else 1)
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
    rates = error_rates(counts, significance)
    below = _below(rates, claim) if claim.has_curve else 0.0
    return REFUTED + below if below > 0.0 else rates_epsilon_lower(rates, claim.delta)


def _below(rates: ErrorRates, claim: Claim) -> float:
    """By how much one of the rates is below what the curve allows beside the other; above 0: refuted."""
    fpr, fnr = rates.false_positive, rates.false_negative
    return max(claim.trade_off(fpr) - fnr, claim.trade_off(fnr) - fpr)


def counted_audit(counts: Counts, claim: Claim, settings: AuditSettings, subject: str) -> Audit:
    """Judge the counts of a test that was fixed beforehand."""
    rates = error_rates(counts, 1.0 - settings.confidence)
    tested = Tested(None, counts, rates, "test fixed beforehand")
    return _tested_audit(tested, claim, settings, subject, COUNTED, None)


def _tested_audit(
    tested: Tested, claim: Claim, settings: AuditSettings, subject: str, assumption: str, measured: MeasuredScores | None
) -> Audit:
    counts, rates, each = tested.counts, tested.rates, settings.confidence
    evidence = (
        f"{counts.true_positives:,} of {counts.members:,} found with the record, {counts.false_positives:,} of {counts.others:,} without "
        f"({tested.chosen})"
    )
    lower = rates_epsilon_lower(rates, claim.delta)
    bounds = [ProvenBound("two runs", lower, claim.delta, each, evidence, RATES_SOURCE)]
    if claim.delta > 0.0:
        gaussian = rates_gaussian_epsilon_lower(rates, claim.delta)
        bounds.append(ProvenBound("two runs, Gaussian family", gaussian, claim.delta, each, evidence, GAUSSIAN_SOURCE, GAUSSIAN))
    return Audit(
        kind="two-run",
        subject=subject,
        confidence=each,
        claim=claim,
        bounds=tuple(bounds),
        curve=_curve_of_rates(tested, claim, each) if claim.has_curve else None,
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
    """Test every pair of the curve by the one event that bounds both rates."""
    fpr, fnr = tested.rates.false_positive, tested.rates.false_negative
    words = f"false positives at most {percent(fpr)} with false negatives at most {percent(fnr)}"
    below = _below(tested.rates, claim)
    if below > 0.0 and rates_epsilon_lower(tested.rates, claim.delta) <= claim.epsilon:
        gap, epsilon, delta = max(_gaps(tested.rates, claim))
        words += f": epsilon >= {down(epsilon + gap)} at delta = {delta:.3g}, where the claim says epsilon <= {up(epsilon)}"
    fpr, fnr = tested.rates.false_positive, tested.rates.false_negative
    point = (
        f"at a false positive rate of {100.0 * fpr:.3g} % it allows a true positive rate of at most "
        f"{_rate_up(1.0 - claim.trade_off(fpr))}, and the attack reached at least {_rate_down(1.0 - fnr)}"
    )
    return CurveTest(below > 0.0, confidence, words, RATES_SOURCE, point if below > 0.0 else "")


def _rate_up(rate: float) -> str:
    return f"{math.ceil(1e5 * rate) / 1e3:g} %"


def _rate_down(rate: float) -> str:
    return f"{math.floor(1e5 * rate) / 1e3:g} %"


def _telling_power(counts: Counts, claim: Claim, confidence: float) -> tuple[str, ...]:
    """By as many runs as were judged, at the best threshold."""
    best = error_rates(Counts(counts.members, counts.others, counts.members, 0), 1.0 - confidence)
    most, attack = rates_epsilon_lower(best, claim.delta), power.strongest(claim)

    def detects(factor: float) -> bool:
        assert attack is not None
        for right, wrong in power.error_counts(attack, factor, counts.members, counts.others):
            rates = error_rates(Counts(counts.members, counts.others, right, wrong), 1.0 - confidence)
            if rates_epsilon_lower(rates, claim.delta) > claim.epsilon or (claim.has_curve and _below(rates, claim) > 0.0):
                return True
        return False

    factor = math.inf if attack is None else power.least_factor(detects)
    return power.words(most, factor, claim, "every run been told right", "the strongest attack there is, at its best threshold")


def _gaps(rates: ErrorRates, claim: Claim) -> Iterator[tuple[float, float, float]]:
    """(by how much a claimed epsilon is exceeded, that epsilon, its delta) for every pair of the curve."""
    for epsilon, delta in zip(claim.curve.epsilons.tolist(), claim.curve.upper.tolist(), strict=True):
        yield rates_epsilon_lower(rates, delta) - epsilon, epsilon, delta
