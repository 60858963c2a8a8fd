"""Mutation testing of accountants. Bugs are planted around an accountant, and the exam must detect them.

An exam that finds no fault proves little unless it would find one. A *plant* is a bug that changes the *steps* (pairs of a mechanism and
its count) that an accountant receives, or the *profile* (epsilon and delta as functions of each other) that it returns. The questions with
known answers (questions.py) are asked again, and `is_detected`, which examine.py calls, says whether a reply is then false. A plant that
promises nothing more than the honest accountant is harmless. A mechanism *attains* its bounds if some data have exactly the cost that it
reports.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain

from dpcli.accountants.base import Accountant, Bound, PrivacyProfile, Steps
from dpcli.base.errors import NotRepresentable
from dpcli.base.registry import MECHANISMS
from dpcli.exam.questions import ExamQuestion, Reply, questions_about, replies
from dpcli.mechanisms.mechanism import Dominated, Mechanism

# The sizes of the planted bugs; arbitrary. A smaller bug is harder to detect.
EPSILON_DIVISOR = 10.0  # divisor by which a planted bug reduces epsilon
LARGE_DELTA = 0.4  # a delta at which every mechanism is cheap
LOWER_BOUND_FACTOR = 1.25  # factor by which a planted bug raises lower bounds

SLOW_LAST = tuple(reversed([*MECHANISMS]))  # mechanism types; the types that are registered first take longest to enumerate


@dataclass(frozen=True, slots=True)
class Planted(PrivacyProfile):
    """A privacy profile with a planted bug. A subclass overrides the methods that the bug changes."""

    inner: PrivacyProfile

    def epsilon(self, delta: float) -> Bound:
        return self.inner.epsilon(delta)

    def delta(self, epsilon: float) -> Bound:
        return self.inner.delta(epsilon)

    def tuned(self, tolerance: float | None, seconds: float) -> PrivacyProfile:
        return replace(self, inner=self.inner.tuned(tolerance, seconds))

    def shares(self, delta: float) -> tuple[float, ...]:
        return self.inner.shares(delta)


class TenthOfEpsilon(Planted):
    """A bug that reports a tenth of epsilon."""

    __slots__ = ()

    def epsilon(self, delta: float) -> Bound:
        bound = self.inner.epsilon(delta)
        return replace(bound, upper=bound.upper / EPSILON_DIVISOR, lower=bound.lower and bound.lower / EPSILON_DIVISOR)

    def delta(self, epsilon: float) -> Bound:
        return self.inner.delta(EPSILON_DIVISOR * epsilon)


class LowerBoundLifted(Planted):
    """A bug that raises lower bounds by a quarter, or reports the upper bound as the lower bound if there is none."""

    __slots__ = ()

    def epsilon(self, delta: float) -> Bound:
        return _lifted(self.inner.epsilon(delta))

    def delta(self, epsilon: float) -> Bound:
        return _lifted(self.inner.delta(epsilon))


class DeltaIgnored(Planted):
    """A bug that reports epsilon at a large delta instead of the requested delta."""

    __slots__ = ()

    def epsilon(self, delta: float) -> Bound:
        return self.inner.epsilon(max(delta, LARGE_DELTA))

    def delta(self, epsilon: float) -> Bound:
        bound = self.inner.delta(epsilon)
        return Bound(0.0) if bound.upper < LARGE_DELTA else bound


@dataclass(frozen=True, slots=True)
class Floorless(Dominated):
    """A mechanism that hides its *delta floor*, at and below which epsilon may be infinite. `by` is the mechanism without this bug."""

    def approx_dp(self, delta: float) -> float:
        return self.by.approx_dp(max(delta, self.by.delta_floor()))

    def delta_floor(self) -> float:
        return 0.0

    def split_failure(self) -> tuple[float, Mechanism]:
        return 0.0, self.by.split_failure()[1]  # log(1 - 0): no failure is set aside

    def attained(self) -> bool:
        return self.by.attained()


def _lifted(bound: Bound) -> Bound:
    lower = bound.upper if bound.lower is None else LOWER_BOUND_FACTOR * bound.lower
    return Bound(max(bound.upper, lower), lower)


@dataclass(frozen=True, slots=True)
class Plant:
    """A bug that is planted around an accountant.

    Attributes:
        steps: Function that changes the steps that the accountant receives.
        profile: Function that changes the profile that the accountant returns.
        claims: Whether the accountant is declared sound although it is not.
    """

    steps: Callable[[Steps], Steps] = lambda steps: steps
    profile: Callable[[PrivacyProfile], PrivacyProfile] = lambda profile: profile
    claims: bool = False

    def planted(self, accountant: Accountant) -> Accountant:
        """Return the accountant with the bug."""

        def compose(steps: Steps) -> PrivacyProfile:
            return self.profile(accountant.profile_of_composition(self.steps(steps)))

        # `finite` asks to set aside the probability that a step reveals everything. The honest accountant inside has done this already.
        return replace(accountant, compose=compose, finite=False, sound=accountant.sound or self.claims)

    def affects(self, accountant: Accountant, steps: Steps) -> bool:
        """Return whether the bug can change the accountant's answer about the steps."""
        # A plant that changes no profile returns the empty profile as it is.
        changes_answers = isinstance(self.profile(PrivacyProfile()), Planted) or (self.claims and not accountant.sound)
        return changes_answers or self.steps(steps) != steps


def hide_delta_floors(steps: Steps) -> Steps:
    """Return the steps with mechanisms that report a delta floor of 0."""
    return tuple((Floorless(mechanism) if _floor(mechanism) > 0.0 else mechanism, count) for mechanism, count in steps)


def _floor(mechanism: Mechanism) -> float:
    """Return the delta floor of a mechanism; 0 if it does not know its floor."""
    try:
        return mechanism.delta_floor()
    except NotRepresentable:
        return 0.0


ACCOUNTANT_PLANTS: dict[str, Plant] = {
    "epsilon divided by ten": Plant(profile=TenthOfEpsilon),
    "lower bound lifted": Plant(profile=LowerBoundLifted),
    "count ignored": Plant(steps=lambda steps: tuple((mechanism, 1) for mechanism, _ in steps)),
    "delta ignored": Plant(profile=DeltaIgnored),
    "deltas of steps ignored": Plant(steps=hide_delta_floors),
    "soundness claimed": Plant(claims=True),
}


@functools.cache
def all_questions() -> tuple[ExamQuestion, ...]:
    """Return all questions. Those whose lower bounds an enumeration can contradict at its first epsilon come first, to save time."""
    return tuple(sorted(chain.from_iterable(map(questions_about, SLOW_LAST)), key=lambda question: not question.is_worst_case(0)))


def is_detected(plant: Plant, accountant: Accountant) -> bool:
    """Return whether the exam detects the bug, or the bug is harmless.

    The bug is detected if a reply is false. It is harmless if no reply promises more than the reply without the bug. A reply about a
    mechanism whose bound no data attain may promise more and still be true, and does not count as harm.
    """
    is_harmless = True
    for question in all_questions():
        if not plant.affects(accountant, question.steps):
            continue
        planted_replies = list(replies(plant.planted(accountant), [question]))
        if any(reply.is_false for reply in planted_replies):
            return True
        is_tight = all(mechanism.attained() for mechanism, _ in question.steps)
        if is_harmless and is_tight:
            honest_replies = {reply.label: reply for reply in replies(accountant, [question])}
            is_harmless = not any(_promises_more(reply, honest_replies.get(reply.label)) for reply in planted_replies)
    return is_harmless


def _promises_more(planted: Reply, honest: Reply | None) -> bool:
    """Return whether a reply with the bug promises more than the reply without it, or exists only with the bug."""
    return honest is None or planted.promises_more(honest)
