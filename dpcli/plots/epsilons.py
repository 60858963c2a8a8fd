"""Epsilon at many values of a parameter, by groups of accountants, as lines and certified bands of a chart."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Context, Decimal

from dpcli.accountants.base import Bound, checked
from dpcli.analysis.account import Account, account, attained, sound_profiles
from dpcli.analysis.account_rows import AccountRow
from dpcli.analysis.solved_keys import Parameter, parameter_key
from dpcli.base.errors import CannotCertify, InputError, InternalError, NotRepresentable
from dpcli.base.registry import ACCOUNTANTS
from dpcli.document.chart import SERIES, Band, Line, Points, Tone
from dpcli.file.pipeline.model import Entry, Pipeline

NARROW = 2e-3  # relative gap between certified bounds at which no other accountant is tried
MOST_REASONS = 3  # largest number of reasons in an error

Progress = Callable[[int, int], None]


def quiet(done: int, total: int) -> None:
    """Ignore the progress."""


@dataclass(frozen=True, slots=True)
class Question:
    """A pipeline to draw, and the settings of its account.

    Attributes:
        accountants: Accountants, with a line for each. If empty, there is one line, for the smallest bound of all sound accountants.
        delta: Delta; the file's if None.
        mechanism: Name of the mechanism to vary; None if only one can be varied.
        progress: Function that reports progress.
    """

    pipeline: Pipeline
    accountants: tuple[str, ...] = ()
    delta: float | None = None
    group_size: int = 1
    mechanism: str | None = None
    progress: Progress = quiet

    def headline(self) -> Account:
        """Return the account of the pipeline.

        Raises CannotCertify if there is no finite epsilon, or if an accountant in `accountants` has none.
        """
        result = account(self.pipeline, self.accountants or None, self.delta, group_size=self.group_size)
        if result.winner is None and not any(row.bound is not None for row in result.rows):
            reasons = [reason for reason in dict.fromkeys(row.reason for row in result.rows) if reason]
            text = "; ".join(reasons[:MOST_REASONS]) + ("; ..." if len(reasons) > MOST_REASONS else "")
            raise CannotCertify(f"nothing to draw: no finite epsilon at delta = {result.delta!r} ({text})")
        if self.accountants and (silent := [row for row in result.rows if row.bound is None]):
            reasons = [f"{row.accountant.name}: {row.reason or 'no reason is given'}" for row in silent]
            raise CannotCertify(f"cannot draw all accountants: {'; '.join(reasons)}")
        return result

    def groups(self, rows: Sequence[AccountRow]) -> tuple[tuple[str, ...], ...]:
        """Return the accountants of each line: one per line if they were named; otherwise all sound ones, the most promising first."""
        if self.accountants:
            return tuple((name,) for name in dict.fromkeys(self.accountants))
        return (tuple(row.accountant.name for row in sorted(rows, key=_promise) if row.accountant.sound),)

    def each(self, values: Sequence[float]) -> Iterator[float]:
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
    """Return the smallest upper bound of the accountants, tried in order until the bounds are NARROW; None if none applies."""
    best: Epsilon | None = None
    lowest = 0.0
    for name, bound in _bounds(pipeline, names, delta, group_size):
        lowest = max(lowest, bound.lower or 0.0)
        if best is None or bound.upper < best.upper:
            best = Epsilon(bound.upper, None, name)
        if bound.lower is not None and bound.upper - bound.lower <= NARROW * bound.upper:
            break
    if best is None:
        return None
    if lowest > best.upper * (1.0 + 1e-9):
        raise InternalError(f"accountants contradict each other: at least {lowest!r} and at most {best.upper!r}: nothing was drawn")
    return replace(best, lower=min(lowest, best.upper) if lowest > 0.0 else None)


def _bounds(pipeline: Pipeline, names: Sequence[str], delta: float, group_size: int) -> Iterator[tuple[str, Bound]]:
    """Yield the finite bounds of the accountants. Each is computed within the time allowance, when it is requested."""
    profiles, certain = sound_profiles(pipeline, names, group_size), attained(pipeline, group_size)
    for accountant, profile in profiles:
        with suppress(NotRepresentable), accountant.within_allowance():
            bound = checked(profile.epsilon(delta))
            if math.isfinite(bound.upper):
                yield accountant.name, bound if certain else replace(bound, lower=None)
    if not profiles:  # Approximations are drawn only if they are named.
        for row in account(replace(pipeline, budget=None), names, delta, group_size=group_size).rows:
            if row.bound is not None:
                yield row.accountant.name, row.bound


def _promise(row: AccountRow) -> tuple[int, float]:
    """Return the sort key of an accountant: two-sided bounds first, then upper bounds, each by size, and no bounds last."""
    order = list(ACCOUNTANTS).index(row.accountant.name)
    if row.bound is None:
        return 2, order
    return (1, row.bound.upper) if row.bound.lower is None else (0, row.bound.upper)


Epsilons = tuple[tuple[float, Epsilon], ...]  # (value, epsilon), by increasing value
Setting = Callable[[float], tuple[Pipeline, float]]  # value -> pipeline and delta

PROBE = 8  # All accountants are tried at every eighth value, and at values in between only the winners at the two nearest.


@dataclass(frozen=True, slots=True)
class EpsilonCurve:
    """Epsilon at increasing values, by one group of accountants."""

    names: tuple[str, ...]
    label: str
    epsilons: Epsilons
    sound: bool
    tone: Tone

    def line(self, place: Callable[[float, float], tuple[float, float]]) -> Line:
        """Return the upper bounds as a line. `place` maps (value, epsilon) to (x, y)."""
        return Line(self.label, tuple(place(x, e.upper) for x, e in self.epsilons), self.tone, dashed=not self.sound)

    def bands(self, place: Callable[[float, float], tuple[float, float]]) -> tuple[Band, ...]:
        """Return the band between the certified bounds; () if there are fewer than two."""
        both = [(x, e.lower, e.upper) for x, e in self.epsilons if e.lower is not None]
        if len(both) < 2:
            return ()
        lower: Points = tuple(place(x, low) for x, low, _ in both)
        return (Band(f"{self.label}, certified", lower, tuple(place(x, high) for x, _, high in both), self.tone),)


def curves(question: Question, account: Account, values: Sequence[float], at: Setting) -> tuple[EpsilonCurve, ...]:
    """Return a curve for each group of accountants, through the values at which it has a finite epsilon.

    Raises CannotCertify if a curve has a finite epsilon at fewer than two values.
    """
    groups = question.groups(account.rows)
    sound = {row.accountant.name: row.accountant.sound for row in account.rows}
    result = [
        (group, _epsilons(replace(question, progress=_part(question, i, len(groups))), group, values, at))
        for i, group in enumerate(groups)
    ]
    drawn = [(group, pairs) for group, pairs in result if len(pairs) > 1]
    if not drawn:
        raise CannotCertify("nothing to draw: no finite epsilon at two or more of the values")
    missing = [group[0] for group, pairs in result if question.accountants and len(pairs) < 2]
    if missing:
        raise CannotCertify(f"cannot draw all accountants: {', '.join(missing)}: no finite epsilon at two or more of the values")
    return tuple(
        EpsilonCurve(
            group, line_label(group, (e for _, e in pairs)), pairs, all(sound[name] for name in group), SERIES[i % len(SERIES)]
        )
        for i, (group, pairs) in enumerate(drawn)
    )


def _epsilons(question: Question, group: tuple[str, ...], values: Sequence[float], at: Setting) -> Epsilons:
    """Return the smallest epsilon at each value. Between probes fewer accountants are tried, whose results are upper bounds too."""
    known: dict[float, Epsilon | None] = {}
    probes = {*values[::PROBE], values[-1]}
    order = [*sorted(probes), *(value for value in values if value not in probes)]
    for value in question.each(order):
        pipeline, delta = at(value)
        if any(True for entry in pipeline.mechanisms for _ in entry.spec.problems()):
            continue  # This value is invalid in a file.
        known[value] = smallest(pipeline, _near(known, probes, value) or group, delta, group_size=question.group_size)
    return tuple((value, epsilon) for value in values if (epsilon := known.get(value)) is not None)


def _near(known: dict[float, Epsilon | None], probes: set[float], value: float) -> tuple[str, ...]:
    """Return the winners at the probes on both sides of a value; () if it is a probe itself, or one of them has no winner."""
    if value in probes:
        return ()
    ends = known.get(max(p for p in probes if p < value)), known.get(min(p for p in probes if p > value))
    return tuple(dict.fromkeys(end.accountant for end in ends if end is not None)) if None not in ends else ()


def _part(question: Question, i: int, lines: int) -> Progress:
    """Return the function that reports the progress of line i."""
    return lambda done, total: question.progress(i * total + done, lines * total)


def line_label(names: tuple[str, ...], epsilons: Iterable[Epsilon]) -> str:
    """Return the label of a line: its accountant, or the accountants with the smallest bounds along it."""
    if len(names) == 1:
        return names[0]
    winners = list(dict.fromkeys(epsilon.accountant for epsilon in epsilons))
    return (
        f"accountant{'s' if len(winners) > 1 else ''}: {' and '.join(winners)}"
        if len(winners) < 3
        else f"smallest of {len(winners)} accountants"
    )


def certificate(epsilons: Iterable[Epsilon]) -> str:
    """Return a note on the points of a line: that they are bounds, and their distance from the true epsilon if it is certified."""
    values = [epsilon for epsilon in epsilons if epsilon.upper > 0.0]  # An upper bound of 0 is exact.
    gaps = [(e.upper - e.lower) / e.upper for e in values if e.lower is not None]
    points = f"{len(values)} points, each an upper bound on epsilon"
    if not gaps:
        return f"{points}; the true epsilon may be smaller"
    where = "" if len(gaps) == len(values) else f" at {len(gaps)}"
    return f"{points}, certified from below{where}: the true epsilon is at most a fraction {loosely(max(gaps))} smaller"


def loosely(gap: float) -> str:
    """Return a gap as text with one digit, rounded up."""
    return f"{Context(prec=1, rounding=ROUND_CEILING).plus(Decimal(gap)):.0e}" if gap > 0.0 else "0"


def certificates(epsilon_curves: tuple[EpsilonCurve, ...]) -> tuple[str, ...]:
    """Return the notes on the points of each line of bounds."""
    sound = [curve for curve in epsilon_curves if curve.sound]
    if len(sound) == 1:
        return (certificate(e for _, e in sound[0].epsilons),)
    return tuple(f"{curve.label}: {certificate(e for _, e in curve.epsilons)}" for curve in sound)


def varied(question: Question, parameter: Parameter) -> tuple[Entry, str]:
    """Return the mechanism to vary, and the key of its parameter. Raises InputError if none has it, or several and none is named."""
    entries = question.pipeline.mechanisms
    known = [(entry, key) for entry in entries if (key := parameter_key(entry, parameter)) is not None]
    names = ", ".join(entry.name for entry, _ in known) or "none"
    if question.mechanism is not None:
        chosen = [pair for pair in known if pair[0].name == question.mechanism]
        if not chosen:
            raise InputError(f"--mechanism: expected a mechanism with {parameter} to vary ({names}), found {question.mechanism!r}")
        return chosen[0]
    if len(known) != 1:
        advice = "name one (--mechanism NAME)" if known else "another kind of plot may suit this file"
        raise InputError(f"expected one mechanism whose {parameter} can be varied, found {names}: {advice}")
    return known[0]
