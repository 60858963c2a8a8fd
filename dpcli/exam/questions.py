"""Questions to accountants whose answers are known from an enumeration, and the replies of an accountant.

examine.py asks accountants these questions, also accountants with planted bugs (accountant_plants.py), and reports each reply that
`is_false`. The enumeration (dpcli/exam/enumeration) knows the delta of the worst release of some *steps* (pairs of a mechanism and its
count) at a few epsilons, the POINTS. An upper bound below it is false. A lower bound above it is false too, but only if no data are worse
than those enumerated (`is_worst_case`). The enumerated delta may be too small, because continuous outcomes are divided into cells: each
*reference*, an entry with its enumerated releases, states the largest share of delta that is lost (`loss`). The limits below allow for this
and for rounding, so that no true bound is called false.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from random import Random

from dpcli.accountants.base import Accountant, Bound, PrivacyProfile, Steps, checked
from dpcli.base.errors import InputError, InternalError, NotRepresentable
from dpcli.base.lazy import load
from dpcli.base.registry import ACCOUNTANTS
from dpcli.exam.enumeration.bracket import BEYOND, EPSILONS, ROUNDING, reference_pipeline, situations, worst_deltas
from dpcli.exam.enumeration.drawing_records import Situation
from dpcli.exam.enumeration.references import Reference
from dpcli.file.pipeline.resolve import resolve, steps_of
from dpcli.numerics.work import LEAST

POINTS = (*EPSILONS, BEYOND)  # the epsilons
SECONDS = 0.1  # time that the grid accountant may take for one answer; less time makes its bounds looser, but not false
SURELY_BELOW = 1.0 - 1e-6  # factor that makes an enumerated delta smaller than the true delta in spite of rounding errors


@dataclass(frozen=True, slots=True)
class ExamQuestion:
    """A question about steps whose worst release is known from an enumeration.

    Attributes:
        points: Positions in POINTS at which accountants are asked.
    """

    reference: Reference
    scheme: str
    situation: Situation
    steps: Steps
    points: tuple[int, ...] = tuple(range(len(POINTS)))

    @property
    def adjacency(self) -> str:
        return self.situation.adjacency

    @property
    def label(self) -> str:
        situation, reference = self.situation, self.reference
        sizes = f"{situation.contributions} records, group {situation.group}"
        return f"{reference.type} {reference.keys}, {situation.adjacency}, {self.scheme} ({situation.draws.label}), {sizes}"

    @property
    def deltas(self) -> tuple[float, ...]:
        """Return the enumerated delta at each of POINTS. It is too small by at most the reference's `loss`, relative to the true delta."""
        return worst_deltas(self.reference, self.situation)

    def is_worst_case(self, point: int) -> bool:
        """Return whether the enumeration at POINTS[point] is the worst case over all data, so that it limits lower bounds too.

        This holds if the steps attain their dominating pairs. The last point is excepted, because discretisation may lose too much there.
        """
        attained = all(mechanism.attained() for mechanism, _ in self.steps)
        return attained and self.reference.loss < 1.0 and point < len(EPSILONS)


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply of an accountant, with the limits that the enumeration sets.

    Attributes:
        label: Description of the question.
        bound: The bound; None if the reply is not a valid bound.
        least_upper: Number that a true upper bound is never below.
        most_lower: Number that a true lower bound is never above.
    """

    label: str
    bound: Bound | None
    least_upper: float = 0.0
    most_lower: float = math.inf

    @property
    def is_false(self) -> bool:
        """Return whether the enumeration contradicts the reply."""
        if self.bound is None:
            return True
        return not self.bound.upper >= self.least_upper or (self.bound.lower or 0.0) > self.most_lower

    def promises_more(self, honest: Reply) -> bool:
        """Return whether this reply promises more than the honest reply.

        This is the case if its upper bound is smaller, or if its lower bound is larger and the enumeration limits lower bounds.
        """
        if self.bound is None or honest.bound is None:
            return self.bound is None
        is_lifted = (self.bound.lower or 0.0) > (honest.bound.lower or 0.0) * (1.0 + ROUNDING) and self.most_lower < math.inf
        return is_lifted or self.bound.upper < honest.bound.upper * (1.0 - ROUNDING)


@functools.cache
def questions_about(kind: str) -> tuple[ExamQuestion, ...]:
    """Return a question for every meaningful situation of a mechanism type's references."""
    result = []
    for reference, scheme, situation in situations(kind):
        with suppress(InputError):
            charges = resolve(reference_pipeline(reference, scheme, situation), situation.group)
            result.append(ExamQuestion(reference, scheme, situation, steps_of(charges)))
    return tuple(result)


def question_sample(kind: str, seed: str) -> tuple[ExamQuestion, ...]:
    """Return a random question for each adjacency and scheme."""
    random, shuffled = Random(f"{seed}/{kind}"), list(questions_about(kind))
    random.shuffle(shuffled)
    chosen = {(question.adjacency, question.scheme): question for question in shuffled}
    return tuple(replace(question, points=(random.choice(question.points),)) for question in chosen.values())


def replies(accountant: Accountant, questions: Iterable[ExamQuestion]) -> Iterator[Reply]:
    """Yield the accountant's replies. There is no reply to a question for which the accountant has no number."""
    # A search for delta asks for epsilon many times. That takes long and tests nothing new.
    asks_delta = not _searches_delta(accountant.name)
    for question in questions:
        profile = accountant.profile(question.steps).tuned(tolerance=None, seconds=SECONDS)  # at the accountant's own tolerance
        for point in question.points:
            with suppress(NotRepresentable), accountant.within_allowance(LEAST):  # limits the work, so that no question takes long
                yield from _replies_at(point, profile, question, asks_delta)


def _searches_delta(name: str) -> bool:
    """Return whether the registered accountant of this name, which may have a planted bug here, inherits the search for delta."""
    return type(load(ACCOUNTANTS[name]).compose(())).delta is PrivacyProfile.delta


def _replies_at(point: int, profile: PrivacyProfile, question: ExamQuestion, asks_delta: bool) -> Iterator[Reply]:
    """Yield the replies at POINTS[point]. An internal error gives a reply that is not a bound, and is therefore false."""
    try:
        yield from _epsilons(profile, question, point)
        if asks_delta:
            yield from _delta(profile, question, point)
    except InternalError as error:
        yield Reply(f"{question.label}: {error}", None)


def _epsilons(profile: PrivacyProfile, question: ExamQuestion, point: int) -> Iterator[Reply]:
    """Yield replies about epsilon near the enumerated delta at POINTS[point].

    The first reply is at a smaller delta, and limits the upper bound. The second is at a larger delta, and limits the lower bound. Rounding
    errors cannot change this order.
    """
    epsilon, smaller = POINTS[point], question.deltas[point] * SURELY_BELOW - ROUNDING
    if smaller <= 0.0:
        return
    bound = checked(profile.epsilon(smaller))
    yield Reply(f"{question.label}: epsilon at {smaller}", bound, least_upper=epsilon * (1.0 - ROUNDING))
    larger = question.deltas[point] / (1.0 - question.reference.loss) + ROUNDING if question.is_worst_case(point) else 1.0
    if bound.lower is not None and larger <= 0.5:  # a delta of 1 stands for no limit on lower bounds
        bound = checked(profile.epsilon(larger))
        yield Reply(f"{question.label}: epsilon at {larger}", bound, most_lower=epsilon * (1.0 + ROUNDING))


def _delta(profile: PrivacyProfile, question: ExamQuestion, point: int) -> Iterator[Reply]:
    """Yield the reply about delta at POINTS[point]."""
    exact = question.deltas[point]
    least_upper = exact * (1.0 - ROUNDING) - ROUNDING * 1e-3  # the last term is for deltas near 0
    most_lower = (exact + ROUNDING) / (1.0 - question.reference.loss) if question.is_worst_case(point) else math.inf
    yield Reply(f"{question.label}: delta at {POINTS[point]}", checked(profile.delta(POINTS[point])), least_upper, most_lower)
