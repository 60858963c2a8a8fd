"""Epsilon at many values of a parameter, as lines and certified bands of a chart.

The kinds of chart (epsilon_over.py, delta_epsilon.py, trade_off_curve.py) call `curves` with a `Question` and a function that gives the
pipeline and delta for each *value*, such as a number of steps. A line shows the smallest bound of a *group* of accountants, and the one
that has it is the *winner* at a value. It would take long to ask all of them everywhere. So they are tried at the *probes*, about every
eighth value, until the bounds of one are NARROW. In between, only the winners at the two nearest probes are asked, if both have one. A
line may thus be a little higher than the best bound, and is never below it.

An accountant is *sound* if its numbers are upper bounds. One that only approximates is drawn if it was named, on a line of its own. A band
lies between upper and certified lower bounds. A point without a finite bound is left out, not drawn at a guess. The *headline* is the
smallest bound of the pipeline as its file states it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Context, Decimal

from dpcli.accountants.base import Bound, checked
from dpcli.accountants.rounded_steps import rounded_steps
from dpcli.analysis.account import Account, account, attains_pairs, profiles_of
from dpcli.analysis.account_rows import AccountRow
from dpcli.analysis.adaptive_cap import binding_charges
from dpcli.analysis.solved_keys import Parameter, parameter_key
from dpcli.base.errors import CannotCertify, InputError, InternalError, NotRepresentable
from dpcli.base.registry import ACCOUNTANTS
from dpcli.document.chart import SERIES, Band, Line, Tone  # SERIES: the tones of successive lines
from dpcli.file.pipeline.model import Entry, Pipeline
from dpcli.file.pipeline.resolve import steps_of

# Time against accuracy. They are arbitrary, and each point of a sound accountant is an upper bound whatever they are.
# Relative gap between certified bounds at which no other accountant is tried; it is too small to be seen in a picture
NARROW = 2e-3
PROBE = 8  # all accountants are tried at every eighth value, and at values in between only the winners at the two nearest
DIFFERENT = 250  # most different mechanisms of one account; more are rounded to that many, at a cost of less than 1 % of epsilon

CONTRADICTION = 1.0 + 1e-9  # factor by which a lower bound may exceed an upper bound by rounding; more is an error in an accountant
MOST_REASONS = 3  # largest number of reasons in an error, so that it stays readable
MOST_NAMED = 2  # largest number of accountants that the label of a line names, so that it fits into the picture

Progress = Callable[[int, int], None]


def quiet(done: int, total: int) -> None:
    """Ignore the progress."""


@dataclass(frozen=True, slots=True)
class Question:
    """A pipeline to draw, and the settings of its account.

    accountants: accountants, with a line for each. If empty, there is one line, for the smallest bound of all sound accountants.
    delta: delta; the file's if None.
    group_size: number of units of privacy that change together.
    mechanism: name of the mechanism to vary; None if only one can be varied.
    cap: an epsilon that is drawn as a line; None for none.
    progress: function that is called with the number of values that are computed, and the number of all values.
    """

    pipeline: Pipeline
    accountants: tuple[str, ...] = ()
    delta: float | None = None
    group_size: int = 1
    mechanism: str | None = None
    cap: float | None = None
    progress: Progress = quiet

    def headline(self) -> Account:
        """Return the account of the pipeline.

        Raises CannotCertify if there is no finite epsilon, or if an accountant in `accountants` has none.
        """
        result = account(self.pipeline, self.accountants or None, self.delta, group_size=self.group_size)
        without_bound = [row for row in result.rows if row.bound is None]
        if result.winner is None and len(without_bound) == len(result.rows):
            reasons = [reason for reason in dict.fromkeys(row.reason for row in result.rows) if reason]
            more = "; ..." if len(reasons) > MOST_REASONS else ""
            text = "; ".join(reasons[:MOST_REASONS]) + more
            raise CannotCertify(f"nothing to draw: no finite epsilon at delta = {result.delta!r} ({text})")
        if self.accountants and without_bound:
            reasons = [f"{row.accountant.name}: {row.reason or 'no reason is given'}" for row in without_bound]
            raise CannotCertify(f"cannot draw all accountants: {'; '.join(reasons)}")
        return result

    def groups(self, rows: Sequence[AccountRow]) -> tuple[tuple[str, ...], ...]:
        """Return the accountants of each line: one per line if they were named; otherwise all sound ones, the most promising first."""
        if self.accountants:
            return tuple((name,) for name in dict.fromkeys(self.accountants))
        sound = [row for row in rows if row.accountant.sound]
        return (tuple(row.accountant.name for row in sorted(sound, key=_promise)),)

    def with_progress(self, values: Sequence[float]) -> Iterator[float]:
        """Yield the values, and report progress."""
        for done, value in enumerate(values):
            self.progress(done, len(values))
            yield value
        self.progress(len(values), len(values))


@dataclass(frozen=True, slots=True)
class Epsilon:
    """Certified bounds on epsilon, with the accountant of the upper bound. `lower` is None if no lower bound is certified."""

    upper: float
    lower: float | None
    accountant: str


def smallest(pipeline: Pipeline, names: Sequence[str], delta: float, group_size: int = 1) -> Epsilon | None:
    """Return the smallest upper bound of the accountants, tried in order until the bounds of one are NARROW; None if none is finite.

    Raises InternalError if a lower bound contradicts it.
    """
    best: Epsilon | None = None
    largest_lower = 0.0
    for name, bound in _bounds(pipeline, names, delta, group_size):
        largest_lower = max(largest_lower, bound.lower or 0.0)
        if best is None or bound.upper < best.upper:
            best = Epsilon(bound.upper, None, name)
        if bound.lower is not None and bound.upper - bound.lower <= NARROW * bound.upper:
            break
    if best is None:
        return None
    if largest_lower > best.upper * CONTRADICTION:
        raise InternalError(
            f"accountants contradict each other: at least {largest_lower!r} and at most {best.upper!r}: nothing was drawn"
        )
    return replace(best, lower=min(largest_lower, best.upper) if largest_lower > 0.0 else None)


def _bounds(pipeline: Pipeline, names: Sequence[str], delta: float, group_size: int) -> Iterator[tuple[str, Bound]]:
    """Yield the finite bounds of the accountants. Each is computed within the accountant's allowance of work, when it is requested.

    Accountants compute with a dominating pair of each mechanism, whose privacy loss is at least that of the mechanism. Their lower bounds
    are bounds for the pipeline only if the mechanisms reach the losses of their pairs (`attains_pairs`), and are left out otherwise. Many
    similar mechanisms are rounded to fewer: to more costly ones (`dominating`) for upper bounds, and to less costly ones (`dominated`)
    for lower bounds. If no named accountant is sound, approximations are yielded.
    """
    steps = steps_of(binding_charges(pipeline, group_size))  # the mechanisms, or an adaptive pipeline's cap
    dominating, dominated = rounded_steps(steps, most_different=DIFFERENT, most_sampled=DIFFERENT) or (steps, steps)
    profiles = profiles_of(dominating, names)
    has_lower_bounds = attains_pairs(pipeline, group_size)
    for (accountant, profile), (_, profile_of_dominated) in zip(profiles, profiles_of(dominated, names), strict=True):
        with suppress(NotRepresentable), accountant.within_allowance():
            bound = checked(profile.epsilon(delta))
            if math.isfinite(bound.upper):
                yield accountant.name, replace(bound, lower=None)  # at once, because the lower bound may raise NotRepresentable
                if bound.lower is not None and has_lower_bounds:
                    lower = bound.lower if dominating is dominated else profile_of_dominated.epsilon(delta).lower
                    yield accountant.name, replace(bound, lower=lower)
    if not profiles:  # no named accountant is sound; the budget is left out: its verdict would cost another account
        for row in account(replace(pipeline, budget=None), names, delta, group_size=group_size).rows:
            if row.bound is not None:
                yield row.accountant.name, row.bound


def _promise(row: AccountRow) -> tuple[int, float]:
    """Return the sort key of an accountant by its row of the headline's account.

    Bounds with a certified lower bound come first, then other upper bounds, each by size, and last the accountants without a bound.
    """
    if row.bound is None:
        return 2, list(ACCOUNTANTS).index(row.accountant.name)
    return (1, row.bound.upper) if row.bound.lower is None else (0, row.bound.upper)


Epsilons = tuple[tuple[float, Epsilon], ...]  # (value, epsilon), by increasing value
PipelineAt = Callable[[float], tuple[Pipeline, float]]  # value -> pipeline and delta
Placement = Callable[[float, float], tuple[float, float]]  # (value, epsilon) -> (x, y)


@dataclass(frozen=True, slots=True)
class EpsilonCurve:
    """Epsilon at increasing values, by one group of accountants.

    epsilons: the values, each with its bounds on epsilon.
    sound: whether the epsilons are bounds, and not approximations.
    """

    label: str
    epsilons: Epsilons
    sound: bool
    tone: Tone

    def line(self, place: Placement) -> Line:
        """Return the upper bounds as a line."""
        points = tuple(place(value, epsilon.upper) for value, epsilon in self.epsilons)
        return Line(self.label, points, self.tone, dashed=not self.sound)

    def bands(self, place: Placement) -> tuple[Band, ...]:
        """Return the band between the certified bounds; () if there are fewer than two."""
        lower, upper = [], []
        for value, epsilon in self.epsilons:
            if epsilon.lower is not None:
                lower.append(place(value, epsilon.lower))
                upper.append(place(value, epsilon.upper))
        if len(lower) < 2:
            return ()
        return (Band(f"{self.label}, certified", tuple(lower), tuple(upper), self.tone),)


def curves(question: Question, account: Account, values: Sequence[float], at: PipelineAt) -> tuple[EpsilonCurve, ...]:
    """Return a curve for each group of accountants, through the values at which it has a finite epsilon.

    account: account of the headline, whose rows decide which accountants are tried first.
    at: function that returns the pipeline and the delta at a value.

    Raises CannotCertify if a curve has a finite epsilon at fewer than two values.
    """
    groups = question.groups(account.rows)
    sound = {row.accountant.name for row in account.rows if row.accountant.sound}
    drawn: list[EpsilonCurve] = []
    missing: list[str] = []
    for number, group in enumerate(groups):
        question_of_line = replace(question, progress=_progress_of_line(question, number, len(groups)))
        epsilons = _epsilons(question_of_line, group, values, at)
        if len(epsilons) < 2:
            missing.append(group[0])
            continue
        label = line_label(group, (epsilon for _, epsilon in epsilons))
        drawn.append(EpsilonCurve(label, epsilons, sound.issuperset(group), SERIES[len(drawn) % len(SERIES)]))
    if not drawn:
        raise CannotCertify("nothing to draw: no finite epsilon at two or more of the values")
    if question.accountants and missing:
        raise CannotCertify(f"cannot draw all accountants: {', '.join(missing)}: no finite epsilon at two or more of the values")
    return tuple(drawn)


def _epsilons(question: Question, group: tuple[str, ...], values: Sequence[float], at: PipelineAt) -> Epsilons:
    """Return the smallest epsilon at each value."""
    known: dict[float, Epsilon | None] = {}
    probes = {*values[::PROBE], values[-1]}
    order = [*sorted(probes), *(value for value in values if value not in probes)]
    for value in question.with_progress(order):
        pipeline, delta = at(value)
        if any(any(entry.spec.problems()) for entry in pipeline.mechanisms):
            continue  # a file with this value would be refused
        accountants = _winners_nearby(known, probes, value) or group
        known[value] = smallest(pipeline, accountants, delta, group_size=question.group_size)
    epsilons = ((value, known.get(value)) for value in values)
    return tuple((value, epsilon) for value, epsilon in epsilons if epsilon is not None)


def _winners_nearby(known: dict[float, Epsilon | None], probes: set[float], value: float) -> tuple[str, ...]:
    """Return the winners at the probes on both sides of a value; () if it is a probe itself, or one of them has no winner."""
    if value in probes:
        return ()
    below = known.get(max(probe for probe in probes if probe < value))
    above = known.get(min(probe for probe in probes if probe > value))
    if below is None or above is None:
        return ()
    return tuple(dict.fromkeys((below.accountant, above.accountant)))


def _progress_of_line(question: Question, number: int, lines: int) -> Progress:
    """Return the function that reports the progress of one of several lines, by its number from 0."""
    return lambda done, total: question.progress(number * total + done, lines * total)


def line_label(names: tuple[str, ...], epsilons: Iterable[Epsilon]) -> str:
    """Return the label of a line: its accountant, or the accountants with the smallest bounds along it."""
    if len(names) == 1:
        return names[0]
    winners = list(dict.fromkeys(epsilon.accountant for epsilon in epsilons))
    if len(winners) > MOST_NAMED:
        return f"smallest of {len(winners)} accountants"
    return f"accountant{'s' if len(winners) > 1 else ''}: {' and '.join(winners)}"


def accuracy_note(epsilons: Iterable[Epsilon]) -> str:
    """Return a note on the points of a line: that they are bounds, and their distance from the true epsilon if it is certified."""
    positive = [epsilon for epsilon in epsilons if epsilon.upper > 0.0]  # an upper bound of 0 is exact
    if not positive:
        return "epsilon is 0 at every point"
    gaps = [(epsilon.upper - epsilon.lower) / epsilon.upper for epsilon in positive if epsilon.lower is not None]
    points = f"{len(positive)} points, each an upper bound on epsilon"
    if not gaps:
        return f"{points}; the true epsilon may be smaller"
    where = "" if len(gaps) == len(positive) else f" at {len(gaps)}"
    return f"{points}, certified from below{where}: the true epsilon is at most a fraction {one_digit_up(max(gaps))} smaller"


def one_digit_up(gap: float) -> str:
    """Return a gap as text with one digit, rounded up."""
    return f"{Context(prec=1, rounding=ROUND_CEILING).plus(Decimal(gap)):.0e}" if gap > 0.0 else "0"


def accuracy_notes(epsilon_curves: tuple[EpsilonCurve, ...]) -> tuple[str, ...]:
    """Return the notes on the points of each line of bounds. Lines of approximations have none."""
    sound = [curve for curve in epsilon_curves if curve.sound]
    if len(sound) == 1:
        return (accuracy_note(epsilon for _, epsilon in sound[0].epsilons),)
    return tuple(f"{curve.label}: {accuracy_note(epsilon for _, epsilon in curve.epsilons)}" for curve in sound)


def varied_key(question: Question, parameter: Parameter) -> tuple[Entry, str]:
    """Return the mechanism to vary and the key of its parameter, such as its "sigma" for the parameter noise.

    Raises InputError if no mechanism has the parameter, or if several have it and the question names none.
    """
    entries = question.pipeline.mechanisms
    known = [(entry, key) for entry in entries if (key := parameter_key(entry, parameter)) is not None]
    names = ", ".join(entry.name for entry, _ in known) or "none"
    if question.mechanism is not None:
        named = [(entry, key) for entry, key in known if entry.name == question.mechanism]
        if not named:
            raise InputError(f"--mechanism: expected a mechanism with {parameter} to vary ({names}), found {question.mechanism!r}")
        return named[0]
    if len(known) != 1:
        advice = "name one (--mechanism NAME)" if known else "another kind of plot may suit this file"
        raise InputError(f"expected one mechanism whose {parameter} can be varied, found {names}: {advice}")
    return known[0]
